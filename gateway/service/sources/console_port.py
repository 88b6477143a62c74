"""The way of operations to a console session, and of what came of them back."""

from __future__ import annotations

from typing import Protocol

from gateway.clock import Clock
from gateway.dialects.session import ConsoleSession, Event
from gateway.model.operations import Answer, MethodCall, ObjectFetch, ObjectModify


class Driver(Protocol):
    """The driver of a session."""

    def handle(self, event: Event) -> None:
        """Hand an event to the session, and carry out what it wants."""
        ...


class ConsolePort:
    """Carries operations on one source to its console session (`gateway.operations.effects`).

    Args:
        session: of the source.
        driver: of the session.
        clock: the gateway's.
    """

    def __init__(self, session: ConsoleSession, driver: Driver, clock: Clock) -> None:
        self._session = session
        self._driver = driver
        self._clock = clock

    def call(self, call: MethodCall) -> None:
        """Call a method."""
        self._driver.handle(call)

    def modify(self, modify: ObjectModify) -> None:
        """Set properties; ``READ_ONLY`` is answered where the dialect has no request to do so."""
        self._driver.handle(modify)

    def fetch(self, fetch: ObjectFetch) -> None:
        """Read an object again."""
        self._driver.handle(fetch)

    def precheck(self, request: MethodCall | ObjectModify) -> Answer | None:
        """What `call` or `modify` would answer at once; ``None`` where nothing speaks against it."""
        return self._session.precheck(request, self._clock.now())
