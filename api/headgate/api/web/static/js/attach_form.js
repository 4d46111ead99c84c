// The form that attaches a subject to a group.

import { Problem, ask, get } from "./api.js";
import { openDialog } from "./dialogs.js";
import { h, toast } from "./dom.js";
import { check, choice, field, text } from "./fields.js";
import { subject as subjectText } from "./format.js";

const KINDS = [
  ["tenant", ["tenant"], "acme"], ["namespace", ["namespace"], "acme/orders"],
  ["topic", ["topic"], "acme/orders/eu"], ["subscription of a topic", ["topic", "subscription"], "acme/orders/eu"],
  ["subscription", ["subscription"], "billing"], ["user", ["user"], "alice"], ["client id", ["client"], "app-1"],
  ["user and client id", ["user", "client"], "alice"], ["cluster", ["cluster"], "eu-1"],
];

/** Open the form for the group called `group`; resolve to whether something was attached. */
export async function attachTo(group) {
  const fields = h("div", {});
  const kind = choice(KINDS.map(([word], index) => [index, word]), 0, { autofocus: true, onchange: showFields });
  let names = [];


  function showFields() {
    const [, kinds, example] = KINDS[Number(kind.value)];
    fields.className = kinds.length > 1 ? "grid-2" : "";
    make.element.hidden = !["tenant", "namespace"].includes(kinds[0]);
    names = kinds.map((each) => {
      const name = text("", { placeholder: example });
      const all = check(`default: every ${each} without its own attachment`, false);
      all.input.addEventListener("change", () => { name.disabled = all.input.checked; });
      return { kind: each, name, all: all.input, element: h("div", {}, field(each, name, { path: `subject.${each}` }), all.element) };
    });
    fields.replaceChildren(...names.map((each) => each.element));
  }
  const make = check("create the tenant or namespace if it does not exist", false);
  showFields();

  const read = () => Object.fromEntries(names.map((each) => [each.kind, each.all.checked ? null : each.name.value.trim()]));
  const attached = await openDialog({
    title: `Attach to ${group}`, word: "Attach", narrow: true,
    body: [
      field("What", kind, { path: "subject" }), fields, make.element,
      h("p", { class: "soft" }, "A subject belongs to one group: attaching it here detaches it from its present group."),
    ],
    submit: async () => {
      const subject = read();
      const before = await groupOf(subject);
      if (make.input.checked) await makeMissing(subject);
      const { value } = await ask("PUT", "/attachments", { body: { subject, group } }).catch(atField);
      return { ...value, before };
    },
  });
  if (!attached) return false;
  const left = attached.before && attached.before !== group ? `; it left ${attached.before}` : "";
  toast(`${subjectText(attached.subject)} is attached to ${group}${left}.`);
  return true;
}

/** Show a tenant or namespace that does not exist at the field that names it. */
function atField(error) {
  const [, kind] = (error instanceof Problem && error.status === 404 && error.message.match(/^(tenant|namespace)/)) || [];
  if (!kind) throw error;
  const reason = `${error.message}; check the name, or let it be created`;
  throw new Problem(404, { detail: reason, errors: [{ field: `subject.${kind}`, reason }] });
}

async function makeMissing(subject) {
  const [tenant, namespace] = (subject.namespace ?? subject.tenant ?? "").split("/").map(encodeURIComponent);
  if (tenant) await makeOnce(`/tenants/${tenant}`);
  if (tenant && namespace) await makeOnce(`/namespaces/${tenant}/${namespace}`);
}

/** Make a thing unless it is there: PUT alone would replace what is known of it. */
async function makeOnce(path) {
  try {
    await get(path);
  } catch (error) {
    if (!(error instanceof Problem && error.status === 404)) throw error;
    await ask("PUT", path);
  }
}

/** Return the name of the group that a subject is attached to now, or null. */
async function groupOf(subject) {
  const [[kind, name]] = Object.entries(subject);
  if (Object.keys(subject).length > 1 || !name) return null;
  const { items } = await get("/attachments", { kind, name, limit: 1 });
  return items[0]?.group ?? null;
}
