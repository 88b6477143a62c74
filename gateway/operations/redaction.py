"""Values as records of operations tell them: secrets masked, long ones cut, because many are kept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from uuid import UUID

from gateway.feed.values import FeedValue, ObjectLink
from gateway.model.secrets import MASK, SecretRules
from gateway.model.values import Reference

MAX_LENGTH: Final = 2048
"""Characters of one value that are told; the rest is counted."""

MAX_TOLD: Final = 100
"""So many values of one operation are told."""

MAX_DEPTH: Final = 32

_STRANGE: Final = "?"


class Redaction:
    """Makes what may be told out of values by name.

    Args:
        secrets: whose names are secret, and what inside values is.
    """

    def __init__(self, secrets: SecretRules) -> None:
        self._secrets = secrets

    def masked(
        self, values: Mapping[str, FeedValue | None], secret: frozenset[str] = frozenset()
    ) -> dict[str, FeedValue]:
        """Those that are there, whole; what is secret is ``***``.

        Args:
            values: by name.
            secret: names that are secret beside those that the rules know.
        """
        return {
            name: MASK if name in secret or self._secrets.hides(name) else self._masked(value)
            for name, value in values.items()
            if value is not None
        }

    def told(
        self, values: Mapping[str, FeedValue | None], secret: frozenset[str] = frozenset()
    ) -> dict[str, FeedValue]:
        """The same, each not longer than a record may be."""
        masked = self.masked(values, secret)
        return {name: _cut(masked[name]) for name in list(masked)[:MAX_TOLD]}

    def _masked(self, value: FeedValue) -> FeedValue:
        if isinstance(value, ObjectLink):
            return value
        return self._secrets.masked(value) if _is_plain(value, MAX_DEPTH) else _STRANGE


def _cut(value: FeedValue) -> FeedValue:
    if isinstance(value, bool | int | float | UUID | ObjectLink | Reference):
        return value
    text = value if isinstance(value, str) else repr(value)
    return value if len(text) <= MAX_LENGTH else f"{text[:MAX_LENGTH]}… ({len(text)} characters)"


def _is_plain(value: object, depth: int) -> bool:
    """Whether it is a value at all: a north may have sent anything that msgpack has."""
    if isinstance(value, Mapping | tuple) and depth == 0:
        return False
    if isinstance(value, Mapping):
        return all(isinstance(key, str) and _is_plain(inner, depth - 1) for key, inner in value.items())
    if isinstance(value, tuple):
        return all(_is_plain(inner, depth - 1) for inner in value)
    return isinstance(value, bool | int | float | str | bytes | UUID | ObjectLink | Reference)
