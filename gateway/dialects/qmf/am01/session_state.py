"""The state of a console session with an agent before AM2, where it differs from AM2's.

========================  ==============================  ===============================================
revision                  greeting, listing               reading objects again
========================  ==============================  ===============================================
design notes, until       none: schemas are               by binding the queue again; all is published
January 2008              broadcast                       within an interval, and schemas with it
February 2008             H; P, Q, S; listings end by     by asking for a schema; all is published within
                            silence                         an interval
March 2008                B; P, Q, S, as AM2              G for each class, as AM2
========================  ==============================  ===============================================

The revision of the agent is found out: both greetings are sent while it is unknown, and each message excludes
revisions until the link ends. Agents send no heartbeats: one that is silent for an interval is sent
a harmless request (H, B, else a call of a method of an object that does not exist). Its answer shows that it
lives, but not that its publications arrive: one that publishes nothing for long is read again if it answers
requests, and is lost if it must publish everything at intervals.
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
from gateway.dialects.qmf.am01.published_objects import PublishedObjects
from gateway.dialects.qmf.console_config import ConsoleConfig
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
from gateway.model.times import MILLISECOND, SECOND

_ERA: Final = 10**18
"""Smaller numbers are not times: 2001 in nanoseconds since 1970."""
_FAR: Final = 10**9
"""Nanoseconds: no agent creates so many objects at once, and none starts twice within a second."""


def is_unique(object_id: ObjectId) -> bool:
    """Return whether no other start of the agent uses this id for another object: its number is a time."""
    return not object_id.prefix and object_id.number >= _ERA


class ObjectNumbers:
    """The range of the numbers of an agent's objects since its start."""

    def __init__(self) -> None:
        self._lowest = 0
        self._highest = 0

    def forget(self) -> None:
        """Forget the range, which a restart makes invalid."""
        self._lowest = self._highest = 0

    def show_restart(self, number: int) -> bool:
        """Return whether this number is the first that shows a restart."""
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
"""The number of probes; those of operations begin far above (`Operations`)."""


def request(subject: Subject, sequence: int, revision: Revision) -> Message:
    """Return a request in the form of a revision: AM01 does not number requests, and lacks G."""
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
    """Yield routing keys and bodies that make an agent answer, and have no other effect.

    Args:
        revisions: the possible revisions of the agent.
        known_class: any of its classes; without one, an agent that only answers calls is sent nothing.
        reply_to: the queue for answers.
    """
    for revision in sorted(revisions, key=lambda one: one.value):
        if revision is Revision.FEBRUARY_2008:
            yield COMMAND_KEY, write(AgentHello(), revision)
        elif revision is Revision.MARCH_2008:
            yield COMMAND_KEY, write(BrokerRequest(0), revision)
        elif known_class is not None:
            # No object has the number 0, and no class this method: the agent answers so, and does nothing.
            queue = reply_to if revision is Revision.NOVEMBER_2007 else ""
            call = MethodRequest(PROBE_SEQUENCE, NULL, known_class, PROBE_METHOD, reply_queue=queue)
            yield method_key(revision, known_class, PROBE_METHOD), write(call, revision)


_PATIENCE: Final = 3
"""Intervals after which a publication counts as complete even if the agent is never silent."""


