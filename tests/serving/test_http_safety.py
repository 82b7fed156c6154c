"""The HTTP API under clients that are careless, too demanding, gone, or not allowed in."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from http_servers import Reply, Served, serving

import firth
from firth.errors import ConfigError
from firth.serving.http.keys import Keys, check_address, read_keys
from firth.serving.http.limits import Limits
from firth.serving.http.models import CONTEXT, ServedModel, load_models, name_runs

KEY = "a-key-of-at-least-sixteen-characters"
PRIVATE = " café"
LONG: dict[str, Any] = {"model": "char", "prompt": "the", "max_tokens": 4000, "temperature": 0}


@pytest.fixture(scope="module")
def served(char_run: Path, transformer_run: Path) -> Iterator[Served]:
    """Two slots, a queue of two, bodies of 20,000 bytes, 2 seconds."""
    limits = Limits(body=20_000, queue=2, seconds=2.0, choices=8)
    with serving(char_run, transformer_run, limits=limits, slots=2) as server:
        yield server


def refused(reply: Reply, status: int, says: str, param: str | None = None) -> None:
    assert reply.status == status, reply.text
    assert reply.error.keys() == {"message", "type", "param", "code"}
    assert re.search(says, reply.error["message"]), reply.error
    assert reply.error["param"] == param
    if status in (408, 413, 429):
        assert int(reply.headers["retry-after"]) >= 1


def raw_head(length: str) -> bytes:
    return f"POST /v1/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n{length}\r\n\r\n".encode()


@pytest.mark.parametrize(
    ("body", "param", "says"),
    [
        ({"prompt": 5}, "prompt", "expected a text"),
        ({"prompt": ["a", 1]}, "prompt", "expected a text"),
        ({"prompt": [True]}, "prompt", "expected a text"),
        ({"prompt": []}, "prompt", "expected a text"),
        ({"prompt": [10**6]}, "prompt", "not in the vocabulary; expected ids from 0 to"),
        ({"prompt": [-1]}, "prompt", "not in the vocabulary"),
        ({"prompt": "a", "max_tokens": "3"}, "max_tokens", "valid integer"),
        ({"prompt": "a", "max_tokens": 4097}, "max_tokens", "the limit of this server is 4,096"),
        ({"prompt": "a", "temperature": -1}, "temperature", "expected 0 or more"),
        ({"prompt": "a", "temperature": 1e999}, "temperature", "finite"),
        ({"prompt": "a", "top_p": 0}, "top_p", "0 < top_p"),
        ({"prompt": "a", "seed": -1}, "seed", "0 or more"),
        ({"prompt": "a", "stop": [""]}, "stop", "none of them empty"),
        ({"prompt": "a", "n": 0}, "n", "greater than or equal to 1"),
        ({"prompt": "a", "n": 9}, "prompt", "asks for 9 texts; the limit is 8"),
        ({"prompt": "a", "n": 2, "best_of": 1}, "best_of", "expected at least as many"),
        ({"prompt": "a", "best_of": 2, "stream": True}, "best_of", "cannot be streamed"),
        ({"prompt": "a", "logit_bias": {"5": 1}}, "logit_bias", "not supported by firth"),
        ({"prompt": "a", "suffix": "b"}, "suffix", "not supported by firth"),
        ({"prompt": "a", "temperture": 1}, "temperture", 'Did you mean "temperature"'),
        ({"prompt": "a", "model": "../char"}, "model", r'no model "\.\./char".* Served: char, transformer'),
        ({"prompt": "a", "model": None}, "model", "no model was named"),
    ],
)  # fmt: skip
def test_a_wrong_parameter_is_refused_by_its_name(served: Served, body: dict[str, Any], param: str, says: str) -> None:
    raw = json.dumps({"model": "char", **body}).replace("Infinity", "1e999").encode()
    reply = served.post("/v1/completions", raw=raw)
    refused(reply, 404 if "../" in says or "\\.\\./" in says else 400, says, param)


def test_what_says_nothing_is_allowed(served: Served) -> None:
    harmless = {"user": "me", "metadata": {"a": "b"}, "store": False, "presence_penalty": 0, "logit_bias": {}, "suffix": None}
    assert served.post("/v1/completions", {"model": "char", "prompt": "a", "max_tokens": 1, **harmless}).status == 200


@pytest.mark.parametrize("raw", [b"{", b"[]", b"5", b'"a"', b"\xff\xfe", b"", b'{"prompt": "\\ud800", "model": "char"}'])
def test_what_is_no_request_is_a_400(served: Served, raw: bytes) -> None:
    reply = served.post("/v1/completions", raw=raw)
    assert reply.status == 400, reply.text
    assert reply.error["type"] == "invalid_request_error"


@pytest.mark.parametrize(
    ("path", "raw"),
    [
        ("completions", rb'{"model": "char", "prompt": "a\udc00"}'),
        ("completions", rb'{"model": "char", "prompt": ["a", "\ud83d "]}'),
        ("completions", b'{"model": "char", "prompt": "\xed\xa0\x80"}'),
        ("completions", rb'{"model": "\ud800", "prompt": "a"}'),
        ("completions", rb'{"model": "char", "prompt": "a", "stop": ["\udfff"]}'),
        ("completions", rb'{"model": "char", "prompt": "a", "\ud800": 1}'),
        ("completions", rb'{"model": "char", "prompt": "a", "user": "\ud800"}'),
        ("chat/completions", rb'{"model": "char", "messages": [{"role": "user", "content": "\ud800"}]}'),
        ("chat/completions", rb'{"model": "char", "messages": [{"role": "\ud800", "content": "a"}]}'),
        ("embeddings", rb'{"model": "char", "input": ["a", "\ud800"]}'),
        ("translate", rb'{"model": "char", "input": "\ud800"}'),
        ("classify", rb'{"model": "char", "input": "\ud800"}'),
        ("answer", rb'{"model": "char", "question": "a", "context": "\ud800"}'),
        ("attention", rb'{"model": "transformer", "input": "\ud800"}'),
    ],
)
def test_half_a_character_is_a_400_wherever_it_is(served: Served, path: str, raw: bytes) -> None:
    refused(served.post(f"/v1/{path}", raw=raw), 400, "lone surrogate")


def test_whole_characters_are_read_in_both_spellings(served: Served) -> None:
    for spelled in (rb"\ud83d\ude00", "😀".encode()):
        raw = b'{"model": "char", "max_tokens": 2, "prompt": "users ' + spelled + b'"}'
        assert served.post("/v1/completions", raw=raw).status == 200


@pytest.mark.parametrize("kind", ["APPLICATION/JSON", "application/json; charset=utf-8", "Application/Json ;charset=UTF-8"])
def test_the_media_type_is_read_as_http_defines_it(served: Served, kind: str) -> None:
    assert served.post("/v1/completions", {"model": "char", "prompt": "a", "max_tokens": 1}, content_type=kind).status == 200


def test_a_text_that_the_vocabulary_cannot_spell_is_refused(served: Served) -> None:
    refused(served.post("/v1/completions", {"model": "char", "prompt": "Ψ"}), 400, "not in the vocabulary")


def test_unknown_addresses_and_methods_are_errors_of_the_same_form(served: Served) -> None:
    refused(served.get("/v1/nothing"), 404, "Not Found")
    refused(served.get("/v1/completions"), 405, "Method Not Allowed")
    refused(served.get("/../../etc/passwd"), 404, "Not Found")


def test_a_body_or_prompt_that_is_too_long_is_a_413(served: Served) -> None:
    refused(served.post("/v1/completions", {"model": "char", "prompt": "a" * 20_000}), 413, "more than 20,000 bytes")
    reply = served.post("/v1/completions", {"model": "transformer", "prompt": "a" * 5000})
    refused(reply, 413, '"prompt" has 5,000 tokens; the limit is', "prompt")
    assert reply.error["code"] == "context_length_exceeded"
    with socket.create_connection(("127.0.0.1", served.port)) as plain:  # without a length
        plain.sendall(raw_head("transfer-encoding: chunked") + b"4e20\r\n" + b"x" * 20_000 + b"\r\n5\r\nxxxxx\r\n")
        assert b"413" in plain.recv(1000).split(b"\r\n")[0]


def test_a_full_queue_is_a_429_and_time_is_a_408(served: Served) -> None:
    with ThreadPoolExecutor(8) as pool:
        replies = list(pool.map(lambda _: served.post("/v1/completions", {**LONG, "max_tokens": 1500}), range(8)))
    statuses = [reply.status for reply in replies]
    assert set(statuses) <= {200, 408, 429}
    assert 429 in statuses
    for reply in replies:
        if reply.status != 200:
            refused(
                reply,
                reply.status,
                "has reached its limit of waiting requests" if reply.status == 429 else "took longer than the server allows",
            )
    assert served.idle("char")
    assert served.post("/v1/completions", {"model": "char", "prompt": "a", "max_tokens": 2}).status == 200


def test_a_request_whose_texts_do_not_all_fit_leaves_none_behind(served: Served) -> None:
    before = served.facts("char")
    refused(served.post("/v1/completions", {**LONG, "n": 8}), 429, "has reached its limit of waiting requests")
    assert served.idle("char")
    after = served.facts("char")
    assert after["cancelled"] - before["cancelled"] == after["jobs"] - before["jobs"] >= 2


def test_work_that_takes_too_long_ends(char_run: Path) -> None:
    with serving(char_run, limits=Limits(seconds=0.3, tokens=10**6)) as served:
        long = {**LONG, "max_tokens": 10**6}
        refused(served.post("/v1/completions", long), 408, "took longer than the server allows")
        events = served.post("/v1/completions", {**long, "stream": True}).text.split("\n\n")
        assert json.loads(events[-2].removeprefix("data: "))["error"]["type"] == "timeout_error"
        assert served.idle("char")


def test_a_stream_that_ends_before_its_first_token_has_a_status(char_run: Path) -> None:
    with serving(char_run, limits=Limits(seconds=1e-6)) as served:
        refused(served.post("/v1/completions", {**LONG, "stream": True}), 408, "took longer than the server allows")


@pytest.mark.parametrize("streamed", [False, True])
def test_work_is_cancelled_when_the_client_leaves(char_run: Path, streamed: bool) -> None:
    with serving(char_run, limits=Limits(tokens=10**6)) as served:
        body = json.dumps({**LONG, "max_tokens": 10**6, "stream": streamed}).encode()
        with socket.create_connection(("127.0.0.1", served.port)) as client:
            client.sendall(raw_head(f"content-length: {len(body)}") + body)
            while not served.facts("char")["running"]:
                time.sleep(0.01)
        assert served.idle("char")
        assert served.facts("char")["cancelled"] == 1


def test_a_client_that_does_not_read_costs_no_more_than_its_text(char_run: Path) -> None:
    """It stops reading; its tokens wait for it, others are served, and its time ends."""
    with serving(char_run, limits=Limits(seconds=0.8, tokens=10**6), slots=2) as served:
        body = json.dumps({**LONG, "max_tokens": 10**6, "stream": True}).encode()
        with socket.create_connection(("127.0.0.1", served.port)) as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.sendall(raw_head(f"content-length: {len(body)}") + body)
            assert served.post("/v1/completions", {"model": "char", "prompt": "a", "max_tokens": 2}).status == 200
            assert served.idle("char")


def test_a_server_that_ends_answers_what_it_has_begun(char_run: Path) -> None:
    replies: list[Reply] = []
    with serving(char_run, slots=1) as served:
        ask = lambda: replies.append(served.post("/v1/completions", {**LONG, "max_tokens": 400}))  # noqa: E731
        clients = [threading.Thread(target=ask) for _ in range(3)]
        for client in clients:
            client.start()
        while served.facts("char")["running"] + served.facts("char")["waiting"] < 3:
            time.sleep(0.005)
    for client in clients:
        client.join(10)
    assert [reply.json["usage"]["completion_tokens"] for reply in replies] == [400, 400, 400]


def test_keys_are_needed_everywhere_but_at_the_door(char_run: Path) -> None:
    with serving(char_run, keys=Keys((KEY, "another-key-another-key"))) as served:
        for path in ("/v1/models", "/metrics"):
            refused(served.get(path), 401, "API key is missing or wrong")
            refused(served.get(path, authorization=f"Bearer {KEY}x"), 401, "API key")
            refused(served.get(path, authorization=f"Basic {KEY}"), 401, "API key")
            assert served.get(path, authorization=f"Bearer {KEY}").status == 200
            assert served.get(path, authorization="Bearer another-key-another-key").status == 200
        refused(served.post("/v1/completions", {"prompt": "a"}), 401, "API key")
        assert served.get("/health").status == 200
        assert served.get("/health", host="example.com").status == 200
        assert KEY not in served.get("/docs").text


def test_without_a_key_only_programs_of_this_machine_are_answered(served: Served) -> None:
    refused(served.get("/v1/models", host="rebound.example:80"), 403, "only to 127.0.0.1 and localhost")
    refused(served.get("/v1/models", origin="https://evil.example"), 403, "comes from a web page")
    refused(served.post("/v1/completions", raw=b"{}", content_type="text/plain"), 415, "not application/json")


def test_keys_come_from_the_environment_and_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FIRTH_API_KEY", raising=False)
    file = tmp_path / "keys"
    assert not read_keys(None)
    file.write_text(f"# for the notebook\n{KEY}\n\n", encoding="utf-8")
    monkeypatch.setenv("FIRTH_API_KEY", "from-the-environment")
    keys = read_keys(file)
    assert keys.accept({"authorization": f"Bearer {KEY}"})
    assert keys.accept({"authorization": "bearer from-the-environment"})
    assert not keys.accept({"authorization": "Bearer # for the notebook"})
    assert not keys.accept({"authorization": "Bearer é"})
    assert not keys.accept({})
    monkeypatch.delenv("FIRTH_API_KEY")
    for text, says in (("", "has no key"), ("short", "an API key has 5 characters")):
        file.write_text(text, encoding="utf-8")
        with pytest.raises(ConfigError, match=says):
            read_keys(file)
    with pytest.raises(ConfigError, match="cannot be read"):
        read_keys(tmp_path / "none")


def test_an_address_that_others_reach_needs_a_key() -> None:
    for host in ("0.0.0.0", "::", "192.168.0.7", "example.com"):
        with pytest.raises(ConfigError, match=r"there is no API key\. Set FIRTH_API_KEY or --key-file"):
            check_address(host, Keys())
        check_address(host, Keys((KEY,)))
    for host in ("127.0.0.1", "localhost", "::1", "127.0.0.2"):
        check_address(host, Keys())


def test_names_of_models_are_names_of_folders(char_run: Path, transformer_run: Path, tmp_path: Path) -> None:
    assert name_runs([char_run, transformer_run, char_run]) == {"char": char_run, "transformer": transformer_run}
    shutil.copytree(char_run, tmp_path / "char")
    assert list(name_runs([tmp_path])) == ["char"]
    with pytest.raises(ConfigError, match='would both be the model "char"'):
        name_runs([char_run, tmp_path])


def test_metrics_count_requests_tokens_and_slots(char_run: Path) -> None:
    with serving(char_run, slots=3) as served:
        for _ in range(2):
            served.post("/v1/completions", {"prompt": "a", "max_tokens": 7, "temperature": 0})
        served.post("/v1/completions", {"prompt": 5})
        text = served.get("/metrics").text
        assert 'firth_requests_total{method="POST",route="/v1/completions",status="200"} 2.0' in text
        assert 'firth_requests_total{method="POST",route="/v1/completions",status="400"} 1.0' in text
        assert 'firth_request_seconds_count{route="/v1/completions"} 3.0' in text
        assert 'firth_tokens_generated_total{model="char"} 14.0' in text
        assert 'firth_slots{model="char"} 3.0' in text
        assert 'firth_texts_total{end="length",model="char"} 2.0' in text
        health = served.get("/health").json
        assert (health["status"], health["slots"]) == ("ok", 3)


def test_the_page_of_docs_loads_nothing_from_elsewhere(served: Served) -> None:
    reply = served.get("/docs")
    assert "<code>POST /v1/completions</code>" in reply.text
    assert "<script" not in reply.text
    assert "http" not in reply.text
    assert "default-src 'none'" in reply.headers["content-security-policy"]
    paths = served.get("/openapi.json").json["paths"]
    assert {"/v1/completions", "/v1/chat/completions", "/v1/embeddings", "/v1/translate", "/health"} <= set(paths)


def test_no_text_of_a_request_is_logged(
    char_run: Path, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(ids: object) -> None:
        raise RuntimeError(LONG["prompt"] + PRIVATE)

    with serving(char_run) as served:
        served.post("/v1/completions", {"prompt": "the café", "max_tokens": 2})
        served.post("/v1/completions", {"prompt": "secretΨ", "max_tokens": 2})
        monkeypatch.setattr(served.models.get(None).run.tokenizer, "spell", broken)
        reply = served.post("/v1/completions", {"prompt": "the café", "max_tokens": 2})
        assert (reply.status, reply.error["type"]) == (500, "server_error")
        assert "caf" not in reply.text
    out, err = capfd.readouterr()
    assert "RuntimeError" in caplog.text
    for text in ("café", "secret", "Ψ"):
        assert text not in out + err + caplog.text


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl on this machine")
def test_curl_streams_a_text(served: Served) -> None:
    expected = served.models.get("char").language.generate("the ", tokens=12, temperature=0)
    body = json.dumps({"model": "char", "prompt": "the ", "max_tokens": 12, "temperature": 0, "stream": True})
    command = ["curl", "-sN", f"{served.url}/completions", "-H", "Content-Type: application/json", "-d", body]
    lines = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30).stdout.strip().split("\n\n")
    assert lines[-1] == "data: [DONE]"
    assert "".join(json.loads(line.removeprefix("data: "))["choices"][0]["text"] for line in lines[:-1]) == expected


def test_many_streams_at_once_write_what_each_writes_alone(served: Served, char_run: Path) -> None:
    with serving(char_run, slots=4) as many:
        prompts = ["the ", "a name", "the list", "a", "in the set"] * 6
        expected = {
            prompt: many.models.get("char").language.generate(prompt, tokens=25, temperature=0) for prompt in set(prompts)
        }

        def read(prompt: str) -> str:
            body = {"prompt": prompt, "max_tokens": 25, "temperature": 0, "stream": True}
            events = many.post("/v1/completions", body).text.strip().split("\n\n")[:-1]
            return "".join(json.loads(event.removeprefix("data: "))["choices"][0]["text"] for event in events)

        with ThreadPoolExecutor(len(prompts)) as pool:
            assert list(pool.map(read, prompts)) == [expected[prompt] for prompt in prompts]


def test_a_model_can_be_served_with_rounded_weights(char_run: Path) -> None:
    models = load_models([char_run], Limits(), device="cpu", quantise="int8")
    try:
        quantised = models.get("char").run.quantised
        assert quantised is not None
        assert quantised.bytes < quantised.bytes_before
    finally:
        models.close(drain=False)


def test_the_memory_of_a_slot_is_bounded_whatever_context_a_model_declares(transformer_run: Path) -> None:
    run = firth.load(transformer_run, "cpu")
    run.network.context = 10**6
    served = ServedModel("one", run, Limits(), slots=2)
    assert served.engine is not None
    assert served.engine.capacity == CONTEXT
    served.close(drain=False)
