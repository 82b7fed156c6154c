"""Recurrent layers against the float64 loops of firth.oracles and against torch's own modules."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from shares import half
from small_models import randomise
from tolerance import assert_as_accurate, assert_equal
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from firth.errors import ConfigError
from firth.layers.recurrent import Cell, Recurrent, dropout, dropout_words, torch_cell
from firth.layers.recurrent.torch_cell import LaidOut
from firth.layers.state import RecurrentState
from firth.oracles import recurrent as oracle

KINDS = ("rnn", "lstm", "gru")
KERNELS = ("fused", "cells")
TORCH: dict[str, Any] = {"rnn": nn.RNN, "lstm": nn.LSTM, "gru": nn.GRU}
B, T, INPUTS, WIDTH = 3, 5, 4, 6


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def made(kind: Any, depth: int = 1, dtype: torch.dtype = torch.float64, **options: Any) -> Recurrent:
    layer = Recurrent(kind, INPUTS, WIDTH, depth, **options)
    return randomise(layer, std=0.6, seed=1).to(dtype)


def cell_of(layer: Recurrent) -> Cell:
    cell = layer.layers[0]
    assert isinstance(cell, Cell)
    return cell


def inputs(dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(B, T, INPUTS, generator=seeded(2)).to(dtype)  # drawn in float32, so that float32 loses nothing


def state_for(layer: Recurrent, dtype: torch.dtype = torch.float64) -> RecurrentState:
    generator, shape = seeded(3), (len(layer.layers) * layer.directions, B, WIDTH)
    h, c = (torch.randn(shape, generator=generator).to(dtype) for _ in range(2))
    return RecurrentState(h, c if layer.kind == "lstm" else None)


def twin(layer: Recurrent) -> Any:
    """torch's multi-level module with the same weights."""
    module = TORCH[layer.kind](INPUTS, WIDTH, len(layer.layers), batch_first=True, bidirectional=layer.directions == 2)
    module = module.to(next(layer.parameters()).dtype)
    module.load_state_dict(dict(renamed(layer)))
    return module


def renamed(layer: Recurrent) -> list[tuple[str, Tensor]]:
    """Our `layers.1.weight_ih_l0` is torch's `weight_ih_l1`."""
    return [
        (name.replace("_l0", f"_l{level}"), parameter)
        for level, holder in enumerate(layer.layers)
        for name, parameter in holder.named_parameters()
    ]


def gates(layer: Recurrent, level: int = 0) -> list[oracle.GateWeights]:
    holder = layer.layers[level]
    parts = {"rnn": 1, "lstm": 4, "gru": 3}[layer.kind]
    stacks = [getattr(holder, f"{name}_l0").detach().chunk(parts) for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]
    return [oracle.GateWeights(*(stack[n].numpy() for stack in stacks)) for n in range(parts)]


def by_oracle(layer: Recurrent, x_Ti: Tensor, h_d: Tensor, c_d: Tensor | None) -> dict[str, Tensor]:
    """One row of a one-level layer, as {name: T,d}."""
    trace: oracle.RNNTrace | oracle.LSTMTrace | oracle.GRUTrace
    match layer.kind:
        case "rnn":
            trace = oracle.rnn(x_Ti.numpy(), h_d.numpy(), *gates(layer))
        case "lstm":
            assert c_d is not None
            trace = oracle.lstm(x_Ti.numpy(), h_d.numpy(), c_d.numpy(), *gates(layer))
        case "gru":
            trace = oracle.gru(x_Ti.numpy(), h_d.numpy(), *gates(layer), reset=layer.reset)
    return {name.removesuffix("_Td"): torch.from_numpy(value) for name, value in trace._asdict().items()}


def loss(y_BTd: Tensor, h_LBd: Tensor, c_LBd: Tensor | None) -> Tensor:
    """A number that every output moves differently."""
    total = torch.zeros((), dtype=y_BTd.dtype)
    for n, value in enumerate(v for v in (y_BTd, h_LBd, c_LBd) if v is not None):
        total = total + (value * torch.randn(value.shape, generator=seeded(10 + n)).to(value.dtype)).sum()
    return total


Run = dict[str, Tensor]


