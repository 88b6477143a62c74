"""Verification of the audit: the chain of each log is computed again and compared with signed heads.

`verify_audit` reads segments and lake alike, by SQL. `ChainVerifier` decides, one record after the other; it
has no I/O. What the chain alone cannot show, such as a chain that was computed again to its end or cut off,
the heads show: their signatures cannot be made without the key.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import enum
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from gateway.eventlog.audit_chain import ChainEnd, canonical_form, chain_begin, next_hash
from gateway.eventlog.audit_statements import (
    MAX_LINE,
    Adoption,
    Deletion,
    Head,
    Statement,
    StatementError,
    is_signed,
    read_statement,
)
from gateway.eventlog.disk import EventLogError
from gateway.eventlog.logged_operations import HEADS_FILE
from gateway.eventlog.parquet import COLUMNS, literal
from gateway.eventlog.query import TABLE, ask, time_on_line
from gateway.eventlog.record import AUDITED_KINDS, RecordKind
from gateway.eventlog.segment import identity_path, lake_files, read_identity

HEAD_EVENT: Final = "auditHead"
"""The name of the gateway's event that has a head among its values."""

MAX_HEADS: Final = 1_000_000
"""The maximum number of heads that one verification compares."""

MAX_ADOPTIONS: Final = 1_000
"""The maximum number of adoptions that one verification knows, the last ones."""

MAX_PROBLEMS: Final = 1_000
"""The maximum number of problems reported of one log, the first ones, and of the heads."""

_OWN_PACKAGE: Final = "gateway"
_JSON: Final = frozenset({"values", "deltas", "former", "found"})
_MEMORY_MEBIBYTES: Final = 512


class Fault(enum.StrEnum):
    """What is wrong with the audit.

    ``missing``: records were removed, before, between or behind others. ``changed``: a record is not the one
    that was written. ``reordered``: a record stands in another place, or twice. ``added``: a record has no
    place in the chain. ``cut-off``: the end is missing. ``rewritten``: the chain is whole, but not the one
    that was signed. ``signature``: a statement proves nothing.
    """

    MISSING = "missing"
    CHANGED = "changed"
    REORDERED = "reordered"
    ADDED = "added"
    CUT_OFF = "cut-off"
    REWRITTEN = "rewritten"
    SIGNATURE = "signature"


@dataclass(frozen=True, slots=True)
class AuditProblem:
    """A deviation of the audit from what was written.

    Attributes:
        fault: its kind.
        log_id: the log.
        text: its description, with numbers and times.
    """

    fault: Fault
    log_id: str
    text: str


@dataclass(slots=True)
class ChainSummary:
    """The verified chain of one log.

    Attributes:
        log_id: the log.
        records: the number of its audited records.
        first: the number of the first one.
        last: the number of the last one.
        first_ts: the time of the first one, as on a line.
        last_ts: the time of the last one.
        heads: the number of signed heads that fit.
        signed: the number of the last record that a fitting head covers; 0 for none.
        signed_ts: the time of that head.
        deleted: what the gateway states of deleted records; empty for nothing.
        adopted: why the log ends: the gateway began another one in its place; empty for nothing.
        not_checked: the number of statements about it that are signed with keys that were not given.
        before_chain: the number of records of audited kinds before the chain: of earlier versions.
        lost: audited records that the disk did not take, by kind, as the gateway recorded.
    """

    log_id: str
    records: int = 0
    first: int = 0
    last: int = 0
    first_ts: str = ""
    last_ts: str = ""
    heads: int = 0
    signed: int = 0
    signed_ts: str = ""
    deleted: str = ""
    adopted: str = ""
    not_checked: int = 0
    before_chain: int = 0
    lost: dict[str, int] = field(default_factory=dict)


