"""Counting without allocating: against numbers that lectures and others publish, torch's own counter, and what autograd keeps."""

from __future__ import annotations

import functools
from typing import Any

import pytest
import torch
import transformers
from shares import half
from torch.utils.flop_counter import FlopCounterMode

from firth.experiments.describe import preset_network
from firth.layers.attention import attend, mask
from firth.layers.recurrent import CELLS
from firth.models import (
    LanguageModel,
    RecurrentConfig,
    RecurrentSeq2SeqConfig,
    TransformerConfig,
    TransformerEncoderConfig,
    TransformerSeq2SeqConfig,
    language_model,
    seq2seq,
)
from firth.models.counting import Count, count
from firth.models.electra import electra
from firth.models.presets import PRESETS, preset, varied
from firth.models.uninitialised import Uninitialised

VOCAB = 13


@functools.cache
def counted(name: str, *changes: str) -> Count:
    chosen = varied(preset(name), changes) if changes else preset(name)
    with torch.device("meta"), Uninitialised():
        return count(preset_network(chosen))


def transformer(**more: Any) -> TransformerConfig:
    return TransformerConfig(kind="transformer", width=32, depth=3, heads=4, context=16, **more)


def test_gpt3_as_the_lecture_counts_it() -> None:
    gpt3 = counted("gpt3")
    assert (gpt3.weights, gpt3.matrices) == (175_181_291_520, 27_938)
    shapes = {part.name: (part.shape, part.count) for part in gpt3.parts}
    assert shapes["embedding"] == ((50_257, 12_288), 1)
    assert shapes["query"] == shapes["key"] == shapes["value"] == ((128, 12_288), 96 * 96)
    assert shapes["output of attention"] == ((12_288, 12_288), 96)
    assert shapes["feed-forward, up"] == ((49_152, 12_288), 96)
    assert shapes["feed-forward, down"] == ((12_288, 49_152), 96)
    assert shapes["output"] == ((50_257, 12_288), 1)


PEERS = {
    "gpt2": lambda: transformers.GPT2LMHeadModel(transformers.GPT2Config()),
    "gpt2-medium": lambda: transformers.GPT2LMHeadModel(transformers.GPT2Config(n_embd=1024, n_layer=24, n_head=16)),
    "gpt2-large": lambda: transformers.GPT2LMHeadModel(transformers.GPT2Config(n_embd=1280, n_layer=36, n_head=20)),
    "gpt2-xl": lambda: transformers.GPT2LMHeadModel(transformers.GPT2Config(n_embd=1600, n_layer=48, n_head=25)),
    "llama-7b": lambda: transformers.LlamaForCausalLM(transformers.LlamaConfig()),
    "llama-13b": lambda: transformers.LlamaForCausalLM(
        transformers.LlamaConfig(hidden_size=5120, intermediate_size=13_824, num_hidden_layers=40, num_attention_heads=40)
    ),
    "llama2-70b": lambda: transformers.LlamaForCausalLM(
        transformers.LlamaConfig(
            hidden_size=8192, num_hidden_layers=80, num_attention_heads=64, num_key_value_heads=8, intermediate_size=28_672
        )
    ),
    "bloom": lambda: transformers.BloomForCausalLM(
        transformers.BloomConfig(vocab_size=250_880, hidden_size=14_336, n_layer=70, n_head=112)
    ),
    "electra-base": lambda: transformers.ElectraForPreTraining(
        transformers.ElectraConfig(embedding_size=768, hidden_size=768, num_attention_heads=12, intermediate_size=3072)
    ),
    "t5-small": lambda: transformers.T5ForConditionalGeneration(transformers.T5Config()),
    "t5-base": lambda: transformers.T5ForConditionalGeneration(
        transformers.T5Config(d_model=768, num_layers=12, num_heads=12, d_ff=3072)
    ),
}


@pytest.mark.parametrize("name", half(PEERS))
def test_a_preset_has_as_many_parameters_as_the_published_model(name: str) -> None:
    with torch.device("meta"), Uninitialised():
        peer = PEERS[name]()
    assert not preset(name).differs
    assert counted(name).parameters == theirs(peer)


def theirs(peer: Any) -> int:
    return sum(parameter.numel() for parameter in peer.parameters())


