"""A managed application with scripted objects, and its QMF agent in a process that may die."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from uuid import UUID

from gateway.dialects.effects import Delivery, Effect, WakeAt
from gateway.dialects.qmf.agent import AgentConfig, AgentSession, ManagedObject
from gateway.mapping.rules import Mapping as MappingFile
from gateway.model.schema import ClassKey, ClassSchema, Element, Kind, NamedValue
from gateway.model.values import Reference, Value, ValueType
from gateway.snmp.lock import Lock
from gateway.snmp.lock_growth import extend, new_lock
from tests.simulation.amqp import AmqpBroker, AmqpClient
from tests.simulation.conversation import Conversation
from tests.simulation.scheduler import MILLISECOND, SECOND, Clock, Scheduler, Timer
from tests.simulation.site import AGENT_USER, CONSOLE_USER
from tests.simulation.truth import Thing, Truth

PACKAGE = "plant"
PUBLISH_INTERVAL = 5 * SECOND
FLUSH_DELAY = 20 * MILLISECOND

HALL = ClassSchema(
    ClassKey(PACKAGE, "hall"),
    properties=(
        Element("name", ValueType.STRING, index=True, max_length=255),
        Element("serial", ValueType.U64),
    ),
)
MACHINE = ClassSchema(
    ClassKey(PACKAGE, "machine"),
    properties=(
        Element("hall", ValueType.REFERENCE, index=True, references="hall"),
        Element("name", ValueType.STRING, index=True, max_length=255),
        Element("serial", ValueType.U64),
        Element("state", ValueType.STRING, values=(NamedValue("idle", "idle"), NamedValue("busy", "busy"))),
        Element("note", ValueType.STRING, optional=True, max_length=255),
    ),
    statistics=(
        Element("load", ValueType.U64, kind=Kind.GAUGE),
        Element("done", ValueType.U64, kind=Kind.COUNTER),
    ),
)
JOB = ClassSchema(
    ClassKey(PACKAGE, "job"),
    properties=(
        Element("name", ValueType.STRING, index=True, max_length=255),
        Element("serial", ValueType.U64),
        Element("machine", ValueType.REFERENCE, optional=True, references="machine"),
    ),
    statistics=(Element("steps", ValueType.U64, kind=Kind.COUNTER),),
)
SCHEMAS = (HALL, MACHINE, JOB)
_KEYS = {schema.key.name: schema.key for schema in SCHEMAS}

MAPPING = MappingFile.model_validate(
    {
        "version": 1,
        "package": PACKAGE,
        "module": "PLANT-MIB",
        "prefix": "plt",
        "classes": {
            "hall": {"properties": {"name": {}, "serial": {}}},
            "machine": {
                "parent": "hall",
                "name": "name",
                "alarms": {
                    "busy": {
                        "element": "state",
                        "equals": "busy",
                        "severity": "minor",
                        "text": "{name} is busy",
                    }
                },
                "properties": {
                    "hall": {},
                    "name": {},
                    "serial": {},
                    "state": {"values": ["idle", "busy"]},
                    "note": {},
                },
                "statistics": {"load": {}, "done": {"kind": "counter"}},
            },
            "job": {
                "parent": "machine",
                "lifetime": {"default": "transient"},
                "properties": {"name": {}, "serial": {}, "machine": {}},
                "statistics": {"steps": {"kind": "counter"}},
            },
        },
    }
)
LOCK: Lock = extend(
    new_lock(PACKAGE, 900, "PLANT-MIB", "plt", dt.date(2026, 5, 1)), SCHEMAS, dt.date(2026, 5, 1)
)

_HALLS = ("north", "south")
_MACHINES = ("lathe", "mill", "press", "saw")
_JOBS = tuple(f"job-{number}" for number in range(5))


class Plant:
    """Halls, machines in halls, jobs on machines: they come, change and go as the seed will have it.

    Args:
        scheduler: time and chance.
        truth: told all of it.
        source: the name of the source in the gateway.
        clock: of the plant's machine.
    """

    def __init__(self, scheduler: Scheduler, truth: Truth, source: str, clock: Clock) -> None:
        self.source = source
        self.clock = clock
        self.created: dict[int, int] = {}
        self.things: dict[tuple[str, str], Thing] = {}
        self.links: dict[int, dict[str, Thing]] = {}
        self.listener: PlantAgent | None = None
        self._scheduler = scheduler
        self._truth = truth
        truth.marks |= {f"{PACKAGE}:{schema.key.name}": "serial" for schema in SCHEMAS}
        truth.parents |= {f"{PACKAGE}:machine": "hall", f"{PACKAGE}:job": "machine"}
        for _ in range(12):
            self.live()

    def live(self) -> None:
        """Something happens."""
        random = self._scheduler.random
        actions: list[Callable[[], None]] = [self._create, self._end, self._restart_counter]
        random.choices([*actions, self._change], weights=(3, 2, 1, 6))[0]()

    def _create(self) -> None:
        random = self._scheduler.random
        match random.choice(("hall", "machine", "machine", "job", "job", "brief")):
            case "hall":
                self._add("hall", random.choice(_HALLS), {}, {}, durable=True)
            case "machine":
                hall = self.things.get(("hall", random.choice(_HALLS)))
                if hall is not None:
                    leaf = random.choice(_MACHINES)
                    values = {"state": "idle", "note": None, "load": 0, "done": random.choice((0, 7, None))}
                    self._add("machine", f"{hall.name}|{leaf}", values, {"hall": hall}, durable=True)
            case "job":
                self._add_job()
            case _:
                # Created and ended before anybody can have looked.
                job = self._add_job()
                if job is not None:
                    lifetime = self._scheduler.between(MILLISECOND, 500 * MILLISECOND)
                    self._scheduler.after(lifetime, lambda: self._remove(job))

    def _add_job(self) -> Thing | None:
        random = self._scheduler.random
        machines = [thing for (class_name, _), thing in self.things.items() if class_name == "machine"]
        links = {"machine": random.choice(machines)} if machines and random.random() < 0.7 else {}
        return self._add("job", random.choice(_JOBS), {"steps": 0}, links, durable=False)

    def _add(
        self,
        class_name: str,
        name: str,
        values: Mapping[str, object],
        links: dict[str, Thing],
        *,
        durable: bool,
    ) -> Thing | None:
        if (class_name, name) in self.things:
            return None
        now = self._scheduler.now
        leaf = name.rpartition("|")[2]
        shown = {"name": leaf, **values, **{element: target.name for element, target in links.items()}}
        if class_name == "job" and "machine" not in shown:
            shown["machine"] = None
        thing = self._truth.create(self.source, f"{PACKAGE}:{class_name}", name, now, shown, durable=durable)
        self.things[class_name, name] = thing
        self.links[thing.serial] = links
        self.created[thing.serial] = self.clock.now()
        self._scheduler.tell(self.source, f"creates {thing}")
        if self.listener is not None:
            self.listener.put(thing, new=True)
        return thing

    def _end(self) -> None:
        random = self._scheduler.random
        if not self.things:
            return
        thing = random.choice(tuple(self.things.values()))
        if thing.class_name == f"{PACKAGE}:hall" and random.random() < 0.7:  # halls stand longer
            return
        self._remove(thing)

    def _remove(self, thing: Thing) -> None:
        if not thing.exists:
            return
        # What a thing belongs to ends after it; who merely refers to it loses sight of it.
        for other in tuple(self.things.values()):
            if self.links[other.serial].get("hall") is thing:
                self._remove(other)
        now = self._scheduler.now
        class_name = thing.class_name.partition(":")[2]
        del self.things[class_name, thing.name]
        self._truth.end(thing, now)
        self._scheduler.tell(self.source, f"ends {thing}")
        if self.listener is not None:
            self.listener.delete(thing)
        for other in tuple(self.things.values()):
            if self.links[other.serial].get("machine") is thing:
                del self.links[other.serial]["machine"]
                self._changed(other, {"machine": None})

    def _change(self) -> None:
        random = self._scheduler.random
        things = [thing for thing in self.things.values() if thing.class_name != f"{PACKAGE}:hall"]
        if not things:
            return
        thing = random.choice(things)
        if thing.class_name == f"{PACKAGE}:job":
            self._changed(thing, {"steps": _number(thing, "steps") + random.randrange(1, 9)})
            return
        element = random.choice(("state", "note", "load", "done", "done"))
        values: dict[str, object] = {
            "state": random.choice(("idle", "busy")),
            "note": random.choice((None, "", "oil", "ü" * 40)),
            "load": random.choice((0, 1, 99, 2**63 - 1)),
            "done": _number(thing, "done") + random.randrange(1, 1000),
        }
        self._changed(thing, {element: values[element]})

    def _restart_counter(self) -> None:
        machines = [thing for thing in self.things.values() if thing.class_name == f"{PACKAGE}:machine"]
        if machines:
            again = self._scheduler.random.choice((0, 0, None))
            self._changed(self._scheduler.random.choice(machines), {"done": again})

    def _changed(self, thing: Thing, values: Mapping[str, object]) -> None:
        self._truth.change(thing, self._scheduler.now, values)
        self._scheduler.tell(self.source, f"changes {thing}: {dict(values)}")
        if self.listener is not None:
            self.listener.put(thing, new=False)


def _number(thing: Thing, element: str) -> int:
    value = thing.now(element)
    return value if isinstance(value, int) else 0


class PlantAgent:
    """One run of the agent's process: it manages a plant from its start to its death.

    Args:
        scheduler: time and chance.
        broker: where consoles are.
        plant: what it manages.
        boot: how often it was started, as it says itself; one without memory always says the same.
    """

    def __init__(self, scheduler: Scheduler, broker: AmqpBroker, plant: Plant, boot: int) -> None:
        clock = plant.clock
        random = scheduler.random
        config = AgentConfig(
            UUID(int=random.getrandbits(128)),
            boot,
            frozenset({CONSOLE_USER}),
            publish_interval=PUBLISH_INTERVAL,
        )
        self.session = AgentSession(config, SCHEMAS)
        self._scheduler = scheduler
        self._clock = clock
        self._plant = plant
        self._numbers: dict[int, int] = {}
        self._free = list(range(1, 400))
        random.shuffle(self._free)  # after its restart it calls another object what was called so before
        self._next_wake = 0
        self._flush: Timer | None = None
        things = list(plant.things.values())
        random.shuffle(things)
        for thing in things:
            self._number_of(thing)
        for thing in things:
            self.put(thing, new=False)
        self.conversation = Conversation(scheduler, clock, f"{plant.source}-agent", self, lambda _: None)
        self.client = AmqpClient(
            scheduler, broker, self.conversation, AGENT_USER, clock, lambda _: self.session.bindings(), 1000
        )

    def put(self, thing: Thing, *, new: bool) -> None:
        """The plant tells of a thing, new or changed."""
        class_name = thing.class_name.partition(":")[2]
        schema = next(schema for schema in SCHEMAS if schema.key.name == class_name)
        values: dict[str, Value | None] = {
            element: plain.decode() if isinstance(plain, bytes) else plain
            for element, timeline in thing.values.items()
            for plain in (timeline.now,)
        }
        for element, target in self._plant.links[thing.serial].items():
            values[element] = Reference(str(self.session.object_id(self._number_of(target))))
        now = self._clock.now()
        self.session.put(
            ManagedObject(
                _KEYS[class_name],
                self._number_of(thing),
                self._plant.created[thing.serial],
                tuple(values.get(element.name) for element in schema.properties),
                tuple(values.get(element.name) for element in schema.statistics),
                now,
            )
        )
        if new:
            self._flush_soon()

    def delete(self, thing: Thing) -> None:
        """The plant tells that a thing has ended."""
        self.session.delete(self._number_of(thing), self._clock.now())
        self._flush_soon()

    def die(self) -> None:
        """The process is killed."""
        self.client.close()
        if self._flush is not None:
            self._flush.cancel()

    # The session that the link sees.

    def connected(self, reply_to: str, now: int) -> list[Effect]:  # noqa: ARG002  agents await no replies
        """The link is up."""
        return self.session.start(now)

    def disconnected(self, detail: str, now: int) -> list[Effect]:  # noqa: ARG002  as every session's
        """The link is down."""
        self.session.suspend()
        return []

    def resync(self, reason: str, now: int, since: int) -> list[Effect]:  # noqa: ARG002  as every session's
        """Requests may have been lost."""
        return self.session.console_bound(now)

    def receive(self, delivery: Delivery, now: int) -> list[Effect]:
        """A console asks."""
        return self.session.receive(delivery, now)

    def tick(self, now: int) -> list[Effect]:
        """Publish what is due."""
        return self.session.tick(now)

    def _flush_soon(self) -> None:
        if self._flush is None:
            self._flush = self._scheduler.after(FLUSH_DELAY, self._flush_now)

    def _flush_now(self) -> None:
        self._flush = None
        effects = self.session.flush(self._clock.now())
        self.conversation.perform(effect for effect in effects if not isinstance(effect, WakeAt))

    def _number_of(self, thing: Thing) -> int:
        return self._numbers.setdefault(thing.serial, 0) or self._give_number(thing)

    def _give_number(self, thing: Thing) -> int:
        number = self._free.pop() if self._free else 400 + thing.serial
        self._numbers[thing.serial] = number
        return number
