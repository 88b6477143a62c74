"""One change tried by every way north, and what each of them was told of it."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gateway.eventlog.query import ask
from gateway.service.exit_codes import ExitCode
from tests.components.waiting import wait_until
from tests.outcomes.manager import Manager
from tests.outcomes.scene import QUEUE, SOURCE, VHOST, Scene


@dataclass(frozen=True, slots=True)
class Told:
    """What came of an attempt.

    Attributes:
        code: of the command.
        status: of the SET, as net-snmp prints it; empty for no error. Of a call, the command table's outcome.
        exceptions: the classes that the Java client got, the outermost first; empty where it got none.
        logged: outcomes of the attempts in the event log, in order.
    """

    code: ExitCode
    status: str
    exceptions: tuple[str, ...]
    logged: tuple[str, ...]


class Attempts:
    """Tries the same thing at the command line, by SNMP and by JMX.

    Args:
        there: everything running.
        manager: sends SNMP.
        java: a client that has logged in (``tests/jmx_java/java/Client.java``).
    """

    def __init__(self, there: Scene, manager: Manager, java: Any) -> None:  # noqa: ANN401  lives in Java
        self._there = there
        self._manager = manager
        self._java = java

    def set(self, element: str, value: int, *, logged: int = 3) -> Told:
        """Set an element of the virtual host; so many of the attempts have a record with an outcome."""
        mark = self._mark()
        done = self._there.command("set", f"{SOURCE}/vhost/{VHOST}", f"{element}={value}")
        status = self._manager.set(f"rmqVhost{element[0].upper()}{element[1:]}", VHOST, value)
        name = f"amqp.gateway:source={SOURCE},package=rabbitmq,type=vhost,name={VHOST}"
        failure = self._java.trySetAttribute(name, element, value)
        return Told(done.code, status, _classes(failure), self._outcomes(mark, logged))

    def invoke(self, method: str, *arguments: object) -> Told:
        """Call a method of the queue; Java names all ``arguments``, the command none, which have defaults."""
        mark = self._mark()
        done = self._there.command("invoke", f"{SOURCE}/queue/{VHOST}|{QUEUE}", method)
        called = self._manager.call(f"{method}-{secrets.token_hex(4)}", self._manager.row_of(QUEUE), method)
        name = f"amqp.gateway:source={SOURCE},package=rabbitmq,type=queue,parent={VHOST},name={QUEUE}"
        failure = self._java.tryInvokeWith(name, method, list(arguments))
        outcome = called["agCommandOutcome"].partition("(")[0]
        return Told(done.code, outcome, _classes(failure), self._outcomes(mark, 3))

    def _mark(self) -> int:
        ((seq,),) = self._ask("SELECT coalesce(max(seq), 0) FROM log")
        return int(str(seq))

    def _outcomes(self, mark: int, count: int) -> tuple[str, ...]:
        found: list[str] = []

        def are_there() -> bool:
            rows = self._ask(
                f"SELECT outcome FROM log WHERE kind = 'operation' AND state = 'ended' AND seq > {mark:d} "  # noqa: S608  a number
                "ORDER BY seq"
            )
            found[:] = [str(outcome) for (outcome,) in rows]
            return len(found) >= count

        wait_until(are_there, f"{count} outcomes are logged")
        return tuple(found)

    def _ask(self, sql: str) -> Sequence[tuple[object, ...]]:
        with ask(self._there.site.state.path / "log", sql) as answer:
            return list(answer.rows)


def _classes(failure: str) -> tuple[str, ...]:
    return tuple(line.partition(":")[0].rpartition(".")[2] for line in failure.splitlines() if line)
