"""The settings that published families need: with the weights of a tiny random Hugging Face model, every layer and the logits are
its own, in one pass and token by token. Here stand the tables of names; a table also says what is permuted on the way."""

from __future__ import annotations

import os
from typing import Any

import pytest
import torch
from small_models import randomise
from torch import Tensor

from firth.layers.position import partial_order
from firth.layers.tap import outputs
from firth.models import (
    TransformerConfig,
    TransformerEncoderConfig,
    TransformerLM,
    TransformerSeq2SeqConfig,
    language_model,
    masked_lm,
    seq2seq,
)
from firth.models.encoder import TransformerEncoder
from firth.models.readouts import MaskedLM
from firth.tasks.next_token import next_token

os.environ.setdefault("HF_HUB_OFFLINE", "1")
transformers = pytest.importorskip("transformers", reason="the oracle is Hugging Face's; pip install firth[bench]")

VOCAB, T, DEPTH = 17, 12, 3
TOLERANCE = 1e-4  # of the largest number, in float32: their rotary angles and some of their norms are float32 in any case
SHAPE = {"hidden_size": 24, "num_hidden_layers": DEPTH, "num_attention_heads": 4, "vocab_size": VOCAB}
OURS: dict[str, Any] = {"kind": "transformer", "width": 24, "depth": DEPTH, "heads": 4, "context": 16}
Weights = dict[str, Tensor]


def randomised(theirs: Any) -> Any:
    """Norms and biases, too, which would otherwise be ones and zeros."""
    return randomise(theirs, mean=0.1, std=0.3).eval()


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
    weights: Weights = {}
    for n in range(DEPTH):
        for kind in ("weight", "bias"):
            if f"{parts[0].format(n)}.{kind}" in theirs:
                weights[f"{ours.format(n)}.{kind}"] = torch.cat([theirs[f"{part.format(n)}.{kind}"] for part in parts])
    return weights


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
    state, pieces = ours.start(len(tokens())), []
    for part_BT in tokens().split((5, *[1] * (T - 5)), dim=1):
        logits, state = ours.step(part_BT, state)
        pieces.append(logits)
    close(torch.cat(pieces, dim=1), logits_BTV, "cached decoding")


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
def test_gpt2_with_its_approximate_gelu_and_others_is_theirs(activation: str) -> None:
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


def test_qwen2_with_biases_on_queries_keys_and_values_alone_is_theirs() -> None:
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
def test_qwen3_with_normalised_queries_and_keys_and_heads_of_their_own_width_is_theirs(head_dim: int) -> None:
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
    theirs.get_input_embeddings().padding_idx = None  # some take token 0 for padding, which learns nothing
    mine = torch.autograd.grad(ours(tokens())[0].square().mean(), ours.embedding.weight)[0]
    exact = torch.autograd.grad(theirs(tokens()).logits.square().mean(), theirs.get_input_embeddings().weight)[0]
    close(mine, exact, "the gradient of the embedding")


@pytest.mark.parametrize(("parallel", "fraction", "base"), [(True, 0.25, 10_000.0), (False, 0.5, 500.0)])
def test_gpt_neox_with_partial_rotary_positions_and_parallel_residuals_is_theirs(
    parallel: bool, fraction: float, base: float
) -> None:
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


def test_bloom_with_a_norm_on_the_embedding_is_theirs() -> None:
    """Its q, k and v alternate by head."""
    config = transformers.BloomConfig(vocab_size=VOCAB, hidden_size=24, n_layer=DEPTH, n_head=4, layer_norm_epsilon=0.01)
    theirs = randomised(transformers.BloomForCausalLM(config))
    given = theirs.state_dict()
    blocks = {
        "attention.out": "self_attention.dense",
        "attention_norm": "input_layernorm",
        "feedforward_norm": "post_attention_layernorm",
        "feedforward.up": "mlp.dense_h_to_4h",
        "feedforward.down": "mlp.dense_4h_to_h",
    }
    once = {
        "embedding": "transformer.word_embeddings",
        "embedding_norm": "transformer.word_embeddings_layernorm",
        "norm": "transformer.ln_f",
    }
    weights = renamed(given, once, "transformer.h", "blocks", blocks)
    for n in range(DEPTH):
        for kind in ("weight", "bias"):
            qkv = given[f"transformer.h.{n}.self_attention.query_key_value.{kind}"].unflatten(0, (4, 3, 6))
            weights[f"blocks.{n}.attention.qkv.{kind}"] = qkv.transpose(0, 1).flatten(0, 2)
    settings = {"position": "alibi", "norm": "layer", "norm_eps": 0.01, "activation": "gelu_tanh", "bias": True}
    check_gradient(check_language(theirs, weights, embedding_norm=True, **settings), theirs)


