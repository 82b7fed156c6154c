"""Folders that cannot be imported: a one-line error, and nothing half-written."""

from __future__ import annotations

import json
import pickle
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from foreign_folders import bloom, byte_level, fast, gemma2, gemma3, gpt2, gpt_neox, llama, mistral, qwen2, qwen3, saved
from safetensors.torch import load_file, save_file

import firth
from firth.api import import_model, train
from firth.errors import ConfigError, DataError, FirthError


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(tmp_path_factory.mktemp("good") / "llama", llama(), max_shard_size="20KB")


@pytest.fixture(scope="module")
def good_gpt2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(tmp_path_factory.mktemp("good") / "gpt2", gpt2())


def changed(path: Path, **keys: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | keys))


def shard(folder: Path) -> Path:
    return sorted(folder.glob("model-*.safetensors"))[1]


def truncate(folder: Path) -> None:
    path = shard(folder)
    path.write_bytes(path.read_bytes()[:-100])


def huge_header(folder: Path) -> None:
    path = shard(folder)
    path.write_bytes(struct.pack("<Q", 1 << 60) + path.read_bytes()[8:])


def huge_tensor(folder: Path) -> None:
    header = json.dumps({"x": {"dtype": "F32", "shape": [1 << 40], "data_offsets": [0, 1 << 42]}}).encode()
    shard(folder).write_bytes(struct.pack("<Q", len(header)) + header)


def other_shape(folder: Path) -> None:
    header = json.dumps({"x": {"dtype": "F32", "shape": [3], "data_offsets": [0, 8]}}).encode()
    shard(folder).write_bytes(struct.pack("<Q", len(header)) + header + bytes(8))


def leaves(folder: Path) -> None:
    path = folder / "model.safetensors.index.json"
    table = json.loads(path.read_text())
    table["weight_map"]["lm_head.weight"] = "../other.safetensors"
    path.write_text(json.dumps(table))


def rewritten(edit: Callable[[dict[str, torch.Tensor]], object]) -> Callable[[Path], None]:
    """The weights in one file, edited."""

    def change(folder: Path) -> None:
        tensors: dict[str, torch.Tensor] = {}
        for path in folder.glob("model*.safetensors"):
            tensors |= load_file(path)
            path.unlink()
        (folder / "model.safetensors.index.json").unlink(missing_ok=True)
        edit(tensors)
        save_file({name: tensor.clone() for name, tensor in tensors.items()}, folder / "model.safetensors")

    return change


def no_weights(folder: Path) -> None:
    for path in folder.glob("model*"):
        path.unlink()


def pickled(folder: Path) -> None:
    no_weights(folder)
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps({"x": Path("a")}))


def pickled_object(folder: Path) -> None:
    no_weights(folder)
    torch.save({"x": Path("a")}, folder / "pytorch_model.bin")


def damaged_bin(folder: Path) -> None:
    no_weights(folder)
    torch.save({"x": torch.ones(1000)}, folder / "pytorch_model.bin")
    path = folder / "pytorch_model.bin"
    path.write_bytes(path.read_bytes()[:2000])


def other_format(folder: Path) -> None:
    no_weights(folder)
    (folder / "weights.pth").write_bytes(b"x")


