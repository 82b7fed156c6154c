"""Tiny random Hugging Face models as oracles: the same weights give the same logits. One file, because the import is slow."""

from __future__ import annotations

import os
from typing import Any

import pytest
import torch
from tolerance import assert_as_accurate, assert_equal
from torch import Tensor

from firth.models import TransformerConfig, TransformerLM, language_model

os.environ.setdefault("HF_HUB_OFFLINE", "1")
transformers = pytest.importorskip("transformers", reason="the oracle is Hugging Face's; pip install firth[bench]")

VOCAB, T = 17, 10


def made(**options: Any) -> TransformerLM:
    config = TransformerConfig(**({"kind": "transformer", "width": 24, "depth": 3, "heads": 4, "context": 16} | options))
    model = language_model(config, VOCAB)
    assert isinstance(model, TransformerLM)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0.1, 0.3, generator=generator)
    return model.eval()


def tokens() -> Tensor:
    return torch.randint(VOCAB, (2, T), generator=torch.Generator().manual_seed(1))


def llama(model: TransformerLM) -> Any:
    """LlamaForCausalLM with our weights; its rotary pairs are halves too, so nothing is permuted."""
    config = model.config
    theirs = transformers.LlamaForCausalLM(
        transformers.LlamaConfig(
            vocab_size=VOCAB,
            hidden_size=config.width,
            intermediate_size=config.inner,
            num_hidden_layers=config.depth,
            num_attention_heads=config.heads,
            num_key_value_heads=config.groups,
            max_position_embeddings=config.context,
            rms_norm_eps=1e-5,
            rope_parameters={"rope_type": "default", "rope_theta": config.base},
            tie_word_embeddings=config.tied,
        )
    )
    ours, D = model.state_dict(), config.width // config.heads
    weights = {"model.embed_tokens.weight": ours["embedding.weight"], "model.norm.weight": ours["norm.weight"]}
    weights["lm_head.weight"] = ours["embedding.weight" if config.tied else "output.weight"]
    for n in range(config.depth):
        q, k, v = ours[f"blocks.{n}.attention.qkv.weight"].split((config.heads * D, config.groups * D, config.groups * D))
        gate, up = ours[f"blocks.{n}.feedforward.up.weight"].chunk(2)
        weights |= {
            f"model.layers.{n}.self_attn.q_proj.weight": q,
            f"model.layers.{n}.self_attn.k_proj.weight": k,
            f"model.layers.{n}.self_attn.v_proj.weight": v,
            f"model.layers.{n}.self_attn.o_proj.weight": ours[f"blocks.{n}.attention.out.weight"],
            f"model.layers.{n}.mlp.gate_proj.weight": gate,
            f"model.layers.{n}.mlp.up_proj.weight": up,
            f"model.layers.{n}.mlp.down_proj.weight": ours[f"blocks.{n}.feedforward.down.weight"],
            f"model.layers.{n}.input_layernorm.weight": ours[f"blocks.{n}.attention_norm.weight"],
            f"model.layers.{n}.post_attention_layernorm.weight": ours[f"blocks.{n}.feedforward_norm.weight"],
        }
    theirs.load_state_dict(weights)
    return theirs.eval()


def gpt2(model: TransformerLM) -> Any:
    """GPT2LMHeadModel with our weights; its Conv1D keeps matrices transposed."""
    config = model.config
    theirs = transformers.GPT2LMHeadModel(
        transformers.GPT2Config(
            vocab_size=VOCAB,
            n_embd=config.width,
            n_layer=config.depth,
            n_head=config.heads,
            n_positions=config.context,
            activation_function="gelu",
            layer_norm_epsilon=1e-5,
            bos_token_id=0,
            eos_token_id=0,
        )
    )
    ours = model.state_dict()
    weights = {
        "transformer.wte.weight": ours["embedding.weight"],
        "lm_head.weight": ours["embedding.weight"],
        "transformer.wpe.weight": ours["position.table_Td"],
        "transformer.ln_f.weight": ours["norm.weight"],
        "transformer.ln_f.bias": ours["norm.bias"],
    }
    for n in range(config.depth):
        for mine, other in (
            ("attention.qkv", "attn.c_attn"),
            ("attention.out", "attn.c_proj"),
            ("feedforward.up", "mlp.c_fc"),
            ("feedforward.down", "mlp.c_proj"),
            ("attention_norm", "ln_1"),
            ("feedforward_norm", "ln_2"),
        ):
            weight = ours[f"blocks.{n}.{mine}.weight"]
            weights[f"transformer.h.{n}.{other}.weight"] = weight.T if weight.ndim == 2 else weight
            weights[f"transformer.h.{n}.{other}.bias"] = ours[f"blocks.{n}.{mine}.bias"]
    theirs.load_state_dict(weights)
    return theirs.eval()


@pytest.mark.parametrize(("kv_heads", "tied", "base"), [(None, True, 10_000.0), (2, False, 10_000.0), (1, True, 500_000.0)])
def test_rotary_rms_swiglu_is_llama(kv_heads: int | None, tied: bool, base: float) -> None:
    """Llama's norm and rotary angles are float32 even in a float64 model, so it is held to float32."""
    ours = made(position="rotary", norm="rms", activation="swiglu", kv_heads=kv_heads, tied=tied, base=base)
    theirs = llama(ours)
    plain, truth = ours(tokens())[0], theirs(tokens()).logits
    plain_grad = torch.autograd.grad(plain.square().mean(), ours.embedding.weight)[0]
    truth_grad = torch.autograd.grad(truth.square().mean(), theirs.model.embed_tokens.weight)[0]
    ours = ours.double()
    exact = ours(tokens())[0]
    exact_grad = torch.autograd.grad(exact.square().mean(), ours.embedding.weight)[0]
    assert_as_accurate(truth, plain, exact)
    assert_as_accurate(truth_grad, plain_grad, exact_grad)


def test_learned_layer_norm_gelu_with_biases_is_gpt2() -> None:
    ours = made(position="learned", norm="layer", activation="gelu", bias=True, tied=True)
    theirs = gpt2(ours).double()
    ours = ours.double()
    found, truth = ours(tokens())[0], theirs(tokens()).logits
    assert_equal(found.detach(), truth.detach())
    mine = torch.autograd.grad(found.square().mean(), ours.embedding.weight)[0]
    exact = torch.autograd.grad(truth.square().mean(), theirs.transformer.wte.weight)[0]
    assert_equal(mine, exact)