def test_gemma_with_a_scaled_embedding_and_gates_of_approximate_gelu_is_theirs() -> None:
    config = transformers.GemmaConfig(
        **SHAPE, num_key_value_heads=1, head_dim=8, intermediate_size=40, rms_norm_eps=0.01, max_position_embeddings=16
    )
    theirs = randomised(transformers.GemmaForCausalLM(config))
    weights = gain_plus_one(llama_weights(theirs, tied=True))
    settings = {"kv_heads": 1, "head_width": 8, "hidden": 40, "norm_eps": 0.01, "activation": "geglu_tanh"}
    check_gradient(check_language(theirs, weights, embedding_scale=True, **settings), theirs)


BERT: dict[str, Any] = {"position": "learned", "norm": "layer", "norm_eps": 0.01, "norm_placement": "post", "activation": "gelu"}
BERT |= {"bias": True, "embedding_norm": True}
BERT_SHAPE = SHAPE | {"intermediate_size": 40, "max_position_embeddings": 16, "layer_norm_eps": 0.01}
MASK = 3  # the id of [MASK] in their vocabulary


def bert_weights(given: Weights, prefix: str) -> Weights:
    """The names that BERT, RoBERTa and ELECTRA share, under those of our masked language model."""
    blocks = {
        "attention.out": "attention.output.dense",
        "attention_norm": "attention.output.LayerNorm",
        "feedforward.up": "intermediate.dense",
        "feedforward.down": "output.dense",
        "feedforward_norm": "output.LayerNorm",
    }
    once = {
        "encoder.stack.embedding_norm": f"{prefix}.embeddings.LayerNorm",
        "encoder.stack.embedding_projection": f"{prefix}.embeddings_project",
        "encoder.segment": f"{prefix}.embeddings.token_type_embeddings",
    }
    layer = f"{prefix}.encoder.layer"
    weights = renamed(given, once, layer, "encoder.stack.blocks", blocks)
    parts = (f"{layer}.{{}}.attention.self.{part}" for part in ("query", "key", "value"))
    weights |= joined(given, "encoder.stack.blocks.{}.attention.qkv", *parts)
    weights["encoder.stack.position.table_Td"] = given[f"{prefix}.embeddings.position_embeddings.weight"]
    return weights | {"encoder.embedding.weight": with_mask(given[f"{prefix}.embeddings.word_embeddings.weight"])}


def with_mask(table_Ve: Tensor) -> Tensor:
    """Ours has <mask> behind the vocabulary; [MASK] may stand anywhere."""
    return torch.cat((table_Ve, table_Ve[MASK : MASK + 1]))


def check_encoder(theirs: Any, weights: Weights, *, second: bool = False, **settings: Any) -> MaskedLM:
    """Our masked language model with these settings and weights, compared with theirs on rows of different length."""
    ours = masked_lm(TransformerEncoderConfig(**(OURS | BERT | {"hidden": 40} | settings)), VOCAB)
    ours.load_state_dict(weights)
    ours.eval()
    reader = ours.encoder
    assert isinstance(reader, TransformerEncoder)
    length_B = torch.tensor([T, 7])
    seen_BT = torch.arange(T) < length_B[:, None]
    # Token 0 is padding, from which RoBERTa counts positions; the text has none.
    token_BT = tokens().clamp(min=1).masked_fill(~seen_BT, 0)
    segment_BT = (torch.arange(T) >= 4).long().expand(2, T) if second else None
    given = {"token_type_ids": segment_BT} if second else {}
    with torch.no_grad():
        exact = theirs(token_BT, attention_mask=seen_BT.long(), output_hidden_states=True, **given)
        embedded = reader.stack.embed_positions(reader.embedded(token_BT, segment_BT), 0)
        close(embedded[seen_BT], exact.hidden_states[0][seen_BT], "the embedding")
        with outputs(list(reader.stack.blocks)) as layers:
            last = reader(token_BT, length_B, segment_BT)
        for n, (mine, truth) in enumerate(zip(layers[:-1], exact.hidden_states[1:], strict=False)):
            close(mine[seen_BT], truth[seen_BT], f"layer {n}")
        close(last[seen_BT], exact.hidden_states[-1][seen_BT], "the last layer")
        if not second:
            close(ours(token_BT, length_B)[seen_BT], exact.logits[seen_BT], "logits")
    return ours


@pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")
def test_deberta_v3_with_its_norms_is_theirs() -> None:
    config = transformers.DebertaV2Config(
        **BERT_SHAPE,
        relative_attention=True,
        position_buckets=4,
        max_relative_positions=8,
        pos_att_type=["p2c", "c2p"],
        share_att_key=True,
        norm_rel_ebd="layer_norm",
        position_biased_input=False,
        type_vocab_size=0,
        pad_token_id=0,
    )
    theirs = randomised(transformers.DebertaV2ForMaskedLM(config))
    given = {name.replace("_proj.", "."): weight for name, weight in theirs.state_dict().items()}
    given["deberta.embeddings.position_embeddings.weight"] = torch.empty(0)
    head = {"transform": "cls.predictions.transform.dense", "norm": "cls.predictions.transform.LayerNorm"}
    head["encoder.stack.relative.norm"] = "deberta.encoder.LayerNorm"
    weights = bert_weights(given, "deberta") | renamed(given, head, "", "", {})
    del weights["encoder.stack.position.table_Td"]
    weights["encoder.stack.relative.table_Rd"] = given["deberta.encoder.rel_embeddings.weight"]
    weights["output_bias"] = given["cls.predictions.bias"]
    check_encoder(theirs, weights, position="disentangled", distance_buckets=4, max_distance=8)


def test_distilbert_is_theirs() -> None:
    config = transformers.DistilBertConfig(
        vocab_size=VOCAB, dim=24, n_layers=DEPTH, n_heads=4, hidden_dim=40, max_position_embeddings=16, pad_token_id=0
    )
    theirs = randomised(transformers.DistilBertForMaskedLM(config))
    given = theirs.state_dict()
    blocks = {
        "attention.out": "attention.out_lin",
        "attention_norm": "sa_layer_norm",
        "feedforward.up": "ffn.lin1",
        "feedforward.down": "ffn.lin2",
        "feedforward_norm": "output_layer_norm",
    }
    once = {"transform": "vocab_transform", "norm": "vocab_layer_norm"}
    once["encoder.stack.embedding_norm"] = "distilbert.embeddings.LayerNorm"
    layer = "distilbert.transformer.layer"
    weights = renamed(given, once, layer, "encoder.stack.blocks", blocks)
    weights |= joined(given, "encoder.stack.blocks.{}.attention.qkv", *(f"{layer}.{{}}.attention.{part}_lin" for part in "qkv"))
    weights["encoder.stack.position.table_Td"] = given["distilbert.embeddings.position_embeddings.weight"]
    weights["encoder.embedding.weight"] = with_mask(given["distilbert.embeddings.word_embeddings.weight"])
    weights["output_bias"] = given["vocab_projector.bias"]
    check_encoder(theirs, weights, norm_eps=1e-12)


@pytest.mark.parametrize("second", [True, False])
def test_bert_with_segments_and_its_masked_language_model_are_theirs(second: bool) -> None:
    theirs = randomised(transformers.BertForMaskedLM(transformers.BertConfig(**BERT_SHAPE)))
    given = theirs.state_dict()
    head = {"transform": "cls.predictions.transform.dense", "norm": "cls.predictions.transform.LayerNorm"}
    weights = bert_weights(given, "bert") | renamed(given, head, "", "", {})
    weights["output_bias"] = given["cls.predictions.bias"]
    check_encoder(theirs, weights, second=second, segments=2)


