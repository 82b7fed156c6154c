"""The picture of senses and its text: the numbers that were given, and no markup of a user's."""

from __future__ import annotations

import json

import pytest

from firth.errors import DataError
from firth.figures.senses import senses_map, senses_text

SENTENCES = ["a <b>light</b> bag", "the light\nis on"]
LAYERS = [[[1.0, 1.0], [1.0, 1.0]], [[1.0, 0.25], [0.25, 1.0]], [[1.0, -0.001], [-0.001, 1.0]]]


def test_the_layer_asked_for_is_shown_beside_the_static_one() -> None:
    figure = senses_map("light", SENTENCES, LAYERS, 1)
    shown = [trace for trace in figure.plot.data if trace.visible]
    assert [[list(row) for row in trace.z] for trace in shown] == [LAYERS[1], LAYERS[0]]
    assert [trace.xaxis for trace in shown] == ["x", "x2"]


def test_the_menu_changes_the_left_one_alone() -> None:
    plot = senses_map("light", SENTENCES, LAYERS, 1).plot
    (menu,) = plot.layout.updatemenus
    assert menu.active == 1
    for n, button in enumerate(menu.buttons):
        assert list(button.args[0]["visible"]) == [layer == n for layer in range(3)] + [True]


def test_the_numbers_are_those_of_every_two_sentences_once() -> None:
    rows = senses_map("light", SENTENCES, LAYERS, 2).table.rows
    assert [(row[0], row[3]) for row in rows] == [
        ("layer 0, the embedding", "1.0000"),
        ("layer 1 of 2", "0.2500"),
        ("layer 2 of 2", "-0.0010"),
    ]
    assert rows[0][1:3] == ("a <b>light</b> bag", "the light is on")


def test_sentences_and_words_are_no_markup() -> None:
    page = senses_map("<i>", SENTENCES, LAYERS, 1).plot
    told = json.dumps(page.to_dict()["layout"], default=str) + json.dumps([list(trace.hovertext[0]) for trace in page.data])
    assert "<b>" not in told
    assert "<i>" not in told
    assert "&lt;b&gt;light" in told


def test_the_text_has_both_side_by_side_or_below_each_other() -> None:
    wide = senses_text(SENTENCES, LAYERS[2], LAYERS[0], 2, 2, 80)
    assert wide.splitlines() == [
        "  1  a <b>light</b> bag",
        "  2  the light is on",
        "",
        "in context: layer 2 of 2   static: layer 0, the embedding",
        "         1      2                   1      2",
        "  1   1.00   0.00            1   1.00   1.00",
        "  2   0.00   1.00            2   1.00   1.00",
    ]
    narrow = senses_text(SENTENCES, LAYERS[2], LAYERS[0], 2, 2, 40)
    assert narrow.splitlines()[3:5] == ["in context: layer 2 of 2", "         1      2"]
    assert "static: layer 0, the embedding" in narrow.splitlines()


@pytest.mark.parametrize("matrix", [[[1.0]], [[1.0, 2.0], [1.0]], []], ids=str)
def test_a_matrix_of_other_sentences_is_refused(matrix: list[list[float]]) -> None:
    with pytest.raises(DataError, match=rf"{len(matrix)} rows of cosines for 2 sentences; expected 2 rows of 2 cosines"):
        senses_map("light", SENTENCES, [matrix], 0)
    with pytest.raises(DataError, match="rows of cosines"):
        senses_text(SENTENCES, LAYERS[0], matrix, 0, 0)
