"""Runs one session: carries its effects out, and wakes it when it asked to be."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from typing import Final, Protocol, TypeAlias

import structlog

from gateway.clock import Clock
from gateway.dialects.effects import Answered, Delivery, Effect, Note, Observed, Send, WakeAt
from gateway.model.observations import Observation
from gateway.model.operations import Answer

log = structlog.get_logger(__name__)

MAX_OUTGOING = 10_000
"""Messages that may wait to be published; more mean that the link does not move, so it is given up."""

_NOTE_LOG_NANOSECONDS = 60 * 10**9
_COUNTED = {"protocol-error": "protocol_errors", "refused-sender": "refused", "distrusted-sender": "refused"}


TOO_LATE: Final = "its time was over before it could be sent"

Unsent: TypeAlias = Callable[[Sequence[Send], str, int], Iterable[Effect]]
"""A session's: these certainly were not sent, and will not be, for this reason; with the time."""


class Session(Protocol):
    """A session without I/O, as far as a conversation needs to know it."""

    def receive(self, delivery: Delivery, now: int) -> list[Effect]:
        """A message arrived."""
        ...

    def tick(self, now: int) -> list[Effect]:
        """The time it asked for has come."""
        ...


class Conversation:
    """A session and its surroundings, on one event loop.

    Args:
        name: of the source or agent, for the log.
        session: told what arrives.
        observe: given the observations of one message body, whole.
        clock: the gateway's.
        counters: ``messages``, ``octets``, ``protocol_errors`` and ``refused`` are counted here.
        answered: told what came of operations, behind what they led to.
        unsent: told of what is sent once or never (`Send.not_after`), and certainly was not.
    """

    def __init__(
        self,
        name: str,
        session: Session,
        observe: Callable[[tuple[Observation, ...]], None],
        clock: Clock,
        counters: Counter[str],
        answered: Callable[[Answer], None] = lambda _: None,
        unsent: Unsent = lambda _sends, _reason, _now: (),
    ) -> None:
        self._answered = answered
        self._unsent = unsent
        self.notes: Counter[str] = Counter()
        self._counters = counters
        self._name = name
        self._session = session
        self._observe = observe
        self._clock = clock
        self._outgoing: deque[Send] = deque()
        self._writable = asyncio.Event()
        self._clog = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._failure: Exception | None = None
        self._logged: dict[str, int] = {}

    def deliver(self, delivery: Delivery) -> None:
        """A message arrived."""
        self._counters["messages"] += 1
        self._counters["octets"] += len(delivery.body)
        self.perform(self._session.receive(delivery, self._clock.now()))

    def perform(self, effects: Iterable[Effect]) -> None:
        """Carry out what the session wants."""
        for effect in effects:
            match effect:
                case Send():
                    self._outgoing.append(effect)
                    self._writable.set()
                    if self.clogged:
                        self._clog.set()
                case Observed(observations):
                    self._observe(observations)
                case Answered(answer):
                    self._answered(answer)
                case WakeAt(time):
                    self._wake_at(time)
                case Note():
                    self._note(effect)

    @property
    def clogged(self) -> bool:
        """More waits to be sent than a moving link would leave."""
        return len(self._outgoing) > MAX_OUTGOING

    async def until_clogged(self) -> None:
        """Wait until more waits to be sent than a moving link would leave."""
        await self._clog.wait()

    async def next_send(self) -> Send:
        """The next message to publish, in order; waits for one.

        Raises:
            Exception: what `fail` was told.
        """
        while self._failure is None and not self._outgoing:
            self._writable.clear()
            await self._writable.wait()
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
        return self._outgoing.popleft()

    def fail(self, error: Exception) -> None:
        """The session failed where nobody waits for it: hand the error to who carries its messages."""
        self._failure = error
        self._writable.set()

    def forget_sends(self) -> list[Send]:
        """The link is down: what was not sent, and is returned, will be said anew, or never."""
        unsent = list(self._outgoing)
        self._outgoing.clear()
        self._clog.clear()
        return unsent

    def unsent(self, sends: Iterable[Send], reason: str) -> None:
        """These certainly were not sent, and will not be: told of those that are sent once only."""
        once = [send for send in sends if send.not_after]
        if once:
            self.perform(self._unsent(once, reason, self._clock.now()))

    def stop(self) -> None:
        """No more waking."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _wake_at(self, time: int) -> None:
        self.stop()
        delay = max(0.0, (time - self._clock.now()) / 1e9)
        self._timer = asyncio.get_running_loop().call_later(delay, self._woken)

    def _woken(self) -> None:
        self._timer = None
        try:
            self.perform(self._session.tick(self._clock.now()))
        except Exception as error:  # noqa: BLE001  the event loop would only write it down, and nobody reads that
            self.fail(error)

    def _note(self, note: Note) -> None:
        """Count, and log each kind at most once a minute: a hostile peer must not fill a disk."""
        self.notes[note.event] += 1
        if note.event in _COUNTED:
            self._counters[_COUNTED[note.event]] += 1
        now = self._clock.now()
        last = self._logged.get(note.event)
        if last is None or now - last >= _NOTE_LOG_NANOSECONDS:
            self._logged[note.event] = now
            log.info(note.event, name=self._name, detail=note.detail, count=self.notes[note.event])
