"""An HTML file that works offline: plotly.js is part of it."""

from __future__ import annotations

import html

_STYLE = """
:root { color-scheme: light dark; --ink: #1b1b1b; --paper: #fdfdfb; --line: #d8d8d2; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8e8e4; --paper: #1c1c1e; --line: #444; } }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); }
body { max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; margin: 1rem 0; }
th, td { text-align: left; padding: .3rem .9rem .3rem 0; border-bottom: 1px solid var(--line); }
td { font-variant-numeric: tabular-nums; }
pre { white-space: pre-wrap; border-left: 3px solid var(--line); padding-left: 1rem; }
.plot { overflow-x: auto; }
@media (pointer: coarse) { .modebar { display: none; } }
table { display: block; overflow-x: auto; max-width: 100%; }
details { margin: .5rem 0; }
footer { color: #777; margin-top: 3rem; }
"""

# Plots use the colours of the page and follow the system's light or dark mode.
_DRESS = """
const system = matchMedia("(prefers-color-scheme: dark)");
function dress() {
  const colour = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  for (const plot of document.querySelectorAll(".js-plotly-plot")) {
    const layout = { paper_bgcolor: "rgba(0,0,0,0)", "font.color": colour("--ink") };
    if (!plot.layout.plot_bgcolor) layout.plot_bgcolor = "rgba(0,0,0,0)"; // a figure's own lies between its cells
    for (const axis of Object.keys(plot._fullLayout).filter(name => /^[xy]axis/.test(name))) {
      Object.assign(layout, { [`${axis}.gridcolor`]: colour("--line"), [`${axis}.zerolinecolor`]: colour("--line") });
    }
    Plotly.relayout(plot, layout);
    for (const drawn of plot.querySelectorAll(".main-svg")) drawn.setAttribute("aria-hidden", "true"); // see its table
  }
}
// A swipe that begins on a plot scrolls the page, instead of zooming into the plot; a tap still arrives as a click.
const movable = ".gl-container, .slider-group, .slider-container, .updatemenu-container";
function shield(event) {
  if (event.target.closest(".js-plotly-plot") && !event.target.closest(movable)) event.stopPropagation();
}
for (const type of ["touchstart", "touchmove"]) document.body.addEventListener(type, shield, { capture: true, passive: true });
addEventListener("load", dress);
system.addEventListener("change", dress);
"""


def document(title: str, body: str) -> str:
    """`body` is HTML, `title` is text."""
    from plotly.offline import get_plotlyjs

    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><title>{html.escape(title)}</title>'
        f"<style>{_STYLE}</style><script>{get_plotlyjs()}</script></head>\n"
        f"<body>{body}<script>{_DRESS}</script></body></html>\n"
    )
