"""SentencePiece files, without that package: the segmentation with the highest sum of scores, numbered by vocab.json."""

from __future__ import annotations

import itertools
import json
import struct
from pathlib import Path

import pytest
from encoder_decoder_folders import marian, t5

import firth
from firth.api import export_model, import_model
from firth.errors import ConfigError, CorruptFile, DataError
from firth.interop.files.sentencepiece_file import SentencePiece

LETTERS = {"▁": -4.0, "t": -6.0, "h": -6.1, "e": -5.0, "l": -6.0, "i": -6.2, "s": -5.5}
SOURCE = {"▁the": -2.0, "▁li": -2.6, "st": -2.5, "▁list": -5.2, **LETTERS}
TARGET = {"▁die": -2.0, "▁": -4.0, "d": -6.0, "i": -6.1, "e": -5.0, "▁Liste": -3.0, "ß": -7.0}


def message(*fields: tuple[int, bytes | int | float]) -> bytes:
    """A protocol buffer, written by its specification."""
    buffer = b""
    for number, value in fields:
        wire = {bytes: 2, int: 0, float: 5}[type(value)]
        buffer += varint(number << 3 | wire)
        if isinstance(value, bytes):
            buffer += varint(len(value)) + value
        elif isinstance(value, int):
            buffer += varint(value)
        else:
            buffer += struct.pack("<f", value)
    return buffer


def varint(value: int) -> bytes:
    septets = []
    while True:
        value, low = value >> 7, value & 127
        septets.append(low | (128 if value else 0))
        if not value:
            return bytes(septets)


def sentencepiece(path: Path, pieces: dict[str, float], kind: int = 1) -> Path:
    special = [("<unk>", 2), ("</s>", 3)]
    parts = [(1, message((1, name.encode()), (2, 0.0), (3, type_))) for name, type_ in special]
    parts += [(1, message((1, name.encode()), (2, score))) for name, score in pieces.items()]
    path.write_bytes(message(*parts, (2, message((3, kind))), (3, message((1, b"identity")))))
    return path


def best(text: str, scores: dict[str, float]) -> list[str]:
    """The segmentation of a word with the highest sum, of all there are."""
    word, segmentations = f"▁{text}", []
    for cuts in itertools.product((False, True), repeat=len(word) - 1):
        ends = [n + 1 for n, cut in enumerate(cuts) if cut] + [len(word)]
        pieces = [word[start:end] for start, end in zip([0, *ends], ends, strict=False)]
        if all(piece in scores for piece in pieces):
            segmentations.append((sum(scores[piece] for piece in pieces), pieces))
    return max(segmentations)[1]


def opus(folder: Path) -> Path:
    """A folder as OPUS-MT has it."""
    marian().save_pretrained(folder)
    sentencepiece(folder / "source.spm", SOURCE)
    sentencepiece(folder / "target.spm", TARGET)
    names = ["</s>", "<pad>", "<unk>", ">>deu<<", *dict.fromkeys([*reversed(TARGET), *SOURCE])]
    (folder / "vocab.json").write_text(json.dumps({name: id for id, name in enumerate(names)}))
    (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}))
    return folder


def test_each_side_of_opus_mt_has_its_own_pieces_and_one_numbering(tmp_path: Path) -> None:
    folder = opus(tmp_path / "model")
    names = json.loads((folder / "vocab.json").read_text())
    run = firth.load(folder, "cpu")
    for word in ("the", "list", "hel", "tell", "st"):
        assert [run.source_tokenizer.token(int(id)).strip() for id in run.source_tokenizer.encode(word)] == [
            piece.replace("▁", "") for piece in best(word, SOURCE)
        ]
    assert run.source_tokenizer.encode("the  list").tolist() == [names["▁the"], names["▁li"], names["st"]]
    assert run.tokenizer.encode("die Liste").tolist() == [names["▁die"], names["▁Liste"]]
    assert run.source_tokenizer.encode(">>deu<< the").tolist() == [3, names["▁the"]]
    assert names["<unk>"] in run.source_tokenizer.encode("日").tolist()
    assert run.source_tokenizer.encode("ß").tolist()[-1] == names["ß"]  # only the other side has it
    assert run.tokenizer.decode([names["▁die"], names["▁Liste"], 0]) == "die Liste"
    assert (run.source_tokenizer.end, run.tokenizer.eos, run.tokenizer.decoder.start) == ((0,), 0, 1)


def test_an_imported_run_keeps_both_and_exports_them_to_ctranslate2(tmp_path: Path) -> None:
    folder = opus(tmp_path / "model")
    import_model(folder, tmp_path / "run")
    here, there = firth.load(folder, "cpu"), firth.load(tmp_path / "run", "cpu")
    assert here.translate(["the list"], tokens=6) == there.translate(["the list"], tokens=6)
    assert there.source_tokenizer.to_json() == here.source_tokenizer.to_json() != there.tokenizer.to_json()
    with pytest.raises(ConfigError, match="a vocabulary for each side"):
        export_model(tmp_path / "run", tmp_path / "hf")
    pytest.importorskip("ctranslate2")
    assert (export_model(tmp_path / "run", tmp_path / "ct2", format="ctranslate2") / "source_tokenizer.json").is_file()


def test_t5_has_extra_tokens_behind_its_pieces(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    t5(eos_token_id=1, pad_token_id=0, decoder_start_token_id=0).save_pretrained(folder)
    sentencepiece(folder / "spiece.model", SOURCE)
    tokenizer = firth.load(folder, "cpu").tokenizer
    assert tokenizer.encode("the<extra_id_0>").tolist() == [2, 2 + len(SOURCE) + 99]
    assert (tokenizer.eos, tokenizer.end, tokenizer.unknown) == (1, (1,), 0)


def test_damaged_and_other_files_are_refused(tmp_path: Path) -> None:
    whole = sentencepiece(tmp_path / "a.spm", SOURCE).read_bytes()
    assert len(SentencePiece.of(tmp_path / "a.spm").pieces) == len(SOURCE) + 2
    for data in (whole[:50], b"\xff" * 40, b""):
        (tmp_path / "b.spm").write_bytes(data)
        with pytest.raises(CorruptFile, match="damaged"):
            SentencePiece.of(tmp_path / "b.spm")
    with pytest.raises(DataError, match="is not a unigram model"):
        SentencePiece.of(sentencepiece(tmp_path / "c.spm", SOURCE, kind=2))
    folder = opus(tmp_path / "model")
    (folder / "vocab.json").unlink()
    with pytest.raises(DataError, match=r"vocab\.json is missing"):
        firth.load(folder, "cpu")
