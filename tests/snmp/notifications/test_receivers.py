"""Real sockets and receivers of other implementations: net-snmp's snmptrapd and pysnmp."""

from __future__ import annotations

import asyncio
import contextlib
import json
import queue
import random
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path
from typing import IO

import pytest

from gateway.clock import SystemClock
from gateway.model.observations import Severity
from gateway.service.processes.notifications import outside
from gateway.snmp import ber
from gateway.snmp.cells import text
from gateway.snmp.fixed_mib import (
    NOTIFICATION_OBJECTS,
    NOTIFICATIONS,
    NotificationObject,
    OwnNotification,
)
from gateway.snmp.notifications.names import Lookup, LookupTimes, NameChange, look_up
from gateway.snmp.notifications.receiver import Target
from gateway.snmp.notifications.sender import NotificationSender, SenderSettings
from gateway.snmp.notifications.sockets import NotificationSockets, keep_sending
from tests.components.ports import free_udp_port
from tests.components.waiting import DEADLINE, eventually, wait_until
from tests.snmp.datagrams import varbind
from tests.snmp.notifications.snmptrapd import Snmptrapd, snmptrapd
from tests.snmp.notifications.story import (
    GATEWAY,
    INFORM,
    ROOT,
    TRAP,
    TRAP_V1,
    answer_to,
    event,
    raised,
    read,
    target,
)
from tests.snmp.notifications.udp_receiver import udp_receiver

pytestmark = pytest.mark.xdist_group("receivers of notifications")

COMMUNITY = "receivers"
SNMP_TRAP_ADDRESS = "1.3.6.1.6.3.18.1.3.0"
"""The varbind with the agent-addr of a translated version 1 trap (RFC 3584 section 3.1)."""

SOURCE_DOWN = (*ROOT, *NOTIFICATIONS, OwnNotification.SOURCE_DOWN)
SOURCE_STATE = (*ROOT, *NOTIFICATION_OBJECTS, NotificationObject.SOURCE_STATE, 0)
SOURCE_DETAIL = (*ROOT, *NOTIFICATION_OBJECTS, NotificationObject.SOURCE_DETAIL, 0)


def at(port: int, name: str, host: str = "127.0.0.1") -> Target:
    kinds = {"v1": TRAP_V1, "trap": TRAP, "inform": INFORM}
    return target(name, (host, port), kind=kinds[name], community=COMMUNITY.encode(), rate=100_000)


@contextlib.asynccontextmanager
async def sending(
    targets: Sequence[Target],
    refusals: list[object] | None = None,
    named: Callable[[NameChange], None] = lambda _change: None,
    lookup: Lookup = look_up,
    times: LookupTimes | None = None,
) -> AsyncIterator[NotificationSender]:
    """Run a sender with real sockets in the running loop; what they refuse is put into ``refusals``."""
    failures: list[object] = []
    refused = failures if refusals is None else refusals
    sockets = NotificationSockets(
        {each.address for each in targets},
        lambda *refusal: refused.append(refusal),
        failures.append,
        named,
        lookup=lookup,
        times=times,
    )
    wake = asyncio.Event()
    world = outside(
        sockets,
        SystemClock(),
        up_time=lambda: time.monotonic_ns() // 10**7,
        wake=wake.set,
        failed=failures.append,
    )
    settings = SenderSettings(ROOT, (*ROOT, 1), GATEWAY, 1, "", tuple(targets))
    sender = NotificationSender(settings, world)
    sockets.open(sender)
    task = asyncio.create_task(keep_sending(sender, wake))
    try:
        yield sender
        assert failures == []
    finally:
        task.cancel()
        sockets.close()
        await asyncio.gather(task, return_exceptions=True)


async def acknowledged(sender: NotificationSender, name: str, count: int) -> None:
    async def enough() -> bool:
        return sender.health[name].acknowledged >= count

    await eventually(enough, f"{count} informs are acknowledged by {name}")


# ---- snmptrapd ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def trapd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Snmptrapd]:
    with snmptrapd(tmp_path_factory.mktemp("trapd"), COMMUNITY) as daemon:
        yield daemon


