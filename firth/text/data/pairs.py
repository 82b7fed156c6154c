"""Sentence pairs for sequence-to-sequence models: read or generated, split, tokenised; long pairs are left out of training."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from firth.errors import ConfigError, DataError
from firth.progress import Progress, reported, silent
from firth.text.batches.pairs import Pairs
from firth.text.config import PairsConfig, TokenizerConfig
from firth.text.conversation import Conversation, QuestionFacts, history_text
from firth.text.data.lengths import left_out
from firth.text.data.sentence_pairs import PairReader, SentencePair, pair_paths, sentence
from firth.text.data_set import DATA_SETS, Part
from firth.text.fingerprint import sha256_of_texts
from firth.text.holdout import SplitData, held_out
from firth.text.readers.pieces import pieces_of_texts
from firth.text.tokenizers.special_tokens import Ids
from firth.text.tokenizers.tokenizer import Tokenizer

Tokenizers = tuple[Tokenizer, Tokenizer]  # source and target; the same one twice if the vocabulary is joint


@dataclass(frozen=True, kw_only=True)
class PairData(SplitData[Pairs]):
    """The data of a sequence-to-sequence run; `tokenizer` is that of the target."""

    source_tokenizer: Tokenizer  # the same if the vocabulary is joint


def prepare_pairs(
    data: PairsConfig,
    tokenizer: TokenizerConfig | Tokenizers,
    limit: int | None = None,
    progress: Progress = silent,
    *,
    all_texts: bool = False,
) -> PairData:
    """Read, split, tokenise.

    Without validation pairs, `data.valid` of the pairs are held out: the end of a shuffle that depends on their number alone,
    so that runs with different seeds are compared on the same pairs. Pairs with the same source stay together: a held-out
    sentence never occurs in training, not even with another translation. The vocabularies are learned from the training part
    alone (characters also from the held-out part, as for running text). Pairs of more than `limit` tokens on a side, <eos> not
    counted, are left out of training, but not of validation and test. Those two keep their sentences as text, for evaluation;
    with `all_texts` the training pairs do so too.
    """
    if limit is not None and limit < 1:
        raise ConfigError(f"a limit of {limit} tokens leaves no sentence pair; expected at least 1")
    whole, valid, test = _parts(data, progress)
    train = whole
    if valid is None and data.valid:
        train, valid = held_out(whole, data.valid, "pairs", lambda pair: pair.source)
    if isinstance(tokenizer, TokenizerConfig):
        known = tokenizer.learns_from(train, valid)
        if test is not None and data.name is not None and DATA_SETS[data.name].known_characters:
            known += test
        tokenizer = _learned(tokenizer, known)
    encoded = _encoded(train, tokenizer, progress)
    kept = _within(encoded, limit)
    texts = ((train[n].source, train[n].target) for n in kept) if all_texts else None
    return PairData(
        source_tokenizer=tokenizer[0],
        tokenizer=tokenizer[1],
        train=Pairs.of([encoded[0][n] for n in kept], [encoded[1][n] for n in kept], texts, start=_start(tokenizer)),
        valid=None if valid is None else _with_texts(valid, tokenizer, progress),
        test=None if test is None else _with_texts(test, tokenizer, progress),
        sha256=sha256_of_texts((pair.source, pair.target) for pair in whole),
        notice=left_out(len(train), len(kept), "training pairs", f"{limit} tokens on a side"),
    )


def encode_pairs(
    path: str | Path, target_path: str | Path | None, tokenizers: Tokenizers, data: PairsConfig, progress: Progress = silent
) -> Pairs:
    """The pairs of another file, or two, read with the settings of a run."""
    target = None if target_path is None else str(target_path)
    return _with_texts(PairReader.of(data).read(str(path), target, progress), tokenizers, progress)


def encode_source(text: str, tokenizer: Tokenizer, data: PairsConfig) -> Ids:
    """The encoder's input for a line of text, <eos> included."""
    return ended(sentence(text, data), tokenizer)


def encode_target(text: str, tokenizer: Tokenizer, data: PairsConfig) -> Ids:
    """The tokens that the decoder writes for a line of text, <eos> last."""
    return ended(sentence(text, data), tokenizer, target=True)


