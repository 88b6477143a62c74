"""Drivers of sessions: they pass events with the time, and carry effects out.

`MessageDriver` is for sessions over AMQP, `StreamDriver` for those over byte streams.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Iterable
from typing import Final, Protocol

import structlog

from gateway.clock import Clock
from gateway.dialects.errors import LocalProtocolError
from gateway.dialects.session import (
    REFUSED_BODY,
    Answered,
    BytesReceived,
    Close,
    Delivery,
    Effect,
    Event,
    ListenerStops,
    Logged,
    LoginRefused,
    Note,
    NotSent,
    Observed,
    PeerConnected,
    PublishRefused,
    Rebind,
    ReceivedUntil,
    Send,
    Session,
    TimerExpired,
    WakeAt,
    Write,
)
from gateway.links.amqp_connection import LinkError, Trouble
from gateway.model.observations import Observation
from gateway.model.operations import Answer, MethodCall, ObjectFetch, ObjectModify
from gateway.model.times import SECOND

log = structlog.get_logger(__name__)

MAX_OUTGOING = 10_000
"""Messages that may wait to be published; with more, the link is stuck and given up."""

TOO_LATE: Final = "its time was over before it could be sent"

_LOG_NANOSECONDS: Final = 60 * SECOND
_COUNTED: Final = {
    "protocol-error": "protocol_errors",
    "refused-sender": "refused",
    "distrusted-sender": "refused",
    "too-many-agents": "refused",
}
_WARNINGS: Final = frozenset(
    {
        "agent-silent",
        "another-broker",
        "distrusted-sender",
        "events-lost",
        "events-missing",
        "gave-up",
        "impersonator",
        "impersonators-not-checked",
        "management-unavailable",
        "not-sealed",
        "protocol-error",
        "refused-sender",
        "schema-left-out",
        "too-many-agents",
        "too-many-classes",
        "virtual-host-not-permitted",
    }
)
"""Notes that need an operator's attention; they are logged as warnings, all others as information."""


class SessionNotes:
    """Counts a session's notes, and logs each kind at most once a minute, so that no peer fills a disk.

    Args:
        name: the name of the source or agent, for the log.
        clock: the gateway's clock.
        counters: counters of the source, of which ``protocol_errors`` and ``refused`` are increased.
    """

    def __init__(self, name: str, clock: Clock, counters: Counter[str]) -> None:
        self.counts: Counter[str] = Counter()
        self._name = name
        self._clock = clock
        self._counters = counters
        self._logged: dict[str, int] = {}

    def take(self, note: Note) -> None:
        """Count a note, and log it if its kind was not logged for a minute."""
        self.counts[note.event] += 1
        is_refused_body = note.event.startswith(REFUSED_BODY)
        if is_refused_body or note.event in _COUNTED:
            self._counters[_COUNTED.get(note.event, "refused")] += 1
        now = self._clock.now()
        last = self._logged.get(note.event)
        # A note that is not logged is counted: the next line of its kind has the sum.
        if last is None or now - last >= _LOG_NANOSECONDS:
            self._logged[note.event] = now
            write = log.warning if is_refused_body or note.event in _WARNINGS else log.info
            write(note.event, name=self._name, detail=note.detail, count=self.counts[note.event])


