from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

import pytest

from firth.text.datasets import docs
from firth.text.datasets.docs import docs_corpus


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Made once for this file: it takes a few seconds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FIRTH_CACHE", str(tmp_path_factory.mktemp("docs")))
        return docs_corpus()


@pytest.mark.long
def test_the_corpus_is_several_megabytes_of_plain_ascii(built: Path) -> None:
    text = built.read_bytes()
    assert len(text) > 2_000_000
    assert re.fullmatch(rb"[\n -~]*", text)
    assert b" \n" not in text


@pytest.mark.long
def test_it_holds_what_python_numpy_and_torch_say_of_themselves(built: Path) -> None:
    text = built.read_text()
    assert "The standard type hierarchy" in text  # pydoc_data.topics
    assert "Return the indices of the elements that are non-zero" in text  # a docstring of numpy
    assert "Apply a multi-layer Elman" in text  # a docstring of torch.nn
    assert "Computes the element-wise" in text  # add_docstr in torch


def test_no_docstring_occurs_twice_and_the_order_is_that_of_their_hashes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [f"{name}: " + "A sentence that is long enough. " * 9 + "End." for name in "abcdef"]
    for name in ("one.py", "two.py"):
        (tmp_path / name).write_text("".join(f"def f():\n    '''{text}'''\n" for text in texts))
    monkeypatch.setattr(docs, "_sources", lambda: iter(tmp_path.glob("*.py")))
    monkeypatch.setattr(docs, "_topics", lambda: iter(()))
    expected = sorted(texts, key=lambda text: hashlib.sha256(text.encode()).hexdigest())
    assert expected != texts
    assert docs_corpus().read_text() == "\n\n\n".join(expected) + "\n"


@pytest.mark.long
def test_the_facts_beside_it_are_true(built: Path) -> None:
    facts = json.loads(built.with_suffix(".json").read_text())
    assert facts["sha256"] == hashlib.sha256(built.read_bytes()).hexdigest()
    assert facts["characters"] == built.stat().st_size
    assert set(facts["versions"]) == {"python", "numpy", "torch"}


def test_it_is_made_once_and_again_only_when_damaged(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    monkeypatch.setattr(docs, "_assembled", lambda progress: made.append("made") or "some text\n")
    path = docs_corpus()
    assert docs_corpus() == path
    assert made == ["made"]
    for damage in ("some te", "some tExt\n"):
        path.write_text(damage)
        with pytest.warns(UserWarning, match=r"docs-\w+\.txt in the cache is damaged and will be created again"):
            docs_corpus()
    assert made == ["made", "made", "made"]
    assert path.read_text() == "some text\n"


def test_another_version_is_another_file(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(docs, "_assembled", lambda progress: "some text\n")
    here = docs_corpus()
    monkeypatch.setattr(docs, "_versions", lambda: {"python": "9.9"})
    assert docs_corpus() != here


def test_short_repeated_or_foreign_docstrings_are_left_out(tmp_path: Path) -> None:
    long = "A sentence that is long enough. " * 10
    (tmp_path / "a.py").write_text(
        f'"""{long}\n\n    Indented.   \n    """\n'
        f'def f():\n    """short"""\n'
        f'def g():\n    """é {long}"""\n'
        f'if True:\n    class C:\n        """C: {long}"""\n'
        f'other("""not one: {long}""")\n'
        f'add_docstr(x.y, r"""added: {long}""".format(1))\n'
    )
    (tmp_path / "broken.py").write_text("def (:")
    docstrings = list(docs._docstrings(tmp_path / "a.py"))
    assert docstrings == [long.rstrip() + "\n\nIndented.", "C: " + long.rstrip(), "added: " + long.rstrip()]
    assert list(docs._docstrings(tmp_path / "broken.py")) == []