class SignedStatements:
    """The statements at hand: checked by their signatures, heads by log and number.

    A log that the gateway found in its folder and adopted is of another gateway. Statements about it that are
    signed with a key that was not given are counted; what the gateway itself stated of it is a head.

    Args:
        keys: the public keys of the gateway, by their fingerprints.

    Attributes:
        problems: those of statements that prove nothing, or contradict each other.
        adopted: the logs that the gateway did not continue, with what it stated of them.
        not_checked: the number of statements about a log that are signed with keys that were not given.
    """

    def __init__(self, keys: Mapping[str, Ed25519PublicKey]) -> None:
        self.problems: list[AuditProblem] = []
        self.adopted: dict[str, Adoption] = {}
        self.not_checked: Counter[str] = Counter()
        self._of_unknown_keys: dict[tuple[str, str], tuple[Statement, str]] = {}
        self._keys = keys
        self._heads: dict[tuple[str, int], Head] = {}

    def take_line(self, place: str, line: str | bytes) -> Statement | None:
        """Check the line of a statement, and keep it if it is a head.

        Args:
            place: where it stands.
            line: without its end.

        Returns:
            The statement, if its signature is that of a given key.
        """
        try:
            statement = read_statement(line)
        except StatementError as error:
            self._problem(Fault.SIGNATURE, "", f"{place}: is no signed statement: {error}")
            return None
        if statement.key not in self._keys:
            # The first one of each key and log: one of a log that was adopted is no problem.
            self._of_unknown_keys.setdefault((statement.key, statement.log_id), (statement, place))
            if not isinstance(statement, Adoption):
                self.not_checked[statement.log_id] += 1
            elif statement.log_id in self.adopted:  # that log was verified up to what a given key has signed
                self._adopt(place, statement)
            return None
        if not is_signed(statement, self._keys):
            self._problem(
                Fault.SIGNATURE,
                statement.log_id,
                f"{place}: its signature is wrong: it was changed or forged",
            )
            return None
        if isinstance(statement, Head):
            self._keep(place, statement)
        if isinstance(statement, Adoption):
            self._adopt(place, statement)
        return statement

    def _adopt(self, place: str, adoption: Adoption) -> None:
        self.adopted[adoption.former_log_id] = adoption
        if adoption.audit:
            end = Head(
                *(adoption.former_gateway, adoption.former_log_id, adoption.audit, adoption.seq),
                *(adoption.hash, adoption.time, adoption.key),
            )
            self._keep(place, end)

    def judge_unknown_keys(self) -> None:
        """Report keys that were not given, when all statements were taken: not those of adopted logs."""
        reported = set()
        for statement, place in self._of_unknown_keys.values():
            adoption = self.adopted.get(statement.log_id)
            is_of_another = adoption is not None and statement.gateway == adoption.former_gateway
            if is_of_another or statement.key in reported:
                continue
            reported.add(statement.key)
            self._problem(
                Fault.SIGNATURE,
                statement.log_id,
                f"{place}: is signed with another key ({statement.key[:16]}), and proves nothing here: "
                "if it is a former key of this gateway, give its public key, too",
            )

    def _keep(self, place: str, head: Head) -> None:
        known = self._heads.setdefault((head.log_id, head.audit), head)
        if known.hash != head.hash:
            self._problem(
                Fault.REWRITTEN,
                head.log_id,
                f"{place}: two heads name audit record {head.audit}, of {known.time} and {head.time}, with "
                "different hashes: the gateway wrote other records after its log had been set back",
            )
        elif len(self._heads) > MAX_HEADS:
            raise StatementError(f"more than {MAX_HEADS:,} heads: verify with a part of the file")

    def head(self, log_id: str, audit: int) -> Head | None:
        """Return the head of a record; ``None`` where there is none."""
        return self._heads.get((log_id, audit))

    def heads_of(self, log_id: str) -> list[Head]:
        """Return the heads of a log, by their numbers."""
        return sorted((head for key, head in self._heads.items() if key[0] == log_id), key=lambda h: h.audit)

    @property
    def log_ids(self) -> set[str]:
        """The logs of all heads."""
        return {log_id for log_id, _ in self._heads}

    def _problem(self, fault: Fault, log_id: str, text: str) -> None:
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(AuditProblem(fault, log_id, text))


@dataclass(frozen=True, slots=True)
class _Place:
    """An audited record that was read: its place in the chain and in the log, and its canonical form."""

    end: ChainEnd
    seq: int
    time: str
    form: bytes = b""

    def __str__(self) -> str:
        return f"{self.end.number} (seq {self.seq}, {self.time})"


