"""Tools through the HTTP API, with the package openai."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import openai
import pytest
from chat_templates import CHATML
from http_servers import Served
from scripted import ScriptedEngine, chat_models, scripted
from tool_templates import TOOL_TEMPLATES

from firth.decoding.engine.jobs import Finished, GeneratedToken, Job
from firth.serving.http.writing import ResponseText

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOLS: Any = [
    {"type": "function", "function": {"name": "weather", "description": "The weather of a city", "parameters": CITY}},
    {"type": "function", "function": {"name": "time"}},
]
ASKED: Any = [{"role": "user", "content": "is it cold in Köln"}]
WRITTEN = {
    "Hermes": 'I look.\n<tool_call>\n{"name": "weather", "arguments": {"city": "Köln"}}\n</tool_call>\n'
    '<tool_call>\n{"name": "time", "arguments": {}}\n</tool_call>',
    "Qwen-Coder": "I look.\n<tool_call>\n<function=weather>\n<parameter=city>\nKöln\n</parameter>\n</function>\n</tool_call>\n"
    "<tool_call>\n<function=time>\n</function>\n</tool_call>",
    "Mistral": 'I look.[TOOL_CALLS] [{"name": "weather", "arguments": {"city": "Köln"}}, {"name": "time", "arguments": {}}]',
    "Llama": '{"name": "weather", "parameters": {"city": "Köln"}}; {"name": "time", "parameters": {}}',
}
TEMPLATES = {name.replace(" ", "-"): source for name, source in TOOL_TEMPLATES.items()} | {"none": CHATML}
CALLS = [("weather", {"city": "Köln"}), ("time", {})]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Served, dict[str, ScriptedEngine]]]:
    with scripted(*chat_models(tmp_path_factory.mktemp("tools"), TEMPLATES)) as models:
        yield models


@pytest.fixture(scope="module")
def engines(server: tuple[Served, dict[str, ScriptedEngine]]) -> dict[str, ScriptedEngine]:
    return server[1]


@pytest.fixture(scope="module")
def client(server: tuple[Served, dict[str, ScriptedEngine]]) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=server[0].url, api_key="none", max_retries=0) as openai_client:
        yield openai_client


def called(message: Any) -> list[tuple[str, Any]]:
    return [(call.function.name, json.loads(call.function.arguments)) for call in message.tool_calls or []]


@pytest.mark.parametrize("family", WRITTEN)
def test_calls_are_told_from_the_text(client: openai.OpenAI, engines: dict[str, ScriptedEngine], family: str) -> None:
    engines[family].script.append(WRITTEN[family])
    choice = client.chat.completions.create(model=family, messages=ASKED, tools=TOOLS).choices[0]
    assert called(choice.message) == CALLS
    assert choice.message.content == ("I look." if family != "Llama" else None)
    assert choice.finish_reason == "tool_calls"
    assert len({call.id for call in choice.message.tool_calls or []}) == 2
    prompt = engines[family].jobs[-1].prompt
    assert "The weather of a city" in engines[family]._tokenizer.decode(list(prompt))


@pytest.mark.parametrize("family", WRITTEN)
def test_streamed_calls_are_the_same(client: openai.OpenAI, engines: dict[str, ScriptedEngine], family: str) -> None:
    engines[family].script.append(WRITTEN[family])
    with client.chat.completions.stream(model=family, messages=ASKED, tools=TOOLS) as stream:
        for _ in stream:
            pass
        choice = stream.get_final_completion().choices[0]
    assert called(choice.message) == CALLS
    assert (choice.message.content or None) == ("I look." if family != "Llama" else None)
    assert choice.finish_reason == "tool_calls"


def test_a_stream_has_openais_deltas(client: openai.OpenAI, engines: dict[str, ScriptedEngine]) -> None:
    engines["Hermes"].script.append(WRITTEN["Hermes"])
    made = client.chat.completions.create(
        model="Hermes", messages=ASKED, tools=TOOLS, stream=True, stream_options={"include_usage": True}
    )
    *chunks, last = list(made)
    assert last.usage is not None
    deltas = [one for chunk in chunks for one in chunk.choices[0].delta.tool_calls or []]
    assert [one.index for one in deltas] == [0, 0, 1, 1]
    assert [one.type for one in deltas] == ["function", None, "function", None]
    assert [one.function.name for one in deltas if one.function] == ["weather", None, "time", None]
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == "I look."
    assert [chunk.choices[0].finish_reason for chunk in chunks] == [None] * (len(chunks) - 1) + ["tool_calls"]


def test_what_tools_return_is_part_of_the_conversation(client: openai.OpenAI, engines: dict[str, ScriptedEngine]) -> None:
    for family, written in WRITTEN.items():
        engine = engines[family]
        engine.script.extend([written if family != "Llama" else written.partition(";")[0], "yes"])
        message = client.chat.completions.create(model=family, messages=ASKED, tools=TOOLS).choices[0].message
        returned = [
            {"role": "tool", "tool_call_id": call.id, "content": f"degrees of {call.function.name}"}
            for call in reversed(message.tool_calls or [])
        ]
        completion = client.chat.completions.create(model=family, messages=[*ASKED, message, *returned], tools=TOOLS)
        assert completion.choices[0].message.content == "yes"
        assert completion.choices[0].finish_reason == "stop"
        text = engine._tokenizer.decode(list(engine.jobs[-1].prompt))
        assert all(f"degrees of {name}" in text for name, _ in called(message))


def test_a_text_without_calls_is_what_it_was(client: openai.OpenAI, engines: dict[str, ScriptedEngine]) -> None:
    for written, limit in ((" it is < 3 degrees \n", 100), ('<tool_call>\n{"name": "weather"', 9)):
        for tools in (TOOLS, openai.omit):
            engines["Hermes"].script.append(written)
            completion = client.chat.completions.create(model="Hermes", messages=ASKED, tools=tools, max_completion_tokens=limit)
            assert completion.choices[0].message.tool_calls is None
            assert completion.choices[0].finish_reason == ("stop" if limit == 100 else "length")
            assert written.startswith(completion.choices[0].message.content or "-") or tools is openai.omit


def test_special_tokens_are_part_of_a_text_only_where_they_say_that_a_call_begins(server: Any) -> None:
    """An imported tokenizer spells none of its special tokens."""
    model = server[0].models.get("Mistral")
    job = Job((1,), model.language.recipe.decoding)
    plain, shown = (
        ResponseText(0, job, _Silent(model.run.tokenizer), (), (), False, shown=shown) for shown in ({}, {7: "[TOOL_CALLS]"})
    )
    for text, expected in ((plain, ""), (shown, "[TOOL_CALLS]")):
        text.read([GeneratedToken(7, -1.0), Finished("stop")])
        assert text.take().text == expected


class _Silent:
    """A tokenizer of which no token has a text."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer

    def spell(self, ids: Any) -> Iterator[str]:
        return ("" for _ in ids)


