// A beam search as a tree, from left to right: a column for each token, a node for each hypothesis. Branches open and close.
//
//   nodes: { parent, token, token_log_probability, log_probability, score, text, outcome }, the root first
//   results: { node, text, log_probability, score, finished }, best first

import { drawing, element } from "../lib/dom.js";
import { visible } from "../walk/format.js";

const ROW = 28, BETWEEN = 30, RESULT = 280, GAP = 60, TOP = 4, LETTER = 7.3;
const CLOSED = "closed"; // all branches are
const MARKS = { kept: "○", ended: "■", dropped: "✕" };

const number = (value, digits = 2) => value.toFixed(digits).replace("-", "−");
const middle = row => TOP + row * ROW + ROW / 2;
const curve = (x0, y0, x1, y1) => `M${x0} ${y0}C${(x0 + x1) / 2} ${y0} ${(x0 + x1) / 2} ${y1} ${x1} ${y1}`;

const listed = open => [...open].sort((a, b) => a - b).join(".");

// `changed` is told when the user opened or closed a branch.
export class Tree {
  constructor(into, changed) {
    this.changed = changed;
    this.svg = drawing("svg", { "aria-hidden": "true" });
    this.items = element("div", { role: "tree", "aria-label": "hypotheses of the beam search" });
    this.ranking = element("ol", { class: "beam-results", "aria-label": "translations, best first" });
    this.board = element("div", { class: "beam-board" }, this.items, this.ranking);
    this.board.prepend(this.svg);
    this.told = element("p", { class: "beam-told", role: "status", "data-told": true });
    const all = (text, open) => element("button", { type: "button", text, onclick: () => this.openAll(open) });
    const legend = Object.entries(MARKS).map(([outcome, mark]) => element("span", { text: `${mark} ${outcome}` }));
    into.append(
      element("p", { class: "beam-legend" }, ...legend, all("Open all", true), all("Close all", false)),
      element("div", { class: "beam-scroll", tabindex: 0, role: "region", "aria-label": "the tree, from the first token to the translations" }, this.board),
      this.told);
    this.items.addEventListener("keydown", event => this.pressed(event));
  }

  // `branches`: those that are open, as in the address.
  show({ nodes, results }, branches) {
    this.nodes = nodes.map((node, at) => ({ ...node, at, children: [] }));
    for (const node of this.nodes.slice(1)) this.nodes[node.parent].children.push(node.at);
    this.nodes.forEach(node => { node.depth = node.parent === null ? 0 : this.nodes[node.parent].depth + 1; });
    this.results = results;
    this.ranks = new Map(results.map((one, n) => [one.node, n + 1]));
    this.ways = new Set([0, ...results.flatMap(one => this.path(one.node).slice(0, -1))]); // to the translations: open at first
    this.open = this.opened(branches);
    this.current = 0; // the node that Tab reaches
    const longest = Math.min(10, Math.max(3, ...nodes.map(node => visible(node.token).length)));
    this.node = Math.round(24 + LETTER * (longest + 12)); // a mark, the token, the number and the sign of a branch
    this.column = this.node + BETWEEN;
    this.draw();
    this.tell(null);
  }

  // The open branches for the address: the numbers of their nodes, or null for those that are open at first.
  get branches() {
    const now = listed(this.open);
    return now === listed(this.ways) ? null : now || CLOSED;
  }

  opened(branches) {
    if (!branches) return new Set(this.ways);
    return new Set(branches.split(".").map(Number).filter(at => this.nodes[at]?.children.length));
  }

  // Opens and closes branches as an address says, for example after the Back button.
  restore(branches) {
    if ((branches ?? null) === this.branches) return;
    this.open = this.opened(branches);
    this.draw();
  }

  path(at) {
    const found = [at];
    while (this.nodes[found[0]].parent !== null) found.unshift(this.nodes[found[0]].parent);
    return found;
  }

  // The visible nodes, a parent before its children. Each column is filled from the top, in the order of the parents: no lines cross.
  layout() {
    const shown = [], waiting = [0], rows = [];
    while (waiting.length) {
      const at = waiting.pop(), node = this.nodes[at], row = rows[node.depth] ?? 0;
      rows[node.depth] = row + 1;
      shown.push({ ...node, row });
      if (this.open.has(at)) waiting.push(...node.children.toReversed());
    }
    return shown;
  }

  draw() {
    const held = this.items.contains(document.activeElement);
    this.shown = this.layout();
    this.place = new Map(this.shown.map(node => [node.at, node]));
    if (!this.place.has(this.current)) this.current = this.path(this.current).findLast(at => this.place.has(at));
    const right = Math.max(...this.shown.map(node => node.depth)) * this.column + this.node + GAP;
    const width = right + RESULT, height = 2 * TOP + ROW * Math.max(this.results.length, ...this.shown.map(node => node.row + 1));
    this.board.style.width = `${width}px`;
    this.board.style.height = `${height}px`;
    this.svg.setAttribute("width", width);
    this.svg.setAttribute("height", height);
    this.svg.replaceChildren(...this.lines(right));
    this.items.replaceChildren(...this.shown.map(node => this.item(node)));
    this.ranking.style.left = `${right}px`;
    this.ranking.replaceChildren(...this.results.map((one, n) => this.result(one, n)));
    if (held) this.items.querySelector('[tabindex="0"]').focus({ preventScroll: true });
  }

