"""Readouts of a tagger: the softmax per word against torch's, the CRF against brute force, and taggers that use it."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import get_args

import pytest
import torch
from tags import SPANS, tagger_table, write
from torch import Tensor

from firth.api import compose, load, train_recipe
from firth.errors import ConfigError
from firth.models.tag_readouts import READOUTS, ConditionalRandomField, Softmax, TagReadoutKind
from firth.tasks.tagging import TaggerRun

LOGITS_BWC = torch.randn(3, 4, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
LABEL_BW = torch.tensor([[0, 2, 1, -1], [1, 1, -1, -1], [2, 0, 1, 2]])
COUNT_B = torch.tensor([3, 2, 4])


def crf() -> ConditionalRandomField:
    readout = ConditionalRandomField(3)
    with torch.no_grad():
        for parameter in readout.parameters():
            parameter.normal_(generator=torch.Generator().manual_seed(1))
    return readout.double()


def scores(readout: ConditionalRandomField, row: int) -> dict[tuple[int, ...], Tensor]:
    """s(x, y) of every sequence of tags, in a loop."""
    start, move, end = readout.crf.start_C, readout.crf.transition_CC, readout.crf.end_C
    score_of = {}
    for tags in itertools.product(range(3), repeat=int(COUNT_B[row])):
        total = start[tags[0]] + end[tags[-1]] + sum(LOGITS_BWC[row, w, tag] for w, tag in enumerate(tags))
        score_of[tags] = total + sum(move[one, other] for one, other in itertools.pairwise(tags))
    return score_of


def test_there_is_one_readout_for_each_kind() -> None:
    assert tuple(readout.kind for readout in READOUTS) == get_args(TagReadoutKind)


def test_the_loss_of_a_crf_is_that_of_all_paths() -> None:
    readout, total = crf(), torch.zeros((), dtype=torch.float64)
    for row in range(3):
        every = scores(readout, row)
        true = tuple(LABEL_BW[row, : COUNT_B[row]].tolist())
        total += torch.logsumexp(torch.stack(list(every.values())), 0) - every[true]
    given = readout.loss(LOGITS_BWC, LABEL_BW).double()
    assert torch.allclose(given, total / COUNT_B.sum(), atol=1e-5)  # the loss is in float32


def test_the_tags_of_a_crf_are_the_best_path_and_its_probabilities_the_marginals() -> None:
    readout = crf()
    best_BW, log_p_BWC = readout.best(LOGITS_BWC, COUNT_B), readout.log_probabilities(LOGITS_BWC, COUNT_B)
    for row in range(3):
        every = scores(readout, row)
        p = torch.softmax(torch.stack(list(every.values())), 0)
        assert tuple(best_BW[row, : COUNT_B[row]].tolist()) == max(every, key=lambda tags: every[tags].item())
        for word, tag in itertools.product(range(int(COUNT_B[row])), range(3)):
            chance = sum(one for tags, one in zip(every, p, strict=True) if tags[word] == tag)
            assert torch.allclose(log_p_BWC[row, word, tag].exp(), torch.as_tensor(chance))


def test_a_new_crf_is_the_softmax() -> None:
    for method in ("log_probabilities", "best"):
        one, other = (getattr(readout(3).double(), method)(LOGITS_BWC, COUNT_B) for readout in (Softmax, ConditionalRandomField))
        for row in range(3):
            assert torch.allclose(one[row, : COUNT_B[row]].double(), other[row, : COUNT_B[row]].double())


@pytest.fixture(scope="module")
def crf_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("crf")
    table = tagger_table(write(folder / "a.conll", SPANS))
    table["model"] |= {"readout": "crf"}
    return train_recipe(compose(table), folder / "run").path


def test_a_tagger_with_a_crf_learns_is_loaded_and_never_starts_a_span_in_the_middle(crf_run: Path) -> None:
    run = load(crf_run, kind=TaggerRun)
    assert run.evaluate()["f1"] == 1.0
    (sentence,) = run.tag(["Ada Lovelace saw London"])
    assert sentence.tags == ("B-PER", "I-PER", "O", "B-LOC")
    assert all(0.5 < probability <= 1 for probability in sentence.probabilities)
    move_CC = run.network.readout.crf.transition_CC
    outside, inside = run.labels.index("O"), run.labels.index("I-PER")
    begins = run.labels.index("B-PER")
    assert move_CC[begins, inside] > move_CC[outside, inside]


def test_only_taggers_have_it() -> None:
    model = {"family": "encoder", "kind": "lstm", "readout": "crf"}
    with pytest.raises(ConfigError, match=r'model\.readout = crf only applies to tagging; objective\.kind is "masked"'):
        compose({"data": {"text": "a"}, "model": model, "objective": {"kind": "masked"}})
