"""The operation ``eventsSince`` of the Gateway MBean: events of the log, as the caller may read them now."""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, Protocol, TypeAlias

from gateway.feed.records import EventRecord, PastEvents, Place
from gateway.jmx.backend import Reply, Status
from gateway.jmx.classes import unlike
from gateway.jmx.commands import AttributeType, EventData, JmxValue, Operation, Parameter, Result
from gateway.jmx.types import Written
from gateway.model.operations import Principal
from gateway.model.times import utc_time

MAX_EVENTS: Final = 1000
"""The maximum number of events that one call returns."""

MAX_OCTETS: Final = 4 << 20
"""The size of the lines of one answer after which it ends."""

PAGE: Final = 200

HEAD: Final = ("type", "text", "time")
"""The members of an event's JSON that are no items of its notification."""

EVENTS_SINCE: Final = Operation(
    "eventsSince",
    "Events of the event log behind one of an id, in their order, as the caller may read them now.",
    reads_only=True,
    parameters=(
        Parameter("eventId", AttributeType.STRING, "The id of the last event that is known; empty for none."),
        Parameter(
            "limit",
            AttributeType.LONG,
            "The maximum number of events.",
            minimum=1,
            maximum=MAX_EVENTS,
        ),
    ),
    results=(Result("events", AttributeType.LIST, "The events, each an object of JSON on one line."),),
)

_END: Final[Place] = (2**62, 2**62)

FetchPast: TypeAlias = Callable[[Place, Place, int, float], Awaitable[PastEvents | None]]
"""Fetches past events from the core (`gateway.feed.client.FeedLink.past_events`)."""


class PastEventView(Protocol):
    """The part of the projection that is used here."""

    @property
    def gateway(self) -> str:
        """The uuid of the gateway; empty while it is not known."""

    @property
    def is_complete(self) -> bool:
        """Whether the core is connected, and no snapshot of it is under way."""

    def past_event(self, record: EventRecord, user: str) -> str | None:
        """Return an event as a user may read it now, as JSON; ``None`` for nothing."""


class PastEventReading:
    """The executor of `EVENTS_SINCE`.

    Args:
        view: shows events as a user may read them.
        fetch: fetches events.
        seconds: the time that a call may take.
    """

    def __init__(self, view: PastEventView, fetch: FetchPast, seconds: float) -> None:
        self._view = view
        self._fetch = fetch
        self._seconds = seconds

    async def invoke(self, principal: Principal, arguments: Sequence[Written | None]) -> Reply:
        """Return the events that a client asks for; the items of the reply are the operation's results."""
        after = self._place(arguments)
        if isinstance(after, Reply):
            return after
        limit = _limit(arguments)
        if limit is None:
            return Reply(Status.BAD_VALUE, f"wrong-value: limit: an integer from 1 to {MAX_EVENTS} is wanted")
        lines: list[str] = []
        octets, end = 0, time.monotonic() + self._seconds
        while len(lines) < limit and octets < MAX_OCTETS:
            left = end - time.monotonic()
            page = await self._fetch(after, _END, PAGE, left) if left > 0 else None
            if page is None or not self._view.is_complete:
                if lines:
                    break
                where = f" behind {self._view.gateway}.{after[0]}.{after[1]}" if after != (0, 0) else ""
                return Reply(Status.NOT_NOW, f"not-now: no answer in time: ask again{where}")
            for record in page.records:
                line = self._view.past_event(record, principal.name)
                if line is not None and len(lines) < limit:
                    lines.append(line)
                    octets += len(line)
            # A page without an event is no end: the log may have some that cannot be read any more.
            if page.through <= after:
                break
            after = page.through
        return Reply(Status.APPLIED, items=(tuple(lines),))

    def _place(self, arguments: Sequence[Written | None]) -> Place | Reply:
        """Return the place behind which a client wants events."""
        given = arguments[0] if len(arguments) == 2 else None  # noqa: PLR2004  event id and limit
        text = "" if given is None else given.value
        if text == "":
            return 0, 0
        if isinstance(text, str):
            gateway, _, place = text.partition(".")
            epoch, _, number = place.partition(".")
            if gateway == self._view.gateway and _is_number(epoch) and _is_number(number):
                return int(epoch), int(number)
        return Reply(Status.BAD_VALUE, "wrong-value: eventId: the id of an event of this gateway is wanted")


def _is_number(text: str) -> bool:
    return text.isdecimal() and text.isascii() and len(text) < len(str(2**62))


def _limit(arguments: Sequence[Written | None]) -> int | None:
    given = arguments[1].value if len(arguments) == 2 and arguments[1] is not None else None  # noqa: PLR2004
    is_number = isinstance(given, int) and not isinstance(given, bool) and 1 <= given <= MAX_EVENTS
    return given if is_number and isinstance(given, int) else None


def event_line(event_type: str, text: str, happened: int, data: EventData) -> str:
    """Return an event as JSON: its type, text and time, and the items of its notification by name.

    An item that is named as one of the first three gets a ``_`` at its end.
    """
    head = (event_type, text, utc_time(happened) if happened else None)
    line: dict[str, object] = dict(zip(HEAD, head, strict=True))
    taken = {*HEAD, *(name for name, _, _ in data)}
    for name, kind, value in data:
        own = unlike(name, taken) if name in HEAD else name
        taken.add(own)
        if value is not None and name != "late":
            line[own] = _form(kind, value)
    return json.dumps(line, ensure_ascii=False)


def _form(kind: AttributeType, value: JmxValue) -> object:
    if kind is AttributeType.DATE and isinstance(value, int):
        return utc_time(value)
    if isinstance(value, bytes):
        return value.hex()
    if kind is AttributeType.MAP and isinstance(value, tuple):
        return _mapping(value)
    return list(value) if isinstance(value, tuple) else value


def _mapping(pairs: Sequence[object]) -> Mapping[str, object]:
    return {str(pair[0]): pair[1] for pair in pairs if isinstance(pair, tuple)}
