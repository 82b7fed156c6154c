"""Model: text in, text out."""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, overload

import numpy as np
import torch
from torch import Tensor

from firth.api import contextual_embedding as embedding
from firth.api import inspection_inputs as looking
from firth.api import tasks
from firth.api.completion import Completion, complete
from firth.api.contextual_embedding import Pooling, TextPool
from firth.api.fill_mask import Filling, fill
from firth.api.objectives import ABOUT, About
from firth.api.recipe import Recipe, Split, read_recipe
from firth.api.scoring import read_log_probabilities
from firth.api.tasks import Asked, answer, classification, span_corruption, tagging
from firth.api.tasks.answer import Answer
from firth.api.tasks.classification import Classification
from firth.api.tasks.tagging import Tags
from firth.api.tokenizers import read_tokenizers
from firth.api.translator import Translation, Translator
from firth.api.unseen_words import say_unseen
from firth.decoding.generate import generate
from firth.decoding.sample import DecodingConfig
from firth.errors import ConfigError, DataError
from firth.inspection.alignment import Alignment
from firth.inspection.attention import Attention, attention
from firth.inspection.gradient_flow import Flow
from firth.inspection.predictions import Predictions
from firth.inspection.senses import Senses
from firth.inspection.states import States, states
from firth.models import Classifier, LanguageModel, Network, Seq2Seq, SpanReader, network
from firth.models.tagger import Tagger
from firth.progress import silent
from firth.text import Progress, Tokenizer
from firth.training import checkpoint
from firth.training.config import Device
from firth.training.folder import RunFolder
from firth.training.loop import device_for


@dataclass(frozen=True)
class Score:
    """log p(text) in nats, over the `tokens` that were predicted."""

    tokens: int
    log_probability: float
    perplexity: float
    bits_per_character: float | None


