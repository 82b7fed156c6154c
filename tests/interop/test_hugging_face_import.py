"""Public models in: the same weights give the same states, logits and texts as in `transformers`."""

from __future__ import annotations

import json
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from foreign_folders import (
    LLAMA3,
    PROMPT,
    TEXT,
    bloom,
    byte_level,
    falcon,
    falcon_40b,
    falcon_rw,
    fast,
    gemma,
    gemma2,
    gemma3,
    gpt2,
    gpt_neox,
    llama,
    mistral,
    olmo2,
    opt,
    phi3,
    phi4,
    qwen2,
    qwen3,
    saved,
    sentence_piece,
    transformers,
)
from shares import half

import firth
from firth.api import export_model, import_model
from firth.decoding.config import DecodingConfig
from firth.decoding.generate import generate
from firth.errors import DataError
from firth.inspection.contextual_vectors import layers
from firth.tasks.next_token import LanguageModelRun

MODELS: dict[str, Any] = {
    "gpt2": gpt2,
    "gpt2, exact gelu, inner width": lambda: gpt2(activation_function="gelu", n_inner=40, layer_norm_epsilon=1e-6),
    "llama": llama,
    "llama, tied, one kv head": lambda: llama(tie_word_embeddings=True, num_key_value_heads=1),
    "llama, wide heads": lambda: llama(head_dim=16),
    "llama 3": lambda: llama(rope_parameters=LLAMA3),
    "llama, linear": lambda: llama(rope_parameters={"rope_type": "linear", "rope_theta": 10_000.0, "factor": 4.0}),
    "llama, yarn": lambda: llama(
        rope_parameters={
            "rope_type": "yarn",
            "rope_theta": 10_000.0,
            "factor": 4.0,
            "original_max_position_embeddings": 32,
        }
    ),
    "mistral": mistral,
    "mistral without windows": lambda: mistral(sliding_window=None, head_dim=16),
    "qwen2": qwen2,
    "qwen2, windows in the last layer": lambda: qwen2(use_sliding_window=True, sliding_window=5, max_window_layers=2),
    "qwen3": qwen3,
    "qwen3, tied, a window in the first layer": lambda: qwen3(
        tie_word_embeddings=True,
        use_sliding_window=True,
        sliding_window=6,
        layer_types=["sliding_attention", "full_attention", "full_attention"],
    ),
    "gpt-neox": gpt_neox,
    "gpt-neox, one layer after the other": lambda: gpt_neox(use_parallel_residual=False, rotary_pct=1.0, hidden_act="gelu_new"),
    "gpt-neox, tied, another base": lambda: gpt_neox(tie_word_embeddings=True, rotary_emb_base=500, layer_norm_eps=1e-6),
    "gemma": gemma,
    "gemma 3": gemma3,
    "gemma 3, stretched": lambda: gemma3(
        rope_parameters={
            "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 500.0},
            "sliding_attention": {"rope_type": "default", "rope_theta": 20.0},
        },
        query_pre_attn_scalar=24,
        final_logit_softcapping=5.0,
    ),
    "gemma 3 without windows": lambda: gemma3(layer_types=["full_attention"] * 3),
    "gemma 2": gemma2,
    "gemma 2, another scale": lambda: gemma2(query_pre_attn_scalar=24, final_logit_softcapping=None),
    "bloom": bloom,
    "bloom, three heads": lambda: bloom(n_head=3, hidden_size=24, layer_norm_epsilon=1e-6),
    "falcon": falcon,
    "falcon, two norms, groups": lambda: falcon_40b(tie_word_embeddings=False),
    "falcon, one norm, groups": lambda: falcon_40b(num_ln_in_parallel_attn=1, activation="gelu_pytorch_tanh"),
    "falcon, alibi": falcon_rw,
    "falcon, alibi, one key head": lambda: falcon_rw(multi_query=True, bias=False),
    "phi 3": phi3,
    "phi 4": phi4,
    "phi 3, wide heads": lambda: phi3(sliding_window=None, head_dim=16, num_key_value_heads=4),
    "olmo 2": olmo2,
    "olmo 2, wide heads, tied, yarn": lambda: olmo2(
        head_dim=16,
        tie_word_embeddings=True,
        rope_parameters={"rope_type": "yarn", "rope_theta": 500.0, "factor": 4.0, "original_max_position_embeddings": 32},
    ),
    "opt": opt,
    "opt, norms after the sums, untied": lambda: opt(
        do_layer_norm_before=False, tie_word_embeddings=False, activation_function="gelu"
    ),
    "opt, biases in the norms only": lambda: opt(enable_bias=False, activation_function="gelu"),
}