def test_tool_choice_none_hides_the_tools(client: openai.OpenAI, engines: dict[str, ScriptedEngine]) -> None:
    engine = engines["Hermes"]
    engine.script.extend(["yes", "yes"])
    client.chat.completions.create(model="Hermes", messages=ASKED, tools=TOOLS, tool_choice="none")
    client.chat.completions.create(model="Hermes", messages=ASKED)
    assert engine.jobs[-1].prompt == engine.jobs[-2].prompt


@pytest.mark.parametrize("streamed", [False, True])
def test_each_of_several_answers_has_its_own_calls(
    client: openai.OpenAI, engines: dict[str, ScriptedEngine], streamed: bool
) -> None:
    engines["Hermes"].script.extend([WRITTEN["Hermes"], "no"])
    made: Any = client.chat.completions.create(model="Hermes", messages=ASKED, tools=TOOLS, n=2, stream=streamed)
    calls: dict[int, list[str]] = {0: [], 1: []}
    for part in made if streamed else [made]:
        for choice in part.choices:
            said = choice.delta if streamed else choice.message
            calls[choice.index] += [call.function.name for call in said.tool_calls or [] if call.function.name]
    assert calls == {0: ["weather", "time"], 1: []}


def test_without_parallel_calls_there_is_one(client: openai.OpenAI, engines: dict[str, ScriptedEngine]) -> None:
    engines["Hermes"].script.append(WRITTEN["Hermes"])
    completion = client.chat.completions.create(model="Hermes", messages=ASKED, tools=TOOLS, parallel_tool_calls=False)
    assert called(completion.choices[0].message) == CALLS[:1]


