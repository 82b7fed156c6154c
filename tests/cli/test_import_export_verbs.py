"""firth import and firth export, and the other verbs on a Hugging Face folder."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from shell import Firth, assert_refused


@pytest.fixture
def exported(firth: Firth, bpe_run: Path, tmp_path: Path) -> Path:
    answer = firth("export", bpe_run, tmp_path / "hf", "--license", "mit")
    assert answer.code == 0, answer.err
    assert answer.out == (
        f"{tmp_path / 'hf'}: README.md, config.json, generation_config.json, model.safetensors, tokenizer.json, "
        "tokenizer_config.json\n"
    )
    return tmp_path / "hf"


def test_a_quantised_file_is_written_and_a_wrong_type_refused(firth: Firth, bpe_run: Path, tmp_path: Path) -> None:
    run, options = bpe_run, ("--format", "gguf", "--quantise")
    answer = firth("export", run, tmp_path / "small", *options, "q8_0")
    assert (answer.code, answer.out) == (0, f"{tmp_path / 'small'}: README.md, small.gguf\n")
    plain = firth("export", run, tmp_path / "plain", "--format", "gguf")
    assert plain.code == 0
    assert (tmp_path / "small/small.gguf").stat().st_size < (tmp_path / "plain/plain.gguf").stat().st_size
    wrong = firth("export", run, tmp_path / "wrong", *options, "q8")
    assert (wrong.code, wrong.err) == (2, 'firth: unknown GGUF quantisation "q8"; choose one of: q8_0, q4_0, q4_k_m\n')
    assert not (tmp_path / "wrong").exists()


def test_an_exported_run_is_imported_and_writes_the_same_text(
    firth: Firth, bpe_run: Path, exported: Path, tmp_path: Path
) -> None:
    answer = firth("import", exported, "--out", tmp_path / "run", "--json")
    assert json.loads(answer.out)["architecture"] == "LlamaForCausalLM"
    texts = [firth("generate", run, "the list", "--temperature", 0).out for run in (bpe_run, exported, tmp_path / "run")]
    assert texts[0] == texts[1] == texts[2]
    assert texts[0].startswith("the list")


def test_the_verbs_of_a_run_work_on_a_hugging_face_folder(firth: Firth, exported: Path, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("the list is empty.\n")
    assert json.loads(firth("score", exported, tmp_path / "a.txt", "--json").out)["perplexity"] > 1
    assert json.loads(firth("describe", exported, "--json").out)["parameters"] > 0
    assert list(json.loads(firth("tokenize", exported, "the list", "--json").out)) == ["imported"]
    assert firth("complete", exported, "the __ is empty.", "--candidates", "list,name").code == 0
    assert firth("evaluate", exported, "--data", tmp_path / "a.txt").code == 0
    assert firth("inspect", exported, "the list").code == 0
    assert_refused(firth("evaluate", exported), "Give --data PATH")


def test_a_run_becomes_a_gguf_file_and_a_run_again(firth: Firth, bpe_run: Path, tmp_path: Path) -> None:
    pytest.importorskip("gguf", reason="GGUF files need the package gguf")
    out, file = tmp_path / "lists", tmp_path / "lists" / "lists.gguf"
    assert firth("export", bpe_run, out, "--format", "gguf").out == f"{out}: README.md, lists.gguf\n"
    answer = firth("import", file, "--out", tmp_path / "run", "--json")
    assert json.loads(answer.out)["architecture"] == "LlamaForCausalLM"
    texts = [
        firth("generate", one, "the list", "--temperature", 0, "--tokens", 20).out for one in (bpe_run, file, tmp_path / "run")
    ]
    assert texts[0] == texts[1] == texts[2]
    assert json.loads(firth("describe", file, "--json").out)["parameters"] > 0
    assert list(json.loads(firth("tokenize", file, "the list", "--json").out)) == ["imported"]
    assert firth("inspect", file, "the list").code == 0
    folder = firth("export", bpe_run, tmp_path / "folder", "--format", "gguf", "--dtype", "float16", "--json")
    assert json.loads(folder.out)["files"] == ["README.md", "folder.gguf"]


def test_bad_input_is_one_line(firth: Firth, char_run: Path, exported: Path, tmp_path: Path) -> None:
    for arguments, message in (
        (("import", tmp_path / "absent", "--out", tmp_path / "run"), "is not a Hugging Face folder"),
        (("import", char_run, "--out", tmp_path / "run"), "has no config.json"),
        (("import", exported, "--out", exported), "already exists"),
        (("export", char_run, tmp_path / "new"), 'model.kind = "gru"'),
        (("export", char_run, tmp_path / "new", "--format", "pdf"), 'unknown format "pdf"; choose one of: hf, '),
        (("export", char_run, tmp_path / "new", "--format", "gguf"), "LLaMA cannot express model.family"),
        (("export", char_run, tmp_path / "new.gguf", "--format", "gguf"), "Remove .gguf from the name"),
        (
            ("export", char_run, tmp_path / "new", "--dtype", "int8"),
            'unknown dtype "int8"; choose one of: float32, bf16, float16',
        ),
        (("export", tmp_path / "absent", tmp_path / "new"), "is not a folder"),
    ):
        assert_refused(firth(*arguments), message)
    assert not (tmp_path / "run").exists()
    assert not (tmp_path / "new").exists()


@pytest.mark.long
def test_the_core_never_imports_transformers(exported: Path) -> None:
    use = f"firth.load({str(exported)!r}, 'cpu').generate('the', tokens=2)"
    code = f"import sys, firth; {use}; print('transformers' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
