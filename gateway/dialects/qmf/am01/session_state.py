"""The state of a console session with an agent before AM2: what differs from AM2's.

========================  ==============================  ===============================================
revision                  greeted, listed                 objects are read again
========================  ==============================  ===============================================
design notes, until       by hearing it: schemas are      by binding the queue again; all is published
January 2008              broadcast                       within an interval, and schemas with it
February 2008             H; P, Q, S; listings end by     by asking for a schema; all is published within
                          silence                         an interval
March 2008                B; P, Q, S, as AM2              G for each class, as AM2
========================  ==============================  ===============================================

What the agent speaks is found out: both greetings are sent while it is not known, and what is heard narrows
it down until the link ends. Agents send no heartbeats: one that has said nothing for an interval is asked
something harmless (H, B, else a call of a method of an object that there is not). That shows that it lives,
and not that its publications arrive: one that publishes nothing for long is read again where it can be asked,
and lost where it must publish everything at times.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from gateway.dialects.console import Timers
from gateway.dialects.qmf.addresses import BROKER_AGENT
from gateway.dialects.qmf.am01.codec import write
from gateway.dialects.qmf.am01.keys import COMMAND_KEY, method_key
from gateway.dialects.qmf.am01.messages import (
    ALL,
    ASKED,
    BROADCASTING,
    AgentHello,
    Message,
    MethodRequest,
    Revision,
)
from gateway.dialects.qmf.console_config import SECOND, ConsoleConfig
from gateway.dialects.qmf.console_requests import (
    AwaitPublication,
    FetchObjects,
    Greeting,
    ListClasses,
    ListPackages,
    Subject,
)
from gateway.dialects.qmf.fields import NULL, ObjectId
from gateway.dialects.qmf.messages import (
    BrokerRequest,
    ClassQuery,
    Content,
    GetQuery,
    PackageQuery,
)
from gateway.dialects.qmf.session_state import SessionState, State
from gateway.dialects.session import NEVER, Effect, Observed, Rebind, Send, WakeAt
from gateway.model.observations import HeartbeatSeen, ObjectSeen, Observation, ResyncBegan, SourceState
from gateway.model.schema import ClassKey

_ERA: Final = 10**18
"""Numbers below are no times: 2001 in nanoseconds since 1970."""
_FAR: Final = 10**9
"""No agent makes so many objects in one go, and none starts twice within a second."""


def is_unique(object_id: ObjectId) -> bool:
    """Whether no other start of the agent gives this id to another object: its number is a time."""
    return not object_id.prefix and object_id.number >= _ERA


class ObjectNumbers:
    """The numbers of an agent's objects since its start, as far as they were told."""

    def __init__(self) -> None:
        self._lowest = 0
        self._highest = 0

    def forget(self) -> None:
        """Those of before mean nothing any more."""
        self._lowest = self._highest = 0

    def show_restart(self, number: int) -> bool:
        """Whether this number is the first that shows a restart."""
        if number < _ERA:
            return False
        known = self._highest != 0
        if known and self._lowest - _FAR < number < self._highest + _FAR:
            self._lowest, self._highest = min(self._lowest, number), max(self._highest, number)
            return False
        self._lowest = self._highest = number
        return known


PROBE_METHOD: Final = "probe"
PROBE_SEQUENCE: Final = 0
"""Operations are numbered from far above on (`Operations`)."""


def request(subject: Subject, sequence: int, revision: Revision) -> Message:
    """Return a request as a revision has it: AM01 numbers none, and knows no G."""
    numbered = revision is Revision.MARCH_2008
    number = sequence if numbered else 0
    match subject:
        case Greeting():
            return BrokerRequest(number) if numbered else AgentHello()
        case ListPackages():
            return PackageQuery(number)
        case ListClasses(package):
            return ClassQuery(number, package)
        case FetchObjects(name=name):
            return GetQuery(number, {"_class": name})
        case _:
            return subject.message(number)


