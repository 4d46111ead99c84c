// A list of any length; the document holds only the part that is visible.
// Rows are absolutely placed in a spacer; a window of them is asked for by offset.

import { h, uniqueId } from "./dom.js";

/** Rows above and below the visible ones that are asked for too. */
const MARGIN = 20;

export class WindowedList {
  /** `draw(element, row)` fills a row; `need(offset, limit)` asks for a window;
   * `open(row)` is Enter; rows are the same when `key(row)` is. */
  constructor({ label, columns, rowHeight, draw, need, open, key }) {
    Object.assign(this, { rowHeight, draw, need, open, key });
    this.total = 0;
    this.offset = 0;
    this.rows = [];
    this.active = null;
    this.activeIndex = 0;
    this.pool = new Map();
    this.prefix = uniqueId("row");
    this.spacer = h("div", { class: "spacer", role: "presentation" });
    this.element = h("div", {
      class: "windowed live", role: "grid", tabindex: "0",
      "aria-label": label, "aria-colcount": columns, "aria-rowcount": "0",
      onkeydown: (event) => this.press(event),
      onscroll: () => this.scrolled(),
      onclick: (event) => this.clicked(event),
    }, this.spacer);
    this.resized = new ResizeObserver(() => this.scrolled());
    this.resized.observe(this.element);
  }

  /** Show a window that came: `rows` from `offset` of `total`. */
  show(rows, offset, total) {
    this.rows = rows;
    this.offset = offset;
    if (total !== this.total) {
      this.total = total;
      this.spacer.style.height = `${total * this.rowHeight}px`;
      this.element.setAttribute("aria-rowcount", String(total + 1));
      this.activeIndex = Math.min(this.activeIndex, Math.max(0, total - 1));
    }
    const found = this.active === null ? -1 : rows.findIndex((row) => this.key(row) === this.active);
    if (found >= 0) this.activeIndex = offset + found; // the row moved: stay with it
    this.paint();
  }

  /** Back to the top, nothing chosen. */
  reset() {
    this.active = null;
    this.activeIndex = 0;
    this.element.scrollTop = 0;
  }

  close() {
    this.resized.disconnect();
  }

  /** Return {offset, limit} of what is seen, with its margin. */
  wanted() {
    const first = Math.floor(this.element.scrollTop / this.rowHeight);
    const visible = Math.ceil((this.element.clientHeight || 600) / this.rowHeight);
    const offset = Math.max(0, first - MARGIN);
    return { offset, limit: first - offset + visible + MARGIN };
  }

  scrolled() {
    const { offset, limit } = this.wanted();
    const end = Math.min(this.total, offset + limit);
    if (offset < this.offset || end > this.offset + this.rows.length) this.need(offset, limit);
    this.paint();
  }

  paint() {
    const top = Math.floor(this.element.scrollTop / this.rowHeight) - 4;
    const bottom = top + Math.ceil((this.element.clientHeight || 600) / this.rowHeight) + 8;
    const seen = new Set();
    for (let index = Math.max(0, top); index < Math.min(this.total, bottom); index += 1) {
      seen.add(index);
      this.paintRow(index);
    }
    for (const [index, element] of this.pool) {
      if (!seen.has(index)) {
        element.remove();
        this.pool.delete(index);
      }
    }
    const active = this.pool.get(this.activeIndex);
    if (active) this.element.setAttribute("aria-activedescendant", active.id);
    else this.element.removeAttribute("aria-activedescendant");
  }

  paintRow(index) {
    let element = this.pool.get(index);
    if (!element) {
      element = h("div", { class: "row", role: "row", id: `${this.prefix}-${index}`, "aria-rowindex": index + 2 });
      element.style.transform = `translateY(${index * this.rowHeight}px)`;
      this.pool.set(index, element);
      this.spacer.append(element);
    }
    const row = this.rows[index - this.offset];
    element.classList.toggle("active", index === this.activeIndex);
    element.classList.toggle("waiting", !row);
    if (row) this.draw(element, row);
  }

  press(event) {
    const page = Math.max(1, Math.floor(this.element.clientHeight / this.rowHeight) - 1);
    const moves = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
    if (event.key in moves && this.total) {
      event.preventDefault();
      const to = Math.min(this.total - 1, Math.max(0, this.activeIndex + moves[event.key]));
      this.activate(to);
    } else if (event.key === "Enter" && event.target === this.element) {
      const row = this.rows[this.activeIndex - this.offset];
      if (row) this.open(row);
    }
  }

  activate(index) {
    this.activeIndex = index;
    const row = this.rows[index - this.offset];
    this.active = row ? this.key(row) : null;
    const top = index * this.rowHeight;
    const height = this.element.clientHeight;
    if (top < this.element.scrollTop) this.element.scrollTop = top;
    else if (top + this.rowHeight > this.element.scrollTop + height) {
      this.element.scrollTop = top + this.rowHeight - height;
    }
    this.scrolled();
  }

  clicked(event) {
    const element = event.target.closest(".row");
    if (!element || event.target.closest("a, button")) return;
    this.activate(Number(element.getAttribute("aria-rowindex")) - 2);
    const row = this.rows[this.activeIndex - this.offset];
    if (row && String(getSelection()) === "") this.open(row);
  }
}
