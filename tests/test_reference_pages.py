"""docs/python.md and docs/commands.md are what docs/make_reference.py writes, and a table of docs/ lists every cell."""

from __future__ import annotations

import re
from types import ModuleType

import pytest
from docs_scripts import DOCS, docs_script
from test_documentation import fences

import firth
from firth.layers.recurrent import CELLS
from firth.tasks import TASKS

STALE = "run python docs/make_reference.py"


@pytest.fixture(scope="module")
def maker() -> ModuleType:
    return docs_script("make_reference")


def test_the_command_line_reference_is_up_to_date(maker: ModuleType) -> None:
    assert maker.COMMANDS.read_text(encoding="utf-8") == maker.commands_page(), STALE


def test_the_python_reference_is_up_to_date(maker: ModuleType) -> None:
    page = maker.PYTHON.read_text(encoding="utf-8")
    assert page == maker.python_page(page), STALE


def test_every_public_name_has_a_part_and_an_example(maker: ModuleType) -> None:
    """Beside the names in `__all__`: the members that a part lists, and the methods that tasks name as their abilities."""
    page = maker.PYTHON.read_text(encoding="utf-8")
    parts = {part["name"]: re.findall(r"\w+", part["members"] or "") for part in maker.PART.finditer(page)}
    homes = (firth, firth.vectors, firth.search)
    public = {f"{home.__name__}.{name}" for home in homes for name in home.__all__}
    assert public - parts.keys() == {"firth.FirthError", "firth.__version__", "firth.search", "firth.vectors"}
    code = "".join(fence.code for fence in fences(page) if fence.language == "python")
    called = {name.rpartition(".")[2] for name in parts} | {name for members in parts.values() for name in members}
    unshown = {name for name in called if name[0].islower() and not re.search(rf"\b{name}\b", code)}
    assert unshown == {"wic"}, "which needs a data set"
    methods = {ability.method for task in TASKS for ability in task.can}
    assert methods - {name for members in parts.values() for name in members} == set()


def test_a_parameter_that_no_sentence_mentions_is_noticed(maker: ModuleType) -> None:
    def lacking(text: str, other: int = 1) -> None:
        """Print `text`."""

    with pytest.raises(SystemExit, match="does not mention other"):
        maker.of_function("lacking", lacking)


def test_sentences_about_parameters_stand_in_the_table_and_the_others_in_the_text(maker: ModuleType) -> None:
    def tell(text: str, *, loud: bool = False, how: str = "plain") -> str:
        """Print `text` (Author et al. 2020).

        `loud`: in capitals. See <eos>. With `how` = "x|y", something else.

            y = x + 1
        """
        return text

    assert "\n\n".join(maker.of_function("tell", tell)) == SHOWN


SHOWN = """```pyi
def tell(text: str, *, loud: bool = False, how: str = "plain") -> str
```

Print `text` (Author et al. 2020).

See `<eos>`.

```text
y = x + 1
```

| parameter | meaning |
| --- | --- |
| `loud` | In capitals. |
| `how` | With `how` = "x\\|y", something else. |

Returns `str`."""


def test_the_table_of_states_lists_every_cell() -> None:
    """The other pages link to this table instead of naming the cells."""
    _, _, rest = (DOCS / "language-models.md").read_text(encoding="utf-8").partition("\n| `model.kind` | state | size |\n")
    table = rest.partition("\n\n")[0]
    missing = [kind for kind in CELLS.shipped_kinds if f"`{kind}`" not in table]
    assert not missing, 'add a line for them to the table of "Model state" in docs/language-models.md, and a section below it'
