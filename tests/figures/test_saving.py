"""The suffix decides the format of a saved figure, and nothing else is written."""

from __future__ import annotations

import csv
import html
import json
import math
import sys
from pathlib import Path
from typing import Any

import pytest
from shell import Firth

from firth.errors import ConfigError, FirthError
from firth.figures import saving
from firth.figures.dynamics import points
from firth.figures.figure import Figure, Number, Table
from firth.figures.page import Section, save_sections
from firth.figures.ranking import ranking
from firth.figures.saving import expected_format
from firth.figures.word_map import embedding_map

THIRD = 1 / 3
ODD = 'a "quoted", <b>\n=word'


def figure() -> Figure:
    return ranking([(ODD, THIRD), ("$x$", -0.5)], "cosine")


def report(*figures: Figure) -> list[Section]:
    return [Section("Words", "A lead.", Table((), []), figures)]


@pytest.mark.parametrize("path", ["x.gif", "x", "x.html.bak", "x.jpeg", ".svg"])
def test_another_suffix_is_refused_by_name_and_nothing_is_written(path: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        figure().save(tmp_path / path)
    assert path in str(refused.value)
    assert all(f".{known}" in str(refused.value) for known in ("html", "svg", "png", "pdf", "csv", "json"))
    assert not list(tmp_path.iterdir())


def test_a_path_may_be_a_string_and_a_suffix_in_capitals(tmp_path: Path) -> None:
    figure().save(str(tmp_path / "a.CSV"))
    assert (tmp_path / "a.CSV").read_text(encoding="utf-8").startswith("word,cosine\n")


def test_csv_and_json_hold_the_numbers_and_not_their_first_digits(tmp_path: Path) -> None:
    figure().save(tmp_path / "a.csv")
    with (tmp_path / "a.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))
    assert rows == [["word", "cosine"], [ODD, repr(THIRD)], ["$x$", "-0.5"]]
    figure().save(tmp_path / "a.json")
    [table] = json.loads((tmp_path / "a.json").read_text(encoding="utf-8"))["tables"]
    assert (table["headings"], table["rows"]) == (["word", "cosine"], [[ODD, THIRD], ["$x$", -0.5]])


def test_json_has_null_where_a_number_is_not_finite(tmp_path: Path) -> None:
    odd = Figure(figure().plot, Table(("x",), [(Number(math.nan, ".2f"),), (Number(-math.inf, ".2f"),), (Number(2, "d"),)]))
    odd.save(tmp_path / "a.json")
    [table] = json.loads((tmp_path / "a.json").read_text(encoding="utf-8"), parse_constant=pytest.fail)["tables"]
    assert table["rows"] == [[None], [None], [2]]
    assert [row[0] for row in odd.table.rows] == ["nan", "-inf", "2"]


def test_several_figures_are_one_page_one_json_file_and_numbered_files_of_csv(tmp_path: Path) -> None:
    two = report(figure(), ranking([("other", 1.0)], "dot product"))
    assert save_sections(tmp_path / "a.html", "Title", two, "") == [tmp_path / "a.html"]
    assert save_sections(tmp_path / "a.json", "Title", two, "") == [tmp_path / "a.json"]
    assert len(json.loads((tmp_path / "a.json").read_text(encoding="utf-8"))["tables"]) == 2
    written = save_sections(tmp_path / "a.csv", "Title", two, "")
    assert written == [tmp_path / "a-1.csv", tmp_path / "a-2.csv"]
    assert written[1].read_text(encoding="utf-8") == "word,dot product\nother,1.0\n"


def test_a_table_of_a_section_is_saved_with_those_of_its_figures(tmp_path: Path) -> None:
    scores = Section("Classes", "", Table(("class", "F1"), [("a", Number(THIRD, ".2f"))]), [figure()])
    first, _ = save_sections(tmp_path / "a.csv", "Title", [scores], "")
    assert first.read_text(encoding="utf-8") == f"class,F1\na,{THIRD!r}\n"


def test_a_map_saved_alone_keeps_its_search_box(tmp_path: Path) -> None:
    embedding_map(["a", "b"], [(0.0, 1.0), (1.0, 0.0)], ["x", "y"]).save(tmp_path / "a.html")
    assert 'type="search"' in (tmp_path / "a.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("suffix", ["svg", "png", "pdf"])
def test_pictures_name_the_extra_when_kaleido_is_missing(suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "kaleido", None)
    with pytest.raises(FirthError, match=r'pip install "firth\[figures\]"'):
        figure().save(tmp_path / f"a.{suffix}")
    assert not list(tmp_path.iterdir())
    assert expected_format("a.html") == "html"


def test_pictures_say_so_when_there_is_no_browser(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("kaleido", reason="the extra `figures` is not installed")
    monkeypatch.setenv("BROWSER_PATH", str(tmp_path / "no-browser"))
    with pytest.raises(FirthError, match="Chrome or Chromium"):
        figure().save(tmp_path / "a.svg")
    assert not list(tmp_path.iterdir())


def test_a_picture_that_cannot_be_drawn_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saving, "_expect_browser", lambda path: None)
    monkeypatch.setattr(saving, "_pictures", lambda figures, kind: [b"<svg", b""])
    with pytest.raises(FirthError, match="2"):
        save_sections(tmp_path / "a.svg", "Title", report(figure(), figure()), "")
    assert not list(tmp_path.iterdir())


def test_a_picture_shows_the_last_place_of_a_slider() -> None:
    moved = points([[[0.0, 1.0]], [[0.5, 0.5]], [[1.0, 0.0]]])
    still = saving._still(moved.plot)
    assert (list(still.data[0].x), list(still.data[0].y), still.layout.sliders[0].active) == ([1.0], [0.0], 2)
    assert list(moved.plot.data[0].x) == [0.0]


MAGIC = {"svg": b"<svg", "png": b"\x89PNG", "pdf": b"%PDF"}


@pytest.mark.long
@pytest.mark.parametrize("suffix", MAGIC)
def test_a_picture_is_what_its_suffix_says(suffix: str, tmp_path: Path) -> None:
    pytest.importorskip("kaleido", reason="the extra `figures` is not installed")
    figure().save(tmp_path / f"a.{suffix}")
    content = (tmp_path / f"a.{suffix}").read_bytes()
    assert content.startswith(MAGIC[suffix])
    if suffix == "svg":
        assert b"$x$" in content  # not taken for an equation
        assert b"<b>" not in content
        assert "<b>" in html.unescape(content.decode())


@pytest.mark.long
def test_several_pictures_are_numbered(tmp_path: Path) -> None:
    pytest.importorskip("kaleido", reason="the extra `figures` is not installed")
    other = ranking([("other", 1.0)], "dot product")
    first, second = save_sections(tmp_path / "a.svg", "Title", report(figure(), other), "")
    assert (first.name, second.name) == ("a-1.svg", "a-2.svg")
    assert b"cosine" in first.read_bytes()
    assert b"dot product" in second.read_bytes()


VERBS = {
    "inspect": ("inspect", "no-run", "text"),
    "align": ("align", "no-run", "text"),
    "evaluate": ("evaluate", "no-run"),
    "caption": ("caption", "no-run", "no.png"),
    "senses": ("senses", "no-run", "word", "one", "two"),
    "draw": ("draw", "hello"),
    "dynamics": ("dynamics",),
    "extrapolate": ("extrapolate",),
    "reproduce": ("reproduce", "garg2022"),
    "sweep": ("sweep", "hello"),
    "playground": ("playground",),
    "positions": ("positions",),
    "compare flow": ("compare", "flow"),
    "compare runs": ("compare", "runs", "no-run", "no-other"),
    "compare cost": ("compare", "cost"),
    "compare learning": ("compare", "learning", "--out", "runs"),
    "vectors axis": ("vectors", "axis", "no.firth", "a", "b"),
    "vectors map": ("vectors", "map", "no.firth"),
}


def test_every_verb_refuses_another_suffix_before_it_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from typer.main import get_command

    import firth.cli.verbs  # noqa: F401 (registers the verbs)
    from firth.cli.app import app

    monkeypatch.chdir(tmp_path)
    tree = get_command(app)
    for verb, arguments in VERBS.items():
        with pytest.raises(ConfigError, match=r"x\.gif"):
            tree.main([*arguments, "--save", "x.gif"], standalone_mode=False)
        assert not list(tmp_path.iterdir()), verb

    def saving_verbs(command: Any, path: tuple[str, ...] = ()) -> set[str]:
        if inner := getattr(command, "commands", None):
            return {name for part, one in inner.items() for name in saving_verbs(one, (*path, part))}
        return {" ".join(path)} if any("--save" in one.opts for one in command.params) else set()

    assert saving_verbs(tree) == set(VERBS)


def test_a_refused_suffix_is_one_line_and_exit_code_2(firth: Firth) -> None:
    answer = firth("positions", "--save", "x.gif")
    assert (answer.code, answer.out, len(answer.err.splitlines())) == (2, "", 1)
    assert answer.err.startswith('firth: a figure cannot be saved as "x.gif".')


def test_verbs_say_which_files_they_wrote(firth: Firth, bpe_run: Path, tmp_path: Path) -> None:
    answer = firth("inspect", bpe_run, "the list", "--save", tmp_path / "a.csv")
    assert answer.code == 0, answer.err
    assert {path.name for path in tmp_path.iterdir()} == {"a-1.csv", "a-2.csv"}
    assert answer.out.splitlines()[-1] == f"{tmp_path / 'a-1.csv'} and {tmp_path / 'a-2.csv'}: 2 figures"
    assert "2 files were written" in answer.err
    one = firth("inspect", bpe_run, "the list", "--layer", "1", "--save", tmp_path / "b.csv")
    assert one.out.splitlines()[-1] == f"{tmp_path / 'b.csv'}: 1 figure"
