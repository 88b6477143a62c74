"""Operations as sources see them: who requests what done to an object, and what came of it.

`docs/set-and-invoke.md` says how each outcome is shown by SNMP, JMX, command line and log.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass

from gateway.model.schema import ClassKey
from gateway.model.values import Value, Values


class Outcome(enum.Enum):
    """What came of an operation; the words stand in the event log and are never renamed.

    With ``UNKNOWN`` it is not known whether it was carried out; with every other one it is certain.
    """

    APPLIED = "applied"
    APPLIED_DIFFERENTLY = "applied-differently"
    """Reported as done, but another value than the one asked for was found when it was read back."""
    NOT_APPLIED = "not-applied"
    """Reported as done, but the value from before was found when it was read back."""
    OBJECT_GONE = "object-gone"
    UNKNOWN_ELEMENT = "unknown-element"
    """The object's class has no such element or method."""
    READ_ONLY = "read-only"
    """There is such an element, and it cannot be set."""
    REFUSED = "refused"
    """The gateway's configuration does not allow it to this principal."""
    WRONG_TYPE = "wrong-type"
    WRONG_LENGTH = "wrong-length"
    WRONG_VALUE = "wrong-value"
    NOT_NOW = "not-now"
    """Possible, but not now: too many operations are under way, or what it concerns is in no state for it."""
    REMOTE_FAILURE = "remote-failure"
    """Who manages the object refused it or failed; code and text say how."""
    SOURCE_DOWN = "source-down"
    """Nothing was sent: the source cannot be reached, or takes no requests."""
    UNKNOWN = "unknown"
    """It was sent, and no answer came in time: it may have been carried out, or may still be."""


@dataclass(frozen=True, slots=True)
class Principal:
    """The requester of an operation.

    Attributes:
        north: ``snmp``, ``jmx`` or ``cli``.
        name: as that front end knows them: a writer of the configuration, a user of JMX or of the system.
        origin: where from, for the record: an address and port, a process.
    """

    north: str
    name: str
    origin: str = ""

    def __str__(self) -> str:
        """As the configuration names them: ``jmx:operator``."""
        return f"{self.north}:{self.name}"


@dataclass(frozen=True, slots=True)
class MethodCall:
    """A call of an object's method, checked against the schema.

    Attributes:
        token: unique among the requests of this run of the core; the answer carries it.
        key: of the object's class.
        agent: that the object belongs to.
        native_id: of the object.
        method: of the class.
        arguments: the ``IN`` and ``INOUT`` ones in the schema's order.
        deadline: nanoseconds of the gateway's clock; it must not be carried out later.
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
    """A request to give properties of an object other values, checked against the schema: as one, once.

    For dialects that have such a request of their own. That it is reported as done says nothing certain:
    the requester reads the object again afterwards.

    Attributes:
        token: unique among the requests of this run of the core; the answer carries it.
        key: of the object's class.
        agent: that the object belongs to.
        native_id: of the object.
        values: by the names of the properties as the schema has them; ``None`` is no value.
        deadline: nanoseconds of the gateway's clock; it must not be carried out later.
    """

    token: int
    key: ClassKey
    agent: str
    native_id: str
    values: Mapping[str, Value | None]
    deadline: int


@dataclass(frozen=True, slots=True)
class ObjectFetch:
    """A request to read an object again. What is read is observed as usual, before the answer."""

    token: int
    key: ClassKey
    agent: str
    native_id: str
    deadline: int


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of a `MethodCall`, an `ObjectModify` or an `ObjectFetch`.

    Attributes:
        token: of what is answered.
        outcome: ``APPLIED`` also of an object that was read; ``UNKNOWN`` where no answer came, which may be
            followed by another answer to the same token when it comes late.
        text: one line for people: of the agent, or why there is none.
        code: the dialect's own status; ``None`` where the agent did not answer.
        outputs: the ``OUT`` and ``INOUT`` arguments in the schema's order; empty where there are none.
    """

    token: int
    outcome: Outcome
    text: str = ""
    code: int | None = None
    outputs: Values = ()
