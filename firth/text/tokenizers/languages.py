"""The languages of a multilingual translator such as NLLB: each has a token of its own. Where the tokens stand differs:

    place "first"    source  <src> x_1 … x_n <eos>      NLLB, M2M-100, mBART-50
    place "last"     source  x_1 … x_n <eos> <src>      mBART, and NLLB as it was first published

The target's token is the decoder's first input if `starts` (mBART), or the first token that it is made to write. Either
language may be missing until somebody chooses it; nothing is read or written before that. The choice is kept as src_lang and
tgt_lang of tokenizer_config.json, where `transformers` has it, too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from firth.errors import ConfigError, DataError, did_you_mean, option
from firth.text.tokenizers.special_tokens import DecoderTokens

Place = Literal["first", "last"]
Around = tuple[tuple[int, ...], tuple[int, ...]]  # the tokens before a text, and those behind it
LANGUAGES = "firth_languages"  # the key of `place` and `starts` in tokenizer_config.json of a run
SOURCE, TARGET = "src_lang", "tgt_lang"
_CODE = re.compile(r"__[a-z]{2,3}__|[a-z]{2}_[A-Z]{2}|[a-z]{3}_[A-Z][a-z]{3}")  # __en__, en_XX, eng_Latn


@dataclass(frozen=True)
class Languages:
    ids: Mapping[str, int]  # the token of each language, as the vocabulary spells it
    place: Place
    starts: bool
    source: str | None = None
    target: str | None = None

    @classmethod
    def of(cls, ids: Mapping[str, int], settings: Mapping[str, Any]) -> Languages | None:
        """Those of a tokenizer whose tokenizer_config.json is `settings`."""
        given = settings.get(LANGUAGES)
        if given is None:
            return None
        if not isinstance(given, Mapping) or given.get("place") not in get_args(Place) or type(given.get("starts")) is not bool:
            raise DataError(
                f"tokenizer_config.json: {LANGUAGES} is {str(given)[:60]}; expected a table with place and starts. Import "
                "the model again."
            )
        languages = cls(ids, given["place"], given["starts"])
        return languages.chosen(settings.get(SOURCE), settings.get(TARGET))

    def chosen(self, source: str | None, target: str | None) -> Languages:
        """With these languages; None leaves one as it is."""
        own, other = self._named(source), self._named(target)
        return replace(self, source=own or self.source, target=other or self.target)

    def settings(self) -> dict[str, Any]:
        """As tokenizer_config.json has them."""
        return {LANGUAGES: {"place": self.place, "starts": self.starts}, SOURCE: self.source, TARGET: self.target}

    def around_source(self, eos: int) -> Around:
        if self.source is None:
            raise self._missing("source", option("source_language", "--from"), SOURCE)
        token = self.ids[self.source]
        return ((token,), (eos,)) if self.place == "first" else ((), (eos, token))

    def around_target(self, eos: int) -> Around:
        token = self._target_token()
        return ((), (eos,)) if self.starts else ((token,), (eos,))

    def decoder(self, tokens: DecoderTokens) -> DecoderTokens:
        """The tokens with which the decoder begins to write the target language."""
        token = self._target_token()
        return tokens._replace(start=token, first=None) if self.starts else tokens._replace(first=token)

    def _target_token(self) -> int:
        if self.target is None:
            raise self._missing("target", option("target_language", "--to"), TARGET)
        return self.ids[self.target]

    def _named(self, code: str | None) -> str | None:
        """The token of a language; M2M-100 writes __en__ for en."""
        if code is None:
            return None
        known = next((name for name in (code, f"__{code}__") if name in self.ids), None)
        if known is None:
            raise ConfigError(
                f'this model does not know the language "{code}". It has {len(self.ids)}, such as {self._some()}.'
                f"{did_you_mean(code, self.ids)}"
            )
        return known

    def _missing(self, side: str, setting: str, key: str) -> DataError:
        return DataError(
            f"this model translates between {len(self.ids)} languages, and the {side} language is not set. Choose one with "
            f'{setting}, such as {next(iter(self.ids))}, or set "{key}" in tokenizer_config.json.'
        )

    def _some(self) -> str:
        return ", ".join(list(self.ids)[:3])


def language_ids(added: Mapping[int, str]) -> dict[str, int]:
    """The tokens of languages among the special tokens of a vocabulary, by their names."""
    return {name: id for id, name in added.items() if _CODE.fullmatch(name)}


def found_languages(
    ids: Mapping[str, int], around: Around, settings: Mapping[str, Any], start: int | None, forced: int | None
) -> Languages | None:
    """Those of a public model, None if it has fewer than two. `around` are the tokens that its tokenizer.json puts around a
    text, `start` and `forced` decoder_start_token_id and forced_bos_token_id, if it has them."""
    if len(ids) < 2:
        return None
    names, (before, behind) = {id: name for name, id in ids.items()}, around
    if not any(id in names for id in (*before, *behind)):
        raise DataError(
            f"the tokenizer has tokens of {len(ids)} languages, but tokenizer.json puts none of them around a text. Write "
            "it again with `transformers`: AutoTokenizer.from_pretrained(DIR).save_pretrained(DIR)."
        )
    place: Place = "first" if any(id in names for id in before) else "last"
    starts = start in names or (start is None and place == "last" and forced is None)
    target = names.get(start if starts else forced)  # type: ignore[arg-type]
    return Languages(ids, place, starts).chosen(settings.get(SOURCE), settings.get(TARGET) or target)
