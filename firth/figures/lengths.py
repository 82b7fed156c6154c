"""Translation quality by source length, one line per model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from firth.figures.figure import LEGEND_BELOW, Figure, Number, Table, escaped, lay_out, line_style

_NAMES = {"bleu": "BLEU", "exact": "exact match, %"}


@dataclass(frozen=True)
class LengthBucket:
    """The sentences whose source has `shortest` to `longest` tokens, inclusive."""

    shortest: int
    longest: int
    sentences: int
    bleu: float | None  # None if no reference has four tokens: even the references would score 0
    exact: float


def score_by_length(
    models: Mapping[str, Sequence[LengthBucket]], measure: Literal["bleu", "exact"] = "bleu", unit: str = "tokens"
) -> Figure:
    """Bahdanau et al. 2015, figure 2, with BLEU or exact match; `unit` is the unit of length. A missing score leaves a gap."""
    import plotly.graph_objects as go

    plot = go.Figure()
    for n, (name, buckets) in enumerate(models.items()):
        line = line_style(n)
        plot.add_scatter(
            x=[_label(bucket) for bucket in buckets],
            y=[_score(bucket, measure) for bucket in buckets],
            mode="lines+markers",
            name=escaped(name),  # Plotly interprets <b> and similar as markup
            line=line,
            marker={"color": line["color"], "size": 8},
            text=[f"{bucket.sentences:,} sentences" for bucket in buckets],
        )
    every = sorted((bucket for buckets in models.values() for bucket in buckets), key=lambda one: (one.shortest, one.longest))
    # Explicit categories: Plotly would treat "11–20" as text, but a single length such as "7" as a number.
    plot.update_xaxes(type="category", categoryorder="array", categoryarray=list(dict.fromkeys(map(_label, every))))
    plot.update_xaxes(title_text=escaped(f"source length, {unit}"))
    plot.update_yaxes(title_text=_NAMES[measure], rangemode="tozero")
    lay_out(plot, (60, 20, 20, 60), showlegend=True, legend=LEGEND_BELOW, height=460)
    rows = []
    for name, buckets in models.items():
        for bucket in buckets:
            score = _score(bucket, measure)
            shown = "–" if score is None else Number(score, ".2f")
            rows.append((name, _label(bucket), Number(bucket.sentences), shown))
    return Figure(plot, Table(("model", f"source length, {unit}", "sentences", _NAMES[measure]), rows))


def _score(bucket: LengthBucket, measure: Literal["bleu", "exact"]) -> float | None:
    return bucket.bleu if measure == "bleu" else 100 * bucket.exact


def _label(bucket: LengthBucket) -> str:
    return f"{bucket.shortest}" if bucket.shortest == bucket.longest else f"{bucket.shortest}–{bucket.longest}"
