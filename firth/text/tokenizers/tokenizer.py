"""Text ↔ token ids. A `Tokenizer` is saved as a Hugging Face tokenizer.json, which holds everything about it."""

from __future__ import annotations

import copy
import dataclasses
import functools
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tokenizers

from firth.errors import ConfigError, DataError, option
from firth.text.config import Kind, TokenizerConfig
from firth.text.readers.pieces import Piece
from firth.text.tokenizers.byte_pairs import BPE
from firth.text.tokenizers.characters import CHAR
from firth.text.tokenizers.imported import ENDS, IMPORTED, ImportedCodec
from firth.text.tokenizers.kind import Codec, Spaces, TokenizerKind, TrainingText
from firth.text.tokenizers.languages import Around, Languages, language_ids
from firth.text.tokenizers.special_tokens import DECODER, END, EOS, MARKERS, START, UNKNOWN, DecoderTokens, Ids
from firth.text.tokenizers.spelling import Spelling
from firth.text.tokenizers.subwords import with_entries
from firth.text.tokenizers.tokenizer_json import panics_held, parsed, refusing, try_out
from firth.text.tokenizers.unigrams import UNIGRAM
from firth.text.tokenizers.word_pieces import WORDPIECE
from firth.text.tokenizers.words import WORD

_CONTEXT = 8  # tokens before a text that may decide how its first token is spelled
KINDS = (CHAR, WORD, BPE, WORDPIECE, UNIGRAM, IMPORTED)


