"""The attention playground: attend() step by step, on a sentence or on a small table of keys and values.

    scores   a_qk = a(q, k)                           how well a key matches a query, see layers/attention/score/
    scaled   s_qk = scale · a_qk + bias(k − q)
    masked   m_qk = s_qk, or −∞ where q may not attend to k
    weights  p_qk = exp m_qk / Σ_j exp m_qj           all zero if q may not attend to any key
    sums     o_q  = Σ_k p_qk v_k
    output   y_q  = W_o [o_q of every head]           only with projections, which may be your own: own_matrices.py

All numbers come from the functions that attend() itself uses, in float64. Letters: H heads, Q queries, K keys, D dimension of a
query or key, E dimension of a value, T words of a sentence, d = H·D.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol, cast, get_args

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from firth.errors import ConfigError, DataError, index_range
from firth.figures.attention import token_names
from firth.figures.figure import Drawn, Figure
from firth.figures.playground import Panel, panel_figure, panels_figure, panels_text
from firth.inspection import scheme_example
from firth.inspection.own_matrices import (
    PROJECTIONS,
    Given,
    dimension,
    output,
    own_matrices,
    projected,
    random_shapes,
    word_vectors,
)
from firth.inspection.spelling_vectors import of_equal_length, spelling_vectors
from firth.layers import position
from firth.layers.attention import attend, mask, reference, score
from firth.layers.attention.call import Call
from firth.layers.attention.score import ScoreKind
from firth.layers.attention.weights import weights
from firth.layers.position import PositionKind
from firth.layers.position.scheme import Draw, PositionExample

Array = npt.NDArray[np.float64]
MaskName = Literal["full", "causal", "strictly_causal", "all_but_self", "window", "prefix", "lengths", "documents"]
ExampleName = Literal["scores", "roles"]
StepName = Literal["scores", "scaled", "masked", "weights", "sums", "output"]

MASKS: tuple[MaskName, ...] = get_args(MaskName)
LIMITED: tuple[MaskName, ...] = ("window", "prefix", "lengths", "documents")  # masks that have a limit
EXAMPLES: tuple[ExampleName, ...] = get_args(ExampleName)
STEPS: tuple[StepName, ...] = get_args(StepName)[:-1]  # those of every attention
OUTPUT: StepName = "output"  # what W_o makes of the sums
MOST = 64  # words of a sentence or rows of a table: nobody reads more than 64 × 64 cells one by one
WIDEST = 1024  # dimension of a vector

ROLES = (("Xiaoming", "student"), ("Tom", "teacher"), ("Ravi", "assistant"), ("Lena", "teacher"))  # the second example
NAME = "Ravi"  # its query
_SCORES = frozenset(("scores", "scaled", "masked"))  # steps with one colour scale, so that scaling is seen
_VECTORS = {"q": "queries", "k": "keys", "v": "values"}
_FLAT = 0.95  # share of the largest possible entropy: weights above it are nearly flat


class Vectors(Protocol):
    """WordVectors, or any other mapping from words to vectors of the same dimension."""

    def __getitem__(self, word: str) -> npt.NDArray[Any]: ...


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The attention to compute."""

    score: ScoreKind = "scaled_dot"
    mask: MaskName = "full"
    limit: int = 2  # length of the window, prefix or document, or number of keys before the padding
    position: PositionKind = "none"
    scale: float | None = None  # None: 1/√D for scaled_dot, else 1. 0 averages all keys, a large scale picks the best
    heads: int = 1
    width: int = 8  # dimension of the random word vectors of a sentence
    seed: int = 0  # for the random word vectors of a sentence and for the parameters of the score and the position scheme
    projected: bool = False  # q = W_q x, k = W_k x, v = W_v x, y = W_o o with random matrices; otherwise q = k = v = x

    def __post_init__(self) -> None:
        for name, known in (("score", score.SCORES.kinds), ("mask", MASKS), ("position", position.SCHEMES.kinds)):
            if getattr(self, name) not in known:
                raise ConfigError(f'{name} is "{getattr(self, name)}"; expected one of {", ".join(known)}')
        for name, least, most in (("limit", 1, None), ("heads", 1, None), ("width", 1, WIDEST), ("seed", 0, None)):
            value = getattr(self, name)
            if value < least or (most is not None and value > most):
                raise ConfigError(
                    f"{name} is {value}; expected {f'at least {least}' if most is None else f'{least} to {most:,}'}"
                )
        if self.scale is not None and not math.isfinite(self.scale):
            raise ConfigError(f"scale is {self.scale}; expected a finite number. Leave it out for the score's own scale")


