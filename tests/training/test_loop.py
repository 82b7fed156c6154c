"""fit(): accumulation, precision, truncated backpropagation through time, and whose random numbers are whose."""

from __future__ import annotations

import itertools
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from shares import half
from tiny_runs import KINDS, assert_identical, tiny, untrained, watching
from tolerance import assert_equal
from torch import Tensor

from firth.api import train_recipe
from firth.errors import ConfigError
from firth.layers.recurrent import CELLS
from firth.layers.state import RecurrentState
from firth.models import LanguageModel, RecurrentConfig, language_model
from firth.models.initialise import initialise
from firth.tasks.next_token import next_token
from firth.text.batches.windows import Streams
from firth.text.data.running_text import prepare
from firth.training.config import TrainingConfig
from firth.training.log import read as read_log
from firth.training.loop import Step, Training, fit, start
from firth.training.trainer import StepReport


def training_of(kind: str, **settings: Any) -> tuple[Training, TrainingConfig]:
    recipe = tiny(kind, **settings).resolved()
    return untrained(recipe, prepare(recipe.data, recipe.tokenizer)), recipe.training


def weights(training: Training) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in training.model.state_dict().items()}


def exact_loss(model: LanguageModel, input_BT: Tensor, target_BT: Tensor, state: Any = None) -> tuple[Tensor, Any]:
    """next_token in the model's own precision, so that float64 stays float64."""
    logits_BTV, state = model(input_BT, state)
    return F.cross_entropy(logits_BTV.flatten(0, 1), target_BT.flatten()), state


def in_float64(kind: str, **settings: Any) -> tuple[list[Step], Training]:
    training, config = training_of(kind, **settings)
    training.model.double()
    return list(fit(training, exact_loss, config)), training


# --- accumulation, precision, compilation


@pytest.mark.parametrize(
    ("kind", "carry"),
    half(itertools.starmap(pytest.param, [("lstm", False), ("lstm", True), ("gru", True), ("transformer", False)])),
)
def test_a_batch_in_four_pieces_is_the_batch_in_one(kind: str, carry: bool) -> None:
    settings = {"batch": 8, "carry": carry, "steps": 12, "optimizer": "sgd", "rate": 0.3, "momentum": 0.9}
    whole, one = in_float64(kind, **settings)
    pieces, four = in_float64(kind, **settings, accumulate=4)
    float32 = torch.finfo(torch.float32).eps  # losses are reported in float32
    assert [step.loss for step in pieces] == pytest.approx([step.loss for step in whole], rel=4 * float32)
    for name, weight in weights(one).items():
        assert_equal(weights(four)[name], weight)
    if carry:
        assert one.carried is not None
        assert four.carried is not None
        assert_equal(four.carried.h_LBd, one.carried.h_LBd)


@pytest.mark.parametrize(("kind", "carry"), [("gru", True), ("transformer", False)])
def test_bf16_computes_in_bfloat16_keeps_float32_weights_and_learns(kind: str, carry: bool) -> None:
    seen: set[torch.dtype] = set()

    def loss(model: LanguageModel, input_BT: Tensor, target_BT: Tensor, state: Any = None) -> tuple[Tensor, Any]:
        logits_BTV, state = model(input_BT, state)
        seen.add(logits_BTV.dtype)
        return F.cross_entropy(logits_BTV.flatten(0, 1).float(), target_BT.flatten()), state

    settings = {"width": 16, "steps": 40, "batch": 4, "carry": carry, "rate": 0.02, "schedule": "constant"}
    training, config = training_of(kind, **settings, dtype="bf16")
    losses = [step.loss for step in fit(training, loss, config)]
    assert seen == {torch.bfloat16}
    assert {tensor.dtype for tensor in training.model.parameters()} == {torch.float32}
    assert {value.dtype for state in training.optimizer.state.values() for value in state.values()} == {torch.float32}
    full, config = training_of(kind, **settings)
    exact = [step.loss for step in fit(full, next_token, config)]
    assert losses[0] == pytest.approx(exact[0], rel=2**-7)  # one bfloat16 rounding is 2⁻⁸
    assert losses != exact
    assert np.mean(losses[-5:]) < 0.8 * losses[0]


