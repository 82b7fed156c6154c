"""What `firth export --format` can write. One file per format, each with a function that writes a run into an empty folder, or
raises a ConfigError with the reason why that format cannot express the run. `FORMATS` is the only list of them.

A format's package is imported inside its function, never at the top of its file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from firth.interop.ctranslate2_format import write_ctranslate2
from firth.interop.gguf_format import write_gguf
from firth.interop.hugging_face_format import write_hugging_face
from firth.interop.onnx_format import write_onnx
from firth.interop.outgoing import Outgoing
from firth.interop.safetensors_format import write_safetensors

Writer = Callable[[Outgoing, Path], None]

FORMATS: Mapping[str, Writer] = {
    "hf": write_hugging_face,
    "onnx": write_onnx,
    "gguf": write_gguf,
    "ctranslate2": write_ctranslate2,
    "safetensors": write_safetensors,
}
