"""The words of the generated stories. Held-out stories have names and towns of their own, so that these must be found in the text
and cannot be remembered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class StoryWords:
    women: Sequence[str]
    men: Sequence[str]
    slots: Mapping[str, Sequence[str]]  # what a sentence may fill in besides a name


def _listed(words: str) -> list[str]:
    return words.split()


def _invented(beginnings: str, endings: str) -> list[str]:
    """Each beginning with each ending. So many names cannot be remembered, and the letters of a new one are not new."""
    return [one + other for one in _listed(beginnings) for other in _listed(endings)]


_STEMS = "Al Ber Cor Dal El Fer Gal Hel Is Jo Kal Lor Mar Nor Ol Per Ro Sal Tor Ul Val Wil"
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
