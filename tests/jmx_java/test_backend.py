"""Python's answers to the virtual machine; nothing else crosses."""

from __future__ import annotations

import re

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from gateway.jmx.backend import MAX_REMEMBERED, Backend, Reply, Status
from gateway.jmx.commands import AttributeType
from gateway.jmx.java_build import SOURCES
from gateway.jmx.types import Written
from gateway.jmx.users import Holder
from gateway.model.operations import Principal
from tests.jmx_java.conftest import PASSWORD, USER, authenticate
from tests.jmx_java.scripted_operator import ScriptedOperator


def request(*fields: object) -> bytes:
    octets: bytes = msgpack.packb(fields)
    return octets


@pytest.mark.parametrize(
    ("user", "password", "status"),
    [(USER, PASSWORD, Status.APPLIED), (USER, "wrong", Status.REFUSED), ("other", PASSWORD, Status.REFUSED)],
)
async def test_a_login_is_decided_by_who_made_the_machine(user: str, password: str, status: Status) -> None:
    answer = await Backend(authenticate, 60).answer(
        request("authenticate", user, password, None, "192.0.2.1")
    )
    assert answer == Reply(status, items=(USER, 0, "change") if status is Status.APPLIED else ()).encode()


async def test_a_login_of_a_reader_gives_no_right_to_change() -> None:
    backend = Backend(authenticate, 60, may_change=lambda user: user != USER)
    answer = await backend.answer(request("authenticate", USER, PASSWORD, None, "192.0.2.1"))
    assert answer == Reply(Status.APPLIED, items=(USER, 0)).encode()


def keepers(certificate: bytes) -> Holder:
    return Holder("CN=keeper", "keeper") if certificate == b"keeper's" else Holder("CN=reader")


@pytest.mark.parametrize(
    ("fields", "user"),
    [
        (("identify", b"keeper's", "192.0.2.1"), "keeper"),
        (("identify", b"reader's", "192.0.2.1"), None),
        (("authenticate", USER, PASSWORD, b"reader's", "192.0.2.1"), USER),
        (("authenticate", USER, PASSWORD, b"keeper's", "192.0.2.1"), None),
        (("authenticate", "keeper", "", b"keeper's", "192.0.2.1"), None),
        (("authenticate", "keeper", "", None, "192.0.2.1"), None),
    ],
)
async def test_a_login_by_certificate_is_its_users_and_no_others(
    fields: tuple[object, ...], user: str | None
) -> None:
    counted: list[bool] = []
    backend = Backend(authenticate, 60, identify=keepers, count_login=counted.append)
    backend.operator = operator = ScriptedOperator()
    status, _, items = msgpack.unpackb(await backend.answer(request(*fields)))
    if user is None:
        assert (status, items, operator.logins) == (Status.REFUSED, [], [])
        assert len(operator.attempts) == 1
    else:
        assert (status, items) == (Status.APPLIED, [user, 0, "change"])
        assert (operator.logins, operator.attempts) == ([Principal("jmx", user, "192.0.2.1")], [])
    assert counted == [user is not None]


@given(
    st.binary(max_size=20)
    | st.lists(
        st.text(max_size=5) | st.integers(0, 9) | st.none() | st.binary() | st.just("authenticate"),
        max_size=5,
    ).map(lambda fields: request(*fields))
    | st.binary().map(lambda certificate: request("identify", certificate, ""))
)
async def test_any_octets_have_an_answer(octets: bytes) -> None:
    status, _, _ = msgpack.unpackb(await Backend(authenticate, 60).answer(octets))
    assert status in {Status.FAILED, Status.REFUSED}


async def test_a_request_that_is_too_large_is_not_read() -> None:
    octets = request("authenticate", USER, "x" * 300_000, None, "")
    assert await Backend(authenticate, 60).answer(octets) == Reply(Status.FAILED, "no such request").encode()


async def test_many_wrong_passwords_make_a_bounded_log() -> None:
    backend = Backend(authenticate, 60)
    with capture_logs() as logs:
        for _ in range(1000):
            await backend.answer(request("authenticate", USER, "guess", None, "192.0.2.1"))
    assert len(logs) == 20


MONITOR = Principal("jmx", USER, "192.0.2.1")
SET = request("set", 1, 7, "hall1", USER, "192.0.2.1", [["limit", [2, 5]], ["label", None]])
INVOKE = request("invoke", 2, 7, "hall1", USER, "192.0.2.1", "move", [[5, "x"], None])


async def test_an_operator_is_asked_by_whom_for_what() -> None:
    backend, operator = Backend(authenticate, 60), ScriptedOperator(Reply(Status.APPLIED, "t", ("limit",)))
    backend.operator = operator
    assert msgpack.unpackb(await backend.answer(SET)) == [0, "t", ["limit"]]
    await backend.answer(INVOKE)
    assert operator.asked == [
        (7, MONITOR, [("limit", Written(AttributeType.LONG, 5)), ("label", None)]),
        (7, MONITOR, "move", [Written(AttributeType.STRING, "x"), None]),
    ]


async def test_a_request_that_arrives_twice_is_carried_out_once_and_its_outcome_is_unknown() -> None:
    backend, operator = Backend(authenticate, 60), ScriptedOperator()
    backend.operator = operator
    answers = [msgpack.unpackb(await backend.answer(SET)) for _ in range(2)]
    assert [status for status, _, _ in answers] == [Status.APPLIED, Status.OUTCOME_UNKNOWN]
    assert len(operator.asked) == 1
    for number in range(10, 10 + 2 * MAX_REMEMBERED):
        await backend.answer(request("set", number, 7, "", USER, "", []))
    assert len(operator.asked) == 1 + 2 * MAX_REMEMBERED


async def test_without_an_operator_nothing_can_be_changed() -> None:
    backend = Backend(authenticate, 60)
    assert msgpack.unpackb(await backend.answer(SET))[0] == Status.NOT_NOW


VALUES = st.none() | st.lists(st.integers(-1, 12) | st.text(max_size=3) | st.none(), max_size=3)


@given(
    kind=st.sampled_from(["set", "invoke", "close"]),
    head=st.lists(st.integers(0, 3) | st.text(max_size=3), max_size=4),
    rest=st.lists(st.text(max_size=3) | VALUES | st.lists(VALUES, max_size=2), max_size=3),
)
async def test_any_request_to_an_operator_has_an_answer(
    kind: str, head: list[object], rest: list[object]
) -> None:
    backend = Backend(authenticate, 60)
    backend.operator = ScriptedOperator()
    status, _, _ = msgpack.unpackb(await backend.answer(request(kind, *head, *rest)))
    assert status in {Status.APPLIED, Status.FAILED}


def test_java_has_the_same_statuses_in_the_same_order() -> None:
    source = (SOURCES / "amqp/gateway/jmx/Status.java").read_text()
    constants = re.findall(r"^    ([A-Z_]+)[,;]$", source, re.MULTILINE)
    assert constants == [status.name for status in Status]
