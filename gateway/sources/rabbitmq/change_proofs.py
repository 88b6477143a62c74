"""Proofs of changes: that an object is the one that is meant, that it ended, and that a queue was emptied.

A proxy between gateway and broker may answer for the broker, lose an answer, or change a path. So an object
is read before it is deleted or purged, and read again afterwards: what the broker shows, and its events,
decide.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final

from gateway.dialects.qmf.statuses import Status
from gateway.mapping.paths import Json, integer_at, text_at
from gateway.model.times import MILLISECOND, SECOND
from gateway.sources.rabbitmq.management_api import Document, page_by_name, page_of
from gateway.sources.rabbitmq.management_changes import Lookup
from gateway.sources.rabbitmq.method_steps import (
    CallFailedError,
    Evidence,
    Invocation,
    Method,
    QueueCounts,
)
from gateway.sources.rabbitmq.object_lives import KnownObject
from gateway.sources.rabbitmq.object_names import ObjectName, is_listed_as
from gateway.sources.rabbitmq.path_proof import path_of

SETTLING = 6 * SECOND
"""Nanoseconds for which the broker is read, until an object is gone."""
MEASURING = 12 * SECOND
"""Nanoseconds for which the figures of a purged queue are read; by default they are 5 to 10 s old."""
EVENTS_FIRST = SECOND
"""Nanoseconds for which the event of an end is awaited; it reports more than that the object is gone."""
EVENT_DELAY = 5 * SECOND
"""Nanoseconds for which the event is awaited that says who deleted an object that is gone."""
FOLLOWED = 24 * 3600 * SECOND
"""Nanoseconds for which the effect of a change is awaited that may have been made."""
CERTAIN_AFTER = 35 * SECOND
"""Nanoseconds after which a change that the broker does not show was not made: it may still be under way."""
MEASURED_AFTER = 65 * SECOND
"""The same for a purge: the depths of queues are measured every 5 s by default, or every half a minute."""
COUNTED_AFTER = 32 * SECOND
"""Nanoseconds after which the broker's counts include a deletion: nodes count every 5 s by default."""
PROOF_PAUSE = 5 * SECOND
"""Nanoseconds between two readings while a proof is awaited that an object is still the same."""
FIRST_READING, LAST_PAUSE = 2 * SECOND, 300 * SECOND
"""Nanoseconds to the first reading of an object whose change is awaited, and the longest pause after it.

Each pause is twice as long as the one before.
"""

_INDEXES: Final[Mapping[str, tuple[str, ...]]] = {
    "binding": ("vhost", "source", "destination_type", "destination", "properties_key"),
    "connection": ("name",),
    "exchange": ("vhost", "name"),
    "parameter": ("vhost", "component", "name"),
    "policy": ("vhost", "name"),
    "queue": ("vhost", "name"),
    "vhost": ("name",),
}
"""The fields of an object's own document that have the parts of its name, by class."""

_COLLECTIONS: Final = {"policy": "policies"}


def own_path(name: ObjectName) -> str:
    """Return the path below ``/api/`` of an object of a class of `_INDEXES`."""
    match name.class_name, name.plain.parts:
        case "binding", (host, source, kind, destination, key):
            return path_of("bindings", host, "e", source, kind[:1], destination, key)
        case "parameter", (host, component, leaf):
            return path_of("parameters", component, host, leaf)
    return path_of(_COLLECTIONS.get(name.class_name, f"{name.class_name}s"), *name.plain.parts)


def as_meant(
    name: ObjectName, *, needed: tuple[str, ...] = (), columns: tuple[str, ...] | None = None
) -> Generator[Lookup, Json, Mapping[str, Json]]:
    """Read an object by its own path, as the user who changes it; return its document.

    Args:
        name: the object that is meant.
        needed: the fields that the document must have, each with a value.
        columns: fields to request beside its name; ``None`` for the whole document.

    Raises:
        CallFailedError: it is gone, cannot be read, is another object, or lacks a field: nothing was sent.
    """
    index = _INDEXES[name.class_name]
    query = "" if columns is None else f"?columns={','.join((*index, *columns))}"
    found = yield Lookup(own_path(name) + query, as_writer=True)
    if found is None:
        raise CallFailedError(Status.UNKNOWN_OBJECT, "the broker has no such object: nothing was sent")
    document = found if isinstance(found, Mapping) else {}
    listed = (document.get(key) for key in index)
    if not all(map(is_listed_as, name.plain.parts, listed)):
        raise CallFailedError(
            Status.EXCEPTION,
            f"nothing was sent: the management API answers with something else than {name}: does a proxy in"
            " front of it change paths or answers?",
        )
    lacking = [key for key in needed if document.get(key) is None]
    if lacking:
        text = f"nothing was sent: the management API's answer about {name} lacks {', '.join(lacking)}"
        raise CallFailedError(Status.EXCEPTION, text)
    return document


