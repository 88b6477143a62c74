"""Runs one session: carries its effects out, and wakes it when it asked to be."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from typing import Final, Protocol, TypeAlias

from gateway.clock import Clock
from gateway.dialects.effects import Answered, Delivery, Effect, Note, Observed, Rebind, Send, WakeAt
from gateway.links.amqp_connection import LinkError, Trouble
from gateway.links.session_notes import SessionNotes, WakeUp
from gateway.model.observations import Observation
from gateway.model.operations import Answer

MAX_OUTGOING = 10_000
"""Messages that may wait to be published; more mean that the link does not move, so it is given up."""

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
        unsent: told of what is sent once or never (`Send.not_after`), or as mandatory, and certainly was not.
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
        self._notes = SessionNotes(name, clock, counters)
        self._counters = counters
        self._session = session
        self._observe = observe
        self._clock = clock
        self._outgoing: deque[Send] = deque()
        self._writable = asyncio.Event()
        self._clog = asyncio.Event()
        self._wake_up = WakeUp(clock, self._woken)
        self._failure: Exception | None = None

    @property
    def notes(self) -> Counter[str]:
        """How many there were of each kind."""
        return self._notes.counts

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
                    self._wake_up.at(time)
                case Rebind(reason):
                    self.fail(LinkError(Trouble.BROKEN, f"the queue is bound again: {reason}"))
                case Note():
                    self._notes.take(effect)

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
        """The link is down: what was not sent, and is returned, will be said again, or never."""
        unsent = list(self._outgoing)
        self._outgoing.clear()
        self._clog.clear()
        return unsent

    def unsent(self, sends: Iterable[Send], reason: str) -> None:
        """These certainly were not sent, and will not be: told of those sent once only, or as mandatory."""
        once = [send for send in sends if send.not_after or send.mandatory]
        if once:
            self.perform(self._unsent(once, reason, self._clock.now()))

    def stop(self) -> None:
        """No more waking."""
        self._wake_up.stop()

    def _woken(self) -> None:
        try:
            self.perform(self._session.tick(self._clock.now()))
        except Exception as error:  # noqa: BLE001  the event loop would only write it down, and nobody reads that
            self.fail(error)
