"""A trained sequence-to-sequence model with both its tokenizers: texts in; translations, alignments and metrics out."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch

from firth.decoding.config import DecodingConfig
from firth.decoding.search.beam import Hypothesis
from firth.decoding.search.considered import Note
from firth.errors import ConfigError, DataError
from firth.evaluation.translation import Written
from firth.inspection.alignment import Alignment, alignment
from firth.inspection.beam_tree import BeamRecorder, BeamTree
from firth.models import ConditionalDecoder
from firth.progress import Progress, silent
from firth.tasks.abilities.conditional_search import SearchedText, line_of, search
from firth.tasks.abilities.unseen_words import warn_unseen
from firth.tasks.task import Tables, Tokenizers
from firth.text.batches.padding import Ints
from firth.text.batches.pairs import Pairs, packed
from firth.text.config import PairsConfig
from firth.text.data.pairs import encode_source, encode_target
from firth.text.data.sentence_pairs import sentence, target_language
from firth.text.tokenizers.special_tokens import Ids
from firth.training.distributed import all_merged, mine

_AT_ONCE = {"cpu": 64, "cuda": 512}  # sentences written together
_CELLS = {"cpu": 4096, "cuda": 32_768}  # and tokens of theirs, padding included


class Translation(SearchedText):
    """A translation of a text."""


@dataclass(frozen=True)
class Translator:
    """A sequence-to-sequence model with both its tokenizers."""

    network: ConditionalDecoder
    tokenizers: Tokenizers
    recipe: Tables[PairsConfig, Any]

    def translate(
        self, texts: Sequence[str], config: DecodingConfig, *, sample: bool = False, first: int = 0, progress: Progress = silent
    ) -> list[list[Translation]]:
        """The translations of each text, best first: config.beam of them, or one. `first` is the number of the first text, on
        which sampling depends. A text of white space alone has an empty translation."""
        encoded = list(self._encoded(texts))
        return self.write(encoded, config, sample=sample, first=first, progress=progress)

    def write(
        self, encoded: Sequence[Ids], config: DecodingConfig, *, sample: bool = False, first: int = 0, progress: Progress = silent
    ) -> list[list[Translation]]:
        """The translations of encoded sources; an empty source, or special tokens alone, has an empty translation."""
        length_N = np.array([len(ids) for ids in encoded], dtype=np.int64)
        translations_of: dict[int, list[Translation]] = {}
        order = np.argsort(-length_N, kind="stable")
        done = int((length_N <= self._specials).sum())
        was_training = self.network.training
        self.network.eval()
        device = next(self.network.parameters()).device.type
        for number, row_B in enumerate(_batches(order[: len(order) - done], length_N, device)):
            if mine(number):
                tick = partial(progress, "translating", done, len(encoded))
                search = self._search(config, sample, [first + int(row) for row in row_B], tick=tick)
                for row, hypotheses in zip(row_B.tolist(), search([encoded[row] for row in row_B]), strict=True):
                    translations_of[row] = [self._told(hypothesis) for hypothesis in hypotheses]
            done += len(row_B)
            progress("translating", done, len(encoded))
        self.network.train(was_training)
        translations_of = all_merged(translations_of)
        return [translations_of.get(row, [Translation("", 0.0, 0.0)]) for row in range(len(encoded))]

    def written(self, pairs: Pairs, config: DecodingConfig, progress: Progress = silent) -> Written:
        """The best translation of each source beside its target."""
        assert pairs.texts is not None
        starts = pairs.source_starts
        encoded = [pairs.source_ids[starts[n] : starts[n + 1]] for n in range(len(pairs))]
        best = [candidates[0].text for candidates in self.write(self._cut(encoded), config, progress=progress)]
        too_long = int((pairs.target_length_N > config.tokens).sum())
        if too_long:
            warnings.warn(
                f"{too_long:,} of {len(pairs):,} reference translations are longer than decoding.tokens = {config.tokens}, "
                "where every translation is cut off. Raise it.",
                stacklevel=2,
            )
        return Written(
            hypotheses=best,
            references=[target for _, target in pairs.texts],
            lengths=(pairs.source_length_N - 1).tolist(),
            sources=[source for source, _ in pairs.texts],
            asked=pairs.asked,
            lower=self.recipe.data.lower,
            language=target_language(self.recipe.data),
            summaries=getattr(self.recipe.objective, "rouge", False),
        )

    def align(self, source: str, target: str | None, config: DecodingConfig) -> Alignment:
        """The source words behind each word of `target`, by default the best translation."""
        source_S = self._some_tokens(source)
        data, tokenizer = self.recipe.data, self.tokenizers[1]
        target_T = self.best(source_S, config) if target is None else encode_target(target, tokenizer, data).astype(np.int64)
        pieces = ([side.token(int(id)) for id in ids] for side, ids in zip(self.tokenizers, (source_S, target_T), strict=True))
        merged, start = tokenizer.joins_pieces, tokenizer.decoder.start
        return alignment(self.network, source_S, target_T, *pieces, merged=merged, start=start)

    def beam_tree(self, source: str, config: DecodingConfig) -> BeamTree:
        """The beam search that translates `source`, with everything that it considered."""
        if config.beam == 1:
            raise ConfigError("decoding.beam is 1, which is greedy decoding and has no tree. Use a beam of at least 2")
        source_S, tokenizer = self._some_tokens(source), self.tokenizers[1]

        def spell(tokens: Sequence[int]) -> str:
            return line_of(tokens[:-1] if tokens[-1] == tokenizer.eos else tokens, tokenizer)

        recorder = BeamRecorder(config, spell, tokenizer.token)
        (hypotheses,) = self._search(config, False, [0], recorder)([source_S])
        return recorder.tree(hypotheses)

    def _some_tokens(self, source: str) -> Any:
        source_S = next(self._encoded([source])).astype(np.int64)
        if len(source_S) <= self._specials:
            raise DataError(f"the source is {source!r}, which has no tokens; expected at least one word")
        return source_S

    def best(self, source_S: Ids, config: DecodingConfig) -> Any:
        hypothesis = self._search(config, False, [0])([source_S])[0][0]
        end = () if hypothesis.finished else (self.tokenizers[1].eos,)
        return np.array((*hypothesis.tokens, *end), dtype=np.int64)

    def _search(
        self,
        config: DecodingConfig,
        sample: bool,
        numbers: Sequence[int],
        note: Note | None = None,
        tick: Callable[[], None] | None = None,
    ) -> Callable[[Sequence[Ids]], list[list[Hypothesis]]]:
        def found(encoded: Sequence[Ids]) -> list[list[Hypothesis]]:
            device, end = next(self.network.parameters()).device, self.tokenizers[1].eos
            assert end is not None
            source_BS, length_B = (part.to(device) for part in _padded(encoded))
            encode = partial(self.network.encode, source_BS, length_B)
            tokens, longest = self.tokenizers[1].decoder, self._longest()
            more: dict[str, Any] = {"sample": sample, "longest": longest, "note": note, "tick": tick}
            return search(self.network, encode, config, numbers, end, tokens, **more)

        return found

    def _encoded(self, texts: Sequence[str]) -> Iterator[Ids]:
        tokenizer, data = self.tokenizers[0], self.recipe.data
        unseen: dict[str, None] = {}
        sources = []
        for text in texts:
            line = sentence(text, data)
            strange = tokenizer.unseen(line)
            unseen |= dict.fromkeys(strange)
            if strange and tokenizer.unknown is None:  # characters; words and pieces have an <unk>, or spell anything
                line = sentence("".join(character for character in line if character not in set(strange)), data)
            sources.append(encode_source(line, tokenizer, data))
        warn_unseen(unseen, "left out" if tokenizer.unknown is None else "read as <unk>")
        yield from self._cut(sources)

    def _cut(self, encoded: Sequence[Ids]) -> list[Ids]:
        """A source longer than the learned positions is truncated, with a warning."""
        longest = self._longest()
        if longest is None:
            return list(encoded)
        cut = sum(len(ids) > longest for ids in encoded)
        if cut:
            warnings.warn(
                f"{cut:,} of {len(encoded):,} sources have more than {longest - 1} tokens, the size of this model's position "
                "table; they are truncated",
                stacklevel=5,
            )
        kept = len(self.tokenizers[0].around_sentence(target=False)[1])  # <eos>, and perhaps a language
        return [ids if len(ids) <= longest else np.append(ids[: longest - kept], ids[-kept:]) for ids in encoded]

    @property
    def _specials(self) -> int:
        """The tokens of an empty source: <eos>, and what an imported model expects before a text."""
        return sum(map(len, self.tokenizers[0].around_sentence(target=False)))

    def _longest(self) -> int | None:
        """The most tokens of a source or a translation, <eos> included, that this model has positions for; None: no limit."""
        return self.recipe.model.longest_side

    def _told(self, hypothesis: Hypothesis) -> Translation:
        return Translation.of(hypothesis, self.tokenizers[1])


def _batches(order: Ints, length_N: Ints, device: str) -> Iterator[Ints]:
    most = _AT_ONCE.get(device, _AT_ONCE["cpu"])
    for row_B in packed(order, length_N, _CELLS.get(device, _CELLS["cpu"])):
        for first in range(0, len(row_B), most):
            yield row_B[first : first + most]


def _padded(encoded: Sequence[Ids]) -> tuple[torch.Tensor, torch.Tensor]:
    length_B = np.array([len(ids) for ids in encoded], dtype=np.int64)
    source_BS = np.zeros((len(encoded), length_B.max()), dtype=np.int64)
    for row, ids in enumerate(encoded):
        source_BS[row, : len(ids)] = ids
    return torch.from_numpy(source_BS), torch.from_numpy(length_B)
