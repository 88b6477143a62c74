"""The boiler behind an agent before AM2 in a process that may die, and the console that watches it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from uuid import UUID

from gateway.dialects.qmf.am01.console import Am01ConsoleConfig, Am01ConsoleSession
from gateway.dialects.qmf.am01.messages import ASKED, Revision
from gateway.dialects.qmf.console_config import HeartbeatRules
from gateway.dialects.qmf.statuses import Status
from gateway.dialects.session import Called, ModifyAsked, ReadAsked
from gateway.mapping.files import class_schemas
from gateway.model.schema import Access
from gateway.model.times import SECOND
from tests.operations.works import MAPPING
from tests.peers.am01_agent import Am01AgentConfig, Am01AgentSession, ManagedObject
from tests.simulation.amqp import AmqpBroker
from tests.simulation.boiler import AgentLink, Boiler, BoilerProcess
from tests.simulation.native_dialect import Whim
from tests.simulation.scheduler import Scheduler
from tests.simulation.site import AGENT_USER, CONSOLE_USER

_DEFINED = class_schemas(MAPPING)["boiler"]
_ELEMENTS = {element.name: element for element in _DEFINED.properties}
BOILER = replace(
    _DEFINED,
    properties=(
        _ELEMENTS["name"],
        replace(_ELEMENTS["limit"], access=Access.READ_ONLY),
        replace(_ELEMENTS["speed"], minimum=None, maximum=None),
    ),
    methods=tuple(method for method in _DEFINED.methods if method.name == "setLimit"),
)
"""The class as it is on the wire: without the additions of the mapping, and with no optional element."""


def am01_console(revision: Revision) -> Callable[[int], Am01ConsoleSession]:
    """Return a function that makes the console session of one run of the core."""

    def console(_epoch: int) -> Am01ConsoleSession:
        return Am01ConsoleSession(
            Am01ConsoleConfig(
                trusted_users=frozenset({AGENT_USER}),
                heartbeats=HeartbeatRules(interval=5 * SECOND),
                request_deadline=5 * SECOND,
                revisions=frozenset({revision}),
                package=BOILER.key.package,
                get_and_set=True,
                republish_interval=None if revision in ASKED else 10 * SECOND,
            )
        )

    return console


def am01_agent(revision: Revision) -> Callable[[Scheduler, AmqpBroker, Boiler, int], Am01BoilerAgent]:
    """Return a function that makes one run of the agent's process."""
    return lambda scheduler, broker, boiler, boot: Am01BoilerAgent(revision, scheduler, broker, boiler, boot)


class Am01BoilerAgent(BoilerProcess):
    """One run of the agent's process; its objects are numbered from the time of its start."""

    def __init__(
        self, revision: Revision, scheduler: Scheduler, broker: AmqpBroker, boiler: Boiler, boot: int
    ) -> None:
        config = Am01AgentConfig(
            revision,
            allowed_users=frozenset({CONSOLE_USER}),
            broker=UUID(int=scheduler.random.getrandbits(128)),
            package=BOILER.key.package,
            publish_interval=5 * SECOND,
            republish_interval=10 * SECOND,
            get_and_set=True,
        )
        self._session = session = Am01AgentSession(config, [BOILER])
        super().__init__(
            scheduler, broker, boiler, f"agent-{boot}", AgentLink(session), lambda _: session.bindings()
        )
        self._number = self._clock.now()
        self._put()

    def _asked(self, asked: Called | ModifyAsked | ReadAsked) -> None:
        assert not isinstance(asked, ReadAsked)  # it tells what it knows
        self._after(lambda: self._carry_out(asked))

    def _carry_out(self, asked: Called | ModifyAsked) -> None:
        if self._is_refused(asked.deadline):
            self._perform(self._session.method_done(asked.handle, Status.NOT_IMPLEMENTED, "not now"))
            return
        if isinstance(asked, ModifyAsked):
            self._boiler.modify(_int(asked.values["speed"]), Whim.of(self._scheduler.random))
        else:
            self._boiler.set(_int(asked.arguments[0]))
        self._put()
        self._after(lambda: self._perform(self._session.method_done(asked.handle, Status.OK, "OK")))

    def _put(self) -> None:
        properties = ("north", self._boiler.limit, self._boiler.speed)
        self._session.put(ManagedObject(BOILER.key, self._number, 1, properties, (70,), self._clock.now()))


def _int(value: object) -> int:
    assert isinstance(value, int)
    return value
