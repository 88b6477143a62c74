"""The objects of the chosen classes that are fresh now, and the page of them that Prometheus reads.

Prometheus assumes that a value is true at the instant of the scrape. So nothing is shown of a source that
is not trusted, of an agent that is silent, or before the core has sent everything; a series that is missing
is what Prometheus itself calls stale.

It also takes every fall of a counter for a beginning from zero, and adds the whole value. So a counter falls
here only where its source proves that it began again; elsewhere it continues with an offset (`Continued`),
which the next process takes over (`KeptCounters`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from typing import Final, NamedTuple

import msgspec
from prometheus_client import Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from gateway.feed.cleared import ClearedFeed
from gateway.feed.freshness import Freshness, Group
from gateway.feed.records import (
    ClassRecord,
    FeedMessage,
    Hello,
    ObjectRecord,
    SnapshotBegan,
    SourceRecord,
    UpdateRecord,
)
from gateway.feed.replica import FeedReplica, FeedView
from gateway.feed.replica import ShownObject as ReplicaObject
from gateway.feed.values import FeedValue, ObjectLink
from gateway.model.observations import TRUSTED, Counting
from gateway.model.schema import ClassSchema
from gateway.model.source_kinds import source_kind
from gateway.model.stable_names import parts
from gateway.prometheus.families import (
    Family,
    families_of,
    number_of,
    priority,
    snake_case,
    without_collisions,
    without_family,
)

_OWN_LABELS: Final = frozenset({"source", "agent", "state"})


class ShownClass(msgspec.Struct, frozen=True):
    """One version of a chosen class.

    Attributes:
        name: ``package:class``.
        families: the metric families by position of the element.
        indexed: positions and label names of the elements that distinguish its objects.
        positions: all of these positions, whose values are kept.
        counters: the positions of counters among them.
        left_out: the elements whose families would have the name of another one's.
    """

    name: str
    families: Mapping[int, Family]
    indexed: tuple[tuple[int, str], ...]
    positions: frozenset[int]
    counters: frozenset[int]
    left_out: frozenset[str]

    def wanted(self, values: Mapping[int, FeedValue]) -> dict[int, FeedValue]:
        """Return those of an object's values that are shown, or name it."""
        return {position: value for position, value in values.items() if position in self.positions}


@dataclass(frozen=True, slots=True)
class Continued:
    """A counter that is less than it was shown.

    Attributes:
        offset: what is added to its value, so that it is never shown with less.
        highest: its highest value: where it reaches that again, it may never have been less.
        last: its last value, where it has none now; ``None`` where it has one.
    """

    offset: int | float = 0
    highest: int | float = 0
    last: int | float | None = None


_CONTINUES: Final = Continued()

MAX_KEPT: Final = 20_000
"""The maximum number of objects whose counters are kept for the next process."""


class KeptCounters(msgspec.Struct, frozen=True, kw_only=True):
    """The counters of an object as they were shown, for the next process: it shows none with less.

    Attributes:
        source: the name of its source.
        class_name: ``package:class``.
        stable_name: its stable name.
        created: when it was created (ns); 0 if unknown.
        reset: the time of its last discontinuity (ns).
        counters: offset, highest and last value, as of `Continued`, by the name of the family. The last value
            is also that of a counter that has one: it may be less when the next process reads it.
    """

    source: str
    class_name: str
    stable_name: str
    created: int
    reset: int
    counters: dict[str, tuple[int | float, int | float, int | float | None]]

    @property
    def key(self) -> tuple[str, str, str]:
        """Names of source, class and object."""
        return self.source, self.class_name, self.stable_name


