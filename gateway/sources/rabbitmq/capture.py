"""The capture of a source: its requests, and the broker's answers and events, in a file.

Every input is recorded with its time, so that a replay makes a source act in the same way; its requests are
compared. Answers are recorded as values (`gateway.sources.rabbitmq.management_api`), events as JSON.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any, Final, cast

from gateway.dialects.session import (
    BacklogFollows,
    Effect,
    LinkDown,
    LinkUp,
    LossSuspected,
    TimerExpired,
)
from gateway.links.capture import operation_fields, plain_value, read_operation, read_values, recorded
from gateway.links.capture_file import CaptureFile, Directions
from gateway.links.capture_reading import Capture, CaptureError, Record
from gateway.links.replay import Outcome, Player, Said, Witness
from gateway.mapping.rules import Mapping as MappingFile
from gateway.model.operations import MethodCall, ObjectFetch, ObjectModify
from gateway.model.secrets import SecretRules
from gateway.sources.rabbitmq.management_api import (
    Answer,
    BeyondLastPage,
    Broken,
    Document,
    ManagementRequest,
    NotFound,
    NotManagement,
    Refused,
    Unavailable,
)
from gateway.sources.rabbitmq.management_changes import (
    BrokerAnswer,
    BrokerRequest,
    Change,
    Changed,
    NotSent,
    Purge,
    Purged,
    Rejected,
    Unanswered,
)
from gateway.sources.rabbitmq.metrics_answers import TotalsSheet
from gateway.sources.rabbitmq.object_lives import KnownObject
from gateway.sources.rabbitmq.object_names import ObjectName, recorded_name
from gateway.sources.rabbitmq.path_proof import path_of
from gateway.sources.rabbitmq.prometheus_samples import (
    LabelledColumns,
    NodeSheet,
    NotScraped,
    Scraped,
    ScrapeRequest,
    Sheet,
)
from gateway.sources.rabbitmq.source import RabbitMqSource
from gateway.sources.rabbitmq.source_config import RabbitMqSourceConfig
from gateway.sources.rabbitmq.source_events import (
    AnswerReceived,
    BrokerEventReceived,
    BrokerReached,
    CallAnswered,
    ConnectionBlocked,
    EventsDropped,
    EventsReceived,
    MetricsReceived,
    PauseDemanded,
    RequestSent,
    SourceEvent,
    Work,
    WorkContinues,
)

AS_SOURCE: Final = Directions(received="to-gateway", sent="to-broker")

_ANSWERS: Final[Mapping[str, type[Any]]] = {
    kind.__name__: kind
    for kind in (
        *(Document, NotFound, BeyondLastPage, Refused, Broken, Unavailable, NotManagement),
        *(Changed, Purged, Rejected, NotSent, Unanswered),
    )
}
"""The kinds of answers by their names in a capture."""


class CapturedSource(RabbitMqSource):
    """A `RabbitMqSource` that records its events and requests.

    Args:
        config, mapping, secrets: as of `RabbitMqSource`.
        file: the file of the capture.
    """

    def __init__(
        self,
        config: RabbitMqSourceConfig,
        mapping: MappingFile,
        secrets: SecretRules | None,
        file: CaptureFile,
    ) -> None:
        super().__init__(config, mapping, secrets)
        self._file = file

    def handle(self, event: SourceEvent, now: int) -> list[Effect]:
        """Record and process the event, and record the request of an operation that follows."""
        about = event_fields(event, catching_up=self.is_catching_up)
        if about is not None:
            self._write(now, about)
        effects = super().handle(event, now)
        if event == WorkContinues(Work.CALLS):
            self._sent(now, self.next_call_request())
        return effects

    def remember(
        self, objects: Iterable[KnownObject], now: int, *, events_kept: bool, complete_until: int = 0
    ) -> None:
        """Record and take the objects of a former run."""
        former = list(objects)
        about = {"events_kept": events_kept, "complete_until": complete_until}
        for record, part in recorded(former, _former_fields):
            last = not part or part[-1] is former[-1]
            self._write(now, {"event": "remembered", **record, **(about if last else {"more": True})})
        super().remember(former, now, events_kept=events_kept, complete_until=complete_until)

    def interrupted(self, since: int, now: int) -> None:
        """Record and take an interruption by an internal error."""
        self._write(now, {"event": "interrupted", "since": since})
        super().interrupted(since, now)

    def next_request(self, now: int) -> ManagementRequest | None:
        """Return and record the request of `RabbitMqSource.next_request`."""
        request = super().next_request(now)
        if request is not None:
            self._write(now, {"event": "asked"})
            self._sent(now, request)
        return request

    def next_scrape(self, now: int) -> ScrapeRequest | None:
        """Return and record the request of `RabbitMqSource.next_scrape`."""
        request = super().next_scrape(now)
        if request is not None:
            self._write(now, {"event": "scrape", "url": request.address})
        return request

    def _sent(self, now: int, request: ManagementRequest | BrokerRequest | None) -> None:
        if request is not None:
            self._write(now, {"dir": AS_SOURCE.sent, **request_fields(request)})

    def _write(self, now: int, about: Mapping[str, object]) -> None:
        self._file.write({"ns": now, **about}, now, {})


def replay_source(capture: Capture, source: RabbitMqSource, witness: Witness) -> Outcome:
    """Play a capture to a source that was made like the captured one.

    Args:
        capture: the capture, at its beginning.
        source: a new source.
        witness: called with the results.

    Raises:
        CaptureError: the capture cannot be read further, or is of another kind.
    """
    return _SourcePlayer(source, witness).play(capture)


class _SourcePlayer(Player):
    def __init__(self, source: RabbitMqSource, witness: Witness) -> None:
        super().__init__(witness)
        self._source = source
        self._request: ManagementRequest | None = None
        self._scrape: ScrapeRequest | None = None
        self._former: list[KnownObject] = []

    def captured(self, record: Record) -> Said:
        return {name: value for name, value in record.fields.items() if name not in {"ns", "dir"}}

    def begin(self, first: Record, now: int) -> None:
        """Do nothing: a source begins without a link."""

    def woken(self, now: int) -> Iterable[Effect]:
        return self._source.handle(TimerExpired(), now)

    def handed_in(self, record: Record, now: int) -> Iterable[Effect] | None:
        source = self._source
        match record.event:
            case "remembered" | "interrupted" | "asked" | "scrape":
                self._without_effects(record, now)
                return []
            case Work.LISTING.value if not source.busy:
                return None
            case Work.METRICS.value if not source.takes_metrics:
                return []
        event = self._event(record)
        if event is None:
            return []  # the request stands in a former file, which is not there any more
        effects = source.handle(event, now)
        if event == WorkContinues(Work.CALLS):
            self._says(source.next_call_request())
        return effects

    def _without_effects(self, record: Record, now: int) -> None:
        match record.event:
            case "asked":
                self._request = self._source.next_request(now)
                self._says(self._request)
            case "scrape":
                self._scrape = self._source.next_scrape(now)
            case "interrupted":
                self._source.interrupted(record.value("since", int), now)
            case "remembered":
                self._remember(record, now)

    def _remember(self, record: Record, now: int) -> None:
        self._former += _former_objects(record)
        if record.value("more", bool, False):
            return
        former, self._former = self._former, []
        events_kept = record.value("events_kept", bool)
        complete_until = record.value("complete_until", int)
        self._source.remember(former, now, events_kept=events_kept, complete_until=complete_until)

    def _event(self, record: Record) -> SourceEvent | None:
        if record.event == "scraped":
            if self._scrape is None or self._source.statistics is None:
                return None
            outcome = read_outcome(record, self._source.sheet_for(self._scrape))
            return MetricsReceived(self._scrape, outcome, record.value("began", int))
        if record.event or record.value("call", bool, False):
            return read_event(record)
        if self._request is None:
            return None
        request, self._request = self._request, None
        return AnswerReceived(request, cast("Answer", read_answer(record)), record.value("began", int))

    def _says(self, request: ManagementRequest | BrokerRequest | None) -> None:
        if request is not None:
            self.said(request_fields(request))


def event_fields(event: SourceEvent, *, catching_up: bool) -> dict[str, Any] | None:  # noqa: C901, PLR0911, PLR0912  a case for each event
    """Return an event as JSON; ``None`` for an event that is not captured."""
    match event:
        case AnswerReceived(_, answer, began):
            return {"dir": AS_SOURCE.received, "began": began, **answer_fields(answer)}
        case CallAnswered(broker_answer):
            return {"dir": AS_SOURCE.received, "call": True, **answer_fields(broker_answer)}
        case MetricsReceived(_, outcome, began):
            return {"event": "scraped", "began": began, **outcome_fields(outcome)}
        case BrokerEventReceived(key, headers, time):
            return {"event": "broker-event", "key": key, "headers": headers, "time": time}
        case MethodCall() | ObjectModify() | ObjectFetch():
            return operation_fields(event)
        case LinkUp():
            return {"event": "events-caught-up" if catching_up else "events-connected"}
        case LinkDown(reason):
            return {"event": "events-missing", "reason": reason}
        case BacklogFollows(missed):
            return {"event": "events-resumed", "missed": missed}
        case BrokerReached():
            return {"event": "events-channel"}
        case LossSuspected(reason, since):
            return {"event": "events-lost", "reason": reason, "since": max(0, since)}
        case EventsReceived(until, remark, took):
            more: dict[str, Any] = {"remark": remark, "took": took}
            more = {name: value for name, value in more.items() if value}
            return {"event": "events-received", "until": until, **more}
        case EventsDropped(since, until, reason):
            return {"event": "events-dropped", "since": since, "until": until, "reason": reason}
        case WorkContinues(work):
            return {"event": work.value}
        case TimerExpired():
            return {"event": "tick"}
        case RequestSent():
            return {"event": "sent"}
        case ConnectionBlocked():
            return {"event": "blocked"}
        case PauseDemanded(pause):
            return {"event": "pause-demanded", "pause": pause}
    return None


def read_event(record: Record) -> SourceEvent:  # noqa: C901, PLR0911, PLR0912  likewise
    """Return the event of a record of `event_fields`, for events that need no other record.

    Raises:
        CaptureError: the record is of no such event.
    """
    match record.event:
        case "":
            return CallAnswered(read_answer(record))
        case "broker-event":
            headers = record.fields.get("headers")
            if not isinstance(headers, dict):
                raise CaptureError(f"line {record.line}: 'headers' is not an object")
            return BrokerEventReceived(record.value("key", str), headers, record.value("time", int))
        case "call" | "fetch" | "modify":
            return read_operation(record)
        case "events-connected" | "events-caught-up":
            return LinkUp("")
        case "events-missing":
            return LinkDown(record.value("reason", str))
        case "events-resumed":
            return BacklogFollows(record.value("missed", str), 0)
        case "events-channel":
            return BrokerReached()
        case "events-lost":
            return LossSuspected(record.value("reason", str), record.value("since", int))
        case "events-received":
            until, took = record.value("until", int), record.value("took", int, 0)
            return EventsReceived(until, record.value("remark", str, ""), took)
        case "events-dropped":
            since, until = (record.value(name, int) for name in ("since", "until"))
            return EventsDropped(since, until, record.value("reason", str))
        case "advance" | "advance-statistics" | "advance-calls":
            return WorkContinues(Work(record.event))
        case "tick":
            return TimerExpired()
        case "sent":
            return RequestSent()
        case "blocked":
            return ConnectionBlocked()
        case "pause-demanded":
            return PauseDemanded(record.value("pause", int))
    raise CaptureError(f"line {record.line}: '{record.event}' is nothing that happens to a source")


def _former_fields(known: KnownObject) -> dict[str, Any]:
    """Return an object of a former run as JSON, without what is at its default."""
    written = {
        one.name: getattr(known, one.name)
        for one in fields(known)
        if one.name not in {"name", "number"} and getattr(known, one.name) != one.default
    }
    return {
        **written,
        "class": known.name.class_name,
        "name": list(known.name.parts),
        "number": str(known.number),  # of 64 bits
        "properties": [plain_value(value) for value in known.properties],
        "statistics": [plain_value(value) for value in known.statistics],
    }


def _former_objects(record: Record) -> list[KnownObject]:
    try:
        return [_former_object(one) for one in record.records("objects")]
    except (ValueError, RecursionError) as error:
        raise CaptureError(f"line {record.line}: these are not objects: {error}") from error


def _former_object(one: Record) -> KnownObject:
    parts = one.fields.get("name")
    if not isinstance(parts, list) or not all(isinstance(part, str) for part in parts):
        raise ValueError("'name' is no list of texts")  # of the input, not of a caller
    written = {
        known.name: one.value(known.name, int if known.type == "int" else bool, known.default)
        for known in fields(KnownObject)
        if known.type in {"int", "bool"} and known.name != "number"
    }
    return KnownObject(
        ObjectName(one.value("class", str), tuple(map(recorded_name, parts))),
        int(one.value("number", str)),
        properties=read_values(one, "properties"),
        statistics=read_values(one, "statistics"),
        **written,
    )


def request_fields(request: ManagementRequest | BrokerRequest) -> dict[str, Any]:
    """Return a request as JSON: method and target, and the body of a change in base64."""
    if isinstance(request, Purge):
        return {"request": f"queue.purge {path_of(request.virtual_host, request.queue)}"}
    if not isinstance(request, Change):
        return {"request": f"GET {request.target}"}
    about: dict[str, Any] = {"request": f"{request.method} {request.target}"}
    if request.body is not None:
        about["body_b64"] = _base64(request.body)
    return about


def answer_fields(answer: BrokerAnswer) -> dict[str, Any]:
    """Return an answer as JSON: its kind and its fields; a document in base64."""
    if isinstance(answer, Document):
        return {"answer": "Document", "body_b64": _base64(answer.body), "spent": answer.spent}
    values = {field.name: getattr(answer, field.name) for field in fields(answer)}
    return {"answer": type(answer).__name__, **values}


def read_answer(record: Record) -> BrokerAnswer:
    """Return the answer in a record.

    Raises:
        CaptureError: the record has no valid answer.
    """
    name = record.value("answer", str)
    kind = _ANSWERS.get(name)
    if kind is None:
        raise CaptureError(f"line {record.line}: 'answer' {name!r:.40} is no kind of answer")
    if kind is Document:
        try:
            return Document(json.loads(record.body), spent=record.value("spent", int, 0))
        except (ValueError, RecursionError) as error:
            raise CaptureError(f"line {record.line}: 'body_b64' is not JSON") from error
    values = {field.name: record.value(field.name, _KINDS[str(field.type)]) for field in fields(kind)}
    return cast("BrokerAnswer", kind(**values))


def outcome_fields(outcome: Scraped | NotScraped) -> dict[str, Any]:
    """Return the outcome of a request for metrics as JSON: the values by object, or the reason for none."""
    if isinstance(outcome, NotScraped):
        return {"reason": outcome.reason}
    about = {"waited": outcome.waited, "busy": outcome.busy, "size": outcome.size}
    match outcome.sheet:
        case NodeSheet() as sheet:
            rows = [[*name.parts, row] for name, row in sheet.values.items()]
            return {**about, "node": sheet.node, "cluster": sheet.cluster, "rows": rows}
        case TotalsSheet() as sheet:
            return {**about, "node": sheet.node, "cluster": sheet.cluster, "totals": sheet.totals}
    return about


def read_outcome(record: Record, sheet: Sheet) -> Scraped | NotScraped:
    """Return the outcome of a request for metrics in a record.

    Raises:
        CaptureError: the record has no valid outcome.
    """
    if "reason" in record.fields:
        return NotScraped(record.value("reason", str))
    match sheet:
        case NodeSheet():
            sheet.node, sheet.cluster = record.value("node", str), record.value("cluster", str, "")
            _read_rows(record, sheet)
        case TotalsSheet():
            sheet.node, sheet.cluster = record.value("node", str), record.value("cluster", str, "")
            _read_totals(record, sheet)
    waited, busy, size = (record.value(name, int) for name in ("waited", "busy", "size"))
    return Scraped(sheet, waited, busy, size)


def _read_rows(record: Record, sheet: NodeSheet) -> None:
    columns = sheet.columns
    rows = record.fields.get("rows")
    for row in rows if isinstance(rows, list) else [None]:
        if not isinstance(row, list) or not _is_row(row, columns):
            raise CaptureError(f"line {record.line}: 'rows' has something else than values of an object")
        *parts, values = row
        sheet.values[ObjectName(columns.class_name, tuple(parts))] = values


def _read_totals(record: Record, sheet: TotalsSheet) -> None:
    values = record.fields.get("totals")
    for protocol, totals in values.items() if isinstance(values, dict) else [("", None)]:
        if not isinstance(totals, dict) or not all(type(value) in {int, float} for value in totals.values()):
            raise CaptureError(f"line {record.line}: 'totals' has something else than numbers of a protocol")
        sheet.totals[protocol] = totals


def _is_row(row: list[Any], columns: LabelledColumns) -> bool:
    *parts, values = row
    return (
        len(parts) == len(columns.labels)
        and all(isinstance(part, str) for part in parts)
        and isinstance(values, list)
        and len(values) == len(columns.numbers)
        and all(value is None or type(value) in {int, float} for value in values)
    )


_KINDS: Final[Mapping[str, type[Any]]] = {"str": str, "bool": bool, "int": int}


def _base64(document: object) -> str:
    return base64.b64encode(json.dumps(document, separators=(",", ":")).encode()).decode()
