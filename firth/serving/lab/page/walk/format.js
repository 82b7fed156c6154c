// Numbers and colours that the parts of the walk share.

import { element } from "../lib/dom.js";

const css = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

export function shown(value) {
  if (value === null) return "hidden by the mask";
  const size = Math.abs(value);
  return value !== 0 && (size >= 1e5 || size < 1e-4) ? value.toExponential(3) : String(Number(value.toPrecision(5)));
}

// A number that fits into a cell.
export function short(value) {
  if (value === null) return "·";
  const size = Math.abs(value);
  if (size >= 1e4 || (value !== 0 && size < 0.005)) return value.toExponential(0).replace("e+", "e");
  return size >= 99.5 ? value.toFixed(0) : String(Number(value.toPrecision(2)));
}

export const percent = share => `${(100 * share).toFixed(1)} %`;

// A token as a label: a space or a newline must be visible.
export const visible = token => token.replace(/ /g, "␣").replace(/\n/g, "⏎").replace(/\t/g, "⇥") || "∅";

// The letters below the name, as in the names of tensors: q_TD.
export function named(name, axes) {
  return element("span", { class: "walk-name" }, element("b", { text: name }), element("sub", { text: axes }));
}

// The colours of the open theme, read once per drawing.
export function palette() {
  return { plus: css("--walk-plus"), minus: css("--walk-minus"), ink: css("--ink"), quiet: css("--quiet"), line: css("--line"), panel: css("--panel"), accent: css("--accent") };
}

const strengthOf = (value, scale) => (value === null ? 0 : Math.min(1, Math.abs(value) / scale));

// Fills one cell: blue above zero, orange below, fainter the nearer to zero.
export function fillCell(context, colours, value, scale, x, y, width, height) {
  const strength = strengthOf(value, scale);
  context.globalAlpha = 1;
  context.fillStyle = colours.panel;
  context.fillRect(x, y, width, height);
  if (!strength) return;
  context.globalAlpha = strength;
  context.fillStyle = value > 0 ? colours.plus : colours.minus;
  context.fillRect(x, y, width, height);
  context.globalAlpha = 1;
}

const channels = hex => [1, 3, 5].map(at => parseInt(hex.slice(at, at + 2), 16));
const linear = part => (part <= 0.04045 * 255 ? part / 255 / 12.92 : ((part / 255 + 0.055) / 1.055) ** 2.4);

// The same colour for an element, and black or white for the number on it: one of them has a contrast of at least 4.5 to 1.
export function cellColours(colours, value, scale) {
  const strength = strengthOf(value, scale), from = channels(colours.panel), to = channels(value > 0 ? colours.plus : colours.minus);
  const mixed = from.map((part, n) => Math.round(part + strength * (to[n] - part))), [r, g, b] = mixed.map(linear);
  const light = 0.2126 * r + 0.7152 * g + 0.0722 * b; // relative luminance, as WCAG defines it
  return { background: `rgb(${mixed.join(" ")})`, color: light > 0.179 ? "#000000" : "#ffffff" };
}

// A canvas that is sharp on every screen; the context counts in CSS pixels.
export function sized(canvas, width, height) {
  const ratio = devicePixelRatio || 1;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  return context;
}
