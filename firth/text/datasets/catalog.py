"""The named data sets: contents, source, licence, and how to verify each file.

`sha256` and `size` are those of the decompressed content, so a mirror may compress its files. A file without sha256 is
unverified: we never had a copy. A file without url is available from a mirror (FIRTH_DATA) only.
"""

from __future__ import annotations

from firth.text.data_set import DATA_SETS, DataSet
from firth.text.datasets import opinions, python_source_tags, stories
from firth.text.datasets.task_sets import TASK_SETS
from firth.text.datasets.text_sets import TEXT_SETS

MADE_SETS = (
    DataSet("docs", "documentation of Python and of its packages on this machine", made="running text"),
    DataSet("dates", "dates in many languages and formats, and the same in ISO format", made="sentence pairs"),
    DataSet("docstrings", "docstrings of Python's packages, and their first lines", made="sentence pairs"),
    DataSet("prompts", "film reviews and sentences, each after the name of a task", made="sentence pairs"),
    DataSet("chats", "questions about texts, translations, dates and tags, and their answers", made="conversations"),
    DataSet(
        "python-source",
        "Python's source code, the kind of each token as its tag",
        made="tagged words",
        parts=python_source_tags.cached_parts,
    ),
    DataSet("stories", "short stories about people, and questions about them", made="questions", parts=stories.cached_parts),
    DataSet("opinions", "opinions, positive or negative, many negated", made="labelled texts", parts=opinions.cached_parts),
    DataSet("swaps", "words with permuted letters, another permutation in each prompt", made="prompts of swaps"),
    DataSet("linear", "points of a linear function, another one in each prompt", made="points of linear functions"),
    DataSet("scenes", "images of coloured shapes, and what they show", made="captioned images"),
    DataSet("digits", "images of 1,797 handwritten digits, and their names", made="captioned images"),
)

DATA_SETS.ship(*(one for one in (*TEXT_SETS, *TASK_SETS) if one.holds), *MADE_SETS)
DATA_SETS.ship(*(one for one in TASK_SETS if not one.holds), inner=True)
