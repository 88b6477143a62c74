"""What the feed told of the chosen classes, as far as somebody vouches for it now.

Prometheus takes a value for what is true at the instant of the scrape. So nothing is shown of a source that
is not believed, of an agent that is silent, or before the core has told everything; a series that is missing
is what Prometheus itself calls stale.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from gateway.feed.records import (
    AgentGoneRecord,
    AgentRecord,
    Batch,
    ClassRecord,
    DeleteRecord,
    FeedMessage,
    ObjectRecord,
    Record,
    SnapshotBegan,
    SnapshotEnded,
    SourceRecord,
    UpdateRecord,
)
from gateway.feed.values import FeedValue, ObjectLink
from gateway.model.observations import BELIEVED
from gateway.model.schema import ClassSchema
from gateway.model.stable_names import parts
from gateway.prometheus.families import Family, families_of, snake_case

WITH_AGENTS: Final = frozenset({"qmf", "am01"})
"""Kinds of sources of which several agents may each have an object of one name."""

_OWN_LABELS: Final = frozenset({"source", "agent", "state"})


@dataclass(frozen=True, slots=True)
class ShownClass:
    """One version of a class that was chosen.

    Attributes:
        name: ``package:class``.
        families: by position of the element.
        indexed: positions and label names of the elements that tell its objects apart.
        positions: all of these, whose values are kept.
    """

    name: str
    families: Mapping[int, Family]
    indexed: tuple[tuple[int, str], ...]
    positions: frozenset[int]

    def wanted(self, values: Mapping[int, FeedValue]) -> dict[int, FeedValue]:
        """Of an object's values those that are shown, or name it."""
        return {position: value for position, value in values.items() if position in self.positions}


@dataclass(slots=True)
class ShownObject:
    """An object of a chosen class, with the values of what is shown and of what names it, by position."""

    in_class: ShownClass
    agent: str
    stable_name: str
    values: dict[int, FeedValue]


class _Told:
    """Everything that one snapshot, and what came after it, told.

    Args:
        shown_class: what is shown of a class, if anything.
        classes: those that are known from before, by number.
    """

    def __init__(
        self,
        shown_class: Callable[[ClassSchema], ShownClass | None],
        classes: Mapping[int, ShownClass | None] | None = None,
    ) -> None:
        self.sources: dict[int, SourceRecord] = {}
        self.classes = dict(classes or {})
        self.silent: set[tuple[int, str]] = set()
        self.objects: dict[tuple[int, str], dict[int, ShownObject]] = {}
        self._shown_class = shown_class

    def take(self, record: Record) -> None:
        """Take what is about sources, classes, agents and objects."""
        match record:
            case SourceRecord():
                self.sources[record.number] = record
            case ClassRecord():
                self.classes[record.number] = self._shown_class(record.schema)
            case AgentRecord():
                change = self.silent.discard if record.fresh else self.silent.add
                change((record.source, record.agent))
            case AgentGoneRecord():
                self.silent.discard((record.source, record.agent))
            case ObjectRecord() | UpdateRecord() | DeleteRecord():
                in_class = self.classes.get(record.class_number)
                if in_class is not None:
                    self._take_object(record, in_class)

    def _take_object(self, record: ObjectRecord | UpdateRecord | DeleteRecord, in_class: ShownClass) -> None:
        rows = self.objects.setdefault((record.source, in_class.name), {})
        if isinstance(record, DeleteRecord):
            rows.pop(record.row, None)
            return
        values = in_class.wanted(record.values)
        if isinstance(record, ObjectRecord):
            rows[record.row] = ShownObject(in_class, record.agent, record.stable_name, values)
        elif record.row in rows:
            known = rows[record.row].values
            known.update(values)
            for position in record.absent:
                known.pop(position, None)


class ShownObjects:
    """The objects of the chosen classes; a subscriber of the feed.

    Args:
        classes: the chosen elements, as `families_of` takes them.
    """

    def __init__(self, classes: Mapping[str, Sequence[str]]) -> None:
        self._chosen = classes
        self._shown = _Told(self._class)
        self._coming: _Told | None = None
        self.is_whole = False
        """Whether the core has told everything, and is there."""

    def received(self, message: FeedMessage) -> None:
        """Take what the core says."""
        if isinstance(message, Batch):
            told = self._shown if self._coming is None else self._coming
            for record in message.records:
                told.take(record)
        elif isinstance(message, SnapshotBegan):
            # Until it is whole, what was told before is shown: it is brought up to date by it.
            former = self._shown if self._coming is None else self._coming
            self._coming = _Told(self._class, former.classes)
        elif isinstance(message, SnapshotEnded) and self._coming is not None:
            self._shown, self._coming = self._coming, None
            self.is_whole = True

    def disconnected(self, reason: str) -> None:  # noqa: ARG002  as of every subscriber; the link logs it
        """The core is gone: nobody vouches for anything."""
        self._shown, self._coming, self.is_whole = _Told(self._class), None, False

    def __len__(self) -> int:
        """How many objects of the chosen classes are known."""
        return sum(map(len, self._shown.objects.values()))

    @property
    def sources(self) -> list[tuple[str, bool]]:
        """The names of all sources, and whether each is believed."""
        return [(one.name, one.state in BELIEVED) for one in self._shown.sources.values()]

    def current(self, class_name: str) -> Iterator[tuple[dict[str, str], ShownObject]]:
        """The objects of a class (``package:class``) that somebody vouches for, with their labels.

        Where two have the same labels, the younger one stands for both.
        """
        found: dict[tuple[str, ...], tuple[dict[str, str], ShownObject]] = {}
        for (number, name), rows in self._shown.objects.items():
            source = self._shown.sources.get(number)
            if name != class_name or source is None or source.state not in BELIEVED:
                continue
            for _, shown in sorted(rows.items()):
                if (number, shown.agent) not in self._shown.silent:
                    labels = _labels(source, shown)
                    found[tuple(labels.values())] = labels, shown
        yield from found.values()

    @property
    def classes(self) -> list[str]:
        """The names of the chosen classes that are known, ``package:class``."""
        return list(dict.fromkeys(one.name for one in self._shown.classes.values() if one is not None))

    def families(self, class_name: str) -> list[Family]:
        """The families of a class, of all its versions; of those of one name the first."""
        named: dict[str, Family] = {}
        for in_class in self._shown.classes.values():
            if in_class is not None and in_class.name == class_name:
                for family in in_class.families.values():
                    named.setdefault(family.name, family)
        return list(named.values())

    def _class(self, schema: ClassSchema) -> ShownClass | None:
        families = families_of(schema, self._chosen)
        if not families:
            return None
        indexed: list[tuple[int, str]] = []
        for position, element in enumerate(schema.elements):
            if element.index:
                label = snake_case(element.name)
                indexed.append((position, f"object_{label}" if label in _OWN_LABELS else label))
        positions = frozenset({*families, *dict(indexed)})
        return ShownClass(str(schema.key), families, tuple(indexed), positions)


def _labels(source: SourceRecord, shown: ShownObject) -> dict[str, str]:
    labels = {"source": source.name}
    if source.kind in WITH_AGENTS:
        labels["agent"] = shown.agent
    for position, label in shown.in_class.indexed:
        labels[label] = _text(shown.values.get(position))
    if not shown.in_class.indexed:
        labels["object"] = shown.stable_name
    return labels


def _text(value: FeedValue | None) -> str:
    """What a label says: of a reference the own name of what it leads to."""
    if isinstance(value, ObjectLink):
        return (parts(value.stable_name) or (None,))[-1] or value.stable_name
    return "" if value is None else str(value)