class ChainVerifier:
    """Verifies the chain of one log, record by record in the order of ``seq``.

    Args:
        log_id: the log.
        statements: the heads.

    Attributes:
        summary: what was found so far.
        problems: the problems found so far.
        first_seq: the seq of the first audited record; 0 for none.
        before_seq: the highest seq before which the gateway states that all is deleted, by log.
    """

    def __init__(self, log_id: str, statements: SignedStatements) -> None:
        self.summary = ChainSummary(log_id)
        self.problems: list[AuditProblem] = []
        self.first_seq = 0
        self.before_seq: dict[str, int] = {}
        self._log_id = log_id
        self._statements = statements
        self._last: _Place | None = None
        self._before: ChainEnd | None = None
        self._is_rewritten = False

    def take(self, fields: Mapping[str, object]) -> None:
        """Verify the next record.

        Args:
            fields: its fields by name, in the order of the form, as JSON has them; any content is permitted.
        """
        seq, time, kind = fields.get("seq"), fields.get("ingest_ts"), fields.get("kind")
        number, digest = fields.get("audit"), fields.get("audit_hash")
        if not isinstance(seq, int) or not isinstance(number, int) or not isinstance(digest, str):
            self._unchained(f"seq {seq} ({time})", kind)
            return
        place = _Place(ChainEnd(number, digest), seq, str(time), _form(fields))
        if self._last is not None and number <= self._last.end.number:
            self._not_next(place)
            return
        self._link(place, fields)
        self._compare(place)
        self._count(place)
        self._statement(place, fields)

    def _unchained(self, place: str, kind: object) -> None:
        if self._last is None:
            self.summary.before_chain += 1
            return
        self._problem(
            Fault.ADDED,
            f"{place}: a record of kind {kind} has no place in the chain, and so was added, or robbed of it",
        )

    def _not_next(self, place: _Place) -> None:
        assert self._last is not None
        # A block that was written again after a failed write may be in two segments for a while.
        if place == self._last:
            return
        self._problem(
            Fault.REORDERED, f"audit record {place} stands behind {self._last}: it was moved, or is a copy"
        )

    def _link(self, place: _Place, fields: Mapping[str, object]) -> None:
        number = place.end.number
        stated = _chain_before(fields)
        if self._last is not None and number == self._last.end.number + 1:
            before: ChainEnd | None = self._last.end
        elif self._last is None and number == 1:
            before = chain_begin(self._log_id)
        else:
            before = stated if stated is not None and stated.number == number - 1 else None
            if self._last is not None:
                self._missing(self._last, place)
        if self._last is None:
            self._before = before
        if before is not None and not _fits(before, place):
            self._problem(
                Fault.CHANGED,
                f"audit record {place} is not the one that was written: it was changed, or {before.number} "
                "before it was",
            )

    def _missing(self, before: _Place, place: _Place) -> None:
        first, last = before.end.number + 1, place.end.number - 1
        what = f"audit record {first} is" if first == last else f"audit records {first} to {last} are"
        self._problem(
            Fault.MISSING,
            f"{what} missing, between {before.time} (seq {before.seq}) and {place.time} (seq {place.seq})",
        )

    def _compare(self, place: _Place) -> None:
        head = self._statements.head(self._log_id, place.end.number)
        if head is None:
            return
        if head.hash == place.end.hash:
            self.summary.heads += 1
            self.summary.signed, self.summary.signed_ts = head.audit, head.time
            return
        if self._is_rewritten:
            return  # no later head can fit, either
        self._is_rewritten = True
        self._problem(
            Fault.REWRITTEN,
            f"audit record {place} does not have the hash that was signed at {head.time}: it, or records "
            f"before it, were changed after that (since the signed record {self.summary.signed})",
        )

    def _count(self, place: _Place) -> None:
        summary = self.summary
        if self._last is None:
            summary.first, summary.first_ts, self.first_seq = place.end.number, place.time, place.seq
        summary.records += 1
        summary.last, summary.last_ts = place.end.number, place.time
        self._last = place

    def _statement(self, place: _Place, fields: Mapping[str, object]) -> None:
        values = fields.get("values")
        if not isinstance(values, Mapping):
            return
        if fields.get("kind") == RecordKind.AUDIT and isinstance(line := values.get("statement"), str):
            found = self._statements.take_line(f"audit record {place}", line)
            if isinstance(found, Deletion):
                self.before_seq[found.log_id] = max(self.before_seq.get(found.log_id, 0), found.before_seq)
        audit = values.get("audit")
        lost = audit.get("lost") if isinstance(audit, Mapping) else None
        if isinstance(lost, Mapping):
            for kind, count in lost.items():
                if isinstance(count, int):
                    self.summary.lost[str(kind)] = self.summary.lost.get(str(kind), 0) + count

    def end(self, known_end: int, before_seq: int, first_here: int) -> None:
        """Compare the begin and the end of the chain with what is known of them.

        Args:
            known_end: the number of the last audited record by the file ``LOG``; 0 where it is not known.
            before_seq: the seq before which the gateway states that all is deleted; 0 for no statement.
            first_here: the lowest seq from which on no record is missing before the first audited one; of a
                chain that begins late.
        """
        if self._last is None:
            return
        self._check_begin(before_seq, first_here)
        self._check_end(self._last, known_end)

    def _check_begin(self, before_seq: int, first_here: int) -> None:
        first, here = self.summary.first, f"{self.summary.first_ts} (seq {self.first_seq})"
        if first == 1:
            return
        head = self._statements.head(self._log_id, first - 1)
        if head is not None and self._before is not None and head.hash != self._before.hash:
            self._problem(
                Fault.REWRITTEN,
                f"audit record {first} does not follow on record {first - 1} as signed at {head.time}",
            )
        if self._before is None or self.summary.before_chain:
            # Files are deleted whole, and each begins with a record that has the end of the chain before it.
            self._problem(
                Fault.MISSING,
                f"the chain begins with audit record {first}, at {here}, in the midst of a file: records "
                "before it were removed or robbed of their numbers, unless the disk failed at that time (a "
                "gap says so), and the rest was written into a new file",
            )
        if first_here <= before_seq:
            self.summary.deleted = (
                f"audit records 1 to {first - 1} were deleted for their age, or the size of the log: the "
                f"gateway states that it deleted what is before seq {before_seq}"
            )
            return
        stated = f" (it states this of what is before seq {before_seq})" if before_seq else ""
        self._problem(
            Fault.MISSING,
            f"audit records 1 to {first - 1} are missing, before {here}, and the gateway does not state that "
            f"it deleted them{stated}",
        )

    def _check_end(self, last: _Place, known_end: int) -> None:
        beyond = [head for head in self._statements.heads_of(self._log_id) if head.audit > last.end.number]
        if beyond:
            head = beyond[-1]
            self._problem(
                Fault.CUT_OFF,
                f"the log ends with audit record {last}, but a head of {head.time} is signed for record "
                f"{head.audit} (seq {head.seq}): {head.audit - last.end.number} or more records are cut off",
            )
        elif known_end > last.end.number:
            self._problem(
                Fault.CUT_OFF,
                f"the log ends with audit record {last}, but its file LOG knows record {known_end}: "
                f"{known_end - last.end.number} or more records are cut off",
            )

    def _problem(self, fault: Fault, text: str) -> None:
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(AuditProblem(fault, self._log_id, text))


