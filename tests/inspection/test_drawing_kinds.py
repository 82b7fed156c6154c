"""What drawings say of caches, states, adapters, searches, families and merges are the numbers of the models themselves."""

from __future__ import annotations

import itertools
import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
import tokenizers
import torch
from drawn import faults, parts
from shell import Firth
from subjects import CORPUS, OTHERS, TRANSFORMER, config, drawn, merged, shipped, words
from torch import nn
from translations import spaced, trained_on_numbers

from firth.api import load
from firth.decoding.config import DecodingConfig
from firth.errors import ConfigError, DataError
from firth.experiments.draw import draw
from firth.inspection.drawing import Subject, draw_model
from firth.inspection.drawing.adapters import adapted_matrices
from firth.inspection.drawing.beams import _NEXT, toy_search
from firth.inspection.drawing.cache import kept_by
from firth.inspection.drawing.subject import layers_of
from firth.models import ModelConfig, captioner, language_model, seq2seq
from firth.models.adapters import Lora, adapt, freeze, trained_parameters
from firth.models.counting import count
from firth.models.uninitialised import Uninitialised
from firth.tasks.ability import WrongTask
from firth.text.config import TokenizerConfig
from firth.text.readers.pieces import pieces_of_text
from firth.text.tokenizers.merges import MergeNode, merged_words
from firth.text.tokenizers.tokenizer import Tokenizer

LINEAR = TRANSFORMER | {"position": {"kind": "none"}}


def network(model: ModelConfig) -> nn.Module:
    """A model without weights, with a tiny vocabulary."""
    with torch.device("meta"), Uninitialised():
        match model.family:
            case "language":
                return language_model(model, 5)  # type: ignore[arg-type]
            case "seq2seq":
                return seq2seq(model, 5, 5)  # type: ignore[arg-type]
            case _:
                return captioner(model, 16, 5)  # type: ignore[arg-type]


def writing() -> dict[str, ModelConfig]:
    """One model of each sort that generates a text, and all other settings."""
    sorts: dict[Any, tuple[str, ModelConfig]] = {}
    for one in shipped():
        if one.config.family != "encoder":
            mixer = getattr(getattr(one.config, "attention", None), "kind", None)
            sorts.setdefault((type(one.config), one.config.kind, mixer), (one.name, one.config))
    own = {name: config(**settings) for name, settings in OTHERS.items()}
    return dict(sorts.values()) | {name: one for name, one in own.items() if one.family != "encoder"}


def test_the_cache_has_the_bytes_that_describe_counts() -> None:
    """Those of an encoder's outputs are its own: `describe` counts keys and values, and states."""
    models = writing()
    assert len(models) > 25
    for name, model in models.items():
        kept, counted = kept_by(model), count(network(model))  # type: ignore[arg-type]
        per_token = kept.per_token + (kept.per_source if layers_of(model) else 0)
        assert (per_token, kept.fixed) == (counted.state_per_token, counted.state), name
        said = words(draw_model(Subject(name, model), "cache"))
        assert all(f"{value:,} bytes" in said for value in (kept.per_token, kept.per_source, kept.fixed) if value), name


def test_the_cache_of_gpt2_is_two_vectors_per_layer() -> None:
    assert "per token: 73,728 bytes in float32; 1,024 tokens: 72 MiB" in words(draw("gpt2", "cache"))
    assert 2 * 12 * 768 * 4 == 73_728


def test_a_window_and_shared_heads_are_seen_in_the_cache() -> None:
    of = drawn("cache", **TRANSFORMER, attention={"heads": 8, "kv_heads": 2, "mask": "window", "span": 3})
    cells = [box.tone for box in parts(of).boxes if box.height == 28]
    assert cells[:8] == [*5 * ("plain",), *2 * ("sky",), "vermilion"]
    assert "query heads 5 to 8" in words(of)
    assert "drawn with a window" not in words(of)
    assert "drawn with a window of 4 instead of 9" in words(
        drawn("cache", **TRANSFORMER, attention={"heads": 2, "mask": "window", "span": 9})
    )


