"""Station: word vectors of the same text, their nearest neighbours and their typical contexts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from firth.experiments.tour.station import Guide
from firth.figures.figure import Table
from firth.figures.page import Section
from firth.figures.word_map import LABELLED, embedding_map
from firth.text.datasets.docs import docs_corpus
from firth.vectors import WordVectors
from firth.vectors.config import VectorsConfig
from firth.vectors.contexts import word_contexts
from firth.vectors.encoding import EncodedCorpus, encoded
from firth.vectors.map import word_map
from firth.vectors.trainer import TrainingCallbacks, fit, prepare_training, trained_vectors

SHOWN = ("list", "tensor", "file", "error", "true", "float", "matrix", "thread")
DRAWN = LABELLED  # words on the map
_WORD = re.compile(r"[a-z]+(?:'[a-z]+)?")
_EPOCHS = 15


def visit(guide: Guide) -> Section:
    with guide.watching("word vectors") as watcher:
        text = encoded(_sentences(docs_corpus(watcher.work)), min_count=10, progress=watcher.work)
        watch = TrainingCallbacks(work=watcher.work, notice=watcher.notice)
        epochs = max(1, round(guide.effort * _EPOCHS))
        training = prepare_training(text, VectorsConfig(dim=64, min_count=10, epochs=epochs), watcher=watch)
        for report in fit(training):
            watcher.work("word vectors", report.words, report.of)
        training.fetch()
    vectors = trained_vectors(training, "finished")
    vectors.save(guide.out / "words.firth")
    speed, losses = (training.last.words_per_second, training.last.losses) if training.last else (0.0, ())
    return _section(text, vectors, epochs, speed, losses)


def _sentences(path: Path) -> Iterator[list[str]]:
    """Each line as a sentence of lower-case words without punctuation."""
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            yield _WORD.findall(line.lower())


def _section(
    text: EncodedCorpus, vectors: WordVectors, epochs: int, words_per_second: float, losses: tuple[float | None, ...]
) -> Section:
    rows = []
    for word in (word for word in SHOWN if word in vectors):
        near_words = ", ".join(near for near, _ in vectors.most_similar(word, topn=4))
        collocates = ", ".join(one.word for one in word_contexts(text, word, lines=0, topn=4).collocates)
        rows.append((word, near_words, collocates))
    drawn = word_map(vectors, list(vectors.words[:DRAWN]))
    axes = [f"PC {n + 1} ({share:.1%} of the variance)" for n, share in enumerate(drawn.explained)]
    fell = f"{losses[0]:.3f} to {losses[-1]:.3f}" if losses and losses[0] is not None and losses[-1] is not None else "unknown"
    return Section(
        title="You shall know a word by the company it keeps",
        lead=f"Skip-gram with negative sampling, trained for {epochs} epochs on {text.raw_words:,} words of the same "
        f"documentation at {words_per_second:,.0f} words per second; its loss per pair fell from {fell}. Neighbours are the "
        "nearest vectors by cosine. The company of a word is the words that occur within five words of it more often than by "
        "chance.",
        table=Table(("word", "neighbours", "the company it keeps"), rows),
        figures=(embedding_map(drawn.words, drawn.point_Nk.tolist(), axes),),
    )
