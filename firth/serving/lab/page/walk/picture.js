// The model as boxes with token ribbons: a column for each stage, a row for each token, and lines for what reads what.

import { drawing, element } from "../lib/dom.js";
import { fillCell, palette, percent, sized, visible } from "./format.js";

const ROW = 22, HEAD = 58, LABEL = 92, STRIP = 48, CELL = 3, NARROW = 34, WIDE = 120, NEXT = 190, SIDE_GAP = 40;
const THIN = 20, TIGHT = 12, OPENED = 440, SECONDS = 0.2; // beside an open stage: the others' width and gap; its own least width; how fast it opens
const TITLE = 24, PHONE = 640, LOW = 360, HIGH = 620, EDGE = 12; // a picture narrower than that opens a stage below its heading; heights of an open stage

const mixed = (from, to, part) => from + (to - from) * part;

// Where everything is: x and width of each stage's strip, and the labels of each side. The gaps fill the width that there is.
// `shares` says how far each stage is open, from 0 to 1; `below` is the height of what is open between headings and strips.
function layout(stages, available, shares, below) {
  const x = [], wide = [], labels = [], sides = new Set(stages.map(stage => stage.side)).size, any = shares.reduce((sum, one) => sum + one, 0);
  const rest = available - sides * LABEL - (sides - 1) * SIDE_GAP - NEXT;
  const usual = Math.max(NARROW, Math.min(WIDE, Math.floor((rest - stages.length * STRIP) / (stages.length + 1))));
  const widest = Math.max(OPENED, rest - (stages.length - 1) * THIN - (stages.length + 1) * TIGHT), gap = mixed(usual, TIGHT, any);
  let at = 0, side = null;
  stages.forEach((stage, n) => {
    if (stage.side !== side) {
      at += side === null ? 0 : SIDE_GAP;
      labels.push({ x: at, stage: n });
      at += LABEL;
      side = stage.side;
    }
    x.push(at + gap);
    wide.push(mixed(mixed(STRIP, THIN, any), widest, shares[n]));
    at += gap + wide[n];
  });
  const head = HEAD + below, rows = Math.max(...stages.map(stage => stage.tokens.length));
  return { x, wide, labels, gap, head, width: at + gap + NEXT, next: at + gap, height: head + Math.max(rows, 13) * ROW + 6 };
}

// The candidates, the last of which makes room for one that must be seen.
const listed = (candidates, one) => (candidates.some(({ id }) => id === one.id) ? candidates : [...candidates.slice(0, -1), one]);
const curve = (x0, y0, x1, y1) => `M${x0} ${y0}C${(x0 + x1) / 2} ${y0} ${(x0 + x1) / 2} ${y1} ${x1} ${y1}`;

