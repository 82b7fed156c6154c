"""Translation quality by source length, one line per model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, Protocol

from firth.figures.figure import COLOURS, DASHES, Figure, Number, Table, escaped

_NAMES = {"bleu": "BLEU", "exact": "exact match, %"}


class Bucket(Protocol):
    """The scores of the sentences whose source has `shortest` to `longest` tokens."""

    @property
    def shortest(self) -> int: ...
    @property
    def longest(self) -> int: ...
    @property
    def sentences(self) -> int: ...
    @property
    def bleu(self) -> float | None: ...
    @property
    def exact(self) -> float: ...


def score_by_length(
    models: Mapping[str, Sequence[Bucket]], measure: Literal["bleu", "exact"] = "bleu", unit: str = "tokens"
) -> Figure:
    """Bahdanau et al. 2015, figure 2, with BLEU or exact match; `unit` is the unit of length. A missing score leaves a gap."""
    import plotly.graph_objects as go

    plot = go.Figure()
    for n, (name, buckets) in enumerate(models.items()):
        colour = COLOURS[n % len(COLOURS)]
        plot.add_scatter(
            x=[_label(bucket) for bucket in buckets],
            y=[_score(bucket, measure) for bucket in buckets],
            mode="lines+markers",
            name=escaped(name),  # Plotly interprets <b> and similar as markup
            line={"color": colour, "dash": DASHES[n % len(DASHES)]},
            marker={"color": colour, "size": 8},
            text=[f"{bucket.sentences:,} sentences" for bucket in buckets],
        )
    every = sorted((bucket for buckets in models.values() for bucket in buckets), key=lambda one: (one.shortest, one.longest))
    plot.update_layout(
        template="plotly_white",
        # Explicit categories: Plotly would treat "11–20" as text, but a single length such as "7" as a number.
        xaxis={"type": "category", "categoryorder": "array", "categoryarray": list(dict.fromkeys(map(_label, every)))},
        xaxis_title=escaped(f"source length, {unit}"),
        yaxis={"title": {"text": _NAMES[measure]}, "rangemode": "tozero"},
        showlegend=True,
        legend={"orientation": "h", "y": -0.2},
        margin={"l": 60, "r": 20, "t": 20, "b": 60},
        height=460,
    )
    rows = [
        (
            name,
            _label(bucket),
            Number(bucket.sentences),
            "–" if (score := _score(bucket, measure)) is None else Number(score, ".2f"),
        )
        for name, buckets in models.items()
        for bucket in buckets
    ]
    return Figure(plot, Table(("model", f"source length, {unit}", "sentences", _NAMES[measure]), rows))


def _score(bucket: Bucket, measure: Literal["bleu", "exact"]) -> float | None:
    return bucket.bleu if measure == "bleu" else 100 * bucket.exact


def _label(bucket: Bucket) -> str:
    return f"{bucket.shortest}" if bucket.shortest == bucket.longest else f"{bucket.shortest}–{bucket.longest}"
