"""A language model that also finds the most surprising token of a text: the one with the lowest probability."""

from dataclasses import dataclass
from typing import Literal

from firth.tasks.ability import Ability
from firth.tasks.next_token import LanguageModelRun, NextToken
from firth.tasks.task import ObjectiveConfig

SURPRISE = Ability("surprise", "texts", "tokens", "Find the most surprising token.", "odd {run} TEXT", "/v1/odd", method="oddest")


@dataclass(frozen=True, kw_only=True)
class SurprisalConfig(ObjectiveConfig):
    kind: Literal["surprisal"] = "surprisal"


class SurprisalRun(LanguageModelRun):
    def oddest(self, texts):
        return [one.tokens[one.log_probability.argmin()] for one in map(self.predictions, texts)]


class Surprisal(NextToken):
    name, Objective, run_class, noun = "surprisal", SurprisalConfig, SurprisalRun, "a model of surprise"
    can = (SURPRISE, *NextToken.can)