class WakeUp:
    """The timer of a session.

    Args:
        clock: the gateway's clock.
        woken: called when the timer expires, in the running event loop.
    """

    def __init__(self, clock: Clock, woken: Callable[[], None]) -> None:
        self._clock = clock
        self._woken = woken
        self._timer: asyncio.TimerHandle | None = None

    def at(self, time: int) -> None:
        """Set the timer to ``time`` (nanoseconds), in place of any earlier time; it may be past."""
        self.stop()
        delay = max(0.0, (time - self._clock.now()) / SECOND)
        self._timer = asyncio.get_running_loop().call_later(delay, self._wake)

    def stop(self) -> None:
        """Cancel the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _wake(self) -> None:
        self._timer = None
        self._woken()


class SessionDriver:
    """Runs one session on one event loop; this one is for sessions without a link, as of a RabbitMQ source.

    Args:
        name: the name of the source or agent, for the log.
        session: the session.
        observe: called with all observations of one event.
        clock: the gateway's clock.
        counters: the counters of the source.
        answered: called with answers to operations, after the observations that belong to them.
    """

    def __init__(
        self,
        name: str,
        session: Session,
        observe: Callable[[tuple[Observation, ...]], None],
        clock: Clock,
        counters: Counter[str],
        answered: Callable[[Answer], None] = lambda _: None,
    ) -> None:
        self._session = session
        self._observe = observe
        self._clock = clock
        self._counters = counters
        self._answered = answered
        self._notes = SessionNotes(name, clock, counters)
        self._wake_up = WakeUp(clock, self._woken)
        self._failure: Exception | None = None
        self._failed = asyncio.Event()

    @property
    def notes(self) -> Counter[str]:
        """The number of notes of each kind."""
        return self._notes.counts

    def handle(self, event: Event) -> None:
        """Pass an event to the session, and carry out its effects."""
        self.perform(self._session.handle(event, self._clock.now()))

    def perform(self, effects: Iterable[Effect]) -> None:
        """Carry effects out, in their order."""
        for effect in effects:
            match effect:
                case Observed(observations):
                    self._observe(observations)
                case Answered(answer):
                    self._answered(answer)
                case WakeAt(time):
                    self._wake_up.at(time)
                case Note():
                    self._notes.take(effect)
                case _:
                    self._carry(effect)

    def stop(self) -> None:
        """Cancel the session's timer."""
        self._wake_up.stop()

    def fail(self, error: Exception) -> None:
        """Report an error of the session that no caller receives; `until_failed` raises it."""
        self._failure = self._failure or error
        self._failed.set()

    @property
    def has_failed(self) -> bool:
        """Whether an error was reported that has not ended the link yet."""
        return self._failure is not None

    async def until_failed(self) -> None:
        """Wait for an error of the session.

        Raises:
            Exception: that error.
        """
        await self._failed.wait()
        assert self._failure is not None
        raise self._failure

    def _carry(self, effect: Effect) -> None:
        """Carry out an effect that depends on the transport."""
        raise LocalProtocolError(f"the transport of this session cannot carry out {type(effect).__name__}")

    def _woken(self) -> None:
        try:
            self.handle(TimerExpired())
        except Exception as error:  # noqa: BLE001  the event loop would only log it, and the session would stand still
            self.fail(error)


