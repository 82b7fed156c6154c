"""Brackets (the Dyck language with two kinds of them): a language that needs a stack."""

from firth.text.data_set import DataSet

PAIRS = ("()", "[]")


def balanced(draw, depth=0):
    """A bracketed text: (a[b]c), each part of it empty or bracketed again."""
    if depth > 3 or draw.random() < 0.4:
        return ""
    left, right = draw.choice(PAIRS)
    return left + balanced(draw, depth + 1) + right + balanced(draw, depth + 1)


def example(draw):
    return "(" + balanced(draw) + ")\n"


BRACKETS = DataSet("brackets", "balanced brackets of two kinds", made="running text", example=example, sizes=(400, 50, 50))