SOURCE_IS_DOWN = event(
    1,
    oid=SOURCE_DOWN,
    name="gateway:sourceDown",
    severity=Severity.MAJOR,
    object_name="",
    class_name="",
    text="orders: nothing answers \u2013 is the broker running?",
    condition="sourceDown",
    arguments=(
        varbind(SOURCE_STATE, ber.encode_integer(6)),
        varbind(SOURCE_DETAIL, text("connection refused")),
    ),
)


async def test_snmptrapd_prints_traps_and_informs_of_each_version_by_name(trapd: Snmptrapd) -> None:
    before = len(trapd.printed())
    async with sending([at(trapd.port, kind) for kind in ("v1", "trap", "inform")]) as sender:
        sender.notify(SOURCE_IS_DOWN)
        await acknowledged(sender, "inform", 1)
        printed = (await asyncio.to_thread(trapd.until, before + 3))[before:]

    v1 = [each for each in printed if "SNMP v1" in each.head]
    v2c = [each for each in printed if "SNMP v1" not in each.head]
    assert len(v1) == 1
    assert "AMQP-GATEWAY-MIB::agMIB Enterprise Specific Trap (AMQP-GATEWAY-MIB::agSourceDown)" in v1[0].head
    assert "127.0.0.1" in v1[0].head
    assert [each.values["snmpTrapOID.0"] for each in v2c] == ["OID: AMQP-GATEWAY-MIB::agSourceDown"] * 2
    for each in printed:
        assert each.values["agEventId.0"] == f"STRING: {GATEWAY}.1.1"
        assert each.values["agEventSeverity.0"] == "INTEGER: major(4)"
        assert each.values["agEventTime.0"] == "STRING: 2023-11-14,22:13:20.0,+0:0"
        assert each.values["agEventText.0"] == "STRING: orders: nothing answers \u2013 is the broker running?"
        assert each.values["agEventSourceState.0"] == "INTEGER: down(6)"
        assert each.values["agEventSourceDetail.0"] == "STRING: connection refused"


async def test_snmptrapd_knows_the_standard_notifications(trapd: Snmptrapd) -> None:
    before = len(trapd.printed())
    async with sending([at(trapd.port, kind) for kind in ("v1", "trap")]) as sender:
        sender.start()
        sender.wrong_community("192.0.2.66")
        printed = (await asyncio.to_thread(trapd.until, before + 4))[before:]

    heads = " ".join(each.head for each in printed)
    assert "AMQP-GATEWAY-MIB::agMIB Cold Start Trap" in heads
    assert "AMQP-GATEWAY-MIB::agMIB Authentication Failure Trap" in heads
    oids = {each.values["snmpTrapOID.0"] for each in printed if "snmpTrapOID.0" in each.values}
    assert oids == {"OID: SNMPv2-MIB::coldStart", "OID: SNMPv2-MIB::authenticationFailure"}


async def test_an_inform_arrives_when_a_receiver_that_was_down_comes_back(tmp_path: Path) -> None:
    port = free_udp_port()
    async with sending([at(port, "inform")]) as sender:
        sender.notify(raised(1, "c"))

        async def was_tried() -> bool:
            return sender.health["inform"].sent == 1

        await eventually(was_tried, "the inform was sent to nobody")
        with contextlib.ExitStack() as stack:
            receiver = snmptrapd(tmp_path, COMMUNITY, port)
            daemon = await asyncio.to_thread(stack.enter_context, receiver)
            await acknowledged(sender, "inform", 1)
            (printed,) = daemon.printed()
    assert printed.values["agEventId.0"] == f"STRING: {GATEWAY}.1.1"


# ---- pysnmp -------------------------------------------------------------------------------------------


class PysnmpReceiver:
    """pysnmp in a process of its own; ``lines`` is its output."""

    def __init__(self, port: int, lines: IO[str]) -> None:
        self.port = port
        self._printed: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._reading = threading.Thread(target=self._read, args=(lines,), daemon=True)
        self._reading.start()

    def next(self) -> list[tuple[str, str, str]]:
        """Return the varbinds of the next notification: name, type, value."""
        reported = json.loads(self._printed.get(timeout=DEADLINE))
        return [(name, kind, value) for name, kind, value in reported]

    def _read(self, lines: IO[str]) -> None:
        for line in lines:
            self._printed.put(line)


