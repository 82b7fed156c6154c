"""The [model] table: refused settings and the reasons; the size of a configuration; initial weights."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from torch import nn

from firth.config import build, nested
from firth.errors import ConfigError
from firth.layers.recurrent import CELLS
from firth.models import ModelConfig, RecurrentConfig, TransformerConfig, language_model, parameters
from firth.models.initialise import initialise
from firth.models.seq2seq_config import PrefixConfig, RecurrentSeq2SeqConfig, TransformerSeq2SeqConfig


def transformer(**options: Any) -> TransformerConfig:
    return TransformerConfig(**({"kind": "transformer", "width": 16, "depth": 2, "heads": 4, "context": 8} | options))


def recurrent(**options: Any) -> RecurrentConfig:
    return RecurrentConfig(**({"kind": "lstm", "width": 8, "depth": 2} | options))


def test_heads_that_do_not_divide_the_width_are_refused_with_both_numbers_and_the_nearest_that_do() -> None:
    with pytest.raises(
        ConfigError, match=r"model.attention.heads = 5 does not divide model.width = 64; try model.attention.heads = 4"
    ):
        transformer(width=64, heads=5)
    with pytest.raises(
        ConfigError, match=r"model.attention.heads = 7 does not divide model.width = 48; try model.attention.heads = 6$"
    ):
        transformer(width=48, heads=7)


def test_kv_heads_that_do_not_divide_the_heads_are_refused() -> None:
    with pytest.raises(
        ConfigError, match=r"model.attention.kv_heads = 3 does not divide model.attention.heads = 4; choose one that does"
    ):
        transformer(kv_heads=3)
    with pytest.raises(ConfigError, match=r"model.attention.kv_heads = 8 does not divide model.attention.heads = 4"):
        transformer(kv_heads=8)


@pytest.mark.parametrize("dropout", [-0.1, 1.0, float("nan")])
@pytest.mark.parametrize("make", [recurrent, transformer])
def test_dropout_is_a_share(make: Any, dropout: float) -> None:
    with pytest.raises(ConfigError, match=rf"model.dropout is {dropout}; expected 0 ≤ dropout < 1"):
        make(dropout=dropout)


@pytest.mark.parametrize("name", ["width", "depth", "embedding.width"])
def test_sizes_of_a_recurrent_model_are_at_least_one(name: str) -> None:
    with pytest.raises(ConfigError, match=rf"model.{name} is 0; expected at least 1"):
        recurrent(**({"embedding": 0} if name == "embedding.width" else {name: 0}))


@pytest.mark.parametrize("value", [0, -3])
@pytest.mark.parametrize(
    "name",
    [
        *("width", "depth", "attention.heads", "attention.kv_heads", "feedforward.hidden", "context"),
        *("attention.span", "position.max_distance"),
    ],
)
def test_sizes_of_a_transformer_are_at_least_one(name: str, value: int) -> None:
    owner = {"attention.span": {"attention.mask": "window"}, "position.max_distance": {"position.kind": "shaw"}}
    with pytest.raises(ConfigError, match=rf"model.{name} is {value}; expected at least 1"):
        build(TransformerConfig, nested({"kind": "transformer", name: value, **owner.get(name, {})}), "model")


def test_a_tied_embedding_of_another_width_has_one_matrix_between() -> None:
    narrow, wide = recurrent(tied=True, embedding=4), recurrent(tied=True)
    names = {name for name, _ in language_model(narrow, 13).named_parameters()}
    assert names - {name for name, _ in language_model(wide, 13).named_parameters()} == {"projection.weight"}
    embedding, inputs, projection = 13 * 4, 4 * 8 * 4, 8 * 4  # of the four gates of the first level; the last is one more
    assert parameters(wide, 13) - parameters(narrow, 13) == embedding + inputs - projection


def test_a_transformer_needs_to_know_its_context() -> None:
    with pytest.raises(ConfigError, match=r"model.context is missing"):
        language_model(transformer(context=None), 10)


def test_rotary_needs_heads_of_even_width() -> None:
    with pytest.raises(ConfigError, match=r"even; given 3"):
        language_model(transformer(width=12, heads=4, position="rotary"), 10)


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "additive, rotary": (
        {"score": "additive", "position": "rotary"},
        'model.position = "rotary" makes q·k depend on the distance alone; tanh(q + k) of turned vectors does not. '
        'With model.attention.score = "additive" choose "t5", "alibi", "shaw", "sinusoidal", "learned" or "none"',
    ),
    "additive and the default position": ({"score": "additive"}, 'With model.attention.score = "additive" choose "t5"'),
    **{
        f"{mask}": (
            {"mask": mask},
            f'model.attention.mask = "{mask}" lets a position see the token that it has to predict; '
            'for a language model choose "causal", "strictly_causal" or "window"',
        )
        for mask in ("full", "all_but_self")
    },
    "prefix": (
        {"mask": "prefix"},
        'model.attention.mask = "prefix" needs the length of each text\'s prefix, and running text has none; choose "causal"',
    ),
    "parallel, post": (
        {"parallel_block": True, "norm_placement": "post"},
        'model.feedforward.parallel needs model.norm.placement = "pre"; given "post". Change one of them.',
    ),
    "window without span": (
        {"mask": "window"},
        'model.attention.mask = "window" needs model.attention.span, the number of tokens in the window, '
        "the current one included",
    ),
    **{
        f"span with {mask}": (
            {"mask": mask, "span": 4},
            f'model.attention.span = 4 only applies to model.attention.mask = "window"; given "{mask}". '
            "Remove model.attention.span, or change the mask",
        )
        for mask in ("causal", "strictly_causal")
    },
    **{
        f"{name} with {position}": (
            {"position": position, name: 9},
            f'model.position.{new} only applies to model.position = {owner}; given "{position}". '
            f"Remove model.position.{new}, or change model.position.",
        )
        for name, new, owner in (
            ("max_distance", "max_distance", '"shaw" or "t5" or "disentangled" or "learned_t5"'),
            ("distance_buckets", "buckets", '"t5" or "disentangled" or "learned_t5"'),
        )
        for position in ("none", "learned", "sinusoidal", "rotary", "shaw", "t5", "alibi")
        if f'"{position}"' not in owner
    },
    "disentangled, gaussian": (
        {"position": "disentangled", "score": "gaussian"},
        'adds dot products to the score, so model.attention.score must be "scaled_dot" or "dot"; given "gaussian". '
        "Change one of them",
    ),
    "position_norm with t5": (
        {"position": "t5", "position_norm": True},
        'model.position.norm only applies to model.position = "disentangled"; given "t5". Remove model.position.norm',
    ),
    "three disentangled buckets": (
        {"position": "disentangled", "distance_buckets": 3},
        "3 buckets up to a distance of 128 cannot widen; expected at least 4 buckets and a max_distance above 3",
    ),
    "disentangled buckets without room": (
        {"position": "disentangled", "distance_buckets": 32, "max_distance": 17},
        "32 buckets up to a distance of 17 cannot widen",
    ),
    "one bucket": (
        {"position": "t5", "distance_buckets": 1},
        "model.position.buckets is 1, which distinguishes no distances; expected at least 2",
    ),
    "a reach within the single buckets": (
        {"position": "t5", "distance_buckets": 8, "max_distance": 4},
        "model.position.max_distance = 4 leaves no room: half of model.position.buckets = 8 hold one distance each, 0 … 3. "
        "Choose model.position.max_distance > 4, or fewer buckets",
    ),
    "more buckets than the default reach has room for": (
        {"position": "t5", "distance_buckets": 256},
        "model.position.max_distance = 128 leaves no room: half of model.position.buckets = 256",
    ),
    "rotary with heads of odd width": (
        {"width": 12, "heads": 4},
        'model.position = "rotary" rotates pairs, so model.width / model.attention.heads must be even; given 3. Change either, '
        "or the position",
    ),
    "a norm without epsilon": ({"norm_eps": 0.0}, "model.norm.eps is 0.0; expected a small number above 0, such as 1e-5"),
    "heads of their own width in linear attention": (
        {"attention": "linear", "position": "none", "head_width": 8},
        'model.attention.head_width = 8 only applies to model.attention.kind = "softmax"; given "linear". '
        "Remove model.attention.head_width.",
    ),
    "biases of queries in linear attention": (
        {"attention": "linear", "position": "none", "bias": "qkv"},
        'model.bias = "qkv" only applies to model.attention.kind = "softmax"; given "linear". Remove model.bias.',
    ),
    "half a pair that turns": (
        {"rotary_fraction": 0.4},
        "model.position.fraction is 0.4; expected a number up to 1 that gives an even part of the width of a head",
    ),
    "a fraction of no rotation": (
        {"position": "alibi", "rotary_fraction": 0.5},
        'model.position.fraction only applies to model.position = "rotary"; given "alibi".',
    ),
    "dynamic positions without a factor": (
        {"rotary_scaling": "dynamic", "context": 8, "rotary_context": 8},
        "model.context = 8 is not longer than model.position.context = 8.",
    ),
    "a bias that RMSNorm lacks": (
        {"norm": {"kind": "rms", "bias": True}},
        'model.norm.bias only applies to model.norm.kind = "layer"; given "rms". Remove it.',
    ),
    "slopes scaled like another score": (
        {"position": {"kind": "alibi", "scaled": True}, "score": "gaussian"},
        'model.position.scaled only applies to model.attention.score = "scaled_dot"; given "gaussian". Remove it, or change the',
    ),
    "normalised queries and distances": (
        {"position": "disentangled", "qk_norm": True},
        'but not those of the distances of model.position = "disentangled". Remove one of them.',
    ),
    "a pattern without windows": (
        {"window_pattern": "LG"},
        'model.attention.window_pattern = "LG" needs model.attention.mask = "window". Remove one, or set the other.',
    ),
    "a pattern of other letters": (
        {"mask": "window", "span": 4, "window_pattern": "LX"},
        'model.attention.window_pattern is "LX"; expected "L" (local) and "G" (global), such as "LLG"',
    ),
    "a base of windows without rotations": (
        {"mask": "window", "span": 4, "position": "alibi", "position_base_local": 100.0},
        'model.position.base_local only applies to model.position = "rotary"; given "alibi". Remove model.position.base_local, '
        "or change model.position.",
    ),
    "an embedding norm instead of one that is not there": (
        {"norm_placement": "post", "embedding_norm": "replaces_first"},
        'needs a norm before the first attention, and model.norm.placement is "post". Set model.embedding.norm = true.',
    ),
    "sinusoidal of odd width": (
        {"width": 15, "heads": 3, "position": "sinusoidal"},
        'model.position = "sinusoidal" pairs a sine with a cosine, so model.width must be even; given 15. '
        "Change it, or the position",
    ),
    **{
        f"base {base} with {position}": (
            {"position_base": base, "position": position},
            f"model.position.base is {base}; expected a finite number above 0",
        )
        for base in (0.0, -1.0, float("inf"), float("nan"))
        for position in ("rotary", "sinusoidal")
    },
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_combination_that_makes_no_sense_is_refused_with_its_reason_and_a_remedy(case: str) -> None:
    options, message = REFUSED[case]
    with pytest.raises(ConfigError) as error:
        transformer(**options)
    assert message in str(error.value)


def test_the_smallest_settings_that_make_sense_are_accepted() -> None:
    for options in (
        {"position": "t5", "distance_buckets": 2, "max_distance": 2},
        {"position": "t5", "distance_buckets": 8, "max_distance": 5},
        {"position": "shaw", "max_distance": 1},
        {"mask": "window", "span": 1},
        {"width": 12, "heads": 4, "position": "alibi"},
        {"width": 15, "heads": 3, "position": "learned"},
        {"position": "sinusoidal", "position_base": 100_000.0},
    ):
        model = language_model(transformer(**options), 10)
        initialise(model, torch.Generator().manual_seed(0))
        logits_1TV, _ = model(torch.zeros(1, 4, dtype=torch.long))
        assert logits_1TV.isfinite().all(), options


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("score=aditive", '"additive"'),
        ("mask=casual", '"causal"'),
        ("position=alibis", '"alibi"'),
        ("span=wide", "expected a whole number"),
        ("score=additive", 'With model.attention.score = "additive" choose "t5"'),
    ],
)
def test_what_a_recipe_says_of_attention_is_checked_when_it_is_read(setting: str, message: str) -> None:
    from firth.api import compose

    with pytest.raises(ConfigError) as error:
        compose({"data": {"text": "some text"}, "model": {"kind": "transformer"}}, [f"model.{setting}"])
    assert message in str(error.value)


def test_the_kind_tells_the_two_families_of_config_apart() -> None:
    schema: Any = ModelConfig

    from dataclasses import make_dataclass

    recipe = make_dataclass("Recipe", [("model", schema)])
    assert build(recipe, {"model": {"kind": "gru", "width": 8}}).model == RecurrentConfig(kind="gru", width=8)
    assert isinstance(build(recipe, {"model": {"kind": "transformer"}}).model, TransformerConfig)
    with pytest.raises(ConfigError, match=r'unknown key "model.heads"'):
        build(recipe, {"model": {"kind": "gru", "heads": 8}})


def test_old_names_of_settings_are_read() -> None:
    notes: list[str] = []
    assert build(RecurrentConfig, {"kind": "gru", "locked": True}, "model", notes.append).dropout_locked
    assert build(RecurrentSeq2SeqConfig, {"kind": "gru", "attention": "none", "feed": True}, "model", notes.append).feed_context
    assert [note.split(";")[0] for note in notes] == [
        "model.locked is now called model.dropout_locked",
        "model.feed is now called model.feed_context",
    ]


def configs() -> list[ModelConfig]:
    several: list[ModelConfig] = [
        recurrent(kind=kind, tied=tied, embedding=embedding)
        for kind, (tied, embedding) in itertools.product(
            CELLS.shipped_kinds, [(False, None), (True, None), (False, 3), (True, 3)]
        )
    ]
    for position, norm, placement, bias in itertools.product(
        ("learned", "rotary"), ("layer", "rms"), ("pre", "post"), (False, True)
    ):
        several.append(transformer(position=position, norm=norm, norm_placement=placement, bias=bias, tied=not bias, kv_heads=2))
    several += [transformer(position=position, score="bilinear") for position in ("rotary", "sinusoidal", "alibi")]
    several += [
        transformer(position="shaw", max_distance=3, score="additive"),
        transformer(position="t5", distance_buckets=6, score="gaussian"),
    ]
    return several


def test_the_count_of_parameters_is_that_of_the_real_module() -> None:
    for config in configs():
        real = sum(p.numel() for p in language_model(config, 13).parameters())
        assert parameters(config, 13) == real, config


def test_a_tied_transformer_counts_its_embedding_once() -> None:
    assert parameters(transformer(tied=False), 13) - parameters(transformer(tied=True), 13) == 13 * 16


def test_counting_175_billion_weights_allocates_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """A known answer; the module itself would need 700 GB, so a small one shows first that nothing is allocated."""
    from firth.models import sizes

    built = []
    with monkeypatch.context() as patch:
        patch.setattr(sizes, "language_model", lambda *args: built.append(language_model(*args)) or built[-1])
        parameters(transformer(), 13)
    assert all(tensor.is_meta for tensor in (*built[0].parameters(), *built[0].buffers()))
    gpt3 = TransformerConfig(
        kind="transformer", width=12_288, depth=96, heads=96, context=2048, activation="gelu", tied=False, norm="rms"
    )
    norms = (2 * 96 + 1) * 12_288
    assert parameters(gpt3, 50_257) == 175_181_291_520 + norms
    assert torch.empty(1).device.type == "cpu", "counting leaves the default device alone"


def named(config: ModelConfig) -> str:
    """The values of a config, as the name of a test."""
    return "-".join(str(value) for name, value in vars(config).items() if name not in ("family", "position_base", "dropout"))


def drawn(config: ModelConfig, seed: int) -> dict[str, torch.Tensor]:
    model = language_model(config, 13)
    initialise(model, torch.Generator().manual_seed(seed))
    return dict(model.named_parameters())


@pytest.mark.parametrize("config", configs(), ids=named)
def test_a_seed_is_a_model(config: ModelConfig) -> None:
    first, again, other = drawn(config, 0), drawn(config, 0), drawn(config, 1)
    for name in first:
        assert torch.equal(first[name], again[name]), name
        fixed = "norm" in name or "bias" in name or name == "relative.table_NH"  # T5's table begins as no position at all
        if not fixed:
            assert not torch.equal(first[name], other[name]), name


def test_the_draw_uses_its_generator_and_no_other() -> None:
    before = torch.get_rng_state()
    model = language_model(transformer(), 13)
    middle = torch.get_rng_state()
    initialise(model, torch.Generator().manual_seed(0))
    assert torch.equal(torch.get_rng_state(), middle)
    torch.set_rng_state(before)


def test_the_forget_gate_starts_open_and_the_other_biases_at_zero() -> None:
    for name, bias in drawn(recurrent(kind="lstm", depth=2), 0).items():
        if "bias_ih" in name:
            assert bias.tolist() == [0.0] * 8 + [1.0] * 8 + [0.0] * 16
        elif "bias_hh" in name:
            assert not bias.any()


def test_weights_that_write_to_the_residual_stream_shrink_with_depth() -> None:
    weights = drawn(transformer(width=64, depth=8, activation="gelu"), 0)
    for name, fan_in, share in (
        ("attention.qkv", 64, 1.0),
        ("attention.out", 64, 1 / 4),
        ("feedforward.up", 64, 1.0),
        ("feedforward.down", 256, 1 / 4),
    ):
        weight = weights[f"blocks.3.{name}.weight"]
        expected = fan_in**-0.5 * share  # 1/√(2·8) = ¼
        noise = 5 * expected / (2 * weight.numel()) ** 0.5  # five standard errors of a standard deviation
        assert abs(weight.std().item() - expected) < noise, name


def test_norms_start_as_the_identity_and_biases_at_zero() -> None:
    for name, parameter in drawn(transformer(norm="layer", bias=True, tied=False), 0).items():
        if "norm" in name:
            assert parameter.eq(1 if name.endswith("weight") else 0).all()
        elif name.endswith("bias"):
            assert not parameter.any()


def test_every_parameter_is_drawn() -> None:
    for config in configs():
        model = language_model(config, 13)
        for parameter in model.parameters():
            nn.init.constant_(parameter, float("nan"))
        initialise(model, torch.Generator().manual_seed(0))
        assert all(p.isfinite().all() for p in model.parameters()), config


def test_an_encoder_decoder_has_no_parallel_blocks() -> None:
    with pytest.raises(ConfigError, match=r"model.feedforward.parallel does not apply to a decoder that attends to a source"):
        TransformerSeq2SeqConfig(kind="transformer", parallel_block=True)
    assert PrefixConfig(kind="prefix", parallel_block=True).feedforward.parallel
