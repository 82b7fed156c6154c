"""firth vectors train, phrases and contexts, as the shell calls them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from shell import Firth

from firth.figures.training import training_curves
from firth.training import log
from firth.vectors import load

SMALL = ("--dim", 8, "--epochs", 2, "--min-count", 2, "--sample", 0, "--deterministic")


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    generator = np.random.default_rng(0)
    path = tmp_path / "corpus.txt"
    lines = [" ".join(f"w{int(n)}" for n in generator.geometric(0.15, 12)) for _ in range(300)]
    path.write_text("\n".join(lines) + "\n")
    return path


def test_train_writes_a_file_and_says_what_is_in_it(firth: Firth, corpus: Path, tmp_path: Path) -> None:
    out = tmp_path / "v.firth"
    answer = firth("vectors", "train", corpus, "--out", out, *SMALL)
    assert answer.code == 0, answer
    vectors = load(out)
    assert f"{len(vectors)} words, dimension 8, loss " in answer.out
    assert "words/s" in answer.err
    assert "loss" in answer.err


def test_the_summary_as_json_is_that_of_the_vectors(firth: Firth, corpus: Path, tmp_path: Path) -> None:
    out = tmp_path / "v.firth"
    answer = firth("vectors", "train", corpus, "--out", out, *SMALL, "--json")
    summary = json.loads(answer.out)
    assert summary["state"] == "finished"
    assert summary["words_read"] == 2 * 3600
    assert len(summary["losses"]) == 2
    assert summary["words_per_second"] == pytest.approx(summary["words_read"] / summary["seconds"])
    assert (summary["words"], summary["dim"]) == load(out).vectors.shape


def test_the_log_tells_how_far_the_training_was(firth: Firth, corpus: Path, tmp_path: Path) -> None:
    path = tmp_path / "v.jsonl"
    path.write_text('{"step": 999999}\n')  # of an earlier training
    answer = firth("vectors", "train", corpus, "--out", tmp_path / "v.firth", "--log", path, *SMALL, "--json")
    summary, lines = json.loads(answer.out), log.read(path)
    assert [line["step"] for line in lines] == sorted({line["step"] for line in lines})
    assert {line["of"] for line in lines} == {summary["words_read"]}
    assert (lines[-1]["tokens"], lines[-1]["seconds"]) == (summary["words_read"], summary["seconds"])
    assert all(line["tokens"] == line["step"] and 1 <= line["epoch"] <= 2 for line in lines)
    assert [line["loss"] for line in lines if line["step"] % 3600 == 0] == summary["losses"]
    (curve,) = training_curves({"v": lines}, "loss", "tokens").plot.data
    assert list(curve.x) == [line["tokens"] for line in lines]


def test_options_reach_the_training(firth: Firth, corpus: Path, tmp_path: Path) -> None:
    out = tmp_path / "v.firth"
    given = {
        "model": "cbow",
        "loss": "ns",
        "dim": 7,
        "window": 3,
        "negatives": 4,
        "epochs": 1,
        "min_count": 3,
        "max_vocab": 9,
        "sample": 0.5,
        "rate": 0.03,
        "final_rate": 0.002,
        "threads": 2,
        "seed": 5,
        "device": "cpu",
    }
    options = [part for name, value in given.items() for part in (f"--{name.replace('_', '-')}", value)]
    assert firth("vectors", "train", corpus, "--out", out, *options, "--faithful", "--lower", "--strip-punctuation").code == 0
    vectors = load(out)
    assert json.loads(vectors.metadata["config"]) == {**given, "deterministic": False, "faithful": True}
    assert json.loads(vectors.metadata["lower"]) is True
    assert json.loads(vectors.metadata["strip_punctuation"]) is True
    assert len(vectors) == 9


def test_a_loss_that_rises_at_the_end_of_a_long_text_is_explained(
    firth: Firth, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from firth.cli.vectors import train as verb

    monkeypatch.setattr(verb, "_rose", lambda losses: True)
    assert "note: the loss rose" not in firth("vectors", "train", corpus, "--out", tmp_path / "a.firth", *SMALL).err
    monkeypatch.setattr(verb, "_LONG", 100)
    assert "note: the loss rose" in firth("vectors", "train", corpus, "--out", tmp_path / "b.firth", *SMALL).err


@pytest.mark.parametrize(
    ("losses", "rose"), [((), False), ((2.0,), False), ((2.0, 1.9), False), ((2.0, 1.8, 1.9), True), ((None, 2.0), False)]
)
def test_a_loss_rose_if_the_last_is_above_the_one_before(losses: tuple[float | None, ...], rose: bool) -> None:
    from firth.cli.vectors.train import _rose

    assert _rose(losses) is rose


def test_a_short_text_gets_advice(firth: Firth, tmp_path: Path) -> None:
    (tmp_path / "short.txt").write_text("a b c d e f g h i j\n" * 2_500, encoding="utf-8")
    arguments = ("vectors", "train", tmp_path / "short.txt", "--dim", 8)
    advice = "the text has only 25,000 words, too few for 5 epochs; try epochs = 40"
    assert advice in firth(*arguments, "--out", tmp_path / "default.firth").err
    assert advice not in firth(*arguments, "--out", tmp_path / "asked.firth", "--epochs", 5).err


def test_standard_input_and_records(firth: Firth, corpus: Path, tmp_path: Path) -> None:
    direct, piped, records = (tmp_path / f"{name}.firth" for name in ("direct", "piped", "records"))
    rows = "".join(json.dumps({"body": line}) + "\n" for line in corpus.read_text().splitlines())
    (tmp_path / "corpus.jsonl").write_text(rows)
    assert firth("vectors", "train", corpus, "--out", direct, *SMALL).code == 0
    assert firth("vectors", "train", "-", "--out", piped, *SMALL, stdin=corpus.read_bytes()).code == 0
    assert firth("vectors", "train", tmp_path / "corpus.jsonl", "--field", "body", "--out", records, *SMALL).code == 0
    assert load(direct).vectors.tobytes() == load(piped).vectors.tobytes() == load(records).vectors.tobytes()


def test_continue_trains_further_on_more_text(firth: Firth, corpus: Path, tmp_path: Path) -> None:
    out, more = tmp_path / "v.firth", tmp_path / "more.txt"
    more.write_text("w1 brandnew w2\n" * 5)
    assert firth("vectors", "train", corpus, "--out", out, *SMALL, "--continue").code == 0  # nothing there yet: it starts
    before = load(out)
    old, counts = np.array(before["w1"]), before.counts
    assert counts is not None
    answer = firth("vectors", "train", more, "--out", out, "--continue")
    assert answer.code == 0, answer
    after = load(out)
    assert "brandnew" in after
    assert after.width == 8
    assert (after["w1"] != old).any()
    assert after.counts is not None
    assert after.counts.sum() == counts.sum() + 15


MISTAKES = {
    "a file that is there": (["--out", "there.firth"], "already exists. Add --continue to train it further or --overwrite"),
    "both ways": (["--out", "there.firth", "--continue", "--overwrite"], "--continue and --overwrite cannot be combined"),
    "no such corpus": (["nowhere.txt", "--out", "v"], "nowhere.txt does not exist"),
    "everything is rare": (["--out", "v", "--min-count", "100000"], "min_count 100000 leaves no words of corpus.txt"),
    "no such model": (["--out", "v", "--model", "skip"], "model is 'skip'; expected one of skipgram, cbow"),
    "no such format": (["--out", "v", "--format", "doc"], "format is 'doc'; expected one of auto, txt"),
    "no dimension": (["--out", "v", "--dim", "0"], "dim is 0; expected an integer ≥ 1"),
    "no vectors to go on with": (["--out", "corpus.txt", "--continue"], "corpus.txt"),
    "a folder": (["--out", "."], ". is a folder; expected a file name"),
    "below a file": (["--out", "corpus.txt/v"], "cannot write corpus.txt/v"),
    "empty lines": (["empty.txt", "--out", "v"], "empty.txt contains no words"),
    "one word": (["one.txt", "--out", "v"], 'one.txt has only one word that occurs 5 times, "word"'),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_one_line_and_leaves_everything_as_it_was(
    firth: Firth, corpus: Path, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("there.firth").write_text("precious")
    Path("empty.txt").write_text("\n\n\n")
    Path("one.txt").write_text("word word word\nword word\n")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    arguments, complaint = MISTAKES[name]
    place = [] if arguments[0].endswith(".txt") else ["corpus.txt"]
    answer = firth("vectors", "train", *place, *arguments)
    assert answer.code == 2, answer
    assert len(answer.err.splitlines()) == 1
    assert complaint in answer.err
    assert "internal error" not in answer.err
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.long
@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGINT to send")
def test_ctrl_c_leaves_a_usable_file_marked_interrupted(corpus: Path, tmp_path: Path) -> None:
    out = tmp_path / "v.firth"
    command = [sys.executable, "-m", "firth", "vectors", "train", corpus, "--out", out, "--epochs", "100000", "--min-count", "1"]
    with subprocess.Popen([str(part) for part in command], stderr=subprocess.PIPE, text=True) as run:
        assert run.stderr is not None
        lines = []
        for line in run.stderr:  # the first line of progress: by then it trains
            lines.append(line)
            if line.startswith("training"):
                break
        run.send_signal(signal.SIGINT)
        said = run.stderr.read()
        assert run.wait() == 128 + signal.SIGINT, (lines, said)
    assert "stopped after" in said
    assert "of 100000 epochs" in said
    vectors = load(out)
    assert vectors.metadata["state"] == "interrupted"
    assert 0 < float(vectors.metadata["epochs"]) < 100_000
    assert np.isfinite(vectors.vectors).all()


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_before_training_begins_writes_nothing(
    firth: Firth, corpus: Path, tmp_path: Path, stop: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    from firth.vectors import encoding

    whole_words = encoding._whole_words

    def interrupted(*given: Any) -> Iterator[bytes]:
        signal.raise_signal(stop)
        yield from whole_words(*given)

    monkeypatch.setattr(encoding, "_whole_words", interrupted)
    monkeypatch.setattr(encoding, "_FORMAT", 1000)  # not from the cache
    answer = firth("vectors", "train", corpus, "--out", tmp_path / "v.firth", *SMALL)
    assert (answer.code, answer.out) == (130, "")
    assert answer.err == "firth: interrupted\n"
    assert not (tmp_path / "v.firth").exists()


def test_phrases_writes_text_with_phrases_joined(firth: Firth, tmp_path: Path) -> None:
    source, out = tmp_path / "a.txt", tmp_path / "p.txt"
    source.write_text("".join(f"he went to new york on day d{n} x{n}\n" for n in range(40)))
    answer = firth("vectors", "phrases", source, "--out", out, "--threshold", 5, "--passes", 2, "--joiner", "+", "--json")
    assert answer.code == 0, answer
    result = json.loads(answer.out)
    assert out.read_text().splitlines()[0] == "he+went+to+new york+on+day d0 x0"
    assert len(result["phrases"]) == 2
    assert result["best"][0][0].keys() == {"phrase", "score"}
    plain = firth("vectors", "phrases", source, "--out", out, "--threshold", 5)
    assert plain.out.startswith("pass 1: 6 distinct phrases\n")
    assert "he_went" in plain.out
    wrong = firth("vectors", "phrases", source, "--out", out, "--threshold", 0)
    assert (wrong.code, len(wrong.err.splitlines())) == (2, 1)


def test_contexts_are_aligned_and_side_by_side(firth: Firth, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    source = tmp_path / "a.txt"
    lines = ["government debt problems are turning into banking crises", "Europe has unified banking regulation now"]
    source.write_text("\n".join([*lines, "money lending crises", *["the weather is fine"] * 20]))
    answer = firth("vectors", "contexts", source, "banking", "lending")
    lines = answer.out.splitlines()
    assert lines[0] == "banking: 2 times"
    assert len({line.index(" banking ") for line in lines[1:3]}) == 1
    assert all(len(line) <= 60 for line in lines[:3])
    assert "turning into banking crises" in lines[1]
    assert "has unified banking regulation" in lines[2]
    heading = next(line for line in lines if "near banking" in line)
    assert "near lending" in heading
    assert any("* crises" in line for line in lines)
    assert lines[-1] == "* near more than one of these words"
    result = json.loads(firth("vectors", "contexts", source, "banking", "--json", "--top", 3).out)
    assert result[0]["count"] == 2
    assert result[0]["lines"][0]["right"] == ["crises"]
    assert len(result[0]["telling"]) == 3


def test_contexts_are_shown_for_the_nearest_words_too(firth: Firth, corpus: Path, tmp_path: Path) -> None:
    out = tmp_path / "v.firth"
    firth("vectors", "train", corpus, "--out", out, *SMALL)
    neighbor = load(out).most_similar("w1", topn=1)[0][0]
    answer = firth("vectors", "contexts", corpus, "w1", "--neighbors", out, "--nearest", 1, "--json")
    assert [one["word"] for one in json.loads(answer.out)] == ["w1", neighbor]
    missing = firth("vectors", "contexts", corpus, "nothere")
    assert missing.code == 2
    assert '"nothere" does not occur in' in missing.err
