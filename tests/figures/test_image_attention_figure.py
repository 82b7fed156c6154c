"""Pictures of attention over an image, from known weights."""

from __future__ import annotations

import numpy as np
import pytest

from firth.errors import DataError
from firth.figures.image_attention import overlay_figure, overlay_picture, overlay_sheet, overlay_text

IMAGE = np.full((4, 4, 3), 100, np.uint8)
ALPHA = np.array([[[0.5, 0.25], [0.25, 0.0]], [[0.0, 0.0], [0.0, 1.0]]])


def test_pixels_are_as_bright_as_the_weight_of_their_cell() -> None:
    red = overlay_picture(IMAGE, ALPHA[0])[:, :, 0]
    assert red.tolist() == [[100, 100, 65, 65], [100, 100, 65, 65], [65, 65, 30, 30], [65, 65, 30, 30]]


def test_text_shows_a_grid_for_each_word() -> None:
    shown = overlay_text(["red", "circle"], ALPHA).splitlines()
    assert shown[0].split() == ["red", "circle"]
    assert shown[1].startswith("██▒▒")
    assert shown[2].rstrip().endswith("██")


def test_a_narrow_terminal_continues_below() -> None:
    assert overlay_text(["red", "circle"], ALPHA, width=8).splitlines()[4].strip() == "circle"


def test_the_heatmaps_cover_the_image_and_the_table_has_every_weight() -> None:
    figure = overlay_figure(IMAGE, ["<b>", "circle"], ALPHA)
    heatmap = figure.plot.data[1]
    assert (heatmap.x0, heatmap.dx) == (0.5, 2.0)  # the middle of the first cell, in pixels from −½
    assert "<b>" not in figure.plot.to_json()
    assert [row[3] for row in figure.table.rows] == [
        "0.5000",
        "0.2500",
        "0.2500",
        "0.0000",
        "0.0000",
        "0.0000",
        "0.0000",
        "1.0000",
    ]


def test_a_sheet_has_a_row_per_image_and_weights_must_fit_the_words() -> None:
    assert overlay_sheet([(IMAGE, ALPHA), (IMAGE, ALPHA[:1])], scale=2, gap=1).shape == (1 + 2 * 9, 1 + 3 * 9, 3)
    with pytest.raises(DataError, match="for 1 words; expected one grid"):
        overlay_text(["red"], ALPHA)
