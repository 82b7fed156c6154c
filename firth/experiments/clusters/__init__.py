"""Clusters: runs handed to other machines, which share the folder of the study or sweep with this one.

`cluster_of` chooses the cluster; its `pool` is an Executor, like that of the processes of this machine. A `RemoteCall` is what
another machine runs, `pulse` says who is alive, and `lease` keeps two processes out of one run."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from typing import Any

from firth.errors import ConfigError, option
from firth.experiments.workers import Cluster


def cluster_of(ray: str | None, slurm: Mapping[str, Any] | None, jobs: int | None) -> Cluster | None:
    """The cluster that the arguments `ray` and `slurm` name; None for this machine."""
    if ray is not None and slurm is not None:
        raise ConfigError(f"give one of {option('ray')} and {option('slurm')}")
    if ray is not None:
        _expect("ray", "ray", "ray")
        from firth.experiments.clusters.ray_cluster import RayCluster, expect_address

        expect_address(ray)
        return RayCluster(ray)
    if slurm is not None:
        _expect("slurm", "submitit", "slurm")
        from firth.experiments.clusters.slurm_cluster import SlurmCluster, expect_settings

        expect_settings(slurm)
        if jobs is None:
            raise ConfigError(f"{option('slurm')} needs {option('jobs')}: the number of Slurm jobs at a time")
        return SlurmCluster(slurm)
    return None


def _expect(argument: str, package: str, extra: str) -> None:
    if importlib.util.find_spec(package) is None:
        raise ConfigError(f'{option(argument)} needs the package {package}. Install it with pip install "firth[{extra}]".')
