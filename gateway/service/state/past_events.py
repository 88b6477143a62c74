"""Events that happened before, for front ends that ask: from the memory of the core, and from the event log.

The log is the outbox of notifications: a receiver that was not sent an event gets it from here, whatever was
killed meanwhile. Reading is done in a thread, one page at a time, and delays nothing.
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

import msgspec
import structlog

from gateway.eventlog.disk import EventLogClosedError
from gateway.eventlog.last_state import LastEvents
from gateway.eventlog.record import LogRecord
from gateway.feed.operations import OperationAnswer
from gateway.feed.records import (
    Batch,
    ClassRecord,
    EventClassRecord,
    EventRecord,
    FeedAnswer,
    PastEvents,
    PastEventsRequest,
    Place,
    Record,
)
from gateway.inventory.classes import ClassRegistry
from gateway.inventory.inventory import Inventory
from gateway.model.operations import Outcome
from gateway.policy.publishing import PolicyPublisher
from gateway.rate_limiter import RateLimiter
from gateway.service.state.restored_records import restored_class, restored_events

if TYPE_CHECKING:
    from gateway.eventlog.past_events import Page, PastEventReader

log = structlog.get_logger(__name__)

COMMIT_SECONDS: Final = 2.0
"""Seconds for which a page waits until the log has what was recorded before it was asked for."""

_LINES, _LINES_SECONDS = 3, 60.0

_NO_SOURCE: Final = 2**31 - 1
"""The number that stands for a source without one: no gateway ever has so many."""


class WrittenLog(Protocol):
    """The part of `gateway.service.processes.event_log.CoreEventLog` that is used here."""

    @property
    def is_open(self) -> bool:
        """Whether the log is written."""
        ...

    @property
    def last_seq(self) -> int:
        """The seq of the record that was appended last."""
        ...

    def flush(self, seq: int) -> None:
        """Write the record of this seq soon."""
        ...

    async def reached(self, seq: int) -> None:
        """Wait until that seq is on the disk."""
        ...


ReadPage: TypeAlias = "Callable[[Place, Place, int], Awaitable[Page]]"
"""Reads events of the log: those behind a place, up to another, at most so many. Raises ``OSError``."""


def page_reader(folder: Path, gateway: str) -> ReadPage:
    """Return what reads the log in a folder, in a thread; one page at a time.

    Args:
        folder: the folder of the log; it need not exist.
        gateway: the uuid of the gateway.
    """
    readers: list[PastEventReader] = []

    def read(after: Place, until: Place, limit: int) -> Page:
        if not readers:
            # DuckDB takes some megabytes: it is imported only where the memory of the core is not enough.
            late = importlib.import_module("gateway.eventlog.past_events")
            readers.append(late.PastEventReader(folder, gateway))
        return readers[0].read(after, until, limit)

    return lambda after, until, limit: asyncio.to_thread(read, after, until, limit)


class PastEventService:
    """Answers requests for past events.

    Args:
        gateway: the uuid of the gateway.
        read: reads the event log; ``None`` where it is off.
        written: the log that is written; ``None`` where it is off.
        inventory: has the last events, and publishes versions of events that are met.
        classes: knows the versions of events.
        policy: makes the tables of classes that only the log knows.
        publish: publishes such tables.
    """

    def __init__(
        self,
        gateway: str,
        read: ReadPage | None,
        written: WrittenLog | None,
        inventory: Inventory,
        classes: ClassRegistry,
        policy: PolicyPublisher,
        publish: Callable[[Batch], None],
    ) -> None:
        self._gateway = gateway
        self._read = read
        self._written = written
        self._inventory = inventory
        self._classes = classes
        self._policy = policy
        self._publish = publish
        self._policy_since: Place = (0, 0)
        self._reading = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self._lines = RateLimiter(_LINES, _LINES_SECONDS)

    def recall(self, last: LastEvents) -> None:
        """Take the classes that the log had at its end: events may refer to objects that are not read yet."""
        self._policy.recall(_classes_of(last.classes))

    def policy_changed(self) -> None:
        """Note that the roles of receivers have changed: the log knows who was to receive earlier events."""
        self._policy_since = self._inventory.last_place

    def requested(self, request: PastEventsRequest, reply: Callable[[FeedAnswer], None]) -> None:
        """Answer a request; neither waits nor raises."""
        task = asyncio.get_running_loop().create_task(self._answer(request, reply))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Answer nothing any more."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _answer(self, request: PastEventsRequest, reply: Callable[[FeedAnswer], None]) -> None:
        async with self._reading:
            try:
                answer = await self.page(request.after, request.until, request.limit)
            except Exception as error:  # whatever is in the log, the front end gets an answer
                if self._lines.admit() is not None:
                    log.warning("past-events-not-read", reason=str(error), exc_info=error)
                reply(OperationAnswer(request.request, "", Outcome.NOT_NOW, "the event log cannot be read"))
                return
        reply(msgspec.structs.replace(answer, request=request.request))

    async def page(self, after: Place, until: Place, limit: int) -> PastEvents:
        """Return events; see `PastEvents`.

        Raises:
            OSError: the log cannot be read.
        """
        until = min(until, self._inventory.last_place)
        if until <= after:
            return PastEvents(0, (), until)
        recent = self._recent(after, until)
        if after >= self._policy_since and _is_whole(recent, after, until, limit):
            return _cut(recent, until, limit)
        is_settled = await self._is_settled()
        page = None if self._read is None else await self._read(after, until, limit)
        events = {(event.boot, event.number): event for event in recent}
        former: dict[int, str] = {}
        if page is not None:
            until = page.through
            former = self._former_sources(page.events)
            events |= {(event.boot, event.number): event for event in self._restored(page, former)}
        known = [events[place] for place in sorted(events) if after < place <= until]
        if not is_settled:
            until = _before_missing(known, after, until, self._inventory.last_place[0])
        found = _cut([event for event in known if (event.boot, event.number) <= until], until, limit)
        return msgspec.structs.replace(found, former_sources=former)

    def _recent(self, after: Place, until: Place) -> list[EventRecord]:
        """Return the events in memory; of those of this core the present roles decide who receives them."""
        names, (epoch, _) = self._inventory.source_names, self._inventory.last_place
        withheld = self._policy.withheld
        return [
            msgspec.structs.replace(event, withheld=tuple(withheld(event, names.get(event.source, ""))))
            if event.boot == epoch
            else event
            for event in self._inventory.events_between(after, until)
        ]

    async def _is_settled(self) -> bool:
        """Return whether the log has all that was recorded until now, or never will."""
        written = self._written
        if written is None or not written.is_open:
            return True
        seq = written.last_seq
        written.flush(seq)
        try:
            async with asyncio.timeout(COMMIT_SECONDS):
                await written.reached(seq)
        except TimeoutError:
            return False
        except EventLogClosedError:
            pass
        return True

    def _former_sources(self, events: Iterable[LogRecord]) -> dict[int, str]:
        """Return the names of the sources of events that are not configured any more, by number."""
        configured = set(self._inventory.source_names.values())
        names = {event.source for event in events if event.source} - configured
        if not names:
            return {}
        numbers = self._inventory.former_sources()
        # One that was renamed has given its number to the new name.
        unknown = {name: _NO_SOURCE - place for place, name in enumerate(sorted(names - numbers.keys()))}
        return {(numbers | unknown)[name]: name for name in names}

    def _restored(self, page: Page, former: Mapping[int, str]) -> list[EventRecord]:
        """Return the events of a page, after what front ends need to know about them was published.

        Args:
            page: the page.
            former: the names of sources that are not configured any more, by number.
        """
        numbers = {name: number for number, name in (*self._inventory.source_names.items(), *former.items())}
        last_class = self._classes.last_number
        last = LastEvents(page.schemas, page.events)
        restored = list(restored_events(last, self._gateway, self._classes, numbers, {}))
        new = [record for record in self._classes.records() if record.number > last_class]
        if new:
            self._inventory.publish_event_classes(
                [record for record in new if isinstance(record, EventClassRecord)]
            )
        tables: list[Record] = self._policy.recall(_classes_of(page.classes))
        if tables:
            self._publish(Batch(self._inventory.last_place[0], self._inventory.sequence, tuple(tables)))
        return restored


def _classes_of(schemas: Mapping[str, LogRecord]) -> Iterator[ClassRecord]:
    return filter(None, map(restored_class, schemas.values()))


def _cut(events: list[EventRecord], until: Place, limit: int) -> PastEvents:
    if len(events) > limit:
        events = events[:limit]
        until = events[-1].boot, events[-1].number
    return PastEvents(0, tuple(events), until)


def _is_whole(events: Iterable[EventRecord], after: Place, until: Place, limit: int) -> bool:
    """Return whether none is missing among the first events behind a place, which are of one core."""
    if after[0] != until[0]:
        return False
    numbers = [event.number for event in events][:limit]
    wanted = min(limit, until[1] - after[1])
    return len(numbers) == wanted and (not wanted or numbers[-1] == after[1] + wanted)


def _before_missing(events: Iterable[EventRecord], after: Place, until: Place, epoch: int) -> Place:
    """Return the last place before which none is missing that the log may still get: one of this ``epoch``.

    What former cores did not write it never gets.
    """
    if until[0] < epoch:
        return until
    number = after[1] if after[0] == epoch else 0
    for event in events:
        if event.boot == epoch:
            if event.number != number + 1:
                break
            number = event.number
    return min(until, (epoch, number))
