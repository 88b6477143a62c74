"""Two tellings of one object: whether they can be of the same, and which value holds."""

from __future__ import annotations

from collections.abc import Mapping

from gateway.model.values import Value


def contradicts(new: Value | None, old: Value | None, *, listed: bool) -> bool:
    """Whether one object cannot have had both values; what an event told may lack entries of a table."""
    if old is None or new is None:
        return False
    if listed or not isinstance(old, Mapping) or not isinstance(new, Mapping):
        return old != new
    common = [(value, new[key]) for key, value in old.items() if key in new]
    return any(
        isinstance(one, bool | int | str) and type(one) is type(other) and one != other
        for one, other in common
    )


def preferred(old: Value | None, new: Value | None, *, keep: bool, old_first: bool) -> Value | None:
    """Which of two values of one element holds: the ``old_first`` if there is one, else the new.

    ``keep``: it was settled at creation, so that an answer that lacks it says nothing.
    """
    if old_first:
        return new if old is None else old
    return old if new is None and keep else new
