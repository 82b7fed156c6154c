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
from shares import half

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
    path = exported(tmp_path / "run", tmp_path / "out")
    theirs = llama_cpp.Llama(model_path=str(path), logits_all=True, n_ctx=32, verbose=False, n_threads=1)
    text = "".join(LINES[:3])[:60] + "\n\n  two  spaces \n\t, 12 café 😀\n"
    assert theirs.tokenize(text.encode(), add_bos=False, special=False) == run.tokenizer.encode(text).tolist()
    ids = run.tokenizer.encode(LINES[0]).tolist()[:16]
    theirs.eval(ids)
    with torch.inference_mode():
        ours = run.network(torch.tensor([ids]))[0][0]
    torch.testing.assert_close(torch.tensor(theirs.scores[: len(ids)]), ours, rtol=0, atol=2e-3 * float(ours.abs().max()))


# Of 256 columns, and of 96, in which no block of Q4_K fits.
WIDE = {"width": 256, "attention": {"heads": 4}, "hidden": 512, "tied": False}
NARROW = {"width": 96, "attention": {"heads": 4}, "hidden": 256, "tied": True}
QUANTISED = {
    "q8_0": ("Q8_0", "Q8_0", 0.01),
    "q4_0": ("Q4_0", "Q6_K", 0.12),
    "q4_k_m": ("Q4_K", "Q6_K", 0.1),
}


@pytest.mark.parametrize("quantise", half(list(QUANTISED)))
def test_a_quantised_file_holds_what_gguf_dequantises(quantise: Any, tmp_path: Path) -> None:
    """Types of llama.cpp, values near the run's own, and logits that a reader of the file computes from them."""
    most, output, error = QUANTISED[quantise]
    run = trained(tmp_path, WIDE)
    path = exported(run, tmp_path / "out", quantise=quantise)
    reader = gguf.GGUFReader(path)
    kinds = {tensor.name: tensor.tensor_type.name for tensor in reader.tensors}
    assert (kinds["blk.0.attn_q.weight"], kinds["output.weight"], kinds["output_norm.weight"]) == (most, output, "F32")
    assert reader.fields["general.file_type"].contents() == gguf.LlamaFileType[f"MOSTLY_{quantise.upper()}"]
    assert reader.fields["general.quantization_version"].contents() == gguf.GGML_QUANT_VERSION
    before, after = (firth.load(one, "cpu").network.state_dict() for one in (run, path))
    for name, weight in before.items():
        missed = (after[name] - weight).square().mean().sqrt() / weight.square().mean().sqrt()
        assert missed < (error if weight.dim() == 2 else 1e-6), name
    (values,) = (tensor for tensor in reader.tensors if tensor.name == "token_embd.weight")
    assert torch.equal(after["embedding.weight"], torch.tensor(gguf.quants.dequantize(values.data, values.tensor_type)))


def test_rows_without_whole_blocks_take_a_type_with_more_bits(tmp_path: Path) -> None:
    path = exported(trained(tmp_path, NARROW), tmp_path / "out", quantise="q4_k_m")
    kinds = {tensor.name: tensor.tensor_type.name for tensor in gguf.GGUFReader(path).tensors}
    assert (kinds["token_embd.weight"], kinds["blk.0.attn_q.weight"], kinds["blk.0.ffn_down.weight"]) == ("Q8_0", "Q5_0", "Q6_K")
    firth.load(path, "cpu")


