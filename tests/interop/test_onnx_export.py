"""ONNX Runtime computes what our networks compute, for any batch and length, with and without a cache."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from runs import recipe_table
from torch import Tensor

import firth
from firth.api import compose, export_model, train_recipe
from firth.errors import ConfigError
from firth.interop.formats import onnx_format
from firth.interop.formats.formats import FORMATS
from firth.interop.formats.onnx_graphs import Graph, graphs
from firth.models import Network, TransformerConfig, TransformerEncoderConfig, classifier, language_model, masked_lm
from firth.models.encoder_config import RecurrentEncoderConfig
from firth.models.initialise import initialise
from firth.models.seq2seq import seq2seq
from firth.models.seq2seq_config import TransformerSeq2SeqConfig
from firth.models.tagger import tagger

VOCAB = 40
SIZES: dict[str, Any] = {"kind": "transformer", "width": 16, "depth": 2, "heads": 4, "context": 48}
GPT2: dict[str, Any] = {"position": "learned", "norm": "layer", "activation": "gelu_tanh", "bias": True}
# Batch, new tokens, past and source; a past may be empty, and a step has one token.
SHAPES = [(3, 9, 6, 7), (1, 1, 0, 1), (1, 1, 8, 3), (4, 30, 0, 20)]


def causal(**settings: Any) -> Network:
    return language_model(TransformerConfig(**SIZES | settings), VOCAB)


def encoding(**settings: Any) -> TransformerEncoderConfig:
    return TransformerEncoderConfig(**SIZES | settings)


NETWORKS: dict[str, Any] = {
    "llama, two kv heads": lambda: causal(kv_heads=2),
    "gpt2": lambda: causal(**GPT2),
    "alibi": lambda: causal(position="alibi"),
    "shaw": lambda: causal(position="shaw"),
    "additive": lambda: causal(score="additive", position="none"),
    "window": lambda: causal(mask="window", span=4),
    "masked": lambda: masked_lm(encoding(), VOCAB),
    "disentangled": lambda: masked_lm(encoding(position="disentangled"), VOCAB),
    "classifier": lambda: classifier(encoding(pool="first", norm_placement="post", **GPT2), VOCAB, 3),
    "tagger": lambda: tagger(encoding(), VOCAB, 5),
    "seq2seq": lambda: seq2seq(TransformerSeq2SeqConfig(**SIZES), VOCAB, VOCAB),
}


def given(graph: Graph, shape: tuple[int, int, int, int]) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(1)
    sizes = dict(zip(("batch", "length", "past", "source"), shape, strict=True))
    inputs: dict[str, Tensor] = {}
    for name, (example, axes) in graph.inputs.items():
        wanted = [sizes[axes[axis]] if axis in axes else size for axis, size in enumerate(example.shape)]
        if name == "input_ids":
            inputs[name] = torch.randint(VOCAB, wanted, generator=generator)
        elif name == "attention_mask":
            inputs[name] = torch.ones(wanted, dtype=torch.long)
            inputs[name][0, max(1, wanted[1] // 2) :] = 0  # the first row is padded
        else:
            inputs[name] = torch.randn(wanted, generator=generator)
    return inputs


@pytest.mark.long
@pytest.mark.parametrize("name", list(NETWORKS))
def test_onnx_runtime_computes_every_output_for_any_size(name: str, tmp_path: Path) -> None:
    import onnx_ir

    network = NETWORKS[name]()
    initialise(network, torch.Generator().manual_seed(0))
    for graph in graphs(network.eval()):
        model = onnx_format.traced(graph)
        with (tmp_path / onnx_format.WEIGHTS).open("wb") as file:
            onnx_format.SharedWeights(file).take(model)
        onnx_ir.save(model, tmp_path / graph.file)
        session = onnxruntime.InferenceSession(tmp_path / graph.file)
        for shape in SHAPES:
            inputs = given(graph, shape)
            with torch.inference_mode():
                expected = graph.module(*inputs.values())
            expected = expected if isinstance(expected, tuple) else (expected,)
            outputs = session.run(None, {key: value.numpy() for key, value in inputs.items()})
            for theirs, ours in zip(outputs, expected, strict=True):
                torch.testing.assert_close(torch.from_numpy(theirs), ours, rtol=1e-4, atol=1e-5)


@pytest.mark.long
def test_a_greedy_loop_in_onnx_runtime_writes_our_tokens(tmp_path: Path) -> None:
    table = recipe_table("bpe", model="transformer", steps=30)
    run = train_recipe(compose(table), tmp_path / "run").path
    folder = export_model(run, tmp_path / "onnx", format="onnx", license="mit")
    ours = firth.load(run, "cpu")
    prompt = ours.prompt_ids("The list")
    session = onnxruntime.InferenceSession(folder / "model_with_cache.onnx")
    past = {value.name: np.zeros((1, value.shape[1], 0, value.shape[3]), np.float32) for value in session.get_inputs()[1:]}
    token, written = prompt[None], []
    for _ in range(20):
        logits, *present = session.run(None, {"input_ids": token, **past})
        past = dict(zip(past, present, strict=True))
        token = logits[:, -1:].argmax(-1)
        written.append(int(token[0, 0]))
    whole = onnxruntime.InferenceSession(folder / "model.onnx").run(None, {"input_ids": np.array([[*prompt, *written]])})[0]
    assert whole[0, len(prompt) - 1 : -1].argmax(-1).tolist() == written
    with torch.inference_mode():
        state, token_BT = ours.network.start(1), torch.from_numpy(prompt)[None]
        for expected in written:
            logits_BTV, state = ours.network.step(token_BT, state)
            token_BT = logits_BTV[:, -1:].argmax(-1)
            assert int(token_BT) == expected
    files = sorted(path.name for path in folder.iterdir())
    beside = ["README.md", "firth_config.json", "tokenizer.json", "tokenizer_config.json", "weights.bin"]
    assert files == sorted([*beside, "model.onnx", "model_with_cache.onnx"])
    config = json.loads((folder / "firth_config.json").read_text())
    assert config["graphs"]["model_with_cache.onnx"]["outputs"][0] == "logits"
    assert config["eos_id"] == ours.tokenizer.eos
    assert (folder / "README.md").read_text().startswith("---\nlicense: mit\nlibrary_name: onnx\n")
    weights = sum(parameter.numel() for parameter in ours.network.parameters()) * 4
    assert (folder / "weights.bin").stat().st_size < 1.9 * weights + 16 * 4096  # once, for both graphs
    assert str(tmp_path).encode() not in (folder / "model.onnx").read_bytes()
    assert b"firth/layers" not in (folder / "model.onnx").read_bytes()  # no file of the machine that wrote it


REFUSED: dict[str, tuple[Any, str]] = {
    "recurrent": (lambda: classifier(RecurrentEncoderConfig(kind="lstm", width=8), VOCAB, 3), "recurrent layers process"),
    "dynamic": (
        lambda: causal(rotary_scaling="dynamic", rotary_context=8, rotary_factor=2.0),
        'scaling = "dynamic" depends on the length of the text',
    ),
    "linear": (lambda: causal(attention="linear", position="none"), "LinearAttention, whose state is not keys and values"),
    "spelling": (lambda: tagger(encoding(characters=4), VOCAB, 5), r"model\.spelling"),
    "crf": (lambda: tagger(encoding(readout="crf"), VOCAB, 5), r'model\.readout = "crf"'),
}


@pytest.mark.parametrize("name", list(REFUSED))
def test_a_network_without_a_graph_is_refused_with_the_reason(name: str) -> None:
    make, message = REFUSED[name]
    with pytest.raises(ConfigError, match=message):
        graphs(make())


def test_a_recurrent_run_leaves_no_folder(char_run: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="recurrent layers"):
        export_model(char_run, tmp_path / "onnx", format="onnx")
    assert not (tmp_path / "onnx").exists()


def test_without_the_packages_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnx_format.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"pip install 'firth\[onnx\]'"):
        onnx_format.expect_packages()


def test_an_unknown_format_lists_the_known_ones_and_the_help_names_them(bpe_run: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match='unknown format "tflite"; choose one of: hf, onnx'):
        export_model(bpe_run, tmp_path / "x", format="tflite")
    from firth.cli import export

    for name in FORMATS:
        assert name in str(export.export.__annotations__["format"])
