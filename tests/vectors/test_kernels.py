"""The kernels against the oracle of word2vec, from the same draws; and what a caller relies on."""

from __future__ import annotations

import itertools
import sys
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from shares import half

from firth.errors import ConfigError
from firth.oracles import word2vec
from firth.text import compilation
from firth.vectors.config import VectorsConfig
from firth.vectors.huffman import huffman
from firth.vectors.kernels import Counts, hot_rows, kernel_for, output_rows, zeros
from firth.vectors.kernels.random_draws import draw_negatives, draw_spans, subsample
from firth.vectors.kernels.training_loop import find_repeats
from firth.vectors.sampling import alias_table, keep_probability, negative_probability, thresholds

MODELS, LOSSES = ("skipgram", "cbow"), ("ns", "hs", "softmax")
RATE = 0.05


def corpus(V: int = 12, words: int = 120, sentences: int = 6) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Ids, sentence ends (one empty, one of a single word), counts. Words repeat within windows, negatives within draws."""
    rng = np.random.default_rng(0)
    ids = np.minimum(rng.zipf(1.5, size=words) - 1, V - 1).astype(np.uint32)
    ends = np.sort(rng.choice(np.arange(2, words), sentences, replace=False)).astype(np.int64)
    ends = np.concatenate([[1], ends, [ends[-1], words]])
    return ids, ends, np.bincount(ids, minlength=V) + 1


def matrices(config: VectorsConfig, V: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    return tuple(
        (rng.normal(size=(rows, config.dim)) / config.dim**0.5).astype(np.float32) for rows in (V, output_rows(config, V))
    )


NOBODY = np.full(100, np.iinfo(np.uint32).max)


class Example(NamedTuple):
    """One step: inputs predict a word."""

    share: float  # of the words gone by
    inputs: list[int]
    word: int
    negatives: list[int]


def examples(config: VectorsConfig, count_V, ids, ends, first: int, last: int, seed: int) -> Iterator[Example]:
    """The training examples that a call reads, step by step."""
    begin = ends[first - 1] if first else 0
    start, state = begin, np.uint64(seed)
    keep_V = thresholds(keep_probability(count_V, config.sample))
    K = config.negatives if config.loss == "ns" else 0
    table = alias_table(negative_probability(count_V))
    for end in ends[first:last]:
        kept, span, negative = np.empty(len(ids), np.uint32), np.empty(len(ids), np.int64), np.zeros(len(ids) * K + 1, np.uint32)
        n, state = subsample(ids, start, end, keep_V, state, kept)
        state = draw_spans(n, config.window, np.uint64(state), span)
        if K and not config.faithful:
            state = draw_negatives(kept, n, K, *table, np.uint64(state), negative)
        state, sentence = np.uint64(state), kept[:n].tolist()
        share = (start - begin) / (ends[last - 1] - begin)
        for place in range(n):
            window, word = word2vec.neighbors(sentence, place, int(span[place])), sentence[place]
            steps = [([word], neighbor) for neighbor in window] if config.faithful and config.model == "skipgram" else []
            for step, (inputs, target) in enumerate(steps or ([(window, word)] if window else [])):
                at = (step if config.faithful else place) * K
                if K and config.faithful and step == 0:
                    state = np.uint64(draw_negatives(NOBODY, len(steps) or 1, K, *table, state, negative))
                yield Example(share, inputs, target, negative[at : at + K].tolist())
        start = end


def oracle(config: VectorsConfig, count_V, input_Vd, output_Vd, ids, ends, first, last, rates, seed: int) -> Counts:
    """The kernel's call, example after example, in place."""
    loss, terms, paths = 0.0, 0, huffman(count_V)
    form = config.model == "cbow", config.faithful
    for share, inputs, word, negatives in examples(config, count_V, ids, ends, first, last, seed):
        rate = rates[0] + (rates[1] - rates[0]) * share
        match config.loss:
            case "softmax":
                step = word2vec.softmax_step(input_Vd, output_Vd, inputs, word, rate, *form)
            case "hs":
                nodes, bits = paths.of(word)
                sign_T = [1.0 - 2.0 * float(bit) for bit in bits]
                step = word2vec.step(input_Vd, output_Vd, inputs, nodes.tolist(), sign_T, rate, *form)
            case "ns":
                sign_T = [1.0] + [-1.0] * len(negatives)
                step = word2vec.step(input_Vd, output_Vd, inputs, [word, *negatives], sign_T, rate, *form)
        loss, terms = loss + step.loss, terms + step.terms
    return Counts(loss, terms, int(ends[last - 1] - (ends[first - 1] if first else 0)))


