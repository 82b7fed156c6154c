"""The tokenizer in the metadata of a GGUF file, in both directions. GGUF has two kinds for LLaMA models:

"gpt2"     byte-level BPE: tokens and merges; `tokenizer.ggml.pre` names the pattern that splits a text into words
"llama"    SentencePiece BPE: tokens and scores; of all neighbours, the pair whose union has the highest score is merged
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import tokenizers
from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, processors

from firth.errors import ConfigError, DataError
from firth.text.tokenizers.special_tokens import EOS, MARKERS
from firth.text.tokenizers.tokenizer import Tokenizer

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6  # token types of GGUF
NEVER = "ÿ"  # the byte 0xFF as byte-level tokenizers spell it, which UTF-8 never has
_GGML = "tokenizer.ggml."
_SPACE = "\u2581"  # SentencePiece's mark of a space
_SPECIAL = {"bos": "bos", "eos": "eos", "unknown": "unk", "padding": "pad"}  # GGUF's names and Hugging Face's

_WORDS = r"[^\r\n\p{L}\p{N}]?\p{L}+"
_REST = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_CASED = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_LLAMA3 = rf"{_CONTRACTIONS}|{_WORDS}|\p{{N}}{{1,3}}|{_REST}"
_QWEN2 = rf"{_CONTRACTIONS}|{_WORDS}|\p{{N}}|{_REST}"
_START = r"[^\r\n\p{L}\p{N}]?"
_TEKKEN = (
    rf"{_START}{_CASED[0]}*{_CASED[1]}+|{_START}{_CASED[0]}+{_CASED[1]}*|\p{{N}}|"
    r" ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_DIGITS = ("smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b")
# Patterns by `tokenizer.ggml.pre`. None is GPT-2's own, which the `tokenizers` package has.
PATTERNS: Mapping[str, str | None] = {
    "gpt-2": None,
    **dict.fromkeys(_DIGITS, r"\p{N}"),  # each digit is a word; then GPT-2's
    **dict.fromkeys(("llama-bpe", "llama3", "llama-v3"), _LLAMA3),
    "qwen2": _QWEN2,
    "tekken": _TEKKEN,
}
_WHOLE = ("llama-bpe", "llama3", "llama-v3", "tekken")  # a word that is a token is never merged from parts; and <s> comes first


def read_tokenizer(metadata: Mapping[str, Any], vocab: int) -> Tokenizer:
    """The embedding has `vocab` rows."""
    kind = metadata.get(f"{_GGML}model")
    if kind not in ("gpt2", "llama"):
        raise DataError(f'{_GGML}model is {kind!r}; firth reads the tokenizers "gpt2" and "llama".')
    source = _Read(metadata)
    try:
        built = source.byte_pairs() if kind == "gpt2" else source.sentence_piece()
    except DataError:
        raise
    except Exception as error:  # tokenizers raises a bare Exception
        raise DataError(f"the tokenizer in the metadata cannot be built: {error}. Download the file again.") from error
    source.add_special(built)
    return Tokenizer.imported(built.to_str(), source.settings(), vocab)


class _Read:
    def __init__(self, metadata: Mapping[str, Any]) -> None:
        self._metadata = metadata
        self.tokens: list[str] = self._list("tokens")
        types = self._list("token_type", [NORMAL] * len(self.tokens))
        if len(types) != len(self.tokens):
            raise DataError(f"the metadata has {len(self.tokens):,} tokens, but {len(types):,} token types. Download it again.")
        self._types = dict(enumerate(types))
        # rows without a token: llama.cpp needs a name for each
        named = ((id, name) for id, name in enumerate(self.tokens) if name != spare(id))
        self.ids: dict[str, int] = {}
        for id, name in named:
            self.ids.setdefault(name, id)

    def byte_pairs(self) -> tokenizers.Tokenizer:
        pre = self._get("pre", "default")
        if pre not in PATTERNS:
            raise DataError(f"{_GGML}pre is {str(pre)!r}, which firth does not know. Known: {', '.join(PATTERNS)}.")
        merges: list[tuple[str, str]] = []
        for merge in self._list("merges"):
            left, _, right = str(merge).partition(" ")
            if not right or " " in right:
                raise DataError(f"{_GGML}merges has the entry {str(merge)!r}; expected two tokens. Download the file again.")
            merges.append((left, right))
        tokenizer = tokenizers.Tokenizer(models.BPE(self.ids, merges, ignore_merges=pre in _WHOLE))
        tokenizer.pre_tokenizer = pre_tokenizer(str(pre))
        tokenizer.decoder = decoders.ByteLevel()
        return tokenizer

    def sentence_piece(self) -> tokenizers.Tokenizer:
        scores = self._list("scores")
        if len(scores) != len(self.tokens):
            raise DataError(f"the metadata has {len(self.tokens):,} tokens, but {len(scores):,} scores. Download it again.")
        joined = {name: scores[id] for name, id in self.ids.items() if self._types[id] in (NORMAL, USER_DEFINED, UNUSED)}
        unknown = self._named("unknown")
        tokenizer = tokenizers.Tokenizer(
            models.BPE(self.ids, merges_of(joined, self.ids), unk_token=unknown, fuse_unk=True, byte_fallback=True)
        )
        first = bool(self._get("add_space_prefix", True))
        replaced = normalizers.Replace(" ", _SPACE)
        tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend(_SPACE), replaced]) if first else replaced
        steps = [decoders.Replace(_SPACE, " "), decoders.ByteFallback(), decoders.Fuse()]
        tokenizer.decoder = decoders.Sequence([*steps, decoders.Strip(" ", 1, 0)] if first else steps)
        return tokenizer

    def add_special(self, tokenizer: tokenizers.Tokenizer) -> None:
        """Tokens that no text is merged to, and those before and after each text."""
        kinds = {name: self._types[id] for name, id in self.ids.items()}
        special = [name for name, kind in kinds.items() if kind in (CONTROL, UNKNOWN)]
        tokenizer.add_special_tokens([AddedToken(name, normalized=False) for name in special])
        own = [name for name, kind in kinds.items() if kind == USER_DEFINED]
        tokenizer.add_tokens([AddedToken(name, normalized=False) for name in own])
        usual = self._get("model") == "llama" or self._get("pre") in _WHOLE
        before = [self._named("bos")] if self._get("add_bos_token", usual) else []
        after = [self._named("eos")] if self._get("add_eos_token", False) else []
        around = [name for name in (*before, *after) if name is not None]
        if around:
            template = [name for name in before if name], [name for name in after if name]
            tokenizer.post_processor = processors.TemplateProcessing(
                single=[*template[0], "$A", *template[1]],
                special_tokens=[(name, self.ids[name]) for name in dict.fromkeys(around)],
            )

    def settings(self) -> dict[str, Any]:
        """As in tokenizer_config.json."""
        names = {f"{theirs}_token": self._named(ours) for ours, theirs in _SPECIAL.items()}
        template = self._metadata.get("tokenizer.chat_template")
        return {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "clean_up_tokenization_spaces": False,
            **{key: name for key, name in names.items() if name is not None},
            **({"chat_template": template} if isinstance(template, str) else {}),
        }

    def _named(self, which: str) -> str | None:
        """The token that the metadata calls bos, eos, …"""
        id = self._get(f"{which}_token_id", None)
        if id is None and which == "unknown" and self._get("model") == "llama":
            id = 0  # llama.cpp's default
        name = self.tokens[id] if isinstance(id, int) and 0 <= id < len(self.tokens) else None
        return name if name in self.ids and name != NEVER else None

    def _get(self, key: str, default: Any = None) -> Any:
        return self._metadata.get(_GGML + key, default)

    def _list(self, key: str, default: list[Any] | None = None) -> list[Any]:
        values = self._get(key, default)
        if not isinstance(values, list) or not values:
            raise DataError(f"the metadata has no {_GGML}{key}; expected a list. Download the file again.")
        return values


def pre_tokenizer(pre: str) -> Any:
    """The part of a byte-level tokenizer that splits a text into words and spells their bytes."""
    pattern = PATTERNS[pre]
    if pattern is None:
        return pre_tokenizers.ByteLevel(add_prefix_space=False)
    own = pre not in _DIGITS
    split = pre_tokenizers.Split(Regex(pattern), "isolated")
    return pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=not own)])


def spare(id: int) -> str:
    """llama.cpp's name for a row of the embedding that has no token."""
    return f"[PAD{id}]"


