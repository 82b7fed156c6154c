"""Words: the neighbours of a word, sums and differences of words, a map of them, and the company they keep."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from firth.errors import ConfigError
from firth.figures.figure import Table
from firth.figures.ranking import ranking
from firth.figures.word_map import embedding_map
from firth.serving.lab.room import Asked, Progress, Room, Shown, Usable
from firth.serving.lab.shelf import Shelf
from firth.vectors import WordVectors
from firth.vectors.contexts import WordContexts, shared_collocates, word_contexts
from firth.vectors.encoding import encoded
from firth.vectors.map import Projection, word_map
from firth.vectors.wordvectors import Method

_SIDE = 60  # characters of a concordance line on each side of the word
_MOST = 2000  # words on a map
_ROYAL = ("king", "man", "woman", "queen")  # king − man + woman
_COMMON, _FIRST, _LONG = 20_000, 50, 5


def neighbours(asked: Asked, shelf: Shelf, progress: Progress) -> Shown:
    """The words with the largest cosine to one word."""
    name, top = asked.text("vectors"), asked.number("top", int, 10, least=1, most=100)
    vectors = shelf.words(name)
    word = _one(asked.text("word", "") or _some(vectors.words, 1)[0])
    found = vectors.most_similar(word, topn=top)
    python = (
        "import firth\n"
        "from firth.figures.ranking import ranking\n\n"
        f"vectors = firth.vectors.load({_path(shelf, name)!r})\n"
        f'figure = ranking(vectors.most_similar({word!r}, topn={top}), "cosine")\n'
        "figure.plot\n"
    )
    return Shown({"neighbours": ranking(found, "cosine")}, python, {"word": word})


def analogy(asked: Asked, shelf: Shelf, progress: Progress) -> Shown:
    """king − man + woman: the words nearest to a sum and difference of words."""
    name, top = asked.text("vectors"), asked.number("top", int, 10, least=1, most=100)
    method = cast(Method, asked.choice("method", ("add", "mul"), "add"))
    vectors = shelf.words(name)
    given = asked.text("sum", "") or "{} - {} + {}".format(*_some(vectors.words, 3))
    plus, minus = expression(given, vectors)
    measure = "cosine" if method == "add" else "3CosMul"
    found = vectors.most_similar(plus, minus, top, method)
    python = (
        "import firth\n"
        "from firth.figures.ranking import ranking\n\n"
        f"vectors = firth.vectors.load({_path(shelf, name)!r})\n"
        f"found = vectors.most_similar({plus!r}, {minus!r}, topn={top}, method={method!r})\n"
        f"figure = ranking(found, {measure!r})\n"
        "figure.plot\n"
    )
    facts = {"sum": given, "plus": plus, "minus": minus, "first": found[0][0] if found else None}
    return Shown({"analogy": ranking(found, measure)}, python, facts)


def similarity(asked: Asked, shelf: Shelf, progress: Progress) -> Shown:
    """cos of each two of some words."""
    name = asked.text("vectors")
    vectors = shelf.words(name)
    words = list(dict.fromkeys(asked.names("words", ()))) or _some(vectors.words, 4)
    if not 2 <= len(words) <= 30:
        raise ConfigError(f"{len(words)} different words to compare; expected from 2 to 30")
    rows = [(a, *(f"{vectors.similarity(a, b):.4f}" for b in words)) for a in words]
    python = (
        "import firth\n\n"
        f"vectors = firth.vectors.load({_path(shelf, name)!r})\n"
        f"words = {words!r}\n"
        "rows = [(a, *(f'{vectors.similarity(a, b):.4f}' for b in words)) for a in words]\n"
    )
    return Shown({}, python, {"words": words}, Table(("cosine", *words), rows))


def map_(asked: Asked, shelf: Shelf, progress: Progress) -> Shown:
    """Words as points: those given, or the first so many of the file."""
    name, projection = asked.text("vectors"), cast(Projection, asked.choice("projection", ("pca", "tsne"), "pca"))
    vectors = shelf.words(name)
    chosen = list(dict.fromkeys(asked.names("words", ())))
    top, dimensions = asked.number("top", int, 200, least=3, most=_MOST), asked.number("dimensions", int, 2, least=2, most=3)
    progress(0, 1, f"projecting {len(chosen) or top:,} words")
    drawn = word_map(vectors, chosen or list(vectors.words[:top]), projection, dimensions)
    axes = [f"PC {n + 1} ({share:.1%} of the variance)" for n, share in enumerate(drawn.explained)]
    axes = axes or [f"t-SNE {n + 1}" for n in range(dimensions)]
    python = (
        "import firth\n"
        "from firth.figures.word_map import embedding_map\n"
        "from firth.vectors.map import word_map\n\n"
        f"vectors = firth.vectors.load({_path(shelf, name)!r})\n"
        f"drawn = word_map(vectors, {repr(chosen) if chosen else f'list(vectors.words[:{top}])'}, {projection!r}, {dimensions})\n"
        f"figure = embedding_map(drawn.words, drawn.point_Nk.tolist(), {axes!r})\n"
        "figure.plot\n"
    )
    return Shown({"map": embedding_map(drawn.words, drawn.point_Nk.tolist(), axes)}, python)


def contexts(asked: Asked, shelf: Shelf, progress: Progress) -> Shown:
    """Where some words stand in a text, side by side, and which words stand near each of them more often than chance."""
    words = list(dict.fromkeys(asked.names("words", ())))
    if len(words) > 6:
        raise ConfigError(f"{len(words)} words to look up; expected at most 6")
    corpus = asked.choice("corpus", shelf.corpora)
    lower, window = asked.flag("lower", True), asked.number("window", int, 5, least=1, most=50)
    lines, top = asked.number("lines", int, 5, least=0, most=50), asked.number("top", int, 12, least=1, most=50)
    text = encoded(corpus, lower=lower, progress=lambda what, done, total: progress(done, total, what))
    progress(1, 1, "looking the words up")
    words = words or _some(text.vocabulary.words, 2)
    found = [word_contexts(text, word, window=window, lines=lines, topn=top) for word in words]
    both = shared_collocates(found)
    figures = {f"near {one.word}": ranking([(near.word, near.score) for near in one.collocates], "G²") for one in found}
    python = (
        "from firth.figures.ranking import ranking\n"
        "from firth.vectors.contexts import word_contexts\n"
        "from firth.vectors.encoding import encoded\n\n"
        f"text = encoded({corpus!r}, lower={lower})\n"
        f"found = [word_contexts(text, word, window={window}, lines={lines}, topn={top}) for word in {words!r}]\n"
        'figures = {f"near {one.word}": ranking([(near.word, near.score) for near in one.collocates], "G²") for one in found}\n'
        "found[0].lines\n"
    )
    facts = {"words": [{"word": one.word, "count": one.count} for one in found], "shared": sorted(both)}
    return Shown(figures, python, facts, _concordance(found))


def _concordance(found: Sequence[WordContexts]) -> Table:
    rows = [(" ".join(line.left)[-_SIDE:], one.word, " ".join(line.right)[:_SIDE]) for one in found for line in one.lines]
    return Table(("left", "word", "right"), rows)


def expression(text: str, vectors: WordVectors) -> tuple[list[str], list[str]]:
    """What is added and what is taken away in "king − man + woman". A sign stands alone or before its word."""
    plus: list[str] = []
    minus: list[str] = []
    into = plus
    for piece in text.replace("−", "-").split():
        if piece in ("+", "-"):
            into = plus if piece == "+" else minus
            continue
        signed = len(piece) > 1 and piece[0] in "+-" and piece not in vectors
        if signed:
            into = plus if piece[0] == "+" else minus
        into.append(piece[1:] if signed else piece)
        into = plus
    if not plus and not minus:
        raise ConfigError("there is no word in the sum; write one as king - man + woman")
    return plus, minus


def _some(words: Sequence[str], count: int) -> list[str]:
    """Words to begin with, where none were asked for: those of the best-known sum, or the most frequent ones that are long
    enough to mean something. The very first of a text, which mean little, come last."""
    common = set(words[:_COMMON])
    if common.issuperset(_ROYAL) and count <= len(_ROYAL):
        return list(_ROYAL[:count])
    telling = [word for word in words[_FIRST:_COMMON] if len(word) >= _LONG and word.isalpha()]
    found = list(dict.fromkeys((*telling[:count], *words[_FIRST : _FIRST + count], *words[:count])))[:count]
    if len(found) < count:
        raise ConfigError(f"there are only {len(found)} words; expected at least {count}")
    return found


def _one(word: str) -> str:
    pieces = word.split()
    if len(pieces) != 1:
        raise ConfigError(f'the word is "{word[:60]}"; expected one word')
    return pieces[0]


def _path(shelf: Shelf, name: str) -> str:
    return str(shelf.vectors[name])


def usable(shelf: Shelf) -> Usable:
    return Usable(
        tuple(shelf.vectors),
        "There are no word vectors to look at; `firth vectors train TEXT --out words.firth` makes some, "
        "`firth lab --vectors words.firth` shows them. Contexts of words need only a text.",
    )


ROOM = Room(
    "words",
    "Words",
    "You shall know a word by the company it keeps: neighbours, sums of words, a map, and the places where a word stands.",
    {"neighbours": neighbours, "analogy": analogy, "similarity": similarity, "map": map_, "contexts": contexts},
    usable,
)
