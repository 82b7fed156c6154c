"""firth dynamics: simulate attention dynamics."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from firth.cli.app import Json, print_json, verb
from firth.cli.html_page import Save, save_page, section

if TYPE_CHECKING:
    from firth.inspection.dynamics import Curves, PresetName

_LINES = 12  # rows of the table in the terminal


@verb()
def dynamics(
    preset: Annotated[str, typer.Option(help="Preset: lecture, or clusters (Geshkovski et al. 2023).")] = "lecture",
    tokens: Annotated[
        int | None, typer.Option("--tokens", "-n", help="Number of tokens.  [default: 64 or 40, by preset]")
    ] = None,
    width: Annotated[
        int | None, typer.Option("--width", "-d", help="Dimension of each token: 2 for plots, 64 for spectra.  [default: 2]")
    ] = None,
    pull: Annotated[
        float | None,
        typer.Option(help="Use P = pull · I: positive attracts tokens to those they attend to, negative repels them."),
    ] = None,
    depth: Annotated[int, typer.Option(help="Number of layers.")] = 200,
    seed: Annotated[int, typer.Option(help="Random seed for the tokens and Q.")] = 0,
    run: Annotated[
        Path | None, typer.Option(help="Run folder: add the same curves for the layers of its model (needs --text).")
    ] = None,
    text: Annotated[str | None, typer.Option(help="Input text for the model of --run.")] = None,
    save: Save = None,
    as_json: Json = False,
) -> None:
    """Simulate how attention alone moves tokens between layers.

    Shows how the tokens cluster and how their effective rank falls."""
    from firth.errors import ConfigError
    from firth.inspection.dynamics import evolve
    from firth.inspection.dynamics import preset as system

    if (run is None) != (text is None):
        missing = "--text" if text is None else "--run"
        raise ConfigError(f"--run and --text must be used together; {missing} is missing. Add it or remove the other")
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

    lead = "v ← v + P Σ α v: the effect of attention on its tokens, without any other layers."
    moved = section("Tokens through the layers", lead, [points(v_Lnd), over_depth(curves)])
    save_page(path, "Attention dynamics", [moved], "firth dynamics")
