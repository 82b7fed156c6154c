"""Our models out: what firth writes, `transformers` opens, with the same logits and the same tokens."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from foreign_folders import (
    bloom,
    byte_level,
    falcon,
    falcon_40b,
    falcon_rw,
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
    setting_names,
    transformers,
)
from runs import LINES, recipe_table
from shares import half

import firth
from firth.api import compose, export_model, import_model, train_recipe
from firth.decoding.config import DecodingConfig
from firth.decoding.foreign import to_generation_config
from firth.errors import ConfigError, RunError

GPT2 = {"position": "learned", "norm": "layer", "activation": "gelu_tanh", "bias": True}
NEOX = {"norm": "layer", "activation": "gelu", "bias": True}
FALCON = {"norm": {"kind": "layer", "bias": True}, "activation": "gelu"}
OPT = {"position": "learned", "norm": {"kind": "layer", "bias": True}, "activation": "relu", "tied": False}
GEMMA = {"activation": "geglu_tanh", "embedding_scale": True}
WINDOWS = {"mask": "window", "span": 4, "window_pattern": "LG"}
SETTINGS: dict[str, dict[str, Any]] = {
    "by default": {},
    "untied, one kv head": {"tied": False, "kv_heads": 1, "norm_eps": 1e-6},
    "gpt2": GPT2,
    "gpt2, relu": GPT2 | {"activation": "relu"},
    "stretched": {"rotary_scaling": "yarn", "rotary_context": 8},
    "dynamic": {"rotary_scaling": "dynamic", "rotary_context": 8, "rotary_factor": 2.0},
    "mistral": {"mask": "window", "span": 4},
    "qwen2": {"bias": "qkv", "mask": "window", "span": 4, "window_pattern": "GL"},
    "qwen3": {"qk_norm": True, "head_width": 16, "tied": False},
    "gpt-neox": NEOX | {"parallel_block": "two_norms", "rotary_fraction": 0.5},
    "gpt-neox, untied": NEOX | {"tied": False, "output_bias": False, "activation": "gelu_tanh"},
    "gemma": GEMMA,
    "gemma 2": GEMMA | {"norm_placement": "sandwich", "score_cap": 2.0, "logit_cap": 3.0, "score_scale": 0.2, **WINDOWS},
    "gemma 3": GEMMA | {"norm_placement": "sandwich", "qk_norm": True, "position_base_local": 100.0, **WINDOWS},
    "gemma 3, one base": GEMMA | {"norm_placement": "sandwich", "qk_norm": True, "rotary_scaling": "linear", "rotary_context": 8},
    "falcon": FALCON | {"kv_heads": 1, "parallel_block": True},
    "falcon, two norms, groups": FALCON
    | {"attention": {"heads": 4, "kv_heads": 2}, "parallel_block": "two_norms", "tied": False},
    "falcon, alibi": FALCON | {"position": {"kind": "alibi", "scaled": True}},
    "phi 3": {"kv_heads": 1, "mask": "window", "span": 4, "rotary_fraction": 0.5, "tied": False},
    "olmo 2": {"qk_norm": "whole", "norm_placement": "after", "tied": False},
    "olmo 2, groups": {"qk_norm": "whole", "norm_placement": "after", "kv_heads": 1, "head_width": 16},
    "opt": OPT,
    "opt, norms after the sums": OPT | {"norm": {"kind": "layer", "placement": "post"}, "bias": True, "tied": True},
    "bloom": {"position": "alibi", "norm": "layer", "activation": "gelu_tanh", "embedding_norm": True, "bias": True},
}
ARCHITECTURES = {
    "gpt2": "GPT2LMHeadModel",
    "mistral": "MistralForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
    "gpt-neox": "GPTNeoXForCausalLM",
    "gemma": "GemmaForCausalLM",
    "gemma 2": "Gemma2ForCausalLM",
    "gemma 3": "Gemma3ForCausalLM",
    "bloom": "BloomForCausalLM",
    "opt": "OPTForCausalLM",
    "olmo 2": "Olmo2ForCausalLM",
    "phi 3": "Phi3ForCausalLM",
    "falcon": "FalconForCausalLM",
}


def trained(folder: Path, model: dict[str, Any], kind: str = "bpe") -> Path:
    table = recipe_table(kind, model="transformer", steps=3)
    table["model"] |= model
    return train_recipe(compose(table), folder / "run").path


@pytest.mark.parametrize("name", half(SETTINGS))
def test_transformers_computes_the_logits_of_an_exported_run(name: str, tmp_path: Path) -> None:
    run = trained(tmp_path, SETTINGS[name])
    folder = export_model(run, tmp_path / "exported")
    theirs, ours = transformers.AutoModelForCausalLM.from_pretrained(folder).eval(), firth.load(run, "cpu")
    token_BT = torch.randint(ours.tokenizer.vocab, (2, 20), generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        torch.testing.assert_close(theirs(token_BT).logits, ours.network(token_BT)[0], rtol=1e-4, atol=1e-5)
    assert type(theirs).__name__ == ARCHITECTURES.get(name.split(",", maxsplit=1)[0], "LlamaForCausalLM")


@pytest.mark.parametrize("kind", ["char", "word", "bpe", "wordpiece", "unigram"])
def test_the_tokenizer_of_an_exported_run_gives_the_same_ids(kind: str, tmp_path: Path) -> None:
    table = recipe_table(kind, model="transformer", steps=1)
    if kind == "unigram":
        table["tokenizer"]["vocab"] = 290
    run = train_recipe(compose(table), tmp_path / "run").path
    folder = export_model(run, tmp_path / "exported")
    theirs, ours = transformers.AutoTokenizer.from_pretrained(folder), firth.load(run, "cpu").tokenizer
    text = LINES[0].strip() + LINES[1].strip()
    assert theirs(text, add_special_tokens=False).input_ids == ours.encode(text).tolist()
    assert theirs.eos_token_id == ours.eos


@pytest.mark.parametrize(
    "build",
    half(
        [
            gpt2,
            llama,
            mistral,
            qwen2,
            qwen3,
            gpt_neox,
            bloom,
            gemma,
            gemma2,
            gemma3,
            opt,
            falcon,
            falcon_40b,
            falcon_rw,
            phi3,
            phi4,
            olmo2,
        ]
    ),
)
def test_import_export_import_is_equal_to_the_bit(build: Any, tmp_path: Path) -> None:
    folder = saved(tmp_path / "theirs", build().to(torch.bfloat16), byte_level(begin=True))
    import_model(folder, tmp_path / "run")
    export_model(tmp_path / "run", tmp_path / "exported")
    import_model(tmp_path / "exported", tmp_path / "again")
    once, twice = (firth.load(tmp_path / name, "cpu") for name in ("run", "again"))
    assert once.recipe.model == twice.recipe.model
    assert once.tokenizer.to_json() == twice.tokenizer.to_json()
    weights = twice.network.state_dict()
    for name, tensor in once.network.state_dict().items():
        assert tensor.dtype == torch.bfloat16
        assert torch.equal(tensor.view(torch.int16), weights[name].view(torch.int16)), name
    first, second = (transformers.AutoModelForCausalLM.from_pretrained(path) for path in (folder, tmp_path / "exported"))
    assert type(first) is type(second)
    written = second.state_dict()
    for name, tensor in first.state_dict().items():
        if "gemma" in build.__name__ and "norm" in name:  # γ − 1, of which we kept γ rounded to bfloat16
            assert ((written[name].float() - tensor.float()).abs() <= 2**-8 * (1 + tensor.float()).abs()).all(), name
        elif build is opt and "positions" in name:  # two rows that no token has
            assert torch.equal(tensor[2:], written[name][2:])
        else:
            assert torch.equal(tensor, written[name]), name


def test_an_imported_run_gives_the_same_text_as_the_folder(tmp_path: Path) -> None:
    folder = saved(tmp_path / "theirs", llama(eos_token_id=2), sentence_piece())
    import_model(folder, tmp_path / "run")
    runs = [firth.load(path, "cpu") for path in (folder, tmp_path / "run")]
    texts = [run.generate("The list", tokens=12, seed=3) for run in runs]
    assert texts[0] == texts[1]
    assert [run.recipe.imported for run in runs] == ["LlamaForCausalLM"] * 2
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == [
        "format",
        "model.safetensors",
        "recipe.toml",
        "tokenizer.json",
        "tokenizer_config.json",
    ]


def test_the_model_card_has_recipe_data_results_and_licence(tmp_path: Path) -> None:
    folder = export_model(trained(tmp_path, {}), tmp_path / "exported", license="mit")
    card = (folder / "README.md").read_text()
    assert card.startswith("---\nlicense: mit\n")
    assert "| loss |" in card
    assert "SHA-256" in card
    assert '[model.position]\nkind = "rotary"' in card
    table = json.loads((folder / "generation_config.json").read_text())
    assert (table["do_sample"], table["max_new_tokens"]) == (True, 40)
    transformers.GenerationConfig.from_pretrained(folder)


def test_filters_are_exported_or_named() -> None:
    with pytest.warns(UserWarning, match="is not exported") as warned:
        settings = to_generation_config(DecodingConfig(typical_p=0.9, min_p=0.1, mirostat=3.0), pairs=False)
    assert (settings["typical_p"], settings["min_p"], settings["do_sample"]) == (0.9, 0.1, True)
    assert [str(one.message).partition(":")[0] for one in warned] == [
        "decoding.mirostat is not exported",
        "decoding.mirostat_rate is not exported",
    ]


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "alibi": ({"position": "alibi"}, r"LLaMA cannot express model\.position\.kind = 'alibi'; GPT-2 cannot express"),
    "additive": ({"score": "additive", "position": "none"}, r"LLaMA cannot express model\.attention\.score = 'additive'"),
    "ntk": ({"rotary_scaling": "ntk", "rotary_context": 8}, r"LLaMA cannot express model\.position\.scaling = 'ntk'"),
    "parallel": ({"parallel_block": True}, r"LLaMA cannot express model\.feedforward\.parallel = True"),
    "linear": ({"attention": "linear", "position": "none"}, r"LLaMA cannot express"),
    "gelu": ({"activation": "gelu"}, r"LLaMA cannot express model\.feedforward\.activation = 'gelu'"),
}


@pytest.mark.parametrize("name", list(REFUSED))
def test_a_run_without_a_counterpart_is_refused_with_the_reason(name: str, tmp_path: Path) -> None:
    settings, message = REFUSED[name]
    run = trained(tmp_path, settings)
    with pytest.raises(ConfigError, match=message):
        export_model(run, tmp_path / "exported")
    assert not (tmp_path / "exported").exists()


def test_a_recurrent_run_and_a_folder_in_use_are_refused(tmp_path: Path, char_run: Path, bpe_run: Path) -> None:
    with pytest.raises(ConfigError, match=r'model\.kind = "gru"'):
        export_model(char_run, tmp_path / "exported")
    with pytest.raises(RunError, match="already exists"):
        export_model(bpe_run, char_run)


def test_every_setting_of_a_family_is_one_of_ours() -> None:
    """A misspelt name in `free` or `limited` would refuse or lose a setting."""
    from firth.interop import FAMILIES
    from firth.models import TransformerConfig, TransformerEncoderConfig

    for family in FAMILIES:
        if family.model in ("language", "encoder"):
            config = TransformerConfig if family.model == "language" else TransformerEncoderConfig
            names = setting_names(config)
            assert family.free | set(family.limited) <= names
