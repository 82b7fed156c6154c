"""Every reader of firth, with a good case that it reads: what `bad_files.py` damages.

`make` writes the files into an empty folder, `read` reads them, and `damaged` are patterns of those that may be damaged. Whatever
`read` does with a damaged file, it ends well or in a FirthError."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import os
import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from captioned import caption_table, write_captions
from chat_lines import chat
from mutations import mutated
from questions import RECORDS, answer_table, write_questions
from reviews import classifier_table
from reviews import write as write_reviews
from runs import TEXT
from senses import write_wic
from tags import tagger_table
from tags import write as write_tags
from translations import pair_table, pairs_of, write_pairs, write_sides

import firth
from firth.api import compose, train_recipe
from firth.api.recipe import read_recipe
from firth.config import Table
from firth.models.adapters import adapt
from firth.progress import silent

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Reader:
    name: str
    make: Callable[[Path], None]
    read: Callable[[Path], object]
    damaged: tuple[str, ...] = ("*",)  # patterns of files
    damage: Callable[[bytes, str, random.Random], bytes] = mutated


def readers() -> list[Reader]:
    return [
        *_of_text(),
        *_of_data(),
        *_of_vectors(),
        *_of_tokenizers(),
        *_of_runs(),
        *_of_caches(),
        *_of_foreign(),
        *_of_the_rest(),
    ]


# Text


def _of_text() -> list[Reader]:
    plain = TEXT[:3000].encode()
    packed: dict[str, Callable[[bytes], bytes]] = {
        "txt": bytes, "txt.gz": gzip.compress, "txt.xz": lzma.compress, "txt.bz2": bz2.compress, "txt.zst": _zst,
    }  # fmt: skip
    made = {f"text.{suffix}": pack(plain) for suffix, pack in packed.items()}
    rows = [{"text": line, "n": n} for n, line in enumerate(TEXT[:600].splitlines())]
    made["text.jsonl"] = "".join(json.dumps(row) + "\n" for row in rows).encode()
    made["text.csv"] = b"text,n\n" + "".join(f'"{row["text"]}",{row["n"]}\n' for row in rows).encode()
    made["text.tsv"] = b"text\tn\n" + "".join(f"{row['text']}\t{row['n']}\n" for row in rows).encode()
    made["text.parquet"] = _parquet({"text": [row["text"] for row in rows], "n": [row["n"] for row in rows]})
    return [Reader(name, _writes(**{name: content}), _scans(name)) for name, content in made.items()]


def _writes(**contents: bytes | str) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        for name, content in contents.items():
            (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)

    return make


def _zst(data: bytes) -> bytes:
    import zstandard

    return zstandard.ZstdCompressor().compress(data)


def _parquet(columns: dict[str, list[Any]]) -> bytes:
    import pyarrow
    import pyarrow.parquet

    buffer = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table(columns), buffer)
    return buffer.getvalue()


def _scans(name: str) -> Callable[[Path], object]:
    from firth.text.readers.corpus import find, scan

    return lambda folder: scan(find(str(folder / name)))


# Data of tasks


def _of_data() -> list[Reader]:
    chats = "".join(
        json.dumps(chat((f"What is {n}?", "Six"), ("And then?", "Ten"), system="Be short.")) + "\n" for n in range(30)
    )
    return [
        _task("labelled.csv", lambda folder: classifier_table(write_reviews(folder / "labelled.csv"))),
        _task("labelled.tsv", lambda folder: classifier_table(write_reviews(folder / "labelled.tsv"))),
        _task("labelled.jsonl", lambda folder: classifier_table(write_reviews(folder / "labelled.jsonl"))),
        _task("pairs.tsv", lambda folder: pair_table(write_pairs(folder / "pairs.tsv", pairs_of()[:60]))),
        _task("pairs in two files", _two_sides),
        _task("tagged.conll", lambda folder: tagger_table(write_tags(folder / "tagged.conll"))),
        _task("tagged.conllu", lambda folder: tagger_table(write_tags(folder / "tagged.conllu"))),
        _task("questions.json", lambda folder: answer_table(write_questions(folder / "questions.json", RECORDS[:40]))),
        _task("questions.jsonl", lambda folder: answer_table(write_questions(folder / "questions.jsonl", RECORDS[:40]))),
        _task("captions", lambda folder: caption_table({"path": str(write_captions(folder, 6)), "valid": 0.3})),
        Reader("chats.jsonl", _writes(**{"chats.jsonl": chats}), _chats("chats.jsonl")),
        Reader(
            "chats.parquet",
            _writes(**{"chats.parquet": _parquet({"messages": [json.loads(line)["messages"] for line in chats.splitlines()]})}),
            _chats("chats.parquet"),
        ),
        Reader("word in context", _make_wic, _read_wic),
    ]


def _task(name: str, make: Callable[[Path], Table]) -> Reader:
    """Data as training reads them: with the vocabulary learned, and everything encoded."""

    def write(folder: Path) -> None:
        table = make(folder)
        (folder / ".table").write_text(json.dumps(table).replace(str(folder), "FOLDER"))

    def read(folder: Path) -> object:
        recipe = compose(json.loads((folder / ".table").read_text().replace("FOLDER", str(folder))))
        return recipe.task.read(recipe.tokenizer, silent)

    return Reader(name, write, read)


def _two_sides(folder: Path) -> Table:
    source, target = write_sides(folder, pairs_of()[:60])
    table = pair_table(source)
    table["data"] |= {"target_path": str(target)}
    return table


def _chats(name: str) -> Callable[[Path], object]:
    from firth.text.readers.chat_files import read_conversations
    from firth.text.readers.corpus import find

    return lambda folder: read_conversations(find(str(folder / name)), silent)


def _make_wic(folder: Path) -> None:
    write_wic(folder)


def _read_wic(folder: Path) -> object:
    from firth.text.datasets.wic import read_wic

    return read_wic(folder)


# Word vectors


def _of_vectors() -> list[Reader]:
    formats = {"v.firth": None, "v.bin": None, "v.vec": None, "v.txt": "word2vec", "glove.txt": "glove", "v.bin.gz": None}

    def make(name: str) -> Callable[[Path], None]:
        def write(folder: Path) -> None:
            from firth.vectors.formats import save
            from firth.vectors.wordvectors import WordVectors

            words = sorted({*TEXT.split(), "no\u00a0break", "日本語"})
            drawn = np.random.default_rng(0).normal(size=(len(words), 7)).astype(np.float32)
            vectors = WordVectors(words, drawn, np.arange(len(words), 0, -1))
            plain = folder / name.removesuffix(".gz")
            save(vectors, plain, to=formats[name])  # type: ignore[arg-type]
            if name.endswith(".gz"):
                (folder / name).write_bytes(gzip.compress(plain.read_bytes()))
                plain.unlink()

        return write

    def read(name: str) -> Callable[[Path], object]:
        def used(folder: Path) -> object:
            vectors = firth.vectors.load(folder / name)
            return vectors.most_similar(vectors.words[0], topn=3)

        return used

    of_formats = [Reader(f"vectors {name}", make(name), read(name)) for name in formats]
    pairs = "".join(f"list\tset\t{n / 3:.2f}\n" for n in range(20))
    questions = ": capitals\n" + "a list the set\nname is in the\n" * 5
    from firth.vectors.evaluation import read_pairs, read_questions

    return [
        *of_formats,
        Reader("similarity pairs", _writes(**{"pairs.tsv": pairs}), lambda folder: read_pairs(folder / "pairs.tsv")),
        Reader(
            "analogy questions", _writes(**{"questions.txt": questions}), lambda folder: read_questions(folder / "questions.txt")
        ),
    ]


# Tokenizers, in the run that they belong to


def _language(folder: Path, tokenizer: Table, model: Table | None = None, **training: Any) -> None:
    table: Table = {
        "data": {"text": TEXT[:2000], "valid": 0.1},
        "tokenizer": tokenizer,
        "model": model or {"kind": "gru", "width": 8},
        "training": {"steps": 2, "batch": 2, "context": 8, "device": "cpu", "checkpoint_every": 1, **training},
        "decoding": {"tokens": 5},
    }
    train_recipe(compose(table), folder / "run")


def _without_hash(folder: Path) -> None:
    """As a run was written before weights knew their tokenizer: a changed one is not refused at once."""
    from firth import files

    tensors, metadata = files.load_tensors(folder / "run" / "model.safetensors")
    files.save_tensors(folder / "run" / "model.safetensors", tensors, {key: metadata[key] for key in ("format", "step")})


def _generates(folder: Path) -> object:
    run: Any = firth.load(folder / "run", "cpu")
    run.tokenizer.decode(run.tokenizer.encode("a name is in the set"))
    return run.generate("the list", tokens=5, seed=1), run.score(["the list is empty."])


def _of_tokenizers() -> list[Reader]:
    kinds: dict[str, Table] = {
        "char": {"kind": "char"}, "word": {"kind": "word"}, "bpe": {"kind": "bpe", "vocab": 290},
        "wordpiece": {"kind": "wordpiece", "vocab": 120}, "unigram": {"kind": "unigram", "vocab": 290},
    }  # fmt: skip

    def make(table: Table, hashed: bool) -> Callable[[Path], None]:
        def write(folder: Path) -> None:
            _language(folder, table)
            if not hashed:
                _without_hash(folder)

        return write

    old = [Reader(f"tokenizer {kind}", make(table, False), _generates, ("run/tokenizer.json",)) for kind, table in kinds.items()]
    return [*old, Reader("tokenizer with a hash", make(kinds["word"], True), _generates, ("run/tokenizer.json",))]


# Runs


def _of_runs() -> list[Reader]:
    def gru(folder: Path) -> None:
        _language(folder, {"kind": "char"}, average=0.5)

    def translator(folder: Path) -> None:
        table = pair_table(write_pairs(folder / "pairs.tsv", pairs_of()[:60]), steps=2, evaluate_every=0)
        table["data"] |= {"valid": 0.0}
        train_recipe(compose(table), folder / "run")

    def translates(folder: Path) -> object:
        run: Any = firth.load(folder / "run", "cpu")
        return run.translate(["1 2 3"])

    def resumes(folder: Path) -> object:
        recipe = read_recipe(folder / "run" / "recipe.toml")
        return train_recipe(recipe, folder / "run", resume=True)

    return [
        Reader("run recipe.toml", gru, _generates, ("run/recipe.toml",)),
        Reader("run model.safetensors", gru, _generates, ("run/model.safetensors", "run/format")),
        Reader("run resealed", gru, _generates, ("run/model.safetensors",)),
        Reader("run checkpoints", gru, _without_model, ("run/checkpoints/*",)),
        Reader("run resumed", gru, resumes, ("run/checkpoints/*", "run/log.jsonl", "run/format")),
        Reader("run resumed resealed", gru, resumes, ("run/checkpoints/*",)),
        Reader("run of a translator", translator, translates, ("run/*.json", "run/recipe.toml", "run/model.safetensors")),
        Reader("run log", gru, _reads_log, ("run/log.jsonl",)),
        Reader("recipe", _make_recipe, _read_recipe),
        Reader("adapter", _make_adapter, _read_adapter, ("adapter/*",)),
    ]


def _without_model(folder: Path) -> object:
    (folder / "run" / "model.safetensors").unlink(missing_ok=True)
    return _generates(folder)


def _reads_log(folder: Path) -> object:
    from firth.figures.training import metrics, training_curves
    from firth.training import log

    logs = {"run": log.read(folder / "run" / "log.jsonl")}
    return [training_curves(logs, metric, "step") for metric in metrics(logs)]


def _make_recipe(folder: Path) -> None:
    shipped = Path(firth.__file__).parent / "experiments" / "recipes"
    for name in ("hello", "docs-char-transformer", "multi30k-de-en-rnnsearch", "ewt-pos-transformer", "sst2-pretrained"):
        shutil.copy(shipped / f"{name}.toml", folder)


def _read_recipe(folder: Path) -> object:
    """Each recipe that can be composed is also built, without memory for its weights."""
    for path in sorted(folder.glob("*.toml")):
        recipe = read_recipe(path).resolved()
        with torch.device("meta"):
            recipe.task.network(100, 100)
    return None


def _make_adapter(folder: Path) -> None:
    from firth.models.peft_format import save_adapter

    torch.manual_seed(0)
    network = _adapted()
    save_adapter(network, folder / "adapter", base="base")


def _adapted() -> Any:
    from firth.models.adapters import Lora

    recipe = compose(
        {"data": {"text": "ab"}, "model": {"kind": "transformer", "width": 16, "depth": 1, "heads": 2, "context": 128}}
    )
    network = recipe.task.network(20, 20)
    adapt(network, Lora(2, 2.0, 0.0, ("query", "value")), torch.Generator().manual_seed(0))
    return network


def _read_adapter(folder: Path) -> object:
    from firth.models.peft_format import load_adapter

    return load_adapter(_adapted(), folder / "adapter")


# Caches: whatever is damaged is made again


def _of_caches() -> list[Reader]:
    text = TEXT[:3000]

    def inside(folder: Path, read: Callable[[], Any]) -> Any:
        before = os.environ.get("FIRTH_CACHE")
        os.environ["FIRTH_CACHE"] = str(folder / "cache")
        try:
            return read()
        finally:
            if before is None:
                del os.environ["FIRTH_CACHE"]
            else:
                os.environ["FIRTH_CACHE"] = before

    def tokens(folder: Path) -> list[int]:
        from firth.text.batches.token_files import token_file
        from firth.text.config import TokenizerConfig
        from firth.text.readers.corpus import find, scan
        from firth.text.tokenizers.tokenizer import Tokenizer

        corpus = find(str(folder / "text.txt"))
        seen = scan(corpus)
        tokenizer = Tokenizer.train(TokenizerConfig(kind="char"), corpus.pieces(), seen.documents, seen.counts)
        return token_file(corpus, seen, 0, seen.characters, tokenizer).ids.tolist()

    def words(folder: Path) -> list[int]:
        from firth.vectors.encoding import encoded

        read = encoded(str(folder / "text.txt"))
        return [*read.ids.tolist(), *read.ends.tolist(), *map(len, read.vocabulary.words)]

    def make(read: Callable[[Path], list[int]]) -> Callable[[Path], None]:
        def write(folder: Path) -> None:
            (folder / "text.txt").write_text(text, encoding="utf-8")
            os.utime(folder / "text.txt", (1e9, 1e9))
            inside(folder, lambda: read(folder))

        return write

    def again(read: Callable[[Path], list[int]]) -> Callable[[Path], object]:
        def used(folder: Path) -> object:
            os.utime(folder / "text.txt", (1e9, 1e9))
            return inside(folder, lambda: read(folder))

        return used

    return [
        Reader("token cache", make(tokens), again(tokens), ("cache/*",)),
        Reader("word cache", make(words), again(words), ("cache/*",)),
    ]


# Models of others


def _of_foreign() -> list[Reader]:
    def hugging_face(folder: Path) -> None:
        from foreign_folders import llama, saved

        saved(folder / "hf", llama(), max_shard_size="20KB")

    def loads(folder: Path) -> object:
        run: Any = firth.load(folder / "hf", "cpu")
        return run.generate("The list", tokens=3, seed=0)

    def encoder(folder: Path) -> None:
        from foreign_encoders import BERT, built
        from foreign_encoders import saved as kept

        kept(folder / "hf", built("Bert", "ForMaskedLM", **BERT))

    def fills(folder: Path) -> object:
        return firth.load(folder / "hf", "cpu").embed(["The list is empty."])

    def gguf(folder: Path) -> None:
        from foreign_folders import byte_level, llama
        from gguf_files import written

        written(folder / "model.gguf", llama(), byte_level(begin=True))

    def loads_gguf(folder: Path) -> object:
        run: Any = firth.load(folder / "model.gguf", "cpu")
        return run.generate("The list", tokens=3, seed=0)

    def byte_pairs(folder: Path) -> None:
        from foreign_folders import byte_level, gpt2, saved

        saved(folder / "hf", gpt2(), byte_level())
        byte_level().model.save(str(folder / "hf"))
        (folder / "hf" / "tokenizer.json").unlink()

    def imported(folder: Path) -> None:
        from foreign_folders import llama, saved

        saved(folder / "hf", llama())
        firth.api.import_model(folder / "hf", folder / "run")
        shutil.rmtree(folder / "hf")

    tokens = ("hf/tokenizer.json", "hf/tokenizer_config.json")
    configs = ("hf/config.json", "hf/generation_config.json", "hf/model.safetensors.index.json")
    return [
        Reader("hugging face config", hugging_face, loads, configs),
        Reader("hugging face tokenizer", hugging_face, loads, tokens),
        Reader("hugging face weights", hugging_face, loads, ("hf/*.safetensors",)),
        Reader("hugging face encoder", encoder, fills, ("hf/*",)),
        Reader("vocab.json and merges.txt", byte_pairs, loads, ("hf/vocab.json", "hf/merges.txt", "hf/*config.json")),
        Reader("imported run", imported, _generates, ("run/*.json", "run/recipe.toml")),
        Reader("gguf", gguf, loads_gguf),
    ]


# The rest


def _of_the_rest() -> list[Reader]:
    template = "{% for message in messages %}{{ message.role }}: {{ message.content }}\n{% endfor %}"

    def renders(folder: Path) -> object:
        from firth.text.chat_template import read_template
        from firth.text.conversation import Message

        read = read_template(folder / next(iter(folder.glob("[!.]*"))).name)
        return read.render([Message("user", "Hi")], answer_next=True)

    def keys(folder: Path) -> object:
        from firth.serving.http.keys import read_keys

        return read_keys(folder / "keys")

    def lines(folder: Path) -> object:
        from firth.cli.lines import given

        return list(given(None, folder / "lines.txt"))

    def continues(folder: Path) -> object:
        from firth.cli.resumable_output import ResumableOutput

        with ResumableOutput(folder / "out.txt", {"beam": 4}, resume=True) as output:
            output.write("three\n")
        return None

    def make_index(folder: Path) -> None:
        (folder / "documents.txt").write_text(TEXT[:1500], encoding="utf-8")
        firth.search.build(folder / "documents.txt", file=folder / "documents.index")

    def searches(folder: Path) -> object:
        return firth.search.build(folder / "documents.txt", file=folder / "documents.index").search("a list")

    def table(folder: Path) -> object:
        from firth.inspection.playground import of_table, read_table

        return of_table(read_table((folder / "table.txt").read_text(encoding="utf-8", errors="replace")), "Tom")

    return [
        Reader("chat template", _writes(**{"template.jinja": template}), renders),
        Reader("chat template in JSON", _writes(**{"tokenizer_config.json": json.dumps({"chat_template": template})}), renders),
        Reader("keys of the server", _writes(keys="# one\n" + "k" * 40 + "\n" + "m" * 30 + "\n"), keys),
        Reader("lines", _writes(**{"lines.txt": TEXT[:800]}), lines),
        Reader(
            "unfinished output",
            _writes(**{"out.txt.part": "one\ntwo\nthr", "out.txt.part.json": json.dumps({"beam": 4})}),
            continues,
        ),
        Reader("search index", make_index, searches),
        Reader("playground table", _writes(**{"table.txt": "Tom → teacher\nAnn → pilot\nBob = cook\n"}), table),
    ]
