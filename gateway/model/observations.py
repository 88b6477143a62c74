"""Observations: what a session found out about the objects of its source.

A session yields observations in tuples, one tuple per message body: the inventory applies each tuple
whole or not at all. Times are nanoseconds since 1970-01-01 UTC in the *agent's* clock unless said
otherwise; 0 means unknown. ``agent`` names the agent within its source (``1.0`` for a broker's own QMF
agent), so that a heartbeat confirms only what that agent owns.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final, TypeAlias

from gateway.model.schema import ClassKey, ClassSchema, EventSchema
from gateway.model.values import Values


@dataclass(frozen=True, slots=True)
class ClassLearned:
    """A class schema, seen for the first time in this session, or again with other contents.

    The later one holds for what is reported after it. Where the dialect has no schema hash, the session puts
    one over the contents into the key, so that each version of a class has a key of its own.
    """

    schema: ClassSchema


@dataclass(frozen=True, slots=True)
class EventLearned:
    """An event schema, seen for the first time in this session, or again with other contents."""

    schema: EventSchema


@dataclass(frozen=True, slots=True)
class ObjectSeen:
    """An object exists, or (``deleted`` not 0) existed; with whatever part of its values was reported.

    ``properties`` and ``statistics`` are in schema order, or ``None`` where this message did not carry
    that group; a group is always complete. ``native_id`` is unique within the source: where a dialect's
    own is unique within an agent only, the session puts the agent in front. ``sampled`` is when the agent
    read the values; 0 where the dialect has none, and then receipt stands for it. Where the dialect
    reports that an object is gone but not when, ``deleted`` is the gateway's time of receipt. ``inferred``:
    the end was not reported; readings lack the object, and ``deleted`` is when that was noticed.
    ``lasting_id``: the agent says that ``native_id`` means the same object after the agent restarted.
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
    lasting_id: bool = False


@dataclass(frozen=True, slots=True)
class EventSeen:
    """An event happened; ``arguments`` in schema order.

    ``cause`` is the same text whichever agent reported the same event of the broker, and differs between any
    two events; empty where the source does not say.
    """

    key: ClassKey
    agent: str
    time: int
    severity: Severity
    arguments: Values
    cause: str = ""


@dataclass(frozen=True, slots=True)
class RecordLost:
    """An agent reported an event or the end of an object, of a class whose schema the session has not got.

    It cannot be read, and will not be reported again. Reports of objects that live are no loss: they are
    repeated once their schema is known.
    """

    key: ClassKey
    agent: str


@dataclass(frozen=True, slots=True)
class HeartbeatSeen:
    """An agent is alive: all its objects that it did not mention are unchanged as of ``time``."""

    agent: str
    time: int


@dataclass(frozen=True, slots=True)
class ResyncBegan:
    """From here on every object within the scope will be reported again.

    The scope is the source, or one ``agent`` of it, or one class (``package:name``) of either; empty does
    not narrow. ``restarted``: who answers restarted, so native ids of before mean nothing any more
    and every counter within the scope began again, but for objects whose time of creation is the same.
    """

    agent: str = ""
    class_name: str = ""
    restarted: bool = False


@dataclass(frozen=True, slots=True)
class ResyncEnded:
    """The end of a resync: if ``complete``, an object not reported since its beginning no longer exists.

    It ends the resync of the same scope, and deletes within that scope only. Objects of the agents
    ``without`` are no part of it: they are neither gone nor confirmed.
    """

    complete: bool
    agent: str = ""
    class_name: str = ""
    without: frozenset[str] = frozenset()


class SourceState(enum.Enum):
    """How far a source can be trusted."""

    CONNECTING = "connecting"
    SYNCHRONISING = "synchronising"
    SYNCHRONISED = "synchronised"
    DEGRADED = "degraded"
    DOWN = "down"


TRUSTED: Final = frozenset({SourceState.SYNCHRONISED, SourceState.DEGRADED})
"""States of a trusted source: what it reported is current, and what it does not report is gone."""


@dataclass(frozen=True, slots=True)
class SourceStateSeen:
    """The source changed its state; ``detail`` is one line for people that says why and what to do.

    ``changes_wait``: what the source was asked to change it may carry out much later, whatever it answered,
    as a cluster without a majority does. So a value from before does not show that a change failed.
    ``heard_until``: until when everything was received (ns since 1970 UTC); 0 while it is. A `Gap` follows
    when that is over, unless what was missed is reported after all.
    """

    state: SourceState
    detail: str = ""
    changes_wait: bool = False
    heard_until: int = 0


@dataclass(frozen=True, slots=True)
class AgentLost:
    """An agent is silent or hangs: what is known of its objects is stale from now on.

    ``remote``: it is one beside others, so that the source as a whole is trusted all the same. ``leaving``:
    it is not there any more, but may return. Objects that are reported under the names of its own before
    `AgentGone` are the same ones, whichever agent reports them.
    """

    agent: str
    detail: str = ""
    remote: bool = False
    leaving: bool = False


@dataclass(frozen=True, slots=True)
class AgentGone:
    """An agent is no more, and its objects with it. Another one may be called so later."""

    agent: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Gap:
    """Nothing could be received from ``start`` to ``end`` (the gateway's clock).

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
    | Gap
)


class Severity(enum.IntEnum):
    """ITU-T X.733 severities in the order of urgency, ``CLEARED`` apart."""

    CLEARED = 0
    INFO = 1
    WARNING = 2
    MINOR = 3
    MAJOR = 4
    CRITICAL = 5


class EventState(enum.Enum):
    """Whether an event stands for itself, or begins or ends a condition that lasts."""

    ONE_SHOT = "oneShot"
    RAISED = "raised"
    CLEARED = "cleared"