def merges_of(scores: Mapping[str, float], ids: Mapping[str, int]) -> list[tuple[str, str]]:
    """Every way to join two tokens to a third, the third with the highest score first; longer first parts before shorter ones."""
    merges: list[tuple[float, int, int, str, str]] = []
    for name, score in scores.items():
        for cut in range(1, len(name)):
            left, right = name[:cut], name[cut:]
            if left in ids and right in ids:
                merges.append((-score, -len(left), -len(right), left, right))
    merges.sort(key=lambda merge: merge[:3])
    return [(left, right) for *_, left, right in merges]


def write_tokenizer(tokenizer: Tokenizer, template: str | None = None) -> dict[str, Any]:
    """The keys that `read_tokenizer` reads; a tokenizer that GGUF cannot express is refused. `template` is a chat template."""
    table = json.loads(tokenizer.to_json())
    if table["model"]["type"] != "BPE":
        raise ConfigError(f"GGUF has byte-pair tokenizers only, and that of this run is {tokenizer.kind!r}.")
    written = _Written(tokenizer, table)
    own = written.sentence_piece() if table["model"].get("byte_fallback") else written.byte_pairs()
    begin = tokenizer.begin[0] if tokenizer.begin else written.id_of("bos_token")
    if len(tokenizer.begin) > 1 or tokenizer.end not in ((), (tokenizer.eos,)):
        raise ConfigError("GGUF cannot express the special tokens that this tokenizer puts before and after a text.")
    ids = {"bos": begin, "eos": written.eos, "unknown": tokenizer.unknown, "padding": written.id_of("pad_token")}
    entries = {
        **own,
        "tokens": [written.names.get(id, spare(id)) for id in range(tokenizer.vocab)],
        "token_type": [written.type_of(id) for id in range(tokenizer.vocab)],
        "add_bos_token": bool(tokenizer.begin),
        "add_eos_token": bool(tokenizer.end),
        **{f"{name}_token_id": id for name, id in ids.items() if id is not None},
    }
    named = {_GGML + key: value for key, value in entries.items()}
    return named | ({"tokenizer.chat_template": template} if template else {})