def check_against_the_oracle(
    config: VectorsConfig, first: int = 0, last: int | None = None, seed: int = 5, words: int = 120
) -> None:
    ids, ends, count_V = corpus(words=words)
    last = len(ends) if last is None else last
    got = matrices(config, len(count_V))
    want = [matrix.astype(np.float64) for matrix in got]
    rates = (RATE, RATE / 2)
    expected = oracle(config, count_V, *want, ids, ends, first, last, rates, seed)
    counts = kernel_for(config, count_V, *got)(ids, ends, first, last, *rates, seed)
    assert (counts.terms, counts.words) == (expected.terms, expected.words)
    assert counts.loss == pytest.approx(expected.loss, rel=2e-6)
    for matrix, exact in zip(got, want, strict=True):
        np.testing.assert_allclose(matrix, exact, rtol=0, atol=2e-6 * np.abs(exact).max() * counts.terms**0.5)


@pytest.mark.parametrize("faithful", [False, True])
@pytest.mark.parametrize(("model", "loss"), [*itertools.product(MODELS, LOSSES)])
def test_training_equals_the_oracle(model, loss, faithful):
    check_against_the_oracle(VectorsConfig(model=model, loss=loss, dim=20, window=4, negatives=5, sample=0.1, faithful=faithful))


def test_every_pair_of_faithful_training_has_negatives_of_its_own():
    ids, _, count_V = corpus()
    ends = np.array([len(ids)])
    steps = {}
    for faithful in (False, True):
        config = VectorsConfig(window=4, negatives=5, sample=0, faithful=faithful)
        steps[faithful] = [*examples(config, count_V, ids, ends, 0, 1, 5)]
    assert {len(step.inputs) for step in steps[True]} == {1}
    assert len(steps[True]) == sum(len(step.inputs) for step in steps[False])  # the same windows, so the same pairs, swapped
    swapped = Counter((step.word, word) for step in steps[False] for word in step.inputs)
    assert swapped == Counter((step.inputs[0], step.word) for step in steps[True])
    assert any(step.word in step.negatives for step in steps[True])  # drawn from count^0.75, as they come
    assert not any(step.word in step.negatives for step in steps[False])
    follow = [(one.negatives, two.negatives) for one, two in itertools.pairwise(steps[True]) if one.inputs == two.inputs]
    assert sum(one == two for one, two in follow) < len(follow) / 10


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("dim", half([1, 2, 3, 5, 8, 15, 16, 17, 31, 32, 47, 100]))
def test_every_dimension_equals_the_oracle(model, dim):
    check_against_the_oracle(VectorsConfig(model=model, dim=dim, window=3, negatives=4, sample=0))


@pytest.mark.parametrize(
    ("model", "dim", "window", "negatives"), [("skipgram", 3, 8, 25), ("cbow", 17, 1, 1), ("skipgram", 47, 15, 7)]
)
def test_faithful_training_of_other_shapes_equals_the_oracle(model, dim, window, negatives):
    config = VectorsConfig(model=model, dim=dim, window=window, negatives=negatives, sample=0, faithful=True)
    check_against_the_oracle(config, words=60)


@pytest.mark.parametrize("negatives", half([1, 2, 3, 4, 6, 7, 11, 12, 17, 25]))
def test_every_number_of_negatives_equals_the_oracle(negatives):
    check_against_the_oracle(VectorsConfig(dim=24, window=3, negatives=negatives, sample=0))


@pytest.mark.parametrize("window", [1, 2, 5, 8, 15])
def test_every_window_equals_the_oracle(window):
    check_against_the_oracle(VectorsConfig(dim=18, window=window, negatives=5, sample=0))


@pytest.mark.parametrize(
    ("model", "loss", "faithful"), [*itertools.product(MODELS, ["ns", "hs"], [False]), ("skipgram", "ns", True)]
)
@pytest.mark.parametrize("words", [120, 1_000])  # with one merge at the end, and with some before it
def test_a_thread_with_hot_rows_of_its_own_equals_the_oracle(model, loss, faithful, words, monkeypatch):
    monkeypatch.setattr(hot_rows, "SHARE", 1)
    monkeypatch.setattr(hot_rows, "TOGETHER", 1e9)
    config = VectorsConfig(model=model, loss=loss, dim=18, window=2, negatives=3, sample=0, threads=3, faithful=faithful)
    assert hot_rows.hot_row_count(config, 12) == 4
    check_against_the_oracle(config, words=words)


def test_a_merge_keeps_what_both_sides_have_added():
    matrix = np.array([[0, 0], [1, 2], [3, 4]], np.float32)
    shared, own, before, ease = hot_rows.copies(matrix, 1, np.array([1, 0.5], np.float32))
    own += np.array([10, 0, 5, 6], np.float32)
    matrix[1:] += np.array([[0, 200], [100, 0]], np.float32)  # another thread's
    hot_rows.merge(shared, own, before, ease, 2)
    assert matrix.tolist() == [[0, 0], [11, 202], [105.5, 7]]
    assert own.tolist() == before.tolist() == [11, 202, 105.5, 7]


