"""Dynamics: tokens as points that attention alone moves from layer to layer, and the layers of a trained run for comparison."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import cast

import numpy as np

from firth.errors import ConfigError
from firth.figures.dynamics import over_depth, points
from firth.figures.figure import Figure
from firth.inspection.contextual_vectors import depth as depth_of
from firth.inspection.dynamics import PRESETS, Path, PresetName, System, curves, evolve, preset
from firth.inspection.dynamics_matrices import KINDS, Matrix, MatrixKind, parsed
from firth.progress import Progress
from firth.serving.lab.library import RunLibrary
from firth.serving.lab.request import ViewRequest
from firth.serving.lab.result import ViewResult
from firth.serving.lab.room import Choice, Example, Room, report_share
from firth.serving.lab.streaming import show
from firth.tasks.ability import EMBED

NAMES: tuple[PresetName, ...] = tuple(PRESETS)
_LABELS = {"lecture": "the lecture", "low-rank": "P of low rank", "clusters": "Geshkovski et al. 2023"}
_MATRICES = {
    "identity": "identity",
    "random": "random: G",
    "gram": "random, symmetric: G Gᵀ",
    "low-rank": "low rank: U Uᵀ",
    "spectrum": "chosen eigenvalues: U diag(λ) Uᵀ",
}
_NEEDS: Mapping[str, str] = {"low-rank": "rank", "spectrum": "eigenvalues"}  # the control that a matrix has besides its factor
_DEPTH = 200  # layers, unless others are asked for
MOST_TOKENS = 1024  # the distances between all pairs are computed


def trajectory(request: ViewRequest, library: RunLibrary, progress: Progress) -> ViewResult:
    """The points and curves of a preset with the given settings; with `beside` also the other presets with their own. Each preset
    is shown as soon as it is computed."""
    systems, depth, program = _asked(request)
    paths: dict[PresetName, Path] = {}
    figures: dict[str, Figure] = {}
    for n, (one, moving) in enumerate(systems.items()):
        with np.errstate(all="ignore"):
            paths[one] = evolve(moving, depth, partial(report_share, progress, n, len(systems), one))
        figures[one] = points(paths[one].v_Lnd, moving.growth)
        facts = {
            "systems": list(systems),
            "frames": [int(frame.name) for frame in next(iter(figures.values())).plot.frames],
            "formulas": {one: systems[one].formula for one in paths},
            "captions": {one: f"{PRESETS[one].about} {path.curves.summary()}" for one, path in paths.items()},
        }
        headings = {one: _LABELS.get(one, one) for one in paths} | {"curves": "From layer to layer"}
        show(progress, ViewResult(dict(figures), program, facts, headings=headings))
    figures["curves"] = over_depth({one: of.curves for one, of in paths.items()})
    return ViewResult(figures, program, facts, headings=headings)


def _asked(request: ViewRequest) -> tuple[dict[PresetName, System], int, str]:
    """The systems, the number of layers, and a program that draws the same."""
    name = cast(PresetName, request.choice("preset", NAMES, NAMES[0]))
    usual = PRESETS[name]
    n = request.number("n", int, usual.n, least=2, most=256)
    d = request.number("d", int, usual.d, least=1, most=64)
    p = request.number("p", float, usual.p, least=-10, most=10)
    q = request.number("q", float, 1.0, least=-100, most=100)
    rescale = request.number("rescale", float, 1.0, least=0.01, most=10)
    P, Q = _matrix(request, "P", usual.P), _matrix(request, "Q", usual.Q)
    depth = request.number("depth", int, _DEPTH, least=1, most=1000)
    seed = request.number("seed", int, 0, least=0, most=2**31)
    chosen = preset(name, n=n, d=d, p=p, q=q, P=P, Q=Q, seed=seed)
    others = [other for other in NAMES if other != name] if request.flag("beside") else []
    systems = {name: chosen.rescaled(rescale)} | {other: preset(other, seed=seed).rescaled(rescale) for other in others}
    settings = f"n={n}, d={d}, p={p}, q={q}, P=parsed({str(P)!r}), Q=parsed({str(Q)!r}), seed={seed}"
    of = {name: f"preset({name!r}, {settings})"} | {other: f"preset({other!r}, seed={seed})" for other in others}
    factor = "" if rescale == 1 else f".rescaled({rescale})"
    return systems, depth, _python({name: f"{system}{factor}" for name, system in of.items()}, depth)


def _matrix(request: ViewRequest, letter: str, usual: Matrix) -> Matrix:
    """The matrix that the controls P, P_rank and P_eigenvalues choose, or those of Q."""
    kind = cast(MatrixKind, request.choice(letter, KINDS, usual.kind))
    match kind:
        case "low-rank":
            return Matrix(kind, rank=request.number(f"{letter}_rank", int, usual.rank, least=1, most=64))
        case "spectrum":
            return parsed(f"spectrum:{request.text(f'{letter}_eigenvalues', _spectrum(usual), most=1000)}")
        case _:
            return Matrix(kind)


def _spectrum(matrix: Matrix) -> str:
    return ", ".join(f"{one:g}" for one in matrix.spectrum or (1.0, 0.5))


def _usual(name: PresetName) -> dict[str, object]:
    """The settings with which a preset comes, by control."""
    usual = PRESETS[name]
    settings: dict[str, object] = {"n": usual.n, "d": usual.d, "p": usual.p, "q": 1.0, "rescale": 1.0}
    for letter, matrix in (("P", usual.P), ("Q", usual.Q)):
        settings |= {letter: matrix.kind, f"{letter}_rank": matrix.rank, f"{letter}_eigenvalues": _spectrum(matrix)}
    return settings


def _as_set(name: PresetName) -> dict[str, str]:
    """The preset and all of its settings, as the page writes them into its address."""
    return {"preset": name, **{control: f"{value}" for control, value in _usual(name).items()}, "depth": f"{_DEPTH}"}


def _python(systems: Mapping[PresetName, str], depth: int) -> str:
    lines = [
        "from firth.figures.dynamics import over_depth, points",
        "from firth.inspection.dynamics import evolve, preset",
        "from firth.inspection.dynamics_matrices import parsed",
        "",
        "paths = {}",
        *(f"paths[{name!r}] = evolve({system}, {depth})" for name, system in systems.items()),
        "figures = {name: points(path.v_Lnd, path.curves.growth) for name, path in paths.items()}",
        'figures["curves"] = over_depth({name: path.curves for name, path in paths.items()})',
        "",
    ]
    return "\n".join(lines)


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
    statistics = curves(sets)
    figure = over_depth({name: statistics})
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
    return ViewResult({"model": figure}, python, {"layers": layers, "tokens": len(sets[0]), "caption": statistics.summary()})


def offered(library: RunLibrary) -> Mapping[str, Sequence[Choice]]:
    """Each preset with its usual settings, which the page fills in when the preset is chosen; each matrix with its control."""
    matrices = tuple(Choice(kind, _MATRICES.get(kind, kind), {"needs": _NEEDS.get(kind, "")}) for kind in KINDS)
    presets = tuple(Choice(name, _LABELS.get(name, name), {"usual": _usual(name)}) for name in NAMES)
    return {"preset": presets, "P": matrices, "Q": matrices}


ROOM = Room(
    "dynamics",
    "Dynamics",
    "How attention alone moves tokens: v ← v + P Σ α v.",
    {"path": trajectory, "model": model},
    ability=EMBED,
    choices=offered,
    notice="Press Play: the tokens gather in a few clusters. With a P of low rank, their effective rank falls.",
    examples=(
        Example("After 20 layers", {"layer": "20"}),
        Example("What the lecture plots: V⁽²⁾", {**_as_set("lecture"), "layer": "2"}),
        Example("The lecture in 64 dimensions", {**_as_set("lecture"), "d": "64", "layer": "200"}),
        Example("Kept small: all tokens meet", {**_as_set("clusters"), "rescale": "0.905", "depth": "400", "layer": "400"}),
    ),
)
