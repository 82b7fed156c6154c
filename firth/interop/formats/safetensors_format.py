"""--format safetensors: our weights under our own names, which any run has, with what is needed to use them elsewhere."""

from __future__ import annotations

from pathlib import Path

from firth.interop.formats.hugging_face import save_plain
from firth.interop.formats.outgoing import Outgoing
from firth.interop.formats.own_config import write_beside

WEIGHTS = "model.safetensors"

_USAGE = """
```python
import json
from safetensors.torch import load_file

weights, config = load_file("model.safetensors"), json.load(open("firth_config.json"))
```

`recipe` in firth_config.json describes the whole model. With firth,
`firth.api.compose(config["recipe"]).task.network(config["source_vocab"], config["vocab"])` builds the network of these weights.
"""


def write_safetensors(run: Outgoing, folder: Path) -> None:
    save_plain(folder / WEIGHTS, run.network.state_dict())
    write_beside(run, folder, usage=_USAGE, library="firth", more={"recipe": dict(run.recipe)})
