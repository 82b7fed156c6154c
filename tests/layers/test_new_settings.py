"""A new setting of attention is a line in its config and the place that computes it; fast paths that do not know it refuse it."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from runs import recipe_table
from tomli_w import dumps

from firth.config import setting
from firth.layers.attention import chunked, flex, mask, reference, score, sdpa
from firth.layers.attention.call import Call
from firth.layers.attention.config import CausalConfig
from firth.layers.block import Block
from firth.layers.block_config import BlockConfig
from firth.layers.cross_attention import CrossAttention
from firth.layers.feedforward import FeedForwardConfig
from firth.layers.kernels import attention as fused
from firth.layers.kernels import linear_attention as fused_linear
from firth.layers.kernels.triton import few_queries
from firth.layers.known import with_defaults
from firth.layers.linear_attention.call import LinearCall
from firth.layers.linear_attention.features import IDENTITY
from firth.layers.norm import NormConfig


@with_defaults
@dataclasses.dataclass(frozen=True, eq=False)
class CallWithSinks(Call):
    sinks: int = 0


@with_defaults
@dataclasses.dataclass(frozen=True, eq=False)
class LinearCallWithSinks(LinearCall):
    sinks: int = 0


@dataclasses.dataclass(frozen=True, kw_only=True)
class SinkConfig(CausalConfig):
    sinks: int = setting(0, "")


@dataclasses.dataclass(frozen=True, kw_only=True)
class OddNorm(NormConfig):
    odd: bool = setting(False, "")


@dataclasses.dataclass(frozen=True, kw_only=True)
class OddFeedForward(FeedForwardConfig):
    odd: bool = setting(False, "")


@dataclasses.dataclass(frozen=True, kw_only=True)
class OddBlock(BlockConfig):
    odd: bool = setting(False, "")


def qkv() -> list[torch.Tensor]:
    return [torch.randn(1, 2, 4, 16) for _ in range(3)]


@pytest.mark.parametrize("kernel", [reference, chunked, sdpa, flex, fused, few_queries], ids=lambda kernel: kernel.__name__)
def test_a_kernel_refuses_an_argument_that_it_does_not_know(kernel: Any) -> None:
    call = CallWithSinks(*qkv(), 1.0, score.SCALED_DOT, mask.CAUSAL)
    assert "sinks" not in (kernel.why_not(call) or "")
    assert kernel.why_not(dataclasses.replace(call, sinks=4)) == "the kernel does not know sinks"


def test_the_kernel_of_linear_attention_refuses_an_argument_that_it_does_not_know() -> None:
    call = LinearCallWithSinks(*qkv(), features=IDENTITY)
    assert "sinks" not in (fused_linear.why_not(call) or "")
    assert fused_linear.why_not(dataclasses.replace(call, sinks=4)) == "the kernel does not know sinks"


def reasons(config: BlockConfig) -> list[str | None]:
    block = Block(config)
    return [block.why_not_one_row, block.why_not_row_block, block.attention.why_not_cached, CrossAttention(config).why_not_plain]


def test_the_fast_paths_of_a_block_refuse_a_setting_that_they_do_not_know() -> None:
    assert reasons(BlockConfig(width=32, attention=SinkConfig(heads=2))) == [None] * 4
    name = "attention.sinks = 4", "sinks = 4"  # a path of attention alone sees the settings of attention alone
    refusals = reasons(BlockConfig(width=32, attention=SinkConfig(heads=2, sinks=4)))
    assert refusals == [name[0], name[0], name[1], name[1]]


@pytest.mark.parametrize(
    ("config", "name"),
    [
        (BlockConfig(width=32, norm=OddNorm(odd=True)), "norm.odd = True"),
        (BlockConfig(width=32, feedforward=OddFeedForward(odd=True)), "feedforward.odd = True"),
        (OddBlock(width=32, odd=True), "odd = True"),
    ],
)
def test_the_fast_blocks_refuse_a_setting_of_any_idea_that_they_do_not_know(config: BlockConfig, name: str) -> None:
    assert reasons(config)[:2] == [name, name]


@pytest.mark.long
def test_a_new_setting_of_attention_is_two_lines(tmp_path: Path) -> None:
    """Trained, saved, loaded, decoded with a cache, documented, and refused by the formats that cannot express it."""
    table = recipe_table(model="transformer", steps=2)
    table["training"]["device"] = "cpu"
    (tmp_path / "recipe.toml").write_text(dumps(table), encoding="utf-8")
    script = Path(__file__).with_name("with_sharpness.py")
    given = [sys.executable, str(script), str(tmp_path), str(tmp_path / "recipe.toml")]
    done = subprocess.run(given, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout.splitlines()[-1])
    assert report.pop("refused by") == ["attention.sharpness = 3.0", "attention.sharpness = 3.0", "sharpness = 3.0"]
    for name in ("hf", "gguf"):
        assert "model.attention.sharpness = 3.0" in report.pop(name)
    assert report == {"changes the loss": True, "kept in the run": 3.0, "steps as at once": True, "docs": True}
