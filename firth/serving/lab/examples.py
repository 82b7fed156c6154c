"""Texts that suit the data a run was trained on: one to start with, and some that show what the run has learned."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

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


def swaps(letters: int, length: int) -> str:
    """A prompt for a model that learns in context which two letters to exchange, here the first two of the alphabet."""
    words = [("abcdefgh"[:letters] * length)[n : n + length] for n in range(3)]
    first, second, last = [f"{word}>{word.translate(str.maketrans('ab', 'ba'))}" for word in words]
    return f"{first};{second};{last[: length + 1]}"


class TextExample(NamedTuple):
    label: str  # what the text shows
    text: str
    context: str = ""  # if the text is a question about another one


TAGGED_PYTHON = (
    TextExample("One word in five roles", "def copy ( self ) : self . copy = copy ( copy = copy )"),
    TextExample("A method and its class", "class Box ( Shape ) :\ndef area ( self , height ) :\nreturn self . width * height"),
    TextExample("Names that never occurred", "zebra = giraffe ( okapi )"),
)
TAGGED_ENGLISH = (
    TextExample("“man” as a verb", "The old man the boat ."),
    TextExample("One word, two tags", "They saw her duck .\nThey saw her duck under the table ."),
    TextExample("A word that does not exist", "The blick was frupping the gazzers ."),
)
_HOTEL = (
    "The hotel Meridian stands in Seattle. It was built in 1924 by the architect Anna Berg, and it has 120 rooms. "
    "In 1962 it was sold to a company from Oslo."
)
ASKED_ENGLISH = (
    TextExample("Who?", "Who built the hotel?", _HOTEL),
    TextExample("When?", "When was the hotel sold?", _HOTEL),
    TextExample("Not in the text", "Who sleeps in the hotel?", _HOTEL),
)
_STORY = "Lydia lives in Florence. She is a nurse. It rained all week. On Monday Oliver visited Camilla."
ASKED_STORIES = (  # in names that training does not have
    TextExample("Where?", "Where does Lydia live?", _STORY),
    TextExample("Who is “she”?", "Who works as a nurse?", _STORY),
    TextExample("When?", "When did Oliver visit Camilla?", _STORY),
    TextExample("Not in the text", "What did Oliver buy?", _STORY),
)
_TEXTS = {
    "dates": (
        TextExample("Words: the order is reversed", "14 November 2026"),
        TextExample("French", "samedi 14 novembre 2026"),
        TextExample("Digits only", "14.11.26"),
    ),
    "scan": (
        TextExample("A repetition", "jump twice and walk left"),
        TextExample("The second part first", "walk after turn left"),
    ),
    "prompts": (
        TextExample("One task", "dutch: this is a book"),
        TextExample("The other task", "sentiment: this is a dull book"),
    ),
    "tatoeba-en-nl": (
        TextExample("Word for word", "This is a book."),
        TextExample("Another word order", "I read the book yesterday."),
    ),
}
_BY_SOURCE = {
    "en": (
        TextExample("A caption", "A man is standing on a ladder."),
        TextExample("Not a caption", "I do not know what you mean."),
    ),
    "de": (
        TextExample("A caption", "Ein Mann steht auf einer Leiter."),
        TextExample("The verb at the end", "Ein Kind, das einen roten Ball geworfen hat."),
    ),
}
_BY_SKILL = {
    "opinions": TextExample("A negation", '"I do not like this product" is positive?'),
    "reviews": TextExample("A review", 'What is the sentiment of "a warm and funny film"?'),
    "dutch": TextExample("A translation", 'Translate "this is a book" to Dutch'),
    "dates": TextExample("A date", 'What is "14 november 2026" in ISO format?'),
    "tags": TextExample("Tags", 'Tag "I like it ."'),
}
MOST = 3  # examples of a run


def source_texts(dataset: str | None, language: str | None) -> tuple[TextExample, ...]:
    """Sentences to translate."""
    if dataset == "multi30k":
        return _BY_SOURCE.get(language or "en", ())
    return _TEXTS.get(dataset or "", ()) if language in (None, "en") else ()


def asked(dataset: str | None) -> tuple[TextExample, ...]:
    """Questions about a text, for a run that finds answers."""
    return ASKED_STORIES if dataset == "stories" else ASKED_ENGLISH


def questions(skills: Sequence[str] | None) -> tuple[TextExample, ...]:
    """Messages for a run that was trained on generated chats; the first questions that every such run can answer."""
    return tuple(_BY_SKILL[skill] for skill in skills or ("dutch", "dates", "opinions"))[:MOST]
