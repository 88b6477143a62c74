"""What an operation does next, step by step, and what it ends with.

A step is a call of a method that sets one element, or one request of the dialect's own that sets all of those
that it can, in the place of the first of these.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from gateway.feed.values import FeedValue
from gateway.model.operations import Outcome
from gateway.model.values import Value, Values
from gateway.operations.planning import Setting


@dataclass(frozen=True, slots=True)
class CallNext:
    """Call a method of the object."""

    method: str
    arguments: Values


@dataclass(frozen=True, slots=True)
class ModifyNext:
    """Give properties of the object other values, by name, as one request of the dialect's own."""

    values: Mapping[str, Value | None]


@dataclass(frozen=True, slots=True)
class ReadNext:
    """Read the object again."""


@dataclass(frozen=True, slots=True)
class Ended:
    """What came of it.

    Attributes:
        outcome: as all norths are told.
        text: one line for people.
        element: what it is about.
        code: the agent's own status.
        values: found, or a method's outputs, by name.
        reported: where the outcome is unknown: who manages the object has answered all the same, so that
            nothing is on its way any more.
    """

    outcome: Outcome
    text: str = ""
    element: str = ""
    code: int | None = None
    values: Mapping[str, FeedValue] = field(default_factory=dict)
    reported: bool = False


Next: TypeAlias = CallNext | ModifyNext | ReadNext | Ended

Step: TypeAlias = tuple[Setting, ...]
"""What is sent as one: of several elements they are all set by a request of the dialect's own."""


def steps_of(settings: Sequence[Setting]) -> list[Step]:
    """What is sent one after the other, in the order asked for."""
    native = tuple(setting for setting in settings if not setting.method)
    first = native[:1]
    return [
        native if (setting,) == first else (setting,)
        for setting in settings
        if setting.method or (setting,) == first
    ]


def request_of(step: Step) -> CallNext | ModifyNext:
    """What is sent for a step."""
    if step[0].method:
        return CallNext(step[0].method, step[0].arguments)
    return ModifyNext({setting.element: setting.sent for setting in step})


def element_of(step: Step) -> str:
    """What an outcome of the step is about; empty where it is about several."""
    return step[0].element if len(step) == 1 else ""


def names_of(settings: Iterable[Setting]) -> str:
    """The elements as a text tells them."""
    return ", ".join(setting.element for setting in settings)
