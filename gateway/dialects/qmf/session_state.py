"""The state of a console session: its phase, its requests, and when it reads everything again.

`TRANSITIONS` is the table of states. `console` processes what agents send.
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
from gateway.dialects.qmf.console_agents import Agents, EndedLives, LivingObjects, RemoteAgents
from gateway.dialects.qmf.console_config import ConsoleConfig, Heartbeats
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
from gateway.model.times import MILLISECOND, SECOND


class State(enum.Enum):
    """The phase of a console session."""

    DISCONNECTED = "disconnected"  # no link
    CATCHING_UP = "catching up"  # waiting messages are read, nothing is requested
    GREETING = "greeting"  # B sent, b awaited
    LISTING = "listing"  # P, Q, S: which packages, classes, schemas
    FETCHING = "fetching"  # G for each class and agent; a resync is under way
    SYNCHRONISED = "synchronised"  # everything is known, pushes keep it so
    DEGRADED = "degraded"  # a resync was incomplete or the agent is silent; it will be tried again


class Signal(enum.Enum):
    """The events that change the state of a console session."""

    RESUMED = "resumed"  # there is a link, with waiting messages first
    CONNECTED = "connected"
    ANSWERED = "answered"  # b arrived
    LISTED = "listed"
    FETCHED = "fetched"
    FELL_SHORT = "fell short"  # a part of the resync was given up
    SILENT = "silent"  # no heartbeat of the broker's agent for too long
    GREET = "greet"  # read everything again: requested, announced by an agent, or time to retry
    DISCONNECTED = "disconnected"


TRANSITIONS: Final = Transitions(
    {
        (State.DISCONNECTED, Signal.RESUMED): State.CATCHING_UP,
        (State.CATCHING_UP, Signal.CONNECTED): State.GREETING,
        (State.DISCONNECTED, Signal.CONNECTED): State.GREETING,
        (State.GREETING, Signal.ANSWERED): State.LISTING,
        (State.LISTING, Signal.LISTED): State.FETCHING,
        (State.FETCHING, Signal.FETCHED): State.SYNCHRONISED,
        (State.FETCHING, Signal.FELL_SHORT): State.DEGRADED,
        (State.SYNCHRONISED, Signal.SILENT): State.DEGRADED,
        (State.LISTING, Signal.GREET): State.GREETING,
        (State.FETCHING, Signal.GREET): State.GREETING,
        (State.SYNCHRONISED, Signal.GREET): State.GREETING,
        (State.DEGRADED, Signal.GREET): State.GREETING,
        **{(state, Signal.DISCONNECTED): State.DISCONNECTED for state in State},
    }
)


class Resync:
    """The resync under way, if any, and the next one, if it is planned.

    Attributes:
        listed: package and name of the classes to get, in the order listed.
        missed: classes whose objects were reported before their schema, and the agents that reported them.
        unavailable: schemas that are not requested again in this resync.
        is_open: whether its beginning was reported, and its end was not.
        is_answered: whether an agent has answered a query for objects since then.
        shortcoming: the reason why it is incomplete; empty if none is known.
        due_at: when the next one begins, nanoseconds; `NEVER` where none is planned.
        reason: the reason for the next one.
    """

    def __init__(self) -> None:
        self.listed: dict[tuple[str, str], None] = {}
        self.missed: dict[ClassKey, set[str]] = {}
        self.unavailable: set[ClassKey] = set()
        self.is_open = False
        self.is_answered = False
        self.shortcoming = ""
        self.due_at = NEVER
        self.reason = ""
        self._in_a_row = 0

    def begin(self) -> None:
        """Begin: the agents are listed again."""
        self.listed.clear()
        self.missed.clear()
        self.unavailable.clear()
        self.is_answered = False
        self.shortcoming = ""
        self.cancel()

    def cancel(self) -> None:
        """Cancel the planned one."""
        self.due_at = NEVER

    def plan(self, at: int, reason: str) -> bool:
        """Plan one at ``at``, unless an earlier one is planned; return whether it was planned."""
        if at >= self.due_at:
            return False
        self.due_at, self.reason = at, reason
        return True

    def fell_short(self) -> int:
        """Note an incomplete one, or a silent agent after it; return how often in a row that happened."""
        self._in_a_row += 1
        return self._in_a_row

    def succeeded(self) -> None:
        """Note a complete one."""
        self._in_a_row = 0


_RESYNCING: Final = (State.LISTING, State.FETCHING)


_ASKING: Final = (State.FETCHING, State.SYNCHRONISED, State.DEGRADED)
_ASKING_LATER: Final = (State.CATCHING_UP, State.GREETING, State.LISTING)


class SessionState(Outbox):
    """The state and the requests of a console session between events.

    ``now`` is set before any call; `flush` returns the effects.
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
        self.publishes_nothing = False
        self.restarts = Restarts()
        self.resync = Resync()
        self.living = LivingObjects(config.object_limit)
        self.ends = EndedLives()
        self.remotes = RemoteAgents(config, self.agents, self.requests, self)
        self.gaps = GapTracker(self.agents, config.complete_until)
        self._last_greeting = -NEVER
        self._hurried_at = -NEVER
        self._refusal = ""
        self._unnamed_after = -NEVER
        self._is_awake = True

    def move(self, signal: Signal) -> None:
        """Change the state; raise `LocalProtocolError` if the table has no such transition."""
        self.state = TRANSITIONS.after(self.state, signal)

    def fall_short(self, reason: str, agent: str = BROKER_AGENT) -> None:
        """Note that the resync under way, if any, is incomplete; of a remote ``agent`` only its own."""
        if agent != BROKER_AGENT and agent in self.agents:
            if self.state is State.FETCHING or agent in self.remotes.reading:
                self.remotes.fall_short(agent, reason)
            return
        if self.state in _RESYNCING and not self.resync.shortcoming:
            self.resync.shortcoming = reason
        self.remotes.fall_short_all(reason)

    def _read_agent(self, agent: str) -> None:
        """Read a remote agent separately, including classes that the broker does not list any more."""
        known = ((one.key.package, one.key.name) for one in self._classes())
        classes = (*self.resync.listed, *known)
        if self.state is State.FETCHING and not self.remotes.is_degraded(agent):
            self._fetch(agent, classes)  # as a part of the whole
        else:
            self.remotes.read(agent, targets_first(classes, self._classes()))

    def fetch_all(self, agent: str) -> None:
        """Request the objects of every class from an agent."""
        self._fetch(agent, self.resync.listed)

    def _fetch(self, agent: str, classes: Iterable[ClassName]) -> None:
        for package, name in targets_first(classes, self._classes()):
            self.ask(FetchObjects(agent, package, name))

    def _classes(self) -> Iterator[ClassDefinition]:
        return (one for one in self.definitions if isinstance(one, ClassDefinition))

    def ask(self, subject: Subject) -> bool:
        """Send a request when there is room; return False if there is none."""
        if self.state is State.CATCHING_UP:
            return False
        taken = self.requests.add(subject)
        if not taken:
            self.fall_short("too many requests are waiting")
        return taken

    def ask_schema(self, key: ClassKey) -> bool:
        """Request a schema; return False if it cannot be obtained."""
        if key in self.resync.unavailable:
            return False
        if key not in self.definitions and len(self.definitions) >= self.definitions.limit:
            self.fall_short("too many classes")
            self.give_class_up(key)
            self.note("too-many-classes", f"{key} is left out: {self.definitions.limit} are known")
            return False
        return self.ask(FetchSchema(key))

    def give_class_up(self, key: ClassKey) -> None:
        """Do not request this schema until the next resync."""
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
                expiration=max(1, self.config.request_deadline // MILLISECOND),
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
        """Note an agent's refusal of a greeting: it is greeted again later, as a silent one."""
        self._refusal = said

    def _miss_greeting(self) -> None:
        self.gaps.unanswered()
        waited = self.config.request_deadline // SECOND
        exchange = self.config.management_exchange
        refusal, self._refusal = self._refusal, ""
        if refusal:
            self.report_state(SourceState.DOWN, f"the greeting on exchange {exchange} was refused: {refusal}")
            return
        self.report_state(
            SourceState.DOWN,
            f"no answer to the greeting on exchange {exchange} for {waited} s: is an agent running there, "
            "and does it accept requests of this user?",
        )

    def _leave_open(self, operation: Operation, why: str) -> None:
        reads = isinstance(operation.request, ObjectFetch)
        caveat = "" if reads else ": it may have been carried out, or may still be"
        self.answer(operation.answer(Outcome.UNKNOWN, f"{why}{caveat}"))

    # The link.

    def resume(self, missed: str, waiting: int) -> None:
        """Read the ``waiting`` messages before `connect`; raise `LocalProtocolError` if connected.

        ``missed`` is the reason why earlier messages may be lost; empty where none are.
        """
        self.move(Signal.RESUMED)
        self._forget_agents()
        self.gaps.resumed(missed, self.now)
        if not waiting:
            self.observations += self.gaps.missed(self.now)
        self.report_state(SourceState.SYNCHRONISING, f"reading messages that waited: {waiting}")

    def connect(self, reply_to: str) -> None:
        """Begin, with this queue for replies; raise `LocalProtocolError` if connected."""
        caught_up = self.state is State.CATCHING_UP
        self.living.forget()
        self.move(Signal.CONNECTED)
        self.reply_to, self._refusal, self.publishes_nothing = reply_to, "", False
        self._forget_agents()
        self.restarts.suspect()
        self.observations += self.gaps.connected(self.now, caught_up=caught_up)
        self.report_state(
            SourceState.CONNECTING, f"greeting agents on exchange {self.config.management_exchange}"
        )
        self.requests.add(Greeting())

    def disconnect(self, detail: str) -> None:
        """Note that the link is down, with which messages in transit are lost."""
        self.abandon_resync()
        for operation in self.operations.abandon():
            self._leave_open(operation, "the link went down before an answer came")
        self.move(Signal.DISCONNECTED)
        self.resync.cancel()
        self.timer_expired()
        self.report_state(SourceState.DOWN, detail)

    def announced(self, package: str) -> None:
        """Greet an agent that announces ``package``. If the package was known, it restarted or lost its link.

        Its last messages may then be lost, although no heartbeat was missing.
        """
        if self.state is State.CATCHING_UP:
            self._announced_meanwhile(package)
            return
        # While packages are being listed, earlier listed ones are known by their classes only.
        if any(known == package for known, _ in self.resync.listed) or self._knows(package):
            self.gaps.interrupted()
            self.restarts.suspect()
        self.greet_soon(f"an agent announces package {package}")

    def _announced_meanwhile(self, package: str) -> None:
        """Note that the agent restarted while the gateway was away: earlier object ids mean nothing."""
        if not self._knows(package):
            return
        self.observations += self.gaps.interrupted_meanwhile()
        self.observations.append(ResyncBegan(restarted=True))

    def _knows(self, package: str) -> bool:
        return any(known.key.package == package for known in self.definitions)

    def object_received(self, agent: str, message: Content) -> None:
        """Process the object of a record. Objects of a new agent may arrive before they are requested.

        They are the earlier objects under other ids, which must not exist twice meanwhile.
        """
        if agent != BROKER_AGENT:
            if self.restarts.remote_shown_by(agent, message.object_id):
                self.wake()
                self._remote_restarted(agent)
        else:
            is_expected = self.restarts.shown_by(message)
            if is_expected is not None:
                self.wake()
                self._forget_lives()
                self.restart_shows()
                self.observations += [] if is_expected else self.gaps.restarted()
                self.observations.append(ResyncBegan(restarted=True))
                self.greet_soon(f"agent {agent} restarted")
        if message.key.hash == NO_HASH:
            self.living.object_received(message)

    def restart_shows(self) -> None:
        """Note a restart of the broker's agent; what it answered before is of its earlier objects."""
        if self.state is State.FETCHING and self.resync.is_answered:
            self.fall_short(f"agent {BROKER_AGENT} restarted")

    def objects_answered(self, sequence: int) -> None:
        """Note an answer to a query for objects, or a part of one, if the query is under way."""
        if isinstance(self.requests.subject(sequence), FetchObjects):
            self.resync.is_answered = True

    def object_ended(self, message: Content) -> None:
        """Note the end of an object."""
        self.ends.ended(message, (self.requests.last_sequence, self.operations.last_sequence))

    def _forget_lives(self) -> None:
        """Forget which objects live or have ended: the agent restarted."""
        self.living.forget()
        self.ends.forget()

    def is_late(self, message: Content) -> bool:
        """Return whether a record is of an object that has ended, and does not show that it lives."""
        is_answer = self.requests.subject(message.sequence) or self.operations.find(message.sequence)
        return self.ends.is_late(message, message.sequence if is_answer else 0)

    def _remote_restarted(self, agent: str) -> None:
        self.observations.append(ResyncBegan(agent, restarted=True))
        self.requests.drop_objects_of(agent)  # what answers to these reported before is of earlier objects
        if self.state in _ASKING:
            self._read_agent(agent)

    def broker_answered(self, broker: UUID) -> None:
        """Process the answer to the greeting: report what was missed, and list packages."""
        self.observations += self.gaps.interruption(self.now)
        interruption_reported = self.gaps.answered()
        since = self.gaps.until
        silent_since = self.agents.received(BROKER_AGENT, self.now, self.gaps.spoken_at)
        was_reported = interruption_reported or self.restarts.is_reported
        restarted = self.restarts.answered(broker)
        if restarted:
            self.agents.interrupted(BROKER_AGENT)
        if restarted and not was_reported:
            self.miss(since, f"agent {BROKER_AGENT} restarted")
        elif silent_since is not None:
            self.miss(silent_since, f"agent {BROKER_AGENT} was silent")
        self._list()

    def miss(self, since: int, reason: str) -> None:
        """Report a gap from ``since`` to now."""
        self.observations.append(gap_until_now(since, self.now, reason))

    def pass_time(self) -> None:
        """Detect missing heartbeats, query agents without any, and retry where it is time."""
        self.timer_expired()
        for agent, since in self.agents.newly_lost(self.now):
            self.lose(agent, f"agent {agent} has been silent for {(self.now - since) // SECOND} s")
        for agent, since in self.agents.newly_quiet(self.now):
            self._ask_quiet(agent, (self.now - since) // SECOND)
        if self.resync.due_at <= self.now:
            self.greet(self.resync.reason)
        if self.state in _ASKING:
            for agent in self.remotes.take_due(self.now):
                self._read_agent(agent)
        if self.state is State.SYNCHRONISED:
            self.remotes.end_absences(self.now)

    def _ask_quiet(self, agent: str, seconds: int) -> None:
        """Read an agent that sends no heartbeats, and has been silent for so long."""
        if agent == BROKER_AGENT and self.state is State.SYNCHRONISED:
            self.publishes_nothing = self.config.heartbeats.mode is Heartbeats.AUTO
            self.greet(f"agent {BROKER_AGENT} has said nothing for {seconds} s: asking it for everything")
        elif agent != BROKER_AGENT and self.state in _ASKING and agent not in self.remotes.left_out:
            self._read_agent(agent)

    def proved(self, received_until: int) -> None:
        """Note that all was received that had reached the queue by then, and report what that confirms."""
        if self.state not in (State.DISCONNECTED, State.CATCHING_UP):
            self.observations += self.agents.confirmations()
            self.agents.received_until = received_until

    def _list(self) -> None:
        self.move(Signal.ANSWERED)
        self.remotes.await_again(self.now)
        self.resync.begin()
        self.report_state(SourceState.SYNCHRONISING)
        self.ask(ListPackages())

    # The states.

    def greet(self, reason: str) -> None:
        """Read everything again, beginning with a greeting; where one is under way, repeat it."""
        self.observations += self.gaps.interruption(self.now)
        self.resync.cancel()
        if self.state is State.GREETING:
            self.requests.retry_at(Greeting(), self.now)
            return
        self.note("resync", reason)
        self.abandon_resync()
        self.move(Signal.GREET)
        self.requests.add(Greeting())

    def greet_soon(self, reason: str) -> None:
        """Read everything again as `greet`, but not more often than configured."""
        at = self._last_greeting + self.config.greeting_interval
        if self.state is State.CATCHING_UP:
            return  # the greeting follows when all waiting messages are read
        if at <= self.now:
            self.greet(reason)
        else:
            self.resync.plan(at, reason)

    def _greet_sooner(self) -> None:
        """Repeat the greeting of an agent that speaks: it was not there, or stood still, when it was greeted.

        An agent that never answers is greeted twice within the time of one answer by that.
        """
        if self.now - self._hurried_at >= self.config.request_deadline:
            self._hurried_at = self.now
            self.requests.retry_at(
                Greeting(), max(self.now, self._last_greeting + self.config.greeting_interval)
            )
            self.wake()

    def read_the_unnamed(self) -> None:
        """Read everything again for objects without properties; less often, as they may stay so."""
        self._plan_resync("objects were reported without their properties")

    def read_the_revived(self) -> None:
        """Read everything again, because a late record may be of an object that lives; as `read_the_unnamed`.

        The end of an object that is published again may have a time of another clock.
        """
        self._plan_resync("records of objects that ended arrived late")

    def read_the_unread(self) -> None:
        """Read everything again after an unreadable publication; as `read_the_unnamed`."""
        self.gaps.unread()
        self._plan_resync("a message could not be read")

    def _plan_resync(self, reason: str) -> None:
        if self.state is State.SYNCHRONISED:
            at = max(self.now + self.config.retry_interval, self._unnamed_after)
            if self.resync.plan(at, reason):
                self._unnamed_after = at + self.config.unnamed_interval

    def abandon_resync(self) -> None:
        """Drop all requests; a resync under way ends incomplete."""
        self.requests.clear()
        if self.resync.is_open:
            self.resync.is_open = False
            self.observations.append(ResyncEnded(complete=False))
        self.remotes.abandon_all()

    def _advance(self) -> None:
        """Begin the next phase of the resync if this one waits for nothing any more."""
        if self.state is State.LISTING and not self.requests:
            self.move(Signal.LISTED)
            self.resync.is_open = True
            restarted = self.restarts.resync_begins()
            if restarted:
                self._forget_lives()
            self.living.resync_began()
            self.observations.append(ResyncBegan(restarted=restarted))
            for agent in (BROKER_AGENT, *self.remotes.to_ask()):
                self.fetch_all(agent)
        if self.state is State.FETCHING and not self.requests.asks_beside(self.remotes.reading):
            self._end_resync()
        self.remotes.advance(self.now)

    def _end_resync(self) -> None:
        self.resync.is_open = False
        self.observations += self.agents.confirmations()
        self.remotes.everything_read(self.now)
        complete = not self.resync.shortcoming
        without = self.remotes.left_out if complete else frozenset()
        self.observations.append(ResyncEnded(complete, without=without))
        if not self.resync.shortcoming:
            self.resync.succeeded()
            self.living.resync_completed()
            self.move(Signal.FETCHED)
            self.report_state(SourceState.SYNCHRONISED, self._trouble())
            return
        self.move(Signal.FELL_SHORT)
        self._retry_later(f"resync incomplete: {self.resync.shortcoming}")

    def _trouble(self) -> str:
        """Return the fault that remains although everything has been read; empty for none."""
        if self.publishes_nothing and not self.remotes.trouble:
            return (
                f"agent {BROKER_AGENT} answers, but publishes nothing, so that everything is read again and "
                "again: a qpidd needs mgmt-qmf1=yes"
            )
        return self.remotes.trouble

    def _retry_later(self, reason: str) -> None:
        delay = self.config.retry_after(self.resync.fell_short())
        self.resync.cancel()
        self.resync.plan(self.now + delay, reason)
        self.report_state(SourceState.DEGRADED, f"{reason}; next attempt in {delay // SECOND} s")

    # Effects.

    def wake(self) -> None:
        """Let `flush` advance: something changed that affects requests, phases or deadlines."""
        self._is_awake = True

    def flush(self) -> list[Effect]:
        """Return the effects of an event; advance requests and phases where one changed, or is due.

        The frequent publications of agents only postpone deadlines: nothing is computed for them. The timer
        may then expire too early, and is set again.
        """
        if self._is_awake or self.now >= self._wake_at:
            self._is_awake = False
            return self.hand_out(self._go_on(), self.now)
        return self.take_effects()

    def _go_on(self) -> int:
        """Repeat requests, give them up, begin the next phase; return when to do so again."""
        for operation in self.operations.overdue(self.now):
            self._leave_open(operation, "no answer came in time")
        again, given_up = self.requests.overdue(self.now)
        for subject in given_up:
            self._give_up(subject)
        for subject, sequence in again:
            if not self.requests.sequence(subject):
                continue  # of an agent that was just given up
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
            self.report_state(SourceState.SYNCHRONISED, self._trouble())
        return wake_at

    # Agents.

    def answered(self) -> None:
        """Note an answer about classes: the broker's agent is not silent, however long a list takes."""
        if not self.agents.is_lost(BROKER_AGENT):
            self.agents.received(BROKER_AGENT, self.now, self.gaps.spoken_at)

    def _forget_agents(self) -> None:
        self.remotes.depart_all(self.now)

    def agent_spoke(self, agent: str) -> bool:
        """Note a message of an agent; a new agent is read.

        Returns False if there are too many agents: its silence would not be noticed, so it is not shown.
        """
        if self.state is State.GREETING and agent == BROKER_AGENT:
            self._greet_sooner()
        if self.agents.received_again(agent, self.now, self.gaps.spoken_at):
            return True
        self.wake()
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
        """Read a remote agent that is new or has returned, unless everything is about to be read."""
        self.restarts.forget_remote(agent)
        self.remotes.returned(agent, self.now)
        if self.state not in _ASKING_LATER:
            self._read_agent(agent)

    def lose(self, agent: str, detail: str) -> None:
        """Report an agent as silent."""
        if agent != BROKER_AGENT:
            self.remotes.abandon(agent)
        self.observations.append(AgentLost(agent, detail, remote=agent != BROKER_AGENT))
        if agent == BROKER_AGENT and self.state is State.SYNCHRONISED:
            self.move(Signal.SILENT)
            self._retry_later(detail)