def test_rows_that_all_threads_change_often_are_changed_by_less():
    busy = np.array([0, 0.001, hot_rows.TOGETHER / hot_rows.MERGE / 4, 0.5])
    np.testing.assert_allclose(hot_rows.eases(busy, 4), [1, 1, 1, hot_rows.TOGETHER / (4 * hot_rows.MERGE * 0.5)], rtol=1e-6)


@pytest.mark.parametrize("loss", ["ns", "hs"])
def test_many_threads_that_merge_at_once_do_not_diverge(loss, monkeypatch):
    """Sixteen calls from the same matrices whose changes are added up: what as many cores do between two merges."""
    monkeypatch.setattr(hot_rows, "SHARE", Fraction(1, 16))
    config = VectorsConfig(dim=8, window=3, sample=0, loss=loss, threads=16)
    ids, _, count_V = corpus(words=16 * hot_rows.MERGE)
    ends = np.arange(1, 17) * hot_rows.MERGE
    assert hot_rows.hot_row_count(config, len(count_V)) == len(count_V)
    shared = matrices(config, len(count_V))
    kernel, losses = kernel_for(config, count_V, *shared), []
    for turn in range(20):
        before, results = [matrix.copy() for matrix in shared], []
        for thread in range(16):
            for matrix, start in zip(shared, before, strict=True):
                matrix[:] = start
            losses.append(kernel(ids, ends, thread, thread + 1, 0.025, 0.025, 16 * turn + thread).mean)
            results.append([matrix.copy() for matrix in shared])
        for n, start in enumerate(before):
            shared[n][:] = start + sum(result[n] - start for result in results)
    assert np.mean(losses[-16:]) < np.mean(losses[:16])


def test_copies_of_hot_rows_stay_small_and_one_thread_has_none():
    assert hot_rows.hot_row_count(VectorsConfig(threads=1), 10**6) == 0
    assert hot_rows.hot_row_count(VectorsConfig(threads=4, deterministic=True), 10**6) == 0
    for threads, V, dim in itertools.product((2, 16, 64), (100, 70_000, 10**6), (1, 100, 300)):
        rows = hot_rows.hot_row_count(VectorsConfig(threads=threads, dim=dim), V)
        assert 2 * threads * rows <= V / 20


@pytest.mark.parametrize("shape", [(1, 1), (3, 16), (50, 7), (400, 64)])
def test_a_matrix_begins_with_a_cache_line(shape):
    matrix = zeros(*shape)
    assert matrix.shape == shape
    assert matrix.dtype == np.float32
    assert matrix.flags.c_contiguous
    assert matrix.ctypes.data % 64 == 0
    assert not matrix.any()


@pytest.mark.parametrize("n", [0, 1, 2, 40])
@pytest.mark.parametrize("far", [2, 6, 100])
def test_words_that_stand_twice_in_a_window_are_found(n, far):
    kept, repeat = np.random.default_rng(n).integers(0, 15, 50).astype(np.uint32), np.ones(50, np.uint32)
    find_repeats(kept, n, far, repeat)
    for first, last in itertools.combinations(range(n), 2):
        if last - first <= far:
            words = kept[first : last + 1].tolist()
            assert (repeat[last] <= first) == (len(set(words)) == len(words))


@pytest.mark.parametrize("loss", LOSSES)
def test_a_call_reads_only_its_sentences(loss):
    check_against_the_oracle(VectorsConfig(loss=loss, dim=16, window=2, sample=0), first=2, last=5)


@pytest.mark.parametrize("loss", LOSSES)
def test_the_loss_is_true_far_from_zero(loss):
    """Scores of ± 100: e^100 overflows a float32, and word2vec's own code would stop at 6."""
    ids, ends, count_V = corpus()
    config = VectorsConfig(loss=loss, dim=16, window=3, sample=0)
    input_Vd, output_Vd = matrices(config, len(count_V))
    input_Vd *= 40
    output_Vd *= 40
    want = input_Vd.astype(np.float64), output_Vd.astype(np.float64)
    expected = oracle(config, count_V, *want, ids, ends, 0, len(ends), (0.0, 0.0), 5)
    counts = kernel_for(config, count_V, input_Vd, output_Vd)(ids, ends, 0, len(ends), 0.0, 0.0, 5)
    assert expected.mean > 50
    assert counts.loss == pytest.approx(expected.loss, rel=2e-6)


