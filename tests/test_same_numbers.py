"""A change that only moves code leaves every number as it was: losses, logits and texts of every idea, on any processor.

`tests/same_numbers/record.py` wrote the known ones."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Iterator
from inspect import get_annotations
from pathlib import Path
from typing import Any, get_type_hints

import pytest
from same_numbers.cases import Files, recipes
from same_numbers.decoded import CONSTRAINED, FILTERED, SAMPLED, SEARCHED, STOPPED, STOPPED_SEARCH
from same_numbers.known import COMMAND, Compute, cases, differences, known
from shares import third

from firth.api import compose
from firth.config import choices, options_of
from firth.decoding.config import DecodingConfig
from firth.layers.kernels.cpu import team
from firth.models import ModelConfig
from firth.tasks import TASKS

KNOWN = known()
# Masks that a language model has no use for.
REFUSED = {("mask", "full"), ("mask", "all_but_self"), ("mask", "prefix")}
UNTRAINED = {"embedding"}  # tasks of models that are only imported


@pytest.fixture(scope="session")
def computed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Compute]:
    return cases(tmp_path_factory.mktemp("same_numbers"))


@pytest.mark.parametrize("name", third(KNOWN))
def test_the_numbers_are_the_known_ones(name: str, computed: dict[str, Compute]) -> None:
    if name not in computed:
        pytest.fail(f"there is no case of this name any more. If that is right, run {COMMAND}")
    expected = {key: value for key, value in KNOWN[name].items() if key != "seed"}
    differing = list(differences(computed[name](KNOWN[name]["seed"], 0.0), expected))
    assert not differing, "\n".join(differing) + f'\nIf these numbers are meant to change: {COMMAND} "{name}"'


def test_every_case_has_known_numbers(computed: dict[str, Compute]) -> None:
    new = computed.keys() - KNOWN.keys()
    assert not new, f"{sorted(new)} have none yet; run {COMMAND}"


def test_the_fast_cases_run_the_compiled_kernels(computed: dict[str, Compute], monkeypatch: pytest.MonkeyPatch) -> None:
    """All but the product of one row with four million weights, which has a test of its own."""
    if reason := team.why_not():
        pytest.skip(f"this machine has no compiled kernels: {reason}")
    callers, run = set(), team.run

    def noted(*arguments: Any) -> None:
        callers.add(sys._getframe(1).f_globals["__name__"].rpartition(".")[2])
        run(*arguments)

    monkeypatch.setattr(team, "run", noted)
    for name in ("fast: swiglu, rms, rotary", "fast: gelu, deep product", "fast: translation", "decoding: many characters"):
        computed[name](0, 0.0)
    assert callers == {"row_block", "cached_attention", "source_attention", "product", "logsumexp"}


def test_every_task_is_in_a_case(tmp_path: Path) -> None:
    covered = {table["objective"]["kind"] for table in recipes(Files(tmp_path)).values()}
    missing = {task.name for task in TASKS} - covered - UNTRAINED
    assert not missing, f"write a case for {sorted(missing)} in tests/same_numbers/cases.py, then run {COMMAND}"


def test_every_setting_of_a_model_is_in_a_case(tmp_path: Path) -> None:
    """Each choice of each setting, and a value other than the default for each number."""
    seen: set[tuple[str, str, Any]] = set()
    for table in recipes(Files(tmp_path)).values():
        seen |= set(_seen(compose(table).model))
    wanted = {idea for config in options_of(ModelConfig) for idea in _ideas(config)}
    left = {idea for idea in wanted - seen if idea[1:] not in REFUSED}
    missing = sorted(f"{owner}.{name} = {choice!r}" for owner, name, choice in left)
    assert not missing, "write cases in tests/same_numbers/cases.py, then run " + COMMAND + ", for\n" + "\n".join(missing)


def test_every_setting_of_decoding_is_in_a_case() -> None:
    given = (
        *SAMPLED.values(),
        *FILTERED.values(),
        *CONSTRAINED.values(),
        *STOPPED.values(),
        *SEARCHED.values(),
        *STOPPED_SEARCH.values(),
    )
    configs = [DecodingConfig(**_tuples(one)) for one in given]
    missing = set(_ideas(DecodingConfig)) - {idea for config in configs for idea in _seen(config)}
    assert not missing, f"write cases in tests/same_numbers/decoded.py, then run {COMMAND}, for {sorted(map(str, missing))}"


def _tuples(settings: dict[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in settings.items()}


OTHER = "any but the default"


def _ideas(config: type) -> Iterator[tuple[str, str, Any]]:
    """(the class that declares a setting, its name, a choice) of all settings; those of a table inside are its own."""
    hints = get_type_hints(config, include_extras=True)
    for field in dataclasses.fields(config):
        owner, members = _owner(config, field.name), list(options_of(hints[field.name]))
        offered = [choice for member in members for choice in _choices(member)]
        for choice in offered or [OTHER]:
            yield owner, field.name, choice
        for member in members:
            if dataclasses.is_dataclass(member):
                yield from _ideas(member)


def _seen(config: Any) -> Iterator[tuple[str, str, Any]]:
    for field in dataclasses.fields(config):
        value, owner = getattr(config, field.name), _owner(type(config), field.name)
        if isinstance(value, bool | str):
            yield owner, field.name, value
        default = field.default_factory() if isinstance(field.default_factory, Callable) else field.default  # type: ignore[arg-type]
        if value != default:
            yield owner, field.name, OTHER
        if dataclasses.is_dataclass(value):
            yield from _seen(value)


def _owner(config: type, name: str) -> str:
    """The first class that declares the setting, so that those of all Transformers count once."""
    return next(parent.__name__ for parent in reversed(config.__mro__) if name in get_annotations(parent))


def _choices(member: Any) -> tuple[Any, ...]:
    return (True, False) if member is bool else choices(member)