def _form(fields: Mapping[str, object]) -> bytes:
    """Return the canonical form of a record; an empty one where a value has none."""
    try:
        return canonical_form(fields)
    except (TypeError, ValueError, RecursionError):
        return b""


def _fits(before: ChainEnd, place: _Place) -> bool:
    try:
        return next_hash(before.hash, place.form) == place.end.hash
    except ValueError:  # the hash before it is none
        return False


def _chain_before(fields: Mapping[str, object]) -> ChainEnd | None:
    """Return the end of the chain before a ``start`` record, as it says; ``None`` for any other record."""
    values = fields.get("values")
    audit = values.get("audit") if isinstance(values, Mapping) and fields.get("kind") == "start" else None
    if not isinstance(audit, Mapping):
        return None
    number, digest = audit.get("number"), audit.get("hash")
    return ChainEnd(number, digest) if isinstance(number, int) and isinstance(digest, str) else None


def fields_of_row(columns: Sequence[str], row: Iterable[object]) -> dict[str, object]:
    """Return the fields of a record as JSON has them, without absent ones; text that is no JSON stays text.

    Args:
        columns: names of columns of `COLUMNS`.
        row: their values as DuckDB gives them.
    """
    found: dict[str, object] = {}
    for name, value in zip(columns, row, strict=True):
        if isinstance(value, dt.datetime):
            found[name] = time_on_line(value)
        elif name in _JSON and isinstance(value, str):
            found[name] = _decoded(value)
        elif value is not None:
            found[name] = value
    return found


