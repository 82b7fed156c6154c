"""firth compare: trained models, or architectures, side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from firth.cli.app import Json, Latex, app, expect_one_form, print_json, print_report, verb
from firth.cli.save_option import Save, save_figures, section
from firth.cli.suggestions import Verbs, suggestion
from firth.errors import ConfigError
from firth.files import is_file, is_folder
from firth.shipped import FOLDER


class _Comparisons(Verbs):
    """`firth compare RUN RUN …` is `firth compare runs RUN RUN …`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        names = [one for one in args if not one.startswith("-")]
        if names and names[0] not in self.commands and (len(names) > 1 or is_folder(Path(names[0]))):
            args = ["runs", *args]
        parsed: list[str] = super().parse_args(ctx, args)
        return parsed

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        name = args[0]
        if name not in self.commands and not name.startswith("-"):
            if is_file(FOLDER / f"{name}.toml"):
                raise ConfigError(
                    f'"{name}" is a recipe; expected two or more trained runs. Train one with `firth train {name} --out RUN`.'
                )
            if not suggestion(name, ctx.find_root().command):
                raise ConfigError(f'there is no run "{name}"; expected two or more. Write firth compare RUN RUN.')
        return super().resolve_command(ctx, args)


group = typer.Typer(cls=_Comparisons, rich_markup_mode=None, help="Compare trained models, or architectures, side by side.")
app.add_typer(group, name="compare")


@verb(within=group)
def runs(
    runs: Annotated[list[Path], typer.Argument(help="Two or more runs. The others are compared with the first.", metavar="RUN…")],
    data: Annotated[Path | None, typer.Option(help="File to evaluate on. [default: the runs' own data]")] = None,
    split: Annotated[
        str | None, typer.Option(help="Part of the runs' own data: train, valid or test. [default: test if there is one]")
    ] = None,
    apart: Annotated[bool, typer.Option("--apart", help="Runs that differ only in their seed are models of their own.")] = False,
    samples: Annotated[int, typer.Option(help="Draws of texts in each test.", min=100)] = 10_000,
    seed: Annotated[int, typer.Option(help="Random seed for these draws.", min=0)] = 0,
    device: Annotated[str, typer.Option(help="Device: auto, cpu, cuda or mps.")] = "auto",
    save: Save = None,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print every value as CSV.")] = False,
    as_latex: Latex = False,
    as_json: Json = False,
) -> None:
    """Compare trained models on the same texts: firth compare RUN RUN…

    Runs that differ only in their seed are one model, with mean ± standard deviation. Every other model is tested against the
    first: the interval of the difference by a paired bootstrap, p by approximate randomisation."""
    from firth.experiments.compare import compare

    expect_one_form(as_csv, as_latex, as_json)
    settings: Any = {"split": split, "device": device}
    result = compare("runs", runs=runs, data=data, apart=apart, samples=samples, seed=seed, **settings)
    written = "" if save is None else save_figures(save, "Runs compared", result.sections(), "firth compare runs")
    print_report(result, written, as_csv=as_csv, as_latex=as_latex, as_json=as_json)


@verb(within=group)
def flow(
    length: Annotated[int, typer.Option(help="Distance to look back, in tokens.", min=2, max=500)] = 100,
    size: Annotated[int, typer.Option(help="Parameters of each model.", min=1000)] = 40_000,
    gain: Annotated[float, typer.Option(help="Factor on the recurrent weights U; above 1 gradients may explode.", min=0)] = 1.0,
    clip: Annotated[float | None, typer.Option(help="Clip the gradient at this norm. [default: no clipping]")] = None,
    seed: Annotated[int, typer.Option(help="Random seed for weights and texts.", min=0)] = 0,
    save: Save = None,
    as_json: Json = False,
) -> None:
    """Show how far gradients reach in untrained models of equal size.

    The norm of the gradient of the last loss with respect to the state h_t, relative to that at distance 0."""
    from firth.experiments.compare import compare

    flows = compare("flow", length=length, size=size, gain=gain, clip=clip, seed=seed)
    if save is not None:
        lead = f"Untrained models of about {size:,} parameters; the recurrent weights are multiplied by {gain:g}."
        save_figures(save, "Gradient flow", [section("Gradient against distance", lead, [flows.figure()])], "firth compare flow")
    if as_json:
        print_json({name: {"state": one.state.tolist(), "gradient": one.gradient} for name, one in flows.items()})
        return
    print(flows.text())


@verb(within=group)
def cost(
    longest: Annotated[
        int | None,
        typer.Option(help="Longest text, in tokens; lengths double from 64. [default: until n's exponent settles]", min=128),
    ] = None,
    widest: Annotated[
        int | None, typer.Option(help="Largest width; widths double from 32. [default: until d's exponent settles]", min=64)
    ] = None,
    seconds: Annotated[
        float, typer.Option(help="Stop increasing the size once a call takes this many seconds.", min=0.001)
    ] = 0.5,
    rounds: Annotated[int, typer.Option(help="Repetitions; the best one counts.", min=1)] = 3,
    device: Annotated[str, typer.Option(help="Device: cpu or cuda.")] = "cpu",
    save: Save = None,
    as_json: Json = False,
) -> None:
    """Time one layer against length n and width d on this machine.

    Prints the exponents of the measured times beside those of the operation counts: O(n·d²) for a recurrent layer and for linear
    attention, O(n²·d) for attention. Sizes grow until the exponent settles; an exponent that never does is left out."""
    from firth.experiments.compare import compare

    costs = compare("cost", longest=longest, widest=widest, seconds=seconds, rounds=rounds, device=device)
    if save is not None:
        lead = f"Time of one layer on one text: against n with d = {costs.d}, and against d with n = {costs.n}."
        save_figures(save, "Cost of a layer", [section("Time against n and d", lead, [costs.figure()])], "firth compare cost")
    if as_json:
        print_json(costs.facts())
        return
    print(costs.text())


@verb(within=group)
def learning(
    out: Annotated[Path, typer.Option(help="Folder for the runs, one per kind of model.")],
    steps: Annotated[int, typer.Option(help="Training steps of each model.", min=10)] = 300,
    kinds: Annotated[
        str, typer.Option(help="Models to train, separated by commas.")
    ] = "rnn,lstm,gru,mingru,transformer,linear,gla,based",
    data: Annotated[str, typer.Option(help="Text file or named data set to learn.")] = "docs",
    save: Save = None,
    as_json: Json = False,
) -> None:
    """Train models of equal size and compare how fast they learn.

    Loss against tokens, steps and seconds."""
    from firth.experiments.compare import compare

    chosen = [kind.strip() for kind in kinds.split(",") if kind.strip()]
    comparison = compare("learning", out=out, steps=steps, kinds=chosen, data=data)
    if save is not None:
        lead = f"Character models with equally many parameters, {steps:,} steps each. Dotted: held-out text."
        figures = [section(f"Loss against {name}", lead, [figure]) for name, figure in comparison.figures().items()]
        save_figures(save, "Steps to learn", figures, "firth compare learning")
    if as_json:
        print_json(comparison.logs)
        return
    print(comparison.text())