def test_the_state_of_linear_attention_is_that_of_its_layer(use: Any) -> None:
    plain, gated = (words(drawn("state", **LINEAR, attention={"heads": 2, "kind": kind})) for kind in ("linear", "gated_linear"))
    assert "32 × 32" in plain  # φ(k) has as many numbers as k
    assert "φ( k t )" in plain
    assert "S has 512 numbers in each" in gated  # keys of half the width
    assert ("of each row" in gated, "of each row" in plain) == (True, False)
    based = words(drawn("state", **LINEAR, attention={"heads": 2, "kind": "based", "feature_width": 3}))
    assert "13 × 32" in based  # 1 + 3 + 9 features
    assert "softmax over the window 64 tokens" in based
    use(Path(__file__).resolve().parent.parent / "ideas" / "mixer.py")
    assert "state of 1,024 numbers" in words(drawn("state", **LINEAR, attention={"heads": 2, "kind": "retention"}))


@pytest.mark.parametrize("name", ["transformer", "groups", "shared heads", "both sides", "gated linear"])
def test_adapters_are_those_that_training_adds(name: str) -> None:
    settings = {
        "transformer": TRANSFORMER,
        "groups": TRANSFORMER | {"attention": {"heads": 8, "kv_heads": 2}, "feedforward": {"activation": "swiglu"}},
        "shared heads": TRANSFORMER | {"attention": {"heads": 4, "kv_heads": 1}},
        "both sides": TRANSFORMER | {"family": "seq2seq", "encoder_depth": 3},
        "gated linear": LINEAR | {"attention": {"heads": 2, "kind": "gated_linear"}},
    }[name]
    model = config(**settings)
    lora = Lora(8, 16.0, 0.0, ("query", "value", "output", "up"))
    own: Any = network(model)
    adapt(own, lora, torch.Generator())
    freeze(own)
    matrices = adapted_matrices(layers_of(model), lora)
    assert sum(times * one.trained(8) for one, times in matrices.items()) == trained_parameters(own)
    said = words(draw_model(Subject("mine", model, adapters=lora), "lora"))
    assert f"trained: {trained_parameters(own):,} numbers in {sum(matrices.values())} adapters" in said
    assert "the correction is multiplied by 2" in said


def test_adapters_of_layers_that_share_weights_are_counted_once() -> None:
    model = config(**OTHERS["groups of layers"])
    ((_, times),) = adapted_matrices(layers_of(model), Lora(2, 2.0, 0.0, ("query",))).items()
    assert times == 1


def test_the_made_up_search_finds_the_most_probable_text() -> None:
    tree = toy_search(DecodingConfig(beam=4, penalty=0.0))
    texts = [text for n in (1, 2, 3) for text in itertools.product(range(3), repeat=n)]

    def log_p(text: tuple[int, ...]) -> float:
        steps = itertools.pairwise((3, *text, 3))
        return sum(math.log(_NEXT[one][other]) for one, other in steps)

    best = max(texts, key=log_p)
    assert tree.results[0].text == " ".join(["ABC"[id] for id in best] + ["<eos>"])
    assert tree.results[0].log_probability == pytest.approx(log_p(best), abs=1e-5)
    greedy = toy_search(DecodingConfig(beam=2, penalty=0.0)).nodes
    assert (
        max((one for one in greedy if one.parent == 0), key=lambda one: one.log_probability).token
        == "A"
        != tree.results[0].text[0]
    )


def test_a_beam_is_drawn_with_the_outcome_of_every_hypothesis() -> None:
    subject = Subject("mine", config(**TRANSFORMER), decoding=DecodingConfig(beam=3))
    of, tree = draw_model(subject, "beam"), toy_search(DecodingConfig(beam=3))
    tones = [box.tone for box in parts(of).boxes if box.height == 36]
    outcomes = [{"kept": "sky", "ended": "green", "dropped": "plain"}[one.outcome] for one in tree.nodes]
    assert sorted(tones) == sorted(outcomes)
    assert f"1. {tree.results[0].text}" in words(of)
    assert "4 groups" in words(
        draw_model(Subject("mine", subject.config, decoding=DecodingConfig(beam=4, beam_groups=4)), "beam")
    )


