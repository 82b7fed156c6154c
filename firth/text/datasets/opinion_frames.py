"""The frames of the generated opinions: templates for clauses that keep or reverse the sentiment of a word."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Frames(NamedTuple):
    """Templates that keep the sentiment of the word in them, and templates that reverse it."""

    keep: Sequence[str]
    reverse: Sequence[str]


# {the}: a thing with an article · {n}: a thing without · {who}: somebody. {is}, {dont}, {find|finds} … agree with {who}, or with
# {the} where nobody is mentioned. {adj}, {v}, {name} … are words with the sentiment of the sentence, or with the opposite one.
KNOWN = {
    "adjective": Frames(
        (
            "{the} {is} {very}{adj}",
            "{the} {was} {very}{adj}",
            "what a {adj} {n}",
            "a {very}{adj} {n}",
            "this is a {very}{adj} {n}",
            "it was a {adj} {n}",
            "it is {very}{adj}",
            "{who} {find|finds} {the} {very}{adj}",
            "{who} found {the} {adj}",
            "{the} {look|looks} {very}{adj}",
            "{the} {seem|seems} {adj}",
            "{the} {feel|feels} {adj}",
            "{the} {sound|sounds} {adj}",
            "{the} {taste|tastes} {very}{adj}",
            "{who} had a {adj} {n}",
            "{the} turned out to be {adj}",
            "{everything} about {the0} is {adj}",
            "{the} {is} always {adj}",
            "{the} {is} not only {adj} but also {adj}",
            "{who} thought that {the0} would be {adj}, and they were right",
        ),
        (
            "{the} {isnt} {adj}",
            "{the} {isnt} very {adj}",
            "{the} {wasnt} {adj} at all",
            "{the} {wasnt} {adj}",
            "not a {adj} {n}",
            "this is not a {adj} {n}",
            "it is not a {very}{adj} {n}",
            "it wasn't a {adj} {n}",
            "{the} {is} hardly {adj}",
            "{the} {was} never {adj}",
            "{who} would not call {the0} {adj}",
            "{the} {is} far from {adj}",
            "{the} {is} anything but {adj}",
            "there is nothing {adj} about {the0}",
            "{nothing} about {the0} is {adj}",
            "nobody finds {the0} {adj}",
            "no part of {the0} is {adj}",
            "{who} {dont} find {the0} {adj}",
            "{who} {dont} think {the0} {is0} {adj}",
            "{who} {doubt|doubts} that {the0} {is0} {adj}",
            "{who} didn't find {the0} {adj}",
            "{the} {is} neither {adj} nor {adj}",
            "{the} {dont} look {adj}",
            "{the} {didnt} taste {adj}",
            "{the} {dont} sound very {adj}",
            "{the} {dont} feel {adj}",
            "{the} {is} less {adj} than before",
            "{who} thought that {the0} would be {adj}, and they were wrong",
        ),
    ),
    "verb": Frames(
        (
            "{who} {v} {the0}",
            "{who} really {v} {the0}",
            "{who} {ved} {the0}",
            "{who} {have|has} always {ved} {the0}",
            "{everybody} {ved} {the0}",
            "{who} {v} it",
            "{who} will {v0} it",
            "i can see why people {v0} {the0}",
        ),
        (
            "{who} {dont} {v0} {the0}",
            "{who} {dont} {v0} it",
            "{who} really {dont} {v0} {the0}",
            "{who} {didnt} {v0} {the0}",
            "{who} never {ved} {the0}",
            "{who} {cant} {v0} {the0}",
            "{nobody} {ved} {the0}",
            "{nobody} i know {ved} {the0}",
            "{who} hardly {v} {the0}",
            "{who} no longer {v} {the0}",
            "{who} {wouldnt} {v0} {the0}",
            "i cannot see why people {v0} {the0}",
        ),
    ),
    "deed": Frames(
        ("{the} {d} me", "{the} {ded} us", "{the} always {d} {whom}", "{the} really {ded} {whom}", "{everything} {ded} me"),
        (
            "{the} {dont} {d0} me",
            "{the} {didnt} {d0} us",
            "{the} never {d} {whom}",
            "{the} failed to {d0} {whom}",
            "{nothing} {ded} me",
            "{the} {wont} {d0} {whom}",
        ),
    ),
    "act": Frames(
        ("{the} {act}", "{the} always {act}", "{the} {acted} again", "{the} {acted} after a week", "it {act1}"),
        ("{the} {dont} {act0}", "{the} never {act}", "{the} {didnt} {act0}", "{the} hardly ever {act}", "{the} {wont} {act0}"),
    ),
    "manner": Frames(
        ("{the} {do} {how}", "{who} {did} {how}", "everything was done {how}", "a {how} made {n}"),
        ("{the} {dont} {do0} {how}", "{who} {didnt} {do0} {how}", "nothing was done {how}", "{the} never {do} {how}"),
    ),
    "quality": Frames(
        (
            "{the} {have|has} a lot of {quality}",
            "there is so much {quality} in {the0}",
            "a {n} full of {quality}",
            "{who} found a lot of {quality} in {the0}",
            "{the} {have|has} many {quality}",
            "i see {quality} everywhere in {the0}",
        ),
        (
            "{the} {have|has} no {quality}",
            "there is no {quality} in {the0}",
            "a {n} without {quality}",
            "{the} {lack|lacks} {quality}",
            "{who} found no {quality} in {the0}",
            "{the} {is} free of {quality}",
            "{the} {have|has} little {quality}",
            "{the} {dont} have any {quality}",
        ),
    ),
    "feeling": Frames(
        (
            "{who} {is} {very}{feeling}",
            "{who} {was} {very}{feeling}",
            "{who} {is} {feeling} with {the0}",
            "{who} {was} {feeling} about {the0}",
            "{who} {was} {feeling} by {the0}",
            "you will be {feeling}",
            "{who} left {feeling}",
            "{the} made {whom} {very}{feeling}",
        ),
        (
            "{who} {isnt} {feeling}",
            "{who} {wasnt} {feeling}",
            "{who} {isnt} {feeling} with {the0}",
            "{who} {wasnt} {feeling} with {the0} at all",
            "{who} {wasnt} {feeling} by {the0}",
            "{nobody} was {feeling}",
            "you won't be {feeling}",
            "{who} {was} never {feeling} with {the0}",
            "{who} {was} anything but {feeling}",
        ),
    ),
    "reaction": Frames(
        ("{the} made {whom} {react}", "{the} always {make|makes} {whom} {react}", "it makes {whom} {react}"),
        ("{the} {didnt} make {whom} {react}", "{the} {dont} make {whom} {react}", "it never made {whom} {react}"),
    ),
    "name": Frames(
        ("{the} {is} a {name}", "{the} {was} a {name}", "what a {name}", "a {adj} {name}", "{who} {call|calls} {the0} a {name}"),
        ("{the} {isnt} a {name}", "{the} {wasnt} a {name}", "it is not a {name}", "{who} would not call {the0} a {name}"),
    ),
    "event": Frames(
        (
            "{who} would {event}",
            "{who} will {event}",
            "you should {event}",
            "{who} {have|has} decided to {event}",
            "i had to {event}",
        ),
        (
            "{who} {wouldnt} {event}",
            "{who} {wont} {event}",
            "{who} will never {event}",
            "you should not {event}",
            "{who} had no reason to {event}",
            "there is no need to {event}",
            "{who} never had to {event}",
        ),
    ),
}
# Only half of the test sentences have these.
HELD_OUT = {
    "adjective": Frames(
        ("{the} proved {very}{adj}", "never before did {who} have such a {adj} {n}", "i would describe {the0} as {adj}"),
        ("{the} could not be called {adj}", "{who} did not think that {the0} {was0} {adj}", "{the} {is} by no means {adj}"),
    ),
    "verb": Frames(
        ("there are many reasons to {v0} {the0}", "{who} came to {v0} {the0}"),
        ("there is no reason to {v0} {the0}", "none of us {ved} {the0}", "{who} {have|has} never {ved} {the0}"),
    ),
    "deed": Frames(("{the} {ded} all of us", "how {the0} {ded} us"), ("not once did {the0} {d0} {whom}", "{the} {ded} nobody")),
    "quality": Frames(
        ("{quality} on every side", "nothing but {quality}"), ("not a trace of {quality}", "no {quality} anywhere")
    ),
    "feeling": Frames(("how {feeling} {who} {was}", "{the} left {whom} {feeling}"), ("{the} did not leave {whom} {feeling}",)),
    "event": Frames(
        ("{who} cannot wait to {event}", "{who} want to {event}"), ("{who} refused to {event}", "i see no reason to {event}")
    ),
}
# Sentences whose sentiment is in the frame: (good, bad).
PLAIN = (
    ("{the} {is} better than expected", "{the} {is} worse than expected"),
    ("the best {n} in years", "the worst {n} in years"),
    ("it is better than the last {n}", "it is worse than the last {n}"),
    ("{the} {is} better than my old {n}", "{the} {is} worse than my old {n}"),
    ("{the} could not be better", "{the} could not be worse"),
    ("{the} {is} no worse than the last one", "{the} {is} no better than the last one"),
    ("{who} {have|has} never seen a better {n}", "{who} {have|has} never seen a worse {n}"),
    ("{the} {is} worth {worth}", "{the} {isnt} worth {worth}"),
    ("it was worth {worth}", "it was not worth {worth}"),
    ("{who} would buy it again", "{who} would never buy it again"),
    ("i am glad that i bought {the0}", "i wish i had never bought {the0}"),
    ("money well spent", "a waste of money"),
    ("not a waste of time", "a waste of time"),
    ("{the} {exceed|exceeds} my expectations", "{the} {dont} meet my expectations"),
    ("{the} {keep|keeps} {its} promises", "{the} {dont} keep {its} promises"),
    ("{nothing} is wrong with {the0}", "{everything} is wrong with {the0}"),
    ("{everything} went right", "{everything} went wrong"),
    ("{who} {have|has} no complaints", "{who} {have|has} many complaints"),
    ("{nobody} complained", "{everybody} complained"),
    ("five stars", "one star"),
    ("thumbs up", "thumbs down"),
    ("you should try {the0}", "you should not try {the0}"),
    ("{who} would visit it again", "{who} would not visit it again"),
    ("{who} can't get enough of {the0}", "{who} had enough of {the0}"),
    ("{the} makes sense", "{the} makes no sense"),
    ("too good to miss", "too {bad} to be good"),
    ("{who} could not stop reading", "{who} could not finish it"),
    ("{who} had a {good} time", "{who} had a {bad} time"),
)
