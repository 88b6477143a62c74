"""Definitions shared by the parts of one source's inventory."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from gateway.feed.records import Record
from gateway.inventory.classes import ClassRegistry
from gateway.inventory.instances import IdAllocator, InstanceIndex


@dataclass(frozen=True, slots=True)
class SourceIdentity:
    """The identity of a source, by configuration and state folder.

    Attributes:
        number: the number of its name, for ever.
        name: its configured name.
        kind: its configured kind.
        sets_natively: its dialect has a request of its own to set properties, beside methods.
    """

    number: int
    name: str
    kind: str
    sets_natively: bool = False


@dataclass(frozen=True, slots=True)
class SourceScope:
    """The shared objects that each part is given when it is constructed.

    Attributes:
        identity: the source.
        classes: the classes of all sources, with their mappings.
        index: the row numbers; committed before the records are published.
        ids: allocates the numbers of events, alarms and ends, over all sources.
        counters: the counters of the source, by name.
        records: the records to publish, in order; each part appends, `SourceInventory` takes.
    """

    identity: SourceIdentity
    classes: ClassRegistry
    index: InstanceIndex
    ids: IdAllocator
    counters: Counter[str] = field(default_factory=Counter)
    records: list[Record] = field(default_factory=list)

    @property
    def number(self) -> int:
        """The source's number."""
        return self.identity.number
