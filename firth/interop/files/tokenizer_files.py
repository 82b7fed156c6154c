"""The tokenizer of a Hugging Face folder: tokenizer.json, or one made from vocab.json and merges.txt, or from vocab.txt.

tokenizer_config.json is kept as it is, with a chat template that has a file of its own, and with the token that ends a text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers, processors

from firth.errors import DataError
from firth.interop.files.foreign_json import COUNT, read_json, read_text
from firth.interop.files.sentencepiece_file import SentencePiece
from firth.text.tokenizers.imported import ENDS
from firth.text.tokenizers.languages import found_languages, language_ids
from firth.text.tokenizers.tokenizer import Tokenizer
from firth.text.tokenizers.tokenizer_json import check_ids, parsed

_SPECIAL = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")


def read_tokenizer(folder: Path, config: Mapping[str, Any], vocab: int, more: Mapping[str, Any] | None = None) -> Tokenizer:
    """`config` is config.json, which may name the token that ends a text; the embedding has `vocab` rows. `more` is added to what
    tokenizer_config.json says."""
    settings = read_json(folder / "tokenizer_config.json", {})
    template = folder / "chat_template.jinja"
    if template.is_file():
        settings["chat_template"] = read_text(template)
    return _read(folder, _json_of(folder, settings, vocab), settings, config, vocab, more)


def read_tokenizers(folder: Path, config: Mapping[str, Any], vocab: int, more: Mapping[str, Any]) -> tuple[Tokenizer, Tokenizer]:
    """Those of source and target of an encoder–decoder: the same one twice, unless each side has a SentencePiece file."""
    files = [folder / f"{side}.spm" for side in ("source", "target")]
    if (folder / "tokenizer.json").is_file() or not all(file.is_file() for file in files):
        both = read_tokenizer(folder, config, vocab, more)
        return both, both
    settings = read_json(folder / "tokenizer_config.json", {})
    if (folder / "target_vocab.json").is_file():
        raise DataError(f"{folder} has a vocabulary for each side, target_vocab.json, which firth does not read.")
    names = _numbered(folder / "vocab.json")
    unknown, end = token_name(settings.get("unk_token")) or "<unk>", token_name(settings.get("eos_token")) or "</s>"
    texts = [str(SentencePiece.of(file).tokenizer(names, unknown, end).to_str()) for file in files]
    source, target = (_read(folder, text, settings, config, vocab, more) for text in texts)
    return source, target


def _numbered(path: Path) -> dict[int, str]:
    """The tokens of a vocab.json by id."""
    if not path.is_file():
        raise DataError(f"{path} is missing, which numbers the pieces of source.spm and target.spm. Download it.")
    names = {id: name for name, id in read_json(path).items() if COUNT.fits(id)}
    if not names or max(names) >= 2 * len(names):
        raise DataError(f"{path} does not number its tokens from 0 on. Download it again.")
    return names


def _read(
    folder: Path, text: str, settings: dict[str, Any], config: Mapping[str, Any], vocab: int, more: Mapping[str, Any] | None
) -> Tokenizer:
    tokenizer = parsed(text, str(folder / "tokenizer.json"), vocab)
    ends = _ends(tokenizer, config, read_json(folder / "generation_config.json", {}))
    settings.pop(ENDS, None)
    several = {ENDS: list(ends.values())} if len(ends) > 1 else {}
    eos = _eos(settings, list(ends))
    return Tokenizer.imported(text, {**settings, "eos_token": eos, **several, **(more or {})}, vocab)


def with_languages(tokenizer: Tokenizer, generation: Mapping[str, Any]) -> Tokenizer:
    """The tokenizer of an encoder–decoder with its languages, if it has any; `generation` says in which the decoder begins."""
    ids, around = language_ids(tokenizer.special), (tokenizer.begin, tokenizer.end)
    start, forced = generation.get("decoder_start_token_id"), generation.get("forced_bos_token_id")
    languages = found_languages(ids, around, tokenizer.settings, start, forced)
    if languages is None:
        return tokenizer
    return Tokenizer.imported(tokenizer.to_json(), {**tokenizer.settings, **languages.settings()}, tokenizer.vocab)


def _json_of(folder: Path, settings: Mapping[str, Any], vocab: int) -> str:
    if (folder / "tokenizer.json").is_file():
        return read_text(folder / "tokenizer.json")
    special = read_json(folder / "special_tokens_map.json", {}) | dict(settings)
    if (folder / "vocab.json").is_file() and (folder / "merges.txt").is_file():
        ids = read_json(folder / "vocab.json")
        check_ids(list(ids.items()), str(folder / "vocab.json"), vocab)
        if len(set(ids.values())) < len(ids):
            raise DataError(f"{folder / 'vocab.json'} gives the same id to several tokens. Download it again.")
        tokenizer = _byte_pairs(folder, special)
    elif (folder / "vocab.txt").is_file():
        tokenizer = _word_pieces(folder, special)
    elif (folder / "spiece.model").is_file():
        tokenizer = _t5_pieces(folder / "spiece.model", special, vocab)
    else:
        raise DataError(
            f"{folder} has no tokenizer.json, vocab.json with merges.txt, vocab.txt or spiece.model. Write one with "
            "`transformers`: AutoTokenizer.from_pretrained(DIR).save_pretrained(DIR)."
        )
    names = [name for key in _SPECIAL if (name := token_name(special.get(key))) is not None]
    tokenizer.add_special_tokens(
        [AddedToken(name, normalized=False) for name in names if tokenizer.token_to_id(name) is not None]
    )
    return str(tokenizer.to_str())


def _byte_pairs(folder: Path, special: Mapping[str, Any]) -> tokenizers.Tokenizer:
    """GPT-2's; or BART's, which has <s> before and </s> behind a text."""
    try:
        model = models.BPE.from_file(str(folder / "vocab.json"), str(folder / "merges.txt"))
    except Exception as error:  # tokenizers raises a bare Exception
        raise DataError(f"vocab.json or merges.txt in {folder} cannot be read: {error}. Download both again.") from error
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=bool(special.get("add_prefix_space", False)))
    tokenizer.decoder = decoders.ByteLevel()
    first, last = tokenizer.token_to_id("<s>"), tokenizer.token_to_id("</s>")
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    if first is not None and last is not None:
        tokenizer.post_processor = processors.RobertaProcessing(("</s>", last), ("<s>", first), trim_offsets=False)
    return tokenizer


def _word_pieces(folder: Path, special: Mapping[str, Any]) -> tokenizers.Tokenizer:
    """BERT's."""
    unknown = token_name(special.get("unk_token")) or "[UNK]"
    first, last = token_name(special.get("cls_token")) or "[CLS]", token_name(special.get("sep_token")) or "[SEP]"
    tokenizer = tokenizers.Tokenizer(models.WordPiece.from_file(str(folder / "vocab.txt"), unk_token=unknown))
    lower = bool(special.get("do_lower_case", True))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lower, strip_accents=special.get("strip_accents"))
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece(prefix="##")
    first_id, last_id = tokenizer.token_to_id(first), tokenizer.token_to_id(last)
    if first_id is None or last_id is None:
        raise DataError(f"vocab.txt in {folder} lacks {first} or {last}, the tokens around a text. Download it again.")
    tokenizer.post_processor = processors.BertProcessing((last, last_id), (first, first_id))
    return tokenizer