def test_roberta_whose_positions_begin_behind_two_rows_is_theirs() -> None:
    config = transformers.RobertaConfig(**(BERT_SHAPE | {"max_position_embeddings": 17}), type_vocab_size=1, pad_token_id=0)
    theirs = randomised(transformers.RobertaForMaskedLM(config))
    given = theirs.state_dict()
    head = {"transform": "lm_head.dense", "norm": "lm_head.layer_norm"}
    weights = bert_weights(given, "roberta") | renamed(given, head, "", "", {})
    weights["encoder.stack.position.table_Td"] = weights["encoder.stack.position.table_Td"][1:]  # pad_token_id + 1
    weights["output_bias"] = given["lm_head.bias"]
    check_encoder(theirs, weights, segments=1)


def test_electras_generator_with_a_narrow_embedding_is_theirs() -> None:
    config = transformers.ElectraConfig(**BERT_SHAPE, embedding_size=10, tie_word_embeddings=True)
    theirs = randomised(transformers.ElectraForMaskedLM(config))
    given = theirs.state_dict()
    head = {"transform": "generator_predictions.dense", "norm": "generator_predictions.LayerNorm"}
    weights = bert_weights(given, "electra") | renamed(given, head, "", "", {})
    weights["output_bias"] = given["generator_lm_head.bias"]
    check_encoder(theirs, weights, segments=2, embedding=10)


@pytest.mark.parametrize("span", [3, 5])
def test_mistral_with_windows_in_all_layers_is_theirs(span: int) -> None:
    config = transformers.MistralConfig(
        **SHAPE,
        num_key_value_heads=2,
        intermediate_size=40,
        rms_norm_eps=0.01,
        sliding_window=span,
        tie_word_embeddings=False,
        max_position_embeddings=16,
        attn_implementation="eager",
    )
    theirs = randomised(transformers.MistralForCausalLM(config))
    settings = {"kv_heads": 2, "hidden": 40, "norm_eps": 0.01, "tied": False}
    ours = check_language(theirs, llama_weights(theirs, tied=False), mask="window", span=span, **settings)
    check_gradient(ours, theirs)
    _, state = ours.step(tokens(), ours.start(2))
    assert {layer.kept for layer in state.layers} == {span - 1}, "the cache keeps no more than the next window needs"


def test_gemma_2_with_bounds_of_scores_and_logits_and_a_scale_of_its_own_is_theirs() -> None:
    config = transformers.Gemma2Config(
        **SHAPE,
        num_key_value_heads=2,
        head_dim=8,
        intermediate_size=40,
        rms_norm_eps=0.01,
        sliding_window=4,
        query_pre_attn_scalar=5,
        attn_logit_softcapping=1.5,
        final_logit_softcapping=2.5,
        max_position_embeddings=16,
        attn_implementation="eager",
    )
    theirs = randomised(transformers.Gemma2ForCausalLM(config))
    more = {
        "attention_post_norm": "post_attention_layernorm",
        "feedforward_norm": "pre_feedforward_layernorm",
        "feedforward_post_norm": "post_feedforward_layernorm",
    }
    ours = check_language(
        theirs,
        gain_plus_one(llama_weights(theirs, tied=True, more=more)),
        kv_heads=2,
        head_width=8,
        hidden=40,
        norm_eps=0.01,
        norm_placement="sandwich",
        activation="geglu_tanh",
        embedding_scale=True,
        mask="window",
        span=4,
        window_pattern="LG",
        score_scale=5**-0.5,
        score_cap=1.5,
        logit_cap=2.5,
    )
    check_gradient(ours, theirs)
    target_BT = tokens().roll(-1, 1)
    loss, _ = next_token(ours, tokens(), target_BT)
    expected = torch.nn.functional.cross_entropy(theirs(tokens()).logits.flatten(0, 1), target_BT.flatten())
    torch.testing.assert_close(loss, expected, rtol=1e-5, atol=1e-5)


