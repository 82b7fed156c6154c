"""Tiny random models of `transformers` in folders as it writes them: the oracles of import and export."""

from __future__ import annotations

import dataclasses
import json
import os
import typing
from pathlib import Path
from typing import Any

import pytest
import tokenizers
from small_models import randomise
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers

from firth.config import sub_tables

os.environ.setdefault("HF_HUB_OFFLINE", "1")
transformers = pytest.importorskip("transformers", reason="the oracle is Hugging Face's")

TEXT = "The list is empty. The café serves naïve users 😀, they're 12 of 日本語 speakers.\n\n  Indented lines, too.\n" * 30
PROMPT = "The café is"
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 500_000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}
ROWS = 400  # of the embedding: more than tokens, as in many public models


def byte_level(begin: bool = False) -> tokenizers.Tokenizer:
    """GPT-2's; with `begin`, LLaMA 3's, which puts a token before each text."""
    tokenizer = tokenizers.Tokenizer(models.BPE())
    plain = pre_tokenizers.ByteLevel(add_prefix_space=False)
    split = pre_tokenizers.Split(tokenizers.Regex(r"\p{N}{1,3}|[^\r\n\p{L}\p{N}]?\p{L}+|\s+|."), "isolated")
    tokenizer.pre_tokenizer = (
        pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]) if begin else plain
    )
    tokenizer.decoder = decoders.ByteLevel()
    special = ["<|end|>", "<|begin|>"]
    trainer = trainers.BpeTrainer(
        vocab_size=330, special_tokens=special, initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()), show_progress=False
    )
    tokenizer.train_from_iterator([TEXT], trainer)
    if begin:
        tokenizer.post_processor = processors.TemplateProcessing("<|begin|> $A", special_tokens=[("<|begin|>", 1)])
    return tokenizer


def sentence_piece() -> tokenizers.Tokenizer:
    """LLaMA 2's: ▁ for spaces, one of them before the text, and bytes for what the vocabulary lacks."""
    tokenizer = tokenizers.Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    special = ["<unk>", "<|begin|>", "<|end|>", *(f"<0x{byte:02X}>" for byte in range(256))]
    trainer = trainers.BpeTrainer(vocab_size=330, special_tokens=special, show_progress=False)
    tokenizer.train_from_iterator(["The▁list▁is▁empty▁cafe▁serves▁users"], trainer)
    table = json.loads(tokenizer.to_str())
    table["added_tokens"] = [token for token in table["added_tokens"] if not token["content"].startswith("<0x")]
    tokenizer = tokenizers.Tokenizer.from_str(json.dumps(table))
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    tokenizer.post_processor = processors.TemplateProcessing("<|begin|> $A", special_tokens=[("<|begin|>", 1)])
    return tokenizer


def gpt2(**options: Any) -> Any:
    config = transformers.GPT2Config(
        **(
            {
                "vocab_size": ROWS,
                "n_embd": 32,
                "n_layer": 3,
                "n_head": 4,
                "n_positions": 128,
                "bos_token_id": 0,
                "eos_token_id": 0,
            }
            | options
        )
    )
    return randomised(transformers.GPT2LMHeadModel(config))


LLAMA_SHAPE: dict[str, Any] = {
    "vocab_size": ROWS,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
    "rms_norm_eps": 1e-6,
    "bos_token_id": 1,
    "eos_token_id": 0,
}


def llama(**options: Any) -> Any:
    return randomised(transformers.LlamaForCausalLM(transformers.LlamaConfig(**(LLAMA_SHAPE | options))))


def mistral(**options: Any) -> Any:
    config = transformers.MistralConfig(**(LLAMA_SHAPE | {"sliding_window": 7} | options))
    return randomised(transformers.MistralForCausalLM(config))


def qwen2(**options: Any) -> Any:
    return randomised(transformers.Qwen2ForCausalLM(transformers.Qwen2Config(**(LLAMA_SHAPE | options))))


def qwen3(**options: Any) -> Any:
    return randomised(transformers.Qwen3ForCausalLM(transformers.Qwen3Config(**(LLAMA_SHAPE | {"head_dim": 16} | options))))


def gemma(**options: Any) -> Any:
    return randomised(transformers.GemmaForCausalLM(transformers.GemmaConfig(**(LLAMA_SHAPE | {"head_dim": 16} | options))))


