"""ELECTRA from recipe to run: its loss, where gradients flow, that it resumes to the bit, and what a run of it can do."""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from reviews import classifier_table, write
from shares import half
from small_models import randomise
from tiny_runs import assert_stopping_changes_nothing, watching

from firth.api import compose, load, train_recipe
from firth.config import Table
from firth.errors import ConfigError
from firth.layers import cross_entropy as layer
from firth.models import TransformerEncoderConfig
from firth.models.electra import Electra, corrupt, electra, sample
from firth.tasks import electra as task
from firth.tasks.electra import ElectraRun, ReplacedTokenDetection, replaced_terms
from firth.text.batches.masking import Masking, masked_sweep
from firth.text.data.running_text import prepare

SENTENCES = ("the cat sat on the mat", "the dog sat on the rug", "a bird sang in the tree", "a fish swam in the sea")
TEXT = "".join(f"{sentence} .\n" for _ in range(30) for sentence in SENTENCES)
TRANSFORMER: Table = {"kind": "transformer", "width": 16, "depth": 1, "heads": 2}
VOCAB = 13


def table(model: Table | None = None, **training: Any) -> Table:
    settings = {"steps": 8, "batch": 4, "context": 16, "device": "cpu", "rate": 0.01, "log_every": 1, "evaluate_every": 4}
    return {
        "data": {"text": TEXT, "valid": 0.2},
        "tokenizer": {"kind": "word"},
        "model": {"family": "encoder"} | (model or TRANSFORMER),
        "objective": {"kind": "electra"},
        "training": settings | training,
    }


# The loss


def made() -> Electra:
    model = electra(TransformerEncoderConfig(kind="transformer", width=8, depth=2, heads=2, context=16), VOCAB, 0.5)
    return randomise(model).double()


def batch() -> dict[str, torch.Tensor]:
    """The second row has one masked position fewer than the others."""
    token_BT = torch.randint(VOCAB + 1, (3, 10), generator=torch.Generator().manual_seed(1))
    place_BM = torch.tensor([[0, 4, 9], [2, 3, 0], [1, 5, 6]])
    target_BM = torch.tensor([[5, 0, 12], [7, 7, -1], [1, 2, 3]])
    return {"token_BT": token_BT, "place_BM": place_BM, "target_BM": target_BM}


SAMPLE_BM = torch.tensor([[5, 1, 12], [8, 7, 9], [4, 4, 3]])  # of the 8 that count, 4 are the original token


