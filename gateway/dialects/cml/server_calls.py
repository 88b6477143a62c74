"""What a server's program has not answered yet, and the requests that wait behind it.

Requests for one object are answered in the order in which they came, as OpenAMQ does: whoever sets a field
and then asks for the object, without waiting in between, sees what was set.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final

from gateway.dialects.cml.messages import InspectRequest, MethodRequest, ModifyRequest
from gateway.dialects.session import Delivery

MAX_WAITING: Final = 256
"""Requests that are under way or wait behind others, of all consoles together; further ones are refused."""


@dataclass(frozen=True, slots=True)
class AskedFor:
    """A request about an object, and the message that it came in.

    Attributes:
        deadline: nanoseconds; a change must not be begun later.
        class_name: of the object of a change that was begun, which may be the object's end.
    """

    request: InspectRequest | ModifyRequest | MethodRequest
    delivery: Delivery
    deadline: int
    class_name: str = ""


@dataclass(slots=True)
class _UnderWay:
    handle: int
    asked_for: AskedFor
    until: int
    behind: deque[AskedFor] = field(default_factory=deque)


class ServerCalls:
    """Which changes are under way: one of an object at a time.

    Args:
        patience: nanoseconds that a change may take from the last moment at which it may be begun.
    """

    def __init__(self, patience: int) -> None:
        self._patience = patience
        self._handles = 0
        self._by_object: dict[int, _UnderWay] = {}
        self._objects: dict[int, int] = {}
        self._waiting = 0

    @property
    def is_full(self) -> bool:
        """Nothing more can be begun, or wait."""
        return self._waiting >= MAX_WAITING

    @property
    def next_end(self) -> int:
        """When the first one of those under way is given up; 0 where none is."""
        return min((each.until for each in self._by_object.values()), default=0)

    def is_busy(self, number: int) -> bool:
        """Whether a change of the object is under way."""
        return number in self._by_object

    def begin(self, number: int, asked_for: AskedFor) -> int:
        """A change of an object that is not busy is the program's now; returns its handle."""
        self._handles += 1
        self._objects[self._handles] = number
        self._by_object[number] = _UnderWay(self._handles, asked_for, asked_for.deadline + self._patience)
        self._waiting += 1
        return self._handles

    def wait(self, number: int, asked_for: AskedFor) -> None:
        """A request waits behind what is under way."""
        self._by_object[number].behind.append(asked_for)
        self._waiting += 1

    def ended(self, handle: int) -> tuple[AskedFor, deque[AskedFor]] | None:
        """What ended, and what waited behind it; ``None`` where nobody waits for it."""
        number = self._objects.pop(handle, None)
        if number is None:
            return None
        under_way = self._by_object.pop(number)
        self._waiting -= 1 + len(under_way.behind)
        return under_way.asked_for, under_way.behind

    def overdue(self, now: int) -> list[int]:
        """The handles of what should have been ended by now."""
        return [each.handle for each in self._by_object.values() if each.until <= now]
