"""Parts that are broken on purpose: the invariants detect each of them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import msgspec
import pytest

from gateway.dialects.qmf.console import ConsoleSession
from gateway.dialects.session import Delivery, Effect, Event, TimerExpired
from gateway.eventlog.last_state import LastState
from gateway.eventlog.record import AnyRecord, LogRecord, RecordKind
from gateway.eventlog.recorder import LogRecorder, RecorderSettings
from gateway.feed.records import (
    AgentRecord,
    AlarmRecord,
    Batch,
    DeleteRecord,
    EventRecord,
    FeedMessage,
    GapRecord,
    ObjectRecord,
    Record,
    SnapshotEnded,
    SourceRecord,
    UpdateRecord,
)
from gateway.feed.subscription import Subscription
from gateway.inventory.instances import InstanceIndex
from gateway.inventory.inventory import Inventory
from gateway.jmx import projection as jmx
from gateway.model.observations import EventState, SourceState
from gateway.snmp.projection import Projection
from gateway.sources.rabbitmq.source import RabbitMqSource
from gateway.sources.rabbitmq.source_events import SourceEvent
from tests.components.opened_index import opened_index
from tests.simulation.asking import NorthboundLink
from tests.simulation.core import Parts
from tests.simulation.log_bounds import LogBounds
from tests.simulation.simulation import Made, Simulation
from tests.simulation.test_kept import Forgetful, Hasty
from tests.simulation.violations import ViolationError

SEEDS = 60
"""The number of simulations within which a broken part must be detected."""


class NeverStale(Projection):
    """A projection that takes all sources and agents for fresh."""

    def received(self, message: FeedMessage) -> None:
        if isinstance(message, Batch):
            message = msgspec.structs.replace(message, records=tuple(map(self._trusted, message.records)))
        super().received(message)

    def disconnected(self, reason: str) -> None:
        pass

    @staticmethod
    def _trusted(record: Record) -> Record:
        if isinstance(record, AgentRecord):
            return msgspec.structs.replace(record, fresh=True)
        return (
            msgspec.structs.replace(record, state=SourceState.SYNCHRONISED)
            if isinstance(record, SourceRecord)
            else record
        )


class NeverSweeps(Projection):
    """A projection that keeps rows which are missing in a snapshot."""

    def received(self, message: FeedMessage) -> None:
        if not isinstance(message, SnapshotEnded):
            super().received(message)


def forgetful_index(path: Path) -> InstanceIndex:
    """Return an empty index each time it is opened."""
    for old in path.parent.glob("instances*"):
        old.unlink()
    return opened_index(path)


class TransientIndex(InstanceIndex):
    """An index that recognises no returning object."""

    def durable_row(
        self,
        source: int,
        class_name: str,
        name: str,  # noqa: ARG002  forgets the name
        in_use: Callable[[int], bool] = lambda _: False,
        recorded: Callable[[], int] = int,  # noqa: ARG002  likewise
    ) -> int:
        return self.transient_row(source, class_name, in_use)


class LateBlocks(InstanceIndex):
    """An index that gives numbers of blocks which are not on the disk."""

    def transient_row(
        self, source: int, class_name: str, in_use: Callable[[int], bool] = lambda _: False
    ) -> int:
        owed = self._owes_sync
        row = super().transient_row(source, class_name, in_use)
        self._owes_sync = owed
        return row


class TrustsItself(InstanceIndex):
    """An index that ignores the row numbers in the event log."""

    def durable_row(
        self,
        source: int,
        class_name: str,
        name: str,
        in_use: Callable[[int], bool] = lambda _: False,
        recorded: Callable[[], int] = int,  # noqa: ARG002  not believed
    ) -> int:
        return super().durable_row(source, class_name, name, in_use)


class ChangingInventory(Inventory):
    """An inventory that publishes the result of `changed` for each record."""

    def _out(self, records: list[Record]) -> None:
        super()._out([kept for record in records if (kept := self.changed(record)) is not None])

    def changed(self, record: Record) -> Record | None:
        raise NotImplementedError


class KeepsBeans(jmx.Projection):
    """A projection that keeps MBeans of ended objects."""

    def received(self, message: FeedMessage) -> None:
        if isinstance(message, Batch):
            records = tuple(record for record in message.records if not isinstance(record, DeleteRecord))
            message = msgspec.structs.replace(message, records=records)
        super().received(message)


class PublishesNoEnd(Projection):
    """A projection that notifies receivers of the begin of alarms, and never of their end."""

    def standing_alarms(self) -> None:
        return None

    def received(self, message: FeedMessage) -> None:
        if isinstance(message, Batch):
            records = tuple(record for record in message.records if not self._ends(record))
            message = msgspec.structs.replace(message, records=records)
        super().received(message)

    @staticmethod
    def _ends(record: Record) -> bool:
        return isinstance(record, EventRecord) and record.state is EventState.CLEARED


class RaisesOnly(ChangingInventory):
    """An inventory that never clears an alarm."""

    def changed(self, record: Record) -> Record | None:
        return None if isinstance(record, AlarmRecord) and record.cleared else record


class ForgetfulSubscription(Subscription):
    """A subscription that drops excess records without a new snapshot."""

    def offer(self, batch: Batch) -> None:
        super().offer(batch)
        if self.overflows:
            self.overflows = 0
            self.needs_snapshot = False


class LosesDeletes(ChangingInventory):
    """An inventory that drops every third end."""

    ends = 0

    def changed(self, record: Record) -> Record | None:
        if isinstance(record, DeleteRecord):
            self.ends += 1
            return record if self.ends % 3 else None
        return record


class LosesGaps(ChangingInventory):
    """An inventory that publishes no gaps."""

    def changed(self, record: Record) -> Record | None:
        return None if isinstance(record, GapRecord) else record


class ForgetsEvents(Inventory):
    """An inventory that does not publish the events of earlier cores."""

    def recall(self, events: Iterable[EventRecord], made: Mapping[int, int], uncertain: int = 0) -> None:
        pass


class HidesDiscontinuities(ChangingInventory):
    """An inventory that never publishes the discontinuity of a counter."""

    def changed(self, record: Record) -> Record | None:
        return (
            msgspec.structs.replace(record, reset=1)
            if isinstance(record, ObjectRecord | UpdateRecord)
            else record
        )


class NumbersAgain(Inventory):
    """An inventory that adds one to every row number of the index in each even epoch."""

    def _out(self, records: list[Record]) -> None:
        if self._epoch % 2:
            super()._out(records)
            return
        super()._out(
            [
                msgspec.structs.replace(record, row=record.row + 1)
                if isinstance(record, ObjectRecord | UpdateRecord | DeleteRecord)
                else record
                for record in records
            ]
        )


class TrustingConsole(ConsoleSession):
    """A console that does not synchronise again when an agent announces itself."""

    def handle(self, event: Event, now: int) -> list[Effect]:
        if isinstance(event, Delivery) and event.routing_key == "schema.package":
            return []
        return super().handle(event, now)


class SleepyConsole(ConsoleSession):
    """A console that ignores timers: it detects no missed heartbeat, and repeats no request."""

    def handle(self, event: Event, now: int) -> list[Effect]:
        return [] if isinstance(event, TimerExpired) else super().handle(event, now)


class NeverJudges(NorthboundLink):
    """A link that does not detect that its process was stopped."""

    def judge(self) -> bool:
        return False


class LogsNoEnds(LogRecorder):
    """A recorder that omits the ends of objects."""

    def apply(self, batch: Batch, now: int) -> list[AnyRecord]:
        return [record for record in super().apply(batch, now) if record.kind is not RecordKind.DELETE]


class LosesStatistics(LogRecorder):
    """A recorder that drops statistics which were to be recorded later."""

    def tick(self, now: int) -> list[AnyRecord]:
        return super().tick(now)[1:]


class PublishesHalfAHead(LogRecorder):
    """A recorder that omits every other object at the head of a segment."""

    def head(self, clock: Callable[[], int]) -> Iterator[AnyRecord]:
        return (
            record
            for record in super().head(clock)
            if record.kind is not RecordKind.SNAPSHOT
            or (isinstance(record, LogRecord) and (record.row or 0) % 2)
        )


class HidesResets(LogRecorder):
    """A recorder that ignores resets of counters."""

    def apply(self, batch: Batch, now: int) -> list[AnyRecord]:
        return [_without_resets(record) for record in super().apply(batch, now)]

    def tick(self, now: int) -> list[AnyRecord]:
        return [_without_resets(record) for record in super().tick(now)]


class TrustsLastRecords(LogBounds):
    """A log that trusts the times of its last records."""

    def trusted(self, last: int, trusted: int) -> int:
        return super().trusted(last, 0 * trusted)


class RemembersNothing(LogRecorder):
    """A recorder that ignores the last state at each start."""

    def __init__(
        self, settings: RecorderSettings, former: LastState | None = None, own_gaps: Collection[str] = ()
    ) -> None:
        super().__init__(settings, None, own_gaps)
        del former


class RemembersNoCounters(LogRecorder):
    """A recorder that takes the counters from before the start for new ones."""

    def __init__(
        self, settings: RecorderSettings, former: LastState | None = None, own_gaps: Collection[str] = ()
    ) -> None:
        super().__init__(settings, former and _without_values(former), own_gaps)


class Impatient(RabbitMqSource):
    """A source that lists everything before it has taken the events that waited."""

    def handle(self, event: SourceEvent, now: int) -> list[Effect]:
        effects = super().handle(event, now)
        self._plan.release()
        return effects


def _without_values(state: LastState) -> LastState:
    objects = {
        identifier: msgspec.structs.replace(record, values=None, former=None, absent=None)
        for identifier, record in state.objects.items()
    }
    return replace(state, objects=objects)


def _without_resets(record: AnyRecord) -> AnyRecord:
    deltas = {
        name: msgspec.structs.replace(delta, reset=False) for name, delta in (record.deltas or {}).items()
    }
    return msgspec.structs.replace(record, deltas=deltas or None)


MUTANTS: Iterable[tuple[str, Made]] = (
    ("a projection that ignores staleness", Made(projection=NeverStale)),
    ("a projection that never sweeps", Made(projection=NeverSweeps)),
    ("a JMX projection that keeps what has ended", Made(jmx=KeepsBeans)),
    ("an SNMP process that tells no end of an alarm", Made(projection=PublishesNoEnd)),
    ("an inventory that takes no alarm back", Made(core=Parts(inventory=RaisesOnly))),
    ("an index that forgets everything", Made(core=Parts(index=forgetful_index))),
    (
        "an index that gives a new row each time",
        Made(core=Parts(index=partial(opened_index, kind=TransientIndex))),
    ),
    (
        "an index whose blocks are synced late",
        Made(core=Parts(index=partial(opened_index, kind=LateBlocks)), faults=("power failure",)),
    ),
    (
        "an index that does not believe the event log",
        Made(core=Parts(index=partial(opened_index, kind=TrustsItself)), faults=("power failure",)),
    ),
    ("a subscription that drops in silence", Made(core=Parts(subscription=ForgetfulSubscription))),
    ("an inventory that drops ends", Made(core=Parts(inventory=LosesDeletes))),
    ("an inventory that tells no gaps", Made(core=Parts(inventory=LosesGaps))),
    (
        "an inventory that forgets the events of earlier cores",
        Made(core=Parts(inventory=ForgetsEvents), faults=("snmp killed", "core killed")),
    ),
    ("an inventory that tells no discontinuity", Made(core=Parts(inventory=HidesDiscontinuities))),
    ("an inventory that numbers again", Made(core=Parts(inventory=NumbersAgain))),
    ("a console that ignores announcements", Made(console=TrustingConsole)),
    ("a console that sleeps", Made(console=SleepyConsole)),
    (
        "a north that does not notice its stand-still",
        Made(link=NeverJudges, faults=("gateway stands still",)),
    ),
    ("a log without ends", Made(mirror=LogsNoEnds)),
    ("a log that forgets what waited", Made(mirror=LosesStatistics)),
    ("a log with half a head", Made(mirror=PublishesHalfAHead)),
    ("a log without resets", Made(mirror=HidesResets)),
    ("a log that begins again with each start", Made(mirror=RemembersNothing)),
    (
        "a log that trusts the clock of its last records",
        Made(bounds=TrustsLastRecords, faults=("core killed", "power failure")),
    ),
    (
        "a durable subscription that acknowledges what is not on the disk",
        Made(core=Parts(ledger=Hasty), faults=("core killed",)),
    ),
    (
        "a durable subscription that takes everything again",
        Made(core=Parts(ledger=Forgetful), faults=("core killed",)),
    ),
    (
        "a source that lists before it takes what waited",
        Made(core=Parts(rabbitmq=Impatient), faults=("core killed",)),
    ),
    ("a log that forgets counters with each start", Made(mirror=RemembersNoCounters)),
)


@pytest.mark.prove
@pytest.mark.parametrize("made", [pytest.param(made, id=name) for name, made in MUTANTS])
def test_a_broken_part_is_noticed(made: Made) -> None:
    for seed in range(SEEDS):
        try:
            Simulation(seed, made).run()
        except ViolationError:
            return
    pytest.fail(f"not noticed in {SEEDS} simulations")
