"""A trained run: the network with its tokenizer and its recipe. `load` returns the subclass that the run's task defines."""

from __future__ import annotations

import dataclasses
from abc import ABC
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, NoReturn, Self, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from firth.decoding.config import FILTERS, DecodingConfig, setting_names
from firth.errors import ConfigError, DataError, did_you_mean
from firth.evaluation.by_text import JudgedTexts
from firth.inspection.attention import Attention, attention
from firth.inspection.inputs import Reading
from firth.inspection.predictions import Predictions
from firth.inspection.senses import Senses
from firth.inspection.states import States, states
from firth.inspection.walk import Walk, walk
from firth.interop.formats.gguf_quantised import GGUFQuantisation
from firth.layers.quantised import Quantisation
from firth.models import Network
from firth.models.precision import Precision
from firth.models.quantisation import Quantised, quantise
from firth.progress import Progress, silent
from firth.progress.display import followed, shows_progress
from firth.tasks.abilities import contextual_vectors, exporting
from firth.tasks.abilities.contextual_vectors import Array, Pooling, TextEncoder, TextPool
from firth.tasks.abilities.inspection_inputs import one_reading
from firth.tasks.abilities.unseen_words import warn_unseen
from firth.tasks.ability import ABILITIES, EMBED, PREDICT, Ability, WrongTask
from firth.tasks.splits import Split, check_split
from firth.tasks.task import SPECIAL, AnyTask
from firth.text.tokenizers.tokenizer import Tokenizer
from firth.training.config import Device
from firth.training.loop import device_for

Given = int | float | str | Sequence[str] | None  # the value of a setting of [decoding]; None: not given
N = TypeVar("N", bound=Network)
R = TypeVar("R", bound="Run[Any]")


