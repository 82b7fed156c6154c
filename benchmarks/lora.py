"""Fine-tuning GPT-2 124M with LoRA: tokens per second, beside `transformers` with `peft` in the same run.

    pip install peft
    python benchmarks/lora.py [--steps 40] [--batch 32] [--targets attention all] [--no-compile] [--profile]
    python benchmarks/lora.py --device cpu --no-compile --depth 2 --width 64 --vocab 500 --batch 4 --length 32   # in miniature

The shape of GPT-2 (12 layers of width 768, 12 heads, learned positions, GELU by tanh, biases, a vocabulary of 50,257), random
weights, the same on both sides, copied with the table of families/gpt2.py; no dropout; adapters of rank 8. "attention": on
the projection of queries, keys and values, which is `peft`'s default for GPT-2 (c_attn); "all": on all four matrices of a layer
(c_attn, c_proj, c_fc). firth has adapters of rank 8 for each of query, key and value, `peft` one for all three, so firth trains a
little more. Batches of 32 × 1024 random tokens; products in bfloat16, weights and moments in float32; AdamW, gradients clipped.

Rows: firth as `firth train --training.compile=true` runs it and without compiling; the peer with fused attention, autocast and
fused AdamW, without compiling, as its Trainer runs it, and with torch.compile. That both sides compute the same is printed first:
the loss of the first batch, which the adapters do not change yet, and the losses of the last.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from firth.interop.families.gpt2 import GPT2
from firth.models import LanguageModel, TransformerConfig, language_model
from firth.models.adapters import adapt, freeze, trained_parameters
from firth.models.initialise import initialise
from firth.tasks.next_token import next_token
from firth.text.batches.windows import Windows
from firth.training import loop
from firth.training.config import TrainingConfig

GOAL = 1.3
WARM = 10
TARGETS = {
    "attention": (("query", "key", "value"), ["c_attn"]),
    "all": (("query", "key", "value", "output", "up", "down"), ["c_attn", "c_proj", "c_fc"]),
}


@dataclass(frozen=True)
class Setting:
    device: str
    depth: int
    width: int
    vocab: int
    batch: int
    length: int
    steps: int
    rank: int
    targets: str
    ids: Any

    def batches(self) -> Windows:
        return Windows(self.ids, self.batch, self.length, 0)

    def model(self) -> TransformerConfig:
        return TransformerConfig(
            kind="transformer",
            width=self.width,
            depth=self.depth,
            heads=self.width // 64,
            context=self.length,
            position="learned",
            norm="layer",
            activation="gelu_tanh",
            bias=True,
        )

    def training(self, compiled: bool) -> TrainingConfig:
        return TrainingConfig(
            steps=WARM + self.steps,
            batch=self.batch,
            context=self.length,
            device=self.device,  # type: ignore[arg-type]
            dtype="bf16",
            compile=compiled,
            rate=1e-3,
            weight_decay=0.0,
            warmup=0,
            schedule="constant",
            init="the random weights above",  # named only because adapters need something to adapt
            lora=self.rank,
            lora_targets=TARGETS[self.targets][0],  # type: ignore[arg-type]
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--depth", type=int, default=12)
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--vocab", type=int, default=50_257)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--length", type=int, default=1024)
    parser.add_argument("--rank", type=int, default=8)
    parser.add_argument("--steps", type=int, default=40, help=f"timed steps; {WARM} more come first")
    parser.add_argument("--targets", nargs="+", default=["attention", "all"], choices=list(TARGETS))
    parser.add_argument("--no-compile", action="store_true", help="without the compiled rows")
    parser.add_argument("--profile", action="store_true", help="where the time of a step goes (CUDA)")
    options = parser.parse_args()
    sizes = {key: value for key, value in vars(options).items() if key not in ("targets", "no_compile", "profile")}
    ids = np.random.default_rng(0).integers(options.vocab, size=options.batch * options.length * 8).astype(np.int32)
    name = torch.cuda.get_device_name() if options.device == "cuda" else "CPU"
    print(f"{name}; torch {torch.__version__}; {options.batch} × {options.length} tokens, rank {options.rank}, bfloat16\n")
    for targets in options.targets:
        compare(Setting(targets=targets, ids=ids, **sizes), not options.no_compile, options.profile)


def compare(setting: Setting, compiled: bool, profiled: bool) -> None:
    print(f"{'adapters: ' + setting.targets:<40}{'trained':>10}{'tokens/s':>11}{'ms/step':>9}{'GiB':>7}  losses, first and last")
    eager = (
        timed("firth", firth_steps(setting, False), setting),
        timed("transformers + peft", peer_steps(setting, False), setting),
    )
    print(f"ratio {eager[0] / eager[1]:.2f} ×")
    if compiled:
        ours = timed("firth, compiled", firth_steps(setting, True), setting)
        theirs = timed("transformers + peft, compiled", peer_steps(setting, True), setting)
        print(f"ratio {ours / theirs:.2f} ×; to the peer without compiling {ours / eager[1]:.2f} × (goal {GOAL})\n")
    if profiled:
        from gpu_clock import profile

        for steps in (firth_steps(setting, True), peer_steps(setting, True)):
            next(steps)  # the number of parameters
            profile(steps)


def timed(name: str, steps: Iterator[Any], setting: Setting) -> float:
    """Tokens per second; the device is waited for at both ends only."""
    cuda = setting.device == "cuda"
    if cuda:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    trained = next(steps)
    losses = [next(steps) for _ in range(WARM)]
    _wait(cuda)
    began = time.perf_counter()
    losses += [next(steps) for _ in range(setting.steps)]
    _wait(cuda)
    seconds = (time.perf_counter() - began) / setting.steps
    steps.close()  # type: ignore[attr-defined]
    rate = setting.batch * setting.length / seconds
    memory = torch.cuda.max_memory_allocated() / 2**30 if cuda else 0.0
    told = f"{float(losses[0]):.4f}  {float(losses[-1]):.4f}"
    print(f"{name:<40}{trained:>10,}{rate:>11,.0f}{seconds * 1e3:>9.1f}{memory:>7.1f}  {told}", flush=True)
    return rate


def _wait(cuda: bool) -> None:
    if cuda:
        torch.cuda.synchronize()


# ------------------------------------------------------------------------------------------------ firth


def base(setting: Setting) -> LanguageModel:
    model = language_model(setting.model(), setting.vocab)
    initialise(model, torch.Generator().manual_seed(0))
    return model


def firth_steps(setting: Setting, compiled: bool) -> Iterator[Any]:
    torch.compiler.reset()
    config, model = setting.training(compiled), base(setting)
    adapt(model, config.adapters, torch.Generator().manual_seed(1))
    freeze(model, ())
    yield trained_parameters(model)
    for step in loop.fit(loop.start(model, setting.batches(), config), next_token, config):
        yield step.loss_on_device


# ------------------------------------------------------------------------------------------------ the peer


def peer_model(setting: Setting) -> nn.Module:
    from peft import LoraConfig, get_peft_model
    from transformers import GPT2Config, GPT2LMHeadModel

    own = setting.model()
    config = GPT2Config(vocab_size=setting.vocab, **GPT2.write(own), attn_implementation="sdpa", use_cache=False)
    theirs = GPT2LMHeadModel(config)
    theirs.load_state_dict(GPT2.weights.write(base(setting).state_dict(), own), strict=False)
    theirs.tie_weights()
    lora = LoraConfig(
        r=setting.rank,
        lora_alpha=setting.rank,
        target_modules=TARGETS[setting.targets][1],
        fan_in_fan_out=True,
        task_type="CAUSAL_LM",
    )
    return get_peft_model(theirs, lora).to(setting.device).train()  # type: ignore[no-any-return]


def peer_steps(setting: Setting, compiled: bool) -> Iterator[Any]:
    torch.compiler.reset()
    model = peer_model(setting)
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    yield sum(parameter.numel() for parameter in trained)
    run: Any = torch.compile(model) if compiled else model
    optimizer = torch.optim.AdamW(trained, lr=1e-3, betas=(0.9, 0.95), weight_decay=0.0, fused=True)
    batches = setting.batches()
    while True:
        batch = batches.next()
        token_BT, target_BT = (_on(setting.device, array) for array in (batch.input_BT, batch.target_BT))
        with torch.autocast(setting.device, torch.bfloat16):
            loss = run(input_ids=token_BT, labels=target_BT, shift_labels=target_BT).loss
        loss.backward()
        nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        yield loss.detach()


def _on(device: str, array: Any) -> Tensor:
    tensor = torch.from_numpy(array).long()
    return tensor.pin_memory().cuda(non_blocking=True) if device == "cuda" else tensor


if __name__ == "__main__":
    main()
