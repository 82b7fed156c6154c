"""The keys from which hidden inputs follow. Nobody finds the secret from a key, or one key from another."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping
from pathlib import Path

from firth.errors import ConfigError, option
from firth.experiments.assignments.assignment import Assignment

_SHORTEST = 8  # characters of a secret
_LARGEST = 1_000_000  # bytes of the file


def keys_of(assignment: Assignment, secret: str) -> dict[str, str]:
    """HMAC-SHA256 of each exercise and the name of the assignment, with the secret as its key."""
    if len(secret) < _SHORTEST:
        raise ConfigError(f"the secret has {len(secret)} characters. Choose {option('secret')} with at least {_SHORTEST}.")
    return {one.name: _key(secret, assignment.name, one.name) for one in assignment.exercises}


def _key(secret: str, *names: str) -> str:
    return hmac.new(secret.encode(), "\0".join(("firth assignment", *names)).encode(), hashlib.sha256).hexdigest()


def keys_json(keys: Mapping[str, str]) -> str:
    return json.dumps(dict(keys), indent=2) + "\n"


def read_keys(path: Path, assignment: Assignment) -> dict[str, str]:
    """The key of each exercise, from the file of a grader's folder."""
    try:
        table = json.loads(path.read_bytes()[:_LARGEST])
        return {one.name: _checked(table[one.name]) for one in assignment.exercises}
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror or error}") from error
    except (ValueError, TypeError, KeyError) as error:
        raise ConfigError(
            f"{path} does not have the keys of all exercises. Make the assignment again, with the same secret."
        ) from error


def _checked(key: str) -> str:
    int(key, 16)
    return key
