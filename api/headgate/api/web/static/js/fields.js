// Fields of forms: a label, an input, and the place where a refusal is shown.

import { h, setText, uniqueId } from "./dom.js";

/** Return a labelled input; `path` is the field's name in the API's refusals. */
export function field(label, input, { path, hint } = {}) {
  const id = uniqueId("f");
  input.id = id;
  const refusal = h("span", { class: "refusal", id: `${id}-why` });
  input.setAttribute("aria-describedby", `${id}-why`);
  if (path) input.dataset.path = path;
  return h("div", { class: "field" }, h("label", { for: id }, label), input,
    hint ? h("span", { class: "hint" }, hint) : null, refusal);
}

/** Return a text input. */
export function text(value = "", attributes = {}) {
  return h("input", { type: "text", autocomplete: "off", spellcheck: "false", value, ...attributes });
}

/** Return a select of [value, word] pairs. */
export function choice(pairs, chosen, attributes = {}) {
  return h("select", attributes, pairs.map(([value, word]) => (
    h("option", { value, selected: String(value) === String(chosen) }, word))));
}

/** Return a checkbox with its label beside it. */
export function check(label, checked, path) {
  const input = h("input", { type: "checkbox", checked, dataset: path ? { path } : {} });
  return { input, element: h("label", { class: "check" }, input, label) };
}

/** Return an input's quantity as the API takes it: a number, "unlimited", or undefined. */
export function quantity(input) {
  const given = input.value.trim().toLowerCase().replaceAll(/[,_ ]/g, "");
  if (given === "") return undefined;
  if (["unlimited", "∞", "inf"].includes(given)) return "unlimited";
  const scaled = given.match(/^(\d+(?:\.\d*)?|\.\d+)([kmg])$/);
  if (scaled) return Number(scaled[1]) * { k: 1e3, m: 1e6, g: 1e9 }[scaled[2]];
  const number = Number(given);
  return Number.isNaN(number) ? input.value.trim() : number; // the API says what is wrong with it
}

/** Show a quantity in an input. */
export function shownQuantity(value) {
  return value === undefined || value === null ? "" : String(value);
}

/** Take all refusals away. */
export function clearRefusals(form) {
  for (const input of form.querySelectorAll("[aria-invalid]")) input.removeAttribute("aria-invalid");
  for (const refusal of form.querySelectorAll(".refusal")) setText(refusal, "");
  const general = form.querySelector(".general");
  if (general) general.hidden = true;
}

/** Show a Problem at the fields that it names, the rest above the buttons; focus the first. */
export function showRefusals(form, problem) {
  const unplaced = [];
  let first = null;
  for (const { field: path, reason } of problem.errors ?? []) {
    const input = findInput(form, path);
    if (!input) {
      unplaced.push(`${path}: ${reason}`);
      continue;
    }
    input.setAttribute("aria-invalid", "true");
    const why = document.getElementById(input.getAttribute("aria-describedby"));
    if (why) setText(why, reason);
    for (let fold = input.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
    first ??= input;
  }
  const general = form.querySelector(".general");
  const told = unplaced.length ? unplaced.join("; ") : first ? "" : problem.message;
  general.hidden = !told;
  setText(general, told);
  (first ?? form.querySelector("button[type=submit]")).focus();
}

/** Return the input of a path, or of the nearest place above it: limits[0].rate → limits[0]. */
function findInput(form, path) {
  for (let at = path; at; at = at.replace(/(\.[^.[]*|\[[^\]]*\]|^[^.[]*)$/, "")) {
    const input = form.querySelector(`[data-path="${at.replaceAll(/["\\]/g, "")}"]`);
    if (input) return input;
  }
  return null;
}
