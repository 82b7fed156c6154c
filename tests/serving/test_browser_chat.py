"""The room Chat in a browser: questions, answers that appear as they are written, Stop, and the Back button."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from browsing import Screenshot, Visit, Watched, serving

from firth.serving.lab.library import RunLibrary
from firth.tasks.conversation import ConversationRun


def said(page: Watched) -> list[tuple[str, str]]:
    script = "all => all.map(one => [one.dataset.role, one.querySelector('p').textContent])"
    return [tuple(one) for one in page.page.locator("[data-talk] [data-role]").evaluate_all(script)]


def say(page: Watched, text: str) -> Watched:
    page.page.locator("[data-control=message]").fill(text)
    return page.press("send")


@pytest.mark.long
def test_a_conversation_remembers_and_its_rounds_can_be_taken_back(
    visit: Visit, chat_library: RunLibrary, screenshot: Screenshot
) -> None:
    with serving(chat_library) as address:
        page = visit("#/chat", at=address)
        say(page, "name 7")
        say(page, "again")
        talk = [("user", "name 7"), ("assistant", "seven"), ("user", "again"), ("assistant", "seven")]
        assert said(page) == talk
        screenshot(page, "chat")
        assert said(visit(page.hash(), at=address)) == talk  # the address holds it
        page.page.go_back()
        page.page.locator("[data-talk] [data-role]").nth(2).wait_for(state="detached")
        assert said(page) == talk[:2]
        page.press("over")
        assert said(page) == []


def test_an_answer_appears_as_it_is_written_and_stop_keeps_what_there_is(
    visit: Visit, chat_library: RunLibrary, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slowly(*given: Any) -> Iterator[str]:
        yield "<img src=x onerror=alert(1)> "
        for number in range(1000):
            time.sleep(0.05)
            yield f"{number} "

    monkeypatch.setattr(ConversationRun, "reply", slowly)
    with serving(chat_library) as address:
        page = visit("#/chat?run=digits", at=address)
        page.page.locator("[data-control=message]").fill("name 7")
        page.page.locator("[data-control=send]").click()
        page.page.locator("[data-role=assistant] p", has_text="3 ").wait_for()
        assert page.page.locator("[data-control=send]").is_disabled()
        page.page.locator("[data-control=stop]").click()
        page.settled()
        (question, answer) = said(page)
        assert question == ("user", "name 7")
        assert answer[1].startswith("<img src=x onerror=alert(1)> 0 1 2 3 ")
        assert len(answer[1]) < 500
        assert page.page.locator("main img").count() == 0  # nothing is parsed as HTML
        monkeypatch.undo()
        page.press("over")
        say(page, "name 7")  # the run is free again
        assert said(page) == [("user", "name 7"), ("assistant", "seven")]


@pytest.mark.long
def test_without_a_run_that_chats_the_room_says_what_to_do(visit: Visit) -> None:
    with serving(RunLibrary()) as address:
        page = visit("#/chat", at=address)
        assert "chat-decoder" in page.page.locator("[data-command]").text_content()


@pytest.mark.long
def test_an_error_is_told_and_leaves_no_round(visit: Visit, chat_library: RunLibrary) -> None:
    with serving(chat_library) as address:
        page = visit("#/chat?run=digits&temperature=-1", at=address)
        say(page, "name 7")
        assert "temperature is -1" in page.alert()
        assert said(page) == []
