"""Objects that lived when the log ended, until their sources have been read again."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

import msgspec

from gateway.eventlog.last_state import LastState
from gateway.eventlog.logged_events import RestoredSource
from gateway.eventlog.record import LogRecord, RecordKind, known_time, object_id
from gateway.feed.records import Lifetime, ObjectRecord

_Key: TypeAlias = tuple[str, str]
"""``package:class`` and name."""

_ONE_AT_A_TIME: Final = frozenset({"rabbitmq"})
"""Kinds of sources of whose objects a durable and a transient one never have a name at the same time."""


@dataclass(frozen=True, slots=True)
class Meeting:
    """What the log knows of an object that is seen for the first time since the log ended.

    Attributes:
        kind: whether that is news, ``create`` or ``snapshot``; ``None`` where nothing is known of what was
            before.
        ended: the end of the one that had its name before, if that was another.
        former: the last record of this object, if it existed before.
    """

    kind: RecordKind | None = None
    ended: LogRecord | None = None
    former: LogRecord | None = None


class RestoredObjects:
    """What the log said last of the objects of some sources.

    Args:
        state: where the log ended.
    """

    def __init__(self, state: LastState | None) -> None:
        state = state or LastState()
        self._complete_until = state.complete_until
        self._read_whole = state.read_whole
        # With a hole in what was read, an object that the log does not show may have been there.
        self._news = state.read_whole if state.is_complete else set()
        self._sources: dict[str, dict[_Key, LogRecord]] = {source: {} for source in state.complete_until}
        self._passing: dict[str, dict[_Key, _Key]] = {}
        self._gone: dict[str, dict[_Key, LogRecord]] = {}
        for record in state.objects.values():
            source = record.source or ""
            key = f"{record.package}:{record.class_name}", record.object_name or ""
            self._sources.setdefault(source, {})[key] = record
            if record.dialect in _ONE_AT_A_TIME and record.lifetime == Lifetime.TRANSIENT.value:
                self._passing.setdefault(source, {})[key[0], key[1].rpartition("#")[0]] = key

    def __iter__(self) -> Iterator[LogRecord]:
        """Yield the objects that have not been seen yet; others may be seen meanwhile."""
        for objects in (*self._sources.values(), *self._gone.values()):
            for key in tuple(objects):
                if key in objects:
                    yield objects[key]

    @property
    def sources(self) -> set[str]:
        """Names of those that the log knows."""
        return set(self._complete_until)

    def source(self, name: str) -> RestoredSource:
        """What the log knows of a source."""
        return RestoredSource(self._complete_until.get(name, 0), read_whole=name in self._read_whole)

    def meet(self, source: str, class_name: str, record: ObjectRecord, ingest_ts: str) -> Meeting:
        """Take an object that is seen for the first time since the log ended.

        Args:
            source: name of its source.
            class_name: ``package:class``.
            record: it, whole.
            ingest_ts: now.
        """
        objects = self._sources.get(source)
        if objects is None:
            return Meeting()
        key = class_name, record.stable_name
        gone = self._gone.get(source, {}).pop(key, None)
        if gone is not None:
            return Meeting(RecordKind.CREATE, ended=ended(gone, ingest_ts))
        former = objects.pop(key, None)
        if former is None:
            other = self._of_that_name(source, class_name, record)
            kind = RecordKind.CREATE if source in self._news else None
            return Meeting(kind, ended=None if other is None else ended(other, ingest_ts))
        created = known_time(record.created)
        if created is not None and former.create_ts is not None and created != former.create_ts:
            return Meeting(RecordKind.CREATE, ended=ended(former, ingest_ts))
        if former.object_id == object_id(source, class_name, record.row):
            return Meeting(RecordKind.SNAPSHOT, former=former)
        return Meeting(RecordKind.SNAPSHOT, ended=ended(former, ingest_ts))

    def _of_that_name(self, source: str, class_name: str, record: ObjectRecord) -> LogRecord | None:
        """The one before of that name, where there is never more than one at a time."""
        passing = self._passing.get(source, {})
        lasts = record.lifetime is Lifetime.DURABLE
        name = record.stable_name if lasts else record.stable_name.rpartition("#")[0]
        for key in ((class_name, name), passing.get((class_name, name))):
            for objects in (self._sources[source], self._gone.get(source, {})):
                former = objects.get(key) if key is not None else None
                if key is not None and former is not None and former.dialect in _ONE_AT_A_TIME:
                    return objects.pop(key)
        return None

    def read_whole(self, source: str, without: Collection[str] = ()) -> None:
        """A source was read whole: its objects that were not seen are gone (`vanished`).

        Args:
            source: its name.
            without: agents that were not read, of whose objects nothing is known yet.
        """
        objects = self._sources.get(source, {})
        self._leave(source, [key for key, one in objects.items() if (one.agent or "") not in without])

    def agent_read(self, source: str, agent: str) -> None:
        """An agent was read whole, or is no more: its objects that were not seen are gone."""
        objects = self._sources.get(source, {})
        self._leave(source, [key for key, one in objects.items() if (one.agent or "") == agent])

    def _leave(self, source: str, keys: Iterable[_Key]) -> None:
        for key in keys:
            self._gone.setdefault(source, {})[key] = self._sources[source].pop(key)

    @property
    def has_vanished(self) -> bool:
        """Whether `vanished` has some."""
        return bool(self._gone)

    def vanished(self, most: int) -> Iterator[LogRecord]:
        """Some of those that are gone, each once."""
        while most and self._gone:
            source = next(iter(self._gone))
            objects = self._gone[source]
            while most and objects:
                yield objects.pop(next(iter(objects)))
                most -= 1
            if not objects:
                del self._gone[source]


def standing(former: LogRecord, ingest_ts: str) -> LogRecord:
    """Return its last record, with the time of now."""
    return msgspec.structs.replace(former, ingest_ts=ingest_ts)


def ended(former: LogRecord, ingest_ts: str) -> LogRecord:
    """Return its inferred end: it is missing, or another object has its name."""
    return msgspec.structs.replace(
        former,
        kind=RecordKind.DELETE,
        ingest_ts=ingest_ts,
        inferred=True,
        sample_ts=None,
        sample_ns=None,
        reset_ts=None,
        values=None,
        absent=None,
        former=None,
    )
