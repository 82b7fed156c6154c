from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from shell import Firth

from firth.api import load


def test_gpt3_is_counted_with_and_without_norms(firth: Firth) -> None:
    told = json.loads(firth("describe", "gpt3", "--json").out)
    assert (told["parameters"], told["matrices"]) == (175_181_291_520, 27_938)
    assert told["left_out"] == (2 * 96 + 1) * 12_288
    assert "175,181,291,520, without 2,371,584 in norms" in firth("describe", "gpt3").out


def test_no_weights_are_drawn_to_be_counted(
    firth: Firth, char_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the meta device, drawing numbers takes two seconds: torch imports its compiler for it."""
    for draw in ("_no_grad_normal_", "_no_grad_uniform_"):
        monkeypatch.delattr(f"torch.nn.init.{draw}")
    (tmp_path / "my.txt").write_text("the list is empty.\n" * 9)
    for what in (["gpt2"], ["docs-char-gru", f"--data.path={tmp_path / 'my.txt'}"], [char_run]):
        assert firth("describe", *what).code == 0


def test_a_run_and_its_recipe_have_as_many_parameters_as_the_model(firth: Firth, char_run: Path, transformer_run: Path) -> None:
    for run in (char_run, transformer_run):
        real = sum(parameter.numel() for parameter in load(run).network.parameters())
        assert json.loads(firth("describe", run, "--json").out)["parameters"] == real
        assert json.loads(firth("describe", run / "recipe.toml", "--json").out)["parameters"] == real


def test_settings_of_a_recipe_count(firth: Firth) -> None:
    one, two = (json.loads(firth("describe", "hello", f"--model.depth={depth}", "--json").out) for depth in (1, 2))
    assert two["matrices"] > one["matrices"]


def test_settings_of_a_preset_count(firth: Firth) -> None:
    told = json.loads(firth("describe", "gpt3", "--model.depth=2", "--tokenizer.vocab", "1000", "--json").out)
    assert told["parameters"] == 2 * 12 * 12_288**2 + 2 * 1000 * 12_288
    assert told["summary"].endswith("; changed: model.depth, tokenizer.vocab")
    assert "; changed: model.depth" in firth("describe", "gpt2", "--model.depth=2").out


@pytest.mark.parametrize(("reduce", "wire"), [("float32", 4), ("bf16", 2)])
def test_what_four_processes_hold_and_send(firth: Firth, transformer_run: Path, reduce: str, wire: int) -> None:
    """In float32: weights, gradients, and AdamW's two moments. In a ring each of N processes sends 2 (N − 1) / N of what is
    summed, and (N − 1) / N of what is gathered."""
    real = sum(parameter.numel() for parameter in load(transformer_run).network.parameters())
    recipe = (transformer_run / "recipe.toml", "--world", "4", f"--training.reduce={reduce}")
    whole, part = (
        json.loads(firth("describe", *recipe, f"--training.parallel={parallel}", "--json").out)["distributed"]
        for parallel in ("ddp", "fsdp")
    )
    assert [whole[name] for name in ("weights", "gradients", "optimizer", "gathered")] == [4 * real, 4 * real, 8 * real, 0]
    assert whole["sent"] == 2 * 3 * wire * real // 4
    assert [part[name] for name in ("weights", "gradients", "optimizer")] == [real, real, 2 * real]
    for told in (whole, part):
        assert told["tokens"] == -(-told["step_tokens"] // 4)
        assert told["total"] == sum(told[name] for name in ("weights", "gradients", "optimizer", "gathered", "activations"))
    assert "4 processes, ddp" in firth("describe", *recipe).out


def test_the_settings_of_a_run_are_fixed(firth: Firth, char_run: Path) -> None:
    answer = firth("describe", char_run, "--model.depth=2")
    assert answer.code == 2
    assert "is a run, whose settings are fixed. Use" in answer.err
    assert firth("describe", char_run / "recipe.toml", "--model.depth=2").code == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["gp3"], 'neither a preset .* Did you mean "gpt3"'),
        (["gpt3", "--model.dept=2"], 'unknown key "model.dept" in "model". Did you mean "depth"'),
        (["gpt3", "--model.kind=lstm"], "\"model.kind\" is 'lstm'; expected one of 'transformer'"),
        (["gpt3", "--training.batch=2"], 'a preset has no setting "training.batch"'),
        (["gpt3", "--tokenizer.vocab=0"], "tokenizer.vocab is 0; expected a whole number, at least 1"),
        (["nowhere.toml"], "there is no file nowhere.toml"),
        (["gpt2", "--world=0"], "world is 0; expected 1 or more processes"),
    ],
)
def test_what_cannot_be_described(firth: Firth, arguments: list[str], message: str) -> None:
    answer = firth("describe", *arguments)
    assert answer.code == 2
    assert re.search(message, answer.err)
    assert not answer.out
