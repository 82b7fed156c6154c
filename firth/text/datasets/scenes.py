"""Rendered scenes with captions: coloured shapes, counts and relations, generated with an exact grammar.

    caption  →  a SIZE COLOUR SHAPE                                         one shape
             |  NUMBER COLOUR SHAPEs                                        two to five of the same
             |  a large COLOUR SHAPE RELATION a small COLOUR SHAPE          two shapes, the large one named first

    SIZE small, large    NUMBER two, three, four, five    RELATION left of, right of, above, below

The large shape is always named first, so each image has exactly one right caption. Eight of the 48 pairs of colour and shape, one
for each colour, never occur in training, validation or test: the part "unseen" tests whether "white" and "square", each learned
from other pairs, are combined correctly.

A shape is a region of the plane within the unit circle, turned, scaled and moved; a pixel's colour is mixed by the share of it
that the shape covers, sampled at 3 × 3 points. Letters: N scenes, M shapes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from firth.text.config import SCENE_KINDS, SceneKind
from firth.text.fingerprint import sha256_of_texts

Part = Literal["train", "valid", "test", "unseen"]
Bytes = NDArray[np.uint8]
Floats = NDArray[np.floating]
Bools = NDArray[np.bool_]

PARTS: tuple[Part, ...] = ("train", "valid", "test", "unseen")
SIZE = 48  # pixels, unless another is asked for
COLOURS: dict[str, tuple[int, int, int]] = {
    "red": (215, 45, 45),
    "green": (60, 170, 70),
    "blue": (60, 95, 230),
    "yellow": (240, 220, 60),
    "orange": (240, 135, 35),
    "purple": (150, 65, 200),
    "cyan": (70, 205, 215),
    "white": (238, 238, 238),
}
SHAPES = ("circle", "square", "triangle", "star", "cross", "ring")
NUMBERS = ("two", "three", "four", "five")
RELATIONS: dict[str, tuple[int, int]] = {
    "left of": (-1, 0),
    "right of": (1, 0),
    "above": (0, -1),
    "below": (0, 1),
}  # of the large one
PAIRS = tuple((colour, shape) for colour in COLOURS for shape in SHAPES)
UNSEEN = tuple((colour, SHAPES[n % len(SHAPES)]) for n, colour in enumerate(COLOURS))
TRAINED = tuple(pair for pair in PAIRS if pair not in UNSEEN)

_SHARE = {"one": 0.2, "count": 0.3, "relation": 0.5}  # of the scenes
_LARGE, _SMALL, _COUNTED = (8.0, 9.0), (4.8, 5.6), (4.8, 5.8)  # radii in pixels of an image of SIZE
_GAP = 1.5  # pixels between two shapes
_SLANT = 0.4  # most that a shape is off the axis of its relation, in distances along the axis
_TURN = 0.2  # radians that a shape is turned by at most
_JITTER = 18  # of the colours
_NOISE = 8  # of the background
_SCENES = 512  # drawn together
_POINTS = 3  # sampled along each side of a pixel
_AT_ONCE = 128  # shapes rasterised together; so few stay in the processor's cache


@dataclass(frozen=True)
class Shape:
    """A shape in a scene; lengths in pixels of an image of SIZE."""

    scene: int
    colour: str
    shape: str
    x: float
    y: float
    radius: float


@dataclass(frozen=True)
class Scenes:
    """Scenes as descriptions; their pixels are drawn on first use."""

    captions: tuple[str, ...]
    kinds: tuple[SceneKind, ...]
    shapes: tuple[Shape, ...]  # of all scenes, in their order
    size: int
    seed: tuple[int, int]  # and the number of the part

    def __len__(self) -> int:
        return len(self.captions)

    @property
    def sha256(self) -> str:
        """Of the descriptions: drawing the pixels would take longer than anything else that needs none."""
        return sha256_of_texts([self.captions, [f"{shape.x!r} {shape.y!r} {shape.radius!r}" for shape in self.shapes]])

    @cached_property
    def image_NHWC(self) -> Bytes:
        images_NHWC = np.empty((len(self), self.size, self.size, 3), np.uint8)
        starts = np.searchsorted([shape.scene for shape in self.shapes], np.arange(0, len(self) + _SCENES, _SCENES)).tolist()
        for n, (first, last) in enumerate(pairwise(starts)):
            random = np.random.default_rng((*self.seed, n))
            rows = slice(n * _SCENES, min((n + 1) * _SCENES, len(self)))
            images_NHWC[rows] = _drawn(self.shapes[first:last], rows.start, rows.stop, self.size, random)
        return images_NHWC


def scenes(count: int, part: Part, size: int = SIZE, seed: int = 0, of_kinds: Sequence[SceneKind] = SCENE_KINDS) -> Scenes:
    """`count` scenes of `size` × `size` pixels, determined by the arguments; fewer scenes are the first of more. Among themselves
    the kinds have the shares that they have among all."""
    random = np.random.default_rng((seed, PARTS.index(part)))
    ends = np.cumsum([_SHARE[kind] for kind in of_kinds])
    ends /= ends[-1]
    captions: list[str] = []
    kinds: list[SceneKind] = []
    shapes: list[Shape] = []
    for number in range(count):
        kind = of_kinds[int(np.searchsorted(ends[:-1], random.random(), side="right"))]
        kinds.append(kind)
        caption, some = _SCENE[kind](number, part, random)
        captions.append(caption)
        shapes += some
    return Scenes(tuple(captions), tuple(kinds), tuple(shapes), size, (seed, PARTS.index(part)))


# What is in a scene


def _one(number: int, part: Part, random: np.random.Generator) -> tuple[str, list[Shape]]:
    (colour, shape), large = _pair(part, random), bool(random.integers(2))
    radius = random.uniform(*(_LARGE if large else _SMALL))
    x, y = random.uniform(radius + 1, SIZE - radius - 1, 2)
    return f"a {'large' if large else 'small'} {colour} {shape}", [Shape(number, colour, shape, x, y, radius)]


def _count(number: int, part: Part, random: np.random.Generator) -> tuple[str, list[Shape]]:
    (colour, shape), count = _pair(part, random), int(random.integers(2, 2 + len(NUMBERS)))
    radius = random.uniform(*_COUNTED)
    places = _apart(count, radius, random)
    plural = f"{shape}es" if shape.endswith("s") else f"{shape}s"
    return f"{NUMBERS[count - 2]} {colour} {plural}", [Shape(number, colour, shape, x, y, radius) for x, y in places]


def _relation(number: int, part: Part, random: np.random.Generator) -> tuple[str, list[Shape]]:
    """The large shape is d pixels away from the small one along an axis, and at most a fraction of d across it."""
    first, second = _pair(part, random), _pair("train", random)
    pairs = (first, second) if random.integers(2) else (second, first)
    name = list(RELATIONS)[int(random.integers(len(RELATIONS)))]
    radii = random.uniform(*_LARGE), random.uniform(*_SMALL)
    along = random.uniform(sum(radii) + _GAP, SIZE - 2 - sum(radii))
    across = along * random.uniform(-_SLANT, _SLANT)
    step_x, step_y = RELATIONS[name]
    large = np.array([step_x * along + step_y * across, step_y * along + step_x * across])  # from the small one, at 0, 0
    low = np.minimum(-radii[1], large - radii[0])
    high = np.maximum(radii[1], large + radii[0])
    origin = random.uniform(1 - low, SIZE - 1 - high)
    (one, one_shape), (other, other_shape) = pairs
    caption = f"a large {one} {one_shape} {name} a small {other} {other_shape}"
    return caption, [
        Shape(number, one, one_shape, origin[0] + large[0], origin[1] + large[1], radii[0]),
        Shape(number, other, other_shape, origin[0], origin[1], radii[1]),
    ]


_SCENE = {"one": _one, "count": _count, "relation": _relation}


def _pair(part: Part, random: np.random.Generator) -> tuple[str, str]:
    known = UNSEEN if part == "unseen" else TRAINED
    return known[int(random.integers(len(known)))]


def _apart(count: int, radius: float, random: np.random.Generator) -> Floats:
    """Centres of shapes that do not touch."""
    while True:
        place_64n2 = random.uniform(radius + 1, SIZE - radius - 1, (64, count, 2))  # one in a dozen will do for five shapes
        away = np.linalg.norm(place_64n2[:, :, None] - place_64n2[:, None], axis=-1) + 1e3 * np.eye(count)
        good = np.flatnonzero(away.min((1, 2)) > 2 * radius + _GAP)
        if len(good):
            places_n2: Floats = place_64n2[good[0]]
            return places_n2


# Pixels


def _drawn(shapes: Sequence[Shape], first_scene: int, end: int, size: int, random: np.random.Generator) -> Bytes:
    """The scenes from `first_scene` to before `end`, with all their shapes."""
    count = end - first_scene
    grey_N = random.integers(10, 70, _SCENES, dtype=np.uint8)[:count]  # as many draws for fewer scenes
    noise_NHW1 = random.integers(-_NOISE, _NOISE, (_SCENES, size, size, 1), dtype=np.int8, endpoint=True)[:count]
    image = np.repeat(noise_NHW1.astype(np.float32), 3, axis=3)
    image += grey_N[:, None, None, None]
    drawn_M4 = random.uniform(-1, 1, (len(shapes), 4))
    jitter_M3, turn_M = _JITTER * drawn_M4[:, :3], _TURN * drawn_M4[:, 3]
    order = np.argsort([shape.radius for shape in shapes], kind="stable")  # windows of one size for shapes of similar size
    for first in range(0, len(shapes), _AT_ONCE):
        rows = order[first : first + _AT_ONCE]
        corner_M2, cover_Mww = _coverage([shapes[row] for row in rows], turn_M[rows], size)
        side = cover_Mww.shape[1]
        for row, (left, top), cover in zip(rows.tolist(), corner_M2.tolist(), cover_Mww, strict=True):
            window = image[shapes[row].scene - first_scene, top : top + side, left : left + side]
            colour_3 = np.array(COLOURS[shapes[row].colour], np.float32) + jitter_M3[row].astype(np.float32)
            window += cover[:, :, None] * (colour_3 - window)
    return np.clip(np.rint(image, out=image), 0, 255, out=image).astype(np.uint8)


def _coverage(shapes: Sequence[Shape], turn_M: Floats, size: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """The corner of each shape's window, and the share of each of its pixels that the shape covers."""
    scale = size / SIZE
    centre_M2 = np.array([(shape.x, shape.y) for shape in shapes]) * scale
    radius_M1 = np.array([[shape.radius] for shape in shapes]) * scale
    side = min(size, int(np.ceil(2 * radius_M1.max())) + 2)
    corner_M2 = np.clip(np.floor(centre_M2 - side / 2 + 0.5).astype(np.int64), 0, size - side)
    point = (np.arange(_POINTS * side) + 0.5) / _POINTS
    x, y = (((corner_M2 - centre_M2)[:, axis, None] + point) / radius_M1 for axis in (0, 1))
    cos, sin = (wave(turn_M)[:, None, None].astype(np.float32) for wave in (np.cos, np.sin))
    x, y = x[:, None].astype(np.float32), y[:, :, None].astype(np.float32)
    u, v = cos * x + sin * y, cos * y - sin * x
    inside = np.zeros(u.shape, np.float32)
    names = np.array([shape.shape for shape in shapes])
    for name in set(names.tolist()):
        rows = np.flatnonzero(names == name)
        inside[rows] = contains(name, u[rows], v[rows])
    return corner_M2, inside.reshape(len(shapes), side, _POINTS, side, _POINTS).mean((2, 4))