@dataclass(frozen=True, eq=False)
class PlaygroundStep:
    name: StepName
    equation: str
    columns: tuple[str, ...]  # the keys; for the sums, the names of their dimensions
    values_HQn: Array  # −∞ where masked


@dataclass(frozen=True, eq=False, repr=False)
class PlaygroundResult(Drawn):
    """The inputs, and the result of each step. `parameters` are the random parameters of the score and the position scheme."""

    settings: Settings
    queries: tuple[str, ...]
    keys: tuple[str, ...]
    q_HQD: Array
    k_HKD: Array
    v_HKE: Array
    parameters: Mapping[str, Array]
    steps: tuple[PlaygroundStep, ...]
    caption: str = ""  # for a table of words: whether the query was found, found approximately, or not
    x_Td: Array | None = None  # the word vectors of a sentence, if they are projected
    matrices: Mapping[str, Array] = field(default_factory=dict)  # of the projections; they are among the parameters, too

    def step(self, name: StepName) -> Array:
        """The numbers of one step by head, query and key; for "sums" by head, query and dimension."""
        return next(step.values_HQn for step in self.steps if step.name == name)

    @property
    def weights(self) -> Array:
        return self.step("weights")

    @property
    def sums(self) -> Array:
        return self.step("sums")

    def panels(self, head: int = 0) -> list[Panel]:
        if not 0 <= head < self.settings.heads:
            raise ConfigError(f"head is {head}; expected {index_range(self.settings.heads)}")
        names = token_names(self.queries, self.keys)
        edge = _largest(step.values_HQn[head] for step in self.steps if step.name in _SCORES)
        panels = []
        for step in self.steps:
            values, of_keys = step.values_HQn[head].tolist(), step.columns == self.keys  # the sums have dimensions instead
            tokens = names if of_keys else {"y": names["y"]}
            share, most = step.name == "weights", edge if step.name in _SCORES else None
            panels.append(Panel(step.name, step.equation, self.queries, step.columns, values, share, tokens, most))
        return panels

    def vector_panels(self, head: int = 0) -> list[Panel]:
        """q, k and v of one head. If they are projections: before them x and the rows of the matrices that make this head, and
        after them the columns of W_o that read it."""
        panels = []
        if self.x_Td is not None:
            panels.append(Panel("x", "word vectors", self.queries, _numbered(self.x_Td.shape[1]), self.x_Td.tolist(), False))
        for name, vector in PROJECTIONS.items():
            if name in self.matrices:
                D = (self.v_HKE if vector == "v" else self.q_HQD).shape[2]
                panels.append(_matrix_panel(name, f"{vector} = {name} x", self.matrices[name][head * D : (head + 1) * D]))
        vectors = {"q": (self.queries, self.q_HQD), "k": (self.keys, self.k_HKD), "v": (self.keys, self.v_HKE)}
        edge = _largest(x_HnD[head] for _, x_HnD in vectors.values())
        for name, (words, x_HnD) in vectors.items():
            values = x_HnD[head].tolist()
            panels.append(Panel(name, _VECTORS[name], words, _numbered(x_HnD.shape[2]), values, False, {}, edge))
        if "W_o" in self.matrices:
            E = self.v_HKE.shape[2]
            W_mE = self.matrices["W_o"][:, head * E : (head + 1) * E]
            panels.append(_matrix_panel("W_o", _output_equation(self.settings.heads), W_mE))
        return panels

    def figure(self, head: int = 0) -> Figure:
        """All steps of one head, from the scores to the sums; with projections, their inputs come first."""
        return panels_figure([*(self.vector_panels(head) if self.matrices else ()), *self.panels(head)])

    def figures(self, head: int = 0) -> dict[str, Figure]:
        """Each step of one head as a separate figure."""
        return {panel.name: panel_figure(panel) for panel in self.panels(head)}

    def vector_figures(self, head: int = 0) -> dict[str, Figure]:
        """The inputs of the steps, each as a separate figure; see `vector_panels`."""
        return {panel.name: panel_figure(panel) for panel in self.vector_panels(head)}

    def plot(self, head: int = 0) -> Any:
        """The Plotly figure, for a notebook."""
        return self.figure(head).plot

    def text(self, width: int = 80, inputs: bool | None = None) -> str:
        """Every step of every head as numbers; with `inputs` also q, k, v and the matrices, by default if there are any."""
        several, inputs = self.settings.heads > 1, bool(self.matrices) if inputs is None else inputs
        parts = [
            (f"head {head + 1}\n\n" if several else "")
            + panels_text([*(self.vector_panels(head) if inputs else ()), *self.panels(head)], width)
            for head in range(self.settings.heads)
        ]
        return "\n\n".join([*parts, self.caption] if self.caption else parts)

    def facts(self) -> dict[str, object]:
        """Everything as plain data for JSON; −∞ becomes null."""
        return {
            "settings": {name: getattr(self.settings, name) for name in self.settings.__dataclass_fields__},
            "queries": list(self.queries),
            "keys": list(self.keys),
            "q": self.q_HQD.tolist(),
            "k": self.k_HKD.tolist(),
            "v": self.v_HKE.tolist(),
            "parameters": {name: value.tolist() for name, value in self.parameters.items()},
            "caption": self.caption,
            "steps": [
                {
                    "name": step.name,
                    "equation": step.equation,
                    "columns": list(step.columns),
                    "values": np.where(np.isneginf(step.values_HQn), None, step.values_HQn).tolist(),  # type: ignore[call-overload]
                }
                for step in self.steps
            ],
        }


