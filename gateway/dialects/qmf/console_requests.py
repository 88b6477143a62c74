"""What a console asks of its agents: requests that are repeated, and operations that are sent once.

A reply may never come: each request has a deadline, is asked again a few times, each time with a new
sequence number and more patience, and is given up in the end.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from gateway.dialects.console import Pending, Timers
from gateway.dialects.qmf import addresses
from gateway.dialects.qmf.definitions import ClassDefinition
from gateway.dialects.qmf.fields import ObjectId
from gateway.dialects.qmf.messages import (
    BrokerRequest,
    ClassQuery,
    GetQuery,
    Message,
    PackageQuery,
    SchemaRequest,
)
from gateway.model.operations import Answer, MethodCall, ObjectFetch, ObjectModify, Outcome
from gateway.model.schema import ClassKey
from gateway.model.values import ValueType

REQUEST_SEQUENCES: Final = 1 << 31
"""Requests have the lower half of the sequence numbers, operations the upper one (`Operations`)."""


@dataclass(frozen=True, slots=True)
class Greeting:
    """Who is there? Asked for ever: without an answer there is nothing else to do."""

    def message(self, sequence: int) -> Message:
        """Return the request."""
        return BrokerRequest(sequence)


@dataclass(frozen=True, slots=True)
class ListPackages:
    """Which packages?"""

    def message(self, sequence: int) -> Message:
        """Return the request."""
        return PackageQuery(sequence)


@dataclass(frozen=True, slots=True)
class ListClasses:
    """Which classes of a package?"""

    package: str

    def message(self, sequence: int) -> Message:
        """Return the request."""
        return ClassQuery(sequence, self.package)


@dataclass(frozen=True, slots=True)
class FetchSchema:
    """Which schema has a class or event?"""

    key: ClassKey

    def message(self, sequence: int) -> SchemaRequest:
        """Return the request."""
        return SchemaRequest(sequence, self.key)


@dataclass(frozen=True, slots=True)
class FetchObjects:
    """Which objects of a class has an agent?"""

    agent: str
    package: str
    name: str

    def message(self, sequence: int) -> Message:
        """Return the request."""
        return GetQuery(sequence, {"_class": self.name, "_package": self.package})


@dataclass(frozen=True, slots=True)
class AwaitPublication:
    """Tell everything again by yourself, as agents before AM2 do.

    From February 2008 on they do whenever they were asked for a schema, as of ``key``; before that, whenever
    a queue is bound, so that nothing is sent.
    """

    key: ClassKey

    def message(self, sequence: int) -> SchemaRequest:
        """Return the request."""
        return SchemaRequest(sequence, self.key)


Subject: TypeAlias = Greeting | ListPackages | ListClasses | FetchSchema | FetchObjects | AwaitPublication


def routing_key(subject: Subject) -> str:
    """Return where a request goes: get queries to the agent asked, all others to the broker."""
    if isinstance(subject, FetchObjects):
        return addresses.agent_key(subject.agent)
    return addresses.BROKER_KEY


def _is_of(subject: Subject, agent: str) -> bool:
    return isinstance(subject, FetchObjects) and subject.agent == agent


class _Request:
    __slots__ = ("attempts", "patience", "sequences", "subject")

    def __init__(self, subject: Subject, patience: int) -> None:
        self.subject = subject
        self.attempts = 0
        self.patience = patience
        self.sequences: list[int] = []


@dataclass(frozen=True, slots=True)
class RequestRules:
    """How long and how often is asked. Durations are nanoseconds.

    Attributes:
        deadline: until the first answer is missed; each further attempt waits twice as long.
        longest: the wait is never longer.
        attempts: after so many a request is given up.
        window: requests in flight.
        limit: requests waiting for their turn; more are refused.
    """

    deadline: int
    longest: int
    attempts: int = 3
    window: int = 16
    limit: int = 65_536


class Requests:
    """All requests of a session that are not answered; they are numbered from ``first_sequence`` + 1 on."""

    def __init__(self, rules: RequestRules, first_sequence: int = 0) -> None:
        self._rules = rules
        self._sequence = first_sequence
        self._waiting: deque[Subject] = deque()
        self._known: dict[Subject, _Request | None] = {}
        self._by_sequence: dict[int, _Request] = {}
        self._timers: Timers[_Request] = Timers()
        self._objects_of: Counter[str] = Counter()

    def __bool__(self) -> bool:
        """Whether anything is waited for."""
        return bool(self._known)

    def clear(self) -> None:
        """Wait for nothing any more; late replies will belong to nobody."""
        self._waiting.clear()
        self._known.clear()
        self._by_sequence.clear()
        self._timers = Timers()
        self._objects_of.clear()

    def add(self, subject: Subject) -> bool:
        """Ask when there is room, once however often added; False if too much is waiting."""
        if subject in self._known:
            return True
        if len(self._waiting) >= self._rules.limit:
            return False
        self._known[subject] = None
        self._waiting.append(subject)
        if isinstance(subject, FetchObjects):
            self._objects_of[subject.agent] += 1
        return True

    def asks_objects_of(self, agent: str) -> bool:
        """Whether objects of this agent are waited for."""
        return self._objects_of[agent] > 0

    def asks_beside(self, agents: Iterable[str]) -> bool:
        """Whether anything but the objects of these agents is waited for."""
        return len(self._known) > sum(self._objects_of[agent] for agent in agents)

    def drop_objects_of(self, agent: str) -> None:
        """Wait for no objects of this agent, and ask for none."""
        if not self.asks_objects_of(agent):
            return
        for subject in [one for one in self._known if _is_of(one, agent)]:
            self.drop(subject)
            self._known.pop(subject, None)
        self._waiting = deque(one for one in self._waiting if one in self._known)
        del self._objects_of[agent]

    def subject(self, sequence: int) -> Subject | None:
        """Return what a reply of this sequence answers."""
        request = self._by_sequence.get(sequence)
        return request.subject if request else None

    def sequence(self, subject: Subject) -> int:
        """Return the number that ``subject`` was asked with last; 0 where it is not waited for."""
        request = self._known.get(subject)
        return request.sequences[-1] if request else 0

    def attempts(self, subject: Subject) -> int:
        """Return how often ``subject`` was asked for, since it was hurried if it was."""
        request = self._known.get(subject)
        return request.attempts if request else 0

    def progress(self, sequence: int, now: int) -> None:
        """Part of a reply came: wait for the rest as long again."""
        request = self._by_sequence.get(sequence)
        if request is not None:
            self._timers.set(request, now + request.patience)

    def complete(self, sequence: int) -> Subject | None:
        """Return what a whole reply of this sequence answers, and stop waiting for it."""
        request = self._by_sequence.get(sequence)
        if request is None:
            return None
        self._forget(request)
        return request.subject

    def drop(self, subject: Subject) -> None:
        """Stop waiting for the answer to ``subject``."""
        request = self._known.get(subject)
        if request is not None:
            self._forget(request)

    def _forget(self, request: _Request) -> None:
        self._timers.cancel(request)
        for sequence in request.sequences:
            del self._by_sequence[sequence]
        del self._known[request.subject]
        if isinstance(request.subject, FetchObjects):
            self._objects_of[request.subject.agent] -= 1

    def hurry(self, subject: Subject, at: int) -> None:
        """Ask again at ``at`` if that is sooner, as if it were for the first time."""
        request = self._known.get(subject)
        if request is not None:
            self._timers.set(request, at)
            request.patience = self._rules.deadline
            request.attempts = 0

    def launch(self, now: int) -> list[tuple[Subject, int]]:
        """Return what to send now, with its sequence numbers."""
        launched = []
        while self._waiting and len(self._known) - len(self._waiting) < self._rules.window:
            subject = self._waiting.popleft()
            request = self._known[subject] = _Request(subject, self._rules.deadline)
            launched.append((subject, self._number(request, now)))
        return launched

    def overdue(self, now: int) -> tuple[list[tuple[Subject, int]], list[Subject]]:
        """Return what to send again, with sequence numbers, and what is given up herewith."""
        again: list[tuple[Subject, int]] = []
        given_up: list[Subject] = []
        for request in self._timers.take(now):
            if request.attempts >= self._rules.attempts and not isinstance(request.subject, Greeting):
                self._forget(request)
                given_up.append(request.subject)
                continue
            if request.attempts:
                request.patience = min(2 * request.patience, self._rules.longest)
            again.append((request.subject, self._number(request, now)))
        return again, given_up

    def _number(self, request: _Request, now: int) -> int:
        self._sequence = (self._sequence + 1) % REQUEST_SEQUENCES or 1  # 0 marks what nobody asked for
        request.attempts += 1
        self._timers.set(request, now + request.patience)
        request.sequences.append(self._sequence)
        self._by_sequence[self._sequence] = request
        # A late answer to an earlier attempt counts; only a greeting is asked so often that it must be cut.
        for old in request.sequences[: -self._rules.attempts]:
            del self._by_sequence[old]
        del request.sequences[: -self._rules.attempts]
        return self._sequence

    @property
    def next_deadline(self) -> int:
        """When `overdue` has something to return."""
        return self._timers.first


OperationRequest: TypeAlias = MethodCall | ObjectModify | ObjectFetch
"""What a console can be given; `ObjectModify` only before AM2, which has no such request."""


@dataclass(slots=True)
class Operation:
    """A call or fetch that was sent, or is about to be.

    Attributes:
        request: what the console was given.
        definition: of the object's class.
        object_id: of the object.
        found: whether a fetch was told of the object already.
        trouble: what of the answer to a fetch could not be understood.
    """

    request: OperationRequest
    definition: ClassDefinition
    object_id: ObjectId
    found: bool = False
    trouble: str = ""

    def answer(self, outcome: Outcome, text: str, code: int | None = None) -> Answer:
        """What came of it, without outputs."""
        return Answer(self.request.token, outcome, text, code)


class Operations(Pending[int, Operation]):
    """The operations of a session.

    Args:
        limit: those that wait for an answer at once.
        first_sequence: as of `Requests`.
    """

    def __init__(self, limit: int, first_sequence: int) -> None:
        super().__init__()
        self.limit = limit
        self._number = first_sequence % REQUEST_SEQUENCES

    @property
    def is_full(self) -> bool:
        """Whether no more can wait for an answer."""
        return len(self) >= self.limit

    def ask(self, operation: Operation) -> int:
        """Wait for an answer from now on; returns the sequence number to ask with."""
        self._number = (self._number + 1) % REQUEST_SEQUENCES
        sequence = REQUEST_SEQUENCES + self._number
        self.begin(sequence, operation, operation.request.deadline)
        return sequence


ClassName: TypeAlias = tuple[str, str]
"""Package and name."""

_REFERENCE: Final = "Ref"


def targets_first(listed: Iterable[ClassName], definitions: Iterable[ClassDefinition]) -> Iterator[ClassName]:
    """Return the classes, each behind those that its properties refer to, else in the order listed.

    Whatever is told before what it refers to has to wait for that, and a broker lists queues before the
    virtual hosts that a hundred thousand of them are in. qpidd tells of a reference nothing but the name of
    the property: ``vhostRef`` leads to a ``vhost``.
    """
    targets: dict[ClassName, list[ClassName]] = {}
    for definition in definitions:
        name = (definition.key.package, definition.key.name)
        targets.setdefault(name, []).extend(_referred_to(definition))
    wanted = dict.fromkeys(listed)
    for name in tuple(wanted):
        yield from _with_targets(name, targets, wanted)


def _with_targets(
    name: ClassName, targets: Mapping[ClassName, list[ClassName]], wanted: dict[ClassName, None]
) -> Iterator[ClassName]:
    """Take a class out of ``wanted``, behind what it refers to; of those in a circle the first comes last."""
    if name not in wanted:
        return
    under_way = [(name, iter(targets.get(name, ())))]
    del wanted[name]
    while under_way:
        target = next(under_way[-1][1], None)
        if target is None:
            yield under_way.pop()[0]
        elif target in wanted:
            del wanted[target]
            under_way.append((target, iter(targets.get(target, ()))))


def _referred_to(definition: ClassDefinition) -> Iterator[ClassName]:
    for element in definition.schema.properties:
        if element.type is not ValueType.REFERENCE:
            continue
        name = element.references or element.name.removesuffix(_REFERENCE)
        package, _, name = name.rpartition(":")
        yield package or definition.key.package, name
