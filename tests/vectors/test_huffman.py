from __future__ import annotations

import heapq

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from firth.vectors.huffman import huffman

COUNTS = st.lists(st.integers(1, 10**6), min_size=2, max_size=60)


def length_of(paths, word: int) -> int:
    return len(paths.of(word)[0])


@given(COUNTS)
def test_no_code_without_prefixes_is_shorter(counts):
    paths = huffman(np.array(counts))
    assert sum(count * length_of(paths, word) for word, count in enumerate(counts)) == least_cost(counts)


def least_cost(counts: list[int]) -> int:
    """Huffman's own argument: every join costs the sum of what it joins."""
    heap, cost = [*counts], 0
    heapq.heapify(heap)
    while len(heap) > 1:
        joined = heapq.heappop(heap) + heapq.heappop(heap)
        cost += joined
        heapq.heappush(heap, joined)
    return cost


@given(COUNTS)
def test_the_codes_are_the_leaves_of_one_tree(counts):
    """Each inner node has one child by each bit, every word has its own leaf, and all paths begin at the root."""
    paths = huffman(np.array(counts))
    V = len(counts)
    child: dict[tuple[int, int], int] = {}
    for word in range(V):
        nodes, bits = paths.of(word)
        assert nodes[0] == V - 2
        for here, bit, there in zip(nodes, bits, [*nodes[1:], V - 1 + word], strict=True):
            assert child.setdefault((int(here), int(bit)), int(there)) == there
    assert sorted(child) == [(node, bit) for node in range(V - 1) for bit in (0, 1)]
    assert sorted(child.values()) == [*range(V - 2), *range(V - 1, 2 * V - 1)]


def test_more_frequent_words_have_shorter_codes_as_gensims_have():
    from gensim.models import Word2Vec

    counts = (1e5 / np.arange(1, 201)).astype(np.int64)
    paths = huffman(counts)
    peer = Word2Vec(min_count=1, hs=1)
    peer.build_vocab_from_freq({f"w{n}": int(count) for n, count in enumerate(counts)})
    theirs = [len(peer.wv.get_vecattr(f"w{n}", "code")) for n in range(200)]
    lengths = [length_of(paths, word) for word in range(200)]
    assert lengths == sorted(lengths)
    assert counts @ lengths == counts @ theirs


def test_two_words_are_one_bit_apart():
    paths = huffman(np.array([5, 3]))
    assert [paths.of(word)[0].tolist() for word in (0, 1)] == [[0], [0]]
    assert sorted(paths.of(word)[1].tolist() for word in (0, 1)) == [[0], [1]]
