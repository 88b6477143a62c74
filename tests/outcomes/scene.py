"""A RabbitMQ of its own with a writing account, and a gateway through which one operator may change it."""

from __future__ import annotations

import asyncio
import getpass
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import aio_pika

from gateway.demo.broker import BrokerSettings, Credentials, PrivateBroker
from gateway.sources.rabbitmq.provisioning import ProvisionedUser, provision
from gateway.sources.rabbitmq.rights import Grant, UserRights, gateway_rights, watching
from tests.components.command_line import RunningCommand, Site, new_site, running
from tests.components.operated_gateway import OPERATOR, OperatedGateway
from tests.components.ports import free_tcp_port
from tests.components.waiting import wait_until
from tests.outcomes.relay import Relay
from tests.outcomes.targets import DISTANT, LOST, ORDERS, QUEUE, QUORUM, SOURCE, VHOST, doomed, lost

READER, WRITER = "gateway", "gateway-writer"
TRAINEE: Final = "trainee"
"""A user who may send SET, and whom no rule permits any change."""
POLICY: Final = "limits"
SHOVEL: Final = "moves"
_SHOVEL: Final = {
    "src-uri": "amqp://somebody:hush@127.0.0.1:1/",
    "src-queue": "a",
    "dest-uri": "amqp://",
    "dest-queue": "b",
    "reconnect-delay": 600,
}
_PLUGINS: Final = ("rabbitmq_shovel", "rabbitmq_shovel_management")


@dataclass(frozen=True, slots=True)
class Scene(OperatedGateway):
    """The running broker, relay and gateway.

    Attributes:
        broker: the broker, with the virtual host `VHOST` and the queue `QUEUE` in it.
        passwords: the passwords of `READER` and `WRITER`.
        relay: the relay from the source `DISTANT` to the broker.
        site: the gateway's folder.
        gateway: the running command.
        jmx_port: the port of JMX on loopback.
    """

    broker: PrivateBroker
    passwords: Mapping[str, str] = field(repr=False)
    relay: Relay
    site: Site
    gateway: RunningCommand
    jmx_port: int

    def logged(self, operation_id: str, *, state: str = "ended") -> dict[str, Any]:
        """Return the record of an operation with an outcome in the event log, as soon as there is one."""
        found: list[dict[str, Any]] = []

        def is_reported() -> bool:
            sql = (
                "SELECT principal, outcome, state, method, element, code, text, latency_ns, former, found, "
                "\"values\" FROM log WHERE kind = 'operation' AND operation_id = $id AND state = $state"
            )
            found[:] = self.ask_log(sql, id=operation_id, state=state)
            return bool(found)

        wait_until(is_reported, f"{operation_id} is logged as {state}")
        return found[-1]

    def limits(self, *, by_rabbitmqctl: bool = False) -> dict[str, int]:
        """Return the limits of the virtual host according to RabbitMQ; its own command takes seconds."""
        if by_rabbitmqctl:
            listed = self.broker.rabbitmqctl("list_vhost_limits", "-p", VHOST, "--formatter", "json")
            reported = json.loads(listed)
            return dict(json.loads(reported["value"])) if reported else {}  # a list where there are none
        with self.broker.http() as http:
            limits = http.get(f"vhost-limits/{VHOST}").raise_for_status().json()
        return {name: number for limit in limits for name, number in limit["value"].items()}

    def limit_behind_its_back(self, connections: int | None) -> None:
        """Set or clear the limit of connections of the virtual host, as another user would."""
        with self.broker.http() as http:
            path = f"vhost-limits/{VHOST}/max-connections"
            answer = http.delete(path) if connections is None else http.put(path, json={"value": connections})
            answer.raise_for_status()

    def tag_writer(self, tags: str) -> None:
        """Replace the tags of the writing account."""
        with self.broker.http() as http:
            changed = {"password": self.passwords[WRITER], "tags": tags}
            http.put(f"users/{WRITER}", json=changed).raise_for_status()

    def depth(self, *, by_rabbitmqctl: bool = False) -> int:
        """Return the number of messages in the queue according to RabbitMQ; its own command takes seconds."""
        if not by_rabbitmqctl:
            return asyncio.run(self._depth_by_amqp())  # as it is: the management API counts late
        reported = self.broker.rabbitmqctl(
            "list_queues", "-p", VHOST, "name", "messages", "--formatter", "json"
        )
        return {row["name"]: int(row["messages"]) for row in json.loads(reported)}[QUEUE]

    async def _depth_by_amqp(self) -> int:
        async with await aio_pika.connect(self.broker.amqp_url(vhost=VHOST)) as connection:
            channel = await connection.channel()
            queue = await channel.declare_queue(QUEUE, passive=True)
            return queue.declaration_result.message_count or 0

    def fill(self, messages: int) -> None:
        """Replace the messages in the queue by so many new ones."""
        with self.broker.http() as http:
            http.delete(f"queues/{VHOST}/{QUEUE}/contents").raise_for_status()
            for _ in range(messages):
                body = {"properties": {}, "routing_key": QUEUE, "payload": "x", "payload_encoding": "string"}
                http.post(f"exchanges/{VHOST}/amq.default/publish", json=body).raise_for_status()
        wait_until(lambda: self.depth() == messages, "all messages are in the queue")

    def well_again(self) -> None:
        """Wait until all sources are synchronised, as is necessary after a start or standstill."""
        self.are_all("synchronised")


