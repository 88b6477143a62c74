"""What the parts of one source's inventory have in common."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from gateway.feed.records import Record
from gateway.inventory.classes import ClassRegistry
from gateway.inventory.instances import IdAllocator, InstanceIndex


@dataclass(frozen=True, slots=True)
class SourceIdentity:
    """A source as configuration and state folder know it.

    Attributes:
        number: of its name, for ever.
        name: as configured.
        kind: as configured.
        sets_natively: its dialect has a request of its own to set properties, beside methods.
    """

    number: int
    name: str
    kind: str
    sets_natively: bool = False


@dataclass(frozen=True, slots=True)
class SourceScope:
    """Passed to each part when it is constructed.

    Attributes:
        identity: the source.
        classes: of all sources, with their mappings.
        index: row numbers; committed before the records are published.
        ids: numbers of events, alarms and ends, over all sources.
        counters: what is counted of the source.
        records: what is to be published, in order; each part appends, `SourceInventory` takes.
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