@dataclass(slots=True, eq=False)
class ShownObject(ReplicaObject[Group]):
    """An object of a chosen class, with the values that are shown, or name it, by position.

    ``continued``: by position the counters that are absent, or less than they were shown; ``reset``: the time
    of the last discontinuity, ``created``: that of its creation (ns).
    """

    row: int
    in_class: ShownClass
    stable_name: str
    values: dict[int, FeedValue]
    reset: int = 0
    created: int = 0
    continued: dict[int, Continued] = field(default_factory=dict)

    def shown(self, position: int) -> FeedValue | None:
        """Return the value that is shown: that of a counter with its offset."""
        value, known = self.values.get(position), self.continued.get(position)
        return value + known.offset if known and isinstance(value, int | float) else value

    def kept(self, source: str) -> KeptCounters | None:
        """Return its counters, for the next process; ``None`` where there are none."""
        families = self.in_class.families
        counters: dict[str, tuple[int | float, int | float, int | float | None]] = {}
        for position in self.in_class.counters:
            known = self.continued.get(position, _CONTINUES)
            last = self.values.get(position, known.last)
            if isinstance(last, int | float):
                numbers = known.offset, known.highest, last
                if all(map(math.isfinite, numbers)):  # JSON has no other ones
                    counters[families[position].name] = numbers
        if not counters:
            return None
        return KeptCounters(
            source=source,
            class_name=self.in_class.name,
            stable_name=self.stable_name,
            created=self.created,
            reset=self.reset,
            counters=counters,
        )

    def take_over(self, kept: KeptCounters) -> None:
        """Go on as in the process before, before it has any values; another object of the name does not.

        A creation that was seen is unknown after a start without the event log: that proves no other object.
        """
        if self.created and kept.created and self.created != kept.created:
            return
        self.reset = kept.reset
        for position, family in self.in_class.families.items():
            if family.name in kept.counters:
                self.continued[position] = Continued(*kept.counters[family.name])

    def follow(self, record: ObjectRecord | UpdateRecord, version: ShownClass) -> None:
        """Let counters continue, before they have the values of a record."""
        if record.counting is Counting.BEGAN and record.reset != self.reset:
            self.continued.clear()
        else:
            gone = (
                record.absent if isinstance(record, UpdateRecord) else version.counters - record.values.keys()
            )
            for position in version.counters.intersection(gone) & self.values.keys():
                self._is_gone(position, self.values[position])
            for position in version.counters & record.values.keys():
                self._counts(position, record.values[position])
        self.reset = record.reset

    def _is_gone(self, position: int, last: FeedValue) -> None:
        if isinstance(last, int | float):
            self.continued[position] = replace(self.continued.get(position, _CONTINUES), last=last)

    def _counts(self, position: int, value: FeedValue) -> None:
        """Take the next value of a counter."""
        known = self.continued.get(position, _CONTINUES)
        last = self.values.get(position, known.last)
        if not isinstance(value, int | float) or not isinstance(last, int | float):
            return
        offset = known.offset
        if value < last:
            offset += last - value
        elif value >= known.highest:
            offset = max(0, last + offset - value)
        if offset:
            self.continued[position] = Continued(offset, max(known.highest, last))
        else:
            self.continued.pop(position, None)