def _parts(
    data: PairsConfig, progress: Progress
) -> tuple[list[SentencePair], list[SentencePair] | None, list[SentencePair] | None]:
    """Training, validation and test; None for the latter two if there is nothing to read them from."""
    reader, paths = PairReader.of(data), pair_paths(data, progress)

    def read(part: Part) -> list[SentencePair] | None:
        return reader.read(*paths[part], progress) if part in paths else _generated(data, part, progress)

    whole = read("train")
    assert whole is not None
    return whole, read("valid"), read("test")


def _generated(data: PairsConfig, part: Part, progress: Progress) -> list[SentencePair] | None:
    made = None if data.name is None else DATA_SETS[data.name]
    if made is None or made.generate is None or part not in made.generated_parts:
        return None
    for key in ("source", "target", "split"):
        if getattr(data, key) is not None:
            raise ConfigError(f"data.{key} is {getattr(data, key)!r}, but {data.name} has its own sides. Remove it.")
    examples = made.generate(data, part, progress)
    if made.holds == "conversations":
        return [pair for one in examples for pair in _answers(one, data)]
    return [_normalized(where, source, target, data) for where, (source, target) in examples]


def _normalized(where: str, source: str, target: str, data: PairsConfig) -> SentencePair:
    return SentencePair(where, sentence(source, data), sentence(target, data))


def _answers(conversation: Conversation, data: PairsConfig) -> Iterator[SentencePair]:
    """Each answer of a conversation, with everything before it as its source."""
    for place, asked in zip(conversation.answers, QuestionFacts.of(conversation), strict=True):
        source = history_text(conversation.messages[:place])
        pair = _normalized(conversation.where, source, conversation.messages[place].content, data)
        yield pair._replace(asked=asked)


def _learned(config: TokenizerConfig, pairs: Sequence[SentencePair]) -> Tokenizers:
    documents = max(2, len(pairs))  # more than one, so that there is an <eos>
    sources, targets = [pair.source for pair in pairs], [pair.target for pair in pairs]
    if config.joint:
        both = _train(config, sources + targets, 2 * documents)
        return both, both
    return _train(config, sources, documents), _train(config, targets, documents)


def _train(config: TokenizerConfig, texts: Iterable[str], documents: int) -> Tokenizer:
    return Tokenizer.train(config, pieces_of_texts(texts), documents)


def _encoded(pairs: Sequence[SentencePair], tokenizers: Tokenizers, progress: Progress) -> tuple[list[Ids], list[Ids]]:
    sources, targets = [], []
    for pair in reported(pairs, "encoding", progress):
        try:
            sources.append(ended(pair.source, tokenizers[0]))
            targets.append(ended(pair.target, tokenizers[1], target=True))
        except DataError as error:
            raise DataError(f"{pair.where}: {error.marked}") from error
    return sources, targets


def ended(text: str, tokenizer: Tokenizer, *, target: bool = False) -> Ids:
    """The ids of a sentence and <eos>, with the special tokens that an imported tokenizer puts around a source or a target."""
    before, behind = tokenizer.around_sentence(target)
    return np.concatenate((before, tokenizer.encode(text), behind)).astype(tokenizer.dtype)


def _within(encoded: tuple[list[Ids], list[Ids]], limit: int | None) -> Sequence[int]:
    """The pairs of at most `limit` tokens on each side, <eos> not counted."""
    if limit is None:
        return range(len(encoded[0]))
    return [n for n, ids in enumerate(zip(*encoded, strict=True)) if max(map(len, ids)) <= limit + 1]


def _with_texts(pairs: Sequence[SentencePair], tokenizers: Tokenizers, progress: Progress) -> Pairs:
    texts, asked = ((pair.source, pair.target) for pair in pairs), tuple(pair.asked for pair in pairs if pair.asked is not None)
    return Pairs.of(*_encoded(pairs, tokenizers, progress), texts=texts, asked=asked or None, start=_start(tokenizers))


def _start(tokenizers: Tokenizers) -> int:
    """The decoder's first input."""
    return tokenizers[1].decoder.start
