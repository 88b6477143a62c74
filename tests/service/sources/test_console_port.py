"""The way of operations to a session: given to it, or answered where that is not possible."""

from __future__ import annotations

from gateway.clock import SystemClock
from gateway.dialects.session import Effect, Event, EventNotTakenError, Note
from gateway.model.operations import Answer, MethodCall, ObjectFetch, ObjectModify, Outcome
from gateway.model.schema import ClassKey
from gateway.service.sources.source_context import ConsolePort

BOILER = ClassKey("works", "boiler")
CALL = MethodCall(1, BOILER, "1.0", "7", "purge", (), 10**18)
MODIFY = ObjectModify(2, BOILER, "1.0", "7", {"speed": 30}, 10**18)
FETCH = ObjectFetch(3, BOILER, "1.0", "7", 10**18)


class Console:
    """A console session; its effects note the operations that it was given."""

    def handle(self, event: Event, now: int) -> list[Effect]:
        assert now > 0
        match event:
            case MethodCall(method=method):
                return [Note("call", method)]
            case ObjectModify(values=values):
                return [Note("modify", repr(dict(values)))]
            case ObjectFetch(native_id=native_id):
                return [Note("fetch", native_id)]
        raise EventNotTakenError(self, event)

    def precheck(self, request: MethodCall | ObjectModify, now: int) -> Answer | None:
        assert now > 0
        if request is not MODIFY:
            return None
        return Answer(request.token, Outcome.WRONG_LENGTH, "not sent: too long")


class Site:
    """A port to a session, and the effects that were performed."""

    def __init__(self) -> None:
        self.performed: list[Effect] = []
        self.session = Console()
        self.port = ConsolePort(self.session, self, SystemClock())

    def handle(self, event: Event) -> None:
        self.performed += self.session.handle(event, 1)


def test_each_is_given_to_the_session() -> None:
    site = Site()
    site.port.call(CALL)
    site.port.modify(MODIFY)
    site.port.fetch(FETCH)
    assert site.performed == [Note("call", "purge"), Note("modify", "{'speed': 30}"), Note("fetch", "7")]


def test_what_a_session_would_not_send_is_known_before() -> None:
    port = Site().port
    assert port.precheck(MODIFY) == Answer(2, Outcome.WRONG_LENGTH, "not sent: too long")
    assert port.precheck(CALL) is None
