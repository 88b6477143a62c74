"""A proxy answers in the place of the broker, or loses its answer: the outcome is what was seen."""

from __future__ import annotations

import asyncio
import itertools
import json
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import aio_pika
import pytest

from gateway.mapping.paths import Json
from gateway.service.processes.exit_codes import ExitCode
from tests.components.background import background
from tests.components.waiting import wait_until
from tests.hypothesis_profiles import PROVING
from tests.outcomes.manager import Manager
from tests.outcomes.scene import Scene, crowded_scene
from tests.outcomes.targets import DISTANT_ORDERS, DISTANT_SHOP, LOST, QUEUE, QUORUM, VHOST, Target, lost

pytestmark = pytest.mark.xdist_group("outcomes")

LATER_SECONDS = 21.0
"""More than the longest wait for an answer."""

SETTLED_SECONDS = 5.0
"""Time for which the statistics must show the same."""

COLLECTIONS = {"queue": "queues", "policy": "policies", "exchange": "exchanges"}


def exists(there: Scene, target: Target) -> bool:
    with there.broker.http() as http:
        path = f"{COLLECTIONS[target.class_name]}/{VHOST}/{target.names[-1]}"
        return http.get(path).status_code == 200


def wait_until_idle(there: Scene, target: Target) -> None:
    """Wait until the broker shows by what a queue differs from the next of its name: since when it is idle.

    A policy that another test sets wakes queues, too, and the statistics show that late. What is the same for
    some of their intervals, of a second each, is of after that.
    """
    path, shown, since = f"queues/{VHOST}/{target.names[-1]}", "", 0.0

    def is_settled() -> bool:
        nonlocal shown, since
        with there.broker.http() as http:
            present = http.get(path).json().get("idle_since", "")
        if present != shown:
            shown, since = present, time.monotonic()
        return bool(shown) and time.monotonic() - since > SETTLED_SECONDS

    if target.class_name == "queue":
        wait_until(is_settled, "the queue is known to be idle")


def invoked(there: Scene, target: Target, method: str) -> tuple[ExitCode, str]:
    """Call a method at the command line; return its exit code and operation id."""
    done = there.command("invoke", target.path, method, "--json")
    assert done.output, done.errors
    return done.code, json.loads(done.output)["operation_id"]


def outcome_of(there: Scene, target: Target, method: str) -> tuple[ExitCode, str, str]:
    """Call a method; return its exit code, and outcome and text in the log."""
    code, operation_id = invoked(there, target, method)
    record = there.logged(operation_id)
    return code, record["outcome"], record["text"]


def settled(there: Scene, operation_id: str) -> str:
    """Return the outcome of an operation that was proved after its deadline."""
    return str(there.logged(operation_id, state="settled")["outcome"])


def proved(there: Scene, target: Target, method: str, outcome: str) -> str:
    """Call a method whose outcome is to be proved; return its text in the log, empty if that was late.

    The deadline is 5 s; on a busy machine the broker's answers and statistics may come later.
    """
    code, operation_id = invoked(there, target, method)
    if code is ExitCode.UNKNOWN_OUTCOME:
        assert settled(there, operation_id) == outcome
        return ""
    record = there.logged(operation_id)
    expected = {"applied": ExitCode.OK, "not-applied": ExitCode.NOT_APPLIED}[outcome]
    assert (code, record["outcome"]) == (expected, outcome), record["text"]
    return str(record["text"])


@pytest.mark.parametrize(
    ("class_name", "status"),
    [("queue", "200 OK"), ("policy", "202 Accepted"), ("exchange", "204 No Content")],
)
def test_a_deletion_that_was_not_forwarded_is_not_applied(there: Scene, class_name: str, status: str) -> None:
    target = lost(class_name)[5]
    wait_until_idle(there, target)
    with there.relay.answering(status, forwarded=False):
        text = proved(there, target, "delete", "not-applied")
    assert text in {"", "it was reported as done, but the broker still lists it"}
    assert exists(there, target)


@pytest.mark.parametrize("class_name", ["queue", "exchange"])
def test_what_another_user_declared_again_at_once_is_not_what_was_to_be_deleted(
    there: Scene, class_name: str
) -> None:
    """The source has no events: nothing shows that the object was deleted."""
    target = lost(class_name)[3]
    path = f"{COLLECTIONS[class_name]}/{VHOST}/{target.names[-1]}"
    declared = {"durable": True} | ({"type": "fanout"} if class_name == "exchange" else {})
    with there.broker.http() as http:
        http.post(f"bindings/{VHOST}/e/{lost('exchange')[3].names[-1]}/q/{QUEUE}", json={}).raise_for_status()

        def declare_again() -> None:
            assert http.get(path).status_code == 404
            http.put(path, json=declared).raise_for_status()

        with there.relay.stepping_in(behind=declare_again):
            code, outcome, text = outcome_of(there, target, "delete")
    assert (code, outcome) == (ExitCode.UNKNOWN_OUTCOME, "unknown"), text
    assert text.endswith("the broker lists one of its name")
    assert exists(there, target)


