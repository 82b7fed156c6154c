"""Images with captions: from a table that names image files, or generated; split and tokenised.

A table may name an image several times, with a caption each. All captions of an image are in the same part."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from firth.errors import ConfigError, DataError, either
from firth.progress import Progress, silent
from firth.text.batches.captions import Bytes, Captions
from firth.text.config import CaptionsConfig, TokenizerConfig
from firth.text.data.lengths import left_out
from firth.text.data.pairs import ended
from firth.text.data_set import DATA_SETS, MadeImages, named
from firth.text.fingerprint import sha256_of_arrays, sha256_of_texts
from firth.text.holdout import SplitData, held_out
from firth.text.readers.blank_records import BlankRecords
from firth.text.readers.corpus import find
from firth.text.readers.formats import records
from firth.text.readers.images import read_images
from firth.text.readers.pieces import pieces_of_texts
from firth.text.readers.reader import Column
from firth.text.tokenizers.tokenizer import Tokenizer


@dataclass(frozen=True, kw_only=True)
class CaptionData(SplitData[Captions]):
    """The data of a captioning run."""

    unseen: Captions | None = None  # scenes with pairs of colour and shape that never occur in training


@dataclass(frozen=True)
class _Part:
    """Captions as text, and the image of each."""

    wheres: Sequence[str]  # file and line of each caption, for messages
    texts: Sequence[str]
    image_N: Sequence[int]
    load: Callable[[], Bytes]
    kinds: Sequence[str] | None = None  # of each image


def prepare_captions(
    data: CaptionsConfig, tokenizer: TokenizerConfig | Tokenizer, limit: int | None = None, progress: Progress = silent
) -> CaptionData:
    """Read or generate, split, tokenise.

    Without validation captions, `data.valid` of the images are held out. The vocabulary is learned from the training part alone
    (characters also from the held-out part). Captions of more than `limit` tokens are left out of training, but not of validation
    and test."""
    parts, sha256 = _parts(data, progress)
    if isinstance(tokenizer, TokenizerConfig):
        known = tokenizer.learns_from(parts["train"].texts, parts["valid"].texts if "valid" in parts else ())
        tokenizer = Tokenizer.train(tokenizer, pieces_of_texts(known), max(2, len(known)))
    encoded = {name: _encoded(part, tokenizer) for name, part in parts.items()}
    train = encoded["train"]
    if limit is not None:
        train = train.within(limit)
    notice = left_out(len(encoded["train"]), len(train), "training captions", f"{limit} tokens")
    valid, test, unseen = (encoded.get(name) for name in ("valid", "test", "unseen"))
    return CaptionData(tokenizer, train, valid, test, sha256, notice, unseen=unseen)


def encode_captions(path: str | Path, tokenizer: Tokenizer, data: CaptionsConfig, progress: Progress = silent) -> Captions:
    """The captions of another table, read with the settings of a run."""
    return _encoded(_of_table(str(path), data, progress), tokenizer)


def some_images(data: CaptionsConfig, part: str, count: int) -> tuple[Bytes, tuple[str, ...]]:
    """The first images of a part of a named set, and their captions."""
    assert data.name is not None
    made = DATA_SETS[data.name]
    if part not in made.generated_parts:
        raise ConfigError(f'{data.name} has no part "{part}". Choose {either(made.generated_parts)}.')
    enough = dataclasses.replace(data, count=10 * max(1, count)) if "count" in made.uses else data
    drawn = _made(enough, part, silent)
    return drawn.image_NHWC[:count], drawn.captions[:count]


def _made(data: CaptionsConfig, part: str, progress: Progress) -> MadeImages:
    assert data.name is not None
    generate = DATA_SETS[data.name].generate
    assert generate is not None, "captioned images without files are made"
    made: MadeImages = generate(data, part, progress)
    return made


def _parts(data: CaptionsConfig, progress: Progress) -> tuple[dict[str, _Part], str]:
    if data.name is not None:
        made = {part: _made(data, part, progress) for part in DATA_SETS[data.name].generated_parts}
        return {part: _of_made(part, images) for part, images in made.items()}, made["train"].sha256
    if data.path is None:
        raise ConfigError(f"data.text has no images. Set data.path to a table, or data.name = {named('captioned images')}.")
    whole = _of_table(data.path, data, progress)
    # The pixels, as the network sees them, and the captions.
    sha256 = sha256_of_texts([[sha256_of_arrays([whole.load()]), *whole.texts, *map(str, whole.image_N)]])
    parts = {"train": whole}
    for name, path in (("valid", data.valid_path), ("test", data.test_path)):
        if path is not None:
            parts[name] = _of_table(path, data, progress)
    if "valid" not in parts and data.valid:
        rows = held_out(range(len(whole.texts)), data.valid, "captions", lambda row: str(whole.image_N[row]))
        parts["train"], parts["valid"] = (_chosen(whole, some) for some in rows)
    return parts, sha256


def _of_made(part: str, images: MadeImages) -> _Part:
    wheres = [f"{part} {n}" for n in range(1, len(images.captions) + 1)]
    return _Part(wheres, images.captions, range(len(wheres)), lambda: images.image_NHWC, images.kinds)


def _of_table(path: str, data: CaptionsConfig, progress: Progress) -> _Part:
    corpus = find(path, data.format)
    columns = (Column(data.image, "data.image", nullable=True), Column(data.caption, "data.caption", nullable=True))
    blank = BlankRecords()
    wheres: list[str] = []
    texts: list[str] = []
    images: dict[Path, int] = {}
    first: list[str] = []  # the line that first names each image
    image_N: list[int] = []
    for file, tick in corpus.each_file(progress):
        for where, (name, caption) in records(file, columns, corpus.format, tick, data.columns):
            text = " ".join(caption.split())
            if not text or not name.strip():
                blank.add(where)
                continue
            image = file.parent / name.strip()
            if image not in images:
                images[image] = len(images)
                first.append(where)
            wheres.append(where)
            texts.append(text)
            image_N.append(images[image])
    if not texts:
        raise DataError(f"{corpus.name} is empty; expected images with captions")
    blank.settle(data.empty, corpus.name, len(texts) + blank.count, "no image or no caption")
    pixels = read_images(list(images), first, data.side, progress)
    return _Part(wheres, texts, image_N, lambda: pixels)


def _chosen(whole: _Part, rows: Sequence[int]) -> _Part:
    return dataclasses.replace(
        whole,
        wheres=[whole.wheres[row] for row in rows],
        texts=[whole.texts[row] for row in rows],
        image_N=[whole.image_N[row] for row in rows],
    )


def _encoded(part: _Part, tokenizer: Tokenizer) -> Captions:
    ids = []
    for where, text in zip(part.wheres, part.texts, strict=True):
        try:
            ids.append(ended(text, tokenizer))
        except DataError as error:
            raise DataError(f"{where}: {error.marked}") from error
    return Captions.of(part.load, part.image_N, ids, part.texts, part.kinds)
