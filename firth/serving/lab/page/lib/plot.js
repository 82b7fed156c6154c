// A figure: a Plotly plot in the page's colours, its numbers as a table, and the Python code that draws it.

import { element, table } from "./dom.js";

const css = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const drawn = new Map(); // the plots on the page and their data, to draw them again in another theme

function merged(base, over) {
  const result = { ...base };
  for (const [key, value] of Object.entries(over)) {
    const both = value && typeof value === "object" && !Array.isArray(value);
    result[key] = both ? merged(result[key] ?? {}, value) : value;
  }
  return result;
}

const axis = () => ({ gridcolor: css("--grid"), zerolinecolor: css("--line"), linecolor: css("--line") });

// The figure's own settings win, except for the background and the text colour, which are the page's.
function dressed(given) {
  const hoverlabel = { bgcolor: css("--panel"), font: { color: css("--ink") } };
  const space = { ...axis(), showbackground: false };
  const scene = { xaxis: space, yaxis: space, zaxis: space };
  const template = merged(given.template ?? {}, { layout: { xaxis: axis(), yaxis: axis(), scene, hoverlabel } });
  const layout = merged(given, { template, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)" });
  layout.font = merged(layout.font ?? {}, { color: css("--ink") });
  layout.autosize = true;
  delete layout.width;
  const sliders = layout.sliders?.map(one => merged(one, { font: { color: css("--ink") } }));
  if (sliders) layout.sliders = sliders;
  return layout;
}

// Black, the last of the colours, is invisible on a dark background.
function visible(trace) {
  const dark = css("--paper") === "#1c1c1e";
  const swap = colour => (dark && colour === "#000000" ? "#ffffff" : colour);
  const result = { ...trace };
  for (const part of ["line", "marker"]) {
    if (typeof trace[part]?.color === "string") result[part] = { ...trace[part], color: swap(trace[part].color) };
  }
  return result;
}

// Resizes a plot when its column becomes narrower because another column appears.
const widths = new ResizeObserver(entries => {
  for (const { target, contentRect } of entries) {
    const width = target._fullLayout?.width;
    if (target.isConnected && width && Math.abs(width - contentRect.width) > 1) Plotly.Plots.resize(target);
  }
});

function forget() {
  for (const place of drawn.keys()) {
    if (!place.isConnected) {
      widths.unobserve(place);
      Plotly.purge(place);
      drawn.delete(place);
    }
  }
}

async function draw(place, plot) {
  const config = { displaylogo: false, scrollZoom: plot.layout.dragmode === "pan" };
  const frames = plot.frames ? { frames: structuredClone(plot.frames) } : {};
  const data = structuredClone(plot.data).map(visible);
  await Plotly.react(place, { data, layout: dressed(structuredClone(plot.layout)), config, ...frames });
  drawn.set(place, plot);
  widths.observe(place);
}

export function redrawAll() {
  forget();
  for (const [place, plot] of drawn) draw(place, plot);
}

async function copy(text, button, source) {
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch { // no clipboard: select the text, so that the user can copy it with the keyboard
    getSelection().selectAllChildren(source);
    button.textContent = "Selected: press Ctrl+C";
  }
  setTimeout(() => { button.textContent = "Copy Python"; }, 2000);
}

export function python(code) {
  const source = element("pre", { text: code, "data-python": true });
  const button = element("button", { type: "button", text: "Copy Python", "data-testid": "copy-python" });
  button.addEventListener("click", () => copy(code, button, source));
  return [button, element("details", {}, element("summary", { text: "Python code" }), source)];
}

function tools(into, numbers, name, code) {
  const open = [...into.querySelectorAll(":scope > .tools details")].map(one => one.open);
  into.querySelector(":scope > .tools")?.remove();
  const grid = element("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "table of numbers" });
  const details = element("details", { "data-numbers": name }, element("summary", { text: "Table of numbers" }), grid);
  const fill = () => { if (details.open && !grid.firstChild) grid.append(table(numbers, name)); };
  details.addEventListener("toggle", fill); // thousands of rows are built only when the table is opened
  into.append(element("div", { class: "tools" }, details, ...python(code)));
  into.querySelectorAll(":scope > .tools details").forEach((one, n) => { one.open = open[n] ?? false; });
  fill();
}

// Draws result.figures[name] in `into`, where it replaces an earlier figure of that name.
export async function figure(into, result, name, { heading = result.headings[name] } = {}) {
  const chosen = result.figures[name];
  if (!chosen) throw new Error(`there is no figure "${name}" in the result; it has ${Object.keys(result.figures).join(", ")}`);
  let section = into.querySelector(`:scope > [data-figure="${CSS.escape(name)}"]`);
  if (!section) {
    section = element("section", { "data-figure": name }, element("div", { class: "plot" }));
    if (heading) section.prepend(element("h2", { text: heading }));
    into.append(section);
  }
  const place = section.querySelector(".plot");
  forget();
  await draw(place, chosen.plot);
  tools(section, chosen.table, name, result.python);
  return place;
}

// Shows a table without a figure; with `code`, also the Python code that computes it.
export function plainTable(into, numbers, name, { heading, code } = {}) {
  into.querySelector(`:scope > [data-plain="${CSS.escape(name)}"]`)?.remove();
  const section = element("section", { "data-plain": name }, table(numbers, name));
  if (heading) section.prepend(element("h2", { text: heading }));
  if (code) section.append(element("div", { class: "tools" }, ...python(code)));
  into.append(section);
  return section;
}