def ours(layer: Recurrent, kernel: Any, length_B: Tensor | None = None) -> Run:
    """Values and the gradient of every weight, of the input and of the initial state."""
    dtype = next(layer.parameters()).dtype
    x, state = inputs(dtype).requires_grad_(), state_for(layer, dtype)
    start = [s.requires_grad_() for s in (state.h_LBd, state.c_LBd) if s is not None]
    y, last = layer(x, state, length_B=length_B, kernel=kernel)
    computed = {"y": y, "h": last.h_LBd} | ({"c": last.c_LBd} if last.c_LBd is not None else {})
    named = renamed(layer)
    grads = torch.autograd.grad(loss(y, last.h_LBd, last.c_LBd), [x, *start, *(p for _, p in named)])
    names = ["x", *("h0", "c0")[: len(start)], *(name for name, _ in named)]
    return computed | {f"d{name}": grad for name, grad in zip(names, grads, strict=True)}


def torchs(layer: Recurrent, length_B: Tensor | None = None) -> Run:
    module, dtype = twin(layer), next(layer.parameters()).dtype
    x, state = inputs(dtype).requires_grad_(), state_for(layer, dtype)
    start = [s.requires_grad_() for s in (state.h_LBd, state.c_LBd) if s is not None]
    hidden = tuple(start) if layer.kind == "lstm" else start[0]
    if length_B is None:
        y, last = module(x, hidden)
    else:
        packed, last = module(pack_padded_sequence(x, length_B, batch_first=True, enforce_sorted=False), hidden)
        y, _ = pad_packed_sequence(packed, batch_first=True, total_length=T)
    h, c = last if layer.kind == "lstm" else (last, None)
    named = list(module.named_parameters())
    grads = torch.autograd.grad(loss(y, h, c), [x, *start, *(p for _, p in named)])
    names = ["x", *("h0", "c0")[: len(start)], *(name for name, _ in named)]
    return {"y": y, "h": h} | ({"c": c} if c is not None else {}) | {f"d{n}": g for n, g in zip(names, grads, strict=True)}


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_layer_equals_the_loops_of_the_oracle(kind: str, kernel: Any) -> None:
    layer, x_BTi = made(kind), inputs()
    state = state_for(layer)
    y_BTd, last = layer(x_BTi, state, kernel=kernel)
    for b in range(B):
        truth = by_oracle(layer, x_BTi[b], state.h_LBd[0, b], None if state.c_LBd is None else state.c_LBd[0, b])
        assert_equal(y_BTd[b].detach(), truth["h"])
        assert_equal(last.h_LBd[0, b].detach(), truth["h"][-1])
        if last.c_LBd is not None:
            assert_equal(last.c_LBd[0, b].detach(), truth["c"][-1])


def test_the_gru_that_resets_before_equals_its_oracle() -> None:
    layer, x_BTi = made("gru", reset="before"), inputs()
    state = state_for(layer)
    y_BTd, _ = layer(x_BTi, state)
    for b in range(B):
        assert_equal(y_BTd[b].detach(), by_oracle(layer, x_BTi[b], state.h_LBd[0, b], None)["h"])


def test_resetting_before_and_after_are_different_functions() -> None:
    before, after = made("gru", reset="before"), made("gru", reset="after")
    state = state_for(before)
    apart = (before(inputs(), state)[0] - after(inputs(), state)[0]).abs().max()
    assert apart > 0.01


def test_no_fused_kernel_is_used_for_the_gru_that_resets_before() -> None:
    layer = made("gru", reset="before")
    with pytest.raises(ConfigError, match=r'"fused" cannot run.*reset="before".*kernel="cells"'):
        layer(inputs(), kernel="fused")
    assert torch.equal(layer(inputs(), kernel="auto")[0], layer(inputs(), kernel="cells")[0])


