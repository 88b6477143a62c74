"""The state of the broker, now and before, by its own report: the reference for the gateway."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

import httpx
from aio_pika import DeliveryMode, Message
from aio_pika.exceptions import CONNECTION_EXCEPTIONS
from yarl import URL

from gateway.demo.broker import PrivateBroker
from gateway.links.amqp_connection import close_soon, connect_once, is_cancelled
from tests.demo_check.comparison import OWN_QUEUE_PREFIX

MARKER_VHOST, MARKER_QUEUE = "/", "end-to-end.marker"
MARKER = f"{MARKER_VHOST}|{MARKER_QUEUE}"
"""The full name of the queue whose length is known at each moment."""

PUBLISH_SECONDS = 0.2
RECONNECT_SECONDS = 0.2
LOOK_SECONDS = 3.0
_FORGET_SECONDS = 300.0
_REMEMBERED_LOOKS = 1_000

Value = TypeVar("Value")


class Timeline(Generic[Value]):
    """The possible values of a quantity over time; times are seconds since 1970."""

    def __init__(self) -> None:
        self._periods: list[tuple[float, frozenset[Value]]] = []

    def note(self, possible: Iterable[Value], now: float) -> None:
        """Note that the value is one of these from ``now`` on."""
        self._periods.append((now, frozenset(possible)))
        while len(self._periods) > 1 and self._periods[1][0] < now - _FORGET_SECONDS:
            del self._periods[0]

    def held(self, since: float, until: float) -> set[Value]:
        """Return all values that it may have had at some time between, both ends included."""
        values: set[Value] = set()
        for begun, possible in reversed(self._periods):
            if begun <= until:
                values |= possible
            if begun <= since:
                break
        return values


class MarkerQueue:
    """A durable queue that grows by a message at a time, over everything that happens to the broker.

    Args:
        broker: on which the queue is.
        progress: called for each confirmed message.
    """

    def __init__(self, broker: PrivateBroker, progress: Callable[[], None]) -> None:
        self.lengths: Timeline[int] = Timeline()
        self.declared = asyncio.Event()
        self._broker = broker
        self._progress = progress

    async def run(self) -> None:
        """Publish until cancelled."""
        # Asked in each round: until Python 3.12 ``asyncio.wait_for`` may swallow a cancellation.
        while not is_cancelled():
            try:
                await self._publish()
            except CONNECTION_EXCEPTIONS:
                # Whether the last message was taken is known as soon as the broker can be asked.
                await asyncio.sleep(RECONNECT_SECONDS)

    async def _publish(self) -> None:
        connection = await connect_once(
            URL(self._broker.amqp_url(vhost=MARKER_VHOST)), {"connection_name": "end to end marker"}
        )
        try:
            channel = await connection.channel()
            queue = await channel.declare_queue(MARKER_QUEUE, durable=True)
            length = queue.declaration_result.message_count or 0
            self.lengths.note([length], time.time())
            self.declared.set()
            while not is_cancelled():
                self.lengths.note([length, length + 1], time.time())
                # Without a time limit: what a blocked connection has in its socket is taken later.
                await channel.default_exchange.publish(
                    Message(b"x", delivery_mode=DeliveryMode.PERSISTENT), MARKER_QUEUE
                )
                length += 1
                self.lengths.note([length], time.time())
                self._progress()
                await asyncio.sleep(PUBLISH_SECONDS)
        finally:
            await close_soon(connection)  # which a broker that takes no messages would not answer


class BrokerTruth:
    """The times when the broker was last seen to have each thing.

    A thing is the prefix of its SNMP table and its name there: ``rmqQueue shop|orders``; a node is one with
    its process too, which the broker does not report until it has counted for the first time.

    Args:
        broker: asked over its management API, as an administrator and directly.
    """

    def __init__(self, broker: PrivateBroker) -> None:
        self._broker = broker
        self._seen: dict[str, float] = {}
        self._answers: deque[float] = deque(maxlen=_REMEMBERED_LOOKS)
        self._stood_still = (0.0, 0.0)
        self.back_since = 0.0
        """The time when it was first seen since it last was away; a broker that stands still is not away."""
        who = broker.administrator
        self._client = httpx.AsyncClient(
            base_url=f"{broker.management_url}/api/",
            auth=(who.name, who.password),
            timeout=LOOK_SECONDS,
            trust_env=False,
        )

    async def close(self) -> None:
        """Close the connection to the broker."""
        await self._client.aclose()

    async def look(self) -> None:
        """Note the things that exist now; do nothing if the broker does not answer."""
        try:
            things = [
                *[thing for node in await self._listed("nodes") for thing in _things_of_node(node)],
                *[f"rmqVhost {vhost['name']}" for vhost in await self._listed("vhosts")],
                *[f"rmqQueue {one['vhost']}|{one['name']}" for one in await self._listed("queues")],
                *[f"rmqExchange {one['vhost']}|{one['name']}" for one in await self._listed("exchanges")],
                *[f"rmqConnection {one.get('name')}" for one in await self._listed("connections")],
            ]
        except httpx.TimeoutException:
            return
        except (httpx.HTTPError, ValueError, LookupError):
            self.back_since = 0.0
            return
        if self.back_since and time.time() - self._answers[-1] > LOOK_SECONDS:
            self._stood_still = (self._answers[-1], time.time())
        self.back_since = self.back_since or time.time()
        self._answers.append(time.time())
        self._seen.update(dict.fromkeys(things, self._answers[-1]))

    def answered(self, before: float) -> float:
        """Return when the broker last answered before a moment; that moment, where that is not remembered."""
        return max((answer for answer in self._answers if answer <= before), default=before)

    def last_seen(self, thing: str) -> float:
        """Return when the broker may last have had it, as far as it was observed; 0 for never.

        A thing of a broker that stands still ends, if at all, when the broker goes on.
        """
        seen = self._seen.get(thing, 0.0)
        begun, ended = self._stood_still
        return ended if seen == begun else seen

    async def own_queues(self, vhost: str = "") -> set[str]:
        """Return the gateway's and agent's queues of one virtual host, by default of all.

        Raises:
            httpx.HTTPError: the broker does not answer.
        """
        return {
            str(queue["name"])
            for queue in await self._listed("queues")
            if queue["name"].startswith(OWN_QUEUE_PREFIX) and vhost in {"", queue["vhost"]}
        }

    async def queues(self) -> set[str]:
        """Return the full names of all queues but the gateway's own.

        Raises:
            httpx.HTTPError: the broker does not answer.
        """
        names = {(str(queue["vhost"]), str(queue["name"])) for queue in await self._listed("queues")}
        return {f"{vhost}|{name}" for vhost, name in names if not name.startswith(OWN_QUEUE_PREFIX)}

    async def deprecated_in_use(self) -> set[str]:
        """Return the deprecated features in use; none before RabbitMQ 3.13, which does not know them.

        Raises:
            httpx.HTTPError: the broker does not answer.
        """
        response = await self._client.get("deprecated-features/used")
        if response.status_code == httpx.codes.NOT_FOUND:
            return set()
        return {str(feature["name"]) for feature in response.raise_for_status().json()}

    async def _listed(self, listing: str) -> list[dict[str, Any]]:
        response = await self._client.get(listing, params={"columns": "vhost,name,os_pid"})
        listed: list[dict[str, Any]] = response.raise_for_status().json()
        return listed


def _things_of_node(node: dict[str, Any]) -> list[str]:
    thing = f"rmqNode {node['name']}"
    return [thing] if node.get("os_pid") is None else [thing, f"{thing} {node['os_pid']}"]
