// One matrix as a grid: colour is value, arrow keys move from cell to cell, Enter or a click opens the sum that a cell is.

import { element } from "../lib/dom.js";
import { cellColours, named, palette, short, shown, visible } from "./format.js";

const LABEL = 90, LETTER = 7, NUMBER = 42, LEAST = 12, FEW = 16; // widths: of the widest row's label, of its letters, of a cell with a number, of the narrowest cell; columns that always show numbers

function where({ path, line, code }) {
  return element("details", { class: "walk-source" }, element("summary", { text: `${path}:${line}` }), element("code", { text: code }));
}

export class Grid {
  // `open(row, column)` is called for a cell that can be spelled out.
  constructor(open) {
    this.open = open;
    this.told = element("p", { class: "walk-told", "aria-live": "polite", text: " " });
    this.node = element("section", { class: "walk-matrix" });
  }

  // `row` is the token that is marked, `opened` the cell whose sum is shown; both may be null.
  show(matrix, row, opened) {
    const same = this.matrix === matrix, rows = matrix.values.length, count = matrix.values[0].length;
    this.matrix = matrix;
    Object.assign(this, { row, opened });
    if (!same) this.cursor = null;
    this.cursor ??= opened ?? { row: Math.min(row ?? rows - 1, rows - 1), column: 0 };
    if (!same) this.build(count);
    this.cells.forEach((line, t) => {
      line[0].parentElement.toggleAttribute("data-marked", t === row);
      line.forEach((cell, j) => cell.toggleAttribute("data-open", opened?.row === t && opened?.column === j));
    });
    this.point(this.cursor, false);
    if (!same) this.reveal(this.at(this.cursor));
  }

  build(count) {
    const { matrix } = this, [rows, columns] = matrix.shape;
    const window = count < columns ? `, columns ${matrix.from} to ${matrix.from + count - 1}` : "";
    this.grid = element("div", {
      role: "grid", class: "walk-grid", "aria-colcount": columns + 1, "aria-label": `${matrix.name}, ${matrix.title}`,
      onclick: event => this.clicked(event), onkeydown: event => this.key(event), onpointerover: event => this.over(event),
    });
    this.around = element("div", { class: "walk-scroll" }, this.grid);
    this.node.replaceChildren(
      element("h3", {}, named(matrix.name, matrix.axes), ` ${rows} × ${columns}${window} `, element("span", { class: "walk-equation", text: matrix.equation })),
      element("p", { class: "walk-title", text: matrix.title }), this.around, element("div", { class: "walk-foot" }, this.told, where(matrix.source)));
    this.node.dataset.matrix = matrix.name;
    this.fill();
  }

  // Cells wide enough for their numbers, if there is room for them or only a few columns.
  fill() {
    const { matrix } = this, count = matrix.values[0].length, longest = Math.max(...matrix.rows.map(text => visible(text).length));
    this.label = Math.min(LABEL, LETTER * longest + 8);
    const free = this.around.clientWidth - this.label - 4, numbers = count <= FEW || free >= count * NUMBER;
    const wide = numbers ? NUMBER : Math.max(LEAST, Math.min(24, Math.floor(free / count)));
    const colours = palette();
    this.grid.style.gridTemplateColumns = `${this.label}px repeat(${count}, ${wide}px)`;
    this.grid.classList.toggle("walk-numbers", numbers);
    this.cells = matrix.values.map((line, t) => line.map((value, j) => this.cell(value, t, j, numbers, colours)));
    const head = matrix.columns.length ? [element("div", { role: "row" }, element("span", { role: "columnheader", "aria-colindex": 1, text: "token" }),
      ...matrix.columns.map((text, j) => element("span", { role: "columnheader", "aria-colindex": matrix.from + j + 2, title: text, text: visible(text) })))] : [];
    this.grid.replaceChildren(...head, ...this.cells.map((line, t) => element("div", { role: "row" },
      element("span", { role: "rowheader", "aria-colindex": 1, title: matrix.rows[t], text: visible(matrix.rows[t]) }), ...line)));
  }

  // For other colours or another width.
  refill() {
    const focused = this.grid.contains(document.activeElement), opened = this.opened;
    this.fill();
    this.show(this.matrix, this.row, opened);
    if (focused) this.focus();
  }

  cell(value, row, column, numbers, colours) {
    const made = element("span", {
      role: "gridcell", tabindex: -1, "data-row": row, "data-column": column, "aria-colindex": column + this.matrix.from + 2,
      "aria-label": numbers ? null : shown(value), text: numbers ? short(value) : "",
    });
    Object.assign(made.style, cellColours(colours, value, this.matrix.scale));
    return made;
  }

  at({ row, column }) {
    return this.cells[row][column];
  }

  // Makes a cell the one that Tab reaches, and tells its number.
  point(cursor, focus) {
    this.grid.querySelector("[tabindex='0']")?.setAttribute("tabindex", "-1");
    this.cursor = cursor;
    const cell = this.at(cursor);
    cell.setAttribute("tabindex", "0");
    this.tell(cursor);
    if (!focus) return;
    cell.focus({ preventScroll: true });
    this.reveal(cell);
  }

  // Scrolls the matrix, and not the page, to a cell.
  reveal(cell) {
    const { around } = this, box = around.getBoundingClientRect(), at = cell.getBoundingClientRect();
    around.scrollLeft += Math.min(0, at.left - box.left - this.label) + Math.max(0, at.right - box.right);
    around.scrollTop += Math.min(0, at.top - box.top - at.height) + Math.max(0, at.bottom - box.bottom);
  }

  focus() {
    this.point(this.cursor, true);
  }

  tell({ row, column }) {
    const { name, values, rows, columns, from } = this.matrix, place = columns.length ? visible(columns[column]) : column + from;
    this.told.textContent = `${name}[${visible(rows[row])}, ${place}] = ${shown(values[row][column])}`;
  }

  place(event) {
    const cell = event.target.closest("[role=gridcell]");
    return cell && { row: Number(cell.dataset.row), column: Number(cell.dataset.column) };
  }

  over(event) {
    const at = this.place(event);
    if (at) this.tell(at);
  }

  clicked(event) {
    const at = this.place(event);
    if (!at) return;
    this.point(at, true);
    this.spell();
  }

  key(event) {
    if (event.key === "Enter" || event.key === " ") { event.preventDefault(); this.spell(); return; }
    const { row, column } = this.cursor, bottom = this.cells.length - 1, right = this.cells[0].length - 1, far = event.ctrlKey || event.metaKey;
    const to = {
      ArrowUp: [row - 1, column], ArrowDown: [row + 1, column], ArrowLeft: [row, column - 1], ArrowRight: [row, column + 1],
      Home: [far ? 0 : row, 0], End: [far ? bottom : row, right],
    }[event.key];
    if (!to) return;
    event.preventDefault();
    const within = (value, most) => Math.max(0, Math.min(most, value));
    this.point({ row: within(to[0], bottom), column: within(to[1], right) }, true);
  }

  spell() {
    if (this.matrix.spelled) this.open(this.cursor.row, this.cursor.column + this.matrix.from);
  }
}
