"""Messages that AM2 lacks, or has in another form; all others are those of `qmf.messages`.

``sequence`` is encoded in calls and their answers only, in AM1 in each record; elsewhere it is 0.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final, TypeAlias

from gateway.dialects.qmf import messages
from gateway.dialects.qmf.definitions import ClassDefinition, EventDefinition
from gateway.dialects.qmf.fields import ObjectId
from gateway.model.schema import ClassKey


@dataclass(frozen=True, slots=True)
class ClassDescription:
    """The schema of a class (S, from February 2008 on s), and the events that belong to it.

    An event's key is the package, ``<class>.<event>`` and the hash of the class.
    """

    sequence: int
    definition: ClassDefinition
    events: tuple[EventDefinition, ...] = ()


@dataclass(frozen=True, slots=True)
class MethodRequest:
    """Calls a method; ``arguments`` are the in and inout ones, encoded (`ClassDefinition.inputs`).

    ``key`` (without hash) and ``method`` are in the routing key; parts that it lacks are empty.
    Only requests of November 2007 have a ``reply_queue``.
    """

    sequence: int
    object_id: ObjectId
    key: ClassKey
    method: str
    arguments: bytes = b""
    reply_queue: str = ""


@dataclass(frozen=True, slots=True)
class AgentHello:
    """Requests the agent's identity (H, February 2008). ``rest`` is any more octets, which agents ignore."""

    sequence: int = 0
    rest: bytes = b""


@dataclass(frozen=True, slots=True)
class AgentIdentity:
    """The answer to `AgentHello` (I); every agent sends ``Broker ID``."""

    text: str
    sequence: int = 0


@dataclass(frozen=True, slots=True)
class AttachRequest:
    """A remote agent's request to join, with the prefix of object ids that it prefers."""

    sequence: int
    label: str
    prefix: int


@dataclass(frozen=True, slots=True)
class AttachResponse:
    """The permission for a remote agent to join, with its prefix."""

    sequence: int
    prefix: int


Message: TypeAlias = (
    messages.BrokerRequest
    | messages.BrokerResponse
    | messages.CommandComplete
    | messages.PackageQuery
    | messages.PackageIndication
    | messages.ClassQuery
    | messages.ClassIndication
    | messages.SchemaRequest
    | messages.PropertyContent
    | messages.StatisticContent
    | messages.ObjectContent
    | messages.EventIndication
    | messages.GetQuery
    | messages.MethodResponse
    | ClassDescription
    | MethodRequest
    | AgentHello
    | AgentIdentity
    | AttachRequest
    | AttachResponse
)
"""Messages that can be sent, in at least one revision."""

Received: TypeAlias = Message | messages.UnknownOpcode | messages.UnknownClass
"""Messages that can be received."""


class Revision(enum.Enum):
    """The revision of a peer. Months are those of agents that were recorded, or whose source was read."""

    DESIGN_NOTES = "design-notes"
    """The form of "Management Design notes" (February 2008): packages and hashes in records and keys."""

    NOVEMBER_2007 = "2007-11"
    """Like `JANUARY_2008`, but methods have no header, and requests have the reply queue in their body."""

    JANUARY_2008 = "2008-01"
    """Until 2008-02-12: schemas are broadcast, classes have neither package nor hash."""

    FEBRUARY_2008 = "2008-02"
    """From 2008-02-28: packages and classes are requested with the key ``agent``."""

    MARCH_2008 = "2008-03"
    """AM1, 2008-03-25 to mid 2008: every record has a sequence, and ``z`` ends each answer."""


ALL: Final = frozenset(Revision)
"""The possible revisions of an unknown peer."""

BROADCASTING: Final = frozenset((Revision.NOVEMBER_2007, Revision.JANUARY_2008))
"""The revisions whose classes have neither package nor hash."""

ASKED: Final = frozenset((Revision.FEBRUARY_2008, Revision.MARCH_2008))
"""The revisions that answer requests with the key ``agent``; the others only publish."""
