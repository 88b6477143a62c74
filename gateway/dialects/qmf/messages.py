"""One frozen message class for each opcode of AM2.

The requester chooses ``sequence``, and each reply repeats it; it is 0 in unsolicited messages. Times are
nanoseconds since 1970-01-01 UTC, 0 for unknown or not yet. Sources: QMF AM2 protocol ("Basic Opcodes",
"Extended Opcodes"); e, the hash and class of M, and the kinds of q and s as every peer since Apache Qpid M4
sends them.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, TypeAlias
from uuid import UUID

from gateway.dialects.qmf.definitions import ClassDefinition, EventDefinition
from gateway.dialects.qmf.fields import ObjectId
from gateway.dialects.qmf.typed_values import QmfValue, QmfValues
from gateway.model.schema import ClassKey


class ClassKind(enum.IntEnum):
    """The kind of a class key: a class of objects or an event."""

    OBJECT = 1
    EVENT = 2


@dataclass(frozen=True, slots=True)
class _Message:
    opcode: ClassVar[bytes]
    sequence: int


@dataclass(frozen=True, slots=True)
class BrokerRequest(_Message):
    """Requests the identity of the management broker, and begins a console's session."""

    opcode = b"B"


@dataclass(frozen=True, slots=True)
class BrokerResponse(_Message):
    """The identity of the management broker; another UUID is another incarnation."""

    opcode = b"b"
    broker: UUID


@dataclass(frozen=True, slots=True)
class CommandComplete(_Message):
    """The end of a reply; ``code`` 0 is success."""

    opcode = b"z"
    code: int = 0
    text: str = "OK"


@dataclass(frozen=True, slots=True)
class PackageQuery(_Message):
    """Requests all packages."""

    opcode = b"P"


@dataclass(frozen=True, slots=True)
class PackageIndication(_Message):
    """A package of the agent."""

    opcode = b"p"
    package: str


@dataclass(frozen=True, slots=True)
class ClassQuery(_Message):
    """Requests all classes and events of a package."""

    opcode = b"Q"
    package: str


@dataclass(frozen=True, slots=True)
class ClassIndication(_Message):
    """A class or event of the agent."""

    opcode = b"q"
    kind: ClassKind
    key: ClassKey


@dataclass(frozen=True, slots=True)
class SchemaRequest(_Message):
    """Requests the schema of a class or event."""

    opcode = b"S"
    key: ClassKey


@dataclass(frozen=True, slots=True)
class SchemaResponse(_Message):
    """The schema of a class or event."""

    opcode = b"s"
    definition: ClassDefinition | EventDefinition


@dataclass(frozen=True, slots=True)
class Content(_Message):
    """The common part of c, i and g: an object, its times and the values of one or both groups.

    ``properties`` and ``statistics`` are in schema order, ``None`` where this kind of record lacks
    the group. ``deleted`` is not 0 if the object is gone.
    """

    key: ClassKey
    sampled: int
    created: int
    deleted: int
    object_id: ObjectId
    properties: QmfValues | None = None
    statistics: QmfValues | None = None


@dataclass(frozen=True, slots=True)
class PropertyContent(Content):
    """Changed properties, or a new or deleted object."""

    opcode = b"c"


@dataclass(frozen=True, slots=True)
class StatisticContent(Content):
    """Changed statistics."""

    opcode = b"i"


@dataclass(frozen=True, slots=True)
class ObjectContent(Content):
    """An object in the answer to a get query: properties and statistics."""

    opcode = b"g"


@dataclass(frozen=True, slots=True)
class EventIndication(_Message):
    """An event; ``severity`` is a syslog level, 0 (emergency) to 7 (debug)."""

    opcode = b"e"
    key: ClassKey
    time: int
    severity: int
    arguments: QmfValues


@dataclass(frozen=True, slots=True)
class Heartbeat(_Message):
    """A sign of life; objects that the agent did not report since the last heartbeat did not change."""

    opcode = b"h"
    time: int


@dataclass(frozen=True, slots=True)
class GetQuery(_Message):
    """Requests the objects of ``selector``: by ``_class`` (and ``_package``), else by ``_objectid``."""

    opcode = b"G"
    selector: Mapping[str, QmfValue] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MethodRequest(_Message):
    """Calls a method; ``arguments`` are the in and inout ones, encoded (`ClassDefinition.inputs`)."""

    opcode = b"M"
    object_id: ObjectId
    key: ClassKey
    method: str
    arguments: bytes = b""


@dataclass(frozen=True, slots=True)
class MethodResponse(_Message):
    """The answer to a call; ``arguments`` are the out and inout ones, encoded (`ClassDefinition.outputs`).

    They can be decoded only with the request, and an agent may leave them out after a failure.
    """

    opcode = b"m"
    status: int
    text: str
    arguments: bytes = b""


@dataclass(frozen=True, slots=True)
class AttachRequest(_Message):
    """A remote agent's request to join, with the banks that it prefers."""

    opcode = b"A"
    label: str
    system: UUID
    broker_bank: int
    agent_bank: int


@dataclass(frozen=True, slots=True)
class AttachResponse(_Message):
    """The permission for a remote agent to join, with its banks."""

    opcode = b"a"
    broker_bank: int
    agent_bank: int


@dataclass(frozen=True, slots=True)
class ConsoleAdded(_Message):
    """A console was added: agents publish everything again."""

    opcode = b"x"


@dataclass(frozen=True, slots=True)
class UnknownOpcode(_Message):
    """A record with an unknown opcode; only its header is skipped, as in qpidd."""

    code: int


@dataclass(frozen=True, slots=True)
class UnknownClass(_Message):
    """A content or event record of an unknown class. Its length is unknown, so the body ends here.

    ``deleted`` is the time of its object's deletion; 0 for an object that lives, and for an event.
    """

    code: int
    key: ClassKey
    deleted: int = 0


Message: TypeAlias = (
    BrokerRequest
    | BrokerResponse
    | CommandComplete
    | PackageQuery
    | PackageIndication
    | ClassQuery
    | ClassIndication
    | SchemaRequest
    | SchemaResponse
    | PropertyContent
    | StatisticContent
    | ObjectContent
    | EventIndication
    | Heartbeat
    | GetQuery
    | MethodRequest
    | MethodResponse
    | AttachRequest
    | AttachResponse
    | ConsoleAdded
)
"""Messages that can be sent."""

Received: TypeAlias = Message | UnknownOpcode | UnknownClass
"""Messages that can be received."""