def of_sentence(
    text: str, settings: Settings | None = None, vectors: Vectors | None = None, matrices: Given | None = None
) -> PlaygroundResult:
    """Self-attention between the words: q = k = v = x, the word vectors, split into heads. They come from `vectors` or are random
    with length √width, and always the same for the same word and seed. With `projected`, q, k and v are random projections of x.

    `matrices` are your own, by name: X, the word vectors; W_q, W_k, W_v and W_o; or Q and P; see own_matrices.py. What is not
    given is random with `projected`, and otherwise left out."""
    settings, given = settings or Settings(), own_matrices(matrices or {})
    words = text.split()
    _refuse_count("the sentence has", "words", len(words))
    if "X" in given and vectors is not None:
        raise ConfigError("X and vectors cannot be combined, because both define the word vectors. Remove one of them.")
    if "X" not in given and vectors is None:
        settings = replace(settings, width=dimension(given, settings.width, Settings.width))
    x_Td = _added(word_vectors(given, len(words)) if "X" in given else _by_word(words, settings, vectors), settings)
    d = x_Td.shape[1]
    shapes = random_shapes(given, d) if settings.projected else {}
    random = {name: drawn(name, shape, settings.seed) / math.sqrt(shape[1]) for name, shape in shapes.items()}
    made = projected(x_Td, given, random)
    q_HTD, k_HTD, v_HTE = (_cut(x_Tn, settings.heads) for x_Tn in (made.q_Tn, made.k_Tn, made.v_Tm))
    result = _computed(words, words, _numbered(v_HTE.shape[2]), q_HTD, k_HTD, v_HTE, settings, q_start=0)
    used = dict(made.used)
    if "W_o" in given or "W_o" in random:
        used["W_o"] = W_o = {**random, **given}["W_o"]
        y_HTm = np.repeat(output(result.sums, W_o)[None], settings.heads, axis=0)  # of all heads together
        step = PlaygroundStep(OUTPUT, _output_equation(settings.heads), _numbered(len(W_o)), y_HTm)
        result = replace(result, steps=(*result.steps, step))
    x = x_Td if used or "X" in given else None
    return replace(result, parameters={**used, **result.parameters}, x_Td=x, matrices=used)