def test_gemma_3_with_windows_in_two_layers_of_three_and_a_base_of_their_own_is_theirs() -> None:
    """Its scale of scores is folded into the gain of the queries."""
    config = transformers.Gemma3TextConfig(
        **SHAPE,
        num_key_value_heads=2,
        head_dim=8,
        intermediate_size=40,
        rms_norm_eps=0.01,
        sliding_window=4,
        layer_types=["sliding_attention", "sliding_attention", "full_attention"],
        query_pre_attn_scalar=5,
        rope_parameters={
            "full_attention": {"rope_type": "default", "rope_theta": 500.0},
            "sliding_attention": {"rope_type": "default", "rope_theta": 20.0},
        },
        max_position_embeddings=16,
        attn_implementation="eager",
    )
    theirs = randomised(transformers.Gemma3ForCausalLM(config))
    more = {
        "attention.query_norm": "self_attn.q_norm",
        "attention.key_norm": "self_attn.k_norm",
        "attention_post_norm": "post_attention_layernorm",
        "feedforward_norm": "pre_feedforward_layernorm",
        "feedforward_post_norm": "post_feedforward_layernorm",
    }
    weights = gain_plus_one(llama_weights(theirs, tied=True, more=more))
    for n in range(DEPTH):
        weights[f"blocks.{n}.attention.query_norm.weight"] = weights[f"blocks.{n}.attention.query_norm.weight"] * (8 / 5) ** 0.5
    ours = check_language(
        theirs,
        weights,
        kv_heads=2,
        head_width=8,
        hidden=40,
        norm_eps=0.01,
        norm_placement="sandwich",
        activation="geglu_tanh",
        qk_norm=True,
        embedding_scale=True,
        mask="window",
        span=4,
        window_pattern="LLG",
        position_base=500.0,
        position_base_local=20.0,
    )
    check_gradient(ours, theirs)


def test_modernbert_with_windows_around_each_token_and_gates_of_gelu_is_theirs() -> None:
    """It has no norm before its first attention; its head has biases that ours cannot do without, here zero."""
    config = transformers.ModernBertConfig(
        **SHAPE,
        intermediate_size=40,
        max_position_embeddings=16,
        norm_eps=0.01,
        local_attention=4,
        global_attn_every_n_layers=3,
        layer_types=["full_attention", "sliding_attention", "sliding_attention"],
        rope_parameters={
            "full_attention": {"rope_type": "default", "rope_theta": 500.0},
            "sliding_attention": {"rope_type": "default", "rope_theta": 20.0},
        },
        pad_token_id=0,
        attn_implementation="eager",
    )
    theirs = randomised(transformers.ModernBertForMaskedLM(config))
    given = theirs.state_dict()
    blocks = {
        "attention.qkv": "attn.Wqkv",
        "attention.out": "attn.Wo",
        "attention_norm": "attn_norm",
        "feedforward.up": "mlp.Wi",
        "feedforward.down": "mlp.Wo",
        "feedforward_norm": "mlp_norm",
    }
    once = {"encoder.stack.embedding_norm": "model.embeddings.norm", "encoder.stack.norm": "model.final_norm"}
    once |= {"transform": "head.dense", "norm": "head.norm"}
    weights = renamed(given, once, "model.layers", "encoder.stack.blocks", blocks)
    weights |= {"transform.bias": torch.zeros(24), "norm.bias": torch.zeros(24), "output_bias": given["decoder.bias"]}
    weights["encoder.embedding.weight"] = with_mask(given["model.embeddings.tok_embeddings.weight"])
    check_encoder(
        theirs,
        weights,
        position="rotary",
        position_base=500.0,
        position_base_local=20.0,
        span=5,
        window_pattern="GLL",
        norm_placement="pre",
        embedding_norm="replaces_first",
        activation="geglu",
        bias=False,
    )


