"""objective.pack: the loss of packed conversations is that of the same ones apart, with less padding."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from chat_lines import chat_table, write_chats
from tiny_runs import assert_stopping_changes_nothing

from firth.api import compose
from firth.config import Table
from firth.errors import ConfigError
from firth.models import TransformerConfig, language_model
from firth.models.initialise import initialise
from firth.tasks.conversation import conversation, conversation_by_answer
from firth.text.batches.conversations import EncodedConversations, PackedConversations, packed, windows
from firth.text.batches.padding import PADDING
from firth.text.conversation import Rendered

V, CONTEXT = 23, 40


def conversations(count: int = 60) -> EncodedConversations:
    """Conversations of 5 to 30 tokens, with two answers each."""
    random, made = np.random.default_rng(0), []
    for _ in range(count):
        length = int(random.integers(6, 31))
        learned = np.zeros(length, bool)
        learned[[2, 3]] = True
        learned[-2:] = True
        made.append(Rendered(random.integers(V, size=length).astype(np.uint16), learned))
    return EncodedConversations.of(made)


def tensors(batch: Any, names: tuple[str, ...]) -> dict[str, torch.Tensor]:
    return {name: torch.from_numpy(getattr(batch, name)) for name in names}


@pytest.mark.parametrize("loss", [conversation, conversation_by_answer])
@pytest.mark.parametrize(
    "settings", [{"position": "rotary"}, {"position": "alibi"}, {"position": "t5"}, {"mask": "window", "span": 4}]
)
def test_packed_and_separate_conversations_have_the_same_loss_and_gradient(loss: Any, settings: dict[str, Any]) -> None:
    encoded = conversations()
    model = language_model(TransformerConfig(kind="transformer", width=8, depth=2, heads=2, context=CONTEXT, **settings), V)
    initialise(model, torch.Generator().manual_seed(0))
    model.double()
    rows = windows(encoded.length_N, CONTEXT)
    together = packed(rows, encoded, CONTEXT)
    apart = encoded.batch(np.arange(len(encoded)))
    of_packed = loss(model, **tensors(together, ("token_BT", "target_BT", "document_BT")))[0]
    expected = loss(model, **tensors(apart, ("token_BT", "target_BT")))[0]
    # The tables of rotations and the weights of answers are float32; whatever else there is, is float64.
    exact = loss is conversation and settings.get("position") in ("alibi", "t5")
    torch.testing.assert_close(of_packed, expected, rtol=0, atol=1e-12 if exact else 1e-6)
    weights = list(model.parameters())
    for one, other in zip(torch.autograd.grad(of_packed, weights), torch.autograd.grad(expected, weights), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-12 if exact else 1e-6)
    assert together.tokens == apart.tokens == encoded.tokens
    seen = loss(model, **tensors(together, ("token_BT", "target_BT")))[0]
    assert (seen - expected).abs() > 1e-4, "without the mask, conversations see each other"


def test_every_conversation_is_in_one_window_and_little_is_padding() -> None:
    encoded = conversations()
    rows = windows(encoded.length_N, CONTEXT)
    assert sorted(n for row in rows for n in row) == list(range(len(encoded)))
    assert all(encoded.length_N[row].sum() <= CONTEXT for row in rows)
    read = int(encoded.length_N.sum())
    together, apart = len(rows) * CONTEXT - read, len(encoded) * int(encoded.length_N.max()) - read
    assert together < 0.1 * read < apart
    assert len(rows) <= 1.1 * read / CONTEXT


def test_an_epoch_has_every_answer_once_and_any_position_can_be_sought() -> None:
    encoded = conversations()
    batches = PackedConversations(encoded, 4, CONTEXT, seed=0)
    count = -(-len(windows(encoded.length_N, CONTEXT)) // 4)
    first = [batches.next() for _ in range(count)]
    targets = np.concatenate([one.target_BT[one.target_BT != PADDING] for one in first])
    assert len(targets) >= encoded.tokens
    other = PackedConversations(encoded, 4, CONTEXT, seed=0)
    other.seek(2)
    assert np.array_equal(other.next().token_BT, first[2].token_BT)


def table(folder: Path, **training: Any) -> Table:
    own = chat_table(write_chats(folder / "chats.jsonl"), batch=4, **training)
    return own | {"objective": {"kind": "conversation", "pack": True}}


def test_a_packed_run_is_resumed_to_the_bit(tmp_path: Path) -> None:
    recipe = compose(table(tmp_path, steps=8, checkpoint_every=3, context=64))
    assert_stopping_changes_nothing(recipe, tmp_path, at=5)


def test_models_that_cannot_keep_conversations_apart_are_refused(tmp_path: Path) -> None:
    own = table(tmp_path)
    with pytest.raises(ConfigError, match=r"objective\.pack needs softmax attention"):
        compose(own | {"model": {"family": "language", "kind": "gru", "width": 8}})
    with pytest.raises(ConfigError, match=r'objective\.pack needs relative positions, but model\.position is "learned"'):
        compose(own | {"model": own["model"] | {"position": "learned"}})
