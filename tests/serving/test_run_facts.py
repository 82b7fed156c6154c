"""What a run offers, by its recipe."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from questions import RECORDS, answer_table, write_questions

from firth.api import compose, find_recipe
from firth.serving.lab.examples import ASKED_ENGLISH, ASKED_STORIES, ENGLISH, SENTENCES
from firth.serving.lab.run_facts import run_facts
from firth.text.datasets.story_words import TRAIN

FLAGS = (
    "reads_text",
    "generates",
    "translates",
    "tags",
    "classifies",
    "captions",
    "learns_in_context",
    "takes_target",
    "takes_context",
    "chats",
    "recurrent",
    "attention",
    "multi_head",
    "walks",
)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("docs-char-gru", {"reads_text", "generates", "recurrent", "walks"}),
        ("docs-char-transformer", {"reads_text", "generates", "attention", "multi_head", "walks"}),
        ("dates-rnnsearch", {"reads_text", "translates", "takes_target", "recurrent", "attention", "walks"}),
        ("dates-rnnenc", {"reads_text", "translates", "takes_target", "recurrent", "walks"}),
        ("multi30k-en-de-transformer", {"reads_text", "translates", "takes_target", "attention", "multi_head", "walks"}),
        ("chat-decoder", {"reads_text", "generates", "chats", "attention", "multi_head", "walks"}),
        ("sst2-lstm", {"reads_text", "classifies", "recurrent"}),
        ("ewt-pos-bilstm", {"reads_text", "tags", "recurrent"}),
        ("stories-reader", {"reads_text", "takes_context", "attention", "multi_head"}),
        ("scenes-lstm", {"captions"}),
        ("icl-swap", {"reads_text", "learns_in_context", "attention", "multi_head", "walks"}),
        ("icl-regression", {"learns_in_context", "attention", "multi_head"}),
    ],
)
def test_a_recipe_offers_what_its_task_and_its_model_can_do(name: str, expected: set[str]) -> None:
    facts = run_facts(find_recipe(name))
    assert {flag for flag in FLAGS if getattr(facts, flag)} == expected
    assert facts.task == find_recipe(name).objective.kind
    assert set(facts.json()) == {"about", "example", "texts", "group", "task", "family", *FLAGS}


def test_a_run_that_finds_answers_takes_a_context(tmp_path: Path) -> None:
    facts = run_facts(compose(answer_table(write_questions(tmp_path / "questions.jsonl", RECORDS[:4]))))
    assert facts.takes_context
    assert not facts.takes_target
    assert facts.texts == ASKED_ENGLISH


def test_a_reader_of_stories_is_asked_about_a_story() -> None:
    """With names that its training does not have."""
    texts = run_facts(find_recipe("stories-reader")).texts
    assert texts == ASKED_STORIES
    trained = {*TRAIN.women, *TRAIN.men, *TRAIN.slots["town"]}
    for one in texts:
        assert not trained & set(re.findall(r"\w+", one.context + one.text))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("dates-rnnsearch", "samedi 14 novembre 2026"),
        ("multi30k-de-en-gru", "Ein Mann steht auf einer Leiter."),
        ("multi30k-en-de-transformer", "A man is standing on a ladder."),
        ("tatoeba-en-nl-transformer", "This is a book."),
        ("scan-length", "jump twice and walk left"),
        ("docstrings-summary", ""),
        ("docs-char-lstm", ENGLISH),
        ("sst2-lstm", ENGLISH),
        ("ewt-pos-bilstm", SENTENCES),
    ],
)
def test_the_example_suits_the_data_of_the_run(name: str, text: str) -> None:
    assert run_facts(find_recipe(name)).example == text


@pytest.mark.parametrize(
    ("name", "group"),
    [
        ("docs-char-gru", "Recurrent language models"),
        ("docs-char-transformer", "Transformers"),
        ("docs-char-linear", "Transformers"),
        ("chat-decoder", "Transformers"),
        ("dates-rnnsearch", "Translators"),
        ("multi30k-en-de-transformer", "Translators"),
        ("sst2-average", "Encoders"),
        ("wikitext2-mlm", "Encoders"),
        ("scenes-lstm", "Captioning models"),
        ("icl-swap-lstm", "In-context learners"),
    ],
)
def test_a_run_belongs_to_a_family(name: str, group: str) -> None:
    assert run_facts(find_recipe(name)).group == group


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("dates-rnnsearch", "samedi 14 novembre 2026"),
        ("scan-simple", "jump twice and walk left"),
        ("ewt-pos-bilstm", "The old man the boat ."),
        ("chat-decoder", 'Translate "this is a book" to Dutch'),
        ("multi30k-de-en-rnnsearch", "Ein Mann steht auf einer Leiter."),
        ("multi30k-en-de-transformer", "A man is standing on a ladder."),
    ],
)
def test_a_run_has_texts_that_show_what_it_learned(name: str, text: str) -> None:
    found = run_facts(find_recipe(name)).texts
    assert text in [one.text for one in found]
    assert 2 <= len(found) <= 3


def test_chats_are_asked_what_they_learned() -> None:
    (found,) = run_facts(find_recipe("chat-decoder", ['data.skills=["dates"]'])).texts
    assert "ISO" in found.text