def check_pair(theirs: Any, weights: Weights, *, factor: float = 1.0, **settings: Any) -> None:
    """Our encoder–decoder with these settings and weights, compared with theirs. `factor` is what they multiply the decoder's
    output by; in ours, its last norm does that."""
    ours = seq2seq(TransformerSeq2SeqConfig(**(OURS | {"hidden": 40, "shared": True} | settings)), VOCAB, VOCAB)
    ours.load_state_dict(weights)
    ours.eval()
    length_B, target_BT = torch.tensor([T, 7]), tokens().flip(0)[:, :9]
    seen_BT = torch.arange(T) < length_B[:, None]
    source_BT = tokens().clamp(min=1).masked_fill(~seen_BT, 0)
    with torch.no_grad():
        exact = theirs(input_ids=source_BT, attention_mask=seen_BT.long(), decoder_input_ids=target_BT, output_hidden_states=True)
        with outputs([*ours.encoder.blocks, *ours.decoder.blocks]) as layers:
            memory = ours.encode(source_BT, length_B)
            last_BTd = ours.teacher_forced(target_BT, memory)
        for n in range(DEPTH - 1):
            close(layers[n][seen_BT], exact.encoder_hidden_states[n + 1][seen_BT], f"layer {n} of the encoder")
            close(layers[DEPTH + n], exact.decoder_hidden_states[n + 1], f"layer {n} of the decoder")
        close(last_BTd, factor * exact.decoder_hidden_states[-1], "the last layer")
        close(ours.readout(last_BTd), exact.logits, "logits")
        state, pieces = ours.start(memory), []
        for part_BT in target_BT.split((4, *[1] * 5), dim=1):
            logits, state = ours.step(part_BT, state)
            pieces.append(logits)
        close(torch.cat(pieces, dim=1), exact.logits, "cached decoding")


@pytest.mark.parametrize(("version", "tied"), [("t5", True), ("t5 1.1", False)])
def test_t5_with_scores_that_are_not_scaled_and_heads_of_their_own_width_is_theirs(version: str, tied: bool) -> None:
    gated = version == "t5 1.1"
    config = transformers.T5Config(
        vocab_size=VOCAB,
        d_model=24,
        d_kv=8,
        d_ff=40,
        num_layers=DEPTH,
        num_heads=4,
        relative_attention_num_buckets=8,
        relative_attention_max_distance=12,
        layer_norm_epsilon=0.01,
        feed_forward_proj="gated-gelu" if gated else "relu",
        tie_word_embeddings=tied,
    )
    theirs = randomised(transformers.T5ForConditionalGeneration(config))
    given = theirs.state_dict()
    weights: Weights = {"embedding.weight": given["shared.weight"]}
    for side in ("encoder", "decoder"):
        layers, last = f"{side}.block", 1 if side == "encoder" else 2
        blocks = {
            "attention.out": "layer.0.SelfAttention.o",
            "attention_norm": "layer.0.layer_norm",
            "feedforward.down": f"layer.{last}.DenseReluDense.wo",
            "feedforward_norm": f"layer.{last}.layer_norm",
        }
        if side == "decoder":
            blocks |= {
                "cross.query": "layer.1.EncDecAttention.q",
                "cross.out": "layer.1.EncDecAttention.o",
                "cross_norm": "layer.1.layer_norm",
            }
            parts = (f"{layers}.{{}}.layer.1.EncDecAttention.{part}" for part in "kv")
            weights |= joined(given, f"{side}.blocks.{{}}.cross.kv", *parts)
        weights |= renamed(given, {f"{side}.norm": f"{side}.final_layer_norm"}, layers, f"{side}.blocks", blocks)
        parts = (f"{layers}.{{}}.layer.0.SelfAttention.{part}" for part in "qkv")
        weights |= joined(given, f"{side}.blocks.{{}}.attention.qkv", *parts)
        ups = ("wi_0", "wi_1") if gated else ("wi",)
        parts = (f"{layers}.{{}}.layer.{last}.DenseReluDense.{part}" for part in ups)
        weights |= joined(given, f"{side}.blocks.{{}}.feedforward.up", *parts)
        weights[f"{side}.relative.table_NH"] = given[f"{layers}.0.layer.0.SelfAttention.relative_attention_bias.weight"]
    factor = 24**-0.5 if tied else 1.0
    weights["decoder.norm.weight"] = factor * weights["decoder.norm.weight"]
    if not tied:
        weights["output.weight"] = given["lm_head.weight"]
    check_pair(
        theirs,
        weights,
        factor=factor,
        head_width=8,
        position="t5",
        distance_buckets=8,
        max_distance=12,
        score="dot",
        norm_eps=0.01,
        activation="geglu_tanh" if gated else "relu",
        tied=tied,
    )


