"""GGUF files out: what firth writes, firth reads back to the bit, and `transformers`' own GGUF loader opens."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from chat_lines import chat_table, write_chats
from foreign_folders import byte_level, llama, saved, sentence_piece, transformers
from gguf_files import gguf, written
from runs import LINES, recipe_table

import firth
from firth.api import compose, export_model, import_model, train_recipe
from firth.errors import ConfigError, RunError
from firth.tasks.next_token import LanguageModelRun
from firth.text.conversation import Message

SETTINGS: dict[str, dict[str, Any]] = {
    "by default": {},
    "untied, one kv head": {"tied": False, "kv_heads": 1, "norm_eps": 1e-6, "head_width": 8},
    "linear": {"rotary_scaling": "linear", "rotary_context": 8},
    "yarn": {"rotary_scaling": "yarn", "rotary_context": 8},
}


def trained(folder: Path, model: dict[str, Any], kind: str = "bpe") -> Path:
    table = recipe_table(kind, model="transformer", steps=2)
    table["model"] |= model
    return train_recipe(compose(table), folder / "run").path


def exported(run: Path, out: Path, **options: Any) -> Path:
    """The file in the folder that is written."""
    (path,) = export_model(run, out, format="gguf", **options).glob("*.gguf")
    return path


def same_weights(one: Path, other: Path) -> None:
    first, second = (firth.load(path, "cpu").network.state_dict() for path in (one, other))
    assert first.keys() == second.keys()
    for name, tensor in first.items():
        assert torch.equal(tensor, second[name]), name


@pytest.mark.parametrize("name", list(SETTINGS))
def test_a_written_file_is_read_back_to_the_bit(name: str, tmp_path: Path) -> None:
    run = trained(tmp_path, SETTINGS[name])
    path = exported(run, tmp_path / "out", license="mit")
    same_weights(run, path)
    before, after = (firth.load(one, "cpu") for one in (run, path))
    token_BT = torch.randint(before.tokenizer.vocab, (2, 16), generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        assert torch.equal(before.network(token_BT)[0], after.network(token_BT)[0])
    text = "".join(LINES[:3]) + "\n\n  two  spaces \n\t, 12 café 😀\n"
    assert after.tokenizer.encode(text).tolist() == before.tokenizer.encode(text).tolist()
    assert after.tokenizer.eos == before.tokenizer.eos
    assert gguf.GGUFReader(path).fields["general.license"].contents() == "mit"


def test_transformers_computes_the_logits_of_a_written_file(tmp_path: Path) -> None:
    run = trained(tmp_path, {"tied": False})
    path = exported(run, tmp_path / "out")
    theirs = transformers.AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name).eval()
    ours = firth.load(run, "cpu")
    token_BT = torch.randint(ours.tokenizer.vocab, (2, 20), generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        torch.testing.assert_close(theirs(token_BT).logits, ours.network(token_BT)[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", list(SETTINGS))
def test_llama_cpp_opens_a_written_file(name: str, tmp_path: Path) -> None:
    """With the same tokens, logits and greedy text. llama.cpp keeps keys and values in float16."""
    llama_cpp = pytest.importorskip("llama_cpp", reason="needs llama-cpp-python, which is compiled when it is installed")
    run = firth.load(trained(tmp_path, SETTINGS[name]), "cpu")
    path = export_model(tmp_path / "run", tmp_path / "out.gguf", format="gguf")
    theirs = llama_cpp.Llama(model_path=str(path), logits_all=True, n_ctx=32, verbose=False, n_threads=1)
    text = "".join(LINES[:3])[:60] + "\n\n  two  spaces \n\t, 12 café 😀\n"
    assert theirs.tokenize(text.encode(), add_bos=False, special=False) == run.tokenizer.encode(text).tolist()
    ids = run.tokenizer.encode(LINES[0]).tolist()[:16]
    theirs.eval(ids)
    with torch.inference_mode():
        ours = run.network(torch.tensor([ids]))[0][0]
    torch.testing.assert_close(torch.tensor(theirs.scores[: len(ids)]), ours, rtol=0, atol=2e-3 * float(ours.abs().max()))


def test_a_file_of_llama_cpp_is_written_again_as_it_was(tmp_path: Path) -> None:
    """Tensors, tokens, merges and chat template, compared by the gguf package."""
    path = written(tmp_path / "one.gguf", llama(), byte_level())
    again = exported(import_model(path, tmp_path / "run"), tmp_path / "one")
    one, two = gguf.GGUFReader(path), gguf.GGUFReader(again)
    assert sorted(tensor.name for tensor in one.tensors) == sorted(tensor.name for tensor in two.tensors)
    values = {tensor.name: tensor.data for tensor in two.tensors}
    assert all((tensor.data == values[tensor.name]).all() for tensor in one.tensors)
    for key, field in one.fields.items():
        if not key.startswith("GGUF."):
            assert two.fields[key].contents() == field.contents(), key


@pytest.mark.parametrize("dtype", ["float16", "bf16"])
def test_half_precision_is_written_for_matrices_and_float32_for_norms(dtype: Any, tmp_path: Path) -> None:
    run = trained(tmp_path, {})
    path = exported(run, tmp_path / "out", dtype=dtype)
    kinds = {tensor.tensor_type.name for tensor in gguf.GGUFReader(path).tensors if "norm" not in tensor.name}
    assert kinds == {"F16" if dtype == "float16" else "BF16"}
    assert {t.tensor_type.name for t in gguf.GGUFReader(path).tensors if "norm" in t.name} == {"F32"}
    expected = firth.load(run, "cpu", dtype=dtype).network.state_dict()
    found = firth.load(path, "cpu").network.state_dict()
    assert all(torch.equal(found[name], tensor.float()) for name, tensor in expected.items())


def test_the_frequencies_of_llama_3_are_a_tensor_again(tmp_path: Path) -> None:
    scaling = {"rope_type": "llama3", "rope_theta": 500_000.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
    theirs = llama(rope_parameters=scaling | {"original_max_position_embeddings": 32}, head_dim=16)
    folder = saved(tmp_path / "folder", theirs)
    path = exported(folder, tmp_path / "out")
    expected = theirs.model.rotary_emb.inv_freq
    plain = 500_000.0 ** (-torch.arange(0, 16, 2) / 16)
    (divisors,) = (torch.tensor(one.data) for one in gguf.GGUFReader(path).tensors if one.name == "rope_freqs.weight")
    torch.testing.assert_close(plain / divisors, expected, rtol=1e-5, atol=0)
    assert firth.load(path, "cpu").recipe.model.rotary_scaling == "llama3"


def test_a_folder_has_the_file_and_the_model_card(tmp_path: Path) -> None:
    folder = export_model(trained(tmp_path, {}), tmp_path / "lists", format="gguf", license="mit")
    assert sorted(path.name for path in folder.iterdir()) == ["README.md", "lists.gguf"]
    assert (folder / "README.md").read_text().startswith("---\nlicense: mit\n")


REFUSED: dict[str, tuple[dict[str, Any], str, str]] = {
    "alibi": ({"position": "alibi"}, "bpe", r"LLaMA cannot express model\.position = 'alibi'"),
    "gpt2": ({"position": "learned", "norm": "layer"}, "bpe", "LLaMA cannot express"),
    "characters": ({}, "char", r"GGUF has byte-pair tokenizers only, and that of this run is 'char'"),
    "words": ({}, "word", "GGUF has byte-pair tokenizers only"),
}


@pytest.mark.parametrize("name", list(REFUSED))
def test_what_gguf_cannot_express_is_refused_and_nothing_is_written(name: str, tmp_path: Path) -> None:
    settings, kind, message = REFUSED[name]
    run = trained(tmp_path, settings, kind)
    with pytest.raises(ConfigError, match=message):
        exported(run, tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run"]


def test_the_tokenizer_of_llama_2_is_read_back(tmp_path: Path) -> None:
    folder = saved(tmp_path / "folder", llama(eos_token_id=2), sentence_piece())
    before = firth.load(folder, "cpu").tokenizer
    after = firth.load(exported(folder, tmp_path / "out"), "cpu").tokenizer
    for text in ("The list is empty", "Thé  café\n", "<|end|> of it", ""):
        assert after.encode(text).tolist() == before.encode(text).tolist()
        assert after.decode(after.encode(text)) == before.decode(before.encode(text))
    assert (after.begin, after.eos, after.unknown) == (before.begin, before.eos, before.unknown)


def test_merges_that_no_scores_give_are_refused(tmp_path: Path) -> None:
    folder = saved(tmp_path / "folder", llama(eos_token_id=2), sentence_piece())
    table = json.loads((folder / "tokenizer.json").read_text())
    table["model"]["vocab"] |= {name: 350 + n for n, name in enumerate(("x", "y", "z", "xy", "yz", "xyz"))}
    table["model"]["merges"] += [["x", "y"], ["y", "z"], ["xy", "z"]]  # scores would also join x and yz
    (folder / "tokenizer.json").write_text(json.dumps(table))
    with pytest.raises(ConfigError, match="its merges are not those of SentencePiece"):
        exported(folder, tmp_path / "out")


def test_a_run_of_conversations_keeps_its_markers(tmp_path: Path) -> None:
    table = chat_table(write_chats(tmp_path / "c.jsonl"))
    table["tokenizer"], table["training"]["steps"] = {"kind": "bpe", "vocab": 300}, 2
    table["model"] = {"family": "language", "kind": "transformer", "width": 16, "depth": 1, "heads": 2}
    before = train_recipe(compose(table), tmp_path / "run").path
    after = exported(before, tmp_path / "out")
    one, other = (firth.load(path, "cpu", kind=LanguageModelRun) for path in (before, after))
    messages = [Message("system", "Be brief"), Message("user", "name 3"), Message("assistant", "three"), Message("user", "x")]
    assert other.format.prompt(messages).tolist() == one.format.prompt(messages).tolist()
    assert other.format.end == one.format.end == other.tokenizer.eos
    assert isinstance(other.chat("name 3", tokens=4), str)


def test_a_folder_that_exists_is_not_overwritten(tmp_path: Path, bpe_run: Path) -> None:
    (tmp_path / "mine.gguf").write_text("mine")
    with pytest.raises(RunError, match="already exists"):
        export_model(bpe_run, tmp_path, format="gguf")
    assert (tmp_path / "mine.gguf").read_text() == "mine"
