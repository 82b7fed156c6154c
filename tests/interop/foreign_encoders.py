"""Tiny random encoders of `transformers` with each of their heads, in folders as it writes them."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import tokenizers
import torch
from foreign_folders import ROWS, TEXT, randomised, transformers
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
NAMES = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]", "mask_token": "[MASK]"}
LABELS = {0: "bad", 1: "fair", 2: "good"}
DEPTH = 3
BERT: dict[str, Any] = {
    "vocab_size": ROWS,
    "hidden_size": 32,
    "num_hidden_layers": DEPTH,
    "num_attention_heads": 4,
    "intermediate_size": 40,
    "max_position_embeddings": 64,
    "layer_norm_eps": 1e-3,  # so that one that is forgotten is seen
}
HEADS = ("Model", "ForMaskedLM", "ForSequenceClassification", "ForTokenClassification", "ForQuestionAnswering")


@functools.cache  # training it twice may give two vocabularies
def word_pieces() -> tokenizers.Tokenizer:
    """BERT's: [CLS] before and [SEP] after each text, [MASK] in the middle of the vocabulary."""
    tokenizer = tokenizers.Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.train_from_iterator([TEXT], trainers.WordPieceTrainer(vocab_size=150, special_tokens=SPECIAL, show_progress=False))
    tokenizer.post_processor = processors.TemplateProcessing(
        "[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return tokenizer


def built(name: str, head: str, **options: Any) -> Any:
    """A random model: `name` "Bert" and `head` "ForMaskedLM" give a BertForMaskedLM."""
    config = getattr(transformers, f"{name}Config")(**options)
    if head in ("ForSequenceClassification", "ForTokenClassification"):
        config.id2label, config.label2id = LABELS, {label: n for n, label in LABELS.items()}
    return randomised(getattr(transformers, f"{name}{head}")(config))


def saved(folder: Path, model: Any) -> Path:
    model.save_pretrained(folder)
    transformers.PreTrainedTokenizerFast(tokenizer_object=word_pieces(), **NAMES).save_pretrained(folder)
    return folder


def rows() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """token_BT with padding behind the shorter rows, length_B, and which tokens are read."""
    length_B = torch.tensor([20, 7, 1])
    token_BT = torch.randint(5, 140, (3, 20), generator=torch.Generator().manual_seed(1))
    seen_BT = torch.arange(20) < length_B[:, None]
    return token_BT.masked_fill(~seen_BT, 0), length_B, seen_BT
