"""Denoising (Lewis et al. 2020, BART): x is a corrupted text and y the original; −log p(y_t | y_<t, x)."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from firth.decoding.search.beam import Hypothesis
from firth.errors import ConfigError, DataError
from firth.models import ConditionalDecoder, Seq2SeqConfig, seq2seq
from firth.progress import Progress, silent
from firth.tasks.abilities.completion import BLANK
from firth.tasks.abilities.contextual_vectors import refuse_longer
from firth.tasks.abilities.translator import Translation, Translator
from firth.tasks.ability import ON_TEXT, RESTORE
from firth.tasks.run import refuse_one_text
from firth.tasks.span_corruption import CorruptedTextRun, CorruptedTextTask
from firth.tasks.task import SEARCHES, TokenLossConfig
from firth.text.batches.denoising import Denoising, Noise
from firth.text.tokenizers.tokenizer import Tokenizer


@dataclass(frozen=True, kw_only=True)
class DenoisingConfig(TokenLossConfig):
    """Kinds of noise, which combine; `firth/text/batches/denoising.py` shows each. The defaults are the paper's best."""

    kind: Literal["denoising"] = "denoising"
    mask: float = 0.0  # share of the tokens to replace by one <mask> each
    delete: float = 0.0  # share of the tokens to delete
    infill: float = 0.3  # share of the tokens to cover with spans; each span becomes one <mask>
    length: float = 3.0  # mean length of these spans, in tokens (Poisson)
    permute: bool = True  # shuffle the sentences of a window
    rotate: bool = False  # let a window begin at a random token

    def __post_init__(self) -> None:
        shares = {"infill": self.infill, "mask": self.mask, "delete": self.delete}
        for name, share in shares.items():
            if not 0 <= share < 1:
                raise ConfigError(f"objective.{name} is {share}; expected 0 ≤ {name} < 1, for example 0.3")
        if sum(shares.values()) >= 1:
            given = " + ".join(f"{name} {share}" for name, share in shares.items() if share)
            raise ConfigError(f"the shares of the noises, {given}, leave no token. Lower them to a sum below 1.")
        if not self.length >= 1:
            raise ConfigError(f"objective.length is {self.length}; expected 1 or more, for example 3")
        if not any((*shares.values(), self.permute, self.rotate)):
            raise ConfigError("all noises are off, so there is nothing to restore. Set objective.infill, for example to 0.3.")


class Restorer(Translator):
    """A translator from corrupted to original text; no original has a <mask>."""

    def _told(self, hypothesis: Hypothesis) -> Translation:
        text = tuple(token for token in hypothesis.tokens if token < self.tokenizers[1].vocab)
        return super()._told(dataclasses.replace(hypothesis, tokens=text))


class DenoisingRun(CorruptedTextRun):
    def restore(
        self,
        texts: Sequence[str],
        *,
        beam: int | None = None,
        penalty: float | None = None,
        tokens: int | None = None,
        progress: Progress = silent,
    ) -> list[str]:
        """The original of each of the corrupted `texts`, as the model writes it. Each blank `__` becomes a <mask>, which stands
        for any number of tokens."""
        refuse_one_text("restore", texts)
        config = self.decoding({"beam": beam, "penalty": penalty, "tokens": tokens})
        encoded = [self._with_masks(text, f"text {number}") for number, text in enumerate(texts, 1)]
        restorer = Restorer(self.network, (self.tokenizer, self.tokenizer), self.recipe)
        beams = restorer.write(encoded, config, progress=lambda _, done, total: progress("restoring", done, total))
        return [hypotheses[0].text for hypotheses in beams]

    def _with_masks(self, text: str, name: str) -> NDArray[np.int64]:
        """The ids of a text with <mask> for each blank, and <eos>. A space before a blank belongs to what is missing."""
        *lefts, last = text.split(BLANK)
        pieces: list[NDArray[np.int64]] = []
        for left in lefts:
            pieces += [self._ids(self.tokenizer.before_gap(left)), np.array([self.tokenizer.vocab])]
        end = np.array([self.tokenizer.eos], dtype=np.int64)
        token_S = np.concatenate([*pieces, self._ids(last), end])
        if (token_S[:-1] == end).any():
            raise DataError(f"{name} has a line break, which this vocabulary reads as <eos>. Give each line as its own text.")
        refuse_longer(self.network, len(token_S), name)
        return token_S

    def _ids(self, text: str) -> NDArray[np.int64]:
        return self.ids(text) if text.strip(" ") else np.zeros(0, np.int64)


class DenoisingTask(CorruptedTextTask[DenoisingConfig]):
    name = "denoising"
    Objective = DenoisingConfig
    run_class = DenoisingRun
    noun = "a denoising model"
    can = (RESTORE, *ON_TEXT)
    uses = SEARCHES
    needs_eos = True
    targets = "the original windows, each with <eos>"

    def network(self, source_vocab: int, vocab: int) -> ConditionalDecoder:
        assert isinstance(self.recipe.model, Seq2SeqConfig)  # a recipe's family fits its objective
        return seq2seq(self.recipe.model, vocab + 1, vocab + 1)  # <mask>

    def corruption(self, tokenizer: Tokenizer, seed: int = 0) -> Denoising:
        objective = self.recipe.objective
        noise = Noise(**{field.name: getattr(objective, field.name) for field in dataclasses.fields(Noise)})
        return Denoising(tokenizer, self.recipe.training.context, noise, seed)
