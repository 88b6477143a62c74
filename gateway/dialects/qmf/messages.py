"""One frozen message class for each opcode of AM2.

``sequence`` is what the requestor chose and each reply repeats; 0 in what nobody asked for. Times are
nanoseconds since 1970-01-01 UTC, 0 for unknown or not yet. Sources: QMF AM2 protocol ("Basic Opcodes",
"Extended Opcodes"); e, the hash and class of M, the kinds of q and s as every peer since Apache Qpid M4
sends them.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Final, TypeAlias
from uuid import UUID

from gateway.dialects.qmf.definitions import ClassDefinition, EventDefinition
from gateway.dialects.qmf.fields import ObjectId
from gateway.dialects.qmf.typed_values import QmfValue, QmfValues
from gateway.model.schema import ClassKey


class ClassKind(enum.IntEnum):
    """What a class key names."""

    OBJECT = 1
    EVENT = 2


class Status(enum.IntEnum):
    """Outcomes of a method; from 0x10000 on an agent's own."""

    OK = 0
    UNKNOWN_OBJECT = 1
    UNKNOWN_METHOD = 2
    NOT_IMPLEMENTED = 3
    INVALID_PARAMETER = 4
    FEATURE_NOT_IMPLEMENTED = 5
    FORBIDDEN = 6
    EXCEPTION = 7
    OUTCOME_UNKNOWN = 0x554E4B4E
    """Of our own agents: what the call asked for may have been carried out or not. All others are certain.
    Its octets are ``UNKN``, so that no other agent's status of its own is the same by chance."""


@dataclass(frozen=True, slots=True)
class _Message:
    opcode: ClassVar[bytes]
    sequence: int


@dataclass(frozen=True, slots=True)
class BrokerRequest(_Message):
    """Who are you? Begins a console's session."""

    opcode = b"B"


@dataclass(frozen=True, slots=True)
class BrokerResponse(_Message):
    """The management broker; another UUID is another incarnation."""

    opcode = b"b"
    broker: UUID


FAILED: Final = 1
"""The completion code that peers use for every refusal."""


@dataclass(frozen=True, slots=True)
class CommandComplete(_Message):
    """The end of a reply; ``code`` 0 is success."""

    opcode = b"z"
    code: int = 0
    text: str = "OK"


@dataclass(frozen=True, slots=True)
class PackageQuery(_Message):
    """Which packages are there?"""

    opcode = b"P"


@dataclass(frozen=True, slots=True)
class PackageIndication(_Message):
    """There is this package."""

    opcode = b"p"
    package: str


@dataclass(frozen=True, slots=True)
class ClassQuery(_Message):
    """Which classes and events has this package?"""

    opcode = b"Q"
    package: str


@dataclass(frozen=True, slots=True)
class ClassIndication(_Message):
    """There is this class or event."""

    opcode = b"q"
    kind: ClassKind
    key: ClassKey


@dataclass(frozen=True, slots=True)
class SchemaRequest(_Message):
    """What is the schema of this class or event?"""

    opcode = b"S"
    key: ClassKey


@dataclass(frozen=True, slots=True)
class SchemaResponse(_Message):
    """The schema of a class or event."""

    opcode = b"s"
    definition: ClassDefinition | EventDefinition


@dataclass(frozen=True, slots=True)
class Content(_Message):
    """What c, i and g have in common: an object, its times and the values of one or both groups.

    ``properties`` and ``statistics`` are in schema order, ``None`` where this kind of record does not
    carry the group. ``deleted`` is not 0 if the object is gone.
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
    """Properties changed, or the object is new or gone."""

    opcode = b"c"


@dataclass(frozen=True, slots=True)
class StatisticContent(Content):
    """Statistics changed."""

    opcode = b"i"


@dataclass(frozen=True, slots=True)
class ObjectContent(Content):
    """An object as a get query found it: properties and statistics."""

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
    """The agent lives; what it did not tell since the last heartbeat did not change."""

    opcode = b"h"
    time: int


@dataclass(frozen=True, slots=True)
class GetQuery(_Message):
    """Tell the objects that ``selector`` names: ``_class`` (and ``_package``), else ``_objectid``."""

    opcode = b"G"
    selector: Mapping[str, QmfValue] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MethodRequest(_Message):
    """Call a method; ``arguments`` are the in and inout ones, encoded (`ClassDefinition.inputs`)."""

    opcode = b"M"
    object_id: ObjectId
    key: ClassKey
    method: str
    arguments: bytes = b""


@dataclass(frozen=True, slots=True)
class MethodResponse(_Message):
    """How a call ended; ``arguments`` are the out and inout ones, encoded (`ClassDefinition.outputs`).

    Only who knows the request can read them, and an agent may leave them out after a failure.
    """

    opcode = b"m"
    status: int
    text: str
    arguments: bytes = b""


@dataclass(frozen=True, slots=True)
class AttachRequest(_Message):
    """A remote agent wishes to join, with the banks it would like."""

    opcode = b"A"
    label: str
    system: UUID
    broker_bank: int
    agent_bank: int


@dataclass(frozen=True, slots=True)
class AttachResponse(_Message):
    """A remote agent may join, with these banks."""

    opcode = b"a"
    broker_bank: int
    agent_bank: int


@dataclass(frozen=True, slots=True)
class ConsoleAdded(_Message):
    """A console appeared: tell everything again."""

    opcode = b"x"


@dataclass(frozen=True, slots=True)
class UnknownOpcode(_Message):
    """A record that AM2 does not have; its header only is skipped, as qpidd does."""

    code: int


@dataclass(frozen=True, slots=True)
class UnknownClass(_Message):
    """A content or event record of a class not known (yet). Its length cannot be told: the body ends here.

    ``deleted`` is the time of its object's deletion; 0 where it lives, and of an event.
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
"""What can be sent."""

Received: TypeAlias = Message | UnknownOpcode | UnknownClass
"""What a body can turn out to hold."""
