"""--format onnx: graphs for ONNX Runtime and others, with dynamic batch and length (onnx_graphs.py says which).

torch.export traces the network, so that whatever it computes is in the graph; a network that cannot be traced with dynamic shapes
is refused. The weights are float32, in one file that all graphs of the folder share.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import inspect
import logging
import re
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import torch

from firth.errors import ConfigError
from firth.interop.formats.onnx_graphs import Graph, graphs
from firth.interop.formats.outgoing import Outgoing
from firth.interop.formats.own_config import write_beside

WEIGHTS = "weights.bin"
OPSET = 20
_INSIDE = 1024  # bytes of a tensor that stays in the graph's own file
_ALIGNED = 4096  # tensors begin at multiples of this, so that they can be memory-mapped


def write_onnx(run: Outgoing, folder: Path) -> None:
    expect_packages()
    exported = graphs(run.network.float().eval())
    described = {}
    with (folder / WEIGHTS).open("wb") as file:
        weights = SharedWeights(file)
        for graph in exported:
            model = traced(graph)
            weights.take(model)
            import onnx_ir

            onnx_ir.save(model, folder / graph.file)
            described[graph.file] = {"inputs": list(graph.inputs), "outputs": list(graph.outputs)}
    write_beside(run, folder, usage=_usage(exported[0]), library="onnx", more={"graphs": described})


def expect_packages() -> None:
    missing = [name for name in ("onnx", "onnxscript") if importlib.util.find_spec(name) is None]
    if missing:
        raise ConfigError(f"the format onnx needs the package {missing[0]}. Install it: pip install 'firth[onnx]'")


def traced(graph: Graph) -> Any:
    """The graph as an onnx_ir.Model."""
    examples = tuple(tensor for tensor, _ in graph.inputs.values())
    try:
        with _quietly(), torch.inference_mode():
            program = torch.export.export(graph.module, examples, dynamic_shapes=_dynamic(graph), strict=False)
            exported: Any = torch.onnx.export(
                program,
                input_names=list(graph.inputs),
                output_names=list(graph.outputs),
                opset_version=OPSET,
                dynamo=True,
                verbose=False,
            )
    except Exception as error:  # torch raises dozens of kinds here
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise ConfigError(f"this model cannot be traced for ONNX: {reason[:160]}. Export it as safetensors.") from error
    model = exported.model
    _name_axes(model, graph)
    _without_origins(model)
    return model


def _dynamic(graph: Graph) -> Any:
    """The dynamic axes, in the shape of the module's arguments: those after the named ones are one tuple."""
    axes = [dict.fromkeys(names, torch.export.Dim.DYNAMIC) for _, names in graph.inputs.values()]
    kinds = [parameter.kind for parameter in inspect.signature(graph.module.forward).parameters.values()]
    if inspect.Parameter.VAR_POSITIONAL not in kinds:
        return tuple(axes)
    named = len(kinds) - 1
    return (*axes[:named], tuple(axes[named:]))


def _name_axes(model: Any, graph: Graph) -> None:
    """Name the dynamic axes of inputs and outputs; an axis that tracing has fixed to one size is an error."""
    import onnx_ir

    symbols: dict[str, str] = {}
    for value, (_, names) in zip(model.graph.inputs, graph.inputs.values(), strict=True):
        for axis, name in names.items():
            size = value.shape[axis]
            if isinstance(size, int):
                raise ConfigError(f"this model can only be traced for one {name}, so it cannot be written as ONNX.")
            symbols[str(size.value)] = name
    for value in (*model.graph.inputs, *model.graph.outputs):
        sizes = [size if isinstance(size, int) else onnx_ir.SymbolicDim(_named(str(size.value), symbols)) for size in value.shape]
        value.shape = onnx_ir.Shape(sizes)


def _named(size: str, symbols: Mapping[str, str]) -> str:
    """A size in which torch's symbols, as in "s70 + s69", have our names."""
    named = re.sub(r"\w+", lambda symbol: symbols.get(symbol[0], symbol[0]), size)
    return " + ".join(sorted(named.split(" + "), reverse=True))


def _without_origins(model: Any) -> None:
    """Nodes name the files and lines that they come from, on the machine that wrote them."""
    for owner in (model.graph, *model.functions.values()):
        for node in owner:
            node.metadata_props.clear()
            node.doc_string = None


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
    """Without the warnings of torch's exporter about packages that are not needed."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


class SharedWeights:
    """The large tensors of several graphs in one file, each once."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self._places, self._end = file, dict[bytes, int](), 0

    def take(self, model: Any) -> None:
        """Move the tensors of a graph into the file."""
        import onnx_ir

        for value in model.graph.initializers.values():
            tensor = value.const_value
            if tensor.nbytes < _INSIDE:
                continue
            offset = self._place(tensor.tobytes())
            value.const_value = onnx_ir.ExternalTensor(
                WEIGHTS,
                offset,
                tensor.nbytes,
                tensor.dtype,
                shape=tensor.shape,
                name=value.name,
                base_dir=Path(self._file.name).parent,
            )

    def _place(self, content: bytes) -> int:
        key = hashlib.sha256(content).digest()
        if key not in self._places:
            offset = -(-self._end // _ALIGNED) * _ALIGNED
            self._file.write(b"\0" * (offset - self._end) + content)
            self._places[key], self._end = offset, offset + len(content)
        return self._places[key]


def _usage(graph: Graph) -> str:
    given = {"input_ids": "numpy.array([ids])", "attention_mask": "numpy.ones((1, len(ids)), numpy.int64)"}
    inputs: Mapping[str, str] = {name: given[name] for name in graph.inputs}
    arguments = ", ".join(f'"{name}": {value}' for name, value in inputs.items())
    return f"""
```python
import numpy, onnxruntime, tokenizers

ids = tokenizers.Tokenizer.from_file("tokenizer.json").encode("some text").ids
session = onnxruntime.InferenceSession("{graph.file}")
outputs = session.run(None, {{{arguments}}})
```

`firth_config.json` lists the inputs and outputs of all graphs. Batch and length may have any size; a past may be empty.
"""
