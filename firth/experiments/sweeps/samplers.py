"""Optuna's samplers that need no further package. A trial is drawn with a generator of its own, seeded with the seed of the sweep
and the number of the trial, so that a sweep can be interrupted without changing the trials that follow."""

from __future__ import annotations

import warnings

import numpy as np
from optuna.exceptions import ExperimentalWarning
from optuna.samplers import BaseSampler, GPSampler, GridSampler, QMCSampler, RandomSampler, TPESampler

from firth.errors import ConfigError, option
from firth.experiments.sweeps import SamplerName
from firth.experiments.sweeps.space import SweepSpace

_USUAL = 20  # trials, where the space has more combinations


def sampler(name: SamplerName, space: SweepSpace, seed: int, number: int) -> BaseSampler:
    """The sampler of the trial with this number."""
    own, shared = _drawn(seed, number), _drawn(seed)
    match name:
        case "tpe":  # Bergstra et al. 2011: tree-structured Parzen estimators, after ten random trials
            return TPESampler(seed=own)
        case "random":
            return RandomSampler(seed=own)
        case "grid":  # its order must be the same in every trial
            return GridSampler({one.name: one.grid() for one in space.swept}, seed=shared)
        case "qmc":  # Sobol' sequences: the same scrambling in every trial
            independent = RandomSampler(seed=own)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ExperimentalWarning)
                return QMCSampler(scramble=True, seed=shared, independent_sampler=independent, warn_independent_sampling=False)
        case "gp":  # a Gaussian process with expected improvement
            return GPSampler(seed=own, independent_sampler=RandomSampler(seed=own))


def _drawn(*seeds: int) -> int:
    return int(np.random.SeedSequence(seeds).generate_state(1)[0])


def number_of_trials(name: SamplerName, space: SweepSpace, asked: int | None) -> int:
    """The number of trials. There are never more than combinations: equal settings give equal results."""
    most = space.combinations
    if asked is None:
        return _USUAL if most is None else most if name == "grid" else min(_USUAL, most)
    if asked < 1:
        raise ConfigError(f"{option('trials', '--trials')} is {asked}; expected 1 or more")
    if most is not None and asked > most:
        raise ConfigError(
            f"{option('trials', '--trials')} is {asked}, but the settings have only {most} combinations. Ask for at most {most}."
        )
    return asked