class ShownObjects(FeedView[ShownClass, None, ShownObject, Group]):
    """The objects of the chosen classes; a subscriber of the feed.

    Args:
        classes: the chosen elements, as `families_of` takes them.
        clock: returns the time, in nanoseconds since 1970-01-01 UTC.
        cleared: leaves out what its principal does not read; ``None`` shows everything.
        kept: the counters that continue, of the process before.
    """

    def __init__(
        self,
        classes: Mapping[str, Sequence[str]],
        clock: Callable[[], int],
        cleared: ClearedFeed | None = None,
        kept: Iterable[KeptCounters] = (),
    ) -> None:
        self._kept = {one.key: one for one in kept}
        self._chosen = classes
        self._clock = clock
        self._cleared = cleared
        self._policies = 0
        self._beginning: list[FeedMessage] = []
        self._objects: dict[tuple[int, str], dict[int, ShownObject]] = {}
        self._former: dict[tuple[int, str], dict[int, ShownObject]] = {}
        self._knows_shown = False
        self._begin()

    def _begin(self) -> None:
        """Forget everything, but how counters were shown of what the next snapshot has, too."""
        for key, rows in self._objects.items():
            self._former.setdefault(key, {}).update(rows)
        self._objects = {}
        self._knows_shown = False
        self._replica = FeedReplica(self, serve_stale_for=0, now=self._clock())

    def received(self, message: FeedMessage) -> None:
        """Apply a message of the feed."""
        now = self._clock()
        match message:
            case Hello():
                self._beginning = [message]
            case SnapshotBegan():
                self._beginning[1:] = [message]
        if self._cleared is not None:
            message = self._cleared.received(message)
            if self._cleared.changes != self._policies:
                # Nothing is shown of what the former policy permitted until this snapshot is complete.
                self._policies = self._cleared.changes
                self._begin()
                for earlier in self._beginning:
                    self._replica.received(earlier, now)
        self._replica.received(message, now)
        self._replica.work_off(now)
        if self._replica.is_complete:
            self._knows_shown = True
            self._former = {}

    def disconnected(self, reason: str) -> None:  # noqa: ARG002  as of every subscriber; the link logs it
        """Mark everything stale, because the core cannot be reached."""
        self._replica.disconnected(self._clock())

    # ---- what the replica calls ---------------------------------------------------------------------------

    def new_group(self, source: int, agent: str, class_name: str) -> Group:
        """Make the group of the objects of an agent and class."""
        return Group(source, agent, class_name)

    def version_of(self, record: ClassRecord) -> ShownClass | None:
        """Return the chosen elements of a class; ``None`` where there are none."""
        schema = record.schema
        families = families_of(schema, self._chosen)
        if not families:
            return None
        indexed = tuple(_labelled(schema))
        positions = frozenset({*families, *dict(indexed)})
        counters = frozenset(position for position, one in families.items() if one.kind == "counter")
        left_out = without_family(schema, self._chosen, families)
        return ShownClass(str(schema.key), families, indexed, positions, counters, left_out)

    def find(self, source: int, version: ShownClass, row: int) -> ShownObject | None:
        """Find an object."""
        return self._objects.get((source, version.name), {}).get(row)

    def objects_of(self, source: int) -> Iterable[ShownObject]:
        """List the objects of a source."""
        return [
            shown
            for (number, _), rows in self._objects.items()
            if number == source
            for shown in rows.values()
        ]

    def show(
        self, record: ObjectRecord, version: ShownClass, shown: ShownObject | None, group: Group
    ) -> ShownObject:
        """Keep an object's values."""
        values = version.wanted(record.values)
        if shown is None:
            former = self._former.get((record.source, version.name), {}).pop(record.row, None)
            is_known = former is not None and former.stable_name == record.stable_name
            shown = former if former is not None and is_known else None
        if shown is None:
            shown = ShownObject(
                group, record.row, version, record.stable_name, {}, record.reset, record.created
            )
            source = self._replica.sources[record.source].record.name
            kept = self._kept.pop((source, version.name, record.stable_name), None)
            if kept is not None:
                shown.take_over(kept)
                shown.follow(record, version)
        elif shown.in_class is version:
            shown.follow(record, version)
        else:
            _in_other_version(shown, version).follow(record, version)
        self._objects.setdefault((record.source, version.name), {})[record.row] = shown
        shown.in_class, shown.stable_name, shown.values = version, record.stable_name, values
        shown.created = record.created
        return shown

    def change(self, record: UpdateRecord, version: ShownClass, shown: ShownObject) -> None:
        """Keep the values that have changed."""
        shown.follow(record, version)
        shown.values.update(version.wanted(record.values))
        for position in record.absent:
            shown.values.pop(position, None)

    def remove(self, shown: ShownObject) -> None:
        """Forget an object."""
        del self._objects[shown.group.source, shown.in_class.name][shown.row]

    # ---- what is asked ------------------------------------------------------------------------------------

    @property
    def is_whole(self) -> bool:
        """Whether the core is connected, and has sent everything."""
        return self._replica.is_complete

    @property
    def knows_shown(self) -> bool:
        """Whether `kept` has all that was shown: a snapshot was complete; the core may have ended since."""
        return self._knows_shown

    def kept(self) -> list[KeptCounters]:
        """Return the counters for the next process, those of unknown objects among them.

        Of too many objects those come first whose counters continue with an offset, and last those of sources
        that are not configured any more.
        """
        sources = {number: one.record.name for number, one in self._replica.sources.items()}
        trusted = {name for name, is_trusted in self.sources if is_trusted}
        known = (
            shown.kept(sources[number])
            for continues in (True, False)
            for (number, _), rows in self._objects.items()
            for shown in rows.values()
            if bool(shown.continued) is continues
        )
        waiting = [one for one in self._kept.values() if one.source not in trusted]
        configured = frozenset(sources.values())
        first = (one for one in waiting if one.source in configured)
        last = (one for one in waiting if one.source not in configured)
        return list(islice(chain(first, filter(None, known), last), MAX_KEPT))

    def __len__(self) -> int:
        """Return the number of known objects of the chosen classes."""
        return sum(map(len, self._objects.values()))

    @property
    def sources(self) -> list[tuple[str, bool]]:
        """The names of all sources, and whether each is trusted."""
        records = (source.record for source in self._replica.sources.values())
        return [(record.name, record.state in TRUSTED) for record in records]

    def current(self, class_name: str) -> tuple[list[tuple[dict[str, str], ShownObject]], int]:
        """Return a class's fresh objects (``package:class``) with their labels, and how many are hidden.

        Where several have the same labels, the youngest one stands for all; the others are hidden.
        """
        self._replica.age(self._clock())
        found: dict[tuple[str, ...], tuple[dict[str, str], ShownObject]] = {}
        count = 0
        for (number, name), rows in self._objects.items():
            if name != class_name:
                continue
            record = self._replica.sources[number].record
            # By row, which ascend with time: of two objects with the same labels the later one is kept.
            for _, shown in sorted(rows.items()):
                if shown.group.freshness is Freshness.FRESH:
                    labels = _labels(record, shown)
                    count += 1
                    # A page has each series once.
                    found[tuple(labels.values())] = labels, shown
        return list(found.values()), count - len(found)

    @property
    def classes(self) -> list[str]:
        """The names of the chosen classes that are known, ``package:class``, by `priority`."""
        return sorted({one.name for one in self._replica.versions.values()}, key=priority)

    def families(self, class_name: str) -> dict[str, Family]:
        """Return the families of a class by name, of all its versions."""
        return without_collisions(
            family for version in self._versions(class_name) for family in version.families.values()
        )

    def left_out(self, class_name: str, shown: Mapping[str, Family]) -> frozenset[str]:
        """Return the elements of a class that are in none of the ``shown`` families: others have their names.

        An element that is a counter in one version of the class only is among them, too.
        """
        versions = self._versions(class_name)
        others = (
            family.element
            for version in versions
            for family in version.families.values()
            if not family.is_shown_by(shown)
        )
        return frozenset(others).union(*(version.left_out for version in versions))

    def _versions(self, class_name: str) -> list[ShownClass]:
        return [one for one in self._replica.versions.values() if one.name == class_name]


