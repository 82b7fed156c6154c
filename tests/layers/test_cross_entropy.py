"""The loss in pieces is torch's loss of all logits, and so are its gradients."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from interpreter import INTERPRETED
from torch import Tensor

from firth.layers import cross_entropy as module
from firth.layers.cross_entropy import PADDING, cross_entropy

N, V, D = 23, 37, 8


@pytest.fixture(autouse=True)
def pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small enough to be cut: five rows at a time, the last piece shorter."""
    monkeypatch.setattr(module, "SMALL", 0)
    monkeypatch.setattr(module, "PIECE", {"cpu": 5 * V, "cuda": 5 * V})


def given(dtype: torch.dtype, bias: bool, device: str = "cpu", width: int = D) -> tuple[list[Tensor], Tensor]:
    generator = torch.Generator().manual_seed(0)
    shapes = [(N, width), (V, width), *([(V,)] if bias else [])]
    leaves = [torch.randn(shape, generator=generator, dtype=torch.float64).to(device, dtype).requires_grad_() for shape in shapes]
    return leaves, torch.randint(V, (N,), generator=generator).to(device)


def whole(x: Tensor, w: Tensor, b: Tensor | None, target: Tensor) -> Tensor:
    return F.cross_entropy(F.linear(x, w, b), target)


