"""Generated opinions with and without a negation, labelled positive or negative: "this meal is not bad" is positive.

Film reviews say "like" mostly as a preposition and hardly ever negate a plain statement, so a model trained on them alone cannot
read "I do not like it". A grammar supplies such sentences: a word with a sentiment, in a frame that keeps or reverses it.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

from firth.text import cache, sealed

COUNT, SEED, VERSION = 4000, 0, 1
_LABELS = ("negative", "positive")


def _words(text: str) -> list[str]:
    return text.split()


_THINGS = _words(
    "film movie story book show play song album game phone camera hotel room meal dinner service shop course trip car "
    "script performance idea scene cast product restaurant concert lecture tool gift series novel picture"
)
_OPENERS = ("", "", "", "honestly ", "overall ", "for me ", "in my opinion ", "we think that ", "i must say that ")
_STRENGTHS = ("", "", "", "very ", "really ", "quite ", "so ", "truly ", "rather ")

# Words by sentiment: 1 for good, 0 for bad.
_ADJECTIVES = {
    1: _words(
        "good great nice fine excellent wonderful lovely charming funny clever fresh moving exciting interesting pleasant useful "
        "beautiful brilliant delightful strong smart warm honest enjoyable satisfying impressive helpful friendly reliable clean"
    ),
    0: _words(
        "bad awful terrible poor dull boring weak stupid silly ugly slow stale annoying tedious useless horrible sloppy cold "
        "empty disappointing unpleasant predictable pointless clumsy lifeless broken dirty rude noisy cheap"
    ),
}
_VERBS = {
    1: _words("like love enjoy admire recommend appreciate adore praise trust"),
    0: _words("hate dislike regret resent despise avoid"),
}
_PAST = {1: _words("liked loved enjoyed admired appreciated"), 0: _words("hated disliked regretted resented")}
_NOUNS = {
    1: _words("charm wit talent merit warmth beauty strengths ideas quality skill imagination"),
    0: _words("flaws faults problems mistakes trouble weaknesses errors complaints delays defects"),
}
_EVENTS = {  # what one does, or what happens, afterwards
    1: ("order it again", "stay here again", "recommend it to a friend", "see it twice", "try it again", "give it to my sister"),
    0: ("send it back", "ask for my money back", "leave early", "warn everybody", "throw it away"),
}
_RESULTS = {1: ("works", "helps", "convinces", "pays off", "delights"), 0: ("fails", "breaks", "disappoints", "bores", "annoys")}
_REACTIONS = {1: _words("delighted pleased moved happy amused"), 0: _words("bored annoyed angry upset sorry")}


def negations(count: int = COUNT, seed: int = SEED) -> list[tuple[str, str]]:
    """`count` different sentences, each with its label, half of them positive."""
    draw = random.Random(seed)
    label_of: dict[str, str] = {}
    wanted = {"positive": count // 2, "negative": count - count // 2}
    while len(label_of) < count:
        text, good = _sentence(draw)
        label = _LABELS[good]
        if text not in label_of and wanted[label] > 0:
            label_of[text] = label
            wanted[label] -= 1
    return list(label_of.items())


def negations_file() -> Path:
    """The sentences as a tsv file in the cache folder, with the header `text label`."""
    path = cache.cache_folder() / f"negations-{VERSION}-{COUNT}-{SEED}.tsv"
    if not sealed.whole(path):
        rows = [("text", "label"), *negations()]
        sealed.write_text(path, "".join(f"{text}\t{label}\n" for text, label in rows))
    return path


def _sentence(draw: random.Random) -> tuple[str, int]:
    frame = draw.choice(_FRAMES)
    text, good = frame(draw)
    return draw.choice(_OPENERS) + text, good


def _adjective(draw: random.Random) -> tuple[str, str, int]:
    """A thing, an adjective, and whether the adjective is good."""
    good = draw.randrange(2)
    return draw.choice(_THINGS), draw.choice(_ADJECTIVES[good]), good


def _either(draw: random.Random, good: int, straight: Sequence[str], negated: Sequence[str]) -> tuple[str, int]:
    """A sentence that keeps the sentiment, or one that reverses it."""
    return (draw.choice(straight), good) if draw.randrange(2) else (draw.choice(negated), 1 - good)


def _plain(draw: random.Random) -> tuple[str, int]:
    thing, adjective, good = _adjective(draw)
    strength = draw.choice(_STRENGTHS)
    frames = (f"this {thing} is {strength}{adjective}", f"the {thing} was {strength}{adjective}", f"what a {adjective} {thing}")
    return draw.choice((*frames, f"a {strength}{adjective} {thing}", f"i find the {thing} {strength}{adjective}")), good


def _not_adjective(draw: random.Random) -> tuple[str, int]:
    thing, adjective, good = _adjective(draw)
    frames = (
        f"this {thing} is not {adjective}",
        f"the {thing} was not {adjective} at all",
        f"the {thing} is n't {adjective}",
        f"not a {adjective} {thing}",
        f"it is not a {adjective} {thing}",
        f"the {thing} is hardly {adjective}",
        f"this {thing} was never {adjective}",
        f"i would not call this {thing} {adjective}",
        f"the {thing} is far from {adjective}",
        f"this {thing} is anything but {adjective}",
        f"there is nothing {adjective} about the {thing}",
        f"nothing in this {thing} is {adjective}",
        f"nobody finds the {thing} {adjective}",
        f"no part of the {thing} is {adjective}",
    )
    return draw.choice(frames), 1 - good


def _verb(draw: random.Random) -> tuple[str, int]:
    good, thing = draw.randrange(2), draw.choice(_THINGS)
    verb, past = draw.choice(_VERBS[good]), draw.choice(_PAST[good])
    who = draw.choice(("i", "we", "they", "my friends", "the critics"))
    straight = (f"{who} {verb} this {thing}", f"{who} {past} the {thing}", f"{who} really {verb} the {thing}")
    negated = (
        f"{who} do not {verb} this {thing}",
        f"{who} do n't {verb} the {thing}",
        f"{who} did not {verb} the {thing}",
        f"{who} never {past} the {thing}",
        f"{who} can not {verb} this {thing}",
        f"nobody {past} the {thing}",
        f"{who} hardly {verb} this {thing}",
    )
    return _either(draw, good, (*straight, f"everybody {past} the {thing}"), negated)


def _noun(draw: random.Random) -> tuple[str, int]:
    good, thing = draw.randrange(2), draw.choice(_THINGS)
    noun = draw.choice(_NOUNS[good])
    straight = (f"the {thing} has a lot of {noun}", f"there is much {noun} in this {thing}", f"a {thing} full of {noun}")
    negated = (
        f"the {thing} has no {noun}",
        f"there are no {noun} in this {thing}",
        f"a {thing} without {noun}",
        f"the {thing} lacks {noun}",
        f"i see no {noun} in the {thing}",
        f"the {thing} is free of {noun}",
    )
    return _either(draw, good, straight, negated)


def _event(draw: random.Random) -> tuple[str, int]:
    good = draw.randrange(2)
    event, result = draw.choice(_EVENTS[good]), draw.choice(_RESULTS[good])
    thing = draw.choice(_THINGS)
    straight = (f"i would {event}", f"we will {event}", f"the {thing} always {result}", f"the {thing} {result}")
    negated = (f"i would not {event}", f"we will never {event}", f"the {thing} never {result}", f"the {thing} hardly {result}")
    return _either(draw, good, straight, negated)


def _reaction(draw: random.Random) -> tuple[str, int]:
    good = draw.randrange(2)
    reaction = draw.choice(_REACTIONS[good])
    if draw.randrange(2):
        return draw.choice(
            (f"i was {reaction}", f"we were {reaction} by the {draw.choice(_THINGS)}", f"you will be {reaction}")
        ), good
    return draw.choice((f"i was not {reaction}", f"nobody was {reaction}", f"you will not be {reaction}")), 1 - good


def _comparison(draw: random.Random) -> tuple[str, int]:
    good, thing = draw.randrange(2), draw.choice(_THINGS)
    degree, most = (("worse", "worst"), ("better", "best"))[good]
    straight = (
        f"the {thing} is {degree} than we expected",
        f"the {most} {thing} in years",
        f"it is {degree} than the last {thing}",
    )
    if draw.randrange(2):
        return draw.choice(straight), good
    if draw.randrange(2):
        return f"the {thing} could not be {degree}", good
    return f"the {thing} is no {degree} than the last one", 1 - good


def _but(draw: random.Random) -> tuple[str, int]:
    """The part after "but" decides."""
    good, (one, other) = draw.randrange(2), draw.sample(_THINGS, 2)
    first, last = draw.choice(_ADJECTIVES[1 - good]), draw.choice(_ADJECTIVES[good])
    frames = (f"the {one} is {first} but the {other} is {last}", f"{first} at first but {last} in the end", f"{first} but {last}")
    return draw.choice((*frames, f"although the {one} is {first} , it is {last}")), good


_FRAMES = (_plain, _not_adjective, _not_adjective, _verb, _verb, _noun, _event, _reaction, _comparison, _but)