def test_transformers_computes_the_logits_of_a_quantised_file(tmp_path: Path) -> None:
    path = exported(trained(tmp_path, WIDE), tmp_path / "out", quantise="q4_k_m")
    theirs = transformers.AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name).eval()
    ours = firth.load(path, "cpu")
    token_BT = torch.randint(ours.tokenizer.vocab, (2, 20), generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        torch.testing.assert_close(theirs(token_BT).logits, ours.network(token_BT)[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "options", [{"format": "hf", "quantise": "q4_0"}, {"quantise": "q4_0", "dtype": "bf16"}, {"quantise": "q3"}]
)
def test_what_quantise_does_not_combine_with_is_refused(options: Any, bpe_run: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"Choose format gguf|Remove dtype or quantise|choose one of: q8_0, q4_0, q4_k_m"):
        export_model(bpe_run, tmp_path / "out", **({"format": "gguf"} | options))
    assert not (tmp_path / "out").exists()


@pytest.mark.long
@pytest.mark.parametrize("model", [WIDE, NARROW], ids=["wide", "narrow"])
@pytest.mark.parametrize("quantise", list(QUANTISED))
def test_llama_cpp_opens_a_quantised_file(quantise: Any, model: dict[str, Any], tmp_path: Path) -> None:
    """Its logits are those of firth's reading of the same file, as far as its own activations in 8 bits allow; and so is what
    both generate."""
    llama_cpp = pytest.importorskip("llama_cpp", reason="needs llama-cpp-python, which is compiled when it is installed")
    table = recipe_table("bpe", model="transformer", steps=60)
    table["model"] |= model
    path = exported(train_recipe(compose(table), tmp_path / "run").path, tmp_path / "out", quantise=quantise)
    run = firth.load(path, "cpu", kind=LanguageModelRun)
    theirs = llama_cpp.Llama(model_path=str(path), logits_all=True, n_ctx=32, verbose=False, n_threads=1)
    ids = run.tokenizer.encode(LINES[0]).tolist()[:16]
    theirs.eval(ids)
    with torch.inference_mode():
        ours = run.network(torch.tensor([ids]))[0][0]
    their_logits = torch.tensor(theirs.scores[: len(ids)])
    assert float((their_logits - ours).square().mean().sqrt()) < 0.02 * float(ours.std())
    sure = ours.topk(2).values.diff().abs().squeeze(1) > 0.1 * float(ours.std())
    assert sure.sum() >= 8
    assert torch.equal(their_logits.argmax(1)[sure], ours.argmax(1)[sure])


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
    weights = firth.load(path, "cpu").network.state_dict()
    assert all(torch.equal(weights[name], tensor.float()) for name, tensor in expected.items())


def test_the_frequencies_of_llama_3_are_a_tensor_again(tmp_path: Path) -> None:
    scaling = {"rope_type": "llama3", "rope_theta": 500_000.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
    theirs = llama(rope_parameters=scaling | {"original_max_position_embeddings": 32}, head_dim=16)
    folder = saved(tmp_path / "folder", theirs)
    path = exported(folder, tmp_path / "out")
    expected = theirs.model.rotary_emb.inv_freq
    plain = 500_000.0 ** (-torch.arange(0, 16, 2) / 16)
    (divisors,) = (torch.tensor(one.data) for one in gguf.GGUFReader(path).tensors if one.name == "rope_freqs.weight")
    torch.testing.assert_close(plain / divisors, expected, rtol=1e-5, atol=0)
    assert firth.load(path, "cpu").recipe.model.position.scaling == "llama3"


def test_a_folder_has_the_file_and_the_model_card(tmp_path: Path) -> None:
    folder = export_model(trained(tmp_path, {}), tmp_path / "lists", format="gguf", license="mit")
    assert sorted(path.name for path in folder.iterdir()) == ["README.md", "lists.gguf"]
    assert (folder / "README.md").read_text().startswith("---\nlicense: mit\n")


REFUSED: dict[str, tuple[dict[str, Any], str, str]] = {
    "alibi": ({"position": "alibi"}, "bpe", r"LLaMA cannot express model\.position\.kind = 'alibi'"),
    "dynamic": (
        {"rotary_scaling": "dynamic", "rotary_context": 8, "rotary_factor": 2.0},
        "bpe",
        r"LLaMA cannot express model\.position\.scaling = 'dynamic'",
    ),
    "norms of outputs": ({"norm_placement": "after"}, "bpe", r"LLaMA cannot express model\.norm\.placement = 'after'"),
    "norms of all of q and k": ({"qk_norm": "whole"}, "bpe", r"LLaMA cannot express model\.attention\.qk_norm = 'whole'"),
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
