"""Generating text token by token: tokens per second, beside `transformers` in the same run.

    python benchmarks/decoding.py [--model gpt2 llama lstm] [--batch 1 64] [--dtype bf16] [--rounds 5]
    python benchmarks/decoding.py --device cpu --threads 2 --batch 1 16                        # GPT-2 in float32 on a CPU
    python benchmarks/decoding.py --device cpu --depth 2 --width 64 --vocab 500 --tokens 8     # in miniature

Shapes: "gpt2", GPT-2 124M (12 layers of width 768, 12 heads, learned positions, a vocabulary of 50,257); "llama", 1.0 B
parameters (22 layers of width 2048, 32 heads, 4 key/value heads, SwiGLU of inner width 5632, rotary positions, a vocabulary of
32,000); "lstm", three layers of width 2048 over embeddings of width 1024, with GPT-2's vocabulary, which `transformers` does not
have. Random weights, the same on both sides, copied with the tables of firth/interop. A prompt of 32 random tokens, then 128
more, always the most probable one.

Rows: firth as `firth generate` runs it, which on a GPU records the step and replays it; there also a plain loop over model.step;
`transformers` generate() as it is, and on a GPU with cache_implementation="static", which compiles the step. The rows take turns,
and the median of the rounds counts; what compiles does so before. A step is one token of every text; the time of the prompt is
divided among the steps, too.

First comes a check, with two layers, that both sides compute the same: in float32 the tokens have to be the same ones; in another
type the logits after the prompt may be at most twice as far from those of float32 as the peer's.
"""

from __future__ import annotations

import argparse
import dataclasses
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from firth.decoding.config import DecodingConfig
from firth.decoding.generate import generate
from firth.interop.families.family import Family
from firth.interop.families.gpt2 import GPT2
from firth.interop.families.llama import LLAMA
from firth.models import LanguageModel, RecurrentConfig, TransformerConfig, language_model
from firth.models.initialise import initialise

DTYPES = {"float32": torch.float32, "bf16": torch.bfloat16}
CPU_GOAL = 1.5  # × transformers
GPU_GOALS = {("gpt2", 1): 2_000, ("gpt2", 64): 40_000, ("llama", 1): 1_100, ("llama", 64): 14_000}  # tokens per second
CHECKED = 16  # tokens
RECORDED = 3  # calls, until firth has recorded how prompts of this length are read
Row = Callable[[Tensor, int], Tensor]  # (token_BT of the prompts, number of new tokens) → token_BN


