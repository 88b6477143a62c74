"""A simulated RabbitMQ: its objects, their changes, and its events."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from gateway.mapping.paths import Json
from gateway.model.times import MILLISECOND, SECOND
from tests.simulation.rabbitmq_belongings import ENDS, Belongings
from tests.simulation.rabbitmq_documents import MARKS, NODE, STATISTICS, document_of
from tests.simulation.scheduler import Clock, Scheduler
from tests.simulation.truth import Thing, Truth

STATISTICS_INTERVAL = 5 * SECOND
"""The interval of RabbitMQ's statistics; until then the management API shows the former values."""
KNOWN_AFTER = 180 * SECOND
"""The longest time until the gateway detects that it may read a virtual host again, under any faults."""

_HOSTS = ("/", "shop", "stock")
_QUEUES = ("orders", "bills", "mail", "jobs")
_EXCHANGES = ("in", "out")
_PORTS = (5001, 5002, 5003)
NO_LIMIT = -1
_CARRIERS = {"queue": "arguments", "exchange": "arguments", "policy": "definition", "parameter": "value"}
"""The element of a class that carries the serial."""
_FILTERED = frozenset({"queue", "exchange", "binding", "consumer"})
"""The classes that are not shown for a virtual host that may not be read."""
_OPEN = frozenset({"connection", "channel", "consumer"})
"""The classes whose objects end with the broker's process."""


class EventListener(Protocol):
    """A listener that is bound to the event exchange."""

    def event(self, key: str, headers: Mapping[str, object]) -> None:
        """Process a published event."""

    def broker_stopped(self) -> None:
        """Process the end of the broker."""


