"""A boiler that can be set, and its QMF agent in a process that may die."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol
from uuid import UUID

from gateway.dialects.qmf.agent import AgentConfig, AgentSession, ManagedObject
from gateway.dialects.qmf.console import ConsoleConfig, ConsoleSession
from gateway.dialects.qmf.console_config import HeartbeatRules
from gateway.dialects.qmf.statuses import Status
from gateway.dialects.session import (
    Binding,
    Called,
    Effect,
    Event,
    LinkDown,
    LinkUp,
    LossSuspected,
    ModifyAsked,
    NotSent,
    ReadAsked,
    Session,
)
from gateway.mapping.files import class_schemas
from gateway.model.times import MILLISECOND, SECOND
from gateway.model.values import Value
from tests.operations.works import MAPPING
from tests.simulation.amqp import AmqpBroker, AmqpClient
from tests.simulation.native_dialect import MODIFY, ROUNDED, NativeConsole, Whim, carried, with_request
from tests.simulation.scheduler import Clock, Scheduler
from tests.simulation.session_driver import SimulatedDriver
from tests.simulation.site import AGENT_USER, CONSOLE_USER

BOILER = with_request(class_schemas(MAPPING)["boiler"])
NUMBER = 7
_QUICK = (1 * MILLISECOND, 100 * MILLISECOND)
_SLOW = (1 * SECOND, 30 * SECOND)


class Boiler:
    """The managed boiler; it has a limit and a speed, and remembers every value that was set."""

    def __init__(self) -> None:
        self.limit = 1
        self.speed = 1
        self.done: list[int] = []

    def set(self, limit: int) -> None:
        """Set the limit."""
        self.limit = limit
        self.done.append(limit)

    def modify(self, speed: int, whim: Whim) -> None:
        """Set the speed, ignore the request, or round the value, as ``whim`` says."""
        if whim is Whim.DONE:
            self.speed = speed
            self.done.append(speed)
        elif whim is Whim.ROUNDED:
            self.speed = speed + ROUNDED


class BoilerProcess:
    """One run of a process that manages the boiler, in any dialect.

    Args:
        scheduler: time and chance.
        broker: the broker that the process connects to.
        boiler: the boiler that it manages.
        name: the name of the process in the trace.
        session: the session of the dialect.
        bindings: returns the bindings of its queue.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        broker: AmqpBroker,
        boiler: Boiler,
        name: str,
        session: Session,
        bindings: Callable[[str], Sequence[Binding]],
    ) -> None:
        self._scheduler = scheduler
        self._boiler = boiler
        self._clock = Clock(scheduler)
        self._is_alive = True
        self._conversation = SimulatedDriver(scheduler, self._clock, name, session, lambda _: None)
        self._conversation.asked = self._asked
        self.client = AmqpClient(
            scheduler, broker, self._conversation, AGENT_USER, self._clock, bindings, 1000
        )

    def die(self) -> None:
        """Kill the process."""
        self._is_alive = False
        self.client.close()

    def _asked(self, asked: Called | ModifyAsked | ReadAsked) -> None:
        """Process a request of a console; it may be carried out `_after` a while."""
        raise NotImplementedError

    def _after(self, action: Callable[[], None]) -> None:
        """Call ``action`` soon, sometimes late, and never once the process is dead."""
        delay = _SLOW if self._scheduler.random.random() < 0.1 else _QUICK
        self._scheduler.after(self._scheduler.between(*delay), lambda: action() if self._is_alive else None)

    def _perform(self, effects: list[Effect]) -> None:
        self._conversation.perform(effects)

    def _is_refused(self, deadline: int) -> bool:
        """Return whether a request is refused, because it is late or by chance."""
        return self._clock.now() > deadline or self._scheduler.random.random() < 0.1


class BoilerAgent(BoilerProcess):
    """One run of an agent that uses AM2."""

    def __init__(self, scheduler: Scheduler, broker: AmqpBroker, boiler: Boiler, boot: int) -> None:
        broker_id = UUID(int=scheduler.random.getrandbits(128))
        config = AgentConfig(
            broker_id, boot, frozenset({CONSOLE_USER}), publish_interval=5 * SECOND, rereads=True
        )
        self._session = session = AgentSession(config, [BOILER])
        super().__init__(
            scheduler, broker, boiler, f"agent-{boot}", AgentLink(session), lambda _: session.bindings()
        )
        self._put()

    def _asked(self, asked: Called | ModifyAsked | ReadAsked) -> None:
        if isinstance(asked, Called):
            self._after(lambda: self._carry_out(asked))
        elif isinstance(asked, ReadAsked):
            self._after(lambda: self._read(asked))

    def _carry_out(self, call: Called) -> None:
        if self._is_refused(call.deadline):
            self._perform(self._session.method_done(call.handle, Status.FORBIDDEN, "not now"))
            return
        if call.method == MODIFY.name:
            self._boiler.modify(carried(call.arguments)["speed"], Whim.of(self._scheduler.random))
        else:
            assert isinstance(call.arguments[0], int)
            self._boiler.set(call.arguments[0])
        self._put()
        self._perform(self._session.publish(NUMBER, self._clock.now()))
        self._after(lambda: self._perform(self._session.method_done(call.handle, Status.OK, "OK")))

    def _read(self, asked: ReadAsked) -> None:
        self._put()
        self._perform(self._session.read_done(asked.handle))

    def _put(self) -> None:
        values: dict[str, Value] = {
            "name": "north",
            "limit": self._boiler.limit,
            "mode": "hot",
            "code": "",
            "speed": self._boiler.speed,
            "seal": "wax",
        }
        now = self._clock.now()
        properties = tuple(values.get(element.name) for element in BOILER.properties)
        self._session.put(ManagedObject(BOILER.key, NUMBER, 1, properties, (70,), now))


def am2_console(_epoch: int) -> NativeConsole:
    """Return the console session of one run of the core."""
    return NativeConsole(
        ConsoleSession(
            ConsoleConfig(
                trusted_users=frozenset({AGENT_USER}),
                heartbeats=HeartbeatRules(interval=10 * SECOND),
                request_deadline=5 * SECOND,
            )
        )
    )


class Served(Protocol):
    """The session of an agent, of any generation of QMF."""

    def start(self, now: int) -> list[Effect]:
        """Process the start of the link."""

    def suspend(self) -> None:
        """Process the loss of the link."""

    def console_bound(self, now: int) -> list[Effect]:
        """Publish everything, because a console may have bound its queue."""

    def handle(self, event: Event, now: int) -> list[Effect]:
        """Process a request, or the time that the session asked to be woken at."""


class AgentLink:
    """An agent's session as a link sees it."""

    def __init__(self, session: Served) -> None:
        self._session = session

    def handle(self, event: Event, now: int) -> list[Effect]:
        """Process an event; where requests may have been lost, publish everything again."""
        match event:
            case LinkUp():
                return self._session.start(now)
            case LinkDown():
                self._session.suspend()
                return []
            case LossSuspected():
                return self._session.console_bound(now)
            case NotSent():
                return []
            case _:
                return self._session.handle(event, now)
