"""The progress line of a training."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import pytest

from firth.progress.display import Display


@pytest.mark.parametrize("steps", [3, 20, 300])
def test_the_last_loss_shown_is_that_of_the_last_steps(steps: int, capsys: pytest.CaptureFixture[str]) -> None:
    """A mean over the whole of a short run would still show the high losses of its beginning."""
    losses = [4 * 0.01 ** (n / steps) for n in range(steps)]
    recipe: Any = SimpleNamespace(training=SimpleNamespace(steps=steps), task=SimpleNamespace(headline=str))
    start: Any = SimpleNamespace(step=0, tokens=0, seconds=0.0)
    with Display() as display:
        display.begin(start, recipe)
        for n, loss in enumerate(losses, start=1):
            seen: Any = SimpleNamespace(step=n, loss=loss, valid=None, tokens=10 * n, seconds=0.1 * n)
            display.step(seen)
    shown = re.findall(rf"training {steps}/{steps}  loss (\S+)", capsys.readouterr().err)
    last = losses[-max(1, steps // 10) :]
    assert [min(losses) <= float(loss) + 5e-4 for loss in shown] == [True]
    assert float(shown[0]) <= 1.5 * max(last)
