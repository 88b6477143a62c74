"""The boiler behind a CML server, in a process that may die, and the console session that watches it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from gateway.dialects.cml.console import ConsoleConfig, ConsoleSession
from gateway.dialects.cml.console_config import Intervals
from gateway.dialects.cml.messages import Status
from gateway.dialects.cml.schema_writing import write_classes
from gateway.dialects.cml.server import ServedObject, ServerConfig, ServerSession
from gateway.dialects.effects import Called, Effect, ModifyAsked, ReadAsked
from gateway.mapping.files import class_schemas
from gateway.model.schema import Access
from tests.operations.works import MAPPING
from tests.simulation.amqp import AmqpBroker, AmqpClient
from tests.simulation.boiler import Boiler
from tests.simulation.conversation import Conversation
from tests.simulation.native_dialect import Whim
from tests.simulation.scheduler import MILLISECOND, SECOND, Clock, Scheduler
from tests.simulation.site import AGENT_USER

_DEFINED = class_schemas(MAPPING)["boiler"]
_ELEMENTS = {element.name: element for element in _DEFINED.properties}
BOILER = replace(
    _DEFINED,
    properties=(
        _ELEMENTS["name"],
        replace(_ELEMENTS["limit"], access=Access.READ_ONLY),
        replace(_ELEMENTS["speed"], minimum=None, maximum=None),
    ),
    statistics=(),
    methods=tuple(method for method in _DEFINED.methods if method.name == "setLimit"),
)
"""As it is told: what the mapping adds is not on this wire."""

SCHEMA = write_classes([BOILER], "works", "1.0")
_ROOT = 0
_QUICK = (1 * MILLISECOND, 100 * MILLISECOND)
_SLOW = (1 * SECOND, 30 * SECOND)


def cml_console(epoch: int) -> ConsoleSession:
    """The session of one run of the core."""
    return ConsoleSession(
        ConsoleConfig(
            message_id_prefix=f"core-{epoch}.",
            intervals=Intervals({}, others=5 * SECOND),
            request_deadline=5 * SECOND,
        )
    )


class CmlBoilerServer:
    """One run of the server's process."""

    def __init__(self, scheduler: Scheduler, broker: AmqpBroker, boiler: Boiler, boot: int) -> None:
        self._scheduler = scheduler
        self._boiler = boiler
        self._clock = Clock(scheduler)
        self._is_alive = True
        self._session = ServerSession(ServerConfig(writers=None), SCHEMA)
        self._put()
        self._session.start()
        self._conversation = Conversation(
            scheduler, self._clock, f"server-{boot}", self._session, lambda _: None
        )
        self._conversation.asked = self._asked
        self.client = AmqpClient(
            scheduler, broker, self._conversation, AGENT_USER, self._clock, self._session.bindings, 1000
        )

    def die(self) -> None:
        """The process is killed."""
        self._is_alive = False
        self.client.close()

    def _asked(self, asked: Called | ModifyAsked | ReadAsked) -> None:
        assert not isinstance(asked, ReadAsked)  # a server tells what it knows
        self._after(lambda: self._carry_out(asked))

    def _carry_out(self, asked: Called | ModifyAsked) -> None:
        random = self._scheduler.random
        if self._clock.now() > asked.deadline or random.random() < 0.1:
            self._perform(self._session.done(asked.handle, Status.INVALID, self._clock.now(), "not now"))
            return
        if isinstance(asked, ModifyAsked):
            self._boiler.modify(_number(asked.values["speed"]), Whim.of(random))
        else:
            self._boiler.set(_number(asked.arguments[0]))
        self._put()
        self._after(lambda: self._perform(self._session.done(asked.handle, Status.OK, self._clock.now())))

    def _put(self) -> None:
        self._session.put(ServedObject(_ROOT, "boiler", ("north", self._boiler.limit, self._boiler.speed)))

    def _after(self, action: Callable[[], None]) -> None:
        """Soon, sometimes late, and never once the process is dead."""
        delay = _SLOW if self._scheduler.random.random() < 0.1 else _QUICK
        self._scheduler.after(self._scheduler.between(*delay), lambda: action() if self._is_alive else None)

    def _perform(self, effects: list[Effect]) -> None:
        self._conversation.perform(effects)


def _number(value: object) -> int:
    assert isinstance(value, int)
    return value
