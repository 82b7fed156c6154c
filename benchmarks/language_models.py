"""Speed and memory of the foundation against its peers, in one run on this machine's CPU:

    python benchmarks/language_models.py [--rounds 7]

Training: the tour's Transformer against LlamaForCausalLM of `transformers` with the same shape and weights, and the
tour's LSTM against a bare torch.nn.LSTM, both in a plain loop (forward, cross-entropy, clip, AdamW). Generation: batch
1, greedy, same weights. Memory: RssAnon while training on 2 GB and on 20 MB of token ids. The two sides take turns,
step by step; the figure is the median of the ratios of neighbours, so that a busy moment hits both.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from firth.api import find_recipe
from firth.api.recipe import Recipe
from firth.decoding.config import DecodingConfig
from firth.decoding.generate import generate
from firth.models import LanguageModel, TransformerConfig, language_model
from firth.models.initialise import initialise
from firth.tasks.next_token import next_token
from firth.text.batches.windows import Windows
from firth.text.data.running_text import prepare
from firth.training import loop

STEPS, WARM = 12, 3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--memory-of", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.memory_of:
        print(json.dumps(anonymous_memory(Path(options.memory_of))))
        return
    import transformers

    print(f"{platform.machine()}, {os.cpu_count()} cores; torch {torch.__version__}, {torch.get_num_threads()} threads, float32")
    print(f"peer: transformers {transformers.__version__}; median of {options.rounds * STEPS} pairs of steps\n")
    rows = [transformer_training(options.rounds), lstm_training(options.rounds), generation(options.rounds), memory()]
    for row in rows:
        print(row)


# ------------------------------------------------------------------------------------------------ training


def transformer_training(rounds: int) -> str:
    recipe, data = tour("transformer")
    ours, peer = started(recipe, data), llama_like(recipe, data.tokenizer.vocab)
    copy_to_llama(ours.model, peer)
    firth, other = firth_steps(ours, recipe), plain_steps(peer_logits(peer), peer, recipe, data)
    return against("train Transformer", ours.model, peer, firth, other, rounds, recipe, must=1.1)


def lstm_training(rounds: int) -> str:
    recipe, data = tour("lstm")
    ours = started(recipe, data)
    peer = BareLSTM(data.tokenizer.vocab, recipe)
    peer.load_state_dict(dict(zip(peer.state_dict(), ours.model.state_dict().values(), strict=True)))
    firth, other = firth_steps(ours, recipe), plain_steps(peer, peer, recipe, data)
    return against("train LSTM", ours.model, peer, firth, other, rounds, recipe, must=0.95)


class BareLSTM(nn.Module):
    def __init__(self, vocab: int, recipe: Recipe) -> None:
        super().__init__()
        config = recipe.model
        self.embedding = nn.Embedding(vocab, config.embedding or config.width)
        self.lstm = nn.LSTM(config.embedding or config.width, config.width, config.depth, batch_first=True)
        self.output = nn.Linear(config.width, vocab)

    def forward(self, token_BT: torch.Tensor) -> torch.Tensor:
        return self.output(self.lstm(self.embedding(token_BT))[0])


def firth_steps(training: loop.Training, recipe: Recipe) -> Iterator[float]:
    for step in loop.fit(training, next_token, recipe.training):
        yield step.loss


def plain_steps(logits: Callable[[torch.Tensor], torch.Tensor], model: nn.Module, recipe: Recipe, data) -> Iterator[float]:
    config = recipe.training
    optimizer = torch.optim.AdamW(model.parameters(), lr=config.rate, betas=tuple(config.betas), weight_decay=0.0)
    batches = batches_for(recipe, data)
    while True:
        batch = batches.next()
        for group in optimizer.param_groups:
            group["lr"] = loop.rate_at(config, batches.position - 1)
        optimizer.zero_grad()
        output = logits(torch.from_numpy(batch.input_BT))
        loss = F.cross_entropy(output.flatten(0, 1), torch.from_numpy(batch.target_BT).flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), config.clip)
        optimizer.step()
        yield loss.item()


def against(
    what: str, ours, peer, firth: Iterator[float], other: Iterator[float], rounds: int, recipe: Recipe, must: float
) -> str:
    tokens = recipe.training.batch * recipe.training.context
    for _ in range(WARM):
        next(firth), next(other)
    speeds, losses = [], {}
    for n in range(rounds * STEPS):
        taken = {}
        for name, side in (("firth", firth), ("peer", other))[:: 1 if n % 2 else -1]:  # neither side always goes first
            began = time.perf_counter()
            losses[name] = next(side)
            taken[name] = tokens / (time.perf_counter() - began)
        speeds.append((taken["firth"], taken["peer"]))
    sizes = f"parameters {count(ours):,} / {count(peer):,}"
    return (
        line(what, speeds, must)
        + f"\n{'':20}{sizes}; loss at step {WARM + rounds * STEPS}: {losses['firth']:.4f} / {losses['peer']:.4f}"
    )


# ---------------------------------------------------------------------------------------------- generation


def generation(rounds: int, tokens: int = 100) -> str:
    recipe, data = tour("transformer", f"model.context={2 * tokens}")  # room for the whole text: neither side slides
    training = started(recipe, data)
    for _ in islice(firth_steps(training, recipe), 60):
        pass  # weights that have something to say, so that the most probable token is no tie
    ours, peer = training.model.eval(), llama_like(recipe, data.tokenizer.vocab).eval()
    copy_to_llama(ours, peer)
    prompt = torch.from_numpy(np.asarray(data.train.ids[:16], dtype=np.int64)).unsqueeze(0)
    config = DecodingConfig(tokens=tokens, temperature=0.0)

    def firth() -> list[int]:
        return [int(token) for token in generate(ours, prompt, config)]

    def other() -> list[int]:
        mask = torch.ones_like(prompt)
        with torch.inference_mode():
            out = peer.generate(prompt, attention_mask=mask, max_new_tokens=tokens, min_new_tokens=tokens, do_sample=False)
        return out[0, prompt.shape[1] :].tolist()

    same = firth() == other()
    speeds = []
    for _ in range(rounds):
        pair = []
        for side in (firth, other):
            began = time.perf_counter()
            side()
            pair.append(tokens / (time.perf_counter() - began))
        speeds.append(tuple(pair))
    note = f"{tokens} greedy tokens, {'identical' if same else 'NOT identical'} on both sides"
    return line("generate, batch 1", speeds, 2.0) + f"\n{'':20}{note}"


# -------------------------------------------------------------------------------------------------- memory


def memory() -> str:
    """RssAnon after 40 training steps, each size in a process of its own."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, size in (("20 MB", 20_000_000), ("2 GB", 2_000_000_000)):
            path = Path(folder) / "ids.bin"
            with path.open("wb") as file:
                block = np.random.default_rng(0).integers(0, 97, 5_000_000, dtype=np.uint16)
                for _ in range(size // block.nbytes):
                    block.tofile(file)
            run = subprocess.run([sys.executable, __file__, "--memory-of", str(path)], check=True, capture_output=True, text=True)
            found[name] = json.loads(run.stdout)
            path.unlink()
    ratio = found["2 GB"] / found["20 MB"]
    verdict = "ok" if abs(ratio - 1) <= 0.05 else "MISS"
    sizes = ", ".join(f"{name} of token ids {kilobytes / 1024:.1f} MiB" for name, kilobytes in found.items())
    return f"{'RssAnon':20}{sizes}: ratio {ratio:.3f}  (must be within 5 %: {verdict})"


def anonymous_memory(path: Path) -> int:
    recipe = find_recipe("docs-char-transformer").resolved()
    ids = np.memmap(path, dtype=np.uint16, mode="r")
    model = language_model(recipe.model, 97)
    initialise(model, torch.Generator().manual_seed(0))
    training = loop.start(model, Windows(ids, recipe.training.batch, recipe.training.context, 0), recipe.training)
    for step in loop.fit(training, next_token, recipe.training):
        if step.step == 40:
            break
    status = Path("/proc/self/status").read_text()
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("RssAnon")))


