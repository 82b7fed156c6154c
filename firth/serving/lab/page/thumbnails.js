// Small drawings of what each room shows. They take their colours from the page, in light and in dark.

import { drawing } from "./lib/dom.js";

const WIDE = 120, TALL = 56;

const line = (d, name = "thin") => drawing("path", { d, class: name });
const box = (x, y, width, height, name = "faint", opacity = 1) => drawing("rect", { x, y, width, height, rx: 2, class: name, opacity });
const dot = (x, y, name = "accent", r = 3) => drawing("circle", { cx: x, cy: y, r, class: name });
const text = (x, y, words, name = "ink") => {
  const made = drawing("text", { x, y, class: name });
  made.textContent = words;
  return made;
};

// Horizontal bars, the longest first.
const bars = (x, lengths, top = 6) => lengths.map((length, n) => box(x, top + 12 * n, length, 8, n ? "quiet" : "accent"));

// Cells of a heat map: the larger a value, the stronger its colour.
const cells = (x, y, size, rows, name = "accent") => rows.flatMap((row, r) => row.map((value, c) => box(x + c * size, y + r * size, size - 1, size - 1, name, 0.12 + 0.88 * value)));

const diagonal = [[1, 0, 0, 0], [0.5, 0.5, 0, 0], [0.1, 0.7, 0.2, 0], [0.2, 0.1, 0.1, 0.6]];
const falling = "M10 8C22 40 40 44 110 46", slower = "M10 12C40 26 60 34 110 38";

const DRAWINGS = {
  walk: () => [0, 1, 2, 3].flatMap(n => [...[0, 1, 2].map(row => box(8 + 28 * n, 8 + 15 * row, 14, 10, row === n - 1 ? "accent" : "quiet")),
    ...(n < 3 ? [line(`M${22 + 28 * n} 13L${36 + 28 * n} 28`), line(`M${22 + 28 * n} 28L${36 + 28 * n} 28`, "thick"), line(`M${22 + 28 * n} 43L${36 + 28 * n} 43`)] : [])]),
  build: () => [box(36, 40, 48, 10), box(36, 26, 48, 10, "quiet"), box(36, 12, 48, 10, "accent"), line("M60 4V12"), line("M98 20V32M92 26H104", "thick")],
  words: () => [dot(22, 16), dot(32, 22), dot(26, 28), dot(84, 34, "mark"), dot(94, 42, "mark"), dot(98, 32, "mark"), dot(78, 10, "quiet"), dot(46, 44, "quiet"), text(36, 15, "king"), text(62, 52, "pear")],
  search: () => [drawing("circle", { cx: 24, cy: 24, r: 12, class: "thick" }), line("M33 33L42 44", "thick"), box(56, 8, 54, 6, "accent"), box(56, 20, 44, 6, "quiet"), box(56, 32, 50, 6, "quiet"), box(56, 44, 30, 6)],
  generate: () => [text(4, 32, "the list"), ...bars(64, [50, 32, 18, 8])],
  chat: () => [box(44, 6, 68, 16, "accent"), box(8, 32, 74, 18, "faint"), line("M16 41H70")],
  inspect: () => cells(12, 10, 12, [[0.2, 0.9, 0.4, 0.1, 0.6, 0.3, 0.8, 0.5], [0.7, 0.1, 0.5, 0.9, 0.2, 0.4, 0.1, 0.6], [0.1, 0.4, 0.8, 0.3, 0.9, 0.2, 0.5, 0.1]]),
  attention: () => [...cells(10, 6, 11, diagonal), ...cells(66, 6, 11, diagonal.map(row => [...row].reverse()).reverse(), "mark")],
  translate: () => [text(8, 16, "14 mai"), text(8, 48, "05-14"), ...cells(66, 6, 11, [[0, 0, 0.9, 0.3], [0, 0.1, 0.3, 0.9], [0.9, 0.2, 0, 0], [0.3, 0.9, 0, 0]])],
  classify: () => [text(6, 18, "good"), text(6, 42, "bad"), box(44, 9, 64, 12, "accent"), box(44, 33, 16, 12, "quiet")],
  tag: () => [[6, "the", "DET"], [44, "dog", "NOUN"], [84, "sat", "VERB"]].flatMap(([x, word, tag]) => [box(x, 8, 32, 40, "frame"), text(x + 6, 26, word), text(x + 4, 42, tag, "small")]),
  answer: () => [line("M8 12H112"), line("M8 28H44"), box(48, 21, 36, 13, "accent"), line("M88 28H112"), line("M8 44H80")],
  caption: () => [box(8, 6, 44, 44, "frame"), dot(24, 22, "mark", 8), box(32, 32, 12, 12, "accent"), line("M62 16H112"), line("M62 28H104"), line("M62 40H92")],
  playground: () => [...cells(6, 10, 11, [[0.9, 0.5], [0.3, 0.7], [0.6, 0.2]], "mark"), text(34, 32, "×"), ...cells(46, 10, 11, [[0.2, 0.8, 0.4], [0.9, 0.1, 0.6]]), text(84, 32, "="), ...cells(96, 16, 11, [[0.9, 0.2], [0.3, 0.7]])],
  dynamics: () => [[10, 10], [14, 44], [52, 6], [108, 14], [104, 48], [64, 50]].flatMap(([x, y], n) => {
    const [cx, cy] = n < 3 ? [38, 28] : [84, 30];
    return [line(`M${x} ${y}L${cx} ${cy}`), dot(x, y, "quiet", 2), dot(cx, cy, n < 3 ? "accent" : "mark", 5)];
  }),
  compare: () => [line("M10 6V50H112"), line(falling, "accent-line"), line(slower, "mark-line"), line("M10 14H110", "thick")],
  describe: () => bars(12, [96, 60, 40, 12]),
  lesson: () => [drawing("circle", { cx: 24, cy: 28, r: 14, class: "thick" }), text(20, 32, "?"), box(52, 8, 60, 10, "quiet"), box(52, 23, 60, 10, "accent"), box(52, 38, 60, 10, "quiet")],
  training: () => [line("M10 6V50H112"), line(falling, "accent-line"), line("M10 6C16 34 34 40 110 42", "mark-line")],
};

const any = () => [line("M8 14H50"), line("M8 28H44"), line("M8 42H50"), line("M58 28H70M65 23L70 28L65 33", "thick"), box(78, 10, 34, 36, "quiet")];

export function thumbnail(name) {
  return drawing("svg", { viewBox: `0 0 ${WIDE} ${TALL}`, class: "thumbnail", "aria-hidden": "true", "data-thumbnail": name }, ...(DRAWINGS[name] ?? any)());
}
