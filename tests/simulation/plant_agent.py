"""The QMF agent of a plant, in a process that may die."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

from gateway.dialects.qmf.agent import AgentConfig, AgentSession, ManagedObject
from gateway.dialects.qmf.statuses import Status
from gateway.dialects.session import (
    Called,
    Effect,
    Event,
    LinkDown,
    LinkUp,
    LossSuspected,
    ModifyAsked,
    NotSent,
    ReadAsked,
    WakeAt,
)
from gateway.model.times import MILLISECOND, SECOND
from gateway.model.values import Reference, Value
from tests.simulation.amqp import AmqpBroker, AmqpClient
from tests.simulation.native_dialect import MODIFY, carried
from tests.simulation.plant import REPORTED, SCHEMAS, Plant
from tests.simulation.scheduler import Scheduler, Timer
from tests.simulation.session_driver import SimulatedDriver
from tests.simulation.site import AGENT_USER, CONSOLE_USER
from tests.simulation.truth import Thing

PUBLISH_INTERVAL = 5 * SECOND
FLUSH_DELAY = 20 * MILLISECOND

_QUICK = (1 * MILLISECOND, 100 * MILLISECOND)
_SLOW = (1 * SECOND, 30 * SECOND)
_LATE = 0.1
_REFUSED = 0.1


class PlantAgent:
    """One run of the agent's process, which manages a plant from its start to its death.

    Args:
        scheduler: time and chance.
        broker: the broker of the consoles.
        plant: the plant that it manages.
        boot: its number of starts as it reports it; an agent without memory always reports the same.
    """

    def __init__(self, scheduler: Scheduler, broker: AmqpBroker, plant: Plant, boot: int) -> None:
        clock = plant.clock
        random = scheduler.random
        config = AgentConfig(
            UUID(int=random.getrandbits(128)),
            boot,
            frozenset({CONSOLE_USER}),
            publish_interval=PUBLISH_INTERVAL,
            rereads=random.random() < 0.5,
        )
        self._is_alive = True
        self.session = AgentSession(config, REPORTED)
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
        self.conversation = SimulatedDriver(scheduler, clock, f"{plant.source}-agent", self, lambda _: None)
        self.conversation.asked = self._asked
        self.client = AmqpClient(
            scheduler, broker, self.conversation, AGENT_USER, clock, lambda _: self.session.bindings(), 1000
        )

    def put(self, thing: Thing, *, new: bool) -> None:
        """Process a new or changed thing of the plant."""
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
                schema.key,
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
        """Process the end of a thing of the plant."""
        self.session.delete(self._number_of(thing), self._clock.now())
        self._flush_soon()

    def die(self) -> None:
        """Kill the process."""
        self._is_alive = False
        self.client.close()
        if self._flush is not None:
            self._flush.cancel()

    # The session that the link sees.

    def handle(self, event: Event, now: int) -> list[Effect]:
        """Process an event; where requests may have been lost, publish everything again."""
        match event:
            case LinkUp():
                return self.session.start(now)
            case LinkDown():
                self.session.suspend()
                return []
            case LossSuspected():
                return self.session.console_bound(now)
            case NotSent():
                return []
            case _:
                return self.session.handle(event, now)

    # What users want done.

    def _asked(self, asked: Called | ModifyAsked | ReadAsked) -> None:
        if isinstance(asked, Called):
            self._later(lambda: self._carry_out(asked))
        else:
            self._later(lambda: self.conversation.perform(self.session.read_done(asked.handle)))

    def _carry_out(self, call: Called) -> None:
        if self._clock.now() > call.deadline:
            self._done(call, Status.FORBIDDEN, "too late")
            return
        if self._scheduler.random.random() < _REFUSED:
            self._done(call, Status.FORBIDDEN, "not now")
            return
        things = self._plant.things.values()
        thing = next((one for one in things if self._numbers.get(one.serial) == call.number), None)
        if thing is None:
            self._done(call, Status.UNKNOWN_OBJECT, "UnknownObject")
            return
        outputs = self._change(thing, call)
        self.conversation.perform(self.session.publish(call.number, self._clock.now()))
        self._later(lambda: self._done(call, Status.OK, "OK", outputs))

    def _change(self, thing: Thing, call: Called) -> tuple[int, ...]:
        """Carry out a call, and return its outputs."""
        if call.method == MODIFY.name:
            self._plant.modify(thing, carried(call.arguments)["speed"])
            return ()
        mark, *_ = call.arguments
        assert isinstance(mark, int)
        if call.method == "setLimit":
            self._plant.set_limit(thing, mark)
            return ()
        return (self._plant.polish(thing, mark),)

    def _done(self, call: Called, status: Status, text: str, outputs: tuple[int, ...] = ()) -> None:
        self.conversation.perform(self.session.method_done(call.handle, status, text, outputs))

    def _later(self, action: Callable[[], None]) -> None:
        """Call ``action`` soon, sometimes late, and never once the process is dead."""
        delay = _SLOW if self._scheduler.random.random() < _LATE else _QUICK
        self._scheduler.after(self._scheduler.between(*delay), lambda: action() if self._is_alive else None)

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
