"""Tiny random Hugging Face models as oracles: the same weights give the same logits. One file, because the import is slow."""

from __future__ import annotations

import os
from typing import Any

import pytest
import torch
from small_models import randomise
from tolerance import assert_as_accurate, assert_equal
from torch import Tensor

from firth.inspection.contextual_vectors import layers
from firth.models import (
    Classifier,
    MaskedLM,
    TransformerConfig,
    TransformerEncoderConfig,
    TransformerLM,
    classifier,
    language_model,
    masked_lm,
)
from firth.models.electra import electra, generator_config
from firth.tasks.classification import classification
from firth.tasks.masked import masked

os.environ.setdefault("HF_HUB_OFFLINE", "1")
transformers = pytest.importorskip("transformers", reason="the oracle is Hugging Face's; pip install firth[bench]")

VOCAB, T = 17, 10


def made(**options: Any) -> TransformerLM:
    config = TransformerConfig(**({"kind": "transformer", "width": 24, "depth": 3, "heads": 4, "context": 16} | options))
    model = language_model(config, VOCAB)
    assert isinstance(model, TransformerLM)
    return randomise(model, mean=0.1, std=0.3).eval()


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
            num_attention_heads=config.attention.heads,
            num_key_value_heads=config.attention.groups,
            max_position_embeddings=config.context,
            rms_norm_eps=1e-5,
            rope_parameters={"rope_type": "default", "rope_theta": config.position.base},
            tie_word_embeddings=config.tied,
        )
    )
    ours, D = model.state_dict(), config.width // config.attention.heads
    weights = {"model.embed_tokens.weight": ours["embedding.weight"], "model.norm.weight": ours["norm.weight"]}
    weights["lm_head.weight"] = ours["embedding.weight" if config.tied else "output.weight"]
    for n in range(config.depth):
        q, k, v = ours[f"blocks.{n}.attention.qkv.weight"].split(
            (config.attention.heads * D, config.attention.groups * D, config.attention.groups * D)
        )
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
            n_head=config.attention.heads,
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


