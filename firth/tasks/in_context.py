"""Learning in context: each prompt defines a new task by examples, a swap of letters. Letters: B prompts, T time."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar

from torch import Tensor

from firth.errors import ConfigError, option
from firth.evaluation.in_context import answers, answers_by_examples
from firth.layers.cross_entropy import RowLoss, cross_entropy
from firth.models import LanguageConfig, LanguageModel, language_model
from firth.progress import Progress
from firth.tasks.ability import CONTINUING, GENERATE, LEARN_IN_CONTEXT
from firth.tasks.next_token import LanguageModelRun
from firth.tasks.run import Run
from firth.tasks.running_text import target_of
from firth.tasks.splits import Split, chosen
from firth.tasks.task import CONTINUES, O, Task, Tokenizers, TokenLossConfig, rows
from firth.text.config import LinearConfig, PromptsConfig, SwapsConfig, TokenizerConfig
from firth.text.data.in_context import FreshPrompts, PromptData, SwapData, prepare_swaps, prompt_tokens
from firth.text.datasets.in_context_tasks import PointPrompts, SwapPrompts
from firth.training.loop import Loss

if TYPE_CHECKING:
    from firth.figures.page import Section

AT_ONCE = 128  # prompts per batch of inference
P = TypeVar("P", bound=PromptsConfig)
Q = TypeVar("Q", bound=SwapPrompts | PointPrompts)


class PromptTask(Task[P, O, PromptData[Q]]):
    """The common part of both kinds of in-context learning."""

    families = ("language",)
    unit: ClassVar[str]  # of the loss
    measure: ClassVar[Literal["accuracy", "squared_error"]]
    unsupported = {"training.carry": "each prompt has a task of its own"}  # noqa: RUF012 (a ClassVar in Task)

    def check(self) -> None:
        super().check()
        data, training = self.recipe.data, self.recipe.training
        assert isinstance(data, SwapsConfig | LinearConfig)
        tokenizer, plain = self.recipe.tokenizer, TokenizerConfig()
        # A run of an earlier version says that it has no <start>.
        if tokenizer.start or dataclasses.replace(tokenizer, start=plain.start) != plain:
            raise ConfigError("[tokenizer] has settings, but prompts are generated as characters or numbers. Remove it.")
        if (tokens := prompt_tokens(data)) > training.context:
            raise ConfigError(
                f"training.context is {training.context}, but a prompt has {tokens} tokens (data.examples = {data.examples}). "
                f"Set training.context = {tokens} or more."
            )
        self.expect_context()

    def batches(self, data: PromptData[Any]) -> FreshPrompts:
        return FreshPrompts(data.tasks, self.recipe.training.batch, self.recipe.training.seed)

    def report(self, metrics: Mapping[str, Any]) -> str:
        from firth.figures.in_context import examples_text

        top = rows(
            ("prompts", f"{metrics['prompts']:,} of {metrics['split']}"),
            ("loss", f"{metrics['loss']:.4f} {self.unit}"),
            (self.measure.replace("_", " "), f"{metrics[self.measure]:.4f} after all examples"),
        )
        return f"{top}\n\n{examples_text(metrics['by_examples'], self.measure)}"

    def picture(self, results: Mapping[str, Mapping[str, Any]]) -> Section:
        from firth.figures.figure import Table
        from firth.figures.in_context import score_by_examples
        from firth.figures.page import Section

        first = next(iter(results.values()))
        lead = f"{first['prompts']:,} prompts of {first['split']}, each with a new task."
        lines = {name: metrics["by_examples"] for name, metrics in results.items()}
        return Section("By number of examples", lead, Table((), []), [score_by_examples(lines, self.measure)])


def refuse_path(path: str | Path | None) -> None:
    if path is not None:
        raise ConfigError(f"{option('path', '--data')} is {path}, but this run is evaluated on generated prompts. Remove it.")


@dataclass(frozen=True, kw_only=True)
class InContextConfig(TokenLossConfig):
    kind: Literal["in-context"] = "in-context"


def in_context(
    model: LanguageModel, token_BT: Tensor, target_BT: Tensor, state: None = None, row_loss: RowLoss | None = None
) -> tuple[Tensor, None]:
    """−mean log p(character of an answer | everything before it), in nats; the questions are random and cannot be learned."""
    x_BTd, _ = model.hidden(token_BT)
    return cross_entropy(x_BTd, *model.output_layer(), target_BT, padded=True, cap=model.logit_cap, row_loss=row_loss), None


class InContextRun(LanguageModelRun):
    evaluate = Run.evaluate  # type: ignore[assignment]  # prompts are generated: no streams, no random batches

    def _evaluate(self, path: str | Path | None, split: Split | None, progress: Progress) -> dict[str, object]:
        """Accuracy after 0, 1, … examples of tasks that were not trained, beside the best possible."""
        refuse_path(path)
        name, prompts = chosen(prepare_swaps(self.recipe.data, self.tokenizer), split)
        answered = answers(self.network, prompts, batch=AT_ONCE, progress=progress)
        after = [dataclasses.asdict(one) for one in answers_by_examples(answered, prompts)]
        return {
            "loss": answered.loss,
            "accuracy": answered.accuracy,
            "prompts": len(prompts),
            "by_examples": after,
            "split": name,
        }


class InContext(PromptTask[SwapsConfig, InContextConfig, SwapPrompts]):
    name = "in-context"
    Data = SwapsConfig
    Objective = InContextConfig
    reads = "prompts of swaps"
    files = ""
    metrics = ("loss", "accuracy")
    selecting = ("loss", "accuracy")
    counted = "target_BT"
    run_class = InContextRun
    noun = "a model that learns tasks from its prompt"
    can = (LEARN_IN_CONTEXT, GENERATE, *CONTINUING)
    uses = CONTINUES
    unit = "nats per character"
    measure = "accuracy"

    def read(self, tokenizers: TokenizerConfig | Tokenizers, progress: Progress) -> SwapData:
        return prepare_swaps(self.recipe.data, target_of(tokenizers))

    def network(self, source_vocab: int, vocab: int) -> LanguageModel:
        assert isinstance(self.recipe.model, LanguageConfig)  # a recipe's family fits its objective
        return language_model(self.recipe.model, vocab)

    def loss(self, data: SwapData) -> Loss:
        return partial(in_context, row_loss=self.recipe.objective.row_loss)

    def validate(self, network: LanguageModel, data: SwapData, progress: Progress) -> dict[str, Any]:
        assert data.valid is not None
        answered = answers(network, data.valid, batch=AT_ONCE, dtype=self.recipe.training.dtype, progress=progress)
        return {"loss": answered.loss, "accuracy": answered.accuracy}

    def headline(self, metrics: Mapping[str, Any]) -> str:
        return f"accuracy {metrics['accuracy']:.4f}"
