// The form of a group: new, or replaced whole under the ETag that was read.

import { Problem, Unreachable, ask, groupPath } from "./api.js";
import { openDialog } from "./dialogs.js";
import { h, newestOnly, toast, uniqueId } from "./dom.js";
import { check, choice, clearRefusals, field, quantity, showRefusals, shownQuantity, text } from "./fields.js";
import { CALENDAR, PERIODS } from "./format.js";
import { previewed } from "./preview.js";

const DIMENSIONS = [
  "requests", "publish_messages", "publish_bytes", "dispatch_messages", "dispatch_bytes",
  "replication_messages", "replication_bytes", "mutations", "subscribes", "tokens",
];
const EMPTY = { name: "", limits: [{ dimension: "requests", rate: 1000, period_s: 1, scope: "cluster" }] };

/** Open the form for a new group, or for the one called `name`. */
export async function editGroup(name) {
  const read = name === null ? { value: EMPTY, etag: null } : await ask("GET", groupPath(name));
  const form = groupForm(read.value, name !== null);
  const newest = newestOnly();
  const saved = await openDialog({
    title: name === null ? "New group" : `Edit ${name}`,
    word: name === null ? "Create" : "Save",
    body: form.elements,
    extra: [h("button", { type: "button", onclick: preview }, "Preview")],
    submit: async () => {
      const body = form.read();
      const path = groupPath(body.name);
      if (name === null) return (await ask("POST", "/groups", { body })).value;
      const whole = { ...read.value, ...body };  // what the form has no field for stays
      return (await ask("PUT", path, { body: whole, etag: read.etag }).catch(explainOutdated)).value;
    },
  });
  if (saved) {
    toast(name === null ? `Group ${saved.name} was created.` : `Group ${saved.name} was saved.`);
    location.hash = `#/group/${encodeURIComponent(saved.name)}`;
    document.dispatchEvent(new CustomEvent("groupsaved", { detail: saved.name }));
  }

  async function preview(event) {
    const whole = event.target.form;
    clearRefusals(whole);
    form.preview.replaceChildren();
    const asked = previewed(form.read()).then((shown) => ({ shown }), (error) => ({ error }));
    await newest(asked, ({ shown, error }) => {
      if (shown) {
        form.preview.replaceChildren(shown);
        form.preview.scrollIntoView({ block: "nearest" });
      } else if (error instanceof Problem || error instanceof Unreachable) showRefusals(whole, error);
      else throw error;
    });
  }
}

function explainOutdated(error) {
  if (error instanceof Problem && error.status === 412) {
    throw new Problem(412, { detail: "Somebody else changed this group since you opened it. Cancel, look at its new state, and edit again." });
  }
  throw error;
}

/** Return {elements, read(), preview} of a group's form. */
function groupForm(group, exists) {
  const name = text(group.name, { autofocus: !exists, readonly: exists, required: true });
  const parent = text(group.parent ?? "", { placeholder: "none" });
  const weight = text(group.weight ?? 1, { inputmode: "decimal" });
  const soft = text(group.soft_threshold ?? "", { inputmode: "decimal", placeholder: "none" });
  const mode = choice([["balanced", "balanced: the whole quota is used"], ["strict", "strict: never above rate · window + burst"]], group.mode);
  const refusal = choice([
    ["reject", "reject: refuse, and say when to retry"], ["delay", "delay: admit, then mute the caller"], ["wait", "wait: queue fairly"],
    ["suppress", "suppress: refuse by chance"], ["shadow", "shadow: only count"],
  ], group.refusal);
  const isolation = choice([
    ["fair", "fair: its part of the quota"], ["hold", "hold: its last share"], ["closed", "closed: nothing"], ["open", "open: no limit"],
  ], group.isolation);
  const split = choice([
    ["", "no: one topic may take everything"], ["even", "evenly"], ["proportional", "in proportion to their use"],
  ], group.split ?? "");
  const per = choice([
    ["", "all together"], ["tenant", "each tenant"], ["namespace", "each namespace"], ["topic", "each topic"],
    ["subscription", "each subscription"], ["user", "each user"], ["client", "each client"],
  ], group.per ?? "");
  const mayOwe = check("may owe: admit while the level is ≥ 0, then charge", group.may_owe ?? true, "may_owe");
  const perPartition = check("apply limits of scope node to each partition of a topic", group.per_partition ?? false, "per_partition");
  const slots = text(group.slots ?? "", { inputmode: "numeric", placeholder: "no limit" });
  const dimensions = uniqueId("dimensions");
  const rows = h("div", { class: "limit-rows" });
  const addRow = (limit, focus) => {
    const row = limitRow(limit, dimensions, () => renumber(rows));
    rows.append(row.element);
    renumber(rows);
    if (focus) row.element.querySelector("input").focus();
  };
  for (const limit of group.limits) addRow(limit, false);
  if (exists) rows.querySelector("[data-part=rate]")?.setAttribute("autofocus", "");
  const preview = h("div", { "aria-live": "polite" });

  const elements = [
    field("Name", name, { path: "name", hint: exists ? null : "Unique; it can't be changed later." }),
    h("fieldset", {}, h("legend", {}, "Limits"), rows,
      h("div", {}, h("button", { type: "button", class: "small", onclick: () => addRow({ dimension: "", rate: "", period_s: 1, scope: "cluster" }, true) }, "Add a limit"))),
    field("Requests in flight at once", slots, { path: "slots", hint: "In the whole cluster; never exceeded." }),
    h("details", { open: exists && (group.parent !== null || group.mode === "strict") },
      h("summary", {}, "Tree, refusal, isolation"),
      h("div", { class: "grid-3" },
        field("Parent group", parent, { path: "parent" }),
        field("Weight among its siblings", weight, { path: "weight" }),
        field("Warn above this fraction of the rate", soft, { path: "soft_threshold", hint: "0.8 warns at 80 %" })),
      h("div", { class: "grid-3" },
        field("Mode", mode, { path: "mode" }),
        field("When it is exhausted", refusal, { path: "refusal" }),
        field("In a partition, an agent may spend", isolation, { path: "isolation" })),
      field("The limits are for", per, { path: "per", hint: "Each value gets the limits to itself, across the cluster." }),
      field("Divide a process's share among its topics", split, { path: "split" }),
      mayOwe.element, perPartition.element),
    h("datalist", { id: dimensions }, DIMENSIONS.map((value) => h("option", { value }))),
    preview,
  ];

  const read = () => ({
    name: name.value.trim(),
    limits: [...rows.children].map((element) => element.read()),
    parent: parent.value.trim() || null,
    weight: quantity(weight) ?? 1,
    soft_threshold: quantity(soft) ?? null,
    slots: quantity(slots) ?? null,
    mode: mode.value, refusal: refusal.value, isolation: isolation.value,
    split: split.value || null, per: per.value || null, may_owe: mayOwe.input.checked, per_partition: perPartition.input.checked,
  });
  return { elements, read, preview };
}

