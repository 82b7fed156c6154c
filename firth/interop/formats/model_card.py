"""README.md of an exported model: what it is, what it was trained on, how good it is, and how to load it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from firth.version import __version__


@dataclass(frozen=True)
class Card:
    """A format sets `family` (the shape that the weights are written in) and, unless `transformers` opens its folder, `library`
    and `usage`."""

    name: str
    parameters: int
    summary: str  # of the recipe
    recipe: str  # as TOML
    data: str
    results: Mapping[str, Any]  # on validation data
    license: str
    family: str = ""  # "LLaMA"
    auto_class: str = "AutoModelForCausalLM"
    library: str = "transformers"  # as the Hub calls it
    usage: str = ""  # how to load the folder, in Markdown

    def markdown(self) -> str:
        results = "\n".join(f"| {name} | {value:.4f} |" for name, value in self.results.items() if isinstance(value, float))
        table = f"| metric | validation |\n|---|---|\n{results}" if results else "None were recorded."
        return _PAGE.format(
            license=self.license,
            name=self.name,
            summary=f"{self.summary}\n\n" if self.summary else "",
            parameters=f"{self.parameters:,}",
            shape=f" in the shape of {self.family}" if self.family else "",
            version=__version__,
            library=self.library,
            usage=(self.usage or _TRANSFORMERS.format(auto_class=self.auto_class)).strip(),
            data=self.data,
            results=table,
            recipe=self.recipe.strip(),
        )


_TRANSFORMERS = """
```python
from transformers import AutoTokenizer, {auto_class}

tokenizer, model = AutoTokenizer.from_pretrained("."), {auto_class}.from_pretrained(".")
```
"""

_PAGE = """---
license: {license}
library_name: {library}
---

# {name}

{summary}{parameters} parameters{shape}, written by firth {version}.

{usage}

## Data

{data}

## Results

{results}

## Recipe

```toml
{recipe}
```
"""