def _decoded(text: str) -> object:
    try:
        return msgspec.json.decode(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return text


@dataclass(slots=True)
class AuditReport:
    """The result of a verification.

    Attributes:
        chains: the chains by log, in the order of their ids.
        problems: all problems.
    """

    chains: list[ChainSummary]
    problems: list[AuditProblem]


def verify_audit(
    folder: Path, keys: Mapping[str, Ed25519PublicKey], heads: Iterable[tuple[str, bytes]] = ()
) -> AuditReport:
    """Verify the audit of all logs in a folder.

    Args:
        folder: the folder of the log; the gateway may run meanwhile.
        keys: the public keys of the gateway, by their fingerprints.
        heads: lines of heads from elsewhere, each with its place in words.

    Raises:
        LogReadError: the log cannot be read: `gateway.eventlog.verification` shows why.
        QueryError: the machine lacks the memory.
        StatementError: there are more than `MAX_HEADS` heads.
    """
    statements = SignedStatements(keys)
    for place, line in heads:
        statements.take_line(place, line)
    adoptions = [*_recorded_adoptions(folder), *_unrecorded_adoption(folder)]
    # Before the records are verified. One may be stated in a log that was adopted later.
    for place, text in (*adoptions, *adoptions[::-1]):
        statements.take_line(place, text)
    for place, text in _recorded_heads(folder):
        statements.take_line(place, text)
    present, known_end = _known_end(folder)
    verifiers: dict[str, ChainVerifier] = {}
    for fields in _audited(folder):
        log_id = str(fields.get("log_id"))
        verifier = verifiers.get(log_id) or verifiers.setdefault(log_id, ChainVerifier(log_id, statements))
        verifier.take(fields)
    statements.judge_unknown_keys()
    # What was not there when a log was adopted, its own gateway had deleted.
    stated = {log_id: adoption.first_seq for log_id, adoption in statements.adopted.items()}
    for verifier in verifiers.values():
        for log_id, seq in verifier.before_seq.items():
            stated[log_id] = max(stated.get(log_id, 0), seq)
    for log_id, verifier in verifiers.items():
        late = verifier.summary.first > 1
        first_here = _first_whole(folder, log_id, verifier.first_seq) if late else 0
        verifier.end(known_end if log_id == present else 0, stated.get(log_id, 0), first_here)
        _say_adopted(verifier.summary, statements)
    problems = [*statements.problems, *(each for found in verifiers.values() for each in found.problems)]
    with_chain = {log_id for log_id, found in verifiers.items() if found.summary.records}
    problems += _repeated_rows(folder)
    problems += _lost_logs(statements, statements.log_ids - with_chain, stated)
    return AuditReport([verifiers[log_id].summary for log_id in sorted(verifiers)], problems)


def _say_adopted(summary: ChainSummary, statements: SignedStatements) -> None:
    summary.not_checked = statements.not_checked[summary.log_id]
    adoption = statements.adopted.get(summary.log_id)
    if adoption is not None:
        summary.adopted = (
            f"it is a log of the gateway {adoption.former_gateway or '(not known)'}; at {adoption.time} the "
            f"gateway {adoption.gateway} began the log {adoption.log_id} in its place"
        )


def _lost_logs(
    statements: SignedStatements, log_ids: Iterable[str], stated: Mapping[str, int]
) -> Iterator[AuditProblem]:
    for log_id in sorted(log_ids):
        head = statements.heads_of(log_id)[-1]
        if head.seq >= stated.get(log_id, 0):
            text = (
                f"a head of {head.time} is signed for audit record {head.audit}, but the log has none at all"
            )
            yield AuditProblem(Fault.CUT_OFF, log_id, text)


def _known_end(folder: Path) -> tuple[str, int]:
    try:
        identity = read_identity(folder)
    except EventLogError:
        identity = None
    return ("", 0) if identity is None else (identity.log_id, identity.audit)


_KINDS: Final = ", ".join(literal(kind.value) for kind in sorted(AUDITED_KINDS))


def _audited(folder: Path) -> Iterator[dict[str, object]]:
    names = ", ".join(f'"{name}"' for name in COLUMNS)
    sql = (
        f"SELECT {names} FROM {TABLE} WHERE audit IS NOT NULL OR kind IN ({_KINDS}) "  # noqa: S608  ours
        "ORDER BY log_id, seq, audit"
    )
    with ask(folder, sql, memory_mebibytes=_MEMORY_MEBIBYTES) as answer:
        for row in answer.rows:
            yield fields_of_row(answer.columns, row)


def _repeated_rows(folder: Path) -> Iterator[AuditProblem]:
    """Yield a problem for each audited record that the lake has twice: only an open segment repeats some."""
    paths = [str(file.path) for file in lake_files(folder)]
    if not paths:
        return
    files = f"read_parquet([{', '.join(map(literal, paths))}], filename = true, union_by_name = true)"
    sql = (
        "SELECT log_id, seq, audit, string_agg(DISTINCT filename, ' and ' ORDER BY filename) "  # noqa: S608  ours
        f"FROM {files} WHERE audit IS NOT NULL "
        f"GROUP BY log_id, seq, audit HAVING count(*) > 1 ORDER BY log_id, seq LIMIT {MAX_PROBLEMS}"
    )
    with ask(folder, sql, memory_mebibytes=_MEMORY_MEBIBYTES) as answer:
        for log_id, seq, audit, paths_of_it in answer.rows:
            text = f"audit record {audit} (seq {seq}) is there more than once, in {paths_of_it}: it is a copy"
            yield AuditProblem(Fault.REORDERED, str(log_id), text)


def _recorded_heads(folder: Path) -> Iterator[tuple[str, str]]:
    where = f"kind = 'event' AND package = '{_OWN_PACKAGE}' AND event = '{HEAD_EVENT}' AND source IS NULL"
    return _recorded(folder, "head", f"{where} ORDER BY log_id, seq", f"the event {HEAD_EVENT}")


def heads_were_written(folder: Path, file: Path) -> bool:
    """Return whether a log says that signed heads were written to a file."""
    where = "kind = 'audit' AND state = $state AND \"values\"->>'file' = $file"
    sql = f"SELECT count(*) FROM {TABLE} WHERE {where}"  # noqa: S608  ours
    values = {"state": HEADS_FILE, "file": str(file)}
    with ask(folder, sql, values, memory_mebibytes=_MEMORY_MEBIBYTES) as answer:
        return bool(next(answer.rows)[0])


def _recorded_adoptions(folder: Path) -> Iterator[tuple[str, str]]:
    where = f"kind = 'audit' AND state = 'adoption' ORDER BY seq DESC LIMIT {MAX_ADOPTIONS}"
    return _recorded(folder, "statement", where, "the audit record")


def _unrecorded_adoption(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield the statement with which a log began whose first records could not be written yet."""
    with contextlib.suppress(EventLogError):  # opening the log reports what is wrong
        identity = read_identity(folder)
        if identity is not None and identity.adopted:
            yield str(identity_path(folder)), identity.adopted


def _recorded(folder: Path, value: str, where: str, what: str) -> Iterator[tuple[str, str]]:
    """Yield the statements in a value of some records, each with its place in words."""
    sql = f"SELECT seq, \"values\"->>'{value}' FROM {TABLE} WHERE {where}"  # noqa: S608  ours
    with ask(folder, sql, memory_mebibytes=_MEMORY_MEBIBYTES) as answer:
        for seq, line in answer.rows:
            yield f"{what} at seq {seq}", str(line)[: MAX_LINE + 1]


def _first_whole(folder: Path, log_id: str, seq: int) -> int:
    """Return the lowest seq from which on no record is missing before ``seq``."""
    sql = (
        "SELECT max(seq) FILTER (before IS DISTINCT FROM seq - 1) FROM ("  # noqa: S608  ours
        "SELECT seq, lag(seq) OVER (ORDER BY seq) AS before "
        f"FROM (SELECT DISTINCT seq FROM {TABLE} WHERE log_id = $log_id AND seq <= $seq))"
    )
    with ask(folder, sql, {"log_id": log_id, "seq": seq}, memory_mebibytes=_MEMORY_MEBIBYTES) as answer:
        (first,) = next(answer.rows)
    return first if isinstance(first, int) else seq
