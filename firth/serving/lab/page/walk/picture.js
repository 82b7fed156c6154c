// The model as boxes with token ribbons: a column for each stage, a row for each token, and lines for what reads what.

import { drawing, element } from "../lib/dom.js";
import { fillCell, palette, percent, sized, visible } from "./format.js";

const ROW = 22, HEAD = 58, LABEL = 92, STRIP = 48, CELL = 3, NARROW = 34, WIDE = 120, NEXT = 190, SIDE_GAP = 40;

// Where everything is: x of each stage's strip, and of the labels of each side. The gaps fill the width that there is.
function layout(stages, available) {
  const x = [], labels = [], sides = new Set(stages.map(stage => stage.side)).size;
  const fixed = stages.length * STRIP + sides * LABEL + (sides - 1) * SIDE_GAP + NEXT;
  const gap = Math.max(NARROW, Math.min(WIDE, Math.floor((available - fixed) / (stages.length + 1))));
  let at = 0, side = null;
  stages.forEach((stage, n) => {
    if (stage.side !== side) {
      at += side === null ? 0 : SIDE_GAP;
      labels.push({ x: at, stage: n });
      at += LABEL;
      side = stage.side;
    }
    x.push(at + gap);
    at += gap + STRIP;
  });
  const rows = Math.max(...stages.map(stage => stage.tokens.length));
  return { x, labels, gap, width: at + gap + NEXT, next: at + gap, height: HEAD + Math.max(rows, 13) * ROW + 6 };
}

// The candidates, the last of which makes room for one that must be seen.
const listed = (candidates, one) => (candidates.some(({ id }) => id === one.id) ? candidates : [...candidates.slice(0, -1), one]);
const middle = row => HEAD + row * ROW + ROW / 2;
const curve = (x0, y0, x1, y1) => `M${x0} ${y0}C${(x0 + x1) / 2} ${y0} ${(x0 + x1) / 2} ${y1} ${x1} ${y1}`;

