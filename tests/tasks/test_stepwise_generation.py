"""Writing token by token: what is drawn is what generate() draws, and the probabilities are the model's softmax."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from firth.api import load
from firth.decoding.config import DecodingConfig
from firth.errors import ConfigError, DataError
from firth.tasks.abilities.stepwise_generation import next_token, write
from firth.tasks.run import Run

PLAIN = DecodingConfig(tokens=30, seed=3)


@pytest.fixture(scope="module", params=["char_run", "transformer_run", "word_run", "bpe_run"])
def model(request: pytest.FixtureRequest) -> Run[Any]:
    return load(request.getfixturevalue(request.param))


@pytest.mark.parametrize(
    "config",
    [PLAIN, DecodingConfig(tokens=30, temperature=0.7, top_k=4, top_p=0.9, seed=11), DecodingConfig(tokens=30, temperature=0)],
)
def test_writing_is_generating(model: Run[Any], config: DecodingConfig) -> None:
    expected = "".join(model.stream("the list", config))
    ids = list(write(model, "the list", [], config))
    assert next_token(model, "the list", ids, config).text == expected


def test_a_step_draws_what_a_run_draws(model: Run[Any]) -> None:
    ids = list(write(model, "the", [], PLAIN))[:6]
    written: list[int] = []
    while len(written) < len(ids):
        written.append(next_token(model, "the", written, PLAIN).drawn.id)
    assert written == ids
    assert list(write(model, "the", ids[:3], DecodingConfig(tokens=3, seed=3))) == ids[3:]


def test_probabilities_are_the_softmax_of_the_models_logits(model: Run[Any]) -> None:
    ids = model.ids("the list is").tolist()
    split = len(model.ids("the"))
    with torch.inference_mode():
        logits_1TV, _ = model.network(torch.tensor([ids]))
    p_TV = torch.softmax(logits_1TV[0].double(), -1).numpy()
    step = next_token(model, "the", ids[split:], DecodingConfig(temperature=0.5), top=5)
    np.testing.assert_allclose(step.probabilities, [p_TV[t - 1, ids[t]] for t in range(split, len(ids))], rtol=1e-4)
    order = np.argsort(-p_TV[-1], kind="stable")[:5]
    assert [one.id for one in step.candidates] == order.tolist()
    np.testing.assert_allclose([one.probability for one in step.candidates], p_TV[-1, order], rtol=1e-4)
    sharper = p_TV[-1] ** 2 / (p_TV[-1] ** 2).sum()  # 1 / temperature = 2
    np.testing.assert_allclose([one.share for one in step.candidates], sharper[order], rtol=1e-4)
    seen = p_TV[-1][p_TV[-1] > 0]
    assert step.entropy == pytest.approx(-(seen * np.log2(seen)).sum(), rel=1e-4)


def test_cuts_leave_shares_of_zero_and_temperature_0_leaves_one(model: Run[Any]) -> None:
    cut = next_token(model, "the", [], DecodingConfig(top_k=2), top=4)
    assert [one.share > 0 for one in cut.candidates] == [True, True, False, False]
    assert sum(one.share for one in cut.candidates) == pytest.approx(1)
    sure = next_token(model, "the", [], DecodingConfig(temperature=0), top=2)
    assert [one.share for one in sure.candidates] == [1, 0]
    assert sure.drawn == sure.candidates[0]
    assert (sure.sampling_entropy, sure.drawn.share) == (0, 1)


def test_beyond_its_context_a_transformer_goes_on_as_generate_does(transformer_run: Path) -> None:
    model = load(transformer_run)
    limit = model.network.context
    assert limit is not None
    config = DecodingConfig(tokens=limit + 20, seed=1)
    ids = list(write(model, "the list", [], config))
    assert len(ids) == limit + 20
    step = next_token(model, "the list", ids, config)
    assert step.text == "".join(model.stream("the list", config))
    assert step.probabilities[0] is None  # what came long ago is no longer held
    assert step.probabilities[-1] is not None


def test_the_end_of_a_document_ends_the_text(char_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = load(char_run)
    end = model.ids(".").tolist()[0]  # as if that were the <eos> of a corpus of several documents
    monkeypatch.setattr(type(model.tokenizer), "eos", end)
    step = next_token(model, "the list", [*model.ids("s").tolist(), end], PLAIN)
    assert (step.ended, step.text, step.tokens) == (True, "s", ("s", "<eos>"))
    ids = list(write(model, "the list is empty", [], DecodingConfig(tokens=60, temperature=0)))
    assert ids.index(end) == len(ids) - 1


def test_an_empty_prompt_begins_a_line(char_run: Path) -> None:
    model = load(char_run)
    assert next_token(model, "", [], PLAIN).candidates == next_token(model, "\n", [], PLAIN).candidates


def test_bad_input_is_told(char_run: Path) -> None:
    model = load(char_run)
    with pytest.raises(ConfigError, match=r"token id 9999 is out of range; this model's ids are 0 … 24"):
        next_token(model, "the", [9999], PLAIN)
    with pytest.raises(ConfigError, match=r"token id -1 is out of range; this model's ids are 0 … 24"):
        list(write(model, "the", [-1], PLAIN))
    with pytest.raises(DataError, match="which is not in the vocabulary"):
        next_token(model, "Ω", [], PLAIN)
