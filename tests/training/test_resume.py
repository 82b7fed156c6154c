"""N steps are k steps, a stop, a resume and the rest: to the bit."""

from __future__ import annotations

import itertools
import json
import signal
from pathlib import Path
from typing import Any

import pytest
from tiny_runs import KINDS, assert_identical, assert_no_temporaries, outcome, steps_saved, stopping_at, tiny, undisturbed

from firth.api import train_recipe
from firth.errors import Interrupted

OPTIMIZERS: dict[str, dict[str, Any]] = {
    "adamw": {"optimizer": "adamw", "weight_decay": 0.1},
    "sgd": {"optimizer": "sgd", "rate": 0.3, "momentum": 0.9},
    "muon": {"optimizer": "muon", "weight_decay": 0.1},
    "schedule-free": {"optimizer": "schedule-free", "schedule": "constant", "weight_decay": 0.1},
}
QUICK = {
    ("lstm", True, "adamw"),
    ("gru", True, "sgd"),
    ("transformer", False, "muon"),
}
CASES = [
    pytest.param(*case, marks=() if case in QUICK else pytest.mark.long)
    for kind in KINDS
    for carry in ((False, True) if kind != "transformer" else (False,))
    for optimizer in OPTIMIZERS
    for case in [(kind, carry, optimizer)]
]


@pytest.mark.parametrize(("kind", "carry", "optimizer"), CASES)
def test_a_stopped_and_resumed_run_is_the_undisturbed_run_to_the_bit(
    kind: str, carry: bool, optimizer: str, tmp_path: Path
) -> None:
    recipe = tiny(
        kind,
        dropout=0.2,
        steps=14,
        carry=carry,
        accumulate=2,
        warmup=3,
        log_every=4,  # stops fall between two lines: the losses since the last one must survive
        evaluate_every=3,
        checkpoint_every=5,
        patience=100,
        **OPTIMIZERS[optimizer],
    )
    expected = undisturbed(recipe, tmp_path / "whole")
    for k in (3, 7, 13):
        with pytest.raises(Interrupted, match=rf"stopped at step {k} of 14; saved\. Add resume=True to continue"):
            train_recipe(recipe, tmp_path / "parts", resume=True, watcher=stopping_at(k))
        assert steps_saved(tmp_path / "parts")[-1] == k
    train_recipe(recipe, tmp_path / "parts", resume=True)
    assert_identical(outcome(tmp_path / "parts"), expected)
    assert_no_temporaries(tmp_path / "parts")
    assert [line["step"] for line in expected["log"]] == [3, 4, 6, 8, 9, 12, 14]


def test_a_run_with_windows_of_varying_length_is_resumed_to_the_bit_and_its_rate_follows_them(tmp_path: Path) -> None:
    settings: dict[str, Any] = {
        "steps": 14,
        "carry": True,
        "context": 12,
        "context_deviation": 3.0,
        "schedule": "constant",
        "rate": 0.12,
    }
    expected = undisturbed(tiny("lstm", **settings), tmp_path / "whole")
    lengths = [round(100 * line["rate"]) for line in expected["log"]]
    assert len(set(lengths)) > 4
    counted = [line["tokens"] for line in expected["log"]]
    assert [after - before for before, after in itertools.pairwise([0, *counted])] == [2 * length for length in lengths]
    with pytest.raises(Interrupted):
        train_recipe(tiny("lstm", **settings), tmp_path / "parts", watcher=stopping_at(9))
    train_recipe(tiny("lstm", **settings), tmp_path / "parts", resume=True)
    assert_identical(outcome(tmp_path / "parts"), expected)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_the_run_with_its_own_exit_code(number: int, code: int, tmp_path: Path) -> None:
    before = signal.getsignal(number)
    with pytest.raises(Interrupted) as caught:
        train_recipe(tiny(), tmp_path / "run", watcher=stopping_at(3, number))
    assert caught.value.exit_code == code
    assert signal.getsignal(number) is before


def test_a_signal_while_a_step_is_being_reported_is_answered_by_the_next_step(tmp_path: Path) -> None:
    """It must not be answered at once: "saved" would be untrue of this step."""
    with pytest.raises(Interrupted, match="stopped at step 4 "):
        train_recipe(tiny(), tmp_path / "run", watcher=stopping_at(4))
    assert steps_saved(tmp_path / "run") == [4]


def test_a_signal_during_the_last_step_lets_the_run_end(tmp_path: Path) -> None:
    train_recipe(tiny(), tmp_path / "run", watcher=stopping_at(6))
    assert steps_saved(tmp_path / "run") == [6]


def test_a_second_signal_during_the_save_leaves_everything_intact(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import safetensors.torch as safetensors

    recipe = tiny(dropout=0.2, checkpoint_every=2)
    expected = undisturbed(recipe, tmp_path / "whole")
    save, saves = safetensors.save_file, 0

    def impatient(*args: Any, **kwargs: Any) -> None:
        nonlocal saves
        saves += 1
        if saves == 4:  # after weights and checkpoint of step 2 and the weights of step 3: the checkpoint of step 3
            signal.raise_signal(signal.SIGINT)
        save(*args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(safetensors, "save_file", impatient)
        with pytest.raises(KeyboardInterrupt):
            train_recipe(recipe, tmp_path / "run", watcher=stopping_at(3))
    assert_no_temporaries(tmp_path / "run")
    assert steps_saved(tmp_path / "run") == [2]
    train_recipe(recipe, tmp_path / "run", resume=True)
    assert_identical(outcome(tmp_path / "run"), expected)


def test_resuming_a_finished_run_changes_nothing(tmp_path: Path) -> None:
    recipe = tiny()
    expected = undisturbed(recipe, tmp_path / "run")
    before = {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()}
    train_recipe(recipe, tmp_path / "run", resume=True)
    assert_identical(outcome(tmp_path / "run"), expected)
    assert {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()} == before


def test_lines_written_after_the_checkpoint_are_cut_from_the_log_and_a_half_line_too(tmp_path: Path) -> None:
    recipe = tiny(checkpoint_every=2)
    expected = undisturbed(recipe, tmp_path / "whole")
    with pytest.raises(Interrupted):
        train_recipe(recipe, tmp_path / "run", watcher=stopping_at(3))
    log = tmp_path / "run" / "log.jsonl"
    log.write_text(log.read_text() + json.dumps({"step": 4, "loss": -1.0}) + '\n{"step": 5, "lo')
    train_recipe(recipe, tmp_path / "run", resume=True)
    assert_identical(outcome(tmp_path / "run"), expected)