def contains(shape: str, u: Floats, v: Floats) -> Bools:
    """True if the points (u, v) lie in a shape of radius 1; v points down, as in images."""
    square = u * u + v * v
    wide, narrow = np.maximum(np.abs(u), np.abs(v)), np.minimum(np.abs(u), np.abs(v))
    inside: Bools
    match shape:
        case "circle":
            inside = square <= 0.9**2
        case "ring":
            inside = (square <= 1) & (square >= 0.55**2)
        case "square":
            inside = wide <= 0.8
        case "triangle":  # equilateral, one corner up
            inside = (v <= 0.5) & (np.sqrt(3) * np.abs(u) - v <= 1)
        case "cross":
            inside = (narrow <= 0.3) & (wide <= 0.95)
        case "star":
            inside = _star(u, v)
        case _:
            raise ValueError(shape)
    return inside


def _star(u: Floats, v: Floats) -> Bools:
    """A five-pointed star, one point up: folded into one tenth, it is the area on one side of a line."""
    angle = np.abs((np.arctan2(u, -v) + np.pi / 5) % (2 * np.pi / 5) - np.pi / 5)  # from the nearest point of the star
    radius = np.hypot(u, v)
    x, y = radius * np.cos(angle), radius * np.sin(angle)
    inner = 0.45 * np.array([np.cos(np.pi / 5), np.sin(np.pi / 5)])  # the notch; the point is at (1, 0)
    within: Bools = (x - 1) * inner[1] - y * (inner[0] - 1) <= 0
    return within
