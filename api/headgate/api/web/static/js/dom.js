// Elements: h("div", {class: "x", onclick: f}, "text", child) and nothing more.

/** Return an element; attributes that are null or false are left out. */
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "dataset") Object.assign(element.dataset, value);
    else if (name in PROPERTIES) element[PROPERTIES[name]] = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return element;
}

const PROPERTIES = { class: "className", value: "value", checked: "checked", htmlFor: "htmlFor" };

let counter = 0;

/** Return an id that no other element has. */
export function uniqueId(prefix = "e") {
  counter += 1;
  return `${prefix}${counter}`;
}

const TAIL = 9;

/** Return a name that is cut in its middle where it is too long: both ends tell most. */
export function cut(name) {
  const at = Math.max(0, name.length - TAIL);
  return h("span", { class: "cut", title: name }, h("span", { class: "cut-head" }, name.slice(0, at)), h("span", { class: "cut-tail" }, name.slice(at)));
}

/** Return a box that scrolls sideways, also by keyboard. */
export function scroller(label, ...children) {
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label }, children);
}

/** Set an element's text only when it differs, so that screen readers stay calm. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Let `parent` hold what `make(item)` returns of each item, in order. A child whose item
 * is as before stays the element that it is: with its focus, and a click that has begun. */
export function showList(parent, items, make) {
  const before = new Map([...parent.children].map((child) => [child.shows, child]));
  const children = items.map((item) => {
    const shows = JSON.stringify(item);
    const child = before.get(shows) ?? Object.assign(make(item), { shows });
    before.delete(shows);
    return child;
  });
  for (const child of [...parent.children]) if (!children.includes(child)) child.remove();
  children.forEach((child, index) => {
    if (parent.children[index] !== child) parent.insertBefore(child, parent.children[index] ?? null);
  });
}

/** Return `load(asked, show)`: it shows what `asked` resolves to, unless it was called
 * again meanwhile: an answer that comes late never takes the place of a newer one. */
export function newestOnly() {
  let calls = 0;
  return async (asked, show) => {
    calls += 1;
    const mine = calls;
    const value = await asked;
    if (mine === calls) show(value);
  };
}

/** Run `task` once the last call was `delayMs` ago. */
export function debounced(delayMs, task) {
  let timer = 0;
  return (...given) => {
    clearTimeout(timer);
    timer = setTimeout(() => task(...given), delayMs);
  };
}

/** Say something for some seconds, to eyes and to screen readers. */
export function toast(text) {
  const element = h("div", { class: "toast" }, text);
  document.getElementById("toasts").append(element);
  setTimeout(() => element.remove(), 5000);
}
