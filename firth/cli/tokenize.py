"""firth tokenize"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, get_args

import typer

from firth.cli.app import Json, print_json, refuse_given, verb
from firth.errors import ConfigError

if TYPE_CHECKING:
    from firth.text.tokenizers.tokenizer import Tokenizer

_VOCAB = 1000


@verb()
def tokenize(
    source: Annotated[str, typer.Argument(help="Text file or named data set to learn from, or a run folder.")],
    text: Annotated[str, typer.Argument(help="Text to split into tokens.")],
    kinds: Annotated[
        str | None, typer.Option("--kind", help="Tokenizers to learn, separated by commas. [default: all five]")
    ] = None,
    vocab: Annotated[int | None, typer.Option(help="Maximum vocabulary size of each tokenizer. [default: 1000]")] = None,
    as_json: Json = False,
) -> None:
    """Show how five tokenizers, or the one of a run, split a text."""
    from firth.interop import is_model
    from firth.training.folder import RunFolder

    if RunFolder(Path(source)).exists() or is_model(Path(source)):
        reason = f"only applies to tokenizers learned from a text, but {source} is a run. Remove it, or give a text file."
        refuse_given({"kind": kinds, "vocab": vocab}, reason)
        tokenizers = _of_run(Path(source))
    else:
        tokenizers = _learned(source, kinds, _VOCAB if vocab is None else vocab)
    tokens = {name: _tokens(tokenizer, text) for name, tokenizer in tokenizers.items()}
    if as_json:
        print_json(
            {
                name: {"vocab": tokenizers[name].vocab, "tokens": texts, "ids": tokenizers[name].encode(text).tolist()}
                for name, texts in tokens.items()
            }
        )
        return
    width = max(map(len, tokens))
    for name, texts in tokens.items():
        print(f"{name:<{width}}  {len(texts):>4} of {tokenizers[name].vocab:,}  {'│'.join(texts)}")


def _tokens(tokenizer: Tokenizer, text: str) -> list[str]:
    return [tokenizer.token(int(id)).replace(" ", "␣").replace("\n", "⏎") for id in tokenizer.encode(text)]


def _of_run(path: Path) -> Mapping[str, Tokenizer]:
    from firth.api.loading import described

    _, (source, target) = described(path)
    return {target.kind: target} if source is target else {"source": source, "target": target}


def _learned(source: str, kinds: str | None, vocab: int) -> Mapping[str, Tokenizer]:
    from firth.progress.display import Display
    from firth.text.config import LearnedKind, TokenizerConfig
    from firth.text.data.running_text import learn_tokenizer, running_text

    known: tuple[LearnedKind, ...] = get_args(LearnedKind)
    chosen = known if kinds is None else tuple(kind.strip() for kind in kinds.split(","))
    if unknown := [kind for kind in chosen if kind not in known]:
        raise ConfigError(f'there is no tokenizer "{unknown[0]}"; choose from {", ".join(known)}')
    data = running_text(source)
    with Display() as display:
        configs = [TokenizerConfig(kind=kind, vocab=vocab) for kind in known if kind in chosen]
        return {config.kind: learn_tokenizer(config, data, display.work) for config in configs}
