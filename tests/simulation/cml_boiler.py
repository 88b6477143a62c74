"""The boiler behind a CML server, in a process that may die, and the console session that watches it."""

from __future__ import annotations

from dataclasses import replace

from gateway.dialects.cml.console import ConsoleConfig, ConsoleSession
from gateway.dialects.cml.console_config import Intervals
from gateway.dialects.cml.messages import Status
from gateway.dialects.cml.schema import write_classes
from gateway.dialects.session import Called, ModifyAsked, ReadAsked
from gateway.mapping.files import class_schemas
from gateway.model.schema import Access
from gateway.model.times import SECOND
from tests.operations.works import MAPPING
from tests.peers.cml_server import ServerConfig, ServerSession
from tests.peers.cml_server_objects import ServedObject
from tests.simulation.amqp import AmqpBroker
from tests.simulation.boiler import Boiler, BoilerProcess
from tests.simulation.native_dialect import Whim
from tests.simulation.scheduler import Scheduler

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
"""The class as it is on the wire, without the additions of the mapping."""

SCHEMA = write_classes([BOILER], "works", "1.0")
_ROOT = 0


def cml_console(epoch: int) -> ConsoleSession:
    """Return the console session of one run of the core."""
    return ConsoleSession(
        ConsoleConfig(
            message_id_prefix=f"core-{epoch}.",
            intervals=Intervals({}, others=5 * SECOND),
            request_deadline=5 * SECOND,
        )
    )


class CmlBoilerServer(BoilerProcess):
    """One run of the server's process."""

    def __init__(self, scheduler: Scheduler, broker: AmqpBroker, boiler: Boiler, boot: int) -> None:
        self._session = session = ServerSession(ServerConfig(writers=None), SCHEMA)
        super().__init__(scheduler, broker, boiler, f"server-{boot}", session, session.bindings)
        self._put()
        session.start()

    def _asked(self, asked: Called | ModifyAsked | ReadAsked) -> None:
        assert not isinstance(asked, ReadAsked)  # a server tells what it knows
        self._after(lambda: self._carry_out(asked))

    def _carry_out(self, asked: Called | ModifyAsked) -> None:
        if self._is_refused(asked.deadline):
            self._perform(self._session.done(asked.handle, Status.INVALID, self._clock.now(), "not now"))
            return
        if isinstance(asked, ModifyAsked):
            self._boiler.modify(_number(asked.values["speed"]), Whim.of(self._scheduler.random))
        else:
            self._boiler.set(_number(asked.arguments[0]))
        self._put()
        self._after(lambda: self._perform(self._session.done(asked.handle, Status.OK, self._clock.now())))

    def _put(self) -> None:
        self._session.put(ServedObject(_ROOT, "boiler", ("north", self._boiler.limit, self._boiler.speed)))


def _number(value: object) -> int:
    assert isinstance(value, int)
    return value
