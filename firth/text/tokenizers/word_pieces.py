"""WordPiece (Schuster and Nakajima 2012, as in BERT): a word is its longest known prefix, then the longest known "##rest" …

Loses the kind and amount of white space, except newlines, which are tokens. A word of more than 100 characters, or with a
character that is not in the vocabulary, is <unk>. "#" is a word by itself, so that no text is encoded as a "##" piece. A literal
<unk> or <eos> in the text is that token, as for words.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping

import numpy as np
import tokenizers
from numpy.typing import NDArray
from tokenizers import Regex, decoders, models, pre_tokenizers, trainers

from firth.text.config import TokenizerConfig
from firth.text.tokenizers import subwords
from firth.text.tokenizers.kind import TokenizerKind, TrainingText
from firth.text.tokenizers.special_tokens import EOS, UNKNOWN, Ids
from firth.text.tokenizers.spelling import Spelling, spelled_by
from firth.text.tokenizers.tokenizer_json import refusing, required

_CONTINUES = "##"
_LONGEST = 100  # characters of a word; the time to find its pieces is quadratic in them
_WORD = re.compile(r"[\n#]|[^\s#]+")
_WHITE_SPACE = r"(?:[^\S\n]|[\x1c-\x1f])+"  # except newlines; Python's \s has the four ASCII separators, Rust's lacks them
_BATCH = 1 << 14  # words passed to the trainer at a time


def build(config: TokenizerConfig, text: TrainingText) -> tokenizers.Tokenizer:
    """<unk>, <eos>, newline, each character as a prefix and as a "##" rest, then pieces in the order they were learned.

    Characters that are too rare (`min_count`), or too many for `vocab`, are left out, and so are words that contain them.
    """
    words = Counter(word for piece in text.pieces for word in _WORD.findall(piece.text))
    special = [UNKNOWN, *([EOS] if text.eos else []), "\n"]
    del words["\n"]
    vocab = config.vocab or subwords.VOCAB
    alphabet = _alphabet(words, config.min_count, (vocab - len(special)) // 2)
    known = set(alphabet)
    tokenizer = tokenizers.Tokenizer(
        models.WordPiece(unk_token=UNKNOWN, continuing_subword_prefix=_CONTINUES, max_input_chars_per_word=_LONGEST)
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(r"[\n#]"), "isolated"), pre_tokenizers.Split(Regex(_WHITE_SPACE), "removed")]
    )
    tokenizer.decoder = decoders.Sequence(
        [decoders.WordPiece(prefix=_CONTINUES, cleanup=False), decoders.Fuse(), decoders.Replace(Regex(" ?\n ?"), "\n")]
    )
    trainer = trainers.WordPieceTrainer(
        vocab_size=vocab,
        min_frequency=max(config.min_count, 2),
        # All single characters are listed because the trainer would number them in no fixed order, and break ties by it.
        special_tokens=[*special, *alphabet, *(_CONTINUES + character for character in alphabet if character != "#")],
        continuing_subword_prefix=_CONTINUES,
        show_progress=False,
    )
    tokenizer.train_from_iterator(_repeated({word: words[word] for word in words if _teaches(word, known)}), trainer)
    return subwords.rebuilt({**json.loads(tokenizer.to_str()), "added_tokens": []})


class WordPieces:
    lossless = False

    def __init__(self, tokenizer: tokenizers.Tokenizer, vocabulary: Mapping[str, int]) -> None:
        self.eos, self.unknown = vocabulary.get(EOS), required(vocabulary, UNKNOWN)
        self._tokenizer = tokenizer
        self._name_of = sorted(vocabulary, key=vocabulary.__getitem__)

    def encode(self, text: str) -> Ids:
        return subwords.encoded(self._tokenizer, text)

    def encode_chunks(self, chunks: bytes) -> tuple[Ids, NDArray[np.int64]]:
        return subwords.encoded_chunks(self._tokenizer, chunks)

    def decode(self, ids: Ids) -> str:
        """One space between words, none at the ends of a line."""
        return "".join(self.spell(ids.tolist()))

    def spell(self, ids: Iterable[int]) -> Iterator[str]:
        started = False  # whether the line has any text yet
        for id in ids:
            text = self.token(id)
            yield text if started else text.removeprefix(" ")
            started = text != "\n"

    def token(self, id: int) -> str:
        """ " cat" begins a word, "at" continues it, as for bpe."""
        name = self._name_of[id]
        if name == "\n" or id == self.eos:
            return "\n"
        return name.removeprefix(_CONTINUES) if name.startswith(_CONTINUES) else f" {name}"

    def unseen(self, text: str) -> list[str]:
        words = sorted(set(_WORD.findall(text)) - {UNKNOWN})
        with refusing("the tokenizer cannot encode this text"):
            encodings = self._tokenizer.encode_batch_fast(words, add_special_tokens=False)
        return [word for word, encoding in zip(words, encodings, strict=True) if self.unknown in encoding.ids]

    def spelling(self, special: Collection[int]) -> Spelling:
        """The spelling within one line: a word after a newline has no space before it."""
        tokens = ["" if id in special or name == "\n" else self.token(id) for id, name in enumerate(self._name_of)]
        spelled = tuple(token.encode() for token in tokens)
        return Spelling(spelled, spelled_by(spelled), drops_space=True)


def _alphabet(words: Mapping[str, int], least: int, room: int) -> list[str]:
    counts: Counter[str] = Counter()
    for word, count in words.items():
        for character in word:
            counts[character] += count
    ranked = sorted(counts, key=lambda character: (-counts[character], character))
    return sorted(character for character in ranked[:room] if counts[character] >= least)


def _teaches(word: str, known: set[str]) -> bool:
    """True if pieces are learned from a word: not from one that is <unk>, nor from one that begins like <eos> or <unk>."""
    return len(word) <= _LONGEST and known.issuperset(word) and not word.startswith((EOS, UNKNOWN))


def _repeated(words: Mapping[str, int]) -> Iterator[str]:
    """Each word as often as it occurs."""
    for word, count in words.items():
        for done in range(0, count, _BATCH):
            yield " ".join([word] * min(_BATCH, count - done))


WORDPIECE = TokenizerKind(
    "wordpiece", ("WordPiece", "Sequence", None), "dropped", build, lambda tokenizer: WordPieces(tokenizer, tokenizer.get_vocab())
)
