"""GGUF files in: the weights of a LLaMA model compute what `transformers` computes, and its tokenizer splits texts as it does."""

from __future__ import annotations

import itertools
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from foreign_folders import LLAMA3, PROMPT, TEXT, byte_level, llama, saved
from gguf_files import TEMPLATE, gguf, written

import firth
from firth.api import import_model
from firth.interop.files.gguf_file import GGUFFile
from firth.interop.files.gguf_tokenizer import read_tokenizer
from firth.tasks.next_token import LanguageModelRun

MODELS: dict[str, Any] = {
    "grouped": llama,
    "tied, one kv head": lambda: llama(tie_word_embeddings=True, num_key_value_heads=1),
    "wide heads": lambda: llama(head_dim=16, rms_norm_eps=1e-5),
}


def loaded(path: Path) -> LanguageModelRun:
    return firth.load(path, "cpu", kind=LanguageModelRun)  # type: ignore[no-any-return, call-overload]


@pytest.mark.parametrize("name", list(MODELS))
@torch.inference_mode()
def test_logits_and_greedy_texts_are_those_of_transformers(name: str, tmp_path: Path) -> None:
    theirs = MODELS[name]()
    run = loaded(written(tmp_path / "model.gguf", theirs, byte_level()))
    token_BT = torch.randint(330, (3, 60), generator=torch.Generator().manual_seed(1))
    expected = theirs(token_BT).logits
    assert (run.network(token_BT)[0] - expected).abs().max() <= 1e-4 * expected.abs().max()
    assert run.recipe.model.norm.eps == theirs.config.rms_norm_eps  # not the neighbour of 1e-5 among float32
    ids = torch.from_numpy(run.prompt_ids(PROMPT)).unsqueeze(0)
    greedy = theirs.generate(ids, max_new_tokens=50, do_sample=False, eos_token_id=None, pad_token_id=0)[0, ids.shape[1] :]
    from firth.decoding.config import DecodingConfig
    from firth.decoding.generate import generate

    assert [int(one) for one in generate(run.network, ids, DecodingConfig(tokens=50, temperature=0))] == greedy.tolist()


def test_a_gguf_file_and_a_hugging_face_folder_of_one_model_are_equal_to_the_bit(tmp_path: Path) -> None:
    theirs = llama()
    one = loaded(written(tmp_path / "model.gguf", theirs, byte_level()))
    other = loaded(saved(tmp_path / "folder", theirs, byte_level()))
    assert one.recipe.model == other.recipe.model
    weights = other.network.state_dict()
    assert all(torch.equal(tensor, weights[name]) for name, tensor in one.network.state_dict().items())
    text = TEXT[:200]
    assert one.tokenizer.encode(text).tolist() == other.tokenizer.encode(text).tolist()
    assert one.tokenizer.eos == other.tokenizer.eos == 0
    assert one.tokenizer.vocab == other.tokenizer.vocab
    assert one.tokenizer.token(399) == "<unused 399>"


@pytest.mark.parametrize("kind", ["Q8_0", "Q4_1", "F16", "BF16"])
def test_quantised_weights_become_the_values_that_the_gguf_package_gives(kind: str, tmp_path: Path) -> None:
    theirs = llama(hidden_size=64, intermediate_size=96)  # blocks have 32 values
    path = written(tmp_path / "model.gguf", theirs, byte_level(), kind)
    run = loaded(path)
    reader = {tensor.name: tensor for tensor in gguf.GGUFReader(path).tensors}
    for name, ours in (("blk.1.ffn_down.weight", "blocks.1.feedforward.down.weight"), ("token_embd.weight", "embedding.weight")):
        expected = gguf.quants.dequantize(reader[name].data, reader[name].tensor_type)
        np.testing.assert_array_equal(run.network.state_dict()[ours].numpy(), np.asarray(expected, np.float32))
    exact = theirs.state_dict()["model.layers.1.mlp.down_proj.weight"]
    error = (run.network.state_dict()["blocks.1.feedforward.down.weight"] - exact).abs().max()
    assert 0 < error < 0.1


def test_metadata_and_tensors_are_what_the_gguf_package_reads(tmp_path: Path) -> None:
    path = written(tmp_path / "model.gguf", llama(), byte_level())
    reader, ours = gguf.GGUFReader(path), GGUFFile(path)
    theirs = {key: field.contents() for key, field in reader.fields.items() if not key.startswith("GGUF.")}
    assert ours.metadata.keys() == theirs.keys()
    for key, value in ours.metadata.items():
        assert value == (pytest.approx(theirs[key]) if isinstance(value, float) else theirs[key]), key
    for tensor in reader.tensors:
        np.testing.assert_array_equal(ours.tensor(tensor.name).numpy(), tensor.data)


