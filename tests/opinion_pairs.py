"""Forty pairs of opinions, the first positive, the second negative, in the words of people rather than of a grammar.

They were written before the data set "opinions" and are in none of firth's data. The first draft of its grammar was then
compared with them once: "tastes", "feels", "sounds" and "disappointed by" were added, "worth the money" removed. The settings of
the recipe were chosen by its validation accuracy."""

from __future__ import annotations

PAIRS = (
    ("I like this product", "I do not like this product"),
    ("I enjoyed the film", "I did not enjoy the film"),
    ("The soup was delicious", "The soup was not delicious"),
    ("We would stay at this hotel again", "We would not stay at this hotel again"),
    ("My daughter loves her new bike", "My daughter does not love her new bike"),
    ("This blender works well", "This blender does not work well"),
    ("The waiter was very polite", "The waiter was not very polite"),
    ("I am happy with my purchase", "I am not happy with my purchase"),
    ("You should read this novel", "You should not read this novel"),
    ("The acting is convincing", "The acting isn't convincing"),
    ("It was worth the money", "It wasn't worth the money"),
    ("I recommend these headphones", "I don't recommend these headphones"),
    ("The battery lasts all day", "The battery does not last all day"),
    ("The pizza did not disappoint us", "The pizza disappointed us"),
    ("That was not a boring evening", "That was a boring evening"),
    ("I never regretted buying this car", "I regretted buying this car"),
    ("There was nothing wrong with our room", "There was something wrong with our room"),
    ("Nobody complained about the food", "Everybody complained about the food"),
    ("The new phone is better than the old one", "The new phone is worse than the old one"),
    ("He is a talented actor", "He is not a talented actor"),
    ("I found no faults with this camera", "I found many faults with this camera"),
    ("The jokes made us laugh", "The jokes did not make us laugh"),
    ("What a lovely little restaurant", "What an awful little restaurant"),
    ("The plot makes sense", "The plot makes no sense"),
    ("She was pleased with the result", "She was not pleased with the result"),
    ("The customer service was helpful", "The customer service was far from helpful"),
    ("I wasn't bored for a minute", "I was bored for an hour"),
    ("The story is interesting and well told", "The story is neither interesting nor well told"),
    ("It is a comfortable chair", "It is an uncomfortable chair"),
    ("The app never crashes", "The app always crashes"),
    ("We had a great time", "We had a terrible time"),
    ("These shoes fit perfectly", "These shoes do not fit at all"),
    ("The coffee tastes good", "The coffee tastes bad"),
    ("I was not disappointed by the ending", "I was disappointed by the ending"),
    ("I think this game is fun", "I don't think this game is fun"),
    ("The instructions were easy to follow", "The instructions were not easy to follow"),
    ("Everyone in my family liked the cake", "No one in my family liked the cake"),
    ("The delivery was fast", "The delivery was not fast"),
    ("A brilliant idea and a beautiful book", "A stupid idea and an ugly book"),
    ("I want to watch it again", "I never want to watch it again"),
)
SENTENCES = tuple((text, label) for pair in PAIRS for text, label in zip(pair, ("positive", "negative"), strict=True))