Q = "model.layers.0.self_attn.q_proj.weight"
BAD: dict[str, tuple[Callable[[Path], object], str]] = {
    "shard missing": (lambda folder: shard(folder).unlink(), r"1 of \d+ weight files are missing, the first is model-00002"),
    "truncated": (truncate, r"is truncated or damaged: .* ends at byte"),
    "huge header": (huge_header, r"declares a header of 1,152,921,504,606,846,976 bytes"),
    "huge tensor": (huge_tensor, r"x ends at byte 4398046511104, but only 0 are there"),
    "other shape": (other_shape, r"x has 8 bytes, which do not fit its shape \(3,\)"),
    "header is no JSON": (lambda folder: shard(folder).write_bytes(struct.pack("<Q", 4) + b"abcd"), "its header is not JSON"),
    "empty file": (lambda folder: shard(folder).write_bytes(b""), "truncated or damaged"),
    "index leaves the folder": (leaves, r"names the file '\.\./other\.safetensors', which is not in its folder"),
    "index is no table": (lambda folder: (folder / "model.safetensors.index.json").write_text("[]"), "no readable weight_map"),
    "no weights": (no_weights, "has no weights; expected model.safetensors"),
    "pickled": (pickled, "holds pickled Python objects, which could run any code. Convert it"),
    "pickled object": (pickled_object, "holds pickled Python objects"),
    "damaged bin": (damaged_bin, "pytorch_model.bin is truncated or damaged"),
    "other format": (other_format, "only weights.pth. Convert it"),
    "missing tensor": (rewritten(lambda tensors: tensors.pop(Q)), rf"the weights do not fit config\.json\. missing: {Q}\."),
    "unexpected tensor": (rewritten(lambda tensors: tensors.update(x=torch.ones(2))), r"unexpected: x\."),
    "misshaped tensor": (
        rewritten(lambda tensors: tensors.update({Q: torch.ones(2, 3)})),
        rf"of another shape: {Q} is \(2, 3\) instead of \(32, 32\)",
    ),
    "quantised": (rewritten(lambda tensors: tensors.update({Q: torch.ones(32, 32, dtype=torch.int8)})), "is stored as I8"),
    "unknown architecture": (
        lambda folder: changed(folder / "config.json", architectures=["FooForCausalLM"]),
        r"'FooForCausalLM', which firth does not know\. Known: LlamaForCausalLM\.",
    ),
    "unknown model type": (
        lambda folder: changed(folder / "config.json", architectures=["FooForCausalLM"], model_type="foo"),
        r"'FooForCausalLM', which firth does not know\. Known: LLaMA, GPT-2, .*, BERT, RoBERTa, .*, Marian\.",
    ),
    "unknown key": (lambda folder: changed(folder / "config.json", new_scale=0.5), r"does not know: new_scale = 0\.5\."),
    "quantisation": (lambda folder: changed(folder / "config.json", quantization_config={"bits": 4}), "quantization_config"),
    "biases": (
        lambda folder: changed(folder / "config.json", attention_bias=True),
        "attention_bias is True; firth only",
    ),
    "activation": (lambda folder: changed(folder / "config.json", hidden_act="gelu"), "hidden_act is 'gelu'"),
    "dynamic positions": (
        lambda folder: changed(folder / "config.json", rope_parameters={"rope_type": "dynamic", "factor": 2.0}),
        "rope_type is 'dynamic'; firth only computes default, linear, yarn, llama3",
    ),
    "other frequencies": (
        lambda folder: changed(folder / "config.json", rope_parameters={"rope_type": "yarn", "factor": 2.0, "beta_fast": 16}),
        "beta_fast is 16",
    ),
    "unknown rope key": (
        lambda folder: changed(folder / "config.json", rope_parameters={"rope_type": "linear", "factor": 2.0, "zeta": 1}),
        "zeta = 1",
    ),
    "no width": (
        lambda folder: changed(folder / "config.json", hidden_size=None),
        "hidden_size is None; expected a whole",
    ),
    "odd heads": (lambda folder: changed(folder / "config.json", num_key_value_heads=3), "does not describe a LLaMA model"),
    "config is no JSON": (lambda folder: (folder / "config.json").write_text("{"), "config.json is not valid JSON"),
    "no tokenizer": (lambda folder: (folder / "tokenizer.json").unlink(), "has no tokenizer.json"),
    "damaged tokenizer": (lambda folder: (folder / "tokenizer.json").write_text("{}"), "is not a tokenizer.json: Model missing"),
    "tokenizer too large": (
        lambda folder: changed(folder / "config.json", vocab_size=100),
        r"the tokenizer has 330 tokens, but the embedding has 100 rows",
    ),
}


@pytest.mark.parametrize("name", list(BAD))
def test_a_bad_folder_is_refused_in_one_line_and_nothing_is_written(name: str, good: Path, tmp_path: Path) -> None:
    change, message = BAD[name]
    folder = tmp_path / "model"
    shutil.copytree(good, folder)
    change(folder)
    for attempt in (lambda: firth.load(folder, "cpu"), lambda: import_model(folder, tmp_path / "runs" / "run")):
        with pytest.raises(FirthError, match=message) as caught:
            attempt()
        assert "\n" not in str(caught.value)
    assert list((tmp_path / "runs").glob("*")) == []


