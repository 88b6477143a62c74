"""Observations: the facts about the objects of a source that a session reports.

A session yields observations in tuples, one tuple per message body. The inventory applies them in their
order, a large tuple in several turns of the event loop, unless its source is added as one to be applied
whole. Times are nanoseconds since 1970-01-01 UTC in the *agent's* clock unless said otherwise; 0 means
unknown. ``agent`` names the agent within its source (``1.0`` for a broker's own QMF agent), so that a
heartbeat confirms only what that agent owns.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

import msgspec

from gateway.model.schema import ClassKey, ClassSchema, EventSchema
from gateway.model.times import SECOND
from gateway.model.values import Values


@dataclass(frozen=True, slots=True)
class ClassLearned:
    """A schema of a class, received for the first time in this session, or again with other contents.

    The later one applies to the reports after it. Where the dialect has no schema hash, the session puts
    a hash of the contents into the key, so that each version of a class has a key of its own.
    """

    schema: ClassSchema


@dataclass(frozen=True, slots=True)
class EventLearned:
    """A schema of an event, received for the first time in this session, or again with other contents."""

    schema: EventSchema


class Counting(enum.IntEnum):
    """How the counters of an object relate to those that were reported before.

    Attributes:
        GO_ON: they go on, as far as is known; of one that fell a part is missing, or the reading was wrong.
        BEGAN: all have begun again from zero; this is proven.
        UNKNOWN: nothing is known: what they gained cannot be computed.
    """

    GO_ON = 0
    BEGAN = 1
    UNKNOWN = 2


SETTLED_AFTER: Final = 60 * SECOND
"""Nanoseconds after which a counter that is less than before is taken as it is shown.

Until then it may return: a reading was wrong, or older than the one before.
"""

SETTLED_BY: Final = 3
"""Number of readings, that of the change among them, after which a counter's fall, or its rise, stays.

