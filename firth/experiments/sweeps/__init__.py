"""Sweeps: settings of a recipe that are chosen by validation, with Optuna's samplers, pruners, storage and figures."""

from typing import Literal

SamplerName = Literal["tpe", "random", "grid", "qmc", "gp"]  # how the settings of a trial are chosen; see samplers.py
