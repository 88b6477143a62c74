"""A managed application with scripted objects: their classes, their changes, and operations on them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from typing import Protocol

from gateway.mapping.rules import Mapping as MappingFile
from gateway.model.schema import (
    Access,
    Argument,
    ClassKey,
    ClassSchema,
    Direction,
    Element,
    Kind,
    Method,
    NamedValue,
)
from gateway.model.times import MILLISECOND
from gateway.model.values import ValueType
from gateway.snmp.oid_registry import OidRegistry
from gateway.snmp.registry_growth import extend, new_registry
from tests.simulation.ledger import Ledger
from tests.simulation.native_dialect import ROUNDED, Whim, with_request
from tests.simulation.scheduler import Clock, Scheduler
from tests.simulation.truth import Thing, Truth

PACKAGE = "plant"

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
        Element("limit", ValueType.U32, access=Access.READ_WRITE),
        Element("speed", ValueType.U32, access=Access.READ_WRITE),
    ),
    statistics=(
        Element("load", ValueType.U64, kind=Kind.GAUGE),
        Element("done", ValueType.U64, kind=Kind.COUNTER),
    ),
    methods=(
        Method("setLimit", (Argument("value", ValueType.U32),)),
        Method(
            "polish",
            (
                Argument("grade", ValueType.U32),
                Argument("pin", ValueType.STRING),
                Argument("polished", ValueType.U32, Direction.OUT),
            ),
        ),
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
REPORTED = (HALL, with_request(MACHINE), JOB)
"""The classes as they are on the wire."""

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
                    "limit": {"access": "read-write", "set_by": {"method": "setLimit", "argument": "value"}},
                    "speed": {"access": "read-write"},
                },
                "methods": {
                    "setLimit": {"arguments": {"value": {}}},
                    "polish": {
                        "dangerous": True,
                        "arguments": {"grade": {}, "pin": {"secret": True}, "polished": {}},
                    },
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
REGISTRY: OidRegistry = extend(
    new_registry(PACKAGE, 900, "PLANT-MIB", "plt", dt.date(2026, 5, 1)), SCHEMAS, dt.date(2026, 5, 1)
)

_HALLS = ("north", "south")
_MACHINES = ("lathe", "mill", "press", "saw")
_JOBS = tuple(f"job-{number}" for number in range(5))


class PlantListener(Protocol):
    """The listener for changes of the plant's things."""

    def put(self, thing: Thing, *, new: bool) -> None:
        """Process a new or changed thing."""

    def delete(self, thing: Thing) -> None:
        """Process the end of a thing."""


class Plant:
    """Halls, machines in halls, and jobs on machines; the seed determines when they begin, change and end.

    Args:
        scheduler: time and chance.
        truth: the record of the true state.
        source: the name of the source in the gateway.
        clock: the clock of the plant's machine.
        ledger: the account of operations that were carried out.
    """

    def __init__(self, scheduler: Scheduler, truth: Truth, source: str, clock: Clock, ledger: Ledger) -> None:
        self._ledger = ledger
        self._polished: dict[int, int] = {}
        self.source = source
        self.clock = clock
        self.created: dict[int, int] = {}
        self.things: dict[tuple[str, str], Thing] = {}
        self.links: dict[int, dict[str, Thing]] = {}
        self.listener: PlantListener | None = None
        self._scheduler = scheduler
        self._truth = truth
        truth.marks |= {f"{PACKAGE}:{schema.key.name}": "serial" for schema in SCHEMAS}
        truth.parents |= {f"{PACKAGE}:machine": "hall", f"{PACKAGE}:job": "machine"}
        for _ in range(12):
            self.live()

    def live(self) -> None:
        """Make one random change."""
        random = self._scheduler.random
        actions: list[Callable[[], None]] = [self._create, self._end, self._restart_counter]
        random.choices([*actions, self._change], weights=(3, 2, 1, 6))[0]()

    def set_limit(self, thing: Thing, limit: int) -> None:
        """Set a machine's limit."""
        self._ledger.carried_out(limit, thing.values["limit"])
        self._changed(thing, {"limit": limit})

    def modify(self, thing: Thing, speed: int) -> None:
        """Set the speed, ignore the request, or round the value, by chance; each is answered as done."""
        whim = Whim.of(self._scheduler.random)
        if whim is Whim.DONE:
            self._ledger.carried_out(speed, thing.values["speed"])
            self._changed(thing, {"speed": speed})
        elif whim is Whim.ROUNDED:
            self._changed(thing, {"speed": speed + ROUNDED})

    def polish(self, thing: Thing, grade: int) -> int:
        """Polish a machine, and return how often it has been polished."""
        self._ledger.carried_out(grade)
        self._polished[thing.serial] = self._polished.get(thing.serial, 0) + 1
        return self._polished[thing.serial]

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
                    values |= {"limit": random.randrange(100), "speed": random.randrange(100)}
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
        self._scheduler.note(self.source, f"creates {thing}")
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
        self._scheduler.note(self.source, f"ends {thing}")
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
        element = random.choice(("state", "note", "load", "done", "done", "limit"))
        values: dict[str, object] = {
            "state": random.choice(("idle", "busy")),
            "note": random.choice((None, "", "oil", "ü" * 40)),
            "load": random.choice((0, 1, 99, 2**63 - 1)),
            "done": _number(thing, "done") + random.randrange(1, 1000),
            "limit": random.randrange(100),
        }
        self._changed(thing, {element: values[element]})

    def _restart_counter(self) -> None:
        machines = [thing for thing in self.things.values() if thing.class_name == f"{PACKAGE}:machine"]
        if machines:
            again = self._scheduler.random.choice((0, 0, None))
            self._changed(self._scheduler.random.choice(machines), {"done": again})

    def _changed(self, thing: Thing, values: Mapping[str, object]) -> None:
        self._truth.change(thing, self._scheduler.now, values)
        self._scheduler.note(self.source, f"changes {thing}: {dict(values)}")
        if self.listener is not None:
            self.listener.put(thing, new=False)


def _number(thing: Thing, element: str) -> int:
    value = thing.now(element)
    return value if isinstance(value, int) else 0
