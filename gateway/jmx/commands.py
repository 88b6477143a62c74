"""The commands that Python sends to the virtual machine, and their encoding.

A batch is one msgpack array of commands, each an array ``[operation, field, ...]`` with the fields of its
class in their order; there is no other definition of the form. The parts of a command are arrays of their
fields likewise. Python chooses the numbers of classes, groups and objects, which mean nothing to clients.
Values are encoded by the attribute's type; an absent one is nil:

========================  =============================================================
type                      value on the wire, and in Java
========================  =============================================================
`BOOLEAN`                 bool; ``Boolean``
`LONG`                    int, -2^63 to 2^63-1; ``Long``
`BIG_INTEGER`             int, 0 to 2^64-1 or -2^63 to -1; ``BigInteger``
`DOUBLE`                  float; ``Double``
`STRING`                  str; ``String``
`DATE`                    int, nanoseconds since 1970-01-01 UTC; ``Date``, which holds milliseconds
`BYTES`                   bin; ``byte[]``
`OBJECT_NAME`             str, canonical or not; ``ObjectName``
`MAP`                     array of pairs of str; ``TabularData`` of rows (key, value)
`LIST`                    array of str; ``String[]``
========================  =============================================================
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Self, TypeAlias

import msgspec

from gateway.feed.freshness import Freshness


class AttributeType(enum.IntEnum):
    """The type of an attribute, as a client sees it in Java."""

    BOOLEAN = 1
    LONG = 2
    BIG_INTEGER = 3
    DOUBLE = 4
    STRING = 5
    DATE = 6
    BYTES = 7
    OBJECT_NAME = 8
    MAP = 9
    LIST = 10


JmxValue: TypeAlias = (
    "bool | int | float | str | bytes | tuple[str, ...] | tuple[tuple[str, str], ...] | Varying | None"
)

EVERYBODY: Final = -1
"""The number of the access that lets all users see and do everything."""

NOTHING: Final = -1
"""The choice for a user to whom nothing is shown."""


class Varying(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A value that is not the same for all users; only of an attribute that `varies`.

    Attributes:
        values: the values.
        choices: by the number of the user, which of them is shown; `NOTHING` for none. Without any, the first
            is shown to everybody.
    """

    values: tuple[JmxValue, ...]
    choices: tuple[int, ...]


def varying(of_users: Sequence[JmxValue]) -> Varying | None:
    """Return the value of an attribute that varies, by the numbers of users."""
    values = tuple(dict.fromkeys(value for value in of_users if value is not None))
    if not values:
        return None
    if len(values) == 1 and None not in of_users:
        return Varying(values, ())
    return Varying(values, tuple(NOTHING if value is None else values.index(value) for value in of_users))


