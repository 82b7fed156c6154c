"""Requests that the lab accepts, by host and origin."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient

from firth.serving.lab.app import build
from firth.serving.lab.library import RunLibrary
from firth.serving.lab.local_only import MOST_BYTES, LocalOnly

OWN = "http://127.0.0.1:8421"
VIEW = "/api/describe/count"


@pytest.fixture
def client() -> Iterator[TestClient]:
    with TestClient(build(RunLibrary()), base_url=OWN) as client:
        yield client


@pytest.mark.parametrize("host", ["127.0.0.1:8421", "localhost:8421", "[::1]:8421", "LOCALHOST", "127.0.0.1"])
def test_it_answers_to_the_names_of_this_machine(client: TestClient, host: str) -> None:
    assert client.get("/", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8421", "127.0.0.1.evil.example", "localhost.evil.example:8421", "", "0.0.0.0:8421"]
)
@pytest.mark.parametrize("path", ["/", "/plotly.js", "/page/app.js", "/api/lab"])
def test_a_name_that_was_made_to_resolve_to_this_machine_is_refused(client: TestClient, host: str, path: str) -> None:
    answer = client.get(path, headers={"host": host})
    assert answer.status_code == 403
    assert "only to 127.0.0.1 and localhost" in answer.json()["error"]


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "http://127.0.0.1:9999"},  # another server of this machine
        {"origin": "https://127.0.0.1:8421"},
        {"origin": "null"},  # a sandboxed frame, or a file
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ],
)
def test_another_page_has_nothing_done(client: TestClient, headers: dict[str, str]) -> None:
    answer = client.post(VIEW, json={"of": "gpt2"}, headers=headers)
    assert answer.status_code == 403
    assert "result" not in answer.text
    assert client.get("/api/lab", headers=headers).status_code == 403


def test_the_labs_own_page_and_a_program_are_answered(client: TestClient) -> None:
    for headers in ({"origin": OWN, "sec-fetch-site": "same-origin"}, {}):
        answer = client.post(VIEW, json={"of": "gpt2"}, headers=headers)
        assert answer.status_code == 200
        assert "result" in answer.text


def test_a_form_of_another_page_cannot_be_taken_for_a_request(client: TestClient) -> None:
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""):
        assert client.post(VIEW, content='{"of": "gpt2"}', headers={"content-type": kind}).status_code == 415


def test_nobody_else_may_read_the_answers(client: TestClient) -> None:
    answer = client.post(VIEW, json={"of": "gpt2"}, headers={"origin": OWN})
    assert not [name for name in answer.headers if name.startswith("access-control-")]
    refused = {"access-control-request-method": "POST"}
    assert client.options(VIEW, headers={"origin": "https://evil.example"} | refused).status_code == 403


def test_a_request_of_any_size_is_refused_beyond_the_limit(client: TestClient) -> None:
    much = b'{"of": "' + b"x" * MOST_BYTES + b'"}'
    kind = {"content-type": "application/json"}

    def pieces() -> Iterator[bytes]:
        for start in range(0, len(much), 1 << 16):
            yield much[start : start + (1 << 16)]

    for content in (much, pieces()):
        answer = client.post(VIEW, content=content, headers=kind)
        assert answer.status_code == 413
        assert f"more than {MOST_BYTES:,} bytes" in answer.json()["error"]


@pytest.mark.parametrize("length", [str(MOST_BYTES + 1), "9" * 5000, "-1"])
def test_a_request_that_says_it_is_too_large_is_not_even_read(length: str) -> None:
    async def nothing(*given: object) -> None:
        pytest.fail("it was read, or answered by the lab")

    told: list[dict[str, object]] = []

    async def send(message: dict[str, object]) -> None:
        told.append(message)

    headers = [(b"host", b"127.0.0.1"), (b"content-type", b"application/json"), (b"content-length", length.encode())]
    scope = {"type": "http", "method": "POST", "path": VIEW, "headers": headers}
    with pytest.raises(StopIteration):  # a coroutine that waits for nothing needs no loop
        LocalOnly(nothing)(scope, nothing, send).send(None)  # type: ignore[arg-type]
    assert told[0]["status"] == 413


@pytest.mark.parametrize("path", ["/", "/page/app.js", "/plotly.js", "/api/lab"])
def test_every_answer_says_what_the_page_may_do(client: TestClient, path: str) -> None:
    headers = client.get(path).headers
    policy = dict(rule.split(" ", 1) for rule in headers["content-security-policy"].split("; "))
    assert policy["default-src"] == "'self'"
    assert "script-src" not in policy  # so that scripts, too, come from here and are never inline
    assert policy["frame-ancestors"] == policy["base-uri"] == policy["object-src"] == "'none'"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cache-control"] == ("no-store" if path.startswith("/api") else "no-cache")


TOKEN = "a-token-of-this-lab"


@pytest.fixture
def stranger() -> Iterator[TestClient]:
    """A program of another user of this machine, at a lab that asks for its token."""
    with TestClient(build(RunLibrary(), token=TOKEN), base_url=OWN, follow_redirects=False) as client:
        yield client


def test_without_the_token_nothing_is_answered(stranger: TestClient) -> None:
    for path in (
        "/",
        "/page/app.js",
        "/plotly.js",
        "/api/lab",
        "/?token=",
        "/?token=guess",
        f"/?Token={TOKEN}",
        "/api/lab?token=guess",
    ):
        answer = stranger.get(path)
        assert (answer.status_code, "set-cookie" in answer.headers) == (401, False), path
        assert "open the address that `firth lab` printed" in answer.json()["error"]
    assert stranger.post(VIEW, json={"of": "gpt2"}).status_code == 401
    for headers in (
        {"authorization": "Bearer guess"},
        {"authorization": TOKEN},
        {"cookie": f"firth-lab-8420={TOKEN}"},
        {"cookie": '"'},
    ):
        assert stranger.get("/api/lab", headers=headers).status_code == 401, headers


def test_somebody_who_reloads_an_old_page_reads_what_to_do(stranger: TestClient) -> None:
    answer = stranger.get("/", headers={"accept": "text/html,application/xhtml+xml,*/*;q=0.8"})
    assert (answer.status_code, answer.headers["content-type"]) == (401, "text/html; charset=utf-8")
    assert "Open the address in the terminal" in answer.text
    assert TOKEN not in answer.text
    (policy,) = answer.headers.get_list("content-security-policy")
    assert "'unsafe-inline'" not in policy
    other = stranger.get("/", headers={"accept": "text/html", "host": "<b>evil</b>.example"})
    assert (other.status_code, "&lt;b&gt;evil" in other.text, "<script>" in other.text) == (403, True, False)


def test_the_address_with_the_token_opens_the_page_which_keeps_it(stranger: TestClient) -> None:
    answer = stranger.get(f"/?token={TOKEN}")
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    assert answer.headers["set-cookie"] == f"firth-lab-8421={TOKEN}; Path=/; HttpOnly; SameSite=Lax"
    assert stranger.get("/").status_code == 200  # the client has the cookie now
    assert "result" in stranger.post(VIEW, json={"of": "gpt2"}).text
    assert stranger.post(VIEW, json={"of": "gpt2"}, headers={"origin": "http://127.0.0.1:9999"}).status_code == 403
    assert stranger.get("/", headers={"host": "evil.example"}).status_code == 403


def test_a_program_gives_the_token_as_a_header_or_in_the_address(stranger: TestClient) -> None:
    assert stranger.get("/api/lab", headers={"authorization": f"Bearer {TOKEN}"}).status_code == 200
    assert stranger.get(f"/api/lab?token={TOKEN}").status_code == 200
