"""/v1/translate, classify, tag, answer and attention give what the methods of the runs give."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import questions
import reviews
import tags
import translations
from http_servers import Served, serving

from firth.api import compose, train_recipe
from firth.tasks.abilities import conditional_search
from firth.tasks.run import Run


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, transformer_run: Path) -> Iterator[Served]:
    """rnnsearch, transformer-pairs, reviews, tags, questions: hardly trained, which makes no difference here."""
    folder = tmp_path_factory.mktemp("tasks")
    pairs = translations.write_pairs(folder / "pairs.tsv")
    tables = {
        "rnnsearch": translations.pair_table(pairs, "rnnsearch", steps=4),
        "pairs": translations.pair_table(pairs, "transformer", steps=2),
        "reviews": reviews.classifier_table(reviews.write(folder / "reviews.csv"), steps=10, evaluate_every=10),
        "tags": tags.tagger_table(tags.write(folder / "tags.conllu"), steps=2),
        "questions": questions.answer_table(questions.write_questions(folder / "q.jsonl"), steps=2),
    }
    runs = [train_recipe(compose(table), folder / name).path for name, table in tables.items()]
    with serving(*runs, transformer_run) as server:
        yield server


def run_of(served: Served, name: str) -> Run[Any]:
    return served.models.get(name).run


@pytest.mark.parametrize("name", ["rnnsearch", "pairs"])
def test_translations_are_those_of_translate(served: Served, name: str) -> None:
    texts = ["1 2", "3 4 5", "6"]
    run: Any = run_of(served, name)
    for beam in (1, 3):
        reply = served.post("/v1/translate", {"model": name, "input": texts, "beam": beam, "max_tokens": 8})
        assert reply.status == 200, reply.text
        assert [one["text"] for one in reply.json["data"]] == run.translate(texts, beam=beam, tokens=8)
    assert served.post("/v1/translate", {"model": name, "input": "1"}).json["data"][0]["text"] == run.translate(["1"])[0]


def test_classes_tags_and_answers_are_those_of_the_runs(served: Served) -> None:
    classifier: Any = run_of(served, "reviews")
    (expected,) = classifier.classify(["a great film"])
    (told,) = served.post("/v1/classify", {"model": "reviews", "input": "a great film"}).json["data"]
    assert (told["label"], told["probability"]) == (expected.label, pytest.approx(expected.probability))
    assert told["probabilities"] == pytest.approx(expected.probabilities)
    threshold = {"label": expected.label, "threshold": expected.probability + 0.01}
    (classifier.path / "threshold.json").write_text(json.dumps(threshold))
    (told,) = served.post("/v1/classify", {"model": "reviews", "input": "a great film"}).json["data"]
    assert told["label"] == classifier.classify(["a great film"])[0].label != expected.label
    classifier.remove_threshold()

    tagger: Any = run_of(served, "tags")
    expected = tagger.tag(["the light bag", "she falls"])
    told = served.post("/v1/tag", {"model": "tags", "input": ["the light bag", "she falls"]}).json["data"]
    assert [tuple(one["tags"]) for one in told] == [one.tags for one in expected]
    assert told[0]["words"] == ["the", "light", "bag"]

    reader: Any = run_of(served, "questions")
    one = questions.RECORDS[0]
    body = {"model": "questions", "question": one["question"], "context": one["context"]}
    (told,) = served.post("/v1/answer", body).json["data"]
    expected = reader.answer(one["question"], one["context"])
    assert (told["text"], told["start"]) == (expected.text, expected.start)


@pytest.mark.parametrize(("name", "text"), [("rnnsearch", "1 2"), ("transformer", "the list")])
def test_attention_is_that_of_the_run(served: Served, name: str, text: str) -> None:
    expected = run_of(served, name).attention(text)
    told = served.post("/v1/attention", {"model": name, "input": text}).json
    assert (tuple(told["queries"]), tuple(told["keys"])) == (expected.queries, expected.keys)
    for layer, weights in zip(expected.layers, told["weights"], strict=True):
        np.testing.assert_allclose(weights, expected.weights(layer), atol=1e-6)
    refused = served.post("/v1/attention", {"model": name, "input": text, "layers": []})
    assert (refused.status, "layers is empty" in refused.error["message"]) == (400, True)


@pytest.mark.parametrize("beam", [1, 3])
def test_a_translation_may_end_between_two_of_its_tokens(served: Served, monkeypatch: pytest.MonkeyPatch, beam: int) -> None:
    """One text is one batch: without reports from inside, its client would have left for nothing."""
    monkeypatch.setattr(conditional_search, "_PACE", 0.0)
    run: Any = run_of(served, "rnnsearch")
    heard: list[tuple[int, int]] = []

    def report(what: str, done: int, total: int) -> None:
        heard.append((done, total))
        if len(heard) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run.translations(["1 2 3 4 5 6 7 8"], run.decoding({"beam": beam, "tokens": 50}), progress=report)
    assert heard == [(0, 1)] * 2


def test_requests_that_wait_are_computed_together_and_a_wrong_one_fails_alone(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    run: Any = served.models.get("reviews").for_worker
    batches: list[int] = []
    usual = run.classify

    def slow(texts: list[str]) -> Any:
        import time

        batches.append(len(texts))
        time.sleep(0.1)
        return usual(texts)

    monkeypatch.setattr(run, "classify", slow)
    texts = ["a great film", " ", "dull dull", "awful", "lovely", "what an awful story"]
    with ThreadPoolExecutor(6) as pool:
        replies = list(pool.map(lambda text: served.post("/v1/classify", {"model": "reviews", "input": text}), texts))
    assert [reply.status for reply in replies] == [200, 400, 200, 200, 200, 200]
    assert "has no tokens" in replies[1].error["message"]
    for text, reply in zip(texts, replies, strict=True):
        if reply.status == 200:
            assert reply.json["data"][0]["label"] == usual([text])[0].label
    assert max(batches) > 1


def test_a_run_of_another_kind_says_what_it_can_do(served: Served) -> None:
    reply = served.post("/v1/translate", {"model": "reviews", "input": "a"})
    assert reply.status == 400
    assert "and cannot translate; it can: " in reply.error["message"]
    reply = served.post("/v1/completions", {"model": "rnnsearch", "prompt": "1"})
    assert reply.status == 400
    assert "and cannot generate; it can: " in reply.error["message"]


def test_attention_of_a_language_model_leaves_its_engine_alone(served: Served) -> None:
    """To look at attention, hooks are put on modules; texts are written by others at the same time."""
    body = {"model": "transformer", "prompt": "the list", "max_tokens": 300, "temperature": 0}
    alone = served.post("/v1/completions", body).json["choices"][0]["text"]
    expected = served.post("/v1/attention", {"model": "transformer", "input": "the list"}).json["weights"]
    with ThreadPoolExecutor(4) as pool:
        written = [pool.submit(served.post, "/v1/completions", body) for _ in range(2)]
        looked = [pool.submit(served.post, "/v1/attention", {"model": "transformer", "input": "the list"}) for _ in range(6)]
    assert [one.result().json["choices"][0]["text"] for one in written] == [alone, alone]
    assert all(one.result().json["weights"] == expected for one in looked)
