from __future__ import annotations

import dataclasses
import hashlib
import json
import lzma
from pathlib import Path

import pytest
from shell import Answer, Firth

from firth.text.data_set import DATA_SETS, File
from firth.text.datasets import download

TEXT = b"to be or not to be\n"


@pytest.fixture(autouse=True)
def offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty cache, no mirror, and a test that fails where the network is asked."""
    monkeypatch.setenv("FIRTH_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("FIRTH_DATA", raising=False)
    monkeypatch.setattr(download, "fetched", lambda *args, **kwargs: pytest.fail("asked for the network"))


@pytest.fixture
def mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """FIRTH_DATA, with a tinyshakespeare of one line."""
    tiny = File("input.txt", len(TEXT), hashlib.sha256(TEXT).hexdigest(), "https://example.org/input.txt")
    monkeypatch.setitem(DATA_SETS._of, "tinyshakespeare", dataclasses.replace(DATA_SETS["tinyshakespeare"], files=(tiny,)))
    folder = tmp_path / "mirror"
    (folder / "tinyshakespeare").mkdir(parents=True)
    (folder / "tinyshakespeare" / "input.txt.xz").write_bytes(lzma.compress(TEXT))
    monkeypatch.setenv("FIRTH_DATA", str(folder))
    return folder


def mistake(answer: Answer) -> str:
    assert (answer.code, answer.out) == (2, "")
    assert len(answer.err.splitlines()) == 1
    assert "internal error" not in answer.err
    return answer.err


def test_list_shows_every_set_with_licence_and_what_is_unverified(firth: Firth) -> None:
    answer = firth("data", "list")
    assert (answer.code, answer.err) == (0, "")
    entries = [DATA_SETS[kind] for kind in DATA_SETS.all_kinds]
    for entry in entries:
        assert entry.name in answer.out
        assert entry.licence in answer.out
    assert answer.out.count("unverified") == sum(not entry.verified for entry in entries) > 0
    assert answer.out.count("mirror only") == sum(entry.mirror_only for entry in entries) > 0


def test_list_as_json_tells_source_size_and_checksum(firth: Firth, mirror: Path) -> None:
    entries = {entry["name"]: entry for entry in json.loads(firth("data", "list", "--json").out)}
    assert set(entries) == set(DATA_SETS.all_kinds)
    tiny = entries["tinyshakespeare"]
    assert (tiny["size"], tiny["state"], tiny["verified"]) == (len(TEXT), "mirror", True)
    assert tiny["files"][0]["sha256"] == hashlib.sha256(TEXT).hexdigest()
    assert (entries["text8"]["verified"], entries["text8"]["state"]) == (False, "absent")


@pytest.mark.parametrize("verb", ["get", "path"])
def test_get_and_path_print_the_folder_and_work_from_a_mirror(verb: str, firth: Firth, mirror: Path, tmp_path: Path) -> None:
    answer = firth("data", verb, "tinyshakespeare")
    assert (answer.code, answer.err) == (0, "")
    folder = Path(answer.out.rstrip("\n"))
    assert folder == tmp_path / "cache" / "data" / "tinyshakespeare"
    assert (folder / "input.txt").read_bytes() == TEXT
    facts = json.loads(firth("data", verb, "tinyshakespeare", "--json").out)
    assert facts["files"] == {"input.txt": str(folder / "input.txt")}
    assert facts["verified"] is True


def test_path_of_one_file_is_that_file(firth: Firth, mirror: Path) -> None:
    assert Path(firth("data", "path", "tinyshakespeare", "input.txt").out.rstrip("\n")).read_bytes() == TEXT
    facts = json.loads(firth("data", "path", "tinyshakespeare", "input.txt", "--json").out)
    assert Path(facts["path"]).read_bytes() == TEXT
    assert 'Did you mean "input.txt"?' in mistake(firth("data", "path", "tinyshakespeare", "imput.txt"))


def test_path_downloads_nothing_and_says_how_to_get_it(firth: Firth) -> None:
    assert "Download it: firth data get sst2" in mistake(firth("data", "path", "sst2"))


@pytest.mark.parametrize("verb", ["get", "path"])
def test_an_unknown_name_suggests_a_near_one(verb: str, firth: Firth) -> None:
    told = mistake(firth("data", verb, "tinyshakspear"))
    assert told.startswith('firth: there is no data set "tinyshakspear"; choose one of: tinyshakespeare, ptb')
    assert told.endswith('Did you mean "tinyshakespeare"?\n')


@pytest.mark.parametrize("verb", ["get", "path"])
def test_a_mirror_lacking_the_file_names_where_it_looked(verb: str, firth: Firth, mirror: Path) -> None:
    assert str(mirror / "sst2" / "train.tsv") in mistake(firth("data", verb, "sst2"))


def test_a_wrong_checksum_and_an_unwritable_cache_are_one_line(
    firth: Firth, mirror: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (mirror / "tinyshakespeare" / "input.txt.xz").write_bytes(lzma.compress(TEXT.upper()))
    assert "wrong content" in mistake(firth("data", "get", "tinyshakespeare"))
    assert not list((tmp_path / "cache").rglob("input*"))
    monkeypatch.setenv("FIRTH_CACHE", str(mirror / "tinyshakespeare" / "input.txt.xz" / "cache"))
    assert "Set FIRTH_CACHE" in mistake(firth("data", "get", "tinyshakespeare"))
    assert firth("data", "list").code == 0


def test_data_alone_points_to_its_help(firth: Firth) -> None:
    assert "see `firth data --help`" in mistake(firth("data"))
