// A range of time: a span that ends now, or from one moment to another.
// In the address it is ?span=120, or ?from=2026-11-22T12:40:00Z&to=2026-11-22T12:50:00Z.

import { h, setText, uniqueId } from "./dom.js";

/** Return whether a range is from one moment to another, either of which may be open. */
export function isFixed(range) {
  return range.spanS === undefined;
}

/** Return {fromS, toS} of a range, in seconds since the epoch; null where it is open. */
export function bounds(range) {
  if (isFixed(range)) return range;
  return { fromS: range.spanS === null ? null : Date.now() / 1000 - range.spanS, toS: null };
}

/** Return a range as values for the address; the usual span needs none. */
export function rangeQuery(range, usualS) {
  if (isFixed(range)) return { from: instant(range.fromS), to: instant(range.toS) };
  return { span: range.spanS === usualS ? "" : range.spanS };
}

/**
 * Return {element, range(), choose(range)}: buttons for `spans` ([seconds or null for any, word])
 * and inputs for two moments. `change(range)` is called after each choice; `shown()` returns the
 * bounds that the reader sees now, with which the inputs begin.
 */
export function rangeControl({ label, spans, usualS, query, shown, change }) {
  const [from, to] = ["From", "To"].map((word) => momentInput(word, typed));
  const fixed = h("button", { type: "button", class: "small", onclick: () => choose(shown()) }, "from … to");
  const buttons = spans.map(([spanS, word]) => [h("button", { type: "button", class: "small", onclick: () => choose({ spanS }) }, word), spanS]);
  const refusal = h("span", { class: "refusal", role: "alert" });
  const inputs = h("div", { class: "moments" }, from.element, to.element, h("span", { class: "soft" }, zone()), refusal);
  let range = { spanS: usualS };

  function choose(next) {
    show(next);
    change(range);
  }

  function show(next) {
    range = next;
    for (const [button, spanS] of buttons) button.setAttribute("aria-pressed", String(range.spanS === spanS));
    fixed.setAttribute("aria-pressed", String(isFixed(range)));
    inputs.hidden = !isFixed(range);
    if (isFixed(range)) {
      from.write(range.fromS);
      to.write(range.toS);
    }
    refuse("");
  }

  function typed() {
    const next = { fromS: from.read(), toS: to.read() };
    const ordered = next.fromS === null || next.toS === null || next.fromS < next.toS;
    refuse(ordered ? "" : "The start must be before the end.");
    if (!ordered) return;
    range = next;
    change(range);
  }

  function refuse(reason) {
    setText(refusal, reason);
    for (const { input } of [from, to]) {
      if (reason) input.setAttribute("aria-invalid", "true");
      else input.removeAttribute("aria-invalid");
    }
  }

  show(readRange(query, spans, usualS));
  return {
    element: h("div", { class: "range" }, h("div", { class: "buttons", role: "group", "aria-label": label }, buttons.map(([button]) => button), fixed), inputs),
    range: () => range, choose,
  };
}

function readRange(query, spans, usualS) {
  const [fromS, toS] = ["from", "to"].map((name) => {
    const atS = Date.parse(query.get(name) ?? "") / 1000;
    return Number.isFinite(atS) ? atS : null;
  });
  const ordered = fromS === null || toS === null || fromS < toS;
  if ((fromS !== null || toS !== null) && ordered) return { fromS, toS };
  const span = spans.find(([spanS]) => spanS !== null && String(spanS) === query.get("span"));
  return { spanS: span ? span[0] : usualS };
}

function momentInput(word, changed) {
  const id = uniqueId("moment");
  const input = h("input", { type: "datetime-local", step: "1", id, onchange: changed });
  return {
    input, element: h("div", { class: "moment" }, h("label", { for: id }, word), input),
    read: () => (input.value ? new Date(input.value).getTime() / 1000 : null),
    write: (atS) => { input.value = atS === null ? "" : local(atS); },
  };
}

/** Return a moment as datetime-local takes it: in the reader's zone, without the zone. */
function local(atS) {
  const at = new Date(atS * 1000);
  return new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 19);
}

function instant(atS) {
  return atS === null ? "" : new Date(Math.round(atS) * 1000).toISOString().replace(".000Z", "Z");
}

function zone() {
  return new Intl.DateTimeFormat("en", { timeZoneName: "short" }).formatToParts(new Date()).find((part) => part.type === "timeZoneName").value;
}
