"""Generated opinions: labels that follow from words and negations, parts that share no sentence, and what is held out."""

from __future__ import annotations

import random
import re
from collections import Counter
from functools import cache
from pathlib import Path

from opinion_pairs import SENTENCES

from firth.text.config import LabelledConfig, TokenizerConfig
from firth.text.data.labelled import prepare_labelled
from firth.text.data_set import Part
from firth.text.datasets import opinions as module
from firth.text.datasets.opinion_frames import HELD_OUT, KNOWN, PLAIN
from firth.text.datasets.opinion_words import ADJECTIVES, DEEDS, FEELINGS, VERBS
from firth.text.datasets.opinions import opinions

PARTS: tuple[Part, ...] = ("train", "valid", "test")


@cache
def plain(part: Part) -> dict[str, str]:
    """Without capitals and full stops."""
    return {text.lower().rstrip(".!"): label for text, label in opinions(part)}


def test_half_of_each_part_is_positive_and_no_sentence_is_in_two_parts() -> None:
    for part in PARTS:
        assert len(set(Counter(plain(part).values()).values())) == 1
    assert sum(len(plain(part)) for part in PARTS) == len(set().union(*map(plain, PARTS))) == 26_000


def test_every_slot_is_filled_and_sentences_read_like_sentences() -> None:
    for text in plain("train"):
        assert not re.search(r"[{}|]|  |\b(a [aeio]\w|an [bcdfgjklmnpqrstvwxz])|\bi (is|are|has|does)\b", text), text


def test_a_frame_that_reverses_gives_the_opposite_label() -> None:
    """The word decides together with its frame; nothing else does."""
    draw = random.Random(0)
    for frames in (*KNOWN.values(), *HELD_OUT.values()):
        assert frames.keep
        assert frames.reverse
        assert not set(frames.keep) & set(frames.reverse)
    good = set(ADJECTIVES[1])
    for _ in range(50):
        kept = module._Filled(draw, 1).text("{the} {was} {adj}")
        assert kept.split()[-1] in good
    assert not {*KNOWN["adjective"].keep, *KNOWN["adjective"].reverse} & {
        *HELD_OUT["adjective"].keep,
        *HELD_OUT["adjective"].reverse,
    }
    assert all(len(pair) == 2 and pair[0] != pair[1] for pair in PLAIN)


def test_no_word_is_good_and_bad() -> None:
    for lexicon in (ADJECTIVES, VERBS, DEEDS, FEELINGS):
        assert not set(lexicon[0]) & set(lexicon[1])
        assert all(len(set(words)) == len(words) for words in lexicon.values())


def test_the_held_out_pairs_and_liking_a_product_are_in_no_part() -> None:
    seen = set().union(*map(plain, PARTS))
    assert not seen & {text.lower() for text, _ in SENTENCES}
    assert not [text for text in seen if re.search(r"\bproduct\b", text) and re.search(r"\b(dis)?lik(e|es|ed|ing)\b", text)]
    assert any("product" in text for text in plain("train"))
    assert any(" like " in text for text in plain("train"))


def test_the_parts_are_files_that_a_classifier_reads(cache: Path) -> None:
    data = prepare_labelled(LabelledConfig(name="opinions"), TokenizerConfig("word", lower=True))
    assert data.valid is not None
    assert data.test is not None
    assert (len(data.train), len(data.valid), len(data.test)) == (24_000, 1_000, 1_000)
    assert data.labels == ("negative", "positive")
    assert (cache / "opinions-1-train.tsv").is_file()
