"""muP is what its authors' package computes, keeps activations at one size at every width, and leaves no trace in exports."""

from __future__ import annotations

import copy
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_runs import TEXT, assert_identical, outcome, stopping_at, tiny, undisturbed
from torch import Tensor, nn

import firth
from firth.api import compose, train_recipe
from firth.api.recipe import Recipe
from firth.api.training import initial_network, train_into
from firth.errors import ConfigError, Interrupted
from firth.models import TransformerConfig
from firth.models.parametrization import at_base
from firth.models.width_rules import as_standard
from firth.text.data.running_text import prepare
from firth.training.config import TrainingConfig
from firth.training.optim import optimizer_for

BASE = 16
STEPS = 4
Table = dict[str, Any]


def recipe(width: int, *, mup: bool = True, training: Table | None = None, **model: Any) -> Recipe:
    own = {"parametrization": {"kind": "mup", "base_width": BASE}} if mup else {}
    attention = {"heads": 2, **model.pop("attention", {})}
    shape = {"kind": "transformer", "width": width, "depth": 2, "attention": attention, "feedforward": {"activation": "gelu"}}
    few = {"context": 6, "batch": 2, "steps": 6, "rate": 0.01, "device": "cpu", "log_every": 1, **(training or {})}
    return compose(
        {"data": {"text": TEXT, "valid": 0.2}, "tokenizer": {"kind": "char"}, "model": {**shape, **own, **model}, "training": few}
    )


def network(width: int, **given: Any) -> Any:
    chosen = recipe(width, **given).resolved()
    return initial_network(chosen, prepare(chosen.data, chosen.tokenizer))


def batches(vocab: int) -> Iterator[tuple[Tensor, Tensor]]:
    generator = torch.Generator().manual_seed(0)
    for _ in range(STEPS):
        tokens = torch.randint(vocab, (4, 7), generator=generator)
        yield tokens[:, :-1], tokens[:, 1:]


def with_rates(model: nn.Module, config: TrainingConfig) -> torch.optim.Optimizer:
    """The optimiser with the rates that training sets before each update."""
    optimizer = optimizer_for(model, config)
    for group in optimizer.param_groups:
        group["lr"] = config.rate * group.get("rate_factor", 1.0)
    return optimizer


def test_at_the_base_width_it_is_the_standard_model_and_training_to_the_bit(tmp_path: Path) -> None:
    runs = [outcome(train_into(recipe(BASE, mup=mup), tmp_path / str(mup)).path) for mup in (True, False)]
    assert_identical(runs[0]["checkpoint"], runs[1]["checkpoint"])


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("width", [8, 64])
def test_it_trains_the_function_that_the_authors_package_trains(tied: bool, width: int) -> None:
    """Theirs divides the input of the output layer by the ratio of the widths; ours has that ratio in weights and rates."""
    mup = pytest.importorskip("mup", reason="the authors' package is the oracle")
    ratio, given = width / BASE, {"tied": tied, "bias": True, "norm": {"kind": "layer"}}
    ours, base = network(width, **given).double(), network(BASE, mup=False, **given)
    theirs = copy.deepcopy(ours)
    shapes = {name: weight.shape for name, weight in base.named_parameters()}
    if tied:
        theirs.readout_layer = mup.MuSharedReadout(theirs.embedding.weight, bias=False)
        theirs.norm.weight.data *= ratio
    else:
        theirs.readout_layer = mup.MuReadout(width, ours.vocab, bias=True).double()
        theirs.readout_layer.weight.data = ours.output.weight.data * ratio
        theirs.readout_layer.bias.data = ours.output.bias.data.clone()
        theirs.output = None
        shapes = {name.replace("output.", "readout_layer."): shape for name, shape in shapes.items()}
    mup.set_base_shapes(theirs, shapes, rescale_params=False)
    config = recipe(width, training={"rate": 0.02, "weight_decay": 0.1, "betas": [0.8, 0.9]}, **given).training
    matrices, vectors = ([weight for weight in theirs.parameters() if (weight.ndim > 1) is wanted] for wanted in (True, False))
    decays = [{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}]
    optimizers = with_rates(ours, config), mup.MuAdamW(decays, lr=0.02, betas=(0.8, 0.9))
    first = ours(next(batches(ours.vocab))[0])[0].detach()
    for tokens, targets in batches(ours.vocab):
        both = ours(tokens)[0], theirs.readout_layer(theirs.hidden(tokens)[0])
        torch.testing.assert_close(both[0], both[1], rtol=1e-4, atol=1e-5)
        for logits, optimizer in zip(both, optimizers, strict=True):
            optimizer.zero_grad()
            nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten()).backward()
            optimizer.step()
    assert (ours(next(batches(ours.vocab))[0])[0] - first).abs().max() > 0.1


