"""The trainer around the kernel: blocks, rates, seeds, threads, losses, stops, and continued training."""

from __future__ import annotations

import itertools
import json
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from firth.errors import ConfigError, DataError, Diverged, RunError
from firth.vectors import load, trainer
from firth.vectors.config import VectorsConfig
from firth.vectors.display import Report
from firth.vectors.encoding import EncodedCorpus, encoded
from firth.vectors.kernels import Counts
from firth.vectors.trainer import TrainingCallbacks, WordVectorTraining, fit, settings, train
from firth.vectors.wordvectors import WordVectors

GENERATOR = np.random.default_rng(0)
SENTENCES = [[f"w{int(n)}" for n in GENERATOR.geometric(0.15, 12)] for _ in range(600)]
TINY: dict[str, Any] = {"dim": 8, "window": 2, "negatives": 2, "epochs": 3, "min_count": 2, "sample": 0.0}


class Recorder:
    """A kernel that trains nothing and remembers how it was called; a call's loss is the number of its first sentence."""

    def __init__(self) -> None:
        self.calls: list[tuple[int, int, float, float, int]] = []
        self.threads: set[str] = set()
        self.lock = threading.Lock()

    def __call__(self, ids: Any, ends: Any, first: int, last: int, rate_first: float, rate_last: float, seed: int) -> Counts:
        with self.lock:
            self.calls.append((first, last, rate_first, rate_last, seed))
            self.threads.add(threading.current_thread().name)
        return Counts(float(first), last - first, 0)


def recorded(text: EncodedCorpus, kernel: Any, **given: Any) -> WordVectorTraining:
    config = VectorsConfig(**(TINY | given))
    empty = np.zeros((len(text.vocabulary), config.dim), np.float32)
    return WordVectorTraining(text, config, empty, empty, kernel)


@pytest.fixture
def text() -> EncodedCorpus:
    return encoded(SENTENCES, min_count=2)


@pytest.mark.parametrize("sentences", [SENTENCES, [SENTENCES[0] * 300, SENTENCES[1] * 200, *SENTENCES[:300]]], ids=["", "long"])
def test_every_sentence_is_trained_on_once_an_epoch_in_order(sentences: list[list[str]]) -> None:
    text, kernel = encoded(sentences, min_count=2), Recorder()
    list(fit(recorded(text, kernel, threads=1)))
    per_epoch = len(kernel.calls) // 3
    assert per_epoch > 3
    for epoch in range(3):
        calls = kernel.calls[epoch * per_epoch : (epoch + 1) * per_epoch]
        assert [first for first, *_ in calls] == [0, *(last for _, last, *_ in calls[:-1])]
        assert calls[-1][1] == len(text.ends)
        assert all(first < last for first, last, *_ in calls)


def test_the_rate_falls_linearly_over_the_words_of_all_epochs(text: EncodedCorpus) -> None:
    kernel = Recorder()
    list(fit(recorded(text, kernel, threads=1, rate=0.05, final_rate=0.01)))
    per_epoch = len(kernel.calls) // 3
    for number, (first, last, rate_first, rate_last, _) in enumerate(kernel.calls):
        epoch, total = number // per_epoch, len(text.ids)
        places = [epoch * total + (int(text.ends[n - 1]) if n else 0) for n in (first, last)]
        expected = [0.05 - 0.04 * place / (3 * total) for place in places]
        assert [rate_first, rate_last] == pytest.approx(expected)
    assert kernel.calls[0][2] == 0.05
    assert kernel.calls[-1][3] == pytest.approx(0.01)


def test_blocks_and_what_they_draw_do_not_depend_on_the_threads(text: EncodedCorpus) -> None:
    calls = []
    for threads in (1, 3):
        kernel = Recorder()
        list(fit(recorded(text, kernel, threads=threads)))
        calls.append(sorted(kernel.calls, key=lambda call: -call[2]))
    assert calls[0] == calls[1]
    seeds = [seed for *_, seed in calls[0]]
    assert len(set(seeds)) == len(seeds)
    other = Recorder()
    list(fit(recorded(text, other, threads=1, seed=1)))
    assert not set(seeds) & {seed for *_, seed in other.calls}
    assert all(0 <= seed < 2**63 for seed in seeds)