def nodes_of_connection(name: str) -> Generator[Lookup, Json, list[str]]:
    """Read the nodes of all connections of a name; empty if that cannot be read.

    Behind proxies that report the client's address and port (PROXY protocol) several may have it.
    """
    answer = yield from _asked(f"{page_by_name('connections', name)}&columns=name,node")
    items, _ = page_of(Document(answer)) or ([], True)
    alike = (item for item in items if isinstance(item, Mapping) and is_listed_as(name, item.get("name")))
    return sorted(text_at(item, "node") for item in alike)


DEPTH_COLUMNS: Final = (
    "messages_ready",
    "messages_unacknowledged",
    "message_stats.publish",
    "message_stats.deliver_get",
)
"""The fields by which `was_emptied` judges."""


_DEPTHS: Final = "disable_stats=true&enable_queue_totals=true"
"""Has queues answered with their present depths, in the place of statistics."""


def present_depth(queue: ObjectName) -> Generator[Lookup, Json, int | None]:
    """Read how many messages of a queue are ready for delivery at this moment; ``None`` if that is not shown.

    RabbitMQ 3.10 shows it in listings only.
    """
    host, leaf = queue.parts
    page = f"{page_by_name(path_of('queues', host), leaf)}&{_DEPTHS}"
    for target in (f"{own_path(queue)}?{_DEPTHS}", page):
        try:
            answer = yield Lookup(target, as_writer=True)
        except CallFailedError:
            return None
        if answer is None:
            return None
        items = answer.get("items", [answer]) if isinstance(answer, Mapping) else []
        for item in items if isinstance(items, list) else []:
            if isinstance(item, Mapping) and (item.get("vhost"), item.get("name")) == queue.parts:
                ready = integer_at(item, "messages_ready")
                if ready is not None:
                    return ready
    return None


def was_emptied(before: Mapping[str, Json], after: Mapping[str, Json]) -> bool | None:
    """Return whether the messages that a queue had are gone; ``None`` if its figures do not show that.

    RabbitMQ measures a queue's depth and the messages that came and went at different moments, seconds apart,
    so a small difference between large figures proves nothing. Messages that were being delivered are not
    purged, and may return.

    Args:
        before: the queue's document before it was purged.
        after: the same some time later.
    """
    ready, had = integer_at(after, "messages_ready"), integer_at(before, "messages_ready")
    if ready == 0:
        return True
    if ready is None or had is None:
        return None
    came = _since(before, after, "publish")
    went = _since(before, after, "deliver_get")
    returned = integer_at(before, "messages_unacknowledged") or 0
    if had <= came + went + returned:
        return None
    # Without a purge there would be as many as before, with those that came and without those that went.
    return ready <= came + returned + (had - went) // 2


def _since(before: Mapping[str, Json], after: Mapping[str, Json], key: str) -> int:
    return max(0, _counted(after, key) - _counted(before, key))


def _counted(document: Mapping[str, Json], key: str) -> int:
    counts = document.get("message_stats")
    return integer_at(counts, key) or 0 if isinstance(counts, Mapping) else 0


WITH_CONTENTS: Final = frozenset({"queue", "exchange"})
"""Classes whose objects lose something if they are deleted and declared again: messages, bindings.

Of the others it makes no difference whether an object of a name is still there, or there again.
"""
_BINDING: Final = "?columns=source,destination,destination_type,properties_key"
_COUNTS: Final = "overview?columns=churn_rates.queue_deleted"


def evidence_of(name: ObjectName, evidence: Evidence) -> Generator[Lookup, Json, None]:
    """Read by what a queue or exchange is distinguished from the next of its name, if no events report it."""
    evidence.life = yield from sign_of_life(name)
    if name.class_name == "queue":
        evidence.counts = yield from queue_counts()


def sign_of_life(name: ObjectName) -> Generator[Lookup, Json, Json]:
    """Read what a queue or exchange would not have if it were declared again; ``None`` if nothing is shown.

    A classic queue shows since when it is idle, to the millisecond; RabbitMQ forgets that with the queue. An
    exchange loses its bindings.
    """
    if name.class_name == "queue":
        found = yield from _asked(f"{own_path(name)}?columns=vhost,name,idle_since")
        shown = found if isinstance(found, Mapping) else {}
        return shown.get("idle_since") if (shown.get("vhost"), shown.get("name")) == name.parts else None
    bindings: list[str] = []
    for end in ("source", "destination"):
        found = yield from _asked(f"{own_path(name)}/bindings/{end}{_BINDING}")
        if not isinstance(found, list):
            return None
        bindings += sorted(json.dumps(one, sort_keys=True) for one in found)
    # There may be 100,000, and a call may be followed for a day.
    return blake2b("\n".join(bindings).encode(), digest_size=16).hexdigest()


