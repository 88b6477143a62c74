"""``amqp-gateway trap test``."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from gateway.service.processes.exit_codes import ExitCode
from gateway.snmp import message
from gateway.snmp.fixed_mib import NOTIFICATIONS, OwnNotification
from tests.components.command_line import Ended, Site, amqp_gateway
from tests.snmp.notifications.story import ROOT, answer_to
from tests.snmp.notifications.udp_receiver import UdpReceiver, udp_receiver


@pytest.fixture
def receiver() -> Iterator[UdpReceiver]:
    with udp_receiver() as receiver:
        yield receiver


def trap_test(site: Site, name: str, **settings: Any) -> Ended:  # noqa: ANN401  as YAML has them
    site.configure(snmp={"notifications": {"nms": settings}})
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


def test_a_community_that_is_too_long_is_refused(site: Site, receiver: UdpReceiver, tmp_path: Path) -> None:
    community = site.secret("c" * 256)
    ended = trap_test(site, "nms", address=receiver.address, community=community)
    assert ended.code is ExitCode.CONFIGURATION
    assert "has 256 bytes; notifications can carry 255" in ended.reported[0]
    checked = amqp_gateway("check", "--config", site.configuration, folder=tmp_path)
    assert checked.reported == ended.reported