def test_a_softmax_and_a_gpu_have_blocks_of_their_own_size(text: EncodedCorpus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trainer, "_SMALLEST", 10)
    sizes = {}
    for name, given in {"ns": {}, "softmax": {"loss": "softmax"}, "cuda": {"device": "cuda"}}.items():
        kernel = Recorder()
        list(fit(recorded(text, kernel, epochs=1, **given)))
        sizes[name] = len(kernel.calls)
    assert sizes["softmax"] > sizes["ns"] > sizes["cuda"] == 1


def test_deterministic_training_is_in_one_thread(text: EncodedCorpus) -> None:
    kernel = Recorder()
    list(fit(recorded(text, kernel, threads=4, deterministic=True)))
    assert len(kernel.threads) == 1


def test_losses_are_means_over_the_terms_of_each_epoch(text: EncodedCorpus) -> None:
    kernel = Recorder()
    reports = list(fit(recorded(text, kernel, threads=2)))
    last = reports[-1]
    per_epoch = len(kernel.calls) // 3
    firsts = sorted({first for first, *_ in kernel.calls})
    assert last.losses == (pytest.approx(sum(firsts) / len(text.ends)),) * 3
    assert [len(report.losses) for report in reports][per_epoch - 1 :: per_epoch][-1] == 3
    assert (last.words, last.of) == (3 * text.raw_words,) * 2
    assert (last.epoch, last.epochs) == (3, 3)
    assert [report.words for report in reports] == sorted(report.words for report in reports)


def test_an_epoch_without_a_prediction_has_no_loss(text: EncodedCorpus) -> None:
    reports = list(fit(recorded(text, lambda *given: Counts(0.0, 0, 0))))
    assert reports[-1].losses == (None, None, None)


def test_a_loss_that_is_no_number_stops_the_training(text: EncodedCorpus) -> None:
    with pytest.raises(Diverged, match=r"the loss became nan in epoch 1\. Try a rate smaller than 0.025"):
        list(fit(recorded(text, lambda *given: Counts(float("nan"), 1, 0))))


def test_an_error_in_a_thread_is_raised(text: EncodedCorpus) -> None:
    def broken(*given: Any) -> Counts:
        raise RuntimeError("kernel")

    with pytest.raises(RuntimeError, match="kernel"):
        list(fit(recorded(text, broken)))


def test_closing_finishes_what_is_under_way_and_begins_nothing_new(text: EncodedCorpus) -> None:
    kernel = Recorder()
    reports = fit(recorded(text, kernel, threads=2))
    next(reports)
    reports.close()
    seen = len(kernel.calls)
    assert seen <= 8
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("firth-vectors")]
    assert len(kernel.calls) == seen


def vectors_of(**given: Any) -> WordVectors:
    return train(SENTENCES, **(TINY | given))


@pytest.mark.parametrize("model", ["skipgram", "cbow"])
@pytest.mark.parametrize("loss", ["ns", "hs", "softmax"])
def test_training_lowers_the_loss(model: str, loss: str) -> None:
    """The words are drawn independently, so all that can be learned is their frequency."""
    vectors = vectors_of(model=model, loss=loss, rate=0.05, deterministic=True)
    losses = json.loads(vectors.metadata["loss"])
    assert len(losses) == 3
    assert losses[-1] < losses[0]
    assert np.isfinite(vectors.vectors).all()
    assert vectors.vectors.shape == (len(vectors), 8)
    assert vectors.outputs is not None
    assert len(vectors.outputs) == len(vectors) - (loss == "hs")


def test_deterministic_vectors_are_the_same_to_the_bit_whatever_the_threads() -> None:
    notices: list[str] = []
    one = vectors_of(deterministic=True, threads=1)
    four = vectors_of(deterministic=True, threads=4, watcher=TrainingCallbacks(notice=notices.append))
    assert one.vectors.tobytes() == four.vectors.tobytes()
    assert "deterministic: training in one thread" in notices
    other = vectors_of(deterministic=True, seed=1)
    assert one.vectors.tobytes() != other.vectors.tobytes()


