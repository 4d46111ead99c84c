// The agents: which are alive, how old their last report is, which revision they use.

import { cut, h, scroller, setText } from "./dom.js";
import { age, full, percent } from "./format.js";
import { replaceAddress } from "./link.js";
import { follow } from "./stream.js";

const STATES = { present: "calm", silent: "near", disbelieved: "over", left: "idle" };
const COLUMNS = [
  ["agent", "Agent", ""], ["state", "State", ""], ["age_s", "Last heard", "number"], ["lag_s", "Lag", "number"], ["loss", "Loss", "number"],
  ["revision", "Revision", "number"], ["limits", "Limits in use", "number"], ["incarnation", "Incarnation", "number"],
];

export function agentsPage(root, query) {
  const look = { search: query.get("search") ?? "", sort: query.get("sort") ?? "agent", down: query.get("down") === "1" };
  let newest = null;
  const search = h("input", {
    type: "search", "aria-label": "Filter agents", placeholder: "Filter by name or state", value: look.search,
    oninput: (event) => { look.search = event.target.value.trim(); again(); },
  });
  const body = h("tbody", { class: "live" });
  const foot = h("tfoot", {});
  const note = h("p", { class: "empty", role: "status" }, "Waiting for the first reports.");
  const count = h("span", { class: "soft", role: "status" });
  const heads = new Map(COLUMNS.map(([key, word, kind]) => [key, h("th", { scope: "col", class: kind },
    h("button", { type: "button", class: "quiet small sort", onclick: () => sortBy(key) }, word))]));
  root.append(h("section", { class: "page" },
    h("div", { class: "toolbar" }, h("h1", {}, "Agents"), search, count),
    h("div", { class: "sheet" },
      scroller("Agents", h("table", {},
        h("caption", { class: "visually-hidden" }, "Agents of the cluster"),
        h("thead", {}, h("tr", {}, [...heads.values()])), body, foot)),
      note)));

  function sortBy(key) {
    look.down = look.sort === key ? !look.down : false;
    look.sort = key;
    again();
  }

  function again() {
    replaceAddress("#/agents", { search: look.search, sort: look.sort === "agent" ? "" : look.sort, down: look.down ? "1" : "" });
    if (newest) show(newest);
  }

  function show(shown) {
    newest = shown;
    for (const [key, head] of heads) {
      if (key === look.sort) head.setAttribute("aria-sort", look.down ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    }
    const wanted = look.search.toLowerCase();
    const rows = shown.agents
      .filter((agent) => `${agent.agent} ${agent.state}`.toLowerCase().includes(wanted))
      .sort((one, other) => compare(one[look.sort], other[look.sort]) * (look.down ? -1 : 1));
    note.hidden = rows.length > 0;
    setText(note, shown.at_s === null ? "Waiting for the first reports."
      : shown.agents.length ? "No agent matches." : "No agent is reporting on the bus. Start one with headgate.connect(…).");
    setText(count, shown.agents.length ? `${full(rows.length)} of ${full(shown.total)} agents, configuration ${shown.revision}` : "");
    body.replaceChildren(...rows.map((agent) => agentRow(agent, shown.revision)));
    foot.replaceChildren(...(rows.length ? [totals(rows, shown.revision)] : []));
  }

  const unfollow = follow({ view: "agents" }, { agents: show });
  return { section: "agents", title: "Agents", search, close: unfollow };
}

function agentRow(agent, revision) {
  return h("tr", {},
    h("th", { scope: "row", class: "code" }, cut(agent.agent)),
    h("td", {}, h("span", { class: "chip", dataset: { standing: STATES[agent.state] } }, agent.state)),
    h("td", { class: "number" }, `${age(agent.age_s)} ago`),
    h("td", { class: "number" }, `${Math.round(agent.lag_s * 1000)} ms`),
    h("td", { class: "number" }, percent(agent.loss)),
    h("td", { class: "number" }, agent.revision < revision ? h("span", { class: "chip", dataset: { standing: "near" } }, `${agent.revision} (behind)`) : String(agent.revision)),
    h("td", { class: "number" }, full(agent.limits)),
    h("td", { class: "number code" }, String(agent.incarnation)));
}

function totals(rows, revision) {
  const of = (part) => Math.max(...rows.map(part));
  const behind = rows.filter((agent) => agent.revision < revision).length;
  const states = Object.keys(STATES).map((state) => [state, rows.filter((agent) => agent.state === state).length]).filter(([, count]) => count);
  return h("tr", {},
    h("th", { scope: "row" }, rows.length === 1 ? "1 agent" : `${full(rows.length)} agents`),
    h("td", {}, states.map(([state, count]) => `${full(count)} ${state}`).join(", ")),
    h("td", { class: "number" }, `at most ${age(of((agent) => agent.age_s))}`),
    h("td", { class: "number" }, `at most ${Math.round(of((agent) => agent.lag_s) * 1000)} ms`),
    h("td", { class: "number" }, `at most ${percent(of((agent) => agent.loss))}`),
    h("td", { class: "number" }, behind ? `${full(behind)} behind` : "all current"),
    h("td", { class: "number" }, full(rows.reduce((total, agent) => total + agent.limits, 0))),
    h("td", {}));
}

function compare(one, other) {
  return typeof one === "string" ? one.localeCompare(other, "en", { numeric: true }) : one - other;
}
