"""Recurrent sequence to sequence: RNNsearch against a float64 loop, and what decoding relies on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from firth.errors import ConfigError
from firth.layers.recurrent import Recurrent
from firth.models.initialise import initialise
from firth.models.seq2seq import RecurrentSeq2Seq, reversed_rows
from firth.models.seq2seq_config import RecurrentSeq2SeqConfig
from firth.oracles import rnnsearch

SOURCE_V, TARGET_V = 11, 9
KINDS = ("rnn", "lstm", "gru")
FORMS: dict[str, dict[str, Any]] = {
    "fixed": {"attention": "none"},
    "fed": {"attention": "none", "feed": True, "reverse": True},
    "search": {},
    "tied": {"tied": True},
    "bilinear": {"attention": "bilinear"},
    "dot": {"attention": "dot", "bidirectional": False},
    "gaussian": {"attention": "gaussian", "bidirectional": False},
}


def model_of(kind: str = "gru", **settings: Any) -> RecurrentSeq2Seq:
    config = RecurrentSeq2SeqConfig(kind=kind, **({"width": 6, "embedding": 5, "depth": 1} | settings))  # type: ignore[arg-type]
    model = RecurrentSeq2Seq(config, SOURCE_V, TARGET_V)
    initialise(model, torch.Generator().manual_seed(0))  # type: ignore[arg-type]
    return model.double().eval()


def texts(*lengths: int) -> tuple[Tensor, Tensor, Tensor]:
    """Sources of these lengths, padded, and targets of five tokens."""
    generator = torch.Generator().manual_seed(1)
    source_BS = torch.randint(1, SOURCE_V, (len(lengths), max(lengths)), generator=generator)
    length_B = torch.tensor(lengths)
    source_BS[torch.arange(max(lengths)) >= length_B[:, None]] = 0
    return source_BS, length_B, torch.randint(0, TARGET_V, (len(lengths), 5), generator=generator)


def array(tensor: Tensor) -> rnnsearch.Array:
    return np.asarray(tensor.detach().numpy(), np.float64)


def oracle_of(model: RecurrentSeq2Seq) -> rnnsearch.Decoder:
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
    return rnnsearch.Decoder(array(model.attentive.attend.w_HA[0]), array(query.weight), array(key.weight), *sums, output)  # type: ignore[arg-type]


def test_rnnsearch_is_the_published_decoder() -> None:
    model = model_of()
    source_BS, length_B, token_BT = texts(7, 4, 1)
    encoded = model.encode(source_BS, length_B)
    logits_BTV = model(source_BS, length_B, token_BT)
    alignment_BTS = model.alignment(source_BS, length_B, token_BT)
    for b, length in enumerate(length_B.tolist()):
        embedded_Te = array(model.embedding(token_BT[b]))
        trace = rnnsearch.decode(
            embedded_Te, array(encoded.memory_BSm[b, :length]), array(encoded.first.h_LBd[0, b]), oracle_of(model)
        )
        np.testing.assert_allclose(array(logits_BTV[b].softmax(-1)), trace.probability_TV, rtol=1e-9)
        np.testing.assert_allclose(array(alignment_BTS[b, :, :length]), trace.alignment_TS, rtol=1e-9)
        assert not alignment_BTS[b, :, length:].any()


def test_the_decoder_starts_from_the_backward_state_at_the_first_source_token() -> None:
    model = model_of()
    source_BS, length_B, _ = texts(6, 3)
    encoded = model.encode(source_BS, length_B)
    back_Bd = encoded.memory_BSm[:, 0, model.config.width :]
    assert model.first is not None
    torch.testing.assert_close(encoded.first.h_LBd[0], torch.tanh(model.first(back_Bd)))


@pytest.mark.parametrize("kind", KINDS)
def test_without_attention_the_decoder_is_a_language_model_that_starts_from_the_encoders_last_state(kind: str) -> None:
    model = model_of(kind, attention="none", depth=2)
    source_BS, length_B, token_BT = texts(6, 3)
    assert isinstance(model.recurrent, Recurrent)
    for b, length in enumerate(length_B.tolist()):
        _, last = model.encoder(model.source_embedding(source_BS[b : b + 1, :length]))
        h_1Td, _ = model.recurrent(model.embedding(token_BT[b : b + 1]), last)
        torch.testing.assert_close(model(source_BS, length_B, token_BT)[b], model.readout(h_1Td)[0])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form", FORMS)
class TestSeams:
    def test_step_by_step_is_all_at_once(self, kind: str, form: str) -> None:
        model = model_of(kind, depth=2, **FORMS[form])
        source_BS, length_B, token_BT = texts(6, 3)
        state = model.start(model.encode(source_BS, length_B))
        stepped = []
        for token_B in token_BT.unbind(1):
            logits_B1V, state = model.step(token_B[:, None], state)
            stepped.append(logits_B1V[:, 0])
        torch.testing.assert_close(torch.stack(stepped, 1), model(source_BS, length_B, token_BT))

    def test_neither_padding_nor_company_changes_a_logit(self, kind: str, form: str) -> None:
        model = model_of(kind, depth=2, **FORMS[form])
        source_BS, length_B, token_BT = texts(6, 3, 5)
        together = model(source_BS, length_B, token_BT)
        for b, length in enumerate(length_B.tolist()):
            alone = model(source_BS[b : b + 1, :length], length_B[b : b + 1], token_BT[b : b + 1])
            torch.testing.assert_close(together[b : b + 1], alone)

    def test_rows_of_a_state_can_be_taken_in_any_order(self, kind: str, form: str) -> None:
        model = model_of(kind, depth=2, **FORMS[form])
        source_BS, length_B, token_BT = texts(6, 3, 5)
        rows = torch.tensor([2, 0, 0])
        _, state = model.step(token_BT[:, :2], model.start(model.encode(source_BS, length_B)))
        selected, _ = model.step(token_BT[rows, 2:], state.select(rows))
        torch.testing.assert_close(selected, model(source_BS, length_B, token_BT)[rows, 2:])

    def test_every_weight_gets_a_gradient(self, kind: str, form: str) -> None:
        model = model_of(kind, depth=2, **FORMS[form])
        model(*texts(6, 3)).square().sum().backward()
        silent = [name for name, weight in model.named_parameters() if weight.grad is None or not weight.grad.any()]
        assert not silent


def test_one_embedding_for_both_sides() -> None:
    model = RecurrentSeq2Seq(RecurrentSeq2SeqConfig(kind="gru", width=4, shared=True), TARGET_V, TARGET_V)
    assert model.source_embedding is model.embedding


def test_reversed_rows_keep_their_padding_behind() -> None:
    given = torch.tensor([[1, 2, 3, 0], [4, 5, 6, 7], [8, 0, 0, 0]])
    assert reversed_rows(given, torch.tensor([3, 4, 1])).tolist() == [[3, 2, 1, 0], [7, 6, 5, 4], [8, 0, 0, 0]]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"reverse": True}, 'model.reverse is for a decoder that is given a fixed vector, and model.attention is "additive"'),
        ({"feed": True}, "leave model.feed out"),
        ({"attention": "dot"}, 'choose "additive" or "bilinear", or model.bidirectional = false'),
        ({"attention": "none", "bidirectional": True}, "leave model.bidirectional out"),
        ({"kind": "lstm", "reset": "after"}, "model.reset is of the GRU"),
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
