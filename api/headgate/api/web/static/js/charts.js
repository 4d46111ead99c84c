// Two charts of a limit: use against the limit, and shares per agent stacked.
// Data come as columns of the last half hour; live points are appended.

import uPlot from "../vendor/uPlot.esm.js";
import { short } from "./format.js";
import { isFixed } from "./range.js";

/** Half an hour, as the server keeps it. */
const SPAN_S = 1800;
const HEIGHT = 210;

/** Shown at least, however young the history is. */
const LEAST_SPAN_S = 60;

/** A gap longer than this is drawn as one: the server or its agents were away. */
const GAP_S = 16;

/** Return the colour that a token of the style sheet has now. */
function colour(token) {
  const probe = document.createElement("span");
  probe.style.color = `var(${token})`;
  document.body.append(probe);
  const computed = getComputedStyle(probe).color;
  probe.remove();
  return computed;
}

/** Return the colour of the agent number `index`, readable on light and dark. */
export function agentColour(index, alpha = 1) {
  const hue = (205 + index * 47) % 360;
  const lightness = index % 2 ? 0.66 : 0.58;
  return `oklch(${lightness} 0.115 ${hue} / ${alpha})`;
}

const axis = (extra) => ({
  stroke: colour("--ink-soft"), grid: { stroke: colour("--line"), width: 1 },
  ticks: { show: false }, font: "11px system-ui, sans-serif", ...extra,
});

function options({ element, unit, onselect }, series, extra) {
  const selected = (plot) => {
    const { left, width } = plot.select;
    if (width > 0) onselect(...[left, left + width].map((at) => Math.round(plot.posToVal(at, "x"))));
    plot.setSelect({ left: 0, width: 0 }, false);
  };
  return {
    width: Math.max(200, element.clientWidth), height: HEIGHT,
    padding: [10, 8, 0, 0],
    cursor: { sync: { key: "headgate" }, drag: { x: true, y: false, setScale: false }, bind: { dblclick: () => null }, points: { size: 6 } },
    hooks: { setSelect: [selected] },
    legend: { live: true },
    scales: { x: { time: true }, y: { range: (_plot, _low, high) => [0, (high || 1) * 1.08] } },
    axes: [
      axis({ size: 30, space: 70, values: [
        [3600, "{HH}:{mm}", null, null, null, null, null, null, 1],
        [60, "{HH}:{mm}", null, null, null, null, null, null, 1],
        [1, "{HH}:{mm}:{ss}", null, null, null, null, null, null, 1],
      ] }),
      axis({ size: 52, label: unit, labelSize: 18, labelFont: "11px system-ui, sans-serif", values: (_plot, ticks) => ticks.map(short) }),
    ],
    series: [{ value: (_plot, at) => (at === null ? "–" : new Date(at * 1000).toLocaleTimeString("en-GB")) }, ...series],
    ...extra,
  };
}

class Chart {
  constructor(element) {
    this.element = element;
    this.plot = null;
    this.range = { spanS: SPAN_S };
    this.onselect = () => {};
    this.unit = "per second";
    this.observer = new ResizeObserver(() => {
      this.plot?.setSize({ width: Math.max(200, element.clientWidth), height: HEIGHT });
    });
    this.observer.observe(element);
    this.recolour = () => this.rebuild();
    document.addEventListener("themechange", this.recolour);
  }

  /** Say what the vertical axis counts: "requests per second". */
  setUnit(unit) {
    if (this.unit === unit) return;
    this.unit = unit;
    if (this.plot) this.rebuild();
  }

  /** Show only the newest seconds, or what lies between two moments. */
  setRange(range) {
    this.range = range;
    this.element.dataset.none = isFixed(range) ? "Not used between these moments. The server keeps the last half hour."
      : "Not used within the last half hour.";
    this.frame();
  }

  /** Return the first and the last moment to show, seconds since the epoch. */
  bounds() {
    const newest = this.at?.at(-1) ?? Date.now() / 1000;
    const oldest = Math.min(this.at?.[0] ?? newest, newest - LEAST_SPAN_S);
    if (isFixed(this.range)) return { fromS: this.range.fromS ?? oldest, toS: this.range.toS ?? newest };
    return { fromS: Math.max(newest - this.range.spanS, oldest), toS: newest };
  }

  frame() {
    const { fromS, toS } = this.bounds();
    const seen = this.at?.some((atS) => atS >= fromS && atS <= toS) ?? false;
    this.element.classList.toggle("none", !seen);
    if (seen) this.plot?.setScale("x", { min: fromS, max: toS });
  }

  /** Return the place of the last point that is shown, whose values the legend gives. */
  last() {
    const { toS } = this.bounds();
    return this.at.findLastIndex((atS) => atS <= toS);
  }