class _Written:
    def __init__(self, tokenizer: Tokenizer, table: Mapping[str, Any]) -> None:
        self._tokenizer, self._table, self._model = tokenizer, table, table["model"]
        added = table.get("added_tokens") or []
        self._special = {one["id"]: bool(one["special"]) for one in added}
        self._ids: dict[str, int] = self._model["vocab"] | {one["content"]: one["id"] for one in added}
        self.names = {id: name for name, id in self._ids.items()}

    @property
    def eos(self) -> int | None:
        """<end> of a message, or <eos>. llama.cpp takes token 11 where no token ends a text, so that a byte that no text has
        stands for it."""
        own = self._tokenizer.eos if self._tokenizer.end_of_message is None else self._tokenizer.end_of_message
        return self._ids.get(NEVER) if own is None else own

    def id_of(self, setting: str) -> int | None:
        name = self._tokenizer.settings.get(setting)
        return self._ids.get(name.get("content", "") if isinstance(name, Mapping) else str(name))

    def type_of(self, id: int) -> int:
        name = self.names.get(id)
        if name is None:
            return UNUSED
        if self._model.get("byte_fallback") and name == self._model.get("unk_token"):
            return UNKNOWN
        if id in self._special:
            return CONTROL if self._special[id] else USER_DEFINED
        if self._tokenizer.kind != "imported" and name in (EOS, *MARKERS):
            return CONTROL
        return BYTE if self._model.get("byte_fallback") and len(name) == 6 and name.startswith("<0x") else NORMAL

    def byte_pairs(self) -> dict[str, Any]:
        merges = _merges(self._model)
        steps = _steps(self._table)
        own = [{"type": "Split", "pattern": {"String": "\n"}, "behavior": "Isolated"}, *_steps(_described("gpt-2"))]
        if steps == own and not any("Ċ" in left + right for left, right in merges):
            return self._byte_pairs("gpt-2", merges)  # no token joins a newline with anything, so it need not be split off
        for pre in PATTERNS:
            if steps == _steps(_described(pre)) and (pre in _WHOLE) == bool(self._model.get("ignore_merges")):
                return self._byte_pairs(pre, merges)
        raise ConfigError(f"GGUF has no name for how this tokenizer splits a text into words. Known: {', '.join(PATTERNS)}.")

    def _byte_pairs(self, pre: str, merges: Sequence[tuple[str, str]]) -> dict[str, Any]:
        if not merges or self._table["normalizer"] is not None:
            raise ConfigError("GGUF needs a byte-level tokenizer with merges and without a normaliser.")
        return {"model": "gpt2", "pre": pre, "merges": [f"{left} {right}" for left, right in merges]}

    def sentence_piece(self) -> dict[str, Any]:
        merges = _merges(self._model)
        order = {left + right: -float(rank) for rank, (left, right) in reversed(list(enumerate(merges)))}
        scores = [order.get(self.names.get(id, ""), 0.0) for id in range(self._tokenizer.vocab)]
        steps = [part["type"] for part in _parts(self._table["normalizer"], "normalizers")]
        same = _grouped(merges_of(order, self._ids)) == _grouped(merges)
        if not same or self._table["pre_tokenizer"] is not None or steps not in (["Prepend", "Replace"], ["Replace"]):
            raise ConfigError("GGUF cannot express this tokenizer: its merges are not those of SentencePiece.")
        return {"model": "llama", "pre": "default", "scores": scores, "add_space_prefix": steps[0] == "Prepend"}


