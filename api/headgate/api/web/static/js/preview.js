// What a change would do to those who use the group now, before it is saved.

import { Problem, ask } from "./api.js";
import { changeList } from "./changes.js";
import { h } from "./dom.js";
import { full, short } from "./format.js";

/** Agents shown of each limit; the API tells more. */
const AGENTS = 12;

/** Return an element that says what `body` would change; throws a Problem at its fields. */
export async function previewed(body) {
  const shown = await ask("POST", "/preview", { body: { group: body.name, body } }).catch(atFields);
  const { changes, limits, attachments } = shown.value;
  if (!changes.length) return h("p", { class: "notice" }, "Nothing would change.");
  return h("div", { class: "notice preview" },
    h("h3", {}, `What would change for ${full(attachments)} attached ${attachments === 1 ? "subject" : "subjects"} and the agents that use it now`),
    changeList(changes, (change) => change.key),
    h("table", {},
      h("thead", {}, h("tr", {}, ["Counts", "Limit/s now", "Limit/s then", "Attempted/s", "Refused/s now", "Refused/s then", ""].map((word, index) => (
        h("th", { scope: "col", class: index && index < 6 ? "number" : "" }, word))))),
      h("tbody", {}, limits.map(limitRow))),
    limits.filter((limit) => limit.agents.length).map(agentTable));
}

/** A preview wraps the group in `body`: name its fields as the form does. */
function atFields(error) {
  if (!(error instanceof Problem)) throw error;
  error.errors = error.errors.map((each) => ({ ...each, field: each.field.replace(/^body\./, "") }));
  throw error;
}

function limitRow(limit) {
  const more = limit.refused_after_per_s > 1.02 * limit.refused_before_per_s + 0.02 * limit.demand_per_s;
  const tight = limit.rate_after_per_s !== null && limit.demand_per_s > 0.8 * perS(limit.rate_after_per_s);
  const [standing, word] = limit.demand_per_s === 0 ? ["idle", "not in use now"]
    : more ? ["over", "refuses more"] : limit.refused_after_per_s > 0.02 * limit.demand_per_s ? ["over", "still refuses"]
      : tight ? ["near", "fits, with little room"] : ["calm", "fits"];
  const numbers = [limit.rate_before_per_s, limit.rate_after_per_s].map((rate) => (rate === null ? "no limit" : short(rate)));
  return h("tr", {}, h("th", { scope: "row" }, limit.dimension),
    [...numbers, short(limit.demand_per_s), short(limit.refused_before_per_s), short(limit.refused_after_per_s)]
      .map((value) => h("td", { class: "number" }, value)),
    h("td", {}, h("span", { class: "chip", dataset: { standing } }, word)));
}

function agentTable(limit) {
  const rows = limit.agents.slice(0, AGENTS);
  return h("details", {}, h("summary", {}, `${limit.dimension}: shares of ${full(limit.agents.length)} agents`),
    h("table", {},
      h("thead", {}, h("tr", {}, ["Agent", "Attempted/s", "Share/s now", "Share/s then"].map((word, index) => h("th", { scope: "col", class: index ? "number" : "" }, word)))),
      h("tbody", {}, rows.map((row) => h("tr", {}, h("th", { scope: "row", class: "code" }, row.agent),
        [row.demand_per_s, row.share_before_per_s, row.share_after_per_s].map((value) => h("td", { class: "number" }, short(value))))))));
}

function perS(rate) {
  return rate === "unlimited" ? Infinity : rate;
}
