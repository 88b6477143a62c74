"""The promises about events: each is a trap and a JMX notification."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

from aio_pika.exceptions import CONNECTION_EXCEPTIONS
from yarl import URL

from gateway.demo.broker import PrivateBroker
from gateway.demo.demonstration import SOURCE
from gateway.demo.node_setup import Credentials
from gateway.demo.snmp_commands import PrintedNotification, SnmpCommands, Table, TrapReceiver
from gateway.links.amqp_connection import connect_once
from tests.components.jmx_client import JmxClient
from tests.demo_check.promises import Promises

PARCELS = "parcels.of.a.moment"
GUEST_NAME = "a guest of the check"
LOW_WATERMARK, USUAL_WATERMARK = "0.0000001", "0.4"


class EventPromises:
    """The check of events: causes them on the broker, and looks for them where operators would.

    Args:
        promises: waits and reports.
        client: listens to the MBean of the gateway already.
        traps: receives the notifications.
        snmp: for the tables of alarms and of recently deleted objects.
        broker: on which the events are caused.
    """

    def __init__(
        self,
        promises: Promises,
        client: JmxClient,
        traps: TrapReceiver,
        snmp: SnmpCommands,
        broker: PrivateBroker,
    ) -> None:
        self._promises = promises
        self._client = client
        self._traps = traps
        self._snmp = snmp
        self._broker = broker

    async def run(self) -> None:
        """Check everything.

        Raises:
            CheckFailedError: for the first promise that is not kept.
        """
        await self._until("a trap tells of the gateway's start", "coldStart", {})
        await self._a_queue_of_a_moment()
        await self._a_guest_who_goes()
        await self._a_wrong_password()
        await self._a_memory_alarm()

    async def _a_queue_of_a_moment(self) -> None:
        for method in ("PUT", "DELETE"):
            await asyncio.to_thread(self._queue, method)
        created = {"agEventSource": SOURCE, "rmqEventName": PARCELS}
        await self._until(
            "a trap and a JMX notification tell of a queue", "rmqQueueCreated", created, also=True
        )
        await self._until("and of its end", "rmqQueueDeleted", created, also=True)

        async def problems() -> list[str]:
            rows = await self._walk("agDeletedTable")
            # A row that is new during a walk lacks the columns that were walked before.
            found = [cells for cells in rows.values() if cells.get("agDeletedName") == PARCELS]
            whole = [cells for cells in found if {"agDeletedCreated", "agDeletedDeleted"} <= cells.keys()]
            return [] if whole else [f"{PARCELS} is not in agDeletedTable with both times: {found}"]

        await self._promises.until_none("what is gone is in the table of objects deleted lately", problems)

    async def _a_guest_who_goes(self) -> None:
        url = URL(self._broker.amqp_url())
        connection = await connect_once(url, {"connection_name": GUEST_NAME})
        await connection.close()
        facts = {
            "rmqEventUser": self._broker.administrator.name,
            "rmqEventVhost": "/",
            "rmqEventPeerHost": "127.0.0.1",
            "rmqEventClientName": GUEST_NAME,
        }
        promise = "the trap of a closed connection names user, virtual host, peer and client"
        trap = await self._until(promise, "rmqConnectionClosed", facts, also=True)
        assert "rmqEventLifetime" in trap.values

    async def _a_wrong_password(self) -> None:
        stranger = Credentials(self._broker.administrator.name, "not this one")
        with contextlib.suppress(*CONNECTION_EXCEPTIONS):
            await connect_once(URL(self._broker.amqp_url(stranger)), {"connection_name": GUEST_NAME})
        facts = {"rmqEventUser": stranger.name, "agEventSeverity": "warning"}
        await self._until("a wrong password is told", "rmqAuthenticationFailed", facts, also=True)

    async def _a_memory_alarm(self) -> None:
        # From RabbitMQ 4.0 on, deprecated features that the workload uses are alarms that stand.
        stood = await self._walk("agAlarmTable")
        await self._watermark(LOW_WATERMARK)
        facts = {"agEventSeverity": "critical", "agEventState": "raised"}
        await self._until("a memory alarm is told", "rmqMemoryAlarmSet", facts, also=True)

        async def standing() -> list[str]:
            names = [cells["agAlarmName"] for cells in (await self._walk("agAlarmTable")).values()]
            return [] if "memoryAlarm" in names else [f"agAlarmTable has {names}"]

        async def cleared() -> list[str]:
            left = (await self._walk("agAlarmTable")).keys() - stood.keys()
            return [f"agAlarmTable still has the alarm {index}" for index in left]

        await self._promises.until_none("and stands in the table of alarms", standing)
        await self._watermark(USUAL_WATERMARK)
        await self._until("so is its end", "rmqMemoryAlarmCleared", {"agEventState": "cleared"}, also=True)
        await self._promises.until_none("and no alarm is left", cleared)

    async def _until(
        self, promise: str, name: str, facts: dict[str, str], *, also: bool = False
    ) -> PrintedNotification:
        """Wait for a trap with these facts, and (``also``) for the JMX notification of the same event."""
        found: list[PrintedNotification] = []

        async def problems() -> list[str]:
            received = await asyncio.to_thread(self._traps.notifications)
            fitting = [
                trap for trap in received if trap.name == name and facts.items() <= trap.values.items()
            ]
            if not fitting:
                names = [trap.name for trap in received[-20:]]
                return [f"no trap {name} with {facts} yet; the last ones were {', '.join(names)}"]
            found[:] = fitting[-1:]
            reported = {self._event_id(notification) for notification in self._client.notifications}
            event = fitting[-1].values.get("agEventId")
            return [f"no JMX notification of event {event}"] if also and event not in reported else []

        await self._promises.until_none(promise, problems)
        return found[0]

    @staticmethod
    def _event_id(notification: dict[str, Any]) -> str:
        return str((notification.get("data") or {}).get("eventId"))

    async def _walk(self, name: str) -> Table:
        return await asyncio.to_thread(self._snmp.walk, name)

    async def _watermark(self, share: str) -> None:
        await asyncio.to_thread(self._broker.rabbitmqctl, "set_vm_memory_high_watermark", share)

    def _queue(self, method: str) -> None:
        with self._broker.http() as client:
            body = {"durable": True} if method == "PUT" else None
            client.request(method, f"queues/%2F/{PARCELS}", json=body).raise_for_status()
