"""A captured source: what it asked the broker, and what the broker answered and reported, in a file.

Every input is recorded with its time, so that a replay makes a source do the same again; what it asks for is
compared. Answers stand as values (`gateway.sources.rabbitmq.management_api`), events as JSON.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping
from dataclasses import fields
from datetime import UTC, datetime
from typing import Any, Final, TypeAlias, cast

from gateway.dialects.session import Effect
from gateway.links.capture import operation_fields, read_operation
from gateway.links.capture_file import CaptureFile, Directions
from gateway.links.capture_reading import Capture, CaptureError, Record
from gateway.links.replay import Outcome, Player, Said, Witness
from gateway.mapping.rules import Mapping as MappingFile
from gateway.model.operations import MethodCall, ObjectFetch
from gateway.model.secrets import SecretRules
from gateway.sources.rabbitmq.event_headers import event_time, plain_headers
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
    path_of,
)
from gateway.sources.rabbitmq.metrics_answers import TotalsSheet
from gateway.sources.rabbitmq.object_names import ObjectName
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

AS_SOURCE: Final = Directions(received="to-gateway", sent="to-broker")

_ANSWERS: Final[Mapping[str, type[Any]]] = {
    kind.__name__: kind
    for kind in (
        *(Document, NotFound, BeyondLastPage, Refused, Broken, Unavailable, NotManagement),
        *(Changed, Purged, Rejected, NotSent, Unanswered),
    )
}
"""The kinds of answers by the name that they have in a capture."""

_Effects: TypeAlias = list[Effect]


class CapturedSource(RabbitMqSource):
    """A `RabbitMqSource` that records its inputs and requests.

    Args:
        config, mapping, secrets: as there.
        file: where they are recorded.
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

    def _record(self, now: int, event: str, **about: object) -> None:
        self._file.write({"ns": now, "event": event, **about}, now, {})

    def _sent(self, now: int, request: ManagementRequest | BrokerRequest | None) -> None:
        if request is not None:
            self._file.write({"ns": now, "dir": AS_SOURCE.sent, **request_fields(request)}, now, {})

    def _received(self, now: int, answer: BrokerAnswer, **about: object) -> None:
        record = {"ns": now, "dir": AS_SOURCE.received, **about, **answer_fields(answer)}
        self._file.write(record, now, {})

    def next_request(self, now: int) -> ManagementRequest | None:
        """As of a source."""
        request = super().next_request(now)
        if request is not None:
            self._record(now, "asked")
            self._sent(now, request)
        return request

    def asked(self, now: int) -> _Effects:
        """As of a source."""
        self._record(now, "sent")
        return super().asked(now)

    def answered(self, request: ManagementRequest, answer: Answer, began: int, ended: int) -> _Effects:
        """As of a source."""
        self._received(ended, answer, began=began)
        return super().answered(request, answer, began, ended)

    def advance(self, now: int) -> _Effects:
        """As of a source."""
        self._record(now, "advance")
        return super().advance(now)

    def next_scrape(self, now: int) -> ScrapeRequest | None:
        """As of a source."""
        request = super().next_scrape(now)
        if request is not None:
            self._record(now, "scrape", url=request.address)
        return request

    def scraped(
        self, request: ScrapeRequest, outcome: Scraped | NotScraped, began: int, ended: int
    ) -> _Effects:
        """As of a source."""
        self._record(ended, "scraped", began=began, **outcome_fields(outcome))
        return super().scraped(request, outcome, began, ended)

    def advance_statistics(self, now: int) -> _Effects:
        """As of a source."""
        self._record(now, "advance-statistics")
        return super().advance_statistics(now)

    def tick(self, now: int) -> _Effects:
        """As of a source."""
        self._record(now, "tick")
        return super().tick(now)

    def call(self, call: MethodCall, now: int) -> _Effects:
        """As of a source."""
        self._file.write({"ns": now, **operation_fields(call)}, now, {})
        return super().call(call, now)

    def fetch(self, fetch: ObjectFetch, now: int) -> _Effects:
        """As of a source."""
        self._file.write({"ns": now, **operation_fields(fetch)}, now, {})
        return super().fetch(fetch, now)

    def advance_calls(self, now: int) -> _Effects:
        """As of a source."""
        self._record(now, "advance-calls")
        effects = super().advance_calls(now)
        self._sent(now, self.next_call_request())
        return effects

    def call_answered(self, answer: BrokerAnswer, now: int) -> _Effects:
        """As of a source."""
        self._received(now, answer, call=True)
        return super().call_answered(answer, now)

    def event(
        self, key: str, headers: Mapping[str, object], timestamp: datetime | None, now: int
    ) -> _Effects:
        """As of a source."""
        plain = plain_headers(headers)
        self._record(now, "broker-event", key=key, headers=plain, time=event_time(plain, timestamp))
        return super().event(key, headers, timestamp, now)

    def events_connected(self, now: int) -> _Effects:
        """As of a source."""
        self._record(now, "events-connected")
        return super().events_connected(now)

    def events_resumed(self, missed: str, now: int) -> _Effects:
        """As of a source."""
        self._record(now, "events-resumed", missed=missed)
        return super().events_resumed(missed, now)

    def events_lost(self, reason: str, now: int, since: int) -> _Effects:
        """As of a source."""
        self._record(now, "events-lost", reason=reason, since=max(0, since))
        return super().events_lost(reason, now, since)

    def events_missing(self, reason: str, now: int) -> _Effects:
        """As of a source."""
        self._record(now, "events-missing", reason=reason)
        return super().events_missing(reason, now)

    def events_caught_up(self, now: int) -> _Effects:
        """As of a source."""
        self._record(now, "events-caught-up")
        return super().events_caught_up(now)

    def connection_blocked(self, now: int) -> None:
        """As of a source."""
        self._record(now, "blocked")
        super().connection_blocked(now)


