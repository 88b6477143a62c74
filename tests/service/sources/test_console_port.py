"""The way of operations to a session: given to it, or answered where that is not possible."""

from __future__ import annotations

from collections.abc import Iterable

from gateway.clock import SystemClock
from gateway.model.operations import Answer, MethodCall, ObjectFetch, ObjectModify, Outcome
from gateway.model.schema import ClassKey
from gateway.service.sources.console_port import ConsolePort

BOILER = ClassKey("works", "boiler")
CALL = MethodCall(1, BOILER, "1.0", "7", "purge", (), 10**18)
MODIFY = ObjectModify(2, BOILER, "1.0", "7", {"speed": 30}, 10**18)
FETCH = ObjectFetch(3, BOILER, "1.0", "7", 10**18)


class Reader:
    """A session that calls and reads; its effects are words."""

    def call(self, call: MethodCall, now: int) -> list[str]:  # noqa: ARG002  as every session's
        return [f"call {call.method}"]

    def fetch(self, fetch: ObjectFetch, now: int) -> list[str]:  # noqa: ARG002  as every session's
        return [f"fetch {fetch.native_id}"]


class Writer(Reader):
    """One that has a request to set, too."""

    def modify(self, modify: ObjectModify, now: int) -> list[str]:  # noqa: ARG002  as every session's
        return [f"modify {dict(modify.values)}"]


class Seer(Writer):
    """One that can say before what it would not send."""

    def objection(self, request: MethodCall | ObjectModify, now: int) -> Answer | None:  # noqa: ARG002  likewise
        return (
            Answer(request.token, Outcome.WRONG_LENGTH, "not sent: too long") if request is MODIFY else None
        )


class Site:
    """A port to a session, and what came of it."""

    def __init__(self, session: Reader, unreachable: str = "") -> None:
        self.performed: list[str] = []
        self.answers: list[Answer] = []
        self.port = ConsolePort(session, self, SystemClock(), self.answers.append, lambda: unreachable)

    def perform(self, effects: Iterable[str]) -> None:
        self.performed += effects

    def ask_all(self) -> None:
        self.port.call(CALL)
        self.port.modify(MODIFY)
        self.port.fetch(FETCH)


def test_each_is_given_to_the_session() -> None:
    site = Site(Writer())
    site.ask_all()
    assert site.performed == ["call purge", "modify {'speed': 30}", "fetch 7"]
    assert site.answers == []


def test_a_session_without_a_request_to_set_sets_nothing_and_says_so() -> None:
    site = Site(Reader())
    site.ask_all()
    assert site.performed == ["call purge", "fetch 7"]
    (answer,) = site.answers
    assert (answer.token, answer.outcome, answer.code) == (2, Outcome.READ_ONLY, None)
    assert "no request of its own" in answer.text


def test_what_cannot_be_reached_is_asked_nothing() -> None:
    site = Site(Writer(), "the broker is not reached")
    site.ask_all()
    assert site.performed == []
    assert [(one.token, one.outcome) for one in site.answers] == [
        (token, Outcome.SOURCE_DOWN) for token in (1, 2, 3)
    ]


def test_what_a_session_would_not_send_is_known_before() -> None:
    port = Site(Seer()).port
    assert port.objection(MODIFY) == Answer(2, Outcome.WRONG_LENGTH, "not sent: too long")
    assert port.objection(CALL) is None


def test_who_has_no_request_to_set_or_cannot_be_reached_is_known_before() -> None:
    assert Site(Writer()).port.objection(MODIFY) is None
    found = [
        Site(Reader()).port.objection(MODIFY),
        Site(Seer(), "the broker is not reached").port.objection(CALL),
    ]
    assert [(one.token, one.outcome) for one in found if one is not None] == [
        (2, Outcome.READ_ONLY),
        (1, Outcome.SOURCE_DOWN),
    ]
