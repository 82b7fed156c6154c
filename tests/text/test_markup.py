"""The markup of documentation as its readers see it."""

from __future__ import annotations

import pytest

from firth.text.markup import plain, plain_word


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("a scalar of shape :math:`(n)` if :attr:`reduction` is ``'none'``", "a scalar of shape (n) if reduction is 'none'"),
        ("see :class:`~torch.nn.Linear` and :py:func:`numpy.sum`", "see Linear and numpy.sum"),
        ("`Dunning <https://example.org/dunning>`_ counts **every** *word*", "Dunning counts every word"),
        ("[the docs](https://example.org) say `x` is **kwargs", "the docs say x is **kwargs"),
        (".. note:: the list is *args", "note: the list is *args"),
        ("attr:`vec` is a 1-d", "attr:vec is a 1-d"),  # cut off in the middle
        ("n \\times m)` matrix", "n \\times m) matrix"),
        ("2 * 3 * 4, a_b, 10:30, <b>bold</b> and don't", "2 * 3 * 4, a_b, 10:30, <b>bold</b> and don't"),
    ],
)
def test_markup_is_shown_as_what_it_says_and_other_text_stays(written: str, shown: str) -> None:
    assert plain(written) == shown


def test_a_word_loses_its_markup_and_the_punctuation_around_it() -> None:
    words = ("``int``,", "(tensor):", ":math:`(*)`,", "don't", "->", "x.y", "list")
    assert [plain_word(word) for word in words] == ["int", "tensor", "", "don't", "", "x.y", "list"]
