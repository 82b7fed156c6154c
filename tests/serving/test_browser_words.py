"""The room Words in a browser: what it shows is what the vectors say."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from browsing import WORDS, Screenshot, Visit, Watched, executed, serving, small_vectors

from firth.errors import ConfigError
from firth.serving.lab.library import RunLibrary
from firth.serving.lab.rooms.words import _starting_sum, _starting_words
from firth.vectors import WordVectors
from firth.vectors.contexts import word_contexts
from firth.vectors.encoding import encoded
from firth.vectors.map import nearest_on_map, word_map

GREENS = (
    "ong choy is delicious sauteed with garlic\nong choy is superb over rice\nong choy leaves with salty sauces\n"
    "spinach sauteed with garlic over rice\nchard stems and leaves are delicious\n"
    "<i>evil</i> greens with <script>alert(1)</script>\n"
)


def test_neighbours_are_those_of_the_vectors(visit: Visit, screenshot: Screenshot) -> None:
    page = visit("#/words?look=neighbours&vectors=small.firth&word=king&top=4")
    expected = small_vectors().most_similar("king", topn=4)
    (bars,) = page.plot("neighbours")["data"]
    assert bars["customdata"] == [word for word, _ in expected]
    assert bars["x"] == pytest.approx([cosine for _, cosine in expected], rel=1e-6)
    assert page.table("neighbours") == [[word, f"{cosine:.4f}"] for word, cosine in expected]
    screenshot(page, "words")


@pytest.mark.long
def test_king_without_man_and_with_woman_is_a_queen(visit: Visit) -> None:
    page = visit("#/words").set("look", "analogy").set("sum", "king − man + woman")
    (bars,) = page.plot("analogy")["data"]
    expected = small_vectors().most_similar(["king", "woman"], ["man"])
    assert bars["customdata"] == [word for word, _ in expected]
    assert bars["customdata"][0] == "queen"
    assert "≈ queen" in page.page.locator("[data-summary]").text_content()
    page.set("method", "mul")
    assert page.plot("analogy")["data"][0]["x"] == pytest.approx(
        [score for _, score in small_vectors().most_similar(["king", "woman"], ["man"], method="mul")], rel=1e-6
    )


@pytest.mark.long
def test_the_address_restores_the_view(visit: Visit) -> None:
    first = visit("#/words").set("look", "analogy").set("sum", "queen - woman + boy").set("top", "3")
    again = visit(first.hash())
    assert again.plot("analogy")["data"] == first.plot("analogy")["data"]
    assert again.page.locator("[data-control=sum]").input_value() == "queen - woman + boy"
    assert len(again.table("analogy")) == 3


@pytest.mark.long
@pytest.mark.parametrize("look", ["neighbours", "analogy", "map"])
def test_the_python_that_is_copied_draws_the_same(visit: Visit, look: str) -> None:
    page = visit(f"#/words?look={look}&vectors=small.firth")
    figure = executed(page.python())["figure"]
    assert page.table(look) == [list(row) for row in figure.table.rows]


@pytest.mark.long
def test_the_first_word_is_one_that_means_something() -> None:
    words = [f"w{n}" for n in range(60)] + ["of", "2024x", "tensor", "matrix", "array"]
    assert _starting_words(words, 2) == ["tensor", "matrix"]
    assert _starting_words([*words, "woman", "man", "queen", "king"], 3) == ["king", "man", "woman"]
    assert _starting_words([*words[:60], "which", *words[60:]], 1) == ["tensor"]  # not a word of grammar
    assert _starting_words(["a", "b", "c"], 2) == ["a", "b"]
    with pytest.raises(ConfigError, match="the vocabulary has only 1 words; expected at least 3"):
        _starting_words(["a"], 3)


def test_the_first_sum_is_one_that_comes_out() -> None:
    words = ["the", "lists", "tuple", "array", "tuples", "tensor", "arrays", "value", "values"]
    plural, rows = np.array([0, 0, 0, 0, 1.0]), np.eye(5)
    vectors = {"the": -plural, "tensor": rows[3], "lists": rows[0], "array": rows[1], "arrays": rows[1] + plural}
    vectors |= {"value": rows[2], "values": rows[2] - plural, "tuple": rows[0], "tuples": rows[0] + plural}
    found = WordVectors(words, np.stack([vectors[word] for word in words]).astype(np.float32), np.arange(9, 0, -1))
    assert _starting_sum(found) == "tuples - tuple + array"  # ≈ arrays; values go the other way
    assert _starting_sum(small_vectors()) == "king - man + woman"


@pytest.mark.long
def test_the_cosine_of_each_two_words(visit: Visit) -> None:
    page = visit("#/words?look=similarity&vectors=small.firth&words=king+queen+apple")
    vectors, words = small_vectors(), ("king", "queen", "apple")
    expected = [[a, *(f"{vectors.similarity(a, b):.4f}" for b in words)] for a in words]
    assert page.table("similarity") == expected
    assert [list(row) for row in executed(page.python())["rows"]] == expected


@pytest.mark.long
def test_the_map_has_every_word_at_its_point(visit: Visit) -> None:
    page = visit("#/words?look=map&vectors=small.firth")
    (dots,) = page.plot("map")["data"]
    expected = word_map(small_vectors(), list(WORDS))
    assert dots["customdata"] == list(WORDS)
    np.testing.assert_allclose(np.stack((dots["x"], dots["y"]), 1), expected.point_Nk, atol=1e-6)


@pytest.mark.long
def test_a_click_on_a_point_shows_the_neighbours_of_its_word(visit: Visit) -> None:
    page = visit("#/words?look=map&vectors=small.firth")
    click = "place => place.emit('plotly_click', { points: [{ customdata: place.data[0].customdata[1] }] })"
    page.page.locator("[data-figure=map] .plot").evaluate(click)
    page.until("document.querySelector('[data-figure=neighbours]') !== null")
    (bars,) = page.plot("neighbours")["data"]
    assert bars["customdata"] == [word for word, _ in small_vectors().most_similar(WORDS[1], topn=10)]
    page.page.go_back()
    page.until("document.querySelector('[data-figure=map]') !== null")


def _lines(page: Watched) -> set[tuple[float, float, float, float]]:
    """The ends of each line to a neighbour."""
    shapes = page.plot("map")["layout"].get("shapes", [])
    return {(one["x0"], one["y0"], one["x1"], one["y1"]) for one in shapes if one["name"] == "neighbour"}


@pytest.mark.long
def test_a_point_shows_its_true_neighbours_when_pointed_at_or_focused(visit: Visit, screenshot: Screenshot) -> None:
    page = visit("#/words?look=map&vectors=small.firth")
    near, points = nearest_on_map(small_vectors(), WORDS), word_map(small_vectors(), list(WORDS)).point_Nk
    place = page.page.locator("[data-figure=map] .plot")
    drawn = "document.querySelector('[data-figure=map] .plot').layout.shapes?.length"

    def assert_shown(word: str) -> None:
        at = WORDS.index(word)
        expected = [(*points[at], *points[WORDS.index(other)]) for other, _ in near[at]]
        np.testing.assert_allclose(sorted(_lines(page)), sorted(expected), atol=1e-6)
        names = [f"{other} {cosine:.2f}" for other, cosine in near[at]]
        assert page.page.locator("[data-near]").text_content() == f"{word}: {', '.join(names)}"
        shown = page.page.locator("[data-figure=map] .annotation-text").all_text_contents()
        assert [text.replace("\xa0", " ") for text in shown] == [*names, word]
        lit = page.page.locator("[data-words] button[data-lit]").all_text_contents()
        assert set(lit) == {other for other, _ in near[at]}

    script = (
        "place => { const { xaxis: x, yaxis: y } = place._fullLayout, box = place.getBoundingClientRect(), [dots] = place.data; "
    )
    x, y = place.evaluate(script + "return [box.x + x._offset + x.l2p(dots.x[1]), box.y + y._offset + y.l2p(dots.y[1])]; }")
    page.page.mouse.move(x - 60, y - 60)
    page.page.mouse.move(x, y, steps=4)
    page.until(f"{drawn} === 5")
    page.page.wait_for_timeout(300)  # it stays while the pointer does
    assert_shown("queen")
    screenshot(page, "words-neighbours")
    page.page.mouse.move(0, 0)
    page.until(f"{drawn} === 0")
    page.page.locator("[data-words] button").first.focus()
    page.page.keyboard.press("End")
    page.page.keyboard.press("ArrowLeft")  # to a word that looks like markup
    page.until(f"{drawn} === 5 && document.activeElement.textContent === '<b>bold</b>'")
    assert_shown("<b>bold</b>")
    page.page.keyboard.press("Home")
    page.page.keyboard.press("Enter")  # what a click on its point does
    page.until("document.querySelector('[data-figure=neighbours]') !== null")
    assert page.plot("neighbours")["data"][0]["customdata"][0] == near[0][0][0]


@pytest.mark.long
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_words_of_a_map_fit_on_a_phone(visit: Visit, scheme: str, screenshot: Screenshot) -> None:
    page = visit("#/words?look=map&vectors=small.firth", viewport={"width": 390, "height": 844}, color_scheme=scheme)
    page.page.locator("[data-words] button", has_text="queen").focus()
    page.until("document.querySelector('[data-figure=map] .plot').layout.shapes?.length === 5")
    assert page.page.evaluate("document.documentElement.scrollWidth") <= 390
    screenshot(page, f"words-neighbours-phone-{scheme}")


@pytest.mark.long
def test_a_map_of_three_dimensions(visit: Visit) -> None:
    page = visit("#/words?look=map&vectors=small.firth", expect=("WebGL", "Canvas2D"), color_scheme="dark").set("dimensions", "3")
    (dots,) = page.plot("map")["data"]
    expected = word_map(small_vectors(), list(WORDS), dimensions=3)
    np.testing.assert_allclose(np.stack((dots["x"], dots["y"], dots["z"]), 1), expected.point_Nk, atol=1e-6)
    assert page.table("map") == [list(row) for row in executed(page.python())["figure"].table.rows]


@pytest.mark.long
def test_words_are_found_on_the_map_by_their_letters(visit: Visit) -> None:
    page = visit("#/words?look=map&vectors=small.firth").set("find", "PRIN")
    for one in (page, visit(page.hash())):
        (dots,) = one.plot("map")["data"]
        assert [word for word, label in zip(WORDS, dots["text"], strict=True) if label] == ["prince", "princess"]
        assert [word for word, size in zip(WORDS, dots["marker"]["size"], strict=True) if size > 6] == ["prince", "princess"]


@pytest.mark.long
def test_a_word_that_looks_like_markup_is_shown_as_it_is_spelled(visit: Visit) -> None:
    page = visit("#/words?look=neighbours&vectors=small.firth&word=<b>bold</b>")
    assert page.page.locator("h2", has_text="Nearest to <b>bold</b>").count() == 1
    page.set("word", "tree")
    ticks = page.page.locator("[data-figure=neighbours] .ytick text").all_text_contents()
    assert "<b>bold</b>" in ticks
    assert any(row[0] == "<b>bold</b>" for row in page.table("neighbours"))


@pytest.mark.long
def test_an_unknown_word_is_told_with_near_ones_and_the_room_goes_on(visit: Visit) -> None:
    page = visit("#/words?look=neighbours&vectors=small.firth&word=quen")
    assert '"quen" is not in the vocabulary of 12 words. Did you mean "queen"?' in page.alert()
    page.set("word", "queen")
    assert page.page.locator("[role=alert]").count() == 0
    assert page.plot("neighbours")["data"][0]["customdata"][0] == small_vectors().most_similar("queen")[0][0]


@pytest.mark.long
def test_a_click_on_a_bar_goes_on_to_that_word_and_back_returns(visit: Visit) -> None:
    page = visit("#/words?look=neighbours&vectors=small.firth&word=king&top=5")
    first = page.plot("neighbours")["data"][0]["customdata"][0]
    page.page.locator("[data-figure=neighbours] .bars .point path").first.hover(force=True)
    page.page.locator("[data-figure=neighbours] .nsewdrag").click(position={"x": 30, "y": 12})
    page.until(f"document.querySelector('[data-control=word]').value === '{first}'")
    page.page.go_back()
    page.until("document.querySelector('[data-control=word]').value === 'king'")
    assert page.plot("neighbours")["data"][0]["customdata"][0] == first


@pytest.mark.long
def test_the_company_of_words_side_by_side(visit: Visit, vectors_file: Path, tmp_path: Path) -> None:
    text = tmp_path / "greens.txt"
    text.write_text(GREENS, encoding="utf-8")
    with serving(RunLibrary([], [vectors_file], [str(text)])) as address:
        page = visit("#/words?look=contexts&words=choy+spinach", at=address)
        expected = [word_contexts(encoded(str(text), lower=True), word, topn=12) for word in ("choy", "spinach")]
        for one in expected:
            (bars,) = page.plot(f"near {one.word}")["data"]
            assert dict(zip(bars["customdata"], bars["x"], strict=True)) == pytest.approx(
                {t.word: t.score for t in one.collocates}
            )
        rows = [[" ".join(line.left), one.word, " ".join(line.right)] for one in expected for line in one.lines]
        assert page.table("contexts") == rows
        copied = executed(page.python())
        assert [[list(row) for row in figure.table.rows] for figure in copied["figures"].values()] == [
            page.table(f"near {one.word}") for one in expected
        ]
        page.set("words", "greens")
        assert "<i>evil</i>" in page.table("contexts")[0][0]


@pytest.mark.long
def test_without_vectors_the_room_says_how_to_make_some_and_looks_words_up(visit: Visit, tmp_path: Path) -> None:
    text = tmp_path / "greens.txt"
    text.write_text(GREENS, encoding="utf-8")
    with serving(RunLibrary([], [], [str(text)])) as address:
        page = visit("#/words", at=address)
        assert "firth vectors train" in page.page.locator("[data-command]").text_content()
        page.set("words", "choy")
        assert page.table("contexts")


_BOXES = """selector => [...document.querySelectorAll(selector)].filter(one => one.textContent)
    .map(one => one.getBoundingClientRect()).map(({ left, right, top, bottom }) => [left, right, top, bottom])"""


def _overlaps(page: Watched, selector: str) -> list[tuple[int, int]]:
    boxes = page.page.evaluate(_BOXES, selector)
    assert boxes
    return [
        (one, other)
        for (one, a), (other, b) in itertools.combinations(enumerate(boxes), 2)
        if a[0] < b[1] and b[0] < a[1] and a[2] < b[3] and b[2] < a[3]
    ]


def _crowd() -> WordVectors:
    """Two hundred words in three heaps."""
    rng = np.random.default_rng(1)
    centres = rng.normal(0, 1, (3, 8)).repeat(67, 0)[:200]
    vectors = (centres + rng.normal(0, 0.15, centres.shape)).astype(np.float32)
    return WordVectors([f"crowded{n}" for n in range(200)], vectors, np.arange(200, 0, -1, dtype=np.int64))


@pytest.mark.long
@pytest.mark.parametrize("width", [1200, 390])
def test_no_word_on_a_map_covers_another(visit: Visit, tmp_path: Path, width: int) -> None:
    _crowd().save(tmp_path / "crowd.firth")
    with serving(RunLibrary([], [tmp_path / "crowd.firth"])) as address:
        page = visit("#/words?look=map&most=200", at=address, viewport={"width": width, "height": 900})
        labels = ".scatterlayer .textpoint text"
        assert not _overlaps(page, labels)
        written = len([text for text in page.plot("map")["data"][0]["text"] if text])
        assert 10 <= written < 200
        (x, y), span = page.plot("map")["data"][0]["x"][:1] + page.plot("map")["data"][0]["y"][:1], 0.05
        axes = {"xaxis.range": [x - span, x + span], "yaxis.range": [y - span, y + span]}
        zoom = "axes => Plotly.relayout(document.querySelector('[data-figure=map] .plot'), axes)"
        page.page.evaluate(zoom, axes)
        page.page.wait_for_timeout(300)
        assert not _overlaps(page, labels)
        assert "crowded0" in page.page.locator(labels).all_text_contents()  # there is room now
        page.page.evaluate(zoom, {"xaxis.autorange": True, "yaxis.autorange": True})
        page.page.locator("[data-words] button").nth(7).focus()
        page.until("document.querySelector('[data-figure=map] .plot').layout.annotations?.length === 6")
        assert not _overlaps(page, ".infolayer .annotation-text-g")  # the word and its neighbours


@pytest.mark.long
def test_words_of_a_map_stay_apart_in_the_other_theme(visit: Visit) -> None:
    page = visit("#/words?look=map&vectors=small.firth&find=prin", color_scheme="light")
    page.page.locator("#theme").click()
    page.page.wait_for_timeout(300)
    (dots,) = page.plot("map")["data"]
    assert [label for label in dots["text"] if label] == ["prince", "princess"]
