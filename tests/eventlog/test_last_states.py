"""The states of sources at the end of the log, and the release of their objects."""

from __future__ import annotations

from pathlib import Path

from gateway.eventlog.last_state import LastState, LastStates
from gateway.eventlog.record import LogRecord, RecordKind
from tests.eventlog.feeds import AGENT, QUEUE, SHOP, T0, queue
from tests.eventlog.test_last_state import logged, recorded


def living(source: str) -> LogRecord:
    return LogRecord(
        kind=RecordKind.SNAPSHOT, ingest_ts="", source=source, object_id=f"{source}/shop:queue/1"
    )


def at_end(*records: LogRecord) -> LastState:
    received = {record.source or "": T0 for record in records}
    return LastState(
        {one.object_id or "": one for one in records}, received, dict(received), {"shop:1": None}
    )


async def test_each_source_has_its_own_objects(tmp_path: Path) -> None:
    shop, barn = living("shop"), living("barn")
    states = LastStates(at_end(shop, barn), tmp_path)
    assert states.at_start("shop") == LastState({"shop/shop:queue/1": shop}, {"shop": T0}, {"shop": T0})
    assert list((await states.take("barn")).of("barn")) == [barn]
    assert states.at_start("unknown") == LastState()


async def test_objects_are_released_when_their_source_has_them(tmp_path: Path) -> None:
    states = LastStates(at_end(living("shop"), living("barn")), tmp_path)
    states.release("barn")
    await states.take("shop")
    assert states.at_start("shop") == states.at_start("barn") == LastState()
    assert (states.complete_until("shop"), states.complete_until("unknown")) == (T0, 0), "that is small"


async def test_a_session_that_is_restarted_takes_what_the_log_has_by_then(tmp_path: Path) -> None:
    states = LastStates(LastState(), tmp_path)
    logged(tmp_path, recorded(SHOP, QUEUE, AGENT, queue(1)))
    assert await states.take("shop") == LastState(), "the log did not know it at the start"
    assert len((await states.take("shop")).objects) == 1


async def test_a_log_that_cannot_be_read_knows_nothing(tmp_path: Path) -> None:
    (tmp_path / "segments").write_text("a folder is expected here")
    states = LastStates(at_end(living("shop")), tmp_path)
    states.release("shop")
    assert await states.take("shop") == LastState(is_complete=False)