class Model:
    """A trained model with its tokenizer. A language model has a next word, a classifier has classes, a model of sentence pairs
    translates; the methods that a model is not made for say so."""

    def __init__(self, network: Network, tokenizer: Tokenizer, recipe: Recipe, source_tokenizer: Tokenizer | None = None) -> None:
        self.network, self.tokenizer, self.recipe = network, tokenizer, recipe
        self.source_tokenizer = source_tokenizer or tokenizer  # of what is translated
        self.device = next(network.parameters()).device
        network.eval()

    @property
    def language(self) -> LanguageModel:
        """The network, where it is a language model."""
        if not isinstance(self.network, LanguageModel):
            raise ConfigError(f"this run {self._about.run}: it has no next word; {self._about.use}, or a run of a language model")
        return self.network

    @property
    def classifier(self) -> Classifier:
        """The network, where it is a classifier."""
        if not isinstance(self.network, Classifier):
            raise ConfigError(f"this run {self._about.run}: it has no classes; {self._about.use}, or a run of a classifier")
        return self.network

    @property
    def tagger(self) -> Tagger:
        """The network, where it is a tagger."""
        if not isinstance(self.network, Tagger):
            raise ConfigError(f"this run {self._about.run}: it has no tags; {self._about.use}, or a run of a tagger")
        return self.network

    @property
    def reader(self) -> SpanReader:
        """The network, where it finds answers in a text."""
        if not isinstance(self.network, SpanReader):
            raise ConfigError(f"this run {self._about.run}: it finds no answers; {self._about.use}, or a run of questions")
        return self.network

    @property
    def labels(self) -> tuple[str, ...]:
        """The classes of a classifier, in the order of its probabilities, or the tags of a tagger."""
        if self.recipe.data.labels is None:
            raise ConfigError(f"this run {self._about.run}: it has no classes; {self._about.use}, or a run of a classifier")
        return self.recipe.data.labels

    @property
    def translator(self) -> Translator:
        """The network with both its vocabularies, where it is one of sentence pairs."""
        if not isinstance(self.network, Seq2Seq) or self._about.reads != "sentence pairs":
            raise ConfigError(f"this run {self._about.run}: it does not translate; {self._about.use}, or a run of sentence pairs")
        return Translator(self.network, (self.source_tokenizer, self.tokenizer), self.recipe)

    @property
    def _about(self) -> About:
        return ABOUT[self.recipe.objective.kind]

    def translate(
        self,
        texts: Sequence[str],
        *,
        beam: int | None = None,
        penalty: float | None = None,
        sample: bool = False,
        tokens: int | None = None,
        temperature: float | None = None,
        top_k: int | None = None,
        top_p: float | None = None,
        seed: int | None = None,
        progress: Progress = silent,
    ) -> list[str]:
        """The translation of each text: the most probable that a beam finds, or with `sample` one that is drawn. What is not
        given comes from the recipe's [decoding]. `translations` tells more of them, and how probable they are."""
        given = {
            "beam": beam,
            "penalty": penalty,
            "tokens": tokens,
            "temperature": temperature,
            "top_k": top_k,
            "top_p": top_p,
            "seed": seed,
        }
        return [found[0].text for found in self.translations(texts, self.decoding(given), sample=sample, progress=progress)]

    def translations(
        self,
        texts: Sequence[str],
        config: DecodingConfig | None = None,
        *,
        sample: bool = False,
        first: int = 0,
        progress: Progress = silent,
    ) -> list[list[Translation]]:
        """For each text what its beam found, best first, each with log p and score; see Translator.translate."""
        if isinstance(texts, str):
            raise ConfigError(f"translate takes a list of texts; a single one was given; write translate([{texts[:20]!r}])")
        return self.translator.translate(texts, config or self.recipe.decoding, sample=sample, first=first, progress=progress)

    def classify(self, texts: Sequence[str]) -> list[Classification]:
        """The most probable class of each text, and the probability of every class."""
        if isinstance(texts, str):
            raise ConfigError(f"classify takes a list of texts; a single one was given; write classify([{texts[:20]!r}])")
        labels = self.labels
        return classification.classify(self.classifier, self.tokenizer, labels, texts)

    def tag(self, sentences: Sequence[str | Sequence[str]]) -> list[Tags]:
        """The most probable tag of each word of each sentence, and its probability. A sentence is a list of words, or a string
        that is split at white space: what a tagger was trained to see as a word ("do n't", a full stop) stands by itself."""
        if isinstance(sentences, str):
            raise ConfigError(f"tag takes a list of sentences; a single one was given; write tag([{sentences[:20]!r}])")
        return tagging.tag(self.tagger, self.tokenizer, self.labels, sentences)

    @overload
    def embed(
        self, texts: Sequence[str], *, layer: int = -1, pool: TextPool = "mean", progress: Progress = silent
    ) -> embedding.Array: ...

    @overload
    def embed(
        self, texts: Sequence[str], *, layer: int = -1, pool: Literal["words"] | None, progress: Progress = silent
    ) -> list[embedding.Array]: ...

    def embed(
        self, texts: Sequence[str], *, layer: int = -1, pool: Pooling | None = "mean", progress: Progress = silent
    ) -> embedding.Array | list[embedding.Array]:
        """Vectors that depend on context, as float32; of sentence pairs, those of the source.

        `layer`: 0 the embedding, 1 … depth after that block or level; from the end, −1 the last. `pool`: "first", "last", "mean"
        or "max" of a text's tokens, a row for each text; "words" and None give an array for each text: a row for each word, the
        mean of its pieces, or a row for each token."""
        found: embedding.Array | list[embedding.Array] = embedding.embed(self, texts, layer, pool, progress)
        return found

    def senses(self, word: str, sentences: Sequence[str], *, layer: int = -1) -> Senses:
        """How alike the vectors of one word are from sentence to sentence, beside its static one; `.figure()`, `.text()`.

        A word that a sentence has several times is the first of them; "word#2" the second."""
        return embedding.compare(self, word, sentences, layer)

    def wic(self, folder: str | Path | None = None, progress: Progress = silent) -> dict[str, object]:
        """How often cos of a word's two vectors tells whether it has the same sense in two sentences; see evaluation/wic.py.

        Layer and threshold are those that are best on the training pairs; what is told is of the development pairs of `folder`,
        or of the named set "wic"."""
        return embedding.wic(self, folder, progress)

    def answer(self, question: str, context: str) -> Answer:
        """The most probable stretch of `context` that answers `question`, and its probability."""
        return answer.find_answer(self, question, context)

    def align(self, source: str, target: str | None = None, *, beam: int | None = None) -> Alignment:
        """Which source words each word of `target`, or of the run's own translation, was made from; `.figure()`, `.text()`."""
        return self.translator.align(source, target, self.decoding({"beam": beam}))

    def generate(
        self,
        prompt: str,
        *,
        tokens: int | None = None,
        temperature: float | None = None,
        top_k: int | None = None,
        top_p: float | None = None,
        seed: int | None = None,
    ) -> str:
        """The continuation of `prompt`; what is not given comes from the recipe's [decoding]."""
        given = {"tokens": tokens, "temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed}
        return "".join(self.stream(prompt, self.decoding(given)))

    def decoding(self, given: dict[str, int | float | None]) -> DecodingConfig:
        chosen = {name: value for name, value in given.items() if value is not None}
        return dataclasses.replace(self.recipe.decoding, **chosen)  # type: ignore[arg-type]

    def stream(self, prompt: str, config: DecodingConfig) -> Iterator[str]:
        """The continuation, piece by piece as it is drawn. A piece is held back while it ends inside a character.

        A prompt that cannot be read is refused here, before the first piece is asked for."""
        network = self.language
        ids = self.ids(prompt) if prompt else self.opening()
        if not len(ids):
            raise DataError("the prompt is empty and the vocabulary has neither <eos> nor a newline to begin with; give a prompt")
        return self._pieces(network, ids, config)

    def _pieces(
        self, network: LanguageModel, ids: np.ndarray[tuple[int], np.dtype[np.int64]], config: DecodingConfig
    ) -> Iterator[str]:
        waiting = deque(ids.tolist())
        spelled = self.tokenizer.spell(iter(waiting.popleft, None))
        for _ in range(len(ids)):
            next(spelled)
        for token_B in generate(network, torch.from_numpy(ids).unsqueeze(0).to(self.device), config):
            token = int(token_B)
            if token == self.tokenizer.eos and self.tokenizer.kind != "word":  # the document is over
                return
            waiting.append(token)
            if piece := next(spelled):
                yield piece

    def score(self, texts: Sequence[str], progress: Progress = silent) -> list[Score]:
        """log p of each text, read as if a document or line began with it (see `opening`)."""
        network = self.language
        return [self._score(network, text, progress) for text in texts]

    def _score(self, network: LanguageModel, text: str, progress: Progress) -> Score:
        ids = np.concatenate((self.opening(), self.ids(text)))
        if len(ids) < 2:
            raise DataError(f"{text[:20]!r} has nothing to predict; expected at least two tokens of text")
        log_p = read_log_probabilities(network, ids, progress)
        total, tokens = math.fsum(log_p), len(log_p)
        characters = len(text) if len(self.opening()) else len(text) - 1
        bits = -total / math.log(2) / characters if self.tokenizer.lossless else None
        return Score(tokens, total, math.exp(min(-total / tokens, 700.0)), bits)

    def complete(self, text: str, candidates: Sequence[str] | None = None, *, proposals: int = 8) -> list[Completion]:
        """Fillers of the blank `__`, ranked by log p(left + filler + right); see firth/api/completion.py. For a run of masked
        tokens see `fill`."""
        return complete(self, text, candidates, proposals)

    def fill(self, text: str, candidates: Sequence[str] | None = None, *, proposals: int = 8) -> list[list[Filling]]:
        """What fills each blank `__` for a run of masked tokens, one token each: the most probable, or the candidates."""
        return fill(self, text, candidates, proposals)

    def attention(
        self,
        text: str,
        *,
        target: str | None = None,
        context: str | None = None,
        part: str | None = None,
        layers: Sequence[int] | None = None,
    ) -> Attention:
        """Who looks at whom in `text`, for every model with attention; `.weights(layer, heads, rows)`, `.figure()`, `.text()`.

        A translator also has `target`, or its own translation, to write; one that finds answers has `text` for the question and
        `context`. `part` is "self", or of a translator "cross", "encoder" or "decoder". All layers, or some."""
        return attention(looking.reading(self, text, target, context), part, layers)

    def predictions(self, text: str, *, target: str | None = None, top: int = 5) -> Predictions:
        """What a language model expected in the place of each token of `text`, and next; of a translator, in the place of each
        token of `target` or of its own translation. `.figure()`, `.text()`."""
        return looking.predict(self, text, target, top)

    def states(self, text: str, *, target: str | None = None, context: str | None = None) -> States:
        """What an RNN, LSTM or GRU holds after each token, level by level, and the gates that made it; `.figure()`, `.text()`.
        `target` and `context` as for `attention`."""
        return states(looking.reading(self, text, target, context))

    def flow(self, text: str) -> Flow:
        """How much of the gradient of the last token's loss reaches each token before it; `.figure()`. Of a language model."""
        return looking.gradient_flow(self, text)

    def evaluate(
        self,
        path: str | Path | None = None,
        progress: Progress = silent,
        *,
        split: Split | None = None,
        streams: int | None = None,
        random_batches: int | None = None,
        seed: int = 0,
        target: str | Path | None = None,
        beam: int | None = None,
    ) -> dict[str, object]:
        """Metrics on the text at `path`, or on the run's own text: its `split`, or test, validation, training, the first it has.

        A recurrent model reads the text as one stream, as results are published; `streams` side by side are quicker, and each
        begins without a past. A Transformer reads windows of training.context. `random_batches` adds the loss over so many
        batches of windows that start anywhere, drawn from `seed`. It is computed in float32, however the run was trained.

        A classifier reads texts with labels instead: csv, tsv or jsonl with the columns of its recipe. A model of sentence pairs
        reads those, at `path` or at `path` and `target`, and translates them with a beam of `beam`, or of its recipe's. One
        that finds answers reads questions as SQuAD writes them, .json or .jsonl."""
        asked = Asked(path, split, streams, random_batches, seed, target, beam)
        return tasks.evaluate(self, asked, progress)

    def ids(self, text: str) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """Token ids of `text`; a text the vocabulary cannot spell is an error that names what it cannot."""
        unseen = self.tokenizer.unseen(text)
        if unseen and self.tokenizer.unknown is None:
            shown = ", ".join(repr(character) for character in unseen[:5])
            raise DataError(
                f"the text has {shown}, which this model never saw in training; leave it out or train on text that has it"
            )
        say_unseen(unseen)
        return self.tokenizer.encode(text).astype(np.int64)

    def opening(self) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """What stands before the first token of a text: the end of a document, or of a line; nothing where there is neither."""
        if self.tokenizer.eos is not None:
            return np.asarray([self.tokenizer.eos], dtype=np.int64)
        if not self.tokenizer.unseen("\n"):
            return self.tokenizer.encode("\n").astype(np.int64)
        return np.zeros(0, dtype=np.int64)


def network_of(recipe: Recipe, source: Tokenizer, tokenizer: Tokenizer) -> Network:
    """The module that a run of `recipe` with these vocabularies has, with weights not yet drawn."""
    classes = len(recipe.data.labels or ())
    return network(
        recipe.model,
        tokenizer.vocab,
        recipe.objective.kind,
        classes=classes,
        source_vocab=source.vocab,
        sentinels=span_corruption.sentinels(recipe),
        dimensions=recipe.data.dimensions,
    )


def load(path: str | Path, device: Device = "auto") -> Model:
    """The model of a run folder, with the weights that were best on validation."""
    folder = RunFolder.open(Path(path))
    recipe = read_recipe(folder.recipe)
    source, tokenizer = read_tokenizers(folder, recipe)
    made = network_of(recipe, source, tokenizer)
    weights = checkpoint.load_weights(folder, lambda message: warnings.warn(message, stacklevel=2))
    try:
        made.load_state_dict(weights)
    except RuntimeError as error:
        raise DataError(f"the weights in {folder.path} do not fit {_misfit(made, weights)}") from error
    return Model(made.to(device_for(device)), tokenizer, recipe, source)


def _misfit(made: Network, weights: Mapping[str, Tensor]) -> str:
    own = made.state_dict()
    for table, file in (
        ("embedding.weight", "tokenizer.json"),
        ("encoder.embedding.weight", "tokenizer.json"),
        ("own_embedding.weight", "source_tokenizer.json"),
    ):
        expected, found = own.get(table), weights.get(table)
        if expected is not None and found is not None and len(expected) != len(found):
            return (
                f"its {file}: they are of {len(found):,} tokens, and that has {len(expected):,}; it belongs to another run, "
                "restore the one of this run"
            )
    return "its recipe.toml; one of them was changed by hand"
