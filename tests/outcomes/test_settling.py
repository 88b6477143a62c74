"""The outcome of an operation is unknown until the broker is resumed; then all front ends agree on it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

from gateway.service.processes.exit_codes import ExitCode
from tests.components.operated_gateway import OPERATOR
from tests.components.waiting import wait_until
from tests.outcomes.attempts import Attempts, JavaClient, Reported, classes
from tests.outcomes.faults import go_on, standing_still_at_the_change
from tests.outcomes.manager import Manager
from tests.outcomes.scene import Scene
from tests.outcomes.targets import DISTANT_ORDERS, DISTANT_SHOP

pytestmark = pytest.mark.xdist_group("outcomes")

UNKNOWN = ("MBeanException", "TimeoutException")
GATEWAY = "amqp.gateway:type=Gateway"
OUTCOMES = {"applied": "applied(1)", "remote-failure": "remoteFailure(12)"}


class Listener:
    """A Java client that receives notifications of operations."""

    def __init__(self, client: JavaClient) -> None:
        self._client = client
        self._received: list[str] = []
        for kind in ("set", "invoke"):
            client.listenFor(GATEWAY, f"amqp.gateway.operation.{kind}")

    def settled(self, operation_id: str) -> str:
        """Return the only notification that an operation was settled, as soon as it arrives."""
        found: list[str] = []

        def is_received() -> bool:
            self._received.append(self._client.received(100))
            of_it = (text for text in self._received if operation_id in text)
            found[:] = [text for text in of_it if "state=java.lang.String settled" in text]
            return bool(found)

        wait_until(is_received, "a notification that it was settled")
        (notice,) = found
        return notice


@pytest.fixture
def listener(there: Scene, java_client: JavaClient) -> Iterator[Listener]:
    """Provide a listener of the operator."""
    client = java_client.connect(there.jmx_port, OPERATOR, there.site.state.secret(f"jmx-{OPERATOR}"))
    yield Listener(client)
    client.close()


def assert_settled_everywhere(
    there: Scene, manager: Manager, listener: Listener, operation_id: str, outcome: str
) -> None:
    """Check that each front end shows an operation as settled with that outcome."""
    assert f"outcome=java.lang.String {outcome}" in listener.settled(operation_id)
    row = manager.operation(operation_id)
    assert (row["agOperationState"], row["agOperationOutcome"]) == ("settled(3)", OUTCOMES[outcome])
    (meaning,) = json.loads(there.command("explain", operation_id, "--json").output)["meanings"]
    assert (meaning["state"], meaning["outcome"]) == ("settled", outcome)
    assert there.logged(operation_id, state="settled")["outcome"] == outcome


def test_a_purge_during_a_standstill(
    attempts: Attempts,
    there: Scene,
    manager: Manager,
    java: JavaClient,
    listener: Listener,
) -> None:
    there.fill(2)
    mark, row = attempts.mark(), manager.row_of(DISTANT_ORDERS)
    with standing_still_at_the_change(there), ThreadPoolExecutor() as threads:
        # In this order, so that it is known whose purge the broker has. All wait for their outcomes together,
        # at a source that is looked at seldom: the other one would be called down meanwhile.
        called = threads.submit(manager.call, "purge-still", row, "purge")
        attempts.records(mark, 1, "begun")
        done = threads.submit(there.command, "invoke", DISTANT_ORDERS.path, "purge", "--timeout", "1s")
        failure = threads.submit(java.tryInvokeWith, DISTANT_ORDERS.object_name, "purge", [])
        reported = Reported(
            done.result().code,
            called.result()["agCommandOutcome"],
            classes(failure.result()),
            attempts.outcomes(mark, 3),
        )
        assert reported == Reported(ExitCode.UNKNOWN_OUTCOME, "unknown(14)", UNKNOWN, ("unknown",) * 3)
    settled = {record["operation_id"]: record for record in attempts.records(mark, 3, "settled")}
    first = called.result()["agCommandOperationId"]
    assert settled[first]["outcome"] == "applied", settled
    assert there.depth() == 0
    for operation_id, record in settled.items():
        if operation_id != first:
            assert record["text"].startswith("answered late: not carried out")
        assert_settled_everywhere(
            there, manager, listener, operation_id, "applied" if operation_id == first else "remote-failure"
        )
    wait_until(
        lambda: manager.command("purge-still")["agCommandOutcome"] == "applied(1)", "the command says so"
    )
    there.well_again()


def test_a_limit_whose_change_the_broker_had_when_it_stood_still(
    attempts: Attempts,
    there: Scene,
    manager: Manager,
    listener: Listener,
) -> None:
    begin = attempts.mark()
    settled: list[dict[str, Any]] = []

    @contextmanager
    def stopped() -> Iterator[None]:
        """Resume the broker after each attempt, and remove the limit for the next one."""
        with standing_still_at_the_change(there):
            yield
            go_on(there)
            settled[:] = attempts.records(begin, len(settled) + 1, "settled")
        assert there.limits() == {"max-connections": 54}
        there.limit_behind_its_back(None)

    reported = attempts.set("maxConnections", 54, of=DISTANT_SHOP, around=stopped)
    assert reported == Reported(ExitCode.UNKNOWN_OUTCOME, "undoFailed", UNKNOWN, ("unknown",) * 3)
    for record in settled:
        assert record["found"] == '{"maxConnections":54}'
        assert_settled_everywhere(there, manager, listener, record["operation_id"], "applied")
    there.well_again()
