"""firth search: search documents by meaning."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from firth.cli.app import Json, print_json, refuse_given, verb
from firth.errors import ConfigError
from firth.text.readers.formats import one_of_documents

if TYPE_CHECKING:
    from firth.search import Hit, Query, Recall
    from firth.search.index import MethodName

_GAP = 3  # columns between two methods
_NARROWEST = 30  # columns of a method; in a narrower terminal, the methods stand one below the other


@verb()
def search(
    documents: Annotated[
        str | None,
        typer.Argument(help="Folder of text files, text file with a document per line, or csv, tsv, jsonl or parquet file."),
    ] = None,
    query: Annotated[str | None, typer.Argument(help='What to look for, in quotes: "Seattle motel".')] = None,
    vectors: Annotated[Path | None, typer.Option(help="File of word vectors; adds the method vectors.")] = None,
    run: Annotated[Path | None, typer.Option(help="Run folder; adds the method contextual.")] = None,
    method: Annotated[
        list[str] | None, typer.Option(help="tfidf, vectors or contextual; may be repeated.  [default: all that are possible]")
    ] = None,
    top: Annotated[int, typer.Option(help="Number of documents to show.", min=1)] = 10,
    index: Annotated[
        Path | None, typer.Option(help="File that keeps the document vectors; renewed when documents or models change.")
    ] = None,
    layer: Annotated[
        int | None, typer.Option(help="Layer of the run: 0 is the embedding, 1 the first layer, -1 the last.  [default: -1]")
    ] = None,
    lower: Annotated[bool, typer.Option("--lower", help="Convert texts to lower case for the run.")] = False,
    strip_punctuation: Annotated[bool, typer.Option("--strip-punctuation", help="Remove punctuation for the run.")] = False,
    format: Annotated[str, typer.Option(help=f"File format: {one_of_documents()}; auto uses the file name.")] = "auto",
    field: Annotated[str, typer.Option(help="JSON key or column that holds the text.")] = "text",
    evaluate: Annotated[
        bool, typer.Option("--evaluate", help="Measure recall instead: on --queries, or on 30 shipped queries without DOCUMENTS.")
    ] = False,
    queries: Annotated[
        Path | None, typer.Option(help="Table with columns query and document (with --evaluate).", show_default=False)
    ] = None,
    as_json: Json = False,
) -> None:
    """Search documents by shared words (TF-IDF) and by meaning.

    TF-IDF finds documents that contain words of the query. Averaged word vectors (--vectors) and contextual vectors (--run) also
    find documents that say the same in other words."""
    from firth.progress.display import Display
    from firth.search import build, measure

    asked = _queries(documents, query, queries, evaluate)
    if documents is None and evaluate and (format != "auto" or field != "text"):
        raise ConfigError("--format and --field only apply to DOCUMENTS. Remove them.")
    if documents is None and not evaluate:
        raise ConfigError('nothing to search. Give a folder or file, and a query in quotes: firth search notes "Seattle motel"')
    _check_used(run, vectors, method or [], {"layer": layer, "lower": lower, "strip_punctuation": strip_punctuation})
    with Display() as display:
        searched = build(
            documents if documents is not None else _shipped(),
            vectors=vectors,
            run=run,
            methods=method or None,
            layer=-1 if layer is None else layer,
            lower=lower,
            strip_punctuation=strip_punctuation,
            file=index,
            format=format,
            field=field,
            progress=display.work,
        )
    if asked is not None:
        measured = measure(searched, asked, top)
        _print_recall(measured) if not as_json else print_json({name: dataclasses.asdict(one) for name, one in measured.items()})
        return
    assert query is not None
    hits = searched.search(query, top)
    if as_json:
        print_json(
            {"query": query, "documents": len(searched.documents), "hits": {name: _facts(some) for name, some in hits.items()}}
        )
        return
    for line in side_by_side(hits, shutil.get_terminal_size((100, 24)).columns):
        print(line)


def _check_used(run: Path | None, vectors: Path | None, methods: Sequence[str], for_run: Mapping[str, Any]) -> None:
    """Refuse options that no method would use."""
    if methods and "vectors" not in methods:
        refuse_given({"vectors": vectors}, "only applies to --method vectors. Add that method, or remove it.")
    if methods and "contextual" not in methods:
        refuse_given({"run": run}, "only applies to --method contextual. Add that method, or remove it.")
    if run is None:
        refuse_given(for_run, "only applies to --run. Add that option, or remove it.")


def _queries(documents: str | None, query: str | None, queries: Path | None, evaluate: bool) -> list[Query] | None:
    """The queries to measure recall on; None to search."""
    from firth.search import paraphrases, read_queries

    if not evaluate:
        if queries is not None:
            raise ConfigError(f"--queries {queries} only applies to --evaluate. Add --evaluate, or remove --queries")
        if documents is not None and query is None:
            raise ConfigError(f'there is no query. Add one in quotes: firth search {documents} "Seattle motel"')
        return None
    if query is not None:
        raise ConfigError(f'--evaluate has its own queries. Remove "{query}", or --evaluate')
    if (documents is None) != (queries is None):
        raise ConfigError("--evaluate needs both DOCUMENTS and --queries. Leave out both to use the queries that firth ships")
    return paraphrases()[1] if queries is None else read_queries(queries)


def _shipped() -> list[Any]:
    from firth.search import paraphrases

    return list(paraphrases()[0])


def _facts(hits: Sequence[Hit]) -> list[dict[str, Any]]:
    return [{"document": hit.document.name, "score": hit.score, "text": hit.document.text} for hit in hits]


def side_by_side(hits: Mapping[MethodName, Sequence[Hit]], width: int) -> list[str]:
    """A column for each method, or one method below the other if the columns would be too narrow."""
    column = (width - _GAP * (len(hits) - 1)) // len(hits)
    if column < _NARROWEST and len(hits) > 1:
        return [line for name, some in hits.items() for line in side_by_side({name: some}, width)]
    columns = [
        [name, *(_line(hit, column) for hit in some)] if some else [name, "  nothing found"] for name, some in hits.items()
    ]
    height = max(map(len, columns))
    rows = zip(*(cells + [""] * (height - len(cells)) for cells in columns), strict=True)
    return [(" " * _GAP).join(f"{cell:<{column}}" for cell in row).rstrip() for row in rows]


def _line(hit: Hit, width: int) -> str:
    text = f"{hit.score:7.4f}  {hit.document.name}  {' '.join(hit.document.text.split())}"
    shown = "".join(character if character.isprintable() else "\ufffd" for character in text)
    return shown if len(shown) <= width else f"{shown[: width - 1]}…"


def _print_recall(measured: Mapping[MethodName, Recall]) -> None:
    one = next(iter(measured.values()))
    print(f"{one.queries:,} queries{f'recall@{one.top}':>16}{'recall@1':>10}{'MRR':>8}")
    width = len(f"{one.queries:,} queries")
    for name, recall in measured.items():
        print(f"{name:<{width}}{recall.recall:>16.3f}{recall.first:>10.3f}{recall.mrr:>8.3f}")
