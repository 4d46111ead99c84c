// A group's page: what is going on, who has which share, what it is, what changed.

import { Problem, ask, get, groupPath } from "./api.js";
import { attachTo } from "./attach_form.js";
import { changeList } from "./changes.js";
import { ShareChart, UseChart, agentColour } from "./charts.js";
import { confirmed } from "./dialogs.js";
import { cut, h, newestOnly, scroller, setText, showList, toast } from "./dom.js";
import { explained } from "./explain.js";
import { age, full, perSecond, percent, rateOf, short, stamp, subject } from "./format.js";
import { editGroup } from "./group_form.js";
import { endOverride, overrideGroup, overrideText, overridesOf } from "./override_form.js";
import { replaceAddress, withQuery } from "./link.js";
import { groupHash, standingChip } from "./overview.js";
import { isFixed, rangeControl, rangeQuery } from "./range.js";
import { follow } from "./stream.js";

const SPANS = [[120, "2 min"], [600, "10 min"], [1800, "30 min"]];
const USUAL_SPAN_S = 600;
const ATTACHMENTS = 50;
const AGENT_STATES = { present: "calm", silent: "near", disbelieved: "over", left: "idle" };

export function groupPage(root, query, name, opened = "") {
  let charts = {};
  const when = rangeControl({
    label: "Span of the charts", spans: SPANS, usualS: USUAL_SPAN_S, query, shown: () => rounded(charts.use.bounds()), change: chooseRange,
  });
  const parts = makeParts(root, name, when.element);
  charts = { use: new UseChart(parts.useChart), shares: new ShareChart(parts.shareChart) };
  let group = null;
  let dimension = null;
  let chosen = Boolean(opened); // by the reader; else the limit that is pressed hardest
  let use = null;
  let closed = false;
  let failed = false; // the server could not tell of the group, though its stream may go on
  const newest = Object.fromEntries(
    ["group", "history", "attachments", "overrides", "changes", "explanation", "slots"].map((part) => [part, newestOnly()]));

  const edit = () => editGroup(name).catch(told);
  const attach = async () => { if (await attachTo(name)) aside(loadAttachments()); };
  parts.edit.onclick = edit;
  parts.attach.onclick = attach;
  parts.override.onclick = override;
  parts.remove.onclick = remove;
  parts.explain.open = query.has("explain");
  parts.explain.ontoggle = () => {
    showInAddress();
    if (parts.explain.open) aside(explain());
  };
  for (const chart of Object.values(charts)) chart.onselect = (fromS, toS) => { if (fromS < toS) when.choose({ fromS, toS }); };

  async function load() {
    const asked = get(groupPath(name)).then((value) => ({ value }), (error) => ({ error }));
    await newest.group(asked, ({ value, error }) => {
      if (closed || (error && !(error instanceof Problem))) return;
      parts.refusal.hidden = !error;
      failed = error?.status >= 500;
      if (error?.status === 404) gone();
      else if (error) setText(parts.refusal, error.message);
      else showGroup(value);
    });
  }

  function gone() {
    unfollow();
    unfollow = follow({ limit: 1 }, {}); // the frame tells from it whether the server answers
    root.replaceChildren(h("div", { class: "empty" }, h("h1", {}, `There is no group ${name}`),
      h("p", {}, "It may have been deleted. ", h("a", { href: "#/" }, "All groups"))));
  }

  function showGroup(loaded) {
    group = loaded;
    showList(parts.parent, group.parent ? [group.parent] : [], (parent) => (
      h("span", {}, "part of ", h("a", { href: groupHash(parent) }, parent))));
    showList(parts.limits, group.limits.length ? group.limits : [null], (limit) => limitRow(limit, pick));
    if (!group.limits.some((limit) => limit.dimension === dimension)) choose((group.limits.find((limit) => limit.dimension === opened) ?? group.limits[0])?.dimension ?? null);
    parts.facts.replaceChildren(...facts(group));
    parts.live.hidden = !group.limits.length;
    parts.slots.hidden = group.slots === null;
    aside(loadSlots());
    parts.override.disabled = parts.remove.disabled = false;
    showChosen();
    for (const loading of [loadHistory(), loadAttachments(), loadOverrides(), loadChanges()]) loading.catch(() => {});
  }

  function showChosen() {
    for (const tab of parts.limits.querySelectorAll(".tab")) {
      const isChosen = tab.textContent === dimension;
      tab.closest("tr").classList.toggle("chosen", isChosen);
      tab.setAttribute("aria-pressed", String(isChosen));
    }
  }

  function pick(next) {
    chosen = true;
    choose(next);
    showInAddress();
  }

  function showInAddress() {
    if (closed) return;
    const open = { explain: parts.explain.open ? 1 : "" };
    replaceAddress(groupHash(name, chosen ? dimension ?? opened : ""), { ...rangeQuery(when.range(), USUAL_SPAN_S), ...open });
  }

  function choose(next) {
    if (next === dimension) return;
    dimension = next;
    showChosen();
    for (const chart of Object.values(charts)) chart.setUnit(dimension ? `${dimension} per second` : "per second");
    setText(parts.useTitle, dimension ? `${dimension}: use against the limit` : "Use");
    aside(loadHistory());
    if (use) showUse(use);
    if (parts.explain.open) aside(explain());
  }

  async function loadSlots() {
    if (!group || group.slots === null) return;
    await newest.slots(get(groupPath(name, "/slots")), ({ in_use, slots, agents }) => {
      setText(parts.slotsTitle, `In flight: ${full(in_use)} of ${full(slots ?? 0)}`);
      parts.slotHolders.replaceChildren(...agents.map((row) => h("tr", {}, h("th", { scope: "row", class: "code" }, row.agent),
        [row.in_use, row.wanted, row.owned].map((value) => h("td", { class: "number" }, full(value))))));
    });
  }

  async function loadHistory() {
    if (!dimension) return;
    await newest.history(get(groupPath(name, "/history"), { dimension }), ({ dimensions }) => {
      if (closed) return;
      const course = dimensions[0] ?? { at_s: [], admitted: [], refused: [], rate: [], agents: [] };
      charts.use.load(course);
      charts.shares.load(course);
    });
  }

  function showUse(shown) {
    use = shown;
    const pressed = chosen || !group ? null : hardestPressed(shown.uses, group.limits);
    if (pressed) pick(pressed.dimension);
    for (const row of parts.limits.children) {
      showLimitUse(row, shown.uses.find((use) => use.dimension === row.dataset.dimension));
    }
    const of = shown.uses.find((each) => each.dimension === dimension);
    parts.standing.replaceChildren(standingChip(worst(shown.uses)));
    showAgents(parts.agents, of, charts.shares.agents ?? []);
    parts.nobody.hidden = Boolean(of);
    if (!of || shown.at_s === null) return;
    charts.use.add(shown.at_s, of, perSecond(of.rate, of.period_s));
    charts.shares.add(shown.at_s, of);
    parts.useChart.setAttribute("aria-label", `${dimension}: ${short(of.admitted)} admitted and ${short(of.attempted)} attempted per second; the limit is ${rateOf(of)}`);
    parts.shareChart.setAttribute("aria-label", `Shares of ${of.agents.length} agents; the table below has the figures`);
  }

  function heard(shown) {
    showUse(shown);
    aside(loadSlots());
    if (!failed) return;
    failed = false; // one question at a time
    load();
  }

  function chooseRange(range) {
    showInAddress();
    showRange(range);
    aside(loadHistory()); // what a past range had no use for is missing
  }

  function showRange(range) {
    for (const chart of Object.values(charts)) chart.setRange(range);
    parts.past.hidden = !isFixed(range);
  }

  async function loadAttachments() {
    await newest.attachments(get("/attachments", { group: name, limit: ATTACHMENTS }), ({ items, next }) => {
      const rows = [...items];
      if (next !== null) rows.push(`and more: headgate attachments --group ${name}`);
      if (!rows.length) rows.push("Nothing is attached yet.");
      showList(parts.attachments, rows, (row) => (typeof row === "string" ? h("li", { class: "soft" }, row) : attachmentRow(row)));
    });
  }

  function attachmentRow(item) {
    const href = tenantHash(item.subject);
    return h("li", {}, href ? h("a", { href }, subject(item.subject)) : h("span", {}, subject(item.subject)),
      h("button", { type: "button", class: "quiet small", "aria-label": `Detach ${subject(item.subject)}`, onclick: () => detach(item) }, "detach"));
  }

  async function detach(item) {
    const what = subject(item.subject);
    const query = Object.fromEntries(Object.entries(item.subject).map(([kind, each]) => [kind, each ?? ""]));
    const path = `/attachments?${new URLSearchParams(query)}`;
    const done = await confirmed(`Detach ${what}?`, `${what} is no longer limited by ${name}.`, "Detach",
      () => ask("DELETE", path, { etag: `"${item.revision}"` }));
    if (done) { toast(`${what} was detached.`); aside(loadAttachments()); }
  }

  async function override() {
    const dimensions = [...new Set(group.limits.map((limit) => limit.dimension))];
    if (await overrideGroup(name, dimensions)) aside(loadOverrides());
  }

  async function loadOverrides() {
    await newest.overrides(overridesOf(name), (items) => {
      parts.overriding.hidden = !items.length;
      showList(parts.overrides, items, (item) => h("li", {}, overrideText(item), h("button", {
        type: "button", class: "quiet small", onclick: async () => { await endOverride(item).catch(told); aside(loadOverrides()); },
      }, "end now")));
    });
  }

  async function loadChanges() {
    const asked = get("/audit", { kind: "group", key: name, limit: 8 }).catch((error) => ({ items: [`not available: ${error.message}`] }));
    await newest.changes(asked, ({ items }) => showList(parts.changes, items, (entry) => (
      typeof entry === "string" ? h("li", { class: "soft" }, entry) : changeRow(entry))));
  }

  function changeRow(entry) {
    return h("li", {},
      h("p", { class: "soft" }, `${stamp(entry.at_s)} · ${entry.author} from ${entry.address} · revision ${entry.revision}`),
      changeList(entry.changes.filter((change) => change.key === name || entry.changes.length <= 3), (change) => change.key));
  }

  async function explain() {
    if (!dimension) return;
    parts.explanation.replaceChildren(h("p", { class: "soft" }, "…"));
    await newest.explanation(explained(name, dimension), (shown) => parts.explanation.replaceChildren(shown));
  }

  async function remove() {
    const done = await confirmed(`Delete ${name}?`, "Its limits end at once. It can't be deleted while something is attached to it or part of it.",
      "Delete", () => ask("DELETE", groupPath(name), { etag: `"${group.revision}"` }));
    if (done) { toast(`Group ${name} was deleted.`); location.hash = "#/"; }
  }

  function told(error) {
    toast(error.message);
  }

  /** Let it load meanwhile. The frame tells of a server that does not answer. */
  function aside(loading) {
    loading.catch((error) => { if (error instanceof Problem) told(error); });
  }

  const saved = (event) => { if (event.detail === name) load(); };
  document.addEventListener("groupsaved", saved);
  // A change between the first answer and the begin of the stream is told by neither: ask again then.
  let unfollow = follow({ group: name }, { group: heard, revision: load, hello: load, gone: load });
  load();
  showRange(when.range());
  return {
    section: "overview", title: name, edit, attach,
    close() {
      closed = true;
      unfollow();
      document.removeEventListener("groupsaved", saved);
      charts.use.close();
      charts.shares.close();
    },
  };
}

