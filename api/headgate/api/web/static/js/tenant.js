// A tenant's view: which groups limit it and its namespaces, and how near each limit is.

import { Problem, get } from "./api.js";
import { cut, h, newestOnly, scroller, setText } from "./dom.js";
import { perSecond, percent, rate, short, subject } from "./format.js";
import { groupHash, standingChip } from "./overview.js";
import { follow } from "./stream.js";

const AGAIN_MS = 2000;
const NAMESPACES = 50;
const DEEPEST = 20; // groups above one another

export function tenantPage(root, _query, name = "") {
  const names = h("datalist", { id: "tenants" });
  const search = h("input", {
    type: "search", list: "tenants", value: name, placeholder: "Name of a tenant", "aria-label": "Tenant", autocomplete: "off",
  });
  const body = h("div", { class: "stack live" });
  const form = h("form", { class: "toolbar", onsubmit: (event) => {
    event.preventDefault();
    location.hash = `#/tenant/${encodeURIComponent(search.value.trim())}`;
  } }, h("h1", {}, name ? `What limits ${name}?` : "What limits a tenant?"), search, names, h("button", { type: "submit" }, "Show"));
  root.append(h("section", { class: "page" }, form, body));
  if (!name) body.append(h("p", { class: "empty" }, "Enter a tenant to see the groups that limit it."));
  let timer = 0;
  let closed = false;
  const newest = newestOnly();

  get("/tenants", { limit: 200 }).then(({ items }) => names.replaceChildren(...items.map((item) => h("option", { value: item.name })))).catch(() => {});

  async function load() {
    try {
      await newest(found(name), (sections) => {
        if (!closed) body.replaceChildren(...sections.map(sectionOf));
      });
    } catch (error) {
      // The frame says when the server does not answer; what is shown stays.
      if (error instanceof Problem && !closed) body.replaceChildren(h("p", { class: "notice bad" }, error.message));
    }
    if (!closed) timer = setTimeout(load, AGAIN_MS);
  }

  if (name) load();
  const unfollow = follow({ limit: 1 }, {}); // the frame tells from it whether the server answers
  return { section: "tenant", title: name || "Tenants", search, close() { closed = true; clearTimeout(timer); unfollow(); } };
}

/** Return [{what, attachment, why, rows}] of the tenant and of its namespaces. */
async function found(name) {
  await get(`/tenants/${encodeURIComponent(name)}`);
  const own = await attachmentOf("tenant", name);
  const inherited = own ?? (await defaultOf("tenant"));
  const sections = [{
    what: { tenant: name }, group: inherited?.group,
    why: own ? `It is attached to group ${own.group}.` : inherited ? `It has no attachment of its own, so the default group for tenants applies: ${inherited.group}.` : "",
  }];
  const { items } = await get(`/namespaces/${encodeURIComponent(name)}`, { limit: NAMESPACES });
  for (const space of items) {
    const attached = await attachmentOf("namespace", `${name}/${space.name}`);
    if (attached) sections.push({ what: { namespace: `${name}/${space.name}` }, group: attached.group, why: `It is attached to group ${attached.group}, which takes the place of the tenant's group.` });
  }
  return Promise.all(sections.map(async (section) => ({ ...section, rows: section.group ? await limitsOf(section.group) : [] })));
}

async function attachmentOf(kind, name) {
  return (await get("/attachments", { kind, name, limit: 1 })).items[0];
}

async function defaultOf(kind) {
  const { items } = await get("/attachments", { kind, limit: 1000 });
  return items.find((item) => Object.keys(item.subject).length === 1 && item.subject[kind] === null);
}

/** Return the limits of a group and of those above it, nearest first, with their use. */
async function limitsOf(group) {
  const rows = [];
  for (let name = group; name && rows.length < DEEPEST;) {
    const [{ parent, limits }, { rows: seen }] = await Promise.all([
      get(`/groups/${encodeURIComponent(name)}`), get("/overview", { search: name, limit: 200 })]);
    for (const limit of limits) {
      rows.push(seen.find((row) => row.group === name && row.dimension === limit.dimension && row.scope === limit.scope)
        ?? { ...limit, group: name, standing: "idle", attempted: null, admitted: null, refused: null });
    }
    if (!limits.length) rows.push({ group: name, dimension: "", standing: "idle" });
    name = parent;
  }
  return rows;
}

function sectionOf({ what, group, why, rows }) {
  const head = h("h2", {}, subject(what));
  if (!group) {
    return h("section", { class: "sheet pad" }, head, h("p", { class: "soft" }, "Nothing limits it: it is attached to no group, and there is no default."));
  }
  return h("section", { class: "sheet" }, h("div", { class: "pad" }, head, h("p", { class: "soft" }, sentence(rows, why))),
    scroller(`Limits of ${subject(what)}`, h("table", {},
      h("thead", {}, h("tr", {}, [["Group", ""], ["Counts", ""], ["State", ""], ["Limit", "number"], ["Used", "number"], ["Attempted/s", "number"], ["Admitted/s", "number"], ["Refused/s", "number"]]
        .map(([word, kind]) => h("th", { scope: "col", class: kind }, word)))),
      h("tbody", {}, rows.map(limitRow)))));
}

function sentence(rows, why) {
  const over = rows.filter((row) => row.standing === "over");
  if (!over.length) return `${why} No limit refuses anything at present.`;
  const worst = over.reduce((one, other) => ((other.refused ?? 0) > (one.refused ?? 0) ? other : one));
  return `${why} The limit on ${worst.dimension} of group ${worst.group} refuses ${short(worst.refused)} per second: ${short(worst.attempted)} per second are attempted, and the limit is ${rate(worst.rate, worst.period_s)}.`;
}

function limitRow(row) {
  const whole = row.dimension ? perSecond(row.rate, row.period_s) : Infinity;
  const used = row.admitted === null || row.admitted === undefined || !Number.isFinite(whole) || whole === 0 ? "–" : percent(row.admitted / whole);
  return h("tr", {},
    h("th", { scope: "row" }, h("a", { href: groupHash(row.group, row.dimension) }, cut(row.group))),
    h("td", {}, row.dimension || "no limit", row.scope === "node" ? h("span", { class: "soft" }, " per node") : null),
    h("td", {}, standingChip(row.standing)),
    h("td", { class: "number" }, row.dimension ? rate(row.rate, row.period_s) : "–"),
    h("td", { class: "number" }, used),
    [row.attempted, row.admitted, row.refused].map((value) => h("td", { class: "number" }, short(value))));
}