def test_initial_vectors_are_small_uniform_and_seeded() -> None:
    first = trainer.initial_vectors(5000, VectorsConfig(dim=20))
    assert first.dtype == np.float32
    assert abs(first).max() <= 1 / 20
    assert np.var(first) == pytest.approx((2 / 20) ** 2 / 12, rel=0.02)
    assert abs(first.mean()) < 1e-3
    assert (first == trainer.initial_vectors(5000, VectorsConfig(dim=20))).all()
    assert (first != trainer.initial_vectors(5000, VectorsConfig(dim=20, seed=1))).any()


def test_words_that_keep_the_same_company_get_similar_vectors() -> None:
    generator = np.random.default_rng(1)
    frames = [("cold", "hot"), ("north", "south"), ("read", "write")]
    sentences = []
    for _ in range(2000):
        topic = int(generator.integers(3))
        near = [f"t{topic}{int(n)}" for n in generator.integers(0, 4, 4)]
        sentences.append([*near[:2], frames[topic][int(generator.integers(2))], *near[2:]])
    vectors = train(sentences, dim=16, epochs=5, sample=0, rate=0.05, deterministic=True)
    for topic, (a, b) in enumerate(frames):
        others = [word for other, pair in enumerate(frames) if other != topic for word in pair]
        assert vectors.similarity(a, b) > max(vectors.similarity(a, other) for other in others)


def test_a_file_is_only_replaced_with_overwrite(tmp_path: Path) -> None:
    out = tmp_path / "v.firth"
    first = vectors_of(out=out)
    before = out.read_bytes()
    for start in (None, first):
        with pytest.raises(RunError, match=r"v\.firth already exists\. Add overwrite=True to replace it, or choose"):
            vectors_of(out=out, start=start)
    assert out.read_bytes() == before
    vectors_of(out=out, seed=7, overwrite=True)
    assert out.read_bytes() != before


def test_the_metadata_says_how_it_was_made(tmp_path: Path) -> None:
    vectors = vectors_of(out=tmp_path / "v.firth", lower=True)
    back = load(tmp_path / "v.firth")
    assert list(back.words) == list(vectors.words)
    assert back.counts is not None
    assert back.counts.tolist() == sorted(back.counts.tolist(), reverse=True)
    assert back.metadata["state"] == "finished"
    assert back.metadata["epochs"] == "3"
    assert json.loads(back.metadata["config"])["window"] == 2
    assert json.loads(back.metadata["lower"]) is True
    assert (back.vectors == vectors.vectors).all()
    assert back.outputs is not None


def test_a_stop_leaves_a_file_marked_interrupted(tmp_path: Path) -> None:
    seen: list[Report] = []
    watcher = TrainingCallbacks(block=seen.append, stopping=lambda: len(seen) == 2)
    vectors = vectors_of(out=tmp_path / "v.firth", watcher=watcher)
    assert vectors.metadata["state"] == "interrupted"
    assert 0 < float(vectors.metadata["epochs"]) < 3
    assert len(seen) == 2
    assert load(tmp_path / "v.firth").metadata["state"] == "interrupted"


def test_a_stop_at_the_last_block_is_none(tmp_path: Path) -> None:
    assert vectors_of(watcher=TrainingCallbacks(stopping=lambda: True), epochs=1, loss="hs").metadata["state"] == "interrupted"
    seen: list[Report] = []
    late = TrainingCallbacks(block=seen.append, stopping=lambda: seen[-1].words == seen[-1].of)
    assert vectors_of(watcher=late).metadata["state"] == "finished"


