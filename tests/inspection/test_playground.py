"""The playground against loops in float64, and the answers that the lectures give."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Mapping

import numpy as np
import pytest

from firth.errors import ConfigError, DataError
from firth.inspection.playground import (
    MASKS,
    MOST,
    POSITIONS,
    ROLES,
    SCORES,
    STEPS,
    Array,
    MaskName,
    PlaygroundResult,
    Settings,
    example,
    of_sentence,
    of_table,
    read_table,
)
from firth.layers.attention.score import ScoreKind
from firth.layers.position import PositionKind
from firth.oracles import attention as oracle
from firth.oracles import position as oracle_position

SENTENCE = "the FBI is chasing the FBI again"  # a word twice, so that its rows differ by position alone

ALLOWED: Mapping[str, Callable[[int, int, int, int], bool]] = {  # with a limit of 3
    "full": lambda b, h, q, k: True,
    "causal": lambda b, h, q, k: k <= q,
    "strictly_causal": lambda b, h, q, k: k < q,
    "all_but_self": lambda b, h, q, k: k != q,
    "window": lambda b, h, q, k: q - 3 < k <= q,
    "prefix": lambda b, h, q, k: k <= q or k < 3,
    "lengths": lambda b, h, q, k: k < 3,
    "documents": lambda b, h, q, k: q // 3 == k // 3,
}


def _score(played: PlaygroundResult) -> oracle.Score:
    given = played.parameters
    match played.settings.score:
        case "dot":
            return oracle.DOT
        case "scaled_dot":
            return oracle.SCALED_DOT
        case "gaussian":
            return oracle.GAUSSIAN
        case "bilinear":
            return oracle.bilinear(given["M"])
        case "additive":
            return oracle.additive(given["w"], given["W_q"], given["W_k"])
        case "cosine":
            return oracle.cosine(given["log_tau"])


def _position(played: PlaygroundResult) -> oracle_position.Position:
    given = played.parameters
    match played.settings.position:
        case "rotary":
            return oracle_position.rotary()
        case "shaw":
            return oracle_position.shaw(given["a_K"], given.get("a_V"))
        case "t5":
            return oracle_position.buckets(given["b"], True, 16)
        case "alibi":
            return oracle_position.alibi(np.array(oracle_position.slopes(played.settings.heads)))
        case _:
            return oracle_position.ABSENT


def _assert_as_the_oracle(played: PlaygroundResult, q_start: int) -> None:
    q, k, v = played.q_HQD[None], played.k_HKD[None], played.v_HKE[None]
    score, position, scale = _score(played), _position(played), played.settings.scale
    keys_only = position._replace(bias=lambda h, distance: 0.0)
    bare = oracle.scores(q, k, 1.0, q_start, score, keys_only)
    scaled = oracle.scores(q, k, scale, q_start, score, position)
    seen = ALLOWED[played.settings.mask]
    H, Q, K = scaled.shape[1:]
    allowed = np.array([[[seen(0, h, q_start + i, j) for j in range(K)] for i in range(Q)] for h in range(H)])
    p = oracle.normalised(scaled, seen, q_start)
    expected = {
        "scores": bare[0],
        "scaled": scaled[0],
        "masked": np.where(allowed, scaled[0], -np.inf),
        "weights": p[0],
        "sums": oracle.averaged(p, v, q_start, position)[0],
    }
    for step in played.steps:
        np.testing.assert_allclose(step.values_HQn, expected[step.name], rtol=1e-11, atol=1e-11, err_msg=step.name)


@pytest.mark.parametrize("position", POSITIONS)
@pytest.mark.parametrize("score", SCORES)
def test_every_step_of_a_sentence_is_the_oracles(score: ScoreKind, position: PositionKind) -> None:
    for mask, (heads, scale) in zip(MASKS, itertools.cycle(((1, None), (2, 0.3))), strict=False):
        settings = Settings(score=score, position=position, mask=mask, limit=3, heads=heads, scale=scale, seed=4)
        played = of_sentence(SENTENCE, settings)
        assert [step.name for step in played.steps] == list(STEPS)
        _assert_as_the_oracle(played, 0)


@pytest.mark.parametrize("mask", MASKS)
def test_every_step_of_a_table_is_the_oracles(mask: MaskName) -> None:
    for position in POSITIONS:
        settings = Settings(mask=mask, limit=3, position=position, heads=2)
        _assert_as_the_oracle(of_table(ROLES, "Ravi", settings), len(ROLES))


def test_112_and_96_over_the_root_of_64() -> None:
    played = example("scores")
    np.testing.assert_array_equal(played.step("scores"), [[[112, 96]]])
    np.testing.assert_array_equal(played.step("scaled"), [[[14, 12]]])
    assert played.weights.round(2).tolist() == [[[0.88, 0.12]]]
    assert played.sums.round(2).tolist() == [[[0.88, 0.12]]]
    assert played.weights[0, 0, 0] == pytest.approx(1 / (1 + math.exp(-2)), rel=1e-14)


def test_a_large_scale_finds_the_role_and_scale_0_averages() -> None:
    for name, role in ROLES:
        played = of_table(ROLES, name, Settings(scale=1000))
        assert dict(zip(played.steps[-1].columns, played.sums[0, 0].tolist(), strict=True))[role] == pytest.approx(1)
    averaged = of_table(ROLES, "Ravi", Settings(scale=0))
    assert averaged.weights[0, 0].tolist() == [0.25] * 4
    assert dict(zip(averaged.steps[-1].columns, averaged.sums[0, 0], strict=True)) == {
        "director": 0.25,
        "editor": 0.5,  # two names have it
        "camera": 0.25,
    }


def test_a_name_looks_up_its_role_softly() -> None:
    played = example("roles")
    shares = dict(zip(played.steps[-1].columns, played.sums[0, 0], strict=True))
    assert max(shares, key=lambda role: shares[role]) == "camera"
    assert 0.3 < shares["camera"] < 0.99
    assert sum(shares.values()) == pytest.approx(1)


def test_no_key_matches_a_word_better_than_the_word_itself() -> None:
    words = " ".join(f"w{n}" for n in range(40))
    a = of_sentence(words, Settings(width=4)).step("scores")[0]
    assert a.argmax(1).tolist() == list(range(40))
    np.testing.assert_allclose(a.diagonal(), 4)


def test_words_have_the_same_vectors_wherever_they_stand_and_others_with_another_seed() -> None:
    one, other = of_sentence("a b a"), of_sentence("c a")
    np.testing.assert_array_equal(one.k_HKD[0, 0], one.k_HKD[0, 2])
    np.testing.assert_array_equal(one.k_HKD[0, 0], other.k_HKD[0, 1])
    assert not np.allclose(one.k_HKD[0, 0], of_sentence("a", Settings(seed=1)).k_HKD[0, 0])


def test_heads_are_slices_of_the_vectors() -> None:
    whole, cut = of_sentence("a b c"), of_sentence("a b c", Settings(heads=4))
    np.testing.assert_array_equal(whole.k_HKD[0], np.concatenate(list(cut.k_HKD), axis=1))
    np.testing.assert_allclose(whole.step("scores")[0], cut.step("scores").sum(0))


def test_vectors_of_a_file_are_used_as_they_are() -> None:
    class Two:
        width = 2

        def __getitem__(self, word: str) -> Array:
            return np.array([3.0, 4.0]) if word == "a" else np.array([0.0, 1.0])

    played = of_sentence("a b", Settings(score="dot"), Two())
    np.testing.assert_array_equal(played.step("scores"), [[[25, 4], [4, 1]]])


def test_a_query_that_may_look_at_nothing_gets_nothing() -> None:
    played = of_sentence("a b", Settings(mask="strictly_causal"))
    assert played.step("masked")[0, 0].tolist() == [-math.inf, -math.inf]
    assert played.weights[0, 0].tolist() == [0, 0]
    assert not played.sums[0, 0].any()


def test_numbers_as_keys_and_values() -> None:
    played = of_table([("1 0", "10"), ("0, 1", "20")], "2 2", Settings(score="dot"))
    np.testing.assert_array_equal(played.step("scores"), [[[2, 2]]])
    np.testing.assert_allclose(played.sums, [[[15]]])


def test_a_table_is_read_a_row_a_line() -> None:
    assert read_table("Mina → director\n\n1 2 = 3\n a -> b \nx,y\nx\ty") == [
        ("Mina", "director"),
        ("1 2", "3"),
        ("a", "b"),
        ("x", "y"),
        ("x", "y"),
    ]
    with pytest.raises(DataError, match="line 2 of the table"):
        read_table("a = b\nnothing here")


def test_the_equation_says_what_was_computed() -> None:
    def said(**chosen: object) -> dict[str, str]:
        settings = Settings(**chosen)  # type: ignore[arg-type]
        return {step.name: step.equation for step in of_sentence("a b", settings).steps}

    assert said()["scaled"] == "s = a / √8"
    assert said(heads=2)["scaled"] == "s = a / √4"
    assert said(scale=2.5, position="alibi")["scaled"] == "s = 2.5 · a − m |q − k|"
    assert said(score="gaussian")["scores"] == "a = −½ ‖q − k‖²"
    assert said(mask="window", limit=3)["masked"] == "m = s where q − 3 < k ≤ q, else −∞"
    assert said(position="shaw")["sums"] == "o = Σ p (v + a_V[k − q])"


def test_json_has_null_for_minus_infinity() -> None:
    facts = json.loads(json.dumps(of_sentence("a b", Settings(mask="causal")).facts(), allow_nan=False))
    masked = next(step for step in facts["steps"] if step["name"] == "masked")
    assert masked["values"][0][0][1] is None
    assert facts["settings"]["mask"] == "causal"


@pytest.mark.parametrize(
    ("play", "message"),
    [
        (lambda: of_sentence("  "), "the sentence has no words"),
        (lambda: of_sentence("a " * (MOST + 1)), f"65 words; .* at most {MOST}"),
        (lambda: of_sentence("a", Settings(heads=3)), "vectors of dimension 8 cannot be split into 3 heads"),
        (
            lambda: of_sentence("a", Settings(width=3, position="sinusoidal")),
            "the dimension is 3; sinusoidal positions need an even one",
        ),
        (lambda: of_sentence("a", Settings(width=6, heads=2, position="rotary")), "even width; given 3"),
        (lambda: of_table([], "a"), "the table has no rows"),
        (lambda: of_table([("a", "")], "a"), "row 1 of the table"),
        (lambda: of_table(ROLES, " "), "the query is empty"),
        (lambda: of_table([("1 2", "x")], "3"), "1 and 2 numbers"),
        (lambda: of_table([("1 2", "x")], "Mina"), '"Mina" among numbers'),
        (lambda: of_sentence("a").figure(1), "head is 1; expected 0"),
        (lambda: example("nothing"), 'unknown example "nothing"; expected scores or roles'),  # type: ignore[arg-type]
        (lambda: Settings(score="cosin"), 'score is "cosin"; expected one of scaled_dot'),  # type: ignore[arg-type]
        (lambda: Settings(limit=0), "limit is 0; expected at least 1"),
        (lambda: Settings(width=5000), "width is 5000; expected 1 to 1,024"),
        (lambda: Settings(scale=math.inf), "scale is inf"),
    ],
)
def test_bad_input_is_told(play: Callable[[], object], message: str) -> None:
    with pytest.raises((ConfigError, DataError), match=message):
        play()
