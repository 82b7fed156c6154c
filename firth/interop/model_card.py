"""README.md of an exported model: what it is, what it was trained on, how good it is, and how to load it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from firth.version import __version__


@dataclass(frozen=True)
class Card:
    name: str
    family: str  # "LLaMA"
    parameters: int
    summary: str  # of the recipe
    recipe: str  # as TOML
    data: str
    results: Mapping[str, Any]  # on validation data
    license: str
    auto_class: str = "AutoModelForCausalLM"
    library: str = "transformers"
    usage: str | None = None  # Python that loads it; None: with `auto_class`

    def markdown(self) -> str:
        results = "\n".join(f"| {name} | {value:.4f} |" for name, value in self.results.items() if isinstance(value, float))
        table = f"| metric | validation |\n|---|---|\n{results}" if results else "None were recorded."
        return _PAGE.format(
            license=self.license,
            name=self.name,
            summary=f"{self.summary}\n\n" if self.summary else "",
            parameters=f"{self.parameters:,}",
            family=self.family,
            version=__version__,
            library=self.library,
            usage=self.usage or _USAGE.format(auto_class=self.auto_class),
            data=self.data,
            results=table,
            recipe=self.recipe.strip(),
        )


_USAGE = """from transformers import AutoTokenizer, {auto_class}

tokenizer, model = AutoTokenizer.from_pretrained("."), {auto_class}.from_pretrained(".")"""

_PAGE = """---
license: {license}
library_name: {library}
---

# {name}

{summary}{parameters} parameters in the shape of {family}, written by firth {version}.

```python
{usage}
```

## Data

{data}

## Results

{results}

## Recipe

```toml
{recipe}
```
"""