@pytest.mark.parametrize("tied", [True, False])
def test_initial_weights_have_the_standard_deviations_of_the_authors_package(tied: bool) -> None:
    mup = pytest.importorskip("mup", reason="the authors' package is the oracle")
    width, ratio = 128, 128 / BASE
    ours, base = network(width, tied=tied), network(BASE, mup=False, tied=tied)
    shapes = dict(base.named_parameters())
    for name, weight in ours.named_parameters():
        if weight.ndim < 2:
            continue
        theirs = nn.Parameter(torch.empty_like(weight))
        theirs.infshape = mup.infshape.zip_infshape(shapes[name].shape, weight.shape)
        fan_in = 1 if "embedding" in name else shapes[name].shape[1]
        expected_at_base = {"embedding.weight": BASE**-0.5}.get(name, fan_in**-0.5)
        written = (
            0.5 if name.endswith(("attention.out.weight", "feedforward.down.weight")) else 1.0
        )  # four layers add to the stream
        mup.init.normal_(theirs, std=expected_at_base * written)
        multiplier = ratio if name == "output.weight" else 1.0  # see above
        assert float(weight.detach().std()) * multiplier == pytest.approx(float(theirs.detach().std()), rel=0.1), name


def sizes_after_training(width: int, mup: bool) -> list[float]:
    """How far the stream after each block and the logits have moved, as root mean squares."""
    model = network(width, mup=mup)
    tokens = torch.randint(model.vocab, (4, 6), generator=torch.Generator().manual_seed(9))

    def seen() -> list[Tensor]:
        outputs: list[Tensor] = []
        handles = [block.register_forward_hook(lambda module, given, made: outputs.append(made[0])) for block in model.blocks]
        with torch.no_grad():
            outputs.append(model(tokens)[0])
        for handle in handles:
            handle.remove()
        return outputs

    before, optimizer = seen(), with_rates(model, recipe(width, mup=mup).training)
    for given, targets in batches(model.vocab):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(given)[0].flatten(0, 1), targets.flatten()).backward()
        optimizer.step()
    return [float((after - old).square().mean().sqrt()) for after, old in zip(seen(), before, strict=True)]


def test_what_training_adds_to_activations_grows_with_the_width_only_in_the_standard_model() -> None:
    """The coordinate check of the paper (figure 5), as the exponent of the width."""
    widths = (32, 256)

    def exponents(mup: bool) -> list[float]:
        sizes = [sizes_after_training(width, mup) for width in widths]
        return [
            math.log(last / first) / math.log(widths[-1] / widths[0]) for first, last in zip(sizes[0], sizes[-1], strict=True)
        ]

    assert max(exponents(True)) < 0.15
    assert min(exponents(False)) > 0.3


def test_scores_are_divided_by_the_width_of_a_head_not_by_its_root() -> None:
    scales = {width: network(width).blocks[0].attention.attend.scale for width in (BASE, 4 * BASE)}
    assert scales[4 * BASE] == pytest.approx(scales[BASE] / 4)
    wide = [network(width, attention={"head_width": 8}).blocks[0].attention.attend.scale for width in (BASE, 4 * BASE)]
    assert wide[0] == wide[1] == pytest.approx(8**-0.5)


def test_matrices_train_with_their_own_rate_also_after_a_stop(tmp_path: Path) -> None:
    given = {"optimizer": "schedule-free", "schedule": "constant", "weight_decay": 0.1, "steps": 8}
    chosen = recipe(4 * BASE, training=given)
    expected = undisturbed(chosen, tmp_path / "whole")
    with pytest.raises(Interrupted):
        train_recipe(chosen, tmp_path / "parts", watcher=stopping_at(3))
    train_recipe(chosen, tmp_path / "parts", resume=True)
    assert_identical(outcome(tmp_path / "parts"), expected)
    rates = {
        (group["weight_decay"], group.get("rate_factor")) for group in optimizer_for(network(64), chosen.training).param_groups
    }
    assert rates == {(0.4, 0.25), (0.1, None), (0.0, None), (0.0, 0.25)}


MODELS: dict[str, Table] = {
    "decoder": {},
    "gains of queries": {"attention": {"qk_norm": True}, "bias": True, "tied": False},
    "all heads at once": {"attention": {"qk_norm": "whole", "kv_heads": 1}},
    "no key bias": {"bias": "qkv", "attention": {"key_bias": False}},
    "T5 bias": {"position": "t5", "norm": {"kind": "layer"}},
}


@pytest.mark.parametrize("name", MODELS)
def test_as_a_standard_model_it_computes_the_same(name: str) -> None:
    given = MODELS[name]
    model = network(48, **given)
    with torch.no_grad():
        for index, weight in enumerate(model.parameters()):
            weight.add_(torch.randn(weight.shape, generator=torch.Generator().manual_seed(index)), alpha=0.3)
    plain, config = as_standard(model, model.config)
    assert config.parametrization.kind == "standard"
    assert plain.blocks[0].attention.attend.scale == pytest.approx(24**-0.5)
    tokens = torch.arange(12).view(2, 6) % model.vocab
    rebuilt = network(48, mup=False, **given)
    rebuilt.load_state_dict(plain.state_dict())
    for other in (plain, rebuilt):
        torch.testing.assert_close(other(tokens)[0], model(tokens)[0], rtol=1e-4, atol=1e-5)
    assert model.blocks[0].attention.attend.scale < 0.9 * 24**-0.5  # it was copied


