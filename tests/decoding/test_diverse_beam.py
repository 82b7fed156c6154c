"""Diverse beam search, against a loop over groups, beams and tokens in float64."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
import torch
from searches import beam
from shares import half
from small_models import random_model
from torch import Tensor

from firth.decoding.search.beam import Hypothesis
from firth.models import LanguageModel

VOCAB, END, LIMIT = 7, 0, 6
PROMPTS = torch.tensor([[3, 1, 4], [2, 2, 5], [6, 1, 1]])
Beams = list[tuple[tuple[int, ...], float]]  # tokens and log p of each


def searched(model: LanguageModel, prompt_BT: Tensor, **given: Any) -> list[list[Hypothesis]]:
    settings: dict[str, Any] = {"limits": [LIMIT] * len(prompt_BT), "end": END, "limit_ends": True} | given
    return beam(model, model.start(len(prompt_BT)), prompt_BT, **settings)


def next_log_p(model: LanguageModel, prompt_T: Tensor, tokens: tuple[int, ...]) -> list[float]:
    text_T = torch.cat((prompt_T, torch.tensor(tokens, dtype=torch.long)))
    with torch.inference_mode():
        return list(model(text_T.unsqueeze(0))[0][0, -1].double().log_softmax(0).tolist())


def lp(tokens: int, alpha: float) -> float:
    return float(((5 + tokens) / 6) ** alpha)


def loop(
    model: LanguageModel, prompt_T: Tensor, groups: int, width: int, diversity: float, end: int = END, alpha: float = 0.0
) -> dict[tuple[int, ...], float]:
    """Score of every text that is found. A group is done when no beam of it would be among its `width` best by ending now."""
    finished: list[dict[tuple[int, ...], float]] = [{} for _ in range(groups)]
    beams: list[Beams] = [[((), 0.0)] for _ in range(groups)]
    for step in range(1, LIMIT + 1):
        used = [0] * VOCAB
        for group in range(groups):
            choices = []
            for tokens, total in beams[group]:
                for token, log_p in enumerate(next_log_p(model, prompt_T, tokens)):
                    choices.append((total + log_p - diversity * used[token], total + log_p, (*tokens, token)))
            best = sorted(choices, reverse=True)[: 2 * width]
            ended = {tokens: total / lp(step, alpha) for _, total, tokens in best if tokens[-1] == end}
            beams[group] = [(tokens, total) for _, total, tokens in best if tokens[-1] != end][:width]
            for tokens, _ in beams[group]:
                used[tokens[-1]] += 1
            if step == LIMIT:
                ended |= {tokens: total / lp(step, alpha) for tokens, total in beams[group]}
            finished[group] = dict(sorted((finished[group] | ended).items(), key=lambda one: -one[1])[:width])
            hope = max((total for _, total in beams[group]), default=-math.inf) / lp(step + 1, alpha)
            if len(finished[group]) == width and hope <= min(finished[group].values()):
                beams[group] = []
    return {tokens: score for group in finished for tokens, score in group.items()}


@pytest.mark.parametrize(
    ("seed", "end"),
    half(itertools.starmap(pytest.param, [(1, END), (18, END), (0, VOCAB)])),
    ids=["an end", "groups end apart", "no end"],
)
@pytest.mark.parametrize("alpha", [0.0, 1.0])
@pytest.mark.parametrize("diversity", [0.0, 0.3, 50.0])
@pytest.mark.parametrize(("groups", "width"), [(2, 2), (3, 2), (4, 1)])
def test_diverse_beam_search_is_the_loop(groups: int, width: int, diversity: float, alpha: float, seed: int, end: int) -> None:
    model = random_model("gru", VOCAB, seed=seed)
    together = searched(model, PROMPTS, size=groups * width, groups=groups, diversity=diversity, penalty=alpha, end=end)
    for prompt_T, hypotheses in zip(PROMPTS, together, strict=True):
        truth = loop(model, prompt_T, groups, width, diversity, end, alpha)
        assert {h.tokens for h in hypotheses} == set(truth)
        assert [h.score for h in hypotheses] == pytest.approx(sorted(truth.values(), reverse=True), abs=1e-5)
        for h in hypotheses:
            assert h.log_probability / lp(len(h.tokens), alpha) == pytest.approx(h.score, abs=1e-5)
            assert h.finished == (h.tokens[-1] == end)


def test_some_of_these_end_and_some_do_not() -> None:
    """Or the test above would not see one of the two."""
    texts = searched(random_model("gru", VOCAB, seed=1), PROMPTS, size=6, groups=3, diversity=0.3)
    assert {h.finished for text in texts for h in text} == {True, False}


def test_the_first_group_is_an_ordinary_beam() -> None:
    model = random_model("transformer, learned", VOCAB)
    alone = searched(model, PROMPTS, size=2, penalty=0.6)
    for plain, diverse in zip(alone, searched(model, PROMPTS, size=6, groups=3, diversity=1.0, penalty=0.6), strict=True):
        assert {h.tokens for h in plain} <= {h.tokens for h in diverse}


def test_without_diversity_all_groups_find_the_same_and_it_is_returned_once() -> None:
    model = random_model("rnn", VOCAB)
    grouped = searched(model, PROMPTS, size=6, groups=3, diversity=0.0)
    for plain, hypotheses in zip(searched(model, PROMPTS, size=2), grouped, strict=True):
        assert [h.tokens for h in hypotheses] == [h.tokens for h in plain]


def test_texts_searched_together_are_searched_as_if_alone() -> None:
    """With limits of their own, and groups that are done at different times."""
    model, limits = random_model("gru", VOCAB), [6, 1, 4]
    given: dict[str, Any] = {"size": 4, "groups": 2, "diversity": 0.7, "penalty": 0.6, "repetition": 1.3}
    together = searched(model, PROMPTS, limits=limits, seen_BP=PROMPTS, **given)
    for n, hypotheses in enumerate(together):
        (alone,) = searched(model, PROMPTS[n : n + 1], limits=limits[n : n + 1], seen_BP=PROMPTS[n : n + 1], **given)
        assert [h.tokens for h in hypotheses] == [h.tokens for h in alone]
        assert [h.score for h in hypotheses] == pytest.approx([h.score for h in alone], abs=1e-5)


def test_more_diversity_means_more_different_first_tokens() -> None:
    model = random_model("gru", VOCAB)
    firsts = [
        len({h.tokens[0] for h in searched(model, PROMPTS[:1], size=4, groups=4, diversity=diversity, end=VOCAB)[0]})
        for diversity in (0.0, 100.0)
    ]
    assert firsts == [1, 4]
    assert not math.isinf(min(h.score for h in searched(model, PROMPTS[:1], size=4, groups=4, diversity=100.0, end=VOCAB)[0]))
