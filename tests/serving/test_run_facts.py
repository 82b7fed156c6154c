"""Facts about a run, from its recipe."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from questions import RECORDS, answer_table, write_questions

from firth.api import compose, find_recipe
from firth.serving.lab.examples import ASKED_ENGLISH, ASKED_STORIES, ENGLISH, SENTENCES
from firth.serving.lab.run_facts import run_facts
from firth.tasks.ability import ANSWER
from firth.text.datasets.stories import TRAIN

READS = {"evaluate", "embed"}
CONTINUES = {*READS, "generate", "score", "complete", "predict", "walk"}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("docs-char-gru", {*CONTINUES, "show_states"}),
        ("docs-char-transformer", {*CONTINUES, "show_attention"}),
        ("dates-rnnsearch", {*READS, "translate", "predict", "walk", "show_states", "show_attention"}),
        ("dates-rnnenc", {*READS, "translate", "predict", "walk", "show_states"}),
        ("multi30k-en-de-transformer", {*READS, "translate", "predict", "walk", "show_attention"}),
        ("chat-decoder", {*CONTINUES, "chat", "show_attention"}),
        ("sst2-lstm", {*READS, "classify", "show_states"}),
        ("ewt-pos-bilstm", {*READS, "tag", "show_states"}),
        ("stories-questions", {*READS, "answer", "show_attention"}),
        ("scenes-lstm", {"caption", "predict", "evaluate"}),
        ("icl-swap", {*CONTINUES, "learn_in_context", "show_attention"}),
        ("icl-regression", {"learn_in_context", "evaluate"}),
    ],
)
def test_a_recipe_offers_what_its_task_and_its_model_can_do(name: str, expected: set[str]) -> None:
    facts = run_facts(find_recipe(name))
    assert facts.inputs == (("target",) if "translate" in expected else ("context",) if "answer" in expected else ())
    assert set(facts.abilities) == expected
    assert facts.task == find_recipe(name).objective.kind
    assert set(facts.json()) == {"about", "example", "texts", "group", "task", "family", "abilities", "inputs"}


def test_a_run_that_finds_answers_takes_a_context(tmp_path: Path) -> None:
    facts = run_facts(compose(answer_table(write_questions(tmp_path / "questions.jsonl", RECORDS[:4]))))
    assert facts.can(ANSWER)
    assert facts.inputs == ("context",)
    assert facts.texts == ASKED_ENGLISH


def test_a_reader_of_stories_is_asked_about_a_story() -> None:
    """With names that its training does not have."""
    texts = run_facts(find_recipe("stories-questions")).texts
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
        ("icl-swap", "abcd>bacd;bcde>acde;cdef>"),
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
    texts = run_facts(find_recipe(name)).texts
    assert text in [one.text for one in texts]
    assert 2 <= len(texts) <= 3


def test_chats_are_asked_what_they_learned() -> None:
    (example,) = run_facts(find_recipe("chat-decoder", ['data.skills=["dates"]'])).texts
    assert "ISO" in example.text
