"""What descriptions of MBeans are made of: names that differ, texts that say something, descriptors."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping

from gateway.jmx import types
from gateway.model.schema import Argument, Element
from gateway.model.values import ValueType

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def unlike(name: str, taken: Iterable[str]) -> str:
    """``name``, followed by underscores until it is none of ``taken``."""
    taken = set(taken)
    while name in taken:
        name += "_"
    return name


def described(*texts: str) -> str:
    """The first of ``texts`` that says something: Java takes no empty descriptions."""
    return next((types.text(text) for text in texts if text.strip()), "-")


def descriptor(fields: Mapping[str, str]) -> dict[str, str]:
    """The fields that say something."""
    return {name: types.text(text) for name, text in fields.items() if text}


def units(value: Element | Argument) -> str:
    """The unit in which an element or argument is shown."""
    return value.unit or ("nanoseconds" if value.type is ValueType.DURATION else "")


def moment(nanoseconds: int) -> str:
    """A time for people, in UTC to the millisecond."""
    try:
        moment = _EPOCH + dt.timedelta(microseconds=nanoseconds // 1000)
    except OverflowError:
        return "?"
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
