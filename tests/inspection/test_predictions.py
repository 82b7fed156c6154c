"""Predictions at each position, compared with a plain softmax of the logits, read token by token, and with `score`."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from small_models import random_model
from translations import pair_table, write_pairs

from firth.api import compose, load, train_recipe
from firth.errors import ConfigError, DataError
from firth.inspection.predictions import of_text, predictions
from firth.tasks.run import Run

TEXT = "the list is empty."
RUNS = ["char_run", "transformer_run", "word_run", "bpe_run"]


def distributions(model: Run[Any], ids: Any) -> list[Any]:
    """softmax of the logits after each prefix, one prefix at a time."""
    each_p = []
    for end in range(1, len(ids) + 1):
        with torch.no_grad():
            logits = model.network(torch.from_numpy(ids[:end]).unsqueeze(0))[0][0, -1].double().numpy()
        chances = np.exp(logits - logits.max())
        each_p.append(chances / chances.sum())
    return each_p


@pytest.mark.parametrize("run", RUNS)
def test_each_position_is_the_softmax_of_the_logits_of_its_prefix(run: str, request: pytest.FixtureRequest) -> None:
    model = load(request.getfixturevalue(run))
    predicted = model.predictions(TEXT, top=3)
    ids = np.concatenate((model.start_ids(), model.ids(TEXT)))
    assert predicted.tokens == tuple(model.tokenizer.token(int(id)) for id in ids[1:])
    truth = distributions(model, ids)
    for n, (p, came) in enumerate(zip(truth, ids[1:], strict=False)):
        assert predicted.probability[n] == pytest.approx(p[came], rel=1e-4)
        assert predicted.surprisal[n] == pytest.approx(-math.log2(p[came]), abs=1e-3)
        assert predicted.entropy[n] == pytest.approx(-(p * np.log(p)).sum(), rel=1e-4)
        best = np.argsort(-p, kind="stable")[:3]
        assert [token for token, _ in predicted.top[n]] == [model.tokenizer.token(int(id)) for id in best]
        np.testing.assert_allclose([chance for _, chance in predicted.top[n]], p[best], rtol=1e-4)
        assert predicted.rank[n] == 1 + (p > p[came]).sum()
    best = np.argsort(-truth[-1], kind="stable")[:3]
    assert [token for token, _ in predicted.next] == [model.tokenizer.token(int(id)) for id in best]


@pytest.mark.parametrize("run", RUNS)
def test_a_text_is_as_probable_as_it_is_scored_however_long(run: str, request: pytest.FixtureRequest) -> None:
    model = load(request.getfixturevalue(run))
    for text in (TEXT, f"{TEXT} " * 40):  # longer than any context
        score = model.score([text])[0]
        predicted = model.predictions(text)
        assert len(predicted.tokens) == score.tokens
        assert predicted.log_probability.sum() == pytest.approx(score.log_probability, rel=1e-9)
        assert predicted.perplexity == pytest.approx(score.perplexity, rel=1e-9)


def test_of_a_translator_it_is_the_target_given_the_source(tmp_path: Path) -> None:
    model = load(train_recipe(compose(pair_table(write_pairs(tmp_path / "n.tsv"), steps=2)), tmp_path / "run").path)
    predicted = model.predictions("1 2", target="one two")
    assert predicted.tokens == ("one", "two", "<eos>")
    assert predicted.next == ()
    source, end = model.source_tokenizer.encode("1 2").tolist(), model.source_tokenizer.eos
    target = model.tokenizer.encode("one two").tolist()
    given = torch.tensor([[*source, end]]), torch.tensor([len(source) + 1]), torch.tensor([[model.tokenizer.eos, *target]])
    with torch.no_grad():
        log_p = torch.log_softmax(model.network(*given)[0].double(), -1).numpy()  # type: ignore[operator]
    np.testing.assert_allclose(predicted.log_probability, log_p[[0, 1, 2], [*target, model.tokenizer.eos]], rtol=1e-5)
    assert model.predictions("1 2").tokens == model.align("1 2").target


def test_ranks_count_what_is_more_probable_and_ties_share_the_better_one() -> None:
    log_p = torch.tensor([[0.4, 0.4, 0.2], [0.1, 0.2, 0.7]], dtype=torch.float64).log()
    predicted = predictions([log_p], np.array([1, 0]), str, 2)
    assert predicted.rank.tolist() == [1, 3]
    assert predicted.top[1] == (("2", pytest.approx(0.7)), ("1", pytest.approx(0.2)))
    assert predictions([log_p[:1], log_p[1:]], np.array([1]), str, 9).next[0][0] == "2"
    with pytest.raises(ConfigError, match="top is 0; expected at least 1"):
        predictions([log_p], np.array([1, 0]), str, 0)


def test_windows_of_a_transformer_leave_no_token_out() -> None:
    model = random_model("transformer, learned", 11)  # 12 positions
    ids = np.random.default_rng(0).integers(11, size=40)
    pieces = list(of_text(model, ids))
    assert sum(map(len, pieces)) == 40
    with torch.no_grad():
        first = torch.log_softmax(model(torch.from_numpy(ids[:12]).unsqueeze(0))[0][0], -1)
    torch.testing.assert_close(torch.cat(pieces)[:12], first)


def test_it_can_be_drawn_and_printed(char_run: Path) -> None:
    predicted = load(char_run).predictions("a name", top=2)
    figure = predicted.figure()
    z = [value for row in figure.plot.data[0].z for value in row if value is not None]
    np.testing.assert_allclose(z, predicted.surprisal, atol=1e-4)
    assert len(figure.table.rows) == len(predicted.tokens)
    assert figure.table.rows[0][3] == str(predicted.rank[0])
    lines = predicted.text(100).splitlines()
    assert len(lines) == len(predicted.tokens) + 2
    assert lines[-1].startswith("next")


def test_what_is_too_long_for_a_picture_still_has_numbers(char_run: Path) -> None:
    predicted = load(char_run).predictions("the list is empty.\n" * 500)
    assert len(predicted.surprisal) == 9500
    with pytest.raises(DataError, match=r"9,500 tokens are too many for one figure \(at most 8,192\). Use a shorter text"):
        predicted.figure()


def test_what_has_no_next_word_or_nothing_to_read_is_refused(char_run: Path) -> None:
    with pytest.raises(DataError, match="the text is empty"):
        load(char_run).predictions("")
    with pytest.raises(ConfigError, match=r"target is 'b', but this run is a language model\. Remove it\."):
        load(char_run).predictions("a", target="b")
