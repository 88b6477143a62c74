"""The lives of objects in the log, over all cores, compared with the things that really existed."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator, Mapping

from gateway.eventlog.logged_events import READ_WHOLE
from gateway.eventlog.record import LogRecord, RecordKind, nanoseconds_of
from gateway.model.stable_names import UNKNOWN
from gateway.serving.qmf import EVENTS_LOST
from tests.simulation.scheduler import BEGINNING, FURTHEST_OFF
from tests.simulation.truth import Thing, Truth, mark_of

_REPORTED = (RecordKind.CREATE, RecordKind.SNAPSHOT)
_NOTICED = 2 * FURTHEST_OFF
"""The tolerance of times, because two clocks may be off in opposite directions."""


class LogLives:
    """The log of sources that keep the identity of their objects over every restart.

    Args:
        truth: the true state.
        sources: the names of those sources.
    """

    def __init__(self, truth: Truth, sources: Iterable[str]) -> None:
        self._truth = truth
        self._sources = frozenset(sources)
        self._things: dict[str, Thing] = {}
        self._identifiers: dict[int, str] = {}
        self._reported: set[int] = set()
        self._provisional: set[int] = set()
        self._read_whole: set[str] = set()
        self._unlistable: dict[str, bool] = {}
        self._core: object = None
        self._ended: dict[int, object] = {}
        self._late: list[tuple[Thing, str]] = []
        self._gaps: dict[str, list[tuple[int, int]]] = {}

    def differences(self, log: Iterable[LogRecord]) -> Iterator[str]:
        """Yield the differences between a log and the true state."""
        for record in log:
            self._take(record)
            if record.event == EVENTS_LOST and record.source in self._sources:
                self._agent_missed(record.source, record.values or {})
            if record.source not in self._sources or record.object_id is None:
                continue
            if _is_provisional(record):
                thing = self._thing_of(record)
                self._provisional |= {thing.serial} if thing is not None else set()
                continue
            if record.kind in _REPORTED:
                yield from self._begins(record.object_id, record)
            elif record.kind is RecordKind.DELETE:
                yield from self._ends(record.object_id, record)
        yield from self._missed()

    def _take(self, record: LogRecord) -> None:
        """Process a record of the gateway or of a source."""
        if record.kind is RecordKind.START:
            self._core = (record.values or {}).get("boot")
        elif record.kind is RecordKind.SOURCE and record.source in self._sources:
            self._source_reported(record.source, record)
        elif record.kind is RecordKind.GAP:
            for source in self._sources if record.source is None else (record.source,):
                gap = nanoseconds_of(record.from_ts), nanoseconds_of(record.to_ts)
                self._gaps.setdefault(source, []).append(gap)

    def _agent_missed(self, source: str, values: Mapping[str, object]) -> None:
        """Record a gap that an agent reports by an event, because QMF has no gap of its own."""
        since, until = (nanoseconds_of(text) for text in (values.get("since"), values.get("until")))
        if until:
            self._gaps.setdefault(source, []).append((since or BEGINNING, until))

    def _source_reported(self, source: str, record: LogRecord) -> None:
        """Record the state of a source; its objects are unknown until everything was read once.

        If objects can be neither listed nor observed for long, their end is recorded as inferred.
        """
        self._unlistable[source] = "cannot list" in (record.text or "")
        if (record.values or {}).get(READ_WHOLE) is True and source not in self._read_whole:
            self._read_whole.add(source)
            self._gaps.setdefault(source, []).append((BEGINNING, nanoseconds_of(record.ingest_ts)))

    def _begins(self, identifier: str, record: LogRecord) -> Iterator[str]:
        thing = self._thing_of(record)
        if thing is None:
            return
        self._things[identifier] = thing
        self._reported.add(thing.serial)
        if self._unlistable[thing.source]:
            self._identifiers[thing.serial] = identifier
        if self._ended.get(thing.serial, self._core) != self._core:
            # A RabbitMQ lists from a cache: the next core is shown what has ended, and does not know that.
            self._identifiers[thing.serial] = identifier
        known_as = self._identifiers.setdefault(thing.serial, identifier)
        if known_as != identifier and not self._is_uncertain(thing):
            yield f"the log tells {thing} as {known_as}, and as {identifier}"
        if record.create_ts is not None and all(
            _is_far(record.create_ts, one.created) for one in self._called(thing)
        ):
            yield f"the log says that {thing} was created at {record.create_ts}, not {_text(thing.created)}"

    def _ends(self, identifier: str, record: LogRecord) -> Iterator[str]:
        thing = self._things.get(identifier)
        if thing is None or self._is_uncertain(thing):
            return
        if not record.inferred:
            self._ended[thing.serial] = self._core
        if record.inferred and self._unlistable[thing.source]:
            # If it can be listed again, it is taken for another one: nothing was known of it meanwhile.
            self._identifiers.pop(thing.serial, None)
            return
        if self._is_shown_early(thing):
            return
        if thing.exists:
            yield f"the log has an end of {thing}, which lives"
        elif record.delete_ts is not None and all(
            _is_far(record.delete_ts, one.ended) for one in self._called(thing)
        ):
            text = f"the log says that {thing} ended at {record.delete_ts}, not {_text(thing.ended)}"
            self._late.append((thing, text))

    def _is_shown_early(self, thing: Thing) -> bool:
        """Return whether a thing is taken for a former one whose events wait in a durable subscription.

        Two virtual hosts of a name differ only in their events. While a connection is half-open, the
        gateway does not know that events wait.
        """
        is_host = thing.source in self._truth.kept and thing.class_name == "rabbitmq:vhost"
        return is_host and len(list(self._called(thing))) > 1

    def _is_uncertain(self, thing: Thing) -> bool:
        """Return whether a thing was hidden, or created within the clocks' error of its node's start."""
        if thing.hidden or thing.hidden_until:
            return True
        starts = self._truth.starts.get(thing.source, ())
        return not thing.durable and any(0 <= thing.created - start < FURTHEST_OFF for start in starts)

    def _called(self, thing: Thing) -> Iterator[Thing]:
        """Yield the things of its name; a listing may show the next one before the end of the former one."""
        return (
            one
            for one in self._truth.things.values()
            if (one.source, one.class_name, one.name) == (thing.source, thing.class_name, thing.name)
        )

    def _missed(self) -> Iterator[str]:
        for thing in self._truth.things.values():
            if thing.source not in self._sources or not thing.announced or thing.ended <= BEGINNING:
                continue
            is_reported = thing.serial in self._reported or thing.serial in self._provisional
            if not is_reported and not self._is_in_a_gap(thing):
                yield f"{thing} came and went, and the log tells neither that nor of a gap"
        # What ended unheard is told to have ended with what it belonged to.
        yield from (text for thing, text in self._late if not self._is_in_a_gap(thing))

    def _is_in_a_gap(self, thing: Thing) -> bool:
        return any(
            start - FURTHEST_OFF <= thing.ended and thing.created <= end + FURTHEST_OFF
            for start, end in self._gaps.get(thing.source, ())
        )

    def _thing_of(self, record: LogRecord) -> Thing | None:
        class_name = f"{record.package}:{record.class_name}"
        element = self._truth.marks.get(class_name, "")
        mark = mark_of((record.values or {}).get(element))
        return self._truth.marked(record.source or "", class_name, mark)


def _is_provisional(record: LogRecord) -> bool:
    """Return whether a record is of an object that has no final identity yet, or never gets one.

    Either a listing of a RabbitMQ showed it before its virtual host was listed. Or it is of a QMF source: the
    object that it belongs to had ended before the gateway saw it, and its last report came from a boot of its
    agent whose ids are unrelated to any other; or an agent without memory started again, and its new reports
    arrived before the gateway could notice that.
    """
    name = record.object_name or ""
    is_duplicate = record.create_ts is not None and name.endswith(f"#{record.native_id}")
    return UNKNOWN in name or (record.dialect == "qmf" and is_duplicate)


def _is_far(reported: str, true: int) -> bool:
    return abs(nanoseconds_of(reported) - true) > _NOTICED


def _text(time: int) -> str:
    return dt.datetime.fromtimestamp(time / 10**9, dt.UTC).isoformat()
