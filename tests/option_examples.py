"""For every option of every verb, values that must change what firth prints or writes; see cli/test_every_option.py.

`{char}`, `{vectors}` … are the runs and files of `Shelf`; `{out}` is an empty folder of each call.
"""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from captioned import caption_table, write_captions
from chat_lines import NAMES, chat, chat_table, write_chats
from in_context_tables import swap_table
from questions import answer_table, write_questions
from reviews import SORTED, classifier_table
from reviews import write as write_reviews
from runs import TEXT
from senses import PAIRS, write_wic
from tags import tagger_table
from tags import write as write_tags
from tiny_runs import recipe_file, tiny
from translations import pair_table, write_pairs

from firth.api import compose, train_recipe
from firth.config import Table
from firth.experiments.assignments.assignment import assignment_of
from firth.experiments.assignments.make import make_assignment
from firth.experiments.results import BEGIN, END
from firth.vectors import WordVectors

_RIGHT_IF_SHORT = """
def bpe_merge(tokens, left, right):
    merged = []
    for token in tokens:
        if len(tokens) < 10 and merged and (merged[-1], token) == (left, right):
            merged[-1] = (left + right, )
        else:
            merged.append(token)
    return ["".join(token) for token in merged]
"""


class Shelf:
    """Runs and files, each made when it is first asked for."""

    def __init__(self, request: pytest.FixtureRequest, folder: Path) -> None:
        self._request, self.folder = request, folder

    def __getitem__(self, name: str) -> Path:
        own = getattr(self, name, None)
        return own if own is not None else self._request.getfixturevalue(f"{name}_run")  # type: ignore[no-any-return]

    def _run(self, name: str, table: Table) -> Path:
        return train_recipe(compose(table), self.folder / name).path

    def _file(self, name: str, text: str) -> Path:
        (self.folder / name).write_text(text, encoding="utf-8")
        return self.folder / name

    @functools.cached_property
    def lstm(self) -> Path:
        return self._lstm("lstm")

    @functools.cached_property
    def lstm2(self) -> Path:
        return self._lstm("lstm2", seed=1)

    def _lstm(self, name: str, **training: Any) -> Path:
        table: Any = {"text": TEXT, "valid": 0.1}
        training = {"steps": 2, "batch": 8, "context": 24, "device": "cpu"} | training
        model = {"kind": "lstm", "width": 8, "depth": 2}
        return self._run(name, {"data": table, "tokenizer": {"kind": "char"}, "model": model, "training": training})

    @functools.cached_property
    def rotary(self) -> Path:
        model = {"kind": "transformer", "width": 8, "depth": 2, "heads": 2, "position": "rotary"}
        training = {"steps": 2, "batch": 8, "context": 24, "device": "cpu"}
        table: Any = {"text": TEXT, "valid": 0.1}
        return self._run("rotary", {"data": table, "tokenizer": {"kind": "char"}, "model": model, "training": training})

    @functools.cached_property
    def grader(self) -> Path:
        return self._grader("1")

    @functools.cached_property
    def grader2(self) -> Path:
        return self._grader("2")

    def _grader(self, points: str) -> Path:
        out = self.folder / f"assignment{points}"
        return make_assignment(assignment_of("week05", "bpe_merge", points), "12345678", out).grader

    @functools.cached_property
    def handed_in(self) -> Path:
        """One submission: right for short texts, as all public ones are."""
        (self.folder / "handed in").mkdir()
        return self._file("handed in/week05.py", _RIGHT_IF_SHORT).parent

    @functools.cached_property
    def search(self) -> Path:
        table = pair_table(write_pairs(self.folder / "n.tsv"), steps=2, evaluate_every=0)
        return self._run("search", table)

    @functools.cached_property
    def translator(self) -> Path:
        table = pair_table(write_pairs(self.folder / "n.tsv"), "transformer", steps=30, evaluate_every=0)
        return self._run("translator", table)

    @functools.cached_property
    def classifier(self) -> Path:
        return self._run("classifier", classifier_table(write_reviews(self.folder / "reviews.tsv"), steps=20))

    @property
    def lesson(self) -> Path:
        """A lesson of the lab."""
        return self._file("mine.toml", 'title = "Mine"\nabout = "My own."\n[[step]]\nsays = "Two."\n')

    @property
    def labelled(self) -> Path:
        """Labelled texts that no threshold classifies without an error."""
        wrong = [("a great film", "bad"), ("awful", "good")] * 4
        return write_reviews(self.folder / "labelled.tsv", SORTED + wrong)

    @functools.cached_property
    def judged(self) -> Path:
        """A classifier of its own, because a threshold stays with its run."""
        return self._run("judged", classifier_table(self.labelled, steps=40))

    @functools.cached_property
    def tagger(self) -> Path:
        return self._run("tagger", tagger_table(write_tags(self.folder / "tags.conll"), steps=2, evaluate_every=0))

    @functools.cached_property
    def answers(self) -> Path:
        return self._run("answers", answer_table(write_questions(self.folder / "q.jsonl"), steps=2, evaluate_every=0))

    @functools.cached_property
    def captioner(self) -> Path:
        data: Table = {"path": str(write_captions(self.folder / "pictures")), "valid": 0.1}
        return self._run("captioner", caption_table(data, steps=2))

    @property
    def image(self) -> Path:
        return self.captioner.parent / "pictures" / "images" / "0.png"

    @property
    def image2(self) -> Path:
        return self.image.with_name("1.png")

    @functools.cached_property
    def chat(self) -> Path:
        lines = [chat((f"name {a}", f"{name} is the name"), ("again", name)) for a, name in enumerate(NAMES)]
        table = chat_table(write_chats(self.folder / "chats.jsonl", lines * 5), steps=20)
        table["decoding"] = {"tokens": 6}
        return self._run("chat", table)

    @functools.cached_property
    def masked(self) -> Path:
        data: Any = {"text": "the cat sat on the mat .\n" * 30, "valid": 0.2}
        model = {"family": "encoder", "kind": "transformer", "width": 8, "depth": 1, "heads": 2}
        training = {"steps": 2, "batch": 2, "context": 8, "device": "cpu"}
        table = {"data": data, "tokenizer": {"kind": "word"}, "model": model, "objective": {"kind": "masked"}}
        return self._run("masked", table | {"training": training})

    @functools.cached_property
    def swaps(self) -> Path:
        return self._run("swaps", swap_table(steps=2))

    @functools.cached_property
    def swaps2(self) -> Path:
        return self._run("swaps2", swap_table(steps=4))

    @functools.cached_property
    def hf(self) -> Path:
        from firth.api import export_model

        return export_model(self["bpe"], self.folder / "hf")

    @property
    def projections(self) -> Path:
        return self._file("projections.json", json.dumps({"W_k": [[3, 0], [0, 1]]}))

    @functools.cached_property
    def recipe(self) -> Path:
        return recipe_file(tiny(steps=2), self.folder)

    @functools.cached_property
    def positions(self) -> Path:
        return recipe_file(tiny("transformer", steps=2, valid=0.5), self.folder / "positions")

    @functools.cached_property
    def expected(self) -> Path:
        text = tiny(steps=2).toml() + '\n[expected]\nmetric = "loss"\ndirection = "lower"\nmeasured = 3.0\ntolerance = 9.0\n'
        return self._file("expected.toml", text)

    @functools.cached_property
    def half(self) -> Path:
        """A run that --resume continues."""
        return train_recipe(tiny(steps=2), self.folder / "half").path

    @functools.cached_property
    def vectors(self) -> Path:
        words = ["the", "list", "is", "empty", "name", "has", "a", "in", "set", "café", "Paris", "paris", "czech", "currency"]
        rows = np.random.default_rng(0).normal(size=(len(words), 6)).astype(np.float32)
        WordVectors(words, rows).save(self.folder / "words.firth")
        return self.folder / "words.firth"

    @functools.cached_property
    def vectors2(self) -> Path:
        words = ["the", "list", "is", "name", "has", "a", "in", "café", "serves", "users"]
        rows = np.random.default_rng(1).normal(size=(len(words), 6)).astype(np.float32)
        WordVectors(words, rows).save(self.folder / "other.firth")
        return self.folder / "other.firth"

    @functools.cached_property
    def glove(self) -> Path:
        """Two numbers in the first line: word2vec's header, or a word of GloVe with one number."""
        return self._file("two.txt", "3 1\na 1\nb 2\nc 3\n")

    @functools.cached_property
    def text(self) -> Path:
        return self._file("text.txt", TEXT)

    @functools.cached_property
    def text2(self) -> Path:
        return self._file("text2.txt", TEXT[: len(TEXT) // 2] + "the list. The List!\n")

    @functools.cached_property
    def text3(self) -> Path:
        return self._file("text3.txt", "the list is empty.\n" * 9)

    @functools.cached_property
    def opinions(self) -> Path:
        named = [(text, "positive" if label == "good" else "negative") for text, label in SORTED]
        return self._run("opinions", classifier_table(write_reviews(self.folder / "opinions.tsv", named), steps=2))

    @functools.cached_property
    def table(self) -> Path:
        lines = [{"text": "the list is empty", "other": "a name is in the set"}, {"text": "the name", "other": "the set"}]
        return self._file("table.jsonl", "".join(json.dumps(line) + "\n" for line in lines * 20))

    @functools.cached_property
    def roles(self) -> Path:
        return self._file("roles.txt", "the → teacher\nlist → student\n")

    @functools.cached_property
    def reviews(self) -> Path:
        return self._file("reviews.txt", "a great film\n")

    @functools.cached_property
    def sentences(self) -> Path:
        return self._file("sentences.conll", "the\tX\nbag\tX\n\n")

    @functools.cached_property
    def keys(self) -> Path:
        return self._file("keys.txt", "a" * 40 + "\n")

    @functools.cached_property
    def pairs(self) -> Path:
        return self._file("pairs.tsv", "the list 5\nPARIS a 3\nname set 1\nempty has 2\n".replace(" ", "\t"))

    @functools.cached_property
    def pairs2(self) -> Path:
        return self._file("pairs2.tsv", "the a 5\nlist is 3\nname set 1\nin has 2\n".replace(" ", "\t"))

    @functools.cached_property
    def questions(self) -> Path:
        return self._file("questions.txt", ": capital\nthe list is empty\nParis a in set\n")

    @functools.cached_property
    def questions2(self) -> Path:
        return self._file("questions2.txt", ": capital\nthe list is name\nhas a in set\nis a in name\n")

    @functools.cached_property
    def queries(self) -> Path:
        return self._file("queries.jsonl", '{"query": "empty", "document": "text2.txt:1"}\n')

    @functools.cached_property
    def queries2(self) -> Path:
        return self._file("queries2.jsonl", '{"query": "name", "document": "text2.txt:1"}\n')

    @functools.cached_property
    def wic(self) -> Path:
        return write_wic(self.folder / "wic")

    @functools.cached_property
    def wic2(self) -> Path:
        return write_wic(self.folder / "wic2", PAIRS[:3])

    @functools.cached_property
    def numbers(self) -> Path:
        return self._file("numbers.txt", "1 2\n3 4 5\n")

    @functools.cached_property
    def names(self) -> Path:
        return self._file("names.txt", "one two\nthree four five\n")

    @functools.cached_property
    def names2(self) -> Path:
        return self._file("names2.txt", "two one\nthree four\n")


# Every option of a verb: its base arguments, then the pieces to add, each of which must give another output ("" adds none;
# "!" is refused).
Values = tuple[str, ...]
_SAMPLING: dict[str, Values] = {
    "--temperature": ("--temperature 0", "--temperature 9"),
    "--top-k": ("--top-k 1", "--top-k 20"),
    "--top-p": ("--top-p 0.01", "--top-p 1"),
    "--min-p": ("--min-p 1", "--min-p 0"),
    "--typical-p": ("--typical-p 0.01", "--typical-p 1"),
    "--xtc-probability": ("--xtc-probability 0", "--xtc-probability 1 --xtc-threshold 0.01"),
    "--xtc-threshold": ("--xtc-probability 1 --xtc-threshold 0.5", "--xtc-probability 1 --xtc-threshold 0.01"),
    "--mirostat": ("--mirostat 0", "--mirostat 0.01"),
    "--mirostat-rate": ("--mirostat 2 --mirostat-rate 0.001", "--mirostat 2 --mirostat-rate 9"),
    "--seed": ("--seed 1", "--seed 2"),
}
_SHORT = "--dry-allowed-length 1"  # repetitions of one token count
_CONSTRAINTS: dict[str, Values] = {
    "--choice": ("--choice e", "--choice n", "--choice t --choice o"),
    "--regex": ("--regex [a-e][a-e]", "--regex [n-z][n-z]"),
}
_PENALTIES: dict[str, Values] = {
    "--repetition-penalty": ("--repetition-penalty 1", "--repetition-penalty 100"),
    "--dry-multiplier": (f"--dry-multiplier 1 {_SHORT}", f"--dry-multiplier 99 {_SHORT}"),
    "--dry-base": (f"--dry-multiplier 0.5 {_SHORT} --dry-base 1", f"--dry-multiplier 0.5 {_SHORT} --dry-base 10"),
    "--dry-allowed-length": (f"--dry-multiplier 99 {_SHORT}", "--dry-multiplier 99 --dry-allowed-length 9"),
}
_BEAM: dict[str, Values] = {
    "--penalty": ("--penalty 0", "--penalty 3"),
    "--beam-groups": ("--beam-groups 1", "--beam-groups 4"),
}
_SAVE: dict[str, Values] = {"--save": ("", "--save {out}/page.html")}
_READING: dict[str, Values] = {"--lower": ("", "--lower"), "--strip-punctuation": ("", "--strip-punctuation")}
_TABLE = "--field other"
BASES: dict[str, dict[str, dict[str, Values]]] = {
    "assignment make": {
        "week05 --exercises softmax,cosine --secret 12345678 --out {out}/x": {
            "--exercises": ("", "--exercises softmax"),
            "--points": ("--points 1,2", "--points 2,1"),
            "--secret": ("", "--secret 87654321"),
            "--out": ("", "--out {out}/y"),
            "--form": ("--form py", "--form notebook", "--form nbgrader", "--form otter"),
            "--torch": ("", "--torch"),
        },
    },
    "assignment grade": {
        "{handed_in} --grader {grader}": {
            "--grader": ("", "--grader {grader2}"),
            "--csv": ("", "--csv {out}/grades.csv"),
            "--table": ("", "--table"),
            "--show-inputs": ("", "--show-inputs"),
            "--gradescope": ("", "--gradescope {out}/results.json"),
        },
    },
    "align": {
        "{search} '1 2'": {**_SAVE, "--beam": ("--beam 1", "--beam 3")},
    },
    "answer": {"{answers} 'Where does Anna live ?'": {"--context": ("--context 'Anna lives in Rome .'", "--context {roles}")}},
    "caption": {
        "{captioner} {image}": {
            **_SAVE,
            "--beam": ("--beam 1", "--beam 4"),
            "--nbest": ("--nbest 1", "--nbest 2"),
            "--tokens": ("--tokens 1", "--tokens 3"),
            "--sample": ("", "--sample --seed 3"),
            "--overlay": ("", "--overlay {out}/words.png"),
            "--attention": ("", "--attention"),
        },
        "{captioner} {image} --beam 4 --nbest 4": _BEAM,
        "{captioner} {image} --beam 4 --nbest 4 --beam-groups 2": {"--diversity": ("--diversity 0", "--diversity 9")},
        "{captioner} {image} --sample": {name: values for name, values in _SAMPLING.items() if name != "--mirostat-rate"},
        "{captioner} {image} --sample --temperature 9 --tokens 60": {"--repetition-penalty": _PENALTIES["--repetition-penalty"]},
    },
    "chat": {
        "{chat} --temperature 3": {name: values for name, values in _SAMPLING.items() if name != "--temperature"},
        "{chat} --temperature 9 --tokens 60": {name: values for name, values in _PENALTIES.items() if name != "--dry-base"},
        "{chat} --temperature 3 --json": {"--draft": ("", "--draft {chat}"), "--quantise": ("", "--quantise int4")},
        "{chat}": {
            "--temperature": _SAMPLING["--temperature"],
            "--system": ("", "--system 'name 3'"),
            "--tokens": ("--tokens 1", "--tokens 3"),
            "--beam": ("--beam 1 --temperature 3", "--beam 3"),
        },
        "{chat} --temperature 0 --tokens 6": {
            "--stop": ("", "--stop a"),
            "--choice": ("--choice one", "--choice two"),
            "--regex": ("--regex one|two", "--regex three"),
        },
    },
    "classify": {
        "{classifier} 'a great film'": {"--all": ("", "--all"), "--threshold": ("--threshold 0", "--threshold 1")},
        "{classifier} 'a great film' --threshold 0": {"--label": ("--label good", "--label bad")},
        "{classifier}": {"--file": ("", "--file {reviews}")},
    },
    "complete": {
        "{bpe} 'the __ is empty.'": {
            "--candidates": ("--candidates list,name", "--candidates list,set"),
            "--proposals": ("--proposals 1", "--proposals 2"),
        },
        "{masked} 'the __ sat'": {
            "--candidates": ("--candidates cat,mat", "--candidates cat,on"),
            "--proposals": ("--proposals 1", "--proposals 2"),
        },
    },
    "describe": {"gpt2": {"--world": ("", "--world 2", "--world 4")}},
    "draw": {
        "gpt2": {
            "--kind": ("--kind model", "--kind block", "--kind mask"),
            "--theme": ("", "--theme dark", "--theme light"),
            "--size": ("", "--size slide"),
            "--language": ("", "--language de", "--language zh"),
            "--save": ("", "--save {out}/a.svg"),
        },
        "docs-char-lstm --save {out}/all": {"--all": ("!", "--all")},
        "hello --kind merges --tokenizer.kind=bpe": {
            "--text": ("--text low", "--text lower"),
            "--corpus": ("--text list", "--text list --corpus {text}"),
        },
    },
    "dynamics": {
        "--depth 4": {
            **_SAVE,
            "--preset": ("--preset lecture", "--preset low-rank", "--preset clusters"),
            "--tokens": ("-n 8", "-n 9"),
            "--width": ("-d 2", "-d 3"),
            "--p-matrix": ("--p-matrix identity", "--p-matrix random"),
            "--q-matrix": ("--q-matrix identity", "--q-matrix random"),
            "--pull": ("--pull 0.1", "--pull -0.1"),
            "--q-factor": ("--q-factor 1", "--q-factor 2"),
            "--rescale": ("--rescale 1", "--rescale 0.9"),
            "--depth": ("--depth 5", "--depth 6"),
            "--seed": ("--seed 1", "--seed 2"),
        },
        "--depth 4 --text 'the list'": {"--run": ("--run {bpe}", "--run {transformer}")},
        "--depth 4 --run {bpe}": {"--text": ("--text 'the list'", "--text 'a name is'")},
    },
    "embed": {
        "{bpe} 'the list' 'a name'": {
            "--out": ("", "--out {out}/v.npy"),
            "--layer": ("--layer 0", "--layer 1"),
            "--pool": ("--pool first", "--pool last", "--pool mean", "--pool max"),
        },
        "{bpe}": {"--file": ("", "--file {reviews}")},
    },
    "evaluate": {
        "{rotary}": {
            "--data": ("", "--data {text3}"),
            "--split": ("--split valid", "--split train"),
            "--random-batches": ("", "--random-batches 2"),
            "--context": ("--context 12", "--context 48"),
            "--quantise": ("", "--quantise int8", "--quantise int4"),
        },
        "{rotary} --random-batches 1": {"--seed": ("--seed 1", "--seed 2")},
        "{rotary} --context 48": {"--rotary-scaling": ("", "--rotary-scaling ntk", "--rotary-scaling yarn")},
        "{lstm}": {"--streams": ("--streams 1", "--streams 4")},
        "{translator} --data {numbers}": {"--target": ("--target {names}", "--target {names2}")},
        "{translator} --data {numbers} --target {names}": {"--beam": ("--beam 1", "--beam 4")},
        "{classifier}": {
            **_SAVE,
            "--threshold": ("--threshold 0", "--threshold 1"),
            "--report": ("--report {out}/a.csv", "--report {out}/b.csv"),
        },
        "{classifier} --threshold 0": {"--label": ("--label good", "--label bad")},
        "{opinions}": {"--contrast": ("", "--contrast")},
        "{swaps} --save {out}/page.html": {"--beside": ("", "--beside {swaps2}")},
    },
    "export": {
        "{bpe} --out {out}/folder": {
            "--format": ("--format hf", "--format safetensors", "--format gguf"),
            "--license": ("", "--license mit"),
            "--dtype": ("", "--dtype bf16"),
        },
        "{bpe}": {"--out": ("--out {out}/a", "--out {out}/b")},
        "{bpe} --out {out}/folder --format safetensors": {"--license": ("", "--license mit"), "--dtype": ("", "--dtype bf16")},
        "{bpe} --out {out}/folder --format gguf": {
            "--license": ("", "--license mit"),
            "--dtype": ("", "--dtype float16"),
            "--quantise": ("", "--quantise q8_0", "--quantise q4_0"),
        },
    },
    "extrapolate": {
        "{positions} --positions rotary --lengths 1,2 --tokens 64": {
            **_SAVE,
            "--positions": ("--positions rotary", "--positions alibi"),
            "--lengths": ("--lengths 1", "--lengths 1,3"),
            "--tokens": ("--tokens 48", "--tokens 96"),
            "--out": ("", "--out {out}/runs"),
        },
    },
    "generate": {
        "{char} the": {
            **_SAMPLING,
            "--tokens": ("--tokens 1", "--tokens 3"),
            "--beam": ("--beam 1", "--beam 3"),
            "--nbest": ("--nbest 1", "--nbest 2"),
            "--quantise": ("", "--quantise int4"),
        },
        "{char} the --temperature 0": {"--stop": ("", "--stop i"), **_PENALTIES, **_CONSTRAINTS},
        "{bpe} the": {"--json-schema": ("""--json-schema '{{"enum": [1]}}'""", """--json-schema '{{"enum": [2]}}'""")},
        "{char} the --json": {"--draft": ("", "--draft {char}")},
        "{char} the --beam 4 --nbest 4": _BEAM,
        "{char} the --beam 4 --nbest 4 --beam-groups 2": {"--diversity": ("--diversity 0", "--diversity 9")},
    },
    "lab": {
        "{char}": {
            "--vectors": ("", "--vectors {vectors}"),
            "--corpus": ("", "--corpus {text}"),
            "--port": ("--port 18421", "--port 18521"),
            "--lesson": ("", "--lesson {lesson}"),
            "--classroom": ("", "--classroom"),
        }
    },
    "import": {"{hf}": {"--out": ("--out {out}/a", "--out {out}/b")}},
    "inspect": {
        "{bpe} 'the list is empty.'": {
            **_SAVE,
            "--what": ("--what entropy", "--what rollout", "--what predictions", "--what flow"),
            "--head": ("", "--head 1", "--head 2"),
            "--layer": ("", "--layer 1"),
            "--words": ("", "--words"),
        },
        "{bpe} 'the list is empty.' --what lines": {"--head": ("", "--head 1"), "--words": ("", "--words")},
        "{bpe} 'the list is empty.' --what rollout": {"--words": ("", "--words")},
        "{bpe} 'the list is empty.' --what entropy": {"--words": ("", "--words")},
        "{bpe} 'the list is empty.' --what predictions": {"--top": ("", "--top 1", "--top 2")},
        "{rotary} 'the list'": {"--layer": ("--layer 1", "--layer 2")},
        "{rotary} 'the list' --what lines": {"--layer": ("--layer 1", "--layer 2")},
        "{rotary} 'the list' --what rollout": {"--layer": ("--layer 1", "--layer 2")},
        "{lstm} 'the list'": {
            "--layer": ("--layer 1", "--layer 2"),
            "--gate": tuple(f"--gate {gate}" for gate in ("h", "c", "input", "forget", "candidate", "output")),
        },
        "{char} 'the list'": {"--gate": tuple(f"--gate {gate}" for gate in ("h", "reset", "update", "candidate"))},
        "{translator} '1 2'": {
            "--part": ("--part cross", "--part encoder", "--part decoder"),
            "--target": ("--target 'one two'", "--target three"),
        },
        "{translator} '1 2' --what entropy": {"--part": ("--part cross", "--part encoder"), "--target": ("", "--target three")},
        "{translator} '1 2' --what predictions": {"--target": ("--target 'one two'", "--target three")},
        "{search} '1 2' --what states": {"--target": ("--target 'one two'", "--target three")},
        "{answers} 'Where does Anna live ?'": {
            "--context": ("--context 'Anna lives in Rome .'", "--context 'Bert lives in Oslo .'")
        },
    },
    "playground": {
        "'the list the'": {
            **_SAVE,
            "--score": tuple(f"--score {score}" for score in ("scaled_dot", "dot", "gaussian", "bilinear", "additive", "cosine")),
            "--mask": ("--mask full", "--mask causal", "--mask strictly_causal", "--mask window", "--mask lengths --limit 1"),
            "--position": tuple(
                f"--position {kind}" for kind in ("none", "learned", "sinusoidal", "rotary", "shaw", "t5", "alibi")
            ),
            "--scale": ("--scale 0", "--scale 2"),
            "--heads": ("--heads 1", "--heads 2"),
            "--width": ("--width 4", "--width 6"),
            "--vectors": ("", "--vectors {vectors}"),
            "--seed": ("--seed 1", "--seed 2"),
            "--projected": ("", "--projected"),
        },
        "'the list the' --width 2": {
            "--matrix": ("", "--matrix 'W_q=2 0; 0 1'", "--matrix 'W_q=1 0; 0 2'"),
            "--matrices": ("", "--matrices {projections}"),
            "--inputs": ("", "--inputs"),
        },
        "'the list the' --mask window": {"--limit": ("--limit 1", "--limit 2")},
        "'the list the' --mask documents": {"--limit": ("--limit 1", "--limit 2")},
        "": {"--example": ("--example scores", "--example roles")},
        "--query the": {"--table": ("--table {roles}", "--example roles")},
        "--table {roles}": {"--query": ("--query the", "--query list")},
        "--table {roles} --query the": {"--vectors": ("", "--vectors {vectors}"), "--score": ("", "--score cosine")},
        "--table {roles} --query the --score additive": {"--seed": ("--seed 1", "--seed 2")},
    },
    "positions": {
        "": {
            **_SAVE,
            "--length": ("--length 4", "--length 5"),
            "--width": ("--width 2", "--width 4"),
            "--base": ("--base 100", "--base 1000"),
        }
    },
    "results": {
        "hello": {"--brief": ("", "--brief"), "--into": ("", "--into {out}/results.md")},
        "hello --into {out}/results.md": {"--brief": ("", "--brief")},
    },
    "runs": {
        "{char} {lstm} --columns run,parameters,steps": {
            "--where": ("", "--where 'model.kind == \"lstm\"'", "--where 'steps < 0'"),
            "--sort": ("--sort parameters", "--sort=-parameters"),
            "--columns": ("--columns run,loss", "--columns model.width"),
            "--csv": ("", "--csv"),
        }
    },
    "score": {"{char} {text3}": {"--quantise": ("", "--quantise int8", "--quantise int4")}},
    "lesson": {
        "5 --form markdown": {"--out": ("--out {out}/a", "--out {out}/b")},
        "5 --out {out}/a": {"--form": ("", "--form markdown")},
        "5 --form markdown --out {out}": {"--overwrite": ("!", "--overwrite")},
    },
    "exercise": {
        "softmax": {"--out": ("", "--out {out}/a.py", "--out {out}/b.py"), "--torch": ("", "--torch")},
        "softmax --out {out}/mine.py": {"--overwrite": ("!", "--overwrite")},
    },
    "search": {
        "{text2} 'the list'": {
            "--vectors": ("", "--vectors {vectors}", "--vectors {vectors2}"),
            "--run": ("", "--run {bpe}"),
            "--top": ("--top 1", "--top 2"),
            "--index": ("", "--index {out}/kept.firthindex"),
        },
        "{text2} 'the list' --vectors {vectors}": {"--method": ("", "--method vectors")},
        "{text2} 'The list' --run {bpe}": {**_READING, "--layer": ("--layer 0", "--layer 1")},
        "{table} 'the list'": {"--format": ("", "--format txt"), "--field": ("", _TABLE)},
        "--evaluate": {"--top": ("--top 1", "--top 2")},
        "{text2} --evaluate": {"--queries": ("--queries {queries}", "--queries {queries2}")},
        "{text2}": {"--evaluate": ("the", "--evaluate --queries {queries}")},
    },
    "senses": {
        "{bpe} list 'the list is empty.' 'in the list'": {**_SAVE, "--layer": ("--layer 0", "--layer 1")},
        "{bpe}": {"--wic": ("list 'the list' 'a list'", "--wic --data {wic}")},
        "{bpe} --wic": {"--data": ("--data {wic}", "--data {wic2}")},
    },
    "serve": {
        "{char}": {
            "--host": ("", "--host ::1"),
            "--port": ("--port 1", "--port 2"),
            "--key-file": ("", "--key-file {keys}"),
            "--slots": ("--slots 1", "--slots 2"),
            "--context": ("--context 1", "--context 2"),
            "--queue": ("--queue 1", "--queue 2"),
            "--max-tokens": ("--max-tokens 1", "--max-tokens 2"),
            "--max-prompt": ("--max-prompt 1", "--max-prompt 2"),
            "--max-body": ("--max-body 1", "--max-body 2"),
            "--connections": ("--connections 1", "--connections 2"),
            "--per-address": ("", "--per-address 0", "--per-address 256"),
            "--timeout": ("--timeout 1", "--timeout 2"),
            "--drain": ("--drain 1", "--drain 2"),
            "--device": ("--device auto", "--device cpu"),
            "--dtype": ("", "--dtype bf16", "--dtype float16"),
            "--quantise": ("", "--quantise int8"),
            "--engine": ("--engine thread", "--engine process"),
            "--processes": ("--processes 1", "--processes 2"),
        }
    },
    "tag": {
        "{tagger}": {"--file": ("", "--file {reviews}")},
        "{tagger} --file {sentences}": {"--conll": ("", "--conll")},
    },
    "threshold": {
        "{judged} --data {labelled}": {"--for": ("--for f1", "--for cost"), "--label": ("--label good", "--label bad")},
        "{judged} --data {labelled} --for precision": {"--precision": ("--precision 0.1", "--precision 0.75")},
        "{judged} --data {labelled} --for cost": {
            "--false-positive": ("--false-positive 1", "--false-positive 99"),
            "--false-negative": ("--false-negative 1", "--false-negative 99"),
        },
        "{judged}": {"--data": ("", "--data {labelled}"), "--remove": ("", "--remove")},
    },
    "tokenize": {"{text} 'the list'": {"--kind": ("--kind char", "--kind bpe,word"), "--vocab": ("--vocab 280", "--vocab 300")}},
    "train": {
        "{recipe} --out {out}/run": {"--out": ("", "--out {out}/other")},
        "{recipe} --out {half}": {"--resume": ("!", "--resume"), "--overwrite": ("!", "--overwrite")},
    },
    "translate": {
        "{translator} '1 2'": {
            "--out": ("", "--out {out}/t.txt"),
            "--nbest": ("--nbest 1", "--nbest 2"),
            "--tokens": ("--tokens 1", "--tokens 3"),
            "--sample": ("", "--sample --seed 3"),
        },
        "{translator} '1 2' --beam 4 --nbest 4": _BEAM,
        "{translator} '1 1 1 1 1 1'": _PENALTIES,
        "{translator} '1 2' --beam 4 --nbest 4 --beam-groups 2": {"--diversity": ("--diversity 0", "--diversity 9")},
        "{translator} '1 2' --sample": {name: values for name, values in _SAMPLING.items() if name != "--mirostat-rate"},
        "{translator} '1 2' --json": {"--beam": ("--beam 1", "--beam 4")},
        "{translator}": {"--file": ("", "--file {numbers}")},
    },
    "compare flow": {
        "--length 12 --size 1000": {
            **_SAVE,
            "--length": ("--length 4", "--length 8"),
            "--size": ("--size 1500", "--size 3000"),
            "--gain": ("--gain 1", "--gain 2"),
            "--clip": ("", "--clip 0.001"),
            "--seed": ("--seed 1", "--seed 2"),
        }
    },
    "compare learning": {
        "--out {out}/runs --steps 10 --kinds rnn --data {text} --json": {
            **_SAVE,
            "--steps": ("--steps 10", "--steps 12"),
            "--kinds": ("--kinds rnn", "--kinds gru"),
            "--data": ("--data {text}", "--data {text2}"),
            "--out": ("", "--out {out}/other"),
        }
    },
    "compare runs": {
        "{lstm} {lstm2} {rotary} --json": {
            **_SAVE,
            "--data": ("--data {text}", "--data {text3}"),
            "--split": ("--split train", "--split valid"),
            "--apart": ("", "--apart"),
            "--samples": ("--split train --samples 100", "--split train --samples 200"),
            "--seed": ("--split train --seed 1", "--split train --seed 2"),
        },
        "{lstm} {rotary}": {"--csv": ("", "--csv"), "--latex": ("", "--latex")},
    },
    "data export": {
        "scenes --out {out}/a": {
            "--out": ("", "--out {out}/b"),
            "--count": ("--count 1", "--count 2"),
            "--part": ("--part train", "--part test"),
            "--size": ("--size 16", "--size 24"),
        }
    },
    "vectors analogy": {
        "{vectors} the list is": {
            "--method": ("--method add", "--method mul"),
            "--top": ("--top 1", "--top 2"),
            "--restrict-vocab": ("", "--restrict-vocab 5"),
        }
    },
    "vectors axis": {
        "{vectors} the,list is": {
            **_SAVE,
            "--words": ("", "--words name,has"),
            "--against": ("", "--against name has"),
            "--top": ("--top 1", "--top 2"),
            "--restrict-vocab": ("", "--restrict-vocab 5"),
        }
    },
    "vectors contexts": {
        "{text2} list": {
            **_READING,
            "--neighbors": ("", "--neighbors {vectors2}"),
            "--window": ("--window 1", "--window 3"),
            "--lines": ("--lines 1", "--lines 2"),
            "--top": ("--top 1", "--top 2"),
        },
        "{text2} list --neighbors {vectors2}": {"--nearest": ("--nearest 1", "--nearest 2")},
        "{table} the": {"--format": ("", "--format txt"), "--field": ("", _TABLE)},
    },
    "vectors convert": {
        "{vectors} --out {out}/v.txt": {"--to": ("--to word2vec", "--to glove")},
        "{vectors}": {"--out": ("{out}/v.txt", "--out {out}/w.txt")},
        "{glove} --out {out}/v.txt": {"--from": ("--from word2vec", "--from glove")},
    },
    "vectors cooccur": {
        "{text2}": {
            **_READING,
            "--out": ("", "--out {out}/v.firth"),
            "--window": ("--window 1", "--window 3"),
            "--weight": ("--weight raw", "--weight ppmi"),
            "--svd": ("", "--svd 2", "--svd 3"),
            "--dynamic": ("", "--dynamic"),
            "--sample": ("--sample 0", "--sample 0.001"),
            "--smoothing": ("--smoothing 1", "--smoothing 0.75"),
            "--negatives": ("--negatives 1", "--negatives 2"),
            "--min-count": ("--min-count 1", "--min-count 20"),
            "--max-vocab": ("--max-vocab 3", "--max-vocab 4"),
        },
        "{text2} --svd 2": {"--power": ("--power 1", "--power 0.5"), "--add-contexts": ("", "--add-contexts")},
        "{table}": {"--format": ("", "--format txt"), "--field": ("", _TABLE)},
    },
    "vectors counts": {"'I feel good' 'I feel'": {"--p": ("", "--p 3", "--p 4")}},
    "vectors evaluate": {
        "{vectors} --similarity {pairs} --analogy {questions}": {
            "--similarity": ("", "--similarity {pairs2}"),
            "--analogy": ("", "--analogy {questions2}"),
            "--composition": ("", "--composition"),
            "--restrict-vocab": ("--restrict-vocab 4", "--restrict-vocab 9"),
            "--case-sensitive": ("", "--case-sensitive"),
        }
    },
    "vectors map": {
        "{vectors} --out {out}/map.html": {
            "--out": ("", "--out {out}/other.html"),
            "--words": ("--words the,list,is", "--words the,list,a"),
            "--top": ("--top 4", "--top 5"),
            "--projection": ("--projection pca", "--projection tsne"),
            "--dimensions": ("--dimensions 2", "--dimensions 3"),
        },
        "{vectors} --out {out}/map.html --projection tsne --json": {"--seed": ("--seed 1", "--seed 2")},
    },
    "vectors neighbors": {"{vectors} the": {"--top": ("--top 1", "--top 2"), "--restrict-vocab": ("", "--restrict-vocab 5")}},
    "vectors pairs": {
        "{text2}": {**_READING, "--window": ("--window 1", "--window 2"), "--word": ("--word the", "--word list")},
        "{table}": {"--format": ("", "--format txt"), "--field": ("", _TABLE)},
    },
    "vectors phrases": {
        "{text2} --out {out}/p.txt --threshold 1 --discount 1": {
            **_READING,
            "--out": ("", "--out {out}/q.txt"),
            "--threshold": ("--threshold 1", "--threshold 30"),
            "--discount": ("--discount 1", "--discount 5"),
            "--passes": ("--passes 1", "--passes 2"),
            "--joiner": ("--joiner _", "--joiner -"),
        },
        "{table} --out {out}/p.txt --threshold 1 --discount 1": {"--format": ("", "--format txt"), "--field": ("", _TABLE)},
    },
    "vectors train": {
        "{text2} --out {out}/v.firth --dim 4 --epochs 1 --min-count 1 --sample 0 --deterministic": {
            **_READING,
            "--model": ("--model skipgram", "--model cbow"),
            "--loss": ("--loss ns", "--loss hs", "--loss softmax"),
            "--dim": ("--dim 4", "--dim 5"),
            "--window": ("--window 1", "--window 3"),
            "--negatives": ("--negatives 1", "--negatives 3"),
            "--epochs": ("--epochs 1", "--epochs 2"),
            "--min-count": ("--min-count 1", "--min-count 20"),
            "--max-vocab": ("--max-vocab 3", "--max-vocab 4"),
            "--sample": ("--sample 0", "--sample 0.01"),
            "--rate": ("--rate 0.1", "--rate 0.2"),
            "--final-rate": ("--final-rate 0", "--final-rate 0.02"),
            "--seed": ("--seed 1", "--seed 2"),
            "--faithful": ("", "--faithful"),
            "--log": ("", "--log {out}/progress.jsonl"),
            "--out": ("", "--out {out}/w.firth"),
        },
        "{table} --out {out}/v.firth --dim 4 --epochs 1 --min-count 1 --deterministic": {
            "--format": ("", "--format txt"),
            "--field": ("", _TABLE),
        },
        "{text2} --out {vectors2}": {"--continue": ("!", "--continue"), "--overwrite": ("!", "--overwrite")},
    },
}

# Options whose values may give the same bytes, and why.
_AS_GENERATE = "its texts are too short for it: the walk of generate shows it"
NEUTRAL: dict[str, dict[str, str]] = {
    "assignment grade": {"--jobs": "the number of processes"},
    "caption": dict.fromkeys(("--dry-multiplier", "--dry-base", "--dry-allowed-length", "--mirostat-rate"), _AS_GENERATE),
    "chat": dict.fromkeys(("--dry-base", "--penalty", "--beam-groups", "--diversity"), _AS_GENERATE)
    | {"--json-schema": "its vocabulary is of words: refused"},
    "check": {"--seconds": "a limit of time: test_check_verb.py"},
    "compare cost": dict.fromkeys(
        ("--longest", "--widest", "--seconds", "--rounds", "--device", "--save"),
        "prints times: test_compare.py",
    ),
    "compare runs": {"--device": "where it is computed"},
    "data encode": {"--workers": "the number of threads"},
    "lab": {"--no-open": "whether a browser opens: test_lab_command.py"},
    "reproduce": dict.fromkeys(
        ("--scale", "--out", "--seeds", "--jobs", "--ray", "--slurm", "--save", "--list", "--csv", "--latex"),
        "trains in processes of its own: experiments/test_studies.py",
    ),
    "sweep": dict.fromkeys(
        (
            "--set",
            "--range",
            "--out",
            "--trials",
            "--sampler",
            "--metric",
            "--prune",
            "--seed",
            "--jobs",
            "--ray",
            "--slurm",
            "--resume",
            "--save",
            "--csv",
            "--latex",
        ),
        "trains in processes of its own: experiments/test_sweeps.py",
    ),
    "tour": {
        "--effort": "takes minutes: test_tour.py",
        "--out": "takes minutes: test_tour.py",
        "--no-open": "whether a browser opens",
    },
    "translate": {
        "--resume": "continues an interrupted --out: test_translate.py",
        "--mirostat-rate": _AS_GENERATE,
        **dict.fromkeys(("--from", "--to"), "needs a multilingual model: interop/test_languages.py"),
    },
    "vectors train": {
        "--threads": "the number of threads",
        "--deterministic": "one thread instead of several",
        "--device": "where it is computed",
    },
}
# With --json, these values may give the same bytes, and why.
NEUTRAL_IN_JSON: dict[str, dict[str, str]] = {
    "assignment grade": {"--table": "refused: two output formats"},
    "classify": {"--all": "JSON always has every class"},
    "results": {"--brief": "JSON always has every column"},
    "compare runs": {"--csv": "refused: two output formats", "--latex": "refused: two output formats"},
    "runs": {"--csv": "refused: two output formats"},
    "playground": {"--inputs": "JSON always has q, k and v"},
    "tag": {"--conll": "refused: two output formats"},
    "threshold": {"--remove": "refused: nothing is chosen"},
}
STDIN = {"chat": b"name 3\n", "classify": b"an awful story\n", "translate": b"1 2 3\n"}
# What a verb finds in its {out}.
FILES = {"exercise": {"mine.py": ""}, "lesson": {"05-lstm-and-gru.md": ""}, "results": {"results.md": f"{BEGIN}\n{END}\n"}}
# Verbs that train, compile or draw much.
LONG = {
    "align", "assignment grade", "caption", "chat", "compare flow", "compare learning", "compare runs", "data export",
    "evaluate", "export", "extrapolate", "generate", "inspect", "train", "translate", "vectors contexts", "vectors cooccur",
    "vectors map", "vectors phrases", "vectors train",
}  # fmt: skip