@pytest.mark.prove
def test_the_counts_of_the_broker_show_in_the_end_that_a_queue_is_the_same(there: Scene) -> None:
    """A quorum queue does not show since when it is idle. A broker that has just started counts nothing."""
    target = QUORUM
    with there.broker.http() as http:
        wait_until(lambda: "queue_deleted" in http.get("overview").json()["churn_rates"], "it counts")
    with there.relay.answering("204 No Content", forwarded=False):
        code, operation_id = invoked(there, target, "delete")
        assert code is ExitCode.UNKNOWN_OUTCOME
        assert settled(there, operation_id) == "not-applied"
    assert exists(there, target)


def test_nor_is_it_by_snmp(there: Scene, manager: Manager) -> None:
    target = lost("queue")[5]
    wait_until_idle(there, target)
    with there.relay.answering("204 No Content", forwarded=False):
        called = manager.call("delete-lost", manager.row_of(target), "delete")
        if called["agCommandOutcome"] == "unknown(14)":  # the broker's answers came too late for a proof
            assert settled(there, called["agCommandOperationId"]) == "not-applied"
        else:
            assert called["agCommandOutcome"] == "notApplied(3)"
    assert exists(there, target)


@pytest.mark.parametrize(
    ("class_name", "number", "status"),
    [
        ("queue", 0, "503 Service Unavailable"),
        pytest.param("queue", 1, "408 Request Timeout", marks=pytest.mark.prove),
        ("queue", 2, ""),
        ("policy", 3, "502 Bad Gateway"),
        pytest.param("exchange", 4, "504 Gateway Timeout", marks=pytest.mark.prove),
    ],
)
def test_a_deletion_whose_answer_is_lost_is_applied(
    there: Scene, class_name: str, number: int, status: str
) -> None:
    target = lost(class_name)[number]
    with there.relay.answering(status, forwarded=True):
        text = proved(there, target, "delete", "applied")
    assert not text or text.startswith("it is gone; before: no answer of the broker")
    assert not exists(there, target)


