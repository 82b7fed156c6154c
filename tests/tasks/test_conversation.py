"""Runs that hold conversations: the loss, what they learn, and how they are asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from chat_lines import NAMES, chat, chat_table, trained_on_digits, write_chats
from tiny_runs import assert_stopping_changes_nothing

from firth.api import compose, load, train_recipe
from firth.errors import ConfigError, DataError
from firth.models import RecurrentConfig, TransformerConfig, language_model
from firth.models.config import LanguageConfig
from firth.models.initialise import initialise
from firth.progress import silent
from firth.tasks.conversation import ConversationRun, answer_weights, conversation, conversation_by_answer
from firth.text.batches.conversations import EncodedConversations
from firth.text.conversation import ChatFormat, Message


@pytest.fixture(scope="module")
def run() -> Path:
    return trained_on_digits()


@pytest.fixture(scope="module")
def model(run: Path) -> ConversationRun:
    return load(run, "cpu", kind=ConversationRun)


@pytest.mark.parametrize(
    "config",
    [
        TransformerConfig(kind="transformer", width=16, depth=2, heads=2, context=8),
        RecurrentConfig(kind="gru", width=16, depth=1),
    ],
    ids=["transformer", "gru"],
)
def test_the_loss_is_torch_s_cross_entropy_over_the_answers_and_its_gradient_too(config: LanguageConfig) -> None:
    """Oracle: all logits in float64, and ignore_index for what is not an answer."""
    vocab = 11
    network = language_model(config, vocab)
    initialise(network, torch.Generator().manual_seed(0))
    network.double()
    draw = torch.Generator().manual_seed(1)
    token_BT = torch.randint(vocab, (3, 7), generator=draw)
    target_BT = torch.where(torch.rand((3, 7), generator=draw) < 0.4, torch.randint(vocab, (3, 7), generator=draw), -1)
    logits_BTV, _ = network(token_BT)
    expected = F.cross_entropy(logits_BTV.flatten(0, 1), target_BT.flatten(), ignore_index=-1)
    loss, state = conversation(network, token_BT, target_BT)
    assert state is None
    assert loss.item() == pytest.approx(expected.item(), rel=1e-12)
    weights = list(network.parameters())
    for given, right in zip(torch.autograd.grad(loss, weights), torch.autograd.grad(expected, weights), strict=True):
        assert torch.allclose(given, right, rtol=1e-9, atol=1e-12)


def test_per_answer_a_short_answer_counts_as_much_as_a_long_one() -> None:
    """Oracle: a loop over the answers, in float64."""
    network = language_model(RecurrentConfig(kind="gru", width=8, depth=1), 7)
    initialise(network, torch.Generator().manual_seed(0))
    token_BT = torch.randint(7, (2, 9), generator=torch.Generator().manual_seed(1))
    target_BT = torch.tensor([[-1, 3, 1, -1, -1, 4, 5, 6, 1], [2, -1, -1, 6, -1, -1, -1, -1, -1]])
    answers = [[(0, 1), (0, 2)], [(0, 5), (0, 6), (0, 7), (0, 8)], [(1, 0)], [(1, 3)]]
    log_p = torch.log_softmax(network(token_BT)[0].detach().double(), -1)
    means = [sum(-float(log_p[b, t, target_BT[b, t]]) for b, t in answer) / len(answer) for answer in answers]
    loss, _ = conversation_by_answer(network, token_BT, target_BT)
    assert loss.item() == pytest.approx(sum(means) / len(means), rel=1e-5)
    expected = [[0, 0.5, 0.5, 0, 0, 0.25, 0.25, 0.25, 0.25], [1, 0, 0, 1, 0, 0, 0, 0, 0]]
    assert answer_weights(target_BT).tolist() == expected


def test_a_run_learns_per_answer(tmp_path: Path) -> None:
    recipe = compose(chat_table(write_chats(tmp_path / "c.jsonl")), ["objective.per=answer"])
    model = load(train_recipe(recipe, tmp_path / "run").path, "cpu", kind=ConversationRun)
    assert [model.chat(f"name {n}") for n in range(10)] == list(NAMES)


def test_the_loss_of_a_run_is_that_of_its_answers_one_conversation_at_a_time(model: ConversationRun) -> None:
    """Oracle: each conversation alone, without padding, its answers found by their markers."""
    data = held_out(model)
    format, total, tokens = model.format, 0.0, 0
    for one in data.texts:
        ids = torch.tensor(format.render(one.messages).ids.astype("int64"))[None]
        with torch.inference_mode():
            log_p = torch.log_softmax(model.network(ids)[0][0].double(), -1)
        answering = False
        for at, token in enumerate(ids[0].tolist()):
            if answering:
                total -= float(log_p[at - 1, token])
                tokens += 1
            answering = (answering or token == model.tokenizer.markers["<assistant>"]) and token != format.end
    scores: Any = model.evaluate(split="valid")
    assert scores["tokens"] == tokens
    assert scores["loss"] == pytest.approx(total / tokens, rel=1e-4, abs=1e-7)


def held_out(model: ConversationRun) -> Any:
    return model.task.read((model.tokenizer, model.tokenizer), silent).valid


def test_questions_are_answered_and_later_ones_with_the_history_in_mind(model: ConversationRun) -> None:
    assert [model.chat(f"name {n}") for n in range(10)] == list(NAMES)
    for first in (2, 7):
        history = chat((f"name {first}", NAMES[first]))["messages"]
        assert model.chat([*history, {"role": "user", "content": "again"}]) == NAMES[first]
        longer = chat((f"name {first}", NAMES[first]), ("again", NAMES[first]))["messages"]
        assert model.chat([*longer, {"role": "user", "content": "and 5"}]) == "five"


def test_a_prompt_of_generate_is_a_question(model: ConversationRun) -> None:
    assert model.generate("name 4") == model.chat("name 4") == "four"
    assert "".join(model.reply([Message("user", "name 4")])) == "four"
    continuations = model.continuations("name 4", model.decoding({"beam": 3}))
    assert (continuations[0].text, continuations[0].finished, len(continuations)) == ("four", True, 3)
    assert model.chat("name 4", beam=3) == "four"


@pytest.mark.long
def test_a_recurrent_model_learns_it_too(tmp_path: Path) -> None:
    table = chat_table(write_chats(tmp_path / "c.jsonl"), "gru", steps=120)
    model = load(train_recipe(compose(table), tmp_path / "run").path, "cpu", kind=ConversationRun)
    history = chat(("name 8", "eight"))["messages"]
    assert model.chat([*history, {"role": "user", "content": "again"}]) == "eight"


def test_each_skill_is_measured_in_first_rounds_and_follow_ups(model: ConversationRun) -> None:
    scores: Any = model.evaluate()
    assert (scores["split"], scores["conversations"], scores["answers"]) == ("valid", 10, 30)
    (names,) = scores["by_skill"]
    assert (names["skill"], names["metric"], names["answers"]) == ("names", "exact", 30)
    assert scores["exact"] == names["score"] == 1
    assert names["first_rounds"] == names["follow_ups"] == names["known_phrasings"] == 1
    assert names["held_out_phrasings"] is None


def test_a_file_of_its_own_is_evaluated(model: ConversationRun, tmp_path: Path) -> None:
    lines = [chat(("name 3", "three")), chat(("name 4", "five"))]
    scores: Any = model.evaluate(write_chats(tmp_path / "other.jsonl", lines))
    assert (scores["answers"], scores["exact"]) == (2, 0.5)
    assert [one["skill"] for one in scores["by_skill"]] == ["answers"]


def test_a_long_conversation_loses_its_oldest_rounds_and_that_is_said(model: ConversationRun) -> None:
    rounds = [(f"name {n}", NAMES[n]) for n in range(9)]
    messages = [*chat(*rounds)["messages"], {"role": "user", "content": "again"}]
    with pytest.warns(UserWarning, match="longer than 28 tokens, so the model no longer sees its oldest rounds"):
        assert model.chat(messages) == "eight"
    with pytest.raises(DataError, match="the message has 103 tokens, but this model reads 28"):
        model.chat("name " * 100)


@pytest.mark.parametrize(
    ("messages", "complaint"),
    [
        ("", "message 1, of the user, is empty"),
        ([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}], "the last message is the assistant's"),
        ([{"role": "robot", "content": "a"}], 'has the role "robot"'),
    ],
)
def test_who_speaks_is_checked(model: ConversationRun, messages: Any, complaint: str) -> None:
    with pytest.raises(DataError, match=complaint):
        model.chat(messages)


def test_a_message_needs_a_role_and_a_content(model: ConversationRun) -> None:
    with pytest.raises(ConfigError, match="a message is"):
        model.chat([{"role": "user"}])


def test_a_run_that_was_stopped_goes_on_to_the_bit(tmp_path: Path) -> None:
    table = chat_table(write_chats(tmp_path / "c.jsonl"), steps=10, evaluate_every=5, checkpoint_every=4, select="exact")
    recipe = compose(table, ["model.dropout=0.1"])
    assert_stopping_changes_nothing(recipe, tmp_path, at=6)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        (["model.family=encoder"], 'objective.kind = "conversation" needs model.family = "language"'),
        (["data.name=ptb"], "conversation needs conversations"),
        (["training.compile=true"], "conversations have many lengths"),
        (["data.name=chats", "data.skills=[]"], "data.skills is"),
        (["data.name=chats", 'data.skills=["french"]'], "data.skills"),
    ],
)
def test_what_does_not_fit_is_refused(changes: list[str], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        compose(chat_table(Path("c.jsonl")), changes)


def test_the_lab_s_next_token_is_that_of_the_answer(model: ConversationRun) -> None:
    from firth.tasks.abilities.stepwise_generation import next_token, write

    config = model.recipe.decoding
    assert next_token(model, "name 6", [], config).drawn.token == "six"
    ids = list(write(model, "name 6", [], config))
    assert ids[-1] == ChatFormat(model.tokenizer).end
    assert [model.tokenizer.token(id) for id in ids] == ["six", "<end>"]


def test_padding_does_not_change_a_conversation(model: ConversationRun) -> None:
    """The first row of a batch with a longer conversation, beside that row alone."""
    format = model.format
    talks = (
        [Message("user", "name 3"), Message("assistant", "three")],
        [Message("user", "again " * 9), Message("assistant", "two")],
    )
    data = EncodedConversations.of([format.render(one) for one in talks])
    alone, both = data.batch(np.array([0])), data.batch(np.array([0, 1]))
    width = alone.token_BT.shape[1]
    assert both.token_BT.shape[1] > width
    x_alone, x_both = (model.network.hidden(torch.from_numpy(batch.token_BT))[0] for batch in (alone, both))
    assert torch.allclose(x_both[0, :width], x_alone[0], atol=1e-5)
    assert both.target_BT[0].tolist() == [*alone.target_BT[0].tolist(), *[-1] * (both.token_BT.shape[1] - width)]