class Run(ABC, Generic[N]):
    """A trained model with its tokenizer and recipe, and the methods that all runs have."""

    def __init__(self, task: AnyTask, network: N, tokenizer: Tokenizer, source_tokenizer: Tokenizer | None = None) -> None:
        self.task, self.network, self.tokenizer = task, network, tokenizer
        self.source_tokenizer = source_tokenizer or tokenizer
        self.device = next(network.parameters()).device
        network.eval()

    quantised: Quantised | None = None  # what `quantise` did
    path: Path | None = None  # the run folder; None for a public model that was not imported

    def quantise(self, kind: Quantisation) -> None:
        """Round the weights to `kind`, "int8" or "int4", in place: less memory, and fewer bytes to read for each token.
        `self.quantised` then tells how many. Such a model has no gradients and can neither be moved to another device nor
        exported."""
        self.quantised = quantise(self.network, kind)

    def to(self, device: Device) -> Self:
        """Move the run to `device`: "cpu", "cuda", "mps" or "auto" (a GPU if there is one). It returns the run itself."""
        where = device_for(device)
        if self.quantised is not None and where != self.device:
            raise ConfigError(f"quantised weights cannot be moved. Load the run again, on {where}.")
        self.network.to(where)
        self.device = next(self.network.parameters()).device
        return self

    def export(
        self,
        out: str | Path,
        format: str = "hf",
        *,
        license: str = "unknown",
        dtype: Precision | None = None,
        quantise: GGUFQuantisation | None = None,
        progress: Progress = silent,
    ) -> Path:
        """Write the run into the new folder `out` for other tools, and return that folder. A run that a format cannot express is
        refused with the reason.

        `format`: "hf" (Hugging Face: `transformers` computes the same logits), "onnx", "safetensors", "gguf" or "ctranslate2".
        `license`: that of the weights, for the model card. `dtype`: the type of the written weights, by default their own.
        `quantise`: for the matrices of a GGUF file, "q8_0", "q4_0" or "q4_k_m"."""
        folder = Path(out)
        exporting.check_export(folder, format, dtype, quantise)
        outgoing = exporting.outgoing_run(self, folder.resolve().name, license, dtype)
        return exporting.write(dataclasses.replace(outgoing, quantise=quantise, progress=progress), folder, format)

    def __repr__(self) -> str:
        facts = self._facts()
        of = f"{facts['parameters']} parameters, vocabulary {facts['vocabulary']}, {facts['device']}"
        return f"<{type(self).__name__}: {facts['task']}, {facts['model']}, {of}>"

    def _repr_html_(self) -> str:
        """A small table about the model, for notebooks."""
        from firth.figures.figure import Table

        return Table((type(self).__name__, ""), list(self._facts().items())).html()

    def _facts(self) -> dict[str, str]:
        model, weights = self.recipe.model, sum(one.numel() for one in self.network.parameters())
        return {
            "task": self.task.name,
            "model": f"{model.family}, {model.kind}",
            "parameters": f"{weights:,}",
            "vocabulary": f"{self.tokenizer.vocab:,}",
            "device": str(self.device),
        }

    @property
    def recipe(self) -> Any:
        """The run's recipe, resolved."""
        return self.task.recipe

    # Metrics

    @shows_progress
    def evaluate(
        self, path: str | Path | None = None, progress: Progress | bool = True, *, split: Split | None = None
    ) -> dict[str, object]:
        """Metrics on the data at `path`, or on the run's own `split`: by default test, validation or training, the first it has.

        The computation is in float32, however the run was trained."""
        progress = followed(progress)
        check_split(self.recipe.data, path, split)
        return self._evaluate(path, split, progress)

    def _evaluate(self, path: str | Path | None, split: Split | None, progress: Progress) -> dict[str, object]:
        """The metrics; runs with more arguments override `evaluate` instead."""
        raise NotImplementedError

    @shows_progress
    def by_text(
        self, path: str | Path | None = None, progress: Progress | bool = True, *, split: Split | None = None
    ) -> JudgedTexts | None:
        """The metrics of `evaluate` for each text, in a form that can be summed, as `firth.compare("runs")` needs them to test
        whether one run is better than another. None for tasks whose metrics are not sums over texts. `path` and `split` as for
        `evaluate`."""
        check_split(self.recipe.data, path, split)
        return self._by_text(path, split, followed(progress))

    def _by_text(self, path: str | Path | None, split: Split | None, progress: Progress) -> JudgedTexts | None:
        return None

    # Contextual vectors

    @overload
    def embed(
        self, texts: Sequence[str], *, layer: int = -1, pool: TextPool = "mean", progress: Progress | bool = True
    ) -> Array: ...

    @overload
    def embed(
        self, texts: Sequence[str], *, layer: int = -1, pool: Literal["words"] | None, progress: Progress | bool = True
    ) -> list[Array]: ...

    @shows_progress
    def embed(
        self, texts: Sequence[str], *, layer: int = -1, pool: Pooling | None = "mean", progress: Progress | bool = True
    ) -> Array | list[Array]:
        """Contextual vectors of `texts` as float32; for sentence pairs, of the source.

        `layer`: 0 is the embedding, 1 … depth the output of that layer; negative numbers count from the end. `pool`: "first",
        "last", "mean" or "max" over the tokens gives one row per text; "words" and None give one array per text, with a row per
        word (the mean of its pieces) or per token."""
        self.expect(EMBED)
        vectors: Array | list[Array] = contextual_vectors.embed(self._encoder(), texts, layer, pool, followed(progress))
        return vectors

    def senses(self, word: str, sentences: Sequence[str], *, layer: int = -1) -> Senses:
        """Cosines between the contextual vectors of a `word` in `sentences`, and with its static vector; `.figure()`, `.text()`.

        If a sentence contains the word several times, the first occurrence counts; "word#2" means the second."""
        return contextual_vectors.compare(self._encoder(), word, sentences, layer)

    @shows_progress
    def wic(self, folder: str | Path | None = None, progress: Progress | bool = True) -> dict[str, object]:
        """Word-in-context accuracy: does the cosine of a word's two vectors tell whether it has the same sense in two sentences?

        Layer and threshold are chosen on the training pairs; the result is that of the development pairs in `folder`, or of the
        data set "wic". See evaluation/wic.py."""
        progress = followed(progress)
        return contextual_vectors.wic(self._encoder(), folder, progress)

    def _encoder(self) -> TextEncoder:
        """The way to tokenise texts for `embed`."""
        return TextEncoder(self.network, self.tokenizer)

    # Inspection

    def attention(
        self,
        text: str,
        *,
        target: str | None = None,
        context: str | None = None,
        part: str | None = None,
        layers: Sequence[int] | None = None,
    ) -> Attention:
        """Attention weights over `text`, for every model with attention; `.weights(layer, heads, rows)`, `.figure()`, `.text()`.

        For a translator, `target` is the translation to inspect (default: its own), and `part` "cross", "encoder" or "decoder".
        For a question answerer, `text` is the question, and `context` the passage. `layers`: by default all of them."""
        return attention(self.reading(text, target, context), part, layers)

    def states(self, text: str, *, target: str | None = None, context: str | None = None) -> States:
        """Hidden states and gates of an RNN, LSTM or GRU after each token of `text`, by layer; `.figure()`, `.text()`.
        `target` and `context` as for `attention`."""
        return states(self.reading(text, target, context))

    def walk(self, text: str, *, target: str | None = None) -> Walk:
        """The whole forward pass of a language model or translator over `text`, as stages:
        `.stages[n].matrices(head)[k].lines(row, column)` goes from the model to one block, one matrix, and the sum that one of
        its numbers is. `target` as for `attention`."""
        return walk(self.reading(text, target), self.tokenizer.token)

    def predictions(self, text: str, *, target: str | None = None, top: int = 5) -> Predictions:
        """The `top` most probable tokens at each position, and the probability of the actual one; `.figure()`, `.text()`.
        A language model predicts `text`; a translator predicts `target`, by default its own translation."""
        raise self.refusal(PREDICT)

    def reading(self, text: str, target: str | None = None, context: str | None = None) -> Reading:
        """One forward pass over `text`, ready to be inspected: the tokens that the network sees, specials included."""
        self._refuse("target", target)
        self._refuse("context", context)
        if not text.strip():
            raise DataError("the text is empty; give at least one token")
        return self._reading(text)

    def _refuse(self, name: str, value: str | None) -> None:
        if value is not None:
            raise ConfigError(f"{name} is {value[:20]!r}, but this run is {self.task.noun}. Remove it.")

    def _reading(self, text: str) -> Reading:
        return one_reading(self.network, self.tokenizer, self._encoder().encode([text]).ids[0], self._forward)

    def _forward(self, *tokens: Any) -> Any:
        """One forward pass over token_1T and length_1, for `reading`: by default of the encoder."""
        encoder: Any = self.network.encoder
        return encoder(*tokens)

    # Helpers

    def ids(self, text: str) -> NDArray[np.int64]:
        """Token ids of `text`; characters that the vocabulary cannot spell are an error."""
        unseen = self.tokenizer.unseen(text)
        if unseen and self.tokenizer.unknown is None:
            shown = ", ".join(repr(character) for character in unseen[:5])
            raise DataError(
                f"the text contains {shown}, which is not in the vocabulary. Remove it, or train on text that has it."
            )
        warn_unseen(unseen)
        return self.tokenizer.encode(text).astype(np.int64)

    def expect_ids(self, ids: Sequence[int]) -> None:
        """Refuse numbers that are no tokens of the vocabulary."""
        strange = [id for id in ids if not 0 <= id < self.tokenizer.vocab]
        if strange:
            raise ConfigError(f"token id {strange[0]} is out of range; this model's ids are 0 … {self.tokenizer.vocab - 1:,}")

    def without_last_newline(self, text: str) -> str:
        """The text of a file or of standard input. Editors end a file with a newline, which is no part of the text where the
        vocabulary has none."""
        foreign = self.tokenizer.unknown is None and bool(self.tokenizer.unseen("\n"))
        return text.removesuffix("\n") if foreign else text

    def prefixed_ids(self, text: str) -> NDArray[np.int64]:
        """The ids of `text` after the special tokens that an imported model expects before it, or after <start>."""
        return np.concatenate((self.tokenizer.prefix_ids.astype(np.int64), self.ids(text)))

    def start_ids(self) -> NDArray[np.int64]:
        """The tokens before the first one of a text: the special tokens of an imported model, <start>, <eos>, or a newline. There
        are none if the vocabulary has none of them."""
        if len(self.tokenizer.prefix_ids):
            return self.tokenizer.prefix_ids.astype(np.int64)
        return self._between()

    def _between(self) -> NDArray[np.int64]:
        """The tokens between two texts: <eos>, or a newline."""
        if self.tokenizer.eos is not None:
            return np.asarray([self.tokenizer.eos], dtype=np.int64)
        if not self.tokenizer.unseen("\n"):
            return self.tokenizer.encode("\n").astype(np.int64)
        return np.zeros(0, dtype=np.int64)

    def end_ids(self) -> NDArray[np.int64]:
        """The tokens after the last one of a text: the special tokens of an imported model, <eos>, or a newline."""
        tokenizer = self.tokenizer
        if tokenizer.kind == "imported" and (tokenizer.begin or tokenizer.end):
            return np.array(tokenizer.end, np.int64)
        return self._between()

    def prompt_ids(self, prompt: str) -> NDArray[np.int64]:
        """The tokens that a generated text continues: those of the prompt, or of `start_ids`, with which every prompt of an
        imported model begins."""
        ids = self.prefixed_ids(prompt) if prompt else self.start_ids()
        if not len(ids):
            raise DataError("the prompt is empty, and the vocabulary has neither <eos> nor a newline. Give a prompt.")
        return ids

    def decoding(self, given: Mapping[str, object]) -> DecodingConfig:
        """The recipe's [decoding] with the settings that were given."""
        chosen: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
        known = DecodingConfig.__dataclass_fields__
        for name in chosen:
            if name not in known:
                raise ConfigError(f'[decoding] has no setting "{name}".{did_you_mean(name, known)}')
            if f"decoding.{name}" in SPECIAL and f"decoding.{name}" not in self.task.uses:
                raise ConfigError(f"{name} does not apply to {self.task.noun}. Remove it.")
        for name, value in chosen.items():
            if isinstance(known[name].default, tuple):
                chosen[name] = (value,) if isinstance(value, str) else tuple(value)
        config: DecodingConfig = dataclasses.replace(self.recipe.decoding, **chosen)
        for one in FILTERS:
            main, *others = setting_names(one)
            if not one.acts(config) and (idle := [name for name in others if name in chosen]):
                raise ConfigError(f"{idle[0]} only applies with {main}. Set {main}, or remove it.")
        return config

    # Abilities

    @property
    def abilities(self) -> tuple[Ability, ...]:
        """The abilities of this run: `[one.name for one in run.abilities]`."""
        return self.task.abilities(self._has_template)

    def refusal(self, lacking: Ability | str) -> WrongTask:
        """The error for this run where it lacks an ability or a method."""
        return self.task.refusal(lacking, self._has_template)

    @property
    def _has_template(self) -> bool:
        return has_template(self.tokenizer)

    @overload
    def expect(self, kind: type[R]) -> R: ...

    @overload
    def expect(self, kind: Ability) -> Any: ...

    def expect(self, kind: type[R] | Ability) -> Any:
        """This run as one of that class or with that ability, or an error that says what it can do."""
        self.task.expect(kind, self._has_template)
        return self

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            near = ""
            if not name.startswith("_") and "tokenizer" in vars(self):  # copy() asks objects that have no attributes yet
                if any(name in vars(kind) for kind in _subclasses(Run)):
                    raise self.refusal(next((one for one in ABILITIES if one.method == name), name))
                near = did_you_mean(name, (one.method for one in self.abilities), listed=False)
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}.{near}")


def has_template(tokenizer: Tokenizer) -> bool:
    """Is there a chat template in its tokenizer_config.json?"""
    return bool(tokenizer.settings.get("chat_template"))


def _subclasses(kind: type[Any]) -> list[type[Any]]:
    return [below for one in kind.__subclasses__() for below in (one, *_subclasses(one))]


def refuse_one_text(verb: str, texts: object) -> None:
    """A string is a sequence of strings, too."""
    if isinstance(texts, str):
        raise ConfigError(f"{verb} takes a list of texts. Write {verb}([{texts[:20]!r}]).")