# ------------------------------------------------------------------------------------------------- helpers


def tour(kind: str, *settings: str):
    recipe = find_recipe(f"docs-char-{kind}", settings).resolved()
    return recipe, prepare(recipe.data, recipe.tokenizer)


def batches_for(recipe: Recipe, data) -> Windows:
    return Windows(data.train.ids, recipe.training.batch, recipe.training.context, recipe.training.seed)


def started(recipe: Recipe, data) -> loop.Training:
    model = language_model(recipe.model, data.tokenizer.vocab)
    initialise(model, torch.Generator().manual_seed(recipe.training.seed))
    return loop.start(model, batches_for(recipe, data), recipe.training)


def llama_like(recipe: Recipe, vocab: int):
    from transformers import LlamaConfig, LlamaForCausalLM

    config = recipe.model
    assert isinstance(config, TransformerConfig)
    assert (config.position.kind, config.norm.kind, config.feedforward.activation, config.norm.placement) == (
        "rotary",
        "rms",
        "swiglu",
        "pre",
    )
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=vocab,
            hidden_size=config.width,
            intermediate_size=config.inner,
            num_hidden_layers=config.depth,
            num_attention_heads=config.attention.heads,
            num_key_value_heads=config.attention.groups,
            max_position_embeddings=max(512, config.context or 0),
            rms_norm_eps=1e-5,
            tie_word_embeddings=config.tied,
            bos_token_id=None,
            eos_token_id=None,
            pad_token_id=None,
        )
    )


