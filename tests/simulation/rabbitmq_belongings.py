"""Dependents of connections, queues, exchanges and virtual hosts of a simulated RabbitMQ; and users."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final, Protocol

from gateway.model.times import MILLISECOND, SECOND
from tests.simulation.rabbitmq_documents import NODE
from tests.simulation.scheduler import Scheduler
from tests.simulation.truth import Thing

_NAMES = ("one", "two")
_COMPONENT = "shovel"

Reported = tuple[str, dict[str, object]]
"""The routing key and the headers of an event."""


class Broker(Protocol):
    """The broker of these objects (`tests.simulation.rabbitmq.RabbitMq`)."""

    things: dict[tuple[str, ...], Thing]

    def add(
        self,
        class_name: str,
        parts: tuple[str, ...],
        values: dict[str, object],
        *,
        durable: bool,
        announced: bool = True,
    ) -> Thing:
        """Add a thing."""

    def end(self, thing: Thing, by: str = "somebody") -> None:
        """End a thing on behalf of a user."""

    def emit(self, key: str, /, **headers: object) -> None:
        """Publish an event."""

    def some_host(self) -> str:
        """Return a random virtual host."""

    @property
    def next_serial(self) -> int:
        """The mark of the next thing."""


class Belongings:
    """The dependent objects of a broker; the seed creates them, and they end with the object they depend on.

    Args:
        scheduler: time and chance.
        broker: the broker of the objects.
    """

    def __init__(self, scheduler: Scheduler, broker: Broker) -> None:
        self._scheduler = scheduler
        self._broker = broker

    def live(self) -> None:
        """Create a random object."""
        actions = (
            self._channel,
            self._consumer,
            self._bind,
            self._set_policy,
            self._set_parameter,
            self._user,
        )
        self._scheduler.random.choices(actions, weights=(4, 4, 4, 2, 1, 1))[0]()

    def of(self, thing: Thing) -> Iterator[Thing]:
        """Yield the things that end before a thing does, where events report these ends."""
        kind = thing.class_name.partition(":")[2]
        name = thing.name.rpartition("|")[2].encode()
        host = thing.now("vhost") if kind in {"queue", "exchange"} else None
        for (other_kind, *parts), other in tuple(self._broker.things.items()):
            match kind, other_kind:
                case "connection", "channel":
                    hangs = parts[0].rpartition(" (")[0].encode() == name
                case "channel", "consumer":
                    hangs = other.now("channel") == name
                case "queue", "consumer":
                    hangs = (other.now("vhost"), other.now("queue")) == (host, name)
                case "queue", "binding":
                    hangs = (other.now("vhost"), other.now("destination")) == (host, name)
                case "exchange", "binding":
                    hangs = (other.now("vhost"), other.now("source")) == (host, name)
                case _:
                    hangs = False
            if hangs:
                yield other

    def publish_policy(self, policy: Thing) -> None:
        """Publish the event that a policy was set."""
        host, name = policy.name.split("|")
        self._broker.emit("policy.set", vhost=host, name=name)

    def _some(self, class_name: str) -> tuple[list[str], Thing] | None:
        found = [
            (parts, thing) for (kind, *parts), thing in self._broker.things.items() if kind == class_name
        ]
        return self._scheduler.random.choice(found) if found else None

    def _channel(self) -> None:
        found = self._some("connection")
        if found is None:
            return
        (connection,), thing = found
        serial = self._broker.next_serial
        name, host = f"{connection} ({serial})", _text(thing, "vhost")
        values: dict[str, object] = {"name": name, "number": serial, "user": "app", "vhost": host}
        # One on a connection that was opened unheard is shown by its listing, if it lives so long.
        channel = self._broker.add("channel", (name,), values, durable=False, announced=False)
        self._broker.emit(
            "channel.created",
            pid=f"<rabbit.{serial}.1>",
            name=name,
            number=serial,
            user="app",
            vhost=host,
            connection=f"<rabbit.{thing.serial}.0>",
        )
        self._perhaps_brief(channel)

    def _consumer(self) -> None:
        queue, channel = self._some("queue"), self._some("channel")
        if queue is None or channel is None:
            return
        (host, name), _ = queue
        (on,), thing = channel
        if _text(thing, "vhost") != host:
            return
        tag = f"tag-{self._broker.next_serial}"
        values: dict[str, object] = {
            "vhost": host,
            "queue": name,
            "channel": on,
            "tag": tag,
            "acknowledging": True,
        }
        # Of one on a channel that was opened unheard no event can be understood.
        consumer = self._broker.add("consumer", (host, name, on, tag), values, durable=False, announced=False)
        self._broker.emit(
            "consumer.created",
            consumer_tag=tag,
            channel=f"<rabbit.{thing.serial}.1>",
            queue=name,
            vhost=host,
            ack_required=True,
            exclusive=False,
            prefetch_count=0,
            arguments=[],
        )
        self._perhaps_brief(consumer)

    def _bind(self) -> None:
        queue, exchange = self._some("queue"), self._some("exchange")
        if queue is None or exchange is None:
            return
        (host, destination), to = queue
        (source_host, source), of = exchange
        if source_host != host or not source:
            return
        key = f"k{self._broker.next_serial}"
        values: dict[str, object] = {
            "vhost": host,
            "source": source,
            "destinationType": "queue",
            "destination": destination,
            "propertiesKey": key,
            "routingKey": key,
        }
        parts = (host, source, "queue", destination, key)
        binding = self._broker.add("binding", parts, values, durable=to.durable and of.durable)
        self._broker.emit("binding.created", **_bound(parts))
        self._perhaps_brief(binding)

    def _set_policy(self) -> None:
        host, name = self._broker.some_host(), self._scheduler.random.choice(_NAMES)
        if ("policy", host, name) in self._broker.things:
            return
        values: dict[str, object] = {
            "vhost": host,
            "name": name,
            "pattern": "^x",
            "appliesTo": "queues",
            "priority": 0,
        }
        # The event only says that there is something to be read.
        policy = self._broker.add("policy", (host, name), values, durable=True, announced=False)
        self.publish_policy(policy)

    def _set_parameter(self) -> None:
        host, name = self._broker.some_host(), self._scheduler.random.choice(_NAMES)
        parts = (host, _COMPONENT, name)
        if ("parameter", *parts) in self._broker.things:
            return
        values: dict[str, object] = {"vhost": host, "component": _COMPONENT, "name": name}
        self._broker.add("parameter", parts, values, durable=True, announced=False)
        self._broker.emit("parameter.set", vhost=host, component=_COMPONENT, name=name)

    def _user(self) -> None:
        name = f"user-{self._broker.next_serial}"
        # As with a policy: a user that ends before it is listed, while events wait, is only told by events.
        self._broker.add("user", (name,), {"name": name}, durable=True, announced=False)
        self._broker.emit("user.created", name=name)

    def _perhaps_brief(self, thing: Thing) -> None:
        if self._scheduler.random.random() < 0.2:
            lifetime = self._scheduler.between(MILLISECOND, SECOND)
            self._scheduler.after(lifetime, lambda: self._broker.end(thing))


def _text(thing: Thing, element: str) -> str:
    value = thing.now(element)
    assert isinstance(value, bytes)
    return value.decode()


def _bound(parts: tuple[str, ...]) -> dict[str, object]:
    host, source, kind, destination, key = parts
    return {
        "vhost": host,
        "source_name": source,
        "source_kind": "exchange",
        "destination_name": destination,
        "destination_kind": kind,
        "routing_key": key,
        "arguments": [],
    }


ENDS: Final[Mapping[str, Callable[[list[str], int], Reported]]] = {
    "channel": lambda parts, serial: (
        "channel.closed",
        {"pid": f"<rabbit.{serial}.1>", "name": parts[0], "node": NODE},
    ),
    "consumer": lambda parts, _: (
        "consumer.deleted",
        {"vhost": parts[0], "queue": parts[1], "consumer_tag": parts[3]},
    ),
    "binding": lambda parts, _: ("binding.deleted", _bound((*parts,))),
    "policy": lambda parts, _: ("policy.cleared", {"vhost": parts[0], "name": parts[1]}),
    "parameter": lambda parts, _: (
        "parameter.cleared",
        {"vhost": parts[0], "component": parts[1], "name": parts[2]},
    ),
    "user": lambda parts, _: ("user.deleted", {"name": parts[0]}),
}
"""The event of each end, by class."""
