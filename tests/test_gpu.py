"""Tests that need a GPU; LOG.md has the results of such runs."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from runs import recipe_table
from searches import beam, greedy

from firth.api import compose, load, train_recipe
from firth.api.training import train_into
from firth.decoding.config import DecodingConfig
from firth.decoding.generate import generate
from firth.errors import ConfigError, Diverged
from firth.layers.attention import attend, mask
from firth.models import (
    RecurrentConfig,
    RecurrentSeq2SeqConfig,
    Seq2SeqConfig,
    TransformerConfig,
    TransformerSeq2SeqConfig,
    language_model,
    seq2seq,
)
from firth.models.initialise import initialise
from firth.tasks.next_token import next_token
from firth.tasks.translation import translation
from firth.text.batches.pairs import BucketedPairs, Pairs
from firth.text.batches.windows import Streams, Windows
from firth.training import loop
from firth.training.config import TrainingConfig

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

KINDS = ("rnn", "lstm", "gru", "transformer")
IDS = np.random.default_rng(0).integers(0, 50, 20_000).astype(np.uint16)


VARIANTS: dict[str, dict[str, Any]] = {  # those whose attention is not torch's
    "window": {"mask": "window", "span": 9},
    "strictly causal, gaussian, alibi": {"mask": "strictly_causal", "score": "gaussian", "position": "alibi"},
    "t5": {"position": "t5", "distance_buckets": 8, "max_distance": 20},
    "shaw": {"position": "shaw", "max_distance": 6},
    "bilinear": {"score": "bilinear"},
    "additive": {"score": "additive", "position": "learned"},
    "additive, t5": {"score": "additive", "position": "t5"},
}


def _model(kind: Any) -> Any:
    config = (
        TransformerConfig(kind="transformer", width=64, depth=2, heads=4, kv_heads=2, context=32, **VARIANTS.get(kind, {}))
        if kind == "transformer" or kind in VARIANTS
        else RecurrentConfig(kind=kind, width=64, depth=2)
    )
    model = language_model(config, 50)
    initialise(model, torch.Generator().manual_seed(0))
    return model


def _losses(kind: str, steps: int = 8, **settings: Any) -> tuple[list[float], loop.Training]:
    carry = kind != "transformer" and kind not in VARIANTS
    config = TrainingConfig(steps=steps, batch=8, context=32, carry=carry, rate=1e-3, **settings)
    batches = (Streams if carry else Windows)(IDS, 8, 32, 0)
    training = loop.start(_model(kind), batches, config)
    return [step.loss for step in loop.fit(training, next_token, config)], training


@pytest.mark.parametrize("kind", [*KINDS, *VARIANTS])
def test_training_on_a_gpu_follows_training_on_a_cpu(kind: str) -> None:
    on_gpu, training = _losses(kind, device="cuda")
    assert next(training.model.parameters()).device.type == "cuda"
    np.testing.assert_allclose(on_gpu, _losses(kind, device="cpu")[0], rtol=1e-4)


@pytest.mark.parametrize("kind", [*KINDS, *VARIANTS])
def test_bf16_on_a_gpu_keeps_float32_weights_and_stays_close(kind: str) -> None:
    losses, training = _losses(kind, device="cuda", dtype="bf16")
    assert all(parameter.dtype == torch.float32 for parameter in training.model.parameters())
    np.testing.assert_allclose(losses, _losses(kind, device="cuda")[0], rtol=1e-2)


@pytest.mark.parametrize("kind", KINDS)
def test_tf32_on_a_gpu_stays_closer_than_bf16(kind: str) -> None:
    exact = _losses(kind, device="cuda")[0]
    np.testing.assert_allclose(_losses(kind, device="cuda", dtype="tf32")[0], exact, rtol=1e-3)


PAIRED: dict[str, Seq2SeqConfig] = {
    "rnnenc": RecurrentSeq2SeqConfig(kind="lstm", attention="none", width=32, depth=2),
    "rnnsearch": RecurrentSeq2SeqConfig(kind="gru", width=32),
    "luong": RecurrentSeq2SeqConfig(kind="lstm", attention="bilinear", width=32, depth=2),
    "transformer": TransformerSeq2SeqConfig(kind="transformer", width=32, depth=2, heads=4, context=32),
    "additive": TransformerSeq2SeqConfig(
        kind="transformer", width=32, depth=2, heads=4, context=32, score="additive", position="t5"
    ),
}


def _pairs() -> Pairs:
    random = np.random.default_rng(1)
    sides = ([np.append(random.integers(1, 40, length), 0) for length in random.integers(1, 20, 400)] for _ in range(2))
    return Pairs.of(*sides)


def _translating(name: str, device: str) -> tuple[list[float], Any]:
    model = seq2seq(PAIRED[name], 40, 40)
    initialise(model, torch.Generator().manual_seed(0))
    config = TrainingConfig(steps=8, rate=1e-3, device=device)  # type: ignore[arg-type]
    training = loop.start(model, BucketedPairs(_pairs(), 512, 0), config)
    return [step.loss for step in loop.fit(training, translation, config)], model.eval()


@pytest.mark.parametrize("name", PAIRED)
def test_translation_is_learned_on_a_gpu_as_on_a_cpu_and_written_the_same(name: str) -> None:
    (on_gpu, model), (on_cpu, twin) = (_translating(name, device) for device in ("cuda", "cpu"))
    np.testing.assert_allclose(on_gpu, on_cpu, rtol=1e-4)
    twin.load_state_dict(model.state_dict())
    batch = _pairs().batch(np.arange(16))
    written = []
    for one, device in ((model, "cuda"), (twin, "cpu")):
        source_BS, length_B = (torch.from_numpy(part).to(device) for part in (batch.source_BS, batch.source_length_B))
        prompt_B1 = torch.zeros(16, 1, dtype=torch.long, device=device)
        with torch.inference_mode():
            state = one.start(one.encode(source_BS, length_B))
        best = beam(one, state, prompt_B1, size=4, limits=[12] * 16, end=0, unfinished=True)
        greedily = greedy(one, state, prompt_B1, limits=[12] * 16, end=0)
        written.append(([hypotheses[0].tokens for hypotheses in best], [hypothesis.tokens for hypothesis in greedily]))
    assert written[0] == written[1]


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")  # torch's own, while it imports its compiler
@pytest.mark.parametrize("kind", ["transformer", *VARIANTS])
def test_a_compiled_transformer_has_the_same_losses(kind: str) -> None:
    np.testing.assert_allclose(_losses(kind, device="cuda", compile=True)[0], _losses(kind, device="cuda")[0], rtol=1e-4)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")  # torch's own, while it imports its compiler
@pytest.mark.parametrize("kind", ["transformer", *VARIANTS])
def test_a_transformer_is_compiled_as_one_graph(kind: str) -> None:
    """At a graph break, tensors are written to memory; a break in each layer took a tenth of the time."""
    torch._dynamo.reset()  # or the eighth compilation of the same function in a process is the last
    model = _model(kind).cuda()
    token_BT = torch.from_numpy(IDS[: 4 * 32].astype(np.int64)).view(4, 32).cuda()
    with torch.autocast("cuda", torch.bfloat16):
        loss, _ = torch.compile(next_token, dynamic=False, fullgraph=True)(model, token_BT, token_BT)
    loss.backward()
    assert all(parameter.grad is not None for parameter in model.parameters())


@pytest.mark.parametrize("kind", KINDS)
def test_a_gpu_run_resumes_where_it_stopped(kind: str, tmp_path: Path) -> None:
    table = {
        "data": {"text": "the cat sat on the mat and looked at the rat. " * 60},
        "model": {"kind": kind, "width": 32, "dropout": 0.1},
        "training": {"steps": 12, "batch": 4, "context": 16, "device": "cuda", "checkpoint_every": 6, "log_every": 1},
    }
    whole = train_into(compose(table), tmp_path / "whole")
    half = train_recipe(compose(table, ["training.steps=6", "training.schedule=constant"]), tmp_path / "half")
    rest = compose(table, ["training.steps=12", "training.schedule=constant"])
    train_recipe(rest, half.path, resume=True)
    straight = train_recipe(rest, tmp_path / "straight")
    for name, tensor in load(half.path, "cpu").network.state_dict().items():
        torch.testing.assert_close(tensor, load(straight.path, "cpu").network.state_dict()[name], rtol=1e-4, atol=1e-6)
    assert whole.model.is_file()


@pytest.mark.parametrize("kind", [*KINDS, *VARIANTS])
def test_greedy_text_is_the_same_on_both_devices(kind: str) -> None:
    model = _model(kind).double().eval()
    prompt = torch.from_numpy(IDS[:12].astype(np.int64)).unsqueeze(0)
    config = DecodingConfig(tokens=40, temperature=0.0)
    on_cpu = [int(token) for token in generate(model, prompt, config)]
    model = model.cuda()
    assert [int(token) for token in generate(model, prompt.cuda(), config)] == on_cpu


@pytest.mark.parametrize("groups", [1, 2, 4])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_sdpa_on_a_gpu_is_as_accurate_as_the_reference(groups: int, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(3, heads, 24, 32, generator=generator, dtype=torch.float64).cuda() for heads in (4, groups, groups))
    length_B = torch.tensor([24, 5, 0]).cuda()
    for allowed in (mask.FULL, mask.CAUSAL, mask.window(4), mask.CAUSAL & mask.lengths(length_B)):
        truth = attend(q, k, v, mask=allowed, kernel="reference")
        low = [x.to(dtype) for x in (q, k, v)]
        plain = (attend(*low, mask=allowed, kernel="reference").double() - truth).abs().max()
        fused = (attend(*low, mask=allowed, kernel="sdpa").double() - truth).abs().max()
        assert fused <= 2 * plain + 4 * torch.finfo(dtype).eps


def test_a_row_without_keys_is_zero_with_zero_gradient_on_a_gpu() -> None:
    q, k, v = (torch.randn(2, 2, 8, 16, device="cuda", requires_grad=True) for _ in range(3))
    out = attend(q, k, v, mask=mask.lengths(torch.tensor([8, 0])), kernel="sdpa")
    out.sum().backward()
    assert (out[1] == 0).all()
    assert q.grad is not None
    assert (q.grad[1] == 0).all()
    assert torch.isfinite(q.grad).all()


def test_dropout_on_a_gpu_follows_the_runs_own_generator() -> None:
    def losses() -> list[float]:
        config = TrainingConfig(steps=3, batch=4, context=16, device="cuda", seed=5)
        model = language_model(TransformerConfig(kind="transformer", width=32, depth=1, heads=2, context=16, dropout=0.5), 50)
        initialise(model, torch.Generator().manual_seed(0))
        of_steps = []
        for step in islice(loop.fit(loop.start(model, Windows(IDS, 4, 16, 0), config), next_token, config), 3):
            of_steps.append(step.loss)
            torch.rand(7, device="cuda")  # a consumer that draws between steps
        return of_steps

    first = losses()
    torch.manual_seed(99)
    np.testing.assert_allclose(losses(), first, rtol=1e-5)


def _poisoned(training: loop.Training, config: TrainingConfig, at: int) -> Any:
    """Steps of a training whose loss is infinite from step `at` on."""

    def loss(model: Any, **batch: Any) -> Any:
        value, state = next_token(model, **batch)
        return value * (float("inf") if training.step + 1 >= at else 1.0), state

    return loop.fit(training, loss, config)


@pytest.mark.parametrize("optimizer", ["adamw", "sgd"])
def test_on_a_gpu_the_weights_of_a_diverged_run_are_those_of_the_last_good_step(optimizer: Any) -> None:
    config = TrainingConfig(steps=8, batch=8, context=32, device="cuda", optimizer=optimizer)
    training = loop.start(_model("transformer"), Windows(IDS, 8, 32, 0), config)
    kept: dict[int, list[torch.Tensor]] = {}

    def keep(step: loop.Step) -> None:
        kept[step.step] = [parameter.detach().clone() for parameter in training.model.parameters()]

    with pytest.raises(Diverged, match="at step 4"):
        list(map(keep, _poisoned(training, config, at=4)))
    assert all(torch.equal(now, then) for now, then in zip(training.model.parameters(), kept[3], strict=True))
    assert len(kept) <= 5, "it is noticed one step later"


def test_a_run_that_moves_to_a_gpu_and_back_writes_and_exports_the_same(tmp_path: Path) -> None:
    run = load(train_recipe(compose(recipe_table(model="transformer")), tmp_path / "run").path, "cpu")
    before = run.generate("the", tokens=20, temperature=0)
    run.export(tmp_path / "cpu" / "same", "safetensors")
    assert run.to("cuda").device.type == "cuda"
    assert run.generate("the", tokens=20, temperature=0) == before
    run.export(tmp_path / "cuda" / "same", "safetensors")
    assert run.device.type == "cuda"
    (one, other) = (tmp_path / place / "same" / "model.safetensors" for place in ("cpu", "cuda"))
    assert one.read_bytes() == other.read_bytes()
    assert run.to("cpu").generate("the", tokens=20, temperature=0) == before
    run.quantise("int8")
    with pytest.raises(ConfigError, match="quantised weights cannot be moved"):
        run.to("cuda")


def test_on_a_gpu_a_bad_last_step_is_noticed() -> None:
    config = TrainingConfig(steps=4, batch=8, context=32, device="cuda")
    training = loop.start(_model("lstm"), Windows(IDS, 8, 32, 0), config)
    with pytest.raises(Diverged, match="at step 4"):
        list(_poisoned(training, config, at=4))


@pytest.mark.parametrize("clip", [0.0, 0.05])
def test_clipping_on_a_gpu_follows_clipping_on_a_cpu(clip: float) -> None:
    settings: dict[str, Any] = {"clip": clip, "optimizer": "sgd", "steps": 6}
    (on_gpu, gpu), (on_cpu, cpu) = (_losses("gru", device=device, **settings) for device in ("cuda", "cpu"))
    np.testing.assert_allclose(on_gpu, on_cpu, rtol=1e-5)
    for one, other in zip(gpu.model.parameters(), cpu.model.parameters(), strict=True):
        torch.testing.assert_close(one.detach().cpu(), other.detach(), rtol=1e-4, atol=1e-5)


def test_the_position_is_that_of_the_batches_used_not_of_those_fetched() -> None:
    config = TrainingConfig(steps=5, batch=8, context=32, device="cuda")
    training = loop.start(_model("transformer"), Windows(IDS, 8, 32, 0), config)
    for step in loop.fit(training, next_token, config):
        assert training.batches.position == step.step