def gemma2(**options: Any) -> Any:
    settings = {"head_dim": 16, "query_pre_attn_scalar": 16, "sliding_window": 7}
    settings |= {"attn_logit_softcapping": 2.0, "final_logit_softcapping": 3.0}  # low, so that they matter
    return randomised(transformers.Gemma2ForCausalLM(transformers.Gemma2Config(**(LLAMA_SHAPE | settings | options))))


def gemma3(**options: Any) -> Any:
    settings = {"head_dim": 16, "query_pre_attn_scalar": 16, "sliding_window": 7}
    settings |= {"layer_types": ["sliding_attention", "sliding_attention", "full_attention"]}
    return randomised(transformers.Gemma3ForCausalLM(transformers.Gemma3TextConfig(**(LLAMA_SHAPE | settings | options))))


def gpt_neox(**options: Any) -> Any:
    shape = {key: value for key, value in LLAMA_SHAPE.items() if key not in ("num_key_value_heads", "rms_norm_eps")}
    return randomised(transformers.GPTNeoXForCausalLM(transformers.GPTNeoXConfig(**(shape | {"rotary_pct": 0.5} | options))))


def bloom(**options: Any) -> Any:
    shape = {"vocab_size": ROWS, "hidden_size": 32, "n_layer": 3, "n_head": 4, "bos_token_id": 1, "eos_token_id": 0}
    return randomised(transformers.BloomForCausalLM(transformers.BloomConfig(**(shape | options))))


def opt(**options: Any) -> Any:
    shape = {"vocab_size": ROWS, "hidden_size": 32, "ffn_dim": 48, "num_hidden_layers": 3, "num_attention_heads": 4}
    shape |= {"max_position_embeddings": 128, "bos_token_id": 1, "eos_token_id": 0}
    return randomised(transformers.OPTForCausalLM(transformers.OPTConfig(**(shape | options))))


def falcon(**options: Any) -> Any:
    """As Falcon 7B."""
    shape = {"vocab_size": ROWS, "hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "ffn_hidden_size": 48}
    shape |= {"max_position_embeddings": 128, "bos_token_id": 1, "eos_token_id": 0}
    return randomised(transformers.FalconForCausalLM(transformers.FalconConfig(**(shape | options))))


def falcon_40b(**options: Any) -> Any:
    return falcon(**{"new_decoder_architecture": True, "num_kv_heads": 2} | options)


def falcon_rw(**options: Any) -> Any:
    return falcon(**{"alibi": True, "multi_query": False, "parallel_attn": False, "bias": True} | options)


def phi3(**options: Any) -> Any:
    shape = LLAMA_SHAPE | {"pad_token_id": 0, "sliding_window": 7}
    return randomised(transformers.Phi3ForCausalLM(transformers.Phi3Config(**(shape | options))))


def phi4(**options: Any) -> Any:
    """Phi-4-mini, which turns part of each head."""
    rope = {"rope_type": "default", "rope_theta": 500.0, "partial_rotary_factor": 0.75}
    return phi3(**{"sliding_window": None, "rope_parameters": rope, "tie_word_embeddings": True} | options)


def olmo2(**options: Any) -> Any:
    return randomised(transformers.Olmo2ForCausalLM(transformers.Olmo2Config(**(LLAMA_SHAPE | options))))


def randomised(model: Any) -> Any:
    """Every parameter random, the gains and biases too, so that none can be forgotten."""
    return randomise(model, mean=0.05, std=0.25).eval()


def saved(folder: Path, model: Any, tokenizer: tokenizers.Tokenizer | None = None, **options: Any) -> Path:
    model.save_pretrained(folder, **options)
    fast(tokenizer or byte_level()).save_pretrained(folder)
    return folder


def fast(tokenizer: tokenizers.Tokenizer) -> Any:
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="<|end|>", bos_token="<|begin|>", clean_up_tokenization_spaces=False
    )


def setting_names(config: Any) -> set[str]:
    """The settings of [model] of a config class, those of its sub-tables with dots, whatever their kind."""
    names: set[str] = set()
    for name, hint in typing.get_type_hints(config, include_extras=True).items():
        inner = {field.name for one in sub_tables(hint) for field in dataclasses.fields(one)}
        names |= {f"{name}.{one}" for one in inner} or {name}
    return names
