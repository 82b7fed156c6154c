"""Captions of images: p(y | image) = Π p(y_t | y_<t, image). Letters: B batch, H, W, C an image's pixels, T caption."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, Unpack

import numpy as np
import torch
from torch import Tensor

from firth.decoding.config import DecodingConfig
from firth.decoding.keywords import DecodingKeywords
from firth.errors import ConfigError
from firth.evaluation.inference import with_progress
from firth.evaluation.metrics import flat
from firth.evaluation.pairs import Likelihood, likelihood_of
from firth.inspection.image_attention import ImageAttention
from firth.inspection.inputs import Reading
from firth.inspection.predictions import Predictions, of_pair, predictions
from firth.layers.cross_entropy import RowLoss, cross_entropy
from firth.models import CaptionModelConfig, ConditionalDecoder, captioner
from firth.progress import Progress
from firth.progress.display import followed, shows_progress
from firth.tasks.abilities.image_captioner import Caption, ImageCaptioner
from firth.tasks.abilities.inspection_inputs import names
from firth.tasks.ability import CAPTION, EVALUATE, PREDICT
from firth.tasks.run import Run
from firth.tasks.running_text import target_of
from firth.tasks.splits import Split, check_split, chosen
from firth.tasks.task import SEARCHES, Task, Tokenizers, TokenLossConfig, check_smoothing, rows
from firth.text.batches.captions import Captions
from firth.text.config import CaptionsConfig, TokenizerConfig
from firth.text.data.captions import CaptionData, encode_captions, prepare_captions
from firth.text.readers.images import Bytes, ImageLike, read_image
from firth.training.loop import Loss

AT_ONCE = 64  # captions per batch of inference


@dataclass(frozen=True, kw_only=True)
class CaptionConfig(TokenLossConfig):
    kind: Literal["caption"] = "caption"
    smoothing: float = 0.0  # label smoothing: share of the target probability that is spread over the vocabulary

    def __post_init__(self) -> None:
        check_smoothing(self.smoothing, self.loss)


def caption(
    model: ConditionalDecoder,
    image_BHWC: Tensor,
    input_BT: Tensor,
    target_BT: Tensor,
    target_length_B: Tensor,
    state: None = None,
    smoothing: float = 0.0,
    row_loss: RowLoss | None = None,
) -> tuple[Tensor, None]:
    """−mean log p(y_t | y_<t, image), in nats per token, without the padding. The softmax is in float32."""
    x_BTd = model.teacher_forced(input_BT, model.encode(image_BHWC))
    weights = model.output_layer()
    return cross_entropy(x_BTd, *weights, target_BT, padded=True, smoothing=smoothing, row_loss=row_loss), None


class CaptionerRun(Run[ConditionalDecoder]):
    @property
    def captioner(self) -> ImageCaptioner:
        """The network with its tokenizer."""
        return ImageCaptioner(self.network, self.tokenizer, self.recipe)

    def caption(self, image: ImageLike, *, sample: bool = False, **settings: Unpack[DecodingKeywords]) -> str:
        """The caption of `image`, which is a path, a PIL image or an array of bytes, height × width × 3: the best of a beam, or
        with `sample` a random one. `captions` takes several images and returns the whole beam with probabilities."""
        config = self.decoding(settings)
        return self.captions([image], config, sample=sample)[0][0].text

    @shows_progress
    def captions(
        self,
        images: Sequence[ImageLike],
        config: DecodingConfig | None = None,
        *,
        sample: bool = False,
        first: int = 0,
        progress: Progress | bool = True,
    ) -> list[list[Caption]]:
        """The beam of each of `images`, best first, with log p and score; with `sample`, random captions instead.

        `first` is the number of the first image, on which random draws depend."""
        if isinstance(images, str | Path) or hasattr(images, "mode"):
            raise ConfigError("captions takes a list of images. Write captions([image]).")
        pixels = [self.pixels(image) for image in images]
        image_NHWC = np.stack(pixels) if pixels else np.zeros((0, 1, 1, 3), np.uint8)
        return self.captioner.captions(
            image_NHWC, config or self.recipe.decoding, sample=sample, first=first, progress=followed(progress)
        )

    def overlay(self, image: ImageLike, caption: str | None = None, *, beam: int | None = None) -> ImageAttention:
        """The cells of `image` behind each word of `caption`, by default of the run's own; `.figure()`, `.text()`,
        `.weights`."""
        return self.captioner.overlay(self.pixels(image), caption, self.decoding({"beam": beam}))

    def pixels(self, image: ImageLike) -> Bytes:
        """The image as the network sees it: bytes, height × width × 3, a square of data.size."""
        return read_image(image, self.network.encoder.size)

    def predictions(self, text: str, *, target: str | None = None, top: int = 5) -> Predictions:
        """The most probable tokens at each position of the caption `target`, by default the run's own; `text` is the path of the
        image; `.figure()`, `.text()`. `top`: the number of tokens at each position."""
        image_1HWC, target_T, input_1T = self._inputs(text, target)
        return predictions(of_pair(self.network, image_1HWC, input_1T), target_T, self.tokenizer.token, top)

    @shows_progress
    def evaluate(
        self,
        path: str | Path | None = None,
        progress: Progress | bool = True,
        *,
        split: Split | None = None,
        beam: int | None = None,
    ) -> dict[str, object]:
        """Loss of the reference captions, and exact match, BLEU and ROUGE of the run's own; for scenes also those of images with
        pairs of colour and shape that never occur in training. See Run.evaluate.

        `path`: a table like data.path."""
        progress = followed(progress)
        check_split(self.recipe.data, path, split)
        config = self.decoding({"beam": beam})
        unseen = None
        if path is not None:
            name, captions = str(path), encode_captions(path, self.tokenizer, self.recipe.data, progress)
        else:
            data = prepare_captions(self.recipe.data, self.tokenizer, progress=progress)
            name, captions = chosen(data, split)
            unseen = data.unseen if name != "train" else None
        likelihood = _likelihood(self.network, captions, "float32", progress)
        written = self.captioner.measure(captions, config, progress)
        other = None if unseen is None else flat(self.captioner.measure(unseen, config, progress))
        return {
            **dataclasses.asdict(likelihood),
            **flat(written),
            "exact_unseen": None if other is None else other["exact"],
            "unseen": other,
            "split": name,
            "beam": config.beam,
        }

    def reading(self, text: str, target: str | None = None, context: str | None = None) -> Reading:
        """`text` is the path of an image and `target` its caption, by default the run's own. The tokens of an image are its
        cells."""
        self._refuse("context", context)
        image_1HWC, target_T, input_1T = self._inputs(text, target)

        def forward() -> Tensor:
            return self.network.teacher_forced(input_1T, self.network.encode(image_1HWC))

        rows, columns = self.network.encoder.grid
        cells = tuple(f"{row},{column}" for row in range(1, rows + 1) for column in range(1, columns + 1))
        return Reading(self.network, forward, cells, names(self.tokenizer, target_T), not self.tokenizer.whole_words)

    def _inputs(self, image: ImageLike, target: str | None) -> tuple[Tensor, Any, Tensor]:
        """image_1HWC, the ids of the caption with <eos> last, and input_1T."""
        pixels = self.pixels(image)
        target_T = self.captioner.target(pixels, target, self.recipe.decoding)
        input_1T = torch.from_numpy(np.append(target_T[-1:], target_T[:-1])).unsqueeze(0).to(self.device)
        return torch.from_numpy(pixels).unsqueeze(0).to(self.device), target_T, input_1T


class Captioning(Task[CaptionsConfig, CaptionConfig, CaptionData]):
    name = "caption"
    compares = "texts"
    Data = CaptionsConfig
    Objective = CaptionConfig
    reads = "captioned images"
    files = "a table of images and captions"
    families = ("caption",)
    metrics = ("loss", "perplexity", "exact", "exact_unseen", "bleu", "rouge1", "rouge2", "rougeL")
    selecting = ("loss", "exact", "bleu", "rougeL")
    counted = "target_BT"
    run_class = CaptionerRun
    noun = "a captioner"
    can = (CAPTION, PREDICT, EVALUATE)
    uses = SEARCHES
    unsupported = {  # noqa: RUF012 (a ClassVar in Task)
        "training.carry": "images carry no state from one to the next",
        "training.compile": "it compiles for one shape of batch, and captions have many lengths",
    }

    def check(self) -> None:
        super().check()
        self.expect_context()
        with torch.device("meta"):
            self.network(3, 3)  # refuses images whose sides do not fit the encoder

    def read(self, tokenizers: TokenizerConfig | Tokenizers, progress: Progress) -> CaptionData:
        return prepare_captions(self.recipe.data, target_of(tokenizers), self.recipe.training.context, progress)

    def network(self, source_vocab: int, vocab: int) -> ConditionalDecoder:
        model = self.recipe.model
        assert isinstance(model, CaptionModelConfig)  # a recipe's family fits its objective
        return captioner(model.with_room(self.recipe.training.context), self.recipe.data.side, vocab)

    def loss(self, data: CaptionData) -> Loss:
        objective = self.recipe.objective
        return partial(caption, smoothing=objective.smoothing, row_loss=objective.row_loss)

    def validate(self, network: ConditionalDecoder, data: CaptionData, progress: Progress) -> dict[str, Any]:
        """The loss; where another metric selects the weights, also those of greedy captions."""
        assert data.valid is not None
        result = dataclasses.asdict(_likelihood(network, data.valid, self.recipe.training.dtype, progress))
        if self.recipe.training.select == "loss":
            return result
        able = ImageCaptioner(network, data.tokenizer, self.recipe)
        measures = able.measure(data.valid, dataclasses.replace(self.recipe.decoding, beam=1), progress)
        shown = {name: getattr(measures, name) for name in ("exact", "bleu", "rougeL", "images")}
        return {**result, **shown, **measures.own}

    def headline(self, metrics: Mapping[str, Any]) -> str:
        if "exact" in metrics:
            return f"exact match {metrics['exact']:.1%}, ROUGE-L {metrics['rougeL']:.2f}"
        return f"perplexity {metrics['perplexity']:.2f}"

    def report(self, metrics: Mapping[str, Any]) -> str:
        lines = [
            ("images", f"{metrics['images']:,} of {metrics['split']}, captioned with beam size {metrics['beam']}"),
            ("loss", f"{metrics['loss']:.4f} nats per token, perplexity {metrics['perplexity']:.4f}"),
            *_measured(metrics),
        ]
        if metrics["unseen"] is not None:
            other = metrics["unseen"]
            lines.append(("", ""))
            lines.append(("unseen pairs", f"{other['images']:,} images with a colour and shape never trained together"))
            lines += _measured(other)
        return rows(*lines)


def _measured(metrics: Mapping[str, Any]) -> list[tuple[str, str]]:
    bleu = "undefined: no caption has four tokens" if metrics["bleu"] is None else f"{metrics['bleu']:.2f}"
    rouge = ", ".join(f"{metrics[name]:.2f}" for name in ("rouge1", "rouge2", "rougeL"))
    rows = [
        ("exact match", f"{metrics['exact']:.2%}"),
        *((f"  {one['kind']}", f"{one['exact']:.2%} of {one['images']:,}") for one in metrics["kinds"]),
        ("BLEU", bleu if metrics["bleu"] is None else f"{bleu} ({metrics['bleu_signature']})"),
        ("ROUGE-1, -2, -L", f"{rouge} (F1, no stemming)"),
    ]
    return rows


def _likelihood(network: ConditionalDecoder, captions: Captions, dtype: str, progress: Progress) -> Likelihood:
    parts = with_progress(captions.sweep(AT_ONCE), lambda rows: len(rows[0]), len(captions), progress)
    return likelihood_of(network, (batch for _, batch in parts), dtype)
