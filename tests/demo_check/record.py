"""The promises about the record: each operation is reported alike in the log, in JMX, in SNMP."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Self

from gateway.demo.demonstration import Demonstration
from gateway.demo.snmp_commands import SnmpCommands
from gateway.eventlog.query import ask
from tests.components.jmx_client import JmxClient
from tests.demo_check.comparison import Facts, differences
from tests.demo_check.promises import Promises

_ENDED: Final = """
SELECT operation_id, principal, source, object_name, method, "values", former, found, outcome, text FROM log
WHERE kind = 'operation' AND state = 'ended' AND seq > $since AND principal IN (SELECT unnest($principals))
ORDER BY seq
"""
_NOTICE: Final = "amqp.gateway.operation."
_SHOWN: Final = ("principal", "outcome")
_NOTHING_SENT: Final = "nothing was sent"

Values = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation, as all have to report it.

    Attributes:
        principal: who asked for it, ``jmx:operator``.
        source: name of the source that it went through.
        name: stable name of the object.
        method: that was called; empty of a set.
        asked: the values asked for, by element; of a call they are not compared.
        former: the values before; empty where nothing was set.
        outcome: of the operation.
        returned: the outputs of a call that was applied, by argument.
    """

    principal: str
    source: str
    name: str
    method: str
    asked: Values
    former: Values
    outcome: str
    returned: Values = field(default_factory=dict, compare=False)


class Journal:
    """The operations that were carried out, in order."""

    def __init__(self) -> None:
        self.operations: list[Operation] = []

    @property
    def principals(self) -> frozenset[str]:
        """The principals that asked for operations."""
        return frozenset(operation.principal for operation in self.operations)

    def has_set(self, who: str, source: str, name: str, changes: Mapping[str, tuple[int, int]]) -> None:
        """Add a set of elements, each with the value before and the one that it has now."""
        former = {element: values[0] for element, values in changes.items()}
        now = {element: values[1] for element, values in changes.items()}
        self.operations.append(Operation(who, source, name, "", now, former, "applied"))

    def was_refused(self, who: str, source: str, name: str, asked: Values) -> None:
        """Add a set of elements that no rule allows."""
        self.operations.append(Operation(who, source, name, "", asked, {}, "refused"))

    def has_called(
        self, who: str, source: str, name: str, method: str, outcome: str, returned: Values | None = None
    ) -> None:
        """Add a call of a method that ``returned`` this, or that was refused."""
        self.operations.append(Operation(who, source, name, method, {}, {}, outcome, returned or {}))


@dataclass(frozen=True, slots=True)
class _Logged:
    """An operation in the log."""

    operation_id: str
    operation: Operation
    found: Values
    text: str

    @classmethod
    def of(cls, row: tuple[object, ...]) -> Self:
        operation_id, principal, source, name, method, asked, former, found, outcome, text = row
        operation = Operation(
            str(principal),
            str(source),
            str(name),
            str(method or ""),
            {} if method else _values(asked),
            _values(former),
            str(outcome),
        )
        return cls(str(operation_id), operation, _values(found), str(text or ""))


class RecordedPromises:
    """The check of log, JMX and SNMP against the journal.

    Args:
        promises: waits and reports.
        running: the demonstration.
        client: has listened to the MBean of the gateway since before.
        snmp: shows the last operations.
    """

    def __init__(
        self, promises: Promises, running: Demonstration, client: JmxClient, snmp: SnmpCommands
    ) -> None:
        self._promises = promises
        self._log = running.log_folder
        self._client = client
        self._snmp = snmp

    async def mark(self) -> int:
        """Return the seq of the last record until now."""
        ((seq,),) = await self._asked("SELECT max(seq) FROM log")
        return int(str(seq))

    async def hold(self, since: int, journal: Journal, written_back: int) -> None:
        """Check that everything since a mark is reported.

        Args:
            since: the mark.
            journal: the operations since then.
            written_back: number of SETs besides that changed nothing, because all values were there already.

        Raises:
            CheckFailedError: an operation is not reported, or is reported otherwise.
        """
        await self._promises.until_none(
            "the log has each operation: who, what, the values before and after, what came of it",
            lambda: self._not_logged(since, journal, written_back),
        )
        logged = await self._logged(since, journal)
        expected = {
            one.operation_id: {"principal": one.operation.principal, "outcome": one.operation.outcome}
            for one in logged
        }

        async def not_notified() -> list[str]:
            reported = [one["data"] for one in self._client.notifications if _NOTICE in one["notification"]]
            received = {one["operationId"]: {key: str(one[key]) for key in _SHOWN} for one in reported}
            return differences(expected, _of(journal, received))

        async def not_in_table() -> list[str]:
            rows = await asyncio.to_thread(self._snmp.walk, "agOperationTable")
            shown = {
                cells["agOperationId"]: {key: cells[f"agOperation{key.title()}"] for key in _SHOWN}
                for cells in rows.values()
            }
            return differences(expected, _of(journal, shown))

        await self._promises.until_none("so have JMX's listeners, under the same ids", not_notified)
        await self._promises.until_none("so has SNMP's table of the last operations", not_in_table)

    async def _not_logged(self, since: int, journal: Journal, written_back: int) -> list[str]:
        logged = await self._logged(since, journal)
        unchanged = [one for one in logged if _NOTHING_SENT in one.text]
        lines = [
            f"written back, but {one.operation}, found {one.found}"
            for one in unchanged
            if not one.operation.asked or one.operation.asked != one.operation.former
        ]
        if len(unchanged) != written_back:
            lines.append(f"{len(unchanged)} operations sent nothing, should be {written_back}")
        reported = [one for one in logged if one not in unchanged]
        for index in range(max(len(reported), len(journal.operations))):
            expected = journal.operations[index] if index < len(journal.operations) else None
            found = reported[index] if index < len(reported) else None
            if found is None or found.operation != expected:
                lines.append(f"logged is {found}, should be {expected}")
            elif expected.outcome == "applied" and found.found != (expected.asked or expected.returned):
                lines.append(f"{expected}, but {found.found} is told as found")
        return lines

    async def _logged(self, since: int, journal: Journal) -> list[_Logged]:
        """Return the logged operations of the journal's principals; others may be refused some meanwhile."""
        rows = await self._asked(_ENDED, since=since, principals=sorted(journal.principals))
        return [_Logged.of(row) for row in rows]

    async def _asked(self, sql: str, **parameters: object) -> list[tuple[object, ...]]:
        def answered() -> list[tuple[object, ...]]:
            with ask(self._log, sql, parameters) as answer:
                return list(answer.rows)

        return await asyncio.to_thread(answered)


def _of(journal: Journal, reported: Facts) -> Facts:
    """Return the facts about operations of the journal's principals."""
    return {one: facts for one, facts in reported.items() if facts["principal"] in journal.principals}


def _values(column: object) -> Values:
    """A column of values by name, which the log has as JSON; empty where it has none."""
    values: Values = json.loads(column) if isinstance(column, str) else {}
    return values
