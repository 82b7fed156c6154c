"""Denoising from recipe to run: it learns, restores, resumes to the bit, and is a start for translators."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from shares import some
from shell import Firth
from tiny_runs import assert_stopping_changes_nothing, watching
from translations import pair_table, write_pairs

from firth.api import compose, load, train_recipe
from firth.config import Table
from firth.errors import ConfigError, DataError
from firth.models import ConditionalDecoder
from firth.tasks.denoising import DenoisingRun
from firth.tasks.translation import translation
from firth.text.batches.denoising import Denoising, Noise
from firth.text.batches.pairs import PairBatch
from firth.text.batches.span_corruption import corrupted_sweep
from firth.text.data.running_text import prepare

SENTENCES = ("the cat sat on the mat .", "the dog lay on the rug .", "a bird sang in the tree .", "a fish swam in the sea .")
TEXT = " ".join(sentence for n in range(60) for sentence in (SENTENCES if n % 2 else SENTENCES[::-1]))
TRANSFORMER: Table = {"kind": "transformer", "width": 16, "depth": 1, "heads": 2}


def denoising(model: Table | None = None, objective: Table | None = None, **training: Any) -> Table:
    usual = {"steps": 8, "batch": 4, "context": 14, "device": "cpu", "rate": 0.01, "log_every": 1, "evaluate_every": 4}
    return {
        "data": {"text": TEXT, "valid": 0.2},
        "tokenizer": {"kind": "word"},
        "model": {"family": "seq2seq"} | (model or TRANSFORMER),
        "objective": {"kind": "denoising"} | (objective or {}),
        "training": usual | training,
    }


ALL = {"mask": 0.1, "delete": 0.1, "infill": 0.2, "permute": True, "rotate": True}
MODELS: dict[str, tuple[Table, Table]] = {
    "transformer": (TRANSFORMER | {"shared": True, "dropout": 0.1}, {}),
    "transformer, all noises": (TRANSFORMER, ALL),
    "one decoder": (TRANSFORMER | {"kind": "prefix"}, {}),
    "rnnsearch": ({"kind": "gru", "width": 8, "embedding": 6}, {}),
    "rnnenc": ({"kind": "lstm", "attention": "none", "width": 8, "shared": True, "tied": True}, {"rotate": True}),
}


@pytest.mark.parametrize("name", some(MODELS, "transformer, all noises"))
def test_a_run_that_was_stopped_goes_on_to_the_bit(name: str, tmp_path: Path) -> None:
    recipe = compose(denoising(*MODELS[name], steps=10, evaluate_every=5, checkpoint_every=4))
    assert_stopping_changes_nothing(recipe, tmp_path, at=6)


def gru(steps: int, out: Path) -> Path:
    table = denoising(
        {"kind": "gru", "width": 32}, {"permute": False}, steps=steps, batch=16, rate=0.02, evaluate_every=0, seed=3
    )
    return train_recipe(compose(table), out).path


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Long enough to fill blanks."""
    return gru(800, tmp_path_factory.mktemp("denoising") / "run")


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return gru(20, tmp_path_factory.mktemp("denoising") / "run")


def nats(network: ConditionalDecoder, part: PairBatch) -> list[float]:
    """−log p of each target token: one row at a time, without its padding, and one step at a time."""
    of_tokens = []
    for row, length in enumerate(part.source_length_B.tolist()):
        source_1S = torch.from_numpy(part.source_BS[row : row + 1, :length])
        state = network.start(network.encode(source_1S, torch.tensor([length])))
        for given, wanted in zip(part.input_BT[row].tolist(), part.target_BT[row].tolist(), strict=True):
            logits_11V, state = network.step(torch.tensor([[given]]), state)
            of_tokens.append(-float(torch.log_softmax(logits_11V[0, 0].double(), -1)[wanted]))
    return of_tokens


