"""Dynamics: points that attention alone moves, layer after layer, and the layers of a trained model beside them."""

from __future__ import annotations

import dataclasses
from typing import cast

import numpy as np

from firth.errors import ConfigError
from firth.figures.dynamics import over_depth, points
from firth.inspection.contextual_vectors import depth as depth_of
from firth.inspection.dynamics import Curves, Path, PresetName, System, curves, evolve, preset
from firth.serving.lab.room import Asked, Progress, Room, Shown, Usable
from firth.serving.lab.shelf import Shelf, reads_text

_PRESETS = ("lecture", "clusters")
_AT_ONCE = 20  # layers between two looks whether someone still waits


def path(asked: Asked, shelf: Shelf, progress: Progress) -> Shown:
    """The points and curves of a preset with its settings; with `beside` also those of the other preset as it is."""
    name = asked.choice("preset", _PRESETS, "lecture")
    n = asked.number("n", int, 64 if name == "lecture" else 40, least=2, most=256)
    d = asked.number("d", int, 2, least=1, most=64)
    p = asked.number("p", float, -0.01 if name == "lecture" else 0.1, least=-10, most=10)
    q = asked.number("q", float, 1.0, least=-100, most=100)
    depth = asked.number("depth", int, 200, least=1, most=1000)
    seed = asked.number("seed", int, 0, least=0, most=2**31)
    system = preset(cast(PresetName, name), n=n, d=d, p=p, seed=seed)
    system = dataclasses.replace(system, Q_dd=q * system.Q_dd)
    systems = {name: system}
    if asked.flag("beside", True):
        other = _PRESETS[1 - _PRESETS.index(name)]
        systems[other] = preset(cast(PresetName, other), seed=seed)
    paths = {
        one: _evolved(moving, depth, one, progress, number / len(systems), 1 / len(systems))
        for number, (one, moving) in enumerate(systems.items())
    }
    figures = {one: points(of.v_Lnd) for one, of in paths.items()}
    figures["curves"] = over_depth({one: of.curves for one, of in paths.items()})
    python = _python(name, f"n={n}, d={d}, p={p}, seed={seed}", q, depth, [one for one in systems if one != name], seed)
    frames = [int(frame.name) for frame in figures[name].plot.frames]
    return Shown(figures, python, {"systems": list(systems), "frames": frames})


def _evolved(system: System, depth: int, name: str, progress: Progress, begun: float, share: float) -> Path:
    """`evolve`, a few layers at a time; the same numbers to the bit."""
    sets, of = [system.v_nd[None]], [curves(system.v_nd[None])]
    with np.errstate(all="ignore"):
        for done in range(0, depth, _AT_ONCE):
            progress(begun + share * done / depth, 1, f"{name}: layer {done} of {depth}")
            here = dataclasses.replace(system, v_nd=sets[-1][-1])
            try:
                piece = evolve(here, min(_AT_ONCE, depth - done))
            except ConfigError:
                evolve(system, depth)  # which tells after how many layers in all
                raise
            sets.append(piece.v_Lnd[1:])
            of.append(Curves(piece.curves.effective_rank[1:], piece.curves.mean_distance[1:], piece.curves.clusters[1:]))
    joined = Curves(
        tuple(rank for one in of for rank in one.effective_rank),
        tuple(distance for one in of for distance in one.mean_distance),
        tuple(groups for one in of for groups in one.clusters),
    )
    return Path(np.concatenate(sets), joined)


def _python(name: str, settings: str, q: float, depth: int, others: list[str], seed: int) -> str:
    lines = [
        "from dataclasses import replace",
        "",
        "from firth.figures.dynamics import over_depth, points",
        "from firth.inspection.dynamics import evolve, preset",
        "",
        f"system = preset({name!r}, {settings})",
    ]
    if q != 1:
        lines.append(f"system = replace(system, Q_dd={q} * system.Q_dd)")
    lines.append(f"paths = {{{name!r}: evolve(system, {depth})}}")
    lines += [f"paths[{other!r}] = evolve(preset({other!r}, seed={seed}), {depth})" for other in others]
    lines += [
        "figures = {name: points(path.v_Lnd) for name, path in paths.items()}",
        'figures["curves"] = over_depth({name: path.curves for name, path in paths.items()})',
        'figures["curves"].plot',
        "",
    ]
    return "\n".join(lines if q != 1 else lines[2:])


def model(asked: Asked, shelf: Shelf, progress: Progress) -> Shown:
    """The same curves for the layers of a trained model that reads a text."""
    name, text = asked.text("run"), asked.text("text")
    if not text.strip():
        raise ConfigError("the text is empty; write something for the model to read")
    with shelf.using(name, progress) as used:
        layers = depth_of(used.network) + 1
        sets = []
        for layer in range(layers):
            progress(layer, layers, f"layer {layer} of {layers - 1}")
            sets.append(used.embed([text], layer=layer, pool=None)[0])
    if len(sets[0]) < 2:
        raise ConfigError("the text is a single token for this model; the distances are between tokens: write some more")
    if len(sets[0]) > 1024:
        raise ConfigError(f"the text has {len(sets[0]):,} tokens; pairs of at most 1,024 are compared here; shorten it")
    figure = over_depth({name: curves(sets)})
    python = (
        "import firth\n"
        "from firth.figures.dynamics import over_depth\n"
        "from firth.inspection.contextual_vectors import depth\n"
        "from firth.inspection.dynamics import curves\n\n"
        f"model = firth.load({str(shelf.path(name))!r})\n"
        f"text = {text!r}\n"
        "layers = [model.embed([text], layer=layer, pool=None)[0] for layer in range(depth(model.network) + 1)]\n"
        f"figure = over_depth({{{name!r}: curves(layers)}})\n"
        "figure.plot\n"
    )
    return Shown({"model": figure}, python, {"layers": layers, "tokens": len(sets[0])})


def usable(shelf: Shelf) -> Usable:
    return Usable(shelf.suited(reads_text))


ROOM = Room(
    "dynamics",
    "Dynamics",
    "v ← v + P Σ α v: what attention does to its tokens when nothing else does anything, and what the layers of a model do.",
    {"path": path, "model": model},
    usable,
)
