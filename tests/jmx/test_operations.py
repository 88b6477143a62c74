"""Requests of clients to the core, and its answers to clients."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from gateway.feed.operations import (
    FrontEndRefusal,
    InvokeMethod,
    OperationAnswer,
    OperationRequest,
    ReadFresh,
    SetElements,
)
from gateway.feed.values import ObjectLink
from gateway.jmx.backend import Named, RefusedAttempt, Reply, Status
from gateway.jmx.commands import AttributeType
from gateway.jmx.operations import STATUSES, Operations, explanation
from gateway.jmx.types import Written
from gateway.model.operations import Outcome, Principal
from tests.components.shop import agent, source
from tests.jmx.shop import SAFE_NAME, Gateway, classes, delete, hall, link, safe, till, till_name

MONITOR = Principal("jmx", "monitor", "192.0.2.1")
TIMEOUT = 9 * 10**9
Script = Callable[[OperationRequest], OperationAnswer]


def ended(outcome: Outcome, **fields: object) -> OperationAnswer:
    return OperationAnswer(0, "7b0c.1.o1", outcome, **fields)  # type: ignore[arg-type]  # fields of an answer


@dataclass
class Core:
    """A core that answers, and records requests and results in their order."""

    answer: OperationAnswer = field(default_factory=lambda: ended(Outcome.APPLIED))
    requests: list[OperationRequest] = field(default_factory=list)
    history: list[str] = field(default_factory=list)
    reports: list[OperationRequest] = field(default_factory=list)

    async def ask(self, request: OperationRequest) -> OperationAnswer:
        self.requests.append(request)
        self.history.append("asked")
        return self.answer

    async def caught_up(self) -> None:
        self.history.append("caught up")


@pytest.fixture
def core() -> Core:
    """Return a core that applies everything."""
    return Core()


def report(core: Core, operations: Operations, attempt: RefusedAttempt) -> OperationRequest:
    """Report an attempt; return the request that the core received."""
    operations.refused(attempt)
    return core.reports[-1]


@pytest.fixture
def gateway() -> Gateway:
    """A synchronised source with a hall, two tills and a safe."""
    gateway = Gateway()
    gateway.hello()
    gateway.snapshot(source(), *classes(), agent(fresh=True), hall(), till(1), till(2), *safe())
    return gateway


@pytest.fixture
def operations(gateway: Gateway, core: Core) -> Operations:
    """Return the operations of the gateway's objects."""
    projection = gateway.projection
    last_end = projection.last_end
    return Operations(projection.objects, core.ask, core.caught_up, TIMEOUT, last_end, core.reports.append)


@pytest.fixture
def number(gateway: Gateway) -> int:
    """Return the number of the safe in the virtual machine."""
    return gateway.machine.names[SAFE_NAME]


def long(value: int) -> Written:
    return Written(AttributeType.LONG, value)


def text(value: str) -> Written:
    return Written(AttributeType.STRING, value)


def till_reference(gateway: Gateway) -> Written:
    number = gateway.machine.names[till_name()]
    return Written(AttributeType.OBJECT_NAME, [number, "hall1|till1#1"])


async def test_a_set_is_one_request_with_all_values(operations: Operations, core: Core, number: int) -> None:
    values = [("limit", long(7)), ("code", text("1234")), ("labels", None)]
    assert await operations.set(Named(number, "hall1|safe1"), MONITOR, values) == Reply(
        Status.APPLIED, "applied [7b0c.1.o1]", ("limit", "code", "labels")
    )
    elements = SetElements({"limit": 7, "code": "1234", "labels": None})
    assert core.requests == [
        OperationRequest(0, MONITOR, 1, "shop:safe", 1, elements, TIMEOUT, ends=0, stable_name="hall1|safe1")
    ]
    assert core.history == ["asked", "caught up"]


async def test_an_invocation_names_its_arguments_and_leaves_out_what_is_null(
    operations: Operations, core: Core, gateway: Gateway, number: int
) -> None:
    link_of_till = ObjectLink("shop:till", 1, "hall1|till1#1")
    core.answer = ended(Outcome.APPLIED, values={"moved": 3, "where": link(2, "shop:till")})
    reply = await operations.invoke(Named(number), MONITOR, "move", [till_reference(gateway), None])
    assert reply == Reply(Status.APPLIED, "applied [7b0c.1.o1]", (3, till_name(2)))
    (request,) = core.requests
    assert request.action == InvokeMethod("move", {"to": link_of_till})


async def test_results_that_are_not_reported_or_do_not_fit_are_null(
    operations: Operations, core: Core, number: int
) -> None:
    core.answer = ended(Outcome.APPLIED, values={"moved": "many"})
    reply = await operations.invoke(Named(number), MONITOR, "move", [None, None])
    assert (reply.status, reply.items) == (Status.APPLIED, (None, None))
    core.answer = ended(Outcome.APPLIED, values={"where": link(9, "shop:till")})
    assert (await operations.invoke(Named(number), MONITOR, "move", [None, None])).items == (None, None)


async def test_a_fresh_read_is_an_operation_too(operations: Operations, core: Core, number: int) -> None:
    core.answer = ended(Outcome.APPLIED, values={"limit": 5})
    assert await operations.invoke(Named(number), MONITOR, "readFresh", []) == Reply(
        Status.APPLIED, "applied [7b0c.1.o1]"
    )
    (request,) = core.requests
    assert request.action == ReadFresh()


