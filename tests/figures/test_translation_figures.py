"""Alignments and scores by length: the picture, its table and the text for a terminal hold the numbers that were given."""

from __future__ import annotations

import numpy as np
import pytest
from rich.cells import cell_len

from firth.errors import DataError
from firth.figures.alignment import alignment_map, alignment_text
from firth.figures.figure import POSITIVE
from firth.figures.lengths import LengthBucket, score_by_length

SOURCE, TARGET = ["the", "the", "<b>"], ["le", " "]
ALPHA = [[0.9, 0.1, 0.0], [0.2, 0.3, 0.5]]
BETA = [[0.0, 0.0, 1.0], [0.25, 0.25, 0.5]]


def test_source_words_are_on_top_and_target_words_read_downwards() -> None:
    plot = alignment_map(SOURCE, TARGET, {"α": ALPHA}).plot
    (cells,) = plot.data
    assert [list(row) for row in cells.z] == ALPHA
    # By number, as "the" stands there twice; no word is markup, and a space can be seen.
    assert (list(plot.layout.xaxis.tickvals), list(plot.layout.xaxis.ticktext)) == ([0, 1, 2], ["the", "the", "&lt;b&gt;"])
    assert (list(plot.layout.yaxis.tickvals), list(plot.layout.yaxis.ticktext)) == ([0, 1], ["le", "␣"])
    assert (plot.layout.xaxis.side, plot.layout.yaxis.autorange) == ("top", "reversed")
    assert [list(row) for row in cells.hovertext] == [
        ["le ← the", "le ← the", "le ← &lt;b&gt;"],
        ["␣ ← the", "␣ ← the", "␣ ← &lt;b&gt;"],
    ]
    assert "%{z" in cells.hovertemplate
    assert not plot.layout.updatemenus


def test_zero_is_white_and_one_is_blue_whatever_the_weights_are() -> None:
    (cells,) = alignment_map(["a"], ["b"], {"α": [[0.25]]}).plot.data
    assert (cells.zmin, cells.zmax) == (0, 1)
    assert [colour for _, colour in cells.colorscale] == ["#FFFFFF", POSITIVE]


def test_the_menu_shows_one_matrix_at_a_time() -> None:
    plot = alignment_map(SOURCE, TARGET, {"layer 0": ALPHA, "<i>": BETA}).plot
    assert [trace.visible for trace in plot.data] == [True, False]
    assert [[list(row) for row in trace.z] for trace in plot.data] == [ALPHA, BETA]
    (menu,) = plot.layout.updatemenus
    assert [(button.label, button.method, button.args[0]["visible"]) for button in menu.buttons] == [
        ("layer 0", "restyle", [True, False]),
        ("&lt;i&gt;", "restyle", [False, True]),
    ]


def test_the_table_has_every_weight_of_every_matrix() -> None:
    table = alignment_map(SOURCE, TARGET, {"a": ALPHA, "b": np.array(BETA).tolist()}).table
    assert len(table.rows) == 12
    assert table.headings == ("attention", "target", "source", "weight")
    assert table.rows[1] == ("a", "le", "the", "0.1000")
    assert table.rows[11] == ("b", "␣", "<b>", "0.5000")


def test_arrays_are_as_good_as_lists() -> None:
    drawn = alignment_map(SOURCE, TARGET, {"α": np.array(ALPHA)}).plot.data[0]
    assert [list(row) for row in drawn.z] == ALPHA
    assert alignment_text(SOURCE, TARGET, np.array(ALPHA)) == alignment_text(SOURCE, TARGET, ALPHA)


def test_a_terminal_shows_a_shade_for_each_weight() -> None:
    weights = [[0.0, 0.124, 0.125, 0.374], [0.375, 0.624, 0.625, 0.874], [0.875, 1.0, 2.0, -1.0]]
    assert alignment_text(["one", "b", "c", "d"], ["x", "yes", "z"], weights).splitlines() == [
        "    one b  c  d",
        "x          ░░ ░░",
        "yes ▒▒▒ ▒▒ ▓▓ ▓▓",
        "z   ███ ██ ██",  # beyond the ends as at them
        "",
        "░ from 0.125, ▒ from 0.375, ▓ from 0.625, █ from 0.875",
    ]


