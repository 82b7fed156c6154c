"""A state is a value: it can be branched from, and its rows can be picked, repeated and reordered."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from firth.errors import ConfigError
from firth.layers.state import ROOM, AttentionState, KeyValue, RecentKeyValue, RecurrentState

B, G, D, E = 3, 2, 4, 5


def piece(length: int, seed: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(B, G, length, D, generator=generator), torch.randn(B, G, length, E, generator=generator)


def joined(*pieces: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    return torch.cat([k for k, _ in pieces], 2), torch.cat([v for _, v in pieces], 2)


def held(state: KeyValue) -> tuple[Tensor, Tensor]:
    """The contents of a state, read by extending it with nothing."""
    k, v, _ = state.extend(torch.empty(B, G, 0, D), torch.empty(B, G, 0, E))
    return k, v


def same(kv: tuple[Tensor, Tensor], truth: tuple[Tensor, Tensor]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(kv, truth, strict=True))


def test_keys_and_values_come_back_in_the_order_they_were_given() -> None:
    state, pieces = KeyValue(), [piece(length, seed) for seed, length in enumerate([3, 1, 1, 70, 2, 200, 1])]
    for n, (k, v) in enumerate(pieces):
        all_k, all_v, state = state.extend(k, v)
        assert same((all_k, all_v), joined(*pieces[: n + 1]))
    assert state.length == 3 + 1 + 1 + 70 + 2 + 200 + 1


def test_a_store_grows_by_doubling_so_that_appending_stays_cheap() -> None:
    state, stores = KeyValue(), set()
    for n in range(300):
        _, _, state = state.extend(*piece(1, n))
        stores.add(id(state.store))
    assert len(stores) <= 4, f"{len(stores)} stores for 300 tokens"


def test_two_continuations_of_one_state_do_not_see_each_other() -> None:
    start, left, right, more = piece(3, 0), piece(2, 1), piece(2, 2), piece(4, 3)
    _, _, state = KeyValue().extend(*start)
    k_left, v_left, state_left = state.extend(*left)
    k_right, v_right, state_right = state.extend(*right)
    assert same((k_left, v_left), joined(start, left))
    assert same((k_right, v_right), joined(start, right))
    assert same(state_left.extend(*more)[:2], joined(start, left, more))
    assert same(state_right.extend(*more)[:2], joined(start, right, more))
    assert same(held(state), start)


@given(choices=st.lists(st.tuples(st.integers(0, 30), st.integers(1, 40)), min_size=1, max_size=25))
def test_any_tree_of_continuations_holds_what_separate_runs_hold(choices: list[tuple[int, int]]) -> None:
    """Each choice extends one of the states made so far; afterwards every state still holds its own history."""
    states: list[tuple[KeyValue, list[tuple[Tensor, Tensor]]]] = [(KeyValue(), [])]
    for seed, (parent, length) in enumerate(choices):
        state, history = states[parent % len(states)]
        new = piece(length, seed)
        k, v, after = state.extend(*new)
        assert same((k, v), joined(*history, new))
        states.append((after, [*history, new]))
    for state, history in states[1:]:
        assert same(held(state), joined(*history))


ROWS = st.lists(st.integers(0, B - 1), min_size=1, max_size=6)


@given(rows=ROWS)
def test_selected_rows_of_keys_and_values_continue_on_their_own(rows: list[int]) -> None:
    start, more = piece(3, 0), piece(2, 1)
    _, _, state = KeyValue().extend(*start)
    chosen = state.select(torch.tensor(rows))
    k, v, _ = chosen.extend(more[0][rows], more[1][rows])
    assert same((k, v), tuple(x[rows] for x in joined(start, more)))  # type: ignore[arg-type]
    assert same(state.extend(*more)[:2], joined(start, more))


@given(rows=ROWS)
def test_selecting_from_a_state_with_room_to_spare_takes_only_what_it_has_read(rows: list[int]) -> None:
    start = piece(3, 0)
    _, _, state = KeyValue().extend(*start)
    state.extend(*piece(1, 9))  # another state has written behind this one's end
    k, v, _ = state.select(torch.tensor(rows)).extend(torch.empty(len(rows), G, 0, D), torch.empty(len(rows), G, 0, E))
    assert same((k, v), (start[0][rows], start[1][rows]))


def test_a_state_that_selects_before_every_token_copies_once_for_each() -> None:
    """As in a beam: what was selected has room for what comes next, but for the odd time that it is full."""
    steps, kept, pieces = 64, 0, [piece(1, 0)]
    _, _, state = KeyValue().extend(*pieces[0])
    for n in range(steps):
        chosen, new = state.select(torch.arange(B)), piece(1, n + 1)
        assert chosen.store is not None
        _, _, state = chosen.extend(*new)
        pieces.append(new)
        kept += state.store is chosen.store
    assert kept >= steps - steps // ROOM - 1
    assert same(held(state), joined(*pieces))


@pytest.mark.parametrize("with_cell", [False, True])
@given(rows=ROWS)
def test_selected_rows_of_a_recurrent_state_are_those_rows(with_cell: bool, rows: list[int]) -> None:
    h, c = torch.randn(2, 2, B, 5, generator=torch.Generator().manual_seed(0))
    chosen = RecurrentState(h, c if with_cell else None).select(torch.tensor(rows))
    assert torch.equal(chosen.h_LBd, h[:, rows])
    if with_cell:
        assert chosen.c_LBd is not None
        assert torch.equal(chosen.c_LBd, c[:, rows])
    else:
        assert chosen.c_LBd is None


def test_an_attention_state_selects_in_every_layer() -> None:
    rows, pieces = torch.tensor([2, 0, 2, 2]), [piece(3, n) for n in range(2)]
    state = AttentionState(tuple(KeyValue().extend(*p)[2] for p in pieces))
    chosen = state.select(rows)
    assert chosen.length == state.length == 3
    for layer, (k, v) in zip(chosen.layers, pieces, strict=True):
        kv = layer.extend(torch.empty(4, G, 0, D), torch.empty(4, G, 0, E))[:2]
        assert same(kv, (k[rows], v[rows]))


def test_an_empty_state_can_be_selected_from() -> None:
    state = AttentionState.empty(2).select(torch.tensor([0, 0]))
    assert state.length == 0
    assert len(state.layers) == 2


@pytest.mark.parametrize("reclaimed", [False, True])
@given(length=st.integers(0, 6), more=st.integers(1, 80))
def test_a_cut_state_is_one_that_never_saw_the_rest(reclaimed: bool, length: int, more: int) -> None:
    start, new = piece(6, 0), piece(more, 1)
    _, _, state = KeyValue().extend(*start)
    cut = state.cut(length)
    assert cut.length == length
    first = tuple(x[:, :, :length] for x in start)
    assert same((cut.reclaim() if reclaimed else cut).extend(*new)[:2], joined(first, new))  # type: ignore[arg-type]
    if not reclaimed:
        assert same(held(state), start)  # the longer one is a value, too


def test_a_reclaimed_state_appends_without_a_copy() -> None:
    _, _, state = KeyValue().extend(*piece(6, 0))
    assert state.cut(4).reclaim().extend(*piece(2, 1))[2].store is state.store
    assert state.cut(4).extend(*piece(2, 1))[2].store is not state.store


def test_windows_cannot_be_cut() -> None:
    state = AttentionState((KeyValue(), RecentKeyValue(4)))
    assert not state.cuttable
    assert AttentionState.empty(2).cuttable
    with pytest.raises(ConfigError, match="window"):
        state.cut(0)