export class Picture {
  // `actions`: choose(stage), token(row), retype(text), take(id, row): that token after this row
  constructor(into, actions) {
    this.actions = actions;
    this.at = Infinity; // how far the playing has come, in stages; Infinity: everything is there
    this.canvas = element("canvas", { "aria-hidden": "true" });
    this.svg = drawing("svg", { "aria-hidden": "true" });
    this.board = element("div", { class: "walk-board" }, this.canvas);
    this.board.append(this.svg);
    this.scroll = element("div", { class: "walk-scroll", tabindex: 0, role: "region", "aria-label": "the model, from the tokens to the next token" }, this.board);
    into.append(this.scroll);
    this.board.addEventListener("click", event => this.clicked(event));
    this.board.addEventListener("pointermove", event => this.hovered(event));
    this.board.addEventListener("pointerleave", () => { this.hover = null; this.lines(); });
    this.themes = new MutationObserver(() => this.redraw());
    this.themes.observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.redraw());
  }

  show(facts, chosen, pinned) {
    this.stages = facts.stages;
    this.place = layout(this.stages, this.scroll.clientWidth);
    this.chosen = chosen;
    this.pinned = pinned;
    this.hover = null;
    this.board.querySelectorAll(":scope > button, :scope > input, :scope > ol").forEach(old => old.remove());
    this.board.style.width = `${this.place.width}px`;
    this.board.style.height = `${this.place.height}px`;
    this.board.append(...this.headings(), ...this.labels());
    this.next(facts.next);
    this.redraw();
  }

  choose(stage, pinned) {
    this.chosen = stage;
    this.pinned = pinned;
    this.board.querySelectorAll("[data-stage]").forEach(one => one.setAttribute("aria-pressed", String(Number(one.dataset.stage) === stage)));
    this.redraw();
    this.follow(stage);
  }

  headings() {
    return this.stages.map((stage, n) => {
      const made = element("button", {
        type: "button", class: "walk-stage", "data-stage": n, "aria-pressed": n === this.chosen, text: stage.name,
        title: `${stage.equation}\n${stage.axes}: ${stage.shape.join(" × ")}`, onclick: () => this.actions.choose(n),
      });
      const beside = Math.min(NARROW, this.place.gap);
      made.style.left = `${this.place.x[n] - beside / 2}px`;
      made.style.width = `${STRIP + beside - 2}px`;
      return made;
    });
  }

  labels() {
    const found = [];
    for (const { x, stage } of this.place.labels) {
      const { tokens, side } = this.stages[stage], writes = side !== "encoder";
      tokens.forEach((token, row) => {
        const last = writes && row === tokens.length - 1 && !(side === "decoder" && row === 0);
        const made = last
          ? element("input", { type: "text", class: "walk-token", "data-last": true, value: token, "aria-label": "last token: type another one", spellcheck: "false", autocomplete: "off" })
          : element("button", { type: "button", class: "walk-token", "data-token": row, "data-side": side, text: visible(token), title: token });
        made.style.left = `${x}px`;
        made.style.top = `${HEAD + row * ROW}px`;
        made.style.width = `${LABEL - 4}px`;
        if (last) made.addEventListener("change", () => { if (made.value && made.value !== token) this.actions.retype(made.value); });
        else made.addEventListener("click", () => this.actions.token(row));
        const light = () => { this.hover = { row, side }; this.lines(); };
        made.addEventListener("pointerenter", light);
        made.addEventListener("focus", light);
        found.push(made);
      });
    }
    return found;
  }

  next(following) {
    this.following = following;
    this.told = null;
    this.distribution();
  }

  // The distribution over the token after the marked one, where the ribbons end; a click takes a token.
  distribution() {
    const { candidates, drawn, ended, earlier } = this.following, { tokens, side } = this.stages.at(-1), focus = this.focus();
    const row = focus.side === side ? focus.row : tokens.length - 1, before = earlier[row];
    if (this.told === row) return;
    this.told = row;
    this.board.querySelectorAll(":scope > .walk-next, :scope > .walk-after").forEach(old => old.remove());
    const [shares, one] = before ? [before.candidates, before.came] : [candidates, drawn];
    const rows = ended && !before ? [element("li", { text: "The text has ended." })] : listed(shares, one).map(({ id, token, probability, share }) => {
      const bar = element("span", { class: "walk-bar" });
      bar.style.width = percent(share).replace(" ", "");
      return element("li", {}, element("button", {
        type: "button", "data-candidate": id, "data-drawn": !before && id === one.id, "data-came": Boolean(before) && id === one.id,
        title: `${percent(probability)} before temperature and top-k`, onclick: () => this.actions.take(id, row),
      }, bar, element("span", { text: visible(token) }), element("span", { class: "walk-share", text: percent(share) })));
    });
    const list = element("ol", { class: "walk-next", "aria-label": `next token, after ${visible(tokens[row])}` }, ...rows);
    const title = element("p", { class: "walk-after" }, "after ", element("b", { text: visible(tokens[row]) }), before ? ", where this came:" : null);
    for (const [made, top] of [[list, HEAD], [title, HEAD - 24]]) {
      made.style.left = `${this.place.next}px`;
      made.style.top = `${top}px`;
      made.style.width = `${NEXT - 6}px`;
      this.board.append(made);
    }
  }

  redraw() {
    if (!this.stages) return;
    this.strips();
    this.frame();
    this.lines();
  }

  // Every strip once, beside each other, from which the frames of an animation are copied.
  strips() {
    this.colours = palette();
    this.drawn = this.stages.map(stage => {
      const canvas = document.createElement("canvas"), count = stage.strip[0].length, wide = Math.max(CELL, Math.floor(STRIP / count));
      const context = sized(canvas, STRIP, stage.tokens.length * ROW);
      stage.strip.forEach((row, t) => row.forEach((value, j) => fillCell(context, this.colours, value, stage.scale, j * wide, t * ROW + 4, wide, ROW - 8)));
      return canvas;
    });
  }

  // One frame: what the playing has reached, and dots on their way to the next stage.
  frame() {
    const { x, width, height } = this.place;
    if (this.size !== `${width} ${height}`) {
      this.context = sized(this.canvas, width, height);
      this.size = `${width} ${height}`;
    }
    const context = this.context, reached = Math.floor(this.at), part = this.at - reached;
    context.clearRect(0, 0, width, height);
    this.stages.forEach((stage, n) => {
      context.globalAlpha = n <= reached ? 1 : 0.12;
      context.drawImage(this.drawn[n], x[n], HEAD, STRIP, stage.tokens.length * ROW);
      context.globalAlpha = 1;
      if (n === this.chosen) {
        context.strokeStyle = this.colours.accent;
        context.lineWidth = 2;
        context.strokeRect(x[n] - 3, HEAD, STRIP + 6, stage.tokens.length * ROW);
      }
    });
    if (!Number.isFinite(this.at) || part === 0 || reached + 1 >= x.length) return;
    const to = this.stages[reached + 1], from = this.stages[reached];
    context.fillStyle = this.colours.accent;
    const start = from.side === to.side ? x[reached] + STRIP : this.place.labels.at(-1).x + LABEL - 6, end = x[reached + 1];
    to.tokens.forEach((token, row) => {
      context.beginPath();
      context.arc(start + (end - start) * part, middle(row), 3, 0, 7);
      context.fill();
    });
  }

  lines() {
    if (!this.stages) return;
    const { x, width, height, labels, next } = this.place, found = [];
    this.svg.setAttribute("width", width);
    this.svg.setAttribute("height", height);
    const writing = this.stages.at(-1), focus = this.focus();
    // The lines to the memory are those of one stage: the chosen one, or the first that has some.
    const crossing = this.stages[this.chosen]?.links.cross ? this.chosen : this.stages.findIndex(stage => stage.links.cross);
    this.stages.forEach((stage, n) => {
      const same = n > 0 && this.stages[n - 1].side === stage.side;
      const start = same ? x[n - 1] + STRIP : labels.find(one => one.stage === n).x + LABEL - 4;
      const all = stage.tokens.map((_, row) => `M${start} ${middle(row)}L${x[n]} ${middle(row)}`).join("");
      found.push(drawing("path", { d: all, class: "walk-faint" }));
      if (stage.kind === "recurrent") found.push(...this.steps(stage, n, focus));
      if (stage.side !== focus.side) return;
      if (stage.links.self) {
        stage.links.self[focus.row].forEach((weight, key) => { if (weight > 0.01) found.push(this.link(start, key, x[n], focus.row, weight)); });
      } else found.push(drawing("path", { d: `M${start} ${middle(focus.row)}L${x[n]} ${middle(focus.row)}`, class: "walk-line" }));
      if (stage.links.cross && n === crossing) {
        const memory = this.stages.findLastIndex(one => one.side === "encoder");
        stage.links.cross[focus.row].forEach((weight, key) => {
          if (weight > 0.01) found.push(this.link(x[memory] + STRIP, key, x[n], focus.row, weight, "walk-line walk-cross"));
        });
      }
    });
    const end = middle(writing.tokens.length - 1);
    found.push(drawing("path", { d: curve(x.at(-1) + STRIP, end, next, HEAD + ROW / 2), class: "walk-line" }));
    this.svg.replaceChildren(...found);
    this.distribution();
    this.board.querySelectorAll("[data-token], [data-last]").forEach(one => {
      const row = one.dataset.token === undefined ? writing.tokens.length - 1 : Number(one.dataset.token), side = one.dataset.side ?? writing.side;
      one.classList.toggle("walk-lit", row === focus.row && side === focus.side);
    });
  }

  // The row whose lines are shown: that under the pointer, the pinned one, or the last.
  focus() {
    const { tokens, side } = this.stages.at(-1);
    if (this.hover && this.hover.row < this.stages.find(one => one.side === this.hover.side).tokens.length) return this.hover;
    return { row: Math.min(this.pinned ?? tokens.length - 1, tokens.length - 1), side };
  }

  link(x0, key, x1, row, weight, name = "walk-line") {
    const made = drawing("path", { d: curve(x0, middle(key), x1, middle(row)), class: name, "data-weight": weight, "data-key": key });
    made.style.strokeWidth = 0.6 + 6 * weight;
    made.style.opacity = 0.25 + 0.75 * weight;
    return made;
  }

  // A recurrent layer passes its state from token to token.
  steps(stage, n, focus) {
    const left = this.place.x[n] + STRIP / 2, rows = stage.tokens.map((_, row) => row);
    return rows.slice(1).map(row => {
      const lit = stage.side === focus.side && (stage.backwards ? row > focus.row : row <= focus.row);
      return drawing("path", { d: `M${left} ${middle(row - 1) + 7}L${left} ${middle(row) - 7}`, class: lit ? "walk-line walk-state" : "walk-faint" });
    });
  }

  cell(event) {
    const box = this.board.getBoundingClientRect(), px = event.clientX - box.left, py = event.clientY - box.top;
    const stage = this.place.x.findIndex(x => px >= x && px < x + STRIP), row = Math.floor((py - HEAD) / ROW);
    return stage >= 0 && row >= 0 && row < this.stages[stage].tokens.length ? { stage, row } : null;
  }

  clicked(event) {
    if (!this.stages || event.target.closest("button, input")) return;
    const at = this.cell(event);
    if (at) this.actions.choose(at.stage, this.stages[at.stage].side === this.stages.at(-1).side ? at.row : undefined);
  }

  hovered(event) {
    if (!this.stages || event.pointerType === "touch" || event.target.closest("button, input")) return;
    const at = this.cell(event), hover = at ? { row: at.row, side: this.stages[at.stage].side } : null;
    if (hover?.row === this.hover?.row && hover?.side === this.hover?.side) return;
    this.hover = hover;
    this.lines();
  }

  // Scrolls to a stage that a narrow screen does not show.
  follow(stage = Math.floor(this.at)) {
    const x = this.place.x[Math.max(0, Math.min(this.stages.length - 1, stage))], { scrollLeft, clientWidth } = this.scroll;
    if (x < scrollLeft || x + STRIP > scrollLeft + clientWidth) this.scroll.scrollLeft = x - clientWidth / 2;
  }
}
