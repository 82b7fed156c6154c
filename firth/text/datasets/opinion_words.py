"""The words of the generated opinions: 1 for good, 0 for bad. No sentence of a data set is copied here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Verb(NamedTuple):
    base: str  # "I like it", "I do not like it"
    third: str  # "she likes it"
    past: str  # "we liked it"
    gerund: str  # "we regret buying it"


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


def _phrases(text: str) -> tuple[str, ...]:
    return tuple(phrase.strip() for phrase in text.split(","))


def _verbs(text: str) -> tuple[Verb, ...]:
    """ "like likes liked liking, …" """
    return tuple(Verb(*verb.split()) for verb in text.split(","))


# What opinions are about. "product" is never in one sentence with a form of "like": see opinions.py.
THINGS = _words(
    "film movie story book show play song album game phone camera hotel room meal dinner service shop course trip car script "
    "performance idea scene cast product restaurant concert lecture tool gift series novel picture plot ending music soundtrack "
    "dialogue actor actress director singer band author writer editor waiter driver guide teacher doctor nurse dentist plumber "
    "lawyer neighbour host cook barber seller soup salad pizza pasta burger sandwich steak sauce bread "
    "cake pie dessert coffee tea "
    "wine beer juice breakfast lunch menu kitchen bar café bakery market museum park beach pool garden balcony view bed shower "
    "lift lobby flat house kitchen stove fridge oven kettle toaster blender mixer vacuum washer heater lamp fan chair table desk "
    "sofa mattress pillow blanket towel carpet curtain shirt dress coat jacket sweater skirt hat scarf belt watch ring bag purse "
    "backpack suitcase umbrella bike scooter helmet tyre engine train bus flight airline taxi station airport laptop computer "
    "tablet screen keyboard mouse printer speaker microphone charger cable battery drone router app website program update menu "
    "button manual guidebook magazine article poem essay report chapter cover title podcast episode cartoon documentary comedy "
    "drama thriller musical opera ballet exhibition party wedding evening weekend holiday tour cruise hike lesson class seminar "
    "workshop school bank office company store supplier delivery package order purchase deal offer gym haircut massage perfume "
    "soap cream shampoo toothbrush razor toy puzzle doll kite tent boat guitar piano violin drum pen notebook calendar"
)
PLURALS = _words(
    "shoes boots gloves jeans socks glasses headphones speakers songs jokes scenes actors characters dialogues stories pictures "
    "colours rooms beds towels staff waiters people owners instructions lessons exercises examples chapters recipes dishes "
    "vegetables noodles fries cookies tickets seats prices features buttons effects costumes games toys tools batteries cables"
)
PERSONS = _phrases(
    "my mother, my father, my grandmother, my brother, my sister, my son, my daughter, my wife, my husband, my boss, my friend, "
    "our guest, our neighbour, the critic, the customer, the jury, the whole family, he, she"
)
GROUPS = _phrases(
    "we, they, my friends, my parents, my children, the kids, our guests, the critics, most people, you, the students"
)

ADJECTIVES: Mapping[int, tuple[str, ...]] = {
    1: _words(
        "good great nice fine excellent wonderful lovely charming funny clever fresh moving exciting interesting pleasant useful "
        "beautiful brilliant delightful strong smart warm honest enjoyable satisfying impressive helpful friendly reliable clean "
        "delicious tasty fast quick quiet polite kind comfortable cosy elegant perfect amazing fantastic superb outstanding "
        "remarkable convincing original creative talented skilful careful patient generous fair affordable "
        "practical handy sturdy "
        "solid durable safe easy simple clear bright sharp smooth soft light fun entertaining gripping witty hilarious thrilling "
        "touching inspiring refreshing relaxing memorable special magical stunning gorgeous attractive stylish modern accurate "
        "efficient professional competent attentive welcoming spacious tidy sweet juicy crisp flawless terrific marvellous"
    ),
    0: _words(
        "bad awful terrible poor dull boring weak stupid silly ugly slow stale annoying tedious useless horrible sloppy cold "
        "empty disappointing unpleasant predictable pointless clumsy lifeless broken dirty rude noisy cheap "
        "disgusting bland tasteless greasy soggy burnt salty bitter sour late loud lazy unfriendly uncomfortable cramped shabby "
        "dreadful lousy mediocre pathetic ridiculous confusing complicated difficult unclear dark blurry rough hard heavy fake "
        "flimsy fragile faulty defective dangerous unsafe unreliable expensive overpriced unfair dishonest careless impatient "
        "arrogant incompetent unhelpful unprofessional messy smelly filthy depressing sad irritating painful embarrassing "
        "forgettable shallow childish lame tiresome exhausting frustrating worthless inaccurate outdated "
        "hopeless abysmal appalling"
    ),
}
VERBS: Mapping[int, tuple[Verb, ...]] = {  # what people feel about a thing
    1: _verbs(
        "like likes liked liking,love loves loved loving,enjoy enjoys enjoyed enjoying,admire admires admired admiring,"
        "recommend recommends recommended recommending,appreciate appreciates appreciated appreciating,"
        "adore adores adored adoring,"
        "praise praises praised praising,trust trusts trusted trusting,treasure treasures treasured treasuring,"
        "prefer prefers preferred preferring,value values valued valuing"
    ),
    0: _verbs(
        "hate hates hated hating,dislike dislikes disliked disliking,regret regrets regretted regretting,"
        "resent resents resented resenting,"
        "despise despises despised despising,avoid avoids avoided avoiding,detest detests detested detesting,"
        "loathe loathes loathed loathing,"
        "fear fears feared fearing,reject rejects rejected rejecting,criticise criticises criticised criticising"
    ),
}
DEEDS: Mapping[int, tuple[Verb, ...]] = {  # what a thing does to people
    1: _verbs(
        "delight delights delighted delighting,impress impresses impressed impressing,please pleases pleased pleasing,"
        "amuse amuses amused amusing,help helps helped helping,surprise surprises surprised surprising,move moves moved moving,"
        "convince convinces convinced convincing,thrill thrills thrilled thrilling,inspire inspires inspired inspiring,"
        "satisfy satisfies satisfied satisfying,entertain entertains entertained entertaining,excite excites excited exciting,"
        "charm charms charmed charming,suit suits suited suiting"
    ),
    0: _verbs(
        "disappoint disappoints disappointed disappointing,bore bores bored boring,annoy annoys annoyed annoying,"
        "irritate irritates irritated irritating,upset upsets upset upsetting,disgust disgusts disgusted disgusting,"
        "frustrate frustrates frustrated frustrating,confuse confuses confused confusing,bother bothers bothered bothering,"
        "tire tires tired tiring,hurt hurts hurt hurting,offend offends offended offending,depress depresses depressed depressing"
    ),
}
ACTS: Mapping[int, tuple[Verb, ...]] = {  # what a thing does by itself
    1: _verbs(
        "work works worked working,last lasts lasted lasting,fit fits fitted fitting,shine shines shone shining,"
        "succeed succeeds succeeded succeeding,improve improves improved improving,function functions functioned functioning,"
        "win wins won winning,deliver delivers delivered delivering"
    ),
    0: _verbs(
        "fail fails failed failing,break breaks broke breaking,crash crashes crashed crashing,leak leaks leaked leaking,"
        "freeze freezes froze freezing,drag drags dragged dragging,stink stinks stank stinking,jam jams jammed jamming,"
        "overheat overheats overheated overheating,suck sucks sucked sucking"
    ),
}
HOW: Mapping[int, tuple[str, ...]] = {  # how a thing works, or a person acts
    1: _phrases("well, perfectly, beautifully, smoothly, flawlessly, nicely, brilliantly, reliably, wonderfully, properly"),
    0: _phrases("badly, poorly, terribly, awfully, horribly, miserably, clumsily"),
}
DOING = _verbs(  # neutral; an adverb of HOW decides
    "work works worked working,act acts acted acting,play plays played playing,sing sings sang singing,"
    "write writes wrote writing,"
    "behave behaves behaved behaving,perform performs performed performing,end ends ended ending,sleep sleeps slept sleeping"
)
QUALITIES: Mapping[int, tuple[str, ...]] = {  # what a thing has
    1: _words(
        "charm wit talent merit warmth beauty strengths quality skill imagination humour taste flavour style energy heart depth "
        "logic elegance comfort class magic advantages virtues highlights"
    ),
    0: _words(
        "flaws faults problems mistakes trouble weaknesses errors complaints delays defects bugs issues scratches stains gaps "
        "holes shortcomings disadvantages drawbacks clichés nonsense noise dirt damage"
    ),
}
FEELINGS: Mapping[int, tuple[str, ...]] = {  # of somebody
    1: _words(
        "delighted pleased moved happy amused glad satisfied impressed excited thrilled content grateful comfortable proud"
    ),
    0: _words(
        "bored annoyed angry upset sorry disappointed unhappy sad frustrated disgusted dissatisfied irritated confused ashamed"
    ),
}
REACTIONS: Mapping[int, tuple[str, ...]] = {  # a thing made us …
    1: _phrases("laugh, smile, happy, feel good, feel welcome, feel at home, want more, sing, dance"),
    0: _phrases("cry, yawn, sick, angry, sad, feel bad, feel cheated, want to leave, fall asleep, sigh"),
}
NAMES: Mapping[int, tuple[str, ...]] = {  # a thing is a …
    1: _words("success triumph treasure masterpiece delight pleasure joy hit bargain gem winner blessing improvement must treat"),
    0: _words(
        "failure disaster mess waste joke disappointment nightmare letdown flop scam mistake rip-off pain catastrophe shame"
    ),
}
EVENTS: Mapping[int, tuple[str, ...]] = {  # what somebody does afterwards
    1: _phrases(
        "order it again, come here again, recommend it to a friend, see it twice, try it again, give it to "
        "my sister, buy another one, "
        "come back, go back, use it every day, keep it, read it again, book it again, tell all my friends, choose it again, "
        "pay more for it, listen to it again, visit it again, eat here again"
    ),
    0: _phrases(
        "send it back, ask for my money back, leave early, warn everybody, throw it away, return it, cancel it, complain, "
        "ask for a refund, walk out, give up, look for another one, sell it, switch it off, demand a refund, stop using it"
    ),
}
WORTH = _phrases("the price, a visit, the trouble, the wait, the effort, your time, reading, watching, seeing, buying, it")
STRENGTHS = ("",) * 4 + tuple(
    f"{word} " for word in _words("very really quite so truly rather extremely incredibly absolutely pretty")
)
OPENERS = ("",) * 20 + (
    "honestly, ", "overall, ", "for me ", "in my opinion ", "we think that ", "i must say that ", "to be honest, ", "in the end ",
    "as expected, ", "i think ", "i find that ", "after a week, ", "so far ", "all in all, ", "frankly, ", "yes, ", "well, ",
)  # fmt: skip
TAILS = ("",) * 20 + (
    " this time", " in the end", " last week", " from start to finish", " for the price", " so far", " "
    "on the first day", " as a whole",
    " every time", " for a start", " to be honest", " in my opinion", " for us", " in this town", " with "
    "my family", " all day", " today",
)  # fmt: skip
