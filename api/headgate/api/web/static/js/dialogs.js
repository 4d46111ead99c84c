// Modal dialogs: the frame of all, and the small ones.

import { Problem, Unreachable } from "./api.js";
import { h, setText } from "./dom.js";
import { clearRefusals, field, showRefusals, text } from "./fields.js";
import { onState } from "./stream.js";

const LOST = "The server does not answer. Nothing can be saved until it does.";

/**
 * Open a dialog; resolve to what `submit(form)` returns, or null when it is cancelled.
 * A Problem that `submit` throws is shown at its fields and the dialog stays.
 */
export function openDialog({ title, body, submit, word = "Save", danger = false, narrow = false, extra = [] }) {
  return new Promise((resolve) => {
    const general = h("p", { class: "notice bad general", role: "alert", hidden: true });
    const go = h("button", { type: "submit", class: danger ? "danger" : "primary" }, word);
    const cancel = h("button", { type: "button", class: "push", onclick: () => dialog.close() }, "Cancel");
    const form = h("form", { novalidate: true, onsubmit: send },
      h("header", {}, h("h1", {}, title)),
      h("div", { class: "body" }, body, general),
      h("footer", {}, extra, cancel, submit ? go : null));
    const dialog = h("dialog", { class: narrow ? "narrow" : "", "aria-label": title, onclose: () => {
      forget();
      dialog.remove();
      resolve(result);
    } }, form);
    if (!submit) setText(cancel, "Close");
    let result = null;
    let sending = false;

    async function send(event) {
      event.preventDefault();
      if (!submit || go.disabled) return;
      clearRefusals(form);
      go.disabled = sending = true;
      try {
        result = await submit(form);
        dialog.close();
      } catch (error) {
        sending = false;
        go.disabled = lost;
        if (error instanceof Unreachable) error.message = "The server did not answer, so it is not known whether the change was made. Check before you try again.";
        if (!(error instanceof Problem) && !(error instanceof Unreachable)) throw error;
        showRefusals(form, error);
      }
    }

    let lost = false;
    const away = h("p", { class: "notice bad", role: "status", hidden: true }, LOST);
    general.after(away);
    const forget = onState((state) => {
      lost = Boolean(submit) && state === "lost";
      away.hidden = !lost;
      if (!sending) go.disabled = lost;
    });
    document.body.append(dialog);
    dialog.showModal();
    form.querySelector("[autofocus]")?.focus();
  });
}

/** Ask whether to do something that can't be undone by a click. */
export function confirmed(title, sentence, word, action) {
  return openDialog({
    title, word, danger: true, narrow: true, body: h("p", {}, sentence),
    submit: async () => { await action(); return true; },
  });
}

let asking = null;

/** Ask for a bearer token; several callers share one dialog. */
export function askToken() {
  asking ??= openDialog({
    title: "A token is needed", word: "Continue", narrow: true,
    body: [
      h("p", { class: "soft" }, "This server needs to know who you are. Create a token with `headgate token create`. It is kept until you close this tab."),
      field("Bearer token", text("", { type: "password", autofocus: true, name: "token" })),
    ],
    submit: (form) => form.elements.token.value.trim(),
  }).finally(() => { asking = null; });
  return asking;
}

const SHORTCUTS = [
  ["/", "filter the groups"], ["n", "new group"], ["↑ ↓ PgUp PgDn Home End", "move in the list"],
  ["Enter", "open the group"], ["e", "edit the group shown"], ["a", "attach something to it"],
  ["g g", "groups"], ["g t", "tenants"], ["g n", "agents"], ["g a", "audit"], ["t", "theme"], ["?", "this list"],
];

export function showShortcuts() {
  openDialog({
    title: "Keyboard", narrow: true,
    body: h("dl", { class: "shortcuts" }, SHORTCUTS.map(([keys, what]) => [h("dt", {}, keys.split(" ").map((key) => [h("kbd", {}, key), " "])), h("dd", {}, what)])),
  });
}