A source that publishes only what changed publishes so many readings of a rise.
"""


@dataclass(frozen=True, slots=True)
class ObjectSeen:
    """An object exists, or existed (``deleted`` is not 0), with the values that were reported.

    ``properties`` and ``statistics`` are in schema order, or ``None`` where this message did not carry
    that group; a group is always complete. ``native_id`` is unique within the source: where a dialect's
    identifier is unique within an agent only, the session puts the agent in front. ``sampled`` is when the
    agent read the values; 0 where the dialect has no such time, and then the time of receipt is used. Where
    the dialect reports that an object is gone but not when, ``deleted`` is the gateway's time of receipt.
    ``inferred``: the end was not reported; readings lack the object, and ``deleted`` is when that was
    noticed. ``persistent_id``: the agent guarantees that ``native_id`` means the same object after a restart
    of the agent. ``presumed``: the session takes it for the object that had its name before a restart, and
    cannot know whether it is. ``unread_since``: the time since which the source cannot read it (the gateway's
    clock), although it reads others, and nothing shows that it ended; 0 while it can, ``None`` where this
    message did not carry that.
    ``counting``: how its counters relate to the earlier ones, those of before a restart included.
    ``inherited``: they may have begun with the counts of another object, so that the first values of a new
    one are not known to be counted; it is said as long as the object lives.
    """

    key: ClassKey
    agent: str
    native_id: str
    sampled: int
    created: int
    deleted: int
    properties: Values | None = None
    statistics: Values | None = None
    transient: bool = False
    inferred: bool = False
    persistent_id: bool = False
    presumed: bool = False
    unread_since: int | None = 0
    counting: Counting = Counting.GO_ON
    inherited: bool = False


@dataclass(frozen=True, slots=True)
class EventSeen:
    """An event happened; ``arguments`` are in schema order.

    ``cause`` is the same text whichever agent reported the same event of the broker, and differs between any
    two events; empty where the source has no such text.
    """

    key: ClassKey
    agent: str
    time: int
    severity: Severity
    arguments: Values
    cause: str = ""


class RecordLost(msgspec.Struct, frozen=True):
    """An agent reported an event or the end of an object, but the session lacks the schema of its class.

    The report cannot be decoded, and is not repeated. Reports of objects that live are not lost: they are
    requested again once their schema is known.
    """

    key: ClassKey
    agent: str


class HeartbeatSeen(msgspec.Struct, frozen=True):
    """An agent is alive: all its objects that it did not report are unchanged as of ``time``.

    ``current_until``: when values are stale unless they are confirmed again, whatever the reason (the
    gateway's clock), by class (``package:name``); the empty name stands for all other classes. Without it
    the last such times hold; before the first, values are current until the agent is lost.
    """

    agent: str
    time: int
    current_until: Mapping[str, int] = msgspec.field(default_factory=dict)


class ResyncBegan(msgspec.Struct, frozen=True):
    """A resynchronisation begins: every object within the scope will be reported again.

    The scope is the source, or one ``agent`` of it, or one class (``package:name``) of either; an empty name
    does not narrow it. ``restarted``: the agent or broker restarted, so earlier native ids mean nothing any
    more, and every counter within the scope began again, except those of objects with the same time of
    creation.
    """

    agent: str = ""
    class_name: str = ""
    restarted: bool = False


class ResyncEnded(msgspec.Struct, frozen=True):
    """A resynchronisation ends: if it is ``complete``, an object that it did not report no longer exists.

    It ends the resynchronisation of the same scope, and removes objects within that scope only. Objects of
    the agents ``without`` are not part of it: they are neither gone nor confirmed.
    """

    complete: bool
    agent: str = ""
    class_name: str = ""
    without: frozenset[str] = frozenset()


class SourceState(enum.Enum):
    """The state of a source, which determines how far its values are trusted."""

    CONNECTING = "connecting"
    SYNCHRONISING = "synchronising"
    SYNCHRONISED = "synchronised"
    DEGRADED = "degraded"
    DOWN = "down"


UNREAD: Final = frozenset({SourceState.CONNECTING, SourceState.DOWN, SourceState.SYNCHRONISING})
"""States of a source in which an object that is not known may exist."""

EVENT_DELAY_BOUNDS: Final = (SECOND, 10 * SECOND)
"""The bounds of `EventDelays.allowed` in nanoseconds: an event that happened then may be under way."""

LONGEST_AGENT_DELAY: Final = 60 * SECOND
"""The upper bound for an agent: on a machine with too much work it publishes 20 s after events happened."""


_LAST_EVENTS: Final = 30 * SECOND


class EventDelays:
    """How long the last events of a source took to arrive, those of the last 30 s at least.

    On a busy machine delays grow for a while, and one event takes much less than the one before.

    Args:
        longest: the longest delay, in nanoseconds, of a time before.
    """

    __slots__ = ("_earlier", "_present", "_since")

    def __init__(self, longest: int = 0) -> None:
        self._earlier, self._present, self._since = 0, longest, 0

    @property
    def longest(self) -> int:
        """The longest one by both clocks, in nanoseconds; 0 where there was no event."""
        return max(self._earlier, self._present)

    def note(self, delay: int, now: int) -> None:
        """Take the delay of an event that arrived ``now``, both in nanoseconds."""
        if not 0 <= now - self._since < _LAST_EVENTS:
            self._earlier, self._present, self._since = self._present, 0, now
        self._present = max(self._present, delay)

    def allowed(self, most: int = EVENT_DELAY_BOUNDS[1]) -> int:
        """Return the time in nanoseconds in which events may be under way.

        That is twice the longest one, within `EVENT_DELAY_BOUNDS` or up to ``most``: clocks that differ make
        no more.
        """
        return min(max(2 * self.longest, EVENT_DELAY_BOUNDS[0]), most)


_PLANNED: Final = 3
"""Number of planned intervals in which a value that is read again and again must have been read."""


def current_until(read_at: int, interval: int, stale_after: int) -> int:
    """Return when values that were read at ``read_at`` (ns) are stale, if they are not read again.

    Args:
        read_at: when the last complete reading of them began.
        interval: the planned nanoseconds between two readings.
        stale_after: the least nanoseconds after which anything is stale.
    """
    return read_at + max(_PLANNED * interval, stale_after)


STALE_AFTER: Final = 60 * SECOND
"""Nanoseconds after which what was not confirmed is stale, if nothing else is configured."""


TRUSTED: Final = frozenset({SourceState.SYNCHRONISED, SourceState.DEGRADED})
"""States of a trusted source: its reports are current, but for objects that it reports as unread."""


class ClassNotReadable(msgspec.Struct, frozen=True):
    """A class that a source cannot read, or only in part, although it reads others; or another part of it.

    ``class_name`` is ``package:name``, or ``events``, which are not received, or RabbitMQ's ``overview``;
    ``reason`` one line for people such as ``status 500``; ``since`` is when it was read last, or when that
    failed first (the gateway's clock). ``partly``: some of its objects are read. ``consequence`` says what
    else than stale objects comes of that.
    """

    class_name: str
    reason: str
    since: int
    partly: bool = False
    consequence: str = ""


@dataclass(frozen=True, slots=True)
class SourceStateSeen:
    """The source changed its state; ``detail`` is one line for people with the reason and what to do.

    ``changes_wait``: the source may carry out changes much later, whatever it answered, as a cluster without
    a majority does. An unchanged value then does not show that a change failed.
    ``complete_until``: the time up to which everything was received (ns since 1970 UTC); 0 while everything
    is received. A `Gap` follows when that is over, unless what was missed is reported after all.
    ``not_readable``: the classes that cannot be read; in a trusted state these are all.
    """

    state: SourceState
    detail: str = ""
    changes_wait: bool = False
    complete_until: int = 0
    not_readable: tuple[ClassNotReadable, ...] = ()


class AgentLost(msgspec.Struct, frozen=True):
    """An agent is silent or hangs: its objects are stale from now on.

    ``remote``: it is one of several agents, so that the source as a whole stays trusted. ``leaving``: it is
    not there any more, but may return. Until `AgentGone`, objects that are reported under the names of its
    objects are the same ones, whichever agent reports them.
    """

    agent: str
    detail: str = ""
    remote: bool = False
    leaving: bool = False


class AgentGone(msgspec.Struct, frozen=True):
    """An agent is gone, and its objects with it. Another agent may use its name later."""

    agent: str
    detail: str = ""


class PeerReplaced(msgspec.Struct, frozen=True):
    """Another broker or agent answers under the names of these agents: all their objects have ended.

    What is reported from here on is of other objects, also under the same names and native ids. ``text`` says
    in one line which one is read in the place of which.
    """

    agents: frozenset[str]
    text: str


class Gap(msgspec.Struct, frozen=True):
    """A time from ``start`` to ``end`` (the gateway's clock) in which nothing could be received.

    Short-lived objects and events of that time are lost.
    """

    start: int
    end: int
    reason: str


Observation: TypeAlias = (
    ClassLearned
    | EventLearned
    | ObjectSeen
    | EventSeen
    | RecordLost
    | HeartbeatSeen
    | ResyncBegan
    | ResyncEnded
    | SourceStateSeen
    | AgentLost
    | AgentGone
    | PeerReplaced
    | Gap
)


class Severity(enum.IntEnum):
    """Severities of ITU-T X.733 in the order of urgency; ``CLEARED`` is not one of the order."""

    CLEARED = 0
    INFO = 1
    WARNING = 2
    MINOR = 3
    MAJOR = 4
    CRITICAL = 5


class EventState(enum.Enum):
    """The relation of an event to a lasting condition: none, its beginning or its end."""

    ONE_SHOT = "oneShot"
    RAISED = "raised"
    CLEARED = "cleared"
