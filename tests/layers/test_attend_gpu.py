"""attend() on a GPU: every kernel that can run a call there, in value and gradient, against the reference in float64.

The tolerance is derived: at most twice the error that the plain reference makes in the same precision."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tolerance import assert_as_accurate
from torch import Tensor

from firth.errors import ConfigError
from firth.layers.attention import Call, attend, mask, position, score, sdpa
from firth.layers.attention.weights import weights
from firth.layers.kernels import attention as fused

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

B, H, D, E = 3, 4, 32, 48
PRECISIONS = {"bfloat16": torch.bfloat16, "float32": torch.float32}
LENGTHS = torch.tensor([150, 41, 77])


def masks(n: int) -> dict[str, mask.Mask]:
    documents = (torch.arange(n) // 37).expand(B, n) + torch.arange(B).view(B, 1)
    return {
        "full": mask.FULL,
        "causal": mask.CAUSAL,
        "strictly causal": mask.STRICTLY_CAUSAL,
        "all but self": mask.ALL_BUT_SELF,
        "window": mask.window(20),
        "lengths": mask.lengths(LENGTHS.cuda()),
        "causal in documents": mask.CAUSAL & mask.documents(documents.cuda()),
        "prefix": mask.prefix(torch.tensor([0, 30, 149]).cuda()),
        "window or the first": mask.window(9) | (mask.CAUSAL & mask.lengths(torch.tensor([4, 1, 12]).cuda())),
    }


SCORES = ("scaled dot", "gaussian", "bilinear", "additive")
POSITIONS = ("none", "rotary", "alibi", "t5", "t5 both ways", "shaw", "shaw keys", "shaw values")


def setting(name: str, of: str, G: int, Q: int, K: int, dtype: torch.dtype) -> tuple[dict[str, Tensor], Any]:
    """All leaves of the case, and attend() of them."""
    generator = torch.Generator().manual_seed(len(name) + 7 * len(of))

    def drawn(*shape: int, std: float = 1.0) -> Tensor:
        return (torch.randn(shape, generator=generator) * std).to(dtype).cuda()

    leaves = {"q": drawn(B, H, Q, D), "k": drawn(B, G, K, D), "v": drawn(B, G, K, E)}
    if of == "gaussian":
        leaves["q"], leaves["k"] = leaves["q"] * 0.5, leaves["k"] * 0.5
    if of == "bilinear":
        leaves["M"] = drawn(H, D, D, std=1 / D)
    if of == "additive":
        leaves["w"] = drawn(H, D, std=D**-0.5)
    if name.startswith("t5"):
        leaves["table"] = drawn(12, H)
    if name in ("shaw", "shaw keys"):
        leaves["key"] = drawn(2 * 9 + 1, D, std=0.3)
    if name in ("shaw", "shaw values"):
        leaves["value"] = drawn(2 * 9 + 1, E, std=0.3)

    def run(leaves: dict[str, Tensor], allowed: mask.Mask, kernel: Any, q_start: Any) -> Tensor:
        scores = {"scaled dot": score.SCALED_DOT, "gaussian": score.GAUSSIAN}
        chosen = scores.get(of) or (score.bilinear(leaves["M"]) if of == "bilinear" else score.additive(leaves["w"]))
        where: Any = None
        match name:
            case "rotary":
                where = position.rotary()
            case "alibi":
                where = position.ALiBi(position.alibi(H).slope_H.to(leaves["q"]))
            case "t5" | "t5 both ways":
                where = position.buckets(leaves["table"], bidirectional=name != "t5", max_distance=40)
            case "shaw" | "shaw keys" | "shaw values":
                where = position.shaw(leaves.get("key"), leaves.get("value"))
        tensors = (leaves["q"], leaves["k"], leaves["v"])
        return attend(*tensors, score=chosen, mask=allowed, position=where, q_start=q_start, kernel=kernel)

    return leaves, run


def with_gradients(leaves: dict[str, Tensor], run: Any, *settings: Any) -> dict[str, Tensor]:
    leaves = {name: leaf.detach().clone().requires_grad_() for name, leaf in leaves.items()}
    o = run(leaves, *settings)
    pull = torch.randn(o.shape, generator=torch.Generator().manual_seed(9)).to(o)
    grads = torch.autograd.grad((o * pull).sum(), list(leaves.values()))
    return {"o": o.detach(), **dict(zip(leaves, grads, strict=True))}


def compared(kernel: str, name: str, of: str, allowed: mask.Mask, G: int, Q: int, K: int, dtype: Any, q_start: Any = 0) -> None:
    leaves, run = setting(name, of, G, Q, K, dtype)
    double = {leaf: tensor.double() for leaf, tensor in leaves.items()}
    exact = with_gradients(double, run, allowed, "reference", q_start)
    plain = with_gradients(leaves, run, allowed, "reference", q_start)
    fast = with_gradients(leaves, run, allowed, kernel, q_start)
    for what in exact:
        try:
            assert_as_accurate(fast[what], plain[what], exact[what])
        except AssertionError as problem:
            raise AssertionError(f"{what}: {problem}") from None


def fusable(name: str, of: str) -> bool:
    return not (of == "additive" and name not in ("none", "rotary")) and not (of == "gaussian" and name.startswith("shaw"))


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("name", POSITIONS)
@pytest.mark.parametrize("of", SCORES)
def test_triton_is_as_accurate_as_the_reference_for_every_mask(of: str, name: str, precision: str) -> None:
    for rule, allowed in masks(150).items():
        if not fusable(name, of):
            leaves, run = setting(name, of, 2, 150, 150, PRECISIONS[precision])
            with pytest.raises(ConfigError, match=r"relative positions|dot products only"):
                run(leaves, allowed, "triton", 0)
            continue
        try:
            compared("triton", name, of, allowed, 2, 150, 150, PRECISIONS[precision])
        except AssertionError as problem:
            raise AssertionError(f"{rule}: {problem}") from None


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("kernel", ["flex", "auto", "chunked"])
def test_capped_scores_are_as_accurate_as_the_reference(kernel: str, precision: str) -> None:
    leaves, _ = setting("none", "scaled dot", 2, 150, 150, PRECISIONS[precision])

    def run(leaves: dict[str, Tensor], allowed: mask.Mask, kernel: Any) -> Tensor:
        return attend(leaves["q"], leaves["k"], leaves["v"], mask=allowed, cap=1.5, kernel=kernel)

    for rule in ("causal", "window"):
        double = {leaf: tensor.double() for leaf, tensor in leaves.items()}
        exact, plain, fast = (
            with_gradients(given, run, masks(150)[rule], chosen)
            for given, chosen in ((double, "reference"), (leaves, "reference"), (leaves, kernel))
        )
        for what in exact:
            assert_as_accurate(fast[what], plain[what], exact[what])


@pytest.mark.parametrize("name", POSITIONS)
@pytest.mark.parametrize("G", [1, 4])
@pytest.mark.parametrize("of", SCORES)
def test_triton_shares_heads_and_starts_anywhere(of: str, G: int, name: str) -> None:
    if not fusable(name, of):
        pytest.skip("refused, as the test above sees")
    for q_start in (0, 90, torch.tensor([3, 0, 90]).cuda()):
        compared("triton", name, of, mask.CAUSAL, G, 60, 150, torch.bfloat16, q_start)


@pytest.mark.parametrize("name", ["none", "alibi"])
@pytest.mark.parametrize("rule", ["causal", "lengths", "causal in documents"])
def test_flex_is_as_accurate_as_the_reference(rule: str, name: str) -> None:
    compared("flex", name, "scaled dot", masks(150)[rule], 2, 150, 150, torch.bfloat16)


def test_flex_reads_a_learned_table_but_refuses_to_train_it() -> None:
    leaves, run = setting("t5", "scaled dot", 2, 150, 150, torch.bfloat16)
    exact = run({name: leaf.double() for name, leaf in leaves.items()}, mask.CAUSAL, "reference", 0)
    assert_as_accurate(run(leaves, mask.CAUSAL, "flex", 0), run(leaves, mask.CAUSAL, "reference", 0), exact)
    leaves["table"].requires_grad_()
    with pytest.raises(ConfigError, match="gradient of a learned table"):
        run(leaves, mask.CAUSAL, "flex", 0)


def test_flex_takes_a_gaussian_score_and_a_mask_of_ones_own() -> None:
    class Odd(mask.Mask):
        def allowed(self, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
            return (q + k) % 2 == 0

    compared("flex", "none", "gaussian", Odd(), 2, 150, 150, torch.bfloat16)
    leaves, run = setting("none", "scaled dot", 2, 150, 150, torch.bfloat16)
    with pytest.raises(ConfigError, match="one interval of keys"):
        run(leaves, Odd(), "triton", 0)


@pytest.mark.parametrize("G", [1, 2, 4])
@pytest.mark.parametrize("rule", ["full", "causal", "lengths", "window"])
def test_sdpa_on_a_gpu_is_as_accurate_as_the_reference(rule: str, G: int) -> None:
    compared("sdpa", "none", "scaled dot", masks(150)[rule], G, 150, 150, torch.bfloat16)


@pytest.mark.parametrize("name", POSITIONS)
@pytest.mark.parametrize("of", SCORES)
def test_auto_runs_every_combination(of: str, name: str) -> None:
    compared("auto", name, of, mask.CAUSAL, 2, 150, 150, torch.bfloat16)
    leaves, run = setting(name, of, 2, 1, 150, torch.float32)  # the step of a cached decoder
    exact = run({name: leaf.double() for name, leaf in leaves.items()}, mask.window(100), "reference", 149)
    assert_as_accurate(run(leaves, mask.window(100), "auto", 149), run(leaves, mask.window(100), "reference", 149), exact)


@pytest.mark.parametrize("of", ["scaled dot", "additive"])
def test_a_query_with_one_key_copies_its_value_and_moves_neither_query_nor_key(of: str) -> None:
    """Its weight is 1 whatever the score, so the exact gradients of q and k are 0. The kernel takes do·v − do·o, two sums of E
    products that each carry a rounding or two: what is left is a few roundings of Σ|do||v| times the other factor."""
    leaves, run = setting("none", of, 4, 40, 40, torch.float32)
    o_and_grads = with_gradients(leaves, run, mask.window(1), "triton", 0)
    torch.testing.assert_close(o_and_grads["o"], leaves["v"])
    pull = torch.randn(o_and_grads["o"].shape, generator=torch.Generator().manual_seed(9)).cuda()
    rounding = 8 * torch.finfo(torch.float32).eps * (pull.abs() * leaves["v"].abs()).sum(-1).max()
    factor = max(leaves["q"].abs().max(), leaves["k"].abs().max(), 1.0)
    assert o_and_grads["q"].abs().max() <= rounding * factor
    assert o_and_grads["k"].abs().max() <= rounding * factor


def test_what_torch_fuses_is_left_to_torch_and_what_it_does_not_is_ours() -> None:
    from firth.layers.attention import _first_that_can, chunked

    q = torch.randn(1, 2, 256, 32, device="cuda", dtype=torch.bfloat16)

    def chosen(q: Any = q, **settings: Any) -> Any:
        return _first_that_can(Call(q, q, q, 0.1, **settings).reduced())

    assert chosen(mask=mask.CAUSAL) is sdpa
    assert chosen(q[:, :, :64], mask=mask.window(8)) is sdpa  # a mask as small as this is written out
    assert chosen(mask=mask.window(8)) is fused
    assert chosen(score=score.GAUSSIAN) is fused
    assert chosen(position=position.ALiBi(torch.ones(2, device="cuda"))) is fused
    w = torch.ones(2, 32, device="cuda", dtype=torch.bfloat16)
    assert chosen(score=score.additive(w)) is fused
    assert chosen(score=score.additive(w), position=position.ALiBi(torch.ones(2, device="cuda"))) is chunked


def test_infinities_and_nans_come_out_of_triton() -> None:
    for bad in (float("nan"), float("inf")):
        for which in range(3):
            tensors = [torch.randn(1, 2, 40, 32, device="cuda") for _ in range(3)]
            tensors[which][0, 0, 7, 3] = bad
            for settings in (
                {"position": position.ALiBi(torch.ones(2, device="cuda"))},
                {"score": score.additive(torch.ones(2, 32, device="cuda"))},
            ):
                o = attend(*tensors, kernel="triton", **settings)  # type: ignore[arg-type]
                plain = attend(*tensors, kernel="reference", **settings)  # type: ignore[arg-type]
                assert torch.equal(o.isfinite(), plain.isfinite())


@pytest.mark.parametrize("wanted", [False, True])  # with gradients it is another backend
@pytest.mark.parametrize("rule", ["full", "causal", "window"])
def test_infinities_and_nans_come_out_of_sdpa(rule: str, wanted: bool) -> None:
    for bad in (float("nan"), float("inf")):
        for which in range(3):
            tensors = [torch.randn(3, 2, 40, 64, device="cuda", dtype=torch.bfloat16) for _ in range(3)]
            # Of both signs: scores that are all −inf count, in torch's kernels for a GPU, as a query that sees nothing.
            tensors[1][0, 0, 6:8, 3] = torch.tensor([-1.0, 1.0])
            tensors[which][0, 0, 7, 3] = bad
            q, k, v = (tensor.requires_grad_(wanted) for tensor in tensors)
            allowed = {"full": mask.FULL, "causal": mask.CAUSAL, "window": mask.window(9)}[rule]
            o = attend(q, k, v, mask=allowed, kernel="sdpa")
            plain = attend(q, k, v, mask=allowed, kernel="reference")
            hidden = o.isfinite() & ~plain.isfinite()
            assert not hidden.any(), f"{bad} in {'qkv'[which]}"


def test_a_compiled_layer_with_our_kernels_equals_the_plain_one() -> None:
    table = torch.randn(8, 4, device="cuda")

    def layer(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return attend(q * 2, k, v, mask=mask.CAUSAL, position=position.buckets(table, bidirectional=False, max_distance=20))

    q, k, v = (torch.randn(2, 4, 100, 32, device="cuda", dtype=torch.bfloat16) for _ in range(3))
    torch.testing.assert_close(torch.compile(layer)(q, k, v), layer(q, k, v))


def test_weights_on_demand_in_bf16_are_those_of_float64() -> None:
    q, k, v = (torch.randn(2, 4, 100, 32, device="cuda", dtype=torch.bfloat16) for _ in range(3))
    call = Call(q, k, v, 0.2, mask=mask.CAUSAL)
    exact = weights(Call(q.double(), k.double(), v.double(), 0.2, mask=mask.CAUSAL))
    assert (weights(call).double() - exact).abs().max() < 1e-5
    assert torch.equal(weights(call, heads=[1], rows=slice(3, 9)), weights(call)[:, 1:2, 3:9])
