"""The settings that published families need: with the weights of a tiny random Hugging Face model, every layer and the logits are
its own, in one pass and token by token. Here stand the tables of names; a table also says what is permuted on the way."""

from __future__ import annotations

import os
from typing import Any

import pytest
import torch
from torch import Tensor

from firth.layers.position import partial_order
from firth.layers.tap import outputs
from firth.models import TransformerConfig, TransformerLM, language_model

os.environ.setdefault("HF_HUB_OFFLINE", "1")
transformers = pytest.importorskip("transformers", reason="the oracle is Hugging Face's; pip install firth[bench]")

VOCAB, T, DEPTH = 17, 12, 3
TOLERANCE = 1e-4  # of the largest number, in float32: their rotary angles and some of their norms are float32 in any case
SHAPE = {"hidden_size": 24, "num_hidden_layers": DEPTH, "num_attention_heads": 4, "vocab_size": VOCAB}
OURS: dict[str, Any] = {"kind": "transformer", "width": 24, "depth": DEPTH, "heads": 4, "context": 16}
Weights = dict[str, Tensor]


def randomised(theirs: Any) -> Any:
    """Norms and biases, too, which would otherwise be ones and zeros."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.normal_(0.1, 0.3, generator=generator)
    return theirs.eval()


def tokens() -> Tensor:
    return torch.randint(VOCAB, (2, T), generator=torch.Generator().manual_seed(1))


def renamed(theirs: Weights, names: dict[str, str], prefix: str, block: str, blocks: dict[str, str]) -> Weights:
    """Weights under our names: `names` once, `blocks` in every block, which they call `prefix`.`n`; `names` and `blocks` are from
    ours to theirs, without ".weight" and ".bias"."""
    pairs = dict(names)
    for n in range(DEPTH):
        pairs |= {f"{block}.{n}.{mine}": f"{prefix}.{n}.{other}" for mine, other in blocks.items()}
    return {
        f"{mine}.{kind}": theirs[f"{other}.{kind}"]
        for mine, other in pairs.items()
        for kind in ("weight", "bias")
        if f"{other}.{kind}" in theirs
    }


def joined(theirs: Weights, ours: str, *parts: str) -> Weights:
    """Matrices or biases that we keep as one, such as those of q, k and v; `ours` and `parts` have {} for the layer."""
    found: Weights = {}
    for n in range(DEPTH):
        for kind in ("weight", "bias"):
            if f"{parts[0].format(n)}.{kind}" in theirs:
                found[f"{ours.format(n)}.{kind}"] = torch.cat([theirs[f"{part.format(n)}.{kind}"] for part in parts])
    return found


def close(mine: Tensor, exact: Tensor, what: str) -> None:
    assert mine.shape == exact.shape, what
    worst, largest = (mine - exact).abs().max().item(), exact.abs().max().item()
    assert worst <= TOLERANCE * largest, f"{what} is off by {worst:.1e}, the largest number is {largest:.1e}"


def check_language(theirs: Any, weights: Weights, **settings: Any) -> TransformerLM:
    """Our model with these settings and weights, compared with theirs."""
    ours = language_model(TransformerConfig(**(OURS | settings)), VOCAB)
    assert isinstance(ours, TransformerLM)
    ours.load_state_dict(weights)
    ours.eval()
    with torch.no_grad():
        exact = theirs(tokens(), output_hidden_states=True)
        with outputs(list(ours.blocks)) as layers:
            logits_BTV, _ = ours(tokens())
        *between, _ = layers
        for n, (mine, truth) in enumerate(zip(between, exact.hidden_states[1:], strict=False)):
            close(mine, truth, f"layer {n}")
        close(ours.hidden(tokens())[0], exact.hidden_states[-1], "the last layer")
        close(logits_BTV, exact.logits, "logits")
        check_cached(ours, logits_BTV)
    return ours


def check_cached(ours: TransformerLM, logits_BTV: Tensor) -> None:
    """A prompt of five tokens, then one at a time: the same as all at once."""
    state, found = ours.start(len(tokens())), []
    for part_BT in tokens().split((5, *[1] * (T - 5)), dim=1):
        logits, state = ours.step(part_BT, state)
        found.append(logits)
    close(torch.cat(found, dim=1), logits_BTV, "cached decoding")


def llama_weights(theirs: Any, tied: bool, more: dict[str, str] | None = None) -> Weights:
    """The names that LLaMA, Mistral, Qwen and Gemma share."""
    given = theirs.state_dict()
    blocks = {
        "attention.out": "self_attn.o_proj",
        "attention_norm": "input_layernorm",
        "feedforward_norm": "post_attention_layernorm",
        "feedforward.down": "mlp.down_proj",
    } | (more or {})
    weights = renamed(given, {"embedding": "model.embed_tokens", "norm": "model.norm"}, "model.layers", "blocks", blocks)
    attention = "model.layers.{}.self_attn."
    weights |= joined(given, "blocks.{}.attention.qkv", *(f"{attention}{part}_proj" for part in "qkv"))
    weights |= joined(given, "blocks.{}.feedforward.up", "model.layers.{}.mlp.gate_proj", "model.layers.{}.mlp.up_proj")
    return weights if tied else weights | {"output.weight": given["lm_head.weight"]}


def gain_plus_one(weights: Weights) -> Weights:
    """Gemma stores γ − 1."""
    return {name: weight + 1 if "norm" in name else weight for name, weight in weights.items()}


@pytest.mark.parametrize("activation", ["gelu_new", "gelu", "relu", "silu"])
def test_gpt2_with_its_approximate_gelu_and_others(activation: str) -> None:
    config = transformers.GPT2Config(
        vocab_size=VOCAB,
        n_embd=24,
        n_layer=DEPTH,
        n_head=4,
        n_positions=16,
        layer_norm_epsilon=0.01,
        activation_function=activation,
    )
    theirs = randomised(transformers.GPT2LMHeadModel(config))
    names = {
        "attention.qkv": "attn.c_attn",
        "attention.out": "attn.c_proj",
        "feedforward.up": "mlp.c_fc",
        "feedforward.down": "mlp.c_proj",
    }
    norms = {"attention_norm": "ln_1", "feedforward_norm": "ln_2"}
    once = {"embedding": "transformer.wte", "norm": "transformer.ln_f"}
    given = theirs.state_dict()
    weights = renamed(given, once, "transformer.h", "blocks", names | norms)
    weights = {
        name: weight.T if name.endswith(tuple(f"{n}.weight" for n in names)) else weight for name, weight in weights.items()
    }
    weights["position.table_Td"] = given["transformer.wpe.weight"]
    ours = {"gelu_new": "gelu_tanh"}.get(activation, activation)
    check_language(theirs, weights, position="learned", norm="layer", norm_eps=0.01, activation=ours, bias=True)


def test_qwen2_with_biases_on_queries_keys_and_values_alone() -> None:
    config = transformers.Qwen2Config(
        **SHAPE,
        num_key_value_heads=2,
        intermediate_size=40,
        rms_norm_eps=0.01,
        tie_word_embeddings=False,
        max_position_embeddings=16,
    )
    theirs = randomised(transformers.Qwen2ForCausalLM(config))
    weights = llama_weights(theirs, tied=False)
    check_language(theirs, weights, kv_heads=2, hidden=40, norm_eps=0.01, bias="qkv", tied=False)


@pytest.mark.parametrize("head_dim", [6, 8])
def test_qwen3_with_normalised_queries_and_keys_and_heads_of_their_own_width(head_dim: int) -> None:
    config = transformers.Qwen3Config(
        **SHAPE,
        num_key_value_heads=2,
        head_dim=head_dim,
        intermediate_size=40,
        rms_norm_eps=0.01,
        tie_word_embeddings=True,
        max_position_embeddings=16,
    )
    theirs = randomised(transformers.Qwen3ForCausalLM(config))
    norms = {"attention.query_norm": "self_attn.q_norm", "attention.key_norm": "self_attn.k_norm"}
    weights = llama_weights(theirs, tied=True, more=norms)
    ours = check_language(theirs, weights, kv_heads=2, head_width=head_dim, hidden=40, norm_eps=0.01, qk_norm=True)
    check_gradient(ours, theirs)


def check_gradient(ours: TransformerLM, theirs: Any) -> None:
    """That of the embedding has passed through every layer."""
    mine = torch.autograd.grad(ours(tokens())[0].square().mean(), ours.embedding.weight)[0]
    exact = torch.autograd.grad(theirs(tokens()).logits.square().mean(), theirs.get_input_embeddings().weight)[0]
    close(mine, exact, "the gradient of the embedding")


@pytest.mark.parametrize(("parallel", "fraction", "base"), [(True, 0.25, 10_000.0), (False, 0.5, 500.0)])
def test_gpt_neox_with_partial_rotary_positions_and_parallel_residuals(parallel: bool, fraction: float, base: float) -> None:
    """Its q, k and v alternate by head, and the numbers that it turns stand first; its output layer has no bias."""
    width, heads, D = 32, 2, 16
    config = transformers.GPTNeoXConfig(
        vocab_size=VOCAB,
        hidden_size=width,
        num_hidden_layers=DEPTH,
        num_attention_heads=heads,
        intermediate_size=40,
        max_position_embeddings=16,
        layer_norm_eps=0.01,
        use_parallel_residual=parallel,
        rope_parameters={"rope_type": "default", "rope_theta": base, "partial_rotary_factor": fraction},
    )
    theirs = randomised(transformers.GPTNeoXForCausalLM(config))
    given = theirs.state_dict()
    blocks = {
        "attention.out": "attention.dense",
        "attention_norm": "input_layernorm",
        "feedforward_norm": "post_attention_layernorm",
        "feedforward.up": "mlp.dense_h_to_4h",
        "feedforward.down": "mlp.dense_4h_to_h",
    }
    once = {"embedding": "gpt_neox.embed_in", "norm": "gpt_neox.final_layer_norm", "output": "lm_head"}
    weights = renamed(given, once, "gpt_neox.layers", "blocks", blocks)
    order = partial_order(D, int(fraction * D))
    for n in range(DEPTH):
        for kind in ("weight", "bias"):
            q, k, v = given[f"gpt_neox.layers.{n}.attention.query_key_value.{kind}"].unflatten(0, (heads, 3, D)).unbind(1)
            parts = (q[:, order], k[:, order], v)
            weights[f"blocks.{n}.attention.qkv.{kind}"] = torch.cat([part.flatten(0, 1) for part in parts])
    ours = check_language(
        theirs,
        weights,
        width=width,
        heads=heads,
        hidden=40,
        rotary_fraction=fraction,
        position_base=base,
        norm="layer",
        norm_eps=0.01,
        parallel_block="two_norms" if parallel else False,
        activation="gelu",
        bias=True,
        tied=False,
        output_bias=False,
    )
    check_gradient(ours, theirs)