def gptj(model: TransformerLM) -> Any:
    """GPTJForCausalLM with our weights. Its rotary pairs are neighbours, ours are halves, so rows are permuted."""
    config = model.config
    D = config.width // config.attention.heads
    theirs = transformers.GPTJForCausalLM(
        transformers.GPTJConfig(
            vocab_size=VOCAB,
            n_positions=config.context,
            n_embd=config.width,
            n_layer=config.depth,
            n_head=config.attention.heads,
            n_inner=config.inner,
            rotary_dim=D,
            activation_function="gelu",
            layer_norm_epsilon=1e-5,
            bos_token_id=0,
            eos_token_id=0,
        )
    )
    ours = model.state_dict()
    weights = {
        "transformer.wte.weight": ours["embedding.weight"],
        "lm_head.weight": ours["output.weight"],
        "lm_head.bias": ours["output.bias"],
        "transformer.ln_f.weight": ours["norm.weight"],
        "transformer.ln_f.bias": ours["norm.bias"],
    }
    neighbors = torch.arange(D).view(2, D // 2).T.flatten()  # 0, D/2, 1, D/2 + 1, …
    for n in range(config.depth):
        q, k, v = ours[f"blocks.{n}.attention.qkv.weight"].view(3, config.attention.heads, D, config.width)
        weights |= {
            f"transformer.h.{n}.attn.q_proj.weight": q[:, neighbors].flatten(0, 1),
            f"transformer.h.{n}.attn.k_proj.weight": k[:, neighbors].flatten(0, 1),
            f"transformer.h.{n}.attn.v_proj.weight": v.flatten(0, 1),
            f"transformer.h.{n}.attn.out_proj.weight": ours[f"blocks.{n}.attention.out.weight"],
        }
        for mine, other in (("attention_norm", "ln_1"), ("feedforward.up", "mlp.fc_in"), ("feedforward.down", "mlp.fc_out")):
            for kind in ("weight", "bias"):
                weights[f"transformer.h.{n}.{other}.{kind}"] = ours[f"blocks.{n}.{mine}.{kind}"]
    theirs.load_state_dict(weights)
    return theirs.eval()


def test_parallel_blocks_are_gpt_js() -> None:
    """Its rotary angles and attention weights are float32 even in a float64 model, so it is held to float32."""
    ours = made(position="rotary", norm="layer", activation="gelu", bias=True, tied=False, parallel_block=True)
    with torch.no_grad():
        for name, parameter in ours.named_parameters():
            if name.endswith(("qkv.bias", "out.bias")):
                parameter.zero_()
    theirs = gptj(ours)
    plain, truth = ours(tokens())[0], theirs(tokens()).logits
    plain_grad = torch.autograd.grad(plain.square().mean(), ours.embedding.weight)[0]
    truth_grad = torch.autograd.grad(truth.square().mean(), theirs.transformer.wte.weight)[0]
    ours = ours.double()
    exact = ours(tokens())[0]
    exact_grad = torch.autograd.grad(exact.square().mean(), ours.embedding.weight)[0]
    assert_as_accurate(truth, plain, exact)
    assert_as_accurate(truth_grad, plain_grad, exact_grad)


@pytest.mark.parametrize(("kv_heads", "tied", "base"), [(None, True, 10_000.0), (2, False, 10_000.0), (1, True, 500_000.0)])
def test_rotary_rms_swiglu_is_llama(kv_heads: int | None, tied: bool, base: float) -> None:
    """Llama's norm and rotary angles are float32 even in a float64 model, so it is held to float32."""
    ours = made(position="rotary", norm="rms", activation="swiglu", kv_heads=kv_heads, tied=tied, position_base=base)
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
    logits, truth = ours(tokens())[0], theirs(tokens()).logits
    assert_equal(logits.detach(), truth.detach())
    mine = torch.autograd.grad(logits.square().mean(), ours.embedding.weight)[0]
    exact = torch.autograd.grad(truth.square().mean(), theirs.transformer.wte.weight)[0]
    assert_equal(mine, exact)


def bert(model: MaskedLM | Classifier, config: TransformerEncoderConfig) -> Any:
    """BertModel with our weights. It adds what its two kinds of segments mean and normalises the sum of its embeddings; ours does
    neither, so there its segments are zero and its norm is taken out."""
    theirs = transformers.BertModel(
        transformers.BertConfig(
            vocab_size=VOCAB + 1,  # <mask>
            hidden_size=config.width,
            intermediate_size=config.inner,
            num_hidden_layers=config.depth,
            num_attention_heads=config.attention.heads,
            max_position_embeddings=config.context,
            hidden_act="gelu",
            layer_norm_eps=1e-5,
        ),
        add_pooling_layer=False,
    )
    theirs.embeddings.LayerNorm = torch.nn.Identity()
    ours = {name.removeprefix("encoder."): weight for name, weight in model.state_dict().items()}
    weights = {
        "embeddings.word_embeddings.weight": ours["embedding.weight"],
        "embeddings.position_embeddings.weight": ours["stack.position.table_Td"],
        "embeddings.token_type_embeddings.weight": torch.zeros(2, config.width),
    }
    theirs.load_state_dict(weights | bert_layers(ours, config.depth))
    return theirs.eval()


BERT: dict[str, Any] = {
    "kind": "transformer",
    "width": 24,
    "heads": 4,
    "context": 16,
    "norm": "layer",
    "norm_placement": "post",
    "activation": "gelu",
    "bias": True,
}


def bert_layers(ours: dict[str, Tensor], depth: int) -> dict[str, Tensor]:
    """The blocks of our encoder under the names that BERT and ELECTRA give them."""
    weights: dict[str, Tensor] = {}
    for n in range(depth):
        for kind in ("weight", "bias"):
            q, k, v = ours[f"stack.blocks.{n}.attention.qkv.{kind}"].chunk(3)
            weights |= {
                f"encoder.layer.{n}.attention.self.query.{kind}": q,
                f"encoder.layer.{n}.attention.self.key.{kind}": k,
                f"encoder.layer.{n}.attention.self.value.{kind}": v,
            }
            for mine, other in (
                ("attention.out", "attention.output.dense"),
                ("attention_norm", "attention.output.LayerNorm"),
                ("feedforward.up", "intermediate.dense"),
                ("feedforward.down", "output.dense"),
                ("feedforward_norm", "output.LayerNorm"),
            ):
                weights[f"encoder.layer.{n}.{other}.{kind}"] = ours[f"stack.blocks.{n}.{mine}.{kind}"]
    return weights


def test_layers_of_a_post_norm_encoder_are_berts() -> None:
    config = TransformerEncoderConfig(**BERT, depth=3, position="learned")
    ours = randomise(masked_lm(config, VOCAB), mean=0.1, std=0.3)
    theirs, ours = bert(ours, config).double(), ours.double()
    length_B = torch.tensor([T, 6])
    seen_BT = (torch.arange(T) < length_B[:, None]).long()
    truth = theirs(tokens(), attention_mask=seen_BT, output_hidden_states=True).hidden_states
    states = layers(ours, tokens(), length_B)
    assert len(states) == len(truth) == config.depth + 1
    # Their first has positions in it already; ours is the word alone.
    assert_equal(states[0], theirs.embeddings.word_embeddings(tokens()).detach())
    for mine, exact in zip(states[1:], truth[1:], strict=True):
        for row, length in enumerate(length_B.tolist()):
            assert_equal(mine[row, :length], exact[row, :length].detach())


class First(torch.nn.Module):
    """A pooler without a layer of its own: the first token."""

    def forward(self, x_BTd: Tensor) -> Tensor:
        return x_BTd[:, 0]


def test_a_classifier_on_the_first_token_is_berts() -> None:
    config = TransformerEncoderConfig(**BERT, depth=2, position="learned", pool="first")
    ours = randomise(classifier(config, VOCAB + 1, 3), mean=0.1, std=0.3)
    body = bert(ours, config)
    theirs = transformers.BertForSequenceClassification(transformers.BertConfig(**body.config.to_dict() | {"num_labels": 3}))
    theirs.bert, theirs.bert.pooler = body, First()
    theirs.classifier.load_state_dict(ours.output.state_dict())
    length_B, label_B = torch.tensor([T, 6]), torch.tensor([2, 0])
    seen_BT = (torch.arange(T) < length_B[:, None]).long()
    ours, theirs = ours.double().eval(), theirs.double().eval()
    exact = theirs(tokens(), attention_mask=seen_BT, labels=label_B)
    assert_equal(ours(tokens(), length_B).detach(), exact.logits.detach())
    loss, _ = classification(ours, tokens(), length_B, label_B)
    assert abs(loss.item() - exact.loss.item()) < 1e-6 * exact.loss.item()  # ours is in float32


def test_the_loss_of_masked_tokens_and_its_gradient_are_berts_with_segments() -> None:
    config = TransformerEncoderConfig(**BERT, depth=2, position="learned", segments=2)
    ours = randomise(masked_lm(config, VOCAB), mean=0.1, std=0.3)
    body = bert(ours, config)
    theirs = transformers.BertForMaskedLM(body.config)
    theirs.bert = body
    weights = ours.state_dict()
    body.embeddings.token_type_embeddings.load_state_dict({"weight": weights["encoder.segment.weight"]})
    head = theirs.cls.predictions
    head.transform.dense.load_state_dict(ours.transform.state_dict())
    head.transform.LayerNorm.load_state_dict(ours.norm.state_dict())
    # Theirs could predict <mask>, too: with a bias of −∞ it cannot.
    never = torch.cat((weights["output_bias"], torch.tensor([-torch.inf])))
    head.decoder.load_state_dict({"weight": weights["encoder.embedding.weight"], "bias": never})
    head.decoder.weight = body.embeddings.word_embeddings.weight
    body.embeddings.word_embeddings.padding_idx = None  # its token 0 is padding, which learns nothing
    ours, theirs = ours.double().eval(), theirs.double().eval()

    place_BM, target_BM = torch.tensor([[1, 4, 9], [0, 7, 0]]), torch.tensor([[3, 5, 0], [16, 2, -1]])
    token_BT, label_BT = tokens(), torch.full((2, T), -100)
    for row in range(2):
        for place, target in zip(place_BM[row].tolist(), target_BM[row].tolist(), strict=True):
            if target >= 0:
                token_BT[row, place], label_BT[row, place] = VOCAB, target
    exact = theirs(token_BT, labels=label_BT)
    loss, _ = masked(ours, token_BT, place_BM, target_BM)
    assert_equal(ours(token_BT).detach(), exact.logits[..., :VOCAB].detach())
    assert_equal(loss.detach(), exact.loss.detach())
    mine = torch.autograd.grad(loss, ours.embedding.weight)[0]
    truth = torch.autograd.grad(exact.loss, theirs.get_input_embeddings().weight)[0]
    assert_equal(mine, truth)

    segment_BT = torch.arange(T).expand(2, T) // 6
    x_BTd = ours.encoder(token_BT, None, segment_BT)
    assert_equal(x_BTd.detach(), body(token_BT, token_type_ids=segment_BT).last_hidden_state.detach())


def electra_config(config: TransformerEncoderConfig, embedding: int) -> Any:
    return transformers.ElectraConfig(
        vocab_size=VOCAB + 1,  # <mask>
        embedding_size=embedding,
        hidden_size=config.width,
        intermediate_size=config.inner,
        num_hidden_layers=config.depth,
        num_attention_heads=config.attention.heads,
        max_position_embeddings=config.context,
        hidden_act="gelu",
        layer_norm_eps=1e-5,
    )


@pytest.mark.parametrize("position", ["learned", "none"])
def test_discriminator_and_generator_are_electras(position: Any) -> None:
    """Its norm on the embeddings is taken out, as for BERT. Its generator adds positions before the projection, ours after it;
    so the generators are compared without positions."""
    config = TransformerEncoderConfig(**BERT, depth=2, position=position)
    ours = randomise(electra(config, VOCAB, 0.5), mean=0.1, std=0.3)
    weights = ours.state_dict()
    length_B = torch.tensor([T, 6])
    seen_BT = (torch.arange(T) < length_B[:, None]).long()
    embedding = {
        "electra.embeddings.word_embeddings.weight": weights["encoder.embedding.weight"],
        "electra.embeddings.position_embeddings.weight": weights.get("encoder.stack.position.table_Td", torch.zeros(16, 24)),
        "electra.embeddings.token_type_embeddings.weight": torch.zeros(2, 24),
    }

    def blocks(prefix: str) -> dict[str, Tensor]:
        own = {name.removeprefix(prefix): weight for name, weight in weights.items() if name.startswith(prefix)}
        return {f"electra.{name}": weight for name, weight in bert_layers(own, config.depth).items()}

    discriminator = transformers.ElectraForPreTraining(electra_config(config, 24))
    discriminator.electra.embeddings.LayerNorm = torch.nn.Identity()
    head = {
        f"discriminator_predictions.{theirs}.{kind}": weights[f"{mine}.{kind}"]
        for mine, theirs in (("transform", "dense"), ("output", "dense_prediction"))
        for kind in ("weight", "bias")
    }
    discriminator.load_state_dict(embedding | blocks("encoder.") | head)
    ours = ours.double().eval()
    truth_BT = discriminator.double().eval()(tokens(), attention_mask=seen_BT).logits.detach()
    logit_BT = ours(tokens(), length_B).detach()
    for row, length in enumerate(length_B.tolist()):
        assert_equal(logit_BT[row, :length], truth_BT[row, :length])
    if position == "learned":
        return

    small = generator_config(config, 0.5)
    assert isinstance(small, TransformerEncoderConfig)
    assert (small.width, small.attention.heads) == (12, 2)
    masked_model = transformers.ElectraForMaskedLM(electra_config(small, 24))
    masked_model.electra.embeddings.LayerNorm = torch.nn.Identity()
    head = {
        f"{theirs}.{kind}": weights[f"generator.{mine}.{kind}"]
        for mine, theirs in (
            ("encoder.project", "electra.embeddings_project"),
            ("transform", "generator_predictions.dense"),
            ("norm", "generator_predictions.LayerNorm"),
        )
        for kind in ("weight", "bias")
    }
    head["generator_lm_head.weight"] = weights["encoder.embedding.weight"]
    head["generator_lm_head.bias"] = torch.cat([weights["generator.output_bias"], torch.zeros(1)])
    masked_model.load_state_dict(embedding | blocks("generator.encoder.inside.") | head)
    truth_BTV = masked_model.double().eval()(tokens(), attention_mask=seen_BT).logits.detach()
    logit_BTV = ours.generator(tokens(), length_B).detach()
    for row, length in enumerate(length_B.tolist()):
        assert_equal(logit_BTV[row, :length], truth_BTV[row, :length, :VOCAB])  # ours has no logit for <mask>
