// Revisions as an operator reads them: who did what, and what it changed.

import { h } from "./dom.js";
import { full, period, subject } from "./format.js";

/** Return lines of text, one per difference of a change {kind, key, before, after}. */
export function differences({ before, after }) {
  if (before === null) return ["created", ...describe(after)];
  if (after === null) return ["deleted"];
  return compare(before, after, "");
}

/** Return what a change is about, as text: a subject's key is JSON. */
export function keyText({ kind, key }) {
  try {
    if (kind === "attachment") return subject(JSON.parse(key));
    // A policy's level, target and kind, or an override's group and dimension, empty for all.
    if (kind === "policy" || kind === "override") return JSON.parse(key).filter((part) => part).join(" ");
    return key;
  } catch {
    return key;
  }
}

const MOST_SHOWN = 20; // a bulk apply can change a hundred thousand things
const MOST_LINES = 6; // a change with more lines than this is folded

/** Return an element that lists what an audit entry changed; `omitted` more are not in it. */
export function changeList(changes, link, omitted = 0) {
  const items = changes.slice(0, MOST_SHOWN).map((change) => ({ change, lines: differences(change) }));
  const more = Math.max(0, changes.length - MOST_SHOWN) + omitted;
  const list = h("ul", { class: "changes" },
    items.map(({ change, lines }) => h("li", {},
      h("span", { class: "soft" }, `${change.kind} `), link(change),
      h("ul", {}, lines.map((line) => h("li", {}, line))))),
    more ? h("li", { class: "soft" }, `and ${full(more)} more`) : null);
  const length = items.reduce((total, { lines }) => total + 1 + lines.length, 0);
  if (length <= MOST_LINES + 1) return list;
  return h("details", {}, h("summary", {}, summary(changes, omitted)), list);
}

/** Return what many changes come to: "41 changes: 40 groups, 1 tenant". */
function summary(changes, omitted) {
  const counts = new Map();
  for (const { kind } of changes) counts.set(kind, (counts.get(kind) ?? 0) + 1);
  const kinds = [...counts].map(([kind, count]) => `${full(count)} ${kind}${count === 1 ? "" : kind.endsWith("y") ? "" : "s"}`);
  const total = changes.length + omitted;
  if (total === 1) return `${changes[0].kind} ${keyText(changes[0])}`;
  return `${full(total)} changes: ${kinds.join(", ")}${omitted ? " and more" : ""}`;
}

function describe(thing) {
  return Object.entries(thing ?? {})
    .filter(([, value]) => value !== null && !(Array.isArray(value) && !value.length))
    .filter(([name]) => name === "limits" || name === "parent" || name === "group")
    .flatMap(([name, value]) => (name === "limits" ? value.map(limitText) : [`${name} ${value}`]));
}

function limitText(limit) {
  const node = limit.scope === "node" ? " per node" : "";
  if (limit.period) return `${limit.dimension}: ${full(limit.rate)} per calendar ${limit.period} (${limit.time_zone})${node}`;
  return `${limit.dimension}: ${full(limit.rate)} per ${period(limit.period_s)}${node}, burst ${full(limit.burst)}`;
}

function compare(before, after, path) {
  const lines = [];
  for (const name of new Set([...Object.keys(before), ...Object.keys(after)])) {
    const [was, is] = [before[name], after[name]];
    if (JSON.stringify(was) === JSON.stringify(is)) continue;
    if (name === "limits" && Array.isArray(was) && Array.isArray(is)) lines.push(...compareLimits(was, is));
    else lines.push(`${path}${name}: ${word(was)} → ${word(is)}`);
  }
  return lines;
}

function compareLimits(was, is) {
  const key = (limit) => `${limit.dimension}${limit.scope === "node" ? " per node" : ""}`;
  const old = new Map(was.map((limit) => [key(limit), limit]));
  const lines = is.flatMap((limit) => {
    const before = old.get(key(limit));
    old.delete(key(limit));
    return before ? compare(before, limit, `${key(limit)} `) : [`added ${limitText(limit)}`];
  });
  return [...lines, ...[...old.keys()].map((name) => `removed ${name}`)];
}

function word(value) {
  if (value === null || value === undefined) return "none";
  return typeof value === "number" ? full(value) : typeof value === "object" ? JSON.stringify(value) : String(value);
}
