// The agents: who lives, how old their word is, which revision they go by.

import { h, setText } from "./dom.js";
import { age, full, percent } from "./format.js";
import { follow } from "./stream.js";

const STATES = { present: "calm", silent: "near", disbelieved: "over", left: "idle" };

export function agentsPage(root) {
  const body = h("tbody", { class: "live" });
  const note = h("p", { class: "empty", role: "status" }, "Waiting for the first picture of the cluster.");
  const count = h("span", { class: "soft", role: "status" });
  root.append(h("section", { class: "page" },
    h("div", { class: "toolbar" }, h("h1", {}, "Agents"), count),
    h("div", { class: "sheet scroll" },
      h("table", {},
        h("caption", { class: "visually-hidden" }, "Agents of the cluster"),
        h("thead", {}, h("tr", {}, [["Agent", ""], ["State", ""], ["Heard", "number"], ["Lag", "number"], ["Loss", "number"], ["Revision", "number"], ["Limits in use", "number"], ["Incarnation", "number"]]
          .map(([word, kind]) => h("th", { scope: "col", class: kind }, word)))),
        body),
      note)));

  function show(shown) {
    note.hidden = shown.agents.length > 0;
    setText(note, shown.at_s === null ? "Waiting for the first picture of the cluster." : "No agent reports on the bus. headgate.connect(…) makes one.");
    setText(count, shown.agents.length ? `${full(shown.agents.length)} of ${full(shown.total)}, configuration ${shown.revision}` : "");
    body.replaceChildren(...shown.agents.map((agent) => h("tr", {},
      h("th", { scope: "row", class: "code" }, agent.agent),
      h("td", {}, h("span", { class: "chip", dataset: { standing: STATES[agent.state] } }, agent.state)),
      h("td", { class: "number" }, `${age(agent.age_s)} ago`),
      h("td", { class: "number" }, `${Math.round(agent.lag_s * 1000)} ms`),
      h("td", { class: "number" }, percent(agent.loss)),
      h("td", { class: "number" }, agent.revision < shown.revision ? h("span", { class: "chip", dataset: { standing: "near" } }, `${agent.revision} (behind)`) : String(agent.revision)),
      h("td", { class: "number" }, full(agent.limits)),
      h("td", { class: "number code" }, String(agent.incarnation)))));
  }

  const unfollow = follow({ view: "agents" }, { agents: show });
  return { section: "agents", title: "Agents", close: unfollow };
}
