"""The named data sets: contents, source, licence, and how to verify each file.

`sha256` and `size` are those of the decompressed content, so a mirror may compress its files. A file without sha256 is
unverified: we never had a copy. A file without url is available from a mirror (FIRTH_DATA) only.
"""

from __future__ import annotations

from firth.errors import ConfigError, did_you_mean
from firth.text.datasets.data_set import DataSet
from firth.text.datasets.task_sets import TASK_SETS
from firth.text.datasets.text_sets import TEXT_SETS

CATALOG: dict[str, DataSet] = {entry.name: entry for entry in (*TEXT_SETS, *TASK_SETS)}


def data_set(name: str) -> DataSet:
    if name not in CATALOG:
        raise ConfigError(f'there is no data set "{name}".{did_you_mean(name, CATALOG)}')
    return CATALOG[name]
