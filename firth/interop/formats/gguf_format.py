"""Models in GGUF files, in both directions: LLaMA's family, read dequantised, and written as float32, float16 or bfloat16, or
quantised (--format gguf, for llama.cpp and the tools around it)."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from firth import files
from firth.errors import ConfigError, DataError
from firth.interop.files.gguf_file import GGUFFile, package
from firth.interop.files.gguf_tokenizer import read_tokenizer, write_tokenizer
from firth.interop.files.weight_files import WeightFiles
from firth.interop.formats import gguf_llama
from firth.interop.formats.gguf_quantised import GGUFQuantisation, file_type, quantised, tensor_types
from firth.interop.formats.hugging_face import ForeignModel
from firth.interop.formats.outgoing import Outgoing
from firth.models import TransformerConfig, TransformerLM
from firth.progress import Progress, silent
from firth.text.tokenizers.tokenizer import Tokenizer

_EMBEDDING = "token_embd.weight"
_PLAIN = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
_TYPES = {torch.float32: ("F32", "ALL_F32"), torch.float16: ("F16", "MOSTLY_F16"), torch.bfloat16: ("BF16", "MOSTLY_BF16")}


def open_gguf(path: Path) -> ForeignModel:
    """Metadata, tokenizer and the names of the weights; the values are read later."""
    file = GGUFFile(path)
    architecture = file.metadata.get("general.architecture")
    if architecture != gguf_llama.ARCHITECTURE:
        raise DataError(
            f"{path.name} has the architecture {architecture!r}, which firth does not read from GGUF. Known: "
            f"{gguf_llama.ARCHITECTURE} (LLaMA, Mistral, SmolLM2, TinyLlama)."
        )
    parts = file.metadata.get("split.count", 1)
    if isinstance(parts, int) and parts > 1:
        raise DataError(f"{path.name} is one of {parts} parts. Join them with llama.cpp: llama-gguf-split --merge.")
    shape = file.shapes.get(_EMBEDDING)
    if shape is None or len(shape) != 2:
        raise DataError(f"{path.name} has no matrix {_EMBEDDING}; expected a language model. Download it again.")
    model = gguf_llama.read(file)
    tokenizer = read_tokenizer(file.metadata, shape[0])
    weights = WeightFiles(dict.fromkeys(file.shapes, file))
    return ForeignModel(path, gguf_llama.GGUF_LLAMA, model, tokenizer, weights, file.metadata)


@dataclass(frozen=True)
class GGUFExport:
    """Everything that is written to a GGUF file."""

    name: str
    model: TransformerConfig
    weights: Mapping[str, Tensor]  # ours
    tokenizer: Tokenizer
    template: str | None  # chat template
    license: str
    quantise: GGUFQuantisation | None = None

    def write(self, path: Path, progress: Progress = silent) -> None:
        gguf = package()
        metadata = {
            **{f"{gguf_llama.ARCHITECTURE}.{key}": value for key, value in self._settings().items()},
            **write_tokenizer(self.tokenizer, self.template),
        }
        tensors = gguf_llama.write_weights(self.weights, self.model)
        kinds = self._types(tensors)
        logging.getLogger("gguf").setLevel(logging.WARNING)
        with files.replacing(path) as temporary:
            writer = gguf.GGUFWriter(temporary, gguf_llama.ARCHITECTURE)
            writer.add_type("model")
            writer.add_name(self.name)
            if self.license != "unknown":
                writer.add_license(self.license)
            if self.quantise is None:
                writer.add_file_type(gguf.LlamaFileType[_TYPES[tensors[_EMBEDDING].dtype][1]])
            else:
                writer.add_file_type(gguf.LlamaFileType[file_type(self.quantise)])
                writer.add_quantization_version(gguf.GGML_QUANT_VERSION)
            for key, value in metadata.items():
                _add(writer, key, value)
            for number, (name, tensor) in enumerate(tensors.items(), start=1):
                _add_tensor(gguf, writer, name, tensor, kinds[name])
                progress("writing tensors", number, len(tensors))
            try:
                writer.write_header_to_file()
                writer.write_kv_data_to_file()
                writer.write_tensors_to_file()
            finally:
                writer.close()

    def _types(self, tensors: Mapping[str, Tensor]) -> dict[str, str]:
        """GGUF's type of each tensor. Vectors are always float32, as llama.cpp expects."""
        if self.quantise is not None:
            return tensor_types({name: tuple(tensor.shape) for name, tensor in tensors.items()}, self.quantise, self.model.depth)
        return {name: "F32" if tensor.dim() == 1 else _TYPES[tensor.dtype][0] for name, tensor in tensors.items()}

    def _settings(self) -> Mapping[str, int | float | str]:
        return gguf_llama.write_metadata(self.model, self.tokenizer.vocab)


def _add(writer: Any, key: str, value: Any) -> None:
    match value:
        case bool():
            writer.add_bool(key, value)
        case int():
            writer.add_uint32(key, value)
        case float():
            writer.add_float32(key, value)
        case str():
            writer.add_string(key, value)
        case _:
            writer.add_array(key, value)


def _add_tensor(gguf: Any, writer: Any, name: str, tensor: Tensor, kind: str) -> None:
    plain, kept = _PLAIN.get(kind), tensor.detach().cpu().contiguous()
    if plain is None:
        values = quantised(gguf, name, kept, kind)
    elif plain == torch.bfloat16:
        values = kept.to(plain).view(torch.uint8).numpy()
    else:
        values = kept.to(plain).numpy()
    writer.add_tensor(name, values, raw_dtype=gguf.GGMLQuantizationType[kind])


def write_gguf(run: Outgoing, folder: Path) -> None:
    reason = gguf_llama.why_not(run.model)
    if reason is not None:
        raise ConfigError(f"GGUF files of firth are LLaMA models, and LLaMA cannot express {reason}. Use another format.")
    if not isinstance(run.network, TransformerLM):
        raise ConfigError(f"only language models can be written as GGUF, and this run is {run.noun}.")
    name, card = run.card.name, dataclasses.replace(run.card, family="LLaMA (GGUF)")
    export = GGUFExport(name, run.model, run.network.state_dict(), run.tokenizer, run.template, card.license, run.quantise)
    export.write(folder / f"{name}.gguf", run.progress)
    files.write_text(folder / "README.md", card.markdown())