# The quick tests read one or two models of each family.
SECOND = (
    "gpt2, exact gelu, inner width",
    "llama, wide heads",
    "llama, linear",
    "qwen3, tied, a window in the first layer",
    "opt, biases in the norms only",
    "falcon, alibi",
    "mistral without windows",
    "qwen2, windows in the last layer",
    "gpt-neox, one layer after the other",
    "gpt-neox, tied, another base",
    "gemma 3 without windows",
    "gemma 2, another scale",
    "bloom, three heads",
    "opt, norms after the sums, untied",
    "phi 3, wide heads",
    "olmo 2, wide heads, tied, yarn",
    "falcon, one norm, groups",
    "falcon, alibi, one key head",
)


PAIRS = [pytest.param(name, marks=pytest.mark.long if name in SECOND else ()) for name in MODELS]


@pytest.fixture(scope="module", params=PAIRS)
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    """A model of theirs, and its folder."""
    theirs = MODELS[request.param]()
    return theirs, saved(tmp_path_factory.mktemp("foreign") / "model", theirs)


def loaded(folder: Path) -> LanguageModelRun:
    return firth.load(folder, "cpu", kind=LanguageModelRun)  # type: ignore[no-any-return, call-overload]


def tokens(rows: int = 3, length: int = 60) -> torch.Tensor:
    return torch.randint(330, (rows, length), generator=torch.Generator().manual_seed(1))


def close(ours: torch.Tensor, theirs: torch.Tensor) -> None:
    assert ours.shape == theirs.shape
    assert (ours - theirs).abs().max() <= 1e-4 * theirs.abs().max()


@torch.inference_mode()
def test_logits_and_the_states_of_every_layer_are_theirs(pair: tuple[Any, Path]) -> None:
    theirs, folder = pair
    run, token_BT = loaded(folder), tokens()
    expected = theirs(token_BT, output_hidden_states=True)
    close(run.network(token_BT)[0], expected.logits)
    states = layers(run.network, token_BT, torch.full((3,), 60))
    wanted = list(expected.hidden_states)
    # Some of theirs first add positions, normalise or scale; our first state is the embedding alone.
    wanted[0] = torch.nn.functional.embedding(token_BT, theirs.get_input_embeddings().weight)
    assert len(states) == len(wanted) == 4
    for ours, other in zip(states, wanted, strict=True):
        close(ours, other)


@torch.inference_mode()
@pytest.mark.parametrize("pair", half(PAIRS), indirect=True)
def test_their_padding_on_either_side_and_ours_do_not_change_the_vectors_of_a_text(pair: tuple[Any, Path]) -> None:
    theirs, folder = pair
    texts = ["The list", "The café serves naïve users"]
    ours = loaded(folder).embed(texts, pool=None)
    for side in ("right", "left"):
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder, pad_token="<|end|>", padding_side=side)
        given = tokenizer(texts, return_tensors="pt", padding=True)
        seen_BT = given.attention_mask
        positions = {} if theirs.config.model_type == "bloom" else {"position_ids": (seen_BT.cumsum(1) - 1).clamp(min=0)}
        expected = theirs(given.input_ids, attention_mask=seen_BT, output_hidden_states=True, **positions).hidden_states[-1]
        for row, x_Td in enumerate(ours):
            close(torch.from_numpy(x_Td), expected[row][seen_BT[row].bool()])