@pytest.mark.parametrize("name", MODELS)
@torch.no_grad()
def test_the_loss_is_that_of_a_loop_in_float64(name: str) -> None:
    recipe = compose(denoising(*MODELS[name])).resolved()
    task = recipe.task
    data = task.read(recipe.tokenizer, lambda *_: None)
    torch.manual_seed(0)
    network: Any = task.network(data.tokenizer.vocab, data.tokenizer.vocab)
    for parameter in network.parameters():
        parameter.normal_(0.0, 0.3)
    network = network.double().eval()
    batch: Any = task.batches(data).next()
    assert len(set(batch.source_length_B.tolist())) > 1, "some sources are padded"
    arrays = (batch.source_BS, batch.source_length_B, batch.input_BT, batch.target_BT, batch.target_length_B)
    loss, _ = translation(network, *(torch.from_numpy(array) for array in arrays))
    assert float(loss) == pytest.approx(np.mean(nats(network, batch)), rel=1e-5)  # the loss's own softmax is in float32


@torch.no_grad()
def test_evaluation_is_the_mean_over_the_whole_text_and_always_corrupts_the_same(begun: Path) -> None:
    run = load(begun, "cpu")
    assert isinstance(run, DenoisingRun)
    text = prepare(run.recipe.data, run.tokenizer).valid
    assert text is not None
    noise = Denoising(run.tokenizer, 14, Noise(permute=False), seed=0)
    expected = [value for part in corrupted_sweep(text.ids, 5, noise) for value in nats(run.network, part)]
    scores: dict[str, Any] = run.evaluate(split="valid")
    assert scores.keys() == {"loss", "perplexity", "tokens", "split"}
    assert scores["tokens"] == len(expected)
    assert scores["loss"] == pytest.approx(np.mean(expected), rel=1e-5)
    assert scores["perplexity"] == pytest.approx(math.exp(scores["loss"]))
    assert scores["perplexity"] < 2, "of some twenty words"
    assert run.evaluate(split="valid") == scores


@pytest.mark.long
@pytest.mark.parametrize("beam", [1, 3])
def test_blanks_are_filled_with_as_many_words_as_are_missing(beam: int, trained: Path) -> None:
    run = load(trained, "cpu")
    assert isinstance(run, DenoisingRun)
    texts = ["a bird __ in the tree . the dog lay on the rug .", "", "a fish swam __ sea . a bird sang in the tree ."]
    assert run.restore(texts, beam=beam) == [
        "a bird sang in the tree . the dog lay on the rug .",
        "",
        "a fish swam in the sea . a bird sang in the tree .",
    ]
    assert run.restore(texts[:1], beam=beam, tokens=3) == ["a bird sang"]


def test_restore_gives_the_model_one_mask_for_each_blank(begun: Path) -> None:
    run = load(begun, "cpu")
    assert isinstance(run, DenoisingRun)
    known = {run.tokenizer.token(id): id for id in range(run.tokenizer.vocab)} | {"_": run.tokenizer.vocab}
    expected = [known[token] for token in ("_", "the", "_", "_", "mat", "<eos>")]
    assert run._with_masks("__ the __ __ mat", "text 1").tolist() == expected
    with pytest.raises(DataError, match="text 2 has a line break, which this vocabulary reads as <eos>"):
        run.restore(["the", "the\ncat"])
    with pytest.raises(ConfigError, match=r"restore takes a list of texts\. Write restore\(\['the __'\]\)\."):
        run.restore("the __")


def test_a_model_that_writes_masks_shows_none_of_them(tmp_path: Path) -> None:
    table = denoising({"kind": "gru", "width": 8, "tied": False}, steps=1)
    run: Any = load(train_recipe(compose(table), tmp_path / "run").path, "cpu")
    (bias,) = (weight for name, weight in run.network.named_parameters() if name.endswith(("output.bias", "output_bias")))
    with torch.no_grad():
        bias[-1] = 100.0
    assert run.restore(["the __ sat"], tokens=4) == [""]