def seq2seq(mup: bool) -> Any:
    model = {"family": "seq2seq", "kind": "transformer", "width": 48, "depth": 1, "attention": {"heads": 2}}
    own = {"parametrization": {"kind": "mup", "base_width": BASE}} if mup else {}
    table = {"data": {"text": TEXT, "valid": 0.2}, "tokenizer": {"kind": "char"}, "objective": {"kind": "span-corruption"}}
    chosen = compose(table | {"model": model | own}).resolved()
    return initial_network(chosen, chosen.task.read(chosen.tokenizer, lambda *told: None))


def test_as_a_standard_model_an_encoder_and_decoder_compute_the_same() -> None:
    model, rebuilt = seq2seq(True), seq2seq(False)
    rebuilt.load_state_dict(as_standard(model, model.config)[0].state_dict())
    source, target = torch.arange(12).view(2, 6), torch.arange(3, 11).view(2, 4)
    given = source, torch.tensor([6, 4]), target
    torch.testing.assert_close(rebuilt(*given), model(*given), rtol=1e-4, atol=1e-5)


def test_weights_of_a_standard_run_do_not_start_a_model_with_other_scores(tmp_path: Path) -> None:
    start = train_into(recipe(32, mup=False), tmp_path / "start").path
    with pytest.raises(ConfigError, match="parametrization"):
        train_into(recipe(32, training={"init": str(start)}), tmp_path / "run")


def test_an_exported_model_gives_the_same_logits(tmp_path: Path) -> None:
    run = train_recipe(recipe(48, feedforward={"activation": "swiglu"}), tmp_path / "run")
    run.export(tmp_path / "hf", format="hf", progress=False)
    there = firth.load(tmp_path / "hf", "cpu")
    tokens = torch.arange(12).view(2, 6)
    torch.testing.assert_close(there.network(tokens)[0], run.network(tokens)[0], rtol=1e-4, atol=1e-5)
    assert there.recipe.model.parametrization.kind == "standard"


@pytest.mark.parametrize(
    ("family", "more"),
    [
        ({"family": "seq2seq"}, {"objective": {"kind": "span-corruption"}}),
        ({"family": "seq2seq", "tied": False}, {"objective": {"kind": "span-corruption"}}),
        ({"family": "encoder"}, {"objective": {"kind": "masked"}}),
        ({"family": "seq2seq", "kind": "prefix"}, {"objective": {"kind": "span-corruption"}}),
    ],
)
def test_every_family_of_transformers_has_a_rate_for_each_weight(family: Table, more: Table) -> None:
    model = {"kind": "transformer", "width": 64, "depth": 1, "heads": 2, "position": "none", "activation": "gelu", **family}
    model["parametrization"] = {"kind": "mup", "base_width": BASE}
    chosen = compose({"data": {"text": TEXT, "valid": 0.2}, "tokenizer": {"kind": "char"}, "model": model, **more}).resolved()
    initial = initial_network(chosen, chosen.task.read(chosen.tokenizer, lambda *told: None))
    matrices = {name for name, weight in initial.named_parameters() if weight.ndim > 1 and "embedding" not in name}
    gains = {
        name for name, weight in initial.named_parameters() if initial.readout_norm and weight is initial.readout_norm.weight
    }
    assert initial.rate_factors == dict.fromkeys(matrices | gains, 0.25)
    assert (not gains) == (family.get("tied") is False)
    assert float(initial.embedding.weight.detach().std()) == pytest.approx(BASE**-0.5, rel=0.1)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ({"parametrization": "mup"}, 'model.parametrization.kind = "mup" needs model.parametrization.base_width'),
        (
            {"parametrization": {"base_width": 8}},
            'base_width = 8 only applies to model.parametrization.kind = "mup"; given "standard"',
        ),
        (
            {"parametrization": {"kind": "mup", "base_width": 9}},
            "base_width = 9 gives no model: model.attention.heads = 2 does not",
        ),
        (
            {"attention": {"score": "cosine"}},
            'model.attention.score is "cosine", for which model.parametrization.kind = "mup" has no rule. Set it to',
        ),
        ({"attention": {"scale": 0.1}}, "model.attention.scale is 0.1, for which"),
        ({"attention": {"kind": "linear"}, "position": "none"}, 'model.attention.kind is "linear", for which'),
        ({"position": "shaw"}, 'model.position is "shaw", for which'),
        ({"position": "sinusoidal"}, "model.embedding.scale is true, for which"),
        ({"norm": {"placement": "post"}}, 'model.norm.placement is "post", for which'),
        (
            {"training": {"optimizer": "sgd"}},
            'training.optimizer is "sgd", for which model.parametrization = "mup" has no learning',
        ),
        ({"training": {"optimizer": "muon"}}, 'Choose "adamw" or "schedule-free".'),
        ({"training": {"lora": 2, "init": "run"}}, "training.lora is 2, for which"),
    ],
)
def test_what_has_no_rule_is_refused(model: Table, message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        recipe(32, **model)


def test_the_base_of_a_standard_model_is_none() -> None:
    assert at_base(TransformerConfig(kind="transformer", width=32)) is None
    assert "parametrization" in tiny("transformer").toml()
