"""That something does not hold, and how it is said."""

from __future__ import annotations


class ViolationError(AssertionError):
    """Something that must hold did not."""


def demand(holds: bool, otherwise: str) -> None:  # noqa: FBT001  as assert
    """Say ``otherwise`` by a `ViolationError` unless it ``holds``."""
    if not holds:
        raise ViolationError(otherwise)
