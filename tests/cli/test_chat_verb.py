"""firth chat, and how generate, train and evaluate show a run of conversations."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from chat_lines import trained_on_digits
from shell import Firth, firth

from firth.cli.chat import _converse, _typed

__all__ = ["firth"]


@pytest.fixture(scope="module")
def run() -> Path:
    return trained_on_digits()


def test_piped_questions_are_answered_line_by_line_with_their_history(firth: Firth, run: Path) -> None:
    answer = firth("chat", run, stdin=b"name 3\nagain\n\nand 5\n")
    assert (answer.code, answer.out) == (0, "three\nthree\nfive\n")


def test_reset_forgets_and_exit_leaves(firth: Firth, run: Path) -> None:
    whole = firth("chat", run, stdin=b"name 3\n/reset\nagain\n/exit\nname 4\n")
    assert whole.out.splitlines()[0] == "three"
    alone = firth("chat", run, stdin=b"again\n")
    assert whole.out.splitlines()[1:] == alone.out.splitlines()


def test_json_is_a_line_per_answer(firth: Firth, run: Path) -> None:
    answer = firth("chat", run, "--json", stdin=b"name 3\nagain\n")
    answers = [json.loads(line) for line in answer.out.splitlines()]
    assert answers == [
        {"prompt": "name 3", "answer": "three", "stopped": False},
        {"prompt": "again", "answer": "three", "stopped": False},
    ]


def test_an_unknown_command_and_a_long_question_do_not_end_the_conversation(firth: Firth, run: Path) -> None:
    answer = firth("chat", run, stdin=b"name 3\n/help me\n" + b"name " * 99 + b"\nagain\n")
    assert (answer.code, answer.out) == (0, "three\nthree\n")
    assert 'unknown command "/help"; /reset forgets the conversation' in answer.err
    assert "tokens, but this model reads 28. Shorten it." in answer.err


def test_a_long_conversation_says_once_that_it_forgets(firth: Firth, run: Path) -> None:
    answer = firth("chat", run, stdin=b"".join(b"name %d\n" % (n % 10) for n in range(20)))
    assert len(answer.out.splitlines()) == 20
    assert answer.err.count("no longer sees its oldest rounds") == 1


class Slow:
    """Stands for a run whose second piece is interrupted by Ctrl-C."""

    def __init__(self) -> None:
        self.seen: list[list[str]] = []

    def reply(self, messages: Any, config: Any, *draft: Any) -> Iterator[str]:
        self.seen.append([message.content for message in messages])
        yield "one"
        if messages[-1].content == "slow":
            raise KeyboardInterrupt
        yield " two"


def test_ctrl_c_stops_the_answer_and_not_the_program(capsys: pytest.CaptureFixture[str]) -> None:
    run = Slow()
    _converse(run, None, ["slow", "next"], "be brief", False)  # type: ignore[arg-type]
    assert capsys.readouterr().out == "one [stopped]\none two\n"
    assert run.seen == [["be brief", "slow"], ["be brief", "slow", "one", "next"]]


def test_ctrl_c_at_the_prompt_abandons_the_line_and_ctrl_d_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    typed = iter([KeyboardInterrupt, "hello", EOFError])

    def read(prompt: str) -> str:
        one: Any = next(typed)
        if isinstance(one, str):
            return one
        raise one

    monkeypatch.setattr("builtins.input", read)
    assert list(_typed()) == ["hello"]


def test_generate_answers_on_a_line_of_its_own(firth: Firth, run: Path) -> None:
    assert firth("generate", run, "name 7").out == "name 7\nseven\n"
    assert firth("generate", run, "name 7", "--beam", 3).out == "name 7\nseven\n"
    assert json.loads(firth("generate", run, "name 7", "--json").out)["continuation"] == "seven"


def test_evaluate_prints_a_line_per_skill(firth: Firth, run: Path) -> None:
    out = firth("evaluate", run).out
    assert "conversations       10, 30 answers" in out
    assert "exact match         100.00%" in out
    assert "names     exact match         30      1.0000      1.0000      1.0000      1.0000           –" in out
    assert json.loads(firth("evaluate", run, "--json").out)["by_skill"][0]["skill"] == "names"


def test_other_runs_do_not_chat_and_chats_do_not_stream(firth: Firth, run: Path, char_run: Path) -> None:
    answer = firth("chat", char_run, stdin=b"hello\n")
    assert answer.code == 2
    assert "this run is a language model without a chat template and cannot chat" in answer.err
    refused = firth("evaluate", run, "--streams", 2)
    assert refused.code == 2
    assert "--streams only applies to" in refused.err