@pytest.mark.parametrize("lengths", [None, (5, 2, 1)], ids=["whole", "lengths"])
@pytest.mark.parametrize("bidirectional", [False, True], ids=["forward", "both-ways"])
@pytest.mark.parametrize("depth", half([1, 3], 1))
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("kind", KINDS)
def test_value_and_every_gradient_equal_torchs_module(
    kind: str, kernel: Any, depth: int, bidirectional: bool, lengths: tuple[int, ...] | None
) -> None:
    layer = made(kind, depth, bidirectional=bidirectional)
    length_B = None if lengths is None else torch.tensor(lengths)
    mine, truth = ours(layer, kernel, length_B), torchs(layer, length_B)
    assert mine.keys() == truth.keys()
    for name in truth:
        assert_equal(mine[name].detach(), truth[name].detach())


@pytest.mark.parametrize("kind", KINDS)
def test_in_float32_the_cells_are_as_accurate_as_the_fused_kernel(kind: str) -> None:
    single, exact = made(kind, 2, torch.float32), torchs(made(kind, 2))
    cells, fused = ours(single, "cells"), torchs(single)
    for name in exact:
        assert_as_accurate(cells[name], fused[name], exact[name])


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("kind", KINDS)
def test_without_a_state_a_layer_starts_from_zeros(kind: str, kernel: Any) -> None:
    layer = made(kind, 2)
    zero = layer.initial_state(B)
    assert zero.h_LBd.shape == (2, B, WIDTH)
    assert not zero.h_LBd.any()
    assert (zero.c_LBd is not None) == (kind == "lstm")
    assert torch.equal(layer(inputs(), kernel=kernel)[0], layer(inputs(), zero, kernel=kernel)[0])


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("kind", KINDS)
def test_two_halves_with_the_state_carried_equal_the_whole(kind: str, kernel: Any) -> None:
    layer, x = made(kind, 2), inputs()
    whole, last = layer(x, kernel=kernel)
    left, state = layer(x[:, :2], kernel=kernel)
    right, state = layer(x[:, 2:], state, kernel=kernel)
    assert_equal(torch.cat((left, right), 1).detach(), whole.detach())
    assert_equal(state.h_LBd.detach(), last.h_LBd.detach())


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("kind", KINDS)
def test_what_stands_in_the_padding_changes_nothing(kind: str, kernel: Any) -> None:
    layer, x, length_B = made(kind, 2, bidirectional=True), inputs(), torch.tensor([5, 2, 3])
    noisy = x.clone()
    for b, length in enumerate(length_B.tolist()):
        noisy[b, length:] = 1e3
    (y, last), (y_noisy, last_noisy) = (layer(given, length_B=length_B, kernel=kernel) for given in (x, noisy))
    assert_equal(y_noisy.detach(), y.detach())
    assert_equal(last_noisy.h_LBd.detach(), last.h_LBd.detach())
    assert not y[1, 2:].any(), "outputs after a row's end are zero"


@pytest.mark.parametrize("length", [0, T + 1])
@pytest.mark.parametrize("kernel", KERNELS)
def test_a_length_outside_the_input_is_refused_by_both_kernels(kernel: Any, length: int) -> None:
    with pytest.raises(ConfigError, match=rf"length.*{length}.*1 … {T}"):
        made("gru")(inputs(), length_B=torch.tensor([T, length, 1]), kernel=kernel)


