"""Chats: generated conversations over five skills, from data sets of the catalog and from generated ones.

opinions   generated sentences with and without a negation     "I do not like this product" is positive?  → No
reviews    sst2                                                 What is the sentiment of "…"?              → negative
dutch      tatoeba-en-nl                                        Translate "this is a book" to Dutch        → dit is een boek
dates      generated dates of seven locales                     What is "14 november 2026" in ISO format?  → 2026-11-14
tags       ud-english-ewt, up to 20 words                       Tag "I like it ."                          → PRON VERB PRON PUNCT

A conversation has one to three rounds, sometimes four. A later round asks the same of another text (And "…"?), something about
the text before (And in Dutch? · What did I ask you to translate? · Which year is that? · So is it negative?), or something new.
"""

from __future__ import annotations

import calendar
import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from firth.progress import Progress
from firth.text.config import CHAT_SKILLS, ChatSkill
from firth.text.conversation import Conversation, Message, Skill
from firth.text.data_set import DATA_SETS, Part
from firth.text.datasets import chat_phrasings as ask
from firth.text.datasets import download
from firth.text.datasets.chat_phrasings import Phrasings
from firth.text.datasets.dates import dates
from firth.text.datasets.negations import negations
from firth.text.datasets.prompts import dutch, sentiments
from firth.text.holdout import held_out
from firth.text.readers.conll import ConllColumns

LOCALES = ("de", "en_GB", "en_US", "es", "fr", "it", "nl")
_PARTS: tuple[Part, ...] = ("train", "valid", "test")
_OPINIONS = 40_000  # sentences, before they are split
_HELD_OUT = 0.04  # the share of tatoeba-en-nl that is for testing, and of the rest that is for validation
_LONGEST = 20  # words of a sentence to tag
_REPEATS = 3  # a skill with few training examples has each of them up to this often, in other words
_MOST = 2000  # validation and test examples of a skill
_ROUNDS = (5, 3, 2)  # weights of one, two and three rounds
_SAME, _FOLLOW = 0.45, 0.75  # a later round: below the first the same question again, below the second about the text before
# weights of POSITIVE, NEGATIVE and SENTIMENT. If the first two were equally frequent, the answer Yes would not depend on a text
# alone nor on a question alone, and such an exclusive or is learned very late
_SENTIMENTS = (5, 1, 4)
_REPEATED = 0.2  # of the sentences to translate: repeated first, then translated
_LOWERED = 0.3  # of the sentences to translate: without a capital and a full stop
# words that are not names, with which a sentence may begin in lower case
_NO_NAMES = frozenset(
    re.findall(
        r"\S+",
        "a all an are can could did do does don't he her his how i i'm if is it it's my no our she some that the their there "
        "these they this those was we were what what's when where which who why will would you your",
    )
)


class ChatExample(NamedTuple):
    """A text with what there is to know of it: a label, a translation, a date, tags."""

    text: str
    answer: str


@dataclass(frozen=True)
class _Question:
    """A question about a text that can also be asked about other texts."""

    skill: str
    answer: Callable[[ChatExample], str]


class _Round(NamedTuple):
    prompt: str
    answer: str
    skill: Skill


def chats(skills: Sequence[ChatSkill] | None, count: int, part: Part, progress: Progress) -> list[Conversation]:
    """The conversations of a part, over at most `count` training examples of each skill, or a tenth as many held-out ones."""
    draw = random.Random(_PARTS.index(part))
    pools = {skill: _pool(skill, count, part, draw, progress) for skill in skills or CHAT_SKILLS}
    order = [skill for skill, pool in pools.items() for _ in pool]
    draw.shuffle(order)
    composer = _Composer(pools, order, draw, with_held_out=part == "test")
    return list(composer.conversations(part))


