"""Rendered scenes: what a caption says is what is drawn, and nothing else fits it."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np
import pytest

from firth.text.datasets.digits import WORDS, digits
from firth.text.datasets.scenes import (
    COLOURS,
    NUMBERS,
    PAIRS,
    PARTS,
    RELATIONS,
    SHAPES,
    SIZE,
    TRAINED,
    UNSEEN,
    Part,
    Scenes,
    Shape,
    contains,
    scenes,
)

ONE = re.compile(rf"a (small|large) ({'|'.join(COLOURS)}) ({'|'.join(SHAPES)})")
COUNT = re.compile(rf"({'|'.join(NUMBERS)}) ({'|'.join(COLOURS)}) ({'|'.join(SHAPES)})(?:e?s)")
RELATION = re.compile(rf"a large (\w+) (\w+) ({'|'.join(RELATIONS)}) a small (\w+) (\w+)")


def shapes_of(drawn: Scenes) -> list[list[Shape]]:
    each: list[list[Shape]] = [[] for _ in range(len(drawn))]
    for shape in drawn.shapes:
        each[shape.scene].append(shape)
    return each


def described(shapes: list[Shape]) -> str:
    """The caption that the grammar gives to what is in a scene, worked out from the shapes alone."""
    if len(shapes) == 1:
        (only,) = shapes
        return f"a {'large' if only.radius > 7 else 'small'} {only.colour} {only.shape}"
    if len({(shape.colour, shape.shape, shape.radius) for shape in shapes}) == 1:
        plural = shapes[0].shape + ("es" if shapes[0].shape == "cross" else "s")
        return f"{NUMBERS[len(shapes) - 2]} {shapes[0].colour} {plural}"
    large, small = sorted(shapes, key=lambda shape: -shape.radius)
    x, y = large.x - small.x, large.y - small.y
    name = ("right of" if x > 0 else "left of") if abs(x) > abs(y) else ("below" if y > 0 else "above")
    return f"a large {large.colour} {large.shape} {name} a small {small.colour} {small.shape}"


@pytest.mark.parametrize("part", PARTS)
def test_a_caption_says_exactly_what_is_drawn(part: Part) -> None:
    drawn = scenes(400, part)
    assert [described(shapes) for shapes in shapes_of(drawn)] == list(drawn.captions)
    assert all(ONE.fullmatch(text) or COUNT.fullmatch(text) or RELATION.fullmatch(text) for text in drawn.captions)
    kinds = Counter(drawn.kinds)
    assert min(kinds["one"], kinds["count"], kinds["relation"]) > 40


@pytest.mark.parametrize("part", PARTS)
def test_shapes_lie_inside_the_image_and_do_not_touch(part: Part) -> None:
    for shapes in shapes_of(scenes(400, part)):
        for n, one in enumerate(shapes):
            assert one.radius <= min(one.x, one.y, SIZE - one.x, SIZE - one.y)
            for other in shapes[:n]:
                assert np.hypot(one.x - other.x, one.y - other.y) > one.radius + other.radius


def test_unseen_pairs_occur_in_their_own_part_alone_and_in_every_scene_of_it() -> None:
    assert len(PAIRS) == 48
    assert len(UNSEEN) == 8
    assert {colour for colour, _ in UNSEEN} == set(COLOURS)
    for part in ("train", "valid", "test"):
        assert {(shape.colour, shape.shape) for shape in scenes(3000, part).shapes} == set(TRAINED)
    for shapes in shapes_of(scenes(400, "unseen")):
        assert any((shape.colour, shape.shape) in UNSEEN for shape in shapes)


def test_only_the_kinds_that_are_asked_for_are_drawn() -> None:
    assert set(scenes(60, "test", of_kinds=["one"]).kinds) == {"one"}
    both = Counter(scenes(2000, "test", of_kinds=["relation", "one"]).kinds)
    assert both["relation"] / both["one"] == pytest.approx(5 / 2, rel=0.15)
    assert both.total() == 2000 == both["relation"] + both["one"]
    assert scenes(60, "test", of_kinds=["one", "count", "relation"]).captions == scenes(60, "test").captions


def test_scenes_are_determined_by_their_arguments_and_fewer_are_the_first_of_more() -> None:
    few, many = scenes(30, "test"), scenes(600, "test")
    assert few.captions == many.captions[:30]
    assert np.array_equal(few.image_NHWC, many.image_NHWC[:30])
    assert scenes(30, "test", seed=1).captions != few.captions
    assert scenes(30, "valid").captions != few.captions


@pytest.mark.parametrize("size", [SIZE, 96])
def test_the_pixels_have_the_colour_of_the_shape_that_covers_them(size: int) -> None:
    drawn = scenes(200, "train", size)
    assert drawn.image_NHWC.shape == (200, size, size, 3)
    scale = size / SIZE
    for shape in drawn.shapes:
        if shape.shape == "ring":
            continue  # its centre is background
        x, y = int(shape.x * scale), int(shape.y * scale)
        pixel = drawn.image_NHWC[shape.scene, y, x].astype(int)
        nearest = min(COLOURS, key=lambda name: np.abs(pixel - COLOURS[name]).sum())
        assert nearest == shape.colour
    background = np.median(drawn.image_NHWC.reshape(200, -1, 3).max(-1), axis=1)
    assert background.max() < 90


@pytest.mark.parametrize(
    ("shape", "area"),
    [
        ("circle", np.pi * 0.9**2),
        ("square", 1.6**2),
        ("triangle", 3 * np.sqrt(3) / 4),
        ("ring", np.pi * (1 - 0.55**2)),
        ("cross", 2 * 1.9 * 0.6 - 0.6**2),
        ("star", 10 * 0.5 * 0.45 * np.sin(np.pi / 5)),  # ten triangles of centre, point and notch
    ],
)
def test_a_shape_has_the_area_of_its_geometry(shape: str, area: float) -> None:
    side = (np.arange(1000) + 0.5) / 500 - 1
    u, v = np.meshgrid(side, side)
    assert contains(shape, u, v).mean() * 4 == pytest.approx(area, rel=0.01)
    assert not contains(shape, 1.01 * np.cos(side * 4), 1.01 * np.sin(side * 4)).any() or shape == "square"


def test_digits_are_the_words_of_scikit_learns_labels() -> None:
    from sklearn.datasets import load_digits

    parts = digits()
    assert {name: len(part) for name, part in parts.items()} == {"test": 179, "valid": 179, "train": 1439}
    known = {
        image.tobytes(): WORDS[label]
        for image, label in zip(load_digits().images.astype(np.uint8), load_digits().target, strict=True)
    }
    for part in parts.values():
        for image, word in zip(part.image_NHWC, part.captions, strict=True):
            assert known[np.rint(image[:, :, 0] * (16 / 255)).astype(np.uint8).tobytes()] == word
    assert digits(16)["test"].image_NHWC.shape == (179, 16, 16, 3)