def _t5_pieces(path: Path, special: Mapping[str, Any], vocab: int) -> tokenizers.Tokenizer:
    """T5's: the pieces, then <extra_id_99> … <extra_id_0>, as many as the embedding has room for."""
    model = SentencePiece.of(path)
    pieces = [text for text, _, _ in model.pieces]
    extra = max(0, min(special.get("extra_ids", 100), vocab - len(pieces)))
    names = dict(enumerate([*pieces, *(f"<extra_id_{n}>" for n in reversed(range(extra)))]))
    tokenizer = model.tokenizer(
        names, token_name(special.get("unk_token")) or "<unk>", token_name(special.get("eos_token")) or "</s>"
    )
    tokenizer.add_special_tokens([AddedToken(f"<extra_id_{n}>", normalized=False) for n in range(extra)])
    return tokenizer


def ending_json(tokenizer: Tokenizer) -> str:
    """A tokenizer.json that puts <eos> behind every text, as an encoder–decoder expects it; an imported one may do so anyway."""
    text, name = tokenizer.to_json(), tokenizer.eos_name
    if tokenizer.languages is not None and tokenizer.languages.source is not None:
        return _in_language(text, tokenizer)
    if tokenizer.end or name is None:
        return text
    theirs = tokenizers.Tokenizer.from_str(text)
    theirs.post_processor = processors.TemplateProcessing(f"$A {name}", f"$A {name} $B {name}", [(name, tokenizer.eos)])
    return str(theirs.to_str())


def _in_language(text: str, tokenizer: Tokenizer) -> str:
    """A tokenizer.json that puts the token of the tokenizer's source language around a text."""
    theirs, names = tokenizers.Tokenizer.from_str(text), tokenizer.names()
    if (*tokenizer.begin, *tokenizer.end) == tuple(theirs.encode("").ids):
        return text
    before, behind = ([names[id] for id in part] for part in (tokenizer.begin, tokenizer.end))
    special = [(names[id], id) for id in (*tokenizer.begin, *tokenizer.end)]
    theirs.post_processor = processors.TemplateProcessing([*before, "$A", *behind], [*before, "$A", "$B", *behind], special)
    return str(theirs.to_str())


def token_name(value: Any) -> str | None:
    """A special token, which is written as a string or as a table."""
    name = value.get("content") if isinstance(value, Mapping) else value
    return name if isinstance(name, str) and name else None


def _ends(tokenizer: tokenizers.Tokenizer, config: Mapping[str, Any], generation: Mapping[str, Any]) -> dict[str, int]:
    """The tokens at which generation ends, with their ids."""
    listed = generation.get("eos_token_id", config.get("eos_token_id"))
    ids = listed if isinstance(listed, list) else [listed]
    return {name: id for id in ids if COUNT.fits(id) and (name := tokenizer.id_to_token(id)) is not None}


def _eos(settings: Mapping[str, Any], names: Sequence[str]) -> str | None:
    """The token that ends a text: the tokenizer's own if it is among those that the model lists, or the first of them."""
    own = token_name(settings.get("eos_token"))
    return own if own in names or not names else names[0]
