"""A gateway at an OpenAMQ, as strict on the wire as the original: its objects, sets, calls, and failures."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from gateway.service.processes.exit_codes import ExitCode
from tests.components.amqp_peer import AmqpPeer
from tests.components.background import Background
from tests.components.background import background as background_of
from tests.components.open_amq import BROKER, CONFIG, ORDERS, OpenAmq, open_amq
from tests.components.operated_gateway import OPERATOR
from tests.components.ports import free_tcp_port
from tests.components.waiting import wait_until
from tests.jmx_java.client_machine import SharedMachine
from tests.openamq.gateway import SOURCE, OpenAmqGateway, gateway_at

pytestmark = pytest.mark.xdist_group("openamq")

_QUEUE = f"{SOURCE}/queue/OpenAMQ 1.4c1|orders"
_SETTINGS = f"{SOURCE}/config/OpenAMQ 1.4c1|amq_server.cfg"


@pytest.fixture(scope="module")
def background() -> Iterator[Background[tuple[OpenAmq, AmqpPeer]]]:
    with background_of(open_amq) as both:
        yield both


@pytest.fixture(scope="module")
def broker(background: Background[tuple[OpenAmq, AmqpPeer]]) -> OpenAmq:
    return background.is_[0]


@pytest.fixture(scope="module")
def peer(background: Background[tuple[OpenAmq, AmqpPeer]]) -> AmqpPeer:
    return background.is_[1]


@pytest.fixture(scope="module")
def gateway(peer: AmqpPeer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenAmqGateway]:
    folder = tmp_path_factory.mktemp("openamq")
    url = f"amqp://127.0.0.1:{peer.port}"
    conduct: dict[str, Any] = {"short_lived": "second-listing", "assured": ["config-file"]}
    with gateway_at(url, "super", "super", folder, jmx_port=free_tcp_port(), **conduct) as shown:
        shown.are_all("synchronised")
        yield shown


def test_what_the_broker_has_is_walked(gateway: OpenAmqGateway, broker: OpenAmq, peer: AmqpPeer) -> None:
    broker.change(ORDERS, pending="33")
    gateway.shows("oamqExchangeName", "$default$", "amq.direct", "ticks")
    gateway.shows("oamqQueueName", "orders", "reply-1")
    gateway.shows("oamqConnectionAddress", "127.0.0.1:4711")
    assert list(gateway.walk("agSourceState").values()) == ["synchronised"]
    gateway.has_pending(33)
    assert set(peer.tuned) == {2}, "the heartbeat that it insists on"
    assert not peer.complaints


def test_a_setting_is_set_by_snmp_and_read_back(gateway: OpenAmqGateway, broker: OpenAmq) -> None:
    (instance,) = gateway.walk("oamqConfigMonitor")
    assert gateway.set(instance, "u", "7") == f"{instance} = 7 seconds\n"
    assert broker.text(CONFIG, "monitor") == "7"
    assert list(gateway.walk("oamqConfigMonitor").values()) == ["7 seconds"]


def test_a_setting_that_has_no_effect_is_reported_as_that(gateway: OpenAmqGateway, broker: OpenAmq) -> None:
    """OpenAMQ answers ok even if the value has no effect."""
    broker.deaf.add("record_stats")
    ended = gateway.command("set", _SETTINGS, "record_stats=true")
    assert ended.code is ExitCode.NOT_APPLIED
    assert (CONFIG, "record_stats", True) in broker.done


def test_what_would_end_the_broker_is_not_sent(gateway: OpenAmqGateway, broker: OpenAmq) -> None:
    before = len(broker.done)
    for assignment in ("setup_timeout=0", "vhost=", "auto_crash=1", f"port={'5' * 256}"):
        assert gateway.command("set", _SETTINGS, assignment).code not in {
            ExitCode.OK,
            ExitCode.UNKNOWN_OUTCOME,
        }
    assert broker.done[before:] == []


@pytest.mark.parametrize("setting", ["heartbeat", "direct_heartbeat"])
def test_a_heartbeat_is_set_by_its_name_only_and_what_zero_leads_to_is_said(
    gateway: OpenAmqGateway, broker: OpenAmq, setting: str
) -> None:
    before = len(broker.done)
    ended = gateway.command("set", _SETTINGS, f"{setting}=0")
    assert ended.code is ExitCode.REFUSED
    assert "heartbeats, and setting the trace of one of them ends the broker" in ended.output + ended.errors
    assert broker.done[before:] == []


def test_a_method_is_called_once(gateway: OpenAmqGateway, broker: OpenAmq) -> None:
    ended = gateway.command("invoke", _QUEUE, "purge")
    assert (ended.code, ended.output.partition(":")[0]) == (ExitCode.OK, "applied")
    assert broker.done.count((ORDERS, "purge", ())) == 1
    gateway.has_pending(0)
    assert (
        gateway.command("invoke", f"{SOURCE}/broker/OpenAMQ 1.4c1", "lock", "setting=true").code
        is ExitCode.OK
    )
    assert broker.text(BROKER, "locked") == "1"
    # As after a set: what is read after the answer is the new value.
    assert gateway.shown(f"{SOURCE}/broker/OpenAMQ 1.4c1")["values"]["locked"] is True
    gateway.command("invoke", f"{SOURCE}/broker/OpenAMQ 1.4c1", "lock", "setting=0")
    assert broker.text(BROKER, "locked") == "0"


def test_a_java_client_that_was_answered_reads_the_new_value_and_never_the_old_one(
    gateway: OpenAmqGateway, broker: OpenAmq, java_machine: SharedMachine
) -> None:
    password = gateway.site.state.secret(f"jmx-{OPERATOR}")
    java = java_machine.clients().connect(gateway.jmx_port, OPERATOR, password)
    root, settings = (f"amqp.gateway:source={SOURCE},type={kind},*" for kind in ("broker", "config"))
    wait_until(lambda: list(java.names(root)) and list(java.names(settings)), "the MBeans")
    (root,), (settings,) = java.names(root), java.names(settings)
    for turn in range(5):
        for locked in (True, False):
            java.invoke(root, "lock", [locked])
            assert java.attribute(root, "locked") == f"java.lang.Boolean {str(locked).lower()}"
            assert broker.text(BROKER, "locked") == str(int(locked))
        assert java.trySetAttribute(settings, "monitor", 100 + turn) == ""
        assert java.attribute(settings, "monitor") == f"java.lang.Long {100 + turn}"
    java.close()


def test_a_method_that_ruins_some_brokers_is_called_where_that_was_assured(
    gateway: OpenAmqGateway, broker: OpenAmq
) -> None:
    assert gateway.command("invoke", _SETTINGS, "commit").code is ExitCode.OK
    assert broker.done[-1] == (CONFIG, "commit", ())


def test_objects_come_and_go(gateway: OpenAmqGateway, broker: OpenAmq) -> None:
    broker.put(40, "queue", BROKER, name="late", pending="1", exclusive="0", auto_delete="0")
    gateway.shows("oamqQueueName", "orders", "reply-1", "late")
    broker.delete(40)
    gateway.shows("oamqQueueName", "orders", "reply-1")


def test_a_connection_that_is_cut_is_made_again(
    gateway: OpenAmqGateway, background: Background[tuple[OpenAmq, AmqpPeer]]
) -> None:
    broker, peer = background.is_
    before = gateway.walk("oamqQueueName")
    connections = peer.connections
    background.do(peer.cut)
    wait_until(lambda: peer.connections >= connections + 2, "the gateway is back")
    broker.change(ORDERS, pending="11")
    gateway.has_pending(11)
    gateway.are_all("synchronised")
    assert gateway.walk("oamqQueueName") == before