def queue_counts() -> Generator[Lookup, Json, QueueCounts | None]:
    """Read how many queues the broker has deleted; ``None`` if it does not show that."""
    overview = yield from _asked(_COUNTS)
    counts = overview.get("churn_rates") if isinstance(overview, Mapping) else None
    deleted = integer_at(counts, "queue_deleted") if isinstance(counts, Mapping) else None
    nodes = yield from _asked("nodes?columns=name,uptime")
    uptimes: dict[str, int] = {}
    for node in nodes if isinstance(nodes, list) else []:
        uptime = integer_at(node, "uptime") if isinstance(node, Mapping) else None
        if not isinstance(node, Mapping) or uptime is None:
            return None  # one of them does not run, or does not count
        uptimes[str(node.get("name"))] = uptime * MILLISECOND
    return QueueCounts(deleted, uptimes) if deleted is not None and uptimes else None


def _asked(target: str) -> Generator[Lookup, Json, Json]:
    """Read something as the user who changes the broker; return ``None`` if it cannot be read."""
    try:
        return (yield Lookup(target, as_writer=True))
    except CallFailedError:
        return None


_SETTINGS: Final = {"parameter.set": "parameter", "policy.set": "policy", "vhost.updated": "vhost"}
"""The events that report that an object was set, with its fields as in its own document; and its class."""
_NOT_REPORTED: Final = frozenset({"tracing"})
"""Fields of an object that such an event has as they were before."""
_USER: Final = "user_who_performed_action"


def is_set_by(user: str, settings: Sequence[Mapping[str, object]]) -> bool:
    """Return whether an event reports that a user set an object."""
    return any(one.get(_USER) == user for one in settings)


def overwritten(
    user: str, kept: Mapping[str, Json], settings: Sequence[Mapping[str, object]]
) -> tuple[str, list[str]]:
    """Return who set an object right before ``user`` did, and which fields of that were overwritten.

    RabbitMQ has no request that depends on what was there before: between the last reading and the request,
    another user may have set something else.

    Args:
        user: the user who changes the broker for the gateway.
        kept: the fields that were written as they had been read.
        settings: the events that report that the object was set, in their order.
    """
    before = list(itertools.takewhile(lambda one: one.get(_USER) != user, settings))
    if not before or len(before) == len(settings):
        return "", []
    last = before[-1]
    lost = [
        key
        for key, value in kept.items()
        if key in last and key not in _NOT_REPORTED and (last[key] or None) != (value or None)
    ]
    return str(last.get(_USER)), lost


MAX_PENDING: Final = 256
"""Maximum number of changes without a certain outcome that are followed at a time."""


MAX_UNCLAIMED: Final = 2_000
"""Maximum number of ends that are kept until a call turns out to be their cause.

No more calls than half of that are under way at a time, and each has ended one object.
"""


@dataclass(slots=True)
class ReportedEnd:
    """An event that reports that the gateway's user ended an object; ``is_claimed``: a call was the cause."""

    is_claimed: bool = False


@dataclass(slots=True)
class AwaitedEnd:
    """An object that a call is to end, or to set, and what events report of its name meanwhile.

    A call may be followed for a day in which others make, set and end objects of that name. So only what
    proves something is kept of the events.

    Attributes:
        name: the name of the object.
        number: the number of the object, which another one of the same name does not have.
        user: the user who changes the broker for the gateway.
        is_to_end: whether the call is to end the object.
        first: the user who has ended the first object of the name since the begin of the call, which is this
            one; ``None`` until an event reports it.
        is_own: whether an event reports that ``user`` has ended an object of the name since then.
        claimed: the number of other calls that have ended this object before an event reported it.
        settings: the first event since the begin of the call that reports that ``user`` set the object, and
            in front of it the last one before that reports that another user did.
    """

    name: ObjectName
    number: int
    user: str
    is_to_end: bool
    first: str | None = None
    is_own: bool = False
    claimed: int = 0
    settings: list[Mapping[str, object]] = field(default_factory=list)
    _own: list[ReportedEnd] = field(default_factory=list)

    def ended(self, user: str, reported: ReportedEnd) -> None:
        """Note that an event reports that ``user`` ended an object of the name."""
        if self.first is None:
            self.first = user
        if user != self.user:
            return
        self.is_own = True
        if len(self._own) >= MAX_UNCLAIMED:
            self._own = [one for one in self._own if not one.is_claimed]
        if len(self._own) < MAX_UNCLAIMED:
            self._own.append(reported)

    def was_set(self, headers: Mapping[str, object]) -> None:
        """Note an event that reports that the object was set."""
        if self.is_to_end or is_set_by(self.user, self.settings):
            return
        if headers.get(_USER) != self.user:
            self.settings.clear()
        self.settings.append(headers)

    @property
    def unclaimed(self) -> ReportedEnd | None:
        """The first end by the gateway's user that no other call has caused; ``None`` if there is none."""
        unclaimed = (one for one in self._own if not one.is_claimed)
        return next(itertools.islice(unclaimed, self.claimed, None), None)

    @property
    def first_user(self) -> str:
        """The user who ended the object; empty if no event says so."""
        # Of a connection the event names the user who opened it.
        return self.first if self.first is not None and self.name.class_name != "connection" else ""

    @property
    def is_of_other(self) -> bool:
        """Whether only others than the gateway's user are known to have ended objects of the name."""
        return bool(self.first_user) and not self.is_own

    @property
    def patience(self) -> int:
        """For how long events are awaited when the object is gone (ns).

        A deletion by the gateway's user that is still under way may end the next object of the name.
        """
        if self.is_of_other:
            return CERTAIN_AFTER
        return 0 if self.first is not None else EVENT_DELAY


