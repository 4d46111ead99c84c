// The audit: who changed what, when, from where; and the way back.

import { Problem, ask, get } from "./api.js";
import { changeList, keyText } from "./changes.js";
import { openDialog } from "./dialogs.js";
import { debounced, h, scroller, setText, showList, toast } from "./dom.js";
import { stamp } from "./format.js";
import { replaceAddress } from "./link.js";
import { bounds, isFixed, rangeControl, rangeQuery } from "./range.js";
import { groupHash } from "./overview.js";
import { follow } from "./stream.js";

const PAGE = 50;
const SPANS = [[null, "any time"], [3600, "1 h"], [86_400, "1 day"], [604_800, "7 days"]];
const USUAL_SPAN_S = null;

export function auditPage(root, query) {
  const search = h("input", {
    type: "search", "aria-label": "Filter by name", placeholder: "Name of a group, tenant, …",
    value: query.get("key") ?? "",
    oninput: debounced(200, again),
  });
  const when = rangeControl({
    label: "Changes of", spans: SPANS, usualS: USUAL_SPAN_S, query, shown: () => bounds(when.range()), change: again,
  });
  const body = h("tbody", {});
  const note = h("p", { class: "empty", role: "status", hidden: true });
  const more = h("button", { type: "button", onclick: () => load(false), hidden: true }, "Older changes");
  root.append(h("section", { class: "page" },
    h("div", { class: "toolbar" }, h("h1", {}, "Audit"), search, when.element),
    h("div", { class: "sheet" },
      scroller("Changes", h("table", { class: "audit" },
        h("caption", { class: "visually-hidden" }, "Changes, the newest first"),
        h("thead", {}, h("tr", {}, ["Revision", "When", "Who", "From", "Request", "What changed"].map((word) => h("th", { scope: "col" }, word)), h("th", { scope: "col" }, h("span", { class: "visually-hidden" }, "Roll back")))),
        body)),
      note),
    more));

  let shown = [];
  let next = null;
  let asked = 0;
  let closed = false;

  function again() {
    if (closed) return;
    replaceAddress("#/audit", { key: search.value.trim(), ...rangeQuery(when.range(), USUAL_SPAN_S) });
    load(true);
  }

  async function load(anew) {
    asked += 1;
    const mine = asked;
    const { fromS, toS } = bounds(when.range());
    let page;
    try {
      page = await get("/audit", { key: search.value.trim(), since: fromS, until: toS, limit: PAGE, ...(anew ? {} : { before: next }) });
    } catch (error) {
      if (!(error instanceof Problem)) return;
      note.hidden = false;
      setText(note, `The audit can't be shown: ${error.message}`);
      return;
    }
    if (mine !== asked) return;
    shown = anew ? page.items : [...shown, ...page.items];
    showList(body, shown, auditRow);
    next = page.next;
    more.hidden = next === null;
    note.hidden = body.children.length > 0;
    setText(note, search.value.trim() || isFixed(when.range()) || when.range().spanS ? "No change matches." : "Nothing has been changed yet.");
  }

  load(true);
  // A change between the first answer and the begin of the stream is told by neither: ask again then.
  const unfollow = follow({ limit: 1 }, { hello: () => load(true), revision: () => { if (root.scrollTop === 0) load(true); } });
  return { section: "audit", title: "Audit", search, close() { closed = true; unfollow(); } };
}

function auditRow(entry) {
  return h("tr", {},
    h("td", { class: "number" }, String(entry.revision)),
    h("td", { class: "nowrap" }, h("time", { datetime: new Date(entry.at_s * 1000).toISOString() }, stamp(entry.at_s))),
    h("td", {}, entry.author),
    h("td", { class: "code" }, entry.address),
    h("td", { class: "code" }, entry.action),
    h("td", {}, changeList(entry.changes, (change) => (
      change.kind === "group" ? h("a", { href: groupHash(change.key) }, change.key) : h("span", {}, keyText(change))), entry.omitted)),
    h("td", {}, h("button", {
      type: "button", class: "small", title: `Restore everything to revision ${entry.revision}`,
      onclick: () => rollBack(entry.revision),
    }, "Roll back to here")));
}

async function rollBack(revision) {
  const path = `/revisions/${revision}/rollback`;
  let plan;
  try {
    plan = (await ask("POST", path, { query: { dry_run: true } })).value;
  } catch (error) {
    toast(error.message);
    return;
  }
  const done = await openDialog({
    title: `Roll back to revision ${revision}?`, word: "Roll back", danger: true,
    body: plan.changes.length
      ? [h("p", {}, "Rolling back creates a new revision, which can be rolled back too. It would change:"), changeList(plan.changes, keyText)]
      : h("p", {}, "Nothing would change: everything is as it was at that revision."),
    submit: plan.changes.length ? async () => (await ask("POST", path)).value : undefined,
  });
  if (done) toast(`Rolled back to revision ${revision}.`);
}
