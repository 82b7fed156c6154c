"""Sequence to sequence: RNNsearch against a float64 loop, the Transformer against torch's, and what decoding relies on."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch
from shares import half
from torch import Tensor, nn
from translations import random_pairs

from firth.errors import ConfigError
from firth.layers.recurrent import CELLS, Recurrent
from firth.models import ConditionalDecoder, RecurrentDecoder, TransformerDecoder, seq2seq
from firth.models.initialise import initialise
from firth.models.seq2seq import RecurrentText, TransformerText, reversed_rows
from firth.models.seq2seq_config import RecurrentSeq2SeqConfig, TransformerSeq2SeqConfig
from firth.oracles import rnnsearch

SOURCE_V, TARGET_V = 11, 9
KINDS = CELLS.shipped_kinds
FORMS: dict[str, dict[str, Any]] = {
    "fixed": {"attention": "none"},
    "fed": {"attention": "none", "feed_context": True, "reverse": True},
    "search": {},
    "tied": {"tied": True},
    "bilinear": {"attention": "bilinear"},
    "dot": {"attention": "dot", "bidirectional": False},
    "gaussian": {"attention": "gaussian", "bidirectional": False},
    "cosine": {"attention": "cosine", "bidirectional": False},
    "luong": {"decoder": "luong"},
    "luong, tied": {"decoder": "luong", "tied": True},
    "luong, fed": {"decoder": "luong", "input_feeding": True},
    "luong, fed, dot": {"decoder": "luong", "input_feeding": True, "attention": "dot", "bidirectional": False},
}


TRANSFORMERS: dict[str, dict[str, Any]] = {
    "2017": {
        "position": "sinusoidal",
        "norm": "layer",
        "norm_placement": "post",
        "activation": "relu",
        "bias": True,
        "encoder_depth": 1,
    },
    "modern": {"kv_heads": 1, "tied": False},
    "t5": {"position": "t5", "distance_buckets": 8, "max_distance": 20},
    "shaw": {"position": "shaw", "max_distance": 2},
    "rotary, cosine": {"position": "rotary", "score": "cosine"},
    "alibi, bilinear": {"position": "alibi", "score": "bilinear"},
    "learned, additive": {"position": "learned", "score": "additive"},
}
ALL = [(kind, form) for kind in KINDS for form in FORMS] + [("transformer", form) for form in TRANSFORMERS]


def recurrent(kind: str = "gru", **settings: Any) -> RecurrentDecoder:
    config = RecurrentSeq2SeqConfig(kind=kind, **({"width": 6, "embedding": 5, "depth": 1} | settings))  # type: ignore[arg-type]
    model: RecurrentDecoder = drawn(seq2seq(config, SOURCE_V, TARGET_V))
    return model


def transformer(**settings: Any) -> TransformerDecoder:
    given = {"width": 8, "heads": 2, "depth": 2, "context": 16} | settings
    model: TransformerDecoder = drawn(seq2seq(TransformerSeq2SeqConfig(kind="transformer", **given), SOURCE_V, TARGET_V))
    return model


def model_of(kind: str, form: str) -> ConditionalDecoder:
    return transformer(**TRANSFORMERS[form]) if kind == "transformer" else recurrent(kind, depth=2, **FORMS[form])


def drawn(model: Any) -> Any:
    initialise(model, torch.Generator().manual_seed(0))
    return model.double().eval()


def array(tensor: Tensor) -> rnnsearch.Array:
    return np.asarray(tensor.detach().numpy(), np.float64)


def oracle_of(model: RecurrentDecoder) -> rnnsearch.RnnSearchDecoder:
    """The weights, gate by gate: torch stacks r, z, n; the input is [e; c]."""
    assert model.attentive is not None
    assert model.output is not None
    cell, e = model.attentive.cell, model.embedding.embedding_dim
    W, U = array(cell.weight_ih_l0), array(cell.weight_hh_l0)
    b = array(cell.bias_ih_l0) + array(cell.bias_hh_l0)
    sums = [
        rnnsearch.Sum(U_g, W_g[:, :e], W_g[:, e:], b_g)
        for U_g, W_g, b_g in zip(np.split(U, 3), np.split(W, 3), np.split(b, 3), strict=True)
    ]
    d, out = model.config.width, array(model.output.weight)
    output = rnnsearch.Sum(out[:, :d], out[:, d : d + e], out[:, d + e :], array(model.output.bias))
    query, key = model.attentive.query, model.attentive.key
    return rnnsearch.RnnSearchDecoder(
        array(model.attentive.attend.w_HA[0]), array(query.weight), array(key.weight), *sums, output
    )  # type: ignore[arg-type]


def test_rnnsearch_is_the_published_decoder() -> None:
    model = recurrent()
    source_BS, length_B, token_BT = random_pairs(SOURCE_V, TARGET_V, 7, 4, 1)
    encoded = model.encode(source_BS, length_B)
    first_LBd = model.start(encoded).recurrent.h_LBd
    logits_BTV = model(source_BS, length_B, token_BT)
    alignment_BTS = model.alignment(source_BS, length_B, token_BT)
    for b, length in enumerate(length_B.tolist()):
        embedded_Te = array(model.embedding(token_BT[b]))
        trace = rnnsearch.decode(
            embedded_Te,
            array(encoded.memory_BSm[b, :length]),
            array(first_LBd[0, b]),
            oracle_of(model),
        )
        np.testing.assert_allclose(array(logits_BTV[b].softmax(-1)), trace.probability_TV, rtol=1e-9)
        np.testing.assert_allclose(array(alignment_BTS[b, :, :length]), trace.alignment_TS, rtol=1e-9)
        assert not alignment_BTS[b, :, length:].any()


def test_the_decoder_starts_from_the_backward_state_at_the_first_source_token() -> None:
    model = recurrent()
    source_BS, length_B, _ = random_pairs(SOURCE_V, TARGET_V, 6, 3)
    encoded = model.encode(source_BS, length_B)
    back_Bd = encoded.memory_BSm[:, 0, model.config.width :]
    assert model.first is not None
    torch.testing.assert_close(model.start(encoded).recurrent.h_LBd[0], torch.tanh(model.first(back_Bd)))


@pytest.mark.parametrize("kind", KINDS)
def test_without_attention_the_decoder_is_a_language_model_that_starts_from_the_encoders_last_state(kind: str) -> None:
    model = recurrent(kind, attention="none", depth=2)
    source_BS, length_B, token_BT = random_pairs(SOURCE_V, TARGET_V, 6, 3)
    assert isinstance(model.recurrent, Recurrent)
    for b, length in enumerate(length_B.tolist()):
        _, last = model.encoder(model.source_embedding(source_BS[b : b + 1, :length]))
        h_1Td, _ = model.recurrent(model.embedding(token_BT[b : b + 1]), last)
        torch.testing.assert_close(model(source_BS, length_B, token_BT)[b], model.readout(h_1Td)[0])


def test_the_transformer_is_torchs() -> None:
    model = transformer(**TRANSFORMERS["2017"] | {"position": "none", "encoder_depth": 2, "hidden": 12})
    peer = nn.Transformer(8, 2, 2, 2, 12, dropout=0.0, batch_first=True, dtype=torch.float64).eval()
    peer.encoder.norm = peer.decoder.norm = None  # a post-norm layer ends in a norm already
    for ours, theirs in [*zip(model.encoder.blocks, peer.encoder.layers, strict=True)]:
        copy_block(ours, theirs)
    for ours, theirs in [*zip(model.decoder.blocks, peer.decoder.layers, strict=True)]:
        copy_block(ours, theirs)
    source_BS, length_B, token_BT = random_pairs(SOURCE_V, TARGET_V, 7, 4, 1)
    padded_BS = torch.arange(source_BS.shape[1]) >= length_B[:, None]
    causal_TT = torch.ones(token_BT.shape[1], token_BT.shape[1], dtype=torch.bool).triu(1)
    expected_BTd = peer(
        model.source_embedding(source_BS),
        model.embedding(token_BT),
        tgt_mask=causal_TT,
        src_key_padding_mask=padded_BS,
        memory_key_padding_mask=padded_BS,
    )
    torch.testing.assert_close(model.teacher_forced(token_BT, model.encode(source_BS, length_B)), expected_BTd)


def copy_block(ours: Any, theirs: Any) -> None:
    pairs = [
        (theirs.self_attn.in_proj_weight, ours.attention.qkv.weight),
        (theirs.self_attn.in_proj_bias, ours.attention.qkv.bias),
        (theirs.linear1, ours.feedforward.up),
        (theirs.linear2, ours.feedforward.down),
        (theirs.self_attn.out_proj, ours.attention.out),
        (theirs.norm1, ours.attention_norm),
    ]
    if ours.cross is not None:
        weights, biases = (torch.cat([getattr(part, name) for part in (ours.cross.query, ours.cross.kv)]) for name in PARTS)
        pairs += [
            (theirs.multihead_attn.in_proj_weight, weights),
            (theirs.multihead_attn.in_proj_bias, biases),
            (theirs.multihead_attn.out_proj, ours.cross.out),
            (theirs.norm2, ours.cross_norm),
            (theirs.norm3, ours.feedforward_norm),
        ]
    else:
        pairs.append((theirs.norm2, ours.feedforward_norm))
    generator = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for there, here in pairs:
            if isinstance(here, Tensor):
                there.copy_(here)
            else:
                for name in PARTS:  # a norm of ones and a bias of zeros would hide a mistake
                    value = getattr(here, name)
                    value.add_(0.1 * torch.randn(value.shape, generator=generator, dtype=value.dtype))
                    getattr(there, name).copy_(value)


PARTS = ("weight", "bias")


@pytest.mark.parametrize(("kind", "form"), half(itertools.starmap(pytest.param, ALL)))
class TestSeams:
    def test_step_by_step_is_all_at_once(self, kind: str, form: str) -> None:
        model = model_of(kind, form)
        source_BS, length_B, token_BT = random_pairs(SOURCE_V, TARGET_V, 6, 3)
        state = model.start(model.encode(source_BS, length_B))
        stepped = []
        for token_B in token_BT.unbind(1):
            logits_B1V, state = model.step(token_B[:, None], state)
            stepped.append(logits_B1V[:, 0])
        torch.testing.assert_close(torch.stack(stepped, 1), model(source_BS, length_B, token_BT))

    def test_neither_padding_nor_company_changes_a_logit(self, kind: str, form: str) -> None:
        model = model_of(kind, form)
        source_BS, length_B, token_BT = random_pairs(SOURCE_V, TARGET_V, 6, 3, 5)
        together = model(source_BS, length_B, token_BT)
        for b, length in enumerate(length_B.tolist()):
            alone = model(source_BS[b : b + 1, :length], length_B[b : b + 1], token_BT[b : b + 1])
            torch.testing.assert_close(together[b : b + 1], alone)

    def test_rows_of_a_state_can_be_taken_in_any_order(self, kind: str, form: str) -> None:
        model = model_of(kind, form)
        source_BS, length_B, token_BT = random_pairs(SOURCE_V, TARGET_V, 6, 3, 5)
        rows = torch.tensor([2, 0, 0])
        _, state = model.step(token_BT[:, :2], model.start(model.encode(source_BS, length_B)))
        selected, _ = model.step(token_BT[rows, 2:], state.select(rows))
        torch.testing.assert_close(selected, model(source_BS, length_B, token_BT)[rows, 2:])

    def test_every_weight_gets_a_gradient(self, kind: str, form: str) -> None:
        model = model_of(kind, form)
        model(*random_pairs(SOURCE_V, TARGET_V, 6, 3)).square().sum().backward()
        silent = [name for name, weight in model.named_parameters() if weight.grad is None or not weight.grad.any()]
        assert not silent


@pytest.mark.parametrize(
    ("kind", "form"),
    half(
        itertools.starmap(
            pytest.param,
            [
                ("gru", "search"),
                ("lstm", "bilinear"),
                ("gru", "luong"),
                ("lstm", "luong, fed"),
                *(("transformer", f) for f in TRANSFORMERS),
            ],
        )
    ),
)
@pytest.mark.parametrize(
    "choices",
    [
        pytest.param([[0, 0, 1, 1, 2, 2], [1, 0, 2, 3, 4, 4]], id="hypotheses change places within their texts"),
        pytest.param([[0, 0, 1, 1, 2, 2], [0, 1, 5, 4], [2, 3]], id="texts leave"),
        pytest.param([[0, 0, 1, 1, 2, 2], [4, 4, 0]], id="unequal shares"),
        pytest.param([[2, 0, 1], [0, 0, 0, 2, 2, 2], [3, 1]], id="other orders"),
        pytest.param([[0, 0, 0, 0], [3, 1]], id="one text, twice as often as its neighbours would have it"),
    ],
)
def test_rows_that_share_a_source_see_what_rows_with_one_each_see(kind: str, form: str, choices: list[list[int]]) -> None:
    model, (source_BS, length_B, token_BT) = model_of(kind, form), random_pairs(SOURCE_V, TARGET_V, 6, 3, 4)
    text_R, state = torch.arange(3), model.start(model.encode(source_BS, length_B))
    for n, rows in enumerate(choices):
        _, state = model.step(token_BT[text_R, n : n + 1], state)
        text_R, state = text_R[rows], state.select(torch.tensor(rows))
    logits_RTV, _ = model.step(token_BT[text_R, len(choices) :], state)
    torch.testing.assert_close(logits_RTV, model(source_BS[text_R], length_B[text_R], token_BT[text_R])[:, len(choices) :])


@pytest.mark.parametrize(("kind", "form"), [("gru", "search"), ("transformer", "2017")])
def test_a_beam_copies_no_source_before_a_text_is_done(kind: str, form: str) -> None:
    model, (source_BS, length_B, _) = model_of(kind, form), random_pairs(SOURCE_V, TARGET_V, 6, 3, 4)
    state = model.start(model.encode(source_BS, length_B))
    begun = state.select(torch.tensor([0, 0, 1, 1, 2, 2]))
    assert looked_at(begun) is looked_at(state)
    moved = begun.select(torch.tensor([1, 0, 2, 2, 5, 4]))
    assert looked_at(moved) is looked_at(state)
    assert looked_at(moved.select(torch.tensor([0, 0, 5, 4]))).tolist() == [6, 4]


def looked_at(state: Any) -> Tensor:
    """The lengths of the sources that a state holds."""
    source = state.memory if hasattr(state, "memory") else state.sources[0]
    length_B: Tensor = source.length_B
    return length_B


@pytest.mark.parametrize("make", [recurrent, transformer])
def test_one_embedding_may_serve_both_sides(make: Any) -> None:
    model = make(shared=True)
    assert model.source_embedding is model.embedding


def test_reversed_rows_keep_their_padding_behind() -> None:
    given = torch.tensor([[1, 2, 3, 0], [4, 5, 6, 7], [8, 0, 0, 0]])
    assert reversed_rows(given, torch.tensor([3, 4, 1])).tolist() == [[3, 2, 1, 0], [7, 6, 5, 4], [8, 0, 0, 0]]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"reverse": True}, 'model.reverse only applies without attention, and model.attention is "additive"'),
        ({"feed_context": True}, "remove model.feed_context"),
        ({"attention": "dot"}, 'choose "additive" or "bilinear", or set model.bidirectional = false'),
        ({"attention": "none", "bidirectional": True}, "remove model.bidirectional"),
        ({"kind": "lstm", "reset": "after"}, "model.reset only applies to the GRU"),
        ({"decoder": "luong", "attention": "none"}, 'model.decoder = "luong" needs attention'),
        ({"input_feeding": True}, 'model.input_feeding only applies to model.decoder = "luong"'),
        ({"width": 0}, "model.width is 0; expected at least 1"),
        ({"dropout": 1.0}, "model.dropout"),
    ],
)
def test_what_makes_no_sense_is_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message.replace("(", r"\(")):
        RecurrentSeq2SeqConfig(**({"kind": "gru"} | settings))


def test_only_the_published_gru_resets_before() -> None:
    resets = [RecurrentSeq2SeqConfig(kind="gru", attention=name).decoder_reset for name in ("additive", "none")]  # type: ignore[arg-type]
    assert resets == ["before", "after"]
    assert RecurrentSeq2SeqConfig(kind="gru", decoder="luong").decoder_reset == "after"


@pytest.mark.parametrize("decoder", ["lstm", "gru", "transformer"])
def test_any_encoder_goes_with_any_decoder(decoder: Any) -> None:
    """An encoder of the other kind: the decoder computes the same in steps as at once, and nothing behind a source counts."""
    vectors = nn.Embedding(SOURCE_V, 8)
    stack = TransformerSeq2SeqConfig(kind="transformer", width=8, depth=2, context=16, attention={"heads": 2})  # type: ignore[arg-type]
    model: ConditionalDecoder
    if decoder == "transformer":
        of_text = RecurrentSeq2SeqConfig(kind="lstm", width=4, embedding=8)  # type: ignore[arg-type]
        model = TransformerDecoder(stack, RecurrentText(of_text), TARGET_V, vectors)
    else:
        config = RecurrentSeq2SeqConfig(kind=decoder, width=6, embedding=8, depth=2)  # type: ignore[arg-type]
        model = RecurrentDecoder(config, TransformerText(stack, 2), TARGET_V, vectors)
    drawn(model)
    source_BS, length_B, token_BT = random_pairs(SOURCE_V, TARGET_V, 6, 3)
    whole_BTV = model(source_BS, length_B, token_BT)
    state, steps = model.start(model.encode(source_BS, length_B)), []
    for t in range(token_BT.shape[1]):
        logits_B1V, state = model.step(token_BT[:, t : t + 1], state)
        steps.append(logits_B1V)
    torch.testing.assert_close(torch.cat(steps, 1), whole_BTV, rtol=1e-10, atol=1e-12)
    assert min(length_B) < source_BS.shape[1]
    behind_BS = torch.arange(source_BS.shape[1]) >= length_B[:, None]
    torch.testing.assert_close(model(source_BS.where(~behind_BS, 1), length_B, token_BT), whole_BTV, rtol=1e-10, atol=1e-12)
    whole_BTV.square().sum().backward()
    assert all(p.grad is not None for name, p in model.named_parameters() if "own" not in name)
