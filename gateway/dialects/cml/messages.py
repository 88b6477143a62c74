"""The messages of CML, both directions, as frozen values.

All text is as encoded, with references replaced. Empty text stands for an absent attribute, except
where the difference matters. Sources: "AMQP Console Interface" (2006), the wiki's "3-CML", OpenAMQ
1.4c1.
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass
from typing import Final, TypeAlias


class Spelling(enum.Enum):
    """The form of written documents; all forms are read.

    ``OPENAMQ`` is the exact form that OpenAMQ 1.4c1 sends, and that its parser needs. ``SPECIFICATION`` is
    XML for any parser, as in the documents of CML; OpenAMQ's shell accepts its replies,
    too.
    """

    OPENAMQ = "openamq"
    SPECIFICATION = "specification"


class Status(enum.StrEnum):
    """The result in a reply; other texts occur, and are kept as they are."""

    OK = "ok"
    NOT_FOUND = "notfound"
    NO_ACCESS = "noaccess"
    INVALID = "invalid"


@dataclass(frozen=True, slots=True)
class Field:
    """A value, by name.

    A child object is ``object_id`` in the specification's spelling (``<field name="queue" id="22"/>``) and
    ``text`` in OpenAMQ's; only the schema shows which fields are children. If ``object_id`` is
    set, ``text`` is empty.
    """

    name: str
    text: str = ""
    object_id: int | None = None


@dataclass(frozen=True, slots=True)
class SchemaRequest:
    """Requests the schema."""


@dataclass(frozen=True, slots=True)
class InspectRequest:
    """Requests an object's fields.

    ``object_id`` is a number of up to 64 bits, text where it is not a number (`object_number`), or
    ``None`` where it is absent. The same holds for every request.
    """

    object_id: int | str | None
    class_name: str = ""


@dataclass(frozen=True, slots=True)
class ModifyRequest:
    """Sets fields of an object."""

    object_id: int | str | None
    fields: tuple[Field, ...] = ()
    class_name: str = ""


@dataclass(frozen=True, slots=True)
class MethodRequest:
    """Calls a method of an object; ``name`` is ``None`` where the attribute is missing."""

    object_id: int | str | None
    name: str | None
    fields: tuple[Field, ...] = ()
    class_name: str = ""


@dataclass(frozen=True, slots=True)
class MonitorRequest:
    """A request that OpenAMQ accepts and never answers; no document describes it."""

    object_id: int | str | None = None
    class_name: str = ""


@dataclass(frozen=True, slots=True)
class NamedText:
    """One value of an enumeration: the label to show, and the encoded text."""

    label: str
    text: str


@dataclass(frozen=True, slots=True)
class SchemaField:
    """A field of a class or argument of a method, with the defaults of flags that are absent.

    Attributes:
        type: ``string``, ``int``, ``bool``, ``time``, ``objref``; the documents also have ``object`` for the
            last. Empty where it is absent, which means ``string``.
        repeat: whether it occurs any number of times.
        inspect: whether it can be read.
        modify: whether it can be set.
        values: the only permitted values, if any are named.
    """

    name: str
    type: str = ""
    repeat: bool = False
    inspect: bool = True
    modify: bool = False
    label: str = ""
    description: str = ""
    values: tuple[NamedText, ...] = ()


@dataclass(frozen=True, slots=True)
class SchemaGroup:
    """A group of fields."""

    name: str
    fields: tuple[SchemaMember, ...] = ()
    inspect: bool = True
    modify: bool = False
    label: str = ""
    description: str = ""


SchemaMember: TypeAlias = SchemaField | SchemaGroup


@dataclass(frozen=True, slots=True)
class SchemaMethod:
    """A method and its arguments."""

    name: str
    label: str = ""
    description: str = ""
    fields: tuple[SchemaMember, ...] = ()


@dataclass(frozen=True, slots=True)
class SchemaClass:
    """A class: its fields in the order in which replies have them, and its methods."""

    name: str
    label: str = ""
    description: str = ""
    fields: tuple[SchemaMember, ...] = ()
    methods: tuple[SchemaMethod, ...] = ()


@dataclass(frozen=True, slots=True)
class SchemaReply:
    """The complete schema. ``status`` is empty where the attribute is missing, here and in all replies."""

    status: str
    name: str = ""
    version: str = ""
    classes: tuple[SchemaClass, ...] = ()
    notice: str = ""


@dataclass(frozen=True, slots=True)
class InspectReply:
    """An object's fields. OpenAMQ leaves class and object out where there is no such object."""

    status: str
    object_id: int | None = None
    class_name: str = ""
    fields: tuple[Field, ...] = ()
    notice: str = ""


@dataclass(frozen=True, slots=True)
class ModifyReply:
    """The result of a `ModifyRequest`; ``notice`` may describe when it takes effect."""

    status: str
    object_id: int | None = None
    class_name: str = ""
    notice: str = ""


@dataclass(frozen=True, slots=True)
class MethodReply:
    """The result of a `MethodRequest`; only an example of the specification has the method's name."""

    status: str
    object_id: int | None = None
    class_name: str = ""
    notice: str = ""
    name: str = ""


@dataclass(frozen=True, slots=True)
class Notify:
    """A notification: a letter for the severity, a colon, and text."""

    text: str


@dataclass(frozen=True, slots=True)
class Invalid:
    """The answer to an invalid command."""


@dataclass(frozen=True, slots=True)
class UnknownCommand:
    """A well-formed document with an unknown command; it is to be answered with `Invalid`."""

    name: str


Request: TypeAlias = SchemaRequest | InspectRequest | ModifyRequest | MethodRequest | MonitorRequest
Reply: TypeAlias = SchemaReply | InspectReply | ModifyReply | MethodReply | Notify | Invalid
Message: TypeAlias = Request | Reply
Received: TypeAlias = Message | UnknownCommand


# Numbers of objects: 64 bits in the specification, 32 in OpenAMQ, which accepts any text as one.

SPECIFICATION_LIMIT: Final = 1 << 64
OPENAMQ_LIMIT: Final = 1 << 32
"""Numbers are unique over all classes, and never reused in one run of the broker; 0 is the broker."""

_NUMBER: Final = re.compile(r"[0-9]{1,20}")
_LEADING_NUMBER: Final = re.compile(r"[ \t\n\v\f\r]*+([+-]?[0-9]{1,40})")
_LONG_LIMIT: Final = 1 << 63


def object_number(text: str) -> int | None:
    """Return the number of a text of decimal digits; ``None`` where it is none of 64 bits."""
    if not _NUMBER.fullmatch(text):
        return None
    number = int(text)
    return number if number < SPECIFICATION_LIMIT else None


def as_openamq_takes_it(text: str) -> int:
    """Return the number that OpenAMQ reads from ``text``, as C does: 0 for ``"abc"`` and ``"4294967296"``."""
    found = _LEADING_NUMBER.match(text)
    number = int(found[1]) if found is not None else 0
    return max(-_LONG_LIMIT, min(number, _LONG_LIMIT - 1)) % OPENAMQ_LIMIT