def of_table(
    rows: Sequence[tuple[str, str]], query: str, settings: Settings | None = None, vectors: Vectors | None = None
) -> PlaygroundResult:
    """Look up a query in a table of keys and values. A cell holds numbers, "1 0.5 -2", or words. Keys and queries that are words
    get vectors of their spelling, or those in `vectors`: a query that is only similar to a key returns its value softly. Each
    distinct word among the values is a one-hot vector, so that the sum shows the share of each.

    For masks and positions, the query comes after the last key. Each head uses the full values."""
    settings = settings or Settings()
    _refuse_count("the table has", "rows", len(rows))
    for n, (key, value) in enumerate(rows, start=1):
        if not key.strip() or not value.strip():
            raise DataError(f"row {n} of the table is {key!r} → {value!r}; expected a key and a value")
    if not query.strip():
        raise DataError("the query is empty. Give a word, or as many numbers as each key has")
    keys, values = [" ".join(key.split()) for key, _ in rows], [" ".join(value.split()) for _, value in rows]
    query = " ".join(query.split())
    v_KE, columns = _values(values)
    x_nd = _numbers([*keys, query], "keys and query")
    if x_nd is not None:
        return _lookup([query], keys, columns, x_nd[-1:], x_nd[:-1], v_KE, settings)
    x_nd = _comparable([*keys, query], vectors)
    result = _lookup([query], keys, columns, x_nd[-1:], x_nd[:-1], v_KE, settings)
    return replace(result, caption=_caption(result, query, values))


def example(name: ExampleName, settings: Settings | None = None, query: str | None = None) -> PlaygroundResult:
    """scores: q·k is 112 and 96; divided by √64, that is 14 and 12, with softmax 0.88 and 0.12. roles: looks up the role of a
    name, or of another query."""
    settings = settings or Settings()
    if query is not None and name != "roles":
        raise ConfigError(f'the example "{name}" has its own query. Leave the query out, or choose the example roles')
    match name:
        case "scores":
            words = ("Thinking", "Machines")
            k_KD = np.repeat([[1.75], [1.5]], 64, axis=1)  # 64 · 1.75 = 112, 64 · 1.5 = 96
            return _lookup(words[:1], words, words, np.ones((1, 64)), k_KD, np.eye(2), settings)
        case "roles":
            return of_table(ROLES, NAME if query is None else query, settings)
        case _:
            raise ConfigError(f'unknown example "{name}"; expected {" or ".join(EXAMPLES)}')


def read_table(text: str) -> list[tuple[str, str]]:
    """One row per line, "key → value"; "->", "=", a tab or a comma also work as separators. Empty lines are skipped."""
    rows = []
    for n, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        mark = next((mark for mark in ("→", "->", "=", "\t", ",") if mark in line), None)
        if mark is None:
            raise DataError(f'line {n} of the table is "{_short(line)}"; expected a key and a value, such as "Tom → teacher"')
        key, value = line.split(mark, 1)
        rows.append((key.strip(), value.strip()))
    return rows


def drawn(name: str, shape: tuple[int, ...], seed: int) -> Array:
    """Standard normal numbers that depend only on the name and the seed, whatever else is drawn."""
    digest = hashlib.sha256(f"{seed}/{name}".encode("utf-8", "surrogatepass")).digest()
    return np.random.default_rng(int.from_bytes(digest[:16], "little")).normal(size=shape)