@pytest.mark.parametrize(("window", "negatives", "words"), [(5, 5, 100_000), (300, 40, 1_000)])
def test_the_loss_of_a_long_call_keeps_its_digits(window, negatives, words):
    """Untrained, every term is (1 + negatives) log 2, and every factor of the product from which it is read is 2."""
    config = VectorsConfig(dim=16, window=window, negatives=negatives, sample=0)
    ids = np.random.default_rng(0).integers(0, 50, words).astype(np.uint32)
    input_Vd, output_Vd = np.ones((50, 16), np.float32), np.zeros((50, 16), np.float32)
    counts = kernel_for(config, np.full(50, 2000), input_Vd, output_Vd)(ids, np.array([len(ids)]), 0, 1, 0.0, 0.0, 1)
    assert counts.terms > 200_000
    assert counts.mean == pytest.approx((1 + negatives) * np.log(2), rel=1e-6)


@pytest.mark.parametrize(("model", "loss"), [*itertools.product(MODELS, LOSSES)])
def test_the_same_seed_gives_the_same_bits_and_another_seed_others(model, loss):
    ids, ends, count_V = corpus()
    config = VectorsConfig(model=model, loss=loss, dim=20, sample=0.05)
    results = []
    for seed in (3, 3, 4):
        pair = matrices(config, len(count_V))
        kernel_for(config, count_V, *pair)(ids, ends, 0, len(ends), RATE, RATE, seed)
        results.append([matrix.tobytes() for matrix in pair])
    assert results[0] == results[1] != results[2]


def test_ids_on_disk_need_not_be_writeable(tmp_path):
    ids, ends, count_V = corpus()
    ids.tofile(tmp_path / "ids")
    mapped = np.memmap(tmp_path / "ids", np.uint32, "r")
    config = VectorsConfig(dim=20)
    pairs = [matrices(config, len(count_V)) for _ in range(2)]
    for pair, source in zip(pairs, (ids, mapped), strict=True):
        kernel_for(config, count_V, *pair)(source, ends, 0, len(ends), RATE, RATE, 0)
    assert (pairs[0][0] == pairs[1][0]).all()


@pytest.mark.parametrize("counts", [[9], [9, 0]])
def test_a_text_of_one_word_is_refused(counts):
    """Its negatives would be drawn for ever."""
    matrix = np.zeros((len(counts), 100), np.float32)
    with pytest.raises(ConfigError, match=r"1 word.*min_count"):
        kernel_for(VectorsConfig(), np.array(counts), matrix, matrix)


def test_a_word_that_is_nearly_all_of_the_text_still_gets_negatives():
    negative = np.empty(300, np.uint32)
    p_V = np.array([0.0, 1 - 1e-12, 1e-12])
    draw_negatives(np.ones(100, np.uint32), 100, 3, *alias_table(p_V), np.uint64(0), negative)
    assert (negative != 1).all()


@pytest.mark.parametrize("loss", LOSSES)
def test_no_sentences_change_nothing(loss):
    ids, ends, count_V = corpus()
    config = VectorsConfig(dim=20, loss=loss)
    pair, before = matrices(config, len(count_V)), matrices(config, len(count_V))
    assert kernel_for(config, count_V, *pair)(ids, ends, 0, 0, RATE, RATE, 0) == Counts(0.0, 0, 0)
    assert all((now == then).all() for now, then in zip(pair, before, strict=True))


@pytest.mark.parametrize("wrong", [np.zeros((3, 7), np.float32), np.zeros((3, 8)), np.zeros((8, 3), np.float32).T])
def test_matrices_that_do_not_fit_are_refused(wrong):
    right = np.zeros((3, 8), np.float32)
    with pytest.raises(ConfigError, match="output matrix"):
        kernel_for(VectorsConfig(dim=8), np.array([3, 2, 1]), right, wrong)


def test_the_output_matrix_of_a_tree_has_a_row_for_each_inner_node():
    config, right = VectorsConfig(dim=8, loss="hs"), np.zeros((3, 8), np.float32)
    with pytest.raises(ConfigError, match=r"expected .*\(2, 8\)"):
        kernel_for(config, np.array([3, 2, 1]), right, right)


@pytest.mark.skipif(sys.platform == "win32", reason="locks of POSIX")
def test_one_process_compiles_while_the_others_wait():
    """numba changes the index of its cache without a lock."""
    import fcntl

    class Kernel:
        signatures, py_func = (), staticmethod(find_repeats.py_func)

        def compile(self, signature):
            lock = compilation._folder(Path(hot_rows.__file__).parent) / "lock"
            with lock.open() as file, pytest.raises(BlockingIOError):
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self.signatures = (signature,)

        def disable_compile(self):
            self.signatures += ("no more",)

    kernel = Kernel()
    compilation.compile_once(kernel, "once", None)
    assert kernel.signatures == ("once", "no more")
