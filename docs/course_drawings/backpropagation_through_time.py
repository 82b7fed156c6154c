"""The drawing of lesson 4: the states of a recurrent network, forward, and the gradient on its way back."""

from __future__ import annotations

import itertools

from firth.figures.diagram import Arrow, Box, Diagram, Formula, Label, Point

STATES = 4
_WIDTH, _HEIGHT, _STEP = 64.0, 40.0, 190.0


def drawings() -> dict[str, Diagram]:
    states = [Box(n * _STEP, 0, _WIDTH, _HEIGHT, (Formula(f"h_{n + 1}"),), "blue") for n in range(STATES)]
    tokens = [Box(state.left, 92, _WIDTH, _HEIGHT, (Formula(f"x_{n + 1}"),)) for n, state in enumerate(states)]
    loss = Box(states[-1].left, -92, _WIDTH, _HEIGHT, (Formula("L"),), "vermilion")
    shapes: list[Box | Arrow | Label] = [*states, *tokens, loss]
    for state, token in zip(states, tokens, strict=True):
        shapes += [Arrow((token.above(), state.below())), Label(state.x + 10, 66, Formula("W"), anchor="start")]
    for n, (one, other) in enumerate(itertools.pairwise(states)):
        forward, back = one.y + 9, one.y - 9
        middle = (one.right + other.left) / 2
        shapes += [
            Arrow((one.behind(forward), other.before(forward))),
            Arrow((other.before(back), one.behind(back)), dashed=True),
            Label(middle, forward + 14, Formula("U")),
            Label(middle, back - 14, Formula(rf"U^\top \mathrm{{diag}}(1 - h_{n + 2}^2)"), size=11.5, muted=True),
        ]
    last = states[-1]
    up, down = last.x - 9, last.x + 9
    shapes += [
        Arrow((last.above(up), Point(up, loss.bottom))),
        Arrow((Point(down, loss.bottom), last.above(down)), dashed=True),
        Label(down + 10, -26, Formula(r"\partial L / \partial h_4"), size=11.5, anchor="start", muted=True),
    ]
    described = (
        f"{STATES} states of a recurrent network, each from a token below it and the state before it; the last leads to a loss. "
        "On the way back, every step multiplies the gradient by U transposed and by the derivative of the hyperbolic tangent."
    )
    return {"bptt": Diagram("Backpropagation through time", described, tuple(shapes))}
