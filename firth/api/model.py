"""Model: text in, text out."""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

import numpy as np
import torch

from firth.api.completion import Completion, complete
from firth.api.reading import read_log_probabilities
from firth.api.recipe import Recipe, Split, read_recipe
from firth.decoding.generate import generate
from firth.decoding.sample import DecodingConfig
from firth.errors import ConfigError, DataError, did_you_mean
from firth.evaluation.perplexity import perplexity, random_loss, stream_shape
from firth.inspection.attention import Attention, attention
from firth.models import LanguageModel, language_model
from firth.text import Progress, TokenFile, Tokenizer, encode_file, prepare
from firth.text.progress import silent
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
    """A trained language model with its tokenizer."""

    def __init__(self, network: LanguageModel, tokenizer: Tokenizer, recipe: Recipe) -> None:
        self.network, self.tokenizer, self.recipe = network, tokenizer, recipe
        self.device = next(network.parameters()).device
        network.eval()

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
        ids = self.ids(prompt) if prompt else self.opening()
        if not len(ids):
            raise DataError("the prompt is empty and the vocabulary has neither <eos> nor a newline to begin with; give a prompt")
        return self._pieces(ids, config)

    def _pieces(self, ids: np.ndarray[tuple[int], np.dtype[np.int64]], config: DecodingConfig) -> Iterator[str]:
        waiting = deque(ids.tolist())
        spelled = self.tokenizer.spell(iter(waiting.popleft, None))
        for _ in range(len(ids)):
            next(spelled)
        for token_B in generate(self.network, torch.from_numpy(ids).unsqueeze(0).to(self.device), config):
            token = int(token_B)
            if token == self.tokenizer.eos and self.tokenizer.kind != "word":  # the document is over
                return
            waiting.append(token)
            if piece := next(spelled):
                yield piece

    def score(self, texts: Sequence[str], progress: Progress = silent) -> list[Score]:
        """log p of each text, read as if a document or line began with it (see `opening`)."""
        return [self._score(text, progress) for text in texts]

    def _score(self, text: str, progress: Progress) -> Score:
        ids = np.concatenate((self.opening(), self.ids(text)))
        if len(ids) < 2:
            raise DataError(f"{text[:20]!r} has nothing to predict; expected at least two tokens of text")
        log_p = read_log_probabilities(self.network, ids, progress)
        total, tokens = math.fsum(log_p), len(log_p)
        characters = len(text) if len(self.opening()) else len(text) - 1
        bits = -total / math.log(2) / characters if self.tokenizer.lossless else None
        return Score(tokens, total, math.exp(min(-total / tokens, 700.0)), bits)

    def complete(self, text: str, candidates: Sequence[str] | None = None, *, proposals: int = 8) -> list[Completion]:
        """Fillers of the blank `__`, ranked by log p(left + filler + right); see firth/api/completion.py."""
        return complete(self, text, candidates, proposals)

    def attention(self, text: str, *, layers: Sequence[int] | None = None) -> Attention:
        """Who looks at whom in `text`; `.weights(layer, heads, rows)` and `.rows(layer)` compute it. All layers, or some."""
        ids = self.ids(text)
        return attention(self.network, ids, [self.tokenizer.token(int(id)) for id in ids], layers)

    def evaluate(
        self,
        path: str | Path | None = None,
        progress: Progress = silent,
        *,
        split: Split | None = None,
        streams: int | None = None,
        random_batches: int | None = None,
        seed: int = 0,
    ) -> dict[str, object]:
        """Metrics on the text at `path`, or on the run's own text: its `split`, or test, validation, training, the first it has.

        A recurrent model reads the text as one stream, as results are published; `streams` side by side are quicker, and each
        begins without a past. A Transformer reads windows of training.context. `random_batches` adds the loss over so many
        batches of windows that start anywhere, drawn from `seed`. It is computed in float32, however the run was trained."""
        _check_protocol(streams, random_batches, seed, self.network.carries)
        name, text = self._evaluation_text(path, split, progress)
        config = self.recipe.training
        shape = stream_shape(text, streams, config.context) if self.network.carries else (config.batch, config.context)
        measured = perplexity(
            self.network,
            text,
            lossless=self.tokenizer.lossless,
            batch=shape[0],
            context=shape[1],
            progress=progress,
        )
        result = {**dataclasses.asdict(measured), "split": name, "streams": shape[0] if self.network.carries else None}
        if random_batches is None:
            return result
        estimate = random_loss(
            self.network,
            text,
            random_batches,
            batch=config.batch,
            context=config.context,
            seed=seed,
            progress=progress,
        )
        return {**result, **dataclasses.asdict(estimate), "seed": seed}

    def _evaluation_text(self, path: str | Path | None, split: str | None, progress: Progress) -> tuple[str, TokenFile]:
        if path is not None and split is not None:
            raise ConfigError(f'a text to read, {path}, and a split of the run\'s own, "{split}", were given; give one of them')
        if path is not None:
            return str(path), encode_file(path, self.tokenizer, self.recipe.data, progress)
        if split is not None and split not in get_args(Split):
            raise ConfigError(f'split is "{split}"; expected train, valid or test.{did_you_mean(split, get_args(Split))}')
        if self.recipe.data.path == "-":
            raise DataError("this run read its text from standard input, which cannot be read again; give --data PATH")
        data = prepare(self.recipe.data, self.tokenizer, progress)
        texts = {"test": data.test, "valid": data.valid, "train": data.train}
        own = {name: text for name, text in texts.items() if text is not None}
        if split is not None and split not in own:
            raise DataError(f"this run has no {split} text, only {' and '.join(own)}; choose one of them, or give --data PATH")
        name = split or next(iter(own))
        return name, own[name]

    def ids(self, text: str) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """Token ids of `text`; a text the vocabulary cannot spell is an error that names what it cannot."""
        unseen = self.tokenizer.unseen(text)
        if unseen and self.tokenizer.unknown is None:
            shown = ", ".join(repr(character) for character in unseen[:5])
            raise DataError(
                f"the text has {shown}, which this model never saw in training; leave it out or train on text that has it"
            )
        if unseen:
            warnings.warn(f"read as <unk>, never seen in training: {', '.join(unseen[:5])}", stacklevel=2)
        return self.tokenizer.encode(text).astype(np.int64)

    def opening(self) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """What stands before the first token of a text: the end of a document, or of a line; nothing where there is neither."""
        if self.tokenizer.eos is not None:
            return np.asarray([self.tokenizer.eos], dtype=np.int64)
        if not self.tokenizer.unseen("\n"):
            return self.tokenizer.encode("\n").astype(np.int64)
        return np.zeros(0, dtype=np.int64)


def load(path: str | Path, device: Device = "auto") -> Model:
    """The model of a run folder, with the weights that were best on validation."""
    folder = RunFolder.open(Path(path))
    recipe = read_recipe(folder.recipe)
    tokenizer = Tokenizer.from_json(folder.tokenizer.read_text(encoding="utf-8"))
    network = language_model(recipe.model, tokenizer.vocab)
    weights = checkpoint.load_weights(folder, lambda message: warnings.warn(message, stacklevel=2))
    try:
        network.load_state_dict(weights)
    except RuntimeError as error:
        raise DataError(f"the weights in {folder.path} do not fit its recipe.toml; one of them was changed by hand") from error
    return Model(network.to(device_for(device)), tokenizer, recipe)


def _check_protocol(streams: int | None, random_batches: int | None, seed: int, carries: bool) -> None:
    if streams is not None and not carries:
        raise ConfigError(
            f"streams is {streams}, but a Transformer carries no state along a stream: it reads windows of training.context; "
            "leave --streams out"
        )
    for name, value, least in (("streams", streams, 1), ("random_batches", random_batches, 1), ("seed", seed, 0)):
        if value is not None and value < least:
            raise ConfigError(f"{name} is {value}; expected {least} or more")
