"""Runs one session of a protocol over byte streams: carries its effects out, and wakes it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Protocol

from gateway.clock import Clock
from gateway.dialects.effects import Answered, Note, Observed, WakeAt
from gateway.dialects.stream_effects import Close, Logged, Peer, StreamEffect, StreamSession, Write
from gateway.links.session_notes import SessionNotes, WakeUp
from gateway.model.observations import Observation
from gateway.model.operations import Answer


class Streams(Protocol):
    """What carries octets: a listener with its connections."""

    def write(self, connection: int, octets: bytes) -> None:
        """Send; nothing happens where the connection is over."""
        ...

    def close(self, connection: int) -> None:
        """End a connection when all that was written has left."""
        ...


class StreamConversation:
    """A session and its surroundings, on one event loop.

    Args:
        name: of the source, for the log.
        session: told what arrives.
        observe: given observations that belong together.
        clock: the gateway's.
        counters: ``connections``, ``octets``, ``protocol_errors`` and ``refused`` are counted here.
        answered: told what came of operations, behind what they led to.
        logged: given lines of sessions that applications ask to be logged.
    """

    def __init__(
        self,
        name: str,
        session: StreamSession,
        observe: Callable[[tuple[Observation, ...]], None],
        clock: Clock,
        counters: Counter[str],
        answered: Callable[[Answer], None] = lambda _: None,
        logged: Callable[[Logged], None] = lambda _: None,
    ) -> None:
        self._session = session
        self._observe = observe
        self._clock = clock
        self._counters = counters
        self._answered = answered
        self._logged = logged
        self._notes = SessionNotes(name, clock, counters)
        self._wake_up = WakeUp(clock, self._woken)
        self._streams: Streams | None = None
        self._failure: asyncio.Future[None] | None = None
        self._broken = False

    @property
    def notes(self) -> Counter[str]:
        """How many there were of each kind."""
        return self._notes.counts

    def carried_by(self, streams: Streams) -> None:
        """Write to these connections from now on."""
        self._streams = streams

    def opened(self, connection: int, peer: Peer) -> None:
        """Somebody connected."""
        self._counters["connections"] += 1
        self._tell(lambda: self._session.opened(connection, peer, self._clock.now()))

    def received(self, connection: int, octets: bytes) -> None:
        """Octets arrived."""
        self._counters["octets"] += len(octets)
        self._tell(lambda: self._session.received(connection, octets, self._clock.now()))

    def ended(self, connection: int, reason: str) -> None:
        """A connection is over."""
        self._tell(lambda: self._session.ended(connection, reason, self._clock.now()))

    def stopping(self) -> None:
        """The listener ends: the session is not woken any more."""
        self._tell(lambda: self._session.stopping(self._clock.now()))
        self._wake_up.stop()

    def perform(self, effects: Iterable[StreamEffect]) -> None:
        """Carry out what the session wants."""
        for effect in effects:
            match effect:
                case Write() | Close():
                    self._carry(effect)
                case Observed(observations):
                    self._observe(observations)
                case Answered(answer):
                    self._answered(answer)
                case Logged():
                    self._logged(effect)
                case WakeAt(time):
                    self._wake_up.at(time)
                case Note():
                    self._notes.take(effect)

    def _carry(self, effect: Write | Close) -> None:
        if self._streams is None:
            return
        match effect:
            case Write(connection, octets):
                self._streams.write(connection, octets)
            case Close(connection):
                self._streams.close(connection)

    async def until_failed(self) -> None:
        """Wait for a fault of the session, where nobody else waits for it.

        Raises:
            Exception: that fault.
        """
        self._failure = asyncio.get_running_loop().create_future()
        await self._failure

    def _tell(self, event: Callable[[], list[StreamEffect]]) -> None:
        if self._broken:
            return
        try:
            self.perform(event())
        except Exception as error:
            # The event loop would write it down, drop one connection, and go on with a broken session.
            self._broken = True
            if self._failure is None or self._failure.done():
                raise
            self._failure.set_exception(error)

    def _woken(self) -> None:
        self._tell(lambda: self._session.tick(self._clock.now()))
