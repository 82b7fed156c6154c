"""The Huffman tree of hierarchical softmax (Mikolov et al. 2013, section 2.1).

Letters: V vocabulary.
"""

from __future__ import annotations

from array import array
from typing import NamedTuple

import numpy as np
import numpy.typing as npt


class Tree(NamedTuple):
    """The parent of each of the V words, then of each inner node except the root, stored as 2 · parent + bit.

    The V − 1 inner nodes are numbered in the order in which they were merged; the root is the last. This takes eight bytes per
    word; storing the paths would take four bytes for every step of every word.
    """

    up: npt.NDArray[np.uint32]

    @property
    def V(self) -> int:
        return len(self.up) // 2 + 1

    def of(self, word: int) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32]]:
        """The inner nodes and the bits of a word's code, root first."""
        steps, at = [], word
        while at < len(self.up):
            steps.append(int(self.up[at]))
            at = self.V + steps[-1] // 2
        step, one = np.array(steps[::-1], np.uint32), np.uint32(1)
        return step >> one, step & one

    def lengths(self) -> npt.NDArray[np.int64]:
        """The code length of every word."""
        at_V, length_V = np.arange(self.V), np.zeros(self.V, np.int64)
        while (moving_V := at_V < len(self.up)).any():
            length_V += moving_V
            at_V[moving_V] = self.V + (self.up[at_V[moving_V]] >> 1)
        return length_V

    def below(self, share_V: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """For each inner node, the total share of the words below it."""
        at_V, sum_N = np.arange(self.V), np.zeros(self.V - 1)
        while (moving_V := at_V < len(self.up)).any():
            node = self.up[at_V[moving_V]] >> 1
            sum_N += np.bincount(node, share_V[moving_V], self.V - 1)
            at_V[moving_V] = self.V + node
        return sum_N

    def paths(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint32]]:
        """All paths from the root, concatenated: the steps of word v are step[end_V[v − 1] : end_V[v]]."""
        end_V = np.cumsum(self.lengths())
        step = np.empty(end_V[-1], np.uint32)
        at_V, place_V = np.arange(self.V), end_V - 1
        while (moving_V := at_V < len(self.up)).any():
            here = self.up[at_V[moving_V]]
            step[place_V[moving_V]] = here
            at_V[moving_V] = self.V + (here >> 1)
            place_V -= moving_V
        return end_V, step


def huffman(count_V: npt.NDArray[np.int64]) -> Tree:
    """Merge the two rarest nodes until one is left: this minimises Σ count · length over all prefix codes.

    Leaves are sorted by count, and merged nodes are created in ascending order of count, so the rarest node is always at the head
    of one of two queues, and no heap is needed. Ties go to the leaf, which keeps the tree shallow.
    """
    V = len(count_V)
    order_V = np.argsort(count_V, kind="stable")
    leaf, joined = array("q", count_V[order_V].tobytes()), array("q")  # array("q") takes eight bytes per number, a list far more
    up = array("I", bytes(4 * (2 * V - 2)))
    word_of = array("I", order_V.astype(np.uint32).tobytes())
    next_leaf = next_joined = 0
    for node in range(V - 1):
        total = 0
        for bit in (0, 1):
            if next_leaf < V and (next_joined == len(joined) or leaf[next_leaf] <= joined[next_joined]):
                total += leaf[next_leaf]
                child, next_leaf = word_of[next_leaf], next_leaf + 1
            else:
                total += joined[next_joined]
                child, next_joined = V + next_joined, next_joined + 1
            up[child] = 2 * node + bit
        joined.append(total)
    return Tree(np.frombuffer(up, np.uint32))
