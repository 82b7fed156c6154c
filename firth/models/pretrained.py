"""Word vectors as the embedding of a model (S8)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from firth.errors import ConfigError
from firth.models.network import Network


def embed(model: Network, tokens: Sequence[str], file: str, fixed: bool) -> int:
    """Give each token that has a vector in `file` that vector, and say how many have one. The others keep the one drawn.

    A token that is not there as it is spelled is looked for in lower case. With `fixed` the whole embedding stays as it is.
    """
    from firth.vectors import load

    vectors = load(Path(file))
    table_Ve = model.embedding.weight
    if vectors.width != table_Ve.shape[1]:
        raise ConfigError(
            f"the vectors in {file} have {vectors.width} numbers, and the model's embedding {table_Ve.shape[1]}; "
            f"set {model.embedding_setting} = {vectors.width}"
        )
    place_N, row_N = [], []
    for place, token in enumerate(tokens):
        row = vectors.index.get(token, vectors.index.get(token.lower()))
        if row is not None:
            place_N.append(place)
            row_N.append(row)
    if not place_N:
        raise ConfigError(f'none of the {len(tokens):,} tokens has a vector in {file}; expected words: tokenizer.kind = "word"')
    with torch.no_grad():
        table_Ve[place_N] = torch.from_numpy(vectors.vectors[row_N]).to(table_Ve)
    table_Ve.requires_grad_(not fixed)
    return len(place_N)