def test_what_a_preset_says_it_lacks_is_what_it_lacks() -> None:
    with torch.device("meta"):
        bert = transformers.BertForMaskedLM(transformers.BertConfig())
        roberta = transformers.RobertaForMaskedLM(
            transformers.RobertaConfig(vocab_size=50_265, max_position_embeddings=514, type_vocab_size=1)
        )
        bart = transformers.BartForConditionalGeneration(
            transformers.BartConfig(
                d_model=768,
                encoder_layers=6,
                decoder_layers=6,
                encoder_attention_heads=12,
                decoder_attention_heads=12,
                encoder_ffn_dim=3072,
                decoder_ffn_dim=3072,
            )
        )
    mask_row, two_places_a_side = 768, 4 * 768
    for name, peer in (("bert-base", bert), ("roberta-base", roberta)):
        assert counted(name).parameters == theirs(peer) + mask_row
    assert counted("bart-base").parameters == theirs(bart) - two_places_a_side


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_can_be_counted(name: str) -> None:
    counts = counted(name)
    assert counts.parameters >= counts.weights > 1_000_000
    assert counts.matrices == sum(part.count for part in counts.parts if part.is_matrix)
    assert "other" not in {part.name for part in counts.parts} or preset(name).objective in (
        "masked",
        "electra",
    )  # BERT's W before E


@pytest.mark.parametrize(("L", "d", "H", "V"), [(2, 12_288, 96, 50_257), (3, 64, 4, 100), (1, 48, 3, 50_257)])
def test_a_varied_gpt3_has_12_L_d_squared_and_2_V_d_weights(L: int, d: int, H: int, V: int) -> None:
    counts = counted("gpt3", f"model.depth={L}", f"model.width={d}", f"model.attention.heads={H}", f"tokenizer.vocab={V}")
    assert counts.weights == 12 * L * d * d + 2 * V * d
    assert counts.matrices == 1 + L * (3 * H + 1 + 2) + 1
    assert counts.parameters - counts.weights == (2 * L + 1) * d  # norms


@pytest.mark.parametrize(("L", "d", "n"), [(5, 768, 1024), (2, 96, 64)])
def test_a_varied_gpt2_has_its_positions_biases_and_norms(L: int, d: int, n: int) -> None:
    counts = counted("gpt2", f"model.depth={L}", f"model.width={d}", f"--model.context={n}")
    assert counts.parameters == 50_257 * d + n * d + L * (12 * d * d + 13 * d) + 2 * d


