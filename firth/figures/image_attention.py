"""The attention of each word of a caption over its image: a picture for each word, brightest where the word attends.

α_TRK: one grid of weights per word. Letters: T words, R rows and K columns of cells, H, W, C height, width, channels.
"""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from firth.errors import DataError
from firth.figures.alignment import visible
from firth.figures.figure import Figure, Number, Table, escaped, lay_out

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float64]

# A veil over the image, which attention lifts: it is black, so that only lightness encodes the weight.
_VEIL = [[0.0, "rgba(0, 0, 0, 0.7)"], [1.0, "rgba(0, 0, 0, 0)"]]
_DARKEST = 0.3  # what remains of a pixel without attention, as above
_PICTURE = 150  # pixels of a picture on the page
_ACROSS = 5  # pictures side by side
_SHADES = " ░▒▓█"


def overlay_figure(image_HWC: Bytes, words: Sequence[str], alpha_TRK: Floats) -> Figure:
    """Each picture is scaled by its largest weight; the table has the weights themselves."""
    from plotly.subplots import make_subplots

    _refuse_misfit(words, alpha_TRK)
    rows = -(-len(words) // _ACROSS)
    titles = [f"{escaped(visible(word))}" for word in words]
    plot = make_subplots(
        rows, min(_ACROSS, len(words)), subplot_titles=titles, horizontal_spacing=0.02, vertical_spacing=0.3 / rows
    )
    source = "data:image/png;base64," + base64.b64encode(png(image_HWC)).decode()
    height, width = image_HWC.shape[:2]
    for n, (word, alpha_RK) in enumerate(zip(words, alpha_TRK, strict=True)):
        place = {"row": n // _ACROSS + 1, "col": n % _ACROSS + 1}
        plot.add_image(source=source, hoverinfo="skip", **place)
        side_y, side_x = height / alpha_RK.shape[0], width / alpha_RK.shape[1]
        plot.add_heatmap(
            z=alpha_RK.tolist(),
            x0=side_x / 2 - 0.5,  # pixel 0 reaches from −½ to ½
            dx=side_x,
            y0=side_y / 2 - 0.5,
            dy=side_y,
            zmin=0,
            zmax=float(alpha_RK.max()),
            colorscale=_VEIL,
            showscale=False,
            hovertemplate=escaped(visible(word)) + "<br>%{z:.3f}<extra></extra>",
            **place,
        )
    plot.update_xaxes(visible=False)
    plot.update_yaxes(visible=False, autorange="reversed")
    lay_out(plot, (10, 10, 40, 10), 20 + (_PICTURE + 10) * min(_ACROSS, len(words)), 50 + (_PICTURE + 40) * rows)
    return Figure(plot, Table(("word", "row", "column", "weight"), list(_numbers(words, alpha_TRK))))


def overlay_text(words: Sequence[str], alpha_TRK: Floats, width: int = 80) -> str:
    """For a terminal: a grid per word, " ░▒▓█" from 0 to the largest weight of the word; two characters per cell."""
    _refuse_misfit(words, alpha_TRK)
    across = max(1, (width + 2) // (2 * alpha_TRK.shape[2] + 2))
    lines: list[str] = []
    for first in range(0, len(words), across):
        some, grids = words[first : first + across], alpha_TRK[first : first + across]
        column = max(2 * alpha_TRK.shape[2], *(len(visible(word)) for word in some))
        lines.append("  ".join(visible(word).ljust(column) for word in some).rstrip())
        for row in range(alpha_TRK.shape[1]):
            cells = ("".join(2 * _SHADES[round(4 * a / grid.max())] for a in grid[row]) for grid in grids)
            lines.append("  ".join(cell.ljust(column) for cell in cells).rstrip())
        lines.append("")
    return "\n".join([*lines, "blank is 0, and █ the largest weight of the word"])


def overlay_picture(image_HWC: Bytes, alpha_RK: Floats) -> Bytes:
    """The image of one word as pixels: its cells darkened as in the figure."""
    height, width = image_HWC.shape[:2]
    rows = np.arange(height) * alpha_RK.shape[0] // height
    columns = np.arange(width) * alpha_RK.shape[1] // width
    light_HW = _DARKEST + (1 - _DARKEST) * alpha_RK[rows[:, None], columns] / alpha_RK.max()
    return np.asarray(np.rint(image_HWC * light_HW[:, :, None]), np.uint8)


def png(image_HWC: Bytes) -> bytes:
    """The image as the content of a PNG file (W3C, PNG specification: signature, header, one block of rows, end)."""
    height, width = image_HWC.shape[:2]
    rows = np.concatenate((np.zeros((height, 1), np.uint8), image_HWC.reshape(height, -1)), axis=1)  # filter 0 before each row
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)  # 8 bits, RGB
    blocks = ((b"IHDR", header), (b"IDAT", zlib.compress(rows.tobytes(), 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data)) for name, data in blocks
    )


def _refuse_misfit(words: Sequence[str], alpha_TRK: Floats) -> None:
    if alpha_TRK.ndim != 3 or len(alpha_TRK) != len(words) or not len(words):
        raise DataError(f"weights of shape {alpha_TRK.shape} for {len(words)} words; expected one grid of weights per word")


def _numbers(words: Sequence[str], alpha_TRK: Floats) -> Iterator[tuple[str, str, str, str]]:
    for word, alpha_RK in zip(words, alpha_TRK, strict=True):
        for (row, column), alpha in np.ndenumerate(alpha_RK):
            yield visible(word), Number(row + 1), Number(column + 1), Number(alpha, ".4f")


def overlay_sheet(looks: Sequence[tuple[Bytes, Floats]], scale: int = 3, gap: int = 4) -> Bytes:
    """A row for each image: the image itself, then the picture of each word, `scale` times as large, on white."""
    rows = [[image, *(overlay_picture(image, alpha_RK) for alpha_RK in alpha_TRK)] for image, alpha_TRK in looks]
    side = max(max(image.shape[:2]) for row in rows for image in row) * scale + gap
    sheet = np.full((gap + side * len(rows), gap + side * max(map(len, rows)), 3), 255, np.uint8)
    for n, row in enumerate(rows):
        for m, image in enumerate(row):
            large = image.repeat(scale, 0).repeat(scale, 1)
            top, left = gap + n * side, gap + m * side
            sheet[top : top + large.shape[0], left : left + large.shape[1]] = large
    return sheet