@contextmanager
def scene(folder: Path, settings: BrokerSettings) -> Iterator[Scene]:
    """Provide a gateway whose operator may carry out all operations of the tests, until the block ends."""
    with PrivateBroker(settings=replace(settings, plugins=_PLUGINS)) as broker:
        broker.start()
        passwords = _prepare(broker)
        with Relay(broker.ports.management) as relay:
            site, jmx_port = new_site(folder), free_tcp_port()
            near = source(site, broker, passwords) | near_by(broker)
            distant = source(site, broker, passwords) | {"management": f"http://127.0.0.1:{relay.port}"}
            configure(site, {SOURCE: near, DISTANT: distant}, jmx_port, deadline="5s")
            with running_gateway(site) as gateway:
                there = Scene(broker, passwords, relay, site, gateway, jmx_port)
                there.well_again()
                yield there


@contextmanager
def crowded_scene(
    there: Scene, folder: Path, max_running: int, *, has_events: bool = False
) -> Iterator[Scene]:
    """Provide another gateway at the same broker, with few and possibly long concurrent operations.

    Its requests go through a relay of its own, like those of the distant source of ``there``. Where it
    ``has_events``, it receives those of the broker, and reads it as the near source does.
    """
    site, jmx_port = new_site(folder), free_tcp_port()
    with Relay(there.broker.ports.management) as relay:
        distant = source(site, there.broker, there.passwords) | {
            "management": f"http://127.0.0.1:{relay.port}"
        }
        distant |= near_by(there.broker) if has_events else {}
        configure(site, {SOURCE: distant}, jmx_port, deadline="60s", max_running=max_running)
        with running_gateway(site) as gateway:
            crowded = replace(there, relay=relay, site=site, gateway=gateway, jmx_port=jmx_port)
            crowded.well_again()
            yield crowded


@contextmanager
def running_gateway(site: Site) -> Iterator[RunningCommand]:
    """Provide the gateway of a folder, as soon as it is ready."""
    with running("run", "--config", site.configuration, log=site.folder / "gateway.log") as gateway:
        gateway.ready()
        yield gateway


def source(site: Site, broker: PrivateBroker, passwords: Mapping[str, str]) -> dict[str, Any]:
    """Return the configuration of a source that reads the broker once an hour, and may change it."""
    return {
        "kind": "rabbitmq",
        "management": broker.management_url,
        "user": READER,
        "password": site.secret(passwords[READER]),
        "interval": "1h",
        "budget": 0.5,
        "writing": {"user": WRITER, "password": site.secret(passwords[WRITER])},
    }


def near_by(broker: PrivateBroker) -> dict[str, Any]:
    """Return the settings of a source that reads the broker every 2 s, and receives its events."""
    return {"events": {"url": f"amqp://127.0.0.1:{broker.ports.amqp}"}, "interval": "2s"}


def configure(site: Site, sources: Mapping[str, Any], jmx_port: int, **operations: object) -> None:
    """Write the gateway's configuration; ``operations`` are further settings of that section."""
    site.configure(
        sources=sources,
        snmp={"listen": [f"127.0.0.1:{site.snmp_port}"], "writers": {OPERATOR: {}, TRAINEE: {}}},
        jmx={"enabled": True, "listen": f"127.0.0.1:{jmx_port}", "users": {OPERATOR: {}, "monitor": {}}},
        policy={"principals": {"*": ["everything"]}},
        operations={
            "allow": [
                {
                    "who": [f"snmp:{OPERATOR}", f"jmx:{OPERATOR}", f"cli:{getpass.getuser()}"],
                    "set": ["*", "maxConnections", "maxChannels"],
                    "invoke": ["purge", "start", "setMaxQueues"],
                    "read": True,
                },
                {
                    "who": [f"snmp:{OPERATOR}", f"jmx:{OPERATOR}", f"cli:{getpass.getuser()}"],
                    "objects": [f"{VHOST}|{LOST}*"],
                    "invoke": ["delete"],
                },
            ],
            **operations,
        },
    )


def _prepare(broker: PrivateBroker) -> dict[str, str]:
    """Create the broker's objects and users, and return the passwords of the gateway's users."""
    everything = {"configure": ".*", "write": ".*", "read": ".*"}
    with broker.http() as http:

        def put(path: str, body: Mapping[str, object]) -> None:
            http.put(path, json=body).raise_for_status()

        put(f"vhosts/{VHOST}", {"description": "sells", "tags": "live,old"})
        put(f"permissions/{VHOST}/{broker.administrator.name}", everything)
        for queue in (ORDERS, *doomed("queue"), *lost("queue")):
            kind = {"arguments": {"x-queue-type": "quorum"}} if queue == QUORUM else {}
            put(f"queues/{VHOST}/{queue.names[-1]}", {"durable": True, **kind})
        for exchange in lost("exchange"):
            put(f"exchanges/{VHOST}/{exchange.names[-1]}", {"type": "fanout", "durable": True})
        policies = (*doomed("policy"), *lost("policy"))
        for number, name in enumerate((POLICY, *(policy.names[-1] for policy in policies))):
            policy = {"pattern": f"^{name}", "definition": {"max-length": 10_000}, "priority": number}
            put(f"policies/{VHOST}/{name}", policy)
        put(f"parameters/shovel/{VHOST}/{SHOVEL}", {"value": _SHOVEL})
        reading = gateway_rights(watched=("/", VHOST))
        writing = UserRights(("administrator",), (watching("/"), Grant(VHOST, *[(".*",)] * 3)))
        users = tuple(
            ProvisionedUser(name, Credentials.generate(name).password, rights)
            for name, rights in ((READER, reading), (WRITER, writing))
        )
        provision(http, users)
    return {user.name: user.password for user in users}