class Tokenizer:
    """A tokenizer of any kind. Train one with `Tokenizer.train`, or load it with `Tokenizer.from_json`."""

    def __init__(
        self,
        tokenizer: tokenizers.Tokenizer,
        imported: ImportedCodec | None = None,
        vocab: int | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        self._json = tokenizer.to_str()
        self._kind = IMPORTED if imported else _kind(json.loads(self._json))
        self._codec: Codec = imported or self._kind.codec(tokenizer)
        self.vocab: int = vocab or tokenizer.get_vocab_size()
        self.settings = dict(settings or {})  # tokenizer_config.json of an imported tokenizer: special tokens, chat template
        # the special tokens that an imported tokenizer puts before and after every text
        self.begin, self.end = (imported.begin, imported.end) if imported else ((), ())
        # the special tokens of an imported tokenizer by id, and those of the languages of a multilingual translator
        self.special = imported.special if imported else {}
        self.languages = Languages.of(language_ids(self.special), self.settings)
        self._surround_source()
        self.start = tokenizer.token_to_id(START) if self.spaces == "tokens" else None  # of a language model over characters
        if self.start is not None:
            self.begin = (self.start,)
        self.between = imported.between if imported else ()  # those between two texts that are read as one
        # the ids of an imported tokenizer's own mask and padding tokens
        self.mask = _special(tokenizer, self.settings, "mask_token", "[MASK]", "<mask>") if imported else None
        self.padding = _special(tokenizer, self.settings, "pad_token", "[PAD]", "<pad>") if imported else None
        markers = {name: id for name in MARKERS if (id := tokenizer.token_to_id(name)) is not None}
        self.markers = markers if len(markers) == len(MARKERS) else {}  # running text may have a word <end>
        self.dtype: type[np.unsignedinteger[Any]] = np.uint16 if self.vocab <= 1 << 16 else np.uint32

    @classmethod
    def train(
        cls,
        config: TokenizerConfig,
        pieces: Iterable[Piece],
        documents: int,
        counts: Mapping[str, int] | None = None,
        also: Sequence[str] = (),
        markers: Sequence[str] = (),
    ) -> Tokenizer:
        """Learn a vocabulary. With more than one document, <eos> ends each; a "word" tokenizer always has one, for every line.

        With `counts` of the characters, a "char" tokenizer does not read `pieces`. A "word" tokenizer adds the words `also` to
        those of the text, as far as config.vocab allows. `markers` are further tokens that are not text; config.vocab includes
        them.
        """
        kind = next(kind for kind in KINDS if kind.name == config.kind)
        if config.vocab is not None and markers:
            config = dataclasses.replace(config, vocab=config.vocab - len(markers))
        trained = kind.train(config, TrainingText(pieces, documents, counts, also))
        return cls(with_entries(trained, markers) if markers else trained)

    @classmethod
    def from_json(cls, text: str) -> Tokenizer:
        return cls(parsed(text))

    @classmethod
    def imported(cls, text: str, settings: Mapping[str, Any], vocab: int) -> Tokenizer:
        """The tokenizer.json of a public model, whose embedding has `vocab` rows. `settings` is its tokenizer_config.json, whose
        eos_token ends a text."""
        tokenizer = parsed(text, rows=vocab)
        _check_decoder(settings.get(DECODER), vocab)
        given = settings.get("eos_token")
        eos = given.get("content") if isinstance(given, Mapping) else given
        if eos is not None and not isinstance(eos, str):
            raise DataError(f"eos_token in tokenizer_config.json is {str(eos)[:40]}; expected a token. Correct it.")
        if eos is not None and tokenizer.token_to_id(eos) is None:
            raise DataError(f'the tokenizer has no token "{eos}", which ends a text. Correct eos_token in tokenizer_config.json.')
        with refusing("tokenizer.json cannot encode a text"), panics_held():
            codec = ImportedCodec(tokenizer, None if eos is None else tokenizer.token_to_id(eos))
            try_out(tokenizer)
        if (highest := max((*codec.begin, *codec.end, *codec.between), default=0)) >= vocab:
            raise DataError(f"tokenizer.json puts the token {highest:,} around texts, but the embedding has {vocab:,} rows.")
        return cls(tokenizer, codec, vocab, settings)

    def __reduce__(self) -> tuple[Callable[..., Tokenizer], tuple[Any, ...]]:
        """For another process: as the files that it is saved as."""
        if self.kind == "imported":
            return Tokenizer.imported, (self._json, self.settings, self.vocab)
        return Tokenizer.from_json, (self._json,)

    def to_json(self) -> str:
        return self._json

    def settings_json(self) -> str | None:
        """tokenizer_config.json of an imported tokenizer."""
        return json.dumps(self.settings, ensure_ascii=False, indent=2) if self.kind == "imported" else None

    @property
    def kind(self) -> Kind:
        return self._kind.name

    @property
    def whole_words(self) -> bool:
        """True if every token is a word, and a newline is <eos>."""
        return self._kind.whole_words

    @property
    def joins_pieces(self) -> bool:
        """True if words are shown joined from their tokens; characters are shown one by one."""
        return not self.whole_words and self.spaces != "tokens"

    def in_languages(self, source: str | None, target: str | None) -> Tokenizer:
        """The same tokenizer for these languages of a multilingual translator; None leaves one as it is."""
        if self.languages is None:
            raise ConfigError(
                f"this model has no tokens of languages. Remove {option('source_language', '--from')} and "
                f"{option('target_language', '--to')}."
            )
        tokenizer = copy.copy(self)
        tokenizer.languages = self.languages.chosen(source, target)
        tokenizer.settings = {**self.settings, **tokenizer.languages.settings()}
        tokenizer._surround_source()
        return tokenizer

    def _surround_source(self) -> None:
        if self.languages is not None and self.languages.source is not None and self.eos is not None:
            self.begin, self.end = self.languages.around_source(self.eos)

    def around_sentence(self, target: bool) -> Around:
        """The tokens before and behind a source or a target of an encoder–decoder; <eos> is always behind it."""
        if self.eos is None:
            raise DataError("this tokenizer has no <eos> to end a sentence; expected one trained on sentence pairs")
        if self.languages is not None:
            return self.languages.around_target(self.eos) if target else self.languages.around_source(self.eos)
        return self.begin, (self.eos,)

    @property
    def prefix_ids(self) -> Ids:
        """`begin` as ids: what an imported model expects before every text, or <start>; empty for the other kinds."""
        return np.array(self.begin, self.dtype)

    def surrounded(self, ids: Ids) -> Ids:
        """The tokens of a text between the special tokens that an imported model expects around it."""
        return np.concatenate((self.begin, ids, self.end)).astype(ids.dtype) if self.begin or self.end else ids

    @property
    def spaces(self) -> Spaces:
        """The tokens that the space between two words becomes."""
        if isinstance(self._codec, ImportedCodec):
            return "dropped" if self._codec.style == "word pieces" else "in the next token"
        return self._kind.spaces

    @property
    def sha256(self) -> str:
        ends = f"{self.eos}" if self.settings else ""  # the end of a document, which an imported tokenizer.json does not name
        return hashlib.sha256(f"{self._json}{ends}".encode()).hexdigest()

    @property
    def eos(self) -> int | None:
        return self._codec.eos

    @property
    def ends(self) -> tuple[int, ...]:
        """The tokens at which generated text ends: <eos>, and others that an imported model lists."""
        return tuple(dict.fromkeys(id for id in (self.eos, *self.settings.get(ENDS, ())) if id is not None))

    @property
    def decoder(self) -> DecoderTokens:
        """The tokens that a decoder begins with: <eos>, unless an imported encoder–decoder has others."""
        tokens = self.decoder_without_language
        return tokens if self.languages is None else self.languages.decoder(tokens)

    @property
    def decoder_without_language(self) -> DecoderTokens:
        """The special tokens of the decoder, without the target language of a multilingual translator."""
        given = self.settings.get(DECODER)
        if given is not None:
            return DecoderTokens(given["start"], given.get("first"), tuple(given.get("banned", ())))
        if self.eos is None:
            raise DataError("this tokenizer has no <eos> to end a sentence; expected one trained on sentence pairs")
        return DecoderTokens(self.eos)

    @property
    def eos_name(self) -> str | None:
        """The token that ends a text, as the vocabulary spells it."""
        return None if self.eos is None else self.names()[self.eos]

    def id_of(self, name: str | None) -> int | None:
        """The id of a token as the vocabulary spells it."""
        id: int | None = None if name is None else tokenizers.Tokenizer.from_str(self._json).token_to_id(name)
        return id

    @property
    def unknown_name(self) -> str | None:
        return None if self.unknown is None else self.names()[self.unknown]

    def names(self) -> dict[int, str]:
        """The tokens by id, as the vocabulary spells them."""
        return {id: name for name, id in tokenizers.Tokenizer.from_str(self._json).get_vocab().items()}

    @property
    def end_of_message(self) -> int | None:
        """The id of <end>, where the tokenizer is one of conversations."""
        return self.markers.get(END)

    @property
    def unknown(self) -> int | None:
        """The id of <unk>, if there is one."""
        return self._codec.unknown

    @property
    def lossless(self) -> bool:
        """decode(encode(x)) == x for every x that can be encoded at all."""
        return self._codec.lossless

    def encode(self, text: str) -> Ids:
        """Ids in the smallest unsigned type. A character outside the vocabulary is a DataError, unless there is <unk>."""
        return self._codec.encode(text).astype(self.dtype)

    def encode_pieces(self, pieces: Iterable[Piece]) -> Ids:
        """The ids of all pieces, with <eos> at the end of each document."""
        parts = [np.zeros(0, self.dtype)]
        for piece in pieces:
            parts.append(self.encode(piece.text))
            if self._ended(piece):
                parts.append(np.array([self.eos], self.dtype))
        return np.concatenate(parts)

    def piece_encoders(self) -> Callable[[], Callable[[Sequence[Piece]], Ids]]:
        """Makes an `encode_pieces` for each thread, faster by far for much text, after a second or two of preparation; they
        share what they learn."""
        if self._codec.encode_chunks is None:
            return lambda: self.encode_pieces
        from firth.text.tokenizers.chunk_memo import ChunkMemo, SharedChunks

        shared, newline = SharedChunks(self._codec.encode_chunks), self.encode("\n")

        def new() -> Callable[[Sequence[Piece]], Ids]:
            memo = ChunkMemo(shared, newline, self.eos, self.dtype)
            return lambda pieces: memo.encode([(piece.text, self._ended(piece)) for piece in pieces])

        return new

    def _ended(self, piece: Piece) -> bool:
        """True if <eos> follows. For words a newline is already an <eos>; only a last line without one still needs it."""
        return piece.ends_document and self.eos is not None and not (self.whole_words and piece.text.endswith("\n"))

    def decode(self, ids: Sequence[int] | Ids) -> str:
        """<eos> reads as a newline; an unknown character as U+FFFD, an unknown word as <unk>."""
        return self._codec.decode(np.asarray(ids, np.int64))

    def spell(self, ids: Iterable[int]) -> Iterator[str]:
        """`decode` for ids that come one at a time: each text as soon as it is certain, "" while a character is incomplete."""
        return self._codec.spell(ids)

    def token(self, id: int) -> str:
        """One token as a person would write it: its text, <eos>, <unk>, a marker, or <0xE2> for bytes that are no text alone."""
        names = {id: name for name, id in self.markers.items()} | {self.eos: EOS, self.unknown: UNKNOWN, self.start: START}
        return names.get(id) or self._codec.token(id)

    def same_tokens(self, other: Tokenizer) -> bool:
        """True if every id means the same token in both."""
        if self._json == other._json:
            return True
        own, others = (tokenizers.Tokenizer.from_str(one.to_json()).get_vocab() for one in (self, other))
        return own == others

    @functools.cached_property
    def spelling(self) -> Spelling:
        """The bytes that each token adds to a text; see spelling.py."""
        special = {id for id in (self.eos, self.unknown, self.start, *self.ends, *self.markers.values()) if id is not None}
        spelling = self._codec.spelling(special)
        return dataclasses.replace(spelling, tokens=spelling.tokens + (b"",) * (self.vocab - len(spelling.tokens)))

    def before_gap(self, text: str) -> str:
        """The text before a gap: its last space belongs to the token in the gap, unless tokens are characters."""
        return text if self.spaces == "tokens" else text.rstrip(" ")

    def begins_text(self, before: Sequence[int]) -> bool:
        """True if a space with which a token begins is not shown after the tokens `before`."""
        if not self.spelling.drops_space:
            return False
        spaced = next((id for id, token in enumerate(self.spelling.tokens) if token[:1] == b" " and token[1:].isalpha()), None)
        if spaced is None:
            return False
        pieces = list(self.spell(iter([*before[-_CONTEXT:], spaced])))
        return not "".join(pieces[len(before[-_CONTEXT:]) :]).startswith(" ")

    def unseen(self, text: str) -> list[str]:
        """The distinct characters or words of `text` that are not in the vocabulary, sorted; none for bpe and unigram."""
        return self._codec.unseen(text)


def _check_decoder(given: Mapping[str, Any] | None, vocab: int) -> None:
    """Refuse tokens of DecoderTokens that the embedding has no rows for."""
    ids = () if given is None else (given["start"], given.get("first"), *given.get("banned", ()))
    for id in ids:
        if id is not None and not 0 <= id < vocab:
            raise DataError(
                f"the decoder settings name the token {id:,}, but the embedding has only {vocab:,} rows. "
                "Correct decoder_start_token_id, forced_bos_token_id or bad_words_ids."
            )


def _special(tokenizer: tokenizers.Tokenizer, settings: Mapping[str, Any], role: str, *usual: str) -> int | None:
    """The id of the token that has this role in tokenizer_config.json, or of one of its usual names."""
    given = settings.get(role)
    named = given.get("content") if isinstance(given, Mapping) else given
    ids = (tokenizer.token_to_id(name) for name in (named, *usual) if isinstance(name, str))
    return next((id for id in ids if id is not None), None)


def _kind(table: Mapping[str, Any]) -> TokenizerKind:
    """Recognised by the structure: the model, and how its pre-tokenizer splits."""
    before = table["pre_tokenizer"] or {}
    structure = (table["model"]["type"], before.get("type"), before.get("behavior"))
    for kind in KINDS:
        if kind.structure == structure:
            return kind
    names = ", ".join(kind.name for kind in KINDS if kind is not IMPORTED)
    raise DataError(f"this tokenizer.json is not one of firth's kinds ({names}): its model is {structure[0]}")