GATES = {
    "rnn": {"h"},
    "lstm": {"h", "c", "input", "forget", "candidate", "output"},
    "gru": {"h", "reset", "update", "candidate"},
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_gate_can_be_read_and_equals_the_oracles(kind: str) -> None:
    layer, x = made(kind), inputs()
    state = state_for(layer)
    c_Bd = None if state.c_LBd is None else state.c_LBd[0]
    trace, last = cell_of(layer).unroll(x, tuple(part[0] for part in state.parts))
    assert trace.keys() == GATES[kind] == {*cell_of(layer).state, *cell_of(layer).gates}
    assert torch.equal(last[0], trace["h"][:, -1])
    for b in range(B):
        truth = by_oracle(layer, x[b], state.h_LBd[0, b], None if c_Bd is None else c_Bd[b])
        for name in GATES[kind]:
            assert_equal(trace[name][b].detach(), truth[name])


@pytest.mark.parametrize("kind", KINDS)
def test_gates_lie_between_0_and_1_and_candidates_between_minus_1_and_1(kind: str) -> None:
    layer = made(kind)
    trace, _ = cell_of(layer).unroll(100 * inputs())
    for name in GATES[kind] & {"input", "forget", "output", "reset", "update"}:
        assert trace[name].min() >= 0
        assert trace[name].max() <= 1
    for name in GATES[kind] & {"candidate", "h"}:
        assert trace[name].abs().max() <= 1


@pytest.mark.parametrize("backward", [False, True])
def test_on_the_trace_the_cell_is_what_was_kept_plus_what_was_let_in(backward: bool) -> None:
    layer = made("lstm", bidirectional=True)
    state = state_for(layer)
    assert state.c_LBd is not None
    row = int(backward)
    g, _ = cell_of(layer).unroll(inputs(), (state.h_LBd[row], state.c_LBd[row]), backward=backward)
    start = state.c_LBd[row].unsqueeze(1)
    before = torch.cat((g["c"][:, 1:], start), 1) if backward else torch.cat((start, g["c"][:, :-1]), 1)
    assert_equal(g["c"].detach(), (g["forget"] * before + g["input"] * g["candidate"]).detach())
    assert_equal(g["h"].detach(), (g["output"] * g["c"].tanh()).detach())


def test_on_the_trace_the_gru_mixes_the_candidate_with_the_past() -> None:
    layer = made("gru")
    h0 = state_for(layer).h_LBd[0]
    g, _ = cell_of(layer).unroll(inputs(), (h0,))
    before = torch.cat((h0.unsqueeze(1), g["h"][:, :-1]), 1)
    assert_equal(g["h"].detach(), ((1 - g["update"]) * g["candidate"] + g["update"] * before).detach())


def test_dropout_acts_between_levels_and_only_in_training() -> None:
    deep, flat = made("gru", 2, dropout=0.5), made("gru", 1, dropout=0.5)
    assert not torch.equal(deep(inputs())[0], deep(inputs())[0])
    assert torch.equal(flat(inputs())[0], flat(inputs())[0])
    assert torch.equal(deep.eval()(inputs())[0], deep(inputs())[0])


def test_a_detached_state_has_the_same_values_and_no_past() -> None:
    layer = made("lstm")
    _, state = layer(inputs())
    cut = state.detach()
    assert torch.equal(cut.h_LBd, state.h_LBd)
    assert cut.c_LBd is not None
    assert not cut.h_LBd.requires_grad
    assert not cut.c_LBd.requires_grad


# --- what is dropped in training


def drawing(run: Callable[[], Any], seed: int = 5) -> Any:
    """`run()` with torch's own generator at a known place, and put back after it."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return run()


def kept(*shape: int, rate: float) -> Tensor:
    """The masks of the papers: 0 with probability p, otherwise 1 / (1 − p)."""
    return torch.empty(shape, dtype=torch.float64).bernoulli_(1 - rate) / (1 - rate)


def test_locked_dropout_has_one_mask_per_row_and_feature_for_all_positions() -> None:
    x_BTd = torch.randn(4, 6, 20, generator=seeded(2), dtype=torch.float64)
    dropped = drawing(lambda: dropout(x_BTd, 0.4, locked=True))
    mask_B1d = drawing(lambda: kept(4, 1, 20, rate=0.4))
    assert_equal(dropped, x_BTd * mask_B1d)
    zero_BTd = dropped == 0
    assert torch.equal(zero_BTd, zero_BTd[:, :1].expand_as(dropped))
    assert len({tuple(row) for row in zero_BTd[:, 0].tolist()}) == 4, "each row has its own"


def test_dropout_that_is_not_locked_is_torchs_from_the_same_draws() -> None:
    def both(run: Callable[[Tensor], Tensor]) -> tuple[Tensor, Tensor]:
        return run(inputs()), torch.rand(3)  # and what is drawn next

    ours_, torchs_ = (
        drawing(lambda: both(lambda x: dropout(x, 0.4, locked=False))),
        drawing(lambda: both(lambda x: F.dropout(x, 0.4))),
    )
    assert all(torch.equal(one, other) for one, other in zip(ours_, torchs_, strict=True))


@pytest.mark.parametrize("locked", [False, True])
def test_a_rate_of_zero_changes_nothing_and_draws_nothing(locked: bool) -> None:
    token_BT = torch.zeros(B, T, dtype=torch.long)
    for run in (lambda x: dropout(x, 0.0, locked), lambda x: dropout_words(x, token_BT, 3, 0.0)):
        y, after = drawing(lambda run=run: (run(inputs()), torch.rand(3)))  # type: ignore[misc]
        assert torch.equal(y, inputs())
        assert torch.equal(after, drawing(lambda: torch.rand(3)))


def test_a_dropped_word_is_dropped_wherever_it_stands() -> None:
    vocab = 30
    token_BT = torch.randint(vocab, (7, 40), generator=seeded(1))
    E_Ve = torch.randn(vocab, 5, generator=seeded(2), dtype=torch.float64).requires_grad_()
    dropped = drawing(lambda: dropout_words(E_Ve[token_BT], token_BT, vocab, 0.3))
    mask_V1 = drawing(lambda: kept(vocab, 1, rate=0.3))
    assert_equal(dropped.detach(), (E_Ve * mask_V1)[token_BT].detach())  # the embedding of the papers, with rows dropped
    (gradient,) = torch.autograd.grad(dropped.sum(), E_Ve)
    (truth,) = torch.autograd.grad((E_Ve * mask_V1)[token_BT].sum(), E_Ve)
    assert_equal(gradient, truth)
    assert 0 < (mask_V1 == 0).sum() < vocab


def with_dropped_weights(layer: Recurrent, rate: float) -> tuple[Recurrent, dict[str, Tensor]]:
    """A layer that has m⊙U / (1 − p) where `layer` has U, and the masks, by torch's names."""
    other, masks = copy.deepcopy(layer), {}
    other.dropout_weight = 0.0
    with torch.no_grad():
        for name, parameter in renamed(other):
            if "weight_hh" in name:
                masks[name] = kept(*parameter.shape, rate=rate)
                parameter.mul_(masks[name])
    return other, masks


@pytest.mark.parametrize("lengths", [None, (2, 5, 1)], ids=["whole", "lengths"])
@pytest.mark.parametrize("bidirectional", [False, True], ids=["forward", "both-ways"])
@pytest.mark.parametrize("depth", [1, 3])
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("kind", half(KINDS))
def test_a_layer_with_dropped_weights_is_torchs_module_with_those_weights(
    kind: str, kernel: Any, depth: int, bidirectional: bool, lengths: tuple[int, ...] | None
) -> None:
    """In value and in every gradient; that of U passes where U passed."""
    layer = made(kind, depth, bidirectional=bidirectional, dropout_weight=0.5)
    length_B = None if lengths is None else torch.tensor(lengths)
    mine = drawing(lambda: ours(layer, kernel, length_B))
    other, masks = drawing(lambda: with_dropped_weights(layer, 0.5))
    truth = torchs(other, length_B)
    for name, mask_gd in masks.items():
        assert 0 < (mask_gd == 0).sum() < mask_gd.numel()
        truth[f"d{name}"] = truth[f"d{name}"] * mask_gd
        assert not mine[f"d{name}"][mask_gd == 0].any()
    assert mine.keys() == truth.keys()
    for name in truth:
        assert_equal(mine[name].detach(), truth[name].detach())


def test_the_gru_that_resets_before_drops_weights_too() -> None:
    layer = made("gru", 2, reset="before", dropout_weight=0.5)
    mine = drawing(lambda: ours(layer, "auto"))
    truth = ours(drawing(lambda: with_dropped_weights(layer, 0.5))[0], "auto")
    assert_equal(mine["y"].detach(), truth["y"].detach())


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("kind", KINDS)
def test_locked_dropout_between_levels_is_that_of_two_layers_with_a_mask_between_them(kind: str, kernel: Any) -> None:
    layer = made(kind, 2, dropout=0.4, dropout_weight=0.3, dropout_locked=True)
    y = drawing(lambda: layer(inputs(), kernel=kernel)[0])

    def by_hand() -> Tensor:
        """Draws in the order in which data flows: the U below, the mask between, the U above."""
        x_BTd = inputs()
        for level, holder in enumerate(layer.layers):
            if level:
                x_BTd = x_BTd * kept(B, 1, WIDTH, rate=0.4)
            module = copy.deepcopy(holder)
            assert isinstance(module, nn.RNNBase)
            with torch.no_grad():
                module.get_parameter("weight_hh_l0").mul_(kept(*module.get_parameter("weight_hh_l0").shape, rate=0.3))
            x_BTd = module(x_BTd)[0]
        return x_BTd

    assert_equal(y.detach(), drawing(by_hand).detach())


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("kind", KINDS)
def test_outside_training_nothing_is_dropped_and_nothing_drawn(kind: str, kernel: Any) -> None:
    layer, plain = made(kind, 2, dropout=0.5, dropout_weight=0.5, dropout_locked=True).eval(), made(kind, 2).eval()
    y, after = drawing(lambda: (layer(inputs(), kernel=kernel)[0], torch.rand(3)))
    assert torch.equal(y, plain(inputs(), kernel=kernel)[0])
    assert torch.equal(after, drawing(lambda: torch.rand(3)))


@pytest.mark.parametrize("kind", KINDS)
def test_dropping_weights_leaves_the_layer_and_its_names_as_they_were(kind: str) -> None:
    layer, plain = made(kind, 2, dropout_weight=0.5), made(kind, 2)
    one, other = (layer(inputs())[0] for _ in range(2))
    assert not torch.equal(one, other), "each window has its own mask"
    for (name, weight), (plain_name, plain_weight) in zip(layer.state_dict().items(), plain.state_dict().items(), strict=True):
        assert name == plain_name
        assert torch.equal(weight, plain_weight)
    copied = copy.deepcopy(layer)  # would fail if a dropped weight, which has a past, were left on a module
    assert torch.equal(copied.eval()(inputs())[0], plain.eval()(inputs())[0])


def test_copies_lie_where_their_places_lie_and_gradients_pass() -> None:
    """The layout that cuDNN expects, on memory that stands in for cuDNN's: in an order of its own, with a gap in it."""
    memory = torch.randn(40, generator=seeded(1), dtype=torch.float64)
    places = [memory[12:24].view(3, 4), memory[0:9].view(3, 3), memory[30:33]]
    tensors = [torch.randn(place.shape, generator=seeded(2), dtype=torch.float64).requires_grad_() for place in places]
    copies = LaidOut.apply(places, *tensors)  # type: ignore[no-untyped-call]
    start = copies[0].untyped_storage().data_ptr()
    assert start != memory.untyped_storage().data_ptr()
    for copied, place, tensor in zip(copies, places, tensors, strict=True):
        assert copied.data_ptr() - start == place.data_ptr() - memory.data_ptr()
        assert copied.untyped_storage().nbytes() == memory.untyped_storage().nbytes()
        assert torch.equal(copied, tensor)
        assert copied.requires_grad
    pulls = [torch.randn(place.shape, generator=seeded(3), dtype=torch.float64) for place in places]
    gradients = torch.autograd.grad(copies, tensors, pulls)
    assert all(torch.equal(gradient, pull) for gradient, pull in zip(gradients, pulls, strict=True))


@pytest.mark.parametrize("autocast", [False, True])
@pytest.mark.parametrize("kind", ["lstm", "gru"])
def test_a_processor_without_bfloat16_computes_in_float32(kind: str, autocast: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(x: Tensor) -> torch.dtype | None:
        return torch.bfloat16 if x.dtype == torch.bfloat16 or torch.is_autocast_enabled("cpu") else None

    monkeypatch.setattr(torch_cell, "_refused", refused)
    layer, x_BTi, length_B = made(kind, 2, torch.float32, bidirectional=True), inputs(torch.float32), torch.tensor([5, 2, 4])
    exact_BTd, _ = layer(x_BTi, length_B=length_B)
    if not autocast:
        layer, x_BTi = layer.bfloat16(), x_BTi.bfloat16()
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        y_BTd, state = layer(x_BTi, length_B=length_B)
    assert y_BTd.dtype == state.h_LBd.dtype == torch.bfloat16
    torch.testing.assert_close(y_BTd.float(), exact_BTd, atol=0.03, rtol=0.03)
    y_BTd.sum().backward()  # it can be trained, too
    assert all(one.grad is not None for one in layer.parameters())