def _pool(skill: ChatSkill, count: int, part: Part, draw: random.Random, progress: Progress) -> list[ChatExample]:
    pool = [example for example in _examples(skill, count, part, progress) if '"' not in example.text]
    draw.shuffle(pool)
    if part != "train":
        return pool[: min(_MOST, max(1, count // 10))]
    again = [example for _ in range(_REPEATS - 1) for example in draw.sample(pool, len(pool))]
    return (pool + again)[:count]


def _examples(skill: ChatSkill, count: int, part: Part, progress: Progress) -> Iterator[ChatExample]:
    match skill:
        case "opinions":
            tenth = _OPINIONS // 10
            cuts = {"train": (2 * tenth, _OPINIONS), "valid": (0, tenth), "test": (tenth, 2 * tenth)}[part]
            yield from (ChatExample(text, label) for text, label in negations(_OPINIONS)[slice(*cuts)])
        case "reviews":
            meaning = dict(DATA_SETS["sst2"].labels)
            yield from (ChatExample(text, meaning[label]) for _, (text, label) in sentiments(part, progress))
        case "dutch":
            yield from _dutch(part, progress)
        case "dates":
            size = count if part == "train" else min(_MOST, max(1, count // 10))
            yield from (ChatExample(written, iso) for written, iso in dates(LOCALES, size, part))
        case "tags":
            entry, folder = DATA_SETS["ud-english-ewt"], download.local("ud-english-ewt", progress)
            for sentence in ConllColumns("conllu", None, None).sentences(folder / str(getattr(entry, part))):
                if 2 <= len(sentence.words) <= _LONGEST:
                    yield ChatExample(" ".join(sentence.words), " ".join(sentence.tags))


def _dutch(part: Part, progress: Progress) -> Iterator[ChatExample]:
    """tatoeba-en-nl is one file: the parts are held out here, all translations of a sentence together."""
    whole = [ChatExample(*texts) for _, texts in dutch(progress)]
    rest, test = held_out(whole, _HELD_OUT, "pairs", lambda example: example.text)
    train, valid = held_out(rest, _HELD_OUT, "pairs", lambda example: example.text)
    yield from {"train": train, "valid": valid, "test": test}[part]


class _Composer:
    """Takes each example once and puts one to three of them into a conversation."""

    def __init__(
        self, pools: dict[ChatSkill, list[ChatExample]], order: list[ChatSkill], draw: random.Random, with_held_out: bool
    ) -> None:
        self.pools, self.order, self.draw, self.with_held_out = pools, order, draw, with_held_out

    def conversations(self, part: Part) -> Iterator[Conversation]:
        number = 0
        while (skill := self._next_skill()) is not None:
            number += 1
            rounds = list(self._rounds(skill))
            messages = [message for one in rounds for message in (Message("user", one.prompt), Message("assistant", one.answer))]
            yield Conversation(f"chats, {part} {number}", tuple(messages), tuple(one.skill for one in rounds))

    def _next_skill(self) -> ChatSkill | None:
        while self.order:
            skill = self.order.pop()
            if self.pools[skill]:
                return skill
        return None

    def _rounds(self, skill: ChatSkill) -> Iterator[_Round]:
        more = self.draw.choices(range(len(_ROUNDS)), _ROUNDS)[0]
        question: _Question | None
        rounds, question, example = self._first(skill)
        yield from rounds
        for _ in range(more + 1 - len(rounds)):
            chance = self.draw.random()
            if question is not None and chance < _SAME and self.pools[skill]:
                example = self._taken(skill)
                yield self._asked(ask.AGAIN, example, question)
            elif question is not None and chance < _FOLLOW and skill != "tags":
                yield self._follow_up(skill, example)
                question = None  # what "the same" means is not clear any more
            elif (other := self._next_skill()) is not None:
                skill = other
                rounds, question, example = self._first(skill)
                yield from rounds

    def _first(self, skill: ChatSkill) -> tuple[list[_Round], _Question, ChatExample]:
        """A question that needs no history, or two of which the second does."""
        example = self._taken(skill)
        match skill:
            case "dutch":
                question = _Question("dutch", lambda one: one.answer)
                if self.draw.random() < _REPEATED:
                    repeat = _Question("repeat", lambda one: one.text)
                    rounds = [self._asked(ask.REPEAT, example, repeat), self._asked(ask.THAT_IN_DUTCH, example, question)]
                    return rounds, question, example
                return [self._asked(ask.DUTCH, example, question)], question, example
            case "dates" | "tags":
                question = _Question(skill, lambda one: one.answer)
                phrasings = ask.DATES if skill == "dates" else ask.TAGS
                return [self._asked(phrasings, example, question)], question, example
            case "opinions" | "reviews":
                kinds = (
                    (ask.POSITIVE, _is("positive")),
                    (ask.NEGATIVE, _is("negative")),
                    (ask.SENTIMENT, lambda one: one.answer),
                )
                phrasings, answer = self.draw.choices(kinds, _SENTIMENTS)[0]
                question = _Question(skill, answer)
                return [self._asked(phrasings, example, question)], question, example

    def _follow_up(self, skill: ChatSkill, example: ChatExample) -> _Round:
        """A question about the text before, or its answer."""
        match skill:
            case "dates":
                year, month, _ = example.answer.split("-")
                if self.draw.random() < 0.5:
                    return self._asked(ask.YEAR, example, _Question(skill, lambda one: year))
                return self._asked(ask.MONTH, example, _Question(skill, lambda one: calendar.month_name[int(month)]))
            case "opinions" | "reviews":
                if self.draw.random() < 0.8:
                    return self._asked(ask.THEN_POSITIVE, example, _Question(skill, _is("positive")))
                return self._asked(ask.THEN_NEGATIVE, example, _Question(skill, _is("negative")))
            case _:
                return self._asked(ask.RECALL, example, _Question("recall", lambda one: one.text))

    def _asked(self, phrasings: Phrasings, example: ChatExample, question: _Question) -> _Round:
        template, phrasing = phrasings.draw(self.draw, self.with_held_out)
        return _Round(template.replace("{}", example.text), question.answer(example), Skill(question.skill, phrasing))

    def _taken(self, skill: ChatSkill) -> ChatExample:
        example = self.pools[skill].pop()
        match skill:
            case "opinions" | "reviews":
                return example._replace(text=_written(example.text, self.draw))
            case "dutch" if self.draw.random() < _LOWERED:
                return _lowered(example)
            case _:
                return example


def _is(label: str) -> Callable[[ChatExample], str]:
    return lambda example: "Yes" if example.answer == label else "No"


def _written(text: str, draw: random.Random) -> str:
    """A lower-case sentence of separated tokens, in one of two cases as people would write it."""
    if draw.random() < 0.5:
        return text
    text = re.sub(r" (n't|'\w+|[,.!?;:])", r"\1", re.sub(r"\bi\b", "I", text))
    return text[:1].upper() + text[1:] if draw.random() < 0.5 else text


def _lowered(example: ChatExample) -> ChatExample:
    """ "This is a book." → "this is a book", on both sides, unless the sentence may begin with a name."""
    text, answer = example
    if text.split(" ")[0].lower() not in _NO_NAMES or not (text.endswith(".") and answer.endswith(".")):
        return example
    first = text[0] if text.split(" ")[0].startswith("I") and text.split(" ")[0] in ("I", "I'm") else text[0].lower()
    return ChatExample(first + text[1:-1], answer[0].lower() + answer[1:-1])
