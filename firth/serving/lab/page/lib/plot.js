// A figure: a Plotly plot in the page's colours, its numbers as a table, and the Python code that draws it.

import { copyButton } from "./copy.js";
import { element, fresh, table } from "./dom.js";
import { link, unescaped } from "./tokens.js";
import { byFinger, onPointerChange, touchable } from "./touch.js";

const css = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
let loading = null; // Plotly, which is asked for once
const drawn = new Map(); // the plots on the page and their data, to draw them again in another theme

// Plotly has several megabytes, so a page without figures does not wait for it.
export function loadPlotly() {
  loading ??= new Promise((loaded, failed) => {
    const lost = () => failed(new Error("Plotly could not be loaded. Is the lab still running in its terminal?"));
    document.head.append(element("script", { src: document.querySelector("meta[name=plotly]").content, onload: loaded, onerror: lost }));
  });
  return loading;
}

function merged(base, over) {
  const result = { ...base };
  for (const [key, value] of Object.entries(over)) {
    const both = value && typeof value === "object" && !Array.isArray(value);
    result[key] = both ? merged(result[key] ?? {}, value) : value;
  }
  return result;
}

const axis = () => ({ gridcolor: css("--grid"), zerolinecolor: css("--line"), linecolor: css("--line") });

const dark = () => css("--paper") === "#1c1c1e";

// Nothing leaves this machine: Plotly's toolbar would offer to upload a chart.
const CONFIG = { displaylogo: false, plotlyServerURL: "", modeBarButtonsToRemove: ["sendChartToCloud"] };

const TITLE = 30; // pixels of the margin for a title, which the page shows as its own text because Plotly cuts long ones off
const toolbar = () => (byFinger() ? 0 : 34); // pixels above the cells and bars that Plotly's toolbar would otherwise cover

// The figure's own settings win, except for the background and the text colour, which are the page's.
function dressed(given) {
  const hoverlabel = { bgcolor: css("--panel"), font: { color: css("--ink") } };
  const space = { ...axis(), showbackground: false };
  const scene = { xaxis: space, yaxis: space, zaxis: space };
  const template = merged(given.template ?? {}, { layout: { xaxis: axis(), yaxis: axis(), scene, hoverlabel } });
  // Lines between cells are the background behind them, which a figure with such lines sets.
  const behind = given.plot_bgcolor ? css("--gap") : "rgba(0,0,0,0)";
  const layout = merged(given, { template, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: behind });
  const t = given.margin?.t ?? toolbar(), titled = given.title?.text ? TITLE : 0, above = Math.max(toolbar(), t - titled);
  delete layout.title;
  layout.margin = { ...layout.margin, t: above };
  if (layout.height) layout.height += above - t;
  layout.font = merged(layout.font ?? {}, { color: css("--ink") });
  if (byFinger() && !layout.scene) layout.dragmode = false;
  layout.autosize = true;
  delete layout.width;
  const sliders = layout.sliders?.map(one => merged(one, { font: { color: css("--ink") } }));
  if (sliders) layout.sliders = sliders;
  return layout;
}

// On a dark page, black lines and numbers are white, faint lines are lighter, and zero, the white of a heat map, is the page's colour.
function visible(trace, faint) {
  if (!dark()) return trace;
  const swap = colour => ({ "#000000": "#ffffff", ...(faint && { "#0072B2": "#56B4E9" }) })[colour] ?? colour;
  const result = { ...trace };
  if (Array.isArray(trace.colorscale)) result.colorscale = trace.colorscale.map(([at, colour]) => [at, colour === "#FFFFFF" ? css("--paper") : colour]);
  for (const part of ["line", "marker", "textfont"]) {
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
  await loadPlotly();
  const config = { ...CONFIG, scrollZoom: plot.layout.dragmode === "pan", displayModeBar: byFinger() ? false : "hover" };
  const frames = plot.frames ? { frames: structuredClone(plot.frames) } : {};
  const data = structuredClone(plot.data).map(trace => visible(trace, plot.layout.meta?.lines));
  await Plotly.react(place, { data, layout: dressed(structuredClone(plot.layout)), config, ...frames });
  for (const picture of place.querySelectorAll(".main-svg")) picture.setAttribute("aria-hidden", "true"); // the table has its numbers
  drawn.set(place, plot);
  widths.observe(place);
  link(place, plot);
}

export function redrawAll() {
  forget();
  for (const [place, plot] of drawn) draw(place, plot);
}

onPointerChange(redrawAll); // a tablet that leaves its keyboard

export function python(code) {
  const source = element("pre", { text: code, "data-python": true });
  return [copyButton("Copy Python", code, source, "copy-python"), element("details", {}, element("summary", { text: "Python code" }), source)];
}

const MOST_ROWS = 2000; // of a table in the page

// A figure's place for a screen reader: what it shows, and where its numbers are.
function describe(place, section, label) {
  const details = section.querySelector(":scope > .tools > [data-numbers]");
  details.id ||= fresh("numbers");
  for (const [name, value] of [["role", "figure"], ["aria-label", label], ["aria-details", details.id]]) place.setAttribute(name, value);
}

// Below a picture: its numbers as a table that can be opened, and its Python code.
export function tools(into, numbers, name, code, label = name) {
  const open = [...into.querySelectorAll(":scope > .tools details")].map(one => one.open);
  into.querySelector(":scope > .tools")?.remove();
  const grid = element("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": `table of numbers: ${label}` });
  const rest = numbers.rows.length - MOST_ROWS;
  const details = element("details", { "data-numbers": name }, element("summary", { text: "Table of numbers" }), grid);
  if (rest > 0) details.append(element("p", { "data-rest": true, text: `${rest.toLocaleString("en")} more rows are in the table of the Python code.` }));
  const shown = { ...numbers, rows: numbers.rows.slice(0, MOST_ROWS) };
  const fill = () => { if (details.open && !grid.firstChild) grid.append(table(shown, name)); };
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
    touchable(section.querySelector(".plot"));
    into.append(section);
  }
  const place = section.querySelector(".plot"), title = chosen.plot.layout.title?.text;
  section.querySelector(":scope > p[data-title]")?.remove();
  if (title) place.before(element("p", { "data-title": true, text: unescaped(title) }));
  forget();
  await draw(place, chosen.plot);
  const label = [heading ?? result.headings[name] ?? name, title && unescaped(title)].filter(Boolean).join(": ");
  tools(section, chosen.table, name, result.programs[name], label);
  describe(place, section, label);
  return place;
}

// Shows a table without a figure; with `code`, also the Python code that computes it.
export function plainTable(into, numbers, name, { heading, code } = {}) {
  const old = into.querySelector(`:scope > [data-plain="${CSS.escape(name)}"]`);
  const scroll = element("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": heading ?? "table" }, table(numbers, name));
  const section = element("section", { "data-plain": name }, scroll);
  if (heading) section.prepend(element("h2", { text: heading }));
  if (code) section.append(element("div", { class: "tools" }, ...python(code)));
  if (old) old.replaceWith(section); // in its place, so that the order of the page stays as it is
  else into.append(section);
  return section;
}
