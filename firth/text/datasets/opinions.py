"""Opinions that need no download: generated sentences about films, food, things and people, labelled positive or negative.

A word with a sentiment stands in a frame that keeps it ("the soup was tasty") or reverses it ("nobody found the soup tasty"); two
such clauses may be joined. Words and frames are drawn independently, so that no thing and no frame is good or bad by itself, and
every word with a sentiment occurs with and without a negation.

Held out: no part has "product" together with a form of "like", and half of the test sentences have frames that training does not
have. Validation, which selects weights, has the frames of training.
"""

from __future__ import annotations

import random
import re
from pathlib import Path

from firth.progress import Progress, silent
from firth.text import cache, sealed
from firth.text.data_set import Part
from firth.text.datasets import opinion_words as words
from firth.text.datasets.opinion_frames import HELD_OUT, KNOWN, PLAIN

_SIZES: dict[Part, int] = {"train": 24_000, "valid": 1_000, "test": 1_000}
_SEEDS: dict[Part, int] = {"test": 0, "valid": 1, "train": 2}  # in this order: no part repeats a sentence of an earlier one
_MAKER = 1  # raise when the files would be others
_LABELS = ("negative", "positive")
_SLOT = re.compile(r"\{([^{}]+)\}")
_VOWEL = re.compile(r"\b([Aa]) (?=[aeiou](?!seful|ne\b)|hon|hour)")
_PRODUCT, _LIKED = re.compile(r"\bproduct\b"), re.compile(r"\b(dis)?lik(e|es|ed|ing)\b")
_JOINED = 0.15  # share of the sentences that have two clauses
# Share of the clauses whose frame keeps the sentiment of its word. With a half, no word alone would say anything: a model would
# have to discover words and negations at once.
_KEPT = 0.65
_SPELLED_OUT = 0.5  # "is not" rather than "isn't"


def opinions(part: Part) -> list[tuple[str, str]]:
    """The sentences of a part, each with its label: half of them positive, all different."""
    before: set[str] = set()
    for name, seed in _SEEDS.items():
        label_of = _drawn(name, random.Random(seed), before)
        if name == part:
            return list(label_of.items())
        before |= {_plain(text) for text in label_of}
    raise AssertionError(part)


def cached_parts(progress: Progress = silent) -> dict[str, Path]:
    """Each part as a tsv file in the cache folder, with the header `text label`."""
    paths: dict[str, Path] = {part: cache.cache_folder() / f"opinions-{_MAKER}-{part}.tsv" for part in _SIZES}
    for part in _SIZES:
        if not sealed.whole(paths[part]):
            rows = [("text", "label"), *opinions(part)]
            sealed.write_text(paths[part], "".join(f"{text}\t{label}\n" for text, label in rows))
    return paths


