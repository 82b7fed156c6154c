// The nearest neighbours of a word on its map: lines to their points, their names, and a list of words for the keyboard.
//
// `neighbours`: for each point, [[word, cosine], …] of the vectors themselves, which need not be near on the map.

import { element } from "../lib/dom.js";
import { overlap, widthOf } from "./labels.js";

const css = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

const FONT = { size: 12, family: "system-ui, sans-serif" };
const SHIFTS = [14, 36, 58, 80, 102].flatMap(shift => [shift, -shift]); // pixels above and below a point

// Labels that cover none of the others: each above or below its point, as near to it as there is room.
function apart(place, labels) {
  const { xaxis, yaxis } = place._fullLayout, taken = [];
  return labels.map(({ plain, ...label }) => {
    const x = xaxis.l2p(label.x), y = yaxis.l2p(label.y), half = widthOf(plain, FONT) / 2 + 8;
    const box = shift => ({ left: x - half, right: x + half, top: y - shift - 11, bottom: y - shift + 11 });
    const free = SHIFTS.filter(shift => !taken.some(other => overlap(box(shift), other)));
    const yshift = free.find(shift => box(shift).top >= 0 && box(shift).bottom <= yaxis._length) ?? free[0] ?? SHIFTS[0];
    taken.push(box(yshift));
    return { ...label, yshift };
  });
}

// The thin lines from a point, its name, and the names with their cosines at the other ends.
function drawn(place, at, near) {
  const { x, y, hovertext, customdata } = place.data[0];
  if (at === null) return { shapes: [], annotations: [] };
  const line = { color: css("--mark"), width: 1 };
  const shapes = near.map(({ to }) => ({ type: "line", name: "neighbour", x0: x[at], y0: y[at], x1: x[to], y1: y[to], line }));
  const label = { showarrow: false, bgcolor: css("--panel"), bordercolor: css("--mark"), font: { ...FONT, color: css("--ink") } };
  const own = { ...label, x: x[at], y: y[at], text: `<b>${hovertext[at]}</b>`, plain: `${customdata[at]}  ` };
  const others = near.map(({ to, word, cosine }) => ({ ...label, x: x[to], y: y[to], text: `${hovertext[to]} ${cosine.toFixed(2)}`, plain: `${word} ${cosine.toFixed(2)}` }));
  const [mine, ...theirs] = apart(place, [own, ...others]);
  return { shapes, annotations: [...theirs, mine] };
}

export function showNeighbours(place, neighbours, choose) {
  const { customdata: words } = place.data[0], flat = place.data[0].z === undefined, number = new Map(words.map((word, n) => [word, n]));
  const hint = "Point at a word to see its nearest neighbours by cosine among the words on the map.";
  const told = element("p", { role: "status", "data-near": true, text: hint });
  const buttons = words.map((text, n) => element("button", {
    type: "button", text, tabindex: n ? -1 : 0, onfocus: () => light(n), onblur: () => light(null), onpointerenter: () => light(n), onpointerleave: () => light(null), onclick: () => choose(text),
  }));
  const bar = element("div", { role: "toolbar", "aria-label": "words on the map" }, ...buttons);
  let waiting = 0;

  function light(at) {
    const near = at === null ? [] : neighbours[at].map(([word, cosine]) => ({ to: number.get(word), word, cosine }));
    const lit = new Set(near.map(({ to }) => to));
    buttons.forEach((button, n) => button.toggleAttribute("data-lit", lit.has(n)));
    told.textContent = at === null ? hint : `${words[at]}: ${near.map(({ word, cosine }) => `${word} ${cosine.toFixed(2)}`).join(", ")}`;
    cancelAnimationFrame(waiting);
    if (flat) waiting = requestAnimationFrame(() => { if (place.isConnected) Plotly.relayout(place, drawn(place, at, near)); });
  }

  // One stop of the Tab key; the arrow keys go from word to word.
  bar.addEventListener("keydown", event => {
    const at = buttons.findIndex(one => one === document.activeElement), last = buttons.length - 1;
    const to = { ArrowRight: at + 1, ArrowDown: at + 1, ArrowLeft: at - 1, ArrowUp: at - 1, Home: 0, End: last }[event.key];
    if (to === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    const next = buttons[Math.max(0, Math.min(last, to))];
    buttons[at].tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  });

  place.on("plotly_hover", ({ points: [{ pointNumber }] }) => light(pointNumber));
  place.on("plotly_unhover", () => light(null));
  place.after(told, element("div", { class: "tokens", "data-words": true }, bar));
}
