// Numbers and colours that the parts of the walk share.

const css = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

export function shown(value) {
  if (value === null) return "hidden by the mask";
  const size = Math.abs(value);
  return value !== 0 && (size >= 1e5 || size < 1e-4) ? value.toExponential(3) : String(Number(value.toPrecision(5)));
}

export const percent = share => `${(100 * share).toFixed(1)} %`;

// A token as a label: a space or a newline must be visible.
export const visible = token => token.replace(/ /g, "␣").replace(/\n/g, "⏎").replace(/\t/g, "⇥") || "∅";

// The colours of the open theme, read once per drawing.
export function palette() {
  return { plus: css("--walk-plus"), minus: css("--walk-minus"), ink: css("--ink"), quiet: css("--quiet"), line: css("--line"), panel: css("--panel"), accent: css("--accent") };
}

// Fills one cell: blue above zero, orange below, fainter the nearer to zero.
export function fillCell(context, colours, value, scale, x, y, width, height) {
  const strength = value === null ? 0 : Math.min(1, Math.abs(value) / scale);
  context.globalAlpha = 1;
  context.fillStyle = colours.panel;
  context.fillRect(x, y, width, height);
  if (!strength) return;
  context.globalAlpha = strength;
  context.fillStyle = value > 0 ? colours.plus : colours.minus;
  context.fillRect(x, y, width, height);
  context.globalAlpha = 1;
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