@pytest.mark.parametrize(
    "keys",
    [{"scale_attn_by_inverse_layer_idx": True}, {"add_cross_attention": True}, {"tie_word_embeddings": False}],
)
def test_settings_of_gpt2_that_change_the_computation_are_refused(keys: dict[str, bool], good_gpt2: Path, tmp_path: Path) -> None:
    shutil.copytree(good_gpt2, tmp_path / "model")
    changed(tmp_path / "model" / "config.json", **keys)
    with pytest.raises(DataError, match=f"{next(iter(keys))} is .*; firth only computes"):
        firth.load(tmp_path / "model", "cpu")


FAMILY_BAD: dict[str, tuple[Callable[[], Any], dict[str, Any], str]] = {
    "window of no size": (mistral, {"sliding_window": 0}, "sliding_window is 0; expected a whole number"),
    "window in words": (mistral, {"sliding_window": "wide"}, "sliding_window is 'wide'; expected a number or null"),
    "kinds of some layers": (qwen2, {"layer_types": ["full_attention"]}, r"layer_types is \['full_attention'\]; expected"),
    "unknown kind of layer": (qwen3, {"layer_types": ["chunked_attention"] * 3}, "expected 'sliding_attention' or 'full"),
    "windows without a span": (qwen2, {"layer_types": ["sliding_attention"] * 3}, "sliding_window is None; expected a whole"),
    "biases of attention": (qwen3, {"attention_bias": True}, "attention_bias is True; firth only computes False"),
    "no biases": (gpt_neox, {"attention_bias": False}, "attention_bias is False; firth only computes True"),
    "half of a rotation": (
        llama,
        {"rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.5}},
        "partial_rotary_factor is 0.5; for this family firth only computes 1",
    ),
    "residuals after the norm": (
        bloom,
        {"apply_residual_connection_post_layernorm": True},
        "post_layernorm is True; firth only computes False",
    ),
    "exact gelu": (gemma2, {"hidden_activation": "gelu"}, "hidden_activation is 'gelu'; firth only computes 'gelu_pytorch_tanh'"),
    "in both directions": (gemma3, {"use_bidirectional_attention": True}, "use_bidirectional_attention = True"),
    "no bound": (gemma2, {"attn_logit_softcapping": 0}, r"does not describe a Gemma 2 model .* model\.score_cap is 0"),
    "stretched windows": (
        gemma3,
        {"rope_parameters": {"sliding_attention": {"rope_type": "linear", "factor": 2.0, "rope_theta": 1e4}}},
        "stretches the positions of windows",
    ),
}


@pytest.mark.parametrize("name", list(FAMILY_BAD))
def test_settings_of_other_families_that_change_the_computation_are_refused(name: str, tmp_path: Path) -> None:
    build, keys, message = FAMILY_BAD[name]
    folder = saved(tmp_path / "model", build())
    changed(folder / "config.json", **keys)
    with pytest.raises(DataError, match=message):
        firth.load(folder, "cpu")


def test_an_existing_folder_is_not_overwritten(good: Path, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "thesis.txt").write_text("mine")
    with pytest.raises(FirthError, match="already exists"):
        import_model(good, tmp_path / "run")
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["thesis.txt"]


def test_an_imported_run_has_no_data_of_its_own(good: Path, tmp_path: Path) -> None:
    run = firth.load(import_model(good, tmp_path / "run"), "cpu")
    with pytest.raises(DataError, match=r"imported without the data that it was trained on\. Give a path\."):
        run.evaluate()
    (tmp_path / "a.txt").write_text("The list is empty.\n" * 20)
    assert run.evaluate(tmp_path / "a.txt")["perplexity"] > 1  # type: ignore[operator]
    with pytest.raises(ConfigError, match=r"imported model, LlamaForCausalLM\. To train it further, .* training\.init"):
        train(run.recipe, tmp_path / "new")


def test_a_missing_token_that_ends_a_text_is_refused(good: Path, tmp_path: Path) -> None:
    shutil.copytree(good, tmp_path / "model")
    tokenizer = fast(byte_level())
    tokenizer.save_pretrained(tmp_path / "model")
    changed(tmp_path / "model" / "tokenizer_config.json", eos_token="</s>")
    changed(tmp_path / "model" / "config.json", eos_token_id=None)
    (tmp_path / "model" / "generation_config.json").unlink()
    with pytest.raises(DataError, match=r'the tokenizer has no token "</s>", which ends a text'):
        firth.load(tmp_path / "model", "cpu")
