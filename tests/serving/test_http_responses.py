"""/v1/responses with the package openai."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import openai
import pytest
from chat_templates import CHATML
from http_servers import Served
from scripted import ScriptedEngine, chat_models, scripted
from tool_templates import HERMES

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOLS: Any = [
    {"type": "function", "name": "weather", "description": "The weather of a city", "parameters": CITY, "strict": False}
]
HOSTILE = CHATML + "{% if messages[0].content != 'a' %}{{ 'a' * 10 ** 9 }}{% endif %}"  # firth's own probe begins with an a
TEMPLATES = {"chat": HERMES, "plain": CHATML, "hostile": HOSTILE}
CALLING = 'I look.\n<tool_call>\n{"name": "weather", "arguments": {"city": "Köln"}}\n</tool_call>'


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Served, ScriptedEngine]]:
    with scripted(*chat_models(tmp_path_factory.mktemp("responses"), TEMPLATES)) as (served, engines):
        yield served, engines["chat"]


@pytest.fixture(scope="module")
def engine(server: tuple[Served, ScriptedEngine]) -> ScriptedEngine:
    return server[1]


@pytest.fixture(scope="module")
def client(server: tuple[Served, ScriptedEngine]) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=server[0].url, api_key="none", max_retries=0) as openai_client:
        yield openai_client


def test_a_response_is_the_answer_of_chat(client: openai.OpenAI, engine: ScriptedEngine) -> None:
    engine.script.extend(["it is cold", "it is cold"])
    response = client.responses.create(
        model="chat",
        instructions="be brief",
        input="is it cold",
        temperature=0.5,
        top_p=0.9,
        max_output_tokens=50,
        metadata={"a": "b"},
    )
    messages: Any = [{"role": "system", "content": "be brief"}, {"role": "user", "content": "is it cold"}]
    chat = client.chat.completions.create(model="chat", messages=messages)
    assert response.output_text == chat.choices[0].message.content == "it is cold"
    assert engine.jobs[-1].prompt == engine.jobs[-2].prompt
    assert (engine.jobs[-2].config.temperature, engine.jobs[-2].config.top_p, engine.jobs[-2].config.tokens) == (0.5, 0.9, 50)
    assert (response.status, response.temperature, response.top_p, response.metadata) == ("completed", 0.5, 0.9, {"a": "b"})
    assert (response.instructions, response.max_output_tokens, response.previous_response_id) == ("be brief", 50, None)
    assert response.usage is not None
    assert chat.usage is not None
    assert response.usage.input_tokens == chat.usage.prompt_tokens
    assert response.usage.output_tokens == chat.usage.completion_tokens
    assert response.usage.total_tokens == chat.usage.total_tokens


def test_items_are_messages(client: openai.OpenAI, engine: ScriptedEngine) -> None:
    engine.script.extend(["no", "no"])
    earlier = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed"}
    items: Any = [
        {"role": "developer", "content": "be brief"},
        {"role": "user", "content": [{"type": "input_text", "text": "is it "}, {"type": "input_text", "text": "cold"}]},
        {**earlier, "content": [{"type": "output_text", "text": "yes", "annotations": []}]},
        {"type": "message", "role": "user", "content": "really"},
    ]
    client.responses.create(model="chat", input=items)
    messages: Any = [("system", "be brief"), ("user", "is it cold"), ("assistant", "yes"), ("user", "really")]
    client.chat.completions.create(model="chat", messages=[{"role": role, "content": text} for role, text in messages])
    assert engine.jobs[-1].prompt == engine.jobs[-2].prompt


def test_an_answer_that_is_too_long_is_incomplete(client: openai.OpenAI, engine: ScriptedEngine) -> None:
    for streamed in (False, True):
        engine.script.append("it is cold: 3 degrees")
        made: Any = client.responses.create(model="chat", input="is it cold", max_output_tokens=3, stream=streamed)
        events = list(made) if streamed else []
        response = events[-1].response if streamed else made
        assert (response.status, response.incomplete_details.reason, response.usage.output_tokens) == (
            "incomplete",
            "max_output_tokens",
            3,
        )
        assert response.output[0].status == "incomplete"
        assert not streamed or events[-1].type == "response.incomplete"


def test_a_stream_has_openais_events(client: openai.OpenAI, engine: ScriptedEngine) -> None:
    engine.script.append("it is cold")
    events: list[Any] = list(client.responses.create(model="chat", input="is it cold", stream=True))
    kinds = [event.type.removeprefix("response.") for event in events]
    deltas = kinds.count("output_text.delta")
    assert deltas
    assert kinds == [
        "created", "in_progress", "output_item.added", "content_part.added", *["output_text.delta"] * deltas,
        "output_text.done", "content_part.done", "output_item.done", "completed",
    ]  # fmt: skip
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert "".join(event.delta for event in events if event.type == "response.output_text.delta") == "it is cold"
    assert events[-1].response.output_text == "it is cold"
    assert events[0].response.id == events[-1].response.id
    assert len({event.item_id for event in events if hasattr(event, "item_id")}) == 1


def test_a_stream_ends_without_chats_last_words(server: tuple[Served, ScriptedEngine]) -> None:
    server[1].script.append("yes")
    with server[0].open("/v1/responses", {"model": "chat", "input": "is it cold", "stream": True}) as response:
        lines = response.read().decode().splitlines()
    assert not any("[DONE]" in line for line in lines)
    named = [line.removeprefix("event: ") for line in lines if line.startswith("event: ")]
    assert named == [json.loads(line.removeprefix("data: "))["type"] for line in lines if line.startswith("data: ")]


@pytest.mark.parametrize("streamed", [False, True])
def test_functions_are_called_and_answered(client: openai.OpenAI, engine: ScriptedEngine, streamed: bool) -> None:
    engine.script.extend([CALLING, "yes"])
    asked: Any = [{"role": "user", "content": "is it cold in Köln"}]
    if streamed:
        with client.responses.stream(model="chat", input=asked, tools=TOOLS) as stream:
            events: list[Any] = list(stream)
            response = stream.get_final_response()
        done = [event for event in events if event.type == "response.function_call_arguments.done"]
        assert [json.loads(event.arguments) for event in done] == [{"city": "Köln"}]
    else:
        response = client.responses.create(model="chat", input=asked, tools=TOOLS)
    message, call = response.output
    assert (message.type, response.output_text, response.status) == ("message", "I look.", "completed")
    assert call.type == "function_call"
    assert (call.name, json.loads(call.arguments), call.status) == ("weather", {"city": "Köln"}, "completed")
    given = [*asked, *response.output, {"type": "function_call_output", "call_id": call.call_id, "output": "3 degrees"}]
    again = client.responses.create(model="chat", input=given, tools=TOOLS)
    assert again.output_text == "yes"
    text = engine._tokenizer.decode(list(engine.jobs[-1].prompt))
    assert "<tool_response>\n3 degrees\n</tool_response>" in text
    assert '"name": "weather", "arguments": {"city": "Köln"}' in text


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "an earlier response": ({"previous_response_id": "resp_1"}, '"previous_response_id" is not supported by firth'),
    "a conversation": ({"conversation": "conv_1"}, '"conversation" is not supported by firth'),
    "storing": ({"store": True}, '"store" is wrong'),
    "the background": ({"background": True}, '"background" is wrong'),
    "XML": ({"text": {"format": {"type": "xml"}}}, '"text.format.type" is wrong'),
    "truncation": ({"truncation": "auto"}, '"truncation" is wrong'),
    "an unknown name": ({"max_tokens": 3}, 'there is no parameter "max_tokens"'),
    "a built-in tool": ({"tools": [{"type": "web_search"}]}, '"tools.0'),
    "a template without tools": ({"model": "plain", "tools": TOOLS}, "the chat template of this model does not support tools"),
    "a required call": ({"tools": TOOLS, "tool_choice": "required"}, '"tool_choice" can be "auto" or "none"'),
    "nothing": ({"input": []}, '"input" is wrong'),
    "a number": ({"input": [3]}, '"input.0" is wrong: expected an object'),
    "reasoning": ({"input": [{"type": "reasoning", "summary": []}]}, '"input.0" has the type "reasoning"'),
    "a picture": (
        {"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "a"}]}]},
        '"input.0" has a part of the type "input_image"',
    ),
    "another role": ({"input": [{"role": "tool", "content": "a"}]}, '"input.0" has the role "tool"'),
    "an unknown key": ({"input": [{"role": "user", "content": "a", "name": "b"}]}, '"input.0.name" is not supported'),
    "an unnamed call": ({"input": [{"type": "function_call", "call_id": "a", "arguments": "{}"}]}, '"input.0.name" is wrong'),
    "a strange name": (
        {"input": [{"type": "function_call", "call_id": "a", "arguments": "{}", "name": "a b"}]},
        "string should match pattern",
    ),
    "too many tokens": ({"max_output_tokens": 10**6}, '"max_output_tokens" is 1,000,000; the limit'),
}


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_be_done_is_refused_by_name(server: tuple[Served, ScriptedEngine], name: str) -> None:
    given, message = BAD[name]
    reply = server[0].post("/v1/responses", {"model": "chat", "input": "is it cold", **given})
    assert reply.status == 400, reply.text
    assert message in reply.error["message"]


def test_a_hostile_template_is_a_400_of_one_line(server: tuple[Served, ScriptedEngine]) -> None:
    for path, body in (
        ("/v1/responses", {"input": "is it cold"}),
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "is it cold"}]}),
    ):
        reply = server[0].post(path, {"model": "hostile", **body})
        told = "the chat template was stopped: it needs more than 200 MB of memory. Correct it."
        assert (reply.status, reply.error["message"]) == (400, told)
    assert server[0].get("/health").status == 200


def test_what_changes_nothing_is_allowed(client: openai.OpenAI, engine: ScriptedEngine) -> None:
    engine.script.append("yes")
    given: Any = {
        "store": False,
        "truncation": "disabled",
        "background": False,
        "text": {"format": {"type": "text"}},
        "user": "me",
    }
    assert client.responses.create(model="chat", input="is it cold", tools=[], **given).output_text == "yes"
