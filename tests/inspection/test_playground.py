"""The playground against loops in float64, and the answers that the lectures give."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Mapping

import numpy as np
import pytest
from shares import third

from firth.errors import ConfigError, DataError
from firth.inspection.playground import (
    MASKS,
    MOST,
    ROLES,
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
from firth.layers.attention.score import SCORES, ScoreKind
from firth.layers.position import SCHEMES, PositionKind
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


def _score(played: PlaygroundResult) -> oracle.ScoreFunction:
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
        case "t5" | "learned_t5":
            return oracle_position.buckets(given["b"], True, 16)
        case "disentangled":
            return oracle_position.disentangled(given["a_K"], given["a_Q"])
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
    p = oracle.normalized(scaled, seen, q_start)
    expected = {
        "scores": bare[0],
        "scaled": scaled[0],
        "masked": np.where(allowed, scaled[0], -np.inf),
        "weights": p[0],
        "sums": oracle.averaged(p, v, q_start, position)[0],
    }
    for step in played.steps:
        np.testing.assert_allclose(step.values_HQn, expected[step.name], rtol=1e-11, atol=1e-11, err_msg=step.name)


@pytest.mark.parametrize("position", third(SCHEMES.kinds))
@pytest.mark.parametrize("score", SCORES.kinds)
def test_every_step_of_a_sentence_is_the_oracles(score: ScoreKind, position: PositionKind) -> None:
    for mask, (heads, scale) in zip(MASKS, itertools.cycle(((1, None), (2, 0.3))), strict=False):
        settings = Settings(score=score, position=position, mask=mask, limit=3, heads=heads, scale=scale, seed=4)
        played = of_sentence(SENTENCE, settings)
        assert [step.name for step in played.steps] == list(STEPS)
        _assert_as_the_oracle(played, 0)


@pytest.mark.parametrize("mask", MASKS)
def test_every_step_of_a_table_is_the_oracles(mask: MaskName) -> None:
    for position in SCHEMES.kinds:
        settings = Settings(mask=mask, limit=3, position=position, heads=2)
        _assert_as_the_oracle(of_table(ROLES, "Ravi", settings), len(ROLES))


def test_112_and_96_over_the_root_of_64_are_14_and_12() -> None:
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
        "student": 0.25,
        "teacher": 0.5,  # two names have it
        "assistant": 0.25,
    }


def _shares(played: PlaygroundResult) -> dict[str, float]:
    return dict(zip(played.steps[-1].columns, played.sums[0, 0].tolist(), strict=True))


def _entropy(played: PlaygroundResult) -> float:
    p = played.weights[0, 0]
    return float(-(p[p > 0] * np.log(p[p > 0])).sum())


def test_a_key_finds_its_own_value() -> None:
    for name, role in ROLES:
        assert _shares(of_table(ROLES, name))[role] >= 0.99
        assert "is one of the keys" in of_table(ROLES, name.lower()).caption
    many = [
        (f"{letter}{letter}", str(n))
        for n, letter in enumerate("abcdefghijklmnopqrstuvwxyz" + "αβγδεζηθικλμνξοπρστυφχψω" + "абвгдежзийклмн")
    ]
    assert len(many) == MOST
    assert of_table(many, "qq").weights.max() >= 0.9  # also in the largest table


@pytest.mark.parametrize(("query", "neighbor"), [("Xiaomei", "student"), ("Rafi", "assistant"), ("Helena", "teacher")])
def test_a_similar_key_returns_its_value(query: str, neighbor: str) -> None:
    played = of_table(ROLES, query)
    shares = _shares(played)
    other = max(share for role, share in shares.items() if role != neighbor)
    assert 0.6 < shares[neighbor] < 0.99  # softly
    assert shares[neighbor] > 3 * other
    assert f'"{query}" is not a key. Approximate match: the largest weight is' in played.caption


def test_a_key_like_no_other_gets_the_mean_of_all_values() -> None:
    played = example("roles", query="Bob")
    assert _entropy(played) == pytest.approx(math.log(4), rel=1e-12)
    assert _shares(played) == pytest.approx({"student": 0.25, "teacher": 0.5, "assistant": 0.25})
    assert "no key stands out: the entropy of the weights is 1.39 of at most 1.39" in played.caption


def test_the_seed_does_not_change_a_lookup() -> None:
    for query in ("Ravi", "Xiaomei", "Bob", "Q"):
        one, other = (of_table(ROLES, query, Settings(seed=seed)) for seed in (0, 12345))
        for first, second in zip(one.steps, other.steps, strict=True):
            np.testing.assert_array_equal(first.values_HQn, second.values_HQn)


def test_the_scaled_score_is_8_times_the_cosine_of_the_counts_of_letter_groups() -> None:
    """Against a loop over sets of letters that knows nothing of vectors."""

    def counts(word: str) -> dict[str, int]:
        groups: dict[str, int] = {}
        marked = ["START", *word.lower(), "END"]
        for size in (2, 3):
            for n in range(len(marked) - size + 1):
                group = "|".join(marked[n : n + size])
                groups[group] = groups.get(group, 0) + 1
        return groups

    keys, query = ["Banana", "bandana", "an", "nab", "x"], "ananas"
    q = counts(query)
    expected = []
    for key in keys:
        k = counts(key)
        dot = sum(count * k.get(group, 0) for group, count in q.items())
        expected.append(8 * dot / math.sqrt(sum(c * c for c in q.values()) * sum(c * c for c in k.values())))
    played = of_table([(key, "v") for key in keys], query)
    np.testing.assert_allclose(played.step("scaled")[0, 0], expected, rtol=1e-12, atol=1e-12)
    assert played.step("scores")[0, 0].max() < 64


def test_word_vectors_find_neighbours_by_meaning_whatever_their_lengths() -> None:
    class Three:
        width = 2

        def __getitem__(self, word: str) -> Array:
            return {"doctor": np.array([9.0, 1.0]), "river": np.array([0.0, 90.0]), "physician": np.array([0.5, 0.1])}[word]

    rows = [("doctor", "hospital"), ("river", "bridge")]
    assert _shares(of_table(rows, "physician", vectors=Three()))["hospital"] > 0.95
    assert _shares(of_table(rows, "doctor", vectors=Three()))["hospital"] > 0.95
    a, b = np.array([0.5, 0.1]), np.array([9.0, 1.0])
    cosine = a @ b / math.sqrt((a @ a) * (b @ b))
    assert of_table(rows, "physician", vectors=Three()).step("scaled")[0, 0, 0] == pytest.approx(8 * cosine)


def test_captions_follow_the_mask_and_the_scale() -> None:
    assert "no key stands out" in of_table(ROLES, "Xiaomei", Settings(scale=0)).caption
    assert "may not attend to any key" in of_table(ROLES, "Xiaomei", Settings(mask="window", limit=1)).caption
    assert "one key only, Lena" in of_table(ROLES, "Xiaomei", Settings(mask="window", limit=2)).caption
    hidden = of_table(ROLES, "Xiaoming", Settings(mask="window", limit=4))
    assert "Xiaoming →" not in hidden.caption
    assert of_table([("1 0", "10")], "2 2").caption == of_sentence("a b").caption == example("scores").caption == ""


def test_heads_share_the_letter_groups_of_every_name() -> None:
    played = of_table(ROLES, "Xiaomei", Settings(heads=4))
    assert (played.weights[:, 0].argmax(1) == 0).all()


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
    assert said(position="disentangled")["scores"] == "a = (q · k + q·a_K[q − k] + k·a_Q[q − k]) / √3"
    assert said(position="shaw")["sums"] == "o = Σ p (v + a_V[k − q])"


def test_projections_are_products_with_three_matrices() -> None:
    attention = of_sentence("a b c", Settings(projected=True, heads=2, width=8, mask="causal"))
    assert attention.x_Td is not None
    vectors = {"q": attention.q_HQD, "k": attention.k_HKD, "v": attention.v_HKE}
    for name, x_HTD in vectors.items():
        together_Td = np.concatenate(list(x_HTD), axis=1)
        np.testing.assert_allclose(together_Td, attention.x_Td @ attention.parameters[f"W_{name}"].T, rtol=1e-12)
    np.testing.assert_allclose(attention.step("scores"), np.einsum("hqd,hkd->hqk", attention.q_HQD, attention.k_HKD), rtol=1e-12)
    np.testing.assert_allclose(attention.sums, np.einsum("hqk,hkd->hqd", attention.weights, attention.v_HKE), rtol=1e-12)
    panels = {panel.name: np.array(panel.values) for panel in attention.vector_panels(1)}
    assert list(panels) == ["x", "W_q", "W_k", "W_v", "q", "k", "v", "W_o"]
    np.testing.assert_allclose(panels["x"] @ panels["W_k"].T, panels["k"], rtol=1e-12)
    plain = of_sentence("a b c", Settings(heads=2, width=8))
    np.testing.assert_array_equal(plain.q_HQD, plain.v_HKE)
    assert list(plain.vector_figures()) == ["q", "k", "v"]


def test_scores_before_and_after_scaling_have_one_colour_scale() -> None:
    figures = example("scores").figures()
    assert [figures[name].plot.data[0].zmax for name in ("scores", "scaled", "masked", "weights")] == [112, 112, 112, 1]


def test_json_has_null_for_minus_infinity() -> None:
    facts = json.loads(json.dumps(of_sentence("a b", Settings(mask="causal")).facts(), allow_nan=False))
    masked = next(step for step in facts["steps"] if step["name"] == "masked")
    assert masked["values"][0][0][1] is None
    assert facts["settings"]["mask"] == "causal"


def _ideographs(n: int) -> str:
    return "".join(chr(0x4E00 + 100 * n + i) for i in range(100))


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
        (lambda: of_table(ROLES, "Tom", Settings(projected=True)), "projected only applies to a sentence"),
        (lambda: of_table([], "a"), "the table has no rows"),
        (lambda: of_table([("a", "")], "a"), "row 1 of the table"),
        (lambda: of_table(ROLES, " "), "the query is empty"),
        (lambda: of_table([("1 2", "x")], "3"), "1 and 2 numbers"),
        (lambda: of_table([("1 2", "x")], "Mina"), '"Mina" among numbers'),
        (lambda: of_table([(_ideographs(n), "v") for n in range(40)], "a"), "groups of letters; expected at most 4,096"),
        (lambda: of_sentence("a").figure(1), "head is 1; expected 0"),
        (lambda: example("scores", query="a"), 'the example "scores" has its own query'),
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
