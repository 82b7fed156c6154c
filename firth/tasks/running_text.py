"""The common part of the tasks that read running text: next-token, masked, span-corruption and the like."""

from __future__ import annotations

from abc import abstractmethod
from pathlib import Path
from typing import Any

from firth.errors import DataError
from firth.progress import Progress
from firth.tasks.run import N, Run
from firth.tasks.splits import Split, chosen
from firth.tasks.task import O, Task, Tokenizers
from firth.text.batches.token_files import TokenFile
from firth.text.config import RunningTextConfig, TokenizerConfig
from firth.text.data.running_text import Prepared, encode_file, prepare
from firth.text.tokenizers.tokenizer import Tokenizer


class RunningTextTask(Task[RunningTextConfig, O, Prepared]):
    """A task over the tokens of one long text."""

    Data = RunningTextConfig
    reads = "running text"
    shortest = 0  # tokens that the held-out text needs
    needs_eos = False  # even where the text is one document
    starts = False  # whether characters get a <start> where the text is one document, unless tokenizer.start says so

    def read(self, tokenizers: TokenizerConfig | Tokenizers, progress: Progress) -> Prepared:
        data = prepare(self.recipe.data, target_of(tokenizers), progress, eos=self.needs_eos, start=self.starts)
        if data.valid is not None and data.valid.count < self.shortest:
            raise DataError(
                f"the held-out text has {data.valid.count} tokens; {self.name} needs at least {self.shortest}. Give more text, a "
                "larger data.valid, or set data.valid=0 to hold out nothing."
            )
        return data

    def validate(self, network: Any, data: Prepared, progress: Progress) -> dict[str, Any]:
        assert data.valid is not None
        return self.measured(network, data.valid, data.tokenizer, self.recipe.training.dtype, progress)

    @abstractmethod
    def measured(self, network: Any, text: TokenFile, tokenizer: Tokenizer, dtype: str, progress: Progress) -> dict[str, Any]:
        """Metrics on `text`, for `validate` and `evaluate` alike."""


class RunningTextRun(Run[N]):
    """A run that `evaluate` measures as training validates it."""

    def _evaluate(self, path: str | Path | None, split: Split | None, progress: Progress) -> dict[str, object]:
        name, text = text_of(self, path, split, progress)
        task = self.task
        assert isinstance(task, RunningTextTask)
        return {**task.measured(self.network, text, self.tokenizer, "float32", progress), "split": name}


def target_of(tokenizers: TokenizerConfig | Tokenizers) -> TokenizerConfig | Tokenizer:
    """For tasks with one vocabulary."""
    return tokenizers[1] if isinstance(tokenizers, tuple) else tokenizers


def text_of(run: Run[Any], path: str | Path | None, split: Split | None, progress: Progress) -> tuple[str, TokenFile]:
    """The text to evaluate, with its name: the file that was given, or a part of the run's own data."""
    data: RunningTextConfig = run.recipe.data
    if path is not None:
        return str(path), encode_file(path, run.tokenizer, data, progress)
    return chosen(prepare(data, run.tokenizer, progress), split)