@pytest.mark.parametrize(
    "settings", [{"beam": 2}, {"beam": 12}, {"beam": 12, "beam_groups": 3}, {"beam": 8, "penalty": 0.0}], ids=str
)
def test_trees_of_any_width_can_be_read(settings: Any) -> None:
    own = DecodingConfig(**settings)
    of, tree = draw_model(Subject("mine", config(**TRANSFORMER), decoding=own), "beam"), toy_search(own)
    assert faults(of) == []
    shown = [box for box in parts(of).boxes if box.height == 36]
    hidden = len(tree.nodes) - len(shown)
    assert (f"{hidden} dropped hypotheses are not drawn" in words(of)) == (hidden > 0)
    assert all(sum(box.tone == tone for box in shown) == sum(one.outcome == outcome for one in tree.nodes)
               for tone, outcome in (("sky", "kept"), ("green", "ended")))  # fmt: skip


def test_a_run_searches_for_the_translation_of_the_text(firth: Firth) -> None:
    run = trained_on_numbers()
    text = spaced("364")
    tree = load(run, "cpu").beam_tree(text, beam=2)
    said = words(draw(run, "beam", ["decoding.beam=2"], text=text))
    assert f"1. {tree.results[0].text}" in said
    assert "made up" not in said
    assert "made up" in words(draw(run, "beam", ["decoding.beam=2"]))
    with pytest.raises(ConfigError, match=r"settings of a run are fixed, and model\.width=3 changes one"):
        draw(run, "beam", ["model.width=3"], text=text)


def test_what_is_missing_is_named(char_run: Path) -> None:
    for of, kind, more, message in (
        ("hello", "beam", {}, r"decoding.beam is 1, which is greedy decoding and has no tree. Set --decoding.beam=3"),
        ("gpt2", "beam", {}, r"it has no settings of decoding. Give a recipe or a run"),
        ("bert-base", "cache", {}, r"it does not generate a text token by token"),
        ("gpt2", "state", {}, "it has no linear attention"),
        ("gpt2", "lora", {}, r"training.lora is not set. Give a recipe, --training.lora=8 and --training.init=RUN"),
        ("docs-char-lstm", "lora", {}, "it is not a Transformer"),
        ("gpt2", "merges", {}, "no word is given. Add one with --text"),
        ("hello", "merges", {"text": "low"}, r'tokenizer.kind is "char", which has no merges'),
        ("gpt2", "merges", {"text": "low"}, "Give a run, or a text with --corpus"),
        ("gpt2", "merges", {"text": "", "corpus": CORPUS}, "which has no words"),
        ("gpt2", "merges", {"text": 70 * "x", "corpus": CORPUS}, "too long for a page"),
        ("hello", "model", {"text": "low"}, 'Remove --text, or draw "beam" or "merges"'),
        ("hello", "beam", {"corpus": "low"}, "Remove --corpus"),
        ("multi30k-en-de-transformer", "beam", {"text": "ein Hund"}, "has no weights that could search"),
    ):
        with pytest.raises((ConfigError, DataError), match=message):
            draw(of, kind, **more)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="the tokenizer has no merges"):
        draw(char_run, "merges", text="low")
    with pytest.raises(WrongTask, match="cannot translate"):
        draw(char_run, "beam", ["decoding.beam=2"], text="low")
    with pytest.raises(ConfigError, match=r"decoding\.beam is 40, whose tree does not fit a page"):
        draw("multi30k-en-de-transformer", "beam", ["decoding.beam=40"])


# Merges


def leaves(node: MergeNode) -> str:
    return "".join(map(leaves, node.parts)) if node.parts else node.symbol