@pytest.fixture(scope="module")
def informed(there: Scene, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """Provide another gateway behind a relay of its own, which receives the broker's events."""
    folder = tmp_path_factory.mktemp("informed")
    with crowded_scene(there, folder, max_running=4, has_events=True) as running:
        yield running


@pytest.fixture
def known_queue(informed: Scene) -> Iterator[Target]:
    """Provide a queue that it knows."""
    target = Target("queue", (VHOST, f"{LOST}known_queue"))
    with informed.broker.http() as http:
        http.put(f"queues/{VHOST}/{target.names[-1]}", json={"durable": True}).raise_for_status()
        wait_until(lambda: informed.shown(target.path), "the queue is shown")
        yield target
        http.delete(f"queues/{VHOST}/{target.names[-1]}")
    wait_until(lambda: not informed.shown(target.path), "it has ended")


@pytest.mark.parametrize(
    "status",
    [
        "500 Internal Server Error",
        pytest.param("", marks=pytest.mark.prove),
        pytest.param("408 Request Timeout", marks=pytest.mark.prove),
        pytest.param("504 Gateway Timeout", marks=pytest.mark.prove),
    ],
)
def test_an_event_shows_that_a_deletion_whose_answer_is_lost_is_applied(
    informed: Scene, known_queue: Target, status: str
) -> None:
    with informed.relay.answering(status, forwarded=True):
        code, outcome, text = outcome_of(informed, known_queue, "delete")
    assert (code, outcome) == (ExitCode.OK, "applied"), text
    assert text.startswith("it is gone; before: no answer of the broker")
    ended = informed.ask_log(
        "SELECT inferred FROM log WHERE kind = 'delete' AND object_name = $name",
        name="|".join(known_queue.names),
    )
    assert [row["inferred"] for row in ended][-1] is not True


def test_a_deletion_that_was_answered_500_and_not_forwarded_is_not_applied(
    informed: Scene, known_queue: Target
) -> None:
    with informed.relay.answering("500 Internal Server Error", forwarded=False):
        code, operation_id = invoked(informed, known_queue, "delete")
    assert code is ExitCode.UNKNOWN_OUTCOME
    assert exists(informed, known_queue)
    if PROVING:  # half a minute later
        assert settled(informed, operation_id) == "not-applied"


@pytest.mark.long
def test_a_deletion_that_is_answered_after_the_longest_wait_is_applied(
    informed: Scene, known_queue: Target
) -> None:
    """The answer is awaited for 20 s; the event has come long before."""
    with informed.relay.stepping_in(behind=lambda: threading.Event().wait(LATER_SECONDS)):
        code, outcome, text = outcome_of(informed, known_queue, "delete")
    assert (code, outcome) == (ExitCode.OK, "applied"), text


@pytest.mark.prove
def test_what_another_user_deleted_at_that_moment_is_not_called_ours(
    informed: Scene, known_queue: Target
) -> None:
    """The gateway's deletion finds nothing, and its answer is lost: the event names the other user.

    For 35 s one that names the gateway's is awaited.
    """

    def delete() -> None:
        with informed.broker.http() as http:
            http.delete(f"queues/{VHOST}/{known_queue.names[-1]}").raise_for_status()

    with (
        informed.relay.answering("500 Internal Server Error", forwarded=True),
        informed.relay.stepping_in(before=delete),
    ):
        code, operation_id = invoked(informed, known_queue, "delete")
    assert code is ExitCode.UNKNOWN_OUTCOME
    assert settled(informed, operation_id) == "object-gone"


def test_a_purge_whose_answer_is_lost_is_applied(there: Scene) -> None:
    there.fill(3)
    with there.relay.answering("", forwarded=True):
        proved(there, DISTANT_ORDERS, "purge", "applied")
    assert there.depth() == 0


@asynccontextmanager
async def traffic(there: Scene) -> AsyncIterator[None]:
    """Publish 5,000 messages, and then about 1,000 a second."""
    connection = await aio_pika.connect(there.broker.amqp_url(vhost=VHOST))

    async def publish() -> None:
        for number in itertools.count():
            await exchange.publish(aio_pika.Message(b"x"), QUEUE)
            if number % 100 == 0 and number > 5_000:
                await asyncio.sleep(0.1)

    async with connection, connection.channel(publisher_confirms=False) as channel:
        exchange = channel.default_exchange
        publishing = asyncio.create_task(publish())
        yield
        publishing.cancel()
        await asyncio.wait({publishing})


@pytest.mark.parametrize(
    "status", ["204 No Content", pytest.param("502 Bad Gateway", marks=pytest.mark.prove)]
)
def test_a_purge_of_a_queue_with_much_traffic_is_proved(there: Scene, status: str) -> None:
    with background(lambda: traffic(there)), there.relay.answering(status, forwarded=True):
        wait_until(lambda: there.depth() > 5_000, "the queue is full")
        code, outcome, text = outcome_of(there, DISTANT_ORDERS, "purge")
        assert (code, outcome) == (ExitCode.OK, "applied"), text
    there.fill(0)


def measured(there: Scene) -> int:
    """Return the number of messages in the queue by its figures, which the broker renews every 5 s."""
    with there.broker.http() as http:
        return int(http.get(f"queues/{VHOST}/{QUEUE}").raise_for_status().json().get("messages_ready", 0))


@pytest.mark.prove
@pytest.mark.parametrize("is_measured", [True, False])
def test_a_purge_that_was_not_forwarded_is_not_applied(there: Scene, *, is_measured: bool) -> None:
    """The figures of before the purge have the messages where they were measured since these came."""
    there.fill(3)
    if is_measured:
        wait_until(lambda: measured(there) == 3, "the messages are measured")
    with there.relay.answering("204 No Content", forwarded=False):
        code, operation_id = invoked(there, DISTANT_ORDERS, "purge")
        assert code is ExitCode.UNKNOWN_OUTCOME
        if is_measured:
            assert settled(there, operation_id) == "not-applied"
    assert there.depth() == 3
    there.fill(0)


@pytest.mark.parametrize("found", [{}, {"name": "shop", "tracing": False, "default_queue_type": "classic"}])
def test_nothing_is_written_back_from_a_poor_reading(there: Scene, found: Json) -> None:
    with there.relay.showing(f"vhosts/{VHOST}", found):
        done = there.command("set", DISTANT_SHOP.path, "tracing=true")
    assert done.code is ExitCode.REMOTE_FAILURE
    assert "nothing was sent: the management API" in done.errors + done.output
    with there.broker.http() as http:
        shown = http.get(f"vhosts/{VHOST}").json()
    assert (shown["description"], shown["tags"], shown["tracing"]) == ("sells", ["live", "old"], False)
