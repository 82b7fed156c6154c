"""Describe: the parameters, arithmetic and memory of a preset, recipe or run, counted without building the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from firth.errors import ConfigError, did_you_mean
from firth.experiments.describe import Description, describe
from firth.experiments.draw import subject_of
from firth.figures.counting import in_bytes, parameters, short
from firth.figures.figure import Table
from firth.models.presets import PRESETS
from firth.progress import Progress
from firth.serving.lab.drawings import WHOLE, drawing_facts
from firth.serving.lab.library import RunLibrary
from firth.serving.lab.request import ViewRequest
from firth.serving.lab.result import ViewResult
from firth.serving.lab.room import Choice, Example, Room
from firth.shipped import FOLDER

FIRST = "gpt3"  # described when the room opens


def _recipes() -> tuple[str, ...]:
    return tuple(sorted(path.stem for path in FOLDER.glob("*.toml")))


def count(request: ViewRequest, library: RunLibrary, progress: Progress) -> ViewResult:
    """The counts of the preset, recipe or run named by `of`; `settings` changes a preset or recipe, for example model.depth=6."""
    described, assignments = _asked(request, library)
    progress(f"counting {request.text('of', FIRST)}", 0, 1)
    key, stamp = ("describe", described, *assignments), _stamp(request.text("of", FIRST), library)
    description = library.computed.once(key, partial(describe, described, assignments, progress), progress, stamp)
    given = f"{described!r}, {assignments!r}" if assignments else repr(described)
    python = (
        "import firth\n\n"
        f"facts = firth.describe({given})\n"
        "print(facts.parameters, facts.of.matrices, facts.flops_per_token, facts.training_bytes, facts.inference_bytes)\n"
        "figure = facts.figure()\n"
        "figure.plot\n"
    )
    facts = {
        "summary": description.summary,
        "differs": description.differs,
        "parameters": description.parameters,
        "matrices": description.of.matrices,
    }
    headings = {"parameters": "Where the parameters are"}
    return ViewResult({"parameters": parameters(description.of.parts)}, python, facts, totals(description), headings)


def draw(request: ViewRequest, library: RunLibrary, progress: Progress) -> ViewResult:
    """A drawing of the same model."""
    described, assignments = _asked(request, library)
    wanted = request.text("drawing", WHOLE)
    facts = drawing_facts(subject_of(described, WHOLE, assignments), wanted)
    given = f", {assignments!r}" if assignments else ""
    return ViewResult({}, f"import firth\n\ndrawing = firth.draw({described!r}, {facts['kind']!r}{given})\ndrawing\n", facts)


def _asked(request: ViewRequest, library: RunLibrary) -> tuple[str, list[str]]:
    """What to describe, and the settings to change."""
    name, settings = request.text("of", FIRST), request.names("settings", ())
    described = _resolve(name, library)
    for setting in settings:
        if "=" not in setting:
            raise ConfigError(f'"{setting[:60]}" is not a setting; write it as model.depth=6')
    return described, [f"--{setting.lstrip('-')}" for setting in settings]


def _resolve(name: str, library: RunLibrary) -> str:
    """The argument for `describe`. Only what the lab offers is described, not any file on this machine."""
    if name in PRESETS or name in _recipes():
        return name
    if name in library.runs:
        return str(library.path(name))
    path = Path(name)
    if path.suffix == ".toml" and path.is_file() and path.resolve().is_relative_to(Path.cwd()):
        return name
    known = (*PRESETS, *_recipes(), *library.runs)
    raise ConfigError(
        f'"{name[:60]}" is not a preset, a recipe, a run in the lab or a .toml file in its folder.{did_you_mean(name, known)}'
    )


def _stamp(name: str, library: RunLibrary) -> int:
    """When it last changed, if it can change while the lab is open."""
    if name in library.runs:
        return library.stamp(name)
    file = Path(name)
    return file.stat().st_mtime_ns if file.suffix == ".toml" and file.is_file() else 0


def totals(description: Description) -> Table:
    of = description.of
    besides = f"plus {description.left_out:,} in norms and biases, not counted" if description.left_out else ""
    keys = f"attending to {description.context:,} tokens" if description.context and of.flops_per_key else ""
    batch = f"float32, AdamW, a batch of {description.tokens:,} tokens"
    kept = f"; {in_bytes(of.state_per_token)} of cache per token" if of.state_per_token else ""
    kept += f"; {in_bytes(of.state)} of state" if of.state else ""
    rows = [
        ("parameters", short(description.parameters), f"{description.parameters:,}", besides),
        ("matrices", short(of.matrices), f"{of.matrices:,}", f"with {of.weights:,} weights"),
        ("FLOPs per token, inference", short(description.flops_per_token), f"{description.flops_per_token:,}", keys),
        (
            "FLOPs per token, training",
            short(description.training_flops_per_token),
            f"{description.training_flops_per_token:,}",
            keys,
        ),
        ("memory, training", in_bytes(description.training_bytes), f"{description.training_bytes:,}", batch),
        (
            "memory, inference",
            in_bytes(description.inference_bytes),
            f"{description.inference_bytes:,}",
            f"float32, one text{kept}",
        ),
    ]
    return Table(("", "about", "exactly", ""), rows)


def offered(library: RunLibrary) -> Mapping[str, Sequence[Choice]]:
    """Presets, shipped recipes and runs by their names, which are what a user types on the command line."""
    groups = {"Presets": PRESETS, "Recipes": _recipes(), "Runs": library.runs}
    return {"of": tuple(Choice(name, name, {"group": group}) for group, names in groups.items() for name in names)}


ROOM = Room(
    "describe",
    "Describe",
    "The size of a model: parameters, FLOPs, memory.",
    {"count": count, "draw": draw},
    choices=offered,
    facts={"first": FIRST},
    notice="In a large model, nearly all parameters are in the layers; in a small one, many are in the embedding.",
    examples=(
        Example("GPT-3", {"of": "gpt3", "settings": ""}),
        Example("GPT-2", {"of": "gpt2", "settings": ""}),
        Example("GPT-2 with twice the width", {"of": "gpt2", "settings": "model.width=1536"}),
    ),
)
