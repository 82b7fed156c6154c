"""API keys: from the environment variable FIRTH_API_KEY, or one per line of a file."""

from __future__ import annotations

import hmac
import ipaddress
import os
from collections.abc import Mapping
from pathlib import Path

from firth.errors import ConfigError

VARIABLE = "FIRTH_API_KEY"
_SHORTEST = 16


class Keys:
    """The keys that a server accepts; none: it accepts every request."""

    def __init__(self, keys: tuple[str, ...] = ()) -> None:
        self._keys = tuple(key.encode() for key in keys)

    def __bool__(self) -> bool:
        return bool(self._keys)

    def accept(self, headers: Mapping[str, str]) -> bool:
        """True if `Authorization: Bearer KEY` names one of them. Every key is compared, each in constant time."""
        if not self._keys:
            return True
        scheme, _, given = headers.get("authorization", "").partition(" ")
        matches = [hmac.compare_digest(given.strip().encode("utf-8", "replace"), key) for key in self._keys]
        return any(matches) and scheme.lower() == "bearer"


def read_keys(file: Path | None) -> Keys:
    """The keys in `file`, and the one in the environment."""
    keys = [os.environ[VARIABLE]] if os.environ.get(VARIABLE) else []
    if file is not None:
        try:
            lines = file.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"--key-file {file} cannot be read: {getattr(error, 'strerror', error)}") from error
        keys += [line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")]
        if not keys:
            raise ConfigError(f"--key-file {file} has no key; write one per line")
    for key in keys:
        if len(key) < _SHORTEST or not key.isascii() or not key.isprintable() or " " in key:
            raise ConfigError(
                f"an API key has {len(key)} characters; expected at least {_SHORTEST} of ASCII without spaces. Make one with "
                "`python -c 'import secrets; print(secrets.token_urlsafe(32))'`."
            )
    return Keys(tuple(dict.fromkeys(keys)))


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def check_address(host: str, keys: Keys) -> None:
    """A server that others can reach needs a key."""
    if not is_loopback(host) and not keys:
        raise ConfigError(
            f"--host {host} can be reached from other machines, and there is no API key. Set {VARIABLE} or --key-file, or use "
            "--host 127.0.0.1."
        )
