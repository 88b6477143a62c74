"""Values of requests against the schema. What does not fit is refused, never cut.

`gateway.model.validation` checks types, lengths, ranges and enumerations; this module resolves references and
gives values the form in which the inventory keeps them.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias
from uuid import UUID

from gateway.feed.values import FeedValue, ObjectLink
from gateway.model.operations import Outcome
from gateway.model.schema import Argument, Element
from gateway.model.validation import validate
from gateway.model.values import Reference, Value, ValueType


class Rejected(Exception):  # noqa: N818  nothing went wrong here: it is the answer
    """An operation is not tried: what is known in the core speaks against it.

    Args:
        outcome: what the answer says.
        text: one line for people.
        element: the element, argument or method that it is about.
        code: status of the dialect, where the source itself would refuse it; ``None`` else.
    """

    def __init__(self, outcome: Outcome, text: str, element: str = "", code: int | None = None) -> None:
        super().__init__(text)
        self.outcome = outcome
        self.text = text
        self.element = element
        self.code = code


MAX_DEPTH: Final = 16
"""Of maps and lists in each other."""

_MAX_U64, _MIN_S64 = 2**64 - 1, -(2**63)

FindObject: TypeAlias = Callable[[ObjectLink], "tuple[ObjectLink, str] | None"]
"""The link of the living object that is meant, as the inventory has it, and its native id."""


def checked(value: object, described: Element | Argument, find: FindObject, name: str) -> FeedValue:
    """``value`` as the inventory would keep it: lists are tuples, numbers have the width of their type.

    Args:
        value: as a front end sent it.
        described: what it is for.
        find: finds what references lead to.
        name: that refusals name.

    Raises:
        Rejected: it does not fit.
    """
    if isinstance(value, ObjectLink):
        _check_class(value, described, name)
    plain = _plain(value, find, name, MAX_DEPTH)
    wrong = validate(described, _not_none(as_sent(plain, find)))
    if wrong is not None:
        raise Rejected(wrong.outcome, f"{name}: {wrong.text}", name)
    return _with_width(plain, described.type)


def as_sent(value: FeedValue | None, find: FindObject) -> Value | None:
    """A checked value with references as native ids."""
    if isinstance(value, ObjectLink):
        found = find(value)
        return None if found is None else Reference(found[1])
    if isinstance(value, Mapping):
        return {key: _not_none(as_sent(inner, find)) for key, inner in value.items()}
    if isinstance(value, tuple):
        return tuple(_not_none(as_sent(inner, find)) for inner in value)
    return value


def is_same(one: FeedValue | None, other: FeedValue | None) -> bool:
    """Whether two values are the same: true is not 1, and what is no number is the same as what is none."""
    if isinstance(one, float) and isinstance(other, float) and math.isnan(one) and math.isnan(other):
        return True
    return isinstance(one, bool) is isinstance(other, bool) and one == other


def _not_none(value: Value | None) -> Value:
    assert value is not None  # what was checked has no gaps, and what it leads to was found just now
    return value


def _plain(value: object, find: FindObject, name: str, depth: int) -> FeedValue:
    """A value that is one, with links as the inventory has them."""
    if depth == 0:
        raise Rejected(Outcome.WRONG_VALUE, f"{name}: nested more than {MAX_DEPTH} deep", name)
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {key: _plain(inner, find, name, depth - 1) for key, inner in value.items()}  # type: ignore[misc]  # links inside, until `as_sent`
    if isinstance(value, tuple | list):
        return tuple(_plain(inner, find, name, depth - 1) for inner in value)  # type: ignore[misc]  # likewise
    if isinstance(value, ObjectLink):
        found = find(value)
        if found is None:
            raise Rejected(Outcome.WRONG_VALUE, f"{name}: there is no such object", name)
        return found[0]
    if isinstance(value, int) and not _MIN_S64 <= value <= _MAX_U64:
        raise Rejected(Outcome.WRONG_VALUE, f"{name}: it has more than 64 bits", name)
    if isinstance(value, bool | int | float | str | bytes | UUID):
        return value
    raise Rejected(Outcome.WRONG_TYPE, f"{name}: it holds what is no value", name)


def _check_class(link: ObjectLink, described: Element | Argument, name: str) -> None:
    wanted = described.references
    if wanted and wanted not in {link.class_name, link.class_name.rpartition(":")[2]}:
        text = f"{name}: a reference to an object of the class {wanted} is wanted"
        raise Rejected(Outcome.WRONG_TYPE, text, name)


def _with_width(value: FeedValue, value_type: ValueType) -> FeedValue:
    if isinstance(value, int | float) and value_type is ValueType.F32:
        narrowed: float = struct.unpack("f", struct.pack("f", value))[0]
        return narrowed
    return float(value) if isinstance(value, int) and value_type is ValueType.F64 else value
