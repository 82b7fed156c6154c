"""A starting text that suits the data a run was trained on."""

from __future__ import annotations

ENGLISH = "the list is empty"
PYTHON = "def area ( self , height ) :\nreturn self . width * height"  # for a tagger of source code
SENTENCES = "The old man the boat .\nThey saw her duck ."  # for a tagger of words: "man" is a verb, "duck" may be one
_BY_DATASET = {
    "dates": "samedi 14 novembre 2026",
    "scan": "jump twice and walk left",
    "prompts": "dutch: this is a book",
    "chats": 'Translate "this is a book" to Dutch',
    "tatoeba-en-nl": "This is a book.",
}
_BY_LANGUAGE = {"en": "A man is standing on a ladder.", "de": "Ein Mann steht auf einer Leiter.", "nl": "Dit is een boek."}


def source_sentence(dataset: str | None, language: str | None) -> str:
    """A sentence to translate, in the source language if the data set names one; "" for a data set of unknown content."""
    if language is not None or dataset == "multi30k":
        return _BY_LANGUAGE.get(language or "en", "")
    return _BY_DATASET.get(dataset or "", "")
