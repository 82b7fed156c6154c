"""A beam search as a tree: hypotheses from left to right, with those that the beam kept, ended or dropped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from firth.figures.alignment import visible
from firth.figures.figure import COLOURS, Figure, Number, Table, escaped, lay_out

Outcome = Literal["kept", "ended", "dropped"]
_ROW, _COLUMN = 34, 92  # pixels
# Told apart by shape and dashes as well as by colour.
_SYMBOLS: dict[Outcome, str] = {"kept": "circle", "ended": "square", "dropped": "x-thin-open"}
_COLOURS: dict[Outcome, str] = {"kept": COLOURS[0], "ended": COLOURS[2], "dropped": COLOURS[1]}
_MARKS: dict[Outcome, str] = {"kept": "○", "ended": "■", "dropped": "✕"}


@dataclass(frozen=True)
class BeamNode:
    """A hypothesis: the tokens from the root to this node. The root has none."""

    parent: int | None  # the number of the node that it continues
    token: str
    token_log_probability: float  # log p(token | tokens before it)
    log_probability: float  # Σ log p from the root to here, of the model
    score: float  # what the search would rank it by if it ended here
    text: str  # so far
    outcome: Outcome  # "kept": it went on; "ended": a finished text, or one cut off at the limit; "dropped": not among the best


@dataclass(frozen=True)
class BeamResult:
    """One of the texts that the search found."""

    node: int  # where it ends
    text: str
    log_probability: float
    score: float
    finished: bool  # False: cut off at decoding.tokens


def beam_figure(nodes: Sequence[BeamNode], results: Sequence[BeamResult]) -> Figure:
    """A node for each hypothesis with its last token and Σ log p; the texts that were found are numbered by their rank."""
    import plotly.graph_objects as go

    place = _places(nodes)
    rank = {one.node: n for n, one in enumerate(results, start=1)}
    plot = go.Figure()
    for dropped in (False, True):
        ends = [(n, node.parent) for n, node in enumerate(nodes) if node.parent is not None]
        drawn = [pair for pair in ends if (nodes[pair[0]].outcome == "dropped") == dropped]
        line = {"color": "#777777", "width": 1, "dash": "dot" if dropped else "solid"}
        x, y = ([value for n, parent in drawn for value in (place[parent][k], place[n][k], None)] for k in (0, 1))
        plot.add_scatter(x=x, y=y, mode="lines", line=line, hoverinfo="skip", showlegend=False)
    for outcome, symbol in _SYMBOLS.items():
        some = [n for n, node in enumerate(nodes) if node.outcome == outcome and node.parent is not None]
        plot.add_scatter(
            x=[place[n][0] for n in some],
            y=[place[n][1] for n in some],
            mode="markers+text",
            name=outcome,
            marker={"symbol": symbol, "size": 9, "color": _COLOURS[outcome], "line": {"color": _COLOURS[outcome], "width": 2}},
            text=[_label(nodes[n], rank.get(n)) for n in some],
            textposition="top center",
            hovertext=[_hover(nodes[n]) for n in some],
            hoverinfo="text",
        )
    rows, columns = (1 + max(values) for values in ([y for _, y in place], [x for x, _ in place]))
    plot.update_xaxes(title="tokens", showgrid=False, zeroline=False)
    plot.update_yaxes(visible=False, autorange="reversed")
    lay_out(plot, (20, 20, 40, 50), 160 + _COLUMN * columns, 140 + _ROW * rows)
    return Figure(plot, beam_table(nodes, results))


def beam_table(nodes: Sequence[BeamNode], results: Sequence[BeamResult]) -> Table:
    rank = {one.node: Number(n) for n, one in enumerate(results, start=1)}
    rows: list[tuple[str, ...]] = []
    for n, node in enumerate(nodes):
        if node.parent is not None:
            log_p = (Number(value, ".4f") for value in (node.token_log_probability, node.log_probability, node.score))
            rows.append((Number(n), Number(node.parent), visible(node.token), *log_p, node.outcome, rank.get(n, ""), node.text))
    return Table(("node", "parent", "token", "log p of the token", "log p", "score", "outcome", "rank", "text"), rows)


def beam_text(nodes: Sequence[BeamNode], results: Sequence[BeamResult]) -> str:
    """The tree for a terminal: a line for each hypothesis, indented by its number of tokens."""
    rank, lines = {one.node: n for n, one in enumerate(results, start=1)}, []
    for n, depth in _walk(nodes):
        node, ranked = nodes[n], f"  {rank[n]}. {nodes[n].text}" if n in rank else ""
        lines.append(f"{'  ' * (depth - 1)}{_MARKS[node.outcome]} {visible(node.token)} {node.log_probability:.2f}{ranked}")
    return "\n".join([*lines[1:], "", ", ".join(f"{mark} {outcome}" for outcome, mark in _MARKS.items())])


def _walk(nodes: Sequence[BeamNode]) -> Iterator[tuple[int, int]]:
    """Each node with its depth, a parent before its children."""
    children: dict[int | None, list[int]] = {}
    for n, node in enumerate(nodes):
        children.setdefault(node.parent, []).append(n)
    waiting = [(0, 0)]
    while waiting:
        n, depth = waiting.pop()
        yield n, depth
        waiting.extend((child, depth + 1) for child in reversed(children.get(n, [])))


def _places(nodes: Sequence[BeamNode]) -> list[tuple[int, int]]:
    """(column, row) of each node. Each column is filled from the top, in the order of the parents, so that no lines cross."""
    place, filled = [(0, 0)] * len(nodes), Counter[int]()
    for n, depth in _walk(nodes):
        place[n] = depth, filled[depth]
        filled[depth] += 1
    return place


def _label(node: BeamNode, rank: int | None) -> str:
    told = f"{escaped(visible(node.token))} {node.log_probability:.2f}"
    return told if rank is None else f"<b>{rank}. {told}</b>"


def _hover(node: BeamNode) -> str:
    token = f"log p of the token {node.token_log_probability:.3f}"
    return f"{escaped(node.text)}<br>{token}<br>log p {node.log_probability:.3f}<br>score {node.score:.3f}<br>{node.outcome}"
