"""The room Walk as functions: what the page gets is small, and its numbers are those of run.walk."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from browsing import executed

from firth.api import load
from firth.errors import ConfigError, DataError
from firth.serving.lab.library import RunLibrary
from firth.serving.lab.request import ViewRequest
from firth.serving.lab.result import ViewResult
from firth.serving.lab.rooms import generate, walk
from firth.serving.lab.walk_json import TERMS
from firth.tasks.abilities import walk_inputs

TEXT = "the list is"
View = Callable[..., ViewResult]


def ask(view: View, library: RunLibrary, **given: object) -> ViewResult:
    return view(ViewRequest(given), library, lambda what, done, total: None)


def test_stages_matrices_and_cells_are_those_of_the_run(transformer_run: Path) -> None:
    library, found = RunLibrary([transformer_run]), load(transformer_run).walk(TEXT)
    whole = ask(walk.whole, library, run="transformer", text=TEXT)
    assert [one["name"] for one in whole.facts["stages"]] == [one.name for one in found.stages]  # type: ignore[attr-defined]
    assert len(whole.json()) < 60_000
    stage = ask(walk.stage, library, run="transformer", text=TEXT, stage="1", head="1")
    truth = found.stages[1].matrices(1)
    for told, one in zip(stage.facts["matrices"], truth, strict=True):  # type: ignore[call-overload]
        assert told["shape"] == list(one.value.shape)
        seen = [value for row in told["values"] for value in row]
        allowed = [True] * one.value.numel() if one.allowed is None else one.allowed.flatten().tolist()
        for value, exact, there in zip(seen, one.value[:, :48].flatten().tolist(), allowed[: len(seen)] or allowed, strict=False):
            assert value is None or not there or value == pytest.approx(exact, rel=1e-4, abs=1e-9)
    number = next(n for n, one in enumerate(truth) if one.name == "q")
    cell = ask(walk.cell, library, run="transformer", text=TEXT, stage=1, head=1, matrix=number, row=2, column=3)
    lines = truth[number].lines(2, 3)
    assert [line["value"] for line in cell.facts["lines"]] == pytest.approx([line.value for line in lines], rel=1e-6)  # type: ignore[attr-defined]
    terms = cell.facts["lines"][0]  # type: ignore[index]
    assert len(terms["terms"]) == TERMS
    rest = terms["rest"]["value"] + sum(term["product"] for term in terms["terms"])
    assert rest == pytest.approx(lines[0].value, rel=1e-5)
    (again,) = [line for line in executed(cell.python)["walk"] if line.label == "bias"] or [None]
    assert again is None or again.value == pytest.approx(lines[1].value)


def test_the_drawn_token_is_the_one_that_generate_draws_and_becomes_the_next_input(char_run: Path) -> None:
    library, settings = RunLibrary([char_run]), {"temperature": "0.7", "top_k": "5", "seed": "3"}
    ids, written = "", ""
    for _ in range(3):
        facts = ask(walk.whole, library, run="char", text=TEXT, ids=ids, **settings).facts
        other = ask(generate.next_token_view, library, run="char", prompt=TEXT, tokens=written, **settings).facts
        assert facts["next"]["drawn"]["id"] == other["drawn"]["id"]  # type: ignore[index]
        told = {one["id"]: one["share"] for one in facts["next"]["candidates"]}  # type: ignore[index]
        assert told == pytest.approx({one["id"]: one["share"] for one in other["candidates"]}, abs=1e-6)  # type: ignore[attr-defined]
        drawn = facts["next"]["drawn"]["id"]  # type: ignore[index]
        ids = ",".join(map(str, [*facts["ids"], drawn]))  # type: ignore[misc]
        written = ",".join(filter(None, (written, str(drawn))))


def test_every_token_has_the_distribution_of_what_follows_it(char_run: Path) -> None:
    library, settings = RunLibrary([char_run]), {"temperature": "0.7", "top_k": "5"}
    facts = ask(walk.whole, library, run="char", text=TEXT, **settings).facts
    ids: list[int] = facts["ids"]  # type: ignore[assignment]
    earlier = facts["next"]["earlier"]  # type: ignore[index]
    assert [one["came"]["id"] for one in earlier] == ids[1:]
    for row in (0, 4):
        ended_here = ask(walk.whole, library, run="char", text=TEXT, ids=",".join(map(str, ids[: row + 1])), **settings).facts
        for one, truth in zip(earlier[row]["candidates"], ended_here["next"]["candidates"], strict=True):  # type: ignore[index]
            assert one["id"] == truth["id"]
            assert one["share"] == pytest.approx(truth["share"], abs=1e-6)


def test_the_last_token_is_replaced_and_other_settings_need_no_forward_pass(
    char_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library, runs = RunLibrary([char_run]), []
    usual = walk_inputs.walk

    def counted(*given: object) -> object:
        runs.append(given)
        return usual(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(walk_inputs, "walk", counted)
    facts = ask(walk.whole, library, run="char", text="the", last="a").facts
    assert facts["tokens"] == ["t", "h", "a"]
    ask(walk.next_token, library, run="char", text="the", last="a", temperature=0)
    ask(walk.stage, library, run="char", text="the", last="a", stage=1)
    assert len(runs) == 1


def test_what_cannot_be_walked_is_refused(char_run: Path) -> None:
    library = RunLibrary([char_run])
    with pytest.raises(DataError, match="the walk shows at most 96"):
        ask(walk.whole, library, run="char", text="the " * 40)
    with pytest.raises(ConfigError, match='ids is "1,x"'):
        ask(walk.whole, library, run="char", text="the", ids="1,x")
    with pytest.raises(ConfigError, match="token id 999 is out of range"):
        ask(walk.whole, library, run="char", text="the", ids="999")
    with pytest.raises(ConfigError, match="stage is 7; expected 0 to 2"):
        ask(walk.stage, library, run="char", text="the", stage=7)


@pytest.mark.long
def test_translators_start_with_their_own_translation_and_go_on_from_any(pair_library: RunLibrary) -> None:
    for name in ("rnnsearch", "transformer", "rnnenc"):
        facts = ask(walk.whole, pair_library, run=name, text="1 2").facts
        json.dumps(facts)
        own = load(pair_library.path(name)).translate(["1 2"])[0]
        assert " ".join(facts["tokens"]) == own  # type: ignore[arg-type]
        empty = ask(walk.whole, pair_library, run=name, text="1 2", ids="-").facts
        assert empty["stages"][-1]["tokens"] == ["<eos>"]  # type: ignore[index]
        sides = [one["side"] for one in facts["stages"]]  # type: ignore[attr-defined]
        assert sides == sorted(sides, reverse=True)
        assert set(sides) == {"encoder", "decoder"}
