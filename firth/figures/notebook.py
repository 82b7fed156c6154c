"""Figures in a notebook without network access: the output contains plotly.js, compressed, and unpacks it once per page."""

from __future__ import annotations

import base64
import functools
import html
import json
import re
import uuid
from typing import Any

from firth.figures.plotly_script import compressed

# Plotly's own output would fetch plotly.js from a CDN. `new Function` runs it outside the scope of this script.
_SCRIPT = """<div id="ID" role="figure" aria-label="LABEL"></div>
<script>
(() => {
  const unpack = async packed => {
    const bytes = Uint8Array.from(atob(packed), character => character.charCodeAt(0));
    return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
  };
  const load = async () => {
    if (!window.Plotly) new Function(await unpack("PACKED"))();
    return window.Plotly;
  };
  window.firthPlotly = window.firthPlotly || load();
  window.firthPlotly.then(plotly => plotly.newPlot(document.getElementById("ID"), FIGURE));
})();
</script>
"""


def cell(plot: Any, config: dict[str, Any], label: str) -> str:
    """The HTML of a Plotly figure as the output of a cell; `label` is what a screen reader calls it."""
    figure = json.loads(plot.to_json()) | {"config": config}
    written = json.dumps(figure, ensure_ascii=False).replace("<", "\\u003c")  # "</script>" would end the script
    parts = {"ID": f"firth-{uuid.uuid4()}", "PACKED": _packed(), "FIGURE": written, "LABEL": html.escape(label)}
    return re.sub("ID|PACKED|FIGURE|LABEL", lambda name: parts[name[0]], _SCRIPT)


@functools.cache
def _packed() -> str:
    return base64.b64encode(compressed()).decode()
