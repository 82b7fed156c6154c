"""The Triton kernels of linear attention against the recurrence in float64, on a GPU or in Triton's interpreter."""

from __future__ import annotations

from typing import NamedTuple

import pytest
import torch
from interpreter import INTERPRETED
from tolerance import bound
from torch import Tensor

triton = pytest.importorskip("triton", reason="the fused kernels are written in Triton")

from firth.layers.linear_attention import ELU_PLUS_ONE, IDENTITY, Form, LinearState, linear_attend  # noqa: E402

DEVICE = "cpu" if INTERPRETED else "cuda"
pytestmark = [
    pytest.mark.long,
    pytest.mark.usefixtures("triton_interpreter"),
    pytest.mark.skipif(not INTERPRETED and not torch.cuda.is_available(), reason="needs a GPU, or TRITON_INTERPRET=1"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning:triton"),  # numpy under the interpreter: infinities above the diagonal
]


class Case(NamedTuple):
    gated: bool
    T: int = 150
    D: int = 16
    E: int = 16
    least: float = -0.3  # of ln g
    past: bool = False


CASES = {
    "linear": Case(False),
    "linear, one chunk": Case(False, T=20),
    "linear, odd widths": Case(False, D=12, E=40),
    "linear, wide": Case(False, T=70, D=64, E=64),
    "gated, wide": Case(True, T=70, D=32, E=64),
    "linear, after a past": Case(False, T=70, past=True),
    "gated": Case(True),
    "gated, whole chunks": Case(True, T=128),
    "gated, odd widths": Case(True, D=24, E=40),
    "gated, strong decay": Case(True, least=-2.5),
    "gated, after a past": Case(True, T=70, past=True),
}
DTYPES = [torch.float32] if INTERPRETED else [torch.float32, torch.bfloat16]


def results(case: Case, leaves: dict[str, Tensor], dtype: torch.dtype, form: Form) -> dict[str, Tensor]:
    """o, the last state, and the gradients."""
    x = {
        name: leaf.to(torch.float32 if name == "g" and dtype == torch.bfloat16 else dtype).requires_grad_()
        for name, leaf in leaves.items()
        if name not in ("w", "S")
    }
    state = LinearState(leaves["S"].to(torch.promote_types(dtype, torch.float32)), 3) if case.past else LinearState()
    o, after = linear_attend(
        x["q"],
        x["k"],
        x["v"],
        features=IDENTITY if case.gated else ELU_PLUS_ONE,
        log_gate_BHTF=x.get("g"),
        normalized=not case.gated,
        state=state,
        form=form,
    )
    grads = torch.autograd.grad((o * leaves["w"].to(dtype)).sum(), list(x.values()))
    assert after.S_BHFE is not None
    return {"o": o, "S": after.S_BHFE} | {f"d{name}": grad for name, grad in zip(x, grads, strict=True)}


def leaves_of(case: Case) -> dict[str, Tensor]:
    B, H, generator = 2, 2, torch.Generator().manual_seed(0)

    def draw(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator).bfloat16().double().to(DEVICE)

    drawn = {
        name: draw(B, case.T, H, w).transpose(1, 2) for name, w in (("q", case.D), ("k", case.D), ("v", case.E), ("w", case.E))
    }
    if case.gated:
        drawn["g"] = (case.least * torch.rand(B, H, case.T, case.D, generator=generator)).double().to(DEVICE)
    if case.past:
        drawn["S"] = torch.rand(B, H, case.D, case.E + (not case.gated), generator=generator).double().to(DEVICE)
    return drawn


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", CASES)
def test_values_states_and_gradients_are_as_accurate_as_the_chunked_form(name: str, dtype: torch.dtype) -> None:
    case = CASES[name]
    leaves = leaves_of(case)
    exact = results(case, leaves, torch.float64, "recurrent")
    plain = results(case, leaves, dtype, "chunked")
    terms = results(case, leaves | {name: leaves[name].abs() for name in "qkv"}, torch.float64, "recurrent")
    for key, fast in results(case, leaves, dtype, "triton").items():
        # A float32 product on a GPU is three TF32 ones. Its factors are cut to 22 of 24 bits, and the product of their last 11 is
        # left out: each term of a sum is off by up to three times 2⁻²², which is six roundings. `terms` has their sizes summed.
        counts = key in "oS" and dtype == torch.float32
        products = 6 * torch.finfo(dtype).eps * float(terms[key].detach().abs().max()) if counts else 0.0
        worst = float((fast.detach().double() - exact[key].detach()).abs().max())
        allowed = bound(plain[key], exact[key]) + products
        assert worst <= allowed, f"{key}: off by {worst:.2e}; allowed {allowed:.2e}"  # and not if it is NaN