/** Return the address of what limits a tenant, or the tenant of a namespace; none of other subjects. */
function tenantHash({ tenant, namespace }) {
  const [name, space = ""] = (tenant ?? namespace ?? "").split("/");
  return name ? withQuery(`#/tenant/${encodeURIComponent(name)}`, { search: space }) : null;
}

function rounded({ fromS, toS }) {
  return { fromS: Math.floor(fromS), toS: Math.ceil(toS) };
}

function makeParts(root, name, range) {
  const parts = {
    standing: h("span", { class: "live" }), parent: h("span", { class: "soft" }),
    edit: h("button", { type: "button", title: "e" }, "Edit"),
    attach: h("button", { type: "button", title: "a" }, "Attach"),
    override: h("button", { type: "button", disabled: true, title: "Change the limits temporarily" }, "Override"),
    remove: h("button", { type: "button", class: "danger", disabled: true }, "Delete"),
    limits: h("tbody", { class: "live" }), facts: h("dl", { class: "facts" }),
    useTitle: h("h2", {}, "Use"), useChart: h("div", { class: "chart", role: "img", "aria-label": "No use yet" }),
    shareChart: h("div", { class: "chart", role: "img", "aria-label": "No shares yet" }),
    agents: h("tbody", { class: "live" }), nobody: h("p", { class: "empty" }, "No agent uses this limit now."),
    attachments: h("ul", { class: "lines" }), overrides: h("ul", { class: "lines" }), changes: h("ul", { class: "lines changes-list" }),
    explanation: h("div", { "aria-live": "polite" }), live: h("div", { class: "stack" }), head: h("header", { class: "group-head" }),
    refusal: h("p", { class: "notice bad", hidden: true }),
    past: h("p", { class: "soft", hidden: true }, "The charts show this time range; the tables show the present."),
  };
  parts.overriding = h("section", { class: "sheet pad", hidden: true }, h("h2", {}, "Overrides in force"), parts.overrides);
  parts.slotsTitle = h("h2", {}, "In flight");
  parts.slotHolders = h("tbody", { class: "live" });
  parts.explain = h("details", {}, h("summary", {}, "Explain the shares"), parts.explanation);
  const heads = (words) => h("thead", {}, h("tr", {}, words.map((word, index) => h("th", { scope: "col", class: index ? "number" : "" }, word))));
  parts.slots = h("section", { class: "sheet", hidden: true }, h("div", { class: "sheet-head pad" }, parts.slotsTitle),
    scroller("Slots", h("table", {}, heads(["Agent", "In use", "Wanted", "May hand out"]), parts.slotHolders)));
  parts.head.append(
    h("div", {}, h("a", { href: "#/" }, "Groups"), h("span", { class: "soft" }, " / ")),
    h("h1", {}, name), parts.standing, parts.parent, h("div", { class: "buttons push" }, parts.edit, parts.attach, parts.override, parts.remove), parts.refusal);
  parts.live.append(
    h("section", { class: "sheet pad" }, h("div", { class: "sheet-head" }, parts.useTitle, range), parts.past, parts.useChart),
    h("section", { class: "sheet pad" }, h("div", { class: "sheet-head" }, h("h2", {}, "Shares per agent, stacked")), parts.shareChart),
    h("section", { class: "sheet" }, h("div", { class: "sheet-head pad" }, h("h2", {}, "Agents")),
      scroller("Agents of this limit", h("table", {}, heads(["Agent", "Attempted/s", "Admitted/s", "Refused/s", "Share/s", "Ceiling/s", "Held", "Limiters", "Heard"]), parts.agents)), parts.nobody),
    h("section", { class: "sheet pad" }, parts.explain));
  root.append(h("article", { class: "group" }, parts.head,
    h("div", { class: "columns" }, h("div", { class: "stack" },
      h("section", { class: "sheet" }, scroller("Limits", h("table", { class: "limits" }, heads(["Counts", "Limit", "Burst", "Attempted/s", "Admitted/s", "Refused/s", "Level"]), parts.limits))),
      parts.slots, parts.live),
    h("aside", { class: "stack", "aria-label": "About the group" }, parts.overriding,
      h("section", { class: "sheet pad" }, h("h2", {}, "Attached"), parts.attachments),
      h("section", { class: "sheet pad" }, h("h2", {}, "Settings"), parts.facts),
      h("section", { class: "sheet pad" }, h("h2", {}, "Recent changes"), parts.changes)))));
  return parts;
}

