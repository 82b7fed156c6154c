"""docs/recipes.md lists every setting of a recipe, with its meaning, as the config classes have it."""

from __future__ import annotations

import dataclasses
import inspect
import re
import shutil
from collections import Counter
from pathlib import Path
from types import ModuleType

import pytest
from docs_scripts import DOCS, docs_script

from firth.api.recipe import Expected
from firth.decoding.config import DecodingConfig
from firth.experiments.results import place
from firth.models.config import RecurrentConfig
from firth.shipped import shipped
from firth.tasks import TASKS
from firth.text.config import TokenizerConfig
from firth.training.config import TrainingConfig

PAGE = DOCS / "recipes.md"
CHOOSING = {"family", "kind"}


@pytest.fixture(scope="module")
def maker() -> ModuleType:
    return docs_script("make_settings")


def listed(table: str) -> Counter[str]:
    """The settings in the part of the page about a table, and how many kinds have one of that name."""
    _, _, rest = PAGE.read_text(encoding="utf-8").partition(f"\n## `[{table}]`\n")
    return Counter(re.findall(r"^\| `(\w+)`(?: \| (?:\\\||[^|])+){3} \|$", rest.partition("\n## ")[0], re.MULTILINE))


def test_the_page_is_up_to_date(maker: ModuleType, tmp_path: Path) -> None:
    copy = Path(shutil.copy(PAGE, tmp_path))
    place(copy, maker.settings_page(), maker.BEGIN, maker.END)
    assert copy.read_text(encoding="utf-8") == PAGE.read_text(encoding="utf-8"), "run python docs/make_settings.py"


def test_the_tables_of_a_study_are_up_to_date(maker: ModuleType, tmp_path: Path) -> None:
    copy = Path(shutil.copy(maker.STUDIES, tmp_path))
    place(copy, maker.studies_page(), maker.BEGIN, maker.END)
    place(copy, maker.study_results(), maker.BEGIN_RESULTS, maker.END_RESULTS)
    assert copy.read_text(encoding="utf-8") == maker.STUDIES.read_text(encoding="utf-8"), "run python docs/make_settings.py"


def test_the_table_of_abilities_is_up_to_date(maker: ModuleType, tmp_path: Path) -> None:
    copy = Path(shutil.copy(maker.CONCEPTS, tmp_path))
    place(copy, maker.abilities_table(), maker.BEGIN_ABILITIES, maker.END_ABILITIES)
    assert copy.read_text(encoding="utf-8") == maker.CONCEPTS.read_text(encoding="utf-8"), "run python docs/make_settings.py"


def test_the_table_of_exercises_is_up_to_date(maker: ModuleType, tmp_path: Path) -> None:
    copy = Path(shutil.copy(maker.EXERCISES_PAGE, tmp_path))
    place(copy, maker.exercises_table(), maker.BEGIN_EXERCISES, maker.END_EXERCISES)
    assert copy.read_text(encoding="utf-8") == maker.EXERCISES_PAGE.read_text(encoding="utf-8"), (
        "run python docs/make_settings.py"
    )


def test_the_tables_of_kinds_are_up_to_date(maker: ModuleType, tmp_path: Path) -> None:
    for page, text in ((PAGE, maker.kinds_page()), (maker.ATTENTION, maker.scores_table())):
        copy = Path(shutil.copy(page, tmp_path))
        place(copy, text, maker.BEGIN_KINDS, maker.END_KINDS)
        assert copy.read_text(encoding="utf-8") == page.read_text(encoding="utf-8"), "run python docs/make_settings.py"


def test_the_keywords_of_decoding_are_up_to_date(maker: ModuleType) -> None:
    assert maker.KEYWORDS.read_text(encoding="utf-8") == maker.keywords(), "run python docs/make_settings.py"


def test_the_page_on_own_ideas_shows_every_file(maker: ModuleType) -> None:
    page = maker.OWN_IDEAS.read_text(encoding="utf-8")
    assert page == maker.with_examples(page), "run python docs/make_settings.py"
    files = {path.name: path.read_text(encoding="utf-8") for path in maker.EXAMPLES.glob("*.py")}
    assert set(re.findall(r'^```python title="(.+?)"', page, re.MULTILINE)) == set(files)
    assert {name: len(text.splitlines()) for name, text in files.items() if len(text.splitlines()) > 25} == {}


def test_every_setting_has_a_meaning(maker: ModuleType) -> None:
    classes = maker.config_classes()
    assert {TrainingConfig, Expected, RecurrentConfig} <= set(classes)
    fields = {(config.__name__, field.name) for config in classes for field in dataclasses.fields(config)}
    explained = {(config.__name__, name) for config in classes for name, said in maker.meanings(config).items() if said}
    assert fields - explained == set(), "write a comment on the field"


@pytest.mark.parametrize(
    ("table", "config"),
    [("tokenizer", TokenizerConfig), ("training", TrainingConfig), ("decoding", DecodingConfig), ("expected", Expected)],
)
def test_every_setting_of_a_table_is_on_the_page_once(table: str, config: type) -> None:
    assert listed(table) == Counter(field.name for field in dataclasses.fields(config))


@pytest.mark.parametrize("table", ["data", "model", "objective"])
def test_every_setting_of_every_kind_is_on_the_page_once(maker: ModuleType, table: str) -> None:
    """Settings of a base class are listed once, and so are the settings that choose the kind."""
    kinds = {"data": [task.Data for task in TASKS], "model": maker.MODELS, "objective": [task.Objective for task in TASKS]}
    classes = {base for kind in kinds[table] for base in inspect.getmro(kind) if dataclasses.is_dataclass(base)}
    names = [(config, field.name) for config in classes for field in dataclasses.fields(config)]
    own = Counter(name for config, name in names if name in inspect.get_annotations(config))
    once = Counter(CHOOSING & own.keys())
    inside = Counter[str]()
    for configs in maker.inner_tables().values() if table == "model" else ():
        inside += inner(configs)
    assert listed(table) == Counter({name: count for name, count in own.items() if name not in once}) + once + inside


def inner(configs: list[type]) -> Counter[str]:
    """The settings of a table inside [model]. The `kind` that chooses a class is listed once."""
    classes = {base for config in configs for base in inspect.getmro(config) if dataclasses.is_dataclass(base)}
    declared = Counter(name for config in classes for name in inspect.get_annotations(config) if name != "short")
    return Counter({name: 1 if name == "kind" else count for name, count in declared.items()})


def test_every_setting_of_the_shipped_recipes_is_on_the_page() -> None:
    used = {(table, name) for recipe in shipped().values() for table in recipe if table != "summary" for name in recipe[table]}
    assert len(used) > 60
    assert {(table, name) for table, name in used if name not in listed(table)} == set()
    models = [recipe["model"] for recipe in shipped().values()]
    inside = {name for model in models for table in model.values() if isinstance(table, dict) for name in table}
    assert {"heads", "placement"} <= inside <= listed("model").keys()


def test_a_comment_is_read_beside_or_above_its_field(maker: ModuleType) -> None:
    said = maker.meanings(Commented)
    assert said == {"beside": "how many", "above": "a long one that goes on", "inherited": "from the base", "ignored": "kept"}


@dataclasses.dataclass
class Base:
    inherited: int = 0  # from the base
    ignored: str = ""  # kept


@dataclasses.dataclass
class Commented(Base):
    beside: int = 0  # how many
    # a long one
    # that goes on
    above: int = 0
    inherited: int = 1
    ignored: int = 0  # type: ignore[assignment]