def _labelled(schema: ClassSchema) -> Iterator[tuple[int, str]]:
    """Yield positions and label names of the elements that distinguish objects: each name once."""
    taken = set(_OWN_LABELS)
    for position, element in enumerate(schema.elements):
        if not element.index:
            continue
        label = wanted = snake_case(element.name)
        if label in _OWN_LABELS:
            label = wanted = f"object_{label}"
        number = 1
        while label in taken:
            number += 1
            label = f"{wanted}_{number}"
        taken.add(label)
        yield position, label


def _in_other_version(shown: ShownObject, version: ShownClass) -> ShownObject:
    """Move the values and counters of an object to the positions that they have in another version."""
    places = {family.name: position for position, family in version.families.items()}
    moved = {
        position: places[family.name]
        for position, family in shown.in_class.families.items()
        if family.name in places
    }
    shown.values = {moved[p]: value for p, value in shown.values.items() if p in moved}
    shown.continued = {moved[p]: known for p, known in shown.continued.items() if p in moved}
    return shown


def _labels(source: SourceRecord, shown: ShownObject) -> dict[str, str]:
    labels = {"source": source.name}
    if source_kind(source.kind).with_agents:
        labels["agent"] = shown.group.agent
    for position, label in shown.in_class.indexed:
        labels[label] = _text(shown.values.get(position))
    if not shown.in_class.indexed:
        labels["object"] = shown.stable_name
    return labels


def _text(value: FeedValue | None) -> str:
    """Return the text of a label; for a reference the own name of its target."""
    if isinstance(value, ObjectLink):
        return (parts(value.stable_name) or (None,))[-1] or value.stable_name
    return "" if value is None else str(value)


UP: Final = "amqp_gateway_objects_up"
SOURCE_UP: Final = "amqp_gateway_objects_source_up"
LEFT_OUT: Final = "amqp_gateway_objects_left_out"
NAME_TAKEN: Final = "amqp_gateway_objects_name_taken"
SERIES: Final = "amqp_gateway_objects_series"


