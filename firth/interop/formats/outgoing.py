"""A run of ours on its way to another tool: everything that a format of `firth export` may need."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from firth.interop.formats.gguf_quantised import GGUFQuantisation
from firth.interop.formats.model_card import Card
from firth.models import Network
from firth.progress import Progress, silent
from firth.text.tokenizers.tokenizer import Tokenizer


@dataclass(frozen=True)
class Outgoing:
    network: Network
    model: Any  # the [model] of its recipe
    objective: Any  # [objective]
    noun: str  # "a language model": completes "this run is …"
    tokenizer: Tokenizer  # of the target, where there are two
    source_tokenizer: Tokenizer
    pairs: bool  # a translator with an encoder of its own
    labels: tuple[str, ...]  # classes or tags; none for other tasks
    template: str | None  # of chats, in Jinja
    imported: str | None  # architecture of the public model that it was, if it was one
    sampling: Mapping[str, Any]  # generation_config.json
    recipe: Mapping[str, Any]  # all tables, as plain data
    card: Card
    quantise: GGUFQuantisation | None = None  # for GGUF files
    progress: Progress = silent
