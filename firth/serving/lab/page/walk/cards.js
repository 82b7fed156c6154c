// The matrices of an open stage as cards, in the order of the computation, joined by lines to what they are computed from.

import { drawing, element } from "../lib/dom.js";
import { fillCell, named, palette, sized } from "./format.js";

const WIDE = 76, HIGH = 37, GAP = 20, BETWEEN = 6, STRIP = 64, THICK = 10;

// The column of each card: one more than that of its latest operand. What is not computed stands below the card before it.
function columnsOf(matrices) {
  const found = [];
  matrices.forEach(({ operands }, n) => found.push(operands.length ? 1 + Math.max(...operands.map(one => found[one])) : found[n - 1] ?? 0));
  return found;
}

// { x, y } of each card, and the height of all; columns that do not fit continue below.
function places(matrices, width) {
  const column = columnsOf(matrices), kinds = [...new Set(column)].sort((one, other) => one - other);
  const per = Math.max(2, Math.floor((width + GAP) / (WIDE + GAP))), found = [];
  let y = 0;
  for (let first = 0; first < kinds.length; first += per) {
    let most = 0;
    kinds.slice(first, first + per).forEach((kind, at) => {
      let count = 0;
      column.forEach((own, n) => { if (own === kind) { found[n] = { x: at * (WIDE + GAP), y: y + count * (HIGH + BETWEEN) }; count += 1; } });
      most = Math.max(most, count);
    });
    y += most * (HIGH + BETWEEN) + BETWEEN;
  }
  return { found, height: y - BETWEEN };
}

export class Cards {
  // `choose(number)` is called for the card that is to be shown as a matrix.
  constructor(choose) {
    this.choose = choose;
    this.svg = drawing("svg", { "aria-hidden": "true" });
    this.list = element("div", { role: "tablist", "aria-label": "matrices, in the order of the computation", onkeydown: event => this.key(event) });
    this.node = element("div", { class: "walk-cards" }, this.svg, this.list);
    this.matrices = [];
  }

  // `tokens`: how many rows have a token of the stage; `row`: the marked one of them; `opened`: the cell whose sum is shown, if any.
  show(matrices, tokens, row, chosen, opened) {
    if (this.matrices !== matrices) this.build(matrices);
    const other = this.chosen !== chosen;
    Object.assign(this, { tokens, row, chosen, factors: opened ? this.read(chosen, opened) : new Map() });
    this.made.forEach((one, n) => {
      one.setAttribute("aria-selected", String(n === chosen));
      one.tabIndex = n === chosen ? 0 : -1;
      one.toggleAttribute("data-read", matrices[chosen].operands.some(one => one === n));
    });
    this.arrange();
    this.draw();
    if (other) this.node.scrollTop = Math.min(this.places[chosen].y, Math.max(this.node.scrollTop, this.places[chosen].y + HIGH + BETWEEN - this.node.clientHeight));
  }

  build(matrices) {
    this.matrices = matrices;
    this.made = matrices.map((matrix, n) => {
      const card = element("button", {
        type: "button", role: "tab", class: "walk-card", "data-card": matrix.name, title: `${matrix.equation}\n${matrix.title}`, onclick: () => this.choose(n),
      }, named(matrix.name, matrix.axes), element("canvas", { "aria-hidden": "true" }));
      card.matrix = matrix;
      return card;
    });
    this.list.replaceChildren(...this.made);
  }

  // What a cell reads of each operand: the marked row, of k in q kᵀ the row of the key, and of v in p v a column.
  read(chosen, { row, column }) {
    const { operands, columns } = this.matrices[chosen], tokens = n => this.matrices[n].columns.length > 0;
    const first = operands.find(n => !tokens(n)), weighted = !columns.length && operands.some(tokens);
    return new Map(operands.map(n => {
      if (!tokens(n) && weighted) return [n, { column: column - this.matrices[n].from }];
      return [n, { row: columns.length && !tokens(n) && n !== first ? column : row }];
    }));
  }

  arrange() {
    const { found, height } = places(this.matrices, this.node.clientWidth);
    this.places = found;
    this.list.style.height = `${height}px`;
    this.made.forEach((one, n) => Object.assign(one.style, { left: `${found[n].x}px`, top: `${found[n].y}px` }));
    this.svg.setAttribute("width", Math.max(...found.map(({ x }) => x)) + WIDE);
    this.svg.setAttribute("height", height);
    this.svg.replaceChildren(...this.matrices.flatMap(({ operands }, n) => operands.map(one => this.line(found[one], found[n], n === this.chosen))));
  }

  line(from, to, lit) {
    const x0 = from.x + WIDE, y0 = from.y + HIGH / 2, x1 = to.x, y1 = to.y + HIGH / 2, bend = Math.max(GAP, Math.abs(x1 - x0) / 3);
    return drawing("path", { d: `M${x0} ${y0}C${x0 + bend} ${y0} ${x1 - bend} ${y1} ${x1} ${y1}`, class: lit ? "walk-line" : "walk-faint" });
  }

  // Of each matrix the marked row, or the row or column that the open sum reads; of one with other rows, all of it.
  draw() {
    const colours = palette();
    this.matrices.forEach((matrix, n) => {
      const { values, scale } = matrix, factor = this.factors.get(n), own = values.length === this.tokens ? this.row : null;
      const line = factor?.column === undefined ? null : values.map(cells => cells[factor.column] ?? 0);
      const rows = line ? [line] : (factor?.row ?? own) === null ? values : [values[factor?.row ?? own]];
      const context = sized(this.made[n].querySelector("canvas"), STRIP, THICK), wide = STRIP / rows[0].length, high = THICK / rows.length;
      rows.forEach((cells, t) => cells.forEach((value, j) => fillCell(context, colours, value, scale, j * wide, t * high, wide, high)));
    });
  }

  key(event) {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key], at = this.made.findIndex(one => one === event.target);
    if (!step || at < 0) return;
    event.preventDefault();
    const to = Math.max(0, Math.min(this.made.length - 1, at + step));
    this.made[to].focus({ preventScroll: true });
    this.choose(to);
  }

  // Where a matrix of that name that the chosen one reads is drawn, on the page.
  box(name) {
    const n = this.matrices[this.chosen].operands.find(one => this.matrices[one].name === name);
    return n === undefined ? null : this.made[n].querySelector("canvas").getBoundingClientRect();
  }
}
