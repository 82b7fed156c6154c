"""flash(): values and derivatives against the definition in float64, on a GPU or in Triton's interpreter (TRITON_INTERPRET=1)."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
import torch
from interpreter import INTERPRETED
from tolerance import assert_as_accurate
from torch import Tensor

triton = pytest.importorskip("triton", reason="the fused kernels are written in Triton")

from firth.errors import ConfigError  # noqa: E402
from firth.layers.attention.key_ranges import Spans  # noqa: E402
from firth.layers.kernels.attention import blocks, flash  # noqa: E402
from firth.layers.kernels.attention.blocks import Tile, Tiles  # noqa: E402

DEVICE = "cpu" if INTERPRETED else "cuda"
pytestmark = [
    pytest.mark.long,
    pytest.mark.usefixtures("triton_interpreter"),
    pytest.mark.skipif(not INTERPRETED and not torch.cuda.is_available(), reason="needs a GPU, or TRITON_INTERPRET=1"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning:triton"),  # numpy under the interpreter: log2(0), 0/0 in unseen rows
]
# Small, so that every kind of block occurs in few keys.
SMALL = Tiles(Tile(32, 16, 4, 1, 16), Tile(16, 32, 4, 1, 16), Tile(16, 32, 4, 1, 16))
LEAST = Tiles(Tile(16, 16, 4, 1, 16), Tile(16, 16, 4, 1, 16), Tile(16, 16, 4, 1, 16))


class Case(NamedTuple):
    see: str = "causal"
    heads: tuple[int, int] = (1, 1)
    lengths: tuple[int, int] = (50, 50)
    widths: tuple[int, int] = (16, 16)
    bias: bool = False
    slope: bool = False
    band: tuple[int, int] | None = None
    table: str | None = None
    weights: bool = False
    causal: bool = False  # the promise, not the mask
    start: Any = 0
    scale: float = 0.3
    tiles: Tiles | None = LEAST
    batch: int = 1


CASES = {
    "causal": Case(heads=(2, 2), lengths=(70, 70), tiles=SMALL, batch=2),
    "full, tiles by default": Case("full", lengths=(70, 130), tiles=None),
    "window": Case("window", lengths=(70, 70), tiles=SMALL),
    "lengths, one empty": Case("lengths", heads=(2, 2), batch=2),
    "documents": Case("documents", lengths=(70, 70)),
    "all but self": Case("hole"),
    "nothing but a hole": Case("covered", lengths=(20, 40)),
    "two heads per group": Case("window", heads=(4, 2), lengths=(33, 33), bias=True, batch=2),
    "four heads per group": Case("causal", heads=(4, 1), lengths=(33, 33), slope=True, causal=True),
    "odd widths": Case("full", widths=(24, 40), lengths=(33, 50)),
    "a negative scale": Case("causal", scale=-0.4),
    "bias": Case("hole", bias=True, batch=2),
    "slope": Case("full", slope=True, start=9, lengths=(40, 50)),
    "slope, promised": Case("causal", slope=True, bias=True, causal=True, start=10, lengths=(40, 50)),
    "one query": Case("causal", lengths=(1, 70), start=69, slope=True, band=(3, 0), table="real", weights=True, causal=True),
    "T5": Case("causal", (2, 2), (70, 70), band=(20, 0), table="expanded", causal=True, tiles=SMALL, batch=2),
    "T5 both sides": Case("full", (2, 1), band=(20, 20), table="expanded"),
    "T5 in a window": Case("window", lengths=(70, 70), band=(3, 0), table="expanded", causal=True),
    "Shaw": Case("causal", lengths=(70, 70), band=(3, 0), table="real", weights=True, causal=True, tiles=SMALL),
    "Shaw both sides": Case("full", lengths=(70, 70), band=(3, 3), table="real", weights=True, tiles=SMALL),
    "Shaw, uneven": Case("lengths", band=(3, 20), table="real", weights=True, batch=2),
    "Shaw, grouped": Case("documents", (2, 1), band=(3, 3), table="real", weights=True, bias=True, batch=2),
    "Shaw, a hole": Case("hole", band=(20, 3), table="real", weights=True, slope=True),
    "Shaw, not promised": Case("causal", band=(3, 0), table="real", weights=True),
    "Shaw, promised with a right side": Case("causal", band=(20, 3), table="real", weights=True, causal=True),
    "weights alone": Case("full", band=(3, 3), weights=True),
    "weights alone, causal": Case("causal", band=(3, 0), weights=True, causal=True),
    "no left": Case("full", band=(0, 3), table="real", weights=True, lengths=(33, 50)),
    "no right": Case("full", band=(3, 0), table="real", weights=True, lengths=(50, 33)),
    "one column": Case("full", band=(0, 0), table="real", weights=True, lengths=(33, 33)),
    "one column, promised": Case("causal", band=(0, 0), table="real", weights=True, causal=True, lengths=(33, 33)),
    "a start": Case("window", band=(3, 3), table="real", weights=True, lengths=(33, 70), start=31),
    "a start per row": Case(
        "window", (2, 1), (33, 70), band=(3, 3), table="expanded", weights=True, slope=True, start="rows", batch=2
    ),
}
LARGER = Tiles(Tile(32, 32, 4, 2, 16), Tile(32, 32, 4, 2, 16), Tile(32, 32, 4, 2, 16))


def spans_of(see: str, Q: int, K: int, start_B1: Tensor) -> Spans:
    q_BQ = torch.arange(Q, device=DEVICE) + start_B1
    zero, hole = torch.zeros_like(q_BQ), (None, None)
    match see:
        case "full":
            lo, hi = zero, zero + K
        case "causal":
            lo, hi = zero, q_BQ + 1
        case "window":
            lo, hi = q_BQ - 39, q_BQ + 1
        case "lengths":
            lo, hi = zero, zero + torch.tensor([[K - 13], [0]], device=DEVICE)
        case "documents":
            edge = torch.tensor([0, 7, 8, 37, K], device=DEVICE)
            which_BQ = torch.searchsorted(edge, q_BQ, right=True) - 1
            lo, hi = edge[which_BQ], torch.minimum(edge[which_BQ + 1], q_BQ + 3)
        case "hole":
            lo, hi, hole = zero, zero + K, (q_BQ, q_BQ + 1)
        case "covered":
            lo, hi, hole = zero + 3, zero + 20, (q_BQ * 0 + 2, torch.where(q_BQ % 2 == 0, 20, 15))
    lo, hi, hole_lo, hole_hi = (None if x is None else x.clamp(0, K).to(torch.int32) for x in (lo, hi, *hole))
    assert lo is not None
    assert hi is not None
    return Spans(lo, hi, hole_lo, hole_hi)


class Setting(NamedTuple):
    leaves: dict[str, Tensor]
    spans: Spans
    slope_H: Tensor | None
    start: int | Tensor
    pull_o: Tensor
    pull_w: Tensor


def setting(case: Case) -> Setting:
    generator = torch.Generator().manual_seed(0)

    def draw(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64).float().to(DEVICE)

    B, (H, G), (Q, K), (D, E) = case.batch, case.heads, case.lengths, case.widths
    start = torch.tensor([31, 17], device=DEVICE) if case.start == "rows" else case.start
    start_B1 = start[:, None] if isinstance(start, Tensor) else torch.tensor([[start]], device=DEVICE)
    leaves = {"q": draw(B, Q, H, D).transpose(1, 2), "k": draw(B, K, G, D).transpose(1, 2), "v": draw(B, G, K, E)}
    if case.bias:
        leaves["bias"] = draw(B, G, K)
    R = sum(case.band or (0, 0)) + 1
    if case.table:
        leaves["table"] = draw(B, H, Q, R) if case.table == "real" else draw(1, H, 1, R)
    slope_H = 2.0 ** -torch.arange(1, H + 1, device=DEVICE).float() if case.slope else None
    spans = spans_of(case.see, Q, K, start_B1)
    return Setting(leaves, spans, slope_H, start, draw(B, Q, H, E).transpose(1, 2), draw(B, H, Q, R))


def dense(case: Case, given: Setting, leaves: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
    """The definition: all Q×K weights."""
    q, k, v = leaves["q"], leaves["k"], leaves["v"]
    group = case.heads[0] // case.heads[1]
    (B, H, Q, _), K = q.shape, k.shape[2]
    start_B = given.start if isinstance(given.start, Tensor) else torch.tensor([given.start], device=DEVICE)
    k_K = torch.arange(K, device=DEVICE)
    rel_BQK = k_K - (torch.arange(Q, device=DEVICE) + start_B[:, None])[..., None]
    s = q @ k.repeat_interleave(group, 1).mT * case.scale
    if case.bias:
        s = s + leaves["bias"].repeat_interleave(group, 1)[:, :, None]
    if given.slope_H is not None:
        s = s - given.slope_H.to(s.dtype)[:, None, None] * rel_BQK.abs()[:, None]
    left, right = case.band or (0, 0)
    R = left + right + 1
    r_BHQK = (rel_BQK.clamp(-left, right) + left)[:, None].expand(B, H, Q, K)
    if case.table:
        s = s + leaves["table"].expand(B, H, Q, R).gather(3, r_BHQK)
    lo, hi, hole_lo, hole_hi = (None if x is None else x[:, None, :, None] for x in given.spans)
    seen = (k_K >= lo) & (k_K < hi)
    if hole_lo is not None:
        seen = seen & ((k_K < hole_lo) | (k_K >= hole_hi))
    some = seen.any(-1, keepdim=True)
    p = torch.softmax(s.masked_fill(some & ~seen, -torch.inf), -1).masked_fill(~some, 0.0)
    return p @ v.repeat_interleave(group, 1), torch.zeros(B, H, Q, R, dtype=s.dtype, device=DEVICE).scatter_add(3, r_BHQK, p)


def fused(case: Case, given: Setting, leaves: dict[str, Tensor]) -> tuple[Tensor, Tensor | None]:
    (Q, K), (left, right) = case.lengths, case.band or (0, 0)
    table = leaves.get("table")
    if table is not None:
        table = table.expand(len(leaves["q"]), case.heads[0], Q, left + right + 1)
    return flash.flash(
        leaves["q"],
        leaves["k"],
        leaves["v"],
        given.spans,
        case.scale,
        key_bias_BGK=leaves.get("bias"),
        slope_H=given.slope_H,
        band=flash.Band(left, right, table, case.weights) if case.band else None,
        q_start=given.start,
        causal=case.causal,
        plan=None if case.tiles is None else blocks.plan(given.spans, Q, K, case.tiles),
    )


def with_gradients(compute: Any, case: Case, given: Setting, dtype: torch.dtype) -> dict[str, Tensor]:
    leaves = {name: x.to(dtype, copy=True).requires_grad_() for name, x in given.leaves.items()}
    if "bias" in leaves and dtype == torch.bfloat16 and compute is fused:
        leaves["bias"] = given.leaves["bias"].clone().requires_grad_()
    o, w = compute(case, given, leaves)
    loss = (o * given.pull_o.to(dtype)).sum()
    computed = {"o": o.detach()}
    if case.weights:
        loss = loss + (w * given.pull_w.to(dtype)).sum()
        computed["w"] = w.detach()
    grads = torch.autograd.grad(loss, list(leaves.values()))
    return computed | {f"d{name}": grad for name, grad in zip(leaves, grads, strict=True)}


DTYPES = [torch.float32] if INTERPRETED else [torch.float32, torch.bfloat16]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients_are_as_accurate_as_the_definition(name: str, dtype: torch.dtype) -> None:
    case = CASES[name]
    given = setting(case)
    if dtype == torch.bfloat16:
        # All three start from the same numbers; the bias stays in float32, as it is meant to.
        given = given._replace(leaves={key: x if key == "bias" else x.bfloat16().float() for key, x in given.leaves.items()})
        given = given._replace(pull_o=given.pull_o.bfloat16().float(), pull_w=given.pull_w.bfloat16().float())
        case = case._replace(tiles=None if case.tiles is None else LARGER)
    exact = with_gradients(dense, case, given, torch.float64)
    plain = with_gradients(dense, case, given, dtype)
    for key, fast in with_gradients(fused, case, given, dtype).items():
        if key == "dtable" and fast.shape[3] == 1:  # what is added to all keys alike has no effect: its gradient is rounding
            assert fast.abs().max() <= 4 * torch.finfo(dtype).eps * largest_term(given)
            continue
        try:
            assert_as_accurate(fast.to(dtype), plain[key], exact[key])
        except AssertionError as error:
            raise AssertionError(f"{key}: {error}") from error


def largest_term(given: Setting) -> float:
    """An upper bound of |do · v + dw|."""
    return float(given.pull_o.abs().sum(-1).max() * given.leaves["v"].abs().max() + given.pull_w.abs().max())


@pytest.mark.parametrize("see", ["full", "causal", "window", "lengths", "documents", "hole", "covered"])
@pytest.mark.parametrize("tile", [Tile(16, 32, 4, 1), Tile(32, 16, 4, 1), Tile(64, 64, 4, 1)], ids=str)
def test_a_plan_loses_nothing_and_masks_all_it_must(see: str, tile: Tile) -> None:
    Q, K = 90, 110
    spans = spans_of(see, Q, K, torch.tensor([[4], [0]], device=DEVICE))
    plan = blocks.plan(spans, Q, K, Tiles(tile, tile, tile))
    lo, hi, hole_lo, hole_hi = (None if x is None else x[..., None] for x in spans)
    k_K = torch.arange(K, device=DEVICE)
    seen = (k_K >= lo) & (k_K < hi)
    if hole_lo is not None:
        seen = seen & ((k_K < hole_lo) | (k_K >= hole_hi))
    seen_bmqnk = torch.nn.functional.pad(seen, (0, -K % tile.keys, 0, -Q % tile.queries)).unflatten(2, (-1, tile.keys))
    seen_bmqnk = seen_bmqnk.unflatten(1, (-1, tile.queries))
    some, every = seen_bmqnk.any(4).any(2), seen_bmqnk.all(4).all(2)
    assert plan.dkv_bn4 is not None
    for bounds, some_bij, all_bij in ((plan.forward_bm4, some, every), (plan.dkv_bn4, some.mT, every.mT)):
        assert bounds.dtype == torch.int32
        a, b, c, d = bounds[..., None].expand(len(some), -1, -1, -1).unbind(2)
        at = torch.arange(some_bij.shape[2], device=DEVICE)
        assert ((a <= b) & (b <= c) & (c <= d)).all()
        assert not (some_bij & ((at < a) | (at >= d))).any()
        assert not (~all_bij & (at >= b) & (at < c)).any()
        if hole_lo is None:
            assert ((at >= b) & (at < c)).sum() == all_bij.sum()


def of(case: Case, given: Setting) -> Tensor:
    return fused(case, given, given.leaves)[0]


def test_a_nan_is_not_hidden_and_does_not_spread() -> None:
    case = Case("causal", bias=True)
    given = setting(case)
    given.leaves["q"][:, :, 7] = torch.nan
    given.leaves["bias"][:, :, 40] = torch.nan
    bad = of(case, given).isnan().all(-1)[0, 0].nonzero().flatten().tolist()
    assert bad == [7, *range(40, 50)]
    assert of(case, given)[:, :, [0, 6, 8, 39]].isfinite().all()


def test_only_minus_infinity_to_see_is_nan_and_some_is_none() -> None:
    case = Case("causal", bias=True, band=(3, 0), table="real", weights=True, causal=True)
    given = setting(case)
    given.leaves["bias"][:, :, :20] = -torch.inf  # more than a block: what comes first is all −inf
    fast, exact = fused(case, given, given.leaves), dense(case, given, {name: x.double() for name, x in given.leaves.items()})
    for one, other, plain in zip(fast, exact, dense(case, given, given.leaves), strict=True):
        assert one is not None
        assert one[:, :, :20].isnan().any(-1).all()
        assert_as_accurate(one[:, :, 20:], plain[:, :, 20:], other[:, :, 20:])


@pytest.mark.parametrize("column", [0, -1])
def test_the_edge_of_a_table_may_be_high(column: int) -> None:
    case, high = Case("full", band=(3, 3), table="real"), 140
    given = setting(case)
    given.leaves["table"][..., column] += high  # e¹⁴⁰ is beyond float32: the maximum must know of it
    exact = with_gradients(dense, case, given, torch.float64)
    for key, fast in with_gradients(fused, case, given, torch.float32).items():
        # A score of 140 is known to 140 ε, and so is, relatively, its weight.
        allowed = 4 * high * torch.finfo(torch.float32).eps * max(1.0, exact[key].abs().max().item())
        assert (fast.double() - exact[key]).abs().max().item() <= allowed


def test_who_sees_nothing_gets_zero_whatever_there_is() -> None:
    case = Case("lengths", batch=2, bias=True)
    given = setting(case)
    for name in "kv":
        given.leaves[name][1] = torch.nan
    leaves = {name: x.clone().requires_grad_() for name, x in given.leaves.items()}
    o, _ = fused(case, given, leaves)
    assert (o[1] == 0).all()
    assert o[0].isfinite().all()
    for grad in torch.autograd.grad(o, list(leaves.values()), given.pull_o):
        assert (grad[1] == 0).all()


def test_any_layout_of_the_inputs_gives_the_same_and_heads_beside_each_other() -> None:
    case = Case("window", heads=(2, 1), lengths=(20, 33))
    given = setting(case)
    turned = given._replace(leaves={name: x.mT.contiguous().mT for name, x in given.leaves.items()})
    assert turned.leaves["q"].stride(3) != 1
    o = of(case, turned)
    assert torch.equal(o, of(case, given))
    assert o.transpose(1, 2).is_contiguous()


def test_torch_knows_the_operation() -> None:
    case = Case("causal", lengths=(16, 16), band=(3, 0), table="real", weights=True, causal=True)
    given = setting(case)
    leaves = {name: x.clone().requires_grad_() for name, x in given.leaves.items()}
    seen: list[Any] = []
    with pytest.MonkeyPatch.context() as patch:
        run = flash._differentiable
        patch.setattr(flash, "_differentiable", lambda *args: (seen.append(args), run(*args))[1])
        o, w = fused(case, given, leaves)
    torch.library.opcheck(flash._operator, seen[0], test_utils=("test_schema", "test_autograd_registration", "test_faketensor"))
    assert w is not None
    (dq,) = torch.autograd.grad(o.sum() + w.sum(), leaves["q"], create_graph=True)
    with pytest.raises(ConfigError, match="second derivative"):
        torch.autograd.grad(dq.sum(), leaves["k"])


def test_a_plan_without_a_backward_pass_says_so() -> None:
    case = Case(lengths=(16, 16))
    given = setting(case)
    q = given.leaves["q"].clone().requires_grad_()
    plan = blocks.plan(given.spans, 16, 16, LEAST, backward=False)
    o, _ = flash.flash(q, given.leaves["k"], given.leaves["v"], given.spans, case.scale, plan=plan)
    with pytest.raises(ConfigError, match="without a backward"):
        o.sum().backward()


def test_a_table_of_another_shape_is_refused() -> None:
    case = Case(lengths=(16, 16))
    given = setting(case)
    q, k, v = (given.leaves[name] for name in "qkv")
    with pytest.raises(ConfigError, match="table"):
        flash.flash(q, k, v, given.spans, 1.0, band=flash.Band(1, 1, torch.zeros(1, 1, 16, 2, device=DEVICE)))
