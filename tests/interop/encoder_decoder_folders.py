"""Tiny random encoder–decoders of `transformers`, as it writes them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from foreign_folders import ROWS, byte_level, randomised, saved, transformers
from safetensors.torch import load_file, save_file
from tokenizers import processors

from firth.api import compose, train_recipe

END, PAD = 0, 1  # <|end|> and <|begin|> of the tokenizer, which here pads and starts the decoder
IDS = {"vocab_size": ROWS, "eos_token_id": END, "pad_token_id": PAD, "decoder_start_token_id": PAD}


def t5(**options: Any) -> Any:
    shape = {"d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 3, "num_decoder_layers": 2, "num_heads": 4}
    config = transformers.T5Config(**(IDS | shape | options))
    return randomised(transformers.T5ForConditionalGeneration(config))


def t5_v1_1(**options: Any) -> Any:
    return t5(feed_forward_proj="gated-gelu", tie_word_embeddings=False, d_kv=6, **options)


def umt5(**options: Any) -> Any:
    shape = {"d_model": 32, "d_kv": 6, "d_ff": 48, "num_layers": 3, "num_decoder_layers": 2, "num_heads": 4}
    model = randomised(transformers.UMT5ForConditionalGeneration(transformers.UMT5Config(**(IDS | shape | options))))
    model.shared.weight.data.mul_(5)  # the logits are divided by √d_model: without this, beams would hang on a rounding
    return model


def bart(**options: Any) -> Any:
    return with_bias(transformers.BartForConditionalGeneration(transformers.BartConfig(**(_shape() | options))))


def marian(**options: Any) -> Any:
    """Its positions are no parameters, and its padding is never generated."""
    config = transformers.MarianConfig(**(_shape() | {"scale_embedding": True, "activation_function": "swish"} | options))
    model = with_positions(transformers.MarianMTModel(config))
    model.generation_config = transformers.GenerationConfig(
        decoder_start_token_id=PAD, eos_token_id=END, pad_token_id=PAD, bad_words_ids=[[PAD], [7]], num_beams=3, max_length=60
    )
    return model


def pegasus(**options: Any) -> Any:
    config = transformers.PegasusConfig(**(_shape() | {"scale_embedding": True, "activation_function": "relu"} | options))
    return with_positions(transformers.PegasusForConditionalGeneration(config))


def mbart(**options: Any) -> Any:
    config = transformers.MBartConfig(**(_shape() | {"scale_embedding": True} | options))
    return with_bias(transformers.MBartForConditionalGeneration(config))


def m2m_100(**options: Any) -> Any:
    config = transformers.M2M100Config(**(_shape() | {"decoder_start_token_id": END} | options))
    model = randomised(transformers.M2M100ForConditionalGeneration(config))
    model.generation_config.bad_words_ids = [[PAD]]  # its padding has no position
    return model


def with_positions(model: Any) -> Any:
    """Random weights but for the positions, which are computed."""
    tables = {side: getattr(model.model, side).embed_positions.weight.detach().clone() for side in ("encoder", "decoder")}
    with_bias(model)
    for side, table_Td in tables.items():
        getattr(model.model, side).embed_positions.weight.data.copy_(table_Td)
    return model


def _shape() -> dict[str, Any]:
    settings = IDS | {"d_model": 32, "max_position_embeddings": 64, "forced_eos_token_id": None}
    for side, depth in (("encoder", 3), ("decoder", 2)):
        settings |= {f"{side}_layers": depth, f"{side}_attention_heads": 4, f"{side}_ffn_dim": 48}
    return settings


def with_bias(model: Any) -> Any:
    randomised(model)
    model.final_logits_bias.normal_(generator=torch.Generator().manual_seed(2))
    return model


def ending(begin: bool = False) -> Any:
    """A tokenizer that puts the end behind every text, as all encoder–decoders have it; with `begin`, another token before it."""
    tokenizer = byte_level()
    special = [("<|end|>", END), ("<|begin|>", PAD)]
    tokenizer.post_processor = processors.TemplateProcessing(f"{'<|begin|> ' if begin else ''}$A <|end|>", special_tokens=special)
    return tokenizer


def folder_of(name: str, folder: Path) -> Path:
    """A folder with the model of that name."""
    model, begin = BUILDERS[name]
    saved(folder, model(), ending(begin))
    if name == "t5 1.1":
        separate_output(folder)
    return folder


def separate_output(folder: Path) -> None:
    """An output layer of its own, which `transformers` 5 only has where a checkpoint has one."""
    weights = load_file(folder / "model.safetensors")
    weights["lm_head.weight"] = torch.randn(ROWS, 32, generator=torch.Generator().manual_seed(5)) / 2
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    config = json.loads((folder / "config.json").read_text())
    config.pop("scale_decoder_outputs", None)
    (folder / "config.json").write_text(json.dumps(config | {"tie_word_embeddings": False}))  # as FLAN-T5 has it


def opened(folder: Path) -> Any:
    return transformers.AutoModelForSeq2SeqLM.from_pretrained(folder).eval()


PAIRS = "source\ttarget\n" + "a b c\tc b a\nthe list\tlist the\nbe at\tat be\nc a b\tb a c\n" * 20


def trained(folder: Path, model: dict[str, Any], tokenizer: dict[str, Any] | None = None, steps: int = 40) -> Path:
    (folder / "pairs.tsv").write_text(PAIRS)
    table: dict[str, Any] = {
        "data": {"path": str(folder / "pairs.tsv"), "valid": 0.1},
        "tokenizer": tokenizer or {"kind": "char"},
        "model": {"family": "seq2seq", "kind": "transformer", "width": 32, "depth": 2, "heads": 4, **model},
        "objective": {"kind": "translation"},
        "training": {"steps": steps, "batch_tokens": 128, "context": 20, "rate": 0.01, "device": "cpu"},
        "decoding": {"tokens": 30},
    }
    return train_recipe(compose(table), folder / "run").path


BUILDERS: dict[str, tuple[Any, bool]] = {
    "t5": (t5, False),
    "t5 1.1": (t5_v1_1, False),
    "umt5": (umt5, False),
    "bart": (lambda: bart(forced_bos_token_id=5), True),
    "marian": (marian, False),
    "pegasus": (pegasus, False),
    "mbart": (mbart, False),
    "m2m_100": (m2m_100, False),
}