DYNAMIC = {"rope_type": "dynamic", "rope_theta": 100.0, "factor": 3.0}
STRETCHED: dict[str, Any] = {
    "llama": lambda: llama(rope_parameters=DYNAMIC, max_position_embeddings=40),
    "gpt-neox, half": lambda: gpt_neox(rope_parameters={**DYNAMIC, "partial_rotary_factor": 0.5}, max_position_embeddings=40),
    "falcon": lambda: falcon(rope_parameters=DYNAMIC, max_position_embeddings=40),
}


@torch.inference_mode()
@pytest.mark.parametrize("name", list(STRETCHED))
def test_dynamic_positions_are_theirs_in_shorter_and_longer_texts(name: str, tmp_path: Path) -> None:
    theirs = STRETCHED[name]()
    folder = saved(tmp_path / "model", theirs)
    run, token_BT = loaded(folder), tokens(length=100)
    for length in (20, 39, 40, 41, 60, 100):  # growing: a shorter text after a longer one has the frequencies of the longer
        close(run.network(token_BT[:, :length])[0], theirs(token_BT[:, :length], use_cache=False).logits)
    ids = token_BT[:1, :10]
    theirs = type(theirs).from_pretrained(folder)
    expected = theirs.generate(ids, max_new_tokens=30, do_sample=False, eos_token_id=None, pad_token_id=0)[0, 10:]
    assert [int(token) for token in generate(run.network, ids, DecodingConfig(tokens=30, temperature=0))] == expected.tolist()
    import_model(folder, tmp_path / "run")
    export_model(tmp_path / "run", tmp_path / "exported")
    again, once = loaded(tmp_path / "exported"), loaded(tmp_path / "run")
    assert again.recipe.model == once.recipe.model
    weights = again.network.state_dict()
    assert all(torch.equal(tensor, weights[name]) for name, tensor in once.network.state_dict().items())
    close(once.network(token_BT)[0], type(theirs).from_pretrained(tmp_path / "exported")(token_BT, use_cache=False).logits)
    assert len(run.generate(PROMPT, tokens=60, seed=0)) > 0  # beyond the trained context, the text starts anew
    assert run.score(["The list is empty. " * 20])[0].tokens > 40
    with pytest.raises(DataError, match=r'"dynamic" this model reads at most 40 in a batch with other texts'):
        run.embed(["The list is empty. " * 20])


