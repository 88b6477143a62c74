"""Operations between the core and sources: requesters, requests to agents, and their answers.

`docs/set-and-invoke.md` says how each outcome is shown by SNMP, JMX, command line and log.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from gateway.model.schema import ClassKey
from gateway.model.values import Value, Values


class Outcome(enum.Enum):
    """The result of an operation; these words are in the event log, and are never renamed.

    With ``UNKNOWN`` it is uncertain whether the operation was carried out; with every other one it is
    certain.
    """

    APPLIED = "applied"
    APPLIED_DIFFERENTLY = "applied-differently"
    """The agent reported success, but the value that was read back is neither the old nor the requested
    one."""
    NOT_APPLIED = "not-applied"
    """The agent reported success, but the value that was read back is the old one."""
    OBJECT_GONE = "object-gone"
    UNKNOWN_ELEMENT = "unknown-element"
    """The object's class has no such element or method."""
    READ_ONLY = "read-only"
    """The element exists, but cannot be set."""
    REFUSED = "refused"
    """The gateway's configuration does not allow it to this principal."""
    WRONG_TYPE = "wrong-type"
    WRONG_LENGTH = "wrong-length"
    WRONG_VALUE = "wrong-value"
    NOT_NOW = "not-now"
    """The operation is possible, but not now: too many are under way, or the object's state forbids it."""
    REMOTE_FAILURE = "remote-failure"
    """The agent or broker refused the operation or failed; code and text say how."""
    SOURCE_DOWN = "source-down"
    """Nothing was sent: the source cannot be reached, or takes no requests."""
    UNKNOWN = "unknown"
    """The request was sent, and no answer came in time: it may have been carried out, or may still be."""


NOT_READ: Final = (
    "the objects are being read, and this one is not known yet: try again when the source is synchronised"
)
"""The text of a ``SOURCE_DOWN`` for an object that may exist, because its source is just being read."""


class Principal(msgspec.Struct, frozen=True):
    """The requester of an operation.

    Attributes:
        front_end: ``snmp``, ``jmx`` or ``cli``; ``qmf`` for a user of a broker whose console calls methods
            of objects that this gateway serves as an agent; ``ami`` and ``metrics`` for clients that these
            listeners refused.
        name: the name of the requester at that front end: a configured writer, a user of JMX, of the
            system or of the broker.
        origin: the origin of the request, for the record: an address and port, or a process.
    """

    front_end: str
    name: str
    origin: str = ""

    def __str__(self) -> str:
        """Return the name that the configuration uses, such as ``jmx:operator``."""
        return f"{self.front_end}:{self.name}"


@dataclass(frozen=True, slots=True)
class MethodCall:
    """A call of an object's method, checked against the schema.

    Attributes:
        token: unique among the requests of this run of the core; the answer carries it.
        key: the class of the object.
        agent: the agent that the object belongs to.
        native_id: the native id of the object.
        method: the name of the method.
        arguments: the ``IN`` and ``INOUT`` arguments in the schema's order.
        deadline: nanoseconds of the gateway's clock; the call must not be carried out later.
    """

    token: int
    key: ClassKey
    agent: str
    native_id: str
    method: str
    arguments: Values
    deadline: int


@dataclass(frozen=True, slots=True)
class ObjectModify:
    """A request to change properties of an object, checked against the schema: as one change, once.

    It is for dialects that have such a request. A reported success does not prove the change: the requester
    reads the object again afterwards.

    Attributes:
        token: unique among the requests of this run of the core; the answer carries it.
        key: the class of the object.
        agent: the agent that the object belongs to.
        native_id: the native id of the object.
        values: the values by the schema's names of the properties; ``None`` removes a value.
        deadline: nanoseconds of the gateway's clock; the change must not be made later.
    """

    token: int
    key: ClassKey
    agent: str
    native_id: str
    values: Mapping[str, Value | None]
    deadline: int


@dataclass(frozen=True, slots=True)
class ObjectFetch:
    """A request to read an object again. Its values are observed as usual, before the answer."""

    token: int
    key: ClassKey
    agent: str
    native_id: str
    deadline: int


class Answer(msgspec.Struct, frozen=True):
    """The answer to a `MethodCall`, an `ObjectModify` or an `ObjectFetch`.

    Attributes:
        token: the token of the request.
        outcome: the result; ``APPLIED`` also of an object that was read. After ``UNKNOWN``, a late answer may
            follow with the same token.
        text: one line for people, of the agent, or the reason why there is no answer.
        code: the dialect's own status; ``None`` where the agent did not answer.
        outputs: the ``OUT`` and ``INOUT`` arguments in the schema's order; empty where there are none.
    """

    token: int
    outcome: Outcome
    text: str = ""
    code: int | None = None
    outputs: Values = ()
