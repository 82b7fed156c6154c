"""Warm restarts (Loshchilov & Hutter 2017): three cosines, one after the other."""

from math import cos, pi

from firth.training.schedule import Schedule


class WarmRestarts(Schedule):
    kind, label = "restarts", "cosine with warm restarts"
    about = "Falls along half a cosine, three times in a run (Loshchilov & Hutter 2017)."

    @staticmethod
    def rate(config, step, progress):
        return config.rate * (1 + cos(pi * (3 * progress % 1))) / 2
