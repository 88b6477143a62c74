"""The true state: every managed object that ever existed, with all values it ever had.

Values are kept in the form of SNMP (octets, integers), so that values in a store can be looked up here.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from tests.simulation.kept_truth import KeptTruth

Plain: TypeAlias = "int | bytes | None"
"""A value as in an SNMP cell; ``None`` is a hole."""


def plain(value: object) -> Plain:
    """Return ``value`` as in a cell without enumeration: TruthValue, integer or octets."""
    if value is None:
        return None
    if isinstance(value, bool):
        return 1 if value else 2
    return value if isinstance(value, int) else str(value).encode()


def mark_of(value: object) -> Plain:
    """Return the mark of an incarnation in a value: a number, a text, or a RabbitMQ's arguments."""
    if isinstance(value, dict):
        return next((f'{{"{k}":{v}}}'.encode() for k, v in value.items() if k == "x-serial"), None)
    return value.encode() if isinstance(value, str) else value if isinstance(value, int) else None


class Timeline:
    """One value over time."""

    def __init__(self, time: int, value: Plain) -> None:
        self._times = [time]
        self._values = [value]

    @property
    def now(self) -> Plain:
        """The latest value."""
        return self._values[-1]

    def change(self, time: int, value: Plain) -> None:
        """Set the value from ``time`` on."""
        if value != self._values[-1]:
            self._times.append(time)
            self._values.append(value)

    def held(self, value: Plain, since: int, until: int) -> bool:
        """Return whether the value was ``value`` at any moment from ``since`` to ``until``."""
        first = max(bisect_right(self._times, since) - 1, 0)
        last = bisect_right(self._times, until)
        return value in self._values[first:last]


@dataclass(slots=True, eq=False)
class Thing:
    """One incarnation of a managed object; an object that is created again after its end is another thing.

    Attributes:
        serial: the unique number of the incarnation. Each object carries it in one of its values, its mark.
        class_name: ``package:class``.
        name: its stable name, as the gateway must make it of a durable object.
        durable: whether an object of this name keeps its row for ever.
        ended: the time of its end; 0 while it exists.
        hidden: whether the gateway may not read it, so that it may be shown or not; it was last hidden at
            ``hidden_until``.
        values: the values over time, by element.
        announced: whether events report its creation and end, however short it lives.
    """

    serial: int
    source: str
    class_name: str
    name: str
    durable: bool
    created: int
    ended: int = 0
    hidden: bool = False
    hidden_until: int = 0
    announced: bool = True
    values: dict[str, Timeline] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.source} {self.class_name} {self.name} #{self.serial}"

    @property
    def exists(self) -> bool:
        """Whether the thing has not ended."""
        return not self.ended

    def existed(self, since: int, until: int) -> bool:
        """Return whether the thing existed at any moment from ``since`` to ``until``."""
        return self.created <= until and (not self.ended or self.ended >= since)

    def now(self, element: str) -> Plain:
        """Return the latest value of an element."""
        return self.values[element].now


class Truth:
    """All things of all sources.

    Attributes:
        marks: the element of each class that identifies its incarnations.
        parents: the reference of each class to the parent of its objects.
        statistics: elements that an agent leaves out rather than reports with an old value.
        apart: elements that are read separately from the others, so that they may be absent at first.
        blind: begin and end (0: still lasting) of the last time in which the agent of a source could not
            read; it reports that.
        starts: the times at which the broker of a source was started.
        unheard: begin and end of the last time in which the events of a source did not pass; it cannot be
            known at once.
        kept: the durable subscriptions of sources.
        seldom: the longest interval (ns) of listings of a source and class that its agent ever reported.
    """

    def __init__(self) -> None:
        self.things: dict[int, Thing] = {}
        self.marks: dict[str, str] = {}
        self.parents: dict[str, str] = {}
        self.statistics: frozenset[str] = frozenset()
        self.apart: frozenset[str] = frozenset()
        self.blind: dict[str, tuple[int, int]] = {}
        self.seldom: dict[tuple[str, str], int] = {}
        self.starts: dict[str, list[int]] = {}
        self.unheard: dict[str, tuple[int, int]] = {}
        self.kept: dict[str, KeptTruth] = {}
        self._marked: dict[tuple[str, str, Plain], Thing] = {}
        self._named: dict[tuple[str, str, str], Thing] = {}
        self._living: dict[str, dict[int, Thing]] = {}

    def create(
        self,
        source: str,
        class_name: str,
        name: str,
        time: int,
        values: Mapping[str, object],
        *,
        durable: bool,
        announced: bool = True,
    ) -> Thing:
        """Create a thing; where it has no value for the mark of its class, that is its serial."""
        serial = self.next_serial
        thing = Thing(serial, source, class_name, name, durable, time, announced=announced)
        thing.values = {
            element: Timeline(time, plain(value))
            for element, value in {self.marks[class_name]: serial, **values}.items()
        }
        self._marked[source, class_name, thing.now(self.marks[class_name])] = thing
        self._named[source, class_name, name] = thing
        self.things[serial] = thing
        self._living.setdefault(source, {})[serial] = thing
        return thing

    @property
    def next_serial(self) -> int:
        """The mark of the next thing."""
        return len(self.things) + 1

    def marked(self, source: str, class_name: str, mark: Plain, name: str = "") -> Thing | None:
        """Return the thing with this mark, or ``None``; without a mark, the last thing of this name.

        An event of an object within a virtual host contains the name of the virtual host and no mark.
        """
        if mark is None:
            return self._named.get((source, class_name, name))
        return self._marked.get((source, class_name, mark))

    def change(self, thing: Thing, time: int, values: Mapping[str, object]) -> None:
        """Change some values of a thing."""
        for element, value in values.items():
            thing.values[element].change(time, plain(value))

    def end(self, thing: Thing, time: int) -> None:
        """End a thing."""
        thing.ended = time
        del self._living[thing.source][thing.serial]

    def living(self, source: str) -> Iterable[Thing]:
        """Return all existing things of a source, in the order of creation."""
        return tuple(self._living.get(source, {}).values())