async def test_an_object_that_has_gone_meanwhile(
    operations: Operations, core: Core, gateway: Gateway
) -> None:
    number = gateway.machine.names[till_name()]
    gateway.publish(delete(1))
    assert (await operations.set(Named(number), MONITOR, [])).status is Status.GONE
    assert (await operations.invoke(Named(number), MONITOR, "readFresh", [])).status is Status.GONE
    assert core.requests == []


async def test_a_reference_to_an_object_that_has_gone_is_none(
    operations: Operations, core: Core, gateway: Gateway, number: int
) -> None:
    reference = till_reference(gateway)
    gateway.publish(delete(1))
    await operations.set(Named(number), MONITOR, [("till", reference)])
    (request,) = core.requests
    assert request.action == SetElements({"till": "hall1|till1#1"})


async def test_what_another_version_of_the_class_does_not_have(
    operations: Operations, core: Core, number: int
) -> None:
    assert (
        await operations.set(Named(number), MONITOR, [("colour", long(1))])
    ).status is Status.UNKNOWN_ELEMENT
    for operation, arguments in (("close", []), ("move", []), ("empty", [None])):
        reply = await operations.invoke(Named(number), MONITOR, operation, arguments)
        assert reply.status is Status.UNKNOWN_ELEMENT
    assert core.requests == []


@pytest.mark.parametrize("outcome", Outcome)
async def test_every_outcome_has_a_status_and_is_named(
    operations: Operations, core: Core, number: int, outcome: Outcome
) -> None:
    core.answer = ended(outcome, text="why", element="limit", code=7)
    reply = await operations.set(Named(number), MONITOR, [("limit", long(7))])
    assert reply.status is STATUSES[outcome]
    assert reply.text.startswith(f"{outcome.value}: limit: why")
    assert reply.text.endswith(" (code 7) [7b0c.1.o1]")
    assert ("it may have been carried out" in reply.text) is (outcome is Outcome.UNKNOWN)


async def test_of_a_set_that_failed_midway_what_was_read_back_counts(
    operations: Operations, core: Core, number: int
) -> None:
    asked = [("limit", long(7)), ("code", text("1")), ("labels", Written(AttributeType.MAP, [["a", "1"]]))]
    core.answer = ended(Outcome.REMOTE_FAILURE, element="labels", values={"limit": 7, "labels": {"a": 2}})
    assert (await operations.set(Named(number), MONITOR, asked)).items == ("limit",)
    core.answer = OperationAnswer(0, "", Outcome.REFUSED, values={"limit": 7})
    assert (await operations.set(Named(number), MONITOR, asked)).items == ()
    core.answer = ended(Outcome.UNKNOWN, element="limit")
    assert (await operations.set(Named(number), MONITOR, asked)).items == ()


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        ("limit: 9 is more than 8", "limit: 9 is more than 8"),
        ("limit must have a value", "limit must have a value"),
        ("limits are kept", "limit: limits are kept"),
    ],
)
def test_an_element_is_named_once(text: str, reported: str) -> None:
    answer = OperationAnswer(0, "", Outcome.WRONG_VALUE, text, "limit")
    assert explanation(answer) == f"wrong-value: {reported}"


@pytest.mark.parametrize("outcome", [Outcome.APPLIED_DIFFERENTLY, Outcome.NOT_APPLIED])
def test_the_value_found_is_reported(outcome: Outcome) -> None:
    answer = ended(outcome, element="labels", text="t", values={"labels": {"a": 1}})
    assert explanation(answer) == f'{outcome.value}: labels: t: found {{"a":1}} [7b0c.1.o1]'
    nested: tuple[object, ...] = ()
    for _ in range(100_000):
        nested = (nested,)
    answer = ended(outcome, element="labels", values={"labels": nested})
    assert explanation(answer) == f"{outcome.value}: labels: found a value that cannot be shown [7b0c.1.o1]"


def test_what_the_virtual_machine_refused_is_reported_with_its_object(
    operations: Operations, core: Core, number: int
) -> None:
    attempt = RefusedAttempt(MONITOR, number, SetElements({"colour": None}), Outcome.UNKNOWN_ELEMENT, "no")
    reported = report(core, operations, attempt)
    assert (reported.principal, reported.source, reported.class_name, reported.row) == (
        MONITOR,
        1,
        "shop:safe",
        1,
    )
    assert reported.refusal == FrontEndRefusal(Outcome.UNKNOWN_ELEMENT, "no", "colour")
    assert core.requests == []

    elsewhere = RefusedAttempt(MONITOR, 0, InvokeMethod("gc"), Outcome.REFUSED, "java.lang:type=Memory: no")
    reported = report(core, operations, elsewhere)
    assert (reported.source, reported.class_name, reported.row) == (0, "", 0)
    assert reported.refusal == FrontEndRefusal(Outcome.REFUSED, "java.lang:type=Memory: no", "gc")


async def test_what_is_refused_before_the_core_is_asked_is_reported(
    operations: Operations, core: Core, number: int
) -> None:
    await operations.set(Named(number), MONITOR, [("colour", long(7))])
    await operations.invoke(Named(number), MONITOR, "explode", [])
    await operations.set(Named(999_999), MONITOR, [("limit", long(7))])
    assert [each.refusal.outcome for each in core.reports if each.refusal is not None] == [
        Outcome.UNKNOWN_ELEMENT,
        Outcome.UNKNOWN_ELEMENT,
        Outcome.OBJECT_GONE,
    ]