def _merges(model: Mapping[str, Any]) -> list[tuple[str, str]]:
    """tokenizer.json has them as pairs or, in old files, as "left right"."""
    pairs = (merge.split(" ", 1) if isinstance(merge, str) else merge for merge in model["merges"])
    return [(left, right) for left, right in pairs]


def _grouped(merges: Sequence[tuple[str, str]]) -> list[tuple[str, frozenset[tuple[str, str]]]]:
    """The ways to make each token, the first token first. In which order one token's ways come makes no difference."""
    merges_of_token: dict[str, set[tuple[str, str]]] = {}
    for left, right in merges:
        merges_of_token.setdefault(left + right, set()).add((left, right))
    return [(name, frozenset(ways)) for name, ways in merges_of_token.items()]


def _described(pre: str) -> dict[str, Any]:
    built = tokenizers.Tokenizer(models.BPE())
    built.pre_tokenizer = pre_tokenizer(pre)
    description: dict[str, Any] = json.loads(built.to_str())
    return description


def _steps(table: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The steps of the pre-tokenizer, but for those that make no difference to the ids."""
    steps = []
    for part in _parts(table["pre_tokenizer"], "pretokenizers"):
        digits = part["type"] == "Digits" and part.get("individual_digits")
        plain = {"type": "Split", "pattern": {"Regex": r"\p{N}"}, "behavior": "Isolated"} if digits else part
        steps.append({key: value for key, value in plain.items() if key not in ("trim_offsets", "invert")})
    return steps


def _parts(table: Mapping[str, Any] | None, key: str) -> list[Mapping[str, Any]]:
    if table is None:
        return []
    return list(table[key]) if table["type"] == "Sequence" else [table]
