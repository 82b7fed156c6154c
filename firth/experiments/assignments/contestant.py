"""Trains or loads one entry of a competition and measures it on the hidden text. It runs as a process of its own.

A request comes from standard input, {"kind", "folder", "competition"}; the fields of an EntryResult go to standard output.
"""

from __future__ import annotations

import json
import math
import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from firth.api import Watcher, compose, load
from firth.api.loading import network_of
from firth.api.recipe import Recipe, read_run_recipe
from firth.api.training import train_into
from firth.config import Table, build, read_toml
from firth.errors import ConfigError, DataError, FirthError, Interrupted, is_out_of_memory
from firth.experiments.assignments.assignment import Competition, CompetitionBudget
from firth.experiments.assignments.contest import IDEAS, READY, RECIPE
from firth.experiments.assignments.overlap import overlap
from firth.experiments.describe import describe_recipe
from firth.ideas import use
from firth.models.counting import count
from firth.tasks.next_token import LanguageModelRun
from firth.text.data.running_text import read_text
from firth.training.folder import RunFolder
from firth.training.trainer import StepReport

# Settings that lead out of the folder, or start something else: an entry has none of them.
_REFUSED = (
    *("data.name", "data.more", "data.test_path", "training.init", "training.log_to", "training.parallel", "training.compile"),
    *("model.vectors", "model.embedding.vectors", "tokenizer.vectors", "imported"),
)
_PER_WEIGHT, _HEADER = 8, 1 << 20  # bytes of model.safetensors


def main() -> None:
    request = json.loads(sys.stdin.readline())
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever is printed meanwhile
    competition = build(Competition, request["competition"])
    _limit_memory(competition)
    answers.write(READY.decode())
    answers.flush()
    try:
        answer = answer_of(request["kind"], Path(request["folder"]), competition)
    except FirthError as error:
        answer = {"refused": str(error)}
    except (Exception, RecursionError) as error:
        reason = "It needs more memory than it may." if is_out_of_memory(error) else f"It is damaged: {type(error).__name__}."
        answer = {"refused": reason}
    answers.write(json.dumps(answer) + "\n")
    answers.flush()


def _limit_memory(competition: Competition) -> None:
    """Beyond what the imports occupy. On a GPU, an address space says nothing about memory."""
    try:
        import resource
    except ImportError:
        return
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if competition.device == "cpu" and Path("/proc/self/statm").exists():
        occupied = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()
        most = occupied + int(competition.memory * (1 << 30))
        resource.setrlimit(resource.RLIMIT_AS, (most, most))


def answer_of(kind: str, folder: Path, competition: Competition) -> dict[str, Any]:
    if kind == "run":
        return _run(folder / "entry", competition)
    return _recipe(folder / "entry", folder / "run", competition)


# A run


def _run(path: Path, competition: Competition) -> dict[str, Any]:
    recipe = read_run_recipe(RunFolder.open(path).recipe)
    _expect_language(recipe)
    if recipe.data.text is not None:
        _expect_new(path / "recipe.toml", competition)
    parameters = count(network_of(path)[1]).parameters
    _expect_parameters(parameters, competition.budget)
    size = (path / "model.safetensors").stat().st_size
    if size > _PER_WEIGHT * parameters + _HEADER:
        raise DataError(f"model.safetensors has {size:,} bytes, more than {parameters:,} parameters need.")
    return _measured(path, parameters, competition)


# A recipe


def _recipe(folder: Path, run: Path, competition: Competition) -> dict[str, Any]:
    if (folder / IDEAS).exists():
        use(folder / IDEAS)
    recipe = _composed(read_toml(folder / RECIPE), folder, competition)
    _expect_language(recipe)
    for path in (recipe.data.path, recipe.data.valid_path):
        if path is not None:
            _expect_new(Path(path), competition)
    _expect_tokens(recipe, competition.budget)
    parameters = describe_recipe("the recipe", recipe).parameters
    _expect_parameters(parameters, competition.budget)
    cost = _trained(recipe, run, competition.budget)
    return _measured(run, parameters, competition) | cost


