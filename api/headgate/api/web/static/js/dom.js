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

/** Set an element's text only when it differs, so that screen readers stay calm. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
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