def encode(metrics: Iterable[Metric], accept: str) -> tuple[bytes, str]:
    """Return body and content type of a page.

    Args:
        metrics: the metrics on it.
        accept: the request's header, which chooses between Prometheus' text format and OpenMetrics.
    """
    encoder, content_type = choose_encoder(accept)
    return encoder(_Page(metrics)), content_type


class _Page(Collector):
    """Metrics as an encoder of prometheus-client takes them."""

    def __init__(self, metrics: Iterable[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        return self._metrics


def metrics_of(objects: ShownObjects, max_series: int) -> Iterator[Metric]:
    """Make the metrics of objects.

    Args:
        objects: the shown objects.
        max_series: the maximum number of series. An object beyond is left out whole, and counted by its
            class.
    """
    up = Metric(UP, "1 where the gateway's core has sent everything; 0: no object is shown.", "gauge")
    up.add_sample(UP, {}, float(objects.is_whole))
    yield up
    sources = Metric(SOURCE_UP, "1 where the source is trusted; 0: none of its objects is shown.", "gauge")
    for name, is_trusted in objects.sources:
        sources.add_sample(SOURCE_UP, {"source": name}, float(is_trusted))
    yield sources
    left_out = Metric(LEFT_OUT, "Objects not shown because of metrics.objects.max_series.", "gauge")
    taken = Metric(
        NAME_TAKEN, "Elements and objects not shown because others have their names here.", "gauge"
    )
    room = max_series
    names = {UP, SOURCE_UP, LEFT_OUT, NAME_TAKEN, SERIES}
    for class_name in objects.classes:
        page = _metrics_of_class(objects, class_name, room, names)
        room -= page.used
        left_out.add_sample(LEFT_OUT, {"class": class_name}, float(page.beyond))
        for what, count in (("element", page.elements), ("object", page.alike)):
            taken.add_sample(NAME_TAKEN, {"class": class_name, "what": what}, float(count))
        yield from page.metrics
    yield left_out
    yield taken
    series = Metric(SERIES, "Series of objects that are shown.", "gauge")
    series.add_sample(SERIES, {}, float(max_series - room))
    yield series


class _PageOfClass(NamedTuple):
    """The metrics of a class, and what of it is not among them.

    Attributes:
        metrics: the metrics.
        used: the number of their series.
        beyond: the number of objects without room.
        elements: the number of elements whose names others have.
        alike: the number of objects whose labels others have.
    """

    metrics: list[Metric]
    used: int
    beyond: int
    elements: int
    alike: int


def _metrics_of_class(objects: ShownObjects, class_name: str, room: int, names: set[str]) -> _PageOfClass:
    """Return what a page has of a class; ``names`` are those of the page so far, and grow."""
    families = objects.families(class_name)
    own = {name: family for name, family in families.items() if names.isdisjoint(family.names)}
    names |= frozenset().union(*(family.names for family in own.values()))
    metrics = {name: Metric(name, family.help, family.kind) for name, family in own.items()}
    current, alike = objects.current(class_name)
    used = beyond = 0
    for labels, shown in current:
        samples = [
            (family.name, sample)
            for position, family in shown.in_class.families.items()
            if family.is_shown_by(own)
            and (sample := _sample(family, labels, shown.shown(position))) is not None
        ]
        # Whole objects: half of one's series would look like absent values.
        if used + len(samples) > room:
            beyond += 1
            continue
        used += len(samples)
        for name, (suffix, sample_labels, value) in samples:
            metrics[name].add_sample(name + suffix, sample_labels, value)
    elements = len(objects.left_out(class_name, own))
    return _PageOfClass([one for one in metrics.values() if one.samples], used, beyond, elements, alike)


def _sample(
    family: Family, labels: dict[str, str], value: FeedValue | None
) -> tuple[str, dict[str, str], float] | None:
    """Return suffix of the family's name, labels and number; ``None`` for a value that is no number."""
    if family.states:
        # A series of zero for each other state would be ten series for each queue.
        state = next((state for travels, state in family.states if value == travels), None)
        return None if state is None else ("", {**labels, "state": state}, 1.0)
    number = number_of(value)
    if number is None:
        return None
    return "_total" if family.kind == "counter" else "", labels, number * family.factor