def test_tf32_is_set_while_a_step_runs_forwards_and_backwards_and_not_between_steps() -> None:
    seen: list[str] = []

    def note(gradient: Tensor) -> None:
        seen.append(torch.get_float32_matmul_precision())

    def loss(model: LanguageModel, input_BT: Tensor, target_BT: Tensor, state: Any = None) -> tuple[Tensor, Any]:
        seen.append(torch.get_float32_matmul_precision())
        logits_BTV, state = model(input_BT, state)
        logits_BTV.register_hook(note)
        return F.cross_entropy(logits_BTV.flatten(0, 1), target_BT.flatten()), state

    training, config = training_of("gru", steps=2, dtype="tf32")
    between = [torch.get_float32_matmul_precision() for _ in fit(training, loss, config)]
    assert seen == ["high"] * 4
    assert between == ["highest"] * 2


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")  # the compiler's own
@pytest.mark.skipif(not (shutil.which("g++") or shutil.which("clang++")), reason="torch.compile needs a C++ compiler")
@pytest.mark.parametrize(("kind", "carry"), [("lstm", True), ("transformer", False)])
def test_compile_gives_the_same_losses(kind: str, carry: bool) -> None:
    losses = {}
    for compiled in (False, True):
        training, config = training_of(kind, steps=8, context=3, carry=carry, compile=compiled)
        losses[compiled] = [step.loss for step in fit(training, next_token, config)]
    assert losses[True] == pytest.approx(losses[False], rel=1e-4)  # eight AdamW updates of float32 rounding


# --- truncated backpropagation through time


class Recorder:
    """A loss that keeps what it was given and what came out."""

    def __init__(self) -> None:
        self.states: list[RecurrentState | None] = []
        self.logits: list[Tensor] = []
        self.inputs: list[Tensor] = []
        self.targets: list[Tensor] = []

    def __call__(self, model: LanguageModel, input_BT: Tensor, target_BT: Tensor, state: Any = None) -> tuple[Tensor, Any]:
        self.states.append(state)
        self.inputs.append(input_BT)
        self.targets.append(target_BT)
        logits_BTV, state = model(input_BT, state)
        self.logits.append(logits_BTV.detach())
        return F.cross_entropy(logits_BTV.flatten(0, 1), target_BT.flatten()), state


def streamed(kind: str, steps: int, **settings: Any) -> tuple[Training, TrainingConfig, Streams]:
    """A float64 model over 5 windows an epoch."""
    config = TrainingConfig(steps=steps, batch=3, context=4, carry=True, device="cpu", schedule="constant", clip=0.0, **settings)
    ids = np.random.default_rng(0).integers(0, 7, 3 * 4 * 5 + 1).astype(np.uint16)
    model = language_model(RecurrentConfig(kind=kind, width=6, depth=2), 7).double()  # type: ignore[arg-type]
    initialise(model, torch.Generator().manual_seed(0))
    batches = Streams(ids, config.batch, config.context, config.seed)
    assert batches.per_epoch == 5
    return start(model, batches, config), config, batches


@pytest.mark.parametrize("kind", CELLS.shipped_kinds)
def test_windows_with_carried_state_are_the_whole_text_in_one_go(kind: str) -> None:
    training, config, _ = streamed(kind, 5, optimizer="sgd", rate=1e-300)  # too little to move a weight
    record = Recorder()
    list(fit(training, record, config))
    whole_BTV, _ = training.model(torch.cat(record.inputs, dim=1))
    assert_equal(torch.cat(record.logits, dim=1), whole_BTV.detach())


