"""The view of Chat as a function: it answers what the run answers, piece by piece, and can be stopped."""

from __future__ import annotations

import itertools
import json
import shutil
from pathlib import Path

import pytest

from firth.api import load
from firth.errors import FirthError
from firth.serving.lab.library import RunLibrary
from firth.serving.lab.request import ViewRequest
from firth.serving.lab.room import Cancelled
from firth.serving.lab.rooms import chat
from firth.tasks.ability import CHAT

TALK = [["user", "name 7"], ["assistant", "seven"], ["user", "again"]]


def ask(library: RunLibrary, messages: object = TALK, **given: object) -> tuple[str, list[str], str]:
    """The answer, what was shown before it was complete, and the Python code."""
    shown: list[str] = []
    request = ViewRequest({"run": "digits", "messages": json.dumps(messages), **given})
    result = chat.reply(request, library, lambda what, done, total: shown.append(what) if done else None)
    return str(result.facts["answer"]), shown, result.python


def test_it_answers_with_the_history_and_shows_what_is_written(chat_library: RunLibrary) -> None:
    answer, shown, python = ask(chat_library)
    model = load(chat_library.path("digits"))
    asked = [{"role": role, "content": content} for role, content in TALK]
    assert answer == model.chat(asked, seed=0) == "seven"
    assert shown
    assert shown[-1] == answer
    assert all(later.startswith(earlier) for earlier, later in itertools.pairwise(shown))
    assert f"messages = {asked!r}" in python


def test_settings_of_the_page_win_over_those_of_the_run(chat_library: RunLibrary) -> None:
    with pytest.raises(FirthError, match="temperature is 11"):
        ask(chat_library, temperature="11")
    with pytest.raises(FirthError, match="tokens is 0"):
        ask(chat_library, tokens="0")
    assert ask(chat_library, temperature="", tokens="")[0] == "seven"


def test_a_stopped_answer_ends_the_work(chat_library: RunLibrary) -> None:
    def stop(what: str, done: int, total: int) -> None:
        if done:
            raise Cancelled

    with pytest.raises(Cancelled):
        chat.reply(ViewRequest({"run": "digits", "messages": json.dumps(TALK)}), chat_library, stop)
    assert ask(chat_library)[0] == "seven"  # the run is free again


@pytest.mark.parametrize("messages", ["x", '[["user"]]', '{"a": 1}', '[["user", 3]]', "5", '[["bot", "hello"]]', "[]"])
def test_messages_that_are_none_are_refused(chat_library: RunLibrary, messages: str) -> None:
    with pytest.raises(FirthError):
        chat.reply(ViewRequest({"run": "digits", "messages": messages}), chat_library, lambda *_: None)


def test_only_runs_that_hold_conversations_are_offered(chat_library: RunLibrary, bpe_run: Path, tmp_path: Path) -> None:
    assert chat.ROOM.usable(chat_library) == ("digits",)
    with pytest.raises(FirthError, match="without a chat template and cannot chat"):
        ask(chat_library, run="char")
    assert not RunLibrary([bpe_run]).facts(bpe_run.name).can(CHAT)
    instruct = Path(shutil.copytree(bpe_run, tmp_path / "instruct"))
    (instruct / "tokenizer_config.json").write_text('{"chat_template": "{{ messages }}"}')
    assert RunLibrary([instruct]).facts("instruct").can(CHAT)
