"""The pictures of docs/: every number is computed by firth, drawn by `firth.figures`, written to docs/pictures/*.svg.

    pip install '.[docs]'          # kaleido, which needs a Chrome or Chromium
    python docs/make_pictures.py [--runs FOLDER] [--looks FOLDER] [--in-context FOLDER] [--vectors FILE] [--captions RUN]
        [name …]

A picture carries the digest of the numbers it was drawn from; a test compares that with the numbers of today's code. What takes
minutes of training is measured once, with `--runs`, on the runs dates-rnnenc, dates-rnnsearch and dates-transformer in FOLDER,
and kept in docs/numbers/; docs/seq2seq.md has the commands that make those runs. So it is with `--looks` and the runs
docs-char-transformer and docs-char-lstm of docs/looking.md, with `--in-context` and the four icl runs of docs/in-context.md, with
`--vectors` and vectors trained by `firth vectors train wiki8 --seed 1`, and with `--captions` and the run scenes-lstm.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from firth.api import load
from firth.figures import masks_and_positions as draw
from firth.figures.alignment import alignment_map
from firth.figures.attention import HeadFacts, attention_overview
from firth.figures.figure import COLOURS, DASHES, DIVERGING, WRITTEN, Figure, Number, Table
from firth.figures.gradient_flow import flow_by_distance
from firth.figures.image_attention import overlay_figure, png
from firth.figures.in_context import Measure, score_by_examples
from firth.figures.lengths import LengthBucket, score_by_length
from firth.figures.predictions import surprisal_strip
from firth.figures.states import states_map
from firth.figures.word_map import axis_plane
from firth.inspection.gradient_flow import compare_flow, flows_figure
from firth.layers.attention import mask
from firth.layers.attention.call import Call
from firth.layers.position import alibi, rotary, shaw, sinusoid
from firth.layers.position.t5 import bucket
from firth.tasks.captioning import CaptionerRun
from firth.text.datasets.scenes import scenes
from firth.vectors import load as load_vectors

FOLDER = Path(__file__).resolve().parent / "pictures"
DATES = FOLDER.parent / "numbers" / "dates.json"
IN_CONTEXT = FOLDER.parent / "numbers" / "in-context.json"
CAPTION = FOLDER.parent / "numbers" / "caption.json"
CAPTIONED = 8  # the number of the test scene in the picture
WORD_AXES = FOLDER.parent / "numbers" / "word-axes.json"
LEARNERS = {"Transformer": "", "LSTM": "-lstm"}  # what the names of their runs end in
TRANSLATORS = {"RNNenc": "dates-rnnenc", "RNNsearch": "dates-rnnsearch", "Transformer": "dates-transformer"}
ALIGNED = "samedi 14 novembre 2026"
LOOKS = FOLDER.parent / "numbers" / "looking.json"
LOOKED_AT = "Return the number of items in the list."


def score_by_distance(distances: Sequence[int], scores: Mapping[int, Sequence[float]]) -> Figure:
    """Rotary: the score of one q and one k against their distance, for several query positions. The first is drawn as a line,
    the others as open markers on it."""
    import plotly.graph_objects as go

    plot = go.Figure()
    for n, (place, score) in enumerate(scores.items()):
        name, colour = f"query at position {place:,}", COLOURS[n % len(COLOURS)]
        if n == 0:
            plot.add_scatter(x=list(distances), y=list(score), mode="lines", name=name, line={"color": colour})
        else:  # only every few points: touching markers would hide the line
            marker = {
                "color": colour,
                "symbol": f"{('circle', 'square', 'diamond')[n % 3]}-open",
                "size": 8,
                "line": {"width": 2},
            }
            some = slice(4 * (n - 1), None, 8)
            plot.add_scatter(x=list(distances[some]), y=list(score[some]), mode="markers", name=name, marker=marker)
    plot.update_xaxes(title_text="distance q − k")
    plot.update_yaxes(title_text="score q·k / √D after rotation")
    draw.dress(plot, "Rotary positions: the score depends only on the distance, not on the position", 760, 420)
    rows = [
        (Number(place), Number(distance), Number(value, "z.3f"))
        for place, score in scores.items()
        for distance, value in zip(distances, score, strict=True)
    ]
    return Figure(plot, Table(("query at", "distance", "score"), rows))


def bucket_by_distance(distances: Sequence[int], buckets: Mapping[str, Sequence[int]]) -> Figure:
    """T5: the bucket of each distance k − q, one staircase per bucketing scheme."""
    import plotly.graph_objects as go

    plot = go.Figure()
    for n, (name, steps) in enumerate(buckets.items()):
        line = {"color": COLOURS[n % len(COLOURS)], "dash": DASHES[2 * n % len(DASHES)], "shape": "hvh", "width": 2.5}
        plot.add_scatter(x=list(distances), y=list(steps), mode="lines", name=name, line=line)
    plot.update_xaxes(title_text="distance k − q (negative: the key is before the query)")
    plot.update_yaxes(title_text="bucket")
    draw.dress(plot, "T5: small distances have their own buckets, larger ones share increasingly wide buckets", 760, 420)
    rows = [
        (name, Number(distance), Number(number))
        for name, bucket in buckets.items()
        for distance, number in zip(distances, bucket, strict=True)
    ]
    return Figure(plot, Table(("buckets", "distance", "bucket"), rows))


def bias_by_distance(distances: Sequence[int], slopes: Sequence[float], bias_HR: Sequence[Sequence[float]]) -> Figure:
    """ALiBi: the bias that each head adds to the score at each distance, and the resulting factor of the weight."""
    from plotly.colors import sample_colorscale
    from plotly.subplots import make_subplots

    titles = ("bias added to the score", "factor of the weight, before normalisation")
    plot = make_subplots(1, 2, subplot_titles=titles, horizontal_spacing=0.1)
    # Dark to light on a perceptually uniform scale: the heads are ordered, so their colours are too.
    colours = sample_colorscale("Cividis", [0.9 * n / max(1, len(slopes) - 1) for n in range(len(slopes))])
    for n, (slope, bias) in enumerate(zip(slopes, bias_HR, strict=True)):
        line = {"color": colours[n], "dash": DASHES[n % len(DASHES)], "width": 2}
        style = {"mode": "lines", "line": line, "name": f"head {n + 1}: 1/{1 / slope:.3g}", "legendgroup": f"{n}"}
        plot.add_scatter(x=list(distances), y=list(bias), **style, row=1, col=1)
        plot.add_scatter(x=list(distances), y=[math.exp(value) for value in bias], **style, showlegend=False, row=1, col=2)
    plot.update_xaxes(title_text="distance k − q")
    plot.update_yaxes(title_text="bias", row=1, col=1)
    plot.update_yaxes(title_text="e to the bias", rangemode="tozero", row=1, col=2)
    plot.update_annotations(font_size=13)
    draw.dress(plot, "ALiBi: weight falls with distance; the first heads see only close tokens, the last nearly all", 920, 420)
    plot.update_layout(legend={"title": {"text": "head: slope"}, "orientation": "v", "x": 1.02, "y": 1, "itemwidth": 45})
    rows = [
        (Number(n), Number(slope, ".6g"), Number(distance), Number(value, "z.4f"))
        for n, (slope, bias) in enumerate(zip(slopes, bias_HR, strict=True))
        for distance, value in zip(distances, bias, strict=True)
    ]
    return Figure(plot, Table(("head", "slope", "distance", "bias"), rows))


def index_by_pair(index_QK: Sequence[Sequence[int]]) -> Figure:
    """Shaw: the table row that each pair of query and key uses, written into its cell."""
    import plotly.graph_objects as go

    last = max(max(row) for row in index_QK)
    z = [list(row) for row in index_QK]
    cells = go.Heatmap(
        z=z,
        text=z,
        texttemplate="%{text}",
        textfont=WRITTEN,
        colorscale=DIVERGING,
        zmin=0,
        zmax=last,
        showscale=False,
        xgap=2,
        ygap=2,
    )
    plot = go.Figure(cells)
    plot.update_xaxes(**draw.cells(len(z[0]), "key")).update_yaxes(**draw.cells(len(z), "query"), autorange="reversed")
    draw.dress(
        plot, f"Shaw: {last + 1} table rows cover all pairs;<br>distances beyond {last // 2} share the outermost rows", 500, 500
    )
    rows = [(Number(q), Number(k), Number(index)) for q, row in enumerate(index_QK) for k, index in enumerate(row)]
    return Figure(plot, Table(("query", "key", "row of the tables"), rows))


def masks() -> Figure:
    """Eight positions; of masks that differ by row, the one row of the batch."""
    documents = mask.documents(torch.tensor([[0, 0, 0, 1, 1, 1, 2, 2]]))
    named = {
        ("FULL", "every key"): mask.FULL,
        ("CAUSAL", "k ≤ q"): mask.CAUSAL,
        ("STRICTLY_CAUSAL", "k < q"): mask.STRICTLY_CAUSAL,
        ("ALL_BUT_SELF", "k ≠ q"): mask.ALL_BUT_SELF,
        ("window(3)", "q − 3 < k ≤ q"): mask.window(3),
        ("lengths([5])", "k < 5"): mask.lengths(torch.tensor([5])),
        ("documents & CAUSAL", "own document, k ≤ q"): documents & mask.CAUSAL,
        ("prefix([3])", "k ≤ q or k < 3"): mask.prefix(torch.tensor([3])),
    }
    return draw.mask_grids([draw.MaskGrid(name, rule, allowed(one, 8)) for (name, rule), one in named.items()])


def allowed(one: mask.Mask, length: int) -> list[list[bool]]:
    x_11TD = torch.zeros(1, 1, length, 1)
    call = Call(x_11TD, x_11TD, x_11TD, scale=1.0, mask=one)
    return call.allowed_BHQK().expand(1, 1, length, length)[0, 0].tolist()


def positions_sinusoid() -> Figure:
    position_T = torch.arange(64)
    bit_Tn = position_T.unsqueeze(-1) >> torch.arange(6) & 1
    return draw.sinusoid_beside_counting(sinusoid(position_T, 32).tolist(), bit_Tn.tolist())


def positions_rotary() -> Figure:
    """q and k all ones, 64 wide: what matters is that they are the same at every distance."""
    distance_R = torch.arange(0, 129)
    scores = {place: rotary_score(place, distance_R).tolist() for place in (128, 1_000, 100_000)}
    return score_by_distance(distance_R.tolist(), scores)


def rotary_score(place: int, distance_R: Tensor) -> Tensor:
    one_11RD = torch.ones(1, 1, len(distance_R), 64, dtype=torch.float64)
    q_11RD = rotary().turned(one_11RD, torch.full((1, len(distance_R)), place))
    k_11RD = rotary().turned(one_11RD, (place - distance_R).unsqueeze(0))
    return (q_11RD * k_11RD).sum(-1).flatten() / 64**0.5


def positions_t5() -> Figure:
    distance_R = torch.arange(-160, 161)
    ways = {"causal, 32 buckets for the keys before": False, "both ways, 16 buckets each": True}
    return bucket_by_distance(
        distance_R.tolist(), {name: bucket(distance_R, 32, both, 128).tolist() for name, both in ways.items()}
    )


def positions_alibi() -> Figure:
    distance_R, of_8_heads = torch.arange(-64, 65), alibi(8)
    bias_1H1R = of_8_heads.bias_BHQK(distance_R.view(1, 1, 1, -1))
    return bias_by_distance(distance_R.tolist(), of_8_heads.slope_H.tolist(), bias_1H1R[0, :, 0].tolist())


def positions_shaw() -> Figure:
    position_T = torch.arange(12)
    distance_11QK = (position_T - position_T.unsqueeze(-1)).view(1, 1, 12, 12)
    return index_by_pair(shaw(torch.zeros(9, 1)).index_BHQK(distance_11QK)[0, 0].tolist())


def dates_by_length() -> Figure:
    """Exact match of three short trainings by the length of the source, on days that were not in training."""
    measured = {name: [LengthBucket(**bucket) for bucket in one["buckets"]] for name, one in _dates()["models"].items()}
    return score_by_length(measured, "exact", "characters")


def dates_alignment() -> Figure:
    """Where RNNsearch looks while it writes ALIGNED in ISO 8601."""
    found = _dates()["alignment"]
    return alignment_map(found["source"], found["target"], {"α": found["weights"]})


def _dates() -> Any:
    return json.loads(DATES.read_text(encoding="utf-8"))


def measure_dates(runs: Path) -> None:
    """What `firth evaluate` and `firth align` say of the three runs, to the digits that a picture shows."""
    models = {name: load(runs / run) for name, run in TRANSLATORS.items()}
    measured = {name: model.evaluate(split="test") for name, model in models.items()}
    aligned = models["RNNsearch"].align(ALIGNED)
    numbers = {
        "models": {
            name: {key: _rounded(one[key]) for key in ("sentences", "exact", "bleu", "chrf", "buckets")}
            for name, one in measured.items()
        },
        "alignment": {"source": aligned.source, "target": aligned.target, "weights": _rounded(aligned.best.tolist())},
    }
    DATES.parent.mkdir(exist_ok=True)
    DATES.write_text(json.dumps(numbers, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def flow() -> Figure:
    """Four fresh models of about 40,000 parameters, random texts of 100 tokens."""
    return flows_figure(compare_flow(texts=4))


def flow_exploding() -> Figure:
    """The same with a U four times as large, and what clipping does to it."""
    wild = compare_flow(["rnn", "lstm"], texts=4, gain=4.0)
    curves = {"rnn": wild["rnn"].state, "rnn, clipped at 1": wild["rnn"].clipped(1.0).state, "lstm": wild["lstm"].state}
    return flow_by_distance(curves, "gradient of the last token's loss, U four times as large")


def attention_heads() -> Figure:
    """Every head of a small Transformer that reads LOOKED_AT."""
    found = _looks()["attention"]
    facts = [HeadFacts(*one) for one in found["facts"]]
    return attention_overview(list(range(len(found["thumbnails"]))), found["thumbnails"], facts)


def surprisal() -> Figure:
    """What the same model did not expect."""
    found = _looks()["surprisal"]
    return surprisal_strip(*(found[name] for name in ("tokens", "surprisal", "probability", "rank", "entropy", "top")))


def states() -> Figure:
    """What units of an LSTM hold meanwhile."""
    found = _looks()["states"]
    return states_map(found["tokens"], found["units"], found["h"], "LSTM: h of the units that react most", "h")


def _looks() -> Any:
    return json.loads(LOOKS.read_text(encoding="utf-8"))


def measure_looks(runs: Path) -> None:
    """What `firth inspect` says of two runs, to the digits that a picture shows."""
    model, level = load(runs / "docs-char-transformer"), load(runs / "docs-char-lstm").states(LOOKED_AT).levels[0]
    seen, found = model.attention(LOOKED_AT), model.predictions(LOOKED_AT, top=3)
    facts = [
        (layer, head, *(float(of_rows[head].mean()) for of_rows in seen.rows(layer)))
        for layer in seen.layers
        for head in range(seen.heads)
    ]
    most = level.most(20)
    numbers = {
        "attention": {"thumbnails": seen.thumbnails(20).round(3).tolist(), "facts": facts},
        "surprisal": {name: getattr(found, name).tolist() for name in ("surprisal", "probability", "rank", "entropy")}
        | {"tokens": found.tokens, "top": found.top},
        "states": {"tokens": level.tokens, "units": most, "h": level.h[:, most].T.round(3).tolist()},
    }
    LOOKS.write_text(json.dumps(_rounded(numbers), ensure_ascii=False) + "\n", encoding="utf-8")


def in_context_swaps() -> Figure:
    """Accuracy against the number of examples, on permutations that were not in training."""
    return _in_context("icl-swap", "accuracy")


def in_context_linear() -> Figure:
    return _in_context("icl-regression", "squared_error")


def _in_context(recipe: str, measure: Measure) -> Figure:
    return score_by_examples(json.loads(IN_CONTEXT.read_text(encoding="utf-8"))[recipe], measure)


def measure_in_context(runs: Path) -> None:
    """What `firth evaluate` says of the four runs, to the digits that a picture shows."""
    numbers = {
        recipe: {name: _rounded(load(runs / f"{recipe}{end}").evaluate()["by_examples"]) for name, end in LEARNERS.items()}
        for recipe in ("icl-swap", "icl-regression")
    }
    IN_CONTEXT.write_text(json.dumps(numbers, indent=1) + "\n", encoding="utf-8")


def word_axes() -> Figure:
    """Occupations and other words between he and she, and between unpleasant and pleasant words."""
    numbers = json.loads(WORD_AXES.read_text(encoding="utf-8"))
    first, second = numbers["axes"]
    figure = axis_plane(list(numbers["words"]), list(numbers["words"].values()), (first, second))
    figure.plot.update_layout(height=560)
    return figure


def measure_word_axes(file: Path) -> None:
    """The places of some words on two axes."""
    vectors = load_vectors(file)
    axes = [
        vectors.axis(["she", "her", "woman", "female"], ["he", "his", "man", "male"]),
        vectors.axis(
            ["good", "happy", "love", "beautiful", "pleasant", "joy"], ["bad", "sad", "hate", "ugly", "unpleasant", "misery"]
        ),
    ]
    words = "nurse dancer singer doctor lawyer teacher soldier philosopher engineer physicist general wedding birthday"
    chosen = f"{words} war prison disease poison murder".split()
    places = {word: [axis[word] for axis in axes] for word in chosen}
    numbers = {"axes": ["he … she", "unpleasant … pleasant"], "words": places}
    WORD_AXES.write_text(json.dumps(_rounded(numbers), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def caption_overlay() -> Figure:
    """A test scene, and where each word of its caption attends."""
    numbers = json.loads(CAPTION.read_text(encoding="utf-8"))
    image = scenes(CAPTIONED + 1, "test").image_NHWC[CAPTIONED]
    return overlay_figure(image, numbers["words"], np.array(numbers["weights"]))


def measure_caption(run: Path) -> None:
    image = scenes(CAPTIONED + 1, "test").image_NHWC[CAPTIONED]
    seen = load(run, "cpu", kind=CaptionerRun).overlay(image)
    numbers = {"words": list(seen.words), "weights": seen.best.tolist()}
    CAPTION.write_text(json.dumps(_rounded(numbers), ensure_ascii=False) + "\n", encoding="utf-8")


def some_scenes() -> Figure:
    """Six test scenes with their captions."""
    from plotly.subplots import make_subplots

    found, across = scenes(16, "test"), 3
    chosen = (0, 2, 5, 8, 9, 10)
    titles = [found.captions[n].replace(" a small", "<br>a small") for n in chosen]
    plot = make_subplots(2, across, subplot_titles=titles, horizontal_spacing=0.03, vertical_spacing=0.16)
    for place, n in enumerate(chosen):
        source = "data:image/png;base64," + base64.b64encode(png(found.image_NHWC[n])).decode()
        plot.add_image(source=source, row=place // across + 1, col=place % across + 1)
    plot.update_xaxes(visible=False).update_yaxes(visible=False).update_annotations(font_size=12)
    plot.update_layout(template="plotly_white", width=620, height=460, margin={"l": 10, "r": 10, "t": 50, "b": 10})
    return Figure(plot, Table(("scene", "caption"), [(str(n), found.captions[n]) for n in chosen]))


def _rounded(numbers: Any) -> Any:
    match numbers:
        case dict():
            return {key: _rounded(value) for key, value in numbers.items()}
        case list() | tuple():
            return [_rounded(value) for value in numbers]
        case float():
            return round(numbers, 4)
    return numbers


PICTURES: dict[str, Callable[[], Figure]] = {
    "masks": masks,
    "sinusoid": positions_sinusoid,
    "rotary": positions_rotary,
    "t5": positions_t5,
    "alibi": positions_alibi,
    "shaw": positions_shaw,
    "dates-by-length": dates_by_length,
    "dates-alignment": dates_alignment,
    "in-context-swaps": in_context_swaps,
    "in-context-linear": in_context_linear,
    "flow": flow,
    "flow-exploding": flow_exploding,
    "attention-heads": attention_heads,
    "surprisal": surprisal,
    "states": states,
    "word-axes": word_axes,
    "scenes": some_scenes,
    "caption-overlay": caption_overlay,
}


def digest(figure: Figure) -> str:
    """Of the numbers, not of the drawing: another version of Plotly may draw them differently."""
    numbers = json.dumps([list(figure.table.headings), *map(list, figure.table.rows)], ensure_ascii=False)
    return hashlib.sha256(numbers.encode()).hexdigest()


def digest_in(path: Path) -> str | None:
    found = re.search(r"<!-- numbers: (\w+) -->", path.read_text(encoding="utf-8"))
    return found[1] if found else None


def write(name: str, folder: Path = FOLDER) -> Path:
    figure, path = PICTURES[name](), folder / f"{name}.svg"
    svg = figure.plot.to_image(format="svg").decode()
    # Plotly draws the names of its parts at random; by their order, the same numbers give the same file.
    for n, uid in enumerate(dict.fromkeys(re.findall(r"(?:clip|defs-|legend|trace|cb)([0-9a-f]{6})", svg))):
        svg = svg.replace(uid, f"{name}{n}")
    # A heatmap is a picture of its own, one dot per pixel: it must not be smoothed where a screen or a reader enlarges it.
    svg = re.sub(r'(<image [^>]*style=")', r"\1image-rendering: pixelated; ", svg)
    # An image that a figure shows several times is drawn anew each time, four times as large; the original will do.
    drawn = Counter(re.findall(r'href="(data:image/png[^"]*)"', svg))
    if drawn and drawn.most_common(1)[0][1] > 1:
        svg = svg.replace(drawn.most_common(1)[0][0], next(trace.source for trace in figure.plot.data if trace.type == "image"))
    svg = re.sub(r"(fill|stroke)-opacity: 1;\s?", "", svg)  # the default, written out on every mark
    path.write_text(f"{svg}\n<!-- numbers: {digest(figure)} -->\n", encoding="utf-8")
    return path


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Draw the pictures of docs/.")
    parser.add_argument("names", nargs="*", metavar="name", help=f"of {', '.join(PICTURES)}; all where none is given")
    parser.add_argument("--runs", type=Path, help="a folder of the dates runs, to measure them anew")
    parser.add_argument("--looks", type=Path, help="a folder of docs-char-transformer and docs-char-lstm, to look at them anew")
    parser.add_argument("--in-context", type=Path, help="a folder of icl-swap, icl-regression and their -lstm, to measure anew")
    parser.add_argument("--vectors", type=Path, help="a file of vectors trained on wiki8, to place words on axes anew")
    parser.add_argument("--captions", type=Path, help="the run scenes-lstm, to look at it anew")
    given = parser.parse_args()
    if given.captions is not None:
        measure_caption(given.captions)
    if given.vectors is not None:
        measure_word_axes(given.vectors)
    if given.in_context is not None:
        measure_in_context(given.in_context)
    if given.looks is not None:
        measure_looks(given.looks)
    if given.runs is not None:
        measure_dates(given.runs)
    for name in given.names or PICTURES:
        print(write(name))
