"""Axes between word lists: known places, the float64 loops of the oracle, pictures, and the verb."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from shell import Firth

from firth.errors import ConfigError, DataError
from firth.figures.ranking import axis_bars
from firth.figures.word_map import axis_plane
from firth.oracles.word_axis import places
from firth.vectors import WordVectors

# On the axis from west to east; the lengths must not matter.
COMPASS = {
    "east": (2, 0, 0),
    "west": (-5, 0, 0),
    "north": (0, 3, 0),
    "south": (0, -1, 0),
    "northeast": (7, 7, 0),
    "southwest": (-1, -1, 0),
    "up": (0, 0, 9),
}


def compass() -> WordVectors:
    return WordVectors(list(COMPASS), np.array(list(COMPASS.values()), np.float32))


def random_vectors(count: int = 300, width: int = 20) -> WordVectors:
    rows = np.random.default_rng(0).standard_normal((count, width)) * 3
    return WordVectors([f"w{n}" for n in range(count)], rows.astype(np.float32))


def test_places_on_a_compass_are_known() -> None:
    axis = compass().axis("east", "west")
    expected = {"east": 1, "west": -1, "north": 0, "south": 0, "northeast": 0.5**0.5, "southwest": -(0.5**0.5), "up": 0}
    assert {word: axis[word] for word in COMPASS} == pytest.approx(expected, abs=1e-6)


def test_the_mean_of_a_list_is_that_of_unit_vectors() -> None:
    """north is 3 long and east 2; the axis still points exactly between them."""
    axis = compass().axis(["east", "north"], ["up"])
    assert axis["east"] == pytest.approx(axis["north"], abs=1e-6)
    np.testing.assert_allclose(axis.direction_d, np.array([0.5, 0.5, -1]) / math.sqrt(1.5), atol=1e-6)


def test_places_are_those_of_the_oracle() -> None:
    vectors = random_vectors()
    positive, negative = ["w3", "w5", "w8"], ["w13", "w21"]
    rows = {word: vectors[word].tolist() for word in vectors}
    expected = places(rows, positive, negative)
    axis = vectors.axis(positive, negative)
    np.testing.assert_allclose(axis.cosine_V, list(expected.values()), atol=4 * np.finfo(np.float32).eps * 20**0.5)
    ranked = sorted((word for word in expected if word not in (*positive, *negative)), key=lambda word: -expected[word])
    assert [word for word, _ in axis.highest(7)] == ranked[:7]
    assert [word for word, _ in axis.lowest(7)] == ranked[: -7 - 1 : -1]
    assert [word for word, _ in axis.highest(3, restrict_vocab=50)] == [w for w in ranked if int(w[1:]) < 50][:3]


def test_the_ends_are_left_out_of_the_ranking_and_swapping_them_turns_it_round() -> None:
    axis, turned = compass().axis("east", "west"), compass().axis("west", "east")
    assert axis.highest(99)[0][0] == "northeast"
    assert {"east", "west"}.isdisjoint(word for word, _ in (*axis.highest(99), *axis.lowest(99)))
    assert axis.highest(1) == [(word, -value) for word, value in turned.lowest(1)]


@pytest.mark.parametrize(
    ("positive", "negative", "error", "message"),
    [
        (["east"], [], ConfigError, "words at both ends"),
        (["east"], ["northeast", "east", "northeast", "east"], None, ""),
        (["east"], ["east"], ConfigError, "the same mean vector"),
        (["est"], ["west"], DataError, 'Did you mean "'),
    ],
)
def test_lists_that_span_no_axis_are_refused(positive, negative, error, message) -> None:
    if error is None:
        assert compass().axis(positive, negative)["south"] > 0
        return
    with pytest.raises(error, match=message):
        compass().axis(positive, negative)


def test_a_topn_of_none_is_refused() -> None:
    with pytest.raises(ConfigError, match="topn is 0"):
        compass().axis("east", "west").highest(0)
    with pytest.raises(ConfigError, match="restrict_vocab is -1"):
        compass().axis("east", "west").lowest(1, restrict_vocab=-1)


def test_bars_have_the_colour_of_their_side_and_words_are_no_markup() -> None:
    figure = axis_bars([("<b>", 0.5), ("low", -0.25)], "<i> … b")
    (bars,) = figure.plot.data
    assert list(bars.x) == [0.5, -0.25]
    assert len(set(bars.marker.color)) == 2
    assert "<b>" not in str(figure.plot.layout)
    assert "<i>" not in str(figure.plot.layout)
    assert figure.table.rows[1] == ("low", "-0.2500")


def test_a_plane_has_both_places_and_both_zeros() -> None:
    figure = axis_plane(["a", "b"], [(0.5, -0.5), (0.0, 1.0)], ("x", "<y>"))
    (points,) = figure.plot.data
    assert (list(points.x), list(points.y)) == ([0.5, 0.0], [-0.5, 1.0])
    assert figure.plot.layout.xaxis.zeroline
    assert figure.plot.layout.yaxis.zeroline
    assert figure.table.headings == ("word", "x", "<y>")
    assert "<y>" not in str(figure.plot.layout)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    compass().save(tmp_path / "compass.firth")
    return tmp_path / "compass.firth"


def test_the_verb_ranks_words_and_draws_them(firth: Firth, file: Path, tmp_path: Path) -> None:
    answer = firth("vectors", "axis", file, "east", "west", "--top", "1")
    assert (answer.code, answer.err) == (0, "")
    assert [line.split() for line in answer.out.splitlines()] == [["0.7071", "northeast"], ["…"], ["-0.7071", "southwest"]]
    page = tmp_path / "axis.html"
    asked = ("vectors", "axis", file, "east", "west", "--words", "southwest,up,east", "--save", page)
    assert firth(*asked).out.splitlines()[-1] == f"{page}: 3 words on one axis"
    assert "<td>southwest</td><td>-0.7071</td>" in page.read_text(encoding="utf-8")
    ranking = json.loads(firth(*asked, "--json").out)
    assert ranking["axes"] == [{"positive": ["east"], "negative": ["west"]}]
    assert [row["word"] for row in ranking["words"]] == ["east", "up", "southwest"]


def test_two_axes_make_a_plane(firth: Firth, file: Path, tmp_path: Path) -> None:
    asked = ("vectors", "axis", file, "east", "west", "--against", "north", "south", "--words", "northeast,southwest,up")
    plane = json.loads(firth(*asked, "--json").out)
    assert len(plane["axes"]) == 2
    half = 0.5**0.5
    assert plane["words"][0] == {"word": "northeast", "cosines": pytest.approx([half, half], abs=1e-6)}
    lines = firth(*asked, "--save", tmp_path / "plane.html").out.splitlines()
    assert lines[0].split() == ["west", "…", "east", "south", "…", "north"]
    assert lines[1].split() == ["0.7071", "0.7071", "northeast"]
    assert 'id="word-map"' in (tmp_path / "plane.html").read_text(encoding="utf-8")
    ends = json.loads(firth("vectors", "axis", file, "east", "west", "--against", "north", "south", "--top", "1", "--json").out)
    assert {row["word"] for row in ends["words"]} == {"northeast", "southwest"}


def test_unknown_words_are_named(firth: Firth, file: Path) -> None:
    for arguments in (["esat", "west"], ["east", "west", "--words", "esat"], ["east", "west", "--against", "esat", "up"]):
        answer = firth("vectors", "axis", file, *arguments)
        assert (answer.code, answer.out) == (2, "")
        assert '"esat" is not in the vocabulary of 7 words' in answer.err
