"""The formats of `firth export --format`. One file per format, each with a function that writes a run into an empty folder, or
raises a ConfigError with the reason why that format cannot express the run. `FORMATS` is the only list of them.

A format's package is imported inside its function, never at the top of its file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from firth.config import own_ideas
from firth.errors import ConfigError
from firth.interop.formats.ctranslate2_format import write_ctranslate2
from firth.interop.formats.gguf_format import write_gguf
from firth.interop.formats.hugging_face_format import write_hugging_face
from firth.interop.formats.onnx_format import write_onnx
from firth.interop.formats.outgoing import Outgoing
from firth.interop.formats.safetensors_format import write_safetensors

Writer = Callable[[Outgoing, Path], None]

FORMATS: Mapping[str, Writer] = {
    "hf": write_hugging_face,
    "onnx": write_onnx,
    "gguf": write_gguf,
    "ctranslate2": write_ctranslate2,
    "safetensors": write_safetensors,
}

_OF_ANY_MODEL = ("onnx", "safetensors")  # the others write numbers for a program that knows the models


def expect_carried(run: Outgoing, format: str) -> None:
    """Refuse ideas from a user's file in a format whose readers only compute what they know."""
    for idea in own_ideas(run.model) if format not in _OF_ANY_MODEL else ():
        raise ConfigError(
            f'model.{idea.setting} = "{idea.kind}" comes from {idea.origin.name}, and the format {format} has no place for it. '
            f"Choose one of: {', '.join(_OF_ANY_MODEL)}."
        )
