"""``amqp-gateway trap test``."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from gateway.cli.main import main
from gateway.clock import SystemClock
from gateway.service.processes.exit_codes import ExitCode
from gateway.service.state.snmp_security import enterprise_of, read_engine, start_engine
from gateway.snmp import message
from gateway.snmp.fixed_mib import NOTIFICATIONS, OwnNotification
from tests.components.command_line import Ended, Site, amqp_gateway
from tests.snmp.notifications.snmptrapd import snmptrapd
from tests.snmp.notifications.story import ROOT, answer_to
from tests.snmp.notifications.udp_receiver import UdpReceiver, udp_receiver


@pytest.fixture
def receiver() -> Iterator[UdpReceiver]:
    with udp_receiver() as receiver:
        yield receiver


USER = 'nms SHA-256 "phrase of nms" AES "secret of nms"'
RECEIVER = "80001f8805a1a2a3a4a5a6a7a8a9aaabac"


def add_keys(site: Site, *options: str) -> None:
    """Make the keys of the user ``nms``."""
    line = ["snmp", "user", "add", "nms", *options, "--config", str(site.configuration)]
    result = CliRunner().invoke(main, line, input="phrase of nms\nsecret of nms\n")
    assert result.exit_code == ExitCode.OK, result.output


def trap_test(site: Site, name: str, **settings: Any) -> Ended:  # noqa: ANN401  as YAML has them
    users: dict[str, dict[str, str]] = {"nms": {}} if settings.get("version") == "v3" else {}
    site.configure(snmp={"notifications": {"nms": settings}, "users": users})
    return amqp_gateway("trap", "test", name, "--config", site.configuration)


@contextmanager
def answering(receiver: UdpReceiver, status: int) -> Iterator[None]:
    """The receiver answers one inform, from a thread of its own."""

    def answer() -> None:
        datagram, sender = receiver.socket.recvfrom(65_536)
        receiver.socket.sendto(answer_to(datagram, status), sender)

    thread = threading.Thread(target=answer, daemon=True)
    thread.start()
    yield
    thread.join()


@pytest.mark.parametrize("version", ["v1", "v2c"])
def test_a_trap_is_sent_and_it_says_what_to_look_for(site: Site, receiver: UdpReceiver, version: str) -> None:
    ended = trap_test(site, "nms", address=receiver.address, version=version, severity="critical")
    assert (ended.code, ended.errors) == (ExitCode.OK, "")
    datagram, _ = receiver.socket.recvfrom(65_536)
    first, second, third, fourth = ended.output.splitlines()
    assert first == f"nms: version {version[1:]} trap sent to {receiver.address}"
    assert ".".join(map(str, (*ROOT, *NOTIFICATIONS, OwnNotification.TEST))) in second
    event_id = third.removeprefix("with agEventId ")
    assert event_id.startswith(f"{site.state.identity}.0.s")
    assert event_id.encode() in datagram
    assert message.read_message(datagram).community == site.state.secret("community").encode()
    assert "only the receiver knows" in fourth
    assert site.state.secret("community") not in ended.output


def test_an_inform_is_waited_for(site: Site, receiver: UdpReceiver) -> None:
    with answering(receiver, message.NO_ERROR):
        ended = trap_test(site, "nms", address=receiver.address, kind="inform")
    assert (ended.code, ended.errors) == (ExitCode.OK, "")
    assert ended.output.splitlines()[-1].startswith("answered after ")


def test_an_inform_that_is_refused_is_no_success(site: Site, receiver: UdpReceiver) -> None:
    with answering(receiver, message.GEN_ERR):
        ended = trap_test(site, "nms", address=receiver.address, kind="inform")
    assert ended.code is ExitCode.FORBIDDEN
    assert ended.reported == [
        f"amqp-gateway: {receiver.address}: the receiver answered with an error: see its log"
    ]


def test_an_inform_without_an_answer_says_what_to_look_at(site: Site, receiver: UdpReceiver) -> None:
    ended = trap_test(site, "nms", address=receiver.address, kind="inform")
    assert ended.code is ExitCode.UNREACHABLE
    assert "no answer within 8 s" in ended.reported[0]


def test_an_unknown_receiver_is_named_with_those_that_there_are(site: Site, receiver: UdpReceiver) -> None:
    ended = trap_test(site, "other", address=receiver.address)
    assert ended.code is ExitCode.CONFIGURATION
    assert ended.reported[0].endswith("no receiver 'other' under 'snmp: notifications:'; there are: nms")


def test_a_receiver_that_cannot_be_sent_to_says_why(site: Site) -> None:
    ended = trap_test(site, "nms", address="255.255.255.255:162")
    assert ended.code is ExitCode.UNREACHABLE
    assert "255.255.255.255:162: the notification was not sent: " in ended.reported[0]
    ended = trap_test(site, "nms", address="[fe80::1%nowhere]:162")
    assert ended.code is ExitCode.UNREACHABLE
    assert ended.reported[0].startswith(
        "amqp-gateway: [fe80::1%nowhere]:162: the notification was not sent: this machine has no interface"
        " nowhere for it: see what `ip -6 address show dev nowhere` prints"
    )


def test_the_name_of_a_receiver_is_resolved_or_it_says_what_to_do(site: Site, receiver: UdpReceiver) -> None:
    port = receiver.address.rpartition(":")[2]
    ended = trap_test(site, "nms", address=f"localhost:{port}")
    assert ended.code is ExitCode.OK
    sent = ended.output.splitlines()[0]
    assert sent in {
        f"nms: version 2c trap sent to localhost:{port} ({host})" for host in ("127.0.0.1", "::1")
    }

    ended = trap_test(site, "nms", address="nms.invalid:162")
    assert ended.code is ExitCode.UNREACHABLE
    assert ended.reported[0].startswith(
        "amqp-gateway: nms.invalid:162: the notification was not sent: the name cannot be resolved ("
    )
    assert "`getent ahosts nms.invalid`" in ended.reported[0]


def test_a_community_that_is_too_long_is_refused(site: Site, receiver: UdpReceiver, tmp_path: Path) -> None:
    community = site.secret("c" * 256)
    ended = trap_test(site, "nms", address=receiver.address, community=community)
    assert ended.code is ExitCode.CONFIGURATION
    assert "has 256 bytes; notifications can carry 255" in ended.reported[0]
    checked = amqp_gateway("check", "--config", site.configuration, folder=tmp_path)
    assert checked.reported == ended.reported


def test_a_receiver_of_version_3_trusts_the_engine_and_its_time(site: Site, tmp_path: Path) -> None:
    add_keys(site)
    engine = start_engine(site.state, enterprise_of(ROOT), SystemClock().now() - 600 * 10**9)
    user = [f"createUser -e 0x{engine.engine_id} {USER}", "authUser log nms priv"]
    with snmptrapd(tmp_path, "none", further=user) as receiver:
        for count in (1, 2):
            ended = trap_test(site, "nms", address=f"127.0.0.1:{receiver.port}", version="v3", user="nms")
            assert (ended.code, ended.errors) == (ExitCode.OK, "")
            assert ended.output.startswith("nms: version 3 trap sent to")
            printed = receiver.until(count)[-1]
            assert printed.values["snmpTrapOID.0"].endswith("agTest")
            # The engine runs since ten minutes, so that is sysUpTime, too.
            assert "0:10:" in printed.values["sysUpTime.0"]


def test_an_inform_of_version_3_finds_out_the_engine_of_its_receiver(site: Site, tmp_path: Path) -> None:
    add_keys(site)
    own = read_engine(site.state, enterprise_of(ROOT))
    lines = [f"exactEngineID 0x{RECEIVER}", f"createUser {USER}", "authUser log nms priv"]
    with snmptrapd(tmp_path, "none", further=lines) as receiver:
        how = {"address": f"127.0.0.1:{receiver.port}", "version": "v3", "user": "nms", "kind": "inform"}
        ended = trap_test(site, "nms", **how)
        assert ended.code is ExitCode.CONFIGURATION
        assert own.engine_id != RECEIVER
        command = f"amqp-gateway snmp user add nms --engine-id 0x{RECEIVER}"
        assert ended.reported[-1].endswith(f"no keys for the engine of the receiver: run `{command}`")
        add_keys(site, "--engine-id", f"0x{RECEIVER}")
        ended = trap_test(site, "nms", **how)
        assert (ended.code, ended.errors) == (ExitCode.OK, "")
        assert ended.output.splitlines()[-1].startswith("answered after ")
        assert receiver.until(1)[0].values["snmpTrapOID.0"].endswith("agTest")


def test_a_receiver_whose_user_has_no_keys_says_so(site: Site, receiver: UdpReceiver) -> None:
    ended = trap_test(site, "nms", address=receiver.address, version="v3", user="nms")
    assert ended.code is ExitCode.CONFIGURATION
    assert "run `amqp-gateway snmp user add nms`" in ended.reported[0]
