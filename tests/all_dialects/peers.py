"""All peers of the gateway but the RabbitMQ, and a receiver of its notifications, on one event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gateway.demo.broker import PrivateBroker
from gateway.demo.snmp_commands import TrapReceiver
from gateway.dialects.qmf.am01.messages import Revision
from gateway.dialects.session import Send
from gateway.model.observations import Severity
from tests.all_dialects.alike_agent import AlikeAgent
from tests.all_dialects.qpid_broker import QpidBroker
from tests.components.am01_agent import Am01Agent
from tests.components.amqp_peer import AmqpPeer
from tests.components.open_amq import OpenAmq, open_amq
from tests.components.ports import free_udp_port

TRAPS: Final = "traps"
"""The community of the notifications."""


@dataclass(frozen=True, slots=True)
class Peers:
    """The peers.

    Attributes:
        openamq: the managed objects of the OpenAMQ.
        openamq_broker: the OpenAMQ on the wire.
        qpid: a recorded Qpid broker on a RabbitMQ.
        cellar: an agent of AM01 there, as that is written down.
        traps: net-snmp's receiver.
    """

    openamq: OpenAmq
    openamq_broker: AmqpPeer
    qpid: QpidBroker
    cellar: Am01Agent
    traps: TrapReceiver

    def notify(self, text: str) -> None:
        """Make OpenAMQ send a notification, which the one of 1.4 was not seen to do."""
        for send in self.openamq.session.notify(Severity.WARNING, text):
            assert isinstance(send, Send)
            self.openamq_broker.publish(send.exchange, send.routing_key, send.body)


@asynccontextmanager
async def peers(
    broker: PrivateBroker, for_qpid: str, for_cellar: str, for_alike: str, folder: Path
) -> AsyncIterator[Peers]:
    """Provide the peers, which live until the context ends; each agent has a virtual host of its own."""
    qpid = QpidBroker(broker, for_qpid)
    cellar = Am01Agent(broker, for_cellar, Revision.DESIGN_NOTES)
    cellar.put(1)
    alike = AlikeAgent(broker, for_alike)
    traps = await TrapReceiver.start(folder, free_udp_port(), TRAPS)
    async with open_amq() as (openamq, on_the_wire):
        running = [asyncio.create_task(each.run()) for each in (qpid, cellar, alike)]
        try:
            yield Peers(openamq, on_the_wire, qpid, cellar, traps)
        finally:
            for task in running:
                task.cancel()
            ended = await asyncio.gather(*running, return_exceptions=True)
            await traps.stop()
    faults = [one for one in ended if isinstance(one, Exception)]
    if faults:
        raise ExceptionGroup("peers failed", faults)
