"""Language models: what is read step by step equals what is read at once, for every kind and every option."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from shares import half, third
from small_models import randomise
from tolerance import assert_as_accurate, assert_equal, bound
from torch import Tensor

from firth.errors import ConfigError
from firth.layers.attention import mask
from firth.layers.position import SCHEMES
from firth.layers.recurrent import CELLS
from firth.models import (
    LanguageModel,
    ModelConfig,
    RecurrentConfig,
    RecurrentLM,
    TransformerConfig,
    TransformerLM,
    language_model,
)

VOCAB, T, B = 11, 9, 3
CHUNKS = {"one at a time": [1] * T, "a prompt, then one at a time": [5, 1, 1, 1, 1], "mixed": [2, 1, 4, 2], "all at once": [T]}


def made(config: ModelConfig, dtype: torch.dtype = torch.float64) -> LanguageModel:
    model = language_model(config, VOCAB)
    return randomise(model, std=0.4).to(dtype).eval()


def tokens(batch: int = B, time: int = T, seed: int = 1) -> Tensor:
    return torch.randint(VOCAB, (batch, time), generator=torch.Generator().manual_seed(seed))


def transformer(**options: Any) -> TransformerConfig:
    return TransformerConfig(**({"kind": "transformer", "width": 16, "depth": 2, "heads": 4, "context": T} | options))


def recurrent(**options: Any) -> RecurrentConfig:
    return RecurrentConfig(**({"kind": "lstm", "width": 7, "depth": 2} | options))


def named(config: ModelConfig) -> str:
    """The values of a config, as the name of a test."""
    return "-".join(str(value) for name, value in vars(config).items() if name not in ("family", "position_base", "dropout"))


def stepped(model: LanguageModel, token_BT: Tensor, chunks: list[int]) -> Tensor:
    state, logits = model.start(len(token_BT)), []
    with torch.inference_mode():
        for chunk_BT in token_BT.split(chunks, dim=1):
            logits_BTV, state = model.step(chunk_BT, state)
            logits.append(logits_BTV)
    return torch.cat(logits, 1)


def at_once(model: LanguageModel, token_BT: Tensor) -> Tensor:
    with torch.inference_mode():
        return model(token_BT)[0]  # type: ignore[no-any-return]


POSITIONS = ("none", "learned", "sinusoidal", "rotary")


def recurrent_configs() -> Iterator[RecurrentConfig]:
    for kind, depth, tied in itertools.product(CELLS.shipped_kinds, (1, 3), (False, True)):
        yield recurrent(kind=kind, depth=depth, tied=tied)
    yield recurrent(kind="gru", reset="before")
    yield recurrent(kind="lstm", embedding=3)
    yield recurrent(kind="lstm", embedding=3, tied=True)


@pytest.mark.parametrize("config", list(recurrent_configs()), ids=named)
def test_a_recurrent_model_read_in_steps_equals_itself_read_at_once(config: RecurrentConfig) -> None:
    model = made(config)
    whole = at_once(model, tokens())
    for chunks in CHUNKS.values():
        assert_equal(stepped(model, tokens(), chunks), whole)


@pytest.mark.parametrize("third", [0, *(pytest.param(n, marks=pytest.mark.long) for n in (1, 2))])
@pytest.mark.parametrize("placement", half(["pre", "post"]))
@pytest.mark.parametrize("norm", ["layer", "rms"])
@pytest.mark.parametrize("position", POSITIONS)
def test_a_transformer_read_in_steps_equals_itself_read_at_once(position: str, norm: str, placement: str, third: int) -> None:
    """In each third, every activation and every sharing of heads occurs with and without biases."""
    options_of_all = itertools.product(enumerate(("relu", "gelu", "swiglu")), enumerate((1, 2, None)), (False, True))
    for (a, activation), (k, kv_heads), bias in options_of_all:
        if (a + k + bias) % 3 != third:
            continue
        options = {"activation": activation, "kv_heads": kv_heads, "bias": bias, "tied": not bias}
        model = made(transformer(position=position, norm=norm, norm_placement=placement, **options))
        whole = at_once(model, tokens())
        for chunks in CHUNKS.values():
            assert_equal(stepped(model, tokens(), chunks), whole)


@pytest.mark.parametrize("position", third(SCHEMES.kinds))
def test_a_transformer_of_parallel_blocks_read_in_steps_equals_itself_read_at_once(position: str) -> None:
    for kv_heads, bias in itertools.product((1, None), (False, True)):
        model = made(transformer(position=position, parallel_block=True, kv_heads=kv_heads, bias=bias))
        whole = at_once(model, tokens())
        for chunks in CHUNKS.values():
            assert_equal(stepped(model, tokens(), chunks), whole)


@pytest.mark.parametrize("placement", ["pre", "post"])
@pytest.mark.parametrize(("attention", "position"), [("linear", "learned"), ("gated_linear", "none"), ("based", "rotary")])
def test_linear_attention_read_in_steps_equals_itself_read_at_once(attention: str, position: str, placement: str) -> None:
    for bias, span in itertools.product((False, True), (1, 3, 64) if attention == "based" else (None,)):
        model = made(transformer(attention=attention, position=position, norm_placement=placement, bias=bias, span=span))
        whole = at_once(model, tokens())
        for chunks in CHUNKS.values():
            assert_equal(stepped(model, tokens(), chunks), whole)


@pytest.mark.parametrize("attention", ["linear", "gated_linear", "based"])
def test_the_state_of_linear_attention_has_one_size_and_gradients_reach_every_parameter(attention: str) -> None:
    model = made(transformer(attention=attention, position="none", span=4 if attention == "based" else None))
    sizes = []
    for time in (5, 9):
        _, state = model.step(tokens(time=time), model.start(B))
        sizes.append([x.shape for layer in state.layers for x in vars(layer).values() if isinstance(x, Tensor)])
    assert sizes[0] == sizes[1]
    model(tokens())[0].square().sum().backward()
    assert all(parameter.grad is not None and parameter.grad.abs().max() > 0 for parameter in model.parameters())


SHORT = [
    *(recurrent(kind=kind) for kind in CELLS.shipped_kinds),
    *(transformer(position=p, kv_heads=g) for p in POSITIONS for g in (1, None)),
    *(transformer(attention=kind, position="none") for kind in ("linear", "gated_linear", "based")),
    transformer(attention="linear", position="sinusoidal", parallel_block=True),
    transformer(attention="gated_linear", position="learned", bias=True),
    transformer(attention="based", depth=3, span=4, feature_width=3),
]


# At once, Based computes 1 + s + s²/2 within a chunk; in steps it sums the 273 terms of φ(q)·φ(k), which round more often.
ROUNDING_ALIKE = [config for config in SHORT if not (isinstance(config, TransformerConfig) and config.attention.kind == "based")]


@pytest.mark.parametrize("config", half(ROUNDING_ALIKE), ids=named)
def test_in_float32_steps_are_as_accurate_as_one_reading_and_choose_the_same_token(config: ModelConfig) -> None:
    single, exact = made(config, torch.float32), at_once(made(config), tokens())
    plain = at_once(single, tokens())
    top_two = plain.topk(2).values
    clear_BT = top_two[..., 0] - top_two[..., 1] > 2 * bound(plain, exact)
    assert clear_BT.float().mean() > 0.9, "a test in which hardly any choice is clear tests little"
    for chunks in CHUNKS.values():
        logits = stepped(single, tokens(), chunks)
        assert_as_accurate(logits, plain, exact)
        assert torch.equal(logits.argmax(-1)[clear_BT], plain.argmax(-1)[clear_BT])


@pytest.mark.parametrize("position", ["none", "sinusoidal", "rotary"])
def test_positions_without_an_end_read_on_past_the_context(position: str) -> None:
    short, long = made(transformer(position=position, context=4)), made(transformer(position=position, context=64))
    truth = at_once(long, tokens())
    for chunks in CHUNKS.values():
        assert_equal(stepped(short, tokens(), chunks), truth)


def test_learned_positions_end_with_the_context_in_steps_too() -> None:
    model = made(transformer(position="learned", context=4))
    _, state = model.step(tokens(time=4), model.start(B))
    with pytest.raises(ConfigError, match=r"position 5 is beyond model.context = 4"):
        model.step(tokens(time=1), state)


@pytest.mark.parametrize("config", SHORT, ids=named)
def test_one_state_can_be_continued_twice(config: ModelConfig) -> None:
    model = made(config)
    prompt, left, right = tokens(time=3), tokens(time=4, seed=2), tokens(time=4, seed=3)
    with torch.inference_mode():
        _, state = model.step(prompt, model.start(B))
        after_left, state_left = model.step(left, state)
        after_right, _ = model.step(right, state)
        again, _ = model.step(right[:, :2], state_left)
    assert_equal(after_left, at_once(model, torch.cat((prompt, left), 1))[:, 3:])
    assert_equal(after_right, at_once(model, torch.cat((prompt, right), 1))[:, 3:])
    assert_equal(again, at_once(model, torch.cat((prompt, left, right[:, :2]), 1))[:, 7:])


@pytest.mark.parametrize("config", SHORT, ids=named)
def test_selected_rows_continue_as_those_rows(config: ModelConfig) -> None:
    model, rows = made(config), torch.tensor([2, 0, 0, 2, 1])
    prompt, more = tokens(time=4), tokens(batch=5, time=3, seed=4)
    with torch.inference_mode():
        _, state = model.step(prompt, model.start(B))
        logits, _ = model.step(more, state.select(rows))
    assert_equal(logits, at_once(model, torch.cat((prompt[rows], more), 1))[:, 4:])


@pytest.mark.parametrize("config", SHORT, ids=named)
def test_a_token_changes_nothing_before_it_and_nothing_in_other_rows(config: ModelConfig) -> None:
    model, token_BT = made(config), tokens()
    before = at_once(model, token_BT)
    token_BT[1, 5] = (token_BT[1, 5] + 1) % VOCAB
    after = at_once(model, token_BT)
    assert_equal(after[1, :5], before[1, :5])
    assert_equal(after[[0, 2]], before[[0, 2]])
    assert (after[1, 5:] - before[1, 5:]).abs().amax(-1).min() > 1e-6, "and it changes everything after it"


@pytest.mark.parametrize("config", [*SHORT, recurrent(tied=True), transformer(tied=False, bias=True)], ids=named)
def test_hidden_then_readout_is_forward(config: ModelConfig) -> None:
    model = made(config)
    x_BTd, _ = model.hidden(tokens())
    assert x_BTd.shape == (B, T, config.width)
    assert torch.equal(model.readout(x_BTd), model(tokens())[0])


@pytest.mark.parametrize("placement", ["pre", "post"])
def test_a_last_norm_follows_pre_norm_blocks_and_only_those(placement: str) -> None:
    model = made(transformer(norm_placement=placement, position="none", norm="layer", bias=True))
    assert isinstance(model, TransformerLM)
    x = model.embedding(tokens())
    for block in model.blocks:
        x, _ = block(x, mask.CAUSAL)
    if placement == "pre":
        x = F.layer_norm(x, (16,), *(model.get_parameter(f"norm.{name}") for name in ("weight", "bias")))
    assert_equal(model.hidden(tokens())[0].detach(), x.detach())


@pytest.mark.parametrize("config", [recurrent(), transformer()], ids=["recurrent", "transformer"])
def test_a_training_call_without_a_state_equals_one_from_the_start(config: ModelConfig) -> None:
    model = made(config)
    assert_equal(model(tokens())[0].detach(), model(tokens(), model.start(B))[0].detach())


def test_a_one_hot_input_times_a_matrix_is_a_row_of_it() -> None:
    """The embedding is the input layer of the lecture."""
    model = made(recurrent(kind="rnn"))
    assert isinstance(model, RecurrentLM)
    product = F.one_hot(tokens(), VOCAB).double() @ model.embedding.weight
    assert torch.equal(product, model.embedding(tokens()))


@pytest.mark.parametrize("make", [recurrent, transformer], ids=["recurrent", "transformer"])
def test_tied_models_read_out_with_the_embedding_itself(make: Any) -> None:
    tied, untied = made(make(tied=True)), made(make(tied=False))
    x = torch.eye(tied.config.width, dtype=torch.float64).unsqueeze(0)  # type: ignore[union-attr, arg-type]
    bias = getattr(tied, "output_bias", None)
    assert_equal((tied.readout(x) - (0 if bias is None else bias)).detach()[0], tied.embedding.weight.detach().T)  # type: ignore[union-attr, operator]
    assert not any(name.startswith("output.") for name, _ in tied.named_parameters())
    assert any(name.startswith("output.") for name, _ in untied.named_parameters())


def test_a_narrow_tied_embedding_reads_out_what_the_projection_makes_of_the_state() -> None:
    model = made(recurrent(kind="gru", embedding=3, tied=True))
    assert isinstance(model, RecurrentLM)
    assert model.projection is not None
    h_BTd, _ = model.recurrent(model.embedding(tokens()))
    by_hand_BTV = (h_BTd @ model.projection.weight.T) @ model.embedding.weight.T + model.output_bias
    assert_equal(model(tokens())[0].detach(), by_hand_BTV.detach())


def test_the_fused_and_the_readable_cells_give_one_model() -> None:
    for kind in CELLS.shipped_kinds:
        model = made(recurrent(kind=kind))
        assert isinstance(model, RecurrentLM)
        fused, cells = (model.hidden(tokens(), kernel=kernel)[0].detach() for kernel in ("fused", "cells"))  # type: ignore[arg-type]
        assert_equal(cells, fused)


def test_generating_past_the_context_does_not_spoil_later_training() -> None:
    for position in ("sinusoidal", "rotary"):
        model, fresh = (made(transformer(position=position, context=4)) for _ in range(2))
        stepped(model, tokens(), [T])
        for one in (model, fresh):
            one(tokens())[0].sum().backward()
        for weight, other in zip(model.parameters(), fresh.parameters(), strict=True):
            assert_equal(weight.grad, other.grad)