def _lookup(
    queries: Sequence[str], keys: Sequence[str], columns: Sequence[str], q_QD: Array, k_KD: Array, v_KE: Array, settings: Settings
) -> PlaygroundResult:
    if settings.projected:
        raise ConfigError("projected only applies to a sentence; a table has its own keys and values. Remove it.")
    H, K = settings.heads, len(keys)
    x_nd = _added(np.concatenate((k_KD, q_QD)), settings)
    q_HQD, k_HKD = _cut(x_nd[K:], H), _cut(x_nd[:K], H)
    v_HKE = np.repeat(v_KE[None], H, axis=0)
    return _computed(queries, keys, columns, q_HQD, k_HKD, v_HKE, settings, q_start=K)


def _computed(
    queries: Sequence[str],
    keys: Sequence[str],
    columns: Sequence[str],
    q_HQD: Array,
    k_HKD: Array,
    v_HKE: Array,
    settings: Settings,
    q_start: int,
) -> PlaygroundResult:
    H, _, D = q_HQD.shape
    in_sentence = q_start == 0  # the values of a table have no positions
    scheme = position.SCHEMES[settings.position]
    placed = scheme.example(H, D, v_HKE.shape[2] if in_sentence else None, _draw(settings))
    if placed == PositionExample() and (scheme.acts_on_scores or scheme.turns):
        placed = scheme_example.inside(settings.position, H, D, len(keys) + len(queries), _draw(settings))
    layer = score.SCORES[settings.score](H, D)
    own = _score_parameters(layer, settings)
    parameters = own | {name: table.numpy() for name, table in placed.tables.items()}
    shape = layer.of_examples({name: torch.from_numpy(x) for name, x in own.items()})
    scale = layer.scale if settings.scale is None else settings.scale
    q, k, v = (torch.from_numpy(np.ascontiguousarray(x)).unsqueeze(0) for x in (q_HQD, k_HKD, v_HKE))
    if placed.turn is not None:
        q, k = position.rotate(q, placed.turn(q_start, q.shape[2])), position.rotate(k, placed.turn(0, k.shape[2]))
    allowed, where = _mask(settings, q_start + q.shape[2]), placed.position
    o_BHQE = attend(
        q, k, v, score=shape, mask=allowed, position=where, scale=scale, q_start=q_start
    )  # raises for invalid combinations
    call = Call(q, k, v, scale, shape, allowed, where, q_start)
    a_BHQK, s_BHQK = _scores(call)
    values_of_steps = (a_BHQK, s_BHQK, s_BHQK.masked_fill(~call.allowed_BHQK(), -torch.inf), weights(call), o_BHQE)
    equations = _equations(settings, layer.equation(placed.key) or _compared(call, placed.key), scale, placed)
    steps = tuple(
        PlaygroundStep(name, equations[name], tuple(columns if name == "sums" else keys), _plain(values))
        for name, values in zip(STEPS, values_of_steps, strict=True)
    )
    return PlaygroundResult(settings, tuple(queries), tuple(keys), q_HQD, k_HKD, v_HKE, parameters, steps)


def _output_equation(heads: int) -> str:
    return "y = W_o o" if heads == 1 else f"y = W_o [o_1 … o_{heads}], of all heads"


def _matrix_panel(name: str, equation: str, W_nm: Array) -> Panel:
    return Panel(name, equation, _numbered(len(W_nm)), _numbered(W_nm.shape[1]), W_nm.tolist(), False)


def _numbered(count: int) -> tuple[str, ...]:
    """The names of dimensions."""
    return tuple(str(n) for n in range(count))


def _largest(arrays: Iterable[Array]) -> float:
    """The largest absolute value that is finite: the end of a colour scale that several figures share."""
    return max((float(np.abs(x[np.isfinite(x)]).max(initial=0.0)) for x in arrays), default=0.0) or 1.0