def test_ctrl_c_in_python_saves_and_goes_on_as_ctrl_c(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        vectors_of(out=tmp_path / "v.firth", watcher=TrainingCallbacks(block=lambda report: signal.raise_signal(signal.SIGINT)))
    assert load(tmp_path / "v.firth").metadata["state"] == "interrupted"


def test_training_further_keeps_old_rows_and_adds_new_words() -> None:
    old = vectors_of(deterministic=True)
    assert old.counts is not None
    more = [["w1", "new", "w2"], ["new", "w3", "once"]] * 5
    idle = train(more, start=old, rate=1e-12, final_rate=0.0, deterministic=True, max_vocab=len(old) + 2, min_count=5)
    assert set(idle.words) == set(old.words) | {"new", "once"}
    for word in old.words:
        assert idle[word] == pytest.approx(old[word], abs=1e-9)
    assert idle.outputs is not None
    assert old.outputs is not None
    assert idle.outputs[idle.id("w1")] == pytest.approx(old.outputs[old.id("w1")], abs=1e-9)
    assert idle.counts is not None
    assert idle.counts[idle.id("w1")] == old.counts[old.id("w1")] + 5
    assert idle.counts[idle.id("new")] == 10
    assert idle.counts.tolist() == sorted(idle.counts.tolist(), reverse=True)
    assert 0 < abs(idle["new"]).max() <= 1 / 8
    moved = train(more, start=old, deterministic=True)
    assert (moved["w1"] != old["w1"]).any()


def test_settings_not_given_are_those_of_the_vectors_trained_further() -> None:
    old = vectors_of(model="cbow", window=3)
    assert settings({"window": 4, "dim": None}, old) == VectorsConfig(**(TINY | {"model": "cbow", "window": 4}))
    assert settings({"window": None}) == VectorsConfig()
    lowered = vectors_of(lower=True)
    assert json.loads(train(["BRAND New"] * 9, start=lowered).metadata["lower"]) is True
    assert json.loads(train(["BRAND New"] * 9, start=lowered, lower=False).metadata["lower"]) is False
    with pytest.raises(ConfigError, match=r"dim is 5, but the vectors to train further have dimension 8\. Leave dim out"):
        settings({"dim": 5}, old)


def test_faithful_vectors_are_trained_further_faithfully() -> None:
    old = vectors_of(faithful=True, deterministic=True)
    assert (old.vectors != vectors_of(deterministic=True).vectors).any()
    assert settings({}, old).faithful
    assert not settings({"faithful": False}, old).faithful
    assert json.loads(train(SENTENCES, start=old, epochs=1).metadata["config"])["faithful"] is True


def test_vectors_without_counts_or_contexts_can_be_trained_further_and_it_says_so() -> None:
    bare = WordVectors(["w1", "elsewhere"], np.ones((2, 8), np.float32))
    notices: list[str] = []
    vectors = train(SENTENCES, start=bare, min_count=2, epochs=1, watcher=TrainingCallbacks(notice=notices.append))
    assert "elsewhere" in vectors
    assert any("have no counts" in notice for notice in notices)
    assert any("have no context vectors" in notice for notice in notices)
    assert vectors["elsewhere"].tolist() == [1] * 8
    tree = vectors_of(loss="hs")
    train(SENTENCES, start=tree, epochs=1, watcher=TrainingCallbacks(notice=notices.append))
    assert any("Huffman tree" in notice for notice in notices)


@pytest.mark.parametrize(
    ("corpus", "given", "complaint"),
    [
        (
            ["a", "b", "a", "b"],
            {"min_count": 1},
            "no word in the list of sentences has a neighbour",
        ),
        (["a a a a a"], {}, "the list of sentences has only one word that occurs 5 times"),
        (["a b c"], {}, "min_count 5 leaves no words of the list of sentences"),
    ],
)
def test_text_without_anything_to_learn_is_refused(corpus: list[str], given: dict[str, Any], complaint: str) -> None:
    with pytest.raises(DataError) as error:
        train(corpus, **given)
    assert complaint in str(error.value)


def test_a_gpu_that_is_not_there_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(ConfigError, match="torch finds no CUDA GPU"):
        vectors_of(device="cuda")


def test_what_is_not_a_firth_file_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"v.bin; expected a name that ends in .firth.*firth vectors convert"):
        train(tmp_path / "absent.txt", out=tmp_path / "v.bin")


def test_blocks_that_wait_when_training_is_stopped_are_not_trained_on(
    text: EncodedCorpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two threads: after the first report two blocks are under way and a third waits for a thread."""
    calls, started, released = itertools.count(), threading.Semaphore(0), threading.Event()

    def kernel(*_: Any) -> Counts:
        if next(calls) > 0:
            started.release()
            released.wait(30)
        return Counts(0.0, 1, 0)

    class Pool(ThreadPoolExecutor):
        def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
            super().shutdown(wait=False, cancel_futures=cancel_futures)
            released.set()
            super().shutdown(wait=wait)

    monkeypatch.setattr(trainer, "ThreadPoolExecutor", Pool)
    reports = fit(recorded(text, kernel, threads=2))
    next(reports)
    for _ in range(2):
        assert started.acquire(timeout=30)
    reports.close()
    assert next(calls) == 3
