"""The kernel for few queries against the definition in float64, on a GPU or in Triton's interpreter (TRITON_INTERPRET=1)."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from interpreter import INTERPRETED
from tolerance import assert_as_accurate
from torch import Tensor

triton = pytest.importorskip("triton", reason="the kernel is written in Triton")

from firth.layers.attention import attend, mask, position  # noqa: E402
from firth.layers.kernels.triton.few_queries import Fresh, few_queries  # noqa: E402
from firth.layers.position import RotaryTurn, rotate  # noqa: E402

DEVICE = "cuda" if torch.cuda.is_available() and not INTERPRETED else "cpu"
pytestmark = [
    pytest.mark.long,
    pytest.mark.usefixtures("triton_interpreter"),
    pytest.mark.skipif(not INTERPRETED and not torch.cuda.is_available(), reason="needs a GPU, or TRITON_INTERPRET=1"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning:triton"),  # numpy under the interpreter: −∞ − −∞ in unseen rows
]
B, H, D, E, K = 3, 4, 24, 40, 200
STARTS, LENGTHS = torch.tensor([0, 77, 190], device=DEVICE), torch.tensor([1, 64, 200], device=DEVICE)
SEEN: dict[str, dict[str, Any]] = {
    "causal": {"mask": mask.CAUSAL, "q_start": STARTS},
    "strictly causal": {"mask": mask.STRICTLY_CAUSAL, "q_start": STARTS},
    "window": {"mask": mask.window(50), "q_start": STARTS},
    "lengths": {"mask": mask.lengths(LENGTHS)},
    "everything": {"mask": mask.FULL},
    "one start": {"mask": mask.CAUSAL, "q_start": 130},
}
EXTRA: dict[str, dict[str, Any]] = {
    "none": {},
    "cap": {"cap": 3.0},
    "alibi": {"position": position.ALiBi(torch.tensor([0.5, 0.25, 0.1, 0.03], device=DEVICE))},
    "t5": {
        "position": position.buckets(
            torch.randn(32, H, generator=torch.Generator().manual_seed(5)).to(DEVICE), bidirectional=False, max_distance=90
        )
    },
}


def inputs(groups: int, queries: int, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    shapes = ((B, H, queries, D), (B, groups, K, D), (B, groups, K, E))
    q, k, v = (torch.randn(shape, generator=generator).to(DEVICE, dtype) for shape in shapes)
    return q, k, v


@pytest.mark.parametrize("groups", [1, 2, 4])
@pytest.mark.parametrize("queries", [1, 5])
@pytest.mark.parametrize("seen", SEEN)
def test_masks_and_heads_are_those_of_the_reference(seen: str, queries: int, groups: int) -> None:
    check(inputs(groups, queries, torch.float32), SEEN[seen])


@pytest.mark.parametrize("extra", EXTRA)
def test_positions_and_caps_are_those_of_the_reference(extra: str) -> None:
    check(inputs(2, 3, torch.float32), {**SEEN["causal"], **EXTRA[extra]})


@pytest.mark.parametrize("parts", [2, 3, 16])
def test_parts_are_joined(parts: int) -> None:
    q, k, v = inputs(2, 2, torch.float32)
    got = few_queries(q, k, v, 0.2, start=STARTS, parts=parts)
    whole = few_queries(q, k, v, 0.2, start=STARTS, parts=1)
    torch.testing.assert_close(got, whole, rtol=1e-5, atol=1e-6)


@pytest.mark.skipif(INTERPRETED, reason="Triton's interpreter computes with numpy, which has no bfloat16")
def test_half_precision_is_as_accurate_as_the_reference() -> None:
    check(inputs(2, 1, torch.bfloat16), SEEN["causal"])


@pytest.mark.parametrize("parts", [1, 3])
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("extra", [*EXTRA, "window"])
def test_a_fresh_token_is_placed_on_the_way(extra: str, turned: bool, parts: int) -> None:
    G, n = 2, (H + 4) * D
    _, k, _ = inputs(G, 1, torch.float32)
    v = k.flip(2).contiguous()
    generator = torch.Generator().manual_seed(1)
    qkv_B1n = torch.randn(B, 1, n, generator=generator).to(DEVICE)
    turn = RotaryTurn(*torch.randn(2, B, 1, 1, D, generator=generator).to(DEVICE)) if turned else None
    q, new_k, new_v = qkv_B1n.view(B, 1, -1, D).transpose(1, 2).split((H, G, G), dim=1)
    options = {"cap": EXTRA[extra].get("cap")} if extra in EXTRA else {"span": 50}
    where = EXTRA[extra].get("position") if extra in EXTRA else None
    if isinstance(where, position.ALiBi):
        options["slope_H"] = where.slope_H
    elif where is not None:
        options |= {"table_HR": where.table_HR().contiguous(), "left": where.left}
    got_k, got_v = k.clone(), v.clone()
    got = few_queries(q, got_k, got_v, 0.2, start=STARTS, fresh=Fresh(qkv_B1n, turn), parts=parts, **options)
    if turn is not None:
        q, new_k = rotate(q, turn), rotate(new_k, turn)
    for row, start in enumerate(STARTS.tolist()):
        k[row, :, start], v[row, :, start] = new_k[row, :, 0], new_v[row, :, 0]
    torch.testing.assert_close(got_k, k)
    torch.testing.assert_close(got_v, v)
    torch.testing.assert_close(got, few_queries(q, k, v, 0.2, start=STARTS, parts=1, **options), rtol=1e-5, atol=1e-6)


def test_keys_that_nobody_sees_may_be_anything() -> None:
    q, k, v = inputs(2, 1, torch.float32)
    expected = few_queries(q, k, v, 0.2, start=STARTS)
    for row, start in enumerate(STARTS.tolist()):
        k[row, :, start + 1 :] = torch.nan
        v[row, :, start + 1 :] = torch.nan
    assert torch.equal(few_queries(q, k, v, 0.2, start=STARTS), expected)


def check(given: tuple[Tensor, Tensor, Tensor], options: dict[str, Any]) -> None:
    got = attend(*given, kernel="few_queries", **options)
    plain = attend(*given, kernel="reference", **options)
    wide = attend(*(x.double() for x in given), kernel="reference", **options)
    assert_as_accurate(got, plain, wide)
