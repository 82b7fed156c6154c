"""WSD (Hu et al. 2024): warm up, stay, decay over the last fifth of the run."""

from firth.training.schedule import Schedule


class WarmupStableDecay(Schedule):
    kind, label = "wsd", "warm-up, stable, decay"
    about = "A constant rate that falls to 0 along a line over the last fifth of the run (Hu et al. 2024)."

    @staticmethod
    def rate(config, step, progress):
        return config.rate * min(1.0, (1 - progress) / 0.2)
