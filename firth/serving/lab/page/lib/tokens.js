// Tokens that light up together: pointing at one, in a figure or in the list above the figures, marks it in every figure on the page.
//
// A figure names the tokens on its axes: layout.meta.tokens = { x: "source", y: "target" }. Axes of the same name have the same tokens.

import { element } from "./dom.js";

const linked = new Map(); // the plots with tokens on the page: { axes, labels, lines }
let pinned = null, lit = null; // { name, at }: the token that a click keeps, and the one that is marked now
let strip = null, waiting = 0;

const css = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const same = (one, other) => one?.name === other?.name && one?.at === other?.at;

// A Plotly label as plain text: it may contain entities and line breaks, and tags such as <b>.
export const unescaped = label => label.replace(/<br>/g, "\n").replace(/<[^>]*>/g, "")
  .replaceAll("&lt;", "<").replaceAll("&gt;", ">").replaceAll("&amp;", "&");

// Marks the row and the column of the token, or leaves only its lines.
function mark(place, { axes, lines }) {
  const on = axis => lit !== null && axes[axis] === lit.name;
  if (lines) {
    const numbers = lines.map((_, n) => n);
    const kept = lines.map(({ x, y }) => (on("x") || on("y") ? ends({ x, y }, q => on("y") && q === lit.at, k => on("x") && k === lit.at) : { x, y }));
    return Plotly.restyle(place, { x: kept.map(one => one.x), y: kept.map(one => one.y) }, numbers);
  }
  const edge = { type: "rect", line: { color: css("--mark"), width: 2 }, name: "lit" };
  const others = (place.layout.shapes ?? []).filter(shape => shape.name !== "lit");
  const rows = on("y") ? [{ ...edge, xref: "paper", x0: 0, x1: 1, y0: lit.at - 0.5, y1: lit.at + 0.5 }] : [];
  const columns = on("x") ? [{ ...edge, yref: "paper", y0: 0, y1: 1, x0: lit.at - 0.5, x1: lit.at + 0.5 }] : [];
  return Plotly.relayout(place, { shapes: [...others, ...rows, ...columns] });
}

// The lines of a trace, each from (0, query) to (1, key), that leave a query or reach a key.
function ends({ x, y }, leaves, reaches) {
  const kept = { x: [], y: [] };
  for (let n = 0; n < y.length; n += 3) {
    if (leaves(y[n]) || reaches(y[n + 1])) {
      kept.x.push(...x.slice(n, n + 3));
      kept.y.push(...y.slice(n, n + 3));
    }
  }
  return kept;
}

function light(token) {
  if (same(token, lit)) return;
  lit = token;
  strip?.querySelectorAll("button").forEach(button => {
    const here = lit && button.dataset.axis === lit.name && Number(button.dataset.at) === lit.at;
    button.toggleAttribute("data-lit", Boolean(here));
    button.setAttribute("aria-pressed", String(Boolean(here) && same(lit, pinned)));
  });
  cancelAnimationFrame(waiting);
  waiting = requestAnimationFrame(() => linked.forEach((one, place) => { if (place.isConnected) mark(place, one); }));
}

function pin(token) {
  pinned = same(token, pinned) ? null : token;
  lit = undefined; // so that the buttons show what is pinned
  light(pinned ?? token);
}

const leave = () => light(pinned);

function buttons(name, labels) {
  return labels.map((text, at) => element("button", {
    type: "button", "data-axis": name, "data-at": at, "aria-pressed": "false", text,
    onmouseenter: () => light({ name, at }), onmouseleave: leave, onfocus: () => light({ name, at }), onblur: leave, onclick: () => pin({ name, at }),
  }));
}

// The list of tokens above the figures, from which the keyboard reaches them, too.
function list(root) {
  const names = new Map();
  for (const { axes, labels } of linked.values()) for (const axis of ["y", "x"]) if (axes[axis] && labels[axis]) names.set(axes[axis], labels[axis]);
  const key = JSON.stringify([...names]);
  if (strip?.isConnected && strip.dataset.key === key) return;
  strip?.remove();
  pinned = lit = null;
  strip = element("div", { class: "tokens", "data-tokens": true }, ...[...names].map(([name, labels]) =>
    element("div", { role: "group", "aria-label": `tokens: ${name}` }, element("span", { text: name }), ...buttons(name, labels))));
  strip.dataset.key = key;
  root.querySelector(":scope > form.controls")?.after(strip);
}

const MOST = 128; // tokens that are listed

function labelsOf(axis) {
  const { tickvals, ticktext } = axis ?? {};
  return tickvals?.length && tickvals.length <= MOST && tickvals.every((at, n) => at === n) ? ticktext.map(unescaped) : null;
}

// Called when the figures in `into` are no longer shown: their tokens are not listed either.
export function unlink(into) {
  for (const place of linked.keys()) if (into.contains(place)) linked.delete(place);
  if (linked.size) return;
  strip?.remove();
  pinned = lit = null;
}

// Called for every figure that was drawn.
export function link(place, plot) {
  for (const old of linked.keys()) if (!old.isConnected) linked.delete(old);
  const axes = plot.layout.meta?.tokens;
  if (!axes) return linked.delete(place);
  const lines = plot.layout.meta.lines ? plot.data.filter(trace => trace.mode === "lines").map(({ x, y }) => ({ x, y })) : null;
  linked.set(place, { axes, lines, labels: { x: labelsOf(plot.layout.xaxis), y: labelsOf(plot.layout.yaxis) } });
  const root = place.closest("[data-room]");
  if (root) list(root);
  for (const event of ["plotly_hover", "plotly_unhover", "plotly_click"]) place.removeAllListeners(event);
  const token = ({ points: [point] }) => {
    const axis = lines ? (point.x > 0.5 ? "x" : "y") : axes.y ? "y" : "x"; // a line's keys stand on the right
    const at = lines ? point.y : point[axis];
    return axes[axis] && Number.isInteger(at) ? { name: axes[axis], at } : null;
  };
  place.on("plotly_hover", event => light(token(event) ?? lit));
  place.on("plotly_unhover", leave);
  place.on("plotly_click", event => { const one = token(event); if (one) pin(one); });
  if (lit) mark(place, linked.get(place));
  return undefined;
}