@pytest.mark.parametrize("text", ["lowest newer wide", "aabb bbab aaab abcab", "naïve 日本語 😀\n\nlow  low", " low"])
def test_the_trees_end_in_the_tokens_of_the_tokenizer(text: str) -> None:
    tokenizer = Tokenizer.train(
        TokenizerConfig(kind="bpe"),
        pieces_of_text(CORPUS + 3 * "naïve 日本語 " + 5 * "aab " + 4 * "abb " + 2 * "abcab bca "),
        documents=1,
    )
    backend = tokenizers.Tokenizer.from_str(tokenizer.to_json())
    trees = merged_words(tokenizer, text)
    assert [token.symbol for word in trees for token in word.tokens] == backend.encode(text).tokens
    for word in trees:
        assert all(leaves(token) == token.symbol for token in word.tokens)


def test_merges_have_the_ranks_in_which_they_were_learned() -> None:
    """The first merges of the example of Sennrich et al. (2016), figure 1, are e s, es t and l o."""
    (lowest, *_) = merged()
    low, est = lowest.tokens
    assert [(est.text, est.rank), (est.parts[0].text, est.parts[0].rank)] == [("est", 2), ("es", 1)]
    assert (low.text, low.parts[0].text) == ("low", "lo")
    of = draw_model(Subject("mine", config(**TRANSFORMER), merged=merged()), "merges")
    assert "␣newer: 2 tokens" in words(of)
    assert [str(box.lines[0]) for box in parts(of).boxes if box.tone == "pink"][:2] == ["low", "est"]


def test_a_recipe_learns_its_merges_from_the_text_that_it_is_given(firth: Firth, tmp_path: Path) -> None:
    (tmp_path / "corpus.txt").write_text(CORPUS, encoding="utf-8")
    answer = firth(
        "draw", "hello", "--kind", "merges", "--tokenizer.kind=bpe", "--text", "lowest", "--corpus", tmp_path / "corpus.txt"
    )
    assert "lowest: 2 tokens" in answer.out
    older = json.loads(Tokenizer.train(TokenizerConfig(kind="bpe"), pieces_of_text(CORPUS), documents=1).to_json())
    older["model"]["merges"] = [" ".join(one) for one in older["model"]["merges"]]
    assert merged_words(Tokenizer.from_json(json.dumps(older)), "lowest newer wide") == merged()


# Families


def test_the_family_of_the_model_is_marked_and_has_its_own_mask() -> None:
    for family, filled in (("language", 36), ("encoder", 64), ("seq2seq", 64 + 36)):
        of = drawn("families", **TRANSFORMER | {"family": family})
        assert sum(box.tone == "solid" for box in parts(of).boxes) == filled
        assert words(of).count("this model") == 1
    captioner = words(drawn("families", **TRANSFORMER | {"family": "caption", "encoder_depth": 3}))
    assert "image 3 layers bidirectional" in re.sub(r"\s+", " ", captioner)
    windowed = drawn("families", **TRANSFORMER, attention={"heads": 2, "mask": "window", "span": 3})
    assert sum(box.tone == "solid" for box in parts(windowed).boxes) == 8 * 3 - 3


def test_a_model_is_drawn_whole_into_a_folder(firth: Firth, tmp_path: Path) -> None:
    answer = firth("draw", "hello", "--all", "--size", "slide", "--save", tmp_path / "all")
    assert sorted(path.name for path in (tmp_path / "all").iterdir()) == [
        f"hello-{kind}.svg" for kind in ("cache", "cell", "model")
    ]
    assert len(answer.out.splitlines()) == 3
    assert 'width="1280" height="720"' in (tmp_path / "all" / "hello-model.svg").read_text(encoding="utf-8")
    assert "Give a folder for them with --save DIR" in firth("draw", "hello", "--all").err
    assert "Leave out --kind" in firth("draw", "hello", "--all", "--kind", "cell", "--save", tmp_path).err
