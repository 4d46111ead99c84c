// Numbers, rates and times as an operator reads them.

const WHOLE = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const ONE = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });
const TWO = new Intl.NumberFormat("en", { maximumSignificantDigits: 2 });
const STEPS = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e4, "k"]];

/** Return a number in at most six characters: 987, 12.4k, 3.1M. */
export function short(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  if (value === "unlimited" || value === Infinity) return "∞";
  const size = Math.abs(value);
  for (const [step, unit] of STEPS) {
    if (size >= step) {
      const divisor = unit === "k" ? 1e3 : step;
      return (size / divisor >= 100 ? WHOLE : ONE).format(value / divisor) + unit;
    }
  }
  if (size >= 100 || Number.isInteger(value)) return WHOLE.format(value);
  return size >= 1 ? ONE.format(value) : size < 0.005 ? "0" : TWO.format(value);
}

/** Return a number in full: 1,234,567.8. */
export function full(value) {
  if (value === null || value === undefined) return "–";
  if (value === "unlimited") return "unlimited";
  return new Intl.NumberFormat("en", { maximumFractionDigits: 3 }).format(value);
}

export const PERIODS = [[1, "s"], [60, "min"], [3600, "h"], [86400, "day"], [2592000, "30 days"]];
export const CALENDAR = ["minute", "hour", "day", "week", "month", "year"];
const MEAN_S = [[604800, "week"], [2629800, "month"], [31557600, "year"]];

/** Return a period as a word where it has one: s, min, h, 5 s. */
export function period(seconds) {
  const named = [...PERIODS, ...MEAN_S].find(([length]) => length === seconds);
  return named ? named[1] : `${full(seconds)} s`;
}

/** Return a limit: "1,000 / s", "unlimited". */
export function rate(value, periodS) {
  return value === "unlimited" ? "unlimited" : `${short(value)} / ${period(periodS)}`;
}

/** Return the rate of a limit; a calendar period by its name and, if it isn't UTC, its zone. */
export function rateOf(limit) {
  if (!limit.period) return rate(limit.rate, limit.period_s);
  const zone = (limit.time_zone ?? "UTC") === "UTC" ? "" : `, ${limit.time_zone}`;
  return `${limit.rate === "unlimited" ? "unlimited" : short(limit.rate)} / calendar ${limit.period}${zone}`;
}

/** Return a limit in units per second; Infinity where unlimited. */
export function perSecond(value, periodS) {
  return value === "unlimited" ? Infinity : value / periodS;
}

/** Return which part of a limit is used: of a calendar period's units, else of its rate; NaN where that can't be said. */
export function partUsed({ rate: most, period_s: periodS, period: calendar, used, admitted }) {
  if (admitted === null || most === "unlimited") return NaN;
  const [now, whole] = calendar ? [used, most] : [admitted, perSecond(most, periodS)];
  return whole === 0 ? Infinity : now / whole;
}

/** Return part as per cent. */
export function percent(part) {
  if (!Number.isFinite(part)) return "–";
  return `${part >= 0.995 || part === 0 ? Math.round(part * 100) : (part * 100).toFixed(part < 0.1 ? 1 : 0)} %`;
}

/** Return seconds as "0.3 s", "12 s", "4 min", "3 h". */
export function age(seconds) {
  if (!Number.isFinite(seconds)) return "–";
  if (seconds < 10) return `${Math.max(0, seconds).toFixed(1)} s`;
  if (seconds < 120) return `${Math.round(seconds)} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  return `${Math.round(seconds / 3600)} h`;
}

/** Return a wall clock time in the reader's zone, with the date unless it is today. */
export function moment(atS) {
  const at = new Date(atS * 1000);
  const time = at.toLocaleTimeString("en-GB");
  const day = at.toLocaleDateString("en-CA");
  return day === new Date().toLocaleDateString("en-CA") ? time : `${day} ${time}`;
}

/** Return date, time and zone, such as 2026-11-22 06:05:10 GMT+1. */
export function stamp(atS) {
  const at = new Date(atS * 1000);
  const zone = new Intl.DateTimeFormat("en", { timeZoneName: "short" }).formatToParts(at).find((part) => part.type === "timeZoneName").value;
  return `${at.toLocaleDateString("en-CA")} ${at.toLocaleTimeString("en-GB")} ${zone}`;
}

/** Return a subject {kind: name} as text: "tenant acme", "default user + client app". */
export function subject(named) {
  return Object.entries(named)
    .map(([kind, name]) => (name === null ? `default ${kind}` : `${kind} ${name}`))
    .join(" + ");
}

export const STANDING = {
  over: { mark: "▲", word: "over" },
  near: { mark: "◆", word: "near" },
  calm: { mark: "●", word: "calm" },
  idle: { mark: "○", word: "idle" },
};
