// A tenant's view: which groups limit it and its namespaces, and how near each limit is.

import { Problem, get } from "./api.js";
import { cut, debounced, h, newestOnly, scroller, setText } from "./dom.js";
import { full, moment, partUsed, percent, rateOf, short, subject } from "./format.js";
import { replaceAddress } from "./link.js";
import { groupHash, standingChip } from "./overview.js";
import { follow } from "./stream.js";

const PAGE = 50;
const COLUMNS = [["Group", ""], ["Counts", ""], ["State", ""], ["Limit", "number"], ["Used", "number"], ["Attempted/s", "number"], ["Admitted/s", "number"], ["Refused/s", "number"]];

export function tenantPage(root, query, name = "") {
  const names = h("datalist", { id: "tenants" });
  const chosen = h("input", {
    type: "search", list: "tenants", value: name, placeholder: "Name of a tenant", "aria-label": "Tenant", autocomplete: "off",
  });
  const form = h("form", { class: "toolbar", onsubmit: (event) => {
    event.preventDefault();
    location.hash = `#/tenant/${encodeURIComponent(chosen.value.trim())}`;
  } }, h("h1", {}, name ? `What limits ${name}?` : "What limits a tenant?"), chosen, names, h("button", { type: "submit" }, "Show"));
  const body = h("div", { class: "stack live" });
  root.append(h("section", { class: "page" }, form, body));
  suggest();
  if (!name) {
    body.append(h("p", { class: "empty" }, "Enter a tenant to see the groups that limit it."));
    return { section: "tenant", title: "Tenants", search: chosen, close: follow({ limit: 1 }, {}) };
  }

  async function suggest() {
    const { items } = await get("/tenants", { limit: 200 }).catch(() => ({ items: [] }));
    names.replaceChildren(...items.map((item) => h("option", { value: item.name })));
  }

  const look = { search: query.get("search") ?? "", offset: pageStart(query.get("offset")) };
  const search = h("input", {
    type: "search", "aria-label": "Filter namespaces", placeholder: "Filter namespaces", value: look.search,
    oninput: debounced(200, () => restart({ search: search.value.trim(), offset: 0 })),
  });
  const count = h("span", { class: "soft", role: "status" });
  const [back, on] = [["Previous", -PAGE], ["Next", PAGE]].map(([word, step]) => (
    h("button", { type: "button", class: "small", onclick: () => restart({ offset: Math.max(0, look.offset + step) }) }, word)));
  const tenant = h("div", { class: "stack" });
  const spaces = h("table", { class: "spaces" });
  const none = h("p", { class: "empty", hidden: true });
  const as = h("time", { class: "soft" });
  let structure = null; // what the tables are made for: as long as it stays, only figures change
  let figures = [];
  let closed = false;
  let unfollow = () => {};
  const newest = newestOnly();

  body.append(tenant, h("section", { class: "sheet" },
    h("div", { class: "sheet-head pad" }, h("h2", {}, "Namespaces"), h("div", { class: "pages-of" }, search, count, back, on)),
    scroller("Namespaces", spaces), none), as);

  function restart(change) {
    if (closed) return;
    Object.assign(look, change);
    replaceAddress(`#/tenant/${encodeURIComponent(name)}`, { search: look.search, offset: look.offset || "" });
    begin();
  }

  /** Ask for the page of namespaces once, and follow it from then on. */
  async function begin() {
    unfollow();
    const asked = { search: look.search, offset: look.offset, limit: PAGE };
    const answer = get(`/tenants/${encodeURIComponent(name)}/limits`, asked).then((shown) => ({ shown }), (error) => ({ error }));
    await newest(answer, ({ shown, error }) => {
      if (closed) return;
      if (error instanceof Problem) refused(error.message);
      else {
        if (shown) show(shown);
        unfollow = follow({ tenant: name, ...asked }, { tenant: show, gone: ({ detail }) => refused(detail) });
      }
    });
  }

  function refused(reason) {
    unfollow();
    body.replaceChildren(h("p", { class: "notice bad" }, reason));
    unfollow = follow({ limit: 1 }, {}); // the frame tells from it whether the server answers
  }

  function show(shown) {
    const groups = new Map(shown.groups.map((group) => [group.group, group]));
    const made = JSON.stringify([shown.tenant, shown.namespaces, shown.groups.map(({ group, parent, rows }) => [group, parent, rows.map((row) => [row.dimension, row.scope, row.rate, row.period_s, row.period])])]);
    if (made !== structure) {
      structure = made;
      figures = [];
      tenant.replaceChildren(...tenantSections(shown.tenant, groups, figures));
      spaces.replaceChildren(
        h("caption", { class: "visually-hidden" }, `Namespaces of ${name}`),
        h("thead", {}, h("tr", {}, [["Namespace", ""], ...COLUMNS].map(([word, kind]) => h("th", { scope: "col", class: kind }, word)))),
        ...shown.namespaces.map((space) => spaceRows(space, name, groups, figures)));
    }
    for (const figure of figures) figure(groups);
    const first = shown.matching ? shown.offset + 1 : 0;
    const last = shown.offset + shown.namespaces.length;
    const part = shown.matching === shown.total ? "" : `, ${full(shown.total)} in all`;
    setText(count, shown.total ? `${full(first)}–${full(last)} of ${full(shown.matching)}${part}` : "");
    back.hidden = on.hidden = shown.matching <= PAGE && shown.offset === 0;
    back.disabled = shown.offset === 0;
    on.disabled = last >= shown.matching;
    spaces.hidden = !shown.namespaces.length;
    none.hidden = shown.namespaces.length > 0;
    setText(none, shown.matching ? "There are no more namespaces: go back." : shown.total ? "No namespace matches." : "This tenant has no namespaces.");
    as.hidden = shown.at_s === null;
    if (shown.at_s !== null) {
      as.setAttribute("datetime", String(shown.at_s));
      setText(as, `Figures of ${moment(shown.at_s)}`);
    }
  }

  begin();
  return { section: "tenant", title: name, search, close() { closed = true; unfollow(); } };
}