class Publication:
    """The progress of one publication. Times and durations are nanoseconds.

    Args:
        interval: the time within which an agent begins to publish, once it has a reason.
        quiet: the silence that ends a publication.
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
        """Nanoseconds after its reason in which a publication is complete."""
        return self._interval + self._quiet

    @property
    def is_awaited(self) -> bool:
        """Whether a publication is expected or under way."""
        return self.over_at != NEVER

    def begin(self, now: int) -> None:
        """Expect a publication, whose reason arose at ``now`` at the latest."""
        self._objects = 0
        self._described.clear()
        self.prolong(now)

    def prolong(self, now: int) -> None:
        """Expect a further publication after a further reason."""
        self.over_at = now + self.patience
        self._latest = now + _PATIENCE * self.patience

    def cancel(self) -> None:
        """Expect no publication any more."""
        self.over_at = NEVER

    def object_received(self, now: int) -> None:
        """Note a published object."""
        if self.is_awaited:
            self._objects += 1
            self.over_at = max(self.over_at, min(now + self._quiet, self._latest))

    def schema_received(self, key: ClassKey) -> None:
        """Note the broadcast schema of a class, which follows the binding of a queue."""
        self._described.add(key)

    def restarted(self) -> None:
        """Forget the classes that were described before a restart of the agent."""
        self._described_before = frozenset()

    def completed(self) -> None:
        """Note that the publication was complete."""
        self._described_before = frozenset(self._described)

    def shortcoming(self, *, broadcasts: bool) -> str:
        """Return the reason why the publication cannot be complete; empty where it can be.

        ``broadcasts``: whether the agent must have broadcast schemas with it.
        """
        if not self._objects:
            return "the agent published no object"
        if not broadcasts:
            return ""
        # A class may have got its first object just now, and another lost its last one.
        again, before = len(self._described & self._described_before), len(self._described_before)
        if self._described and 2 * again >= before:
            return ""
        found = f"{again} of {before} classes were described again" if before else "no schema came"
        return f"the agent did not publish everything after a queue was bound: {found}"


IDLE_INTERVALS: Final = 30
"""Intervals without a publication after which everything is read again: an idle agent is silent."""

END_PATIENCE: Final = SECOND
"""Nanoseconds for which the end of an object waits for its last statistics, in a message of their own."""

_UNDER_WAY: Final = (State.GREETING, State.LISTING, State.FETCHING)
_FEBRUARY: Final = frozenset((Revision.FEBRUARY_2008,))
_MARCH: Final = frozenset((Revision.MARCH_2008,))


class Am01SessionState(SessionState):
    """The state of a console session with an agent before AM2.

    Attributes:
        rules: see `Am01ConsoleConfig`.
        revisions: the possible revisions of the agent, by all its messages since the link is up.
        publication: the publication of everything.
        known_class: the last class that was read, for requests.
    """

    def __init__(self, config: Am01ConsoleConfig) -> None:
        super().__init__(config)
        self.rules = config
        self.revisions = config.revisions
        interval = config.republish_interval or config.heartbeats.interval
        self.publication = Publication(interval, config.quiet)
        self.known_class: ClassKey | None = None
        self._numbers = ObjectNumbers()
        self._objects = PublishedObjects()
        self._unconfirmed: set[ClassKey] = set()
        self._listings: Timers[Subject] = Timers()  # until silence ends them
        self._spoke_at = self._published_at = NEVER
        self._probed_at = 0
        self._form_asked = False
        self._rebinding = ""
        self._listening_since = NEVER
        self._published_before = config.read_before
        self._second_look = False
        self._awaited = AwaitPublication(ClassKey("", ""))
        self._ending: ObjectSeen | None = None
        self._ending_until = NEVER

    @property
    def is_publishing_only(self) -> bool:
        """Whether the agent answers no requests except calls."""
        return not self.revisions & ASKED

    @property
    def revision(self) -> Revision | None:
        """The revision of the agent; ``None`` while it is uncertain."""
        return next(iter(self.revisions)) if len(self.revisions) == 1 else None

    # The link.

    def connect(self, reply_to: str) -> None:
        """Begin again, with the revision unknown; raise as `SessionState.connect`."""
        self.revisions = self.rules.revisions
        self._form_asked = False
        super().connect(reply_to)
        self._rebinding = ""
        self._listening_since = self.now
        self._unconfirmed = {one.key for one in self.definitions if not one.key.hash.strip(b"\0")}

    def disconnect(self, detail: str) -> None:
        """Note that the link is down."""
        if self.state is State.DISCONNECTED:
            self._rebinding = ""  # the session requested its end, but it did not return
        super().disconnect(detail)
        self._spoke_at = self._published_at = NEVER

    def speaks(self, revisions: frozenset[Revision]) -> None:
        """Note a message that only these revisions have."""
        self.revisions &= revisions
        self._spoke_at = self.now
        if self.state is State.GREETING and self.is_publishing_only:
            self.identified(NO_BROKER)
            self._advance()

    def identified(self, broker: UUID) -> None:
        """Note the answer to the greeting, or that none is needed."""
        self.requests.clear()
        self.broker_answered(broker)

    def broker_answered(self, broker: UUID) -> None:
        """Process the answer to the greeting, as `SessionState.broker_answered`."""
        if self.restarts.broker not in (None, broker):
            self._numbers.forget()  # the resync reports the restart
            self._objects.forget()
            self.ends.forget()
        super().broker_answered(broker)

    def lives(self) -> None:
        """Note the answer to a probe."""
        self.observations.append(HeartbeatSeen(BROKER_AGENT, 0))

    def described(self, key: ClassKey) -> None:
        """Note that a class or event without a hash was described since the link is up."""
        self._unconfirmed.discard(key)

    def outdates(self, message: Content) -> bool:
        """Return whether a record is the first after a restart, and its class was not described since.

        Without a hash, such a class may have changed unnoticed. All such classes are forgotten: the agent
        describes them when it publishes everything.
        """
        if message.key not in self._unconfirmed or not self._numbers.show_restart(message.object_id.number):
            return False
        for key in self._unconfirmed:
            self.definitions.forget(key)
        self._unconfirmed.clear()
        self._published_at = self.now
        self._agent_restarted(BROKER_AGENT)
        return True

    def object_received(self, agent: str, message: Content) -> None:
        """Process the object of a record."""
        number, definition = message.object_id.number, self.definitions.find_class(message.key)
        # A number that is a time shows a restart by itself.
        if self._numbers.show_restart(number) or (
            number < _ERA and definition and self._objects.show_restart(message, definition.schema, self.now)
        ):
            self._agent_restarted(agent)
        self._published_at = self.now
        self.publication.object_received(self.now)

    def published(self, message: Content, seen: ObjectSeen) -> None:
        """Note the observation of an object, and report the end of those that the agent left out."""
        definition = self.definitions.find_class(message.key)
        self._objects.published(message, seen, definition.schema if definition else None, self.now)
        if self.rules.republish_interval is not None and self.state is State.SYNCHRONISED:
            self.observations += self._objects.missing(self.rules.republish_interval, self.now)

    def _agent_restarted(self, agent: str) -> None:
        self._objects.forget()
        self.ends.forget()
        self.restart_shows()
        self.restarts.reported()
        self.publication.restarted()
        self.observations.append(ResyncBegan(restarted=True))
        if self.state not in _UNDER_WAY or self.revisions == _MARCH:
            self.greet_soon(f"agent {agent} restarted")
        elif self.publication.is_awaited:
            self.publication.prolong(self.now)  # all of its objects are new, and will be published

    def report_state(self, state: SourceState, detail: str = "") -> None:
        """Observe the source's state; a link that ends by the session's request is no fault."""
        if self._rebinding and state in (SourceState.DOWN, SourceState.CONNECTING):
            state, detail = SourceState.SYNCHRONISING, f"the queue is bound again: {self._rebinding}"
        super().report_state(state, detail)

    # Reading everything again.

    def greet(self, reason: str) -> None:
        """Read everything again; an agent without requests publishes everything when a queue is bound."""
        super().greet(reason)
        self._listening_since = self.now
        if not self.is_publishing_only:
            return
        if self.rules.republish_interval is None:
            self._rebinding = reason
            self._effects.append(Rebind(reason))
        elif not self.agents.is_lost(BROKER_AGENT):
            # Nothing is asked, so nothing answers: this is no sign of life of the agent.
            self.requests.clear()
            self.gaps.answered()
            self._list()

    def _list(self) -> None:
        if self.revisions == _FEBRUARY:
            self.known_class = None  # its schema can be requested once it is listed
        super()._list()

    def abandon_resync(self) -> None:
        """Drop all requests."""
        super().abandon_resync()
        self.publication.cancel()
        self._listings = Timers()

    def ask(self, subject: Subject) -> bool:
        """Send a request when there is room; return False if there is none, or the agent lacks it."""
        if self.is_publishing_only:
            return False
        if isinstance(subject, FetchObjects) and self.revisions == _FEBRUARY:
            return True  # the answer to a request for a schema makes the agent publish everything
        return super().ask(subject)

    def fetch_all(self, agent: str) -> None:
        """Have everything published again."""
        if self.revisions == _MARCH:
            super().fetch_all(agent)
            return
        self._second_look = self._published_before and not self.is_publishing_only
        self._await_publication()

    def _await_publication(self) -> None:
        if self.is_publishing_only:
            self._awaited = AwaitPublication(ClassKey("", ""))
            self.publication.begin(self.now)
        elif self.known_class is None:
            return  # without a class there are no objects
        else:
            self._awaited = AwaitPublication(self.known_class)
        self.requests.add(self._awaited)

    def schema_answered(self, key: ClassKey) -> None:
        """Note an answer to a request for a schema, after which the agent publishes everything."""
        if self._awaited.key == key and self.requests.sequence(self._awaited):
            self.publication.begin(self.now)

    def listing(self, subject: ListPackages | ListClasses) -> None:
        """Note a part of a listing, which only silence ends."""
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
        broadcasts = self.is_publishing_only and self.rules.republish_interval is None
        shortcoming = self.publication.shortcoming(broadcasts=broadcasts)
        if shortcoming:
            self.fall_short(shortcoming)
        elif self._second_look:
            # A pause in a publication looks like its end: an object is gone if two publications lack it.
            self._second_look = False
            self._await_publication()
        else:
            self._published_before = True
            self.publication.completed()

    def _give_up(self, subject: Subject) -> None:
        if isinstance(subject, ListClasses) and self.revisions == _FEBRUARY:
            # An agent does not answer for a package without classes.
            self.note("no-classes", f"no class of package {subject.package} was received")
            return
        if isinstance(subject, AwaitPublication) and self.publication.is_awaited:
            self.requests.add(subject)  # it was answered, and the publication takes longer
            return
        super()._give_up(subject)

    # Requests.

    def _send(self, subject: Subject, sequence: int) -> None:
        if isinstance(subject, Greeting):
            self._last_greeting = self.now
        expiration = max(1, self.config.request_deadline // MILLISECOND)
        for revision in sorted(self.revisions & ASKED, key=lambda one: one.value):
            message = request(subject, sequence, revision)
            self._publish(COMMAND_KEY, write(message, revision), expiration)

    def _publish(self, routing_key: str, body: bytes, expiration: int) -> None:
        exchange = self.config.management_exchange
        self._effects.append(Send(exchange, routing_key, body, reply_to=self.reply_to, expiration=expiration))

    def pass_time(self) -> None:
        """Act on deadlines as `SessionState.pass_time`, and probe a silent agent."""
        super().pass_time()
        if self._reread_at <= self.now:
            silence = (self.now - self._published_at) // SECOND
            self._published_at = self.now
            self.greet(f"agent {BROKER_AGENT} has published nothing for {silence} s")
        elif self._probe_at <= self.now:
            self._probe()
        if self._silent_at <= self.now:
            self._listening_since = NEVER
            self._report_silence(self.publication.patience)

    @property
    def _reread_at(self) -> int:
        """The time to read everything again: answers alone do not show that publications arrive."""
        if self.state is not State.SYNCHRONISED or self._published_at == NEVER:
            return NEVER
        if not self.is_publishing_only:
            return self._published_at + IDLE_INTERVALS * self.config.heartbeats.interval
        if self.rules.republish_interval is not None:
            return self._published_at + self.config.heartbeats.missed * self.rules.republish_interval
        return NEVER

    @property
    def _probe_at(self) -> int:
        greets = self.state is State.GREETING and not self.is_publishing_only
        if self.state is State.DISCONNECTED or greets:
            return NEVER
        return max(self._spoke_at, self._probed_at) + self.config.heartbeats.interval

    def learn_form(self) -> None:
        """Find out by a call whether methods have the form of November 2007 or of January 2008."""
        if self.revisions == BROADCASTING and not self._form_asked:
            self._form_asked = True
            self._probe()

    def _probe(self) -> None:
        """Send the agent a probe in each form that it may understand."""
        self._probed_at = self.now
        expiration = max(1, self.config.heartbeats.interval // MILLISECOND)
        for key, body in probes(self.revisions, self.known_class, self.reply_to):
            self._publish(key, body, expiration)

    def _miss_greeting(self) -> None:
        if self.revisions <= ASKED:  # agents of other revisions have no reason to publish anything yet
            self._report_silence(self.config.request_deadline)

    @property
    def _silent_at(self) -> int:
        if self.state is not State.GREETING or self._listening_since == NEVER or self.revisions <= ASKED:
            return NEVER
        return self._listening_since + self.publication.patience

    def _report_silence(self, waited: int) -> None:
        self._rebinding = ""
        where = f"on exchange {self.config.management_exchange} for {waited // SECOND} s"
        if not self.is_publishing_only:
            text = f"no answer to the greeting {where}: is an agent running there, and of which revision?"
        elif self.rules.republish_interval is None:
            text = (
                f"nothing received {where}: is an agent running there, and does it notice that a queue is "
                "bound?"
            )
        else:
            text = (
                f"nothing received {where}: is an agent running there, and does it publish everything at "
                "intervals?"
            )
        self.report_state(SourceState.DOWN, text)

    # Effects.

    def flush(self) -> list[Effect]:
        """Return the effects as `SessionState.flush`; the end of an object waits for its last statistics."""
        self.wake()  # the deadlines here depend on publications, too
        effects = super().flush()
        first = effects[0] if effects else None
        if isinstance(first, Observed) and self._is_ending(first.observations[-1]):
            self.observations = [first.observations[-1]]
            complete = first.observations[:-1]
            effects[:1] = [Observed(complete)] if complete else []
        else:
            self._ending, self._ending_until = None, NEVER
        wake_at = min(
            self._ending_until,
            self.publication.over_at,
            self._probe_at,
            self._reread_at,
            self._silent_at,
            self._listings.first,
        )
        if wake_at != NEVER and (wake_at < self._wake_at or self._wake_at <= self.now):
            self._wake_at = wake_at
            effects.append(WakeAt(wake_at))
        return effects

    def _is_ending(self, last: Observation) -> bool:
        """Return whether ``last`` is the end of an object without its statistics, which waits for them."""
        if self.state is State.DISCONNECTED or not isinstance(last, ObjectSeen):
            return False
        if not last.deleted or last.statistics is not None:
            return False
        if last is not self._ending:
            self._ending, self._ending_until = last, self.now + END_PATIENCE
        return self.now < self._ending_until


DEFAULT_PACKAGE: Final = "qpid"
"""The package of the broker's classes, as sent by agents from February 2008 on."""
NO_BROKER: Final = UUID(int=0)
"""The incarnation of agents that have no identity."""


@dataclass(frozen=True, slots=True)
class Am01ConsoleConfig(ConsoleConfig):
    """The settings of a session with an agent before AM2. `heartbeats.interval` is the publish interval.

    Attributes:
        revisions: the possible revisions of the agent; with `ALL`, the session finds out.
        package: the package of classes without one, until January 2008.
        get_and_set: whether the agent has this gateway's get and set (`forms`).
        events: whether the agent sends events in this gateway's layout (`records`).
        republish_interval: nanoseconds after which the agent publishes everything again by itself; ``None``
            where it does so only when a queue is bound.
        read_before: whether an earlier console has read everything: an object that the first publication
            lacks ends only if a second one lacks it, too.
        quiet: nanoseconds of silence that end what no message ends: a listing of February 2008, and a
            publication of everything.
    """

    revisions: frozenset[Revision] = ALL
    package: str = DEFAULT_PACKAGE
    get_and_set: bool = False
    events: bool = False
    republish_interval: int | None = None
    read_before: bool = False
    quiet: int = 2 * SECOND
