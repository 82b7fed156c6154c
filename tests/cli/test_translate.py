"""firth translate and firth align, and what evaluate and train tell of a model of sentence pairs."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from shares import half
from shell import Answer, Firth, assert_refused
from tomli_w import dumps
from translations import NUMBERS, pair_table, pairs_of, said, spaced, trained_on_numbers, write_pairs, write_sides

from firth.api import compose, load, train_recipe
from firth.cli.train import _measured
from firth.tasks.translation import TranslatorRun
from firth.training.folder import RunFolder

SOURCES = [spaced(number) for number in NUMBERS[::31]]


@pytest.fixture(scope="module")
def run() -> Path:
    return trained_on_numbers()


@pytest.fixture(scope="module")
def model(run: Path) -> TranslatorRun:
    return load(run)


@pytest.fixture(scope="module")
def char_pairs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that spells, and has learned next to nothing."""
    return _hardly_trained(tmp_path_factory, "rnnsearch", {"kind": "char"})


@pytest.fixture(scope="module")
def byte_pairs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Transformer that can read anything."""
    return _hardly_trained(tmp_path_factory, "transformer", {"kind": "bpe", "vocab": 270, "joint": True})


@pytest.fixture(scope="module")
def fixed_vector(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _hardly_trained(tmp_path_factory, "rnnenc", {"kind": "word"})


def _hardly_trained(factory: pytest.TempPathFactory, name: str, tokenizer: dict[str, Any]) -> Path:
    folder = factory.mktemp("hardly")
    table = pair_table(write_pairs(folder / "numbers.tsv"), name, tokenizer=tokenizer, steps=6, context=60)
    table["decoding"]["tokens"] = 6
    return train_recipe(compose(table), folder / "run").path


def ended(answer: Answer) -> list[str]:
    """The lines of an answer without complaint."""
    assert answer.code == 0, answer.err
    assert not answer.out or answer.out.endswith("\n")
    return answer.out.split("\n")[:-1]


# --- a line for each line


def test_arguments_standard_input_and_a_file_give_the_same(firth: Firth, run: Path, model: TranslatorRun, tmp_path: Path) -> None:
    expected = model.translate(SOURCES)
    content = "".join(f"{source}\n" for source in SOURCES).encode()
    (tmp_path / "in.txt").write_bytes(content)
    assert ended(firth("translate", run, *SOURCES)) == expected
    assert ended(firth("translate", run, "--file", tmp_path / "in.txt")) == expected
    for arguments in ((), ("-",), ("--file", "-")):
        assert ended(firth("translate", run, *arguments, stdin=content)) == expected
    assert sum(text == said(source) for source, text in zip(SOURCES, expected, strict=True)) > len(SOURCES) / 2


STRANGE: dict[str, tuple[bytes, list[str]]] = {
    "nothing": (b"", []),
    "an empty line": (b"\n", [""]),
    "empty lines": (b"\n1 2\n\n\n3\n\n", ["", "1 2", "", "", "3", ""]),
    "white space": (b"  \n1 2\n \t \n", ["", "1 2", ""]),
    "carriage returns": (b"1 2\r\n\r\n3\r\n", ["1 2", "", "3"]),
    "no newline at the end": (b"1 2\n3", ["1 2", "3"]),
    "a byte order mark": (b"\xef\xbb\xbf1 2\n3\n", ["1 2", "3"]),
}


@pytest.mark.parametrize("kind", ["run", "char_pairs", "byte_pairs"])
@pytest.mark.parametrize("name", half(STRANGE))
def test_strange_lines_are_answered_as_plain_ones(
    name: str, kind: str, firth: Firth, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    folder = request.getfixturevalue(kind)
    content, plain = STRANGE[name]
    (tmp_path / "in.txt").write_bytes(content)
    expected = ["" if not text else load(folder).translate([text])[0] for text in plain]
    for answer in (firth("translate", folder, stdin=content), firth("translate", folder, "--file", tmp_path / "in.txt")):
        assert ended(answer) == expected
        assert other_notes(answer) == ""


def test_characters_never_seen_are_left_out_and_said(firth: Firth, char_pairs: Path) -> None:
    answer = firth("translate", char_pairs, stdin="1Ω 2\nΩΩ\n3\n".encode())
    assert ended(answer) == [*load(char_pairs).translate(["1 2"]), "", *load(char_pairs).translate(["3"])]
    assert other_notes(answer) == "firth: note: left out, never seen in training: Ω\n"


def other_notes(answer: Answer) -> str:
    """Without the note that a hardly trained model did not come to an end."""
    return re.sub(r"firth: note: [^\n]* had not ended after [^\n]*\n", "", answer.err)


def test_translations_that_are_cut_off_are_counted(firth: Firth, run: Path, model: TranslatorRun) -> None:
    texts = ["1", "2", "1 2 3", "4 5 6"]
    cut_off = sum(not beams[0].finished for beams in model.translations(texts, model.decoding({"tokens": 3})))
    assert 2 <= cut_off < len(texts)
    answer = firth("translate", run, "--tokens", 3, *texts)
    assert answer.err == f"firth: note: {cut_off} of the translations had not ended after 3 tokens; raise --tokens\n"


@pytest.mark.parametrize("kind", ["run", "char_pairs", "byte_pairs"])
def test_bytes_that_are_no_text_are_answered_line_by_line(
    kind: str, firth: Firth, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    folder = request.getfixturevalue(kind)
    garbage = b"1 2\n\xff\xfe\x00\n\xc3(\n" + bytes(range(11, 256)) + b"\n3\n"
    (tmp_path / "in.bin").write_bytes(garbage)
    plain = load(folder).translate(["1 2", "3"])
    for arguments, stdin in (((), garbage), (("--file", tmp_path / "in.bin"), b"")):
        answer = firth("translate", folder, *arguments, stdin=stdin)
        lines = ended(answer)
        assert len(lines) == 5
        assert [lines[0], lines[-1]] == plain
        assert "firth: note: line 2 of" in answer.err
        assert "is not UTF-8 (invalid start byte); invalid bytes are replaced by U+FFFD from here on" in answer.err
    assert "internal error" not in answer.err


@pytest.mark.parametrize("kind", ["run", "char_pairs", "byte_pairs", "fixed_vector"])
def test_a_line_of_thousands_of_tokens_is_a_line_like_others(kind: str, firth: Firth, request: pytest.FixtureRequest) -> None:
    folder = request.getfixturevalue(kind)
    long = spaced("12345" * 400)
    lines = ended(firth("translate", folder, "--tokens", 4, stdin=f"1 2\n{long}\n3\n".encode()))
    plain = load(folder).translate(["1 2", "3"], tokens=4)
    assert [lines[0], lines[2]] == plain
    assert len(lines) == 3


def test_more_lines_than_are_read_at_once_keep_their_places(firth: Firth, run: Path, model: TranslatorRun) -> None:
    texts = [*SOURCES, ""] * 60
    assert len(texts) > 512
    expected = dict(zip([*SOURCES, ""], model.translate([*SOURCES, ""]), strict=True))
    translations = ended(firth("translate", run, stdin="".join(f"{text}\n" for text in texts).encode()))
    assert translations == [expected[text] for text in texts]


FIRTH = (sys.executable, "-m", "firth")


@pytest.mark.long
def test_a_line_is_answered_before_the_next_is_typed(run: Path, model: TranslatorRun, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing here waits for time to pass: a process that holds an answer back is ended by the alarm."""
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)  # or Python would hold nothing back, whatever firth does
    with subprocess.Popen(
        [*FIRTH, "translate", run], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        signal.signal(signal.SIGALRM, lambda *_: process.kill())
        signal.alarm(120)
        try:
            for text in ("3 6 7", "", "1 2"):
                print(text, file=process.stdin, flush=True)
                assert process.stdout.readline() == model.translate([text])[0] + "\n"
            process.stdin.close()
            assert process.wait() == 0
        finally:
            signal.alarm(0)
            signal.signal(signal.SIGALRM, signal.SIG_DFL)


# --- a file that is whole or not there


def test_out_is_a_file_with_what_would_have_been_printed(firth: Firth, run: Path, tmp_path: Path) -> None:
    printed = firth("translate", run, *SOURCES).out
    answer = firth("translate", run, *SOURCES, "--out", tmp_path / "new" / "out.txt")
    assert ended(answer) == [str(tmp_path / "new" / "out.txt")]
    assert (tmp_path / "new" / "out.txt").read_bytes() == printed.encode()
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["out.txt"]


def watched(monkeypatch: pytest.MonkeyPatch, watch: Callable[[list[str]], None]) -> None:
    """Call `watch` with each batch before it is translated."""
    translations: Any = TranslatorRun.translations

    def told(self: TranslatorRun, texts: list[str], *arguments: Any, **options: Any) -> Any:
        watch(texts)
        return translations(self, texts, *arguments, **options)

    monkeypatch.setattr(TranslatorRun, "translations", told)


def test_out_is_absent_until_it_is_whole(firth: Firth, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "out.txt"
    seen: list[bool] = []
    watched(monkeypatch, lambda texts: seen.append(out.exists()))
    monkeypatch.setattr("firth.cli.translate._BATCH", 4)
    firth("translate", run, *SOURCES, "--out", out)
    assert len(seen) > 1
    assert not any(seen)
    assert out.exists()


def stopped_after(lines: int, half: bytes, monkeypatch: pytest.MonkeyPatch, out: Path) -> None:
    """Make the batch after so many lines fail as Ctrl-C would, in the middle of a line."""
    translations: Any = TranslatorRun.translations

    def interrupted(self: TranslatorRun, texts: list[str], *arguments: Any, first: int = 0, **options: Any) -> Any:
        if first >= lines:
            with out.with_name(f"{out.name}.part").open("ab") as file:
                file.write(half)
            raise KeyboardInterrupt
        return translations(self, texts, *arguments, first=first, **options)

    monkeypatch.setattr(TranslatorRun, "translations", interrupted)
    monkeypatch.setattr("firth.cli.translate._BATCH", 3)


@pytest.mark.parametrize("options", [(), ("--sample", "--seed", 3), ("--beam", 2)], ids=str)
@pytest.mark.parametrize("half", [b"", "zerø".encode()[:-1]], ids=["between lines", "inside a character"])
def test_an_interrupted_file_goes_on_to_the_same_bytes(
    half: bytes, options: tuple[object, ...], firth: Firth, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, out = tmp_path / "in.txt", tmp_path / "out.txt"
    source.write_text("".join(f"{text}\n" for text in (*SOURCES[:5], "", *SOURCES[5:])), encoding="utf-8")
    firth("translate", run, "--file", source, *options, "--out", tmp_path / "whole.txt")
    arguments = ("translate", run, "--file", source, *options, "--out", out)
    with monkeypatch.context() as patch:
        stopped_after(6, half, patch, out)
        answer = firth(*arguments)
    assert (answer.code, answer.err) == (130, "firth: interrupted\n")
    assert not out.exists()
    assert out.with_name("out.txt.part").read_bytes().count(b"\n") == 6
    assert "add --resume to continue, or remove that file" in firth(*arguments).err
    assert firth(*arguments, "--resume").code == 0
    assert out.read_bytes() == (tmp_path / "whole.txt").read_bytes()
    assert {path.name for path in tmp_path.iterdir()} == {"in.txt", "out.txt", "whole.txt"}


def test_several_translations_of_each_text_go_on_as_json(
    firth: Firth, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last digits of a score depend on what else was in the batch; all else is the same."""
    whole, out = tmp_path / "whole.txt", tmp_path / "out.txt"
    arguments = ("translate", run, "--json", "--nbest", 2, *SOURCES)
    firth(*arguments, "--out", whole)
    with monkeypatch.context() as patch:
        stopped_after(6, b"{", patch, out)
        firth(*arguments, "--out", out)
    assert firth(*arguments, "--out", out, "--resume").code == 0
    resumed, expected = ([json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] for path in (out, whole))
    for one, other in zip(resumed, expected, strict=True):
        assert (one["source"], [best["text"] for best in one["nbest"]]) == (
            other["source"],
            [best["text"] for best in other["nbest"]],
        )
        assert one["score"] == pytest.approx(other["score"], abs=1e-5)


def test_what_was_done_is_not_done_again(firth: Firth, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "out.txt"
    with monkeypatch.context() as patch:
        stopped_after(6, b"", patch, out)
        firth("translate", run, *SOURCES, "--out", out)
    assert "was started with texts = " in firth("translate", run, *SOURCES[:-1], "--out", out, "--resume").err
    done: list[str] = []
    watched(monkeypatch, done.extend)
    firth("translate", run, *SOURCES, "--out", out, "--resume")
    assert done == SOURCES[6:]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("--beam", 2), "beam = 1, but now it is 2"),
        (("--tokens", 5), "tokens = 12, but now it is 5"),
        (("--json",), "json = False, but now it is True"),
        (("--sample",), "sample = False, but now it is True"),
    ],
    ids=str,
)
def test_a_file_is_not_gone_on_with_otherwise(
    change: tuple[object, ...], message: str, firth: Firth, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, out = tmp_path / "in.txt", tmp_path / "out.txt"
    source.write_text("".join(f"{text}\n" for text in SOURCES), encoding="utf-8")
    with monkeypatch.context() as patch:
        stopped_after(3, b"", patch, out)
        firth("translate", run, "--file", source, "--out", out)
    before = out.with_name("out.txt.part").read_bytes()
    answer = firth("translate", run, "--file", source, "--out", out, "--resume", *change)
    assert answer.code == 2
    assert f"out.txt.part was started with {message}; use the same settings or remove that file" in answer.err
    assert out.with_name("out.txt.part").read_bytes() == before
    assert "started with file = " in firth("translate", run, "--out", out, "--resume", "1 2").err


@pytest.mark.long
def test_a_process_that_is_interrupted_leaves_lines_to_go_on_from(run: Path, model: TranslatorRun, tmp_path: Path) -> None:
    """Ctrl-C, while it waits for standard input."""
    out, part = tmp_path / "out.txt", tmp_path / "out.txt.part"
    command = [*FIRTH, "translate", str(run), "--out", str(out)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        print("\n".join(SOURCES[:3]), file=process.stdin, flush=True)
        end = time.monotonic() + 120
        while not (part.exists() and part.read_bytes().count(b"\n") == 3) and time.monotonic() < end:
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        assert process.wait(120) == 130
        assert process.stderr.read().splitlines()[-1] == "firth: interrupted"
    assert part.read_text(encoding="utf-8").splitlines() == model.translate(SOURCES[:3])
    content = "".join(f"{text}\n" for text in SOURCES[:6])
    subprocess.run([*command, "--resume"], input=content, text=True, check=True, capture_output=True)
    assert out.read_text(encoding="utf-8").splitlines() == model.translate(SOURCES[:6])


def test_a_mistake_leaves_no_file_behind(firth: Firth, run: Path, tmp_path: Path) -> None:
    answer = firth("translate", run, "--file", tmp_path / "absent.txt", "--out", tmp_path / "out.txt")
    assert answer.code == 2
    assert "cannot read" in answer.err
    assert not list(tmp_path.iterdir())


def test_a_file_that_is_there_is_not_written_over(firth: Firth, run: Path, tmp_path: Path) -> None:
    (tmp_path / "out.txt").write_text("mine")
    answer = firth("translate", run, "1 2", "--out", tmp_path / "out.txt")
    assert answer.code == 2
    assert "out.txt already exists; remove it or choose another --out" in answer.err
    assert (tmp_path / "out.txt").read_text() == "mine"


# --- what is told of each


def test_json_is_an_object_for_each_text(firth: Firth, run: Path, model: TranslatorRun) -> None:
    lines = ended(firth("translate", run, "--json", stdin=b"3 6 7\r\n\n1 2"))
    translations = [json.loads(line) for line in lines]
    (best,) = model.translations(["3 6 7"])[0]
    assert translations[0] == {
        "source": "3 6 7",
        "translation": best.text,
        "log_probability": pytest.approx(best.log_probability, abs=1e-4),
        "score": pytest.approx(best.score, abs=1e-4),
        "finished": True,
    }
    assert (translations[1]["source"], translations[1]["translation"]) == ("", "")
    assert [one["source"] for one in translations] == ["3 6 7", "", "1 2"]


def test_diverse_beams_penalties_and_min_p_are_those_of_the_run(firth: Firth, run: Path, model: TranslatorRun) -> None:
    searching = {"beam": 4, "beam_groups": 2, "diversity": 3.0, "repetition_penalty": 1.5}
    options = ("--beam", 4, "--beam-groups", 2, "--diversity", 3.0, "--repetition-penalty", 1.5)
    lines = ended(firth("translate", run, *options, "--nbest", 4, "3 6 7"))
    (diverse,) = model.translations(["3 6 7"], model.decoding(searching))
    assert lines == [f"0 ||| {one.text} ||| {one.score:.4f}" for one in diverse]
    plain = model.translations(["3 6 7"], model.decoding({"beam": 4, "repetition_penalty": 1.5}))[0]
    assert [one.text for one in diverse] != [one.text for one in plain]
    drawn = model.translate(["3 6 7"], sample=True, temperature=3.0, min_p=0.2, seed=1)
    assert ended(firth("translate", run, "--sample", "--temperature", 3.0, "--min-p", 0.2, "--seed", 1, "3 6 7")) == drawn
    assert "--min-p only applies to sampling" in firth("translate", run, "--min-p", 0.2, "3").err


def test_nbest_has_so_many_of_each_with_their_scores(firth: Firth, run: Path, model: TranslatorRun) -> None:
    lines = ended(firth("translate", run, "--nbest", 3, "3 6 7", "1 2"))
    expected = model.translations(["3 6 7", "1 2"], model.decoding({"beam": 3}))
    assert lines == [f"{n} ||| {one.text} ||| {one.score:.4f}" for n, beams in enumerate(expected) for one in beams[:3]]
    assert [line.partition(" ")[0] for line in lines] == ["0"] * 3 + ["1"] * 3
    (line,) = ended(firth("translate", run, "--nbest", 2, "--beam", 4, "--json", "3 6 7"))
    best = json.loads(line)
    wide = model.translations(["3 6 7"], model.decoding({"beam": 4}))[0]
    assert [one["text"] for one in best["nbest"]] == [one.text for one in wide[:2]]
    assert best["translation"] == best["nbest"][0]["text"]


def test_a_draw_depends_on_the_seed_and_on_the_line(firth: Firth, char_pairs: Path) -> None:
    lines = [ended(firth("translate", char_pairs, "--sample", "--seed", seed, *["1 2"] * 8)) for seed in (0, 0, 1)]
    assert lines[0] == lines[1] != lines[2]
    assert len(set(lines[0])) > 1
    cold = ended(firth("translate", char_pairs, "--sample", "--temperature", 0, "1 2", "3 4"))
    assert cold == ended(firth("translate", char_pairs, "1 2", "3 4"))


REFUSED: dict[str, tuple[tuple[object, ...], str]] = {
    "temperature": (("--temperature", 0.5, "1"), "--temperature only applies to sampling; add --sample or remove it"),
    "top-k": (("--top-k", 3, "1"), "--top-k only applies to sampling; add --sample"),
    "top-p": (("--top-p", 0.5, "1"), "--top-p only applies to sampling; add --sample"),
    "seed": (("--seed", 1, "1"), "--seed only applies to sampling; add --sample"),
    "sampled beam": (("--sample", "--beam", 3, "1"), "--sample cannot be combined with --beam or --nbest; choose one"),
    "sampled nbest": (("--sample", "--nbest", 3, "1"), "--sample cannot be combined with --beam or --nbest; choose one"),
    "nbest of a small beam": (("--nbest", 5, "--beam", 3, "1"), "--nbest 5 needs a --beam of at least 5, not 3"),
    "no beam": (("--beam", 0, "1"), "decoding.beam is 0; expected at least 1"),
    "no best": (("--nbest", 0, "1"), "--nbest"),
    "no tokens": (("--tokens", 0, "1"), "decoding.tokens is 0; expected at least 1"),
    "resume without a file": (("--resume", "1"), "--resume needs the output file to continue; add --out FILE"),
    "resume several lines": (
        ("--resume", "--nbest", 2, "--out", "out.txt", "1"),
        "--resume needs one output line per text, but --nbest 2 writes 2; add --json",
    ),
    "texts and a file": (("1", "--file", "a.txt"), "texts and --file a.txt cannot be combined"),
    "no such file": (("--file", "absent.txt"), "cannot read absent.txt"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_does_not_go_together_is_one_line(
    name: str, firth: Firth, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    arguments, message = REFUSED[name]
    answer = firth("translate", run, *arguments)
    assert (answer.code, answer.out, answer.err.count("\n")) == (2, "", 1)
    assert message in answer.err
    assert "internal error" not in answer.err
    assert not list(tmp_path.iterdir())


def test_a_run_that_does_not_translate_says_what_it_does(firth: Firth, char_run: Path, run: Path) -> None:
    for verb, arguments in (("translate", ["a"]), ("align", ["a"])):
        answer = firth(verb, char_run, *arguments)
        assert (answer.code, answer.out) == (2, "")
        assert "this run is a language model and cannot translate; it can: generate, score" in answer.err
    assert "this run is a translator and cannot generate; it can: translate" in firth("generate", run, "a").err
    assert "this run is a translator and cannot classify; it can: translate" in firth("classify", run, "a").err


# --- align


def test_an_alignment_is_printed_with_a_row_for_each_target_word(firth: Firth, run: Path, model: TranslatorRun) -> None:
    lines = ended(firth("align", run, "3 6 7", "three six seven"))
    assert lines[0].split() == ["3", "6", "7", "<eos>"]
    assert [line.split()[0] for line in lines[1:5]] == ["three", "six", "seven", "<eos>"]
    own = ended(firth("align", run, "3 6 7"))
    assert own == model.align("3 6 7").text(80).split("\n")


@pytest.mark.parametrize("kind", ["run", "byte_pairs"])
def test_an_alignment_as_json_has_rows_that_sum_to_one(kind: str, firth: Firth, request: pytest.FixtureRequest) -> None:
    folder = request.getfixturevalue(kind)
    alignment = json.loads(firth("align", folder, "3 6 7", "three six", "--json").out)
    assert alignment.keys() == {"source", "target", "weights"}
    assert alignment["source"] == ["3", "6", "7", "<eos>"]
    assert alignment["target"] == ["three", "six", "<eos>"]
    assert next(iter(alignment["weights"])) == ("α" if kind == "run" else "layer 1")
    for rows in alignment["weights"].values():
        assert [len(row) for row in rows] == [4] * 3
        assert [sum(row) for row in rows] == pytest.approx([1.0] * 3)


def test_an_alignment_is_saved_as_a_page(firth: Firth, byte_pairs: Path, tmp_path: Path) -> None:
    answer = firth("align", byte_pairs, "3 6 7", "three six", "--save", tmp_path / "a.html")
    assert ended(answer)[-1] == f"{tmp_path / 'a.html'}: 6 maps"
    page = (tmp_path / "a.html").read_text(encoding="utf-8")
    assert "<p>3 6 7 → three six</p>" in page
    assert re.search(r"<script[^>]+src=", page) is None, "it opens without a network"
    quiet = firth("align", byte_pairs, "3 6 7", "three six", "--save", tmp_path / "b.html", "--json")
    assert json.loads(quiet.out)["target"] == ["three", "six", "<eos>"]
    assert (tmp_path / "b.html").exists()


def test_the_page_of_an_alignment_names_what_the_run_wrote_as_it_is_written(
    firth: Firth, run: Path, char_pairs: Path, tmp_path: Path
) -> None:
    for number, made in enumerate((run, char_pairs)):
        firth("align", made, "3 6", "--save", tmp_path / f"{number}.html")
        lead = f"<p>3 6 → {load(made).translate(['3 6'])[0]}</p>"
        assert lead in (tmp_path / f"{number}.html").read_text(encoding="utf-8").replace(" </p>", "</p>")


def test_what_cannot_be_aligned_is_one_line(firth: Firth, run: Path, char_pairs: Path, fixed_vector: Path) -> None:
    for arguments, message in (
        ((fixed_vector, "1 2"), 'this model has no attention (model.attention = "none"), so there is no alignment'),
        ((run, "  "), "which has no tokens; expected at least one word"),
        ((char_pairs, "1 2", "Ω"), "Ω"),
        ((run, "1 2", "--beam", 0), "decoding.beam is 0"),
    ):
        assert_refused(firth("align", *arguments), message)


# --- train, evaluate, verify


def test_a_model_of_pairs_is_trained_and_measured_from_the_shell(firth: Firth, tmp_path: Path) -> None:
    recipe, out = tmp_path / "recipe.toml", tmp_path / "run"
    table = pair_table(write_pairs(tmp_path / "n.tsv"), "rnnenc", steps=20, select="exact", evaluate_every=10)
    recipe.write_text(dumps(table), encoding="utf-8")
    trained = firth("train", recipe, "--out", out)
    assert trained.code == 0, trained.err
    pattern = (
        rf"{re.escape(str(out))}: BLEU \d+\.\d\d, exact match \d+\.\d% on the valid data\. Next: firth translate .*/run TEXT\n"
    )
    assert re.fullmatch(pattern, trained.out)
    shown = firth("evaluate", out).out
    for line in (r"text +valid", r"sentences +33, translated with beam size 1", r"loss +\d\.\d{4} nats per token, perplexity .*"):
        assert re.search(rf"^{line}$", shown, re.MULTILINE), shown
    assert re.search(r"^BLEU +\d+\.\d\d \(nrefs:1\|case:mixed\|.*\)$", shown, re.MULTILINE)
    assert re.search(r"^exact match +\d+\.\d\d%$", shown, re.MULTILINE)
    assert re.search(r"^  \d+–\d+ +BLEU (\d+\.\d\d|undefined), exact match \d+\.\d\d% of \d+$", shown, re.MULTILINE)
    assert json.loads(firth("train", recipe, "--out", tmp_path / "other", "--json").out)["split"] == "valid"


@pytest.mark.parametrize(("select", "step"), [("loss", 2), ("bleu", 1), ("exact", 3)])
def test_training_tells_of_the_weights_that_were_kept(select: str, step: int, tmp_path: Path) -> None:
    valid = [
        {"loss": 2.0, "bleu": 30.0, "exact": 0.1},
        {"loss": 1.0, "bleu": 0.0, "exact": 0.2},
        {"loss": 3.0, "bleu": 9.0, "exact": 0.3},
    ]
    folder = RunFolder(tmp_path)
    folder.log.write_text(
        "".join(json.dumps({"step": n, "valid": one}) + "\n" for n, one in enumerate(valid, 1)), encoding="utf-8"
    )
    recipe = compose(pair_table(tmp_path / "unread.tsv", select=select))
    assert _measured(folder, recipe) == {**valid[step - 1], "split": "valid"}


def test_evaluation_as_json_is_that_of_python(firth: Firth, run: Path, model: TranslatorRun, tmp_path: Path) -> None:
    source, target = write_sides(tmp_path, pairs_of(NUMBERS[::20]))
    scores = json.loads(firth("evaluate", run, "--data", source, "--target", target, "--beam", 2, "--json").out)
    assert scores == json.loads(json.dumps(model.evaluate(str(source), target=str(target), beam=2)))
    assert (scores["split"], scores["beam"], scores["sentences"]) == (str(source), 2, len(NUMBERS[::20]))
    table = write_pairs(tmp_path / "n.tsv", pairs_of(NUMBERS[::20]))
    again = json.loads(firth("evaluate", run, "--data", table, "--beam", 2, "--json").out)
    assert again | {"split": ""} == scores | {"split": ""}
    assert json.loads(firth("evaluate", run, "--split", "train", "--json").out)["split"] == "train"


def test_evaluation_by_length_is_saved_as_a_page(firth: Firth, run: Path, char_run: Path, tmp_path: Path) -> None:
    answer = firth("evaluate", run, "--save", tmp_path / "a.html")
    assert answer.code == 0, answer.err
    assert "By source length" in (tmp_path / "a.html").read_text(encoding="utf-8")
    refused = firth("evaluate", char_run, "--save", tmp_path / "b.html")
    assert refused.code == 2
    assert "this run is a language model. Remove it." in refused.err
    assert not (tmp_path / "b.html").exists()


def test_what_cannot_be_evaluated_is_one_line(firth: Firth, run: Path, char_run: Path, tmp_path: Path) -> None:
    source, target = write_sides(tmp_path, pairs_of(NUMBERS[:4]))
    short = tmp_path / "short.txt"
    short.write_text("one\n", encoding="utf-8")
    for arguments, message in (
        ((run, "--target", target), "but the sources are missing. Give --data, too"),
        ((run, "--data", source), "is read as txt, one side of the pairs"),
        ((run, "--data", source, "--target", short), "has 4 lines and"),
        (
            (run, "--data", source, "--target", target, "--split", "valid"),
            'and the split "valid" cannot be combined. Remove one of them.',
        ),
        ((run, "--split", "test"), "this run has no test data, only valid and train"),
        ((run, "--streams", 2), "--streams only applies to a language model; this run is a translator. Remove it."),
        ((run, "--beam", 0), "decoding.beam is 0"),
        ((char_run, "--beam", 2), "--beam only applies to a translator and a captioner; this run is a language model."),
        ((char_run, "--target", target), "--target only applies to a translator"),
    ):
        assert_refused(firth("evaluate", *arguments), message)


def test_verify_compares_exact_matches(firth: Firth, tmp_path: Path) -> None:
    table = pair_table(write_pairs(tmp_path / "n.tsv"), "rnnenc", steps=2)
    expected = {"metric": "exact", "direction": "higher", "split": "valid", "tolerance": 0.3, "published": 0.9, "source": "x"}
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(dumps(table | {"expected": expected | {"measured": 0.0}}), encoding="utf-8")
    answer = firth("verify", recipe)
    assert answer.code == 0, answer.err
    assert "reached exact 0.0" in answer.out
    recipe.write_text(dumps(table | {"expected": expected | {"measured": 0.8}}), encoding="utf-8")
    assert firth("verify", recipe).code == 1
