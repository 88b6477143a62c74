"""What durable subscriptions led to, kept with it: the last record that a delivery led to names it.

So the log says, whenever it ends, which deliveries it has, and no other file has to agree with it.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Final, Protocol

from gateway.eventlog.disk import EventLogClosedError

MAX_REMEMBERED: Final = 100_000
"""Identities; a broker delivers no more again than were on their way when a connection ended."""


class RecordingLog(Protocol):
    """The event log, as far as it matters here (`gateway.service.processes.event_log.CoreEventLog`)."""

    @property
    def is_open(self) -> bool:
        """Whether it is written."""
        ...

    @property
    def last_seq(self) -> int:
        """Of the record that was appended last."""
        ...

    def delivering(self, delivery: str) -> AbstractContextManager[None]:
        """What is recorded in the block came of ``delivery``."""
        ...

    def delivered_again(self, delivery: str) -> None:
        """What is recorded of ``delivery`` is not recorded again."""
        ...

    async def reached(self, seq: int) -> None:
        """Until that seq is on the disk."""
        ...


class AckTracker:
    """Which deliveries the log has, of all sources.

    Args:
        log: what they lead to is recorded there.
        recorded: those that it had when it was opened, in order.
    """

    def __init__(self, log: RecordingLog, recorded: Iterable[str] = ()) -> None:
        self._log = log
        self._recorded: OrderedDict[str, None] = OrderedDict.fromkeys(recorded)

    @property
    def is_open(self) -> bool:
        """Whether there is a log that can record them."""
        return self._log.is_open

    def of(self, source: str) -> SourceAcks:
        """The ledger of one source."""
        return SourceAcks(self, source)

    def is_recorded(self, delivery: str) -> bool:
        """Whether the log has what it led to, or will have it before anything later."""
        return delivery in self._recorded

    @contextmanager
    def recording(self, delivery: str) -> Iterator[None]:
        """What is recorded in the block comes of ``delivery``."""
        with self._log.delivering(delivery):
            yield
        self._recorded[delivery] = None
        if len(self._recorded) > MAX_REMEMBERED:
            self._recorded.popitem(last=False)

    def came_again(self, delivery: str) -> None:
        """Note that it is recorded already, and forget it last."""
        self._recorded.move_to_end(delivery)
        self._log.delivered_again(delivery)

    @property
    def position(self) -> int:
        """Seq of the last record, 0 before the first."""
        return self._log.last_seq

    async def lasting(self, position: int) -> None:
        """Wait until the record at ``position`` is on the disk; for ever, where the log was closed before."""
        if not position:
            return
        try:
            await self._log.reached(position)
        except EventLogClosedError:
            await asyncio.Event().wait()


class SourceAcks:
    """The deliveries of one source, as a `gateway.links.durable_queue.Ledger`."""

    def __init__(self, ledger: AckTracker, source: str) -> None:
        self._ledger = ledger
        self._source = source

    def is_recorded(self, identity: str) -> bool:
        """Whether what the delivery of this identity led to is recorded already."""
        return self._ledger.is_recorded(f"{self._source}:{identity}")

    @contextmanager
    def recording(self, identity: str) -> Iterator[None]:
        """While the context lasts, what is recorded comes of the delivery of this identity."""
        with self._ledger.recording(f"{self._source}:{identity}"):
            yield

    def came_again(self, identity: str) -> None:
        """The delivery of this identity, which was recorded, came again, and may do so once more."""
        self._ledger.came_again(f"{self._source}:{identity}")

    @property
    def position(self) -> int:
        """The position of what was recorded last."""
        return self._ledger.position

    async def lasting(self, position: int) -> None:
        """Wait until nothing recorded up to ``position`` can be lost by the death of this process."""
        await self._ledger.lasting(position)
