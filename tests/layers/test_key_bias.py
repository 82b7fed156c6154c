"""Attention whose keys have no biases computes what keys with biases of zero do, on every path, also to a source."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from firth.config import build
from firth.errors import ConfigError
from firth.models import TransformerConfig, TransformerSeq2SeqConfig, language_model, seq2seq
from firth.models.counting import count
from firth.models.initialise import initialise

VOCAB = 20
TOKEN_BT = torch.arange(12).view(2, 6)
BASE: dict[str, Any] = {"kind": "transformer", "width": 32, "depth": 2, "context": 12, "bias": True}


def table(biased: bool, **settings: Any) -> dict[str, Any]:
    return BASE | {"attention": {"heads": 2, "kv_heads": 1, "key_bias": biased}} | settings


def drawn(network: Any) -> Any:
    initialise(network, torch.Generator().manual_seed(0))
    return network.eval()


def fill(network: nn.Module) -> None:
    """Biases of their own; they start at zero."""
    for name, parameter in network.named_parameters():
        if "bias" in name:
            parameter.data.normal_(generator=torch.Generator().manual_seed(len(name)))


def with_zeros(weights: dict[str, Tensor], keys: int) -> dict[str, Tensor]:
    """The same weights by the names of a model whose keys have biases."""
    full = {}
    for name, tensor in weights.items():
        if name.endswith(".query_value_bias"):
            zeros = tensor.new_zeros(keys)
            full[name.replace("query_value_bias", "qkv.bias")] = torch.cat((tensor[:-keys], zeros, tensor[-keys:]))
        elif name.endswith(".value_bias"):
            full[name.replace("value_bias", "kv.bias")] = torch.cat((tensor.new_zeros(keys), tensor))
        else:
            full[name] = tensor
    return full


@pytest.mark.parametrize("bias", [True, "qkv"])
@torch.inference_mode()
def test_a_language_model_computes_the_same_with_biases_of_zero(bias: bool | str) -> None:
    own, plain = (drawn(language_model(build(TransformerConfig, table(biased, bias=bias)), VOCAB)) for biased in (False, True))
    assert not own.get_parameter("blocks.0.attention.query_value_bias").any()
    without_BTV = own(TOKEN_BT)[0]
    fill(own)
    plain.load_state_dict(with_zeros(own.state_dict(), keys=16))
    expected = plain(TOKEN_BT)[0]
    assert not torch.allclose(expected, without_BTV)
    torch.testing.assert_close(own(TOKEN_BT)[0], expected)
    state = own.start(2)
    for t in range(6):  # token by token, as texts are generated
        logits_B1V, state = own.step(TOKEN_BT[:, t : t + 1], state)
        torch.testing.assert_close(logits_B1V[:, 0], expected[:, t])
    assert count(plain).parameters - count(own).parameters == 2 * 16
    with torch.autocast("cpu", torch.bfloat16):
        assert own(TOKEN_BT)[0].isfinite().all()


@torch.inference_mode()
def test_a_translator_computes_the_same_with_biases_of_zero() -> None:
    own, plain = (
        drawn(seq2seq(build(TransformerSeq2SeqConfig, table(biased) | {"family": "seq2seq"}), VOCAB, VOCAB))
        for biased in (False, True)
    )
    fill(own)
    plain.load_state_dict(with_zeros(own.state_dict(), keys=16))
    length_B = torch.tensor([6, 4])
    torch.testing.assert_close(own(TOKEN_BT, length_B, TOKEN_BT), plain(TOKEN_BT, length_B, TOKEN_BT))


def test_without_any_biases_and_in_linear_attention_the_setting_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"model\.attention\.key_bias = false removes the bias of the keys"):
        build(TransformerConfig, table(False, bias=False))
    given = build(TransformerConfig, table(False, attention={"heads": 2, "key_bias": False}, position="none"))
    with pytest.raises(ConfigError, match=r"model\.attention\.key_bias = false only applies to"):
        replace(given, attention=replace(given.attention, kind="linear"))
