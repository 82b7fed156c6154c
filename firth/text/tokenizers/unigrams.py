"""The unigram model (Kudo 2018) over bytes: the most probable segmentation of a text into pieces.

    p(x) = Π_i p(x_i)        argmax over x_1 … x_n with x_1 ⊕ … ⊕ x_n = text        p learned by EM, the vocabulary by pruning

SentencePiece itself marks spaces with "▁" and loses double spaces, tabs and unseen characters. Here the pieces are strings of
bytes, as in byte_pairs.py, and include all 256 single bytes: any text is encoded without loss.
"""

from __future__ import annotations

import json

import tokenizers
from tokenizers import models, pre_tokenizers, trainers

from firth.text.config import BYTES, TokenizerConfig
from firth.text.tokenizers import subwords
from firth.text.tokenizers.byte_pairs import codec, split_into_bytes
from firth.text.tokenizers.kind import TokenizerKind, TrainingText
from firth.text.tokenizers.special_tokens import EOS

_UNSEEN = 0.03  # log p: the trainer gives unseen bytes the smallest score plus up to 256 × 0.0001, in no fixed order
_DIGITS = 6  # the trainer adds floats in no fixed order; further digits are noise


def build(config: TokenizerConfig, text: TrainingText) -> tokenizers.Tokenizer:
    """Ids by descending probability, then by spelling; <eos> last. No text contains it, as the pre-tokenizer splits off "<"."""
    vocab = (config.vocab or subwords.VOCAB) - text.eos
    tokenizer = tokenizers.Tokenizer(models.Unigram())
    split_into_bytes(tokenizer)
    trainer = trainers.UnigramTrainer(
        vocab_size=vocab,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        special_tokens=[],
        unk_token=None,
        show_progress=False,
    )
    tokenizer.train_from_iterator(subwords.sliced(text.pieces), trainer)
    table = json.loads(tokenizer.to_str())
    scores = _settled(dict(table["model"]["vocab"]))
    longer = sorted((piece for piece in scores if len(piece) > 1), key=lambda piece: (-scores[piece], piece))
    for piece in longer[vocab - BYTES :]:
        del scores[piece]  # near the smallest vocabulary the trainer keeps a few too many
    ranked = sorted(scores.items(), key=lambda item: (-item[1], item[0]))
    table["model"]["vocab"] = [*ranked, *([(EOS, ranked[-1][1])] if text.eos else [])]
    return subwords.rebuilt(table)


def _settled(scores: dict[str, float]) -> dict[str, float]:
    """The scores without the trainer's noise: the same text gives the same scores."""
    least = min(scores.values())
    return {
        piece: round(least if len(piece) == 1 and score < least + _UNSEEN else score, _DIGITS) for piece, score in scores.items()
    }


UNIGRAM = TokenizerKind("unigram", ("Unigram", "Sequence", None), "in the next token", build, codec)
