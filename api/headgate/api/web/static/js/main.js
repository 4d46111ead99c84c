// The frame: which page is shown, the state of the connection, theme, shortcuts.

import { get, keepToken, onTokenNeeded } from "./api.js";
import { agentsPage } from "./agents.js";
import { auditPage } from "./audit.js";
import { askToken, showShortcuts } from "./dialogs.js";
import { h, setText } from "./dom.js";
import { editGroup } from "./group_form.js";
import { moment } from "./format.js";
import { groupPage } from "./group.js";
import { overviewPage } from "./overview.js";
import { readHash } from "./link.js";
import { onState } from "./stream.js";
import { tenantPage } from "./tenant.js";

const PAGES = { "": overviewPage, group: groupPage, agents: agentsPage, audit: auditPage, tenant: tenantPage };
const main = document.getElementById("main");
let page = null;

function route() {
  const { path: [kind, ...rest], query } = readHash();
  const make = PAGES[kind] ?? overviewPage;
  page?.close();
  main.replaceChildren();
  page = make(main, query, ...rest);
  document.title = page.title ? `${page.title} – Headgate` : "Headgate";
  for (const link of document.querySelectorAll("nav a")) {
    const current = link.dataset.page === page.section;
    if (current) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
}

// --- the connection -------------------------------------------------------

const pulse = document.getElementById("pulse");
const banner = document.getElementById("banner");
let away = null; // why nothing is shown, until something is again: "lost", "refused" or "denied"
let declined = false;
let hideTimer = 0;

onState((state) => {
  pulse.dataset.state = state;
  setText(pulse.lastElementChild, { live: "live", lost: "connection lost", connecting: "connecting", refused: "no access", denied: "no access" }[state]);
  main.classList.toggle("stale", ["lost", "refused", "denied"].includes(state));
  clearTimeout(hideTimer);
  if (state === "lost") {
    away = state;
    say("lost", `The server does not answer. These figures are from ${moment(Date.now() / 1000)}. Retrying …`);
  } else if (state === "refused" || state === "denied") {
    away = state;
    say("lost", state === "denied" ? "Your token does not allow this view." : "This server needs a token.");
    banner.append(" ", h("button", { type: "button", class: "small", onclick: enterToken }, "Enter a token"));
  } else if (state === "live" && away !== null) {
    if (away !== "lost") banner.hidden = true;
    else {
      say("back", "Connected again; everything is up to date.");
      hideTimer = setTimeout(() => { banner.hidden = true; }, 4000);
    }
    away = null;
    declined = false;
    page?.reconnected?.();
  }
});

function say(kind, text) {
  banner.hidden = false;
  banner.dataset.kind = kind;
  setText(banner, text);
}

// --- theme ----------------------------------------------------------------

const THEMES = [["", "◐", "system"], ["light", "☀", "light"], ["dark", "☾", "dark"]];
const themeButton = document.getElementById("theme");

function showTheme() {
  const chosen = document.documentElement.dataset.theme ?? "";
  const [, mark, word] = THEMES.find(([name]) => name === chosen);
  setText(themeButton, mark);
  themeButton.setAttribute("aria-label", `Theme: ${word}`);
  themeButton.title = `Theme: ${word} (t)`;
}

function nextTheme() {
  const chosen = document.documentElement.dataset.theme ?? "";
  const index = THEMES.findIndex(([name]) => name === chosen);
  const [next] = THEMES[(index + 1) % THEMES.length];
  if (next) document.documentElement.dataset.theme = next;
  else delete document.documentElement.dataset.theme;
  try {
    if (next) localStorage.setItem("headgate.theme", next);
    else localStorage.removeItem("headgate.theme");
  } catch { /* private mode: it lasts as long as the page */ }
  showTheme();
  document.dispatchEvent(new Event("themechange"));
}

themeButton.addEventListener("click", nextTheme);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  document.dispatchEvent(new Event("themechange"));
});
showTheme();

// --- shortcuts ------------------------------------------------------------

let before = "";
const SHORTCUTS = {
  n: () => editGroup(null),
  t: nextTheme,
  "?": showShortcuts,
  "/": () => page?.search?.focus(),
  e: () => page?.edit?.(),
  a: () => page?.attach?.(),
  "g g": () => { location.hash = "#/"; },
  "g n": () => { location.hash = "#/agents"; },
  "g a": () => { location.hash = "#/audit"; },
  "g t": () => { location.hash = "#/tenant"; },
};

document.addEventListener("keydown", (event) => {
  const typing = event.target.closest("input, select, textarea, dialog");
  if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
  const pressed = before === "g" ? `g ${event.key}` : event.key;
  before = event.key === "g" ? "g" : "";
  const action = SHORTCUTS[pressed];
  if (action) {
    event.preventDefault();
    action();
  }
});

document.getElementById("new-group").addEventListener("click", () => editGroup(null));
document.getElementById("keys").addEventListener("click", showShortcuts);
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});

/** Ask for a token, unless the reader has said that there is none. */
onTokenNeeded(async () => (declined ? false : enterToken()));

async function enterToken() {
  const token = await askToken();
  keepToken(token);
  declined = !token;
  if (token) showReader();
  return Boolean(token);
}

/** Show whom the server takes the reader for, where it asks at all. */
async function showReader() {
  try {
    const { name, role } = await get("/whoami");
    setText(document.getElementById("reader"), name === "anonymous" ? "" : `${name}, ${role}`);
  } catch {
    setText(document.getElementById("reader"), "");
  }
}

window.addEventListener("hashchange", () => {
  route();
  main.focus({ preventScroll: true });
});
route();
showReader();
