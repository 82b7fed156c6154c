"""Sentence embeddings: one vector per text, from an imported encoder. Letters: N texts, T tokens, d width.

    x = pool over the tokens of the last layer, special tokens included; divided by its length if `normalize`

That is how `sentence-transformers` computes them (Reimers & Gurevych 2019). Such a run is imported, not trained here; other tasks
start from its encoder with training.init.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NoReturn, overload

import numpy as np
import torch

from firth.errors import ConfigError
from firth.inspection.contextual_vectors import layer_number
from firth.models import TextEmbedder, TransformerEncoderConfig, text_embedder
from firth.progress import Progress
from firth.progress.display import followed, shows_progress
from firth.tasks.abilities import contextual_vectors
from firth.tasks.abilities.contextual_vectors import Array, Encoded, Pooling, TextEncoder, TextPool
from firth.tasks.ability import ATTENTION, EMBED
from firth.tasks.run import Run
from firth.tasks.splits import Split
from firth.tasks.task import ObjectiveConfig, Task, Tokenizers
from firth.text.config import RunningTextConfig, TokenizerConfig
from firth.text.data.running_text import Prepared

SentencePool = Literal[TextPool, "sentence"]


@dataclass(frozen=True, kw_only=True)
class EmbeddingConfig(ObjectiveConfig):
    kind: Literal["embedding"] = "embedding"
    normalize: bool = False  # divide each embedding by its length
    # tokens of a text that the embedding is computed from, special tokens included; if not set, as many as the model can read
    longest: int | None = None
    prompt: str = ""  # text that is put before each text

    def __post_init__(self) -> None:
        if self.longest is not None and self.longest < 3:
            raise ConfigError(f"objective.longest is {self.longest}; expected 3 or more")


class EmbeddingRun(Run[TextEmbedder]):
    @overload
    def embed(
        self, texts: Sequence[str], *, layer: int = -1, pool: SentencePool = "sentence", progress: Progress | bool = True
    ) -> Array: ...

    @overload
    def embed(
        self, texts: Sequence[str], *, layer: int = -1, pool: Literal["words"] | None, progress: Progress | bool = True
    ) -> list[Array]: ...

    @shows_progress
    def embed(
        self,
        texts: Sequence[str],
        *,
        layer: int = -1,
        pool: Pooling | Literal["sentence"] | None = "sentence",
        progress: Progress | bool = True,
    ) -> Array | list[Array]:
        """Vectors of `texts` as float32. `pool`: "sentence", the default, is the model's own pooling and normalisation, special
        tokens included; the others are those of Run.embed."""
        progress = followed(progress)
        if pool != "sentence":
            vectors: Array | list[Array] = contextual_vectors.embed(self._encoder(), texts, layer, pool, progress)
            return vectors
        number = layer_number(self.network, layer)
        encoded = self._encoded(texts)
        rows: dict[int, Array] = {}
        for row, states in contextual_vectors.read(self._encoder(), encoded, progress):
            rows[row] = self._pooled(states[number])
        return (
            np.stack([rows[row] for row in range(len(rows))]) if rows else np.zeros((0, self.network.encoder.width), np.float32)
        )

    def _pooled(self, x_Td: Array) -> Array:
        x_1Td = torch.from_numpy(x_Td)[None].to(self.device)
        with torch.inference_mode():
            x_1d = self.network.pooled(x_1Td, torch.tensor([len(x_Td)], device=self.device))
        vector_d: Array = x_1d[0].cpu().numpy()
        return vector_d

    def _encoded(self, texts: Sequence[str]) -> Encoded:
        """The texts after the model's prompt. Those that are longer than objective.longest are cut there, with a warning."""
        prompt, most = self.recipe.objective.prompt, self.recipe.objective.longest
        given = texts if isinstance(texts, str) or not prompt else [prompt + text for text in texts]
        encoder = TextEncoder(self.network, self.tokenizer, longest=most)
        encoded = encoder.encode(given)
        if encoded.cut:
            warnings.warn(
                f"{encoded.cut} of {len(encoded.ids)} texts have more than {most} tokens, the limit of this model, and are "
                "truncated.",
                stacklevel=4,  # the caller of `embed`
            )
        return encoded

    def evaluate(
        self, path: str | Path | None = None, progress: Progress | bool = True, *, split: Split | None = None
    ) -> dict[str, object]:
        raise ConfigError("a sentence encoder has no loss to evaluate. Use wic, or `firth search --evaluate --run`.")


def _untrained() -> NoReturn:
    raise ConfigError(
        'objective.kind = "embedding" is for imported sentence encoders and cannot be trained. Choose another objective, and set '
        "training.init to the encoder."
    )


class TextEmbedding(Task[RunningTextConfig, EmbeddingConfig, Prepared]):
    name = "embedding"
    Data = RunningTextConfig
    Objective = EmbeddingConfig
    reads = "running text"
    families = ("encoder",)
    metrics = ("loss", "wic_accuracy")
    selecting = ("loss",)
    run_class = EmbeddingRun
    noun = "a sentence encoder"
    can = (EMBED, ATTENTION)

    def check(self) -> None:
        super().check()
        if getattr(self.recipe, "imported", None) is None:
            _untrained()

    def network(self, source_vocab: int, vocab: int) -> TextEmbedder:
        model = self.recipe.model
        assert isinstance(model, TransformerEncoderConfig)  # an import makes no other
        return text_embedder(model, vocab, normalize=self.recipe.objective.normalize)

    def read(self, tokenizers: TokenizerConfig | Tokenizers, progress: Progress) -> Prepared:
        _untrained()

    def loss(self, data: Prepared) -> NoReturn:
        _untrained()

    def validate(self, network: Any, data: Prepared, progress: Progress) -> dict[str, Any]:
        _untrained()

    def headline(self, metrics: Mapping[str, Any]) -> str:
        _untrained()

    def report(self, metrics: Mapping[str, Any]) -> str:
        _untrained()
