"""word2vec on a GPU, in Triton (triton_programs.py): the objectives and sampling distributions of firth/vectors/kernels.

Each call copies its text to the device once, subsamples it there, and trains on the rest in one launch: PROGRAMS programs in
parallel, each on its own stretch of text. A program sees its own updates, as in word2vec; between programs it is Hogwild, but
with no update lost.

Losing no update has a price. A row that hundreds of programs update at the same moment takes hundreds of steps from the same
weights, which overshoots: the root of the Huffman tree, on the path of every word, would diverge. So if more than TOGETHER
programs are expected to update a row at once, its steps are scaled down by that ratio (`ease`).
Letters: V vocabulary, P words, d dimension, N inner nodes or words.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from firth.errors import ConfigError
from firth.vectors.huffman import huffman
from firth.vectors.sampling import alias_table, busy_rows, keep_probability, negative_probability

if TYPE_CHECKING:
    from firth.vectors.config import VectorsConfig

PROGRAMS = 1024  # more are faster, but see fewer of each other's updates
SHORTEST = 64  # fewest words per program
TOGETHER = 32  # programs that may take full steps from the same weights
WARPS = 1


class GPUKernel:
    """Keeps the matrices on the device; `fetch` copies them back. One call trains on whole sentences, see kernels.Kernel."""

    def __init__(
        self,
        config: VectorsConfig,
        count_V: npt.NDArray[np.int64],
        input_Vd: npt.NDArray[np.float32],
        output_Vd: npt.NDArray[np.float32],
        device: torch.device | str = "cuda",
    ) -> None:
        if config.loss == "softmax":
            raise ConfigError('loss = "softmax" only runs on the CPU. Choose "ns" or "hs", or leave device out')
        self.config, self.device, self.V = config, torch.device(device), len(count_V)
        self.input_Vd, self.output_Vd = self._moved(input_Vd), self._moved(output_Vd)
        self._host = input_Vd, output_Vd
        self.keep_V = self._moved(keep_probability(count_V, config.sample).astype(np.float32))
        own_V, other_V = alias_table(negative_probability(count_V)) if config.loss == "ns" else (_NOTHING, _NOTHING)
        tree = huffman(count_V) if config.loss == "hs" else None
        end_V, step = tree.paths() if tree is not None else (_NOTHING, _NOTHING)
        self.tables = [self._moved(np.asarray(table)) for table in (own_V, other_V, end_V, step)]
        self.busy = [self._moved(table.astype(np.float32)) for table in busy_rows(config, count_V, tree)]

    def __call__(
        self,
        ids: npt.NDArray[np.uint32],
        ends: npt.NDArray[np.int64],
        first: int,
        last: int,
        rate_first: float,
        rate_last: float,
        seed: int,
    ) -> tuple[float, int, int]:
        """Σ of the objective, the number of its terms, and the number of words read."""
        begin, end = int(ends[first - 1]) if first else 0, int(ends[last - 1])
        words = self._moved(np.asarray(ids[begin:end]).astype(np.int32))
        bounds = self._moved(np.asarray(ends[first:last]) - begin)
        place_P = torch.arange(len(words), device=self.device)
        sentence_P = torch.searchsorted(bounds, place_P, right=True).to(torch.int32)
        kept = self._kept(words, seed)
        loss, terms = self.train(words[kept], sentence_P[kept], rate_first, rate_last, seed)
        return loss, terms, len(words)

    def _kept(self, words: Tensor, seed: int) -> Tensor:
        generator = torch.Generator(self.device).manual_seed(seed)
        return torch.rand(len(words), generator=generator, device=self.device) < self.keep_V[words]

    def train(
        self,
        ids_P: Tensor,
        sentence_P: Tensor,
        rate_first: float,
        rate_last: float,
        seed: int,
        programs: int | None = None,
    ) -> tuple[float, int]:
        """One pass over words that are already subsampled."""
        from firth.vectors.gpu.triton_programs import train_kernel

        config, P = self.config, len(ids_P)
        if P == 0:
            return 0.0, 0
        programs = programs or max(1, min(PROGRAMS, P // SHORTEST))
        loss_R = torch.zeros(programs, device=self.device)
        terms_R = torch.zeros(programs, dtype=torch.int32, device=self.device)
        ease = [(TOGETHER / programs / busy).clamp(max=1) for busy in self.busy]
        own_V, other_V, end_V, step = self.tables
        dim, tree = self.input_Vd.shape[1], config.loss == "hs"
        train_kernel[(programs,)](
            ids_P, sentence_P, P, -(-P // programs), self.input_Vd, self.output_Vd, *ease,
            own_V, other_V, self.V, end_V, step, loss_R, terms_R, seed & 0x7FFFFFFF, rate_first, rate_last,
            DIM=dim, D=_power(dim), SPAN=config.window, J=_power(2 * config.window), COUNT=config.negatives,
            N=16 if tree else _power(config.negatives + 1), CBOW=config.model == "cbow", TREE=tree,
            FAITHFUL=config.faithful, num_warps=WARPS,
        )  # fmt: skip
        return float(loss_R.double().sum()), int(terms_R.sum())

    def fetch(self) -> None:
        """Copy the matrices back to the host arrays."""
        for here, there in zip((self.input_Vd, self.output_Vd), self._host, strict=True):
            there[:] = here.cpu().numpy()

    def _moved(self, array: npt.NDArray[Any]) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(array)).to(self.device)


_NOTHING = np.zeros(1, np.int32)


def _power(n: int) -> int:
    """The smallest power of two ≥ n, at least 16: the smallest side of a matrix product in Triton."""
    return max(16, 1 << (n - 1).bit_length())
