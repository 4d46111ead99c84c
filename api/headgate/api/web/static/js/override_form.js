// Overrides: other limits for a while, after which all is as it was.

import { ask, get } from "./api.js";
import { openDialog } from "./dialogs.js";
import { h, toast } from "./dom.js";
import { choice, field, quantity, text } from "./fields.js";
import { full, moment, short } from "./format.js";

const LENGTHS = [[900, "15 minutes"], [3600, "1 hour"], [14400, "4 hours"], [86400, "1 day"], [604800, "1 week"]];

/** Return the overrides of a group that are in force. */
export async function overridesOf(group) {
  const { items } = await get("/overrides", { group });
  return items.filter((item) => item.group === group);
}

/** Return an override as text: "requests × 1.5 until 18:00:00 (sale)". */
export function overrideText(item) {
  const what = item.factor === null ? `at ${short(item.rate)}` : `× ${full(item.factor)}`;
  const why = item.reason ? ` (${item.reason})` : "";
  return `${item.dimension ?? "all limits"} ${what} until ${moment(item.ends_at_s)}${why}`;
}

/** Open the form; resolve to whether an override was made. */
export async function overrideGroup(group, dimensions) {
  const dimension = choice([["", "all limits"], ...dimensions.map((name) => [name, name])], "", { autofocus: true });
  const factor = text("150", { inputmode: "decimal" });
  const length = choice(LENGTHS, 3600);
  const reason = text("", { placeholder: "shown to others, kept in the audit" });
  const made = await openDialog({
    title: `Override ${group} temporarily`, word: "Override", narrow: true,
    body: [
      field("Which", dimension, { path: "dimension" }),
      h("div", { class: "grid-2" },
        field("Per cent of rate and burst", factor, { path: "factor", hint: "150 means 50 % more" }),
        field("For", length, { path: "for_s" })),
      field("Why", reason, { path: "reason" }),
    ],
    submit: async () => {
      const per = quantity(factor);
      return (await ask("PUT", "/overrides", { body: {
        group, dimension: dimension.value || null, factor: typeof per === "number" ? per / 100 : per ?? null,
        for_s: Number(length.value), reason: reason.value.trim(),
      } })).value;
    },
  });
  if (made) toast(`Override: ${overrideText(made)}.`);
  return Boolean(made);
}

/** End an override before its time. */
export async function endOverride(item) {
  await ask("DELETE", "/overrides", { query: { group: item.group, dimension: item.dimension } });
  toast("The override has ended.");
}