@pytest.mark.parametrize("kind", CELLS.shipped_kinds)
def test_the_gradient_stops_at_the_border_of_a_window(kind: str) -> None:
    training, config, _ = streamed(kind, 2, optimizer="sgd", rate=1e-3)
    record = Recorder()
    updates = fit(training, record, config)
    next(updates)
    before = weights(training)
    next(updates)
    applied = {name: (before[name] - weight) / 1e-3 for name, weight in weights(training).items()}

    state = record.states[1]
    assert state is not None
    assert not state.h_LBd.requires_grad
    training.model.load_state_dict(before)
    training.model.zero_grad()
    loss, _ = exact_loss(training.model, record.inputs[1], record.targets[1], state)
    loss.backward()
    for name, parameter in training.model.named_parameters():
        assert parameter.grad is not None
        assert_equal(applied[name], parameter.grad, share=1e-11)  # (w − (w − ηg)) / η has a thousand times w's rounding

    training.model.zero_grad()
    _, attached = training.model(record.inputs[0])
    through, _ = exact_loss(training.model, record.inputs[1], record.targets[1], attached)
    through.backward()  # the state now has a graph behind it
    recurrent = next(name for name, _ in training.model.named_parameters() if "weight_ih" in name)
    longer = dict(training.model.named_parameters())[recurrent].grad
    assert longer is not None
    assert (longer - applied[recurrent]).abs().max() > 1e-6


def test_the_state_is_reset_at_the_start_of_every_epoch_and_nowhere_else() -> None:
    training, config, batches = streamed("gru", 3 * 5 + 2)
    record = Recorder()
    list(fit(training, record, config))
    assert [n for n, state in enumerate(record.states) if state is None] == [0, 5, 10, 15]
    assert batches.position == 17


def test_without_carry_every_window_starts_from_nothing() -> None:
    training, config = training_of("gru", steps=20)
    record = Recorder()
    list(fit(training, record, config))
    assert record.states == [None] * 20
    assert training.carried is None


def test_a_transformer_that_is_to_carry_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"training\.carry is true.*Transformer has no (recurrent )?state to carry"):
        training_of("transformer", carry=True)


# --- random numbers


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_consumer_draws_or_seeds_between_steps_does_not_change_the_run(kind: str) -> None:
    settings = {"dropout": 0.3, "steps": 6}
    quiet, config = training_of(kind, **settings)
    losses = [step.loss for step in fit(quiet, next_token, config)]
    noisy, config = training_of(kind, **settings)
    disturbed = []
    with torch.random.fork_rng(devices=[]):
        for step in fit(noisy, next_token, config):
            disturbed.append(step.loss)
            noisy.model.eval()
            torch.rand(step.step)
            torch.manual_seed(step.step)
    assert disturbed == losses
    assert_identical(weights(noisy), weights(quiet))


def test_a_run_leaves_the_global_generator_as_it_was() -> None:
    training, config = training_of("gru", dropout=0.3)
    before = torch.get_rng_state()
    list(fit(training, next_token, config))
    assert torch.equal(torch.get_rng_state(), before)


def test_dropout_differs_from_step_to_step_and_from_seed_to_seed() -> None:
    """So that the two tests above are about something."""
    draws = []
    for seed in (0, 1):
        training, config = training_of("gru", dropout=0.5, steps=2, seed=seed)
        for _ in fit(training, next_token, config):
            draws.append(training.random.state["cpu"].clone())
    assert all(not torch.equal(one, other) for n, one in enumerate(draws) for other in draws[:n])


def test_a_watcher_is_told_the_loss_and_the_totals_so_far(tmp_path: Path) -> None:
    seen: list[StepReport] = []
    train_recipe(tiny("gru", steps=5), tmp_path / "run", watcher=watching(lambda training, step: seen.append(step)))
    logged = read_log(tmp_path / "run" / "log.jsonl")
    for name in ("step", "loss", "rate", "tokens"):
        assert [getattr(told, name) for told in seen] == [line[name] for line in logged]
    assert [told.seconds for told in seen] == sorted(told.seconds for told in seen)
    assert [told.valid for told in seen] == [line.get("valid") for line in logged]
