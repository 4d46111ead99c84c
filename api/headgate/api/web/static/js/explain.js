// Why a share is what it is: every input, and the formula with its numbers.

import { Problem, get, groupPath } from "./api.js";
import { h } from "./dom.js";
import { full } from "./format.js";

/** Return an element that explains one limit of a group. */
export async function explained(group, dimension) {
  let shown;
  try {
    shown = await get(groupPath(group, "/explain"), { dimension });
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    return h("p", { class: "notice" }, error.message);
  }
  const { formula, agents, ...values } = shown;
  return h("div", { class: "explain" },
    formula ? h("pre", { class: "formula code", tabindex: "0" }, formula) : null,
    h("dl", {}, Object.entries(values).filter(([, value]) => typeof value !== "object").map(([name, value]) => (
      h("div", {}, h("dt", {}, name.replaceAll("_", " ")), h("dd", { class: "code" }, typeof value === "number" ? full(value) : String(value)))))));
}
