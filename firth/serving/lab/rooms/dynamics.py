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
from firth.inspection.dynamics import PRESETS, PresetName, System, curves, evolve, preset
from firth.inspection.dynamics_matrices import KINDS, Matrix, MatrixKind, parsed
from firth.progress import Progress
from firth.serving.lab.library import RunLibrary
from firth.serving.lab.request import ViewRequest
from firth.serving.lab.result import ViewResult
from firth.serving.lab.room import Choice, Example, Room, report_share
from firth.tasks.ability import EMBED

NAMES: tuple[PresetName, ...] = tuple(sorted(PRESETS, key=lambda name: name != "clusters"))  # first the one that moves most
_LABELS = {"lecture": "Lecture", "low-rank": "P of low rank", "clusters": "Geshkovski et al. 2023"}
_MATRICES = {
    "identity": "identity",
    "random": "random: G",
    "gram": "random, symmetric: G Gᵀ",
    "low-rank": "low rank: U Uᵀ",
    "spectrum": "chosen eigenvalues: U diag(λ) Uᵀ",
}
_NEEDS: Mapping[str, str] = {"low-rank": "rank", "spectrum": "eigenvalues"}  # the control that a matrix has besides its factor
MOST_TOKENS = 1024  # the distances between all pairs are computed


def trajectory(request: ViewRequest, library: RunLibrary, progress: Progress) -> ViewResult:
    """The points and curves of a preset with the given settings; with `beside` also the other presets with their own."""
    name = cast(PresetName, request.choice("preset", NAMES, NAMES[0]))
    usual = PRESETS[name]
    n = request.number("n", int, usual.n, least=2, most=256)
    d = request.number("d", int, usual.d, least=1, most=64)
    p = request.number("p", float, usual.p, least=-10, most=10)
    q = request.number("q", float, 1.0, least=-100, most=100)
    P, Q = _matrix(request, "P", usual.P), _matrix(request, "Q", usual.Q)
    depth = request.number("depth", int, 200, least=1, most=1000)
    seed = request.number("seed", int, 0, least=0, most=2**31)
    systems: dict[PresetName, System] = {name: preset(name, n=n, d=d, p=p, q=q, P=P, Q=Q, seed=seed)}
    if request.flag("beside", True):
        systems |= {other: preset(other, seed=seed) for other in NAMES if other != name}
    with np.errstate(all="ignore"):
        paths = {
            one: evolve(moving, depth, partial(report_share, progress, n, len(systems), one))
            for n, (one, moving) in enumerate(systems.items())
        }
    figures: dict[str, Figure] = {one: points(of.v_Lnd) for one, of in paths.items()}
    figures["curves"] = over_depth({one: of.curves for one, of in paths.items()})
    settings = f"n={n}, d={d}, p={p}, q={q}, P=parsed({str(P)!r}), Q=parsed({str(Q)!r}), seed={seed}"
    python = _python(name, settings, depth, [one for one in systems if one != name], seed)
    frames = [int(frame.name) for frame in figures[name].plot.frames]
    headings = {one: _LABELS.get(one, one) for one in systems} | {"curves": "From layer to layer"}
    captions = {one: of.curves.summary() for one, of in paths.items()}
    return ViewResult(figures, python, {"systems": list(systems), "frames": frames, "captions": captions}, headings=headings)


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
    settings: dict[str, object] = {"n": usual.n, "d": usual.d, "p": usual.p, "q": 1.0}
    for letter, matrix in (("P", usual.P), ("Q", usual.Q)):
        settings |= {letter: matrix.kind, f"{letter}_rank": matrix.rank, f"{letter}_eigenvalues": _spectrum(matrix)}
    return settings


def _python(name: str, settings: str, depth: int, others: list[str], seed: int) -> str:
    lines = [
        "from firth.figures.dynamics import over_depth, points",
        "from firth.inspection.dynamics import evolve, preset",
        "from firth.inspection.dynamics_matrices import parsed",
        "",
        f"system = preset({name!r}, {settings})",
        f"paths = {{{name!r}: evolve(system, {depth})}}",
    ]
    lines += [f"paths[{other!r}] = evolve(preset({other!r}, seed={seed}), {depth})" for other in others]
    lines += [
        "figures = {name: points(path.v_Lnd) for name, path in paths.items()}",
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
    "v ← v + P Σ α v: how attention alone moves tokens from layer to layer, compared with the layers of a trained model.",
    {"path": trajectory, "model": model},
    ability=EMBED,
    choices=offered,
    notice="Press Play: the tokens gather in a few clusters. With a P of low rank, their effective rank falls.",
    examples=(
        Example("After 20 layers", {"layer": "20"}),
        Example("Ten tokens in the plane", {"n": "10", "d": "2"}),
        Example("At the last layer", {"layer": "200", "depth": "200"}),
    ),
)
