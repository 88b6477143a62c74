"""Messages that AM2 does not have, or has in another form; all others are those of `qmf.messages`.

``sequence`` travels in calls and their answers only, in AM1 in each record; elsewhere it is 0.
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
    """Call a method; ``arguments`` are the in and inout ones, encoded (`ClassDefinition.inputs`).

    ``key`` (without hash) and ``method`` travel in the routing key; parts that it does not have are empty.
    ``reply_queue`` is told by requests of November 2007 only.
    """

    sequence: int
    object_id: ObjectId
    key: ClassKey
    method: str
    arguments: bytes = b""
    reply_queue: str = ""


@dataclass(frozen=True, slots=True)
class AgentHello:
    """Who are you? (H, February 2008.) ``rest`` is whatever follows; agents do not look at it."""

    sequence: int = 0
    rest: bytes = b""


@dataclass(frozen=True, slots=True)
class AgentIdentity:
    """The answer to `AgentHello` (I); every agent says ``Broker ID``."""

    text: str
    sequence: int = 0


@dataclass(frozen=True, slots=True)
class AttachRequest:
    """A remote agent wishes to join, with the prefix of object ids that it would like."""

    sequence: int
    label: str
    prefix: int


@dataclass(frozen=True, slots=True)
class AttachResponse:
    """A remote agent may join, with this prefix."""

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
"""What can be sent, in at least one revision."""

Received: TypeAlias = Message | messages.UnknownOpcode | messages.UnknownClass
"""What a body can turn out to hold."""


class Revision(enum.Enum):
    """What a peer speaks. Months are those of the agents that were recorded, or whose source was read."""

    DESIGN_NOTES = "design-notes"
    """As written in "Management Design notes" (February 2008): packages and hashes in records and keys."""

    NOVEMBER_2007 = "2007-11"
    """As `JANUARY_2008`, but methods have no header, and requests carry the reply queue in their body."""

    JANUARY_2008 = "2008-01"
    """Until 2008-02-12: schemas are broadcast, classes have neither package nor hash."""

    FEBRUARY_2008 = "2008-02"
    """From 2008-02-28: packages and classes are asked for, on the key ``agent``."""

    MARCH_2008 = "2008-03"
    """AM1, 2008-03-25 to mid 2008: every record has a sequence, and ``z`` ends what was asked for."""


ALL: Final = frozenset(Revision)
"""Where nothing is known of a peer."""

BROADCASTING: Final = frozenset((Revision.NOVEMBER_2007, Revision.JANUARY_2008))
"""Those whose classes have neither package nor hash."""

ASKED: Final = frozenset((Revision.FEBRUARY_2008, Revision.MARCH_2008))
"""Those that answer what they are asked on the key ``agent``; all others can only be heard."""
