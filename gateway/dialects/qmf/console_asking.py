"""What a console asks of its agents, and what it makes of no answer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from gateway.dialects.errors import LocalProtocolError
from gateway.dialects.outbox import NEVER, Outbox
from gateway.dialects.qmf import addresses
from gateway.dialects.qmf.addresses import BROKER_AGENT
from gateway.dialects.qmf.console_agents import SECOND, Agents
from gateway.dialects.qmf.console_config import ConsoleConfig
from gateway.dialects.qmf.console_hearing import Hearing
from gateway.dialects.qmf.console_objects import LivingObjects
from gateway.dialects.qmf.console_operations import Operation, Operations
from gateway.dialects.qmf.console_order import ClassName, targets_first
from gateway.dialects.qmf.console_remote_agents import RemoteAgents
from gateway.dialects.qmf.console_requests import (
    FetchObjects,
    FetchSchema,
    Greeting,
    Requests,
    Subject,
    routing_key,
)
from gateway.dialects.qmf.console_restarts import Restarts
from gateway.dialects.qmf.console_resync import Resync
from gateway.dialects.qmf.console_states import TRANSITIONS, Signal, State
from gateway.dialects.qmf.definitions import ClassDefinition, Definitions
from gateway.dialects.qmf.writer import write
from gateway.dialects.session import Send
from gateway.model.observations import SourceState
from gateway.model.operations import ObjectFetch, Outcome
from gateway.model.schema import ClassKey

_MILLISECOND: Final = 1_000_000
_RESYNCING: Final = (State.LISTING, State.FETCHING)


class Asking(Outbox):
    """What is known of one broker's agents, and the requests to them; `console_conversation` has the rest."""

    def __init__(self, config: ConsoleConfig) -> None:
        super().__init__()
        self.config = config
        self.now = 0
        self.state = State.DISCONNECTED
        self.reply_to = ""
        self.requests = Requests(config.request_rules, config.first_sequence)
        self.operations = Operations(config.operation_limit, config.first_sequence)
        self.definitions = Definitions(config.class_limit)
        self.agents = Agents(config.heartbeats, config.agent_limit)
        self.restarts = Restarts()
        self.resync = Resync()
        self.living = LivingObjects(config.object_limit)
        self.remotes = RemoteAgents(config, self.agents, self.requests, self)
        self._hearing = Hearing(self.agents, config.heard_until)
        self._last_greeting = -NEVER
        self._refusal = ""
        self._unnamed_after = -NEVER
        self._stirred = True

    def move(self, signal: Signal) -> None:
        """Go to the next state; `LocalProtocolError` if the table has none."""
        following = TRANSITIONS.get((self.state, signal))
        if following is None:
            raise LocalProtocolError(f"{signal.value} means nothing while {self.state.value}")
        self.state = following

    def fall_short(self, reason: str, agent: str = BROKER_AGENT) -> None:
        """The resync under way, if any, will not be complete; of a remote ``agent`` only its own."""
        if agent != BROKER_AGENT and agent in self.agents:
            if self.state is State.FETCHING or agent in self.remotes.reading:
                self.remotes.fall_short(agent, reason)
            return
        if self.state in _RESYNCING and not self.resync.shortcoming:
            self.resync.shortcoming = reason
        self.remotes.fall_short_all(reason)

    def _read_agent(self, agent: str) -> None:
        """Read a remote agent that is not: also of classes that the broker does not list any more."""
        known = ((one.key.package, one.key.name) for one in self._classes())
        classes = (*self.resync.listed, *known)
        if self.state is State.FETCHING and not self.remotes.is_doubted(agent):
            self._fetch(agent, classes)  # as a part of the whole
        else:
            self.remotes.read(agent, targets_first(classes, self._classes()))

    def fetch_all(self, agent: str) -> None:
        """Ask an agent for the objects of every class."""
        self._fetch(agent, self.resync.listed)

    def _fetch(self, agent: str, classes: Iterable[ClassName]) -> None:
        for package, name in targets_first(classes, self._classes()):
            self.ask(FetchObjects(agent, package, name))

    def _classes(self) -> Iterator[ClassDefinition]:
        return (one for one in self.definitions if isinstance(one, ClassDefinition))

    def ask(self, subject: Subject) -> bool:
        """Send a request when there is room; False if there will be none."""
        if self.state is State.CATCHING_UP:
            return False
        taken = self.requests.add(subject)
        if not taken:
            self.fall_short("too many requests are waiting")
        return taken

    def ask_schema(self, key: ClassKey) -> bool:
        """Ask for a schema; False if it is not to be had."""
        if key in self.resync.unavailable:
            return False
        if key not in self.definitions and len(self.definitions) >= self.definitions.limit:
            self.fall_short("too many classes")
            self.give_class_up(key)
            self.note("too-many-classes", f"{key} is left out: {self.definitions.limit} are known")
            return False
        return self.ask(FetchSchema(key))

    def give_class_up(self, key: ClassKey) -> None:
        """Ask for this schema no more until the next resync."""
        self.resync.missed.pop(key, None)
        if len(self.resync.unavailable) < self.config.class_limit:
            self.resync.unavailable.add(key)

    def _send(self, subject: Subject, sequence: int) -> None:
        if isinstance(subject, Greeting):
            self._last_greeting = self.now
        self.send(
            Send(
                self.config.management_exchange,
                routing_key(subject),
                write(subject.message(sequence)),
                reply_to=self.reply_to,
                content_type=addresses.CONTENT_TYPE,
                expiration=max(1, self.config.request_deadline // _MILLISECOND),
            )
        )

    def _give_up(self, subject: Subject) -> None:
        what = type(subject).__name__
        self.note("no-answer", f"{subject} was never answered")
        if isinstance(subject, FetchObjects) and subject.agent != BROKER_AGENT:
            self.remotes.give_up(subject.agent, f"no answer to {what}", self.now)
            return
        self.fall_short(f"no answer to {what}")
        if isinstance(subject, FetchSchema):
            self.give_class_up(subject.key)

    def greeting_refused(self, said: str) -> None:
        """An agent answered a greeting by an error: it is greeted again in its time, as a silent one."""
        self._refusal = said

    def _miss_greeting(self) -> None:
        waited = self.config.request_deadline // SECOND
        exchange = self.config.management_exchange
        refusal, self._refusal = self._refusal, ""
        if refusal:
            self.tell(SourceState.DOWN, f"the greeting on exchange {exchange} was refused: {refusal}")
            return
        self.tell(
            SourceState.DOWN,
            f"no answer to the greeting on exchange {exchange} for {waited} s: is an agent running there, "
            "and does it obey this user?",
        )

    def _leave_open(self, operation: Operation, why: str) -> None:
        reads = isinstance(operation.request, ObjectFetch)
        doubt = "" if reads else ": it may have been carried out, or may still be"
        self.answer(operation.answer(Outcome.UNKNOWN, f"{why}{doubt}"))
