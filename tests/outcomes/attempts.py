"""Attempts of one change by every front end, with the result of each."""

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
class Reported:
    """The results of an attempt.

    Attributes:
        code: the exit code of the command.
        status: name of the SET's error status; empty for no error. Of a call, the command table's outcome.
        exceptions: the classes that the Java client got, the outermost first; empty where it got none.
        logged: outcomes of the attempts in the event log, in order.
    """

    code: ExitCode
    status: str
    exceptions: tuple[str, ...]
    logged: tuple[str, ...]


JavaClient: TypeAlias = Any
"""A client in Java (``tests/jmx_java/java/Client.java``)."""

Around: TypeAlias = Callable[[], AbstractContextManager[object]]
"""A context in which an attempt by one of the front ends takes place."""

Objects: TypeAlias = Target | tuple[Target, Target, Target]
"""An object, or one for each front end: the command line, SNMP, JMX."""


class Attempts:
    """Attempts of the same change at the command line, by SNMP and by JMX, one after the other.

    Args:
        there: the running scene.
        manager: the SNMP manager.
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
    ) -> Reported:
        """Set an element by each front end; ``logged`` is the number of attempts with a recorded outcome."""
        typed, shown, bean = of if isinstance(of, tuple) else (of,) * 3
        mark = self.mark()
        with around():
            done = self._there.command("set", typed.path, f"{element}={value}")
        with around():
            status = self._manager.set(shown, element, value)
        with around():
            failure = self._java.trySetAttribute(bean.object_name, element, value)
        return Reported(done.code, status, classes(failure), self.outcomes(mark, logged))

    def invoke(
        self,
        method: str,
        arguments: Mapping[str, str] | None = None,
        *,
        of: Objects = ORDERS,
        java: tuple[object, ...] | None = None,
        logged: int = 3,
    ) -> Reported:
        """Call a method with arguments by name; ``java`` has all arguments for Java, if they differ."""
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
        return Reported(done.code, outcome, classes(failure), self.outcomes(mark, logged))

    def mark(self) -> int:
        """Return the last seq of the log, as soon as it has all operations that SNMP shows."""
        (reported,) = self._manager.values("agOperationsLast").values()
        found: list[dict[str, Any]] = []
        sql = (
            "SELECT coalesce(max(seq), 0) AS seq, "
            "coalesce(max(CAST(split_part(operation_id, '.o', 2) AS BIGINT)), 0) AS number FROM log"
        )

        def is_there() -> bool:
            found[:] = self._there.ask_log(sql)
            return int(found[0]["number"]) >= int(reported)

        wait_until(is_there, f"operation {reported} is logged")
        return int(found[0]["seq"])

    def outcomes(self, mark: int, count: int) -> tuple[str, ...]:
        """Return the outcomes of operations that ended behind a mark, in order, once there are so many."""
        return tuple(str(record["outcome"]) for record in self.records(mark, count))

    def records(self, mark: int, count: int, state: str = "ended") -> list[dict[str, Any]]:
        """Return the records of operations in a state behind a mark, as soon as there are so many."""
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
    """Return the classes of the exceptions that a Java client got."""
    return tuple(line.partition(":")[0].rpartition(".")[2] for line in failure.splitlines() if line)
