"""A shuffle of 0 … n−1 that can be evaluated at any single index: nothing is stored, however large n is.

A Feistel network over pairs (left, right) in Z_a × Z_b with a·b ≥ n: each round adds to one half a hash of the other,
which subtraction undoes, so the whole is a bijection of 0 … a·b−1. A result of n or more is passed through the network
again until it is below n (cycle walking; Black and Rogaway 2002), which gives a bijection of 0 … n−1.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

UInts = NDArray[np.uint64]

_ROUNDS = 4  # of both halves
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # 2⁶⁴ / golden ratio: multiples of it are spread evenly


def mixed(value: UInts) -> UInts:
    """The finaliser of SplitMix64 (Steele et al. 2014): every input bit affects every output bit."""
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))


def keys(seed: int, epoch: UInts, purpose: int) -> UInts:
    """An independent-looking 64-bit key per epoch; `purpose` distinguishes the keys of one epoch."""
    base = mixed(mixed(np.array([seed % (1 << 64)], np.uint64)) + np.array([purpose], np.uint64) * _GOLDEN)
    return mixed(base + mixed(epoch.astype(np.uint64) * _GOLDEN + base))


def permuted(index: UInts, n: int, key: UInts) -> UInts:
    """The image of each `index` under the permutation `key` of 0 … n−1; one key for all, or one for each."""
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
