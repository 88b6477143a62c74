"""Notifications of the whole gateway, over restarts and kills of its processes."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from gateway.file_owners import user_name
from gateway.service.processes.exit_codes import ExitCode
from gateway.service.processes.notifications import FILE, load
from gateway.snmp import message
from gateway.snmp.fixed_mib import (
    NOTIFICATIONS,
    TARGET_ENTRY,
    NotificationObject,
    OwnNotification,
    TargetColumn,
)
from gateway.snmp.notifications.notification import AUTHENTICATION_FAILURE, COLD_START, WARM_START
from gateway.snmp.notifications.saved import VERSION, SavedInform, SavedNotifications, SavedTarget, to_text
from gateway.state_folder import StateError
from tests.components.command_line import RunningCommand, Site, amqp_gateway, new_site, running
from tests.components.waiting import wait_until
from tests.service.processes.test_core import processes_of
from tests.snmp.datagrams import read_answer, request
from tests.snmp.net_snmp import exchange
from tests.snmp.notifications.snmptrapd import snmptrapd
from tests.snmp.notifications.story import ROOT, Received
from tests.snmp.notifications.udp_receiver import UdpReceiver, udp_receiver

SOURCE_DOWN = (*ROOT, *NOTIFICATIONS, OwnNotification.SOURCE_DOWN)


@pytest.fixture
def receiver() -> Iterator[UdpReceiver]:
    with udp_receiver() as receiver:
        yield receiver


def site_with(folder: Path, receiver: UdpReceiver, **settings: Any) -> Site:  # noqa: ANN401  as YAML has them
    """A gateway whose only source cannot be reached, with one receiver."""
    site = new_site(folder)
    unreachable = {
        "kind": "rabbitmq",
        "management": "http://127.0.0.1:1",
        "user": "nobody",
        "password": site.secret("none"),
    }
    snmp = {
        "listen": [f"127.0.0.1:{site.snmp_port}"],
        "notifications": {"nms": {"address": receiver.address, **settings}},
    }
    site.configure(snmp=snmp, sources={"orders": unreachable})
    return site


def is_notification(*oids: tuple[int, ...]) -> Any:  # noqa: ANN401  a condition of `UdpReceiver.until`
    return lambda received: received.oid in oids


def kill(gateway: RunningCommand, name: str) -> None:
    """Kill one process, and wait until the supervisor has another."""
    supervisor = psutil.Process(gateway.process.pid)

    def running_one() -> int | None:
        with contextlib.suppress(psutil.Error):  # one that is just ending has no command line any more
            return processes_of(supervisor).get(name)
        return None

    former = running_one()
    assert former is not None
    os.kill(former, signal.SIGKILL)
    wait_until(lambda: running_one() not in (former, None), f"another process {name}")


def saved(site: Site) -> SavedNotifications:
    return load(site.folder / "state" / FILE) or SavedNotifications()


def shown(site: Site, column: TargetColumn) -> int:
    """A number of the receiver in agTargetTable."""
    oid = (*ROOT, *TARGET_ENTRY, column, *b"nms")
    community = site.state.secret("community").encode()
    answer = read_answer(exchange(site.snmp_port, request(message.GET, [oid], community=community)))
    ((_, value),) = answer.varbinds
    return int.from_bytes(value[2:], "big")


def event_ids(received: list[Received], oid: tuple[int, ...]) -> list[str]:
    return [each.event_id for each in received if each.oid == oid]


def test_an_event_of_the_core_is_a_trap_and_is_not_repeated_whatever_is_killed(
    tmp_path: Path, receiver: UdpReceiver
) -> None:
    """A wrong community is one, too, because it is not configured otherwise."""
    site = site_with(tmp_path, receiver)
    with running("run", "--config", site.configuration, log=tmp_path / "log") as gateway:
        gateway.ready()
        first = receiver.until(is_notification(SOURCE_DOWN), "the source is down")
        assert first.content(NotificationObject.SOURCE) == b"orders"
        assert first.event_id.startswith(f"{site.state.identity}.1.")
        wait_until(lambda: saved(site).number == first.number, "it is known to be handled")
        with pytest.raises(TimeoutError):
            exchange(site.snmp_port, request(message.GET, [(1, 3)], community=b"guess"), seconds=0.2)
        guessed = receiver.until(is_notification(AUTHENTICATION_FAILURE), "somebody guesses")
        assert b"127.0.0.1" in guessed.content(NotificationObject.TEXT)

        kill(gateway, "snmp")
        receiver.until(is_notification(WARM_START), "the agent is back")
        kill(gateway, "core")
        wait_until(lambda: '"epoch": 2' in (tmp_path / "log").read_text(), "a new core serves its feed")
        kill(gateway, "snmp")
        again = receiver.until(is_notification(COLD_START), "the agent is back, of another boot")
        assert again.event_id.startswith(f"{site.state.identity}.2.")
        ended = gateway.terminate()

    assert ended.code is ExitCode.OK
    assert site.state.secret("community") not in ended.errors
    assert receiver.received[0].oid == COLD_START
    assert event_ids(receiver.drain(), SOURCE_DOWN) == [first.event_id]


def test_informs_that_were_not_answered_are_sent_by_the_next_process(
    tmp_path: Path, receiver: UdpReceiver
) -> None:
    site = site_with(tmp_path, receiver, kind="inform")
    with running("run", "--config", site.configuration, log=tmp_path / "log") as gateway:
        gateway.ready()
        down = receiver.until(is_notification(SOURCE_DOWN), "the source is down")
        cold = next(each for each in receiver.received if each.oid == COLD_START)
        assert down.pdu_type == message.INFORM
        wait_until(lambda: saved(site).number == down.number, "it is known to wait")

        kill(gateway, "snmp")
        receiver.received.clear()
        receiver.answering = True
        receiver.until(is_notification(SOURCE_DOWN), "it is sent again")
        receiver.until(lambda _: len({each.event_id for each in receiver.received}) >= 4, "and the others")
        # The end of the killed process is an event, too, which may come last: answer until nothing waits.
        wait_until(lambda: receiver.drain() and saved(site).targets[0].informs == (), "nothing waits")
        wait_until(
            lambda: receiver.drain() and shown(site, TargetColumn.WAITING) == 0, "agTargetTable says so"
        )
        assert shown(site, TargetColumn.ACKNOWLEDGED) == len({each.event_id for each in receiver.received})
    ids = {each.event_id for each in receiver.received}
    assert {down.event_id, cold.event_id} < ids


def test_receivers_are_found_by_their_names_and_one_without_an_address_hinders_no_start(
    tmp_path: Path,
) -> None:
    host = str(socket.getaddrinfo("localhost", 0, type=socket.SOCK_DGRAM)[0][4][0])
    site = new_site(tmp_path)
    community = site.state.secret("community")
    (tmp_path / "trapd").mkdir()
    with snmptrapd(tmp_path / "trapd", community, host=host) as daemon:
        receivers = {
            "nms": {"address": f"localhost:{daemon.port}", "kind": "inform"},
            "gone": {"address": "nms.invalid:162", "kind": "inform"},
            "far": {"address": "[fe80::1%nowhere]:162"},
        }
        site.configure(snmp={"listen": [f"127.0.0.1:{site.snmp_port}"], "notifications": receivers})
        with running("run", "--config", site.configuration, log=tmp_path / "log") as gateway:
            gateway.ready()
            (cold_start, *_) = daemon.until(1)
            assert cold_start.values["snmpTrapOID.0"].endswith("coldStart")
            wait_until(lambda: shown(site, TargetColumn.ACKNOWLEDGED) > 0, "its answer is taken")
            assert named(site, "nms") == f"localhost:{daemon.port}".encode()
            wait_until(lambda: len(unresolved(tmp_path / "log")) == 2, "both are logged")
            gateway.terminate()
    (resolved,) = lines_of(tmp_path / "log", "notification-name-resolved")
    assert (resolved["to"], resolved["address"]) == (f"localhost:{daemon.port}", host)
    gone, far = (unresolved(tmp_path / "log")[to] for to in ("nms.invalid:162", "[fe80::1%nowhere]:162"))
    assert (gone["in_use"], far["in_use"]) == ("none", "none")
    assert "`getent ahosts nms.invalid`" in gone["detail"]
    assert far["reason"] == "this machine has no interface nowhere for it"
    assert "`ip -6 address show dev nowhere`" in far["detail"]


def unresolved(log: Path) -> dict[str, dict[str, Any]]:
    """The lines about receivers without an address, by receiver."""
    return {line["to"]: line for line in lines_of(log, "notification-name-unresolved")}


def named(site: Site, receiver: str) -> bytes:
    """The address of a receiver in agTargetTable."""
    oid = (*ROOT, *TARGET_ENTRY, TargetColumn.ADDRESS, *receiver.encode())
    community = site.state.secret("community").encode()
    answer = read_answer(exchange(site.snmp_port, request(message.GET, [oid], community=community)))
    ((_, value),) = answer.varbinds
    return value[2:]


def lines_of(log: Path, event: str) -> list[dict[str, Any]]:
    """The lines of an event in the log of a gateway."""
    lines = [json.loads(line) for line in log.read_text().splitlines() if f'"{event}"' in line]
    return [line for line in lines if line["event"] == event]


def test_an_end_in_order_keeps_what_waits(tmp_path: Path, receiver: UdpReceiver) -> None:
    site = site_with(tmp_path, receiver, kind="inform", severity="critical", events=["nothing:*"])
    with running("run", "--config", site.configuration, log=tmp_path / "log") as gateway:
        gateway.ready()
        assert gateway.terminate().code is ExitCode.OK
    assert [each.name for each in saved(site).targets] == ["nms"]
    assert saved(site).boot == 1


# ---- the file -----------------------------------------------------------------------------------------


def test_what_is_not_there_is_nothing(tmp_path: Path) -> None:
    assert load(tmp_path / FILE) is None


@pytest.mark.parametrize(
    "damaged", [b"", b"\x00" * 100, b"{}}", b'{"version": 1, "more": 1}', b"[1]", b'{"version": "1"', b"\xff"]
)
def test_a_damaged_file_is_put_aside(tmp_path: Path, damaged: bytes) -> None:
    path = tmp_path / FILE
    path.write_bytes(damaged)
    assert load(path) is None
    assert not path.exists()
    assert path.with_name(f"{FILE}.damaged").read_bytes() == damaged


def test_a_file_of_a_newer_gateway_is_refused_and_stays(tmp_path: Path) -> None:
    path = tmp_path / FILE
    path.write_text('{"version": 8, "queues": []}')
    with pytest.raises(StateError, match="newer gateway"):
        load(path)
    assert path.exists()


@pytest.mark.parametrize(
    ("version", "uncertain"),
    [
        (1, ()),
        (2, (("orders", 'memoryAlarm node "rabbit@a"'),)),
        (3, (("orders", 'memoryAlarm node "rabbit@a"'),)),
        (4, (("orders", 'memoryAlarm node "rabbit@a"'),)),
        (5, (("orders", 'memoryAlarm node "rabbit@a"'),)),
        (6, (("orders", 'memoryAlarm node "rabbit@a"'),)),
        (7, (("orders", 'memoryAlarm node "rabbit@a"'),)),
    ],
)
def test_a_file_of_each_version_is_read(
    tmp_path: Path, version: int, uncertain: tuple[tuple[str, str], ...]
) -> None:
    recorded = Path(__file__).parents[2] / "data" / "snmp_notifications" / f"notifications-{version}.json"
    (tmp_path / FILE).write_bytes(recorded.read_bytes())
    found = load(tmp_path / FILE)
    assert found is not None
    assert (found.epoch, found.number, found.boot) == (7, 123, 7)
    (target,) = found.targets
    assert isinstance(target, SavedTarget)
    assert target.conditions == ((("orders", 'memoryAlarm node "rabbit@a"'), 5),)
    assert isinstance(target.informs[0], SavedInform)
    assert target.uncertain == uncertain
    assert (target.policy is None) is (version < 4)
    assert target.owed == (() if version < 5 else ((6, 9, 12), (7, 100, 118), (7, 121, 121)))
    assert target.suppressed is not None
    assert bool(target.suppressed.unknown_from) is (version > 5)
    assert target.since == (5 if version > 6 else 0)
    assert version < VERSION or to_text(found).encode() == recorded.read_bytes()


def test_a_file_of_another_user_is_refused_with_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / FILE
    path.write_text("{}")
    path.chmod(0)
    tmp_path.chmod(0o755)
    user = os.geteuid()
    if user == 0:  # whom no mode keeps out
        os.seteuid(65534)
    try:
        expected = rf"Permission denied.*{user_name(os.geteuid())}.*chown.*remove it \(without it informs"
        with pytest.raises(StateError, match=expected):
            load(path)
    finally:
        os.seteuid(user)


def test_a_start_with_a_file_of_a_newer_gateway_says_so(tmp_path: Path, receiver: UdpReceiver) -> None:
    site = site_with(tmp_path, receiver)
    (tmp_path / "state" / FILE).write_text('{"version": 8}')
    ended = amqp_gateway("process", "snmp", "--config", site.configuration)
    assert ended.code is ExitCode.STATE
    assert len(ended.reported) == 1
    assert "newer gateway" in ended.reported[0]
