"""The Huffman tree of hierarchical softmax (Mikolov et al. 2013, section 2.1).

Letters: V vocabulary.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt


class Paths(NamedTuple):
    """The way from the root to each word, all ways in one array: word v's steps are `step[end_V[v − 1] : end_V[v]]`.

    A step is 2 · inner node + bit, so that V words of any depth take four bytes a step. The V − 1 inner nodes are numbered in
    the order in which they were joined; the root is the last.
    """

    end_V: npt.NDArray[np.int64]
    step: npt.NDArray[np.uint32]

    def of(self, word: int) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32]]:
        """Inner nodes and bits of a word's code, root first."""
        step = self.step[self.end_V[word - 1] if word else 0 : self.end_V[word]]
        one = np.uint32(1)
        return step >> one, step & one


def huffman(count_V: npt.NDArray[np.int64]) -> Paths:
    """Join the two rarest until one is left: Σ count · length is then the least that any code without prefixes can have.

    Leaves come rarest first, and joined nodes are made in ascending order of count, so the rarest is always at the head of one
    of two queues: no heap. Ties go to the leaf, which keeps the tree shallow.
    """
    V = len(count_V)
    order = np.argsort(count_V, kind="stable").tolist()
    leaf = count_V[order].tolist()
    joined: list[int] = []
    parent = [0] * (2 * V - 1)  # leaves by rank, then inner nodes; an inner node's number among inner nodes
    bit = [0] * (2 * V - 1)
    next_leaf = next_joined = 0
    for node in range(V - 1):
        total = 0
        for branch in (0, 1):
            if next_leaf < V and (next_joined == len(joined) or leaf[next_leaf] <= joined[next_joined]):
                total += leaf[next_leaf]
                child, next_leaf = next_leaf, next_leaf + 1
            else:
                total += joined[next_joined]
                child, next_joined = V + next_joined, next_joined + 1
            parent[child], bit[child] = node, branch
        joined.append(total)
    return _paths(np.array(order), np.array(parent), np.array(bit, dtype=np.uint32))


def _paths(order_V: npt.NDArray[np.int64], parent: npt.NDArray[np.int64], bit: npt.NDArray[np.uint32]) -> Paths:
    V = len(order_V)
    root = 2 * V - 2
    at_V = np.empty(V, dtype=np.int64)  # where each word's climb has got to
    at_V[order_V] = np.arange(V)
    climbing, height = at_V.copy(), np.zeros(V, dtype=np.int64)
    while (moving := climbing != root).any():
        height += moving
        climbing[moving] = parent[climbing[moving]] + V
    end_V = np.cumsum(height)
    step = np.empty(end_V[-1] if V > 1 else 0, dtype=np.uint32)
    place_V = end_V - 1
    while (moving := at_V != root).any():
        here = at_V[moving]
        step[place_V[moving]] = 2 * parent[here].astype(np.uint32) + bit[here]
        at_V[moving] = parent[here] + V
        place_V -= moving
    return Paths(end_V, step)