def _drawn(part: Part, draw: random.Random, before: set[str]) -> dict[str, str]:
    count = _SIZES[part]
    wanted = {"positive": count // 2, "negative": count - count // 2}
    label_of: dict[str, str] = {}
    seen = set(before)
    while len(label_of) < count:
        good = draw.randrange(2)
        text = _sentence(draw, good, held_out=part == "test" and draw.random() < 0.5)
        label, known = _LABELS[good], _plain(text)
        if known not in seen and wanted[label] > 0 and not _is_held_out(text):
            seen.add(known)
            label_of[text] = label
            wanted[label] -= 1
    return label_of


def _plain(text: str) -> str:
    """Without capitals and full stops, which do not make it another sentence."""
    return text.lower().rstrip(".!")


def _is_held_out(text: str) -> bool:
    return bool(_PRODUCT.search(text.lower()) and _LIKED.search(text.lower()))


def _sentence(draw: random.Random, good: int, *, held_out: bool) -> str:
    clause = _clause(draw, good, held_out=held_out)
    if draw.random() < _JOINED:
        if draw.randrange(2):
            clause = f"{_clause(draw, good)} and {clause}"
        else:  # what comes after "but" decides
            first = _clause(draw, 1 - good)
            clause = draw.choice((f"{first}, but {clause}", f"although {first}, {clause}", f"{first} but {clause}"))
    return _styled(draw, draw.choice(words.OPENERS) + clause + draw.choice(words.TAILS))


def _styled(draw: random.Random, text: str) -> str:
    """With or without a full stop and a capital letter, as people write."""
    text = _VOWEL.sub(r"\1n ", text)
    style = draw.random()
    if style < 0.2:
        return text
    text = re.sub(r"\bi\b", "I", text)
    end = "" if style < 0.55 else "." if style < 0.93 else "!"
    return text[0].upper() + text[1:] + end


def _clause(draw: random.Random, good: int, *, held_out: bool = False) -> str:
    if not held_out and draw.random() < 0.15:
        pair = draw.choice(PLAIN)
        return _Filled(draw, good).text(pair[1 - good])
    frames = (HELD_OUT if held_out else KNOWN)[draw.choice(list(HELD_OUT if held_out else KNOWN))]
    if draw.random() < _KEPT:
        return _Filled(draw, good).text(draw.choice(frames.keep))
    return _Filled(draw, 1 - good).text(draw.choice(frames.reverse))


class _Filled:
    """The words of one clause; `good` is the sentiment of those that have one."""

    def __init__(self, draw: random.Random, good: int) -> None:
        self._draw, self._good = draw, good
        self._plural, self._first = False, False  # of the subject
        self._object_plural = False

    def text(self, template: str) -> str:
        self._agree(template)
        return _SLOT.sub(lambda slot: self._slot(slot[1]), template)

    def _agree(self, template: str) -> None:
        draw = self._draw
        self._object_plural = draw.random() < 0.2
        if "{who}" in template:
            kind = draw.random()
            self._first = kind < 0.45
            self._plural = self._first or kind < 0.75
        elif "{the}" in template:
            self._plural = self._object_plural

    def _slot(self, name: str) -> str:
        draw = self._draw
        if "|" in name:
            return name.split("|")[0 if self._plural else 1]
        if name in _PLAIN_SLOTS:
            return draw.choice(_PLAIN_SLOTS[name])
        match name:
            case "who":
                return "i" if self._first else draw.choice(words.GROUPS if self._plural else words.PERSONS)
            case "the" | "the0":
                return self._thing()
            case "its":
                return "their" if self._plural else "its"
            case _ if name in _FORMS:
                return self._form(name)
            case _ if name in _LEXICON:
                return draw.choice(_LEXICON[name][self._good])
            case _:
                return self._auxiliary(name)

    def _thing(self) -> str:
        if self._object_plural:
            return f"{self._draw.choice(('the', 'these', 'their', 'our', 'the new', 'my'))} {self._draw.choice(words.PLURALS)}"
        article = self._draw.choice(
            ("the", "the", "this", "this", "that", "my", "our", "his", "her", "the new", "my new", "the old")
        )
        return f"{article} {self._draw.choice(words.THINGS)}"

    def _form(self, name: str) -> str:
        verbs, form = _FORMS[name]
        verb = self._draw.choice(verbs[self._good])
        return getattr(verb, form or ("base" if self._plural else "third"))  # type: ignore[no-any-return]

    def _auxiliary(self, name: str) -> str:
        plural = self._object_plural if name.endswith("0") else self._plural
        first = self._first and not name.endswith("0")
        match name.rstrip("0"):
            case "is":
                return "am" if first else "are" if plural else "is"
            case "was":
                return "was" if first or not plural else "were"
            case "isnt":
                return "am not" if first else self._negated("are" if plural else "is")
            case "wasnt":
                return self._negated("was" if first or not plural else "were")
            case "dont":
                return self._negated("do" if plural else "does")
            case "didnt":
                return self._negated("did")
            case "wouldnt":
                return self._negated("would")
            case "cant":
                return self._draw.choice(("cannot", "can't", "can not"))
            case "wont":
                return self._draw.choice(("will not", "won't"))
        raise AssertionError(name)

    def _negated(self, auxiliary: str) -> str:
        return f"{auxiliary} not" if self._draw.random() < _SPELLED_OUT else f"{auxiliary}n't"


_LEXICON = {
    "adj": words.ADJECTIVES,
    "quality": words.QUALITIES,
    "feeling": words.FEELINGS,
    "react": words.REACTIONS,
    "name": words.NAMES,
    "event": words.EVENTS,
    "how": words.HOW,
}
_PLAIN_SLOTS: dict[str, tuple[str, ...]] = {
    "n": words.THINGS,
    "very": words.STRENGTHS,
    "worth": words.WORTH,
    "good": words.ADJECTIVES[1],
    "bad": words.ADJECTIVES[0],
    "whom": ("me", "us", "him", "her", "them", "my family", "everybody"),
    "everybody": ("everybody", "everyone", "all of us", "everyone in the room", "everybody at home"),
    "nobody": ("nobody", "no one", "none of us", "no one in the room", "nobody at home", "not one of my friends"),
    "everything": ("everything", "all of it", "every single thing"),
    "nothing": ("nothing", "none of it", "not a single thing"),
}
_BOTH = {0: words.DOING, 1: words.DOING}
# A form of a verb; None: the present tense that agrees with the subject.
_FORMS = {
    "v": (words.VERBS, None),
    "v0": (words.VERBS, "base"),
    "ved": (words.VERBS, "past"),
    "d": (words.DEEDS, None),
    "d0": (words.DEEDS, "base"),
    "ded": (words.DEEDS, "past"),
    "act": (words.ACTS, None),
    "act0": (words.ACTS, "base"),
    "act1": (words.ACTS, "third"),
    "acted": (words.ACTS, "past"),
    "do": (_BOTH, None),
    "do0": (_BOTH, "base"),
    "did": (_BOTH, "past"),
}