CALL: Any = {"id": "a", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
BAD: dict[str, tuple[dict[str, Any], str]] = {
    "a template without tools": ({"model": "none", "tools": TOOLS}, "the chat template of this model does not support tools"),
    "required": ({"tools": TOOLS, "tool_choice": "required"}, '"tool_choice" can be "auto" or "none"'),
    "one by name": (
        {"tools": TOOLS, "tool_choice": {"type": "function", "function": {"name": "time"}}},
        '"tool_choice" can be "auto" or "none"',
    ),
    "another choice": ({"tools": TOOLS, "tool_choice": "often"}, '"tool_choice" is "often"'),
    "a tool of another type": ({"tools": [{"type": "code_interpreter"}]}, '"tools.0.type" is wrong'),
    "a strict function": (
        {"tools": [{"type": "function", "function": {"name": "f", "strict": True}}]},
        '"tools.0.function.strict" is wrong',
    ),
    "a name twice": ({"tools": [*TOOLS, TOOLS[0]]}, 'two functions with the name "weather"'),
    "logprobs": ({"tools": TOOLS, "logprobs": True}, '"logprobs" cannot be combined'),
    "an answer to nothing": (
        {"messages": [*ASKED, {"role": "tool", "tool_call_id": "x", "content": "3"}]},
        'message 2 has the role "tool"; expected assistant',
    ),
    "no answer": (
        {"messages": [*ASKED, {"role": "assistant", "tool_calls": [CALL]}, {"role": "user", "content": "and"}]},
        'message 3 has the role "user"; expected tool',
    ),
    "another id": (
        {
            "messages": [
                *ASKED,
                {"role": "assistant", "tool_calls": [CALL]},
                {"role": "tool", "tool_call_id": "b", "content": "3"},
            ]
        },
        'answers the tool call "b", which is not open',
    ),
    "a user's call": ({"messages": [{"role": "user", "content": "a", "tool_calls": [CALL]}]}, "only an assistant's can"),
    "arguments": (
        {
            "messages": [
                *ASKED,
                {"role": "assistant", "tool_calls": [{**CALL, "function": {"name": "weather", "arguments": "[]"}}]},
                {"role": "tool", "tool_call_id": "a", "content": "3"},
            ]
        },
        'the arguments of "weather" are not a JSON object',
    ),
    "the last word": (
        {"messages": [*ASKED, {"role": "assistant", "tool_calls": [CALL]}]},
        "the last message must come from the user",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_be_done_is_refused_by_name(server: tuple[Served, dict[str, ScriptedEngine]], name: str) -> None:
    given, message = BAD[name]
    reply = server[0].post("/v1/chat/completions", {"model": "Hermes", "messages": ASKED, **given})
    assert reply.status == 400
    assert message in reply.error["message"]


def test_deeply_nested_parameters_are_a_400(server: tuple[Served, dict[str, ScriptedEngine]]) -> None:
    deep: Any = {}
    for _ in range(300):
        deep = {"properties": [deep]}
    tools = [{"type": "function", "function": {"name": "f", "parameters": deep}}]
    reply = server[0].post("/v1/chat/completions", {"model": "Hermes", "messages": ASKED, "tools": tools})
    assert (reply.status, reply.text.count("\n")) == (400, 0)
