// One number, spelled out: each step of its computation, and of a sum its largest terms.

import { element } from "../lib/dom.js";
import { shown, visible } from "./format.js";

const factor = (value, name, part) => element("td", { "data-factor": name, "data-part": part, text: shown(value) });

function terms({ names, terms: listed, rest, count }) {
  const most = Math.max(...listed.map(term => Math.abs(term.product)), 1e-30);
  const rows = listed.map(term => {
    const bar = element("span", { class: `walk-term ${term.product < 0 ? "walk-minus" : "walk-plus"}` });
    bar.style.width = `${(40 * Math.abs(term.product)) / most}px`;
    return element("tr", { "data-term": term.n },
      element("td", { text: visible(term.label) }), factor(term.left, names[0], term.n / count), factor(term.right, names[1], term.n / count),
      element("td", { text: shown(term.product) }), element("td", {}, bar));
  });
  if (rest) rows.push(element("tr", {}, element("td", { colspan: 3, text: `${rest.count} smaller terms` }), element("td", { text: shown(rest.value) }), element("td")));
  const head = [element("td"), ...[...names, "product"].map(text => element("th", { scope: "col", text })), element("td")];
  return element("details", { open: true }, element("summary", { text: `${count} terms` }),
    element("div", { class: "walk-scroll" }, element("table", {}, element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...rows))));
}

export function spelled(into, facts, matrix) {
  const column = matrix.columns.length ? visible(matrix.columns[facts.column - matrix.from] ?? String(facts.column)) : facts.column;
  const lines = facts.lines.map((line, n) => element("li", { "data-line": n },
    element("span", { text: `${line.label} ` }), element("b", { "data-value": line.value, text: shown(line.value) }), line.terms ? terms(line) : null));
  into.replaceChildren(
    element("h3", { "data-cell": true, text: `${facts.name}[${visible(matrix.rows[facts.row])}, ${column}] = ${shown(facts.value)}` }),
    element("ol", { class: "walk-lines" }, ...lines));
}