def _scores(call: Call) -> tuple[Tensor, Tensor]:
    """a(q, k), and scale · a + bias. Shaw's relative keys and disentangled terms are part of the first, a bias of the second."""
    call = call.reduced()
    inside = isinstance(call.position, position.Shaw | position.Disentangled)
    bare = replace(call, scale=1.0, position=call.position if inside else None)
    return reference.scores(bare), reference.scores(call)


def _score_parameters(layer: score.ScoreLayer, settings: Settings) -> dict[str, Array]:
    return {
        name: drawn(name, example.shape, settings.seed) / math.sqrt(example.fan_in) for name, example in layer.examples().items()
    }


def _compared(call: Call, shift: str) -> str:
    """a(q, k) in the operations of the score."""
    from firth.inspection.walk.recorded_attention import recorded_score

    ran = recorded_score(call.reduced(), "q", f"k{shift}")
    return ran.equation(ran.result)


def _mask(settings: Settings, positions: int) -> mask.Mask:
    match settings.mask:
        case "full":
            return mask.FULL
        case "causal":
            return mask.CAUSAL
        case "strictly_causal":
            return mask.STRICTLY_CAUSAL
        case "all_but_self":
            return mask.ALL_BUT_SELF
        case "window":
            return mask.window(settings.limit)
        case "prefix":
            return mask.prefix([settings.limit])
        case "lengths":
            return mask.lengths([settings.limit])
        case "documents":
            return mask.documents((torch.arange(positions) // settings.limit).unsqueeze(0))


def _draw(settings: Settings) -> Draw:
    return lambda name, shape: torch.from_numpy(drawn(name, shape, settings.seed))


def _added(x_Td: Array, settings: Settings) -> Array:
    """x_t + p_t, for position schemes that act on the embedding."""
    T, d = x_Td.shape
    scheme = position.SCHEMES[settings.position]
    p_Td = scheme.example_vectors(T, d, _draw(settings))
    if p_Td is None and scheme.acts_on_embedding():
        return scheme_example.embedded(settings.position, torch.from_numpy(x_Td), _draw(settings)).numpy()
    return x_Td if p_Td is None else x_Td + p_Td.numpy()


def _cut(x_Td: Array, heads: int) -> Array:
    """Split into heads: head h gets dimensions h·D … (h + 1)·D − 1 of each vector."""
    T, d = x_Td.shape
    if d % heads:
        raise ConfigError(f"vectors of dimension {d} cannot be split into {heads} heads; expected a divisor of {d}")
    return x_Td.reshape(T, heads, d // heads).transpose(1, 0, 2)


def _by_word(words: Sequence[str], settings: Settings, vectors: Vectors | None) -> Array:
    """The words of a sentence: as `vectors` has them, or random."""
    if vectors is not None:
        return np.stack([np.asarray(vectors[word], np.float64) for word in words])
    x_Td = np.stack([drawn(f"word {word}", (settings.width,), settings.seed) for word in words])
    # Equal lengths: then no key has a larger q·k with a query than the key that equals it.
    x_Td *= math.sqrt(settings.width) / np.linalg.norm(x_Td, axis=1, keepdims=True)
    return x_Td


def _comparable(words: Sequence[str], vectors: Vectors | None) -> Array:
    """Keys and query as vectors of equal length, so that the cosine alone decides how well they match."""
    if vectors is None:
        return spelling_vectors(words)
    return of_equal_length(np.stack([np.asarray(vectors[word], np.float64) for word in words]))


def _caption(result: PlaygroundResult, query: str, values: Sequence[str]) -> str:
    """A sentence on the weights of a query, averaged over the heads: an exact match, an approximate one, or a flat mixture."""
    p_K, allowed = result.weights[:, 0].mean(0), int(np.isfinite(result.step("masked")[0, 0]).sum())
    if not allowed:
        return f'"{query}" may not attend to any key, so the result is 0.'
    best = int(p_K.argmax())
    largest = f"the largest weight is {p_K[best]:.2f}, for {result.keys[best]} → {values[best]}."
    if query.casefold() in {key.casefold() for key in result.keys}:
        return f'"{query}" is one of the keys: {largest}'
    if allowed == 1:
        return f'"{query}" is not a key. It may attend to one key only, {result.keys[best]}, which gets all the weight.'
    seen, most = p_K[p_K > 0], math.log(allowed)
    entropy = float(-(seen * np.log(seen)).sum())
    if entropy > _FLAT * most:
        return (
            f'"{query}" is not a key, and no key stands out: the entropy of the weights is {entropy:.2f} of at most {most:.2f}. '
            "The result is close to the mean of the values."
        )
    return f'"{query}" is not a key. Approximate match: {largest}'


def _values(values: Sequence[str]) -> tuple[Array, tuple[str, ...]]:
    """Numbers as they are; words as one-hot vectors, one axis per distinct word."""
    numbers = _numbers(values, "values")
    if numbers is not None:
        return numbers, tuple(f"{n}" for n in range(numbers.shape[1]))
    kinds = tuple(dict.fromkeys(values))
    return np.eye(len(kinds))[[kinds.index(value) for value in values]], kinds


def _numbers(cells: Sequence[str], what: str) -> Array | None:
    """A vector for each cell; None if the cells are words."""
    vectors = [_vector(cell) for cell in cells]
    given = [vector for vector in vectors if vector is not None]
    if not given:
        return None
    widths = sorted({len(vector) for vector in given})
    if len(given) < len(cells) or len(widths) > 1 or widths[0] > WIDEST:
        words = [cell for cell, vector in zip(cells, vectors, strict=True) if vector is None]
        mixed = f'"{_short(words[0])}" among numbers' if words else f"{' and '.join(map(str, widths))} numbers"
        raise DataError(f"the {what} have {mixed}; expected only words, or equally many numbers in each, at most {WIDEST:,}")
    return np.array(given)


def _vector(cell: str) -> list[float] | None:
    try:
        numbers = [float(part) for part in cell.replace(",", " ").split()]
    except ValueError:
        return None
    return numbers if all(map(math.isfinite, numbers)) else None


def _equations(settings: Settings, compared: str, scale: float, placed: PositionExample) -> dict[str, str]:
    scaled = f"{settings.scale:g} · a" if settings.scale is not None else "a" if scale == 1 else f"a / {_root(1 / scale)}"
    return {
        "scores": f"a = {placed.whole.format(compared)}{placed.turned}",
        "scaled": f"s = {scaled}{placed.bias}",
        "masked": f"m = s{_rule(settings)}",
        "weights": "p = exp m / Σ exp m, along each row",
        "sums": f"o = Σ p (v{placed.value})" if placed.value else "o = Σ p v",
    }


def _root(x: float) -> str:
    return f"√{round(x * x)}" if math.isclose(x * x, round(x * x)) else f"{x:g}"


def _rule(settings: Settings) -> str:
    n = settings.limit
    rules: dict[MaskName, str] = {
        "full": ": no mask",
        "causal": " where k ≤ q, else −∞",
        "strictly_causal": " where k < q, else −∞",
        "all_but_self": " where k ≠ q, else −∞",
        "window": f" where q − {n} < k ≤ q, else −∞",
        "prefix": f" where k ≤ q or k < {n}, else −∞",
        "lengths": f" where k < {n}, else −∞: later keys are padding",
        "documents": f" where q and k are in the same document of {n}, else −∞",
    }
    return rules[settings.mask]


def _refuse_count(has: str, things: str, count: int) -> None:
    if not count:
        raise DataError(f"{has} no {things}; expected 1 to {MOST}")
    if count > MOST:
        raise DataError(f"{has} {count:,} {things}; expected at most {MOST}")


def _short(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:39]}…"


def _plain(x_1HQn: Tensor) -> Array:
    return cast(Array, x_1HQn[0].numpy())
