"""The common part of the tasks that mask tokens of running text: masked and electra."""

from __future__ import annotations

from abc import abstractmethod

from firth.tasks.running_text import RunningTextTask
from firth.tasks.task import O
from firth.text import Prepared, Tokenizer
from firth.text.batches.masking import MaskedWindows, Masking


class MaskedTextTask(RunningTextTask[O]):
    families = ("encoder",)
    unsupported = {"training.carry": "masked windows carry no state"}  # noqa: RUF012 (a ClassVar in Task)

    def check(self) -> None:
        super().check()
        self.refuse_average("reads each token by itself and cannot predict a masked one")
        self.expect_context()

    @abstractmethod
    def masking(self, tokenizer: Tokenizer, seed: int = 0) -> Masking:
        """Evaluation masks with seed 0, so that runs with other seeds are asked the same."""

    def batches(self, data: Prepared) -> MaskedWindows:
        config = self.recipe.training
        return MaskedWindows(data.train.ids, config.batch, config.context, self.masking(data.tokenizer, config.seed))