def peer_logits(peer) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda token_BT: peer(input_ids=token_BT, use_cache=False).logits


def copy_to_llama(ours: LanguageModel, peer) -> None:
    """Same weights on both sides: ours are fused where theirs are apart."""
    state = {}
    for name, tensor in ours.state_dict().items():
        if name == "embedding.weight":
            state["model.embed_tokens.weight"] = state["lm_head.weight"] = tensor
        elif name == "norm.weight":
            state["model.norm.weight"] = tensor
        else:
            _, n, rest = name.split(".", 2)
            at = f"model.layers.{n}."
            config = ours.config
            head = config.width // config.attention.heads
            match rest:
                case "attention.qkv.weight":
                    q, k, v = tensor.split(
                        [config.attention.heads * head, config.attention.groups * head, config.attention.groups * head]
                    )
                    state |= {f"{at}self_attn.{x}_proj.weight": w for x, w in zip("qkv", (q, k, v), strict=True)}
                case "attention.out.weight":
                    state[f"{at}self_attn.o_proj.weight"] = tensor
                case "feedforward.up.weight":
                    state[f"{at}mlp.gate_proj.weight"], state[f"{at}mlp.up_proj.weight"] = tensor.chunk(2)
                case "feedforward.down.weight":
                    state[f"{at}mlp.down_proj.weight"] = tensor
                case "attention_norm.weight":
                    state[f"{at}input_layernorm.weight"] = tensor
                case "feedforward_norm.weight":
                    state[f"{at}post_attention_layernorm.weight"] = tensor
    peer.load_state_dict(state)


def line(what: str, speeds: list[tuple[float, float]], must: float) -> str:
    ratio = statistics.median(ours / theirs for ours, theirs in speeds)
    ours, theirs = (statistics.median(side) for side in zip(*speeds, strict=True))
    verdict = "ok" if ratio >= must else "MISS"
    return f"{what:20}firth {ours:>9,.0f} tokens/s   peer {theirs:>9,.0f}   ratio {ratio:.2f}  (must {must}: {verdict})"


def count(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


if __name__ == "__main__":
    main()
