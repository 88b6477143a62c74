"""The state of a console session: where it stands, what it asks, when it reads everything again.

`TRANSITIONS` is the table of states. `console` understands what agents send.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator
from typing import Final
from uuid import UUID

from gateway.dialects.console import Outbox, Transitions
from gateway.dialects.qmf import addresses
from gateway.dialects.qmf.addresses import BROKER_AGENT
from gateway.dialects.qmf.codec import write
from gateway.dialects.qmf.console_agents import Agents, LivingObjects, RemoteAgents
from gateway.dialects.qmf.console_config import SECOND, ConsoleConfig
from gateway.dialects.qmf.console_gaps import GapTracker, Restarts, gap_until_now
from gateway.dialects.qmf.console_requests import (
    ClassName,
    FetchObjects,
    FetchSchema,
    Greeting,
    ListPackages,
    Operation,
    Operations,
    Requests,
    Subject,
    routing_key,
    targets_first,
)
from gateway.dialects.qmf.definitions import ClassDefinition, Definitions
from gateway.dialects.qmf.fields import NO_HASH
from gateway.dialects.qmf.messages import Content
from gateway.dialects.session import NEVER, Effect, Send
from gateway.model.observations import (
    AgentLost,
    ResyncBegan,
    ResyncEnded,
    SourceState,
)
from gateway.model.operations import ObjectFetch, Outcome
from gateway.model.schema import ClassKey


class State(enum.Enum):
    """Where a console session stands."""

    DISCONNECTED = "disconnected"  # no link
    CATCHING_UP = "catching up"  # hearing what was said meanwhile, asking nothing
    GREETING = "greeting"  # B sent, b awaited
    LISTING = "listing"  # P, Q, S: which packages, classes, schemas
    FETCHING = "fetching"  # G for each class and agent; a resync is under way
    SYNCHRONISED = "synchronised"  # everything is known, pushes keep it so
    DOUBTFUL = "doubtful"  # a resync stayed incomplete or the agent is silent; another try will come


class Signal(enum.Enum):
    """What moves a console session."""

    RESUMED = "resumed"  # there is a link, and on it first what was said meanwhile
    CONNECTED = "connected"
    ANSWERED = "answered"  # b came
    LISTED = "listed"
    FETCHED = "fetched"
    FELL_SHORT = "fell short"  # something of the resync was given up
    SILENT = "silent"  # no heartbeat of the broker's agent for too long
    GREET = "greet"  # begin again: asked for, announced by an agent, or time for another try
    DISCONNECTED = "disconnected"


TRANSITIONS: Final = Transitions(
    {
        (State.DISCONNECTED, Signal.RESUMED): State.CATCHING_UP,
        (State.CATCHING_UP, Signal.CONNECTED): State.GREETING,
        (State.DISCONNECTED, Signal.CONNECTED): State.GREETING,
        (State.GREETING, Signal.ANSWERED): State.LISTING,
        (State.LISTING, Signal.LISTED): State.FETCHING,
        (State.FETCHING, Signal.FETCHED): State.SYNCHRONISED,
        (State.FETCHING, Signal.FELL_SHORT): State.DOUBTFUL,
        (State.SYNCHRONISED, Signal.SILENT): State.DOUBTFUL,
        (State.LISTING, Signal.GREET): State.GREETING,
        (State.FETCHING, Signal.GREET): State.GREETING,
        (State.SYNCHRONISED, Signal.GREET): State.GREETING,
        (State.DOUBTFUL, Signal.GREET): State.GREETING,
        **{(state, Signal.DISCONNECTED): State.DISCONNECTED for state in State},
    }
)


class Resync:
    """The resync under way, if any, and the next one, if it is due at a time.

    Attributes:
        listed: package and name of the classes to get, in the order told.
        missed: classes whose objects were told before their schema, and the agents that did.
        unavailable: schemas that are not asked for again in this resync.
        is_open: its beginning was told, and its end is not yet.
        shortcoming: why it is incomplete; empty where it is not, as far as known.
        due_at: when the next one begins, nanoseconds; `NEVER` where none is planned.
        reason: why that one does.
    """

    def __init__(self) -> None:
        self.listed: dict[tuple[str, str], None] = {}
        self.missed: dict[ClassKey, set[str]] = {}
        self.unavailable: set[ClassKey] = set()
        self.is_open = False
        self.shortcoming = ""
        self.due_at = NEVER
        self.reason = ""
        self._in_a_row = 0

    def begin(self) -> None:
        """The agents are listed again."""
        self.listed.clear()
        self.missed.clear()
        self.unavailable.clear()
        self.shortcoming = ""
        self.cancel()

    def cancel(self) -> None:
        """None is due any more."""
        self.due_at = NEVER

    def plan(self, at: int, reason: str) -> bool:
        """One is due at ``at``, unless one is sooner; returns whether it is not."""
        if at >= self.due_at:
            return False
        self.due_at, self.reason = at, reason
        return True

    def fell_short(self) -> int:
        """It stayed incomplete, or the agent was silent behind it; returns how often in a row."""
        self._in_a_row += 1
        return self._in_a_row

    def succeeded(self) -> None:
        """It was complete."""
        self._in_a_row = 0


_MILLISECOND: Final = 1_000_000
_RESYNCING: Final = (State.LISTING, State.FETCHING)


_ASKING: Final = (State.FETCHING, State.SYNCHRONISED, State.DOUBTFUL)
_ASKING_LATER: Final = (State.CATCHING_UP, State.GREETING, State.LISTING)


class SessionState(Outbox):
    """What a console session knows and does between events.

    ``now`` is set before anything is called; `finish` hands out what came of it.
    """

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
        self.gaps = GapTracker(self.agents, config.complete_until)
        self._last_greeting = -NEVER
        self._refusal = ""
        self._unnamed_after = -NEVER
        self._stirred = True

    def move(self, signal: Signal) -> None:
        """Go to the next state; `LocalProtocolError` if the table has none."""
        self.state = TRANSITIONS.after(self.state, signal)

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
            self.report_state(SourceState.DOWN, f"the greeting on exchange {exchange} was refused: {refusal}")
            return
        self.report_state(
            SourceState.DOWN,
            f"no answer to the greeting on exchange {exchange} for {waited} s: is an agent running there, "
            "and does it obey this user?",
        )

    def _leave_open(self, operation: Operation, why: str) -> None:
        reads = isinstance(operation.request, ObjectFetch)
        doubt = "" if reads else ": it may have been carried out, or may still be"
        self.answer(operation.answer(Outcome.UNKNOWN, f"{why}{doubt}"))

    # The link.

    def resume(self, missed: str, waiting: int) -> None:
        """Hear the ``waiting`` messages of meanwhile before `connect`; `LocalProtocolError` if connected.

        ``missed`` says why what was before them may be lost; empty where nothing is.
        """
        self.move(Signal.RESUMED)
        self._forget_agents()
        self.gaps.resumed(missed, self.now)
        if not waiting:
            self.observations += self.gaps.missed(self.now)
        self.report_state(SourceState.SYNCHRONISING, f"hearing what was said meanwhile: {waiting} messages")

    def connect(self, reply_to: str) -> None:
        """Begin, with this queue for replies; `LocalProtocolError` if connected."""
        caught_up = self.state is State.CATCHING_UP
        self.living.forget()
        self.move(Signal.CONNECTED)
        self.reply_to, self._refusal = reply_to, ""
        self._forget_agents()
        self.restarts.doubt()
        self.observations += self.gaps.connected(self.now, caught_up=caught_up)
        self.report_state(
            SourceState.CONNECTING, f"greeting agents on exchange {self.config.management_exchange}"
        )
        self.requests.add(Greeting())

    def disconnect(self, detail: str) -> None:
        """The link is down, and what was on its way since the last message is lost."""
        self.abandon_resync()
        for operation in self.operations.abandon():
            self._leave_open(operation, "the link went down before an answer came")
        self.move(Signal.DISCONNECTED)
        self.resync.cancel()
        self.awake()
        self.report_state(SourceState.DOWN, detail)

    def announced(self, package: str) -> None:
        """An agent announces ``package``: greet it. Where that was known, it restarted or lost its link.

        What it told last may then be lost, although no heartbeat was missed.
        """
        if self.state is State.CATCHING_UP:
            self._announced_meanwhile(package)
            return
        # While packages are being listed, those that were listed before are known by their classes only.
        if any(known == package for known, _ in self.resync.listed) or self._knows(package):
            self.gaps.interrupted()
            self.restarts.doubt()
        self.greet_soon(f"an agent announces package {package}")

    def _announced_meanwhile(self, package: str) -> None:
        """The agent was restarted while the gateway was away: ids of objects from before mean nothing."""
        if not self._knows(package):
            return
        self.observations += self.gaps.interrupted_meanwhile()
        self.observations.append(ResyncBegan(restarted=True))

    def _knows(self, package: str) -> bool:
        return any(known.key.package == package for known in self.definitions)

    def told(self, agent: str, message: Content) -> None:
        """An agent told of an object. A new agent's objects come before it has been asked for them.

        They are those of before under other ids: none may be there twice meanwhile.
        """
        if agent != BROKER_AGENT:
            if self.restarts.remote_shown_by(agent, message.object_id):
                self.stir()
                self._remote_restarted(agent)
        else:
            is_expected = self.restarts.shown_by(message)
            if is_expected is not None:
                self.stir()
                self.living.forget()
                self.observations += [] if is_expected else self.gaps.restarted()
                self.observations.append(ResyncBegan(restarted=True))
                self.greet_soon(f"agent {agent} restarted")
        if message.key.hash == NO_HASH:
            self.living.told(message)

    def _remote_restarted(self, agent: str) -> None:
        self.observations.append(ResyncBegan(agent, restarted=True))
        if self.state in _ASKING:
            self._read_agent(agent)

    def broker_answered(self, broker: UUID) -> None:
        """The greeting is answered: tell what was missed, and list what there is."""
        self.observations += self.gaps.interruption(self.now)
        interruption_told = self.gaps.answered()
        since = self.gaps.until
        silent_since = self.agents.received(BROKER_AGENT, self.now, self.gaps.spoken_at)
        was_told = interruption_told or self.restarts.is_reported
        restarted = self.restarts.answered(broker)
        if restarted:
            self.agents.interrupted(BROKER_AGENT)
        if restarted and not was_told:
            self.miss(since, f"agent {BROKER_AGENT} restarted")
        elif silent_since is not None:
            self.miss(silent_since, f"agent {BROKER_AGENT} was silent")
        self._list()

    def miss(self, since: int, reason: str) -> None:
        """Something was lost between ``since`` and now."""
        self.observations.append(gap_until_now(since, self.now, reason))

    def pass_time(self) -> None:
        """Miss heartbeats, ask who has none, and try again where it is time."""
        self.awake()
        for agent, since in self.agents.newly_lost(self.now):
            self.lose(agent, f"agent {agent} has been silent for {(self.now - since) // SECOND} s")
        quiet_since = self.agents.newly_quiet(self.now)
        if quiet_since is not None and self.state is State.SYNCHRONISED:
            silence = (self.now - quiet_since) // SECOND
            self.greet(f"agent {BROKER_AGENT} has said nothing for {silence} s: asking it for everything")
        if self.resync.due_at <= self.now:
            self.greet(self.resync.reason)
        if self.state in _ASKING:
            for agent in self.remotes.take_due(self.now):
                self._read_agent(agent)
        if self.state is State.SYNCHRONISED:
            self.remotes.end_absences(self.now)

    def _list(self) -> None:
        self.move(Signal.ANSWERED)
        self.remotes.await_again(self.now)
        self.resync.begin()
        self.report_state(SourceState.SYNCHRONISING)
        self.ask(ListPackages())

    # The states.

    def greet(self, reason: str) -> None:
        """Begin again with a greeting; where one is under way, repeat it."""
        self.observations += self.gaps.interruption(self.now)
        self.resync.cancel()
        if self.state is State.GREETING:
            self.requests.hurry(Greeting(), self.now)
            return
        self.note("resync", reason)
        self.abandon_resync()
        self.move(Signal.GREET)
        self.requests.add(Greeting())

    def greet_soon(self, reason: str) -> None:
        """As `greet`, but not oftener than configured."""
        at = self._last_greeting + self.config.greeting_interval
        if self.state is State.CATCHING_UP:
            return  # the greeting comes when all that was said meanwhile is heard
        if at <= self.now:
            self.greet(reason)
        else:
            self.resync.plan(at, reason)

    def read_the_unnamed(self) -> None:
        """As `greet_soon`, for objects that were told in part only; less often, as they may stay so."""
        self._plan_resync("objects were told without their properties")

    def read_the_unread(self) -> None:
        """As `read_the_unnamed`, for a message of an agent's own accord that cannot be read."""
        self.gaps.unread()
        self._plan_resync("a message could not be read")

    def _plan_resync(self, reason: str) -> None:
        if self.state is State.SYNCHRONISED:
            at = max(self.now + self.config.retry_interval, self._unnamed_after)
            if self.resync.plan(at, reason):
                self._unnamed_after = at + self.config.unnamed_interval

    def abandon_resync(self) -> None:
        """Wait for nothing any more; a resync under way ends incomplete."""
        self.requests.clear()
        if self.resync.is_open:
            self.resync.is_open = False
            self.observations.append(ResyncEnded(complete=False))
        self.remotes.abandon_all()

    def _advance(self) -> None:
        """Go on to the next phase of the resync where nothing of this one is waited for any more."""
        if self.state is State.LISTING and not self.requests:
            self.move(Signal.LISTED)
            self.resync.is_open = True
            restarted = self.restarts.resync_begins()
            if restarted:
                self.living.forget()
            self.living.resync_began()
            self.observations.append(ResyncBegan(restarted=restarted))
            for agent in (BROKER_AGENT, *self.remotes.to_ask()):
                self.fetch_all(agent)
        if self.state is State.FETCHING and not self.requests.asks_beside(self.remotes.reading):
            self._end_resync()
        self.remotes.advance(self.now)

    def _end_resync(self) -> None:
        self.resync.is_open = False
        self.remotes.everything_read(self.now)
        complete = not self.resync.shortcoming
        without = self.remotes.left_out if complete else frozenset()
        self.observations.append(ResyncEnded(complete, without=without))
        if not self.resync.shortcoming:
            self.resync.succeeded()
            self.living.resync_completed()
            self.move(Signal.FETCHED)
            self.report_state(SourceState.SYNCHRONISED, self.remotes.trouble)
            return
        self.move(Signal.FELL_SHORT)
        self._retry_later(f"resync incomplete: {self.resync.shortcoming}")

    def _retry_later(self, reason: str) -> None:
        delay = self.config.retry_after(self.resync.fell_short())
        self.resync.cancel()
        self.resync.plan(self.now + delay, reason)
        self.report_state(SourceState.DEGRADED, f"{reason}; next attempt in {delay // SECOND} s")

    # What is handed out.

    def stir(self) -> None:
        """Something changed on which requests, phases or deadlines depend: `finish` goes on with them."""
        self._stirred = True

    def finish(self) -> list[Effect]:
        """Return what came of an event; go on with requests and phases where one changed, or is due.

        What agents publish of their own accord only moves deadlines away, and there is much of it: nothing is
        computed for that. The timer may expire too early then, and is set again.
        """
        if self._stirred or self.now >= self._wake_at:
            self._stirred = False
            return self.hand_out(self._go_on(), self.now)
        return self.take_effects()

    def _go_on(self) -> int:
        """Ask again, give up, begin the next phase; return when there is something to do again."""
        for operation in self.operations.overdue(self.now):
            self._leave_open(operation, "no answer came in time")
        again, given_up = self.requests.overdue(self.now)
        for subject in given_up:
            self._give_up(subject)
        for subject, sequence in again:
            if not self.requests.sequence(subject):
                continue  # of an agent that is given up just now
            if isinstance(subject, Greeting) and self.requests.attempts(subject) > 1:
                self._miss_greeting()
            self._send(subject, sequence)
        self._advance()
        for subject, sequence in self.requests.launch(self.now):
            self._send(subject, sequence)
        wake_at = min(
            self.requests.next_deadline,
            self.operations.next_deadline,
            self.resync.due_at,
            self.agents.next_deadline or NEVER,
            self.remotes.next_time(asks=self.state in _ASKING, certain=self.state is State.SYNCHRONISED),
        )
        if self.state is State.SYNCHRONISED:
            self.report_state(SourceState.SYNCHRONISED, self.remotes.trouble)
        return wake_at

    # Agents.

    def answered(self) -> None:
        """The broker's agent answered about its classes: it is not silent, however long a list takes."""
        if not self.agents.is_lost(BROKER_AGENT):
            self.agents.received(BROKER_AGENT, self.now, self.gaps.spoken_at)

    def _forget_agents(self) -> None:
        self.remotes.depart_all(self.now)

    def agent_spoke(self, agent: str) -> bool:
        """An agent sent something: it lives; a new one is asked for its objects.

        False if it is one too many: its silence would not be noticed, so that nothing of it can be shown.
        """
        if self.agents.received_again(agent, self.now, self.gaps.spoken_at):
            return True
        self.stir()
        known = agent in self.agents
        if not known:
            self.remotes.make_room()
        lost_since = self.agents.received(agent, self.now, self.gaps.spoken_at)
        if agent not in self.agents:
            self.fall_short("too many agents")
            self.note("too-many-agents", f"agent {agent} is left out: {self.config.agent_limit} are known")
            return False
        if lost_since is not None:
            self.miss(lost_since, f"agent {agent} was silent")
        if agent == BROKER_AGENT:
            if lost_since is not None:
                self.greet_soon(f"agent {agent} speaks again")
        elif lost_since is not None or not known:
            self._returned(agent)
        return True

    def _returned(self, agent: str) -> None:
        """A remote agent is there, which was not: it is read, unless it will be with everything else."""
        self.restarts.forget_remote(agent)
        self.remotes.returned(agent, self.now)
        if self.state not in _ASKING_LATER:
            self._read_agent(agent)

    def lose(self, agent: str, detail: str) -> None:
        """An agent is silent."""
        if agent != BROKER_AGENT:
            self.remotes.abandon(agent)
        self.observations.append(AgentLost(agent, detail, remote=agent != BROKER_AGENT))
        if agent == BROKER_AGENT and self.state is State.SYNCHRONISED:
            self.move(Signal.SILENT)
            self._retry_later(detail)
