"""--ray and --slurm, for verbs that train several runs."""

from __future__ import annotations

from typing import Annotated, Any

import typer

RayAddress = Annotated[
    str | None,
    typer.Option("--ray", metavar="ADDRESS", help="Train the runs on a Ray cluster: auto, HOST:PORT or ray://HOST:PORT."),
]
SlurmSettings = Annotated[
    str | None,
    typer.Option("--slurm", metavar="SETTINGS", help="Train the runs as Slurm jobs; options of sbatch: partition=gpu,time=60."),
]


def slurm_settings(text: str | None) -> dict[str, Any] | None:
    """The value of --slurm, as in Python."""
    from firth.experiments.clusters.slurm_cluster import read_settings

    return None if text is None else read_settings(text)
