"""One change tried by every way north, and what each of them was told of it."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, TypeAlias

from gateway.service.processes.exit_codes import ExitCode
from tests.components.waiting import wait_until
from tests.outcomes.manager import Manager
from tests.outcomes.scene import Scene
from tests.outcomes.targets import ORDERS, SHOP, Target


@dataclass(frozen=True, slots=True)
class Told:
    """What came of an attempt.

    Attributes:
        code: of the command.
        status: of the SET, by its name; empty for no error. Of a call, the command table's outcome.
        exceptions: the classes that the Java client got, the outermost first; empty where it got none.
        logged: outcomes of the attempts in the event log, in order.
    """

    code: ExitCode
    status: str
    exceptions: tuple[str, ...]
    logged: tuple[str, ...]


JavaClient: TypeAlias = Any
"""Lives in Java (``tests/jmx_java/java/Client.java``)."""

Around: TypeAlias = Callable[[], AbstractContextManager[object]]
"""What goes on during an attempt by one of the ways."""

Objects: TypeAlias = Target | tuple[Target, Target, Target]
"""An object, or one for each way: at the command line, by SNMP, by JMX."""


class Attempts:
    """Tries the same thing at the command line, by SNMP and by JMX, one after the other.

    Args:
        there: everything running.
        manager: sends SNMP.
        java: a client that has logged in (``tests/jmx_java/java/Client.java``).
    """

    def __init__(self, there: Scene, manager: Manager, java: JavaClient) -> None:
        self._there = there
        self._manager = manager
        self._java = java

    def set(
        self,
        element: str,
        value: int | str,
        *,
        of: Objects = SHOP,
        logged: int = 3,
        around: Around = nullcontext,
    ) -> Told:
        """Set an element; so many of the attempts have a record with an outcome."""
        typed, shown, bean = of if isinstance(of, tuple) else (of,) * 3
        mark = self.mark()
        with around():
            done = self._there.command("set", typed.path, f"{element}={value}")
        with around():
            status = self._manager.set(shown, element, value)
        with around():
            failure = self._java.trySetAttribute(bean.object_name, element, value)
        return Told(done.code, status, classes(failure), self.outcomes(mark, logged))

    def invoke(
        self,
        method: str,
        arguments: Mapping[str, str] | None = None,
        *,
        of: Objects = ORDERS,
        java: tuple[object, ...] | None = None,
        logged: int = 3,
    ) -> Told:
        """Call a method with arguments by name; Java names all, in order, if other ones than these."""
        typed, shown, bean = of if isinstance(of, tuple) else (of,) * 3
        given, row = dict(arguments or {}), self._manager.row_of(shown)
        mark = self.mark()
        words = [f"{name}={value}" for name, value in given.items()]
        done = self._there.command("invoke", typed.path, method, *words)
        name = f"{method}-{secrets.token_hex(4)}"
        called = self._manager.call(name, row, method, given)
        passed = list(given.values()) if java is None else list(java)
        failure = (
            self._java.tryInvokeWith(bean.object_name, method, passed)
            if passed
            else self._java.tryInvoke(bean.object_name, method, "", None)  # asks for no description before
        )
        outcome = called["agCommandOutcome"].partition("(")[0]
        return Told(done.code, outcome, classes(failure), self.outcomes(mark, logged))

    def mark(self) -> int:
        """The last record of the log, as soon as it has all operations that SNMP tells of."""
        (told,) = self._manager.values("agOperationsLast").values()
        found: list[dict[str, Any]] = []
        sql = (
            "SELECT coalesce(max(seq), 0) AS seq, "
            "coalesce(max(CAST(split_part(operation_id, '.o', 2) AS BIGINT)), 0) AS number FROM log"
        )

        def is_there() -> bool:
            found[:] = self._there.ask_log(sql)
            return int(found[0]["number"]) >= int(told)

        wait_until(is_there, f"operation {told} is logged")
        return int(found[0]["seq"])

    def outcomes(self, mark: int, count: int) -> tuple[str, ...]:
        """Of the operations that ended behind a mark, in order, as soon as there are so many."""
        return tuple(str(record["outcome"]) for record in self.records(mark, count))

    def records(self, mark: int, count: int, state: str = "ended") -> list[dict[str, Any]]:
        """Of operations, behind a mark and in that state, as soon as there are so many."""
        found: list[dict[str, Any]] = []
        sql = (
            "SELECT operation_id, principal, outcome, text, found FROM log "
            "WHERE kind = 'operation' AND state = $state AND seq > $mark ORDER BY seq"
        )

        def are_there() -> bool:
            found[:] = self._there.ask_log(sql, state=state, mark=mark)
            return len(found) >= count

        wait_until(are_there, f"{count} records of operations that are {state}")
        return found


def classes(failure: str) -> tuple[str, ...]:
    """Of the exceptions that a Java client got."""
    return tuple(line.partition(":")[0].rpartition(".")[2] for line in failure.splitlines() if line)
