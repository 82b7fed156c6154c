"""Different ways of asking for the same thing. {} is the text in question; `held_out` phrasings only occur in the test data."""

from __future__ import annotations

import random
from typing import NamedTuple

from firth.text.conversation import Phrasing


class Phrasings(NamedTuple):
    known: tuple[str, ...]
    held_out: tuple[str, ...]

    def draw(self, draw: random.Random, with_held_out: bool) -> tuple[str, Phrasing]:
        """A phrasing; for the test set, one in two is held out. Validation, which selects weights, has known ones only."""
        if with_held_out and draw.random() < 0.5:
            return draw.choice(self.held_out), "held out"
        return draw.choice(self.known), "known"


DUTCH = Phrasings(
    (
        'Translate "{}" to Dutch',
        'Translate "{}" into Dutch.',
        "Translate to Dutch: {}",
        'Translate this sentence into Dutch: "{}"',
        'Please translate "{}" to Dutch.',
        'Can you translate "{}" to Dutch?',
        'What is "{}" in Dutch?',
        'What is the Dutch for "{}"?',
        'How do you say "{}" in Dutch?',
        'Say "{}" in Dutch.',
        '"{}" in Dutch, please.',
        'Give me the Dutch translation of "{}".',
        "In Dutch: {}",
        'Put "{}" into Dutch.',
    ),
    (
        'How would a Dutch person say "{}"?',
        'I need "{}" in Dutch.',
        'Could you put this into Dutch for me: "{}"',
        'Dutch translation: "{}"',
    ),
)

POSITIVE = Phrasings(  # → Yes or No
    (
        '"{}" is positive?',
        'Is "{}" positive?',
        'Is this positive: "{}"',
        'Does "{}" sound positive?',
        'Is it a good review? "{}"',
        "Is this a positive opinion: {}",
        'Would you call "{}" positive?',
        'Is the author of "{}" happy?',
        'Did the author of "{}" like it?',
        '"{}" - is that positive?',
    ),
    ('Is "{}" a favourable opinion?', 'Does the writer like it? "{}"', 'Tell me if "{}" is positive.'),
)
NEGATIVE = Phrasings(  # → Yes or No
    (
        '"{}" is negative?',
        'Is "{}" negative?',
        'Is this negative: "{}"',
        'Does "{}" sound negative?',
        'Is it a bad review? "{}"',
        'Would you call "{}" negative?',
    ),
    ('Is "{}" an unfavourable opinion?', 'Tell me if "{}" is negative.'),
)
SENTIMENT = Phrasings(  # → positive or negative
    (
        'What is the sentiment of "{}"?',
        'Sentiment of "{}"?',
        'Classify the sentiment: "{}"',
        'Is "{}" positive or negative?',
        'Positive or negative? "{}"',
        'Tell me the sentiment of "{}".',
        'What sentiment does "{}" have?',
        'How does the author of "{}" feel?',
    ),
    ('Decide whether "{}" is positive or negative.', "Rate this opinion, positive or negative: {}"),
)

DATES = Phrasings(
    (
        'Write "{}" as an ISO date.',
        'What is "{}" in ISO format?',
        'Convert "{}" to ISO 8601.',
        'Convert the date "{}" to year-month-day.',
        'Which date is "{}"?',
        'Give "{}" as YYYY-MM-DD.',
        '"{}" as an ISO date, please.',
        'ISO date of "{}"?',
        "Normalise the date {}",
        'Please write the date "{}" in ISO format.',
        'What is the ISO form of "{}"?',
        "Date: {} In ISO format?",
    ),
    ('Turn "{}" into an ISO date.', 'How do I write "{}" in ISO 8601?', 'I need "{}" as year-month-day.'),
)

TAGS = Phrasings(
    (
        'Tag "{}"',
        'Tag the words of "{}"',
        'Tag this sentence: "{}"',
        'Please tag "{}".',
        'What are the parts of speech in "{}"?',
        'Give the part of speech of each word: "{}"',
        'POS tags of "{}"?',
        "POS-tag: {}",
        'Label each word of "{}" with its part of speech.',
        'Part-of-speech tags for "{}", please.',
        'List the word classes in "{}".',
        'What is the word class of each word in "{}"?',
    ),
    ('Annotate "{}" with parts of speech.', 'I need the POS tags for "{}".', "Name the part of speech of every word: {}"),
)

# Follow-ups, which only the history explains

AGAIN = Phrasings(
    (
        'And "{}"?',
        'And this one: "{}"',
        'Now this one: "{}"',
        'The same for "{}"',
        'And what about "{}"?',
        '"{}"?',
        'Next: "{}"',
        'Do the same with "{}".',
        'Now "{}".',
    ),
    ('Once more, with "{}"', 'How about "{}"?'),
)
REPEAT = Phrasings(
    ('Repeat "{}"', "Repeat after me: {}", 'Please repeat: "{}"', 'Say "{}"', 'Echo "{}".'), ('Copy "{}"', 'Say it again: "{}"')
)
THAT_IN_DUTCH = Phrasings(
    (
        "And in Dutch?",
        "Now in Dutch.",
        "Translate that to Dutch.",
        "How do you say that in Dutch?",
        "In Dutch, please.",
        "The same in Dutch?",
        "What is that in Dutch?",
    ),
    ("Could I have that in Dutch?", "Now put it into Dutch."),
)
RECALL = Phrasings(
    (
        "What did I ask you to translate?",
        "What was the English sentence?",
        "And in English?",
        "What was the sentence again?",
        "Which sentence did I give you?",
    ),
    ("Remind me what the sentence was.", "What was it in English?"),
)
YEAR = Phrasings(
    ("Which year is that?", "What year is it?", "And the year?", "Just the year, please."), ("In what year is that?",)
)
MONTH = Phrasings(
    ("Which month is that?", "What month is it?", "And the month?", "Just the month, please."), ("In what month is that?",)
)
THEN_POSITIVE = Phrasings(
    ("So is it positive?", "And is it positive?", "Is it positive, then?"), ("Would you say it is positive?",)
)
THEN_NEGATIVE = Phrasings(
    ("So is it negative?", "And is it negative?", "Is it negative, then?"), ("Would you say it is negative?",)
)
