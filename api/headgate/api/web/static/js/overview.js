// All limits at a glance: who is over, who is near, a list of any length.

import { Problem, get } from "./api.js";
import { cut, debounced, h, setText } from "./dom.js";
import { STANDING, full, partUsed, perSecond, percent, rateOf, short } from "./format.js";
import { replaceAddress } from "./link.js";
import { follow } from "./stream.js";
import { WindowedList } from "./windowed.js";

const ROW_HEIGHT = 34;
const SORTS = [["standing", "nearness to the limit"], ["name", "name"], ["use", "use"], ["refused", "refused"]];
const COLUMNS = [
  ["", "Standing"], ["", "Group"], ["", "Counts"], ["number", "Limit"], ["", "Use of the limit"],
  ["number", "Admitted/s"], ["number", "Attempted/s"], ["number", "Refused/s"], ["number", "Level"], ["number", "Agents"],
];

const USUAL = { search: "", standing: "", sort: "standing" };

/** What was looked at last: coming back from a group finds it again. */
let look = USUAL;

export function overviewPage(root, address) {
  const said = Object.keys(USUAL).filter((name) => address.has(name));
  look = { ...(said.length ? USUAL : look), ...Object.fromEntries(said.map((name) => [name, address.get(name)])) };
  if (!SORTS.some(([name]) => name === look.sort)) look.sort = "standing";
  if (!(look.standing in STANDING)) look.standing = "";
  const standings = new Map(Object.keys(STANDING).map((name) => [name, standingButton(name, choose)]));
  const search = h("input", {
    type: "search", placeholder: "Filter by group or dimension", "aria-label": "Filter groups  ( / )",
    value: look.search, oninput: debounced(150, (event) => { look.search = event.target.value; restart(); }),
    onkeydown: (event) => {
      if (event.key === "Escape" && event.target.value) {
        event.target.value = look.search = "";
        restart();
      } else if (event.key === "ArrowDown" || event.key === "Enter") list.element.focus();
    },
  });
  const sort = h("select", {
    "aria-label": "Order", onchange: (event) => { look.sort = event.target.value; restart(); },
  }, SORTS.map(([name, word]) => h("option", { value: name, selected: name === look.sort }, `by ${word}`)));
  const matching = h("span", { class: "soft", role: "status", "aria-live": "polite" });
  const nothing = h("div", { class: "empty", hidden: true });
  const list = new WindowedList({
    label: "Limits of all groups", columns: COLUMNS.length, rowHeight: ROW_HEIGHT,
    draw: drawRow, key: (row) => `${row.group}\n${row.dimension}\n${row.scope}`,
    open: (row) => { location.hash = groupHash(row.group, row.dimension); },
    need: debounced(60, () => fetchWindow()),
  });
  root.append(h("section", { class: "overview" },
    h("h1", { class: "visually-hidden" }, "Groups"),
    h("div", { class: "toolbar" },
      h("div", { class: "standings", role: "group", "aria-label": "Show only" }, [...standings.values()]),
      search, sort, matching),
    h("div", { class: "sheet" },
      h("div", { class: "heads", "aria-hidden": "true" }, COLUMNS.map(([kind, word]) => h("span", { class: kind }, word))),
      list.element, nothing)));

  let unfollow = () => {};
  let asked = null;

  function choose(name) {
    look.standing = look.standing === name ? "" : name;
    restart();
  }

  function showInAddress() {
    replaceAddress("#/", { ...look, sort: look.sort === USUAL.sort ? "" : look.sort });
  }

  function restart() {
    if (closed) return;
    showInAddress();
    list.reset();
    fetchWindow();
  }

  function query() {
    return { search: look.search, standing: look.standing, sort: look.sort, ...list.wanted() };
  }

  /** Ask for the window once, at once, and follow it from then on. */
  async function fetchWindow() {
    asked?.abort();
    asked = new AbortController();
    const { signal } = asked;
    unfollow(); // what is followed until now tells rows of another window
    followWindow();
    try {
      show(await get("/overview", query(), signal));
    } catch (error) {
      if (error instanceof Problem) setText(matching, error.message);
    }
  }

  const followWindow = debounced(200, () => {
    unfollow();
    unfollow = closed ? () => {} : follow(query(), { overview: (shown) => {
      asked.abort(); // an answer that comes only now is older
      show(shown);
    } });
  });

  function show(shown) {
    for (const [name, button] of standings) {
      setText(button.querySelector("b"), short(shown.standings[name]));
      button.setAttribute("aria-pressed", String(look.standing === name));
    }
    const agents = `${full(shown.agents)} agent${shown.agents === 1 ? "" : "s"}`;
    const silent = shown.silent ? `, ${full(shown.silent)} silent` : "";
    const part = shown.matching === shown.total ? "" : `${full(shown.matching)} of `;
    setText(matching, `${part}${full(shown.total)} limits · ${agents}${silent}`);
    list.show(shown.rows, shown.offset, shown.matching);
    nothing.hidden = shown.matching > 0;
    list.element.hidden = shown.matching === 0;
    if (!shown.matching) setText(nothing, emptyText(shown.total));
  }

  let closed = false;
  showInAddress();
  fetchWindow();
  return {
    section: "overview", title: "", search,
    reconnected: fetchWindow,
    close() {
      closed = true;
      asked?.abort();
      unfollow();
      list.close();
    },
  };
}