class _Part(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A part of a batch. It refers to no other command, so the garbage collector need not examine it."""


class Attribute(_Part, frozen=True):
    """One attribute of a class.

    Attributes:
        name: the name by which a client reads it.
        type: the type of its values.
        description: never empty: Java refuses that.
        minimum: smallest value; only of LONG, BIG_INTEGER and DOUBLE, and never with ``legal``.
        maximum: greatest value, likewise.
        legal: the values that are possible, only of STRING; empty for any.
        descriptor: further fields of its descriptor (``units``, ``oid``, ``sampleTime`` ...), by name.
        notifies: whether a change of it is notified to listeners.
        always: shown even while the object's group is withheld (name, native id, times).
        readable: whether it has a value to show; what has none is nil in `Register`.
        writable: whether clients may try to set it.
        when_abandoned: its value while the JVM receives no batches, as when our process hangs; ``None`` for
            its last value.
        varies: its values are `Varying`.
    """

    name: str
    type: AttributeType
    description: str
    minimum: int | float | None = None
    maximum: int | float | None = None
    legal: tuple[str, ...] = ()
    descriptor: Mapping[str, str] = {}
    notifies: bool = False
    always: bool = False
    readable: bool = True
    writable: bool = False
    when_abandoned: JmxValue = None
    varies: bool = False


class Parameter(_Part, frozen=True):
    """A parameter of an operation; fields as of `Attribute`.

    Attributes:
        default: its value where it is null; in the form of its type.
    """

    name: str
    type: AttributeType
    description: str
    minimum: int | float | None = None
    maximum: int | float | None = None
    legal: tuple[str, ...] = ()
    descriptor: Mapping[str, str] = {}
    default: JmxValue = None


class Result(_Part, frozen=True):
    """One result of an operation."""

    name: str
    type: AttributeType
    description: str


class Operation(_Part, frozen=True):
    """An operation that clients can invoke; no two of a class have the same name.

    Attributes:
        name: the name by which a client invokes it.
        description: never empty.
        reads_only: whether it changes nothing.
        parameters: in the order in which a client gives them.
        results: for none null is returned, for one its value, for several a ``CompositeData`` by their names.
    """

    name: str
    description: str
    reads_only: bool = False
    parameters: tuple[Parameter, ...] = ()
    results: tuple[Result, ...] = ()


class NotificationType(_Part, frozen=True):
    """A kind of notification that objects of a class emit, such as ``amqp.gateway.rabbitmq.queueCreated``."""

    type: str
    description: str


class _Command(_Part, frozen=True, tag_field="command"):
    """A command; its tag is the number of the operation in Java's class ``Batch``."""


class DefineClass(_Command, frozen=True, tag=1):
    """The definition of a class, new or changed, for objects registered later.

    Every object has, beside ``attributes``, one that the JVM derives from its group: ``Stale`` (Boolean). It
    is true, too, while no batch has arrived for some seconds.
    """

    class_number: int
    name: str
    description: str
    attributes: tuple[Attribute, ...]
    notifications: tuple[NotificationType, ...] = ()
    operations: tuple[Operation, ...] = ()


class SetGroup(_Command, frozen=True, tag=2):
    """The freshness of a group of objects from now on; a group that was not sent yet is stale."""

    group: int
    freshness: Freshness


class RegisterTable(_Command, frozen=True, tag=7):
    """The registration of the MBean of which clients read many objects of a class of a source at a time.

    Its number is none that an object has; `Unregister` removes it.
    """

    number: int
    object_name: str
    source: str
    class_name: str


class Register(_Command, frozen=True, tag=3):
    """The registration of an object; under a known number and name it replaces class and all values at once.

    The MBean of such an object stays, with its listeners, and notifies them that it has another class. Under
    another name it is registered again. It replaces an MBean of that name that another object has. ``table``
    is the number of its table; 0 for none. ``access`` is the number of the access of users to it, which its
    class must have.
    """

    number: int
    class_number: int
    group: int
    object_name: str
    values: tuple[JmxValue, ...]
    table: int = 0
    access: int = EVERYBODY


class Change(_Command, frozen=True, tag=4):
    """New values of an object, each for the attribute at the same place in ``positions``."""

    number: int
    positions: Sequence[int]
    values: Sequence[JmxValue]

    @classmethod
    def of(cls, number: int, values: Mapping[int, JmxValue]) -> Self:
        """Return the change of an object to these values, by the position of their attribute."""
        return cls(number, tuple(values), tuple(values.values()))


class Unregister(_Command, frozen=True, tag=5):
    """The removal of an object or a table; one that does not exist is ignored."""

    number: int


EventData: TypeAlias = "tuple[tuple[str, AttributeType, JmxValue], ...]"
"""The user data of a notification: the name, type and value of each item."""


class Emit(_Command, frozen=True, tag=6):
    """A notification of ``emitters`` (objects that do not exist are ignored).

    ``choices`` says, by the number of the user, what the user receives: 0 this, *n* the message and data of
    the variant *n*, counted from 1, and `NOTHING` nothing. Without any, everybody receives this.

    ``time`` is in nanoseconds. ``data`` becomes the notification's user data, a ``CompositeData`` of texts,
    numbers and dates by name; the type of each item is given, for an absent one too.
    """

    emitters: tuple[int, ...]
    type: str
    message: str
    time: int
    sequence: int
    data: EventData
    variants: tuple[tuple[str, EventData], ...] = ()
    choices: tuple[int, ...] = ()


class Rights(_Part, frozen=True):
    """What exists of an object for a user: bitmaps, least significant byte first; ``None`` for everything.

    Attributes:
        reads: the attributes that are shown, by their positions.
        writes: those that the user may try to set.
        operations: the operations, by their places in the definition of the class.
    """

    reads: bytes | None
    writes: bytes | None = None
    operations: bytes | None = None


class DefineAccess(_Command, frozen=True, tag=8):
    """The rights of users to objects of a class, for objects that are registered later.

    ``choices`` says, by the number of the user, which of the rights; `NOTHING` where objects do not exist.
    """

    number: int
    class_number: int
    rights: tuple[Rights, ...]
    choices: tuple[int, ...]


class ChangePolicy(_Command, frozen=True, tag=9):
    """Another policy: no access but `EVERYBODY` is valid any more.

    Until they are registered again, objects exist only for those users who are ``unrestricted``, by the
    number of the user. ``changing`` says likewise who may change something; without any, the answer to the
    login does.
    """

    unrestricted: tuple[bool, ...]
    changing: tuple[bool, ...] = ()


Command: TypeAlias = (
    DefineClass
    | SetGroup
    | Register
    | Change
    | Unregister
    | Emit
    | RegisterTable
    | DefineAccess
    | ChangePolicy
)

_ENCODER: Final = msgspec.msgpack.Encoder()


def encode_batch(commands: Iterable[Command]) -> bytes:
    """Return the octets of one batch."""
    return _ENCODER.encode(list(commands))
