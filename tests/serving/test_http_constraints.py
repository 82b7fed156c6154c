"""Answers that must match, over HTTP: choice, regex, json_schema and OpenAI's response_format."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest
from http_servers import Served, serving

from firth.serving.lab.library import RunLibrary

SCHEMA = {
    "type": "object",
    "properties": {"n": {"type": "integer", "minimum": 1, "maximum": 20}, "kind": {"enum": ["odd", "even"]}},
    "required": ["n", "kind"],
    "additionalProperties": False,
}
NEVER = {"type": "number", "minimum": 3, "maximum": 2}
ASKED: Any = [{"role": "user", "content": "name 7"}]


@pytest.fixture(scope="module", params=[False, pytest.param(True, marks=pytest.mark.long)], ids=["thread", "process"])
def client(request: pytest.FixtureRequest, bpe_run: Path, chat_library: RunLibrary) -> Iterator[openai.OpenAI]:
    with (
        serving(bpe_run, chat_library.runs["digits"], apart=request.param) as served,
        openai.OpenAI(base_url=served.url, api_key="none", max_retries=0) as openai_client,
    ):
        _is_served(served)
        yield openai_client


def _is_served(served: Served) -> None:
    assert served.models.get("bpe").language.tokenizer.kind == "bpe"


def complete(client: openai.OpenAI, **settings: Any) -> list[Any]:
    made = client.completions.create(model="bpe", prompt="the list", max_tokens=80, seed=3, n=4, extra_body=settings)
    return made.choices


def test_an_answer_is_one_of_the_choices_and_matches_the_expression(client: openai.OpenAI) -> None:
    assert {one.text for one in complete(client, choice=[" yes", " no"])} <= {" yes", " no"}
    for one in complete(client, regex=" [0-9]{3}-[a-z]{2}"):
        assert re.fullmatch(" [0-9]{3}-[a-z]{2}", one.text)
        assert one.finish_reason == "stop"
    (cut, *_) = complete(client, regex="[a-z]{200,}")
    assert cut.finish_reason == "length"


@pytest.mark.parametrize("logprobs", [None, 2])
def test_log_probabilities_and_streams_do_not_change_it(client: openai.OpenAI, logprobs: int | None) -> None:
    settings: Any = {"model": "bpe", "prompt": "the list", "max_tokens": 80, "seed": 3, "extra_body": {"regex": " [0-9]{2}\\."}}
    whole = client.completions.create(**settings, logprobs=logprobs).choices[0]
    with client.completions.create(**settings, logprobs=logprobs, stream=True) as stream:
        pieces = [chunk.choices[0] for chunk in stream]
    assert re.fullmatch(r" [0-9]{2}\.", whole.text)
    assert "".join(piece.text for piece in pieces) == whole.text
    assert [piece.finish_reason for piece in pieces][-1] == whole.finish_reason == "stop"


def test_response_format_is_a_schema(client: openai.OpenAI) -> None:
    given: Any = {"type": "json_schema", "json_schema": {"name": "number", "strict": True, "schema": SCHEMA}}
    for choice in complete(client, response_format=given):
        answer = json.loads(choice.text)
        assert answer["kind"] in ("odd", "even")
        assert answer["n"] in range(1, 21)
    for choice in complete(client, response_format={"type": "json_object"}, temperature=0.0):
        assert choice.text.startswith("{")
    plain, same = complete(client), complete(client, response_format={"type": "text"})
    assert [one.text for one in plain] == [one.text for one in same]


def test_chats_and_responses_match_too(client: openai.OpenAI) -> None:
    settings: Any = {"model": "digits", "extra_body": {"choice": ["two one", "nine"]}}
    answer = client.chat.completions.create(**settings, messages=ASKED, max_tokens=40).choices[0].message.content
    assert answer in ("two one", "nine")
    assert client.responses.create(**settings, input="name 7", max_output_tokens=40).output_text in ("two one", "nine")


@pytest.mark.parametrize(
    ("settings", "param", "said"),
    [
        ({"regex": "(a"}, "regex", "unclosed group"),
        ({"regex": "a" * 70_000}, "regex", "at most 65,536 characters"),
        ({"choice": ["a"], "regex": "b"}, "choice", "cannot be combined"),
        ({"choice": "a"}, "choice", "list"),
        ({"json_schema": "{"}, "json_schema", "is not JSON"),
        ({"json_schema": "{}", "response_format": {"type": "json_object"}}, "response_format", "say the same"),
        ({"response_format": {"type": "json_schema"}}, "response_format", "need one another"),
        ({"response_format": {"type": "grammar"}}, "response_format.type", "json_schema"),
        ({"response_format": {"type": "json_schema", "json_schema": {"schema": NEVER}}}, "json_schema", "cannot be used"),
    ],
    ids=lambda one: str(one)[:50],
)
def test_what_cannot_be_met_is_a_wrong_request(client: openai.OpenAI, settings: Any, param: str, said: str) -> None:
    with pytest.raises(openai.BadRequestError) as error:
        complete(client, **settings)
    assert error.value.param == param
    assert said in error.value.message


def test_words_that_a_run_lacks_are_told(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match="whole words"):
        client.chat.completions.create(model="digits", messages=ASKED, extra_body={"response_format": {"type": "json_object"}})


def test_responses_have_a_format(client: openai.OpenAI) -> None:
    given: Any = {"format": {"type": "json_schema", "name": "number", "schema": SCHEMA}}
    with pytest.raises(openai.BadRequestError, match="whole words"):
        client.responses.create(model="digits", input="name 7", text=given)