/** Return the address of a group's page, opened at one of its dimensions. */
export function groupHash(name, dimension = "") {
  const at = dimension ? `/${encodeURIComponent(dimension)}` : "";
  return `#/group/${encodeURIComponent(name)}${at}`;
}

export function standingChip(name) {
  const { mark, word } = STANDING[name];
  return h("span", { class: "chip", dataset: { standing: name } }, h("span", { "aria-hidden": "true" }, mark), word);
}

function emptyText(total) {
  return total ? "No group matches. Press Esc in the filter to see all." : "There are no groups yet. Press n to create one.";
}

function standingButton(name, choose) {
  const { mark, word } = STANDING[name];
  return h("button", {
    type: "button", class: "standing", dataset: { standing: name }, "aria-pressed": "false",
    onclick: () => choose(name),
  }, h("span", { "aria-hidden": "true", class: "mark" }, mark), h("b", {}, "–"), ` ${word}`);
}

/** Fill a row's cells, made on first use and kept: one a second for a hundred rows. */
function drawRow(element, row) {
  if (!element.cells) element.cells = makeCells(element);
  const { standing, link, parent, counts, limit, bar, admittedBar, refusedBar, part, admitted, attempted, refused, level, agents } = element.cells;
  const { mark, word } = STANDING[row.standing];
  element.dataset.standing = row.standing;
  setText(standing.firstChild, mark);
  setText(standing.lastChild, row.scope === "node" ? "not reported" : word);
  standing.title = row.scope === "node" ? "Each process enforces it on its own, so agents report no usage." : "";
  if (link.textContent !== row.group) link.replaceChildren(cut(row.group));
  link.setAttribute("href", groupHash(row.group, row.dimension));
  setText(parent, row.parent ? `in ${row.parent}` : "");
  setText(counts, row.dimension ? row.dimension + (row.scope === "node" ? " per node" : "") : "no limit");
  setText(limit, row.dimension ? rateOf(row) : "–");
  const whole = row.period ? Infinity : perSecond(row.rate, row.period_s); // refusals don't add up to a part of a period
  const used = row.rate === 0 ? Number(row.attempted > 0) : partUsed(row) || 0;
  const over = row.refused && Number.isFinite(whole) && whole > 0 ? row.refused / whole : 0;
  admittedBar.style.width = `${Math.min(100, used * 100)}%`;
  refusedBar.style.width = `${Math.min(100, over * 100)}%`;
  bar.hidden = row.standing === "idle";
  setText(part, row.admitted === null ? "" : percent(used));
  setText(admitted, row.admitted === null ? "" : short(row.admitted));
  setText(attempted, row.attempted === null ? "" : short(row.attempted));
  setText(refused, row.refused ? short(row.refused) : "");
  setText(level, row.level === null ? "" : short(row.level));
  setText(agents, row.agents ? full(row.agents) : "");
}

function makeCells(element) {
  const cell = (kind, ...children) => {
    const made = h("span", { class: `cell ${kind}`, role: "gridcell" }, children);
    element.append(made);
    return made;
  };
  const standing = cell("standing-cell", h("span", { "aria-hidden": "true" }), h("span", {}));
  const link = h("a", { tabindex: "-1" });
  const parent = h("span", { class: "soft parent" });
  cell("name", link, parent);
  const counts = cell("counts");
  const limit = cell("number");
  const admittedBar = h("i", { class: "admitted" });
  const refusedBar = h("i", { class: "refused" });
  const bar = h("span", { class: "use", "aria-hidden": "true" }, h("span", { class: "track" }, admittedBar), h("span", { class: "overflow" }, refusedBar));
  const part = h("span", { class: "part" });
  cell("use-cell", bar, part);
  const [admitted, attempted, refused, level, agents] = [cell("number"), cell("number"), cell("number refused-cell"), cell("number"), cell("number")];
  return { standing, link, parent, counts, limit, bar, admittedBar, refusedBar, part, admitted, attempted, refused, level, agents };
}