@pytest.mark.parametrize("family", ["bart", "marian"])
def test_bart_and_marian_with_a_bias_on_tied_logits_are_theirs(family: str) -> None:
    """BART leaves two places of its positions unused; Marian's positions are a table of sines, then cosines, and its
    embeddings are scaled, not normalised."""
    shape = {"vocab_size": VOCAB, "d_model": 24, "max_position_embeddings": 16, "pad_token_id": 0}
    for side in ("encoder", "decoder"):
        shape |= {f"{side}_layers": DEPTH, f"{side}_attention_heads": 4, f"{side}_ffn_dim": 40}
    if family == "bart":
        theirs = transformers.BartForConditionalGeneration(transformers.BartConfig(**shape, activation_function="gelu"))
    else:
        config = transformers.MarianConfig(
            **shape,
            activation_function="swish",
            scale_embedding=True,
            decoder_start_token_id=0,
            forced_eos_token_id=1,
            eos_token_id=1,
        )
        theirs = transformers.MarianMTModel(config)
    positions = {side: getattr(theirs.model, side).embed_positions.weight.detach().clone() for side in ("encoder", "decoder")}
    theirs = randomised(theirs)
    if family == "marian":
        for side, table_Td in positions.items():
            getattr(theirs.model, side).embed_positions.weight.data.copy_(table_Td)
    theirs.final_logits_bias.normal_(generator=torch.Generator().manual_seed(2))
    given = theirs.state_dict()
    weights: Weights = {"embedding.weight": given["model.shared.weight"], "output_bias": given["final_logits_bias"].flatten()}
    for side in ("encoder", "decoder"):
        layers = f"model.{side}.layers"
        blocks = {
            "attention.out": "self_attn.out_proj",
            "attention_norm": "self_attn_layer_norm",
            "feedforward.up": "fc1",
            "feedforward.down": "fc2",
            "feedforward_norm": "final_layer_norm",
        }
        if side == "decoder":
            blocks |= {
                "cross.query": "encoder_attn.q_proj",
                "cross.out": "encoder_attn.out_proj",
                "cross_norm": "encoder_attn_layer_norm",
            }
            weights |= joined(
                given, f"{side}.blocks.{{}}.cross.kv", *(f"{layers}.{{}}.encoder_attn.{part}_proj" for part in "kv")
            )
        once = {f"{side}.embedding_norm": f"model.{side}.layernorm_embedding"}
        weights |= renamed(given, once, layers, f"{side}.blocks", blocks)
        parts = (f"{layers}.{{}}.self_attn.{part}_proj" for part in "qkv")
        weights |= joined(given, f"{side}.blocks.{{}}.attention.qkv", *parts)
        table_Td = given[f"model.{side}.embed_positions.weight"]
        weights[f"{side}.position.table_Td"] = table_Td[2:] if family == "bart" else table_Td
    settings = (
        {"embedding_norm": True, "activation": "gelu"} if family == "bart" else {"embedding_scale": True, "activation": "silu"}
    )
    check_pair(theirs, weights, position="learned", norm="layer", norm_placement="post", bias=True, output_bias=True, **settings)


@pytest.mark.parametrize("placement", ["pre", "sandwich"])
def test_an_encoder_decoder_with_these_norms_decodes_the_same_with_a_cache_and_in_bfloat16(placement: Any) -> None:
    settings = {"qk_norm": True, "norm_placement": placement, "head_width": 8, "embedding_norm": True, "bias": "qkv"}
    ours = randomised(seq2seq(TransformerSeq2SeqConfig(**(OURS | settings)), VOCAB, VOCAB))
    length_B, target_BT = torch.tensor([T, 7]), tokens()[:, :6]
    with torch.no_grad():
        memory = ours.encode(tokens(), length_B)
        whole = ours.readout(ours.teacher_forced(target_BT, memory))
        state, pieces = ours.start(memory), []
        for part_BT in target_BT.split(1, dim=1):
            logits, state = ours.step(part_BT, state)
            pieces.append(logits)
    close(torch.cat(pieces, dim=1), whole, "cached decoding")
    with torch.autocast("cpu", torch.bfloat16):
        loss = ours(tokens(), length_B, target_BT).float().logsumexp(-1).mean()
    loss.backward()
    assert all(bool(parameter.grad.isfinite().all()) for parameter in ours.parameters() if parameter.grad is not None)
    assert ours.decoder.blocks[0].cross.query_norm.weight.grad is not None
