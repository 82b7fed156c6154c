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
from foreign_folders import (
    bloom,
    byte_level,
    falcon,
    falcon_40b,
    fast,
    gemma2,
    gemma3,
    gpt2,
    gpt_neox,
    llama,
    mistral,
    olmo2,
    opt,
    phi3,
    qwen2,
    qwen3,
    saved,
    transformers,
)
from safetensors.torch import load_file, save_file
from shares import half

import firth
from firth import files
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


def twice(folder: Path) -> None:
    """A tensor of the first shard in the second as well, with other values."""
    first = load_file(sorted(folder.glob("model-*.safetensors"))[0])
    name = sorted(first)[0]
    save_file({**load_file(shard(folder)), name: first[name] + 1}, shard(folder))


def same_name(folder: Path) -> None:
    entry = '{"dtype": "F32", "shape": [1], "data_offsets": [%d, %d]}'
    header = f'{{"x": {entry % (0, 4)}, "x": {entry % (4, 8)}}}'.encode()
    shard(folder).write_bytes(struct.pack("<Q", len(header)) + header + bytes(8))


def in_a_circle(folder: Path) -> None:
    path = shard(folder)
    path.unlink()
    path.symlink_to(path.name)


def one_number(folder: Path) -> None:
    no_weights(folder)
    torch.save({"model.norm.weight": torch.ones(1).expand(1 << 40)}, folder / "pytorch_model.bin")


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
    "header is no JSON": (lambda folder: shard(folder).write_bytes(struct.pack("<Q", 4) + b"abcd"), "its header is not JSON, or"),
    "empty file": (lambda folder: shard(folder).write_bytes(b""), "truncated or damaged"),
    "index leaves the folder": (leaves, r"names the file '\.\./other\.safetensors', which is not in its folder"),
    "index is no table": (lambda folder: (folder / "model.safetensors.index.json").write_text("[]"), "index.json is not a table"),
    "tensor in two shards": (twice, r"is in both model-00001.* and model-00002.*\. Download both again"),
    "name twice in a header": (same_name, "or names a tensor twice"),
    "link to itself": (in_a_circle, r"1 of \d+ weight files are missing"),
    "one number as a matrix": (one_number, r"model\.norm\.weight has the shape \(1099511627776,\), but fewer values"),
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
    "not finite": (
        rewritten(lambda tensors: tensors[Q][0, :3].fill_(float("nan"))),
        rf"3 of 1,024 numbers of {Q} in .*model\.safetensors are not finite \(NaN or infinite\)\. Use other weights\.",
    ),
    "quantised": (rewritten(lambda tensors: tensors.update({Q: torch.ones(32, 32, dtype=torch.int8)})), "is stored as I8"),
    "unknown architecture": (
        lambda folder: changed(folder / "config.json", architectures=["FooForCausalLM"]),
        r"'FooForCausalLM', which firth does not know\. Known: LlamaForCausalLM\.",
    ),
    "unknown model type": (
        lambda folder: changed(folder / "config.json", architectures=["FooForCausalLM"], model_type="foo"),
        r"'FooForCausalLM', which firth does not know\. Known: LLaMA, GPT-2, .*, BERT, RoBERTa, "
        r".*, Marian, Pegasus, mBART, M2M-100\.",
    ),
    "unknown key": (lambda folder: changed(folder / "config.json", new_scale=0.5), r"does not know: new_scale = 0\.5\."),
    "quantisation": (lambda folder: changed(folder / "config.json", quantization_config={"bits": 4}), "quantization_config"),
    "biases": (
        lambda folder: changed(folder / "config.json", attention_bias=True),
        "attention_bias is True; firth only",
    ),
    "activation": (lambda folder: changed(folder / "config.json", hidden_act="gelu"), "hidden_act is 'gelu'"),
    "proportional positions": (
        lambda folder: changed(folder / "config.json", rope_parameters={"rope_type": "proportional", "factor": 2.0}),
        "rope_type is 'proportional'; firth only computes default, linear, yarn, llama3, dynamic",
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


# A value of another kind than firth expects, in one of the JSON files.
KINDS: list[tuple[str, dict[str, Any], str]] = [
    (
        "config.json",
        {"eos_token_id": {"a": 1}},
        r"config\.json: eos_token_id is \{'a': 1\}; expected the id of a token or a list",
    ),
    ("config.json", {"eos_token_id": 2**64}, "eos_token_id is 18446744073709551616; expected the id of a token"),
    ("config.json", {"tie_word_embeddings": 0}, "tie_word_embeddings is 0; firth only computes False or True"),
    ("config.json", {"architectures": "LlamaForCausalLM"}, "architectures is 'LlamaForCausalLM'; expected a list: a string each"),
    ("config.json", {"num_hidden_layers": [3]}, r"num_hidden_layers is \[3\]; expected a whole number of at least 1"),
    ("config.json", {"rms_norm_eps": {"a": 1}}, r"rms_norm_eps is \{'a': 1\}; expected a number"),
    ("config.json", {"rms_norm_eps": 10**400}, "rms_norm_eps is 1000000000.*…; expected a number"),
    ("config.json", {"rope_parameters": [1]}, r"rope_parameters is \[1\]; expected a table"),
    ("config.json", {"rope_parameters": {"rope_theta": {}}}, r"rope_theta is \{\}; expected a number"),
    ("config.json", {"_name_or_path": "\ud800"}, "config.json is damaged: a string holds half of a surrogate pair"),
    ("generation_config.json", {"do_sample": True, "top_k": "many"}, "top_k is 'many'; expected a whole number"),
    ("generation_config.json", {"do_sample": True, "temperature": []}, r"temperature is \[\]; expected a number"),
    ("generation_config.json", {"eos_token_id": ["a"]}, r"eos_token_id is \['a'\]; expected the id of a token or a list"),
    ("tokenizer_config.json", {"eos_token": [1]}, r"eos_token is \[1\]; expected a token"),
    ("tokenizer_config.json", {"eos_token": "\udc00"}, "tokenizer_config.json is damaged: a string holds half of a surrogate"),
    ("tokenizer_config.json", {"chat_template": {"a": 1}}, r"chat_template is \{'a': 1\}; expected a string or a list of named"),
    ("model.safetensors.index.json", {"weight_map": {"a": 1}}, r"weight_map is \{'a': 1\}; expected a table: a string each"),
    ("model.safetensors.index.json", {"weight_map": {"a": ".."}}, r"names the file '\.\.', which is not in its folder"),
    ("model.safetensors.index.json", {"weight_map": {"a": "/etc/passwd"}}, "names the file '/etc/passwd', which is not in its"),
]


@pytest.mark.parametrize(("file", "keys", "message"), KINDS)
def test_a_value_of_another_kind_is_refused_by_its_key(
    file: str, keys: dict[str, Any], message: str, good: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "model"
    shutil.copytree(good, folder)
    changed(folder / file, **keys)
    with pytest.raises(FirthError, match=message) as caught:
        firth.load(folder, "cpu")
    assert "\n" not in str(caught.value)


def test_a_number_that_is_not_json_is_refused(good: Path, tmp_path: Path) -> None:
    shutil.copytree(good, tmp_path / "model")
    changed(tmp_path / "model" / "config.json", rms_norm_eps=float("nan"))
    with pytest.raises(DataError, match=r"is not valid JSON: NaN is not a number of JSON\. Download it again"):
        firth.load(tmp_path / "model", "cpu")


PANICS: dict[str, dict[str, Any]] = {
    "a template with a second text": {
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [{"Sequence": {"id": "B", "type_id": 0}}],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}],
            "special_tokens": {},
        }
    },
    "nothing replaced": {"normalizer": {"type": "Replace", "pattern": {"String": ""}, "content": "xxxx"}},
    "pieces of no length": {"pre_tokenizer": {"type": "FixedLength", "length": 0}},
}


