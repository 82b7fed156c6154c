"""firth dynamics: simulate attention dynamics."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from firth.cli.app import Json, print_json, verb
from firth.cli.save_option import Save, save_figures, section
from firth.errors import ConfigError

if TYPE_CHECKING:
    from firth.inspection.dynamics import Curves, PresetName, System
    from firth.inspection.dynamics import Path as Moved

_LINES = 12  # rows of the table in the terminal


@verb()
def dynamics(
    preset: Annotated[
        str,
        typer.Option(
            help="Preset: clusters (Geshkovski et al. 2023), low-rank or lecture. Separate several by commas to compare them."
        ),
    ] = "clusters",
    tokens: Annotated[
        int | None, typer.Option("--tokens", "-n", help="Number of tokens.  [default: the preset's; 64 or 40]")
    ] = None,
    width: Annotated[
        int | None,
        typer.Option(
            "--width", "-d", help="Dimension of each token: 2 for plots, 64 for spectra.  [default: the preset's; 2 or 64]"
        ),
    ] = None,
    p_matrix: Annotated[
        str | None,
        typer.Option(help="Matrix P: identity, random, gram (G Gᵀ), low-rank:4 or spectrum:1,0.5,0.1.  [default: the preset's]"),
    ] = None,
    q_matrix: Annotated[
        str | None, typer.Option(help="Matrix Q, with the same choices as --p-matrix.  [default: the preset's]")
    ] = None,
    pull: Annotated[
        float | None,
        typer.Option(
            help="Factor of P: positive attracts tokens to those they attend to, negative repels them.  [default: the preset's]"
        ),
    ] = None,
    q_factor: Annotated[float, typer.Option(help="Factor of Q: the larger, the sharper the attention; 0 averages.")] = 1.0,
    rescale: Annotated[
        float, typer.Option(help="Factor ρ of each layer, v ← ρ (v + P Σ α v): 1 lets tokens grow, 0.905 keeps them small.")
    ] = 1.0,
    depth: Annotated[int, typer.Option(help="Number of layers.")] = 200,
    seed: Annotated[int, typer.Option(help="Random seed for the tokens, P and Q.")] = 0,
    run: Annotated[
        Path | None, typer.Option(help="Run folder: add the same curves for the layers of its model (needs --text).")
    ] = None,
    text: Annotated[str | None, typer.Option(help="Input text for the model of --run.")] = None,
    save: Save = None,
    as_json: Json = False,
) -> None:
    """Simulate how attention alone moves tokens between layers.

    Reports the effective rank of the tokens and of the attention weights, the distances and the clusters."""
    from firth.inspection.dynamics import evolve
    from firth.inspection.dynamics import preset as system
    from firth.inspection.dynamics_matrices import parsed

    if (run is None) != (text is None):
        missing = "--text" if text is None else "--run"
        raise ConfigError(f"--run and --text must be used together; {missing} is missing. Add it or remove the other")
    P, Q = (None if text is None else parsed(text) for text in (p_matrix, q_matrix))
    systems = {
        name: system(cast("PresetName", name), n=tokens, d=width, p=pull, q=q_factor, P=P, Q=Q, seed=seed).rescaled(rescale)
        for name in preset.split(",")
    }
    paths = {name: evolve(moving, depth) for name, moving in systems.items()}
    curves = {name: path.curves for name, path in paths.items()}
    if run is not None and text is not None:
        curves[run.name] = _of_run(run, text)
    if save is not None:
        _save(save, systems, paths, curves)
    if as_json:
        formula = {name: {"formula": moving.formula} for name, moving in systems.items()}
        print_json({name: {**formula.get(name, {}), **_facts(of)} for name, of in curves.items()})
        return
    for n, (name, of) in enumerate(curves.items()):
        _print(name, of, systems.get(name), after="\n" if n else "")


def _facts(of: Curves) -> dict[str, object]:
    return {**dataclasses.asdict(of), "summary": of.summary()}


def _of_run(run: Path, text: str) -> Curves:
    from firth.api import load
    from firth.inspection.contextual_vectors import depth
    from firth.inspection.dynamics import curves

    model = load(run)
    return curves([model.embed([text], layer=layer, pool=None)[0] for layer in range(depth(model.network) + 1)])


def _print(name: str, of: Curves, moving: System | None, after: str) -> None:
    last = len(of.effective_rank) - 1
    print(f"{after}{name}: {last} layers{f' of {moving.formula}' if moving else ''}")
    rank = f"{'attention rank':>16}" if of.attention_rank else ""
    print(f"{'layer':>7}{'effective rank':>16}{'mean distance':>15}{'clusters':>10}{rank}")
    for layer in sorted({round(last * n / (_LINES - 1)) for n in range(_LINES)}):
        rank = f"{of.attention_rank[layer]:>16.3f}" if of.attention_rank else ""
        print(f"{layer:>7}{of.effective_rank[layer]:>16.3f}{of.mean_distance[layer]:>15.4g}{of.clusters[layer]:>10}{rank}")
    print(of.summary())


def _save(path: Path, systems: dict[str, System], moved: dict[str, Moved], curves: dict[str, Curves]) -> None:
    from firth.figures.dynamics import over_depth, points

    lead = "The effect of attention on its tokens, without any other layers."
    each = [
        section(f"{name}: {systems[name].formula}", of.curves.summary(), [points(of.v_Lnd, of.curves.growth)])
        for name, of in moved.items()
    ]
    said = " ".join(f"{name}: {of.summary()}" for name, of in curves.items() if name not in moved)
    measured = section("Over depth", f"{lead} {said}".strip(), [over_depth(curves)])
    save_figures(path, "Attention dynamics", [*each, measured], "firth dynamics")
