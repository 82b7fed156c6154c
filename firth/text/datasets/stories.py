"""Questions that need no download: short generated stories about people, and questions whose answer is a span of the story.

"Anna lives in Rome. She is a doctor. Bob visited Clara on Monday."  Where does Anna live?  Who visited Clara?  The stories for
validation and testing have names and towns that training does not have.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from firth.progress import Progress, silent
from firth.text import cache, sealed

_STEMS = "Al Ber Cor Dal El Fer Gal Hel Is Jo Kal Lor Mar Nor Ol Per Ro Sal Tor Ul Val Wil"
_SLOT = re.compile(r"\{(\w+)\}")
_PEOPLE = 2  # in a story
_ASKED = 4  # questions on a story
_MAKER = 1  # raise when the files would be others
_SIZES = {"train": 3_000, "valid": 100, "test": 250}  # stories
_ASIDES = (
    "The weather was fine.",
    "It rained all week.",
    "Nobody was surprised.",
    "The summer was long and hot.",
    "The trains were late again.",
    "There was snow on the roofs.",
)


@dataclass(frozen=True)
class StoryWords:
    """Held-out stories have names and towns of their own, so that these must be found in the text and cannot be remembered."""

    women: Sequence[str]
    men: Sequence[str]
    slots: Mapping[str, Sequence[str]]  # what a sentence may fill in besides a name


def _listed(words: str) -> list[str]:
    return words.split()


def _invented(beginnings: str, endings: str) -> list[str]:
    """Each beginning with each ending. So many names cannot be remembered, and the letters of a new one are not new."""
    return [one + other for one in _listed(beginnings) for other in _listed(endings)]


_DAYS = _listed("Monday Tuesday Wednesday Thursday Friday Saturday Sunday")

TRAIN = StoryWords(
    women=_listed(
        "Anna Bella Carla Dora Emma Fiona Greta Hanna Irene Julia Karen Laura Maria Nina Olga Paula Rosa Sara Tanja Vera Wendy "
        "Yvonne Zoe Alice Brenda Clara Diana Elena Frida Gloria Helen Ingrid Joan Kate Linda Martha Nora Ophelia Petra Rita "
        "Sonja Theresa Ursula Violet Wilma Amelia Bertha Cecilia Doris Edith Flora Gwen Hilda Isabel Judith Lena Mabel Nelly "
        "Pamela Ruth Stella Tina Agnes Barbara Carmen Daisy Esther Grace Ivy Jasmine Leonora Miriam Naomi Rebecca Susan Tamara"
    )
    + _invented(_STEMS, "ana bella cia dora etta fina gard ina lise mira nika retta sina vea"),
    men=_listed(
        "Adam Bob Carl David Emil Frank George Henry Ivan Jacob Karl Leo Martin Noah Oscar Peter Rufus Simon Thomas Victor "
        "Walter Xavier Arthur Bruno Conrad Daniel Edgar Felix Gustav Hugo Igor John Kevin Luis Marco Norman Otto Paul Ralph "
        "Stefan Toby Ulrich Vincent William Alan Boris Cedric Dennis Edwin Fred Gilbert Harold Isaac Jerome Lars Miles Nathan "
        "Patrick Rudolf Samuel Theo Andrew Basil Charles Duncan Eric Gordon Howard Julian Leonard Matthew Nicolas Philip"
    )
    + _invented(_STEMS, "bert den fred gan ham kus lon mund nard rick stan ton vin win"),
    slots={
        "town": _listed(
            "Rome Oslo Bern Kyiv Paris London Madrid Lisbon Vienna Prague Warsaw Athens Dublin Berlin Munich Hamburg Cologne "
            "Milan Naples Venice Turin Lyon Nice Geneva Basel Zurich Porto Seville Valencia Krakow Gdansk Riga Tallinn Bergen "
            "Malmo Uppsala Aarhus Odense Antwerp Bruges Rotterdam Utrecht Leiden Delft Boston Chicago Denver Dallas Houston "
            "Toronto Montreal Quebec Havana Lima Bogota Santiago Cairo Tunis Nairobi Lagos Accra Dakar Delhi Mumbai Tokyo Kyoto "
            "Osaka Seoul Beijing Hanoi Manila Jakarta Sydney Perth Darwin York Leeds Oxford Bristol Cardiff Glasgow"
        )
        + _invented(_STEMS, "burg castle dale ford haven holm land mouth port stad ville wick"),
        "job": _listed(
            "doctor teacher baker lawyer farmer painter singer dancer writer nurse pilot sailor driver waiter cook tailor "
            "butcher carpenter plumber gardener fisherman miner soldier judge banker clerk chemist dentist surgeon librarian "
            "translator journalist photographer sculptor violinist pianist director mechanic "
            "biologist historian mathematician"
        ),
        "colour": _listed("red green blue white black yellow brown grey purple small big new heavy"),
        "thing": _listed(
            "bicycle car boat house piano guitar violin lamp table chair sofa carpet mirror clock watch ring hat coat scarf "
            "jacket dress shirt book map painting camera radio computer telephone horse cow goat sheep dog cat parrot rabbit "
            "hamster kite tent rucksack suitcase kettle teapot vase basket ladder hammer spade"
        ),
        "place": _listed(
            "theatre cinema museum library market station airport harbour church castle park zoo beach lake forest hospital "
            "school university bank restaurant bakery bookshop stadium pier opera circus factory garden"
        ),
        "day": _DAYS,
    },
)
HELD_OUT = StoryWords(
    women=_listed("Beatrice Camilla Dolores Evelyn Felicity Gabriela Henrietta Johanna Katrin Lydia Monica Olivia Renate Sylvia"),
    men=_listed("Arnold Benedict Clemens Dominic Ernest Ferdinand Gregor Hector Jonas Konrad Lucas Morris Oliver Sebastian"),
    slots={
        **TRAIN.slots,
        "town": _listed(
            "Florence Salzburg Bordeaux Stockholm Helsinki Seattle Portland Manchester Belfast Cordoba Nagoya Casablanca"
        ),
    },
)
_WORDS = {"train": TRAIN, "valid": HELD_OUT, "test": HELD_OUT}


@dataclass(frozen=True)
class _Topic:
    """A sentence about a person, with the questions that each of its slots answers."""

    sentences: Sequence[str]
    questions: Mapping[str, Sequence[str]]


_TOPICS = (
    _Topic(
        ("{who} lives in {town}.", "{who} has a flat in {town}.", "{who} moved to {town} years ago."),
        {
            "town": ("Where does {who} live?", "In which town does {who} live?", "What is the home town of {who}?"),
            "who": ("Who lives in {town}?", "Who has a home in {town}?"),
        },
    ),
    _Topic(
        ("{who} is a {job}.", "{who} works as a {job}.", "{who} earns a living as a {job}."),
        {
            "job": ("What is the job of {who}?", "What does {who} do for a living?", "What does {who} work as?"),
            "who": ("Who is a {job}?", "Who works as a {job}?"),
        },
    ),
    _Topic(
        ("{who} bought a {thing}.", "{who} has just bought a {thing}.", "Last year {who} bought a {thing}."),
        {
            "thing": ("What did {who} buy?", "Which thing did {who} buy?"),
            "who": ("Who bought a {thing}?", "Who is the owner of the {thing}?"),
        },
    ),
    _Topic(
        ("{who} went to the {place} on {day}.", "On {day} {who} went to the {place}.", "On {day} {who} was at the {place}."),
        {
            "place": ("Where was {who} on {day}?", "Where did {who} go on {day}?"),
            "day": ("When was {who} at the {place}?", "On which day did {who} go to the {place}?"),
            "who": ("Who went to the {place}?", "Who was at the {place} on {day}?"),
        },
    ),
    _Topic(
        ("{who} visited {friend} on {day}.", "On {day} {who} visited {friend}.", "{who} paid a visit to {friend} on {day}."),
        {
            "friend": ("Who did {who} visit?", "Who did {who} visit on {day}?"),
            "day": ("When did {who} visit {friend}?", "On which day did {who} visit {friend}?"),
            "who": ("Who visited {friend}?", "Who paid a visit to {friend}?"),
        },
    ),
)


@dataclass(frozen=True)
class StoryQuestion:
    """A question on a story, and where the answer stands in it."""

    context: str
    question: str
    answer: str
    start: int

    def json(self) -> str:
        answers = {"text": [self.answer], "answer_start": [self.start]}
        return json.dumps({"context": self.context, "question": self.question, "answers": answers})


def cached_parts(progress: Progress = silent) -> dict[str, Path]:
    """The jsonl files of the three parts, in the cache; the first use takes a second to create them."""
    folder = cache.cache_folder()
    paths = {part: folder / f"stories-{_MAKER}-{part}.jsonl" for part in _SIZES}
    for part, path in paths.items():
        if not sealed.whole(path):
            sealed.write_text(path, "".join(f"{one.json()}\n" for one in part_of(part)))
    return paths


def part_of(part: str) -> Iterator[StoryQuestion]:
    draw = random.Random(f"stories {part}")
    for _ in range(_SIZES[part]):
        yield from story(draw, _WORDS[part])


def story(draw: random.Random, words: StoryWords) -> list[StoryQuestion]:
    """Questions on a new story. No word is used for two people, so each question has one answer."""
    writer = _Writer(draw, words)
    for _ in range(_PEOPLE):
        writer.tell_of_a_person()
    return writer.questions()


class _Writer:
    def __init__(self, draw: random.Random, words: StoryWords) -> None:
        self.draw, self.text = draw, ""
        self.told: list[tuple[_Topic, dict[str, str], dict[str, int]]] = []  # topic; its words; where each stands
        shuffled = {**words.slots, "women": words.women, "men": words.men}
        self._left = {slot: iter(draw.sample(some, len(some))) for slot, some in shuffled.items()}

    def tell_of_a_person(self) -> None:
        """One or two sentences. After the first, a pronoun may stand for the name."""
        people = self.draw.choice((("women", "men", "she"), ("men", "women", "he")))
        name, named = next(self._left[people[0]]), -1
        topics = self.draw.sample(_TOPICS, self.draw.randint(1, 2))
        for topic in topics:
            values = {slot: next(self._left[slot]) for slot in _slots(topic) - {"who", "friend", "thing"}}
            if "friend" in _slots(topic):
                values["friend"] = next(self._left[people[1]])  # the other sex, so that a pronoun has one meaning
            if "thing" in _slots(topic):
                values["thing"] = f"{next(self._left['colour'])} {next(self._left['thing'])}"
            pronoun = named >= 0 and self.draw.random() < 0.7
            places = self._write(self.draw.choice(topic.sentences), {**values, "who": people[2] if pronoun else name})
            named = named if pronoun else places["who"]
            self.told.append((topic, {**values, "who": name}, {**places, "who": named}))
        if self.draw.random() < 0.3:
            self._write(self.draw.choice(_ASIDES), {})

    def questions(self) -> list[StoryQuestion]:
        possible = [(told, slot) for told in self.told for slot in told[0].questions]
        asked = self.draw.sample(possible, min(_ASKED, len(possible)))
        return [self._question(*told, slot) for told, slot in asked]

    def _question(self, topic: _Topic, values: Mapping[str, str], places: Mapping[str, int], slot: str) -> StoryQuestion:
        question = self.draw.choice(topic.questions[slot]).format_map(values)
        return StoryQuestion(self.text, question, values[slot], places[slot])

    def _write(self, sentence: str, values: Mapping[str, str]) -> dict[str, int]:
        """Appends the sentence; the first character of each slot."""
        if self.text:
            self.text += " "
        places, (opening, *rest) = {}, _SLOT.split(sentence)
        self.text += opening
        for slot, between in zip(rest[::2], rest[1::2], strict=True):
            places[slot] = len(self.text)
            word = values[slot]
            self.text += (word if opening or len(places) > 1 else word[0].upper() + word[1:]) + between
        return places


def _slots(topic: _Topic) -> set[str]:
    return set(_SLOT.findall(topic.sentences[0]))
