"""Tiny GGUF files, written with the `gguf` package as llama.cpp's converter writes them; nothing here is firth's own code."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tokenizers

gguf = pytest.importorskip("gguf", reason="GGUF files need the package gguf")
TEMPLATE = (
    "{% for message in messages %}{{ '<|begin|>' + message['role'] + '\n' + message['content'] + '<|end|>' + '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|begin|>assistant\n' }}{% endif %}"
)
NAMES = {
    "model.embed_tokens.weight": "token_embd.weight",
    "model.norm.weight": "output_norm.weight",
    "lm_head.weight": "output.weight",
}
PARTS = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def named(name: str) -> str:
    """llama.cpp's name of a tensor of `transformers`' LLaMA."""
    if name in NAMES:
        return NAMES[name]
    _, _, layer, part = name.removesuffix(".weight").split(".", 3)
    return f"blk.{layer}.{PARTS[part]}.weight"


def permuted(weight: np.ndarray, heads: int) -> np.ndarray:
    """As convert_hf_to_gguf.py does it, one row after the other."""
    width = len(weight) // heads
    rows = [head * width + half * (width // 2) + i for head in range(heads) for i in range(width // 2) for half in (0, 1)]
    return np.ascontiguousarray(weight[rows])


def written(
    path: Path,
    model: Any,
    tokenizer: tokenizers.Tokenizer,
    kind: str | None = None,
    tensors: Mapping[str, np.ndarray] | None = None,
    **changes: Any,
) -> Path:
    """A LLaMA model of `transformers`. `kind` is a type such as Q8_0 for the matrices, `tensors` are further ones; `changes`
    replace or, if None, leave out entries of the metadata, with "__" for a dot."""
    config = model.config
    metadata: dict[str, Any] = {
        "llama.block_count": config.num_hidden_layers,
        "llama.context_length": config.max_position_embeddings,
        "llama.embedding_length": config.hidden_size,
        "llama.feed_forward_length": config.intermediate_size,
        "llama.attention.head_count": config.num_attention_heads,
        "llama.attention.head_count_kv": config.num_key_value_heads,
        "llama.attention.key_length": config.head_dim,
        "llama.attention.value_length": config.head_dim,
        "llama.rope.dimension_count": config.head_dim,
        "llama.rope.freq_base": float(config.rope_parameters["rope_theta"]),
        "llama.attention.layer_norm_rms_epsilon": config.rms_norm_eps,
        "llama.vocab_size": config.vocab_size,
        "tokenizer.ggml.eos_token_id": 0,
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.chat_template": TEMPLATE,
        **words(tokenizer, config.vocab_size),
    } | {key.replace("__", "."): value for key, value in changes.items()}
    writer = gguf.GGUFWriter(path, metadata.pop("architecture", "llama"))
    for key, value in metadata.items():
        add(writer, key, value)
    heads = {"attn_q": config.num_attention_heads, "attn_k": config.num_key_value_heads}
    for name, tensor in model.state_dict().items():
        if name == "lm_head.weight" and config.tie_word_embeddings:
            continue
        values = tensor.numpy()
        own = named(name)
        if (part := own.split(".")[-2]) in heads:
            values = permuted(values, heads[part])
        if kind and values.ndim > 1:
            type = gguf.GGMLQuantizationType[kind]
            writer.add_tensor(own, gguf.quants.quantize(values, type), raw_dtype=type)
        else:
            writer.add_tensor(own, np.ascontiguousarray(values))
    for name, values in (tensors or {}).items():
        writer.add_tensor(name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def add(writer: Any, key: str, value: Any) -> None:
    for type, method in ((bool, "bool"), (int, "uint32"), (float, "float32"), (str, "string"), (list, "array")):
        if isinstance(value, type):
            getattr(writer, f"add_{method}")(key, value)
            return


def words(tokenizer: tokenizers.Tokenizer, rows: int) -> dict[str, Any]:
    """The tokenizer as metadata: byte-level, with GPT-2's pattern."""
    table = json.loads(tokenizer.to_str())
    special = {one["content"] for one in table["added_tokens"]}
    names = {id: name for name, id in tokenizer.get_vocab().items()}
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "gpt-2",
        "tokenizer.ggml.tokens": [names.get(id, f"[PAD{id}]") for id in range(rows)],
        "tokenizer.ggml.token_type": [3 if names.get(id) in special else 1 if id in names else 5 for id in range(rows)],
        "tokenizer.ggml.merges": [" ".join(merge) for merge in table["model"]["merges"]],
    }
