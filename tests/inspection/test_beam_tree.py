"""The tree of a beam search: the search that translates, with everything that it considered."""

from __future__ import annotations

import itertools
from collections import defaultdict
from typing import Any

import pytest
import torch
from translations import spaced, trained_on_numbers

from firth.api import load
from firth.errors import ConfigError, DataError
from firth.inspection.beam_tree import BeamNode, BeamTree
from firth.tasks.run import Run


@pytest.fixture(scope="module")
def model() -> Run[Any]:
    return load(trained_on_numbers())


TEXT = spaced("364")
SETTINGS = [
    {"beam": 2},
    {"beam": 4},
    {"beam": 6, "penalty": 0.0},
    {"beam": 4, "beam_groups": 2, "diversity": 20.0},
    {"beam": 3, "repetition_penalty": 1.5},
    {"beam": 3, "beam_rules": "transformers"},
    {"beam": 3, "tokens": 2},  # cut off
    {"beam": 3, "tokens": 2, "beam_rules": "transformers"},
]


def _depths(tree: BeamTree) -> dict[int, list[BeamNode]]:
    """The nodes with 1, 2, … tokens."""
    nodes_at: dict[int, list[BeamNode]] = defaultdict(list)
    for n, node in enumerate(tree.nodes[1:], start=1):
        nodes_at[len(tree.path(n)) - 1].append(node)
    return nodes_at


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_what_the_tree_found_are_the_translations(model: Run[Any], settings: dict[str, Any]) -> None:
    config = model.decoding(settings)
    tree = model.translator.beam_tree(TEXT, config)
    (expected,) = model.translations([TEXT], config)
    told = [(one.text, one.log_probability, one.score, one.finished) for one in tree.results]
    assert told == [(one.text, one.log_probability, one.score, one.finished) for one in expected]
    for one in tree.results:
        node = tree.nodes[one.node]
        assert (node.text, node.log_probability, node.score) == (one.text, one.log_probability, one.score)
        assert node.outcome == "ended" or not one.finished
        assert all(tree.nodes[above].outcome == "kept" for above in tree.path(one.node)[:-1])


def test_the_best_text_is_that_of_translate(model: Run[Any]) -> None:
    for beam in (2, 4, 8):
        assert model.beam_tree(TEXT, beam=beam).results[0].text == model.translate([TEXT], beam=beam)[0]


@pytest.mark.parametrize("settings", [SETTINGS[1], SETTINGS[3], SETTINGS[4]], ids=str)
def test_every_log_probability_is_that_of_the_model(model: Run[Any], settings: dict[str, Any]) -> None:
    translator = model.translator
    tree = translator.beam_tree(TEXT, model.decoding(settings))
    source_1S = torch.from_numpy(next(translator._encoded([TEXT])).astype("int64")).unsqueeze(0)
    end = model.tokenizer.eos
    for n in range(1, len(tree.nodes)):
        names = [tree.nodes[above].token for above in tree.path(n)[1:]]
        tokens = [next(id for id in range(model.tokenizer.vocab) if model.tokenizer.token(id) == name) for name in names]
        with torch.inference_mode():
            logits = model.network(source_1S, torch.tensor([source_1S.shape[1]]), torch.tensor([[end, *tokens[:-1]]]))
        log_p_T = logits[0].log_softmax(-1)[range(len(tokens)), tokens]
        assert tree.nodes[n].log_probability == pytest.approx(float(log_p_T.sum()), abs=1e-4)
        assert tree.nodes[n].token_log_probability == pytest.approx(float(log_p_T[-1]), abs=1e-4)


def test_a_step_keeps_the_best_and_drops_the_rest(model: Run[Any]) -> None:
    tree = model.beam_tree(TEXT, beam=4)
    for nodes in _depths(tree).values():
        kept = [node.log_probability for node in nodes if node.outcome == "kept"]
        dropped = [node.log_probability for node in nodes if node.outcome == "dropped"]
        assert len(nodes) == 8
        assert len(kept) == 4
        assert min(kept) >= max(dropped, default=-torch.inf)
    leaves = [n for n in range(len(tree.nodes)) if not tree.children(n)]
    assert {tree.nodes[n].outcome for n in leaves} == {"kept", "ended", "dropped"}  # kept: those live when the search ended


def test_the_figure_the_table_and_the_text_tell_every_node(model: Run[Any]) -> None:
    tree = model.beam_tree(TEXT, beam=3)
    figure, lines = tree.figure(), tree.text().splitlines()
    assert [row[6] for row in figure.table.rows] == [node.outcome for node in tree.nodes[1:]]
    assert len(lines) == len(tree.nodes) - 1 + 2
    assert sum("  1. three six four" in line for line in lines) == 1
    dots = [trace for trace in figure.plot.data if trace.mode == "markers+text"]
    assert sum(len(trace.x) for trace in dots) == len(tree.nodes) - 1
    places = [place for trace in dots for place in zip(trace.x, trace.y, strict=True)]
    assert len(set(places)) == len(places)  # none hides another


def test_a_tree_needs_a_beam_and_a_text(model: Run[Any]) -> None:
    with pytest.raises(ConfigError, match=r"decoding.beam is 1, which is greedy decoding and has no tree"):
        model.beam_tree(TEXT, beam=1)
    with pytest.raises(DataError, match="which has no tokens"):
        model.beam_tree("  ", beam=2)


def test_the_picture_is_as_high_as_its_longest_column_and_no_two_lines_cross(model: Run[Any]) -> None:
    tree = model.beam_tree(TEXT, beam=4)
    lines = [trace for trace in tree.figure().plot.data if trace.mode == "lines"]
    steps = sorted((trace.x[at], trace.y[at], trace.y[at + 1]) for trace in lines for at in range(0, len(trace.x), 3))
    assert len(steps) == len(tree.nodes) - 1  # (column and row of the parent, row of the child)
    assert 1 + max(child for _, _, child in steps) == max(len(nodes) for nodes in _depths(tree).values())
    for (column, parent, child), (other, next_parent, next_child) in itertools.pairwise(steps):
        assert other != column or next_parent == parent or next_child > child
