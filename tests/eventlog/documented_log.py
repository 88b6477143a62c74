"""The examples of ``docs/event-log.md``, and a log for them, made by the writer and the compactor."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from gateway.eventlog.compaction import Compactor
from gateway.eventlog.record import Delta, LogRecord, RecordKind
from gateway.eventlog.retention import time_text
from gateway.eventlog.segment import compactable, list_segments
from gateway.model.times import MINUTE, SECOND
from tests.components.waiting import until
from tests.eventlog.plant import Plant

PAGE = Path(__file__).parents[2] / "docs" / "event-log.md"
CODE = re.compile(r"```(sql|python|sh)\n(.*?)```", re.DOTALL)


def documented(language: str, heading: str) -> list[str]:
    """The examples below a heading."""
    text = PAGE.read_text(encoding="utf-8").partition(f"### {heading}\n")[2]
    section = re.split(r"^##", text, maxsplit=1, flags=re.MULTILINE)[0]
    return [code for found, code in CODE.findall(section) if found == language]


async def written(folder: Path) -> Path:
    """Write a log in ``folder``: one hour in the lake, then an event in a complete segment.

    Returns:
        Its own folder.
    """
    plant = Plant(folder)
    story = Story(plant)
    async with plant.log() as log:
        for record in story.records():
            log.append(record)
        plant.clock.time += 60 * MINUTE
        last = log.append(story.end())
        await log.reached(last)
        await until(lambda: compactable(plant.folder), "the first hour is complete")
        with Compactor(plant.folder) as compactor:
            for segment in compactable(plant.folder):
                compactor.compact(segment)
    assert len(list_segments(plant.folder)) == 1
    return plant.folder


class Story:
    """The course of the log: two queues, one with a wrong rise and a reset, a connection, an alarm."""

    def __init__(self, plant: Plant) -> None:
        self.plant = plant

    @property
    def now(self) -> str:
        return time_text(self.plant.clock.now())

    def queue(self, name: str, kind: RecordKind, published: int, delta: Delta | None) -> LogRecord:
        return LogRecord(
            kind=kind,
            ingest_ts=self.now,
            source="orders",
            package="rabbitmq",
            class_name="queue",
            object_id=f"orders/rabbitmq:queue/{name}",
            object_name=f"/|{name}",
            sample_ts=self.now,
            values={"messagesPublished": published, **self.depth(kind)},
            deltas=None if delta is None else {"messagesPublished": delta},
        )

    def depth(self, kind: RecordKind) -> dict[str, int]:
        """Return the value that no update has, because it does not change."""
        return {"messages": 5} if kind is RecordKind.CREATE else {}

    def records(self) -> Iterator[LogRecord]:
        yield self.queue("orders", RecordKind.CREATE, 100, None)
        yield self.queue("large", RecordKind.CREATE, 2**64 - 1, None)
        yield self.queue("orders", RecordKind.UPDATE, 160, Delta(60, 30 * SECOND))
        yield self.queue("orders", RecordKind.UPDATE, 960, Delta(800, 30 * SECOND))
        yield self.queue("orders", RecordKind.UPDATE, 160, Delta(-800, undone=True))
        yield self.queue("orders", RecordKind.UPDATE, 100, Delta(reset=True))
        yield self.queue("orders", RecordKind.UPDATE, 7, Delta(7, 30 * SECOND, reset=True))
        yield LogRecord(
            kind=RecordKind.DELETE,
            ingest_ts=self.now,
            source="orders",
            package="rabbitmq",
            class_name="connection",
            object_name="127.0.0.1:5000",
            create_ts="2026-11-20T14:00:00.000000Z",
            delete_ts="2026-11-20T14:01:30.500000Z",
        )
        yield LogRecord(
            kind=RecordKind.EVENT,
            ingest_ts=self.now,
            event="queueGrows",
            severity="major",
            state="raised",
            text="it grows",
        )
        yield LogRecord(
            kind=RecordKind.GAP,
            ingest_ts=self.now,
            source="orders",
            from_ts=self.now,
            to_ts=self.now,
            lost=3,
            text="the queue was full",
        )

    def end(self) -> LogRecord:
        """Return the record of the alarm's end."""
        return LogRecord(
            kind=RecordKind.EVENT,
            ingest_ts=self.now,
            event="queueGrows",
            severity="major",
            state="cleared",
            text="it is empty",
        )