def probes(
    revisions: frozenset[Revision], known_class: ClassKey | None, reply_to: str
) -> Iterator[tuple[str, bytes]]:
    """Return routing keys and bodies that make an agent give a sign of life, and do nothing else.

    Args:
        revisions: what the agent may speak.
        known_class: any of its classes; without one, who answers calls only is asked nothing.
        reply_to: the queue for answers.
    """
    for revision in sorted(revisions, key=lambda one: one.value):
        if revision is Revision.FEBRUARY_2008:
            yield COMMAND_KEY, write(AgentHello(), revision)
        elif revision is Revision.MARCH_2008:
            yield COMMAND_KEY, write(BrokerRequest(0), revision)
        elif known_class is not None:
            # No object has the number 0, and none this method: the agent says so, and does nothing.
            queue = reply_to if revision is Revision.NOVEMBER_2007 else ""
            call = MethodRequest(PROBE_SEQUENCE, NULL, known_class, PROBE_METHOD, reply_queue=queue)
            yield method_key(revision, known_class, PROBE_METHOD), write(call, revision)


_PATIENCE: Final = 3
"""Intervals after which it is over even where an agent never falls silent."""


class Publication:
    """What is heard of one publication. Times and durations are nanoseconds.

    Args:
        interval: within which an agent begins it, once it has a reason to.
        quiet: of silence that ends it.
    """

    def __init__(self, interval: int, quiet: int) -> None:
        self._interval = interval
        self._quiet = quiet
        self._latest = NEVER
        self.over_at = NEVER
        self._objects = 0
        self._described: set[ClassKey] = set()
        self._described_before: frozenset[ClassKey] = frozenset()

    @property
    def patience(self) -> int:
        """Nanoseconds after which an agent that has a reason to tell everything has been heard."""
        return self._interval + self._quiet

    @property
    def is_awaited(self) -> bool:
        """Whether the agent has a reason to publish everything, and has not been heard out."""
        return self.over_at != NEVER

    def begin(self, now: int) -> None:
        """The agent has a reason, since ``now`` at the latest."""
        self._objects = 0
        self._described.clear()
        self.prolong(now)

    def prolong(self, now: int) -> None:
        """It has another one by now."""
        self.over_at = now + self.patience
        self._latest = now + _PATIENCE * self.patience

    def cancel(self) -> None:
        """None is awaited any more."""
        self.over_at = NEVER

    def heard_object(self, now: int) -> None:
        """An object was told."""
        if self.is_awaited:
            self._objects += 1
            self.over_at = max(self.over_at, min(now + self._quiet, self._latest))

    def heard_schema(self, key: ClassKey) -> None:
        """The schema of a class that is kept was broadcast, as happens for who has bound a queue."""
        self._described.add(key)

    def restarted(self) -> None:
        """What the agent described before its start says nothing of what it has now."""
        self._described_before = frozenset()

    def completed(self) -> None:
        """What was heard was everything."""
        self._described_before = frozenset(self._described)

    def shortcoming(self, *, broadcasts: bool) -> str:
        """Why what was heard cannot have been everything; empty where it can.

        ``broadcasts``: whether the agent must have broadcast schemas with it.
        """
        if not self._objects:
            return "the agent told no object"
        if not broadcasts:
            return ""
        # One class may have got its first object just now, and another lost its last one meanwhile.
        again, before = len(self._described & self._described_before), len(self._described_before)
        if self._described and 2 * again >= before:
            return ""
        told = f"{again} of {before} classes were described again" if before else "no schema came"
        return f"the agent did not tell everything to who bound a queue: {told}"


IDLE_INTERVALS: Final = 30
"""After so many without a publication everything is read again: an idle agent publishes nothing."""

END_PATIENCE: Final = SECOND
"""Nanoseconds the end of an object waits for its last statistics, which come in a message of their own."""

_MILLISECOND: Final = 1_000_000
_UNDER_WAY: Final = (State.GREETING, State.LISTING, State.FETCHING)
_FEBRUARY: Final = frozenset((Revision.FEBRUARY_2008,))
_MARCH: Final = frozenset((Revision.MARCH_2008,))


