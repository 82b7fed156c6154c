"""States and gates: those of the layer itself, against torch.nn's own modules and the float64 loop of the oracle."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from reviews import classifier_table
from reviews import write as write_reviews
from runs import recipe_table
from small_models import CONFIGS, random_model
from tags import tagger_table
from tags import write as write_tags
from torch import nn
from translations import pair_table, write_pairs

from firth.api import compose, load, train_recipe
from firth.errors import ConfigError, DataError
from firth.inspection.inputs import Reading
from firth.inspection.states import States, states
from firth.layers.recurrent import CELLS
from firth.layers.tap import outputs
from firth.models import LanguageModel, RecurrentConfig
from firth.oracles import recurrent as oracle
from firth.tasks.run import Run

VOCAB = 11
IDS = [3, 1, 4, 1, 5, 9, 2, 6]
RECURRENT = [name for name, config in CONFIGS.items() if isinstance(config, RecurrentConfig)]


def look(network: LanguageModel) -> States:
    token_1T = torch.tensor([IDS])
    return states(Reading(network, lambda: network.hidden(token_1T), tuple(map(str, IDS))))


@pytest.mark.parametrize("name", RECURRENT)
def test_states_are_those_of_the_layer_and_gates_make_them_again(name: str) -> None:
    network = random_model(name, VOCAB)
    seen = look(network)
    kind, depth = CONFIGS[name].kind, CONFIGS[name].depth
    assert [level.name for level in seen.levels] == [f"layer {n + 1}" for n in range(depth)]
    with torch.no_grad():
        top_Td = network.hidden(torch.tensor([IDS]))[0][0].numpy()
    np.testing.assert_allclose(seen.levels[-1].h, top_Td, atol=1e-6)
    for level in seen.levels:
        gates = level.gates()
        assert set(gates) == {*CELLS[kind].state, *CELLS[kind].gates}
        before = np.concatenate((np.zeros((1, level.h.shape[1])), level.h[:-1]))
        match kind:
            case "lstm":
                c_before = np.concatenate((np.zeros((1, 9)), gates["c"][:-1]))
                c = gates["forget"] * c_before + gates["input"] * gates["candidate"]
                np.testing.assert_allclose(gates["c"], c, atol=1e-6)
                np.testing.assert_allclose(gates["output"] * np.tanh(gates["c"]), level.h, atol=1e-6)
            case "gru":
                z = gates["update"]
                np.testing.assert_allclose((1 - z) * gates["candidate"] + z * before, level.h, atol=1e-6)
            case "mingru":
                z = gates["update"]
                np.testing.assert_allclose((1 - z) * before + z * gates["candidate"], level.h, atol=1e-6)
            case "minlstm":
                kept, written = gates["forget"], gates["input"]
                np.testing.assert_allclose(kept + written, 1.0, atol=1e-6)
                np.testing.assert_allclose(kept * before + written * gates["candidate"], level.h, atol=1e-6)
            case "rnn":
                np.testing.assert_allclose(gates["h"], level.h, atol=1e-6)
            case _:
                pytest.fail(f"add the equation of {kind} here, by which its gates make its states again")


def gate(weights: Any, number: int, width: int) -> oracle.GateWeights:
    rows = slice(number * width, (number + 1) * width)
    return oracle.GateWeights(*(part.detach().numpy()[rows] for part in weights))


@pytest.mark.parametrize("name", ["lstm", "gru, reset before"])
def test_gates_are_those_of_the_float64_loop(name: str) -> None:
    network: Any = random_model(name, VOCAB)
    layer = network.recurrent.layers[0]
    weights = (layer.weight_ih_l0, layer.weight_hh_l0, layer.bias_ih_l0, layer.bias_hh_l0)
    x_Ti = network.embedding.weight.detach().numpy()[IDS]
    h_d = np.zeros(9)
    gates = look(network).levels[0].gates()
    if name == "lstm":
        i, f, g, o = (gate(weights, n, 9) for n in range(4))
        truth: Any = oracle.lstm(x_Ti, h_d, h_d, i, f, g, o)
    else:
        r, z, n = (gate(weights, n, 9) for n in range(3))
        truth = oracle.gru(x_Ti, h_d, r, z, n, "before")
    for field in truth._fields:
        np.testing.assert_allclose(gates[field.removesuffix("_Td")], getattr(truth, field), atol=1e-6)


@pytest.mark.parametrize(("name", "module"), [("rnn", nn.RNN), ("lstm", nn.LSTM), ("gru", nn.GRU)])
def test_every_level_is_that_of_torch(name: str, module: Any) -> None:
    network: Any = random_model(name, VOCAB)
    x_1Ti = network.embedding(torch.tensor([IDS]))
    for layer, level in zip(network.recurrent.layers, look(network).levels, strict=True):
        plain = module(layer.input_size, 9, batch_first=True).double()
        plain.load_state_dict(layer.state_dict())
        with torch.no_grad():
            x_1Ti = plain(x_1Ti)[0]
        np.testing.assert_allclose(level.h, x_1Ti[0].numpy(), atol=1e-6)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run[Any]]:
    folder = tmp_path_factory.mktemp("states")
    pairs, usual = write_pairs(folder / "n.tsv"), {"steps": 1, "evaluate_every": 0}
    encoder = {"family": "encoder", "kind": "lstm", "width": 8}
    tables = {
        "classifier": classifier_table(write_reviews(folder / "r.tsv"), **usual) | {"model": encoder | {"bidirectional": True}},
        "tagger": tagger_table(write_tags(folder / "t.conll"), **usual),
        "rnnsearch": pair_table(pairs, "rnnsearch", **usual),
        "deep": pair_table(pairs, "rnnsearch", **usual),
        "rnnenc": pair_table(pairs, "rnnenc", **usual),
        "transformer": pair_table(pairs, "transformer", **usual),
    }
    tables["deep"]["model"] = tables["deep"]["model"] | {"kind": "lstm", "depth": 2}
    tables["rnnenc"]["model"] = tables["rnnenc"]["model"] | {"kind": "lstm", "depth": 2, "reverse": True}
    return {name: load(train_recipe(compose(table), folder / name).path) for name, table in tables.items()}


BOTH = [f"encoder layer 1, {way}" for way in ("forwards", "backwards")]
NAMES = {
    "classifier": ("a great film", {}, ["layer 1, forwards", "layer 1, backwards"]),
    "tagger": ("the light bag", {}, ["layer 1, forwards", "layer 1, backwards"]),
    "rnnsearch": ("1 2", {"target": "one two"}, [*BOTH, "decoder layer 1"]),
    "rnnenc": ("1 2", {"target": "one two"}, [f"{side} layer {n}" for side in ("encoder", "decoder") for n in (1, 2)]),
}


@pytest.mark.parametrize("name", NAMES)
def test_every_recurrent_model_can_be_looked_at(name: str, models: dict[str, Run[Any]]) -> None:
    text, named, expected = NAMES[name]
    seen = models[name].states(text, **named)  # type: ignore[arg-type]
    assert [level.name for level in seen.levels] == expected
    for level in seen.levels:
        np.testing.assert_allclose(level.gates()["h"], level.h, atol=1e-6)
        assert len(level.tokens) == len(level.h)


def test_both_sides_of_a_translator_have_the_tokens_in_the_order_they_are_read(models: dict[str, Run[Any]]) -> None:
    searching, reading = (models[name].states("1 2", target="one two").levels for name in ("rnnsearch", "rnnenc"))
    assert searching[0].tokens == ("1", "2", "<eos>")
    assert searching[-1].tokens == reading[-1].tokens == ("<eos>", "one", "two")
    assert reading[0].tokens == ("<eos>", "2", "1")
    deep = models["deep"].states("1 2", target="one two").levels
    assert [level.name for level in deep if level.name.startswith("decoder")] == ["decoder layer 1", "decoder layer 2"]
    for level in deep:
        np.testing.assert_allclose(level.gates()["h"], level.h, atol=1e-6)


@pytest.mark.parametrize("name", ["rnnenc", "deep"])
def test_a_decoder_starts_from_what_the_encoder_left(name: str, models: dict[str, Run[Any]]) -> None:
    """Its states are those that the output layer is given, not those of a decoder that starts from nothing."""
    model, network = models[name], models[name].network
    source, target = model.source_tokenizer, model.tokenizer
    given = torch.tensor([[*source.encode("1 2").tolist(), source.eos]]), torch.tensor([3])
    token_1T = torch.tensor([[target.eos, *target.encode("one two").tolist()]])
    with torch.no_grad(), outputs([network.recurrent]) as top:  # type: ignore[list-item, union-attr]
        network.teacher_forced(token_1T, network.encode(*given))  # type: ignore[union-attr, operator]
    np.testing.assert_allclose(model.states("1 2", target="one two").levels[-1].h, top[0][0].numpy(), atol=1e-6)


def test_the_backward_direction_has_seen_the_end_first(models: dict[str, Run[Any]]) -> None:
    short, long = (models["classifier"].states(text).levels for text in ("a great", "a great film"))
    np.testing.assert_allclose(short[0].h, long[0].h[:2], atol=1e-6)
    assert np.abs(short[1].h - long[1].h[:2]).max() > 1e-4


def test_the_units_that_move_most_come_first(char_run: Path) -> None:
    level = load(char_run).states("the list").levels[0]
    moved = np.abs(np.diff(np.concatenate((np.zeros((1, 32)), level.h)), axis=0)).mean(0)
    assert level.most(5) == np.argsort(-moved)[:5].tolist()


def test_figures_and_text_have_the_numbers(char_run: Path) -> None:
    seen = load(char_run).states("the list")
    level = seen.levels[0]
    figure = seen.figure(0, "update", units=4)
    np.testing.assert_allclose(figure.plot.data[0].z, level.gates()["update"][:, level.most(4)].T, atol=1e-4)
    assert (figure.plot.data[0].zmin, figure.plot.data[0].zmax) == (0, 1)
    assert seen.figure().plot.data[0].zmin < 0
    assert figure.table.rows[1][:3] == (str(level.most(1)[0]), "h", "1")
    assert len(seen.text(40, units=3).splitlines()) == 6
    assert seen.plot(units=3).data[0].z is not None


def test_what_is_not_there_is_said(char_run: Path, transformer_run: Path, models: dict[str, Run[Any]]) -> None:
    for model, text in ((load(transformer_run), "a"), (models["transformer"], "1")):
        with pytest.raises(ConfigError, match=r"has no recurrent state; use a run with one of model.kind = rnn, lstm, gru"):
            model.states(text)
    seen = load(char_run).states("the")
    with pytest.raises(ConfigError, match="unknown layer 3; this model has 1: layer 1"):
        seen.figure(3)
    with pytest.raises(
        ConfigError, match=r'layer 1 has no gate "updaet"; choose one of: h, reset, update, candidate\. Did you mean "update"'
    ):
        seen.figure(0, "updaet")


def test_what_is_too_long_for_a_picture_still_has_numbers(char_run: Path) -> None:
    seen = load(char_run).states("the list is empty.\n" * 120)
    assert seen.levels[0].h.shape == (2280, 32)
    with pytest.raises(DataError, match=r"2,280 tokens are too many for one figure \(at most 2,048\); give a shorter text"):
        seen.figure()


def test_looking_leaves_nothing_on_the_model() -> None:
    network = random_model("lstm", VOCAB)
    look(network)
    assert not any(module._forward_hooks for module in network.modules())


def test_a_run_trained_on_a_text_is_looked_at_by_its_characters(tmp_path: Path) -> None:
    run = train_recipe(compose(recipe_table(model="lstm", steps=1)), tmp_path / "run").path
    assert load(run).states("the list").levels[0].tokens == tuple("the list")