def replay_source(capture: Capture, source: RabbitMqSource, witness: Witness) -> Outcome:
    """Play a capture to a source that was made like the captured one.

    Args:
        capture: read from its beginning.
        source: a new one.
        witness: called with what comes of it.

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

    def captured(self, record: Record) -> Said:
        return {name: value for name, value in record.told.items() if name not in {"ns", "dir"}}

    def begin(self, first: Record, now: int) -> None:
        """Do nothing: a source begins without a link."""

    def woken(self, now: int) -> Iterable[Effect]:
        return self._source.tick(now)

    def handed_in(self, record: Record, now: int) -> Iterable[Effect] | None:
        match record.event:
            case "":
                return self._received(record, now)
            case "call" | "fetch" | "modify":
                return self._operated(record, now)
        return self._event(record, now)

    def _operated(self, record: Record, now: int) -> Iterable[Effect] | None:
        match read_operation(record):
            case MethodCall() as call:
                return self._source.call(call, now)
            case ObjectFetch() as fetch:
                return self._source.fetch(fetch, now)
        return None

    def _received(self, record: Record, now: int) -> Iterable[Effect]:
        answer = read_answer(record)
        if record.value("call", bool, False):
            return self._source.call_answered(answer, now)
        if self._request is None:
            return []  # the request stands in a former file, which is not there any more
        request, self._request = self._request, None
        return self._source.answered(request, cast("Answer", answer), record.value("began", int), now)

    def _event(self, record: Record, now: int) -> Iterable[Effect] | None:
        source = self._source
        match record.event:
            case "asked":
                self._request = source.next_request(now)
                self._says(self._request)
                return []
            case "sent":
                return source.asked(now)
            case "advance":
                return source.advance(now) if source.busy else None
            case "advance-calls":
                effects = source.advance_calls(now)
                self._says(source.next_call_request())
                return effects
            case "blocked":
                source.connection_blocked(now)
                return []
        take = self._metrics if record.event in _OF_METRICS else self._broker_event
        return take(record, now)

    def _metrics(self, record: Record, now: int) -> Iterable[Effect] | None:
        source, statistics = self._source, self._source.statistics
        match record.event:
            case "scrape":
                self._scrape = source.next_scrape(now)
            case "scraped" if self._scrape is not None and statistics is not None:
                outcome = read_outcome(record, source.sheet_for(self._scrape))
                return source.scraped(self._scrape, outcome, record.value("began", int), now)
            case "advance-statistics" if source.takes_metrics:
                return source.advance_statistics(now)
        return []

    def _broker_event(self, record: Record, now: int) -> Iterable[Effect]:
        source = self._source
        match record.event:
            case "broker-event":
                headers = record.told.get("headers")
                if not isinstance(headers, dict):
                    raise CaptureError(f"line {record.line}: 'headers' is not an object")
                timestamp = datetime.fromtimestamp(record.value("time", int) // 10**9, UTC)
                return source.event(record.value("key", str), headers, timestamp, now)
            case "events-connected":
                return source.events_connected(now)
            case "events-resumed":
                return source.events_resumed(record.value("missed", str), now)
            case "events-caught-up":
                return source.events_caught_up(now)
            case "events-missing":
                return source.events_missing(record.value("reason", str), now)
            case "events-lost":
                return source.events_lost(record.value("reason", str), now, record.value("since", int))
        raise CaptureError(f"line {record.line}: '{record.event}' is nothing that happens to a source")

    def _says(self, request: ManagementRequest | BrokerRequest | None) -> None:
        if request is not None:
            self.said(request_fields(request))


def request_fields(request: ManagementRequest | BrokerRequest) -> dict[str, Any]:
    """A request as JSON: method and target, and the body of a change in base64."""
    if isinstance(request, Purge):
        return {"request": f"queue.purge {path_of(request.virtual_host, request.queue)}"}
    if not isinstance(request, Change):
        return {"request": f"GET {request.target}"}
    about: dict[str, Any] = {"request": f"{request.method} {request.target}"}
    if request.body is not None:
        about["body_b64"] = _base64(request.body)
    return about


def answer_fields(answer: BrokerAnswer) -> dict[str, Any]:
    """An answer as JSON: its kind, and its fields; a document in base64."""
    if isinstance(answer, Document):
        return {"answer": "Document", "body_b64": _base64(answer.body)}
    told = {field.name: getattr(answer, field.name) for field in fields(answer)}
    return {"answer": type(answer).__name__, **told}


def read_answer(record: Record) -> BrokerAnswer:
    """The answer that a record holds.

    Raises:
        CaptureError: it holds none.
    """
    name = record.value("answer", str)
    kind = _ANSWERS.get(name)
    if kind is None:
        raise CaptureError(f"line {record.line}: 'answer' {name!r:.40} is no kind of answer")
    if kind is Document:
        try:
            return Document(json.loads(record.body))
        except (ValueError, RecursionError) as error:
            raise CaptureError(f"line {record.line}: 'body_b64' is not JSON") from error
    told = {field.name: record.value(field.name, _KINDS[str(field.type)]) for field in fields(kind)}
    return cast("BrokerAnswer", kind(**told))


def outcome_fields(outcome: Scraped | NotScraped) -> dict[str, Any]:
    """What came of a request for metrics as JSON: the values of each object, or the reason why none came."""
    if isinstance(outcome, NotScraped):
        return {"reason": outcome.reason}
    about = {"waited": outcome.waited, "busy": outcome.busy, "size": outcome.size}
    match outcome.sheet:
        case NodeSheet() as sheet:
            rows = [[*name.parts, row] for name, row in sheet.values.items()]
            return {**about, "node": sheet.node, "rows": rows}
        case TotalsSheet() as sheet:
            return {**about, "node": sheet.node, "totals": sheet.totals}
    return about


def read_outcome(record: Record, sheet: Sheet) -> Scraped | NotScraped:
    """What came of a request for metrics, as a record holds it.

    Raises:
        CaptureError: it holds none.
    """
    if "reason" in record.told:
        return NotScraped(record.value("reason", str))
    match sheet:
        case NodeSheet():
            sheet.node = record.value("node", str)
            _read_rows(record, sheet)
        case TotalsSheet():
            sheet.node = record.value("node", str)
            _read_totals(record, sheet)
    waited, busy, size = (record.value(name, int) for name in ("waited", "busy", "size"))
    return Scraped(sheet, waited, busy, size)


def _read_rows(record: Record, sheet: NodeSheet) -> None:
    columns = sheet.columns
    rows = record.told.get("rows")
    for row in rows if isinstance(rows, list) else [None]:
        if not isinstance(row, list) or not _is_row(row, columns):
            raise CaptureError(f"line {record.line}: 'rows' has something else than values of an object")
        *parts, values = row
        sheet.values[ObjectName(columns.class_name, tuple(parts))] = values


def _read_totals(record: Record, sheet: TotalsSheet) -> None:
    told = record.told.get("totals")
    for protocol, totals in told.items() if isinstance(told, dict) else [("", None)]:
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


_OF_METRICS: Final = frozenset({"scrape", "scraped", "advance-statistics"})
_KINDS: Final[Mapping[str, type[Any]]] = {"str": str, "bool": bool, "int": int}


def _base64(document: object) -> str:
    return base64.b64encode(json.dumps(document, separators=(",", ":")).encode()).decode()
