"""A request that is repeated under its reference is carried out once, and gets the same answer."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.feed.operations import InvokeMethod, OperationAnswer, OperationRequest
from gateway.model.operations import Outcome, Principal
from gateway.model.times import SECOND
from gateway.operations.manager import KEEP, MAX_REMEMBERED, Repeats
from tests.components.permissions import Permission
from tests.operations.works import ANYTHING, BOILER_CLASS, DEADLINE, OPERATOR, Works

OTHER = Principal("snmp", "operator")
ELSEWHERE = Permission(frozenset({str(OTHER)}), invoke=("purge",))


class Asker(Works):
    """A manager, and a north that gives references to its requests."""

    def ask_as(
        self,
        reference: str,
        method: str = "purge",
        principal: Principal = OPERATOR,
        *,
        check_only: bool = False,
    ) -> int:
        """Ask for a call; return the number of the request."""
        self._requests += 1
        number = self._requests
        action = InvokeMethod(method)
        request = OperationRequest(
            number, principal, 1, BOILER_CLASS, 1, action, DEADLINE, check_only, reference=reference
        )
        self.perform(self.manager.submit(request, self._answered, self.now))
        return number

    def id_of(self, request: int) -> str:
        """Return the id of the operation in the answer to a request."""
        return self.answers[request].operation_id


@pytest.fixture
def works(tmp_path: Path) -> Asker:
    return Asker(tmp_path, ANYTHING, ELSEWHERE)


def test_one_that_comes_again_while_it_is_carried_out_waits_for_the_same_end(works: Asker) -> None:
    requests = [works.ask_as("set1") for _ in range(3)]
    assert len(works.calls) == 1
    works.answer(Outcome.REMOTE_FAILURE, "no", code=7)
    assert {works.id_of(request) for request in requests} == {works.id_of(requests[0])}
    assert [works.answers[request].request for request in requests] == requests
    assert works.answers[requests[2]].code == 7
    assert [record.state.value for record in works.reported] == ["begun", "ended"]


def test_one_that_comes_again_soon_gets_the_operation_of_the_first(works: Asker) -> None:
    first = works.ask_as("set1")
    works.answer()
    works.wait(KEEP - SECOND)
    again = works.ask_as("set1")
    assert works.id_of(again) == works.id_of(first)
    assert len(works.calls) == 1
    works.wait(SECOND)
    works.ask_as("set1")
    assert len(works.calls) == 2  # by now it is another request


def test_others_are_carried_out(works: Asker) -> None:
    asked = [("set1", OPERATOR), ("set2", OPERATOR), ("set1", OTHER), ("", OPERATOR), ("", OPERATOR)]
    for reference, principal in asked:
        works.ask_as(reference, principal=principal)
        works.answer()
    assert len(works.calls) == len(asked)


def test_nothing_speaks_against_what_is_under_way_or_done_and_what_was_refused_may_be_tried_again(
    works: Asker,
) -> None:
    works.ask_as("set1")
    for _ in range(2):
        checked = works.ask_as("set1", method="burn", check_only=True)
        assert works.answers[checked].outcome is Outcome.APPLIED
        works.answer()
    requests = [works.ask_as("set2", method="burn") for _ in range(2)]
    assert [works.answers[request].outcome for request in requests] == [Outcome.UNKNOWN_ELEMENT] * 2


def test_of_many_the_latest_are_remembered() -> None:
    repeats = Repeats()
    requests = [
        OperationRequest(0, OPERATOR, 1, BOILER_CLASS, 1, InvokeMethod("purge"), DEADLINE, reference=str(n))
        for n in range(MAX_REMEMBERED + 1)
    ]
    for number, request in enumerate(requests):
        repeats.begin(request, number, 0)
        assert repeats.running(request) == number
        repeats.end(request, OperationAnswer(0, str(number), Outcome.APPLIED))
    assert [repeats.running(request) for request in requests[:2]] == [None, None]
    answers = [repeats.ended(request, KEEP - 1) for request in requests]
    assert [answer.operation_id for answer in answers if answer] == [str(n) for n in range(1, len(requests))]
