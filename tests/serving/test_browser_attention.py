"""The room Attention in a browser: its pictures hold the weights of Model.attention."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

import numpy as np
import pytest
from browsing import Screenshot, Visit, Watched, executed, serving
from questions import RECORDS, answer_table, write_questions

from firth.api import Recipe, compose, load, train_recipe
from firth.inspection.attention import Attention
from firth.serving.lab.library import RunLibrary
from firth.serving.lab.run_facts import RunFacts, run_facts
from firth.training.folder import RunFolder

TEXT = "the list is empty"


def _assert_map(page: Watched, seen: Attention, layer: int, head: int | None) -> None:
    (cells,) = page.plot("map")["data"]
    np.testing.assert_allclose(cells["z"], seen.weights(layer, head).mean(0), atol=1e-5)


def _assert_overview(page: Watched, seen: Attention) -> None:
    (cells,) = page.plot("overview")["data"]
    np.testing.assert_allclose(np.array(cells["z"], float), np.array(seen.overview().plot.data[0].z, float), atol=1e-3)


@pytest.mark.long
def test_thumbnails_then_one_head_and_a_click_opens_another(visit: Visit, bpe_run: Path, screenshot: Screenshot) -> None:
    page = visit(f"#/attention?run=bpe&text={quote(TEXT)}")
    seen = load(bpe_run).attention(TEXT)
    _assert_overview(page, seen)
    _assert_map(page, seen, 0, 0)
    screenshot(page, "attention")
    box = page.page.locator("[data-figure=overview] .plot .nsewdrag").bounding_box()
    page.page.mouse.click(box["x"] + 0.75 * box["width"], box["y"] + 0.5 * box["height"])  # of two heads the second
    page.page.wait_for_url("**head=1*")
    page.settled()
    _assert_map(page, seen, 0, 1)
    page.set("head", "mean")
    _assert_map(page, seen, 0, None)


@pytest.mark.long
def test_a_run_brings_its_own_text_until_another_is_written(visit: Visit, monkeypatch: pytest.MonkeyPatch) -> None:
    def with_example(recipe: Recipe, folder: RunFolder) -> RunFacts:
        return replace(run_facts(recipe, folder), example="the list" if recipe.tokenizer.kind == "char" else "is empty")

    monkeypatch.setattr("firth.serving.lab.library.run_facts", with_example)
    page = visit("#/attention?run=transformer")
    text = page.page.locator("textarea[data-control=text], [data-control=text] textarea").first
    assert text.input_value() == "the list"
    page.set("run", "bpe")
    assert text.input_value() == "is empty"
    page.set("text", "the")
    page.set("run", "transformer")
    assert text.input_value() == "the"


@pytest.mark.long
def test_pieces_are_merged_into_words_and_the_address_restores_it(visit: Visit, bpe_run: Path) -> None:
    page = visit(f"#/attention?run=bpe&text={quote(TEXT)}")
    page.set("words", "true")
    page.set("head", "1")
    merged = load(bpe_run).attention(TEXT).merged()
    assert merged.queries != load(bpe_run).attention(TEXT).queries
    _assert_overview(page, merged)
    _assert_map(page, merged, 0, 1)
    again = visit(page.hash())
    _assert_map(again, merged, 0, 1)
    figures = executed(again.python("map"))["figures"]
    np.testing.assert_allclose(figures["map"].plot.data[0].z, again.plot("map")["data"][0]["z"], atol=1e-6)
    assert len(again.table("map")) == len(merged.queries) ** 2


@pytest.mark.long
def test_entropy_and_rollout_by_layer(visit: Visit, transformer_run: Path) -> None:
    page = visit(f"#/attention?run=transformer&text={quote(TEXT)}")
    seen = load(transformer_run).attention(TEXT)
    (entropy,) = page.plot("entropy")["data"]
    np.testing.assert_allclose(np.array(entropy["z"], float), seen.entropy(), atol=1e-4)
    (rollout,) = page.plot("rollout")["data"]
    np.testing.assert_allclose(rollout["z"], seen.rollout()[-1], atol=1e-5)


@pytest.mark.long
@pytest.mark.parametrize("run", ["rnnsearch", "transformer"])
def test_cross_attention_of_a_translator(visit: Visit, pair_library: RunLibrary, pair_lab: str, run: str) -> None:
    page = visit(f"#/attention?run={run}&text=1+2+3&target=one+two+three", at=pair_lab)
    seen = load(pair_library.path(run)).attention("1 2 3", target="one two three")
    assert seen.part == "cross"
    _assert_map(page, seen, 0, 0)
    assert page.plot("map")["layout"]["yaxis"]["ticktext"] == ["one", "two", "three", "&lt;eos&gt;"]
    if run == "transformer":
        page.set("part", "encoder")
        page.set("layer", "1")
        _assert_map(page, seen.of("encoder"), 1, 0)
        page.set("part", "cross")
        page.set("target", "one two")
        shorter = load(pair_library.path(run)).attention("1 2 3", target="one two")
        _assert_overview(page, shorter)
        _assert_map(page, shorter, 1, 0)


@pytest.mark.long
def test_what_to_notice_fits_the_kind_of_attention_that_is_shown(visit: Visit, bpe_run: Path, pair_library: RunLibrary) -> None:
    with serving(RunLibrary([*pair_library.places, bpe_run])) as address:  # the translators come first
        page = visit("#/attention", at=address)
        notice = page.page.locator("[data-notice]")
        assert page.page.locator("[data-control=run]").input_value() == "bpe"
        assert "previous token" in notice.inner_text()
        page.open("#/attention?run=rnnsearch&text=1+2")
        assert "a token that the model writes" in notice.inner_text()
        assert "previous token" not in notice.inner_text()
        page.open("#/attention?run=transformer&text=1+2&part=encoder")
        assert "the one after" in notice.inner_text()
        page.set("part", "cross")
        assert "a token that the model writes" in notice.inner_text()


@pytest.mark.long
def test_a_run_that_finds_answers_is_given_a_context(visit: Visit, tmp_path: Path) -> None:
    questions = write_questions(tmp_path / "questions.jsonl", RECORDS[:40])
    run = train_recipe(compose(answer_table(questions, steps=2)), tmp_path / "answers").path
    with serving(RunLibrary([run])) as address:
        page = visit(f"#/attention?text={quote('Where does Anna live ?')}", at=address)
        assert "Give the passage as `context`, too" in page.alert()
        page.set("context", "Anna lives in Rome .")
        _assert_map(page, load(run).attention("Where does Anna live ?", context="Anna lives in Rome ."), 0, 0)


@pytest.mark.long
def test_a_model_without_attention_is_told_of_and_another_can_be_chosen(visit: Visit, transformer_run: Path) -> None:
    page = visit(f"#/attention?run=char&text={quote(TEXT)}")
    assert "has no attention. Use a run" in page.alert()
    assert not page.page.locator("[data-look=one]").is_visible()
    page.set("run", "transformer")
    assert page.page.locator("[role=alert]").count() == 0
    _assert_map(page, load(transformer_run).attention(TEXT), 0, 0)
    page.set("run", "char")
    assert "has no attention. Use a run" in page.alert()
    assert page.page.locator("[data-figure]:visible").count() == 0


@pytest.mark.long
def test_bad_input_is_told_and_the_room_stays_usable(visit: Visit, transformer_run: Path) -> None:
    page = visit("#/")
    for address, message in (
        ("#/attention?run=transformer&text=", "the text is empty; give at least one token"),
        (f"#/attention?run=bpe&text={'a' * 100_000}", "text has 100,000 characters; the limit is 20,000"),
        (f"#/attention?run=bpe&text={'a' * 9_000}", "tokens"),
        ("#/attention?run=transformer&text=Ω", "the run knows no character of this text: Ω"),
        ("#/attention?run=bpe&text=the&part=cross", 'this model has no "cross" attention, only "self"'),
    ):
        page.open(address)
        page.page.locator("[role=alert]", has_text=message).wait_for()
    page.open(f"#/attention?run=transformer&text={quote(TEXT)}")
    page.page.locator("[role=alert]").wait_for(state="detached")
    _assert_map(page.settled(), load(transformer_run).attention(TEXT), 0, 0)


@pytest.mark.long
def test_text_that_looks_like_a_script_is_shown(visit: Visit, bpe_run: Path) -> None:
    text = "<img src=x onerror=alert(1)> <script>alert(2)</script> <b>x</b>"
    page = visit(f"#/attention?run=bpe&words=true&text={quote(text)}")
    merged = load(bpe_run).attention(text).merged()
    _assert_map(page, merged, 0, 0)
    assert page.page.locator("[data-figure=lines]").is_visible()
    assert not page.page.locator("[data-no-lines]").is_visible()
    ticks = page.page.locator("[data-figure=map] .ytick text").all_text_contents()
    assert sorted(ticks) == sorted(merged.queries)
    assert page.page.locator("main img, main b").count() == 0


@pytest.mark.long
def test_a_run_that_disappears_is_told_of(visit: Visit, transformer_run: Path, tmp_path: Path) -> None:
    run = tmp_path / "gone"
    shutil.copytree(transformer_run, run)
    with serving(RunLibrary([run, transformer_run])) as address:
        page = visit(f"#/attention?run=gone&text={quote(TEXT)}", at=address)
        _assert_map(page, load(transformer_run).attention(TEXT), 0, 0)
        shutil.rmtree(run)
        page.set("head", "1")
        assert 'the run "gone" is no longer in' in page.alert()
        page.set("run", "transformer")
        _assert_map(page, load(transformer_run).attention(TEXT), 0, 1)
