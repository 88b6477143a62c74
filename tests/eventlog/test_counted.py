"""Generated histories of a counter: deltas never add up to more than was counted, and to all that is known.

A cluster counts as RabbitMQ does: each node counts what passes through it and forgets that when it ends, and
the counter is the sum over the nodes that are seen. What a reading shows may be wrong for a moment, or for
long. The source says when all nodes began again, and when the set of nodes changed. What Prometheus reads
never falls, unless all began again.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import msgspec
import pytest

from gateway.eventlog.last_state import LastState, last_state
from gateway.eventlog.record import AnyRecord, LogRecord
from gateway.eventlog.recorder import LogRecorder, RecorderSettings
from gateway.eventlog.waiting import Pressure
from gateway.feed.records import Batch, ObjectRecord, Record, SourceRecord
from gateway.feed.values import FeedValue
from gateway.inventory.object_records import discontinuity, update_record
from gateway.inventory.objects import Entry
from gateway.model.observations import Counting, ObjectSeen, SourceState
from gateway.model.times import MINUTE, SECOND
from tests.eventlog.feeds import AGENT, NAME, PUBLISHED, QUEUE, SHOP, T0, VHOST, queue
from tests.eventlog.records import block, with_all_fields, write_segment
from tests.eventlog.replay import assert_deltas_add_up
from tests.hypothesis_profiles import PROVING
from tests.prometheus.shop import Gateway as Page

SEEDS = 10_000 if PROVING else 300
FIRST = secrets.randbelow(2**32) if PROVING else 0
PARTS = 20
APART = 5 * SECOND
ALL_AT_ONCE, BY_THE_MINUTE = 1, MINUTE


@dataclass
class Node:
    """A node: what it counted, and whether it is seen."""

    counted: int = 0
    is_seen: bool = True


@dataclass
class Broker:
    """The cluster that counts.

    Attributes:
        counted: all that was ever counted, whatever the nodes have forgotten.
        is_known: nothing happened after which a part of it is not known.
    """

    chance: Random
    nodes: list[Node]
    counted: int = 0
    is_known: bool = True

    def count(self, messages: int | None = None) -> None:
        """Publish some messages through one of the nodes that are seen."""
        if messages is None:
            messages = self.chance.choice((0, 1, 7, 300, 5000))
        self.chance.choice([node for node in self.nodes if node.is_seen]).counted += messages
        self.counted += messages

    @property
    def shown(self) -> int:
        """The sum over the nodes that are seen."""
        return sum(node.counted for node in self.nodes if node.is_seen)

    def restart(self) -> None:
        """Start all nodes again."""
        self.is_known = False
        for node in self.nodes:
            node.counted, node.is_seen = 0, True

    def change_nodes(self) -> bool:
        """Let a node be gone, come back with what it had, or be started again; return whether one was."""
        node = self.chance.choice(self.nodes)
        others = [one for one in self.nodes if one is not node and one.is_seen]
        if not others:
            return False
        self.is_known = False
        node.is_seen = not node.is_seen
        if self.chance.random() < 0.5:
            node.counted = 0
        return True


@dataclass
class Gateway:
    """Inventory and event log of one counter, and the page that Prometheus reads.

    Attributes:
        fallen: the values on the page that were less than the one before, each with that.
    """

    folder: Path
    interval: int
    now: int = T0
    records: list[LogRecord] = field(default_factory=list)
    fallen: list[tuple[FeedValue, FeedValue]] = field(default_factory=list)
    page: Page = field(default_factory=Page)
    _on_page: int = 0

    def __post_init__(self) -> None:
        self._recorder = self._begin(LastState(), SHOP)
        # It was created since the shop was read, so that it counts from zero.
        born = msgspec.structs.replace(queue(1, now=self.now), created=T0 + SECOND)
        self._entry = Entry(born, QUEUE, 1)
        self._show_all(born)
        self._publish(born)

    def _show_all(self, record: ObjectRecord) -> None:
        self.page.hello()
        self.page.snapshot(SHOP, AGENT, QUEUE, record)

    def restart_page(self) -> None:
        """Start the process that makes the page again."""
        self.page = Page(kept=self.page.objects.kept())
        self._show_all(self._entry.record)
        self._look()

    def _look(self) -> None:
        (shown,) = self.page.objects.objects_of(SHOP.number)
        value = shown.shown(PUBLISHED)
        if not isinstance(value, int):
            return
        if value < self._on_page:
            self.fallen.append((value, self._on_page))
        self._on_page = value

    def _begin(self, state: LastState, source: SourceRecord) -> LogRecorder:
        recorder = LogRecorder(RecorderSettings(self.interval), state)
        self._take(recorder.apply(Batch(1, 1, (source, AGENT, QUEUE)), self.now))
        return recorder

    def read(self, published: int | None, counting: Counting = Counting.GO_ON) -> None:
        """Take a reading; ``None`` if it lacks the counter."""
        seen = self._seen(published, counting)
        update = update_record(self._entry, seen, lambda _: None, self.now)
        self._entry.apply(update, self._entry.record.parent)
        self._publish(update)

    def restart(self, published: int | None, counting: Counting) -> None:
        """Start the gateway again, and take a reading; ``counting``: how counters relate to before."""
        write_segment(self.folder, 1, block(self.records))
        reading = msgspec.structs.replace(SHOP, state=SourceState.SYNCHRONISING)
        self._recorder = self._begin(last_state(self.folder, ["shop"]), reading)
        known = self._entry.record
        values = {NAME: known.values[NAME], VHOST: known.values[VHOST]}
        values |= {} if published is None else {PUBLISHED: published}
        reset = discontinuity(known.reset, self.now)
        again = msgspec.structs.replace(
            known, values=values, reset=reset, statistics_sampled=self.now, counting=counting
        )
        self._entry = Entry(again, QUEUE, 1)
        self.page.hello(epoch=self.now)
        self.page.snapshot(SHOP, AGENT, QUEUE, again)
        self._publish(again, SHOP)

    def press(self, pressure: Pressure) -> None:
        """Let the log be written fast enough, or not."""
        self._recorder.pressure = pressure

    def wait(self, nanoseconds: int) -> None:
        """Let time pass."""
        end = self.now + nanoseconds
        while (due := self._recorder.wake_at) is not None and due <= end:
            self.now = max(self.now, due)
            self._take(self._recorder.tick(self.now))
        self.now = end

    def _seen(self, published: int | None, counting: Counting) -> ObjectSeen:
        statistics = (0, published, None, None)
        key = QUEUE.schema.key
        return ObjectSeen(key, "1.0", "n1", self.now, 0, 0, None, statistics, counting=counting)

    def _publish(self, *records: Record) -> None:
        self._take(self._recorder.apply(Batch(1, 1, records), self.now))
        if self._entry.record.counting is Counting.BEGAN:
            self._on_page = 0
        self.page.publish(*records)
        self._look()

    def _take(self, records: list[AnyRecord]) -> None:
        self.records += with_all_fields(records)

    def gained(self) -> int:
        """Return the sum of the counter's deltas, as any reader makes it."""
        entries = [
            one.deltas["published"] for one in self.records if one.deltas and "published" in one.deltas
        ]
        return sum(entry.delta or 0 for entry in entries)


