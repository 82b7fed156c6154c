"""The generated conversations: what they hold, what is held out, and that answers follow from the history."""

from __future__ import annotations

import calendar
import functools
import re
from pathlib import Path

import pytest
from shares import half

from firth.progress import silent
from firth.text.config import CHAT_SKILLS, PairsConfig, TokenizerConfig
from firth.text.conversation import Conversation
from firth.text.data.pairs import prepare_pairs
from firth.text.datasets import chat_phrasings
from firth.text.datasets.chat_phrasings import Phrasings
from firth.text.datasets.chats import chats
from firth.text.datasets.negations import negations

SENTENCE = "1\tBirds\tbird\tNOUN\n2\tsing\tsing\tVERB\n3\t.\t.\tPUNCT\n"
SMALL = {
    "sst2": {f"{part}.tsv": f"a fine {part}\t1\na dull {part}\t0\n" for part in ("train", "dev", "test")},
    "tatoeba-en-nl": {"en-nl.tsv": "".join(f"This is number {n}.\tDit is nummer {n}.\n" for n in range(100))},
    "ud-english-ewt": {f"en_ewt-ud-{part}.conllu": f"{SENTENCE}\n" * 3 for part in ("train", "dev", "test")},
}
ALL = {name: value for name, value in vars(chat_phrasings).items() if isinstance(value, Phrasings)}


once = functools.cache(negations)


@pytest.fixture(autouse=True)
def _opinions_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """All 40,000 of them would be made again for each call."""
    monkeypatch.setattr("firth.text.datasets.chats.negations", once)


def questions(conversations: list[Conversation]) -> list[str]:
    return [message.content for one in conversations for message in one.messages if message.role == "user"]


def template(question: str, phrasings: list[str]) -> str | None:
    """The phrasing that a question was made from."""
    matches = [one for one in phrasings if re.fullmatch(re.escape(one).replace(r"\{\}", ".*"), question)]
    return max(matches, key=len, default=None)


@pytest.mark.parametrize(
    ("names", "least"), [(("DUTCH",), 12), (("POSITIVE", "NEGATIVE", "SENTIMENT"), 12), (("DATES",), 12), (("TAGS",), 12)]
)
def test_each_task_has_a_dozen_phrasings_and_others_that_are_held_out(names: tuple[str, ...], least: int) -> None:
    phrasings = [ALL[name] for name in names]
    assert sum(len(one.known) for one in phrasings) >= least
    assert all(len(one.held_out) >= 2 for one in phrasings)


def test_no_phrasing_is_both_known_and_held_out() -> None:
    known, held_out = ([text for one in ALL.values() for text in getattr(one, part)] for part in ("known", "held_out"))
    assert set(known).isdisjoint(held_out)
    assert len(set(known)) == len(known)


def test_training_and_validation_have_known_phrasings_only_and_a_test_has_both(mirror: Path) -> None:
    train, test = chats(None, 100, "train", silent), chats(None, 100, "test", silent)
    train += chats(None, 100, "valid", silent)  # which selects weights
    assert {skill.phrasing for one in train for skill in one.skills if skill} == {"known"}
    assert {skill.phrasing for one in test for skill in one.skills if skill} == {"known", "held out"}
    held_out = [text for one in ALL.values() for text in one.held_out]
    known = [text for one in ALL.values() for text in one.known]
    assert all(template(question, known) for question in questions(train))
    only = [text for text in held_out if not template(text.replace("{}", "x"), known)]
    assert not [question for question in questions(train) if template(question, only)]


@pytest.mark.parametrize("part", half(["train", "valid", "test"], 1))
def test_every_part_has_every_skill(part: str, mirror: Path) -> None:
    conversations = chats(None, 100, part, silent)  # type: ignore[arg-type]
    assert {skill.name for one in conversations for skill in one.skills if skill} >= set(CHAT_SKILLS)


def test_the_same_conversations_come_again(mirror: Path) -> None:
    assert chats(None, 50, "valid", silent) == chats(None, 50, "valid", silent)


def test_no_sentence_to_translate_is_in_two_parts(mirror: Path) -> None:
    numbers = []
    for part in ("train", "valid", "test"):
        asked = questions(chats(("dutch",), 300, part, silent))  # type: ignore[arg-type]
        numbers.append({number for question in asked for number in re.findall(r"number \d+", question)})
    assert numbers[0].isdisjoint(numbers[1])
    assert numbers[0].isdisjoint(numbers[2])
    assert numbers[1].isdisjoint(numbers[2])
    assert numbers[1]
    assert numbers[2]


def test_answers_about_an_opinion_follow_from_its_label() -> None:
    label_of = dict(once(40_000))
    for one in chats(("opinions",), 500, "test", silent):
        label = None
        for place in one.answers:
            question, answer = one.messages[place - 1].content, one.messages[place].content
            plain = question.lower().replace("n't", " n't").replace("'s", " 's").replace(",", " ,").replace("  ", " ")
            named = [label_of[text] for text in re.findall(r'"([^"]*)"', plain) if text in label_of]
            label = named[0] if named else label
            if label is None or '"' not in question:
                continue
            if template(question, [*chat_phrasings.SENTIMENT.known, *chat_phrasings.SENTIMENT.held_out]):
                assert answer == label
            elif template(question, [*chat_phrasings.POSITIVE.known, *chat_phrasings.POSITIVE.held_out]):
                assert answer == ("Yes" if label == "positive" else "No")


def test_a_follow_up_is_answered_from_the_history() -> None:
    asked = 0
    for one in chats(("dates",), 400, "train", silent):
        for place in one.answers[1:]:
            question, answer, before = (one.messages[n].content for n in (place - 1, place, place - 2))
            if question in chat_phrasings.YEAR.known:
                assert answer == before[:4]
                asked += 1
            if question in chat_phrasings.MONTH.known:
                assert answer == calendar.month_name[int(before[5:7])]
    assert asked > 10


def test_the_lecture_s_phrasings_are_in_training() -> None:
    assert 'Translate "{}" to Dutch' in chat_phrasings.DUTCH.known
    assert '"{}" is positive?' in chat_phrasings.POSITIVE.known


def test_an_encoder_decoder_reads_the_history_and_writes_the_answer(mirror: Path) -> None:
    config = PairsConfig(name="chats", count=60)
    data = prepare_pairs(config, TokenizerConfig(kind="word", joint=True))
    expected = [
        (" | ".join(message.content for message in one.messages[:place]), one.messages[place].content)
        for one in chats(None, 60, "test", silent)
        for place in one.answers
    ]
    assert data.test is not None
    assert list(data.test.texts or ()) == expected
    assert data.test.asked is not None
    assert [one.round for one in data.test.asked] == [source.count(" | ") // 2 + 1 for source, _ in expected]


@pytest.mark.long
def test_the_real_sets_are_as_large_as_they_are(firth_data: Path) -> None:
    counts = [len([None for one in chats(None, 60_000, part, silent) for _ in one.answers]) for part in ("valid", "test")]
    assert counts == [9521, 10625]
