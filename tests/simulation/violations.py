"""Violations of invariants."""

from __future__ import annotations


class ViolationError(AssertionError):
    """An invariant was violated."""


def demand(holds: bool, otherwise: str) -> None:  # noqa: FBT001  as assert
    """Raise a `ViolationError` with the text ``otherwise`` unless ``holds`` is true."""
    if not holds:
        raise ViolationError(otherwise)
