"""Each outcome that a RabbitMQ can lead to is provoked there; every way north and the log agree on it."""

from __future__ import annotations

import itertools
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from gateway.service.exit_codes import ExitCode
from tests.components.waiting import wait_until
from tests.outcomes.attempts import Attempts, Told
from tests.outcomes.manager import Manager
from tests.outcomes.scene import SOURCE, VHOST, WRITER, Scene

COMMIT_FAILED = "commitFailed"

pytestmark = pytest.mark.xdist_group("outcomes")


@pytest.fixture
def attempts(there: Scene, manager: Manager, java: Any) -> Attempts:  # noqa: ANN401  lives in Java
    """By the operator."""
    return Attempts(there, manager, java)


@contextmanager
def standing_still(there: Scene) -> Iterator[None]:
    """The broker does nothing, and holds its connections, until the block ends."""
    process = there.broker.node_process()
    assert process is not None
    os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(process, signal.SIGCONT)


@contextmanager
def without_rights(there: Scene) -> Iterator[None]:
    """The writing account is no administrator until the block ends."""
    there.broker.rabbitmqctl("set_user_tags", WRITER)
    try:
        yield
    finally:
        there.broker.rabbitmqctl("set_user_tags", WRITER, "administrator")


def test_applied(attempts: Attempts, there: Scene) -> None:
    assert attempts.set("maxConnections", 50) == Told(ExitCode.OK, "", (), ("applied",) * 3)
    assert attempts.set("maxConnections", -1).logged == ("applied",) * 3
    assert there.limits() == {}


def test_what_is_written_back_as_it_was_read_changes_nothing(attempts: Attempts, there: Scene) -> None:
    attempts.set("maxConnections", 51)
    with without_rights(there):  # so that a request to change anything would fail
        again = attempts.set("maxConnections", 51)
    assert again == Told(ExitCode.OK, "", (), ("applied",) * 3)
    attempts.set("maxConnections", -1)


def test_refused_by_the_configuration(attempts: Attempts, there: Scene) -> None:
    there.fill(1)
    told = attempts.invoke("delete", False, False)
    assert told == Told(ExitCode.REFUSED, "refused", ("SecurityException",), ("refused",) * 3)
    assert there.depth() == 1
    attempts.invoke("purge")


def test_wrong_value(attempts: Attempts) -> None:
    told = attempts.set("maxConnections", -2, logged=0)
    assert told.code is ExitCode.WRONG_VALUE
    assert told.status.startswith("wrongValue")
    assert told.exceptions == ("InvalidAttributeValueException",)


def test_rights_that_were_revoked(attempts: Attempts, there: Scene) -> None:
    with without_rights(there):
        told = attempts.set("maxConnections", 52)
    assert told.code is ExitCode.REMOTE_FAILURE
    assert told.exceptions[0] == "MBeanException"
    assert told.status == COMMIT_FAILED
    assert told.logged == ("remote-failure",) * 3
    assert there.limits() == {}


def test_a_broker_that_stands_still(attempts: Attempts, there: Scene) -> None:
    there.fill(2)
    with standing_still(there):
        told = attempts.invoke("purge")
    assert told.code is ExitCode.UNKNOWN_OUTCOME
    assert told.exceptions[0] == "MBeanException"
    assert told.status == "unknown"
    assert told.logged == ("unknown",) * 3
    wait_until(lambda: there.depth() in {0, 2}, "the broker answers again")
    attempts.invoke("purge")


def test_a_value_that_somebody_else_changes_at_the_same_time(attempts: Attempts, there: Scene) -> None:
    ended = threading.Event()

    def change() -> None:
        with there.broker.http() as http:
            for number in itertools.cycle((900, 901)):
                if ended.is_set():
                    return
                http.put(f"vhost-limits/{VHOST}/max-connections", json={"value": number})

    changing = threading.Thread(target=change)
    changing.start()
    try:
        told = attempts.set("maxConnections", 53)
    finally:
        ended.set()
        changing.join()
    assert told.code is ExitCode.NOT_APPLIED
    assert told.status == COMMIT_FAILED
    assert told.exceptions == ("InvalidAttributeValueException",)
    assert set(told.logged) <= {"applied-differently", "not-applied"}
    attempts.set("maxConnections", -1)


def test_an_object_that_was_deleted(there: Scene, java: Any) -> None:  # noqa: ANN401  lives in Java
    name = f"amqp.gateway:source={SOURCE},package=rabbitmq,type=queue,parent={VHOST},name=gone"
    with there.broker.http() as http:
        http.put(f"queues/{VHOST}/gone", json={"durable": True}).raise_for_status()
        wait_until(lambda: java.names(name), "the queue is shown")
        http.delete(f"queues/{VHOST}/gone").raise_for_status()
        # Whether the gateway has heard of it or not: who asks is told the same.
        assert "InstanceNotFoundException" in java.tryInvokeWith(name, "purge", [])
    assert there.command("invoke", f"{SOURCE}/queue/{VHOST}|gone", "purge").code is ExitCode.NOT_FOUND


def test_a_broker_that_is_down(attempts: Attempts, there: Scene) -> None:
    there.broker.stop_node()
    try:
        wait_until(lambda: "down" in there.command("source", "ls").output, "the source is down")
        told = attempts.set("maxConnections", 54, logged=2)  # the SET fails in its test phase
    finally:
        there.broker.start()
    assert told.code is ExitCode.SOURCE_DOWN
    assert told.status.startswith("resourceUnavailable")
    assert told.exceptions[0] == "MBeanException"
    assert set(told.logged) == {"source-down"}
    wait_until(lambda: "synchronised" in there.command("source", "ls").output, "the source is back")
