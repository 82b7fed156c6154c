"""Words: nearest neighbours, analogies, similarities and a map of word vectors, and the contexts of words in a corpus."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import cast, get_args

from firth.errors import ConfigError
from firth.figures.figure import Table
from firth.figures.ranking import ranking
from firth.figures.word_map import embedding_map
from firth.progress import Progress
from firth.serving.lab.library import RunLibrary
from firth.serving.lab.request import ViewRequest
from firth.serving.lab.result import ViewResult
from firth.serving.lab.room import Choice, Example, Room, choices, named
from firth.serving.lab.starters import WORDS
from firth.vectors import WordVectors
from firth.vectors.contexts import WordContexts, shared_collocates, word_contexts
from firth.vectors.encoding import encoded
from firth.vectors.map import Projection, nearest_on_map, word_map
from firth.vectors.wordvectors import Method

METHODS: tuple[Method, ...] = get_args(Method)
PROJECTIONS: tuple[Projection, ...] = get_args(Projection)
DIMENSIONS = ("2", "3")
MOST_WORDS = 2000  # on a map
_RANKING = "from firth.figures.ranking import ranking"  # in the programs
_METHODS = {"add": "3CosAdd", "mul": "3CosMul"}
_SIDE = 60  # characters of a concordance line on each side of the word
_ROYAL = ("king", "man", "woman", "queen")  # king − man + woman
_COMMON, _FIRST, _LONG = 20_000, 50, 5  # starting words: frequent, but not the most frequent of all, and not short
_GRAMMAR = (  # words of five letters or more whose neighbours say little
    "about above after again against another because before being below between cannot could during either every further having "
    "however itself neither often other otherwise shall should since their there therefore these those through under until "
    "where whether which while whose within without would"
)
_PAIRS = 8  # singulars and plurals among which a starting sum is looked for


def nearest(request: ViewRequest, library: RunLibrary, progress: Progress) -> ViewResult:
    """The words with the largest cosine similarity to one word."""
    name, top = request.text("vectors"), request.number("top", int, 10, least=1, most=100)
    vectors = library.word_vectors(name)
    word = _one(request.text("word", "") or _starting_words(vectors.words, 1)[0])
    neighbors = vectors.most_similar(word, topn=top)
    drawn = f'figure = ranking(vectors.most_similar({word!r}, topn={top}), "cosine")'
    python = library.vectors_program(name, drawn, "figure.plot", imports=[_RANKING])
    return ViewResult(
        {"neighbours": ranking(neighbors, "cosine")}, python, {"word": word}, headings={"neighbours": f"Nearest to {word}"}
    )


def analogy(request: ViewRequest, library: RunLibrary, progress: Progress) -> ViewResult:
    """The words nearest to a sum and difference of words: king − man + woman."""
    name, top = request.text("vectors"), request.number("top", int, 10, least=1, most=100)
    method = cast(Method, request.choice("method", METHODS, METHODS[0]))
    vectors = library.word_vectors(name)
    given = request.text("sum", "") or _starting_sum(vectors)
    plus, minus = expression(given, vectors)
    measure = "cosine" if method == "add" else _METHODS[method]
    neighbors = vectors.most_similar(plus, minus, top, method)
    call = f"nearest = vectors.most_similar({plus!r}, {minus!r}, topn={top}, method={method!r})"
    lines = (call, f"figure = ranking(nearest, {measure!r})", "figure.plot")
    python = library.vectors_program(name, *lines, imports=[_RANKING])
    facts = {"sum": given, "plus": plus, "minus": minus, "first": neighbors[0][0] if neighbors else None}
    return ViewResult({"analogy": ranking(neighbors, measure)}, python, facts)


def similarity(request: ViewRequest, library: RunLibrary, progress: Progress) -> ViewResult:
    """The cosine similarity of every pair of words."""
    name = request.text("vectors")
    vectors = library.word_vectors(name)
    words = list(dict.fromkeys(request.names("words", ()))) or _starting_words(vectors.words, 4)
    if not 2 <= len(words) <= 30:
        raise ConfigError(f"there are {len(words)} different words to compare; expected 2 to 30")
    rows = [(a, *(f"{vectors.similarity(a, b):.4f}" for b in words)) for a in words]
    python = library.vectors_program(
        name,
        f"words = {words!r}",
        "rows = [(a, *(f'{vectors.similarity(a, b):.4f}' for b in words)) for a in words]",
        'for row in [("cosine", *words), *rows]:',
        '    print(*row, sep="\\t")',
    )
    return ViewResult({}, python, {"words": words}, Table(("cosine", *words), rows))


def map_(request: ViewRequest, library: RunLibrary, progress: Progress) -> ViewResult:
    """The given words as points on a map, or the first words of the file."""
    name, projection = request.text("vectors"), cast(Projection, request.choice("projection", PROJECTIONS, PROJECTIONS[0]))
    vectors = library.word_vectors(name)
    chosen = list(dict.fromkeys(request.names("words", ())))
    top, dimensions = (
        request.number("top", int, 100, least=3, most=MOST_WORDS),
        request.number("dimensions", int, 2, least=2, most=3),
    )
    progress(f"projecting {len(chosen) or top:,} words", 0, 1)
    drawn = word_map(vectors, chosen or list(vectors.words[:top]), projection, dimensions)
    axes = [f"PC {n + 1} ({share:.1%} of the variance)" for n, share in enumerate(drawn.explained)]
    axes = axes or [f"t-SNE {n + 1}" for n in range(dimensions)]
    python = library.vectors_program(
        name,
        f"drawn = word_map(vectors, {repr(chosen) if chosen else f'list(vectors.words[:{top}])'}, {projection!r}, {dimensions})",
        f"figure = embedding_map(drawn.words, drawn.point_Nk.tolist(), {axes!r})",
        "figure.plot",
        imports=["from firth.figures.word_map import embedding_map", "from firth.vectors.map import word_map"],
    )
    facts = {"neighbours": nearest_on_map(vectors, drawn.words)}
    return ViewResult({"map": embedding_map(drawn.words, drawn.point_Nk.tolist(), axes)}, python, facts)


def contexts(request: ViewRequest, library: RunLibrary, progress: Progress) -> ViewResult:
    """The occurrences of words in a corpus, and the context words that are more frequent near each than chance predicts."""
    words = list(dict.fromkeys(request.names("words", ())))
    if len(words) > 6:
        raise ConfigError(f"there are {len(words)} words to look up; expected at most 6")
    corpus = request.choice("corpus", library.corpora)
    lower, window = request.flag("lower", True), request.number("window", int, 5, least=1, most=50)
    lines, top = request.number("lines", int, 5, least=0, most=50), request.number("top", int, 12, least=1, most=50)
    text = encoded(corpus, lower=lower, progress=progress)
    progress("searching for the words", 1, 1)
    words = words or _starting_words(text.vocabulary.words, 2)
    by_word = [word_contexts(text, word, window=window, lines=lines, topn=top, plain=True) for word in words]
    both = shared_collocates(by_word)
    figures = {f"near {one.word}": ranking([(other.word, other.score) for other in one.collocates], "G²") for one in by_word}
    python = (
        "from firth.figures.ranking import ranking\n"
        "from firth.vectors.contexts import word_contexts\n"
        "from firth.vectors.encoding import encoded\n\n"
        f"text = encoded({corpus!r}, lower={lower})\n"
        f"near = [word_contexts(text, word, window={window}, lines={lines}, topn={top}, plain=True) for word in {words!r}]\n"
        'figures = {f"near {one.word}": ranking([(other.word, other.score) for other in one.collocates], "G²") for one in near}\n'
        "for one in near:\n"
        "    for line in one.lines:\n"
        '        print(" ".join(line.left), one.word, " ".join(line.right), sep=" | ")\n'
    )
    facts = {"words": [{"word": one.word, "count": one.count} for one in by_word], "shared": sorted(both)}
    return ViewResult(figures, python, facts, _concordance(by_word))


def _concordance(by_word: Sequence[WordContexts]) -> Table:
    rows = [(" ".join(line.left)[-_SIDE:], one.word, " ".join(line.right)[:_SIDE]) for one in by_word for line in one.lines]
    return Table(("left", "word", "right"), rows)


def expression(text: str, vectors: WordVectors) -> tuple[list[str], list[str]]:
    """The positive and the negative words of "king − man + woman". A sign stands alone or directly before its word."""
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
        raise ConfigError("the sum contains no word; write it like king - man + woman")
    return plus, minus


def _starting_words(words: Sequence[str], count: int) -> list[str]:
    """Words to show if the user gave none: those of the best-known analogy, or frequent words long enough to mean something.
    The most frequent words of all mean little, so they come last."""
    common = set(words[:_COMMON])
    if common.issuperset(_ROYAL) and count <= len(_ROYAL):
        return list(_ROYAL[:count])
    meaningful = _meaningful(words[_FIRST:_COMMON])
    starting = list(dict.fromkeys((*meaningful[:count], *words[_FIRST : _FIRST + count], *words[:count])))[:count]
    if len(starting) < count:
        raise ConfigError(f"the vocabulary has only {len(starting)} words; expected at least {count}")
    return starting


def _meaningful(words: Sequence[str]) -> list[str]:
    grammar = set(_GRAMMAR.split())
    return [word for word in words if len(word) >= _LONG and word.isalpha() and word not in grammar]


def _starting_sum(vectors: WordVectors) -> str:
    """king − man + woman, or the first sum of a plural and two singulars, lists − list + tuple, that gives the other plural."""
    words = vectors.words[:_COMMON]
    known, first = set(words), _starting_words(vectors.words, 3)
    if set(first) <= set(_ROYAL):
        return "{} - {} + {}".format(*first)
    singular = [word for word in _meaningful(words) if f"{word}s" in known][:_PAIRS]
    for one, other in itertools.permutations(singular, 2):
        if vectors.most_similar([f"{one}s", other], [one], 1)[0][0] == f"{other}s":
            return f"{one}s - {one} + {other}"
    return "{} - {} + {}".format(*first)


def _one(word: str) -> str:
    pieces = word.split()
    if len(pieces) != 1:
        raise ConfigError(f'"{word[:60]}" is not a single word; enter one word')
    return pieces[0]


VIEWS = (
    Choice("neighbours", "nearest neighbours", {"controls": ["vectors", "word", "top"]}),
    Choice("analogy", "analogies", {"controls": ["vectors", "sum", "method", "top"]}),
    Choice("similarity", "similarities", {"controls": ["vectors", "words"]}),
    Choice("map", "map", {"controls": ["vectors", "drawn", "projection", "dimensions", "most", "find"]}),
    Choice("contexts", "contexts in a text", {"controls": ["corpus", "words", "window", "lower"], "without_vectors": True}),
)


def offered(library: RunLibrary) -> Mapping[str, Sequence[Choice]]:
    return {
        "look": VIEWS,
        "corpus": named(library.corpora),
        "method": choices(METHODS, _METHODS),
        "projection": choices(PROJECTIONS, {"pca": "PCA", "tsne": "t-SNE"}),
        "dimensions": named(DIMENSIONS),
    }


ROOM = Room(
    "words",
    "Words",
    '"You shall know a word by the company it keeps" (Firth 1957): neighbours, analogies, a map, and the contexts of a word.',
    {"neighbours": nearest, "analogy": analogy, "similarity": similarity, "map": map_, "contexts": contexts},
    names=lambda library: library.vectors,
    needs="word vectors",
    if_none="There are no word vectors; only the contexts of words work without them. Train some on the documentation on your "
    "disk:",
    starter=WORDS,
    choices=offered,
    facts={"most_words": MOST_WORDS},
    notice="Words that are used alike are neighbours, even if they never occur together.",
    examples=(
        Example("The neighbours of a word", {"look": "neighbours"}),
        Example("A sum of words", {"look": "analogy"}),
        Example("A map of words", {"look": "map"}),
        Example("The contexts of a word", {"look": "contexts"}),
    ),
)