def is_bound(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return True
    return False


@pytest.fixture(scope="module")
def pysnmp() -> Iterator[PysnmpReceiver]:
    port = free_udp_port()
    program = Path(__file__).with_name("pysnmp_receiver.py")
    with subprocess.Popen(  # noqa: S603
        [sys.executable, "-W", "ignore", program, str(port), COMMUNITY], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        # It binds some time after it was told to: what is sent before is lost.
        wait_until(lambda: is_bound(port), "pysnmp listens")
        yield PysnmpReceiver(port, process.stdout)
        process.kill()


@pytest.mark.parametrize("kind", ["v1", "trap", "inform"])
async def test_pysnmp_reads_the_same_in_each_version(pysnmp: PysnmpReceiver, kind: str) -> None:
    async with sending([at(pysnmp.port, kind)]) as sender:
        sender.notify(SOURCE_IS_DOWN)
        varbinds = await asyncio.to_thread(pysnmp.next)
        if kind == "inform":
            await acknowledged(sender, kind, 1)

    (up_time, up_time_type, _), (trap_oid, _, oid), *objects = varbinds
    assert (up_time, up_time_type) == ("1.3.6.1.2.1.1.3.0", "TimeTicks")
    assert (trap_oid, oid) == ("1.3.6.1.6.3.1.1.4.1.0", ".".join(map(str, SOURCE_DOWN)))
    base = ".".join(map(str, (*ROOT, *NOTIFICATION_OBJECTS))) + "."
    values = {name.removeprefix(base): value for name, _, value in objects if name.startswith(base)}
    assert list(values) == [f"{number}.0" for number in range(1, 13)]
    assert values["1.0"] == f"{GATEWAY}.1.1"
    assert values["2.0"] == "4"
    assert values["4.0"] == "orders"
    assert values["11.0"] == "6"
    others = {name: value for name, _, value in objects if not name.startswith(base)}
    assert others.get(SNMP_TRAP_ADDRESS) == ("127.0.0.1" if kind == "v1" else None)


@pytest.mark.parametrize("kind", ["v1", "trap"])
async def test_pysnmp_knows_a_cold_start(pysnmp: PysnmpReceiver, kind: str) -> None:
    async with sending([at(pysnmp.port, kind)]) as sender:
        sender.start()
        varbinds = await asyncio.to_thread(pysnmp.next)
    values = {name: value for name, _, value in varbinds}
    assert values["1.3.6.1.6.3.1.1.4.1.0"] == "1.3.6.1.6.3.1.1.5.1"
    assert values["1.3.6.1.6.3.1.1.4.3.0"] == ".".join(map(str, (*ROOT, 1)))


# ---- sockets ------------------------------------------------------------------------------------------


async def test_all_informs_arrive_over_ipv6_though_some_answers_are_lost() -> None:
    loop = asyncio.get_running_loop()
    dice = random.Random(1)  # noqa: S311  which answers are lost
    arrived: Counter[int] = Counter()

    def receive(bound: socket.socket) -> None:
        datagram, sender = bound.recvfrom(65_536)
        arrived[read(datagram).number] += 1
        if dice.random() > 0.02:
            bound.sendto(answer_to(datagram), sender)

    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as bound:
        bound.bind(("::1", 0))
        loop.add_reader(bound, receive, bound)
        async with sending([at(bound.getsockname()[1], "inform", "::1")]) as sender:
            for number in range(1, 1001):
                sender.notify(event(number))
            await acknowledged(sender, "inform", 1000)
        loop.remove_reader(bound)
    assert set(arrived) == set(range(1, 1001))
    assert max(arrived.values()) > 1


async def test_an_answer_from_another_port_is_dropped() -> None:
    with udp_receiver() as receiver, udp_receiver() as stranger:
        host, port = receiver.address.split(":")
        async with sending([at(int(port), "inform", host)]) as sender:
            sender.notify(event())
            datagram, came_from = await asyncio.to_thread(receiver.socket.recvfrom, 65_536)
            stranger.socket.sendto(answer_to(datagram), came_from)
            receiver.socket.sendto(b"no answer", came_from)
            receiver.socket.sendto(answer_to(datagram), came_from)
            await acknowledged(sender, "inform", 1)
            receiver.socket.sendto(answer_to(datagram), came_from)
    assert sender.health["inform"].acknowledged == 1