def test_wide_characters_keep_the_columns_in_line() -> None:
    source, target = ["1994", "年", "5", "月末"], ["一九", "x", "e\u0301"]
    lines = alignment_text(source, target, [[1.0] * 4] * 3).splitlines()[:4]
    assert lines == ["     1994 年 5  月末", "一九 ████ ██ ██ ████", "x    ████ ██ ██ ████", "e\u0301    ████ ██ ██ ████"]
    assert {cell_len(line) for line in lines} == {20}


def test_columns_that_do_not_fit_follow_below() -> None:
    eye = np.eye(5).tolist()
    words = ["ab", "cd", "ef", "gh", "ij"]
    text = alignment_text(words, words, eye, width=8)
    bands = text.split("\n\n")[:-1]
    assert [band.splitlines()[0].split() for band in bands] == [["ab", "cd"], ["ef", "gh"], ["ij"]]
    assert max(cell_len(line) for band in bands for line in band.splitlines()) == 8
    assert [line for line in bands[1].splitlines() if "█" in line] == ["ef ██", "gh    ██"]
    assert len(alignment_text(words, words, eye, width=1).split("\n\n")) == 6  # one at a time, however narrow


def test_a_terminal_obeys_no_word() -> None:
    text = alignment_text(["\x1b[31m", "\n", ""], ["\t"], [[1.0, 0.0, 0.0]])
    assert text.splitlines()[0].split() == ["\ufffd[31m", "↵", "∅"]
    assert "\x1b" not in text


@pytest.mark.parametrize(
    ("source", "target", "weights", "told"),
    [
        (SOURCE, TARGET, ALPHA[:1], "1 rows of 3 weights for 2 target and 3 source words; expected one row per target word"),
        (SOURCE, TARGET, [[1.0], [0.5, 0.5]], "2 rows of 1 or 2 weights for 2 target and 3 source words"),
        (SOURCE, [], [], "0 rows of no weights for 0 target and 3 source words"),
        ([], ["x"], [[]], "1 rows of 0 weights for 1 target and 0 source words"),
    ],
)
def test_weights_that_do_not_fit_the_words_are_refused(
    source: list[str], target: list[str], weights: list[list[float]], told: str
) -> None:
    with pytest.raises(DataError, match=told):
        alignment_map(source, target, {"α": weights})
    with pytest.raises(DataError, match=told):
        alignment_text(source, target, weights)


MODELS = {
    "RNNsearch": [LengthBucket(1, 10, 40, 30.0, 0.5), LengthBucket(11, 20, 1200, 28.125, 0.25)],
    "<b>": [LengthBucket(7, 7, 1, None, 1.0), LengthBucket(1, 10, 40, 20.0, 0.0), LengthBucket(21, 30, 2, 5.0, 0.0)],
}


def test_each_model_is_a_line_of_its_scores() -> None:
    plot = score_by_length(MODELS, unit="words").plot
    lines = [(trace.name, list(trace.x), list(trace.y)) for trace in plot.data]
    assert lines == [
        ("RNNsearch", ["1–10", "11–20"], [30.0, 28.125]),
        ("&lt;b&gt;", ["7", "1–10", "21–30"], [None, 20.0, 5.0]),
    ]
    assert list(plot.data[0].text) == ["40 sentences", "1,200 sentences"]
    first, second = (trace.line for trace in plot.data)
    assert first.color != second.color
    assert first.dash != second.dash
    assert plot.layout.xaxis.title.text == "source length, words"


def test_lengths_rise_from_left_to_right_also_where_models_have_other_buckets() -> None:
    axis = score_by_length(MODELS).plot.layout.xaxis
    assert (axis.type, axis.categoryorder) == ("category", "array")
    assert list(axis.categoryarray) == ["1–10", "7", "11–20", "21–30"]


def test_exact_match_is_drawn_in_per_cent() -> None:
    figure = score_by_length(MODELS, "exact")
    assert list(figure.plot.data[0].y) == [50.0, 25.0]
    assert figure.plot.layout.yaxis.title.text == figure.table.headings[3] == "exact match, %"


def test_the_table_of_lengths_is_the_data_it_was_drawn_from() -> None:
    table = score_by_length(MODELS).table
    assert table.headings == ("model", "source length, tokens", "sentences", "BLEU")
    assert table.rows == [
        ("RNNsearch", "1–10", "40", "30.00"),
        ("RNNsearch", "11–20", "1200", "28.12"),
        ("<b>", "7", "1", "–"),
        ("<b>", "1–10", "40", "20.00"),
        ("<b>", "21–30", "2", "5.00"),
    ]
