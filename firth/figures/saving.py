"""Save figures: the suffix of the file decides the format.

One HTML page and one JSON file hold any number of figures. An SVG, PNG, PDF or CSV file holds one, so several figures go to
numbered files: x.svg becomes x-1.svg, x-2.svg and so on. A picture of a figure with a menu shows the entry that the page opens
with; a picture of a figure with a slider shows its last position.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from os import PathLike
from pathlib import Path
from typing import Any, Literal, cast, get_args

from firth import files
from firth.errors import ConfigError, RunError
from firth.figures.figure import Figure, Number, Table
from firth.figures.html_document import document

Format = Literal["html", "svg", "png", "pdf", "csv", "json"]

_PICTURES = ("svg", "png", "pdf")  # drawn by kaleido in a browser
_WIDTH = 960  # pixels of a figure that has no width of its own; about that of a page
_SCALE = {"png": 2.0}  # dots per pixel
_SECONDS = 60.0  # seconds that the browser may take for one figure


def expected_format(path: str | PathLike[str]) -> Format:
    """The format that the suffix of `path` names. Raises for another suffix, or if pictures cannot be drawn on this machine;
    call it before anything is computed."""
    suffix = Path(path).suffix.lower().removeprefix(".")
    if suffix not in get_args(Format):
        known = ", ".join(f".{one}" for one in get_args(Format))
        raise ConfigError(f'a figure cannot be saved as "{path}". Use a name that ends in one of: {known}')
    if suffix in _PICTURES:
        _expect_browser(path)
    return cast(Format, suffix)


def save_figure(figure: Figure, path: str | PathLike[str]) -> None:
    save_contents(path, "", [figure], [("", figure.table)], lambda: document("Figure", figure.html_with_numbers()))


def save_contents(
    path: str | PathLike[str], title: str, figures: Sequence[Figure], tables: Sequence[tuple[str, Table]], page: Callable[[], str]
) -> list[Path]:
    """Save the figures, their titled tables or the page, and return the paths. Nothing is written if one file cannot be made."""
    kind, whole = expected_format(path), Path(path)
    contents: list[bytes]
    match kind:
        case "html":
            contents = [page().encode()]
        case "json":
            contents = [_json(title, tables).encode()]
        case "csv":
            contents = [table.csv().encode() for _, table in tables]
        case _:
            contents = _pictures(figures, kind)
    for number, content in enumerate(contents, start=1):
        if not content:
            raise RunError(f"figure {number} of {len(contents)} could not be drawn as {kind}. Save it as .html or .csv")
    paths = [whole] if len(contents) == 1 else [whole.with_stem(f"{whole.stem}-{n + 1}") for n in range(len(contents))]
    for one, content in zip(paths, contents, strict=True):
        with files.replacing(one) as temporary:
            temporary.write_bytes(content)
    return paths


def _json(title: str, tables: Sequence[tuple[str, Table]]) -> str:
    contents = [
        {"section": section, "headings": list(table.headings), "rows": [[_plain(cell) for cell in row] for row in table.rows]}
        for section, table in tables
    ]
    return json.dumps({"title": title, "tables": contents}, ensure_ascii=False, allow_nan=False) + "\n"


def _plain(cell: str) -> str | float | None:
    if not isinstance(cell, Number):
        return cell
    return cell.value if math.isfinite(cell.value) else None  # JSON knows neither nan nor infinity


def _expect_browser(path: str | PathLike[str]) -> None:
    try:
        import kaleido  # noqa: F401
        from choreographer.browsers.chromium import Chromium
    except ImportError:
        raise ConfigError(f'{path} needs the package kaleido: pip install "firth[figures]". Or save as .html or .csv') from None
    browser = Chromium.find_browser(skip_local=False)
    if not browser or not Path(browser).is_file():
        raise ConfigError(
            f"{path} needs Chrome or Chromium, which was not found; install it or set BROWSER_PATH. Or save as .html or .csv"
        )


def _pictures(figures: Sequence[Figure], kind: str) -> list[bytes]:
    # In a thread, because a notebook already runs an event loop in this one.
    with ThreadPoolExecutor(1) as pool:
        try:
            return pool.submit(asyncio.run, _drawn([figure.plot for figure in figures], kind)).result()
        except Exception as error:  # from kaleido or the browser; the types differ between versions
            raise RunError(f"the browser could not draw the figure as {kind}: {_first_line(error)}. Save it as .html") from error


async def _drawn(plots: Sequence[Any], kind: str) -> list[bytes]:
    """Draw all figures in one browser. MathJax, which kaleido would load from a CDN, is disabled: no figure has equations."""
    import kaleido

    async with kaleido.Kaleido(mathjax=False, timeout=_SECONDS) as browser:
        images = []
        for plot in plots:
            options = {"format": kind, "width": plot.layout.width or _WIDTH, "scale": _SCALE.get(kind, 1.0)}
            images.append(await browser.calc_fig(_still(plot), opts=options))
        return images


def _still(plot: Any) -> Any:
    """A figure with a slider, at its last position: the first one shows only the start."""
    import plotly.graph_objects as go

    if not plot.frames:
        return plot
    still = go.Figure(plot)
    for trace, end in zip(still.data, still.frames[-1].data, strict=False):
        trace.update(end)
    for slider in still.layout.sliders:
        slider.active = len(slider.steps) - 1
    return still


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [""])[0][:200].rstrip(".") or type(error).__name__
