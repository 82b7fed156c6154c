"""A beam search as a tree: every hypothesis that was considered, whether the beam kept it, and the texts that it found.

A BeamRecorder is the `note` of one text's beam(); it only listens, so the search is the one that translates.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from firth.decoding.config import DecodingConfig
from firth.decoding.search.beam import Hypothesis, length_penalty
from firth.decoding.search.considered import BeamCandidate
from firth.figures.beam_tree import BeamNode, BeamResult, Outcome, beam_figure, beam_text
from firth.figures.figure import Drawn, Figure


@dataclass(frozen=True, repr=False)
class BeamTree(Drawn):
    nodes: tuple[BeamNode, ...]  # the root first; a parent before its children, of which the most probable comes first
    results: tuple[BeamResult, ...]  # best first

    def children(self, node: int) -> list[int]:
        return [n for n, one in enumerate(self.nodes) if one.parent == node]

    def path(self, node: int) -> list[int]:
        """The nodes from the root to `node`."""
        path = [node]
        while (above := self.nodes[path[-1]].parent) is not None:
            path.append(above)
        return path[::-1]

    def figure(self) -> Figure:
        return beam_figure(self.nodes, self.results)

    def text(self) -> str:
        return beam_text(self.nodes, self.results)


class BeamRecorder:
    """Collects the candidates of a search of one text. `spell`: tokens → text; `token`: the name of a token."""

    def __init__(self, config: DecodingConfig, spell: Callable[[Sequence[int]], str], token: Callable[[int], str]) -> None:
        self._config, self._spell, self._token = config, spell, token
        self._nodes = [BeamNode(None, "", 0.0, 0.0, 0.0, "", "kept")]
        self._tokens: list[tuple[int, ...]] = [()]  # of each node
        self._beams: dict[int, int] = {}  # the nodes of the live beams
        self._next = {0: 0}

    def __call__(self, group: int, candidates: Sequence[BeamCandidate]) -> None:
        if group == 0:  # a new step
            self._beams, self._next = self._next, {}
        for one in candidates:
            assert one.text == 0, "a recorder listens to the search of one text"
            if one.beam is not None:
                self._next[one.beam] = len(self._nodes)
            self._add(self._beams[one.parent], one)

    def _add(self, parent: int, one: BeamCandidate) -> None:
        tokens, before = (*self._tokens[parent], one.token), self._nodes[parent].log_probability
        score = one.searched / length_penalty(len(tokens), self._config.penalty, self._config.beam_rules)
        outcome: Outcome = "ended" if one.ended else "dropped" if one.beam is None else "kept"
        own, name, text = one.log_probability - before, self._token(one.token), self._spell(tokens)
        self._nodes.append(BeamNode(parent, name, own, one.log_probability, score, text, outcome))
        self._tokens.append(tokens)

    def tree(self, hypotheses: Sequence[Hypothesis]) -> BeamTree:
        """`found`: what the search returned."""
        kept = [n for n, node in enumerate(self._nodes) if node.outcome != "dropped"]
        at = {self._tokens[n]: n for n in reversed(kept)}  # groups may find the same text: the first one counts
        results = [
            BeamResult(at[one.tokens], self._nodes[at[one.tokens]].text, one.log_probability, one.score, one.finished)
            for one in hypotheses
        ]
        return BeamTree(tuple(self._nodes), tuple(results))