/** Return the sections of the tenant itself: one per group that applies to it. */
function tenantSections({ name, through }, groups, figures) {
  if (!through.length) {
    return [h("section", { class: "sheet pad" }, h("h2", {}, `tenant ${name}`), h("p", { class: "soft" }, "Nothing limits it: it is attached to no group, and there is no default."))];
  }
  return through.map(({ group, subject: by }) => {
    const chain = chainOf(group, groups);
    const sentence = h("p", { class: "soft" });
    figures.push((now) => setText(sentence, [why(by, group), pressure(chainRows(chain, now)), ...chain.flatMap((each) => inFlight(now.get(each).rows[0]))].join(" ")));
    return h("section", { class: "sheet" },
      h("div", { class: "pad" }, h("h2", {}, "cluster" in by ? subject(by) : `tenant ${name}`), sentence),
      scroller(`Limits of group ${group}`, h("table", {},
        h("thead", {}, h("tr", {}, COLUMNS.map(([word, kind]) => h("th", { scope: "col", class: kind }, word)))),
        h("tbody", {}, chainRows(chain, groups).map((row) => h("tr", {}, limitCells(row, figures)))))));
  });
}

/** Return the rows of a namespace, as a body of the table. */
function spaceRows({ name, through }, tenant, groups, figures) {
  const head = (rows) => h("th", { scope: "rowgroup", rowspan: rows }, cut(name.slice(tenant.length + 1)));
  const applying = through.find(({ subject: by }) => !("cluster" in by));
  if (!applying) return h("tbody", {}, h("tr", {}, head(1), h("td", { colspan: COLUMNS.length, class: "soft" }, "neither it nor its tenant belongs to a group")));
  if ("tenant" in applying.subject) return h("tbody", {}, h("tr", {}, head(1), h("td", { colspan: COLUMNS.length, class: "soft" }, "same as its tenant: group ", h("a", { href: groupHash(applying.group) }, applying.group))));
  const rows = chainRows(chainOf(applying.group, groups), groups);
  return h("tbody", {}, rows.map((row, index) => h("tr", {}, index ? null : head(rows.length), limitCells(row, figures))));
}

/** Return the names of a group and of those above it. */
function chainOf(group, groups) {
  const chain = [];
  for (let at = group; groups.has(at) && !chain.includes(at); at = groups.get(at).parent) chain.push(at);
  return chain;
}

function chainRows(chain, groups) {
  return chain.flatMap((group) => groups.get(group).rows);
}

function why(by, group) {
  const [[kind, named]] = Object.entries(by);
  if (kind === "cluster") return `Group ${group} limits the whole cluster.`;
  if (named === null) return `It has no attachment of its own, so the default group for ${kind}s applies: ${group}.`;
  return `It is attached to group ${group}.`;
}

function inFlight({ group, slots, in_flight: held }) {
  return slots === null ? [] : [`Group ${group} has ${full(held)} of at most ${full(slots)} requests in flight.`];
}

function pressure(rows) {
  const over = rows.filter((row) => row.standing === "over");
  if (!over.length) return "No rate limit refuses anything at present.";
  // A group counts what the groups below it refuse: the limit that refuses is the one that is used up.
  const worst = over.reduce((one, other) => ((partUsed(other) || 0) > (partUsed(one) || 0) ? other : one));
  return `The limit on ${worst.dimension} of group ${worst.group} refuses ${short(worst.refused)} per second: ${short(worst.attempted)} per second are attempted, and the limit is ${rateOf(worst)}.`;
}

/** Return the cells of a limit; what changes in them each second is added to `figures`. */
function limitCells(limit, figures) {
  const { group, dimension, scope } = limit;
  const state = h("td", {});
  const [part, ...counted] = [0, 1, 2, 3].map(() => h("td", { class: "number" }));
  let standing = null;
  figures.push((groups) => {
    const row = groups.get(group).rows.find((each) => each.dimension === dimension && each.scope === scope);
    if (row.standing !== standing) state.replaceChildren(standingChip(row.standing));
    standing = row.standing;
    setText(part, percent(partUsed(row)));
    [row.attempted, row.admitted, row.refused].forEach((value, index) => setText(counted[index], short(value)));
  });
  return [
    h("td", {}, h("a", { href: groupHash(group, dimension) }, cut(group))),
    h("td", {}, dimension || "no limit", scope === "node" ? h("span", { class: "soft" }, " per node") : null),
    state, h("td", { class: "number" }, dimension ? rateOf(limit) : "–"), part, ...counted];
}

function pageStart(text) {
  const offset = Number(text);
  return Number.isInteger(offset) && offset > 0 ? offset : 0;
}
