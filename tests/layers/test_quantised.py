"""int8 and int4 weights: the error of rounding, packing, and every product against the dequantised matrix in float64."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from firth.errors import ConfigError
from firth.layers.kernels.cpu import quantised as cpu
from firth.layers.quantised import Int4Linear, Int8Linear, Quantisation, QuantisedLinear, quantised, rounding

DIGITS = 1.1 / 127 / 508  # of max |x|: the error of two digits, and some rounding
KINDS: tuple[Quantisation, ...] = ("int8", "int4")


def matrix(n: int, d: int, seed: int = 0) -> Tensor:
    """Rows of different sizes, one of them zero, one with an outlier, one that is constant."""
    generator = torch.Generator().manual_seed(seed)
    W_nd = torch.randn(n, d, generator=generator) * torch.logspace(-4, 1, n)[:, None]
    W_nd[1], W_nd[2, 3], W_nd[3] = 0.0, 50.0, 0.25
    return W_nd


def layer(kind: Quantisation, n: int, d: int, bias: bool = True) -> QuantisedLinear:
    plain = nn.Linear(d, n, bias=bias)
    plain.weight.data = matrix(n, d)
    return quantised(plain, kind)


def oracle(one: QuantisedLinear, x: Tensor) -> Tensor:
    """x Wᵀ + b in float64, W as quantised."""
    y = x.double() @ one.dequantised(torch.float64).T
    return y if one.bias is None else y + one.bias.double()


def size(one: QuantisedLinear, x: Tensor) -> Tensor:
    """max |x| Σ |W| + |b|: what rounding errors of a product are relative to."""
    summed_n = one.dequantised(torch.float64).abs().sum(1)
    return x.double().abs().amax(1, keepdim=True) * summed_n + (0 if one.bias is None else one.bias.double().abs()) + 1e-12


def test_int8_is_off_by_at_most_half_a_step() -> None:
    W_nd = matrix(40, 33)
    q_nd, scale_n = rounding.to_int8(W_nd)
    assert q_nd.dtype == torch.int8
    error_nd = (rounding.from_int8(q_nd, scale_n, torch.float64) - W_nd).abs()
    assert (error_nd <= 0.5001 * scale_n[:, None]).all()
    assert torch.allclose(scale_n * 127, W_nd.abs().amax(1), atol=1e-20)  # no step is wasted
    assert scale_n[1] < 1e-20
    assert not error_nd[1].any()


@pytest.mark.parametrize("group", [32, 64, 128])
@pytest.mark.parametrize("columns", [128, 100, 31])
def test_int4_is_off_by_at_most_half_a_step(group: int, columns: int) -> None:
    W_nd = matrix(40, columns)
    q_nd, scale_nc, m_nc = rounding.to_int4(W_nd, group)
    assert q_nd.shape == (40, -(-columns // group) * group)
    step_nd = scale_nc.double().repeat_interleave(group, 1)[:, :columns]
    error_nd = (rounding.from_int4(q_nd, scale_nc, m_nc, columns, torch.float64) - W_nd.double()).abs()
    assert (error_nd <= 0.5001 * step_nd + 1e-7 * W_nd.abs()).all()
    spread_n = W_nd.amax(1) - W_nd.amin(1)
    assert (scale_nc.float().amax(1) <= 1.05 * spread_n / 15 + 0.01 * W_nd.abs().amax(1) + 1e-29).all()  # no step is wasted


def test_int4_keeps_weights_that_lie_on_its_grid() -> None:
    """As those of a GGUF file in Q4_1 do: 16 levels in groups of 32."""
    generator = torch.Generator().manual_seed(0)
    level = torch.randint(0, 16, (8, 2, 32), generator=generator)
    level[..., 0], level[..., 1] = 0, 15
    W_nd = ((level - 8) * 0.125 + 0.5).flatten(1)
    assert torch.equal(rounding.from_int4(*rounding.to_int4(W_nd, 32), 64), W_nd)


def test_packing_loses_nothing() -> None:
    pairs = torch.cartesian_prod(torch.arange(16), torch.arange(16)).to(torch.uint8)  # 256 rows of two columns
    scale_nc, m_nc = torch.randn(2, 256, 2, generator=torch.Generator().manual_seed(0)).bfloat16()
    packed, both_nc2 = rounding.pack(pairs, scale_nc, m_nc)
    assert packed.shape == (256, 1)
    assert len(packed.unique()) == 256
    assert torch.equal(rounding.unpack(packed), pairs)
    assert torch.equal(both_nc2, torch.stack((scale_nc, m_nc), dim=2))


def test_both_halves_of_packed_columns_have_whole_groups() -> None:
    q_nd, ones = torch.tensor([[1, 2, 3, 4, 5, 6]], dtype=torch.uint8), torch.ones(1, 3, dtype=torch.bfloat16)
    packed, both_nc2 = rounding.pack(q_nd, ones, ones)  # three groups of two columns, and one of padding
    assert torch.equal(packed, torch.tensor([[0x51, 0x62, 0x83, 0x84]], dtype=torch.uint8))
    assert torch.equal(both_nc2[0, 3], torch.zeros(2, dtype=torch.bfloat16))


def test_the_order_of_torchs_kernel_is_undone() -> None:
    q_nd = torch.randint(0, 16, (48, 64), generator=torch.Generator().manual_seed(0)).to(torch.uint8)
    ones = torch.ones(48, 2, dtype=torch.bfloat16)
    assert torch.equal(cpu.in_plain_order(*cpu.in_kernel_order(q_nd, ones, ones), 32), q_nd)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("n", "d"), [(48, 64), (50, 70), (16, 32), (33, 8), (5, 16), (7, 96)])
def test_a_layer_multiplies_with_the_dequantised_matrix(kind: Quantisation, n: int, d: int) -> None:
    one = layer(kind, n, d)
    for rows in (1, 3, cpu.MORE_ROWS, 65):
        x = torch.randn(rows, d, generator=torch.Generator().manual_seed(rows))
        x[0] *= 1e4
        error = (one(x) - oracle(one, x)).abs() / size(one, x)
        exact = kind == "int8" and cpu.VNNI and (rows >= cpu.MORE_ROWS or d % 32)
        assert error.max() < (DIGITS if exact else 2**-7)
        assert ((one.reference(x) - oracle(one, x)).abs() / size(one, x)).max() < 1e-6


@pytest.mark.parametrize("kind", KINDS)
def test_the_type_and_the_axes_of_the_input_stay(kind: Quantisation) -> None:
    one = layer(kind, 32, 64)
    x = torch.randn(2, 3, 64)
    for dtype in (torch.float32, torch.bfloat16):
        y = one(x.to(dtype))
        assert y.shape == (2, 3, 32)
        assert y.dtype == dtype
        assert torch.allclose(y.float(), one.reference(x), rtol=0.02, atol=0.3)
    assert torch.equal(one(x.double()), one.reference(x.double()))


def test_both_int8_kernels_of_torch_agree_with_the_reference() -> None:
    one = layer("int8", 40, 96, bias=False)
    q_nd, scale_n = one.get_buffer("q_nd"), one.get_buffer("scale_n")
    x = torch.randn(5, 96, generator=torch.Generator().manual_seed(0))
    error = {name: ((run(x, q_nd, scale_n) - oracle(one, x)).abs() / size(one, x)).max() for name, run in
             (("digits", cpu.in_digits), ("bytes", cpu.as_bytes))}  # fmt: skip
    assert error["digits"] < DIGITS
    assert error["bytes"] < 2**-7


@pytest.mark.skipif(not cpu.VNNI, reason="this processor has no instructions for int8")
def test_the_largest_numbers_do_not_saturate() -> None:
    q_nd = torch.full((32, 3072), 127, dtype=torch.int8)
    q_nd[1] = -127
    y = cpu.in_digits(torch.ones(2, 3072), q_nd, torch.ones(32))
    assert torch.equal(y[0, :2], torch.tensor([127.0 * 3072, -127.0 * 3072]))


@pytest.mark.parametrize("kind", KINDS)
def test_a_row_does_not_depend_on_the_others_of_its_batch(kind: Quantisation) -> None:
    one = layer(kind, 48, 64)
    x = torch.randn(4, 64, generator=torch.Generator().manual_seed(0))
    louder = torch.cat((x[:1], 1000 * x[1:]))
    assert torch.allclose(one(x)[0], one(louder)[0], rtol=1e-6, atol=0)
    assert torch.allclose(one(x)[0], one(x[:1])[0], rtol=2**-7 if kind == "int4" else 1e-5, atol=1e-5)


def test_a_row_of_zeros_gives_the_bias() -> None:
    for kind in KINDS:
        one = layer(kind, 32, 64)
        assert one.bias is not None
        assert torch.equal(one(torch.zeros(1, 64))[0], one.bias)


def test_a_layer_tells_its_bytes() -> None:
    assert Int8Linear(torch.randn(32, 64), None).bytes() == 32 * 64 + 4 * 32
    assert Int4Linear(torch.randn(32, 64), torch.zeros(32)).bytes() == 32 * 64 // 2 + 2 * 2 * 2 * 32 + 4 * 32
    assert Int4Linear(torch.randn(33, 64), None).bytes() == 33 * 64 // 2 + 2 * 2 * 2 * 33


def test_what_needs_a_gradient_or_another_device_is_refused() -> None:
    one = layer("int8", 32, 64)
    with pytest.raises(ConfigError, match="have no gradient"):
        one(torch.randn(1, 64, requires_grad=True))
    with pytest.raises(ConfigError, match="cannot be moved"):
        one.to(torch.bfloat16)
