"""The commands that Python sends to the virtual machine, and their encoding.

A batch is one msgpack array of commands, each an array ``[operation, field, ...]`` in the order of the
dataclass's fields. Python chooses the numbers of classes, groups and objects, which mean nothing to clients.
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
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

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
    "bool | int | float | str | bytes | tuple[str, ...] | tuple[tuple[str, str], ...] | None"
)


@dataclass(frozen=True, slots=True)
class Attribute:
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
    """

    name: str
    type: AttributeType
    description: str
    minimum: int | float | None = None
    maximum: int | float | None = None
    legal: tuple[str, ...] = ()
    descriptor: Mapping[str, str] | None = None
    notifies: bool = False
    always: bool = False
    readable: bool = True
    writable: bool = False
    when_abandoned: JmxValue = None


@dataclass(frozen=True, slots=True)
class Parameter:
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
    descriptor: Mapping[str, str] | None = None
    default: JmxValue = None


@dataclass(frozen=True, slots=True)
class Result:
    """One result of an operation."""

    name: str
    type: AttributeType
    description: str


@dataclass(frozen=True, slots=True)
class Operation:
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


@dataclass(frozen=True, slots=True)
class NotificationType:
    """A kind of notification that objects of a class emit, such as ``amqp.gateway.rabbitmq.queueCreated``."""

    type: str
    description: str


@dataclass(frozen=True, slots=True)
class DefineClass:
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


@dataclass(frozen=True, slots=True)
class SetGroup:
    """The freshness of a group of objects from now on; a group that was not sent yet is stale."""

    group: int
    freshness: Freshness


@dataclass(frozen=True, slots=True)
class RegisterTable:
    """The registration of the MBean of which clients read many objects of a class of a source at a time.

    Its number is none that an object has; `Unregister` removes it.
    """

    number: int
    object_name: str
    source: str
    class_name: str


@dataclass(frozen=True, slots=True)
class Register:
    """The registration of an object; under a known number it replaces name, class and all values.

    It also replaces an MBean of that name that another object has. ``table`` is the number of its
    table; 0 for none.
    """

    number: int
    class_number: int
    group: int
    object_name: str
    values: tuple[JmxValue, ...]
    table: int = 0


@dataclass(frozen=True, slots=True)
class Change:
    """New values of an object, by the position of their attribute."""

    number: int
    values: Mapping[int, JmxValue]


@dataclass(frozen=True, slots=True)
class Unregister:
    """The removal of an object or a table; one that does not exist is ignored."""

    number: int


@dataclass(frozen=True, slots=True)
class Emit:
    """A notification of ``emitters`` (objects that do not exist are ignored).

    ``time`` is in nanoseconds. ``data`` becomes the notification's user data, a ``CompositeData`` of texts,
    numbers and dates by name; the type of each item is given, for an absent one too.
    """

    emitters: tuple[int, ...]
    type: str
    message: str
    time: int
    sequence: int
    data: tuple[tuple[str, AttributeType, JmxValue], ...]


Command: TypeAlias = "DefineClass | SetGroup | Register | Change | Unregister | Emit | RegisterTable"

# Java's class Batch has the same numbers.
_OPERATIONS: dict[type, int] = {
    DefineClass: 1,
    SetGroup: 2,
    Register: 3,
    Change: 4,
    Unregister: 5,
    Emit: 6,
    RegisterTable: 7,
}


def encode_batch(commands: Iterable[Command]) -> bytes:
    """Return the octets of one batch."""
    return msgspec.msgpack.encode([_command(command) for command in commands])


def _command(command: Command) -> list[Any]:
    """Return the command as an array: the number of its operation, then its fields in order."""
    match command:
        case DefineClass(number, name, description, attributes, notifications, operations):
            fields: list[Any] = [
                number,
                name,
                description,
                [_attribute(attribute) for attribute in attributes],
                [[notification.type, notification.description] for notification in notifications],
                [_operation(operation) for operation in operations],
            ]
        case SetGroup(group, freshness):
            fields = [group, int(freshness)]
        case Register(number, class_number, group, object_name, values, table):
            fields = [number, class_number, group, table, object_name, values]
        case RegisterTable(number, object_name, source, class_name):
            fields = [number, object_name, source, class_name]
        case Change(number, values):
            fields = [number, dict(values)]
        case Unregister(number):
            fields = [number]
        case Emit(emitters, type_, message, time, sequence, data):
            items = [[name, int(kind), value] for name, kind, value in data]
            fields = [emitters, type_, message, time, sequence, items]
    return [_OPERATIONS[type(command)], *fields]


def _attribute(attribute: Attribute) -> list[Any]:
    return [
        *_described(attribute),
        attribute.notifies,
        attribute.always,
        attribute.readable,
        attribute.writable,
        attribute.when_abandoned,
    ]


def _operation(operation: Operation) -> list[Any]:
    return [
        operation.name,
        operation.description,
        operation.reads_only,
        [[*_described(parameter), parameter.default] for parameter in operation.parameters],
        [[result.name, int(result.type), result.description] for result in operation.results],
    ]


def _described(value: Attribute | Parameter) -> list[Any]:
    return [
        value.name,
        int(value.type),
        value.description,
        value.minimum,
        value.maximum,
        value.legal,
        dict(value.descriptor or {}),
    ]
