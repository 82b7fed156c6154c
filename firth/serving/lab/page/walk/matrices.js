// One stage as its matrices: colour is value, the number under the pointer in words, a click opens the sum that it is.

import { element } from "../lib/dom.js";
import { fillCell, palette, shown, sized, visible } from "./format.js";

const ROW = 16, LABEL = 74, WIDEST = 440, TOP = 14;

export function where({ path, line, code }) {
  return element("details", { class: "walk-source" }, element("summary", { text: `${path}:${line}` }), element("code", { text: code }));
}

// The letters below the name, as in the names of tensors: q_TD.
export function named(name, axes) {
  return element("span", { class: "walk-name" }, element("b", { text: name }), element("sub", { text: axes }));
}

class Board {
  constructor(matrix, number, actions) {
    Object.assign(this, { matrix, number, actions });
    this.cursor = null;
    this.canvas = element("canvas", { tabindex: 0, role: "img", "aria-label": `${matrix.name}, ${matrix.title}: ${matrix.shape.join(" by ")} numbers. Arrow keys move, Enter opens the sum.` });
    this.told = element("p", { class: "walk-told", "aria-live": "polite", text: " " });
    const [rows, columns] = matrix.shape, count = matrix.values[0].length;
    this.wide = Math.max(6, Math.min(ROW, Math.floor(WIDEST / count)));
    this.window = count < columns ? `, columns ${matrix.from} to ${matrix.from + count - 1}` : "";
    this.section = element("section", { class: "walk-matrix", "data-matrix": matrix.name },
      element("h3", {}, named(matrix.name, matrix.axes), ` ${rows} × ${columns}${this.window}`),
      element("p", { class: "walk-equation", text: matrix.equation }),
      element("p", { class: "walk-title", text: matrix.title }),
      element("div", { class: "walk-scroll" }, this.canvas), this.told, where(matrix.source));
    this.section.matrix = matrix;
    this.canvas.addEventListener("pointermove", event => this.move(this.under(event)));
    this.canvas.addEventListener("pointerleave", () => this.move(null));
    this.canvas.addEventListener("click", event => { this.move(this.under(event)); this.open(); });
    this.canvas.addEventListener("keydown", event => this.key(event));
  }

  draw(row) {
    this.row = row;
    const { values, scale, rows } = this.matrix, colours = palette();
    const context = sized(this.canvas, LABEL + values[0].length * this.wide + 2, TOP + values.length * ROW + 2);
    context.font = "11px system-ui, sans-serif";
    context.textBaseline = "middle";
    values.forEach((line, t) => {
      context.fillStyle = t === row ? colours.accent : colours.quiet;
      context.fillText(visible(rows[t]).slice(0, 11), 0, TOP + t * ROW + ROW / 2, LABEL - 6);
      line.forEach((value, j) => fillCell(context, colours, value, scale, LABEL + j * this.wide, TOP + t * ROW + 1, this.wide - 1, ROW - 2));
    });
    if (row < values.length) this.outline(context, colours.accent, row, 0, values[0].length);
    if (this.cursor) this.outline(context, colours.ink, this.cursor.row, this.cursor.column, 1);
  }

  outline(context, colour, row, column, count) {
    context.strokeStyle = colour;
    context.lineWidth = 1.5;
    context.strokeRect(LABEL + column * this.wide - 0.5, TOP + row * ROW + 0.5, count * this.wide, ROW - 1);
  }

  under(event) {
    const box = this.canvas.getBoundingClientRect();
    const column = Math.floor((event.clientX - box.left - LABEL) / this.wide), row = Math.floor((event.clientY - box.top - TOP) / ROW);
    const { values } = this.matrix;
    return row >= 0 && row < values.length && column >= 0 && column < values[0].length ? { row, column } : null;
  }

  move(cursor) {
    this.cursor = cursor;
    this.draw(this.row);
    const { name, values, rows, columns, from } = this.matrix;
    if (!cursor) { this.told.textContent = " "; return; }
    const column = columns.length ? visible(columns[cursor.column]) : cursor.column + from;
    this.told.textContent = `${name}[${visible(rows[cursor.row])}, ${column}] = ${shown(values[cursor.row][cursor.column])}`;
  }

  key(event) {
    const steps = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (event.key === "Enter" || event.key === " ") { event.preventDefault(); this.open(); return; }
    if (!steps) return;
    event.preventDefault();
    const { values } = this.matrix, at = this.cursor ?? { row: Math.min(this.row, values.length - 1), column: -Math.min(0, steps[1]) };
    const clamp = (value, most) => Math.max(0, Math.min(most, value));
    this.move(this.cursor ? { row: clamp(at.row + steps[0], values.length - 1), column: clamp(at.column + steps[1], values[0].length - 1) } : at);
  }

  open() {
    if (this.cursor && this.matrix.spelled) this.actions.open(this.number, this.cursor.row, this.cursor.column + this.matrix.from);
  }
}

// Shows the matrices of a stage in `into`; `row` is the token that is marked in each.
export function matrices(into, stage, found, row, actions) {
  const boards = found.map((matrix, n) => new Board(matrix, n, actions));
  into.replaceChildren(...boards.map(board => board.section));
  const rowOf = board => (board.matrix.rows.length === stage.tokens.length ? row : -1);
  const draw = () => boards.forEach(board => board.draw(rowOf(board)));
  draw();
  return draw;
}