@torch.inference_mode()
def test_alibi_of_falcon_is_theirs_without_their_rounding(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """With six heads, slopes have more digits than bfloat16, in which their Falcon computes them, unlike their BLOOM."""
    theirs, token_BT = falcon_rw(num_attention_heads=6, hidden_size=48), tokens()
    logits = loaded(saved(tmp_path / "model", theirs)).network(token_BT)[0]
    rounded = theirs(token_BT).logits
    assert (logits - rounded).abs().max() <= 0.02 * rounded.abs().max()
    exact = transformers.models.bloom.modeling_bloom.build_alibi_tensor
    monkeypatch.setattr(transformers.models.falcon.modeling_falcon, "build_alibi_tensor", exact)
    close(logits, theirs(token_BT).logits)


@torch.inference_mode()
@pytest.mark.parametrize("pair", half(PAIRS, 1), indirect=True)
def test_attention_maps_are_theirs(pair: tuple[Any, Path]) -> None:
    theirs, folder = pair
    if getattr(theirs.config, "alibi", False):
        pytest.skip("their Falcon adds ALiBi twice where it returns weights")
    run, text = loaded(folder), "The café serves naïve users, they're 12"
    maps, ids = run.attention(text), torch.from_numpy(run.prompt_ids(text)).unsqueeze(0)
    before = theirs.config._attn_implementation
    if theirs.config.model_type == "falcon":  # which cannot change its implementation
        theirs = type(theirs).from_pretrained(folder, attn_implementation="eager")
    theirs.set_attn_implementation("eager")
    expected = theirs(ids, output_attentions=True).attentions
    theirs.set_attn_implementation(before)
    for layer, weights_1HTT in enumerate(expected):
        close(torch.from_numpy(maps.weights(layer)), weights_1HTT[0])


@pytest.mark.parametrize("pair", half(PAIRS), indirect=True)
def test_greedy_tokens_are_theirs(pair: tuple[Any, Path]) -> None:
    theirs, folder = pair
    run = loaded(folder)
    ids = torch.from_numpy(run.prompt_ids(PROMPT)).unsqueeze(0)
    expected = theirs.generate(ids, max_new_tokens=25, do_sample=False, eos_token_id=None, pad_token_id=0)[0, ids.shape[1] :]
    ours = [int(token) for token in generate(run.network, ids, DecodingConfig(tokens=25, temperature=0))]
    assert ours == expected.tolist()


@pytest.mark.parametrize("kind", ["gpt2", "llama 3", "llama 2"])
def test_texts_are_encoded_decoded_and_spelled_as_by_their_tokenizer(kind: str, tmp_path: Path) -> None:
    tokenizer = {"gpt2": byte_level, "llama 3": lambda: byte_level(begin=True), "llama 2": sentence_piece}[kind]()
    folder = saved(tmp_path / "model", gpt2() if kind == "gpt2" else llama(eos_token_id=2 if kind == "llama 2" else 0), tokenizer)
    run, theirs = loaded(folder), transformers.AutoTokenizer.from_pretrained(folder)
    text = TEXT[:120]
    expected = theirs(text).input_ids
    assert run.prompt_ids(text).tolist() == expected
    assert run.tokenizer.begin == (() if kind == "gpt2" else (1,))
    own = run.tokenizer.encode(text)
    assert run.tokenizer.decode(own) == theirs.decode(own, skip_special_tokens=True) == text
    assert "".join(run.tokenizer.spell(iter(own.tolist()))) == text
    assert run.tokenizer.lossless == (kind != "llama 2")
    assert run.tokenizer.eos == theirs.eos_token_id
    assert run.tokenizer.token(run.tokenizer.vocab - 1) == f"<unused {run.tokenizer.vocab - 1}>"


@pytest.mark.parametrize("pair", half(PAIRS, 1), indirect=True)
def test_every_ability_of_a_language_model_works(pair: tuple[Any, Path]) -> None:
    _, folder = pair
    run = loaded(folder)
    assert isinstance(run.generate(PROMPT, tokens=5, seed=0), str)
    assert run.score(["The list is empty."])[0].perplexity > 1
    assert run.complete("The __ is empty.", ["list", "café"])
    assert run.embed(["The list", "is"]).shape == (2, run.recipe.model.width)
    assert len(run.senses("list", ["The list is empty.", "a list of users"]).sentences) == 2
    weights = run.attention(PROMPT).weights(0)
    np.testing.assert_allclose(weights.sum(-1), 1.0, atol=1e-5)
    assert len(run.predictions(PROMPT).tokens) > 1
    assert run.continuations(PROMPT, run.generation({"beam": 3, "tokens": 4}))


def test_the_score_of_a_text_is_their_log_probability(tmp_path: Path) -> None:
    theirs = llama()
    folder = saved(tmp_path / "model", theirs, byte_level(begin=True))
    ids = torch.tensor([transformers.AutoTokenizer.from_pretrained(folder)("The list is empty.").input_ids])
    with torch.inference_mode():
        log_p = torch.log_softmax(theirs(ids).logits[0, :-1].double(), -1).gather(1, ids[0, 1:, None]).sum()
    assert loaded(folder).score(["The list is empty."])[0].log_probability == pytest.approx(float(log_p), rel=1e-5)


@pytest.mark.parametrize("size", ["2KB", "20KB"])
def test_a_sharded_folder_is_the_same_model(size: str, tmp_path: Path) -> None:
    theirs = llama()
    whole, parts = saved(tmp_path / "whole", theirs), saved(tmp_path / "parts", theirs, max_shard_size=size)
    assert len(list(parts.glob("*.safetensors"))) > 1
    one, other = loaded(whole).network.state_dict(), loaded(parts).network.state_dict()
    assert all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize("new", [True, False])
def test_weights_of_torch_save_are_read_without_unpickling_objects(new: bool, tmp_path: Path) -> None:
    theirs = gpt2()
    folder = saved(tmp_path / "model", theirs)
    expected = loaded(folder).network.state_dict()
    (folder / "model.safetensors").unlink()
    weights = {name: tensor.clone() for name, tensor in theirs.state_dict().items()}
    weights["transformer.h.0.attn.bias"] = torch.ones(1, 1, 128, 128, dtype=torch.bool)  # old checkpoints store the mask
    torch.save(weights, folder / "pytorch_model.bin", _use_new_zipfile_serialization=new)
    weights_read = loaded(folder).network.state_dict()
    assert all(torch.equal(expected[name], weights_read[name]) for name in expected)


def test_a_checkpoint_without_the_prefix_is_the_same_model(tmp_path: Path) -> None:
    """gpt2 as it was published in 2019."""
    from safetensors.torch import save_file

    theirs = gpt2()
    folder = saved(tmp_path / "model", theirs)
    expected = loaded(folder).network.state_dict()
    bare = {name.removeprefix("transformer."): tensor.clone() for name, tensor in theirs.transformer.state_dict().items()}
    save_file(bare, folder / "model.safetensors")
    weights_read = loaded(folder).network.state_dict()
    assert all(torch.equal(expected[name], weights_read[name]) for name in expected)


@pytest.mark.parametrize("name", ["embed_out.weight", "lm_head.weight"])
def test_pythia_is_read_with_stored_tables_and_either_name_of_its_output_layer(name: str, tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    folder = saved(tmp_path / "model", gpt_neox())
    expected = loaded(folder).network.state_dict()
    weights = load_file(folder / "model.safetensors")
    (other,) = {"embed_out.weight", "lm_head.weight"} & set(weights)
    weights[name] = weights.pop(other)
    weights["gpt_neox.layers.0.attention.bias"] = torch.ones(1, 1, 128, 128, dtype=torch.bool)
    weights["gpt_neox.layers.0.attention.masked_bias"] = torch.tensor(-1e9)
    weights["gpt_neox.layers.0.attention.rotary_emb.inv_freq"] = torch.ones(2)
    save_file(weights, folder / "model.safetensors")
    weights_read = loaded(folder).network.state_dict()
    assert all(torch.equal(expected[name], weights_read[name]) for name in expected)


def test_the_type_of_the_file_is_kept_unless_another_is_asked_for(tmp_path: Path) -> None:
    folder = saved(tmp_path / "model", llama().to(torch.bfloat16))
    run = loaded(folder)
    assert {parameter.dtype for parameter in run.network.parameters()} == {torch.bfloat16}
    assert isinstance(run.generate(PROMPT, tokens=3, seed=0), str)
    wide = firth.load(folder, "cpu", dtype="float32")
    assert {parameter.dtype for parameter in wide.network.parameters()} == {torch.float32}


def test_vocab_and_merges_make_the_same_tokenizer(tmp_path: Path) -> None:
    folder = saved(tmp_path / "model", gpt2())
    expected = loaded(folder).tokenizer.encode(TEXT).tolist()
    table = json.loads((folder / "tokenizer.json").read_text())
    (folder / "tokenizer.json").unlink()
    (folder / "vocab.json").write_text(json.dumps(table["model"]["vocab"]))
    merges = "\n".join(" ".join(merge) for merge in table["model"]["merges"])
    (folder / "merges.txt").write_text(f"#version: 0.2\n{merges}\n")
    tokenizer = loaded(folder).tokenizer
    assert tokenizer.encode(TEXT).tolist() == expected
    assert tokenizer.eos == 0


def test_a_chat_template_and_the_way_of_sampling_are_kept(tmp_path: Path) -> None:
    theirs = llama()
    given = {"do_sample": True, "temperature": 0.6, "top_p": 0.9, "typical_p": 0.8}
    theirs.generation_config = transformers.GenerationConfig(**given, eos_token_id=[5, 0])
    folder = saved(tmp_path / "model", theirs)
    tokenizer = fast(byte_level())
    tokenizer.chat_template = "{% for message in messages %}{{ message.content }}{% endfor %}"
    tokenizer.save_pretrained(folder)
    run = loaded(folder)
    assert run.tokenizer.settings["chat_template"] == tokenizer.chat_template
    decoding = run.recipe.decoding
    assert (decoding.temperature, decoding.top_p, decoding.typical_p) == (0.6, 0.9, 0.8)
    assert run.tokenizer.eos == 0  # the tokenizer's own among those that end a text
    assert run.tokenizer.ends == (0, 5)


@pytest.mark.parametrize("where", ["generation_config.json", "config.json"])
def test_generation_ends_at_any_of_several_tokens(where: str, tmp_path: Path) -> None:
    folder = saved(tmp_path / "model", llama())
    run = loaded(folder)
    ids = torch.from_numpy(run.prompt_ids(PROMPT)).unsqueeze(0)
    tokens = [int(token) for token in generate(run.network, ids, DecodingConfig(tokens=12, temperature=0))]
    place = next(place for place in range(4, 12) if tokens[place] not in tokens[:place])
    (folder / "generation_config.json").unlink()
    path = folder / where
    table = json.loads(path.read_text()) if path.is_file() else {}
    path.write_text(json.dumps(table | {"eos_token_id": [0, 399, tokens[place]]}))
    import_model(folder, tmp_path / "run")
    export_model(tmp_path / "run", tmp_path / "exported")
    theirs = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "exported")
    assert theirs.generation_config.eos_token_id == [0, tokens[place]]  # no token has the id 399
    wanted = theirs.generate(ids, max_new_tokens=12, do_sample=False, pad_token_id=0)[0, ids.shape[1] :].tolist()
    assert wanted == tokens[: place + 1]
    for path in (folder, tmp_path / "run", tmp_path / "exported"):
        run = loaded(path)
        text = run.generate(PROMPT, tokens=12, temperature=0)
        assert text == "".join(list(run.tokenizer.spell([*ids[0].tolist(), *tokens[:place]]))[ids.shape[1] : -1])
        best = run.continuations(PROMPT, run.generation({"beam": 2, "tokens": 12, "penalty": 0.0}))
        assert all(tokens[place] not in run.tokenizer.encode(one.text) for one in best)
    assert "eos_token_ids" not in json.loads((tmp_path / "exported" / "tokenizer_config.json").read_text())


def test_a_config_as_smollm2_has_it(tmp_path: Path) -> None:
    folder = saved(tmp_path / "model", llama(tie_word_embeddings=True))
    path = folder / "config.json"
    more = {
        "is_llama_config": True,
        "rope_interleaved": False,
        "rope_theta": 100_000,
        "rope_scaling": None,
        "pretraining_tp": 1,
        "transformers.js_config": {"kv_cache_dtype": {"q4f16": "float16", "fp16": "float16"}},
        "torch_dtype": "bfloat16",
    }
    table = json.loads(path.read_text())
    table.pop("rope_parameters")
    path.write_text(json.dumps(table | more))
    model = loaded(folder).recipe.model
    assert (model.position.base, model.tied) == (100_000, True)
    path.write_text(json.dumps(table | more | {"rope_interleaved": True}))
    with pytest.raises(DataError, match="rope_interleaved is True; firth only computes False"):
        loaded(folder)


OLD_ROPE: dict[str, tuple[Any, dict[str, Any], dict[str, Any]]] = {
    "gemma 3": (
        gemma3,
        {"rope_theta": 500.0, "rope_local_base_freq": 20.0, "sliding_window_pattern": 3, "cache_implementation": "hybrid"},
        {"position.base": 500.0, "position.base_local": 20.0, "attention.window_pattern": "LLG"},
    ),
    "gemma 3, stretched": (
        gemma3,
        {"rope_scaling": {"rope_type": "linear", "factor": 8.0}},
        {"position.base": 1e6, "position.base_local": 1e4, "position.scaling": "linear", "position.factor": 8.0},
    ),
    "gemma 2": (
        gemma2,
        {"rope_theta": 500.0, "hidden_act": "gelu_pytorch_tanh"},
        {"position.base": 500.0, "attention.window_pattern": "LG"},
    ),
    "gemma": (gemma, {"rope_theta": 500.0, "hidden_act": "gelu", "hidden_activation": None}, {"position.base": 500.0}),
    "pythia": (gpt_neox, {"rotary_pct": 0.25, "rotary_emb_base": 500}, {"position.base": 500.0, "position.fraction": 0.25}),
    "qwen2": (
        qwen2,
        {"rope_theta": 500.0, "use_sliding_window": False, "sliding_window": 4, "max_window_layers": 1, "use_mrope": False},
        {"position.base": 500.0, "attention.mask": "causal"},
    ),
    "mistral": (mistral, {"rope_theta": 500.0, "sliding_window": None}, {"position.base": 500.0, "attention.mask": "causal"}),
    "phi 3": (
        phi3,
        {"rope_theta": 500.0, "rope_scaling": None, "original_max_position_embeddings": 64, "attention_bias": False},
        {"bias": False},
    ),
    "phi 4": (phi4, {"rope_theta": 500.0, "rope_scaling": None, "partial_rotary_factor": 0.75}, {"tied": True}),
    "falcon 7b": (falcon, {"rope_theta": 500.0, "apply_residual_connection_post_layernorm": False}, {"bias": False}),
    "falcon rw": (falcon_rw, {"n_embed": 32, "rope_theta": 500.0, "num_kv_heads": None}, {"bias": True}),
    "bloom": (
        bloom,
        {"n_embed": 32, "seq_length": 64, "offset_alibi": 100, "skip_bias_add": True, "unk_token_id": 0, "n_inner": None},
        {"context": 64, "feedforward.hidden": None},
    ),
}


@pytest.mark.parametrize("name", half(list(OLD_ROPE)))
def test_configs_as_they_were_published_are_read_as_transformers_reads_them(name: str, tmp_path: Path) -> None:
    """Before rope_parameters and layer_types, in which today's `transformers` writes them."""
    build, older, settings = OLD_ROPE[name]
    folder = saved(tmp_path / "model", build())
    path = folder / "config.json"
    table = {key: value for key, value in json.loads(path.read_text()).items() if key not in ("rope_parameters", "layer_types")}
    path.write_text(json.dumps(table | older))
    run = loaded(folder)
    assert {key: attrgetter(key)(run.recipe.model) for key in settings} == settings
    theirs = transformers.AutoModelForCausalLM.from_pretrained(folder)
    with torch.inference_mode():
        close(run.network(tokens())[0], theirs(tokens()).logits)


def test_settings_of_generation_that_firth_does_not_apply_are_named(tmp_path: Path) -> None:
    folder = saved(tmp_path / "model", llama())
    settings: dict[str, Any] = {
        "eos_token_id": 0,
        "do_sample": True,
        "top_k": 7,
        "typical_p": 1.0,
        "num_beams": 1,
        "min_length": 0,
    }
    (folder / "generation_config.json").write_text(json.dumps(settings))
    assert loaded(folder).recipe.decoding.top_k == 7
    for key, value in {
        "epsilon_cutoff": 0.5,
        "num_beams": 3,
        "no_repeat_ngram_size": 1,
        "bad_words_ids": [[1]],
        "of_tomorrow": 2,
    }.items():
        (folder / "generation_config.json").write_text(json.dumps(settings | {key: value}))
        with pytest.warns(UserWarning, match=f"does not apply these settings of the model's generation: {key} = "):
            loaded(folder)
    (folder / "generation_config.json").write_text(json.dumps({"repetition_penalty": 1.3}))  # greedily, too
    with pytest.warns(UserWarning, match=r"repetition_penalty = 1\.3"):
        loaded(folder)
