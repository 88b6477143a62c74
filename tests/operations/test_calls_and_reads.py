"""Methods that are called, objects that are read again; secrets of both."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gateway.feed.operations import InvokeMethod, OperationKind, OperationRequest, OperationState
from gateway.feed.values import ObjectLink
from gateway.model.operations import Outcome
from gateway.model.schema import Argument, Direction, Method
from gateway.model.values import Reference, ValueType
from gateway.operations.audit import MAX_REFERENCE
from tests.operations.works import BOILER, BOILER_CLASS, DEADLINE, OPERATOR, Works, boiler

SOUTHBOUND = ObjectLink(BOILER_CLASS, 2, "south")


@pytest.fixture
def works(tmp_path: Path) -> Works:
    return Works(tmp_path)


def test_a_call_is_made_once_and_its_outputs_are_answered_by_name(works: Works) -> None:
    request = works.invoke("move", to=SOUTHBOUND, litres=3)
    works.answer(Outcome.APPLIED, "OK", outputs=(2**64 - 1, Reference("id-south")))
    (call,) = works.calls
    assert (call.method, call.native_id) == ("move", "id-north")
    assert call.arguments == (Reference("id-south"), 3, None, None, None)
    answer = works.answers[request]
    assert (answer.outcome, answer.text, answer.code) == (Outcome.APPLIED, "OK", 0)
    assert answer.values == {"left": 2**64 - 1, "inTank": SOUTHBOUND}
    begun, ended = works.reported
    assert (begun.kind, begun.method, begun.values) == (
        OperationKind.INVOKE,
        "move",
        {"to": SOUTHBOUND, "litres": 3},
    )
    assert (ended.found, ended.code) == (answer.values, 0)
    assert len(works.sent) == 1


def test_every_record_has_the_front_ends_name_of_the_request(works: Works) -> None:
    for method, reference in ("purge", "table.7"), ("explode", "x" * 1000):
        action = InvokeMethod(method)
        request = OperationRequest(1, OPERATOR, 1, BOILER_CLASS, 1, action, DEADLINE, reference=reference)
        works.perform(works.manager.submit(request, lambda _: None, works.now))
        works.answer()
    assert [record.reference for record in works.reported] == ["table.7", "table.7", "x" * MAX_REFERENCE]


def test_outputs_that_were_not_reported_are_left_out(works: Works) -> None:
    request = works.invoke("move", to=SOUTHBOUND, litres=3)
    works.answer(Outcome.REMOTE_FAILURE, "no", code=7)
    assert works.answers[request].values == {}


def test_a_reference_to_what_is_not_known_is_reported_by_its_native_id(works: Works) -> None:
    request = works.invoke("move", to=SOUTHBOUND, litres=3)
    works.answer(outputs=(None, Reference("id-east")))
    assert works.answers[request].values == {"inTank": "id-east"}


@pytest.mark.parametrize("outcome", list(Outcome))
def test_what_the_agent_says_of_a_call_is_what_came_of_it(works: Works, outcome: Outcome) -> None:
    request = works.invoke("purge")
    works.answer(outcome, "said so", code=3)
    answer = works.answers[request]
    assert (answer.outcome, answer.text, answer.code) == (outcome, "said so", 3)


def test_a_call_without_an_answer_is_unknown(works: Works) -> None:
    request = works.invoke("purge")
    works.wait(DEADLINE)
    assert works.answers[request].outcome is Outcome.UNKNOWN
    assert works.record.state is OperationState.ENDED


def test_secrets_are_passed_on_and_never_reported(works: Works) -> None:
    works.invoke("move", to=SOUTHBOUND, litres=3, apiToken="hush", pin="1234", note="amqp://u:p@host")
    works.answer()
    assert works.calls[0].arguments[2:] == ("amqp://u:p@host", "hush", "1234")
    for record in works.reported:
        assert record.values == {
            "to": SOUTHBOUND,
            "litres": 3,
            "note": "amqp://***@host",
            "apiToken": "***",
            "pin": "***",
        }


def test_of_arguments_with_one_name_each_is_passed_on_and_all_are_as_secret(tmp_path: Path) -> None:
    """Agents of QMF may send such a schema; they take arguments by their positions."""
    arguments = tuple(Argument(name, ValueType.STRING) for name in ("pin", "pin", ""))
    move = Method("move", (*arguments, Argument("pin", ValueType.STRING, Direction.OUT)))
    works = Works(tmp_path, schema=replace(BOILER, methods=(move,)))
    request = works.invoke("move", pin="1", pin_2="2", element2="3")
    works.answer(outputs=("4",))
    assert works.calls[0].arguments == ("1", "2", "3")
    assert works.reported[0].values == {"pin": "***", "pin_2": "***", "element2": "3"}
    assert works.answers[request].values == {"pin_3": "***"}


def test_what_an_agent_says_is_reported_on_one_line_without_passwords(works: Works) -> None:
    request = works.invoke("purge")
    works.answer(Outcome.REMOTE_FAILURE, "failed:\n amqp://u:p@host " + "x" * 2000)
    text = works.answers[request].text
    assert text.startswith("failed: amqp://***@host xxx")
    assert len(text) == 1000


def test_long_values_are_cut_in_records_and_whole_on_their_way(works: Works) -> None:
    works.invoke("move", to=SOUTHBOUND, litres=3, note="x" * 10_000)
    assert works.calls[0].arguments[2] == "x" * 10_000
    assert works.record.values["note"] == f"{'x' * 2048}… (10000 characters)"


def test_a_reading_answers_all_there_is_after_observations(works: Works) -> None:
    request = works.read()
    works.answer(found=boiler(limit=6))
    answer = works.answers[request]
    reported = {"name": "north", "limit": 6, "label": "old", "mode": "hot", "speed": 20}
    assert answer.values == {**reported, "heat": 70}
    assert [record.state for record in works.reported] == [OperationState.BEGUN, OperationState.ENDED]
    assert works.record.kind is OperationKind.READ
    assert works.record.found == {}


def test_a_reading_waits_for_no_disk(works: Works) -> None:
    works.auto_record = False
    works.read()
    assert len(works.sent) == 1


@pytest.mark.parametrize("said", [Outcome.OBJECT_GONE, Outcome.SOURCE_DOWN, Outcome.UNKNOWN])
def test_what_cannot_be_read_says_why(works: Works, said: Outcome) -> None:
    request = works.read()
    works.answer(said, "because")
    assert (works.answers[request].outcome, works.answers[request].text) == (said, "because")


def test_a_reading_of_what_ends_meanwhile(works: Works) -> None:
    request = works.read()
    works.answer(found=boiler(deleted=1))
    assert works.answers[request].outcome is Outcome.OBJECT_GONE


def test_a_reading_without_an_answer_is_reported_so_and_settled_by_nothing(works: Works) -> None:
    request = works.read()
    works.wait(DEADLINE)
    assert works.answers[request].outcome is Outcome.UNKNOWN
    works.answer(found=boiler())
    assert works.manager.pending_outcomes == 0
    assert works.record.state is OperationState.ENDED


# ---- how many at once -----------------------------------------------------------------------------------


def test_so_many_run_at_once_as_many_wait_and_more_are_refused(tmp_path: Path) -> None:
    works = Works(tmp_path, max_running=2)
    requests = [works.invoke("purge") for _ in range(5)]
    assert (len(works.sent), works.manager.running, works.manager.waiting) == (2, 2, 2)
    assert works.answers[requests[4]].outcome is Outcome.NOT_NOW
    works.answer(to=works.sent[0])
    assert (len(works.sent), works.manager.running, works.manager.waiting) == (3, 2, 1)
    works.answer(to=works.sent[1])
    works.answer(to=works.sent[2])
    works.answer(to=works.sent[3])
    assert [works.answers[request].outcome for request in requests[:4]] == [Outcome.APPLIED] * 4


def test_what_waits_for_its_turn_until_the_deadline_was_never_sent(tmp_path: Path) -> None:
    works = Works(tmp_path, max_running=1)
    first = works.invoke("purge")
    works.wait(1)
    second = works.invoke("purge", row=2)
    works.answers.clear()
    works.wait(DEADLINE - 1)
    assert works.answers[first].outcome is Outcome.UNKNOWN
    assert len(works.sent) == 2
    works.wait(1)
    assert works.answers[second].outcome is Outcome.UNKNOWN
    assert works.manager.running == works.manager.waiting == 0


def test_what_the_log_does_not_get_in_time_was_never_sent(works: Works) -> None:
    works.auto_record = False
    request = works.invoke("purge")
    works.wait(DEADLINE)
    assert (works.answers[request].outcome, works.sent) == (Outcome.NOT_NOW, [])
    works.recorded(1)
    assert works.sent == []


def test_many_that_fail_at_once_when_their_turn_comes_are_no_burden(tmp_path: Path) -> None:
    works = Works(tmp_path, max_running=1000)
    first = works.invoke("purge")
    requests = [works.set(limit=number) for number in range(1000)]
    reading = works.sent[-1]
    works.synchronise()  # everything is gone
    works.answer(to=reading)
    works.answer(to=works.sent[0])
    assert {works.answers[request].outcome for request in requests} == {Outcome.OBJECT_GONE}
    assert works.answers[first].outcome is Outcome.APPLIED
    assert works.calls == [works.sent[0]]
