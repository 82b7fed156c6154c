"""Progress in Python: bars by default, none on request, and never two displays at once."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from tiny_runs import tiny

import firth
from firth.progress import Progress, silent
from firth.progress.display import Display, followed, showing, shows_progress
from firth.progress.screens import Lines, Notebook, screen
from firth.vectors.display import Report
from firth.vectors.trainer import watching


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str, str]]:
    """As in a Jupyter kernel: (display or update, id, HTML) of all that was shown."""
    shown: list[tuple[str, str, str]] = []
    ipython, displays = ModuleType("IPython"), ModuleType("IPython.display")
    ipython.get_ipython = lambda: SimpleNamespace(kernel=object())  # type: ignore[attr-defined]

    def drawer(kind: str) -> Any:
        def draw(content: dict[str, str], *, display_id: str, raw: bool) -> None:
            assert raw
            shown.append((kind, display_id, content["text/html"]))

        return draw

    displays.display, displays.update_display = drawer("display"), drawer("update")  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", displays)
    return shown


def test_a_notebook_shows_one_bar_with_the_loss_by_default(
    notebook: list[tuple[str, str, str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    firth.train(tiny(), tmp_path / "run")
    assert [kind for kind, _, _ in notebook].count("display") == 1
    assert len({name for _, name, _ in notebook}) == 1
    last = notebook[-1][2]
    assert 'training <progress value="6" max="6"' in last
    assert "loss" in last
    assert "reading" not in last  # full bars go away
    assert capsys.readouterr() == ("", "")


def test_a_script_prints_a_plain_line_with_the_loss(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    firth.train(tiny(), tmp_path / "run")
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("training 6/6  loss ")
    assert len(err.splitlines()) == 1


def test_progress_may_be_turned_off_or_be_a_function(
    notebook: list[tuple[str, str, str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    firth.train(tiny(), tmp_path / "run", progress=False)
    told: list[tuple[str, int, int]] = []
    firth.train(tiny(), tmp_path / "run", overwrite=True, progress=lambda *report: told.append(report))
    assert ("training", 6, 6) in told
    assert (notebook, capsys.readouterr()) == ([], ("", ""))


def test_word_vectors_show_their_epochs_and_their_loss(notebook: list[tuple[str, str, str]]) -> None:
    with watching(True) as callbacks:
        callbacks.notice("compiling")
        assert "compiling" in notebook[-1][2]
        callbacks.block(Report(1, 2, 5, 20, 0.75, (), 1.0))
        callbacks.block(Report(2, 2, 20, 20, None, (0.75, 0.5), 2.0))
    assert "loss 0.7500" in notebook[-2][2]
    assert "compiling" not in notebook[-2][2]
    assert '<progress value="20" max="20"' in notebook[-1][2]
    assert len({name for _, name, _ in notebook}) == 1
    with watching(False) as callbacks:
        callbacks.block(Report(1, 1, 20, 20, 0.5, (0.5,), 1.0))
    told: list[tuple[str, int, int]] = []
    with watching(lambda *report: told.append(report)) as callbacks:
        callbacks.block(Report(1, 1, 20, 20, 0.5, (0.5,), 1.0))
    assert told == [("training", 20, 20)]


def test_short_work_shows_nothing_and_long_work_does(
    notebook: list[tuple[str, str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    with showing(True) as work:
        work("evaluating", 1, 2)
    assert notebook == []
    monkeypatch.setattr("firth.progress.display._SHORT", 0.0)
    with showing(True) as work:
        work("<b>", 1, 2)
    assert "&lt;b&gt; <progress" in notebook[-1][2]


def test_work_inside_a_display_is_shown_in_it(notebook: list[tuple[str, str, str]]) -> None:
    with Display() as display, showing(True) as work:
        work("evaluating", 1, 2)
        assert Display.active is display
    assert len({name for _, name, _ in notebook}) == 1
    assert Display.active is None


def test_other_threads_and_callers_who_decline_stay_silent() -> None:
    displays: list[Progress] = []

    def ask() -> None:
        with showing(True) as work:
            displays.append(work)

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    with showing(False) as work:
        assert displays == [work] == [silent]


def test_an_error_ends_the_display() -> None:
    @shows_progress
    def fails(text: str, progress: Progress | bool = True) -> None:
        followed(progress)("failing", 1, 2)
        raise ValueError(text)

    with pytest.raises(ValueError, match="why"):
        fails("why")
    assert Display.active is None


def test_the_screen_is_that_of_the_process(notebook: list[tuple[str, str, str]], monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(screen(), Notebook)
    monkeypatch.delitem(sys.modules, "IPython")
    assert isinstance(screen(), Lines)
