"""What happens while somebody watches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from gateway.feed.operations import OperationRecord
from gateway.feed.records import (
    AlarmRecord,
    ClassRecord,
    DeleteRecord,
    EventClassRecord,
    EventLogRecord,
    EventRecord,
    GapRecord,
    ObjectRecord,
    SourceRecord,
)
from gateway.feed.values import FeedValue
from gateway.model.schema import Element


def path_of(source: str, class_name: str, stable_name: str) -> str:
    """``SOURCE/PACKAGE:CLASS/NAME``: how an object is called at the command line.

    Args:
        source: name of its source.
        class_name: ``package:class``.
        stable_name: of the object; it may hold slashes.
    """
    return f"{source}/{class_name}/{stable_name}"


class ObjectKey(NamedTuple):
    """Where an object stands: number of its source, ``package:class``, row. Another one never has it."""

    source: int
    class_name: str
    row: int


@dataclass(frozen=True, slots=True)
class KnownObject:
    """An object as it was told last.

    Attributes:
        source: name of its source.
        in_class: the version of its class that its values are of.
        record: the object, whole.
    """

    source: str
    in_class: ClassRecord
    record: ObjectRecord

    @property
    def class_name(self) -> str:
        """``package:class``."""
        return str(self.in_class.schema.key)

    @property
    def key(self) -> ObjectKey:
        """Where it stands."""
        return ObjectKey(self.record.source, self.class_name, self.record.row)

    @property
    def path(self) -> str:
        """What it is called at the command line."""
        return path_of(self.source, self.class_name, self.record.stable_name)

    def value(self, element: str) -> FeedValue | None:
        """Of the element of this name; ``None`` where it is absent."""
        return self.record.values.get(self.in_class.schema.positions[element])


@dataclass(frozen=True, slots=True)
class ValueChange:
    """An element that has another value now; ``None`` is absent."""

    element: Element
    former: FeedValue | None
    value: FeedValue | None


@dataclass(frozen=True, slots=True)
class Created:
    """An object came."""

    object: KnownObject


@dataclass(frozen=True, slots=True)
class Changed:
    """Values of an object are others now."""

    object: KnownObject
    changes: tuple[ValueChange, ...]


@dataclass(frozen=True, slots=True)
class Deleted:
    """An object is gone; ``record`` is ``None`` where its end was not told, only that it is not there."""

    source: str
    class_name: str
    stable_name: str
    record: DeleteRecord | None = None

    @property
    def path(self) -> str:
        """What it was called at the command line."""
        return path_of(self.source, self.class_name, self.stable_name)


@dataclass(frozen=True, slots=True)
class EventTold:
    """An event happened; ``source`` is empty of the gateway's own."""

    source: str
    in_class: EventClassRecord
    record: EventRecord


@dataclass(frozen=True, slots=True)
class AlarmTold:
    """A condition began, or ended."""

    source: str
    record: AlarmRecord


@dataclass(frozen=True, slots=True)
class SourceTold:
    """A source is in another state, or gives another reason for it."""

    record: SourceRecord


@dataclass(frozen=True, slots=True)
class GapTold:
    """Something of a source was not heard."""

    source: str
    record: GapRecord


@dataclass(frozen=True, slots=True)
class OperationTold:
    """An operation began, ended or was settled."""

    source: str
    record: OperationRecord


@dataclass(frozen=True, slots=True)
class EventLogTold:
    """The event log is in another state."""

    record: EventLogRecord


@dataclass(frozen=True, slots=True)
class CoreTold:
    """The gateway's core cannot be reached, for a ``reason``; or it can again, where that is empty."""

    reason: str = field(default="")


FeedChange: TypeAlias = (
    Created
    | Changed
    | Deleted
    | EventTold
    | AlarmTold
    | SourceTold
    | GapTold
    | OperationTold
    | EventLogTold
    | CoreTold
)

KINDS: Mapping[type[FeedChange], str] = {
    Created: "created",
    Changed: "changed",
    Deleted: "deleted",
    EventTold: "event",
    AlarmTold: "alarm",
    SourceTold: "source",
    GapTold: "gap",
    OperationTold: "operation",
    EventLogTold: "event-log",
    CoreTold: "core",
}
"""What each is called, in lines and in documents."""