@dataclass(slots=True)
class AwaitedEnds:
    """The objects that calls are to end or to set, and who did that, as the broker's events say.

    ``user`` is the one who changes the broker for the gateway.
    """

    user: str
    _ends: list[AwaitedEnd] = field(default_factory=list)

    def await_end(self, name: ObjectName, number: int, *, is_to_end: bool) -> AwaitedEnd:
        """Await that an object is ended or set, until `forget`."""
        end = AwaitedEnd(name, number, self.user, is_to_end)
        self._ends.append(end)
        return end

    def ended(self, name: ObjectName, user: object) -> None:
        """Apply an event that reports that ``user`` ended an object."""
        if isinstance(user, str):
            reported = ReportedEnd()
            for end in self._ends:
                if end.name == name:
                    end.ended(user, reported)

    def was_set(self, key: str, headers: Mapping[str, object]) -> None:
        """Apply an event of this routing key, which may report that an object was set."""
        class_name = _SETTINGS.get(key, "")
        name = tuple(headers.get(one) for one in _INDEXES.get(class_name, ()))
        for end in self._ends:
            if end.name.class_name == class_name and end.name.parts == name:
                end.was_set(headers)

    def claim(self, end: AwaitedEnd) -> bool:
        """Return whether a call has ended its object, which is gone.

        Each end that an event reports is of one call. Of several calls without such an event the first has
        ended the object.
        """
        if (unclaimed := end.unclaimed) is not None:
            unclaimed.is_claimed = True
            return True
        if end.claimed or end.is_own:
            return False
        for other in self._ends:
            other.claimed += other is not end and (other.name, other.number) == (end.name, end.number)
        return True

    def forget(self, end: AwaitedEnd) -> None:
        """Await the end no longer."""
        self._ends = [one for one in self._ends if one is not end]


@dataclass(frozen=True, slots=True)
class AwaitedEffect:
    """The effect of a call that ends or empties an object.

    Attributes:
        target: the object.
        method: the method that was called.
        invocation: the call.
        end: the end of the object, as events report it.
        began: when the call began (ns).
    """

    target: KnownObject
    method: Method
    invocation: Invocation
    end: AwaitedEnd
    began: int

    def is_same(self, seen_at: int, now: int) -> Generator[Lookup, Json, bool]:
        """Return whether the broker shows that the object that is there is the one that was to end.

        Another user may have declared it again at once. If no event reports that, it was not seen that it was
        deleted.

        Args:
            seen_at: when an object of the name was seen that the change will not end any more (ns).
            now: the time (ns).
        """
        name, evidence = self.target.name, self.invocation.evidence
        if not self.method.ends or name.class_name not in WITH_CONTENTS:
            return True
        if evidence.life is not None and evidence.life == (yield from sign_of_life(name)):
            return True
        if evidence.counts is None or now < seen_at + COUNTED_AFTER:
            return False
        counts = yield from queue_counts()
        return counts is not None and counts.are_as(evidence.counts, now - self.began)

    def is_emptied(self, after: Mapping[str, Json], now: int) -> Generator[Lookup, Json, bool | None]:
        """Return whether a purged queue has lost the messages that it had; ``None`` if that is not shown.

        Figures are some seconds old: those of before and after may both be older than messages that came
        right before the purge. So the present depth confirms what they show. Where that is not shown,
        figures of before without a message prove nothing until they must have been renewed.

        Args:
            after: the queue's document after the purge.
            now: the time (ns).
        """
        evidence = self.invocation.evidence
        emptied = was_emptied(evidence.figures, after)
        if not emptied:
            return emptied
        listed = integer_at(evidence.figures, "messages_ready") or 0
        left = yield from present_depth(self.target.name)
        if left is None:
            return listed > 0 or now >= self.began + MEASURED_AFTER or None
        had = listed if evidence.ready is None else evidence.ready
        return left == 0 or 2 * left < had or None
