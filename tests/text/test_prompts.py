"""Sets that are composed: two tasks told by the first word of the source, and docstrings with their first sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from firth.errors import ConfigError
from firth.text.config import PairsConfig, TokenizerConfig
from firth.text.data.pairs import prepare_pairs
from firth.text.datasets import docs

WORDS = TokenizerConfig(kind="word", joint=True)
SMALL = {
    "sst2": {"train.tsv": "a fine film\t1\na dull one\t0\n", "dev.tsv": "dull\t0\n", "test.tsv": "so fine\t1\nso dull\t0\n"},
    "tatoeba-en-nl": {"en-nl.tsv": "".join(f"Word {n}.\tWoord {n}.\n" for n in range(20))},
}


def test_each_task_has_its_prompt_and_its_own_split(mirror: Path) -> None:
    data = prepare_pairs(PairsConfig(name="prompts", valid=0.1), WORDS, all_texts=True)
    alone = prepare_pairs(PairsConfig(name="tatoeba-en-nl", valid=0.1), WORDS, all_texts=True)
    assert data.train.texts is not None
    assert data.valid is not None
    assert data.valid.texts is not None
    assert data.test is not None
    assert alone.train.texts is not None
    assert alone.valid is not None
    assert alone.valid.texts is not None
    assert data.train.texts[:2] == (("sentiment: a fine film", "good"), ("sentiment: a dull one", "bad"))
    assert data.train.texts[2:] == tuple((f"dutch: {source}", target) for source, target in alone.train.texts)
    assert len(alone.train.texts) == 18
    assert data.valid.texts[0] == ("sentiment: dull", "bad")
    assert data.valid.texts[1:] == tuple((f"dutch: {source}", target) for source, target in alone.valid.texts)
    assert data.test.texts == (("sentiment: so fine", "good"), ("sentiment: so dull", "bad"))


def test_nothing_of_tatoeba_is_held_out_where_that_is_asked(mirror: Path) -> None:
    data = prepare_pairs(PairsConfig(name="prompts", valid=0.0), WORDS)
    assert (len(data.train), len(data.valid or ())) == (22, 1)


def test_lower_case_is_that_of_both_sides(mirror: Path) -> None:
    data = prepare_pairs(PairsConfig(name="prompts", lower=True), WORDS)
    assert data.valid is not None
    assert data.valid.texts is not None
    assert data.valid.texts[1][0].startswith("dutch: word ")
    assert data.valid.texts[1][1].startswith("woord ")


@pytest.mark.parametrize("key", ["source", "target", "split"])
def test_two_tasks_have_no_side_to_choose(key: str, mirror: Path) -> None:
    with pytest.raises(ConfigError, match=rf"data\.{key} is 'nl', but prompts has its own sides"):
        prepare_pairs(PairsConfig(name="prompts", **{key: "nl"}), WORDS)  # type: ignore[arg-type]


def test_a_docstring_is_summarised_by_its_first_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rest = "It goes through all of them,\none after the other. " * 5
    told = {
        "one": f"Return the sum of all numbers.\n\n{rest}",
        "two": f"Return\nthe sum of all numbers.\n\n{rest}2",  # not one line
        "three": f"Return the sum of all numbers\n\n{rest}3",  # no sentence
        "four": f"Return the sum. {rest}4",  # no rest
        "five": f"Return the product of all numbers.\n\n{rest}\n\n5",
        "six": f"{rest}6\n\n\nReturn the difference of all numbers.",  # two to the corpus, the second without a rest
    }
    (tmp_path / "a.py").write_text("".join(f"def {name}():\n    '''{text}'''\n" for name, text in told.items()))
    monkeypatch.setattr(docs, "_sources", lambda: iter(tmp_path.glob("*.py")))
    monkeypatch.setattr(docs, "_topics", lambda: iter(()))
    data = prepare_pairs(PairsConfig(name="docstrings", valid=0.0), WORDS, all_texts=True)
    plain = " ".join(rest.split())
    assert set(data.train.texts or ()) == {
        (plain, "Return the sum of all numbers."),
        (f"{plain} 5", "Return the product of all numbers."),
    }