class MessageDriver(SessionDriver):
    """Runs a session over AMQP, and holds its messages until a link publishes them.

    ``messages``, ``octets``, ``protocol_errors`` and ``refused`` are counted.
    """

    def __init__(
        self,
        name: str,
        session: Session,
        observe: Callable[[tuple[Observation, ...]], None],
        clock: Clock,
        counters: Counter[str],
        answered: Callable[[Answer], None] = lambda _: None,
    ) -> None:
        super().__init__(name, session, observe, clock, counters, answered)
        self._outgoing: deque[Send] = deque()
        self._writable = asyncio.Event()
        self._blocked = asyncio.Event()

    def deliver(self, delivery: Delivery) -> None:
        """Pass a message to the session."""
        self._counters["messages"] += 1
        self._counters["octets"] += len(delivery.body)
        self.handle(delivery)

    def _carry(self, effect: Effect) -> None:
        match effect:
            case Send():
                self._outgoing.append(effect)
                self._writable.set()
                if self.is_backed_up:
                    self._blocked.set()
            case Rebind(reason):
                self.fail(LinkError(Trouble.BROKEN, f"the queue is bound again: {reason}"))
            case _:
                super()._carry(effect)

    @property
    def is_backed_up(self) -> bool:
        """Whether more messages wait than a working link would leave."""
        return len(self._outgoing) > MAX_OUTGOING

    async def until_backed_up(self) -> None:
        """Wait until more messages wait than a working link would leave."""
        await self._blocked.wait()

    async def next_send(self) -> Send:
        """Wait for the next message to publish, in order, and return it.

        Raises:
            Exception: the error that `fail` was called with.
        """
        while self._failure is None and not self._outgoing:
            self._writable.clear()
            await self._writable.wait()
        if self._failure is not None:
            # The link ends by this error; the session continues on the next connection.
            failure, self._failure = self._failure, None
            self._failed.clear()
            raise failure
        return self._outgoing.popleft()

    def fail(self, error: Exception) -> None:
        """Report an error of the session to the link, which waits for the next message."""
        super().fail(error)
        self._writable.set()

    def forget_sends(self) -> list[Send]:
        """Drop and return all messages that wait, because the link is down."""
        if isinstance(self._failure, LinkError):  # it was to end this connection, not the next one
            self._failure = None
            self._failed.clear()
        unsent = list(self._outgoing)
        self._outgoing.clear()
        self._blocked.clear()
        return unsent

    def unsent(self, sends: Iterable[Send], reason: str) -> None:
        """Report messages that certainly were not sent, if they are sent once only or mandatory."""
        # Sessions repeat all other messages themselves.
        once = [send for send in sends if send.not_after or send.mandatory]
        if once:
            self.handle(NotSent(once, reason))


class Streams(Protocol):
    """A listener with its connections, which carry bytes."""

    def write(self, connection: int, octets: bytes) -> None:
        """Send octets; does nothing if the connection has ended."""
        ...

    def close(self, connection: int) -> None:
        """End a connection when everything written has left."""
        ...


class StreamDriver(SessionDriver):
    """Runs a session over byte streams.

    ``connections``, ``octets``, ``protocol_errors`` and ``refused`` are counted. ``logged`` is called with
    lines of sessions whose applications requested a log, ``refused`` with refused logins, and with what peers
    may not publish.
    """

    def __init__(
        self,
        name: str,
        session: Session,
        observe: Callable[[tuple[Observation, ...]], None],
        clock: Clock,
        counters: Counter[str],
        answered: Callable[[Answer], None] = lambda _: None,
        logged: Callable[[Logged], None] = lambda _: None,
        refused: Callable[[LoginRefused | PublishRefused], None] = lambda _: None,
    ) -> None:
        super().__init__(name, session, observe, clock, counters, answered)
        self._logged = logged
        self._refused = refused
        self._streams: Streams | None = None

    def carried_by(self, streams: Streams) -> None:
        """Use these connections from now on."""
        self._streams = streams

    def emptied(self, connection: int) -> None:
        """Report to the session that all octets of a connection that have arrived were passed to it."""
        self.handle(ReceivedUntil(self._clock.now(), connection))

    def handle(self, event: Event) -> None:
        """Pass an event to the session unless it has failed, and carry out its effects."""
        match event:
            case PeerConnected():
                self._counters["connections"] += 1
            case BytesReceived(_, octets):
                self._counters["octets"] += len(octets)
        if self._failure is None:
            try:
                super().handle(event)
            except Exception as error:
                if isinstance(event, MethodCall | ObjectFetch | ObjectModify):
                    raise  # its outcome, and no end of the session
                self.fail(error)  # the event loop would drop one connection, and go on
        if isinstance(event, ListenerStops):
            self.stop()

    def _carry(self, effect: Effect) -> None:
        match effect:
            case Logged():
                self._logged(effect)
            case LoginRefused() | PublishRefused():
                self._refused(effect)
            case Write(connection, octets) if self._streams is not None:
                self._streams.write(connection, octets)
            case Close(connection) if self._streams is not None:
                self._streams.close(connection)
            case Write() | Close():
                pass  # no listener carries the session any more
            case _:
                super()._carry(effect)