function limitRow(limit, dimensions, changed) {
  const part = (name, input) => { input.dataset.part = name; return input; };
  const dimension = part("dimension", text(limit.dimension, { list: dimensions }));
  const rate = part("rate", text(shownQuantity(limit.rate), { inputmode: "decimal", placeholder: "unlimited" }));
  const custom = limit.period || PERIODS.some(([length]) => length === limit.period_s) ? [] : [[limit.period_s, `${limit.period_s} s`]];
  const periodS = part("period_s", choice([...PERIODS.map(([length, word]) => [length, `per ${word}`]), ...custom, ...CALENDAR.map((word) => [word, `calendar ${word}`])], limit.period ?? limit.period_s));
  const zone = part("time_zone", text(limit.time_zone ?? "UTC", { placeholder: "UTC" }));
  const followsRate = limit.burst === undefined || limit.burst === limit.rate;
  const burst = part("burst", text(followsRate ? "" : shownQuantity(limit.burst), { inputmode: "decimal", placeholder: "= rate" }));
  const scope = part("scope", choice([["cluster", "whole cluster"], ["node", "each node"]], limit.scope));
  const minimum = part("minimum", text(limit.minimum ? String(limit.minimum) : "", { inputmode: "decimal", placeholder: "0" }));
  const maximum = part("maximum", text(limit.maximum === undefined || limit.maximum === "unlimited" ? "" : String(limit.maximum), { inputmode: "decimal", placeholder: "unlimited" }));
  const remove = h("button", { type: "button", class: "quiet remove", title: "Remove this limit", "aria-label": "Remove this limit", onclick: () => { element.remove(); changed(); } }, "✕");
  const more = h("details", { class: "limit-more-fold" }, h("summary", {}, "Time zone; minimum and maximum inside the parent"),
    h("div", { class: "limit-more" }, field("Time zone of calendar periods", zone), field("Minimum", minimum), field("Maximum", maximum)));
  more.open = Boolean(minimum.value || maximum.value || limit.period);
  const element = h("div", { class: "limit" },
    h("div", { class: "limit-row" },
      field("Counts", dimension), field("Rate", rate), field("Period", periodS),
      field("Burst", burst), field("Scope", scope), remove), more);
  element.read = () => ({
    dimension: dimension.value.trim(),
    rate: quantity(rate) ?? "unlimited",
    ...(quantity(burst) === undefined ? {} : { burst: quantity(burst) }),
    ...(CALENDAR.includes(periodS.value) ? { period: periodS.value, time_zone: zone.value.trim() || "UTC" } : { period_s: Number(periodS.value) }),
    scope: scope.value,
    minimum: quantity(minimum) ?? 0, maximum: quantity(maximum) ?? "unlimited",
  });
  return { element };
}

/** Give each input of each limit the path that refusals name it by. */
function renumber(rows) {
  [...rows.children].forEach((element, index) => {
    for (const input of element.querySelectorAll("[data-part]")) {
      input.dataset.path = `limits[${index}].${input.dataset.part}`;
    }
    element.querySelector("[data-part=dimension]").dataset.path = `limits[${index}].dimension`;
    element.setAttribute("aria-label", `Limit ${index + 1}`);
    element.setAttribute("role", "group");
  });
}
