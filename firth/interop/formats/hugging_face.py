"""A Hugging Face folder: config.json, weights, tokenizer and generation_config.json. Nothing is downloaded, and no code in the
folder is run."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from firth import files
from firth.errors import ConfigError, DataError, RunError
from firth.files import is_file
from firth.interop.families import mask_row
from firth.interop.families.family import Family
from firth.interop.files import sentence_transformers
from firth.interop.files.foreign_config import ForeignConfig
from firth.interop.files.foreign_json import read_json
from firth.interop.files.generation import decoder_tokens, generation_table, written_tokens
from firth.interop.files.tokenizer_files import ending_json, read_tokenizer, read_tokenizers, token_name, with_languages
from firth.interop.files.weight_files import WeightFiles
from firth.models import ModelConfig
from firth.text.tokenizers.imported import ENDS
from firth.text.tokenizers.languages import LANGUAGES
from firth.text.tokenizers.special_tokens import DECODER
from firth.text.tokenizers.tokenizer import Tokenizer
from firth.version import __version__

_LABELS = 1_000_000  # classes of a model, at most
_TOLD = 3  # families whose reasons an error names


@dataclass(frozen=True)
class ForeignModel:
    """A public model before its weights are read."""

    folder: Path
    family: Family
    model: ModelConfig  # the [model] of a recipe
    tokenizer: Tokenizer
    files: WeightFiles
    generation: Mapping[str, Any]  # generation_config.json, or the metadata of a GGUF file
    data: Mapping[str, Any] = field(default_factory=dict)  # of its [data]
    objective: Mapping[str, Any] = field(default_factory=dict)  # of its [objective]
    source_tokenizer: Tokenizer | None = None  # of sentence pairs, if source and target are tokenised differently

    def weights(self, shapes: Mapping[str, torch.Size], dtype: torch.dtype | None = None) -> dict[str, Tensor]:
        """Our tensors, of these shapes, in the type of the file unless another is given."""
        table = self.family.weights_of(self.model)
        kept = dtype or self.files.dtype(table.names_read(self.files.shapes))
        if not self.family.mask_row:
            return table.read(self.files, shapes, self.model, kept)
        return mask_row.added(table.read(self.files, mask_row.without(shapes), self.model, kept), self.tokenizer)


def is_folder(path: Path) -> bool:
    """True if this looks like a Hugging Face folder."""
    return is_file(path / "config.json") or sentence_transformers.is_folder(path)


def open_folder(folder: Path, families: Sequence[Family]) -> ForeignModel:
    """Config, tokenizer and the names of the weights; everything that can be refused without reading weights is refused here."""
    if not folder.is_dir():
        raise DataError(f"{folder} is not a Hugging Face folder (with config.json, weights and a tokenizer) or a GGUF file")
    if not is_folder(folder):
        raise DataError(f"{folder} has no config.json; expected a folder as `save_pretrained` writes it")
    if sentence_transformers.is_folder(folder):
        sentence = sentence_transformers.read(folder)
        encoder = _opened(sentence.folder, families, "embedding")
        model: Any = encoder.model
        own = dataclasses.replace(model, pool=sentence.pool)
        return dataclasses.replace(encoder, folder=folder, model=own, objective=sentence.objective)
    return _opened(folder, families)


def _opened(folder: Path, families: Sequence[Family], objective: str | None = None) -> ForeignModel:
    table = read_json(folder / "config.json")
    family = _family(table, families, objective)
    weights = WeightFiles.of(folder)
    config = ForeignConfig(table, tensors=weights.shapes)
    vocab = config.size("vocab_size")
    if family.model == "seq2seq":
        config.expect("is_encoder_decoder", True)
    try:
        model = family.read(config)
    except ConfigError as error:
        raise DataError(f"config.json does not describe a {family.title} model that firth can build: {error}") from error
    data = {"labels": _labels(config, family)} if family.labelled else {}
    config.finish()
    generation = generation_table(folder, table)
    if family.model == "seq2seq":
        more = {DECODER: decoder_tokens(generation)._asdict()}
        source, target = read_tokenizers(folder, table, vocab, more)
        if source is target:
            source = target = with_languages(target, generation)
        return ForeignModel(folder, family, model, target, weights, generation, source_tokenizer=source)
    tokenizer = read_tokenizer(folder, table, vocab)
    if family.mask_row:
        mask_row.expect(tokenizer)
    model = family.completed(model, weights.shapes)
    return ForeignModel(folder, family, model, tokenizer, weights, generation, data, family.objective_settings)


def _labels(config: ForeignConfig, family: Family) -> tuple[str, ...]:
    """The classes or tags, in the order of the logits."""
    table = config.table("id2label")
    count = config.size("num_labels", len(table) or 2)
    if count > _LABELS:
        raise DataError(f"config.json: num_labels is {count:,}; expected at most {_LABELS:,}")
    labels = tuple(str(table.get(str(n), f"LABEL_{n}")) for n in range(count))
    if len(set(labels)) < 2:
        raise DataError(f"config.json: {family.architecture} has {len(labels)} label; firth needs two different ones or more")
    return labels


def _family(table: Mapping[str, Any], families: Sequence[Family], objective: str | None = None) -> Family:
    """The family of a config.json; with `objective`, the one of its model type that has it, whatever the architecture."""
    names = table.get("architectures") or []
    for family in families:
        of_type = table.get("model_type") == family.model_type
        if objective is not None:
            if of_type and family.objective == objective:
                return family
        elif any(map(family.reads, names)) or (not names and of_type):
            return family
    given = names[0] if names else table.get("model_type")
    same_type = [family.architecture for family in families if family.model_type == table.get("model_type")]
    known = same_type or dict.fromkeys(family.title.partition(" (")[0] for family in families)
    raise DataError(f"config.json names the architecture {given!r}, which firth does not know. Known: {', '.join(known)}.")


def chosen_family(
    model: ModelConfig, families: Sequence[Family], objective: str | None = None, imported: str | None = None
) -> Family:
    """The first family that this model belongs to, or the one that it was imported from; otherwise an error with the reason of
    each. `objective`: what the run was trained for, which decides the head of an encoder."""
    fitting = [one for one in families if one.model == model.family and (one.model != "encoder" or one.objective == objective)]
    if not fitting:
        raise ConfigError(
            f'model.family = "{model.family}" with objective.kind = "{objective}" has no counterpart in `transformers`. '
            "Export it as safetensors."
        )
    reasons = {}
    for family in sorted(fitting, key=lambda family: family.architecture != imported):
        reason = family.why_not(model)
        if reason is None:
            return family
        reasons[family.title] = reason
    told = "; ".join(f"{title} cannot express {reason}" for title, reason in islice(reasons.items(), _TOLD))
    if len(reasons) > _TOLD:
        told += f"; nor do {len(reasons) - _TOLD} other families fit"
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
    labels: Sequence[str] = ()  # classes or tags
    objective: Any = None  # the [objective] of the recipe

    def write(self, folder: Path) -> None:
        """Write a new folder; config.json last, so that an unfinished folder is not taken for a model."""
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise RunError(f"{folder} already exists and is not empty. Choose another folder, or remove it.")
        weights = mask_row.removed(self.weights, self.tokenizer) if self.family.mask_row else self.weights
        if without := self.family.left_out:
            weights = {name: tensor for name, tensor in weights.items() if not name.startswith(without)}
        tensors = self.family.weights_of(self.model).write(weights, self.model)
        dtype = str(next(iter(tensors.values())).dtype).removeprefix("torch.")
        save_plain(folder / "model.safetensors", tensors)
        pairs = self.family.model == "seq2seq"
        files.write_text(folder / "tokenizer.json", ending_json(self.tokenizer) if pairs else self._masked[0])
        files.write_text(folder / "tokenizer_config.json", _json(self.tokenizer_config()))
        if self.family.model != "encoder":
            files.write_text(folder / "generation_config.json", _json({**self._tokens(), **self.sampling}))
        if self.family.objective == "embedding":
            sentence_transformers.write(folder, self.model, self.objective)
        files.write_text(folder / "README.md", self.card)
        files.write_text(folder / "config.json", _json(self.config(dtype)))

    def config(self, dtype: str) -> dict[str, Any]:
        return {
            "architectures": [self.family.architecture],
            "model_type": self.family.model_type,
            "vocab_size": self._masked[1],
            **({"pad_token_id": self.tokenizer.padding} if self.family.model == "encoder" else {}),
            **self.family.write(self.model),
            **(_named(self.labels) if self.family.labelled else {}),
            **self._tokens(),
            "dtype": dtype,
            "firth_version": __version__,
        }

    def tokenizer_config(self) -> dict[str, Any]:
        if self.tokenizer.settings:
            return {key: value for key, value in self.tokenizer.settings.items() if key not in (ENDS, DECODER, LANGUAGES)}
        names = {
            "eos_token": self.tokenizer.eos_name,
            "unk_token": self.tokenizer.unknown_name,
            "pad_token": self.tokenizer.eos_name if self.family.model == "seq2seq" else None,
            "mask_token": mask_row.NAME if self.family.mask_row else None,
        }
        return {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "clean_up_tokenization_spaces": False,
            "model_max_length": self.model.context,
            **{key: name for key, name in names.items() if name is not None},
        }

    @property
    def _masked(self) -> tuple[str, int]:
        """tokenizer.json, and the rows of the embedding."""
        if not self.family.mask_row:
            return self.tokenizer.to_json(), self.tokenizer.vocab
        return mask_row.tokenizer_json(self.tokenizer), mask_row.rows(self.tokenizer)

    def _tokens(self) -> dict[str, Any]:
        tokenizer, begin, ends = self.tokenizer, self.tokenizer.begin, self.tokenizer.ends
        if self.family.model == "encoder":
            return {}
        eos = list(ends) if len(ends) > 1 else tokenizer.eos
        first = begin[0] if begin and tokenizer.languages is None else tokenizer.eos
        ids = {"bos_token_id": first, "eos_token_id": eos}
        if self.family.model == "language":
            return ids
        pad = tokenizer.id_of(token_name(tokenizer.settings.get("pad_token")))
        if (needed := self.family.padding(self.model)) is not None:
            if tokenizer.kind != "imported" or pad not in (None, needed):
                raise ConfigError(
                    f"a {self.family.title} model with these positions needs a tokenizer whose padding is the token {needed}, "
                    "which never occurs in a text. Export this run as safetensors."
                )
            pad = needed
        return {**ids, "pad_token_id": tokenizer.eos if pad is None else pad, **written_tokens(tokenizer)}


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


def _named(labels: Sequence[str]) -> dict[str, Any]:
    """Classes or tags as config.json has them."""
    numbers = {str(n): label for n, label in enumerate(labels)}
    return {"id2label": numbers, "label2id": {label: n for n, label in enumerate(labels)}}


def _json(table: Mapping[str, Any]) -> str:
    return json.dumps(table, ensure_ascii=False, indent=2) + "\n"