def test_a_varied_llama_shares_its_keys_and_values() -> None:
    d, L, h, G, H = 4096, 32, 11_008, 4, 32
    block = 2 * d * d + 2 * d * (d * G // H) + 3 * d * h + 2 * d
    assert counted("llama-7b", f"model.attention.kv_heads={G}").parameters == 2 * 32_000 * d + L * block + d


def test_a_varied_preset_says_what_was_changed_and_notes_a_hidden_width_left_behind() -> None:
    notes: list[str] = []
    chosen = varied(preset("llama-7b"), ["model.width=512", ("model.depth", 2), "--model.depth=3"], notes.append)
    assert chosen.summary == "LLaMA, 7 B (Touvron et al. 2023); changed: model.width, model.depth"
    assert isinstance(chosen.config, TransformerConfig)
    assert (chosen.config.width, chosen.config.depth, chosen.config.feedforward.hidden) == (512, 3, 11_008)
    assert notes == [
        "model.feedforward.hidden is still 11008, which was chosen for model.width = 4096; now "
        "model.width = 512. Set model.feedforward.hidden, too."
    ]
    assert preset("llama-7b").config.width == 4096


def test_palm_has_as_many_parameters_as_its_paper_says() -> None:
    """Chowdhery et al. 2022, table 1: 8.63 B. One norm per layer, and one at the end."""
    d, L, h = 4096, 32, 16_384
    palm = counted("palm-8b")
    assert not preset("palm-8b").differs
    assert round(palm.parameters / 1e9, 2) == 8.63
    assert palm.parameters == 256_000 * d + L * (2 * d * d + 2 * d * (d // 16) + 3 * d * h + d) + d


PARALLEL = [cell.kind for cell in CELLS if cell.scans]
MODELS = {
    "rotary, swiglu": transformer(tied=False),
    "parallel": transformer(tied=False, parallel_block=True),
    "grouped, tied": transformer(kv_heads=2, norm="layer", activation="gelu", position="learned", bias=True),
    "bilinear, shaw": transformer(score="bilinear", position="shaw"),
    "disentangled": transformer(position="disentangled"),
    "disentangled, own matrices": transformer(position="disentangled", position_projections="own", position_norm=False),
    "additive": transformer(score="additive", position="none"),
    "linear": transformer(attention="linear", position="none"),
    "gated linear": transformer(attention="gated_linear", position="learned", bias=True),
    "based": transformer(attention="based", span=4),
    "lstm": RecurrentConfig(kind="lstm", width=24, depth=2, embedding=8, tied=True),
    "gru": RecurrentConfig(kind="gru", width=24, reset="before"),
    **{kind: RecurrentConfig(kind=kind, width=24, depth=2) for kind in PARALLEL},
}


@pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")  # transformers compiles parts of it on import
def test_deberta_has_as_many_parameters_as_hugging_faces_but_for_what_it_says() -> None:
    config = transformers.DebertaV2Config(
        vocab_size=128_100,
        hidden_size=768,
        num_hidden_layers=12,
        num_attention_heads=12,
        intermediate_size=3072,
        type_vocab_size=0,
        relative_attention=True,
        position_biased_input=False,
        pos_att_type=["p2c", "c2p"],
        position_buckets=256,
        max_relative_positions=-1,
        share_att_key=True,
        norm_rel_ebd="layer_norm",
    )
    with torch.device("meta"):
        theirs = transformers.DebertaV2ForMaskedLM(config).num_parameters()
    mask_row = 768
    ours = counted("deberta-v3-base")
    assert ours.parameters == theirs + mask_row
    assert [part.weights for part in ours.parts if part.name == "positions"] == [512 * 768, 2 * 768]  # the table and its norm


def test_matrices_for_distances_are_not_multiplied_with_tokens() -> None:
    shared, own = (count(language_model(MODELS[name], VOCAB)) for name in ("disentangled", "disentangled, own matrices"))
    assert own.flops_per_token == shared.flops_per_token
    assert {part.shape for part in own.parts if part.name == "positions"} >= {(32, 32)}


@pytest.mark.parametrize("name", MODELS)
def test_every_parameter_is_counted_once(name: str) -> None:
    model = language_model(MODELS[name], VOCAB)
    assert count(model).parameters == sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize("name", ["rotary, swiglu", "parallel", "grouped, tied", "gru", *PARALLEL])
def test_flops_are_those_that_torch_counts(name: str) -> None:
    """Its counter knows no fused attention on a CPU, so those of the products alone are compared, which is all the rest."""
    model = language_model(MODELS[name], VOCAB)
    token_BT = torch.zeros(2, 16, dtype=torch.long)
    with FlopCounterMode(display=False) as counter:
        model(token_BT)
    assert counter.get_total_flops() == token_BT.numel() * count(model).flops_per_token


def test_flops_of_electra_count_the_generators_output_too() -> None:
    """Its output layer is the embedding that both networks share; all rows are multiplied, for every token."""
    config = TransformerEncoderConfig(kind="transformer", width=32, depth=2, heads=4, context=16)
    model = electra(config, VOCAB, 0.5)
    token_BT = torch.zeros(2, 16, dtype=torch.long)
    with FlopCounterMode(display=False) as counter:
        model.generator(token_BT)
        model(token_BT)
    assert counter.get_total_flops() == token_BT.numel() * count(model).flops_per_token


def test_flops_of_looking_are_those_that_torch_counts_where_it_sees_them() -> None:
    keys, model = 16, language_model(MODELS["grouped, tied"], VOCAB)
    q, k = torch.randn(1, 4, 1, 8), torch.randn(1, 2, keys, 8)
    with FlopCounterMode(display=False) as counter:
        attend(q, k, k, mask=mask.FULL, kernel="reference")
    assert 3 * counter.get_total_flops() == keys * count(model).flops_per_key


@pytest.mark.parametrize(("name", "off"), [("rotary, swiglu", 0.05), ("parallel", 0.05), ("grouped, tied", 0.15)])
def test_activations_are_about_those_that_autograd_keeps(name: str, off: float) -> None:
    config = MODELS[name]
    model = language_model(config, VOCAB)
    kept = saved_bytes(model, torch.zeros(4, 16, dtype=torch.long)) / 64
    assert count(model).activations_per_token == pytest.approx(kept, rel=off)


def saved_bytes(model: LanguageModel, token_BT: torch.Tensor) -> int:
    weights = {parameter.untyped_storage()._cdata for parameter in model.parameters()}
    kept: dict[int, tuple[int, torch.Tensor]] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage._cdata not in weights:
            kept[storage._cdata] = storage.nbytes(), tensor  # held, so that no other storage gets its address
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        model.hidden(token_BT)
    return sum(size for size, _ in kept.values())


def test_the_state_is_what_a_step_hands_on() -> None:
    config = transformer(kv_heads=2)
    model = language_model(config, VOCAB)
    _, state = model(torch.zeros(1, 5, dtype=torch.long), model.start(1))
    held = 0
    for layer in state.layers:
        held += layer.store.k_BGCD[:, :, : layer.length].numel() + layer.store.v_BGCE[:, :, : layer.length].numel()
    assert 5 * count(model).state_per_token == 4 * held
    lstm = language_model(MODELS["lstm"], VOCAB)
    _, recurrent = lstm(torch.zeros(1, 5, dtype=torch.long))
    assert count(lstm).state == 4 * (recurrent.h_LBd.numel() + recurrent.c_LBd.numel())
    assert count(lstm).state_per_token == 0


@pytest.mark.parametrize("name", ["linear", "gated linear", "based"])
def test_the_state_of_linear_attention_is_what_a_step_hands_on(name: str) -> None:
    model = language_model(MODELS[name], VOCAB)
    _, state = model(torch.zeros(1, 5, dtype=torch.long), model.start(1))
    tensors = [x for layer in state.layers for x in vars(layer).values() if isinstance(x, torch.Tensor)]
    counts = count(model)
    assert counts.state == 4 * sum(x.numel() for x in tensors)
    assert counts.state_per_token == counts.flops_per_key == 0


def test_gated_linear_attention_has_the_parameters_of_its_paper() -> None:
    """Yang et al. 2023, §4.4: q and k of half the width, v, the output gate and the output of the full one, rank 16."""
    d, L, H, rank = 64, 2, 4, 16
    model = language_model(
        TransformerConfig(
            kind="transformer", width=d, depth=L, heads=H, hidden=100, context=8, attention="gated_linear", position="none"
        ),
        VOCAB,
    )
    block = 4 * d * d + rank * d + rank * (d // 2) + 3 * d * 100
    assert count(model).weights == L * block + VOCAB * d
    parts = {part.name: (part.shape, part.count) for part in count(model).parts if part.name != "forget gate"}
    assert parts["query"] == parts["key"] == ((d // (2 * H), d), L * H)
    assert parts["value"] == parts["output gate"] == ((d // H, d), L * H)


def test_linear_attention_adds_four_flops_for_each_number_of_its_state() -> None:
    """d = 32, H = 4: S and z of a head have 8 · (8 + 1) numbers, in three layers."""
    linear, plain = (count(language_model(MODELS[name], VOCAB)) for name in ("linear", "additive"))
    assert linear.state == 4 * 3 * 4 * 8 * 9
    with_weights = sum(part.weights for part in linear.parts if part.is_matrix and part.name != "embedding")
    assert linear.flops_per_token == 2 * (with_weights + VOCAB * 32) + linear.state
    assert plain.flops_per_key > 0


def test_an_encoder_keeps_nothing_of_what_it_has_read() -> None:
    """The cache of an encoder–decoder is the decoder's: its own keys and values, and those of the source."""
    config = TransformerSeq2SeqConfig(kind="transformer", width=32, depth=2, heads=4, context=16)
    assert count(seq2seq(config, VOCAB, VOCAB)).state_per_token == 2 * (2 * 32 + 2 * 32) * 4
    search = RecurrentSeq2SeqConfig(kind="gru", attention="additive", width=16)
    assert count(seq2seq(search, VOCAB, VOCAB)).state == 16 * 4
