"""The compiled code of a decoding step on a CPU: products of a few rows, attention to cached keys, and whole blocks of one row,
against torch in float64. An error may be at most twice that of torch in float32, plus rounding."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from shares import half
from torch import Tensor

from firth.layers.attention import attend, mask
from firth.layers.hook_free import Linear
from firth.layers.kernels.cpu import cached_attention, code, logsumexp, product, row_block, source_attention, team
from firth.layers.norm import NormConfig
from firth.layers.state import FixedKeyValue, KeyValue
from firth.layers.tap import attention_calls
from firth.models import LanguageModel, TransformerConfig, language_model
from firth.models.initialise import initialise
from firth.models.quantisation import quantise

pytestmark = pytest.mark.skipif(team.why_not() is not None, reason=str(team.why_not()))
EPS = torch.finfo(torch.float32).eps


@pytest.fixture
def _two_threads() -> Iterator[None]:
    """Of single kernels: a thread that has done its share spins until the other has, which takes long where that has no core."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def drawn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.usefixtures("_two_threads")
@torch.inference_mode()
@pytest.mark.parametrize("rows", half([6, 16, 17, 32]))
@pytest.mark.parametrize(("o", "d"), [(16, 5), (100, 300), (33, 1024), (1000, 768)])
@pytest.mark.parametrize("biased", [False, True])
def test_a_product_of_a_few_rows_is_that_of_linear(rows: int, o: int, d: int, biased: bool) -> None:
    x, W, b = drawn(rows, d), drawn(o, d, seed=1), drawn(o, seed=2) if biased else torch.zeros(o)
    assert product.why_not(x, W) is None
    y = product.linear(x, W, b if biased else None)
    exact = F.linear(x.double(), W.double(), b.double())
    bound = EPS * (1 + d) * F.linear(x.abs(), W.abs(), b.abs())  # of any order of summation
    assert y.shape == exact.shape
    assert bool(((y - exact).abs() <= bound).all())


@pytest.mark.usefixtures("_two_threads")
@torch.inference_mode()
def test_the_product_of_a_row_does_not_depend_on_the_others() -> None:
    x, W = drawn(16, 768), drawn(500, 768, seed=1)
    assert torch.equal(product.linear(x, W, None)[3:9], product.linear(x[3:9], W, None))


@pytest.mark.usefixtures("_two_threads")
@torch.inference_mode()
@pytest.mark.parametrize(("H", "G"), [(4, 4), (4, 2), (3, 1)])
@pytest.mark.parametrize("D", [16, 64])
@pytest.mark.parametrize("fixed", [False, True])
def test_attention_to_cached_keys_is_that_of_attend(H: int, G: int, D: int, fixed: bool) -> None:
    lengths = [0, 5, 16, 30] if fixed else [20] * 4
    k, v = drawn(4, G, 32, D), drawn(4, G, 32, D, seed=1)
    past: Any = FixedKeyValue(k.clone(), v.clone(), torch.tensor(lengths)) if fixed else KeyValue.within(k.clone(), v.clone(), 20)
    qkv = drawn(4, 1, H + 2 * G, D, seed=2).transpose(1, 2)
    q, new_k, new_v = qkv.split((H, G, G), dim=1)
    assert cached_attention.why_not(q, new_k, new_v, past) is None
    o, after = cached_attention.attend(q, new_k, new_v, past, D**-0.5)
    for row, length in enumerate(lengths):
        k[row, :, length], v[row, :, length] = new_k[row, :, 0], new_v[row, :, 0]
        exact, plain = (
            attend(q[row : row + 1].to(t), k[row : row + 1, :, : length + 1].to(t), v[row : row + 1, :, : length + 1].to(t))
            for t in (torch.float64, torch.float32)
        )
        o_H1D = o[row].view(H, 1, D)
        assert (o_H1D - exact[0]).abs().max() <= 2 * (plain - exact).abs().max() + 4 * EPS
    memory = (past.k_BGCD, past.v_BGCE) if fixed else after.held()
    assert torch.equal(memory[0], k[:, :, : memory[0].shape[2]])
    assert torch.equal(memory[1], v[:, :, : memory[1].shape[2]])


@torch.inference_mode()
@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_what_is_not_finite_is_not_hidden(value: float) -> None:
    past = KeyValue.within(drawn(1, 1, 8, 16), drawn(1, 1, 8, 16), 3)
    q, k, v = drawn(3, 1, 1, 1, 16)
    q[..., 2] = value
    o, _ = cached_attention.attend(q, k, v, past, 1.0)
    assert not o.isfinite().any()


