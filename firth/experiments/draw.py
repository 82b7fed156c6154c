"""firth.draw: a drawing of a preset, a recipe or a run, from its settings."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from firth.api.loading import described, load
from firth.api.recipe import Recipe, compose
from firth.config import to_table
from firth.decoding.config import DecodingConfig
from firth.errors import ConfigError, did_you_mean
from firth.experiments.named import planned, trained
from firth.figures.diagram import Diagram, Size, Theme
from firth.inspection.beam_tree import BeamTree
from firth.inspection.drawing import KINDS, Ends, Language, Subject, draw_model, kinds_of
from firth.models.network import ModelConfig
from firth.models.presets import Preset
from firth.tasks import TASKS
from firth.tasks.ability import TRANSLATE
from firth.tasks.run import Run
from firth.tasks.task import Task
from firth.text.config import TokenizerConfig
from firth.text.readers.pieces import pieces_of_text
from firth.text.tokenizers.merges import MergedWord, merged_words
from firth.text.tokenizers.tokenizer import Tokenizer

_LONGEST = 60  # characters of a title


def draw(
    of: str | Path | Recipe | Run[Any],
    kind: str = "model",
    assignments: Sequence[str] = (),
    theme: Theme = "auto",
    *,
    size: Size = "page",
    language: Language = "en",
    text: str | None = None,
    corpus: str | None = None,
) -> Diagram:
    """Draw a model from its settings; neither data nor weights are read, unless `text` needs them.

    `of` is a preset such as "gpt2", a recipe (its name, its file or a Recipe), or a run (loaded, or its folder). `kind`: "model",
    "cell", "block", "attention", "mask", "families", "cache", "state", "lora", "beam" or "merges"; a model has those that apply
    to it. `assignments` change settings of a preset or recipe: ["model.depth=2"]. `theme`: "light", "dark", or "auto", which
    follows the reader's screen. `size`: "page", or "slide", which is 16:9 with larger letters. `language` of the labels: "en",
    "fr", "de", "es" or "zh". `text`: for "beam", what a run translates; for "merges", the words to merge. `corpus`: a text from
    which the merges of a recipe are learned. A notebook shows the drawing; `.save(path)` writes it as SVG."""
    subject = subject_of(of, kind, assignments, text, corpus)
    return dataclasses.replace(draw_model(subject, kind, size, language), theme=theme)


def drawings(of: str | Path | Recipe | Run[Any], assignments: Sequence[str] = (), **how: Any) -> dict[str, Diagram]:
    """All kinds of drawings that a model has, by their kinds; `how` is the theme, size and language of `draw`."""
    subject = subject_of(of, "model", assignments)
    return {kind: draw(of, kind, assignments, **how) for kind in kinds_of(subject)}


def subject_of(
    of: str | Path | Recipe | Run[Any],
    kind: str,
    assignments: Sequence[str] = (),
    text: str | None = None,
    corpus: str | None = None,
) -> Subject:
    """What `of` stands for, with what the kind of drawing needs of the text."""
    _expect_use(kind, text, corpus)
    run, path = (of, of.path) if isinstance(of, Run) else (None, None)
    if not isinstance(of, Run | Recipe):
        path = trained(of, () if kind == "beam" else assignments)
    found: Preset | Recipe
    if isinstance(of, Recipe):
        name, found = "recipe", compose(to_table(of), assignments) if assignments else of
    elif isinstance(of, Run) or path is not None:
        name, found = "model" if path is None else path.name or str(path), _settings_of(run, path, kind, assignments)
    else:
        name, found = Path(of).name or str(of), planned(of, assignments)
    subject = subject_of_settings(found, name if len(name) <= _LONGEST else f"…{name[-_LONGEST:]}")
    if kind == "beam" and text is not None:
        tree = _searched(run if run is not None else path, name, subject.decoding, text)
        return dataclasses.replace(subject, tree=tree)
    if kind == "merges" and text is not None:
        return dataclasses.replace(subject, merged=_merged(run, path, found, text, corpus))
    return subject


def _expect_use(kind: str, text: str | None, corpus: str | None) -> None:
    if kind not in KINDS:
        raise ConfigError(f'there is no drawing of kind "{kind}".{did_you_mean(kind, tuple(KINDS))}')
    if text is not None and kind not in ("beam", "merges"):
        raise ConfigError(f'a drawing of kind "{kind}" is made from settings alone. Remove --text, or draw "beam" or "merges".')
    if corpus is not None and kind != "merges":
        raise ConfigError(f'a corpus is what merges are learned from, and "{kind}" shows none. Remove --corpus.')


def _settings_of(run: Run[Any] | None, path: Path | None, kind: str, assignments: Sequence[str]) -> Recipe:
    """The recipe of a run, whose search may have other settings."""
    if others := [one for one in assignments if kind != "beam" or not one.lstrip("-").startswith("decoding.")]:
        raise ConfigError(f"the settings of a run are fixed, and {others[0]} changes one. Draw its recipe or a preset instead.")
    if run is not None and path is None:
        found = run.recipe
    else:
        assert path is not None
        found = described(path)[0]
    return compose(to_table(found), assignments) if assignments else found


def subject_of_settings(found: Preset | Recipe, name: str) -> Subject:
    """A model as its settings describe it."""
    if isinstance(found, Preset):
        return Subject(name, found.config, ends_of(TASKS[found.objective]))
    model: ModelConfig = found.model.with_room(found.training.context)
    adapters = found.training.adapters if found.training.lora else None
    return Subject(name, model, ends_of(type(found.task)), adapters, found.decoding)


def ends_of(task: type[Task[Any, Any, Any]]) -> Ends:
    """What the models of a task read and predict, as drawings say it."""
    if task.reads == "points of linear functions":
        return Ends("point", "linear", "next value")
    return Ends(readout=task.noun if "encoder" in task.families else "")


def _searched(run: Run[Any] | Path | None, name: str, decoding: DecodingConfig | None, text: str) -> BeamTree:
    """The search of a run that translates the text."""
    if run is None:
        raise ConfigError(
            f"{name} has no weights that could search for a translation of --text. Give a run, or leave --text out for a search "
            "in a made-up distribution."
        )
    loaded = run if isinstance(run, Run) else load(run)
    assert decoding is not None
    tree: BeamTree = loaded.expect(TRANSLATE).translator.beam_tree(text, decoding)
    return tree


def _merged(
    run: Run[Any] | None, path: Path | None, found: Preset | Recipe, text: str, corpus: str | None
) -> tuple[MergedWord, ...]:
    """The words of the text, merged by a run's tokenizer, or as a recipe's would be that learns from the corpus."""
    if run is not None or path is not None:
        if corpus is not None:
            raise ConfigError("a run has learned its merges already. Remove --corpus, or draw a recipe.")
        tokenizer = run.source_tokenizer if run is not None else described(path)[1][0] if path is not None else None
        assert tokenizer is not None
        return merged_words(tokenizer, text)
    settings = TokenizerConfig(kind="bpe") if isinstance(found, Preset) else found.tokenizer
    learned_from = corpus if corpus is not None or isinstance(found, Preset) else found.data.text
    if settings.kind != "bpe":
        raise ConfigError(f'tokenizer.kind is "{settings.kind}", which has no merges. Set --tokenizer.kind=bpe.')
    if learned_from is None:
        raise ConfigError(
            "a recipe learns its merges from data, which a drawing does not read. Give a run, or a text with --corpus."
        )
    return merged_words(Tokenizer.train(settings, pieces_of_text(learned_from), documents=1), text)
