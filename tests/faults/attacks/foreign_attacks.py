"""Public models with one value of one of their JSON files exchanged: `firth import` and every use of the folder end well, or with
exit code 2 and one line on stderr. A panic of Rust that prints its own lines would be seen."""

from __future__ import annotations

import functools
import json
import os
import random
import re
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from fault_readers import Reader
from mutations import VALUES, mutated

_HOSTILE: tuple[Any, ...] = (
    *VALUES, 2**64, -(2**63) - 1, 10**22, 1e400, -1, 2.5, "1", "true", "x" * 300, "\ud800x", {"a": 1}, {"content": 3}, [None],
    [{"a": []}], ["\udc00"], [2**64], [-1], [[2**64]], {"0": [1]}, [1.5], [True],
)  # fmt: skip

_PROGRESS = re.compile(r"\w+( \d+%| [\d,]+)")  # of a command that takes ten seconds, on a busy machine
TOLD = [""]  # the lines of the last command


def exchanged(data: bytes, name: str, draw: random.Random) -> bytes:
    """A JSON file with one or two values exchanged; now and then damaged in another way."""
    if not name.endswith(".json") or draw.random() < 0.15:
        return mutated(data, name, draw)
    table = json.loads(data)
    for _ in range(draw.choice((1, 1, 1, 2))):
        places = list(_places(table, ()))
        place = draw.choice(places)
        table = _put(table, place, draw.choice(_HOSTILE))
        if not isinstance(table, dict | list):
            break
    return json.dumps(table).encode()


def _places(value: Any, path: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    """Every place but the root. Of a long list or table, a few."""
    items = list(value.items()) if isinstance(value, dict) else list(enumerate(value)) if isinstance(value, list) else []
    for key, one in items if len(items) < 80 else [*items[:3], *items[-3:]]:
        yield (*path, key)
        yield from _places(one, (*path, key))


def _put(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = _put(copy[path[0]], path[1:], new)
    return copy


def called(*arguments: object) -> int:
    """The exit code of `firth`; 2 comes with one line on stderr, anything but 0 and 2 is an error here."""
    import typer.main

    from firth.cli import main

    if not hasattr(typer.main.get_command, "cache_info"):  # the tree of all commands takes longer to build than a tiny model
        typer.main.get_command = functools.cache(typer.main.get_command)
    with tempfile.TemporaryFile() as file:
        before, argv, errors = os.dup(2), sys.argv, sys.stderr
        os.dup2(file.fileno(), 2)
        sys.argv = ["firth", *map(str, arguments)]
        try:
            with warnings.catch_warnings(), open(2, "w", errors="backslashreplace", closefd=False) as sys.stderr:
                main()
            code = 0
        except SystemExit as stop:
            code = int(stop.code or 0)
        finally:
            sys.stderr, sys.argv = errors, argv
            os.dup2(before, 2)
            os.close(before)
        file.seek(0)
        told = file.read().decode("utf-8", "replace").splitlines()
    told = [line for line in told if not line.startswith("firth: note: ") and not _PROGRESS.fullmatch(line)]
    TOLD[:] = told or [""]
    assert code in (0, 2), f"exit code {code}: {told}"
    assert len(told) == (code == 2), f"exit code {code}, but {len(told)} lines: {told[:5]}"
    return code


def _used(*verb: object) -> Callable[[Path], object]:
    """Both ways to a run: the folder itself, and what `firth import` makes of it."""

    def read(folder: Path) -> object:
        name, *rest = verb
        code = called(name, folder / "hf", *rest)
        imported = called("import", folder / "hf", "--out", folder / "run")
        assert code or not imported, f"the folder is used, but cannot be imported: {TOLD[-1]}"
        return called(name, folder / "run", *rest) if not imported else code

    return read


def _language(folder: Path) -> None:
    from foreign_folders import byte_level, fast, llama, saved

    model = llama(rope_parameters={"rope_type": "linear", "rope_theta": 1e4, "factor": 2.0})
    model.generation_config.update(do_sample=True, top_k=5, top_p=0.9, temperature=0.7, max_new_tokens=3, eos_token_id=[0, 1])
    saved(folder / "hf", model, byte_level(begin=True), max_shard_size="20KB")
    tokenizer = fast(byte_level(begin=True))
    tokenizer.chat_template = "{% for m in messages %}{{ m.content }}{% endfor %}"
    tokenizer.save_pretrained(folder / "hf", save_jinja_files=False)


def _windows(folder: Path) -> None:
    from foreign_folders import byte_level, gemma3, saved

    saved(folder / "hf", gemma3(), byte_level())
    byte_level().model.save(str(folder / "hf"))
    (folder / "hf" / "tokenizer.json").unlink()
    (folder / "hf" / "special_tokens_map.json").write_text(
        json.dumps({"eos_token": {"content": "<|end|>"}, "unk_token": "<|end|>"})
    )


def _classifier(folder: Path) -> None:
    from foreign_encoders import BERT, built, saved

    saved(folder / "hf", built("Bert", "ForSequenceClassification", **BERT))


def _disentangled(folder: Path) -> None:
    from family_walk import CASES

    next(case for case in CASES if case.title == "DebertaV2ForMaskedLM").write(folder / "hf")


def _around(folder: Path) -> None:
    from family_walk import CASES

    next(case for case in CASES if case.title == "ModernBertForMaskedLM").write(folder / "hf")


def _translator(folder: Path) -> None:
    from encoder_decoder_folders import folder_of

    folder_of("marian", folder / "hf")


def _sentences(folder: Path) -> None:
    from test_sentence_encoders import tiny

    tiny(folder, "mean", True, prompts={"query": "the list "}, default_prompt_name="query")
    (folder / "model").rename(folder / "hf")


_FILES = ("hf/*.json",)
_TEXT = "The list is empty."


def attacks() -> list[Reader]:
    def reader(name: str, make: Callable[[Path], None], read: Callable[[Path], object], damaged: tuple[str, ...]) -> Reader:
        return Reader(f"attack on {name}", make, read, damaged, exchanged)

    fills = _used("complete", "the list is __ .")
    return [
        reader("a language model", _language, _used("generate", "The list", "--tokens", "3"), _FILES),
        reader("a model with vocab.json", _windows, _used("generate", "The list", "--tokens", "3"), _FILES),
        reader("a classifier", _classifier, _used("classify", _TEXT), _FILES),
        reader("DeBERTa", _disentangled, fills, _FILES),
        reader("ModernBERT", _around, fills, _FILES),
        reader("a translator", _translator, _used("translate", _TEXT), _FILES),
        reader("a sentence encoder", _sentences, _used("embed", _TEXT), ("hf/**/*.json",)),
    ]
