"""Generated stories: their answers are where they say, each question has one, and held-out names are not for training."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

from firth.text.config import QuestionsConfig, TokenizerConfig
from firth.text.data.questions import prepare_questions
from firth.text.datasets.stories import HELD_OUT, TRAIN, StoryQuestion, StoryWords, part_of, story


def stories(count: int = 300) -> Iterator[list[StoryQuestion]]:
    draw = random.Random(0)
    return (story(draw, TRAIN) for _ in range(count))


def names_of(words: StoryWords) -> set[str]:
    """Names of people and towns."""
    return {*words.women, *words.men, *words.slots["town"]}


def test_an_answer_stands_where_it_is_said_to() -> None:
    for one in (one for some in stories() for one in some):
        assert one.context[one.start : one.start + len(one.answer)] == one.answer
        assert not re.search(r"[{}]", one.context + one.question)
        assert re.fullmatch(r"([A-Z][^.]+\.)( [A-Z][^.]+\.)*", one.context), one.context


def test_a_pronoun_stands_for_the_name_before_it() -> None:
    pronouns = 0
    for one in (one for some in stories() for one in some if one.question.startswith("Who ") and " did " not in one.question):
        about = one.question.removesuffix("?").split()[-1]
        told = next(sentence for sentence in one.context.split(". ") if re.search(rf"\b{about}\b", sentence))
        if pronoun := re.search(r"\b([Ss]he|[Hh]e)\b", told):
            pronouns += 1
            assert one.answer in (TRAIN.women if pronoun[1].lower() == "she" else TRAIN.men)
            assert one.context.index(told) > one.start
        else:
            assert one.answer in told
    assert pronouns > 50


def test_no_name_or_word_is_told_of_two() -> None:
    """Otherwise a question would have two answers."""
    for some in stories():
        words = re.findall(r"\w+", some[0].context)
        for one in some:
            if one.answer in {*TRAIN.slots["town"], *TRAIN.slots["job"], *TRAIN.slots["place"], *TRAIN.slots["day"]}:
                assert words.count(one.answer) == 1


def test_questions_are_of_several_kinds_in_several_wordings() -> None:
    begun = {" ".join(one.question.split()[:2]) for some in stories() for one in some}
    assert {"Where does", "In which", "What did", "When was", "Who visited", "Who did", "Where was"} <= begun
    assert len(begun) > 15


def test_held_out_names_are_not_trained_on() -> None:
    trained = {word for one in part_of("train") for word in re.findall(r"\w+", one.context)}
    tested = {word for one in part_of("test") for word in re.findall(r"\w+", one.context)}
    assert not trained & names_of(HELD_OUT)
    assert not tested & names_of(TRAIN)
    assert names_of(HELD_OUT) <= tested


@pytest.mark.parametrize("words", [TRAIN, HELD_OUT])
def test_every_word_is_listed_once(words: StoryWords) -> None:
    """A name is of a woman, of a man or of a town; two people never share it."""
    listed = [*words.women, *words.men, *(word for some in words.slots.values() for word in some)]
    assert sorted(listed) == sorted(set(listed))


def test_words_follow_a_and_not_an() -> None:
    for slot in ("job", "colour", "thing"):
        assert not [word for word in TRAIN.slots[slot] if word[0] in "aeiou"]


@pytest.mark.parametrize("part", ["train", "valid", "test"])
def test_a_part_is_the_same_every_time(part: str) -> None:
    assert list(islice(part_of(part), 50)) == list(islice(part_of(part), 50))
    assert list(part_of("valid")) != list(islice(part_of("test"), 400))


@pytest.mark.long
def test_a_recipe_can_name_the_stories(cache: Path) -> None:
    data = QuestionsConfig(name="stories")
    prepared = prepare_questions(data, TokenizerConfig(kind="word"), 100)
    assert prepared.notice is None  # all of them fit
    assert prepared.valid is not None
    assert prepared.test is not None
    assert len(prepared.train) > 10 * len(prepared.test) > 10 * len(prepared.valid) > 1000
    files = {path.name: path.stat().st_mtime_ns for path in cache.glob("stories-*")}
    assert len(files) == 3
    assert prepare_questions(data, prepared.tokenizer, 100).sha256 == prepared.sha256
    assert {path.name: path.stat().st_mtime_ns for path in cache.glob("stories-*")} == files, "read from the cache"