@pytest.mark.parametrize("small", [True, False], ids=["held", "in pieces"])
def test_the_loss_is_that_of_the_generator_plus_the_weighted_cross_entropy_of_all_tokens(
    small: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not small:
        monkeypatch.setattr(layer, "SMALL", 0)
    monkeypatch.setattr(task, "sample", lambda logits_BMV: SAMPLE_BM)
    model, given = made(), batch()
    loss_2, state = replaced_terms(model, **given, weight=7.0)
    assert state is None
    logits_BTV = model.generator(given["token_BT"]).detach().numpy()
    nats, read, replaced = [], given["token_BT"].tolist(), [[False] * 10 for _ in range(3)]
    for row in range(3):
        for place, target, drawn in zip(given["place_BM"][row], given["target_BM"][row], SAMPLE_BM[row], strict=True):
            if target >= 0:
                powers = np.exp(logits_BTV[row, place])
                nats.append(-math.log(powers[target] / powers.sum()))
                read[row][place], replaced[row][place] = int(drawn), bool(drawn != target)
    assert (len(nats), sum(map(sum, replaced))) == (8, 4)
    logits_BT = model(torch.tensor(read)).detach().tolist()
    binary = [
        -math.log(1 / (1 + math.exp(-logit if was else logit)))
        for logits, labels in zip(logits_BT, replaced, strict=True)
        for logit, was in zip(logits, labels, strict=True)
    ]
    assert len(binary) == 30, "all tokens"
    assert loss_2.tolist() == pytest.approx([sum(nats) / 8, 7.0 * sum(binary) / 30], rel=1e-10)


def gradients(weight: float, monkeypatch: pytest.MonkeyPatch) -> dict[str, torch.Tensor]:
    monkeypatch.setattr(task, "sample", lambda logits_BMV: SAMPLE_BM)
    model = made()
    replaced_terms(model, **batch(), weight=weight)[0].sum().backward()
    return {name: parameter.grad for name, parameter in model.named_parameters() if parameter.grad is not None}


def test_gradients_reach_both_parts_but_not_through_the_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = gradients(1.0, monkeypatch), gradients(2.0, monkeypatch)
    assert one.keys() == dict(made().named_parameters()).keys()
    assert all(gradient.abs().sum() > 0 for gradient in one.values())
    for name in one:
        if name.startswith("generator."):
            assert torch.equal(one[name], other[name]), f"{name}: the discriminator's loss reached the generator"
        elif name != "encoder.embedding.weight":
            assert torch.allclose(2 * one[name], other[name], rtol=1e-9), f"{name}: the generator's loss reached it"


def test_the_samples_of_a_step_come_from_the_generators_logits_at_the_masked_positions(monkeypatch: pytest.MonkeyPatch) -> None:
    model, given, seen = made(), batch(), []

    def noted(logits_BMV: torch.Tensor) -> torch.Tensor:
        seen.append(logits_BMV)
        return sample(logits_BMV)

    monkeypatch.setattr(task, "sample", noted)
    replaced_terms(model, **given, weight=1.0)
    assert not seen[0].requires_grad
    expected_BMV = model.generator(given["token_BT"], place_BM=given["place_BM"]).detach()
    assert torch.allclose(seen[0], expected_BMV, rtol=1e-12)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")
def test_the_loss_compiles() -> None:
    model = made().float()
    loss = torch.compile(partial(replaced_terms, weight=50.0), dynamic=False, backend="aot_eager", fullgraph=True)
    torch.manual_seed(0)
    terms, _ = loss(model, **batch(), state=None)
    terms.sum().backward()
    assert all(parameter.grad is not None for parameter in model.parameters())
    torch.manual_seed(0)
    expected, _ = replaced_terms(model, **batch(), weight=50.0)
    assert terms.tolist() == pytest.approx(expected.tolist(), rel=1e-5)


# Training

MODELS: dict[str, Table] = {
    "transformer": TRANSFORMER | {"dropout": 0.1},
    "lstm": {"kind": "lstm", "width": 8, "embedding": 6},
}


@pytest.mark.parametrize("name", half(MODELS))
def test_a_run_that_was_stopped_continues_to_the_bit(name: str, tmp_path: Path) -> None:
    recipe = compose(table(MODELS[name], steps=14, evaluate_every=5, checkpoint_every=4))
    assert_stopping_changes_nothing(recipe, tmp_path, at=7)


def test_a_seed_gives_the_same_batches_and_another_seed_other_ones() -> None:
    def drawn(seed: int) -> list[np.ndarray[Any, Any]]:
        recipe = compose(table(seed=seed)).resolved()
        batches = recipe.task.batches(recipe.task.read(recipe.tokenizer, lambda what, done, total: None))
        return [part for _ in range(3) for made in (batches.next(),) for part in (made.token_BT, made.place_BM, made.target_BM)]

    for one, same, other in zip(drawn(0), drawn(0), drawn(1), strict=True):
        assert np.array_equal(one, same)
        assert not np.array_equal(one, other)


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    settings = {"steps": 250, "batch": 16, "rate": 0.01, "evaluate_every": 0}
    recipe = compose(table(TRANSFORMER | {"width": 32}, **settings), ["objective.generator=0.5"])
    return train_recipe(recipe, tmp_path_factory.mktemp("electra") / "run").path


@pytest.fixture(scope="module")
def run(run_folder: Path) -> ElectraRun:
    return load(run_folder, "cpu", kind=ElectraRun)


def test_replaced_words_are_found(run: ElectraRun) -> None:
    result: dict[str, Any] = run.evaluate(split="valid")
    assert result["f1"] > 0.4, "a discriminator that says the same of all tokens has an F1 of 0.2 or less"
    assert result["generator_accuracy"] > 0.5
    (text,) = run.replaced(["the cat sang on the mat ."])
    assert text.tokens == ("the", "cat", "sang", "on", "the", "mat", ".")
    assert max(zip(text.probabilities, text.tokens, strict=True))[1] == "sang"


def test_probabilities_do_not_depend_on_the_other_texts(run: ElectraRun) -> None:
    texts = ["a fish swam in the sea .", "the mat", "the dog sat on the rug .\nthe cat"]
    together = run.replaced(texts)
    for text, among_others in zip(texts, together, strict=True):
        alone = run.replaced([text])[0]
        assert among_others.tokens == alone.tokens
        assert among_others.probabilities == pytest.approx(alone.probabilities, rel=1e-4)
    eos = run.tokenizer.eos
    assert eos is not None
    token_1T = torch.tensor([[eos, *run.tokenizer.encode("the mat").tolist(), eos]])
    expected_T = torch.sigmoid(run.network(token_1T).detach()[0])
    assert together[1].probabilities == pytest.approx(expected_T[1:-1].tolist(), rel=1e-5)
    assert run.replaced([]) == []
    with pytest.raises(ConfigError, match=r"replaced takes a list of texts\."):
        run.replaced("the mat")


def test_evaluation_is_the_mean_over_the_whole_text(run: ElectraRun) -> None:
    """Window by window: the samples differ from those of whole batches, so what depends on them is compared loosely."""
    text = prepare(run.recipe.data, run.tokenizer).valid
    assert text is not None
    random = torch.Generator().manual_seed(0)
    nats, right, binary, correct = [], 0, [], []
    for part in masked_sweep(text.ids, 16, 16, Masking(run.tokenizer, 0.15)):
        token_BT, place_BM, target_BM = map(torch.from_numpy, (part.token_BT, part.place_BM, part.target_BM))
        logits_BMV = run.network.generator(token_BT, place_BM=place_BM).detach()
        read_BT, replaced_BT = corrupt(token_BT, place_BM, target_BM, sample(logits_BMV, random))
        log_p_BMV = torch.log_softmax(logits_BMV.double(), -1)
        for row, column in zip(*np.nonzero(part.target_BM >= 0), strict=True):
            nats.append(-float(log_p_BMV[row, column, part.target_BM[row, column]]))
            right += int(log_p_BMV[row, column].argmax() == part.target_BM[row, column])
        p_BT = torch.sigmoid(run.network(read_BT).detach().double())
        binary += (-torch.where(replaced_BT, p_BT, 1 - p_BT).log()).flatten().tolist()
        correct += list(zip(replaced_BT.flatten().tolist(), (p_BT > 0.5).flatten().tolist(), strict=True))
    result: dict[str, Any] = run.evaluate(split="valid")
    assert result == run.evaluate(split="valid"), "the same each time"
    assert (result["masked"], result["tokens"]) == (len(nats), len(binary))
    assert result["replaced"] == sum(was for was, _ in correct)
    assert result["generator_loss"] == pytest.approx(np.mean(nats), rel=1e-5)
    assert result["generator_accuracy"] == right / len(nats)
    assert result["discriminator_loss"] == pytest.approx(np.mean(binary), rel=1e-4)
    assert result["loss"] == pytest.approx(result["generator_loss"] + 50 * result["discriminator_loss"])
    assert result["accuracy"] == sum(was == said for was, said in correct) / len(correct)
    hits = sum(was and said for was, said in correct)
    assert result["recall"] == hits / sum(was for was, _ in correct)
    assert result["precision"] == hits / sum(said for _, said in correct)
    assert result["f1"] == pytest.approx(2 / (1 / result["precision"] + 1 / result["recall"]))
    assert set(ReplacedTokenDetection.metrics) - {"wic_accuracy"} <= result.keys()
    assert run.task.headline(result).startswith("F1 0.")
    assert f"{len(nats)} masked, {result['replaced']} replaced" in run.task.report(result)


def test_inspection_is_of_the_discriminator(run: ElectraRun) -> None:
    attention = run.attention("the cat sat")
    assert attention.tokens == ("<eos>", "the", "cat", "sat", "<eos>")
    assert attention.layers == (0,)
    with pytest.raises(ConfigError, match="layer is 1; expected 0"):
        run.attention("the cat sat", layers=[1])
    assert run.embed(["the cat sat", "a fish"]).shape == (2, 32)
    assert run.senses("cat", ["the cat sat", "a cat swam"]).text()
    with pytest.raises(ConfigError, match="this run is an ELECTRA run and cannot fill; it can: find replaced, evaluate, embed"):
        run.fill("a __")  # type: ignore[attr-defined]


def test_the_states_of_a_recurrent_discriminator_are_seen(tmp_path: Path) -> None:
    run = load(train_recipe(compose(table(MODELS["lstm"], steps=1)), tmp_path / "run").path, "cpu")
    assert len(run.states("the cat").levels) == 2, "both directions of one layer, and nothing of the generator"


# Starting other runs


@pytest.mark.parametrize("name", MODELS)
def test_a_classifier_starts_from_the_discriminators_encoder(name: str, tmp_path: Path) -> None:
    init = train_recipe(compose(table(MODELS[name], steps=2)), tmp_path / "init").path
    fine: Table = classifier_table(write(tmp_path / "reviews.csv"), steps=1, rate=1e-30)
    del fine["tokenizer"]
    fine |= {"model": {"family": "encoder"} | MODELS[name], "training": fine["training"] | {"init": str(init)}}
    said: list[str] = []
    path = train_recipe(compose(fine), tmp_path / "run", watcher=watching(notice=said.append)).path
    before, after = load(init, "cpu").network.state_dict(), load(path, "cpu").network.state_dict()
    taken = [own for own in after if own.startswith("encoder.")]
    assert taken == [own for own in before if own.startswith("encoder.")]
    for own in taken:
        assert torch.equal(after[own], before[own][: len(after[own])]), own
    assert said == [f"{len(taken)} of {len(taken) + 2} weights initialised from {init}; new: output.weight, output.bias"]


def test_a_language_model_takes_the_shared_embedding_too(tmp_path: Path) -> None:
    init = train_recipe(compose(table(steps=2)), tmp_path / "init").path
    language = table(init=str(init), steps=1, rate=1e-30) | {"model": TRANSFORMER, "objective": {"kind": "next-token"}}
    del language["tokenizer"]
    path = train_recipe(compose(language), tmp_path / "run").path
    before, after = load(init, "cpu").network.state_dict(), load(path, "cpu").network.state_dict()
    assert torch.equal(after["embedding.weight"], before["encoder.embedding.weight"][: len(after["embedding.weight"])])
    assert torch.equal(after["blocks.0.attention.qkv.weight"], before["encoder.stack.blocks.0.attention.qkv.weight"])


def test_electra_starts_from_electra_as_a_whole(tmp_path: Path) -> None:
    init = train_recipe(compose(table(steps=2)), tmp_path / "init").path
    said: list[str] = []
    again = table(init=str(init), steps=1, rate=1e-30)
    path = train_recipe(compose(again), tmp_path / "run", watcher=watching(notice=said.append)).path
    before, after = load(init, "cpu").network.state_dict(), load(path, "cpu").network.state_dict()
    assert said == [f"{len(after)} of {len(after)} weights initialised from {init}"]
    assert all(torch.equal(after[name], before[name]) for name in after)


# Settings


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("objective.share=1.0", r"objective\.share is 1\.0; expected 0 < share < 1"),
        ("objective.generator=0.0", r"objective\.generator is 0\.0; expected 0 < generator ≤ 1"),
        ("objective.generator=1.5", r"objective\.generator is 1\.5; expected 0 < generator ≤ 1"),
        ("objective.weight=0.0", r"objective\.weight is 0\.0; expected more than 0"),
        ("model.context=8", r"training\.context = 16 needs 16 positions, but model\.context = 8"),
        ("training.carry=true", r"training\.carry is true, but masked windows carry no state\."),
        ("training.select=bleu", r'training\.select is "bleu"; for electra choose "loss", "accuracy" or "f1"'),
    ],
)
def test_settings_that_do_not_fit_are_refused(setting: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        compose(table(), [setting])


def test_words_by_themselves_are_refused() -> None:
    with pytest.raises(ConfigError, match=r'model\.kind = "average" reads each token by itself'):
        compose(table({"kind": "average"}))