def with_gradients(function: Any, leaves: list[Tensor], target: Tensor, pull: float = 3.0) -> list[Tensor]:
    loss = function(*leaves, *([None] if len(leaves) == 2 else []), target)
    return [loss, *torch.autograd.grad(loss * pull, leaves)]


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("rows", [1, 5, N, 100])
def test_pieces_of_any_size_give_torchs_loss_and_gradients(bias: bool, rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PIECE", {"cpu": rows * V})
    leaves, target = given(torch.float64, bias)
    torch.testing.assert_close(with_gradients(cross_entropy, leaves, target), with_gradients(whole, leaves, target))


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("held", [False, True])
def test_padding_does_not_count_and_smoothing_is_torchs(
    bias: bool, smoothing: float, held: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SMALL", N * V if held else 0)
    leaves, target = given(torch.float64, bias)
    target[[0, 3, 4, 5, 6, 7, 8, 9, 21]] = PADDING  # all of a piece among them

    def ours(x: Tensor, w: Tensor, b: Tensor | None, target: Tensor) -> Tensor:
        return cross_entropy(x, w, b, target, padded=True, smoothing=smoothing)

    def torchs(x: Tensor, w: Tensor, b: Tensor | None, target: Tensor) -> Tensor:
        return F.cross_entropy(F.linear(x, w, b), target, ignore_index=PADDING, label_smoothing=smoothing)

    torch.testing.assert_close(with_gradients(ours, leaves, target), with_gradients(torchs, leaves, target))


def test_on_a_cpu_padding_is_not_computed_and_rows_of_logits_have_no_gaps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both cost a translator of words half of its speed."""
    computed: list[Tensor] = []
    turn = module.turn_into_gradient
    monkeypatch.setattr(module, "turn_into_gradient", lambda logits, *rest: computed.append(logits) or turn(logits, *rest))
    leaves, target = given(torch.float32, True)
    target[3:9] = PADDING
    cross_entropy(*leaves, target, padded=True)
    assert sum(map(len, computed)) == N - 6
    assert all(logits.is_contiguous() for logits in computed)
    target[:] = PADDING
    assert cross_entropy(*leaves, target, padded=True).isnan()


def test_rows_may_lie_along_several_axes() -> None:
    (x, w), target = given(torch.float64, False)
    three = x[:20].view(4, 5, D)
    torch.testing.assert_close(cross_entropy(three, w, None, target[:20].view(4, 5)), whole(x[:20], w, None, target[:20]))


def test_a_few_logits_are_simply_held(monkeypatch: pytest.MonkeyPatch) -> None:
    leaves, target = given(torch.float32, True)
    monkeypatch.setattr(module, "SMALL", N * V)
    monkeypatch.setattr(module, "_loss_and_gradients", None)
    assert torch.equal(cross_entropy(*leaves, target), whole(*leaves, target))


def test_without_gradients_nothing_is_derived(monkeypatch: pytest.MonkeyPatch) -> None:
    leaves, target = given(torch.float32, True)
    monkeypatch.setattr(module, "_loss_and_gradients", None)
    with torch.no_grad():
        assert torch.equal(cross_entropy(*leaves, target), whole(*leaves, target))


@pytest.mark.parametrize("bias", [False, True])
def test_in_bf16_it_is_as_accurate_as_torch(bias: bool) -> None:
    """Weights in float32, products in bfloat16: what autocast does. The gradient of the weights is never rounded to bfloat16."""
    leaves, target = given(torch.float32, bias)
    truth = with_gradients(whole, [leaf.detach().double().requires_grad_() for leaf in leaves], target)
    with torch.autocast("cpu", torch.bfloat16):
        plain = with_gradients(lambda x, w, b, t: F.cross_entropy(F.linear(x, w, b).float(), t), leaves, target)
        ours = with_gradients(cross_entropy, leaves, target)
    for exact, theirs, mine in zip(truth, plain, ours, strict=True):
        assert mine.dtype == torch.float32
        assert (mine - exact).abs().max() <= 1.5 * (theirs - exact).abs().max()


def test_one_piece_is_held_at_a_time_in_the_type_of_the_products(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[torch.Size, torch.dtype, int]] = []
    turn = module.turn_into_gradient

    def noted(logits_RV: Tensor, *rest: Any) -> Tensor:
        seen.append((logits_RV.shape, logits_RV.dtype, logits_RV.data_ptr()))
        return turn(logits_RV, *rest)

    monkeypatch.setattr(module, "turn_into_gradient", noted)
    leaves, target = given(torch.float32, False)
    with torch.autocast("cpu", torch.bfloat16):
        cross_entropy(*leaves, None, target)
    assert [shape for shape, _, _ in seen] == [(5, V)] * 4 + [(3, V)]
    assert {(dtype, place) for _, dtype, place in seen} == {(torch.bfloat16, seen[0][2])}


def test_the_second_derivative_is_torchs() -> None:
    leaves, target = given(torch.float64, True)

    def second(function: Any) -> tuple[Tensor, ...]:
        first = torch.autograd.grad(function(*leaves, target), leaves, create_graph=True)
        return torch.autograd.grad(sum(g.square().sum() for g in first), leaves)

    torch.testing.assert_close(second(cross_entropy), second(whole))


@pytest.mark.parametrize("bias", [pytest.param(False, marks=pytest.mark.long), True])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's own, while it imports its compiler
def test_compiled_it_is_one_operation_with_the_same_gradients(bias: bool) -> None:
    leaves, target = given(torch.float64, bias)
    compiled = torch.compile(cross_entropy, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(with_gradients(compiled, leaves, target), with_gradients(whole, leaves, target))


@pytest.mark.parametrize("width", [8, 7])
@pytest.mark.parametrize("bias", [False, True])
def test_a_vocabulary_and_a_width_that_are_rounded_up_give_the_same_loss_and_gradients(
    bias: bool, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a GPU: 64 logits for 37 tokens, 8 columns for 7."""
    monkeypatch.setattr(module, "ROUNDED_UP", ("cpu",))
    leaves, target = given(torch.float64, bias, width=width)
    target[3] = PADDING
    ours = with_gradients(lambda x, w, b, t: cross_entropy(x, w, b, t, padded=True), leaves, target)
    theirs = with_gradients(lambda x, w, b, t: F.cross_entropy(F.linear(x, w, b), t, ignore_index=PADDING), leaves, target)
    torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("width", [8, 7])
@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's own, while it imports its compiler
def test_no_product_is_spent_on_the_gradient_of_a_frozen_matrix(
    compiled: bool, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_add_product", None)
    monkeypatch.setattr(module, "ROUNDED_UP", ("cpu",))
    (x, w), target = given(torch.float64, False, width=width)
    w.requires_grad_(False)
    function = torch.compile(cross_entropy, backend="aot_eager", fullgraph=True) if compiled else cross_entropy
    (ours,), (theirs,) = (torch.autograd.grad(one(x, w, None, target), [x]) for one in (function, whole))
    torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_what_is_not_finite_shows(bad: float) -> None:
    leaves, target = given(torch.float32, False)
    with torch.no_grad():
        leaves[0][3, 2] = bad
    assert cross_entropy(*leaves, None, target).isnan()


@pytest.mark.long
@pytest.mark.usefixtures("triton_interpreter")
@pytest.mark.skipif(not (INTERPRETED or torch.cuda.is_available()), reason="needs a CUDA device or TRITON_INTERPRET=1")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("block", [16, 64])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # numpy's, of an overflow in the interpreter
def test_the_kernel_does_what_torch_does(dtype: torch.dtype, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = pytest.importorskip("firth.layers.kernels.triton.cross_entropy", reason="it is written in Triton")
    monkeypatch.setattr(kernel, "BLOCK", block)
    device = "cpu" if INTERPRETED else "cuda"
    logits = torch.randn(N, V + 3).to(dtype)[:, :V] * 4  # rows further apart than they are long
    logits[5, 30] = 300.0  # far above the first block of 16
    logits[6, :16] = -torch.inf  # nothing in it
    logits[7, :36] = -torch.inf
    target = torch.randint(V, (N,))
    target[[2, 9]] = PADDING
    target[[5, 6, 7]] = torch.tensor([30, 20, 36])
    ours, plain = logits.to(device), logits.clone()
    loss = kernel.turn_into_gradient(ours, target.to(device), 0.25)
    torch.testing.assert_close(loss.cpu(), module.turn_into_gradient(plain, target, 0.25))
    torch.testing.assert_close(ours.cpu(), plain)
    target[4] = V
    logits[8, 20] = torch.nan
    bad = kernel.turn_into_gradient(logits.to(device), target.to(device), 1.0).isnan().nonzero().tolist()
    assert bad == [[4], [8]]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("low", [False, True])
def test_on_a_gpu_it_is_as_accurate_as_torch(bias: bool, low: bool) -> None:
    leaves, target = given(torch.float32, bias, "cuda")
    truth = with_gradients(whole, [leaf.detach().double().requires_grad_() for leaf in leaves], target)
    with torch.autocast("cuda", torch.bfloat16, enabled=low):
        plain = with_gradients(lambda x, w, b, t: F.cross_entropy(F.linear(x, w, b).float(), t), leaves, target)
        ours = with_gradients(cross_entropy, leaves, target)
    for exact, theirs, mine in zip(truth, plain, ours, strict=True):
        roundings = 4 * torch.finfo(torch.float32).eps * exact.abs().max()
        assert (mine - exact).abs().max() <= 2 * (theirs - exact).abs().max() + roundings


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("rows", [1, 5, N, 100])
@pytest.mark.parametrize("padding", [False, True])
def test_pieces_of_capped_logits_give_torchs_loss_and_gradients(
    bias: bool, rows: int, padding: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PIECE", {"cpu": 8 * rows * V})
    leaves, target = given(torch.float64, bias)
    if padding:
        target[[0, 3, 21]] = PADDING

    def ours(x: Tensor, w: Tensor, b: Tensor | None, target: Tensor) -> Tensor:
        return cross_entropy(x, w, b, target, padded=padding, cap=1.5)

    def theirs(x: Tensor, w: Tensor, b: Tensor | None, target: Tensor) -> Tensor:
        return F.cross_entropy(1.5 * torch.tanh(F.linear(x, w, b) / 1.5), target, ignore_index=PADDING)

    torch.testing.assert_close(with_gradients(ours, leaves, target), with_gradients(theirs, leaves, target))
