"""An operation that a core began and did not end: the next core reports it, in the log and to every north."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec

from gateway.clock import SystemClock
from gateway.config.model import LogSettings
from gateway.eventlog.last_state import unfinished_operations
from gateway.eventlog.logged_operations import operation_record
from gateway.eventlog.record import microseconds_text
from gateway.feed.client import FeedLink
from gateway.feed.operations import OperationKind, OperationRecord, OperationState
from gateway.feed.records import Batch, FeedMessage, SourceRecord
from gateway.model.observations import SourceState
from gateway.model.operations import Outcome
from gateway.model.times import SECOND
from gateway.service.processes.event_log import CoreEventLog
from gateway.service.state.restored_records import restored_operations
from tests.components.command_line import Site, new_site, running
from tests.components.waiting import eventually
from tests.eventlog.feeds import T0
from tests.eventlog.reading import of_kind, read_log
from tests.eventlog.test_operations import BEGUN

SHOP = SourceRecord(1, "shop", "qmf", SourceState.SYNCHRONISED, "", T0, T0)


def reported(record: OperationRecord, sources: dict[str, int], now: int = T0) -> OperationRecord:
    """Return the operation as it is restored from a log that was written at ``now``."""
    line = operation_record(record, SHOP, microseconds_text(now) or "", now)
    (found,) = restored_operations([line], sources)
    return found


def test_it_is_as_it_was_but_for_what_json_has_no_form_for() -> None:
    found = reported(BEGUN, {"shop": 4}, T0 + 3 * SECOND)
    assert found == msgspec.structs.replace(
        BEGUN,
        number=0,
        source=4,
        values={"limit": 2**64 - 1, "to": "shop/shop:queue/3"},
        previous={"limit": 5, "tags": ("a", "ff")},
    )


def test_of_a_source_that_is_not_configured_any_more_no_object_is_reported() -> None:
    found = reported(BEGUN, {})
    assert (found.source, found.row, found.stable_name) == (0, 0, "")
    assert found.operation_id == BEGUN.operation_id


def test_calls_keep_their_methods() -> None:
    purge = msgspec.structs.replace(BEGUN, kind=OperationKind.INVOKE, method="purge", values={}, previous={})
    found = reported(purge, {"shop": 1})
    assert (found.kind, found.method, found.values) == (OperationKind.INVOKE, "purge", {})


# ---- a real core ----------------------------------------------------------------------------------------


async def leave_begun(site: Site) -> Path:
    """Leave a log as a core leaves it that is killed while an operation is under way."""
    folder = site.state.path / "log"
    event_log = CoreEventLog(folder, LogSettings(min_free=0), SystemClock())
    async with event_log:
        event_log.take(Batch(1, 1, (BEGUN,)))
        await event_log.reached(event_log.last_seq)
    return folder


class Northbound:
    """A north, with the records of operations that it received."""

    def __init__(self) -> None:
        self.operations: list[OperationRecord] = []

    def received(self, message: FeedMessage) -> None:
        if isinstance(message, Batch):
            self.operations += [record for record in message.records if isinstance(record, OperationRecord)]

    def disconnected(self, reason: str) -> None:
        pass

    async def is_reported(self) -> bool:
        return bool(self.operations)


async def test_the_next_core_ends_it_as_unknown_once(tmp_path: Path) -> None:
    site, northbound = new_site(tmp_path), Northbound()
    folder = await leave_begun(site)
    site.configure(log={"min_free": 0, "commit_interval": "1ms"})
    assert len(unfinished_operations(folder)) == 1
    with running("process", "core", "--config", site.configuration, log=site.folder / "log") as core:
        await asyncio.to_thread(core.ready)
        following = asyncio.create_task(FeedLink(site.folder / "feed.sock", northbound).run())
        await eventually(northbound.is_reported, "the operation is told")
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        await asyncio.to_thread(core.terminate)
    (record,) = northbound.operations
    assert (record.operation_id, record.state, record.outcome) == (
        BEGUN.operation_id,
        OperationState.ENDED,
        Outcome.UNKNOWN,
    )
    assert "core ended" in record.text
    assert unfinished_operations(folder) == []
    with running("process", "core", "--config", site.configuration, log=site.folder / "log2") as core:
        await asyncio.to_thread(core.ready)
        await asyncio.to_thread(core.terminate)
    states = [record["state"] for record in of_kind(read_log(folder), "operation")]
    assert [state for state in states if state != "begun"] == ["ended"]  # heads tell again what is under way
