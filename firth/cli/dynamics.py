"""firth dynamics"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from firth.cli.app import Json, print_json, verb

if TYPE_CHECKING:
    from firth.inspection.dynamics import Curves, PresetName

_LINES = 12  # of the table in the terminal


@verb()
def dynamics(
    preset: Annotated[str, typer.Option(help="lecture, or clusters (Geshkovski et al. 2023).")] = "lecture",
    tokens: Annotated[int | None, typer.Option("--tokens", "-n", help="How many points; as the preset says.")] = None,
    width: Annotated[int | None, typer.Option("--width", "-d", help="Numbers of each: 2 to draw, 64 for spectra.")] = None,
    pull: Annotated[
        float | None,
        typer.Option(
            help="P = so much · I: above 0 tokens are drawn to what they look at, below 0 pushed away; as the preset says."
        ),
    ] = None,
    depth: Annotated[int, typer.Option(help="Layers.")] = 200,
    seed: Annotated[int, typer.Option(help="Where the points and Q come from.")] = 0,
    run: Annotated[
        Path | None, typer.Option(help="A run folder: the same curves for the layers of its model, reading --text.")
    ] = None,
    text: Annotated[str | None, typer.Option(help="What the model reads.")] = None,
    save: Annotated[Path | None, typer.Option(help="An HTML page to write: the points with a slider, and the curves.")] = None,
    as_json: Json = False,
) -> None:
    """Let attention alone move points, layer after layer: how they gather, and how their rank falls."""
    from firth.errors import ConfigError
    from firth.inspection.dynamics import evolve
    from firth.inspection.dynamics import preset as system

    if (run is None) != (text is None):
        raise ConfigError(
            "--run and --text belong together: the layers of a model are looked at while it reads a text; give both"
        )
    path = evolve(system(cast("PresetName", preset), n=tokens, d=width, p=pull, seed=seed), depth)
    curves = {preset: path.curves}
    if run is not None and text is not None:
        curves[run.name] = _of_run(run, text)
    if save is not None:
        _save(save, path.v_Lnd, curves)
    if as_json:
        print_json({name: dataclasses.asdict(of) for name, of in curves.items()})
        return
    for name, of in curves.items():
        _print(name, of)


def _of_run(run: Path, text: str) -> Curves:
    from firth.api import load
    from firth.inspection.contextual_vectors import depth
    from firth.inspection.dynamics import curves

    model = load(run)
    return curves([model.embed([text], layer=layer, pool=None)[0] for layer in range(depth(model.network) + 1)])


def _print(name: str, of: Curves) -> None:
    print(f"{name}: {len(of.effective_rank) - 1} layers")
    print(f"{'layer':>7}{'effective rank':>16}{'mean distance':>15}{'clusters':>10}")
    last = len(of.effective_rank) - 1
    for layer in sorted({round(last * n / (_LINES - 1)) for n in range(_LINES)}):
        print(f"{layer:>7}{of.effective_rank[layer]:>16.3f}{of.mean_distance[layer]:>15.4g}{of.clusters[layer]:>10}")


def _save(path: Path, v_Lnd: object, curves: dict[str, Curves]) -> None:
    from firth.figures.dynamics import over_depth, points
    from firth.figures.figure import Table
    from firth.figures.page import Section, page
    from firth.files import write_text

    lead = "v ← v + P Σ α v: what attention does to its tokens when nothing else does anything."
    section = Section("Points through the layers", lead, Table((), []), [points(v_Lnd), over_depth(curves)])
    write_text(path, page("Attention dynamics", [section], "Made by firth dynamics."))
