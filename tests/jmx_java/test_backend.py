"""What Python answers to the virtual machine, and that nothing else crosses."""

from __future__ import annotations

import re

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from gateway.jmx.backend import Backend, Status, encode_answer
from gateway.jmx.java_build import SOURCES
from tests.jmx_java.conftest import PASSWORD, USER, authenticate


def request(*fields: object) -> bytes:
    octets: bytes = msgpack.packb(fields)
    return octets


@pytest.mark.parametrize(
    ("user", "password", "status"),
    [(USER, PASSWORD, Status.APPLIED), (USER, "wrong", Status.REFUSED), ("other", PASSWORD, Status.REFUSED)],
)
async def test_a_login_is_decided_by_who_made_the_machine(user: str, password: str, status: Status) -> None:
    answer = await Backend(authenticate).answer(request("authenticate", user, password, "192.0.2.1"))
    assert answer == encode_answer(status)


@given(
    st.binary(max_size=20)
    | st.lists(st.text(max_size=5) | st.integers(0, 9) | st.just("authenticate"), max_size=5).map(
        lambda fields: request(*fields)
    )
)
async def test_any_octets_have_an_answer(octets: bytes) -> None:
    status, _ = msgpack.unpackb(await Backend(authenticate).answer(octets))
    assert status in {Status.FAILED, Status.REFUSED}


async def test_a_request_that_is_too_large_is_not_read() -> None:
    octets = request("authenticate", USER, "x" * 70_000, "")
    assert await Backend(authenticate).answer(octets) == encode_answer(Status.FAILED, "no such request")


async def test_many_wrong_passwords_make_a_bounded_log() -> None:
    backend = Backend(authenticate)
    with capture_logs() as logs:
        for _ in range(1000):
            await backend.answer(request("authenticate", USER, "guess", "192.0.2.1"))
    assert len(logs) == 20


def test_java_has_the_same_statuses_in_the_same_order() -> None:
    source = (SOURCES / "amqp/gateway/jmx/Status.java").read_text()
    constants = re.findall(r"^    ([A-Z_]+)[,;]$", source, re.MULTILINE)
    assert constants == [status.name for status in Status]
