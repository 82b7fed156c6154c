"""train(): train word vectors on a text.

The corpus is split into blocks of sentences. Threads take the blocks in order and update the same two matrices without locks
(Hogwild; Recht et al. 2011): two threads seldom update the same row, and if they do, an update may be lost. The random draws
and the learning rate of a block depend only on its position, so a single thread gives bit-identical results every time.

Letters: V words, d dimension. input_Vd holds the word vectors v, output_Vd the context vectors u (hierarchical softmax: V − 1
inner nodes).
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import math
import os
import tempfile
import time
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import closing
from dataclasses import dataclass
from functools import wraps
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec

import numpy as np
from numpy.typing import NDArray

from firth.errors import ConfigError, DataError, Diverged, RunError, option
from firth.files import is_file, is_folder, writing
from firth.progress import Progress, silent
from firth.text.readers.reader import Format
from firth.text.threads import cores
from firth.vectors.config import Device, Loss, Model, VectorsConfig
from firth.vectors.display import Report, VectorsDisplay
from firth.vectors.encoding import EncodedCorpus, encoded
from firth.vectors.huffman import huffman
from firth.vectors.sampling import busy_rows
from firth.vectors.sentences import Source
from firth.vectors.team import ALONE, Combined, Team, check
from firth.vectors.vocabulary import Vocabulary
from firth.vectors.wordvectors import WordVectors

if TYPE_CHECKING:
    from firth.vectors.kernels import Counts, Kernel

P = ParamSpec("P")
Matrix = NDArray[np.float32]
_BLOCK = 200_000  # words; small enough to stop quickly after Ctrl-C and to keep all threads busy until the end
_GPU_BLOCK = 2_000_000  # a GPU trains on all parts of a block in parallel
_BLOCKS = 64  # smallest number of blocks, if the text is long enough: with fewer, threads would be idle at the end
_SMALLEST = 1_000
_ROUND = 1_000_000  # words that each thread trains on before several processes report, or combine their matrices
_ENOUGH = 1_000_000  # words in all epochs together: with fewer, all vectors stay close to each other
_OTHERS = (".bin", ".txt", ".vec", ".gz", ".xz", ".zst")  # suffixes of other formats


@dataclass(frozen=True)
class TrainingCallbacks:
    """Functions by which a caller follows the training; every one is optional."""

    work: Progress = silent  # progress of reading and encoding
    block: Callable[[Report], object] = lambda report: None
    notice: Callable[[str], None] = lambda message: None
    stopping: Callable[[], bool] = lambda: False  # called after each block; True stops the training, like Ctrl-C


@contextlib.contextmanager
def watching(progress: Progress | bool) -> Iterator[TrainingCallbacks]:
    """Callbacks that show the training, report it to a function, or are silent."""
    if progress is True:
        with VectorsDisplay() as display:
            yield TrainingCallbacks(display.work, display.block, display.note)
    elif progress is False:
        yield TrainingCallbacks()
    else:
        yield TrainingCallbacks(progress, lambda report: progress("training", report.words, report.of))


def _watched(function: Callable[P, WordVectors]) -> Callable[P, WordVectors]:
    """If `watcher` is None, create it from `progress`."""
    arguments = signature(function)

    @wraps(function)
    def shown(*args: P.args, **kwargs: P.kwargs) -> WordVectors:
        given = arguments.bind(*args, **kwargs)
        given.apply_defaults()
        if given.arguments["watcher"] is not None:
            return function(*args, **kwargs)
        with watching(given.arguments["progress"]) as given.arguments["watcher"]:
            return function(*given.args, **given.kwargs)

    return shown


@_watched
def train(
    corpus: Source,
    *,
    model: Model | None = None,
    loss: Loss | None = None,
    dim: int | None = None,
    window: int | None = None,
    negatives: int | None = None,
    epochs: int | None = None,
    min_count: int | None = None,
    sample: float | None = None,
    rate: float | None = None,
    final_rate: float | None = None,
    max_vocab: int | None = None,
    threads: int | None = None,
    seed: int | None = None,
    deterministic: bool | None = None,
    device: Device | None = None,
    faithful: bool | None = None,
    lower: bool | None = None,
    strip_punctuation: bool | None = None,
    format: Format = "auto",
    field: str = "text",
    start: WordVectors | None = None,
    out: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
    progress: Progress | bool = True,
    watcher: TrainingCallbacks | None = None,
) -> WordVectors:
    """Train word vectors on `corpus`: a file, folder or glob, a named data set, "-" for standard input, or sentences
    (strings, or lists of words; a generator is read once). Settings that are None take their defaults from VectorsConfig.

    With `start`, its vectors are trained further: settings that are None are those of `start`, new words are added, counts are
    added up, and the learning rate schedule starts again. With `out`, the result is saved there, also after Ctrl-C; a file that
    is there already is only replaced with `overwrite`.

    A progress bar shows the loss, unless `progress` is False; a function `progress(what, done, total)` or the callbacks of a
    `watcher` take its place."""
    given = {name: value for name, value in locals().items() if name in VectorsConfig.__dataclass_fields__}
    watcher = watcher or TrainingCallbacks()
    if out is not None and Path(out).suffix in _OTHERS:
        raise ConfigError(
            f"out is {out}; expected a name that ends in .firth, the only format that keeps counts and context vectors. "
            "`firth vectors convert` writes the other formats from it"
        )
    config = settings(given, start)
    of_start = start.metadata if start is not None else {}
    if lower is None:
        lower = of_start.get("lower") == "true"
    if strip_punctuation is None:
        strip_punctuation = of_start.get("strip_punctuation") == "true"
    if out is not None:
        _expect_writable(Path(out), overwrite)  # fail now, not after hours of training
    base = _base(start, watcher) if start is not None else None
    team = Team.of_environment()
    check(team, corpus, config.device)
    if not team.alone and config.threads is None:
        config = dataclasses.replace(config, threads=max(1, cores() // team.on_this_machine))
    if team.rank > 0:
        team.wait()  # the first process reads the text, the others find it in the cache
    text = encoded(
        corpus,
        min_count=config.min_count,
        max_vocab=config.max_vocab,
        lower=lower,
        strip_punctuation=strip_punctuation,
        base=base,
        format=format,
        field=field,
        progress=watcher.work,
        workers=config.threads and config.threads * (team.on_this_machine if team.rank == 0 else 1),  # the others wait
    )
    if team.rank == 0:
        team.wait()
    if len(text.ids) == len(text.ends):  # no sentence is empty, so each has one word
        raise DataError(
            f"no word in {text.name} has a neighbour: every sentence has only one word that occurs {config.min_count} times. "
            "Use more text or a smaller min_count"
        )
    if epochs is None and start is None:
        _note_few_words(text.raw_words, config.epochs, watcher)
    training = prepare_training(text, config, start, watcher, team)
    return _finish(training, Path(out) if out is not None else None, watcher)


def _note_few_words(words: int, epochs: int, watcher: TrainingCallbacks) -> None:
    if words * epochs < _ENOUGH:
        enough = min(100, -(-_ENOUGH // words))
        watcher.notice(f"the text has only {words:,} words, too few for {epochs} epochs; try epochs = {enough}")


def _expect_writable(out: Path, overwrite: bool) -> None:
    if is_folder(out):
        raise RunError(f"{out} is a folder; expected a file name, such as {out / 'vectors.firth'}")
    if is_file(out) and not overwrite:
        ways = option("overwrite=True to replace it", "--continue to train it further or --overwrite to replace it")
        raise RunError(f"{out} already exists. Add {ways}, or choose another {option('out')}.")
    with writing(out):
        out.parent.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=out.parent).close()


def settings(given: dict[str, Any], start: WordVectors | None = None) -> VectorsConfig:
    """The settings that are not None; the others come from `start`, or are the defaults."""
    own: dict[str, Any] = {}
    if start is not None:
        known = {field.name for field in dataclasses.fields(VectorsConfig)}
        own = {name: value for name, value in json.loads(start.metadata.get("config", "{}")).items() if name in known}
        own["dim"] = start.dim
    config = VectorsConfig(**(own | {name: value for name, value in given.items() if value is not None}))
    if start is not None and config.dim != start.dim:
        raise ConfigError(f"dim is {config.dim}, but the vectors to train further have dimension {start.dim}. Leave dim out")
    return config


@dataclass
class WordVectorTraining:
    """The state of a training: its text, settings, matrices and kernel."""

    text: EncodedCorpus
    config: VectorsConfig
    input_Vd: Matrix
    output_Vd: Matrix
    kernel: Kernel
    fetch: Callable[[], None] = lambda: None  # copies the matrices back from the device
    team: Team = ALONE  # the processes that train together
    shared: bool = False  # whether they train the same matrices; otherwise each has its own, to be combined
    last: Report | None = None


def prepare_training(
    text: EncodedCorpus,
    config: VectorsConfig,
    start: WordVectors | None = None,
    watcher: TrainingCallbacks | None = None,
    team: Team = ALONE,
) -> WordVectorTraining:
    """Initial weights, or those of `start`, and a kernel for them."""
    watcher = watcher or TrainingCallbacks()
    from firth.vectors.kernels import output_rows, zeros

    V = len(text.vocabulary)
    input_Vd = initial_vectors(V, config)
    output_Vd = zeros(output_rows(config, V), config.dim)
    if start is not None:
        _copy_weights(start, text.vocabulary, config, input_Vd, output_Vd, watcher)
    if config.deterministic and config.threads != 1:
        watcher.notice("deterministic: training in one thread")
    of_kernel, shared = config, None
    if not config.deterministic and (shared := _in_shared_memory(team, input_Vd, output_Vd)) is not None:
        input_Vd, output_Vd = shared
        of_kernel = dataclasses.replace(config, threads=config.workers * team.size)  # that write to these matrices
    kernel, fetch = _kernel(of_kernel, text.vocabulary, input_Vd, output_Vd, watcher)
    return WordVectorTraining(text, config, input_Vd, output_Vd, kernel, fetch, team, shared is not None)


def _in_shared_memory(team: Team, *matrices: Matrix) -> list[Matrix] | None:
    copies = [shared for matrix in matrices if (shared := team.in_shared_memory(matrix)) is not None]
    return copies if len(copies) == len(matrices) else None


def initial_vectors(V: int, config: VectorsConfig) -> Matrix:
    """v uniform in ±1/d, as in gensim; twice word2vec's range, which helps CBOW and harms nothing. u starts at zero."""
    from firth.vectors.kernels import zeros

    generator = np.random.Generator(np.random.PCG64(np.random.SeedSequence(config.seed)))
    input_Vd = zeros(V, config.dim)
    generator.random(out=input_Vd, dtype=np.float32)
    input_Vd -= np.float32(0.5)  # in place: no second matrix
    input_Vd *= np.float32(2 / config.dim)
    return input_Vd