SHAPES: dict[str, dict[str, Any]] = {
    "gpt2": {"position": "learned", "norm": "layer", "activation": "gelu_tanh", "bias": True},
    "llama": {"position": "rotary", "norm": "rms", "activation": "swiglu", "bias": False, "kv_heads": 2},
    "relu": {"position": "sinusoidal", "norm": "layer", "activation": "relu", "bias": "qkv"},
    "galactica": {"position": "learned", "norm": NormConfig(kind="layer", bias=True), "activation": "gelu_tanh", "bias": False},
    "gemma": {"position": "rotary", "norm": "rms", "activation": "geglu_tanh", "bias": False, "kv_heads": 1},
}


def small(shape: str) -> LanguageModel:
    config = TransformerConfig(kind="transformer", context=64, width=128, depth=2, heads=4, **SHAPES[shape])
    model = language_model(config, 50)
    initialise(model, torch.Generator().manual_seed(0))
    for n, parameter in enumerate(model.parameters()):  # gains and biases begin as 1 and 0
        parameter.data.add_(0.05 * drawn(*parameter.shape, seed=n))
    return model.eval()


@torch.inference_mode()
def written(model: LanguageModel, fixed: bool = False) -> Tensor:
    token = torch.arange(7).unsqueeze(0)
    logits, state = model.step(token, model.start(1))
    last_logits = [logits[:, -1]]
    if fixed:
        state = state.fixed(20)
    for n in range(9):
        logits, state = model.step(torch.tensor([[3 * n % 50]]), state)
        last_logits.append(logits[:, -1])
    return torch.cat(last_logits)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("fixed", [False, True])