function limitRow(limit, choose) {
  if (!limit) return h("tr", {}, h("td", { colspan: "7", class: "empty" }, "This group has no limit: it refuses nothing."));
  return h("tr", { dataset: { dimension: limit.scope === "node" ? "" : limit.dimension } },
    h("th", { scope: "row" }, h("button", {
      type: "button", class: "quiet small tab", "aria-pressed": "false", onclick: () => choose(limit.dimension),
    }, limit.dimension), limit.scope === "node" ? h("span", { class: "soft" }, " per node") : null),
    h("td", { class: "number" }, rateOf(limit)),
    h("td", { class: "number" }, short(limit.burst)),
    limit.scope === "node" ? h("td", { colspan: "4", class: "soft" }, "Each process enforces it on its own, so agents report no usage.")
      : ["attempted", "admitted", "refused", "level"].map((part) => h("td", { class: "number", dataset: { part } }, "–")));
}

function showLimitUse(row, use) {
  for (const cell of row.querySelectorAll("[data-part]")) {
    const value = use?.[cell.dataset.part];
    setText(cell, value === undefined || value === null ? "–" : short(value));
  }
  row.querySelector("[data-part=refused]")?.classList.toggle("refused-cell", use?.standing === "over");
}

function showAgents(body, use, charted) {
  const rows = [...(use?.agents ?? [])].sort((a, b) => (b.share ?? 0) - (a.share ?? 0));
  body.replaceChildren(...rows.map((row) => {
    const index = charted.indexOf(row.agent);
    const dot = h("i", { class: "dot", "aria-hidden": "true" });
    if (index >= 0) dot.style.background = agentColour(index);
    return h("tr", {}, h("th", { scope: "row", class: "code" }, dot, cut(row.agent),
      row.state === "present" ? null : h("span", { class: "chip", dataset: { standing: AGENT_STATES[row.state] } }, row.state)),
      [row.attempted, row.admitted, row.refused, row.share, row.ceiling, row.held].map((value) => h("td", { class: "number" }, short(value))),
      h("td", { class: "number" }, full(row.subjects)), h("td", { class: "number" }, age(row.age_s)));
  }));
}