@dataclass(frozen=True)
class Setting:
    model: str
    device: str
    dtype: str
    prompt: int
    tokens: int
    rounds: int
    clock: str
    depth: int | None
    width: int | None
    vocab: int | None

    @property
    def words(self) -> int:
        return self.vocab or (32_000 if self.model == "llama" else 50_257)

    def transformer(self) -> TransformerConfig:
        context: dict[str, Any] = {"kind": "transformer", "context": max(1024, self.prompt + self.tokens)}
        if self.model == "llama":
            width = self.width or 2048
            heads = max(1, width // 64)
            return TransformerConfig(
                **context,
                width=width,
                depth=self.depth or 22,
                heads=heads,
                kv_heads=max(1, heads // 8),
                hidden=width * 11 // 4,
                position="rotary",
                norm="rms",
                activation="swiglu",
                bias=False,
                tied=False,
            )
        width = self.width or 768
        return TransformerConfig(
            **context,
            width=width,
            depth=self.depth or 12,
            heads=max(1, width // 64),
            position="learned",
            norm="layer",
            activation="gelu_tanh",
            bias=True,
        )

    def recurrent(self) -> RecurrentConfig:
        width = self.width or 2048
        return RecurrentConfig(kind="lstm", width=width, depth=self.depth or 3, embedding=width // 2, tied=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    cuda = torch.cuda.is_available()
    parser.add_argument("--model", nargs="+", default=["gpt2"], choices=("gpt2", "llama", "lstm"))
    parser.add_argument("--batch", nargs="+", type=int, default=[1, 64] if cuda else [1, 16])
    parser.add_argument("--device", default="cuda" if cuda else "cpu", choices=("cuda", "cpu"))
    parser.add_argument("--dtype", default="bf16" if cuda else "float32", choices=tuple(DTYPES))
    parser.add_argument("--threads", type=int, default=torch.get_num_threads(), help="on a CPU")
    parser.add_argument("--prompt", type=int, default=32)
    parser.add_argument("--tokens", type=int, default=128, help="new ones")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall", help="cpu: processor time, for a busy machine")
    parser.add_argument("--no-static", action="store_true", help="without the row of transformers with a static cache (GPU)")
    parser.add_argument("--depth", type=int, help="instead of the shape's own, as are --width and --vocab")
    parser.add_argument("--width", type=int)
    parser.add_argument("--vocab", type=int)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    name = torch.cuda.get_device_name() if options.device == "cuda" else f"CPU, {options.threads} threads, {options.clock} clock"
    print(f"{name}; torch {torch.__version__}; {options.dtype}, prompt of {options.prompt} tokens, {options.tokens} new ones\n")
    given = {key: getattr(options, key) for key in Setting.__dataclass_fields__ if key != "model"}
    for model in options.model:
        compare(Setting(model=model, **given), options.batch, not options.no_static)


def compare(setting: Setting, batches: list[int], static: bool) -> None:
    agree(dataclasses.replace(setting, depth=min(setting.depth or 2, 2)))
    ours = firth_model(setting).to(DTYPES[setting.dtype])
    theirs = None if setting.model == "lstm" else peer_model(setting, ours).to(DTYPES[setting.dtype])
    size = sum(parameter.numel() for parameter in ours.parameters())
    print(f"{setting.model}, {size / 1e6:,.0f} M parameters", flush=True)
    for batch in batches:
        rows = all_rows(setting, ours, theirs, static)
        seconds = timed(rows, prompts(setting, batch), setting)
        report(setting, batch, seconds)


def agree(setting: Setting) -> None:
    """Check that both sides compute the same."""
    if setting.model == "lstm":
        return
    ours, dtype, token_BT = firth_model(setting), DTYPES[setting.dtype], prompts(setting, 2)
    theirs, exact_BV = peer_model(setting, ours), last_logits(ours, token_BT)
    same = torch.equal(firth_row(ours)(token_BT, CHECKED).cpu(), peer_row(theirs)(token_BT, CHECKED).cpu())
    print(f"float32: {'the same' if same else 'DIFFERENT'} {CHECKED} tokens of two texts on both sides")
    if dtype == torch.float32:
        return
    with torch.inference_mode():
        both = last_logits(ours.to(dtype), token_BT), theirs.to(dtype)(token_BT).logits[:, -1]
    far = [float((found_BV.float() - exact_BV).abs().max()) for found_BV in both]
    verdict = "agrees" if far[0] <= 2 * far[1] else "DIFFERS"
    print(f"{setting.dtype}: {verdict}; logits up to {far[0]:.4f} from float32 (transformers {far[1]:.4f})")


@torch.inference_mode()
def last_logits(model: LanguageModel, token_BT: Tensor) -> Tensor:
    return model(token_BT)[0][:, -1]


def all_rows(setting: Setting, ours: LanguageModel, theirs: nn.Module | None, static: bool) -> dict[str, Row]:
    rows = {"firth": firth_row(ours)}
    if setting.device == "cuda":
        rows["firth, a plain loop over model.step"] = plain_row(ours)
    if theirs is not None:
        rows["transformers"] = peer_row(theirs)
        if static and setting.device == "cuda":
            rows["transformers, static cache, compiled"] = peer_row(theirs, cache_implementation="static")
    return rows


def timed(rows: dict[str, Row], token_BT: Tensor, setting: Setting) -> dict[str, float]:
    """Median seconds of each row, which take turns; calls of each come before, in which some compile or record."""
    found: dict[str, list[float]] = {name: [] for name in rows}
    clock = time.process_time if setting.clock == "cpu" else time.perf_counter
    for name, row in rows.items():
        began = time.perf_counter()
        row(token_BT, setting.tokens)
        wait(setting.device)
        print(f"first call of {name}: {time.perf_counter() - began:.1f} s", file=sys.stderr, flush=True)
        for _ in range(RECORDED if name == "firth" and setting.device == "cuda" else 0):
            row(token_BT, setting.tokens)
    for _ in range(setting.rounds):
        for name, row in rows.items():
            wait(setting.device)
            began = clock()
            row(token_BT, setting.tokens)
            wait(setting.device)
            found[name].append(clock() - began)
    return {name: statistics.median(seconds) for name, seconds in found.items()}


def report(setting: Setting, batch: int, seconds: dict[str, float]) -> None:
    print(f"{f'batch {batch}':<40}{'tokens/s':>10}{'ms/step':>9}{'× peer':>8}  goal")
    peer = seconds.get("transformers")
    for name, taken in seconds.items():
        rate = batch * setting.tokens / taken
        ratio = f"{peer / taken:.2f}" if peer else ""
        print(f"{name:<40}{rate:>10,.0f}{taken / setting.tokens * 1e3:>9.2f}{ratio:>8}{_goal(setting, batch, name)}", flush=True)
    print()


def _goal(setting: Setting, batch: int, name: str) -> str:
    if name != "firth" or setting.model == "lstm":
        return ""
    if setting.device == "cpu":
        return f"  {CPU_GOAL} ×"
    goal = GPU_GOALS.get((setting.model, batch))
    return f"  {goal:,} tokens/s" if goal else ""


def prompts(setting: Setting, batch: int) -> Tensor:
    generator = torch.Generator().manual_seed(batch)
    return torch.randint(setting.words, (batch, setting.prompt), generator=generator).to(setting.device)


def wait(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


# ------------------------------------------------------------------------------------------------ firth


def firth_model(setting: Setting) -> LanguageModel:
    config = setting.recurrent() if setting.model == "lstm" else setting.transformer()
    with torch.device(setting.device):
        model = language_model(config, setting.words)
        if setting.device == "cpu":
            initialise(model, torch.Generator().manual_seed(0))
        else:  # there, drawing a billion numbers on the CPU would take longer than everything else
            for name, parameter in model.named_parameters():
                _draw(name, parameter)
    return model.eval()


def _draw(name: str, parameter: Tensor) -> None:
    if "norm" in name:
        nn.init.constant_(parameter, float(name.endswith("weight")))
    else:
        nn.init.normal_(parameter, std=parameter.shape[-1] ** -0.5)


def firth_row(model: LanguageModel) -> Row:
    def row(token_BT: Tensor, count: int) -> Tensor:
        return torch.stack(list(generate(model, token_BT, DecodingConfig(tokens=count, temperature=0))), dim=1)

    return row


def plain_row(model: LanguageModel) -> Row:
    @torch.inference_mode()
    def row(token_BT: Tensor, count: int) -> Tensor:
        found, state = [], model.start(len(token_BT))
        for _ in range(count):
            x_BTd, state = model.hidden(token_BT, state)
            token_BT = model.readout(x_BTd[:, -1:]).argmax(-1)
            found.append(token_BT)
        return torch.cat(found, dim=1)

    return row


# ------------------------------------------------------------------------------------------------ the peer


def peer_model(setting: Setting, ours: LanguageModel) -> nn.Module:
    from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

    own, common = setting.transformer(), {"vocab_size": setting.words, "bos_token_id": None, "eos_token_id": None}
    family: Family
    if setting.model == "llama":
        family = LLAMA
        with torch.device(setting.device):
            theirs: Any = LlamaForCausalLM(LlamaConfig(**common, **LLAMA.write(own)))
    else:
        family = GPT2
        with torch.device(setting.device):
            theirs = GPT2LMHeadModel(GPT2Config(**common, **GPT2.write(own)))
    weights = {name: weight.detach() for name, weight in ours.state_dict().items()}
    missing, unexpected = theirs.load_state_dict(family.weights.write(weights, own), strict=False)
    if unexpected or any(name != "lm_head.weight" for name in missing):
        raise SystemExit(f"weights do not fit: {missing} are missing, {unexpected} are too many")
    theirs.tie_weights()
    return theirs.eval()  # type: ignore[no-any-return]


def peer_row(model: Any, **settings: Any) -> Row:
    def row(token_BT: Tensor, count: int) -> Tensor:
        found = model.generate(
            token_BT,
            attention_mask=torch.ones_like(token_BT),
            max_new_tokens=count,
            min_new_tokens=count,
            do_sample=False,
            pad_token_id=0,
            **settings,
        )
        return found[:, token_BT.shape[1] :]  # type: ignore[no-any-return]

    return row


if __name__ == "__main__":
    main()
