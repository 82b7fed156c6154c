// What an open stage shows in its place: its matrices as cards, the chosen one as a grid, and one of its numbers as a sum beside it.

import { element } from "../lib/dom.js";
import { Cards } from "./cards.js";
import { spelled } from "./cell.js";
import { Grid } from "./grid.js";

// The matrix that a stage opens with: its attention weights or probabilities, otherwise what leaves it.
export const firstOf = matrices => {
  const found = matrices.findIndex(one => one.unit && one.columns.length);
  return found < 0 ? matrices.length - 1 : found;
};

export class Opened {
  // `actions`: close(), choose(matrix), spell(row, column), unspell()
  constructor(actions) {
    this.actions = actions;
    this.title = element("h2");
    this.settings = element("div", { class: "walk-settings" });
    this.cards = new Cards(actions.choose);
    this.grid = new Grid(actions.spell);
    this.sum = element("div");
    this.beside = element("section", { class: "walk-sum", "data-look": "cell", "aria-label": "one number, spelled out", tabindex: 0, hidden: true },
      element("button", { type: "button", class: "walk-close", text: "×", "aria-label": "Close the sum", onclick: actions.unspell }), this.sum);
    this.head = element("div", { class: "walk-head" }, this.title, this.settings,
      element("button", { type: "button", class: "walk-close", text: "×", "aria-label": "Close the stage", title: "Close (Escape)", onclick: actions.close }));
    this.node = element("section", { class: "walk-open", id: "walk-open", "data-look": "stage", "aria-label": "the open stage", hidden: true },
      this.head,
      this.cards.node, element("div", { class: "walk-work" }, this.grid.node, this.beside));
    this.calm = matchMedia("(prefers-reduced-motion: reduce)");
    new ResizeObserver(() => this.fit()).observe(this.node);
  }

  // The matrices of a stage, one of them chosen; `row` is the marked token, `opened` the cell whose sum is shown.
  show(stage, matrices, row, chosen, opened) {
    Object.assign(this, { stage, matrices, chosen, opened });
    this.title.textContent = `Inside ${stage.name}`;
    this.node.setAttribute("aria-label", `inside ${stage.name}`);
    const matrix = matrices[chosen], own = matrix.rows.length === stage.tokens.length ? row : null;
    const here = opened && { row: opened.row, column: opened.column - matrix.from };
    this.cards.show(matrices, stage.tokens.length, row, chosen, opened);
    this.grid.show(matrix, own, here);
  }

  // The sum of the open cell; with null, none.
  spell(facts) {
    this.beside.hidden = !facts;
    if (!facts) return;
    spelled(this.sum, facts, this.matrices[this.chosen]);
    this.beside.scrollTop = 0;
    this.reveal();
    this.bring();
  }

  // The sum has taken room from the matrix: the open cell must still be seen, and on a phone the beginning of the sum with it.
  reveal() {
    const cell = this.grid.cells[this.opened.row]?.[this.opened.column - this.matrices[this.chosen].from];
    if (!cell) return;
    this.grid.reveal(cell);
    if (!this.node.classList.contains("walk-below")) return;
    const bottom = one => one.getBoundingClientRect().bottom, below = bottom(this.beside) - bottom(this.node);
    this.node.scrollTop += Math.max(0, Math.min(below + 8, cell.getBoundingClientRect().top - bottom(this.head) - 20));
  }

  // The factors come from the row and the column that they stand in.
  bring() {
    if (this.calm.matches) return;
    for (const cell of this.sum.querySelectorAll("[data-factor]")) {
      const from = this.cards.box(cell.dataset.factor), to = cell.getBoundingClientRect();
      if (!from || !to.width || to.bottom > this.beside.getBoundingClientRect().bottom) continue;
      const part = element("span", { class: "walk-flying", "aria-hidden": "true", text: cell.textContent });
      Object.assign(part.style, { left: `${to.left}px`, top: `${to.top}px` });
      this.node.append(part);
      const start = `translate(${from.left - to.left + (from.width * Number(cell.dataset.part))}px, ${from.top - to.top}px)`;
      part.animate([{ transform: start, opacity: 0.4 }, { transform: "translate(0)", opacity: 1 }], { duration: 350, easing: "ease-out" }).finished.finally(() => part.remove());
    }
  }

  fit() {
    if (this.node.hidden || !this.matrices) return;
    this.cards.arrange();
    const width = this.grid.around.clientWidth;
    if (width === this.width) return;
    this.width = width;
    clearTimeout(this.waiting); // until the stage has reached its width
    this.waiting = setTimeout(() => { if (!this.node.hidden) this.grid.refill(); }, 60);
  }

  redraw() {
    if (this.node.hidden || !this.matrices) return;
    this.cards.draw();
    this.grid.refill();
  }
}