  /** Tell whether a new point would be shown: of what is past, the old ones are kept. */
  wants(atS) {
    return !isFixed(this.range) || this.range.toS === null || atS <= this.range.toS;
  }

  rebuild() {
    this.plot?.destroy();
    this.plot = null;
    this.draw();
  }

  close() {
    this.observer.disconnect();
    document.removeEventListener("themechange", this.recolour);
    this.plot?.destroy();
  }
}

/** Admitted and attempted, and the limit as a line. */
export class UseChart extends Chart {
  load(course) {
    this.at = course.at_s.slice();
    const attempted = course.admitted.map((value, index) => (value === null ? null : value + (course.refused[index] ?? 0)));
    this.columns = [course.admitted.slice(), attempted, course.rate.slice()];
    this.draw();
  }

  add(atS, use, ratePerS) {
    if (!this.wants(atS)) return;
    if (!this.at) this.load({ at_s: [], admitted: [], refused: [], rate: [] });
    const limit = Number.isFinite(ratePerS) ? ratePerS : null;
    if (append(this.at, this.columns, atS, [use.admitted, use.attempted, limit])) this.draw();
  }

  draw() {
    if (!this.at) return;
    const values = [this.at, ...this.columns];
    if (this.plot) this.plot.setData(values, false);
    else this.plot = new uPlot(options(this, this.series(), {}), values, this.element);
    this.frame();
  }

  series() {
    const value = (index) => (_plot, raw, _series, at) => short(at === null ? this.columns[index][this.last()] : raw);
    return [
      { label: "admitted", stroke: colour("--accent"), fill: withAlpha(colour("--accent"), 0.18), width: 1.6, value: value(0), points: { show: false } },
      { label: "attempted", stroke: colour("--demand"), dash: [5, 4], width: 1.4, value: value(1), points: { show: false } },
      { label: "limit", stroke: colour("--over"), width: 1.6, value: value(2), points: { show: false } },
    ];
  }
}

/** Each agent's share on top of those before it. */
export class ShareChart extends Chart {
  load(course) {
    this.at = course.at_s.slice();
    this.agents = course.agents.map((line) => line.agent);
    this.columns = course.agents.map((line) => line.share.slice());
    this.rebuild();
  }

  add(atS, use) {
    if (!this.wants(atS)) return;
    if (!this.at) this.load({ at_s: [], agents: [] });
    const shares = new Map(use.agents.map((row) => [row.agent, row.share]));
    const newcomers = [...shares.keys()].filter((agent) => !this.agents.includes(agent));
    for (const agent of newcomers.slice(0, Math.max(0, 13 - this.agents.length))) {
      this.agents.push(agent);
      this.columns.push(this.at.map(() => null));
    }
    const named = this.agents.map((agent) => shares.get(agent) ?? null);
    const rest = this.agents.indexOf("");
    if (rest >= 0) named[rest] = sum([...shares].filter(([agent]) => !this.agents.includes(agent)).map(([, share]) => share));
    if (!append(this.at, this.columns, atS, named)) return;
    if (newcomers.length) this.rebuild();
    else this.draw();
  }

  draw() {
    if (!this.at) return;
    const values = [this.at, ...this.stacked()];
    if (this.plot) this.plot.setData(values, false);
    else {
      const bands = this.agents.slice(1).map((_, index) => ({ series: [index + 2, index + 1] }));
      this.plot = new uPlot(options(this, this.series(), { bands }), values, this.element);
    }
    this.frame();
  }

  /** Return the running sums of the columns; a hole counts as nothing. */
  stacked() {
    const below = this.at.map(() => 0);
    return this.columns.map((column) => column.map((value, index) => {
      if (value === null && this.columns.every((each) => each[index] === null)) return null;
      below[index] += value ?? 0;
      return below[index];
    }));
  }

  series() {
    return this.agents.map((agent, index) => ({
      label: agent || "all others", stroke: agentColour(index), fill: agentColour(index, 0.62), width: 1,
      value: (_plot, _raw, _series, at) => short(this.columns[index][at ?? this.last()]),
      points: { show: false },
    }));
  }
}

/** Append a point and forget those older than the span; false when it is not newer. */
function append(at, columns, atS, values) {
  const newest = at.at(-1);
  if (newest !== undefined && atS <= newest) return false;
  if (newest !== undefined && atS - newest > GAP_S) {
    at.push(newest + 1);
    for (const column of columns) column.push(null);
  }
  at.push(atS);
  columns.forEach((column, index) => column.push(values[index] ?? null));
  while (at[0] < atS - SPAN_S) {
    at.shift();
    for (const column of columns) column.shift();
  }
  return true;
}

function sum(values) {
  return values.reduce((total, value) => total + (value ?? 0), 0);
}

function withAlpha(computed, alpha) {
  return `color-mix(in srgb, ${computed} ${alpha * 100}%, transparent)`;
}