class Am01SessionState(SessionState):
    """What a console of an agent before AM2 knows and does between messages.

    Attributes:
        rules: see `Am01ConsoleConfig`.
        revisions: what the agent may speak, by all that it has said since the link is up.
        publication: of everything, that is awaited or not.
        known_class: the last class learnt, to ask by.
    """

    def __init__(self, config: Am01ConsoleConfig) -> None:
        super().__init__(config)
        self.rules = config
        self.revisions = config.revisions
        interval = config.republish_interval or config.heartbeats.interval
        self.publication = Publication(interval, config.quiet)
        self.known_class: ClassKey | None = None
        self._numbers = ObjectNumbers()
        self._unconfirmed: set[ClassKey] = set()
        self._listings: Timers[Subject] = Timers()  # until silence ends them
        self._spoke_at = self._told_at = NEVER
        self._probed_at = 0
        self._form_asked = False
        self._rebinding = ""
        self._listening_since = NEVER
        self._told_before = config.read_before
        self._second_look = False
        self._awaited = AwaitPublication(ClassKey("", ""))
        self._ending: ObjectSeen | None = None
        self._ending_until = NEVER

    @property
    def is_heard_only(self) -> bool:
        """Whether the agent answers no questions but calls."""
        return not self.revisions & ASKED

    @property
    def revision(self) -> Revision | None:
        """What the agent speaks; ``None`` while that is not certain."""
        return next(iter(self.revisions)) if len(self.revisions) == 1 else None

    # The link.

    def connect(self, reply_to: str) -> None:
        """Begin again, also to find out what the agent speaks; raises as `SessionState.connect`."""
        self.revisions = self.rules.revisions
        self._form_asked = False
        super().connect(reply_to)
        self._rebinding = ""
        self._listening_since = self.now
        self._unconfirmed = {one.key for one in self.definitions if not one.key.hash.strip(b"\0")}

    def disconnect(self, detail: str) -> None:
        """The link is down."""
        if self.state is State.DISCONNECTED:
            self._rebinding = ""  # it ended by our wish, and did not come back
        super().disconnect(detail)
        self._spoke_at = self._told_at = NEVER

    def speaks(self, revisions: frozenset[Revision]) -> None:
        """The agent said something, which only these say so."""
        self.revisions &= revisions
        self._spoke_at = self.now
        if self.state is State.GREETING and self.is_heard_only:
            self.identified(NO_BROKER)
            self._advance()

    def identified(self, broker: UUID) -> None:
        """The agent has answered the greeting, or needs none."""
        self.requests.clear()
        self.broker_answered(broker)

    def broker_answered(self, broker: UUID) -> None:
        """As `SessionState.broker_answered`."""
        if self.restarts.broker not in (None, broker):
            self._numbers.forget()  # the resync says that it was restarted
        super().broker_answered(broker)

    def lives(self) -> None:
        """The agent has answered a question that only asked for that."""
        self.observations.append(HeartbeatSeen(BROKER_AGENT, 0))

    def described(self, key: ClassKey) -> None:
        """A class or event that is told without a hash was described since the link is up."""
        self._unconfirmed.discard(key)

    def outdates(self, message: Content) -> bool:
        """Whether a record is the first of another start, and its class was not described since.

        Without a hash nothing else tells that it was read as a class that is another one by now. All such
        are forgotten: the agent describes them when it tells everything.
        """
        if message.key not in self._unconfirmed or not self._numbers.show_restart(message.object_id.number):
            return False
        for key in self._unconfirmed:
            self.definitions.forget(key)
        self._unconfirmed.clear()
        self._told_at = self.now
        self._agent_restarted(BROKER_AGENT)
        return True

    def told(self, agent: str, message: Content) -> None:
        """The agent told of an object."""
        if self._numbers.show_restart(message.object_id.number):
            self._agent_restarted(agent)
        self._told_at = self.now
        self.publication.heard_object(self.now)

    def _agent_restarted(self, agent: str) -> None:
        self.restarts.reported()
        self.publication.restarted()
        self.observations.append(ResyncBegan(restarted=True))
        if self.state not in _UNDER_WAY or self.revisions == _MARCH:
            self.greet_soon(f"agent {agent} restarted")
        elif self.publication.is_awaited:
            self.publication.prolong(self.now)  # all of its objects are new, and published for that

    def report_state(self, state: SourceState, detail: str = "") -> None:
        """Observe the source's state; a link that ends by our own wish is no trouble."""
        if self._rebinding and state in (SourceState.DOWN, SourceState.CONNECTING):
            state, detail = SourceState.SYNCHRONISING, f"the queue is bound again: {self._rebinding}"
        super().report_state(state, detail)

    # Reading everything again.

    def greet(self, reason: str) -> None:
        """Begin again; an agent that cannot be asked tells everything to whoever binds a queue."""
        super().greet(reason)
        self._listening_since = self.now
        if not self.is_heard_only:
            return
        if self.rules.republish_interval is None:
            self._rebinding = reason
            self._effects.append(Rebind(reason))
        elif not self.agents.is_lost(BROKER_AGENT):
            self.identified(NO_BROKER)

    def _list(self) -> None:
        if self.revisions == _FEBRUARY:
            self.known_class = None  # one that is listed now can be asked for
        super()._list()

    def abandon_resync(self) -> None:
        """Wait for nothing any more."""
        super().abandon_resync()
        self.publication.cancel()
        self._listings = Timers()

    def ask(self, subject: Subject) -> bool:
        """Send a request when there is room; False if there will be none, or the agent answers none such."""
        if self.is_heard_only:
            return False
        if isinstance(subject, FetchObjects) and self.revisions == _FEBRUARY:
            return True  # who has answered a request for a schema publishes everything
        return super().ask(subject)

    def fetch_all(self, agent: str) -> None:
        """Have everything told again."""
        if self.revisions == _MARCH:
            super().fetch_all(agent)
            return
        self._second_look = self._told_before and not self.is_heard_only
        self._await_publication()

    def _await_publication(self) -> None:
        if self.is_heard_only:
            self._awaited = AwaitPublication(ClassKey("", ""))
            self.publication.begin(self.now)
        elif self.known_class is None:
            return  # without a class there are no objects
        else:
            self._awaited = AwaitPublication(self.known_class)
        self.requests.add(self._awaited)

    def schema_answered(self, key: ClassKey) -> None:
        """The agent has answered a request for a schema, so it will publish everything."""
        if self._awaited.key == key and self.requests.sequence(self._awaited):
            self.publication.begin(self.now)

    def listing(self, subject: ListPackages | ListClasses) -> None:
        """Part of a listing came that nothing but silence ends."""
        self._listings.set(subject, self.now + self.rules.quiet)

    def _advance(self) -> None:
        for subject in self._listings.take(self.now):
            self.requests.drop(subject)
        if self.publication.over_at <= self.now:
            self._end_publication()
        super()._advance()

    def _end_publication(self) -> None:
        self.publication.cancel()
        self.requests.drop(self._awaited)
        broadcasts = self.is_heard_only and self.rules.republish_interval is None
        shortcoming = self.publication.shortcoming(broadcasts=broadcasts)
        if shortcoming:
            self.fall_short(shortcoming)
        elif self._second_look:
            # Silence in the middle of a publication looks like its end: what is missing is missed twice.
            self._second_look = False
            self._await_publication()
        else:
            self._told_before = True
            self.publication.completed()

    def _give_up(self, subject: Subject) -> None:
        if isinstance(subject, ListClasses) and self.revisions == _FEBRUARY:
            # Nothing is answered for a package that has none.
            self.note("no-classes", f"no class of package {subject.package} was told")
            return
        if isinstance(subject, AwaitPublication) and self.publication.is_awaited:
            self.requests.add(subject)  # it was answered, and takes its time
            return
        super()._give_up(subject)

    # Asking.

    def _send(self, subject: Subject, sequence: int) -> None:
        if isinstance(subject, Greeting):
            self._last_greeting = self.now
        expiration = max(1, self.config.request_deadline // _MILLISECOND)
        for revision in sorted(self.revisions & ASKED, key=lambda one: one.value):
            message = request(subject, sequence, revision)
            self._publish(COMMAND_KEY, write(message, revision), expiration)

    def _publish(self, routing_key: str, body: bytes, expiration: int) -> None:
        exchange = self.config.management_exchange
        self._effects.append(Send(exchange, routing_key, body, reply_to=self.reply_to, expiration=expiration))

    def pass_time(self) -> None:
        """As `SessionState.pass_time`, and ask a silent agent whether it lives."""
        super().pass_time()
        if self._reread_at <= self.now:
            silence = (self.now - self._told_at) // SECOND
            self._told_at = self.now
            self.greet(f"agent {BROKER_AGENT} has published nothing for {silence} s")
        elif self._probe_at <= self.now:
            self._probe()
        if self._unheard_at <= self.now:
            self._listening_since = NEVER
            self._tell_unheard(self.publication.patience)

    @property
    def _reread_at(self) -> int:
        """When everything is read again, because answers alone do not show that publications arrive."""
        if self.state is not State.SYNCHRONISED or self._told_at == NEVER:
            return NEVER
        if not self.is_heard_only:
            return self._told_at + IDLE_INTERVALS * self.config.heartbeats.interval
        if self.rules.republish_interval is not None:
            return self._told_at + self.config.heartbeats.missed * self.rules.republish_interval
        return NEVER

    @property
    def _probe_at(self) -> int:
        greets = self.state is State.GREETING and not self.is_heard_only
        if self.state is State.DISCONNECTED or greets:
            return NEVER
        return max(self._spoke_at, self._probed_at) + self.config.heartbeats.interval

    def learn_form(self) -> None:
        """Find out by a call whether methods have the form of November 2007 or of January 2008."""
        if self.revisions == BROADCASTING and not self._form_asked:
            self._form_asked = True
            self._probe()

    def _probe(self) -> None:
        """Ask the agent for a sign of life, in each form that it may understand."""
        self._probed_at = self.now
        expiration = max(1, self.config.heartbeats.interval // _MILLISECOND)
        for key, body in probes(self.revisions, self.known_class, self.reply_to):
            self._publish(key, body, expiration)

    def _miss_greeting(self) -> None:
        if self.revisions <= ASKED:  # others have no reason to say anything yet
            self._tell_unheard(self.config.request_deadline)

    @property
    def _unheard_at(self) -> int:
        if self.state is not State.GREETING or self._listening_since == NEVER or self.revisions <= ASKED:
            return NEVER
        return self._listening_since + self.publication.patience

    def _tell_unheard(self, waited: int) -> None:
        self._rebinding = ""
        where = f"on exchange {self.config.management_exchange} for {waited // SECOND} s"
        if not self.is_heard_only:
            text = f"no answer to the greeting {where}: is an agent running there, and what does it speak?"
        elif self.rules.republish_interval is None:
            text = (
                f"no agent was heard {where}: is one running there, and does it hear that a queue is bound?"
            )
        else:
            text = f"no agent was heard {where}: is one running there, and does it tell everything at times?"
        self.report_state(SourceState.DOWN, text)

    # What is handed out.

    def finish(self) -> list[Effect]:
        """As `SessionState.finish`; the end of an object waits a moment for its last statistics."""
        self.stir()  # its own deadlines follow from what was published, too
        effects = super().finish()
        first = effects[0] if effects else None
        if isinstance(first, Observed) and self._is_ending(first.observations[-1]):
            self.observations = [first.observations[-1]]
            told = first.observations[:-1]
            effects[:1] = [Observed(told)] if told else []
        else:
            self._ending, self._ending_until = None, NEVER
        wake_at = min(
            self._ending_until,
            self.publication.over_at,
            self._probe_at,
            self._reread_at,
            self._unheard_at,
            self._listings.first,
        )
        if wake_at != NEVER and (wake_at < self._wake_at or self._wake_at <= self.now):
            self._wake_at = wake_at
            effects.append(WakeAt(wake_at))
        return effects

    def _is_ending(self, last: Observation) -> bool:
        """Whether ``last`` is the end of an object, told without its statistics, that waits for these."""
        if self.state is State.DISCONNECTED or not isinstance(last, ObjectSeen):
            return False
        if not last.deleted or last.statistics is not None:
            return False
        if last is not self._ending:
            self._ending, self._ending_until = last, self.now + END_PATIENCE
        return self.now < self._ending_until


DEFAULT_PACKAGE: Final = "qpid"
"""The package of the broker's classes, as agents from February 2008 on tell it."""
NO_BROKER: Final = UUID(int=0)
"""For agents that do not tell an incarnation of theirs."""


@dataclass(frozen=True, slots=True)
class Am01ConsoleConfig(ConsoleConfig):
    """As `ConsoleConfig`, of which no catching up is used, and `heartbeats.interval` is the publish interval.

    Attributes:
        revisions: what the agent may speak; `ALL` finds out which.
        package: of classes that are told without one, until January 2008.
        get_and_set: the agent has get and set as we lay them out (`get_and_set`).
        events: the agent sends events as we lay them out (`records`).
        republish_interval: nanoseconds after which the agent tells everything again by itself; ``None`` where
            it does so only for who binds a queue.
        read_before: a console before this one had read everything: what is missing at first must be missing
            twice, as later, before it is taken to have ended.
        quiet: nanoseconds without another word that end what no message ends: a listing of February 2008, and
            a publication of everything.
    """

    revisions: frozenset[Revision] = ALL
    package: str = DEFAULT_PACKAGE
    get_and_set: bool = False
    events: bool = False
    republish_interval: int | None = None
    read_before: bool = False
    quiet: int = 2 * SECOND