@torch.inference_mode()
def test_the_stretched_positions_of_llama_3_are_read_from_their_tensor(tmp_path: Path) -> None:
    theirs = llama(rope_parameters=LLAMA3, head_dim=16)
    inverse = theirs.model.rotary_emb.inv_freq.double()
    plain = 500_000.0 ** (-torch.arange(0, 16, 2, dtype=torch.float64) / 16)
    divisors = {"rope_freqs.weight": (plain / inverse).float().numpy()}
    run = loaded(written(tmp_path / "model.gguf", theirs, byte_level(), tensors=divisors))
    model = run.recipe.model
    assert (model.position.scaling, model.position.context) == ("llama3", 32)
    assert model.position.factor == pytest.approx(8.0)
    token_BT = torch.randint(330, (2, 100), generator=torch.Generator().manual_seed(1))
    expected = theirs(token_BT).logits
    assert (run.network(token_BT)[0] - expected).abs().max() <= 1e-4 * expected.abs().max()


def test_an_imported_file_is_a_run_that_needs_the_file_no_longer(tmp_path: Path) -> None:
    path = written(tmp_path / "model.gguf", llama(), byte_level())
    before = loaded(path).generate("The list", tokens=12, seed=3)
    run = import_model(path, tmp_path / "run")
    path.unlink()
    after = loaded(run)
    assert after.generate("The list", tokens=12, seed=3) == before
    assert after.tokenizer.settings["chat_template"] == TEMPLATE
    assert after.recipe.imported == "LlamaForCausalLM"


WORDS = "In 1999 it's 12345 THEY'RE naïve…  \n\n  日本語, x=y?! 😀\tfoo_bar\r\n"
_LETTERS, _REST = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+", r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
PATTERNS = {
    "gpt-2": None,
    "smollm": r"\p{N}",
    "llama-bpe": rf"{_LETTERS}|\p{{N}}{{1,3}}|{_REST}",
    "qwen2": rf"{_LETTERS}|\p{{N}}|{_REST}",
}


@pytest.mark.parametrize("pre", list(PATTERNS))
def test_words_are_split_as_the_published_tokenizers_split_them(pre: str) -> None:
    """The patterns above are those of the published tokenizer.json files."""
    from tokenizers import Regex, pre_tokenizers

    from firth.interop.files.gguf_tokenizer import pre_tokenizer

    plain = pre_tokenizers.ByteLevel(add_prefix_space=False)
    published: Any = plain
    if pre == "smollm":
        published = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), plain])
    elif (pattern := PATTERNS[pre]) is not None:
        bare = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        published = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated"), bare])
    assert pre_tokenizer(pre).pre_tokenize_str(WORDS) == published.pre_tokenize_str(WORDS)


def spm_metadata() -> dict[str, Any]:
    """LLaMA 2's kind: scores instead of merges, bytes for what the vocabulary lacks."""
    words = ["▁the", "▁list", "▁is", "▁t", "he", "li", "st", "▁li", "is", "▁i", *"▁thelistf"]
    names = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *dict.fromkeys(words)]
    scores = [0.0] * 259 + [-float(rank) for rank in range(len(names) - 259)]
    return {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": names,
        "tokenizer.ggml.scores": scores,
        "tokenizer.ggml.token_type": [2, 3, 3, *[6] * 256, *[1] * (len(names) - 259)],
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
    }


def test_sentence_piece_joins_the_pair_with_the_highest_score() -> None:
    metadata = spm_metadata()
    names, scores = metadata["tokenizer.ggml.tokens"], metadata["tokenizer.ggml.scores"]
    tokenizer = read_tokenizer(metadata, 300)
    assert tokenizer.begin == (1,)
    assert tokenizer.eos == 2
    for text in ("the list is", "listed thé f", "a  b"):
        assert tokenizer.encode(text).tolist() == joined("▁" + text.replace(" ", "▁"), names, scores)
        assert tokenizer.decode(tokenizer.encode(text)) == text


def joined(text: str, names: list[str], scores: list[float]) -> list[int]:
    """SentencePiece's rule as a loop."""
    ids = {name: id for id, name in enumerate(names)}
    parts = list(text)
    while True:
        pairs = [(scores[ids[a + b]], -n) for n, (a, b) in enumerate(itertools.pairwise(parts)) if a + b in ids]
        if not pairs:
            break
        n = -max(pairs)[1]
        parts[n : n + 2] = [parts[n] + parts[n + 1]]
    return [id for part in parts for id in ([ids[part]] if part in ids else [3 + byte for byte in part.encode()])]


def test_verbs_of_a_language_model_work_on_a_gguf_file(tmp_path: Path) -> None:
    run = loaded(written(tmp_path / "model.gguf", llama(), byte_level()))
    assert run.score(["The list is empty."])[0].perplexity > 1
    assert run.complete("The __ is empty.", ["list", "café"])
    assert run.embed(["The list", "is"]).shape == (2, 32)
    np.testing.assert_allclose(run.attention(PROMPT).weights(0).sum(-1), 1.0, atol=1e-5)


@pytest.mark.long
def test_neither_transformers_nor_without_a_file_gguf_is_imported(tmp_path: Path) -> None:
    path = written(tmp_path / "model.gguf", llama(), byte_level())
    code = (
        f"import sys, firth, firth.interop; before = 'gguf' in sys.modules; firth.load({str(path)!r}, 'cpu'); "
        "print(before, 'transformers' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False False"
