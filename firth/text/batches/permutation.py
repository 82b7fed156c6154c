"""A shuffle of 0 … n−1 that can be asked for any single place: no list, whatever n is.

A Feistel network over pairs (left, right) in Z_a × Z_b with a·b ≥ n: each round adds to one half a hash of the other,
which is undone by subtracting, so the whole is a bijection of 0 … a·b−1. What lands at n or beyond is sent through
again until it lands below (cycle walking; Black and Rogaway 2002), which leaves a bijection of 0 … n−1.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

UInts = NDArray[np.uint64]

_ROUNDS = 4  # of both halves
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # 2⁶⁴ / golden ratio: multiples of it are spread evenly


def mixed(value: UInts) -> UInts:
    """The finaliser of SplitMix64 (Steele et al. 2014): every input bit moves every output bit."""
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))


def keys(seed: int, epoch: UInts, purpose: int) -> UInts:
    """An independent-looking 64-bit key per epoch; `purpose` tells apart what one epoch needs several keys for."""
    base = mixed(mixed(np.array([seed % (1 << 64)], np.uint64)) + np.array([purpose], np.uint64) * _GOLDEN)
    return mixed(base + mixed(epoch.astype(np.uint64) * _GOLDEN + base))


def permuted(index: UInts, n: int, key: UInts) -> UInts:
    """Where the permutation named `key` of 0 … n−1 sends each `index`; one key for all, or one for each."""
    if n < 1 or (len(index) and int(index.max()) >= n):
        raise ValueError(f"index beyond a permutation of {n}")
    a = math.isqrt(n - 1) + 1
    b = -(-n // a)  # a·b is at least n and less than n + a, so walking is rare
    key = np.broadcast_to(key, index.shape)
    result = _network(index, a, b, key)
    while len(outside := np.flatnonzero(result >= n)):
        result[outside] = _network(result[outside], a, b, key[outside])
    return result


def _network(index: UInts, a: int, b: int, key: UInts) -> UInts:
    a_, b_ = np.uint64(a), np.uint64(b)
    left, right = index // b_, index % b_
    for _ in range(_ROUNDS):
        key = key + _GOLDEN
        left = (left + mixed(right ^ key) % a_) % a_
        key = key + _GOLDEN
        right = (right + mixed(left ^ key) % b_) % b_
    return left * b_ + right
