"""All exercises, in the order of the course."""

from __future__ import annotations

from firth.errors import ConfigError, did_you_mean
from firth.experiments.exercises.attention import ATTENTIONS
from firth.experiments.exercises.basics import BASICS
from firth.experiments.exercises.block_parts import BLOCK_PARTS
from firth.experiments.exercises.decoder_block import BLOCKS
from firth.experiments.exercises.exercise import Exercise
from firth.experiments.exercises.heads import HEADS
from firth.experiments.exercises.losses import LOSSES
from firth.experiments.exercises.positions import POSITIONS
from firth.experiments.exercises.recurrent import RECURRENT
from firth.experiments.exercises.sequences import SEQUENCES
from firth.experiments.exercises.word_vectors import WORD_VECTORS

EXERCISES: tuple[Exercise, ...] = (
    *BASICS,
    *WORD_VECTORS,
    *RECURRENT,
    *LOSSES,
    *ATTENTIONS,
    *HEADS,
    *POSITIONS,
    *BLOCK_PARTS,
    *BLOCKS,
    *SEQUENCES,
)
NAMES = tuple(one.name for one in EXERCISES)


def find_exercise(name: str) -> Exercise:
    for one in EXERCISES:
        if one.name == name:
            return one
    raise ConfigError(f'there is no exercise "{name}".{did_you_mean(name, NAMES)}')
