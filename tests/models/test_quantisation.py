"""Quantised models against the same models with the dequantised weights in floating point."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from shares import half
from small_models import CONFIGS, random_model, randomise
from torch import Tensor, nn

from firth.errors import ConfigError
from firth.layers.quantised import Quantisation, QuantisedLinear
from firth.models import (
    ConditionalDecoder,
    LanguageModel,
    RecurrentConfig,
    TransformerConfig,
    language_model,
    seq2seq,
)
from firth.models.encoder import encoder
from firth.models.encoder_config import RecurrentEncoderConfig
from firth.models.quantisation import held_bytes, quantise
from firth.models.seq2seq_config import RecurrentSeq2SeqConfig, TransformerSeq2SeqConfig

VOCAB = 11
KINDS: tuple[Quantisation, ...] = ("int8", "int4")
REFUSED = {"gru, reset before": "a GRU with reset"}
MODELS = [name for name in CONFIGS if name not in REFUSED]


def pair(model: LanguageModel, kind: Quantisation) -> tuple[LanguageModel, LanguageModel]:
    """The quantised model, and one with its weights in floating point."""
    quantised = copy.deepcopy(model)
    quantise(quantised, kind)
    for path, layer in _layers(quantised):
        W_nd = layer.dequantised(torch.float32)
        if path == "quantised_output":
            model.output_layer = lambda W_nd=W_nd, b=layer.bias: (W_nd, b)  # type: ignore[method-assign, misc]
        elif ".quantised_weights." in path:  # of a cell: recurrent.layers.0.quantised_weights.0.input
            cell, _, place = path.partition(".quantised_weights.")
            direction, which = place.split(".")
            name = ("weight_ih" if which == "input" else "weight_hh") + ("_l0" if direction == "0" else "_l0_reverse")
            model.get_submodule(cell).get_parameter(name).data.copy_(W_nd)
        else:
            model.get_submodule(path).get_parameter("weight").data.copy_(W_nd)
    return quantised, model


def _layers(model: nn.Module) -> Iterator[tuple[str, QuantisedLinear]]:
    return ((path, layer) for path, layer in model.named_modules() if isinstance(layer, QuantisedLinear))


@torch.inference_mode()
def logits(model: LanguageModel, token_BT: Tensor) -> Tensor:
    """A prompt of four tokens, then one by one."""
    state: Any = model.start(len(token_BT))
    pieces = []
    for piece_BT in (token_BT[:, :4], *token_BT[:, 4:].split(1, dim=1)):
        logits_BTV, state = model.step(piece_BT, state)
        pieces.append(logits_BTV)
    return torch.cat(pieces, dim=1)


def tokens() -> Tensor:
    return torch.randint(0, VOCAB, (3, 9), generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", half(MODELS))
def test_logits_are_those_of_the_dequantised_weights(name: str, kind: Quantisation) -> None:
    quantised, plain = pair(random_model(name, VOCAB, torch.float32), kind)
    before, after = logits(plain, tokens()), logits(quantised, tokens())
    assert torch.allclose(before, after, rtol=0, atol=0.02 * float(before.abs().max()))


@pytest.mark.parametrize("tied", [True, False])
def test_torchs_int4_kernel_gives_the_same_logits(tied: bool) -> None:
    config = TransformerConfig(kind="transformer", width=64, depth=2, heads=2, context=12, tied=tied, hidden=192)
    model = language_model(config, VOCAB)
    randomise(model, std=0.1)
    quantised, plain = pair(model.eval(), "int4")
    assert all(getattr(layer, "ordered", False) for path, layer in _layers(quantised) if "output" not in path)
    before, after = logits(plain, tokens()), logits(quantised, tokens())
    assert torch.allclose(before, after, rtol=0, atol=0.02 * float(before.abs().max()))


@torch.inference_mode()
@pytest.mark.parametrize("tied", [True, False])
def test_the_output_layer_is_quantised(tied: bool) -> None:
    config = TransformerConfig(kind="transformer", width=32, depth=1, heads=2, context=12, tied=tied)
    model = language_model(config, VOCAB).eval()
    x_BTd = torch.randn(2, 3, 32, generator=torch.Generator().manual_seed(0))
    before_BTV = model.readout(x_BTd)
    quantise(model, "int4")
    after_BTV = model.readout(x_BTd)
    assert torch.equal(after_BTV, model.get_submodule("quantised_output")(x_BTd))
    assert 0 < (after_BTV - before_BTV).abs().max() < 0.02 * before_BTV.abs().max()


def test_every_matrix_of_the_layers_is_quantised_and_counted() -> None:
    model = random_model("transformer, rotary", VOCAB, torch.float32)
    before = held_bytes(model)
    done = quantise(model, "int8")
    assert done.matrices == 2 * 4 + 1
    assert (done.bytes_before, done.bytes) == (before, held_bytes(model))
    left = [name for name, parameter in model.named_parameters() if parameter.dim() > 1]
    assert left == ["embedding.weight"]
    assert str(done) == f"int8: 9 matrices quantised; {done.bytes / 1024:.3g} KiB of weights, {done.bytes / before:.0%} of before"


@pytest.mark.parametrize(("tied", "matrices"), [(True, 5), (False, 5)])
def test_the_matrices_of_recurrent_layers_are_quantised(tied: bool, matrices: int) -> None:
    model = language_model(RecurrentConfig(kind="lstm", width=32, depth=2, tied=tied), VOCAB).eval()
    before = held_bytes(model)
    done = quantise(model, "int8")
    assert done.matrices == matrices
    assert not [name for name, _ in model.named_parameters() if "weight_" in name]
    assert done.bytes < 0.45 * before


def test_what_cannot_be_quantised_is_refused_with_the_reason() -> None:
    for name, reason in REFUSED.items():
        with pytest.raises(ConfigError, match=reason):
            quantise(random_model(name, VOCAB), "int8")
    model = random_model("transformer, rotary", VOCAB, torch.float32)
    with pytest.raises(ConfigError, match='quantise is "int3"; choose int8 or int4'):
        quantise(model, "int3")  # type: ignore[arg-type]
    quantise(model, "int4")
    with pytest.raises(ConfigError, match="cannot be quantised: it is quantised already"):
        quantise(model, "int8")


def test_a_quantised_model_has_no_gradients() -> None:
    model = random_model("transformer, rotary", VOCAB, torch.float32)
    quantise(model, "int8")
    assert not [name for name, parameter in model.named_parameters() if parameter.requires_grad]
    logits_BTV, _ = model(tokens())  # outside of inference mode, too
    assert not logits_BTV.requires_grad


@torch.inference_mode()
def test_translators_are_quantised_with_their_encoders() -> None:
    transformer = TransformerSeq2SeqConfig(kind="transformer", width=32, depth=2, heads=2, context=12)
    recurrent = RecurrentSeq2SeqConfig(kind="lstm", width=32, embedding=32, attention="none")
    source_BS, length_B = torch.tensor([[3, 4, 5, 6], [7, 8, 0, 0]]), torch.tensor([4, 2])
    models: tuple[tuple[ConditionalDecoder, int], ...] = (
        (seq2seq(transformer, VOCAB, VOCAB), 2 * 4 + 2 * 7 + 1),
        (seq2seq(recurrent, VOCAB, VOCAB), 2 + 2 + 1),
    )
    for model, matrices in models:
        randomise(model, std=0.2)
        before_BTV = model.eval()(source_BS, length_B, tokens()[:2])
        assert quantise(model, "int8").matrices == matrices
        after_BTV = model(source_BS, length_B, tokens()[:2])
        assert 0 < (after_BTV - before_BTV).abs().max() < 0.05 * before_BTV.abs().max()


@torch.inference_mode()
def test_both_directions_of_an_encoder_are_quantised() -> None:
    model = encoder(RecurrentEncoderConfig(kind="lstm", width=32, embedding=32), VOCAB)
    randomise(model, std=0.3)
    before_BTd = model.eval()(tokens(), torch.tensor([9, 4, 1]))
    assert quantise(model, "int8").matrices == 2 * 2
    after_BTd = model(tokens(), torch.tensor([9, 4, 1]))
    assert 0 < (after_BTd - before_BTd).abs().max() < 0.05 * before_BTd.abs().max()


def test_rnnsearch_is_refused() -> None:
    config = RecurrentSeq2SeqConfig(kind="lstm", width=8, embedding=8)
    with pytest.raises(ConfigError, match="attends before each step"):
        quantise(seq2seq(config, VOCAB, VOCAB), "int8")