@pytest.mark.parametrize("name", PANICS)
def test_a_tokenizer_that_makes_rust_panic_is_refused_in_one_line(
    name: str, good: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(good, tmp_path / "model")
    changed(tmp_path / "model" / "tokenizer.json", **PANICS[name])
    with pytest.raises(DataError, match=r"tokenizer\.json cannot encode a text: ") as caught:
        firth.load(tmp_path / "model", "cpu")
    assert "\n" not in str(caught.value)
    assert capfd.readouterr().err == ""


def test_a_run_whose_weights_are_not_finite_is_refused(good: Path, tmp_path: Path) -> None:
    run = import_model(good, tmp_path / "run")
    tensors, metadata = files.load_tensors(run / "model.safetensors")
    tensors["norm.weight"][4] = float("-inf")
    files.save_tensors(run / "model.safetensors", tensors, metadata)
    with pytest.raises(DataError, match=r"1 of 32 numbers of norm\.weight in .* are not finite"):
        firth.load(run, "cpu")


def test_finite_weights_whose_sum_overflows_are_read() -> None:
    files.expect_finite(torch.full((4,), 3e38), "x", "file")
    files.expect_finite(torch.full((4,), 60_000.0, dtype=torch.float16), "x", "file")
    with pytest.raises(DataError, match="2 of 4 numbers of x in file"):
        files.expect_finite(torch.tensor([1.0, float("inf"), 2.0, float("-inf")], dtype=torch.bfloat16), "x", "file")


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
    "one layer after the other, with groups": (
        falcon_40b,
        {"parallel_attn": False},
        "parallel_attn is False; firth only computes True",
    ),
    "two norms in the older Falcon": (falcon, {"num_ln_in_parallel_attn": 2}, "num_ln_in_parallel_attn is 2; firth only"),
    "three norms": (falcon_40b, {"num_ln_in_parallel_attn": 3}, "num_ln_in_parallel_attn is 3; firth only"),
    "groups in the older Falcon": (falcon, {"multi_query": False, "num_kv_heads": 2}, "num_kv_heads is 2; firth only computes 4"),
    "dynamic rope of another context": (
        llama,
        {"rope_parameters": {"rope_type": "dynamic", "factor": 2.0, "original_max_position_embeddings": 64}},
        "original_max_position_embeddings is 64; with rope_type 'dynamic', firth only computes what max_position_emb",
    ),
    "long rope": (
        phi3,
        {"rope_parameters": {"rope_type": "longrope", "short_factor": [1.0] * 4, "long_factor": [2.0] * 4}},
        "rope_type is 'longrope'; firth only computes default",
    ),
    "biases of OLMo 2": (olmo2, {"attention_bias": True}, "attention_bias is True; firth only computes False"),
    "projected embedding": (opt, {"word_embed_proj_dim": 16}, "word_embed_proj_dim is 16; firth only computes 32"),
    "norms without gains": (opt, {"layer_norm_elementwise_affine": False}, "layer_norm_elementwise_affine is False; firth only"),
    "no final norm": (opt, {"_remove_final_layer_norm": True}, "_remove_final_layer_norm is True; firth only computes False"),
    "in both directions": (gemma3, {"use_bidirectional_attention": True}, "use_bidirectional_attention = True"),
    "no bound": (gemma2, {"attn_logit_softcapping": 0}, r"does not describe a Gemma 2 model .* model\.attention\.cap is 0"),
    "stretched windows": (
        gemma3,
        {"rope_parameters": {"sliding_attention": {"rope_type": "linear", "factor": 2.0, "rope_theta": 1e4}}},
        "stretches the positions of windows",
    ),
}


@pytest.mark.parametrize("name", half(list(FAMILY_BAD)))
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
    with pytest.raises(DataError, match=r"imported without its training data\. Give a path\."):
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


def test_of_a_file_and_shards_the_file_is_read_as_by_transformers(good: Path, tmp_path: Path) -> None:
    shutil.copytree(good, tmp_path / "model")
    weights = {name: tensor for path in good.glob("model-*.safetensors") for name, tensor in load_file(path).items()}
    weights["model.norm.weight"] = torch.full((32,), 7.0)
    save_file(weights, tmp_path / "model" / "model.safetensors", metadata={"format": "pt"})
    theirs = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "model")
    ours = firth.load(tmp_path / "model", "cpu").network.state_dict()["norm.weight"]
    assert torch.equal(ours, theirs.model.norm.weight.data)
    assert ours[0] == 7
