"""firth vectors axis: rank words on an axis between two word lists."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from firth.cli.app import Json, print_json, refuse_given, verb
from firth.cli.save_option import Save, save_figures, section
from firth.cli.vectors.group import File, Restrict, group, opened

if TYPE_CHECKING:
    from firth.vectors.axis import Axis
    from firth.vectors.wordvectors import WordVectors

_TOP = 10


@verb(within=group)
def axis(
    file: File,
    positive: Annotated[str, typer.Argument(help="Words at one end, separated by commas: good,nice.", show_default=False)],
    negative: Annotated[str, typer.Argument(help="Words at the other end: bad,awful.", show_default=False)],
    words: Annotated[
        str | None, typer.Option(help="Words to rank, separated by commas.  [default: the words nearest to the ends]")
    ] = None,
    against: Annotated[
        tuple[str, str] | None,
        typer.Option(help="Second axis for a plot in two dimensions: --against calm,quiet excited,angry.", show_default=False),
    ] = None,
    top: Annotated[
        int | None, typer.Option(help="Number of words to show at each end.  [default: 10]", min=1, show_default=False)
    ] = None,
    restrict_vocab: Restrict = None,
    save: Save = None,
    as_json: Json = False,
) -> None:
    """Rank words on an axis between two word lists.

    With good and bad, for example, it is the axis of valence. The place of a word is the cosine of its vector with the mean of
    the first list minus the mean of the second, where each vector is first normalised to length 1."""
    if words is not None:
        refuse_given({"top": top, "restrict_vocab": restrict_vocab}, "does not apply to --words. Remove one of them.")
    top = top or _TOP
    vectors = opened(file)
    axes = [_axis(vectors, positive, negative), *([_axis(vectors, *against)] if against else [])]
    chosen = _split(words) if words is not None else None
    rows = _given(vectors, axes[0], chosen) if chosen is not None else _ends(axes, top, restrict_vocab)
    if save is not None:
        _save(save, file, axes, rows)
    if as_json:
        print_json(_facts(axes, rows))
        return
    _print(axes, rows, gap=top if len(axes) == 1 and chosen is None and len(rows) == 2 * top else None)
    if save is not None:
        print(f"{save}: {len(rows):,} words on {'two axes' if against else 'one axis'}")


def _axis(vectors: WordVectors, positive: str, negative: str) -> Axis:
    return vectors.axis(_split(positive), _split(negative))


def _split(words: str) -> list[str]:
    return list(dict.fromkeys(word for word in words.replace(",", " ").split()))


def _given(vectors: WordVectors, axis: Axis, words: list[str]) -> list[str]:
    for word in words:
        vectors.id(word)  # an unknown word is an error that suggests similar ones
    return sorted(words, key=lambda word: -axis[word])


def _ends(axes: list[Axis], top: int, restrict_vocab: int | None) -> list[str]:
    """The words nearest to each end of each axis, ranked on the first axis."""
    ends = [word for axis in axes for end in (axis.highest, axis.lowest) for word, _ in end(top, restrict_vocab)]
    return sorted(dict.fromkeys(ends), key=lambda word: -axes[0][word])


def _print(axes: list[Axis], words: list[str], gap: int | None) -> None:
    """`gap`: number of words before a line that stands for omitted ones."""
    heads = [f"{axis.negative[0]} … {axis.positive[0]}" for axis in axes]
    width = max(7, *map(len, heads)) + 2 if len(axes) > 1 else 7
    if len(axes) > 1:
        print("".join(f"{head:>{width}}" for head in heads))
    for number, word in enumerate(words):
        if number == gap:
            print(f"{'…':>{width}}")
        print("".join(f"{axis[word]:{width}.4f}" for axis in axes) + f"  {word}")


def _facts(axes: list[Axis], words: list[str]) -> dict[str, Any]:
    ends = [{"positive": axis.positive, "negative": axis.negative} for axis in axes]
    return {"axes": ends, "words": [{"word": word, "cosines": [axis[word] for axis in axes]} for word in words]}


def _save(path: Path, file: Path, axes: list[Axis], words: list[str]) -> None:
    from firth.figures.ranking import axis_bars
    from firth.figures.word_map import axis_plane

    if len(axes) == 1:
        figure = axis_bars([(word, axes[0][word]) for word in words], axes[0].name)
    else:
        first, second = axes
        figure = axis_plane(words, [(first[word], second[word]) for word in words], (first.name, second.name))
    lead = f"Cosine of each word of {file.name} with the axis. The words at the ends of an axis span it."
    save_figures(path, f"Words of {file.name} on an axis", [section("Words", lead, [figure])], "firth vectors axis")
