"""pysnmp as the agent over an oracle's data, and as a manager: another implementation of the same RFCs."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from typing import Any

from pyasn1.codec.ber import decoder  # type: ignore[import-untyped]
from pysnmp.carrier.asyncio.dgram import udp
from pysnmp.entity import config, engine
from pysnmp.entity.rfc3413 import cmdrsp, context
from pysnmp.proto import rfc1902, rfc1905
from pysnmp.smi import instrum

from gateway.snmp import ber
from tests.components.waiting import eventually
from tests.snmp.datagrams import COMMUNITY
from tests.snmp.net_snmp import answers
from tests.snmp.sorted_oracle import SortedOracle

_TYPES = {
    ber.INTEGER: rfc1902.Integer32,
    ber.OCTET_STRING: rfc1902.OctetString,
    ber.OBJECT_IDENTIFIER: rfc1902.ObjectIdentifier,
    ber.IP_ADDRESS: rfc1902.IpAddress,
    ber.COUNTER32: rfc1902.Counter32,
    ber.GAUGE32: rfc1902.Gauge32,
    ber.TIME_TICKS: rfc1902.TimeTicks,
    ber.COUNTER64: rfc1902.Counter64,
}


def as_pysnmp(value: bytes) -> Any:  # noqa: ANN401  pysnmp has no types
    """Return a value TLV as pysnmp's object of its type."""
    decoded, rest = decoder.decode(value, asn1Spec=_TYPES[value[0]]())
    assert not rest
    return decoded


class _Instances(instrum.AbstractMibInstrumController):  # type: ignore[misc]  # pysnmp has no types
    """A controller that answers reads from an oracle, with its two kinds of absence."""

    def __init__(self, oracle: SortedOracle) -> None:
        self._oracle = oracle

    def read_variables(self, *varbinds: Any, **_: Any) -> list[Any]:  # noqa: ANN401
        return [(name, self._value(tuple(name))) for name, _ in varbinds]

    def read_next_variables(self, *varbinds: Any, **asked: Any) -> list[Any]:  # noqa: ANN401
        return [self._next(name, asked) for name, _ in varbinds]

    def _value(self, oid: ber.Oid) -> Any:  # noqa: ANN401
        value = self._oracle.instances.get(oid)
        if value is not None:
            return as_pysnmp(value)
        is_object = self._oracle.store.get(oid) == ber.NO_SUCH_INSTANCE
        return rfc1905.noSuchInstance if is_object else rfc1905.noSuchObject

    def _next(self, name: Any, asked: dict[str, Any]) -> Any:  # noqa: ANN401
        engine_ = asked["snmpEngine"]
        is_v1 = engine_.observer.get_execution_context("rfc3412.receiveMessage:request")["securityModel"] == 1
        for oid, value in self._oracle.after(tuple(name), len(self._oracle.instances)):
            if not (is_v1 and value[0] == ber.COUNTER64):
                return rfc1902.ObjectName(oid), as_pysnmp(value)
        return name, rfc1905.endOfMibView


class _WholeBulks(cmdrsp.BulkCommandResponder):  # type: ignore[misc]  # pysnmp has no types
    max_varbinds = 10_000


@contextlib.asynccontextmanager
async def pysnmp_agent(oracle: SortedOracle) -> AsyncIterator[int]:
    """Run a pysnmp agent in the running loop, on a loopback port of its own."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    agent = engine.SnmpEngine()
    transport = udp.UdpTransport().open_server_mode(("127.0.0.1", port))
    config.add_transport(agent, udp.DOMAIN_NAME, transport)
    config.add_v1_system(agent, "area", COMMUNITY.decode())
    for model in (1, 2):
        config.add_vacm_user(agent, model, "area", "noAuthNoPriv", readSubTree=(1,), writeSubTree=(1,))
    contexts = context.SnmpContext(agent)
    contexts.unregister_context_name(b"")
    contexts.register_context_name(b"", _Instances(oracle))
    for responder in (cmdrsp.GetCommandResponder, cmdrsp.NextCommandResponder, _WholeBulks):
        responder(agent, contexts)
    try:
        await eventually(lambda: asyncio.to_thread(answers, port), "an answer of pysnmp")
        yield port
    finally:
        agent.close_dispatcher()


class PysnmpManager:
    """pysnmp's command generators, which send requests to one agent on loopback in the running loop."""

    def __init__(self, port: int, version: int) -> None:
        self._engine = engine.SnmpEngine()
        config.add_transport(self._engine, udp.DOMAIN_NAME, udp.UdpTransport().open_client_mode())
        config.add_v1_system(self._engine, "area", COMMUNITY.decode())
        config.add_target_parameters(self._engine, "parameters", "area", "noAuthNoPriv", version)
        address = ("127.0.0.1", port)
        config.add_target_address(
            self._engine, "agent", udp.DOMAIN_NAME, address, "parameters", timeout=2_000, retryCount=0
        )

    async def ask(self, generator: Any, names: list[Any], *counts: int) -> tuple[int, int, list[Any]]:  # noqa: ANN401
        """Return error-status, error-index and varbinds of the answer to a command generator's request."""
        answered: asyncio.Future[tuple[int, int, list[Any]]] = asyncio.get_running_loop().create_future()

        def receive(*answer: Any) -> None:  # noqa: ANN401
            _, _, failure, status, index, varbinds, _ = answer
            assert failure is None, failure
            answered.set_result((int(status), int(index), list(varbinds)))

        generator().send_varbinds(self._engine, "agent", None, "", *counts, names, receive)
        return await answered

    def close(self) -> None:
        """Close the socket."""
        self._engine.close_dispatcher()