  item({ at, depth, row, token, log_probability, outcome, children, parent }) {
    const open = children.length ? String(this.open.has(at)) : null, rank = this.ranks.get(at);
    const name = parent === null ? "start" : visible(token);
    const made = element("div", {
      role: "treeitem", class: "beam-node", tabindex: at === this.current ? 0 : -1, "data-node": at, "data-outcome": outcome,
      "aria-level": depth + 1, "aria-expanded": open,
      onclick: () => { this.current = at; this.toggle(at); }, onfocus: () => { this.current = at; this.light(at); }, onblur: () => this.light(null),
      onpointerenter: () => this.light(at), onpointerleave: () => this.light(null),
    },
    element("span", { class: "beam-token" }, ...(parent === null ? [] : [element("span", { role: "img", "aria-label": outcome, text: MARKS[outcome] }), " "]), rank ? `${rank}. ${name}` : name),
    parent === null ? null : element("span", { class: "beam-number", text: number(log_probability) }),
    element("span", { class: "beam-fold", "aria-hidden": "true", text: open === null ? "" : open === "true" ? "−" : `+${children.length}` }));
    made.style.left = `${depth * this.column}px`;
    made.style.width = `${this.node}px`;
    made.style.top = `${TOP + row * ROW + 2}px`;
    return made;
  }

  result({ node, text, score, finished }, n) {
    const button = element("button", {
      type: "button", "data-result": n, "data-node": node, onclick: () => this.reveal(node),
      onfocus: () => this.light(node), onblur: () => this.light(null), onpointerenter: () => this.light(node), onpointerleave: () => this.light(null),
    }, element("span", { class: "beam-token", text: `${n + 1}. ${text || "∅"}${finished ? "" : " (cut off)"}` }), element("span", { class: "beam-number", text: number(score) }));
    return element("li", {}, button);
  }

  // From each node to its children; and, shown when it is marked, to each result from its node or from the closed branch that holds it.
  lines(right) {
    const steps = this.shown.filter(node => node.parent !== null).map(node => drawing("path", {
      d: curve((node.depth - 1) * this.column + this.node, middle(this.place.get(node.parent).row), node.depth * this.column, middle(node.row)),
      class: "beam-line", "data-to": node.at, "data-outcome": node.outcome,
    }));
    const ends = this.results.map((one, n) => {
      const from = this.place.get(this.path(one.node).findLast(at => this.place.has(at)));
      return drawing("path", { d: curve(from.depth * this.column + this.node, middle(from.row), right, middle(n)), class: "beam-end", "data-rank": n });
    });
    return [...ends, ...steps];
  }

  toggle(at) {
    if (!this.nodes[at].children.length) return;
    if (this.open.has(at)) this.open.delete(at);
    else this.open.add(at);
    this.draw();
    this.light(at);
    this.changed();
  }

  openAll(open) {
    this.open = new Set(open ? this.nodes.filter(node => node.children.length).map(node => node.at) : []);
    this.draw();
    this.changed();
  }

  // Opens the branch of a result and goes to its end.
  reveal(node) {
    this.path(node).slice(0, -1).forEach(at => this.open.add(at));
    this.draw();
    this.go(node);
    this.changed();
  }

  go(at) {
    this.items.querySelector('[tabindex="0"]')?.setAttribute("tabindex", -1);
    const item = this.items.querySelector(`[data-node="${at}"]`);
    this.current = at;
    item.setAttribute("tabindex", 0);
    item.focus();
  }

  pressed(event) {
    const n = this.shown.findIndex(node => node.at === this.current), { at, children, parent } = this.shown[n], open = this.open.has(at);
    const moves = {
      ArrowDown: () => this.go((this.shown[n + 1] ?? this.shown[n]).at),
      ArrowUp: () => this.go((this.shown[n - 1] ?? this.shown[n]).at),
      ArrowRight: () => (open && children.length ? this.go(children[0]) : this.toggle(at)),
      ArrowLeft: () => (open && children.length ? this.toggle(at) : this.go(parent ?? at)),
      Home: () => this.go(0),
      End: () => this.go(this.shown.at(-1).at),
      Enter: () => this.toggle(at),
      " ": () => this.toggle(at),
    };
    if (!moves[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    moves[event.key]();
  }

  // Marks the way to a node, and says what it is.
  light(at) {
    const path = new Set(at === null ? [] : this.path(at));
    this.items.querySelectorAll("[data-node]").forEach(one => one.toggleAttribute("data-lit", path.has(Number(one.dataset.node))));
    this.svg.querySelectorAll("[data-to]").forEach(one => one.toggleAttribute("data-lit", path.has(Number(one.dataset.to))));
    this.svg.querySelectorAll("[data-rank]").forEach(one => one.toggleAttribute("data-lit", this.results[one.dataset.rank].node === at));
    this.tell(at);
  }

  tell(at) {
    const node = this.nodes[at ?? 0];
    if (!node || node.parent === null) { this.told.textContent = "Point at a node to read its text so far. Click it to open or close its branch."; return; }
    const { text, token_log_probability: own, log_probability: sum, score, outcome } = node;
    this.told.textContent = `${text || "∅"}\nlog p of this token ${number(own, 4)}, of the text so far ${number(sum, 4)}; score ${number(score, 4)}; ${outcome}`;
  }
}
