"""Describe: any preset, recipe or run, counted without building it."""

from __future__ import annotations

from pathlib import Path

from firth.errors import ConfigError, did_you_mean
from firth.experiments.describe import Description, describe
from firth.figures.counting import in_bytes, parameters, short
from firth.figures.figure import Table
from firth.models.presets import PRESETS
from firth.serving.lab.room import Asked, Progress, Room, Shown, Usable
from firth.serving.lab.shelf import Shelf
from firth.shipped import FOLDER


def _recipes() -> tuple[str, ...]:
    return tuple(sorted(path.stem for path in FOLDER.glob("*.toml")))


def count(asked: Asked, shelf: Shelf, progress: Progress) -> Shown:
    """The counts of what `of` names; `settings` changes a recipe's, as model.depth=6."""
    name, settings = asked.text("of", "gpt3"), asked.names("settings", ())
    described = _named(name, shelf)
    for setting in settings:
        if "=" not in setting:
            raise ConfigError(f'settings has "{setting[:60]}"; expected what a recipe sets, as model.depth=6')
    assignments = [f"--{setting.lstrip('-')}" for setting in settings]
    progress(0, 1, f"counting {name}")
    found = describe(described, assignments, lambda what, done, total: progress(done, total, what))
    given = f"{described!r}, {assignments!r}" if assignments else repr(described)
    python = (
        "from firth.experiments.describe import describe\n"
        "from firth.figures.counting import parameters\n\n"
        f"found = describe({given})\n"
        "print(found.parameters, found.of.matrices, found.flops_per_token, found.training_bytes, found.inference_bytes)\n"
        "figure = parameters(found.of.parts)\n"
        "figure.plot\n"
    )
    facts = {"summary": found.summary, "differs": found.differs, "parameters": found.parameters, "matrices": found.of.matrices}
    return Shown({"parameters": parameters(found.of.parts)}, python, facts, totals(found))


def _named(name: str, shelf: Shelf) -> str:
    """What `describe` is to be given: only what the lab offers is counted, not any file of this machine."""
    if name in PRESETS or name in _recipes():
        return name
    if name in shelf.runs:
        return str(shelf.path(name))
    path = Path(name)
    if path.suffix == ".toml" and path.is_file() and path.resolve().is_relative_to(Path.cwd()):
        return name
    known = (*PRESETS, *_recipes(), *shelf.runs)
    raise ConfigError(
        f'"{name[:60]}" is neither a preset nor a recipe nor a run of the lab, nor a .toml file in its folder.'
        f"{did_you_mean(name, known)}"
    )


def totals(found: Description) -> Table:
    of = found.of
    besides = f"and {found.left_out:,} in norms and biases that are not counted" if found.left_out else ""
    keys = f"looking at {found.context:,} tokens" if found.context and of.flops_per_key else ""
    batch = f"float32, AdamW, a batch of {found.tokens:,} tokens"
    kept = f"; {in_bytes(of.state_per_token)} for each token so far" if of.state_per_token else ""
    kept += f"; {in_bytes(of.state)} of state" if of.state else ""
    rows = [
        ("parameters", short(found.parameters), f"{found.parameters:,}", besides),
        ("matrices", short(of.matrices), f"{of.matrices:,}", f"with {of.weights:,} weights"),
        ("FLOPs per token, reading", short(found.flops_per_token), f"{found.flops_per_token:,}", keys),
        ("FLOPs per token, training", short(found.training_flops_per_token), f"{found.training_flops_per_token:,}", keys),
        ("memory, training", in_bytes(found.training_bytes), f"{found.training_bytes:,}", batch),
        (
            "memory, reading",
            in_bytes(found.inference_bytes),
            f"{found.inference_bytes:,}",
            f"float32, one text{kept}",
        ),
    ]
    return Table(("", "about", "exactly", ""), rows)


def usable(shelf: Shelf) -> Usable:
    return Usable((*PRESETS, *_recipes(), *shelf.runs))


ROOM = Room(
    "describe",
    "Describe",
    "Count a model before you train it: parameters, matrices, arithmetic and memory.",
    {"count": count},
    usable,
)