def test_a_block_of_one_row_computes_what_the_block_does(shape: str, fixed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    model, calls, inner = small(shape), [], row_block.run
    monkeypatch.setattr(row_block, "run", lambda *args: calls.append(y := inner(*args)) or y)
    fast = written(model, fixed)
    assert len(calls) == 2 * 9  # blocks × steps
    assert all(call is not None for call in calls)
    monkeypatch.setattr(row_block, "run", lambda *args: None)
    monkeypatch.setattr(cached_attention, "why_not", lambda *args: "not now")
    plain = written(model, fixed)
    exact = written(model.double(), fixed)
    assert (fast - exact).abs().max() <= 2 * (plain - exact).abs().max() + 16 * EPS


UNKNOWN: dict[str, tuple[dict[str, Any], str]] = {
    "norms of outputs": ({"norm_placement": "after"}, "norm.placement = 'after'"),
    "norms of all of q and k": ({"qk_norm": "whole", "kv_heads": 2}, "attention.qk_norm = 'whole'"),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_what_a_block_of_one_row_does_not_know_it_leaves_to_the_block(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    settings, reason = UNKNOWN[name]
    monkeypatch.setitem(SHAPES, name, settings)
    model = small(name)
    assert [block.why_not_row_block for block in model.blocks] == [reason] * 2  # type: ignore[union-attr, operator]
    assert [block.why_not_one_row for block in model.blocks] == [reason] * 2  # type: ignore[union-attr, operator]
    logits, exact = written(model), written(model.double())
    assert (logits - exact).abs().max() <= 1e-5 * exact.abs().max()


def test_new_weights_are_noticed() -> None:
    model, other = small("gpt2"), small("gpt2")
    for parameter in other.parameters():
        parameter.data.mul_(1.5)
    before, expected = written(model), written(other)
    model.load_state_dict(other.state_dict(), assign=True)
    assert not torch.equal(before, expected)
    assert torch.equal(written(model), expected)
    for parameter in model.parameters():
        parameter.data = parameter.data.clone() / 1.5
    torch.testing.assert_close(written(model), before)


@torch.inference_mode()
def test_hooks_run_in_a_step_of_one_row() -> None:
    model = small("gpt2")
    _, state = model.step(torch.zeros(1, 3, dtype=torch.long), model.start(1))
    expected, _ = model.step(torch.zeros(1, 1, dtype=torch.long), state)
    with attention_calls(model) as calls:
        logits, _ = model.step(torch.zeros(1, 1, dtype=torch.long), state)
    assert [call.k_BGKC.shape[2] for call in calls.values()] == [4, 4]
    torch.testing.assert_close(logits, expected)


@pytest.mark.usefixtures("_two_threads")
def test_one_thread_and_two_compute_the_same() -> None:
    two = written(small("gpt2"))
    torch.set_num_threads(1)
    assert torch.equal(written(small("gpt2")), two)


def test_a_state_may_branch() -> None:
    model = small("llama")
    with torch.inference_mode():
        _, state = model.step(torch.zeros(1, 3, dtype=torch.long), model.start(1))
        first, after = model.step(torch.tensor([[1]]), state)
        model.step(torch.tensor([[2]]), state)
        again, _ = model.step(torch.tensor([[1]]), state)
        longer, _ = model.step(torch.tensor([[5]]), after)
        expected = model.step(torch.tensor([[0, 0, 0, 1, 5]]), model.start(1))[0][:, -1:]
    assert torch.equal(first, again)
    torch.testing.assert_close(longer, expected)


@pytest.mark.usefixtures("_two_threads")
@torch.inference_mode()
def test_sixteen_rows_of_a_large_matrix_are_multiplied_by_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    inner = product.linear
    monkeypatch.setattr(product, "linear", lambda x, *rest: calls.append(len(x)) or inner(x, *rest))
    layer = Linear(512, 1024)
    for rows in (1, 16, 100):
        layer(drawn(rows, 512))
    layer.double()(drawn(16, 512).double())
    assert calls == [16]


def test_a_mask_is_not_forgotten() -> None:
    x = torch.zeros(1, 1, 128)
    with torch.inference_mode():
        assert row_block.why_not(x, mask.STRICTLY_CAUSAL, None, KeyValue.within(x.view(1, 4, 1, 32), x.view(1, 4, 1, 32), 0))


@pytest.mark.usefixtures("_two_threads")
@torch.inference_mode()
@pytest.mark.parametrize("V", [16, 17, 31, 1000])
def test_the_logsumexp_is_that_of_torch(V: int) -> None:
    x = 5 * drawn(7, V)
    x[0, 1], x[1, 0], x[2], x[3, -1] = -torch.inf, 60.0, -100.0, torch.nan
    assert logsumexp.why_not(x) is None
    torch.testing.assert_close(
        logsumexp.logsumexp(x), x.double().logsumexp(-1).float(), rtol=4 * EPS, atol=4 * EPS, equal_nan=True
    )


@pytest.mark.usefixtures("_two_threads")
@torch.inference_mode()
@pytest.mark.parametrize(("H", "G"), [(4, 4), (4, 2)])
@pytest.mark.parametrize("beams", [1, 5])
def test_attention_to_a_source_is_that_of_attend(H: int, G: int, beams: int) -> None:
    length, D = torch.tensor([1, 0, 16, 19]), 32
    q = drawn(4 * beams, 1, H * D)
    k, v = drawn(4, 2 * G, 20, D, seed=1).split(G, dim=1)
    assert source_attention.why_not(q, k, v) is None
    o = source_attention.attend(q, k, v, length, 0.2)
    exact, plain = (
        attend(
            q.view(4, beams, H, D).transpose(1, 2).to(t), k.to(t), v.to(t), mask=mask.lengths(length), scale=0.2
        ).transpose(1, 2).flatten(2).view(4 * beams, 1, -1)
        for t in (torch.float64, torch.float32)
    )  # fmt: skip
    assert (o - exact).abs().max() <= 2 * (plain - exact).abs().max() + 4 * EPS
    assert not o.view(4, -1)[1].any()


def test_a_quantised_model_takes_its_own_products() -> None:
    model = small("gpt2")
    before = written(model)
    quantise(model, "int8")
    assert not torch.equal(written(model), before)
    torch.testing.assert_close(written(model), before, rtol=0, atol=0.05 * float(before.abs().max()))


@torch.inference_mode()
def test_shorter_vectors_compute_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of processors without AVX-512."""
    modules = (product, cached_attention, source_attention, logsumexp, row_block)
    x, W, q, k, v = drawn(13, 100), drawn(30, 100), drawn(4, 1, 64), drawn(2, 2, 9, 32), drawn(2, 2, 9, 32)

    def results() -> tuple[Tensor, ...]:
        attended = source_attention.attend(q, k, v, torch.tensor([5, 9]), 1.0)
        return product.linear(x, W, None), logsumexp.logsumexp(x), attended, *map(written, map(small, ("gpt2", "llama")))

    expected = results()
    for place in (code, product):
        monkeypatch.setattr(place, "lanes", lambda: 8)
    for module in modules:
        module._kernel.cache_clear()
    shorter = results()
    for module in modules:
        module._kernel.cache_clear()
    for one, other in zip(shorter, expected, strict=True):
        torch.testing.assert_close(one, other)
