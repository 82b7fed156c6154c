"""A beam search as a tree from left to right: that of a run, or one in a small made-up distribution with the same settings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from firth.decoding.config import DecodingConfig
from firth.decoding.search.beam import beam
from firth.errors import ConfigError
from firth.figures.alignment import visible
from firth.figures.beam_tree import BeamNode, Outcome
from firth.figures.diagram import Arrow, Box, Formula, Point, Tone, Words, extent
from firth.figures.diagram.shapes import SMALL, Shapes, box_width, text_width
from firth.inspection.beam_tree import BeamRecorder, BeamTree
from firth.inspection.drawing.parts import headed, note, room
from firth.inspection.drawing.sheet import Sheet
from firth.inspection.drawing.subject import Subject
from firth.inspection.drawing.wording import decimal, number, say

_TOY = "ABC"
_END = len(_TOY)
# p(next | last), of "A", "B", "C" and the end; the last row is for the first token. The most probable first token leads to a text
# that is less probable than another one.
_NEXT = ((0.10, 0.36, 0.34, 0.20), (0.10, 0.05, 0.80, 0.05), (0.15, 0.10, 0.05, 0.70), (0.50, 0.35, 0.15, 0.00))
_STEPS = 4  # tokens of a made-up text, its end included
_DEEP, _MOST = 6, 12  # columns of tokens, and rows beside which those that were dropped have no room
_ROW, _GAP, _HIGH = 42.0, 38.0, 36.0
_TONES: dict[Outcome, Tone] = {"kept": "sky", "ended": "green", "dropped": "plain"}


class _Toy:
    """A language model whose next token only depends on the last one."""

    def step(self, token_BT: Tensor, state: Any) -> tuple[Tensor, Any]:
        return torch.tensor(_NEXT).log()[token_BT], state


class _NoState:
    def select(self, rows: Tensor) -> _NoState:
        return self


def toy_search(config: DecodingConfig) -> BeamTree:
    """The search of this beam in the made-up distribution."""
    if config.reads_text:
        raise ConfigError("a made-up distribution has no text before it for penalties of repetition. Remove them, or give a run.")

    def token(id: int) -> str:
        return "<eos>" if id == _END else _TOY[id]

    recorder = BeamRecorder(config, lambda tokens: " ".join(map(token, tokens)), token)
    first = torch.full((1, 1), _END)
    (found,) = beam(_Toy(), _NoState(), first, config, limits=[_STEPS], end=_END, note=recorder)
    return recorder.tree(found)


def beam_drawing(subject: Subject, title: str) -> Sheet:
    config = subject.decoding
    assert config is not None
    if config.beam > _MOST:
        raise ConfigError(f"decoding.beam is {config.beam}, whose tree does not fit a page. Set it to at most {_MOST}.")
    tree = subject.tree or toy_search(config)
    told = [_settings(config)]
    if subject.tree is None:
        told.append(say("probabilities of A, B and C are made up; the settings are those of the model"))
    shapes, left_out = _tree(tree)
    if left_out:
        told.append(left_out)
    return headed([*shapes, *_legend(extent(shapes).bottom + 28)], title, told, _found(tree, config))


def _settings(config: DecodingConfig) -> str:
    words = say("beam of {n}, length penalty α = {alpha}", n=number(config.beam), alpha=decimal(config.penalty))
    if config.beam_groups > 1:
        words += say("; {n} groups, diversity λ = {diversity}", n=config.beam_groups, diversity=decimal(config.diversity))
    return words


def _found(tree: BeamTree, config: DecodingConfig) -> list[Words]:
    """The texts that were found, the best first, and how they are ranked."""
    length = r"n" if config.beam_rules == "transformers" else r"((5 + n)/6)"
    lines: list[Words] = [Formula(rf"\text{{{say('score')}}} = \log p \, / \, {length}^\alpha")]
    for rank, one in enumerate(tree.results[:3], start=1):
        text = one.text if len(one.text) <= 60 else f"{one.text[:59]}…"
        lines.append(
            f"{rank}. {visible(text)}: " + say("log p {p}, score {score}", p=_log(one.log_probability), score=_log(one.score))
        )
    return lines


def _log(value: float) -> str:
    return decimal(value, 2).replace("-", "−")


def _tree(tree: BeamTree) -> tuple[list[Shapes], str]:
    """The shapes, and what of the tree is not drawn."""
    depths = _depths(tree.nodes)
    rank = {one.node: n for n, one in enumerate(tree.results, start=1)}
    shown = _shown(tree.nodes, depths, rank)
    place = _places(tree.nodes, shown, depths)
    lefts = _columns(tree.nodes, shown, depths, rank)
    wide = {depth: _width(tree.nodes, [n for n in shown if depths[n] == depth], rank) for depth in range(len(lefts))}
    boxes = {n: _box(tree.nodes[n], Point(lefts[depths[n]], place[n]), wide[depths[n]], rank.get(n)) for n in shown}
    shapes: list[Shapes] = []
    for n, one in boxes.items():
        parent = tree.nodes[n].parent
        if parent is not None:
            dropped = tree.nodes[n].outcome == "dropped"
            shapes.append(Arrow((boxes[parent].behind(), one.before()), head=False, dashed=dropped))
        shapes.append(one)
    told = []
    if (deepest := max(depths)) > max(depths[n] for n in shown):
        told.append(say("the first {n} of {m} tokens", n=max(depths[n] for n in shown), m=deepest))
    if hidden := sum(depths[n] <= max(depths[m] for m in shown) for n in range(len(tree.nodes)) if n not in shown):
        told.append(say("{n} dropped hypotheses are not drawn", n=hidden))
    return shapes, "; ".join(told)


def _depths(nodes: Sequence[BeamNode]) -> list[int]:
    depths: list[int] = []
    for node in nodes:
        depths.append(0 if node.parent is None else depths[node.parent] + 1)
    return depths


def _shown(nodes: Sequence[BeamNode], depths: Sequence[int], rank: Mapping[int, int]) -> list[int]:
    """The nodes that fit a page: the first columns, and in each all that went on or ended, with the best of those dropped."""
    shown = []
    for depth in range(min(max(depths), _columns_that_fit(nodes, depths, rank)) + 1):
        column = [n for n in range(len(nodes)) if depths[n] == depth]
        dropped = [n for n in column if nodes[n].outcome == "dropped"]
        best = sorted(dropped, key=lambda n: -nodes[n].log_probability)[: max(0, _MOST - len(column) + len(dropped))]
        shown += [n for n in column if n in best or n not in dropped]
    return sorted(shown)


def _columns_that_fit(nodes: Sequence[BeamNode], depths: Sequence[int], rank: Mapping[int, int]) -> int:
    """The deepest column of tokens whose right edge is on the page."""
    for depth in range(1, max(depths) + 1):
        lefts = _columns(nodes, [n for n in range(len(nodes)) if depths[n] <= depth], depths, rank)
        last = _width(nodes, [n for n in range(len(nodes)) if depths[n] == depth], rank)
        if depth > _DEEP or lefts[depth] + last > room():
            return max(1, depth - 1)
    return max(depths)


def _columns(nodes: Sequence[BeamNode], shown: Sequence[int], depths: Sequence[int], rank: Mapping[int, int]) -> list[float]:
    """The left edge of each column."""
    lefts, left = [], 0.0
    for depth in range(max(depths[n] for n in shown) + 1):
        lefts.append(left)
        left += _width(nodes, [n for n in shown if depths[n] == depth], rank) + _GAP
    return lefts


def _width(nodes: Sequence[BeamNode], column: Sequence[int], rank: Mapping[int, int]) -> float:
    return max(box_width(_lines(nodes[n], rank.get(n))) for n in column)


def _places(nodes: Sequence[BeamNode], shown: Sequence[int], depths: Sequence[int]) -> dict[int, float]:
    """The height of each node. Each column is filled in the order of the parents, so that no lines cross, and around one axis."""
    order: dict[int, list[int]] = {}
    for n in shown:
        order.setdefault(depths[n], []).append(n)
    row: dict[int, int] = {}
    for _, column in sorted(order.items()):
        column.sort(key=lambda n: (row.get(nodes[n].parent, 0) if nodes[n].parent is not None else 0, -nodes[n].log_probability))  # type: ignore[arg-type]
        row |= {n: at for at, n in enumerate(column)}
    size = Counter(depths[n] for n in shown)
    return {n: (row[n] - (size[depths[n]] - 1) / 2) * _ROW for n in shown}


def _lines(node: BeamNode, rank: int | None) -> tuple[Words, ...]:
    """The token, after the rank of a text that ends with it, and log p."""
    if node.parent is None:
        return ("…",)
    token = visible(node.token)
    token = token if len(token) <= 14 else f"{token[:13]}…"
    return (token if rank is None else f"{rank}. {token}", _log(node.log_probability))


def _box(node: BeamNode, at: Point, wide: float, rank: int | None) -> Box:
    return Box(at.x, at.y - _HIGH / 2, wide, _HIGH, _lines(node, rank), _TONES[node.outcome])


def _legend(y: float) -> list[Shapes]:
    entries: list[tuple[Tone, str]] = [
        ("sky", say("kept by the beam")), ("green", say("ended")), ("plain", say("dropped")),
    ]  # fmt: skip
    shapes: list[Shapes] = []
    x = 0.0
    for tone, words in entries:
        shapes += [Box(x, y - 6, 12, 12, (), tone), note(x + 18, y, words, "start")]
        x += 18 + text_width(words, SMALL) + 20
    return [*shapes, note(x, y, say("number: log p of the text so far"), "start")]