class History:
    """One history: steps that are drawn, and what came of them."""

    def __init__(self, seed: int, folder: Path) -> None:
        self._chance = chance = Random(seed)  # noqa: S311  repeatable on purpose
        self.broker = Broker(chance, [Node() for _ in range(chance.choice((1, 1, 2, 3)))])
        self.gateway = Gateway(folder, chance.choice((ALL_AT_ONCE, BY_THE_MINUTE)))
        self._missing = 0  # that readings do not show, for long
        self._changed_at = 0  # when the set of nodes changed last
        self.steps: list[str] = []

    def run(self) -> None:
        """Carry out some steps, and let all settle."""
        steps: list[Callable[[], None]] = [
            *[self._goes_on] * 6,
            *[self._is_absent] * 2,
            *[self._is_less_for_a_moment] * 2,
            self._is_more_for_a_moment,
            self._lacks_a_part,
            self._all_begin_again,
            self._one_begins_again_unseen,
            *[self._nodes_change] * 2,
            self._gateway_is_started_again,
        ]
        for _ in range(self._chance.randrange(5, 40)):
            self.broker.count()
            if self._chance.random() < 0.1:
                self.gateway.restart_page()
            step = self._chance.choice(steps)
            self.steps.append(step.__name__)
            step()
        for _ in range(4):
            self._goes_on()
        self.gateway.press(Pressure.NONE)
        self.gateway.wait(4 * MINUTE)

    def _read(self, published: int | None, counting: Counting = Counting.GO_ON) -> None:
        self.gateway.press(self._chance.choice((*[Pressure.NONE] * 5, Pressure.MERGE, Pressure.FULL)))
        self.gateway.wait(self._chance.choice((APART, APART, 2 * APART, 40 * SECOND)))
        self.gateway.read(published, counting)

    def _goes_on(self) -> None:
        self._read(self.broker.shown - self._missing)

    def _is_absent(self) -> None:
        self._read(None)

    def _is_less_for_a_moment(self) -> None:
        """The readings around it are right, and the one that follows comes in time."""
        self._goes_on()
        shown = self.broker.shown
        self.gateway.wait(APART)
        self.gateway.read(self._chance.choice((0, shown // 2, max(0, shown - 1))))
        self.gateway.wait(APART)
        self.gateway.read(shown)

    def _is_more_for_a_moment(self) -> None:
        """The readings around it are right: of two that are wrong at once none shows which."""
        for _ in range(3):
            self._goes_on()
        self._read(self.broker.shown + 5_000_000)
        for _ in range(3):
            self._goes_on()

    def _lacks_a_part(self) -> None:
        """Readings lack a part for long, and have it again before they would be as before without it."""
        self._goes_on()
        self.broker.is_known = False
        top = self.broker.shown
        self._missing = self._chance.randrange(top + 1)
        for _ in range(4):
            self._goes_on()
        self.broker.count(self._chance.randrange(self._missing + 1))
        self._goes_on()
        self._missing = 0
        self._goes_on()

    def _all_begin_again(self) -> None:
        self.broker.restart()
        self.broker.count()
        self._read(self._chance.choice((None, self.broker.shown)), Counting.BEGAN)

    def _one_begins_again_unseen(self) -> None:
        """The only node began again, and nothing proves it."""
        if len(self.broker.nodes) == 1:
            self._goes_on()
            self.broker.restart()
            self.broker.count()
            for _ in range(4):
                self._goes_on()

    def _nodes_change(self) -> None:
        """The listing of nodes may come after a reading that lacks what a node had."""
        before = self.broker.shown
        if not self.broker.change_nodes():
            return
        self._changed_at = self.gateway.now
        if self.broker.shown < before and self._chance.random() < 0.5:
            self._goes_on()
        self._read(self._chance.choice((None, self.broker.shown)), Counting.UNKNOWN)

    def _gateway_is_started_again(self) -> None:
        """Nodes that were started less than five minutes before its end are in doubt after it."""
        happened = self._chance.choice((Counting.GO_ON, Counting.GO_ON, Counting.BEGAN, Counting.UNKNOWN))
        if happened is Counting.BEGAN:
            self.broker.restart()
        elif happened is Counting.UNKNOWN and not self.broker.change_nodes():
            happened = Counting.GO_ON
        if happened is Counting.GO_ON and self.gateway.now - self._changed_at < 5 * MINUTE:
            happened = Counting.UNKNOWN
            self.broker.is_known = False
        self.broker.count()
        self.gateway.now += MINUTE
        shown = self.broker.shown
        self.gateway.restart(self._chance.choice((None, shown, shown)), happened)


@pytest.mark.parametrize("part", range(PARTS))
def test_deltas_add_up_to_what_was_counted(part: int, tmp_path: Path) -> None:
    for seed in range(FIRST + part, FIRST + SEEDS, PARTS):
        history = History(seed, tmp_path / str(seed))
        history.run()
        gained, counted = history.gateway.gained(), history.broker.counted
        what = f"seed {seed}: {gained} of {counted} after {history.steps}"
        assert gained <= counted, what
        assert gained == counted or not history.broker.is_known, what
        assert history.gateway.fallen == [], what
        assert_deltas_add_up(history.gateway.records)
