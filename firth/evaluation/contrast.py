"""Contrast pairs: does a sentiment classifier read a negation, or does it count words?

A pair are two sentences that differ in a word or two, the first positive, the second negative. It is right only if both of them
are: guessing the same class for both never is (Gardner et al. 2020). A classifier that counts words gets many single sentences
right and few pairs. The sentences are our own; none is from a data set.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

POSITIVE, NEGATIVE = "positive", "negative"  # the labels that a classifier must have


@dataclass(frozen=True)
class ContrastMeasures:
    pairs: int
    pair_accuracy: float  # both sentences right
    sentence_accuracy: float
    by_kind: dict[str, float]  # pair accuracy of each kind of contrast
    wrong: tuple[tuple[str, str], ...]  # each sentence that is classified wrongly, with the label it got


def measure_contrast(classify: Callable[[Sequence[str]], Sequence[str]]) -> ContrastMeasures:
    """`classify` returns the label of each text."""
    sentences = [(text, label) for pairs in CONTRAST_PAIRS.values() for pair in pairs for text, label in labelled(pair)]
    predicted = dict(zip(sentences, classify([text for text, _ in sentences]), strict=True))
    both = {kind: [_right(pair, predicted) for pair in pairs] for kind, pairs in CONTRAST_PAIRS.items()}
    every = [right for rights in both.values() for right in rights]
    return ContrastMeasures(
        pairs=len(every),
        pair_accuracy=sum(every) / len(every),
        sentence_accuracy=sum(given == label for (_, label), given in predicted.items()) / len(predicted),
        by_kind={kind: sum(rights) / len(rights) for kind, rights in both.items()},
        wrong=tuple((text, given) for (text, label), given in predicted.items() if given != label),
    )


def labelled(pair: tuple[str, str]) -> tuple[tuple[str, str], tuple[str, str]]:
    return (pair[0], POSITIVE), (pair[1], NEGATIVE)


def _right(pair: tuple[str, str], predicted: dict[tuple[str, str], str]) -> bool:
    return all(predicted[sentence] == sentence[1] for sentence in labelled(pair))


CONTRAST_PAIRS: dict[str, tuple[tuple[str, str], ...]] = {
    "negated verb": (
        ("i like this product", "i do not like this product"),
        ("i love the way it ends", "i do not love the way it ends"),
        ("we enjoyed our stay", "we did not enjoy our stay"),
        ("my children liked the book", "my children did not like the book"),
        ("the battery works", "the battery does not work"),
        ("the actors convince me", "the actors do not convince me"),
        ("i can recommend this place", "i can not recommend this place"),
        ("they care about their guests", "they do not care about their guests"),
        ("it made me laugh", "it did not make me laugh"),
        ("she trusts this company", "she does not trust this company"),
    ),
    "negated adjective": (
        ("the food was good", "the food was not good"),
        ("the staff is friendly", "the staff is not friendly"),
        ("the plot is clever", "the plot is not clever"),
        ("this phone is worth its price", "this phone is not worth its price"),
        ("the rooms were clean", "the rooms were not clean"),
        ("his new song is beautiful", "his new song is not beautiful"),
        ("the instructions are clear", "the instructions are not clear"),
        ("it is a pleasant surprise", "it is not a pleasant surprise"),
        ("the jokes are funny", "the jokes are not funny"),
        ("the ending is satisfying", "the ending is not satisfying"),
    ),
    "negated negative": (
        ("the hotel is not bad", "the hotel is bad"),
        ("the film is not boring", "the film is boring"),
        ("it was not a waste of time", "it was a waste of time"),
        ("i do not regret buying it", "i regret buying it"),
        ("the service was not slow", "the service was slow"),
        ("you will not be disappointed", "you will be disappointed"),
        ("i did not hate a minute of it", "i hated every minute of it"),
        ("the songs are not annoying", "the songs are annoying"),
        ("it does not feel cheap", "it feels cheap"),
        ("the story is not predictable", "the story is predictable"),
    ),
    "no and many": (
        ("we have no complaints", "we have many complaints"),
        ("there are no problems with it", "there are many problems with it"),
        ("it has no flaws", "it has no merits"),
        ("i see no reason to be angry", "i see no reason to be happy"),
        ("the book has no weak chapter", "the book has no strong chapter"),
        ("there is no better choice", "there is no worse choice"),
        ("no scene is dull", "no scene is interesting"),
        ("it has many charms", "it has no charms"),
        ("there was no bad moment", "there was no good moment"),
        ("they made no mistakes", "they made a lot of mistakes"),
    ),
    "hardly and never": (
        ("it hardly ever fails", "it hardly ever works"),
        ("the show is never dull", "the show is never exciting"),
        ("i was rarely so happy with a purchase", "i was rarely so unhappy with a purchase"),
        ("the acting is hardly bad", "the acting is hardly good"),
        ("he never lets us down", "he always lets us down"),
        ("it never gets boring", "it never gets interesting"),
        ("the screen is always bright", "the screen is hardly bright"),
        ("i have never eaten better", "i have never eaten worse"),
        ("it seldom disappoints", "it seldom delights"),
        ("the jokes never fall flat", "the jokes always fall flat"),
    ),
    "nothing and nobody": (
        ("nothing went wrong", "nothing went right"),
        ("nobody was disappointed", "nobody was impressed"),
        ("there is nothing wrong with it", "there is nothing right with it"),
        ("there is nothing bad about this place", "there is nothing good about this place"),
        ("nobody left before the end", "nobody stayed until the end"),
        ("everything about it is lovely", "nothing about it is lovely"),
        ("everybody loved the music", "nobody loved the music"),
        ("nothing in this film is dull", "nothing in this film is fresh"),
        ("there is much to admire here", "there is nothing to admire here"),
        ("none of the parts broke", "all of the parts broke"),
    ),
    "comparison": (
        ("it is better than i expected", "it is worse than i expected"),
        ("the sequel is better than the original", "the original is better than the sequel , which i regret"),
        ("this is the best meal in town", "this is the worst meal in town"),
        ("it is less boring than the others", "it is more boring than the others"),
        ("they are friendlier than before", "they are ruder than before"),
        ("more fun than i had hoped", "less fun than i had hoped"),
        ("it could not be better", "it could not be worse"),
        ("as good as new", "not as good as new"),
        ("it is cheaper and stronger", "it is weaker and more expensive"),
        ("her best role in years", "her worst role in years"),
    ),
    "but": (
        ("slow at first but wonderful in the end", "wonderful at first but slow and dull in the end"),
        ("the room was small but we loved it", "the room was large but we hated it"),
        ("not cheap but worth every cent", "cheap but not worth a cent"),
        ("the cover is ugly but the book is great", "the cover is great but the book is awful"),
        ("i expected little but i was delighted", "i expected a lot but i was bored"),
        ("a simple story but a moving one", "a moving idea but a dull story"),
        ("it looks fragile but it lasts", "it looks strong but it breaks"),
        ("strange but charming", "charming for a while but mostly annoying"),
        ("the start is weak but the rest is brilliant", "the start is brilliant but the rest is weak"),
        ("long but never tiring", "short but still tiring"),
    ),
    "far from and without": (
        ("far from boring", "far from interesting"),
        ("it is anything but dull", "it is anything but exciting"),
        ("a comedy without a weak joke", "a comedy without a good joke"),
        ("the service is far from bad", "the service is far from good"),
        ("he plays without fault", "he plays without charm"),
        ("she sings with feeling", "she sings without feeling"),
        ("the trip was free of trouble", "the trip was full of trouble"),
        ("it lacks nothing", "it lacks everything"),
        ("full of ideas", "short of ideas"),
        ("too good to miss", "too dull to watch"),
    ),
    "again": (
        ("i would buy it again", "i would not buy it again"),
        ("we will come back", "we will not come back"),
        ("i want to see it again", "i never want to see it again"),
        ("you should try it", "you should avoid it"),
        ("i am glad that i bought it", "i wish that i had not bought it"),
        ("i would recommend it to my friends", "i would not recommend it to my enemies"),
        ("it is worth your time", "it is not worth your time"),
        ("i could not put it down", "i could not finish it"),
        ("keep up the good work", "stop this bad work"),
        ("i hope that they make another", "i hope that they never make another"),
    ),
}
