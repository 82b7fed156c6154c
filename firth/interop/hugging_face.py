"""A Hugging Face folder: config.json, weights, tokenizer and generation_config.json. Nothing is downloaded, and no code in the
folder is run."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from firth import files
from firth.errors import ConfigError, DataError, RunError
from firth.interop.family import Family
from firth.interop.foreign_config import ForeignConfig
from firth.interop.generation import decoder_tokens, generation_table, sampling, searching, written_tokens
from firth.interop.tokenizer_files import ending_json, read_json, read_tokenizer, read_tokenizers, token_name
from firth.interop.weight_files import WeightFiles
from firth.models import ModelConfig
from firth.text import Tokenizer
from firth.text.tokenizers.special_tokens import DECODER
from firth.version import __version__


@dataclass(frozen=True)
class ForeignModel:
    """A public model before its weights are read."""

    folder: Path
    family: Family
    model: ModelConfig  # the [model] of a recipe
    tokenizer: Tokenizer
    files: WeightFiles
    decoding: Mapping[str, Any]  # of a recipe's [decoding]
    source_tokenizer: Tokenizer | None = None  # of sentence pairs, if source and target are tokenised differently

    def weights(self, shapes: Mapping[str, torch.Size], dtype: torch.dtype | None = None) -> dict[str, Tensor]:
        """Our tensors, of these shapes, in the type of the file unless another is given."""
        kept = dtype or self.files.dtype(self._used())
        return self.family.weights_of(self.model).read(self.files, shapes, self.model, kept)

    def _used(self) -> Mapping[str, object]:
        from firth.interop.weight_map import pattern

        ignored = [pattern(name) for name in self.family.weights_of(self.model).ignored]
        return {name: shape for name, shape in self.files.shapes.items() if not any(one.fullmatch(name) for one in ignored)}


def is_folder(path: Path) -> bool:
    """Whether this looks like a Hugging Face folder."""
    return (path / "config.json").is_file()


def open_folder(folder: Path, families: Sequence[Family]) -> ForeignModel:
    """Config, tokenizer and the names of the weights; everything that can be refused without reading weights is refused here."""
    if not folder.is_dir():
        raise DataError(f"{folder} is not a folder; expected one with config.json, weights and a tokenizer")
    if not is_folder(folder):
        raise DataError(f"{folder} has no config.json; expected a folder as `save_pretrained` writes it")
    table = read_json(folder / "config.json")
    family = _family(table, families)
    weights = WeightFiles.of(folder)
    config = ForeignConfig(table, weights.shapes)
    vocab = config.size("vocab_size")
    try:
        model = family.read(config)
    except ConfigError as error:
        raise DataError(f"config.json does not describe a {family.title} model that firth can build: {error}") from error
    config.finish()
    generation = generation_table(folder, table)
    if family.model != "seq2seq":
        return ForeignModel(folder, family, model, read_tokenizer(folder, table, vocab), weights, sampling(generation))
    more = {DECODER: decoder_tokens(generation)._asdict()}
    source, target = read_tokenizers(folder, table, vocab, more)
    return ForeignModel(folder, family, model, target, weights, searching(generation), source)


def _family(table: Mapping[str, Any], families: Sequence[Family]) -> Family:
    names = table.get("architectures") or []
    for family in families:
        if family.architecture in names or (not names and table.get("model_type") == family.model_type):
            return family
    given = names[0] if names else table.get("model_type")
    known = ", ".join(f"{family.architecture} ({family.title})" for family in families)
    raise DataError(f"config.json names the architecture {given!r}, which firth does not know. Known: {known}.")


def chosen_family(model: ModelConfig, families: Sequence[Family]) -> Family:
    """The first family that this model belongs to; otherwise an error with the reason of each."""
    reasons = {}
    for family in families:
        reason = family.why_not(model)
        if reason is None:
            return family
        reasons[family.title] = reason
    told = "; ".join(f"{title} cannot express {reason}" for title, reason in reasons.items())
    raise ConfigError(f"this model has no counterpart in `transformers`: {told}. Export it as safetensors.")


@dataclass(frozen=True)
class Export:
    """Everything that is written to a Hugging Face folder."""

    family: Family
    model: Any
    weights: Mapping[str, Tensor]  # ours
    tokenizer: Tokenizer
    sampling: Mapping[str, Any]
    card: str  # README.md

    def write(self, folder: Path) -> None:
        """Write a new folder; config.json last, so that an unfinished folder is not taken for a model."""
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise RunError(f"{folder} already exists and is not empty. Choose another folder, or remove it.")
        tensors = self.family.weights_of(self.model).write(self.weights, self.model)
        dtype = str(next(iter(tensors.values())).dtype).removeprefix("torch.")
        save_plain(folder / "model.safetensors", tensors)
        pairs = self.family.model == "seq2seq"
        files.write_text(folder / "tokenizer.json", ending_json(self.tokenizer) if pairs else self.tokenizer.to_json())
        files.write_text(folder / "tokenizer_config.json", _json(self.tokenizer_config()))
        files.write_text(folder / "generation_config.json", _json({**self._tokens(), **self.sampling}))
        files.write_text(folder / "README.md", self.card)
        files.write_text(folder / "config.json", _json(self.config(dtype)))

    def config(self, dtype: str) -> dict[str, Any]:
        return {
            "architectures": [self.family.architecture],
            "model_type": self.family.model_type,
            "vocab_size": self.tokenizer.vocab,
            **self.family.write(self.model),
            **self._tokens(),
            "dtype": dtype,
            "firth_version": __version__,
        }

    def tokenizer_config(self) -> dict[str, Any]:
        if self.tokenizer.settings:
            return {key: value for key, value in self.tokenizer.settings.items() if key != DECODER}
        names: dict[str, str | None] = {"eos_token": self.tokenizer.eos_name, "unk_token": self.tokenizer.unknown_name}
        if self.family.model == "seq2seq":
            names["pad_token"] = self.tokenizer.eos_name
        return {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "clean_up_tokenization_spaces": False,
            "model_max_length": self.model.context,
            **{key: name for key, name in names.items() if name is not None},
        }

    def _tokens(self) -> dict[str, Any]:
        tokenizer, begin = self.tokenizer, self.tokenizer.begin
        found = {"bos_token_id": begin[0] if begin else tokenizer.eos, "eos_token_id": tokenizer.eos}
        if self.family.model != "seq2seq":
            return found
        pad = tokenizer.id_of(token_name(tokenizer.settings.get("pad_token")))
        return {**found, "pad_token_id": tokenizer.eos if pad is None else pad, **written_tokens(tokenizer.decoder)}


def save_plain(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """A safetensors file as `transformers` expects it."""
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    with files.replacing(path) as temporary:
        try:
            save_file(plain, temporary, metadata={"format": "pt"})
        except SafetensorError as error:  # safetensors wraps "disk full" in its own exception
            raise OSError(str(error)) from error


def _json(table: Mapping[str, Any]) -> str:
    return json.dumps(table, ensure_ascii=False, indent=2) + "\n"