def test_translations_begin_as_a_denoising_run_without_its_mask(tmp_path: Path) -> None:
    """Also where the text is one document, whose byte pairs would else have no <eos>."""
    model = TRANSFORMER | {"shared": True, "tied": False, "context": 25}
    learned = denoising(model, context=24) | {"tokenizer": {"kind": "bpe", "vocab": 270}}
    learned["data"] = {"text": "one two three 1 2 3\n" * 80}
    init = train_recipe(compose(learned), tmp_path / "init").path
    still = {"steps": 1, "rate": 1e-30, "schedule": "constant"}
    table = pair_table(write_pairs(tmp_path / "pairs.tsv"), "transformer", init=str(init), **still)
    table |= {"model": {"family": "seq2seq"} | model, "tokenizer": {"joint": True}}
    said: list[str] = []
    train_recipe(compose(table), tmp_path / "run", watcher=watching(notice=said.append))
    before, after = load(init, "cpu"), load(tmp_path / "run", "cpu")
    assert after.tokenizer.to_json() == before.tokenizer.to_json()
    vocab = before.tokenizer.vocab
    for name, weight in after.network.state_dict().items():
        other = before.network.state_dict()[name]
        assert torch.equal(weight, other[:vocab] if other.shape != weight.shape else other), name
    assert len(before.network.state_dict()["embedding.weight"]) == vocab + 1
    assert [line for line in said if "initialised from" in line and "new" not in line]


def test_a_vocabulary_without_an_end_is_refused(tmp_path: Path) -> None:
    learned = denoising(TRANSFORMER | {"family": "language"}, steps=1) | {"tokenizer": {"kind": "char"}}
    del learned["objective"]
    init = train_recipe(compose(learned), tmp_path / "init").path
    table = denoising(init=str(init)) | {"tokenizer": {}}
    with pytest.raises(DataError, match=r"the vocabulary has no <eos>, which ends each target of denoising\."):
        train_recipe(compose(table), tmp_path / "run")


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("objective.mask=1.0", r"objective\.mask is 1\.0; expected 0 ≤ mask < 1"),
        ("objective.delete=-0.1", r"objective\.delete is -0\.1; expected 0 ≤ delete < 1"),
        ("objective.mask=0.7", r"the shares of the noises, infill 0\.3 \+ mask 0\.7, leave no token\. Lower them"),
        ("objective.length=0.5", r"objective\.length is 0\.5; expected 1 or more"),
        ("training.context=1", r"training\.context is 1; expected 2 or more"),
        ("model.context=14", r"training\.context = 14 needs 15 positions, <eos> included, but model\.context = 14\."),
        ("training.carry=true", r"training\.carry is true, but corrupted windows carry no state\."),
        ("tokenizer.joint=true", r"tokenizer\.joint = true only applies to translation;"),
        (
            "objective.share=0.5",
            r"objective\.share only applies to masked, electra and span-corruption; objective\.kind is \"denoising\"",
        ),
    ],
)
def test_settings_that_do_not_fit_are_refused(setting: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        compose(denoising(), [setting])


def test_all_noises_off_is_refused_and_a_beam_is_not() -> None:
    with pytest.raises(ConfigError, match=r"all noises are off, so there is nothing to restore\."):
        compose(denoising(objective={"infill": 0.0, "permute": False}))
    assert compose(denoising(), ["decoding.beam=4", "decoding.penalty=1.0"]).decoding.beam == 4


def test_a_denoising_run_says_what_it_can_do(begun: Path) -> None:
    run: Any = load(begun, "cpu")
    with pytest.raises(ConfigError, match=r"a denoising model and cannot translate; it can: restore, evaluate, embed\."):
        run.translate(["a"])
    assert run.embed(["the cat sat"]).shape[0] == 1


def test_evaluate_prints_how_probable_the_originals_are(firth: Firth, begun: Path) -> None:
    told = json.loads(firth("evaluate", begun, "--json").out)
    assert firth("evaluate", begun).out.splitlines()[1:] == [
        f"{'tokens':<20}{told['tokens']:,} to generate: the original windows, each with <eos>",
        f"{'loss':<20}{told['loss']:.4f} nats per token",
        f"{'perplexity':<20}{told['perplexity']:.4f}",
    ]
