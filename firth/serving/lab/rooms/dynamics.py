"""Dynamics: tokens as points that attention alone moves from layer to layer, and the layers of a trained run for comparison."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import NamedTuple, cast, get_args

import numpy as np

from firth.errors import ConfigError
from firth.figures.dynamics import over_depth, points
from firth.figures.figure import Figure
from firth.inspection.contextual_vectors import depth as depth_of
from firth.inspection.dynamics import Curves, Path, PresetName, System, curves, evolve, preset
from firth.progress import Progress
from firth.serving.lab.library import RunLibrary
from firth.serving.lab.request import ViewRequest
from firth.serving.lab.result import ViewResult
from firth.serving.lab.room import Choice, Room, Usable

PRESETS: tuple[PresetName, ...] = get_args(PresetName)
_LABELS = {"lecture": "Lecture", "clusters": "Geshkovski et al. 2023"}
_AT_ONCE = 20  # layers between two calls of progress
MOST_TOKENS = 1024  # the distances between all pairs are computed


def trajectory(request: ViewRequest, library: RunLibrary, progress: Progress) -> ViewResult:
    """The points and curves of a preset with the given settings; with `beside` also the other presets with their own."""
    name = cast(PresetName, request.choice("preset", PRESETS, PRESETS[0]))
    usual = _usual(name)
    n = request.number("n", int, int(usual["n"]), least=2, most=256)
    d = request.number("d", int, 2, least=1, most=64)
    p = request.number("p", float, usual["p"], least=-10, most=10)
    q = request.number("q", float, 1.0, least=-100, most=100)
    depth = request.number("depth", int, 200, least=1, most=1000)
    seed = request.number("seed", int, 0, least=0, most=2**31)
    system = preset(name, n=n, d=d, p=p, seed=seed)
    system = dataclasses.replace(system, Q_dd=q * system.Q_dd)
    systems: dict[PresetName, System] = {name: system}
    if request.flag("beside", True):
        systems |= {other: preset(other, seed=seed) for other in PRESETS if other != name}
    paths = {
        one: _evolved(moving, depth, _Report(progress, one, number * depth, len(systems) * depth))
        for number, (one, moving) in enumerate(systems.items())
    }
    figures: dict[str, Figure] = {one: points(of.v_Lnd) for one, of in paths.items()}
    figures["curves"] = over_depth({one: of.curves for one, of in paths.items()})
    python = _python(name, f"n={n}, d={d}, p={p}, seed={seed}", q, depth, [one for one in systems if one != name], seed)
    frames = [int(frame.name) for frame in figures[name].plot.frames]
    headings = {one: _LABELS.get(one, one) for one in systems} | {"curves": "Over depth"}
    return ViewResult(figures, python, {"systems": list(systems), "frames": frames}, headings=headings)


def _usual(name: PresetName) -> dict[str, float]:
    """The n and p with which a preset comes: P = p·I."""
    system = preset(name)
    return {"n": len(system.v_nd), "p": float(system.P_dd[0, 0])}


class _Report(NamedTuple):
    """Reports the layers of one system as a share of the layers of all systems."""

    progress: Progress
    name: str
    before: int
    total: int

    def __call__(self, layer: int, depth: int) -> None:
        self.progress(f"{self.name}: layer {layer} of {depth}", self.before + layer, self.total)


def _evolved(system: System, depth: int, report: _Report) -> Path:
    """`evolve`, a few layers at a time; the numbers are the same to the last bit."""
    sets, of = [system.v_nd[None]], [curves(system.v_nd[None])]
    with np.errstate(all="ignore"):
        for done in range(0, depth, _AT_ONCE):
            report(done, depth)
            here = dataclasses.replace(system, v_nd=sets[-1][-1])
            try:
                piece = evolve(here, min(_AT_ONCE, depth - done))
            except ConfigError:
                evolve(system, depth)  # its error names the layer, counted from the first
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


def model(request: ViewRequest, library: RunLibrary, progress: Progress) -> ViewResult:
    """The same curves for the layers of a trained run on a text."""
    name, text = request.text("run"), request.text("text")
    if not text.strip():
        raise ConfigError("the text is empty; write some words")
    with library.using(name, progress) as run:
        layers = depth_of(run.network) + 1
        sets = []
        for layer in range(layers):
            progress(f"layer {layer} of {layers - 1}", layer, layers)
            sets.append(run.embed([text], layer=layer, pool=None)[0])
    if len(sets[0]) < 2:
        raise ConfigError("the text is a single token, and distances need at least two; write more words")
    if len(sets[0]) > MOST_TOKENS:
        raise ConfigError(f"the text has {len(sets[0]):,} tokens; this view compares at most {MOST_TOKENS:,}. Shorten the text.")
    figure = over_depth({name: curves(sets)})
    python = (
        "import firth\n"
        "from firth.figures.dynamics import over_depth\n"
        "from firth.inspection.contextual_vectors import depth\n"
        "from firth.inspection.dynamics import curves\n\n"
        f"model = firth.load({str(library.path(name))!r})\n"
        f"text = {text!r}\n"
        "layers = [model.embed([text], layer=layer, pool=None)[0] for layer in range(depth(model.network) + 1)]\n"
        f"figure = over_depth({{{name!r}: curves(layers)}})\n"
        "figure.plot\n"
    )
    return ViewResult({"model": figure}, python, {"layers": layers, "tokens": len(sets[0])})


def usable(library: RunLibrary) -> Usable:
    return Usable(library.runs_where(lambda facts: facts.reads_text))


def offered(library: RunLibrary) -> Mapping[str, Sequence[Choice]]:
    """Each preset with its usual n and p, which the page fills in when the preset is chosen."""
    return {"preset": tuple(Choice(name, _LABELS.get(name, name), {"usual": _usual(name)}) for name in PRESETS)}


ROOM = Room(
    "dynamics",
    "Dynamics",
    "v ← v + P Σ α v: how attention alone moves tokens from layer to layer, compared with the layers of a trained model.",
    {"path": trajectory, "model": model},
    usable,
    offered,
)
