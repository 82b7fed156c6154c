"""A sampling filter: its settings, and what they do to the logits of the next token.

Each filter is one file and one base class of DecodingConfig (decoding/config.py). Options of the command line, keywords in
Python, fields of HTTP requests, controls of the lab, the tables in docs/recipes.md, and what import and export translate
follow from its fields.

Letters: n rows, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from firth.ideas import Idea

if TYPE_CHECKING:
    from firth.decoding.sampling.candidates import Candidates
    from firth.decoding.sampling.rows import FilterRows, Spelled

Check = tuple[str, bool, str]  # a setting, whether its value is allowed, and what is expected


class Filter(Idea):
    """A subclass is a frozen dataclass of settings. DecodingConfig inherits them all, and is the `self` of the methods.

    `drawing`: it acts only where tokens are drawn; other filters change what greedy decoding and beams prefer, too. `alone`:
    it follows the tokens drawn for its text, so a draft model cannot propose tokens for it."""

    collected_in: ClassVar[str] = "firth.decoding.config"
    drawing: ClassVar[bool] = True
    alone: ClassVar[bool] = False
    hugging_face: ClassVar[Mapping[str, str]] = {}  # setting → its name in generation_config.json
    gguf: ClassVar[Mapping[str, str]] = {}  # setting → its name in a GGUF file, after "general.sampling."

    def __init_subclass__(cls, **more: Any) -> None:
        """The kind is the name of the class: TopK is "top_k"."""
        cls.kind = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in cls.__name__).strip("_")
        super().__init_subclass__(**more)

    def checks(self) -> Iterable[Check]:
        """The conditions that the values must meet."""
        return ()

    def acts(self) -> bool:
        """True if the settings change anything."""
        raise NotImplementedError

    @classmethod
    def apply(cls, candidates: Candidates, rows: FilterRows) -> Candidates:
        """The remaining candidates of the rows on which the filter acts."""
        raise NotImplementedError

    def remember(self, spelled: Spelled | None) -> Note | None:
        """The filter's memory of a text besides its tokens, if it needs one. `spelled`: the spelling of the tokens, if it is
        known."""
        return None


class Note:
    """The memory of a filter about one text. `matches`: the text may end here; `ended`: nothing can follow; `failure`: why the
    text cannot be continued."""

    matches = True
    ended = False
    failure: str | None = None

    def add(self, token: int, probability: float) -> None:
        """Record the next token of the text and the probability with which it was drawn."""
        raise NotImplementedError