export class Picture {
  // `panel` is what an open stage shows. `actions`: open(stage, row), token(row), retype(text), take(id, row): that token after this row
  constructor(into, panel, actions) {
    Object.assign(this, { panel, actions, opened: null, shares: [], below: 0 });
    this.at = Infinity; // how far the playing has come, in stages; Infinity: everything is there
    this.canvas = element("canvas", { "aria-hidden": "true" });
    this.svg = drawing("svg", { "aria-hidden": "true" });
    this.board = element("div", { class: "walk-board" }, this.canvas);
    this.board.append(this.svg, panel);
    this.scroll = element("div", { class: "walk-scroll", tabindex: 0, role: "region", "aria-label": "the model, from the tokens to the next token" }, this.board);
    into.append(this.scroll);
    this.board.addEventListener("click", event => this.clicked(event));
    this.board.addEventListener("pointermove", event => this.hovered(event));
    this.board.addEventListener("pointerleave", () => { this.hover = null; this.lines(); });
    this.themes = new MutationObserver(() => this.redraw());
    this.themes.observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.redraw());
    this.calm = matchMedia("(prefers-reduced-motion: reduce)");
    this.sizes = new ResizeObserver(() => { if (this.stages && this.scroll.clientWidth !== this.available) this.fit(); });
    this.sizes.observe(this.scroll);
  }

  show(facts, pinned) {
    this.stages = facts.stages;
    this.pinned = pinned;
    this.hover = null;
    this.opened = this.opened === null ? null : Math.min(this.opened, this.stages.length - 1);
    this.shares = this.stages.map((_, n) => Number(n === this.opened));
    this.board.querySelectorAll(":scope > button, :scope > input").forEach(old => old.remove());
    this.headings = this.stages.map((stage, n) => this.heading(stage, n));
    this.labels = this.tokens();
    this.board.append(...this.headings, ...this.labels.map(one => one.made));
    this.strips();
    this.following = facts.next;
    this.told = null;
    this.fit();
  }

  leave() {
    this.themes.disconnect();
    this.sizes.disconnect();
  }

  mark(pinned) {
    this.pinned = pinned;
    this.lines();
  }

  // Opens a stage in its place; the others make room for it. With null, closes it.
  open(stage) {
    if (stage === this.opened) return;
    const before = this.opened;
    this.opened = stage;
    this.headings.forEach((one, n) => one.setAttribute("aria-expanded", String(n === stage)));
    if (stage !== null) this.panel.hidden = false;
    if (stage !== null && (before === null || this.narrow())) this.fitPanel();
    if (this.narrow()) this.fit();
    else this.turn();
  }

  narrow() {
    return this.scroll.clientWidth < PHONE;
  }

  // The open stage is as high as the window lets it, and stands where the window shows the picture.
  fitPanel() {
    const seen = this.board.getBoundingClientRect().top, rows = Math.max(...this.stages.map(stage => stage.tokens.length)) * ROW;
    this.top = this.narrow() ? HEAD : Math.max(TITLE + 4, Math.min(EDGE - seen, HEAD + rows - LOW));
    const free = this.narrow() ? innerHeight - HEAD - EDGE : innerHeight - seen - this.top - EDGE;
    this.high = Math.max(Math.min(LOW, innerHeight - HEAD - EDGE), Math.min(HIGH, free));
  }

  // Moves everything from where it is to where the open stage wants it.
  turn() {
    cancelAnimationFrame(this.turning);
    const from = this.shares, to = this.stages.map((_, n) => Number(n === this.opened));
    let start = null;
    const frame = now => {
      start ??= now;
      const part = this.calm.matches ? 1 : Math.min(1, (now - start) / (1000 * SECONDS)), eased = part * (2 - part);
      this.shares = to.map((share, n) => mixed(from[n], share, eased));
      if (part < 1) this.turning = requestAnimationFrame(frame);
      this.arrange();
      if (part === 1) this.settle();
    };
    if (this.calm.matches) frame(0);
    else this.turning = requestAnimationFrame(frame);
  }

  settle() {
    this.panel.hidden = this.opened === null;
    if (this.opened === null) return;
    this.follow(this.opened);
    const over = this.panel.getBoundingClientRect().bottom + EDGE - innerHeight; // on a low window: no further than the headings stay
    if (over > 1) scrollBy({ top: Math.min(over, Math.max(0, this.board.getBoundingClientRect().top)), behavior: "instant" });
  }

  // Everything at once, without a motion: for another text or another width.
  fit() {
    cancelAnimationFrame(this.turning);
    this.available = this.scroll.clientWidth;
    if (this.opened !== null) this.fitPanel();
    this.shares = this.stages.map((_, n) => Number(n === this.opened && !this.narrow()));
    this.arrange();
    this.settle();
  }

  arrange() {
    const narrow = this.narrow(), open = this.opened !== null;
    this.place = layout(this.stages, this.scroll.clientWidth, this.shares, narrow && open ? this.high + EDGE : 0);
    const { x, wide, gap, head, width } = this.place, beside = Math.min(NARROW, gap);
    if (!narrow && (open || !this.panel.hidden)) this.place.height = Math.max(this.place.height, this.top + this.high + EDGE);
    const put = (one, place) => Object.entries(place).forEach(([name, value]) => { one.style[name] = `${value}px`; });
    put(this.board, { width, height: this.place.height });
    this.headings.forEach((one, n) => {
      put(one, { left: x[n] - beside / 2, width: wide[n] + beside - 2 });
      one.style.height = n === this.opened && !narrow ? `${TITLE}px` : "";
      one.classList.toggle("walk-thin", wide[n] + beside < NARROW + THIN);
    });
    for (const { made, row, side } of this.labels) put(made, { left: this.place.labels[side].x, top: head + row * ROW, width: LABEL - 4 });
    this.panel.classList.toggle("walk-below", narrow);
    const at = this.opened ?? this.shares.findIndex(one => one === Math.max(...this.shares));
    if (narrow) put(this.panel, { width: this.scroll.clientWidth, height: this.high });
    else put(this.panel, { left: x[at], top: this.top, width: wide[at], height: this.high });
    this.told = null;
    this.frame();
    this.lines();
  }

  middle(row) {
    return this.place.head + row * ROW + ROW / 2;
  }

  heading(stage, n) {
    return element("button", {
      type: "button", class: "walk-stage", "data-stage": n, "aria-expanded": n === this.opened ? "true" : "false", text: stage.name,
      title: `${stage.equation}\n${stage.axes}: ${stage.shape.join(" × ")}`, onclick: () => this.actions.open(n),
    });
  }

  // The tokens of each side, { made, row, side }: the number of the side.
  tokens() {
    const firsts = this.stages.flatMap((stage, n) => (n === 0 || stage.side !== this.stages[n - 1].side ? [stage] : []));
    return firsts.flatMap(({ tokens, side }, number) => tokens.map((token, row) => {
      const last = side !== "encoder" && row === tokens.length - 1 && !(side === "decoder" && row === 0);
      const made = last
        ? element("input", { type: "text", class: "walk-token", "data-last": true, value: token, "aria-label": "last token: type another one", spellcheck: "false", autocomplete: "off" })
        : element("button", { type: "button", class: "walk-token", "data-token": row, "data-side": side, text: visible(token), title: token });
      if (last) made.addEventListener("change", () => { if (made.value && made.value !== token) this.actions.retype(made.value); });
      else made.addEventListener("click", () => this.actions.token(row));
      const light = () => { this.hover = { row, side }; this.lines(); };
      made.addEventListener("pointerenter", light);
      made.addEventListener("focus", light);
      return { made, row, side: number };
    }));
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
    for (const [made, top] of [[list, this.place.head], [title, this.place.head - 24]]) {
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
    const { x, wide, head, width, height } = this.place;
    if (this.size !== `${width} ${height}`) {
      this.context = sized(this.canvas, width, height);
      this.size = `${width} ${height}`;
    }
    const context = this.context, reached = Math.floor(this.at), part = this.at - reached;
    context.clearRect(0, 0, width, height);
    this.stages.forEach((stage, n) => {
      context.globalAlpha = (n <= reached ? 1 : 0.12) * (1 - this.shares[n]);
      context.drawImage(this.drawn[n], x[n], head, wide[n], stage.tokens.length * ROW);
      context.globalAlpha = 1;
    });
    if (!Number.isFinite(this.at) || part === 0 || reached + 1 >= x.length) return;
    const to = this.stages[reached + 1], from = this.stages[reached];
    context.fillStyle = this.colours.accent;
    const start = from.side === to.side ? x[reached] + wide[reached] : this.place.labels.at(-1).x + LABEL - 6, end = x[reached + 1];
    to.tokens.forEach((token, row) => {
      context.beginPath();
      context.arc(start + (end - start) * part, this.middle(row), 3, 0, 7);
      context.fill();
    });
  }

  lines() {
    if (!this.stages) return;
    const { x, wide, head, width, height, labels, next } = this.place, found = [];
    this.svg.setAttribute("width", width);
    this.svg.setAttribute("height", height);
    const writing = this.stages.at(-1), focus = this.focus();
    // The lines to the memory are those of one stage: the chosen one, or the first that has some.
    const crossing = this.stages[this.opened]?.links.cross ? this.opened : this.stages.findIndex(stage => stage.links.cross);
    this.stages.forEach((stage, n) => {
      const same = n > 0 && this.stages[n - 1].side === stage.side;
      const start = same ? x[n - 1] + wide[n - 1] : labels.find(one => one.stage === n).x + LABEL - 4;
      const all = stage.tokens.map((_, row) => `M${start} ${this.middle(row)}L${x[n]} ${this.middle(row)}`).join("");
      found.push(drawing("path", { d: all, class: "walk-faint" }));
      if (stage.kind === "recurrent") found.push(...this.steps(stage, n, focus));
      if (stage.side !== focus.side) return;
      if (stage.links.self) {
        stage.links.self[focus.row].forEach((weight, key) => { if (weight > 0.01) found.push(this.link(start, key, x[n], focus.row, weight)); });
      } else found.push(drawing("path", { d: `M${start} ${this.middle(focus.row)}L${x[n]} ${this.middle(focus.row)}`, class: "walk-line" }));
      if (stage.links.cross && n === crossing) {
        const memory = this.stages.findLastIndex(one => one.side === "encoder");
        stage.links.cross[focus.row].forEach((weight, key) => {
          if (weight > 0.01) found.push(this.link(x[memory] + wide[memory], key, x[n], focus.row, weight, "walk-line walk-cross"));
        });
      }
    });
    const end = this.middle(writing.tokens.length - 1);
    found.push(drawing("path", { d: curve(x.at(-1) + wide.at(-1), end, next, head + ROW / 2), class: "walk-line" }));
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
    const made = drawing("path", { d: curve(x0, this.middle(key), x1, this.middle(row)), class: name, "data-weight": weight, "data-key": key });
    made.style.strokeWidth = 0.6 + 6 * weight;
    made.style.opacity = 0.25 + 0.75 * weight;
    return made;
  }

  // A recurrent layer passes its state from token to token.
  steps(stage, n, focus) {
    const left = this.place.x[n] + this.place.wide[n] / 2, rows = stage.tokens.map((_, row) => row);
    return rows.slice(1).map(row => {
      const lit = stage.side === focus.side && (stage.backwards ? row > focus.row : row <= focus.row);
      return drawing("path", { d: `M${left} ${this.middle(row - 1) + 7}L${left} ${this.middle(row) - 7}`, class: lit ? "walk-line walk-state" : "walk-faint" });
    });
  }

  cell(event) {
    const box = this.board.getBoundingClientRect(), px = event.clientX - box.left, py = event.clientY - box.top;
    const { x, wide, head } = this.place, stage = x.findIndex((left, n) => px >= left && px < left + wide[n]), row = Math.floor((py - head) / ROW);
    return stage >= 0 && row >= 0 && row < this.stages[stage].tokens.length ? { stage, row } : null;
  }

  clicked(event) {
    if (!this.stages || event.target.closest("button, input, section")) return;
    const at = this.cell(event);
    if (at) this.actions.open(at.stage, this.stages[at.stage].side === this.stages.at(-1).side ? at.row : undefined);
  }

  hovered(event) {
    if (!this.stages || event.pointerType === "touch" || event.target.closest("button, input, section")) return;
    const at = this.cell(event), hover = at ? { row: at.row, side: this.stages[at.stage].side } : null;
    if (hover?.row === this.hover?.row && hover?.side === this.hover?.side) return;
    this.hover = hover;
    this.lines();
  }

  // Scrolls the picture to a stage that a narrow screen does not show.
  follow(stage = Math.floor(this.at)) {
    const n = Math.max(0, Math.min(this.stages.length - 1, stage)), { scrollLeft, clientWidth } = this.scroll;
    const x = this.place.x[n], end = x + Math.min(this.place.wide[n], clientWidth);
    if (x < scrollLeft || end > scrollLeft + clientWidth) this.scroll.scrollLeft = x - Math.max(0, clientWidth - this.place.wide[n]) / 2;
  }
}
