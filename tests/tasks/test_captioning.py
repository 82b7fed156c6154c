"""Captioning runs: tiny trainings that must learn their images by heart, attention over the image, resuming, inspection."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch
from captioned import MODELS, caption_table, write_captions
from PIL import Image
from shares import half

from firth.api import compose, load, train_recipe
from firth.config import Table
from firth.errors import ConfigError, DataError
from firth.experiments.describe import describe
from firth.tasks.captioning import CaptionerRun
from firth.text.datasets.scenes import scenes


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIRTH_CACHE", str(tmp_path / "cache"))


@pytest.fixture(scope="module", params=["transformer", pytest.param("lstm", marks=pytest.mark.long)])
def learned(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[CaptionerRun, Path]:
    """A run that was trained until it knew twenty scenes, and their table."""
    folder = tmp_path_factory.mktemp("captions")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FIRTH_CACHE", str(folder / "cache"))
        table = write_captions(folder / "data")
        recipe = compose(caption_table({"path": str(table), "size": 24, "valid": 0.0}, request.param, steps=150, batch=20))
        train_recipe(recipe, folder / "run")
    return load(folder / "run", "cpu", kind=CaptionerRun), table


def test_twenty_scenes_are_learned_by_heart(learned: tuple[CaptionerRun, Path]) -> None:
    run, table = learned
    scores = run.evaluate(table)
    assert scores["exact"] == 1.0
    assert scores["bleu"] == pytest.approx(100)
    assert scores["rougeL"] == pytest.approx(100)
    assert scores["loss"] < 0.1  # type: ignore[operator]
    assert scores["exact_unseen"] is None


def test_an_image_may_be_a_path_a_picture_or_an_array(learned: tuple[CaptionerRun, Path]) -> None:
    run, table = learned
    expected, pixels = scenes(3, "train", 24).captions[2], scenes(3, "train", 24).image_NHWC[2]
    path = table.parent / "images" / "2.png"
    for image in (path, str(path), Image.open(path), pixels):
        assert run.caption(image) == expected
    assert run.caption(path, beam=3) == expected
    best, second, _ = run.captions([path], run.decoding({"beam": 3}))[0]
    assert best.text == expected != second.text
    assert best.log_probability > second.log_probability
    assert run.caption(path, sample=True, seed=1, temperature=0.01) == expected


def test_the_log_probability_of_a_caption_is_that_of_its_tokens(learned: tuple[CaptionerRun, Path]) -> None:
    run, table = learned
    path = str(table.parent / "images" / "0.png")
    (caption,) = run.captions([path])[0]
    looked = run.predictions(path, target=caption.text)
    assert float(looked.log_probability.sum()) == pytest.approx(caption.log_probability, abs=1e-3)


def test_the_attention_of_a_word_over_the_image_sums_to_one(learned: tuple[CaptionerRun, Path]) -> None:
    run, table = learned
    path = str(table.parent / "images" / "1.png")
    seen = run.overlay(path)
    assert seen.words == (*run.caption(path).split(), "<eos>")
    assert seen.grid == run.network.encoder.grid
    for alpha_TRK in seen.weights.values():
        assert alpha_TRK.shape == (len(seen.words), *seen.grid)
        np.testing.assert_allclose(alpha_TRK.sum((1, 2)), 1, rtol=1e-5)
    assert np.array_equal(seen.image, scenes(2, "train", 24).image_NHWC[1])
    rows = seen.figure().table.rows
    assert len(rows) == seen.best.size
    assert rows[1] == (seen.words[0], "1", "2", f"{seen.best[0, 0, 1]:.4f}")
    known = scenes(1, "train", 24).captions[0]
    assert run.overlay(path, known).words == (*known.split(), "<eos>")
    with pytest.warns(UserWarning, match="zebra"):
        assert run.overlay(path, "a zebra").words == ("a", "<unk>", "<eos>")


def test_the_overlay_is_the_attention_that_the_inspection_records(learned: tuple[CaptionerRun, Path]) -> None:
    run, table = learned
    path = str(table.parent / "images" / "1.png")
    seen, recorded = run.overlay(path), run.attention(path)
    assert recorded.part == "cross"
    assert recorded.queries == seen.words
    assert recorded.keys[:2] == ("1,1", "1,2")
    layer = max(0, len(recorded.layers) - 2)
    alpha_TS = recorded.weights(layer).mean(0)
    np.testing.assert_allclose(alpha_TS, seen.best.reshape(alpha_TS.shape), atol=1e-5)
    if run.recipe.model.kind == "lstm":
        assert run.states(path).levels[0].tokens == ("<eos>", *seen.words[:-1])


def test_a_run_on_scenes_reports_unseen_pairs_separately(tmp_path: Path) -> None:
    recipe = compose(caption_table({"name": "scenes", "count": 40, "size": 24}, select="exact"))
    train_recipe(recipe, tmp_path / "run")
    run = load(tmp_path / "run", "cpu", kind=CaptionerRun)
    scores = run.evaluate()
    assert (scores["split"], scores["images"], scores["unseen"]["images"]) == ("test", 4, 4)  # type: ignore[index]
    assert scores["exact_unseen"] == scores["unseen"]["exact"]  # type: ignore[index]
    assert sum(one["images"] for one in scores["kinds"]) == 4  # type: ignore[attr-defined]
    report = run.task.report(scores)
    assert "unseen pairs        4 images with a colour and shape never trained together" in report
    assert run.evaluate(split="train")["unseen"] is None


@pytest.mark.parametrize("model", half(MODELS))
def test_a_resumed_run_ends_with_the_same_weights(model: str, tmp_path: Path) -> None:
    data: Table = {"name": "scenes", "count": 30, "size": 24}
    half, whole = (compose(caption_table(data, model, steps=steps, batch=8, schedule="constant")) for steps in (3, 6))
    train_recipe(half, tmp_path / "two")
    one = load(train_recipe(whole, tmp_path / "one").path, "cpu")
    two = load(train_recipe(whole, tmp_path / "two", resume=True).path, "cpu")
    for (name, first), (_, second) in zip(one.network.named_parameters(), two.network.named_parameters(), strict=True):
        assert torch.equal(first, second), name


def test_dropout_and_bf16_train(tmp_path: Path) -> None:
    table = caption_table({"name": "scenes", "count": 20, "size": 24}, "transformer", steps=2, dtype="bf16")
    table["model"]["dropout"] = 0.1
    run = load(train_recipe(compose(table), tmp_path / "run").path, "cpu", kind=CaptionerRun)
    assert all(torch.isfinite(parameter).all() for parameter in run.network.parameters())


def test_a_captioner_is_counted(tmp_path: Path) -> None:
    recipe = compose(caption_table({"name": "scenes", "count": 20, "size": 24}, steps=1))
    folder = train_recipe(recipe, tmp_path / "run")
    counts, network = describe(str(folder.path)), load(folder.path, "cpu").network
    assert counts.parameters == sum(parameter.numel() for parameter in network.parameters())


def test_what_only_other_runs_can_do_is_refused(learned: tuple[CaptionerRun, Path]) -> None:
    run, table = learned
    with pytest.raises(ConfigError, match=r"this run is a captioner and cannot translate; it can: "):
        run.translate(["a text"])
    with pytest.raises(ConfigError, match="captions takes a list of images"):
        run.captions("image.png")
    with pytest.raises(DataError, match="is not a readable image"):
        run.caption(table)
    with pytest.raises(DataError, match="the caption is ' '"):
        run.overlay(table.parent / "images" / "0.png", " ")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"data": {"name": "dates"}}, "dates.* is a set of sentence pairs, but caption needs captioned images"),
        ({"model": {"family": "seq2seq", "kind": "gru"}}, 'needs model.family = "caption"'),
        ({"data": {"name": "scenes", "size": 30}}, "30 is no multiple of 4"),
        ({"training": {"carry": True}}, "images carry no state"),
    ],
)
def test_recipes_that_do_not_fit_together_are_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        compose(caption_table({"name": "scenes"}) | changes)


def test_another_objective_on_scenes_is_told_which_one_to_choose() -> None:
    with pytest.raises(ConfigError, match=r'Set objective.kind = "caption" and model.family = "caption"'):
        compose({"data": {"name": "scenes"}, "model": {"kind": "gru"}})


def test_the_config_of_an_objective_is_checked() -> None:
    from firth.tasks.captioning import CaptionConfig

    with pytest.raises(ConfigError, match=r"objective.smoothing is 1"):
        CaptionConfig(smoothing=1.0)
    assert dataclasses.asdict(CaptionConfig()) == {"kind": "caption", "loss": "cross-entropy", "smoothing": 0.0}