function facts(group) {
  const soft = group.soft_threshold === null ? "at 80 % in this view" : `from ${percent(group.soft_threshold)}`;
  return [
    ["Mode", group.mode], ["When exhausted", group.refusal], ["In a partition", group.isolation],
    ["May owe", group.may_owe ? "yes" : "no"], ["Weight", full(group.weight)], ["Warns", soft],
    ["In flight", group.slots === null ? "no limit" : `at most ${full(group.slots)}`],
    ["Limits", group.per ? `for each ${group.per}` : "shared by all"],
    ["Partitions", group.per_partition ? "each has the limits of scope node" : "share them"],
    ["Revision", String(group.revision)], ["Id", String(group.id)],
  ].map(([term, value]) => h("div", {}, h("dt", {}, term), h("dd", {}, value)));
}

/** Return the use of the limit that is attempted most, compared with what it allows; null if none is. */
function hardestPressed(uses, limits) {
  const part = (each) => each.attempted / perSecond(each.rate, each.period_s);
  return uses.filter((each) => each.attempted > 0 && limits.some(({ dimension }) => dimension === each.dimension))
    .reduce((one, other) => (one === null || part(other) > part(one) ? other : one), null);
}

function worst(uses) {
  return ["over", "near", "calm"].find((name) => uses.some((use) => use.standing === name)) ?? "idle";
}
