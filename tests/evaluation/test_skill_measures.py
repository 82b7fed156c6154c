"""Answers by skill: known answers, and sacrebleu's own BLEU."""

from __future__ import annotations

import pytest
import sacrebleu

from firth.evaluation.skills import by_skill, exact_match, tag_accuracy
from firth.text.conversation import QuestionFacts, Skill


def test_tags_are_compared_place_by_place() -> None:
    references = ["PRON VERB NOUN", "DET NOUN"]
    assert tag_accuracy(references, references) == 1
    assert tag_accuracy(["PRON VERB", "NOUN DET NOUN"], references) == pytest.approx(2 / 5)
    assert tag_accuracy(["", ""], references) == 0


def test_white_space_around_an_answer_does_not_count() -> None:
    assert exact_match([" Yes", "no"], ["Yes", "No"]) == 0.5


def test_each_skill_has_its_own_metric_and_its_parts() -> None:
    asked = [
        QuestionFacts(Skill("reviews"), 1),
        QuestionFacts(Skill("reviews", "held out"), 2),
        QuestionFacts(Skill("reviews", "held out"), 3),
        QuestionFacts(Skill("dutch"), 1),
        QuestionFacts(Skill("tags"), 1),
        QuestionFacts(None, 1),
    ]
    dutch = "dit is een heel mooi boek", "dit is een heel goed boek"
    hypotheses = ["Yes", "Yes", "No", dutch[0], "DET VERB", "what?"]
    references = ["Yes", "No", "No", dutch[1], "DET NOUN", "what?"]
    of_skill = {one.skill: one for one in by_skill(asked, hypotheses, references)}
    assert of_skill.keys() == {"reviews", "dutch", "tags", "answers"}
    reviews = of_skill["reviews"]
    assert (reviews.metric, reviews.score, reviews.answers) == ("accuracy", pytest.approx(2 / 3), 3)
    assert (reviews.first_rounds, reviews.follow_ups) == (1, 0.5)
    assert (reviews.known_phrasings, reviews.held_out_phrasings) == (1, 0.5)
    assert of_skill["dutch"].metric == "bleu"
    assert of_skill["dutch"].score == pytest.approx(sacrebleu.corpus_bleu([dutch[0]], [[dutch[1]]]).score)
    assert of_skill["dutch"].chrf == pytest.approx(sacrebleu.corpus_chrf([dutch[0]], [[dutch[1]]]).score)
    assert of_skill["dutch"].held_out_phrasings is None
    assert (of_skill["tags"].metric, of_skill["tags"].score) == ("tag_accuracy", 0.5)
    assert (of_skill["answers"].metric, of_skill["answers"].score) == ("exact", 1)