def _composed(table: Table, folder: Path, competition: Competition) -> Recipe:
    """The recipe with its texts in the folder of the entry, or the text that was handed out."""
    for name in _REFUSED:
        if _given(table, name):
            raise ConfigError(f"{name} is set, which this competition does not allow. Remove it.")
    data = table.get("data")
    if not isinstance(data, dict) or not isinstance(data.get("path"), str):
        raise ConfigError(f'[data] needs path = "{Path(competition.train).name}".')
    placed = {key: str(_place(data[key], folder, competition)) for key in ("path", "valid_path") if key in data}
    kept = {name: part for name, part in table.items() if name not in ("expected", "decoding", "ideas")}
    training = {**dict(table.get("training", {})), "device": competition.device, "checkpoint_every": 0}
    return compose({**kept, "data": {**data, **placed, "format": "txt"}, "training": training}, notice=lambda message: None)


def _given(table: Mapping[str, Any], name: str) -> bool:
    value: Any = table
    for part in name.split("."):
        if not isinstance(value, Mapping) or part not in value:
            return False
        value = value[part]
    return value not in (None, False, [], "", 1)


def _place(given: Any, folder: Path, competition: Competition) -> Path:
    """The text of that name: one that was handed in, if that is allowed, or the one that was handed out."""
    train = Path(competition.train)
    name = Path(str(given)).name
    if name != str(given).removeprefix("./"):
        raise ConfigError(
            f'a text is given as "{str(given)[:80]}". Give the name of a file beside the recipe, such as "{train.name}".'
        )
    if name == train.name:
        return train
    if competition.own_text and (folder / name).is_file():
        return folder / name
    own = "There is no such file beside the recipe" if competition.own_text else f"Only {train.name} may be used"
    raise ConfigError(f'the recipe trains on "{name[:80]}". {own}.')


def _trained(recipe: Recipe, run: Path, budget: CompetitionBudget) -> dict[str, Any]:
    """Train until the last step, or until the seconds are over; the cost of it."""
    most = budget.seconds
    cost: dict[str, Any] = {}

    def step(seen: StepReport) -> None:
        cost.update(tokens=seen.tokens, seconds=seen.seconds)
        if most is not None and seen.seconds >= most and "note" not in cost:
            cost["note"] = f"stopped after {most:g} s"
            signal.raise_signal(signal.SIGTERM)  # the training saves, and ends

    try:
        train_into(recipe, run, watcher=Watcher(step=step))
    except Interrupted:
        if "note" not in cost:
            raise
    return cost


# The rules


def _expect_language(recipe: Recipe) -> None:
    if recipe.task.name != "next-token":
        raise ConfigError(
            f'objective.kind is "{recipe.task.name}", but this is a competition of language models. Use "next-token".'
        )


def _expect_new(training: Path, competition: Competition) -> None:
    share = overlap(training, Path(competition.hidden))
    if share > competition.overlap:
        raise DataError(
            f"its training text contains {share:.0%} of the hidden text; at most {competition.overlap:.0%} are allowed."
        )


def _expect_parameters(parameters: int, budget: CompetitionBudget) -> None:
    if budget.parameters is not None and parameters > budget.parameters:
        raise DataError(f"the model has {parameters:,} parameters; the budget is {budget.parameters:,}.")


def _expect_tokens(recipe: Recipe, budget: CompetitionBudget) -> None:
    training = recipe.training
    tokens = training.steps * training.batch * training.context * training.accumulate
    if budget.tokens is not None and tokens > budget.tokens:
        raise DataError(f"the recipe trains on {tokens:,} tokens; the budget is {budget.tokens:,}. Lower training.steps.")


def _measured(path: Path, parameters: int, competition: Competition) -> dict[str, Any]:
    model = load(path, competition.device, kind=LanguageModelRun)
    text = read_text(competition.hidden).rstrip("\n")
    spelled = model.tokenizer.decode(model.tokenizer.encode(text))
    if not model.tokenizer.lossless or spelled.rstrip("\n") != text:
        raise DataError("its tokenizer does not keep every character of the hidden text. Use char or bpe.")
    result = model.evaluate(competition.hidden, progress=False)
    bits = result["bits_per_character"]
    if not isinstance(bits, float) or not math.isfinite(bits):
        raise DataError("its bits per character are not a finite number.")
    per_word = bits * len(text) / max(1, len(text.split()))
    return {"bits_per_character": bits, "perplexity_per_word": 2 ** min(per_word, 1000.0), "parameters": parameters}


if __name__ == "__main__":
    main()