def fit(training: WordVectorTraining) -> Generator[Report, None, None]:
    """Train block by block. Closing the generator finishes the blocks in progress and starts no others.

    Several processes share the blocks, and report after each round."""
    config, text, team = training.config, training.text, training.team
    blocks = _blocks(text, config)
    tally = _Tally.of(config.epochs, len(blocks))
    of, began = config.epochs * len(text.ids), time.monotonic()
    places = [(epoch, number) for epoch in range(config.epochs) for number in range(len(blocks))]

    def run(epoch: int, number: int) -> Counts:
        first, last, start, stop = blocks[number]
        rate_first, rate_last = (_rate(config, (epoch * len(text.ids) + at) / of) for at in (start, stop))
        return training.kernel(text.ids, text.ends, first, last, rate_first, rate_last, _seed(config.seed, epoch, number))

    def report(total: _Tally) -> Report:
        training.last = total.report(text, time.monotonic() - began)
        return training.last

    matrices = () if team.alone or training.shared else combined_matrices(training)
    at_most = max(1, _ROUND * config.workers * len(blocks) // len(text.ids))
    for share in team.share(places, at_most, growing=not training.shared):
        with closing(_in_threads(run, iter(share), config.workers)) as results:  # threads end with this, however it ends
            for (epoch, number), counts in results:
                if not math.isfinite(counts.loss):
                    raise Diverged(f"the loss became {counts.loss} in epoch {epoch + 1}. Try a rate smaller than {config.rate}")
                tally.add(epoch, counts, blocks[number][3] - blocks[number][2])
                if team.alone:
                    yield report(tally)
        if not team.alone:
            total = _Tally(team.sum(tally.sums_E4.copy()), tally.per_epoch)
            words = sum(blocks[number][3] - blocks[number][2] for _, number in share)
            for matrix in matrices:
                matrix.combine(_rate(config, total.words / of), words)
            yield report(total)


@dataclass
class _Tally:
    """Sums over the finished blocks of each epoch."""

    sums_E4: NDArray[np.float64]  # loss, terms, blocks, words
    per_epoch: int  # blocks

    @classmethod
    def of(cls, epochs: int, per_epoch: int) -> _Tally:
        return cls(np.zeros((epochs, 4)), per_epoch)

    @property
    def words(self) -> float:
        return float(self.sums_E4[:, 3].sum())

    def add(self, epoch: int, counts: Counts, words: int) -> None:
        self.sums_E4[epoch] += (counts.loss, counts.terms, 1, words)

    def report(self, text: EncodedCorpus, seconds: float) -> Report:
        means = [loss / terms if terms else None for loss, terms in self.sums_E4[:, :2].tolist()]
        epochs = len(means)
        finished = next((epoch for epoch, blocks in enumerate(self.sums_E4[:, 2]) if blocks < self.per_epoch), epochs)
        current = min(finished, epochs - 1)
        raw = text.raw_words / len(text.ids)  # progress counts all words of the text; training skips rare ones
        return Report(
            epoch=current + 1,
            epochs=epochs,
            words=round(self.words * raw),
            of=round(epochs * len(text.ids) * raw),
            loss=means[current],
            losses=tuple(means[:finished]),
            seconds=seconds,
        )


def combined_matrices(training: WordVectorTraining) -> tuple[Combined, Combined]:
    """The matrices of several processes, with the expected updates of their rows."""
    config, count_V = training.config, training.text.vocabulary.count_V
    tree = huffman(count_V) if config.loss == "hs" else None
    updates = busy_rows(config, count_V, tree)
    return (
        Combined(training.team, training.input_Vd, updates[0]),
        Combined(training.team, training.output_Vd, (config.window + 1) * updates[1]),
    )


def _in_threads(
    run: Callable[[int, int], Counts], queue: Iterator[tuple[int, int]], threads: int
) -> Generator[tuple[tuple[int, int], Counts]]:
    pool = ThreadPoolExecutor(threads, "firth-vectors")
    under_way: dict[Future[Counts], tuple[int, int]] = {}
    try:
        while True:
            for place in itertools.islice(queue, 2 * threads - len(under_way)):  # keep one block waiting per thread
                under_way[pool.submit(run, *place)] = place
            if not under_way:
                return
            done, _ = wait(under_way, return_when=FIRST_COMPLETED)
            for future in sorted(done, key=lambda future: under_way[future]):
                yield under_way.pop(future), future.result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _blocks(text: EncodedCorpus, config: VectorsConfig) -> list[tuple[int, int, int, int]]:
    """(first sentence, last sentence + 1, first word, last word + 1) of each block."""
    total = len(text.ids)
    size = _GPU_BLOCK if config.device == "cuda" else min(_BLOCK, max(_SMALLEST, total // _BLOCKS))
    if config.loss == "softmax":  # each prediction costs as much as V / 10 of the others
        size = max(_SMALLEST, size * 10 // len(text.vocabulary))
    sentences = np.unique(np.append(np.searchsorted(text.ends, np.arange(size, total, size)) + 1, len(text.ends)))
    words = text.ends[sentences - 1]
    firsts, starts = [0, *sentences[:-1].tolist()], [0, *words[:-1].tolist()]
    return list(zip(firsts, sentences.tolist(), starts, words.tolist(), strict=True))


def _rate(config: VectorsConfig, done: float) -> float:
    """The rate falls linearly from `rate` to `final_rate` over all words of all epochs."""
    return config.rate + (config.final_rate - config.rate) * done


def _seed(seed: int, epoch: int, number: int) -> int:
    return int(np.random.SeedSequence((seed, epoch, number)).generate_state(1, np.uint64)[0] >> 1)  # fits a signed integer


def _finish(training: WordVectorTraining, out: Path | None, watcher: TrainingCallbacks) -> WordVectors:
    """Train to the end or until interrupted, and save the result in both cases."""
    state, interruption = "interrupted", None
    try:
        with contextlib.closing(fit(training)) as reports:
            for report in reports:
                watcher.block(report)
                if training.team.any(watcher.stopping()) and report.words < report.of:
                    break
            else:
                state = "finished"
    except KeyboardInterrupt as error:
        interruption = error
    training.fetch()
    vectors = trained_vectors(training, state)
    if out is not None and training.team.rank == 0:
        vectors.save(out)
    training.team.leave()
    if interruption is not None:
        raise interruption
    return vectors


def trained_vectors(training: WordVectorTraining, state: str) -> WordVectors:
    report = training.last
    metadata = {
        "config": json.dumps(dataclasses.asdict(training.config)),
        "state": state,
        "epochs": f"{training.config.epochs * report.words / report.of:.4g}" if report else "0",
        "loss": json.dumps(report.losses if report else ()),
        "lower": json.dumps(training.text.lower),
        "strip_punctuation": json.dumps(training.text.strip_punctuation),
    }
    vocabulary = training.text.vocabulary
    return WordVectors(vocabulary.words, training.input_Vd, vocabulary.count_V, metadata, training.output_Vd)


def _kernel(
    config: VectorsConfig, vocabulary: Vocabulary, input_Vd: Matrix, output_Vd: Matrix, watcher: TrainingCallbacks
) -> tuple[Kernel, Callable[[], None]]:
    """The kernel for the device, and a function that copies its matrices back."""
    from firth.vectors.kernels import kernel_for

    if config.device == "cuda":
        return _gpu_kernel(config, vocabulary, input_Vd, output_Vd)
    compiling = "compiling the training kernel for this machine (a few seconds, only the first time)"
    return kernel_for(config, vocabulary.count_V, input_Vd, output_Vd, lambda: watcher.notice(compiling)), lambda: None


def _gpu_kernel(
    config: VectorsConfig, vocabulary: Vocabulary, input_Vd: Matrix, output_Vd: Matrix
) -> tuple[Kernel, Callable[[], None]]:
    import torch

    from firth.vectors.kernels import Counts

    if not torch.cuda.is_available():
        raise ConfigError("device is cuda, but torch finds no CUDA GPU. Leave device out to train on the CPU")
    from firth.vectors.gpu import GPUKernel

    gpu = GPUKernel(config, vocabulary.count_V, input_Vd, output_Vd)
    return lambda *given: Counts(*gpu(*given)), gpu.fetch


def _base(start: WordVectors, watcher: TrainingCallbacks) -> Vocabulary:
    counts = start.counts
    if counts is None:
        watcher.notice("the vectors to train further have no counts; only the new text is counted")
        counts = np.zeros(len(start), np.int64)
    return Vocabulary(list(start.words), np.asarray(counts))


def _copy_weights(
    start: WordVectors,
    vocabulary: Vocabulary,
    config: VectorsConfig,
    input_Vd: Matrix,
    output_Vd: Matrix,
    watcher: TrainingCallbacks,
) -> None:
    """Copy the rows of the old words to their new positions; the other rows keep their initial values."""
    row_of = {word: row for row, word in enumerate(vocabulary.words)}
    rows = np.fromiter((row_of[word] for word in start.words), np.int64, len(start))
    input_Vd[rows] = start.vectors
    if config.loss == "hs":
        watcher.notice("the counts have changed, so the Huffman tree is rebuilt and its inner nodes start at zero")
    elif start.outputs is None or len(start.outputs) != len(start):
        watcher.notice("the vectors to train further have no context vectors, so these start at zero")
    else:
        output_Vd[rows] = start.outputs