class RabbitMq:
    """One broker.

    Args:
        scheduler: time and chance.
        truth: the record of the true state.
        source: the name of the source in the gateway.
        clock: the clock of the broker's machine.

    Attributes:
        things: all existing things, by class and index.
        documents: the constant part of the document of each thing in listings, by its serial.
        forbidden: virtual hosts that the gateway may not read.
        limits: the limits of connections, by virtual host.
        process: the id of the operating system's process; it differs after each start.
        started: the time of the last start.
    """

    def __init__(self, scheduler: Scheduler, truth: Truth, source: str, clock: Clock) -> None:
        self.up = True
        self.alarm = False
        self.listeners: list[EventListener] = []
        self.source = source
        self._scheduler = scheduler
        self._truth = truth
        self._clock = clock
        self.things: dict[tuple[str, ...], Thing] = {}
        self.documents: dict[int, dict[str, Json]] = {}
        self.forbidden: set[str] = set()
        self.limits: dict[str, int] = {}
        self._permitted_at: dict[str, int] = {}
        self._published: dict[int, int] = {}
        self._purged: set[int] = set()
        self.process = 100
        self.started = scheduler.now
        truth.starts.setdefault(source, []).append(self.started)
        self.belongings = Belongings(scheduler, self)
        truth.marks |= MARKS
        truth.statistics |= STATISTICS
        truth.apart |= {"maxConnections"}
        truth.parents |= {f"rabbitmq:{name}": "vhost" for name in ("queue", "exchange", "connection")}
        self.add("node", (NODE,), {"name": NODE, "running": True, "memoryAlarm": False}, durable=True)
        self._add_host("/")
        for _ in range(10):
            self.live()
        self._publish_statistics()

    @property
    def next_serial(self) -> int:
        """The mark of the next thing."""
        return self._truth.next_serial

    # ---- what happens ---------------------------------------------------------------------------------

    def live(self) -> None:
        """Make one random change."""
        if not self.up:
            return
        actions: tuple[Callable[[], object], ...] = (
            self._change_hosts,
            self._add_queue,
            self._add_exchange,
            self._open,
            self._end_one,
            self._publish,
            self.belongings.live,
        )
        self._scheduler.random.choices(actions, weights=(1, 4, 2, 4, 4, 6, 6))[0]()

    def set_alarm(self, *, raised: bool) -> None:
        """Raise or clear the memory alarm of the node."""
        if self.up and raised is not self.alarm:
            self.alarm = raised
            node = self.things["node", NODE]
            self._truth.change(node, self._scheduler.now, {"memoryAlarm": raised})
            self.emit("alarm.set" if raised else "alarm.cleared", node=NODE, source="memory")

    def forbid(self) -> None:
        """Revoke the permission of the gateway's user in a random virtual host."""
        hosts = [parts[0] for kind, *parts in self.things if kind == "vhost"]
        host = self._scheduler.random.choice(hosts)
        self._scheduler.note(self.source, f"forbids {host}")
        self.forbidden.add(host)
        self._hide(host, hidden=True)

    def permit(self) -> None:
        """Restore all permissions of the gateway's user."""
        for host in self.forbidden:
            self._permitted_at[host] = self._scheduler.now
            self._hide(host, hidden=False)
        self.forbidden.clear()

    def stop(self) -> None:
        """Stop the broker; transient objects are lost without an event."""
        self._scheduler.note(self.source, "stops")
        self.up = False
        for listener in tuple(self.listeners):
            listener.broker_stopped()
        for (kind, *_), thing in tuple(self.things.items()):
            if kind in _OPEN or (kind in {"queue", "exchange", "binding"} and not thing.durable):
                self._gone(thing)
        for thing in self.things.values():
            restart = STATISTICS & thing.values.keys()
            self._truth.change(thing, self._scheduler.now, dict.fromkeys(restart))
        self._published.clear()

    def start(self) -> None:
        """Start the broker again, in another process."""
        self._scheduler.note(self.source, "starts")
        self.up = True
        self.process += 1
        self.started = self._scheduler.now
        self._truth.starts[self.source].append(self.started)
        if self.alarm:
            self.alarm = False
            node = self.things["node", NODE]
            self._truth.change(node, self._scheduler.now, {"memoryAlarm": False})
        self._publish_recovered()

    def _publish_recovered(self) -> None:
        """Report the durable queues as created, as RabbitMQ does; a durable subscription receives that."""
        for (kind, *parts), thing in tuple(self.things.items()):
            if kind == "queue":
                self.emit(
                    "queue.created",
                    vhost=parts[0],
                    name=parts[1],
                    durable=True,
                    auto_delete=False,
                    exclusive=False,
                    arguments=[f'{{<<"x-serial">>,long,{thing.serial}}}'],
                )

    def _publish_statistics(self) -> None:
        """Report the statistics of queues and exchanges to the management database."""
        if self.up:
            for (kind, *_), thing in self.things.items():
                published = self._published.get(thing.serial)
                if kind == "queue":
                    purged = thing.serial in self._purged
                    values: dict[str, object] = {
                        "messages": 0 if purged else (published or 0) % 7,
                        "messagesPublished": published,
                    }
                    self._truth.change(thing, self._scheduler.now, values)
                elif kind == "exchange":
                    self._truth.change(thing, self._scheduler.now, {"messagesPublishedIn": published})
        self._scheduler.after(STATISTICS_INTERVAL, self._publish_statistics)

    def _change_hosts(self) -> None:
        host = self._scheduler.random.choice(_HOSTS[1:])
        thing = self.things.get(("vhost", host))
        if thing is None:
            self._add_host(host)
        elif self._scheduler.random.random() < 0.3:
            for inside in tuple(self.things.values()):
                if "vhost" in inside.values and inside.now("vhost") == host.encode():
                    self.end(inside)
            self.limits.pop(host, None)
            self._truth.change(thing, self._scheduler.now, {"maxConnections": NO_LIMIT})
            self.end(thing)
            self.forbidden.discard(host)

    def _add_host(self, host: str) -> None:
        mark = f"host {self._truth.next_serial}"
        values: dict[str, object] = {"name": host, "description": mark, "maxConnections": None}
        thing = self.add("vhost", (host,), values, durable=True)
        # Its event does not tell limits: until they are read nobody knows that there is none.
        self._truth.change(thing, self._scheduler.now, {"maxConnections": NO_LIMIT})
        self.emit("vhost.created", name=host, description=mark, tags=[])
        self._exchange(host, "")

    def _add_queue(self) -> None:
        random = self._scheduler.random
        host = self.some_host()
        name = random.choice(_QUEUES)
        durable, exclusive = random.random() < 0.6, random.random() < 0.2
        if ("queue", host, name) in self.things:
            return
        values = {
            "vhost": host,
            "name": name,
            "durable": durable,
            "autoDelete": False,
            "exclusive": exclusive,
            "messages": None,
            "messagesPublished": None,
        }
        serial = self._truth.next_serial
        queue = self.add("queue", (host, name), values, durable=durable and not exclusive)
        self.emit(
            "queue.created",
            vhost=host,
            name=name,
            durable=durable,
            auto_delete=False,
            exclusive=exclusive,
            arguments=[f'{{<<"x-serial">>,long,{serial}}}'],
        )
        if random.random() < 0.3:  # declared, used and deleted at once
            self._scheduler.after(self._scheduler.between(MILLISECOND, SECOND), lambda: self.end(queue))

    def _add_exchange(self) -> None:
        host = self.some_host()
        name = self._scheduler.random.choice(_EXCHANGES)
        if ("exchange", host, name) not in self.things:
            self._exchange(host, name)

    def _exchange(self, host: str, name: str) -> None:
        durable = not name or self._scheduler.random.random() < 0.7
        values = {
            "vhost": host,
            "name": name,
            "type": "direct",
            "durable": durable,
            "messagesPublishedIn": None,
        }
        serial = self._truth.next_serial
        self.add("exchange", (host, name), values, durable=durable)
        self.emit(
            "exchange.created",
            vhost=host,
            name=name,
            type="direct",
            durable=durable,
            auto_delete=False,
            internal=False,
            arguments=[f'{{<<"x-serial">>,long,{serial}}}'],
        )

    def _open(self) -> None:
        random = self._scheduler.random
        name = f"127.0.0.1:{random.choice(_PORTS)} -> 127.0.0.1:5672"
        if ("connection", name) in self.things:
            return
        host, serial = self.some_host(), self._truth.next_serial
        values: dict[str, object] = {
            "name": name,
            "providedName": f"client {serial}",
            "user": "app",
            "vhost": host,
        }
        connected = self._clock.now() // MILLISECOND
        connection = self.add("connection", (name,), values, durable=False)
        self.documents[serial]["connected_at"] = connected
        self.emit(
            "connection.created",
            pid=f"<rabbit.{serial}.0>",
            name=name,
            user="app",
            vhost=host,
            node=NODE,
            user_provided_name=f"client {serial}",
            connected_at=connected,
            client_properties=[],
        )
        if random.random() < 0.5:
            lifetime = self._scheduler.between(MILLISECOND, 3 * SECOND)
            self._scheduler.after(lifetime, lambda: self.end(connection))

    def _end_one(self) -> None:
        candidates = [
            thing
            for (kind, *parts), thing in self.things.items()
            if kind not in {"node", "vhost", "exchange"} or (kind == "exchange" and parts[1])
        ]
        if candidates:
            self.end(self._scheduler.random.choice(candidates))

    def _publish(self) -> None:
        busy = [thing for (kind, *_), thing in self.things.items() if kind in {"queue", "exchange"}]
        if busy:
            thing = self._scheduler.random.choice(busy)
            more = self._scheduler.random.randrange(1, 100)
            self._published[thing.serial] = self._published.get(thing.serial, 0) + more
            self._purged.discard(thing.serial)

    # ---- what is done by whoever may ------------------------------------------------------------------

    def set_limit(self, host: str, connections: int) -> bool:
        """Limit the connections of a virtual host, and return whether the virtual host exists."""
        thing = self.things.get(("vhost", host))
        if thing is not None:
            self.limits[host] = connections
            self._truth.change(thing, self._scheduler.now, {"maxConnections": connections})
            self.emit("parameter.set", component="vhost-limits", name="limits", vhost=host)
        return thing is not None

    def set_priority(self, policy: Thing, priority: int) -> None:
        """Set the priority of a policy."""
        self._truth.change(policy, self._scheduler.now, {"priority": priority})
        self.belongings.publish_policy(policy)

    def purge(self, queue: Thing) -> None:
        """Remove all messages of a queue."""
        self._purged.add(queue.serial)

    # ---- the parts of it ------------------------------------------------------------------------------

    def some_host(self) -> str:
        """Return a random virtual host."""
        hosts = [parts[0] for kind, *parts in self.things if kind == "vhost"]
        return self._scheduler.random.choice(hosts)

    def add(
        self,
        class_name: str,
        parts: tuple[str, ...],
        values: dict[str, object],
        *,
        durable: bool,
        announced: bool = True,
    ) -> Thing:
        """Add a thing; ``announced`` says whether an event describes it in full."""
        serial = self._truth.next_serial
        if class_name in _CARRIERS:
            values[_CARRIERS[class_name]] = f'{{"x-serial":{serial}}}'
        now = self._scheduler.now
        thing = self._truth.create(
            self.source, f"rabbitmq:{class_name}", "|".join(parts), now, values, durable=durable
        )
        thing.announced = announced
        if class_name in _FILTERED:
            thing.hidden = parts[0] in self.forbidden
            known_since = self._permitted_at.get(parts[0], -KNOWN_AFTER) + KNOWN_AFTER
            thing.announced &= not thing.hidden and now >= known_since
        self.things[class_name, *parts] = thing
        self.documents[serial] = document_of(class_name, values, serial)
        self._scheduler.note(self.source, f"creates {thing}")
        return thing

    def end(self, thing: Thing, by: str = "somebody") -> None:
        """End a thing on behalf of a user, and emit the event; do nothing if it has already ended."""
        if not thing.exists or not self.up:
            return
        user = {"user_who_performed_action": by}
        for other in self.belongings.of(thing):
            self.end(other, by)
        kind = thing.class_name.partition(":")[2]
        parts = self._gone(thing)
        if self.source in self._truth.kept:
            self._truth.kept[self.source].reported.add(thing.serial)
        if kind in ENDS:
            event, headers = ENDS[kind](parts, thing.serial)
            self.emit(event, **headers, **user)
            return
        match kind:
            case "connection":
                pid = f"<rabbit.{thing.serial}.0>"
                self.emit("connection.closed", pid=pid, name=parts[0], node=NODE, client_properties=[])
            case "vhost":
                self.emit("vhost.deleted", name=parts[0], **user)
            case _:
                self.emit(f"{kind}.deleted", vhost=parts[0], name=parts[1], **user)

    def _gone(self, thing: Thing) -> list[str]:
        key = next(key for key, known in self.things.items() if known is thing)
        del self.things[key]
        self._truth.end(thing, self._scheduler.now)
        self._scheduler.note(self.source, f"ends {thing}")
        return list(key[1:])

    def _hide(self, host: str, *, hidden: bool) -> None:
        for thing in self._truth.things.values():
            inside = "vhost" in thing.values and thing.now("vhost") == host.encode()
            is_filtered = thing.class_name.removeprefix("rabbitmq:") in _FILTERED
            if thing.source == self.source and inside and is_filtered:
                if not hidden:
                    thing.hidden = False
                elif thing.exists:
                    thing.hidden = True
                thing.hidden_until = self._scheduler.now

    def emit(self, key: str, /, **headers: object) -> None:
        """Publish an event."""
        stamped = {"timestamp_in_ms": self._clock.now() // MILLISECOND, **headers}
        for listener in self.listeners:
            listener.event(key, stamped)
