"""The lab over HTTP: what is served, what a view answers, what is refused."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browsing import executed
from starlette.testclient import TestClient

from firth.figures.figure import Figure, Table
from firth.progress import Progress
from firth.serving.lab.app import PAGE, build
from firth.serving.lab.library import RunLibrary
from firth.serving.lab.request import ViewRequest
from firth.serving.lab.result import ViewResult
from firth.serving.lab.room import Room
from firth.serving.lab.rooms import ROOMS, rooms

OWN = "http://127.0.0.1:8421"


def asked_of(client: TestClient, view: str, **given: Any) -> list[dict[str, Any]]:
    answer = client.post(f"/api/{view}", json=given)
    assert answer.headers["content-type"] == "application/x-ndjson"
    return [json.loads(line) for line in answer.text.splitlines()]


@pytest.fixture
def client(library: RunLibrary) -> Iterator[TestClient]:
    with TestClient(build(library), base_url=OWN) as client:
        yield client


def test_everything_the_page_refers_to_is_served_from_here(client: TestClient) -> None:
    index = client.get("/")
    assert index.headers["content-type"].startswith("text/html")
    referred = re.findall(r'(?:src|href)="(/[^"]*)"', index.text)
    for path in [*referred, "/plotly.js", *(f"/page/{file.relative_to(PAGE).as_posix()}" for file in PAGE.rglob("*.js"))]:
        assert client.get(path).status_code == 200, path


def test_the_page_asks_nobody_else() -> None:
    for file in PAGE.rglob("*"):
        if file.is_file():
            text = file.read_text(encoding="utf-8").replace(
                "http://www.w3.org/2000/svg", ""
            )  # the name of SVG, which nobody asks
            assert not re.search(r"https?://|\bimport\(?\s*['\"](?!\.)", text), file


def test_text_is_never_read_as_html_in_the_page() -> None:
    forbidden = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|DOMParser|srcdoc"
    for file in PAGE.rglob("*.js"):
        assert not re.search(forbidden, file.read_text(encoding="utf-8")), file


def test_each_room_has_a_module_of_its_name_and_each_module_a_room() -> None:
    assert {file.stem for file in (PAGE / "rooms").glob("*.js")} == set(ROOMS.kinds)
    assert all(room.name == name for name, room in rooms().items())


def test_plotly_is_that_of_the_installed_package_and_is_sent_once(client: TestClient) -> None:
    from plotly.offline import get_plotlyjs

    (address,) = re.findall(r'"(/plotly\.js\?v=[^"]+)"', client.get("/").text)
    first = client.get(address)
    assert first.text == get_plotlyjs()
    assert "immutable" in first.headers["cache-control"]
    assert "immutable" not in client.get("/plotly.js?v=older").headers["cache-control"]
    again = client.get(address, headers={"if-none-match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


def test_plotly_is_sent_compressed_to_whoever_can_unpack_it(client: TestClient) -> None:
    plain, packed = (client.get("/plotly.js", headers={"accept-encoding": kind}) for kind in ("identity", "gzip, br"))
    assert "content-encoding" not in plain.headers
    assert packed.headers["content-encoding"] == "gzip"
    assert int(packed.headers["content-length"]) < int(plain.headers["content-length"]) / 3
    assert packed.text == plain.text
    assert (plain.headers["vary"], packed.headers["vary"]) == ("accept-encoding", "accept-encoding")
    assert plain.headers["etag"] != packed.headers["etag"]


def test_no_file_outside_the_page_is_served(client: TestClient) -> None:
    for path in (
        "/page/../app.py",
        "/page/%2e%2e/app.py",
        "/page/..%2fapp.py",
        "/page//etc/passwd",
        "/app.py",
        "/docs",
        "/openapi.json",
    ):
        assert client.get(path).status_code == 404, path


def test_the_page_is_told_what_there_is(client: TestClient) -> None:
    told = client.get("/api/lab").json()
    assert [run["name"] for run in told["runs"]] == ["char", "transformer", "bpe"]
    assert told["runs"][1]["about"] == "language model, transformer, next-token"
    assert [set(run["abilities"]) & {"show_states", "show_attention"} for run in told["runs"][:2]] == [
        {"show_states"},
        {"show_attention"},
    ]
    assert told["runs"][1]["example"] == "the list is empty."  # the beginning of its own text
    assert told["vectors"] == ["small.firth"]
    assert [room["name"] for room in told["rooms"]] == list(ROOMS.kinds)
    assert told["no_runs"] is None


def test_with_nothing_in_the_library_the_page_is_told_how_to_make_something() -> None:
    with TestClient(build(RunLibrary()), base_url=OWN) as client:
        assert "`firth tour`" in client.get("/api/lab").json()["no_runs"]


@pytest.mark.parametrize(
    ("content", "status", "message"),
    [
        (b"{", 400, "not JSON"),
        (b"\xff\xfe", 400, "not JSON"),
        (b"[1]", 400, "not an object"),
        (b'"of"', 400, "not an object"),
        (b"[" * 100_000, 400, "not JSON"),
        (b'{"of":' * 100_000, 400, "not JSON"),
        (b'{"of": "\\ud800"}', 400, "lone surrogate"),
        (b'{"of": [{"\xed\xa0\x80": 1}]}', 400, "lone surrogate"),
    ],
)
def test_a_request_that_is_no_object_is_refused(client: TestClient, content: bytes, status: int, message: str) -> None:
    answer = client.post("/api/describe/count", content=content, headers={"content-type": "application/json"})
    assert (answer.status_code, message in answer.json()["error"]) == (status, True)


def test_the_media_type_is_read_as_http_defines_it(client: TestClient) -> None:
    for kind in ("APPLICATION/JSON", "application/json; charset=utf-8", "Application/Json;charset=UTF-8"):
        assert client.post("/api/none/none", content=b"{}", headers={"content-type": kind}).status_code == 404
    assert client.post("/api/none/none", content=b"{}", headers={"content-type": "application/jsonp"}).status_code == 415


def test_a_view_that_is_not_there_is_told_with_a_near_one(client: TestClient) -> None:
    answer = client.post("/api/describe/counts", json={})
    assert answer.status_code == 404
    assert 'Did you mean "describe/count"?' in answer.json()["error"]
    assert client.post("/api/nowhere/count", json={}).status_code == 404


def test_a_users_mistake_is_one_line_of_error(client: TestClient) -> None:
    *_, last = asked_of(client, "describe/count", of="gtp3")
    assert last.keys() == {"error"}
    assert 'Did you mean "gpt3"?' in last["error"]


def test_only_what_the_lab_offers_is_described(client: TestClient, char_run: Path, tmp_path: Path) -> None:
    outside = tmp_path / "recipe.toml"
    outside.write_text((char_run / "recipe.toml").read_text())
    for name in (str(char_run), str(outside), "../../etc/passwd"):
        *_, last = asked_of(client, "describe/count", of=name)
        assert "is not a preset, a recipe, a run in the lab" in last["error"]
    *_, last = asked_of(client, "describe/count", of="char")
    assert last["result"]["facts"]["parameters"] > 0


def test_the_model_that_is_described_or_built_is_drawn(client: TestClient) -> None:
    for view, settings, kinds in (
        ("describe/draw", {"of": "char"}, ["model", "cell", "cache"]),
        (
            "describe/draw",
            {"of": "gpt2", "settings": "model.depth=3"},
            ["model", "block", "attention", "mask", "families", "cache"],
        ),
        ("build/draw", {"kind": "lstm", "width": "24"}, ["model", "cell", "cache"]),
        ("build/draw", {"kind": "transformer", "mixer": "linear"}, ["model", "block", "attention", "cache", "state"]),
    ):
        for kind in (kinds[-1], "merges"):
            *_, last = asked_of(client, view, **settings, drawing=kind)
            facts, python = last["result"]["facts"], last["result"]["python"]
            assert [one["value"] for one in facts["kinds"]] == kinds
            assert facts["kind"] == (kind if kind in kinds else "model")
            copied = executed(python)["drawing"]
            assert [copied.svg("light"), copied.svg("dark"), copied.svg()] == [facts[name] for name in ("light", "dark", "file")]
    *_, last = asked_of(client, "describe/draw", of="gpt2", settings="model.depth=3")
    assert "3 ×" in last["result"]["facts"]["light"]
    *_, last = asked_of(client, "build/draw", kind="transformer", width="30", heads="4")
    assert "heads" in last["error"]
    *_, last = asked_of(client, "describe/draw", of="../../etc/passwd")
    assert "is not a preset" in last["error"]


def test_a_recipe_of_the_folder_and_its_settings_are_described(
    client: TestClient, char_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.toml").write_text((char_run / "recipe.toml").read_text())
    *_, narrow = asked_of(client, "describe/count", of="mine.toml")
    *_, wide = asked_of(client, "describe/count", of="mine.toml", settings="model.width=64")
    assert wide["result"]["facts"]["parameters"] > narrow["result"]["facts"]["parameters"] > 0
    *_, last = asked_of(client, "describe/count", of="mine.toml", settings="wide")
    assert "is not a setting; write it as model.depth=6" in last["error"]


def test_a_bug_is_told_by_its_kind_and_the_lab_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    def broken(asked: ViewRequest, library: RunLibrary, progress: Progress) -> ViewResult:
        raise ZeroDivisionError("by\nzero")

    rooms = {"broken": Room("broken", "Broken", "", {"view": broken})}
    with TestClient(build(RunLibrary(), rooms), base_url=OWN) as client:
        for _ in range(2):
            *_, last = asked_of(client, "broken/view")
            assert last["error"].startswith("ZeroDivisionError: by zero. This is a bug in firth")
    assert "ZeroDivisionError" in caplog.text


def test_what_is_no_number_becomes_null() -> None:
    import plotly.graph_objects as go

    plot = go.Figure(go.Scatter(x=[1.0, float("nan")], y=[float("inf"), 2.0]))
    shown = ViewResult({"one": Figure(plot, Table(("x",), [("1",)]))}, "", {"value": float("nan")})
    told = json.loads(shown.json(), parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    assert told["figures"]["one"]["plot"]["data"][0]["x"] == [1.0, None]
    assert told["facts"] == {"value": None}
