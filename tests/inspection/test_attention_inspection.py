"""A look at attention: plain numbers that equal the definition, of every kind of model, from a model that runs as always."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from questions import RECORDS, answer_table, write_questions
from reviews import classifier_table
from reviews import write as write_reviews
from runs import recipe_table
from tags import tagger_table
from tags import write as write_tags
from translations import pair_table, write_pairs

from firth.api import compose, load, train_recipe
from firth.config import Table
from firth.errors import ConfigError, DataError
from firth.inspection.attention import Attention
from firth.layers import attention as attending
from firth.layers.attention import reference, sdpa
from firth.layers.tap import attention_calls
from firth.tasks.run import Run

TEXT = "the cat sat"
WORDS = ("the", "list", "is", "empty", ".")
SMALL: Table = {"kind": "transformer", "width": 16, "depth": 2, "heads": 2}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run[Any]]:
    """One of each kind with attention that reads or writes text; they have learned nothing to speak of."""
    folder = tmp_path_factory.mktemp("looks")
    pairs, reviews = write_pairs(folder / "n.tsv"), write_reviews(folder / "reviews.tsv")
    asked, tagged = write_questions(folder / "q.jsonl", RECORDS[:40]), write_tags(folder / "t.conll")
    encoder: Table = {"family": "encoder"} | SMALL
    usual = {"steps": 2, "evaluate_every": 0}
    running = recipe_table("bpe", model="transformer", steps=2)
    tables = {
        "classifier": classifier_table(reviews, **usual) | {"model": encoder},
        "causal classifier": classifier_table(reviews, **usual) | {"model": {"family": "language"} | SMALL},
        "tagger": tagger_table(tagged, encoder | {"characters": 4}, **usual),
        "answers": answer_table(asked, **usual),
        "masked": running | {"model": encoder, "objective": {"kind": "masked"}},
        "translator": pair_table(pairs, "transformer", **usual),
        "rnnsearch": pair_table(pairs, "rnnsearch", **usual),
        "prefix": pair_table(pairs, "transformer", tokenizer={"kind": "word", "joint": True}, **usual),
        "spans": running | {"model": {"family": "seq2seq"} | SMALL, "objective": {"kind": "span-corruption"}},
    }
    tables["prefix"]["model"] |= {"kind": "prefix"}
    return {name: load(train_recipe(compose(table), folder / name.replace(" ", "-")).path) for name, table in tables.items()}


GIVEN: dict[str, tuple[str, dict[str, str]]] = {
    "classifier": ("a great film", {}),
    "causal classifier": ("a great film", {}),
    "tagger": ("the light bag falls", {}),
    "answers": ("Where does Anna live ?", {"context": "Anna lives in Rome ."}),
    "masked": ("the list __ __.", {}),
    "translator": ("1 2 3", {"target": "one two"}),
    "rnnsearch": ("1 2 3", {"target": "one two"}),
    "prefix": ("1 2 3", {"target": "one two"}),
    "spans": ("the list is empty.", {}),
}
PARTS = {"translator": ("cross", "encoder", "decoder"), "rnnsearch": ("cross",), "spans": ("encoder",)}
ENDED = ("1", "2", "3", "<eos>")


def look(models: dict[str, Run[Any]], name: str) -> Attention:
    text, named = GIVEN[name]
    return models[name].attention(text, **named)  # type: ignore[arg-type]


def every_part(seen: Attention) -> list[Attention]:
    return [seen.of(part) for part in seen.parts]


def entropy(p: Any) -> Any:
    p = np.asarray(p, np.float64)
    return -(p * np.log(np.where(p > 0, p, 1))).sum(-1)


def test_weights_are_those_of_the_reference_for_every_layer_and_head(transformer_run: Path) -> None:
    model = load(transformer_run)
    seen = model.attention(TEXT)
    assert seen.tokens == seen.queries == seen.keys == tuple(TEXT)
    assert seen.layers == tuple(range(model.recipe.model.depth))
    with torch.no_grad(), attention_calls(model.network) as calls:
        model.network(torch.from_numpy(model.ids(TEXT)).unsqueeze(0))
    for layer in seen.layers:
        truth = reference.weights(calls[layer].reduced())[0].numpy()
        np.testing.assert_allclose(seen.weights(layer), truth, rtol=0, atol=1e-6)
        np.testing.assert_allclose(seen.weights(layer, heads=1, rows=[2, 0]), truth[1:2][:, [2, 0]], rtol=0, atol=1e-6)
        p = seen.weights(layer).astype(np.float64)
        away = np.abs(np.arange(len(TEXT)) - np.arange(len(TEXT))[:, None])
        of_rows = seen.rows(layer)
        np.testing.assert_allclose(of_rows.distance_HQ, (p * away).sum(-1), atol=1e-5)
        np.testing.assert_allclose(of_rows.maximum_HQ, p.max(-1), atol=1e-6)
        np.testing.assert_allclose(of_rows.entropy_HQ, entropy(p), atol=1e-5)


def test_only_the_layers_asked_for_are_kept(transformer_run: Path, models: dict[str, Run[Any]]) -> None:
    seen = load(transformer_run).attention(TEXT, layers=[0])
    assert seen.layers == (0,)
    with pytest.raises(ConfigError, match=r"layer is 1; expected one of 0"):
        seen.weights(1)
    with pytest.raises(ConfigError, match=r"layer is 99; expected 0"):
        load(transformer_run).attention(TEXT, layers=[99])
    translating = models["translator"].attention("1 2", target="one", layers=[1])
    assert [part.layers for part in every_part(translating)] == [(1,)] * 3
    with pytest.raises(ConfigError, match=r"rollout needs all layers, but only layers \(1,\) were recorded"):
        translating.of("encoder").rollout()


def test_a_model_without_attention_and_a_text_without_tokens_are_refused(
    char_run: Path, transformer_run: Path, word_run: Path
) -> None:
    with pytest.raises(ConfigError, match=r"RecurrentLM has no attention. Use a run with model.kind = \"transformer\""):
        load(char_run).attention(TEXT)
    for run, text in ((transformer_run, ""), (word_run, " ")):
        with pytest.raises(DataError, match="the text is empty"):
            load(run).reading(text)


@pytest.mark.parametrize("name", GIVEN)
def test_every_kind_of_model_has_its_parts_and_rows_that_sum_to_one(name: str, models: dict[str, Run[Any]]) -> None:
    seen = look(models, name)
    assert seen.parts == PARTS.get(name, ("self",))
    for part in every_part(seen):
        for layer in part.layers:
            p_HQK = part.weights(layer)
            assert p_HQK.shape == (part.heads, len(part.queries), len(part.keys))
            np.testing.assert_allclose(p_HQK.sum(-1), 1.0, atol=1e-5)


def test_tokens_are_those_that_the_model_saw_specials_included(models: dict[str, Run[Any]]) -> None:
    assert look(models, "classifier").tokens == ("a", "great", "film")
    assert look(models, "tagger").tokens == ("the", "light", "bag", "falls")
    question, context = ("Where", "does", "Anna", "live", "?"), ("Anna", "lives", "in", "Rome", ".")
    assert look(models, "answers").tokens == (*question, "<eos>", *context, "<eos>")
    masked = look(models, "masked")
    assert "<mask>" in masked.tokens
    assert [word for word in masked.merged().tokens if word.isalpha() or word == "<mask>"] == ["the", "list", "<mask>", "<mask>"]
    translator = look(models, "translator")
    assert (translator.queries, translator.keys) == (("one", "two", "<eos>"), ENDED)
    assert translator.of("encoder").queries == ENDED
    assert translator.of("decoder").queries == translator.of("decoder").keys == ("<eos>", "one", "two")
    assert look(models, "prefix").tokens == (*ENDED, "<eos>", "one", "two")


def test_a_decoder_looks_back_an_encoder_both_ways_and_a_prefix_at_all_of_the_source(models: dict[str, Run[Any]]) -> None:
    translator, prefix = look(models, "translator"), look(models, "prefix").weights(0)
    above = np.triu_indices(3, 1)
    assert not translator.of("decoder").weights(0)[:, above[0], above[1]].any()
    assert translator.of("encoder").weights(0).min() > 0
    assert prefix[:, :4, :4].min() > 0
    assert not prefix[:, :4, 4:].any()
    assert not prefix[:, 4:, 4:][:, above[0], above[1]].any()


@pytest.mark.parametrize("name", ["translator", "rnnsearch"])
def test_cross_attention_is_the_alignment(name: str, models: dict[str, Run[Any]]) -> None:
    aligned = models[name].align("1 2 3", "one two")
    cross = look(models, name)
    np.testing.assert_allclose(cross.weights(0).mean(0), aligned.best, atol=1e-6)
    assert (cross.queries, cross.keys) == (aligned.target, aligned.source)
    own = models[name].attention("1 2 3")
    assert own.queries == models[name].align("1 2 3").target
    np.testing.assert_allclose(own.weights(0).mean(0), models[name].align("1 2 3").best, atol=1e-6)


def test_padding_is_looked_at_by_nobody_and_changes_nothing(models: dict[str, Run[Any]]) -> None:
    model, seen = models["classifier"], look(models, "classifier")
    ids = torch.from_numpy(model.tokenizer.encode("a great film").astype(np.int64))
    padded_2T = torch.nn.functional.pad(torch.stack((ids, ids)), (0, 4), value=1)
    with torch.no_grad(), attention_calls(model.network) as calls:
        model.network(padded_2T, torch.tensor([3, 7]))  # type: ignore[operator]
    for layer in seen.layers:
        p_HQK = reference.weights(calls[layer].reduced())[0].numpy()
        np.testing.assert_allclose(p_HQK[:, :3, :3], seen.weights(layer), atol=1e-6)
        assert not p_HQK[:, :, 3:].any()


@pytest.mark.parametrize("name", [name for name in GIVEN if name != "rnnsearch"])  # whose additive score has no fused kernel here
def test_the_model_runs_on_its_fast_kernel_and_weights_come_on_demand(
    name: str, models: dict[str, Run[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    ran, slow = [], []
    run, weigh = attending.run, reference.weights
    monkeypatch.setattr(attending, "run", lambda call, *kernel: ran.append(attending._first_that_can(call)) or run(call, *kernel))
    monkeypatch.setattr(reference, "weights", lambda call: slow.append(call) or weigh(call))
    seen = look(models, name)
    assert ran
    assert set(ran) == {sdpa}
    assert not slow
    count = len(ran)
    seen.weights(0)
    assert (len(ran), len(slow)) == (count, 1)  # the model did not run again


def test_looking_leaves_nothing_on_the_model(models: dict[str, Run[Any]]) -> None:
    for name, model in models.items():
        model.network.train()
        look(models, name)
        assert model.network.training, "a model in training stays so"
        model.network.eval()
        assert not any(module._forward_hooks for module in model.network.modules())


def test_words_are_made_of_pieces_rows_averaged_and_columns_summed(bpe_run: Path) -> None:
    seen = load(bpe_run).attention("the list is empty.")
    words = seen.merged()
    assert words.queries == words.keys == WORDS
    assert len(seen.tokens) > len(WORDS)
    at, number_T = 0, []
    for word in WORDS:  # the pieces of a word spell it
        spelled = ""
        while spelled.strip() != word:
            spelled += seen.tokens[at]
            number_T.append(WORDS.index(word))
            at += 1
    for layer in seen.layers:
        p_HQK, p_HWW = seen.weights(layer).astype(np.float64), words.weights(layer)
        for q in range(5):
            for k in range(5):
                rows, columns = ([t for t, n in enumerate(number_T) if n == word] for word in (q, k))
                truth = sum(p_HQK[:, t, s] for t in rows for s in columns) / len(rows)
                np.testing.assert_allclose(p_HWW[:, q, k], truth, atol=1e-6)
        np.testing.assert_allclose(words.weights(layer, heads=1, rows=[3, 0, -1]), p_HWW[1:2][:, [3, 0, 4]], atol=1e-6)
        np.testing.assert_allclose(words.rows(layer).entropy_HQ, entropy(p_HWW), atol=1e-5)
    with pytest.raises(ConfigError, match=r"row is 5; expected 0 to 4"):
        words.weights(0, rows=5)


def blocks(count: int, side: int) -> list[list[int]]:
    """The ranges of tokens that are averaged."""
    side = min(side, count)
    return [[t for t in range(count) if t * side // count == r] for r in range(side)]


@pytest.mark.parametrize("side", [1, 3, 4, 32])
def test_thumbnails_average_rows_and_sum_columns(side: int, transformer_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("firth.inspection.attention.ELEMENTS", 50)  # two rows at a time
    seen = load(transformer_run).attention(TEXT)
    small = seen.thumbnails(side)
    groups = blocks(len(TEXT), side)
    p = np.stack([seen.weights(layer) for layer in seen.layers]).astype(np.float64)
    for r, rows in enumerate(groups):
        for c, columns in enumerate(groups):
            truth = p[:, :, rows][..., columns].sum(-1).mean(-1)
            np.testing.assert_allclose(small[:, :, r, c], truth, atol=1e-6)
    assert small.shape == (*p.shape[:2], len(groups), len(groups))
    np.testing.assert_allclose(small.sum(-1), 1.0, atol=1e-5)


def test_thumbnails_are_means_of_blocks_of_words_and_of_two_texts(bpe_run: Path, models: dict[str, Run[Any]]) -> None:
    words = load(bpe_run).attention("the list is empty.").merged()
    by_word = np.stack([words.weights(layer) for layer in words.layers]).astype(np.float64)
    rows = blocks(5, 2)
    truth = np.stack([by_word[:, :, :, columns].sum(-1) for columns in rows], -1)
    truth = np.stack([truth[:, :, some].mean(2) for some in rows], 2)
    np.testing.assert_allclose(words.thumbnails(2), truth, atol=1e-6)
    facts = [float(row[2]) for row in words.overview().table.rows]
    np.testing.assert_allclose(facts, words.entropy().ravel(), atol=1e-4)
    assert look(models, "translator").thumbnails().shape == (2, 2, 3, 4)
    with pytest.raises(ConfigError, match="side is 0; expected at least 1"):
        words.thumbnails(0)


def test_only_a_few_rows_of_weights_exist_at_a_time(transformer_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("firth.inspection.attention.ELEMENTS", 50)
    seen, weigh, largest = load(transformer_run).attention(TEXT), reference.weights, []
    monkeypatch.setattr(reference, "weights", lambda call: largest.append((p := weigh(call)).numel()) or p)
    seen.overview()
    assert max(largest) <= 50


def test_entropy_is_the_mean_over_the_rows(models: dict[str, Run[Any]], bpe_run: Path) -> None:
    for seen in (look(models, "classifier"), load(bpe_run).attention("the list is empty.").merged()):
        truth = [entropy(seen.weights(layer)).mean(-1) for layer in seen.layers]
        np.testing.assert_allclose(seen.entropy(), truth, atol=1e-5)
        assert seen.entropy().max() <= math.log(len(seen.keys)) + 1e-6


def test_rollout_is_the_product_over_layers(models: dict[str, Run[Any]]) -> None:
    seen = look(models, "translator").of("decoder")
    products = seen.rollout()
    truth = np.eye(3)
    for layer in seen.layers:
        truth = (0.5 * seen.weights(layer).astype(np.float64).mean(0) + 0.5 * np.eye(3)) @ truth
        np.testing.assert_allclose(products[layer], truth, atol=1e-6)
    np.testing.assert_allclose(products.sum(-1), 1.0, atol=1e-6)
    assert not products[:, *np.triu_indices(3, 1)].any(), "what looks back only is made of what came before"


def test_rollout_between_words_is_that_between_tokens_merged(bpe_run: Path) -> None:
    seen = load(bpe_run).attention("the list is empty.")
    tokens, words = seen.rollout(), seen.merged().rollout()
    assert words.shape == (1, 5, 5)
    np.testing.assert_allclose(words[0, 0, 0], tokens[0, 0, 0], atol=1e-9)
    np.testing.assert_allclose(words[0, 3, 0], tokens[0, 3:7, 0].mean(), atol=1e-9)
    np.testing.assert_allclose(words.sum(-1), 1.0, atol=1e-9)


def test_rollout_is_refused_where_nothing_follows_a_token_through_the_layers(models: dict[str, Run[Any]]) -> None:
    with pytest.raises(ConfigError, match=r'this is "cross". Use of\("encoder"\) or of\("decoder"\)'):
        look(models, "translator").rollout()
    with pytest.raises(ConfigError, match=r"this model has none\. Use a Transformer"):
        look(models, "rnnsearch").rollout()


def test_figures_have_the_numbers(models: dict[str, Run[Any]]) -> None:
    seen = look(models, "translator")
    one = seen.figure(1, 0)
    np.testing.assert_allclose(one.plot.data[0].z, seen.weights(1)[0], atol=1e-4)
    np.testing.assert_allclose(seen.figure(1).plot.data[0].z, seen.weights(1).mean(0), atol=1e-4)
    assert one.plot.layout.title.text == "cross, layer 2, head 1"
    assert one.table.rows[1] == ("one", "0", "2", "1", f"{seen.weights(1)[0, 0, 1]:.4f}")
    np.testing.assert_allclose(seen.of("encoder").rollout_figure().plot.data[0].z, seen.of("encoder").rollout()[-1], atol=1e-4)
    facts = seen.overview().table.rows
    assert [row[:2] for row in facts] == [("1", "1"), ("1", "2"), ("2", "1"), ("2", "2")]
    np.testing.assert_allclose([float(row[2]) for row in facts], seen.entropy().ravel(), atol=1e-4)
    largest = [float(maximum) for layer in seen.layers for maximum in seen.rows(layer).maximum_HQ.mean(-1)]
    np.testing.assert_allclose([float(row[3]) for row in facts], largest, atol=1e-4)
    assert seen.figure().table == seen.overview().table
    assert seen.plot(1, 0) == one.plot
    np.testing.assert_allclose(seen.entropy_figure().plot.data[0].z, seen.entropy(), atol=1e-4)
    assert "layer   1" in seen.text()
    assert seen.text(80, 1).splitlines()[0].split() == list(ENDED)
    assert len(seen.lines(0).table.rows) == int((seen.weights(0).mean(0) >= 0.05).sum())


def test_what_is_too_long_for_a_picture_is_refused_with_a_way_out(transformer_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("firth.inspection.attention.MOST_TOKENS", 10)
    seen = load(transformer_run).attention(TEXT)
    with pytest.raises(DataError, match=r"11 × 11 tokens are too many for one figure \(at most 10\). Use a shorter text"):
        seen.figure(0)
    assert seen.overview().table.rows


@pytest.mark.parametrize(
    ("name", "given", "message"),
    [
        ("classifier", {"text": "a", "target": "b"}, "target is 'b', but this run is a classifier. Remove it."),
        ("classifier", {"text": "a", "context": "b"}, "context is 'b', but this run is a classifier. Remove it."),
        ("answers", {"text": "Where ?"}, "`text` is the question. Give the passage as `context`, too."),
        ("answers", {"text": "Where ?", "context": " "}, "the context is ' ', which has no tokens"),
        ("answers", {"text": "Where ?", "context": "Rome . " * 40}, "would be read in 5 windows. Shorten the context."),
        ("translator", {"text": " "}, "the text is empty"),
        ("tagger", {"text": " "}, "the text is empty"),
        ("translator", {"text": "1", "part": "crss"}, 'this model has no "crss" attention, only "cross", "encoder", '),
    ],
    ids=range(8),
)
def test_what_a_model_cannot_be_asked_is_said(
    name: str, given: dict[str, Any], message: str, models: dict[str, Run[Any]]
) -> None:
    with pytest.raises((ConfigError, DataError)) as error:
        models[name].attention(**given)
    assert message in str(error.value)


def test_a_fixed_vector_has_no_attention(tmp_path: Path) -> None:
    table = pair_table(write_pairs(tmp_path / "n.tsv"), "rnnenc", steps=1, evaluate_every=0)
    with pytest.raises(ConfigError, match=r'\(model.attention = "none"\).*one fixed vector. Use a run with attention'):
        load(train_recipe(compose(table), tmp_path / "run").path).attention("1 2")


def test_a_text_longer_than_the_learned_positions_is_refused(tmp_path: Path) -> None:
    table = recipe_table(model="transformer", steps=1)
    table["model"] |= {"position": "learned"}
    model = load(train_recipe(compose(table), tmp_path / "run").path)
    assert len(model.attention(TEXT).tokens) == len(TEXT)
    for look in (model.attention, model.flow):
        with pytest.raises(DataError, match=r"the text has 33 tokens, but the learned positions of this"):
            look(TEXT * 3)


def test_source_and_target_of_one_stack_have_to_fit_together(tmp_path: Path) -> None:
    table = pair_table(write_pairs(tmp_path / "n.tsv"), "transformer", tokenizer={"kind": "word", "joint": True}, steps=1)
    table["model"] |= {"kind": "prefix", "position": "learned", "context": 50}
    model = load(train_recipe(compose(table), tmp_path / "run").path)
    assert len(model.attention("1 2 3", target="one two").tokens) == 7
    with pytest.raises(DataError, match=r"the text has 53 tokens, but the learned positions of this"):
        model.attention("1 2 3", target="one " * 48)


def test_a_row_without_keys_hands_on_what_was_there(tmp_path: Path) -> None:
    """A strictly causal layer gives its first token nothing: rollout hands on what was there."""
    table = recipe_table(model="transformer", steps=1)
    table["model"] |= {"mask": "strictly_causal"}
    seen = load(train_recipe(compose(table), tmp_path / "run").path).attention(TEXT)
    assert not seen.weights(0)[:, 0].any()
    assert seen.rollout()[0, 0].tolist() == [1.0] + [0.0] * (len(TEXT) - 1)
    np.testing.assert_allclose(seen.rollout().sum(-1), 1.0, atol=1e-6)
    assert np.isfinite(seen.entropy()).all()
