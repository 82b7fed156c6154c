"""A notice before training if most of the arithmetic is the softmax over a large vocabulary.

Every predicted token is multiplied by the whole output layer, V × d. With a vocabulary of words, V easily exceeds 20,000, and
this product takes longer than the rest of the network, above all on a CPU.
"""

from __future__ import annotations

from typing import Any

from firth.models import Network
from firth.models.config import RecurrentConfig
from firth.models.counting import count
from firth.models.decoder import Decoder
from firth.models.seq2seq_config import RecurrentSeq2SeqConfig
from firth.text.config import TokenizerConfig

LARGE = 10_000_000  # weights of the output layer: with more, one CPU core trains on a few hundred tokens per second
MOST = 0.5  # of all arithmetic


def costly_output(network: Network, model: Any, tokenizer: TokenizerConfig, device: str) -> str | None:
    """A sentence on the cost of the output layer and how to reduce it; None if it is cheap. `model` is the [model] table."""
    if device != "cpu" or not isinstance(network, Decoder):
        return None
    weight_Vd, _ = network.output_layer()
    vocab, width = weight_Vd.shape
    share = 2 * weight_Vd.numel() / count(network).flops_per_token
    if weight_Vd.numel() < LARGE or share < MOST:
        return None
    advice = _advice(model, width, tokenizer)
    each = f"{vocab:,} tokens × {width:,} numbers for each predicted token"
    return f"the output layer accounts for {share:.0%} of the FLOPs of this training: {each}. {advice}"


def _advice(model: Any, width: int, tokenizer: TokenizerConfig) -> str:
    if tokenizer.kind == "word":
        ways = ['tokenizer.kind = "bpe" (with tokenizer.vocab = 8000)', "tokenizer.vocab = 8000 or tokenizer.min_count = 5"]
    elif tokenizer.kind in ("imported", "char"):  # its vocabulary is fixed
        ways = []
    else:
        ways = ["a smaller tokenizer.vocab"]
    if isinstance(model, (RecurrentConfig, RecurrentSeq2SeqConfig)) and not model.tied:
        embedding = model.embedding_width
        ways += [f"model.tied = true ({embedding:,} instead of {width:,} numbers)"] if embedding < width else []
    return f"To train faster, set {', or '.join(ways)}." if ways else "A GPU would train it faster."
