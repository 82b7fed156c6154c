"""Suggestions for verbs that firth does not have."""

from __future__ import annotations

import difflib
from typing import Any

import typer.core

_CLOSE = 0.7  # of difflib's ratio: "trian" is close to "train", "gradient" is not

# Names that other tools and the lectures use.
_SYNONYMS = {
    ("gradient", "gradients", "backprop", "vanishing"): ("inspect RUN TEXT --what flow", "compare flow"),
    ("flow",): ("compare flow", "inspect RUN TEXT --what flow"),
    ("attention", "heads", "entropy", "rollout", "lines", "look", "visualize", "visualise"): ("inspect RUN TEXT",),
    ("states", "gates", "hidden", "activations"): ("inspect RUN TEXT --what states",),
    ("predictions", "surprisal", "logits"): ("inspect RUN TEXT --what predictions",),
    ("predict", "sample", "write", "continue"): ("generate RUN PROMPT",),
    ("fit", "learn", "finetune", "fine-tune", "pretrain"): ("train RECIPE --out RUN",),
    ("eval", "test", "validate", "bleu", "accuracy"): ("evaluate RUN",),
    ("perplexity", "likelihood", "probability"): ("score RUN FILE",),
    ("fill", "mask", "unmask", "cloze"): ("complete RUN TEXT",),
    ("sentiment", "classifier"): ("classify RUN TEXT",),
    ("ner", "pos", "tagger"): ("tag RUN SENTENCE",),
    ("qa", "ask", "question"): ("answer RUN QUESTION --context TEXT",),
    ("word2vec", "skipgram", "cbow"): ("vectors train CORPUS --out FILE",),
    ("similar", "nearest", "neighbours", "most-similar", "most_similar"): ("vectors neighbors FILE WORD",),
    ("embedding", "embeddings", "encode", "vector"): ("embed RUN TEXT", "vectors train CORPUS --out FILE"),
    ("analogies",): ("vectors analogy FILE A B C",),
    ("plot", "tsne", "pca"): ("vectors map FILE --out PAGE",),
    ("tokenizer", "tokenise", "tokens", "bpe"): ("tokenize SOURCE TEXT",),
    ("cost", "speed", "benchmark"): ("compare cost",),
    ("download", "dataset", "datasets", "corpus"): ("data list", "data get NAME"),
    ("info", "summary", "count", "parameters", "params", "size"): ("describe NAME",),
    ("ui", "web", "gui", "open", "dashboard", "notebook"): ("lab",),
    ("server", "api", "http"): ("serve RUN",),
    ("save", "onnx", "gguf", "convert"): ("export RUN --out FOLDER", "vectors convert FILE --out FILE"),
    ("load", "hf", "huggingface"): ("import FOLDER --out RUN",),
    ("list", "ls"): ("runs", "recipes"),
    ("presets",): ("recipes",),
    ("difference",): ("run diff A B",),
    ("homework", "gradescope", "nbgrader", "otter"): ("assignment make NAME", "assignment grade SUBMISSIONS"),
    ("leaderboard", "grades", "grading", "submissions"): ("assignment grade SUBMISSIONS",),
    ("demo", "start", "quickstart", "tutorial"): ("tour",),
    ("version",): ("--version",),
}
_MEANT = {word: commands for words, commands in _SYNONYMS.items() for word in words}


class Verbs(typer.core.TyperGroup):
    """A group of verbs that suggests one for a name that it does not have."""

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        self.suggest_commands = False  # typer's own, which takes "gradient" for "train"
        if args and args[0] not in self.commands and not args[0].startswith("-"):
            ctx.fail(f"No such command '{args[0]}'.{suggestion(args[0], ctx.find_root().command)}")
        return super().resolve_command(ctx, args)


def suggestion(given: str, program: Any) -> str:
    """A verb of any group with a similar spelling, or with the same meaning."""
    word = given.lower()
    near = difflib.get_close_matches(word, spelled := _spelled(program), n=2, cutoff=_CLOSE)
    meant = _MEANT.get(word) or tuple(command for name in near for command in spelled[name])
    if not meant:
        close = difflib.get_close_matches(word, _MEANT, n=1, cutoff=0.8)
        meant = _MEANT[close[0]] if close else ()
    shown = " or ".join(f"'firth {command}'" for command in meant[:2])
    return f" Did you mean {shown}?" if meant else ""


def _spelled(program: Any) -> dict[str, list[str]]:
    """From the last name of each verb to its full name: neighbors → vectors neighbors."""
    spellings: dict[str, list[str]] = {}
    for name, command in program.commands.items():
        spellings.setdefault(name, []).append(name)
        for within in getattr(command, "commands", {}):
            spellings.setdefault(within, []).append(f"{name} {within}")
    return spellings


def asked_for_help(arguments: list[str], groups: set[str]) -> list[str]:
    """`firth help`, `firth help VERB` and `firth GROUP help` as --help."""
    depth = 1 if arguments[:1] and arguments[0] in groups else 0
    if arguments[depth : depth + 1] != ["help"]:
        return arguments
    return [*arguments[:depth], *arguments[depth + 1 :], "--help"]
