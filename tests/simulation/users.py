"""Users who request operations: by SET with retransmissions, by commands, over JMX, at a terminal."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import msgpack

from gateway.feed.operations import Action, InvokeMethod, OperationAnswer, OperationRequest, SetElements
from gateway.feed.values import FeedValue
from gateway.jmx.backend import Status
from gateway.jmx.commands import AttributeType
from gateway.model.operations import Outcome, Principal
from gateway.model.times import MILLISECOND, SECOND
from gateway.snmp import ber, message
from gateway.snmp.ber import Oid
from gateway.snmp.commands.command import CommandKey, RowStatus
from gateway.snmp.commands.table import index_of
from gateway.snmp.fixed_mib import (
    COMMAND_ARGUMENT_ENTRY,
    COMMAND_ENTRY,
    CommandArgumentColumn,
    CommandColumn,
    CommandStateNumber,
    OutcomeNumber,
)
from gateway.snmp.row_columns import RowColumn
from tests.components.jmx_client import attribute_of
from tests.simulation.core import DEADLINE, Core
from tests.simulation.jmx import JmxProcess
from tests.simulation.ledger import FIRST_MARK, Key, Ledger, Reported, key_of
from tests.simulation.loop import VirtualLoop
from tests.simulation.scheduler import Scheduler
from tests.simulation.site import Wish
from tests.simulation.snmp import COMMUNITY, WRITER, SnmpProcess
from tests.simulation.table_reader import ROOT, ShownRow, TableReader, decoded
from tests.simulation.terminal import Terminal
from tests.snmp.datagrams import read_answer
from tests.snmp.set.shop import set_request

_NETWORK = (MILLISECOND, 300 * MILLISECOND)
_LOST = 0.1
"""The probability that a datagram is lost."""
_RETRY = 2 * SECOND
_ATTEMPTS = 7
"""The number of attempts; together they last longer than an operation may take."""
_POLL = 2 * SECOND
_POLLS = 20
_TWICE = 0.1
"""The probability that a request of the virtual machine arrives twice because a connection broke."""
_GIVES_UP = 0.1
"""The probability that a terminal is closed before it has an answer."""

_STATUSES: Mapping[int, Reported] = {message.NO_ERROR: Reported.DONE, message.UNDO_FAILED: Reported.UNCERTAIN}
"""The outcomes of error statuses; every other one means that nothing has changed."""

_JMX_STATUSES: Mapping[int, Reported] = {
    Status.APPLIED: Reported.DONE,
    Status.APPLIED_DIFFERENTLY: Reported.UNCERTAIN,
    Status.OUTCOME_UNKNOWN: Reported.UNCERTAIN,
}


@dataclass(frozen=True)
class Gateway:
    """The gateway as users see it.

    Attributes:
        snmp: returns the SNMP process that runs now, if one does.
        jmx: returns the JMX process that runs now, if one does.
        core: returns the core that runs now, if one does.
        reader: the reader of SNMP's tables.
        beans: returns the managed objects that JMX shows, by their MBeans' numbers.
    """

    snmp: Callable[[], SnmpProcess | None]
    jmx: Callable[[], JmxProcess | None]
    core: Callable[[], Core | None]
    reader: TableReader
    beans: Callable[[], Mapping[int, ShownRow]]


class Users:
    """All users of the gateway.

    Args:
        scheduler: time and chance.
        loop: the event loop for asynchronous code.
        ledger: the account of the answers to users.
        gateway: the gateway as users see it.
        wishes: the operations of users on the objects of each class.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        loop: VirtualLoop,
        ledger: Ledger,
        gateway: Gateway,
        wishes: Mapping[str, Sequence[Wish]],
    ) -> None:
        self._scheduler = scheduler
        self._loop = loop
        self._ledger = ledger
        self._gateway = gateway
        self._wishes = wishes
        self._marks = itertools.count(FIRST_MARK)
        self._ports = itertools.count(20_000)

    def act(self) -> None:
        """Request a random operation."""
        self._scheduler.random.choice((self._by_snmp, self._by_snmp, self._by_jmx, self._at_terminal))()

    def _wish(self, row: ShownRow) -> tuple[Action, Key]:
        mark = next(self._marks)
        action = self._scheduler.random.choice(self._wishes[row.class_name])(mark)
        values = action.values if isinstance(action, SetElements) else {}
        method = ""
        if isinstance(action, InvokeMethod):
            method, values = action.method, action.arguments
        key = key_of(row.class_name, _name(row).decode(), method, values)
        self._ledger.at("asked")
        return action, key

    def _rows(self, snmp: SnmpProcess, class_names: Sequence[str]) -> list[ShownRow]:
        """Return the objects that a user sees, except those with incomplete names."""
        rows = [row for name in class_names for row in self._gateway.reader.rows(snmp.store, name)]
        return [row for row in rows if b"?" not in _name(row)]

    # ---- SNMP -----------------------------------------------------------------------------------------

    def _by_snmp(self) -> None:
        snmp = self._gateway.snmp()
        if snmp is None:
            return
        reader, random = self._gateway.reader, self._scheduler.random
        classes = [name for name in reader.class_names if name in self._wishes]
        rows = self._rows(snmp, [random.choice(classes)] if classes else [])
        if not rows:
            return
        row = random.choice(rows)
        action, key = self._wish(row)
        self._scheduler.note("user", f"asks by SNMP for {action} of {row.class_name} {row.row}: {key}")
        if isinstance(action, SetElements):
            self._set(row, action, key)
        else:
            assert isinstance(action, InvokeMethod)
            self._command(row, action, key, snmp)

    def _set(self, row: ShownRow, action: SetElements, key: Key) -> None:
        ((element, value),) = action.values.items()
        assert isinstance(value, int)
        columns = self._gateway.reader.columns(row.class_name)
        column = next(column for column, name in columns.items() if name == element)
        instance = (*self._gateway.reader.entry(row.class_name), column, row.source, row.row)

        def answered(status: int | None) -> None:
            if status is None:
                self._ledger.reported(key, Reported.UNCERTAIN, "SET is not answered")
                return
            self._ledger.reported(
                key, _STATUSES.get(status, Reported.NOT_DONE), f"SET: error-status {status}"
            )

        def leaves(status: int, process: SnmpProcess) -> None:
            if status == message.NO_ERROR:
                shown = process.store.get(instance)
                self._ledger.shown(key, None if shown == ber.NO_SUCH_INSTANCE else decoded(shown))

        self._send(key, [(instance, ber.encode_integer(value))], answered, leaves)

    def _send(
        self,
        key: Key,
        bindings: Sequence[tuple[Oid, bytes]],
        answered: Callable[[int | None], None],
        leaves: Callable[[int, SnmpProcess], None] = lambda _status, _process: None,
    ) -> None:
        """Send a SET repeatedly until it is answered with an error status; ``None`` means no answer."""
        port = next(self._ports)
        datagram = set_request(bindings, community=COMMUNITY, request_id=port)
        is_open = True
        asked: list[tuple[SnmpProcess, Core | None]] = []

        def arrived(octets: bytes) -> None:
            nonlocal is_open
            if is_open:
                is_open = False
                answered(read_answer(octets).status)

        def ask() -> None:
            process, core = self._gateway.snmp(), self._gateway.core()
            if process is not None:
                if asked and process not in (former for former, _ in asked):
                    self._ledger.repeated[key] += 1
                    self._ledger.forgotten[key] += core not in (former for _, former in asked)
                asked.append((process, core))
                process.ask(datagram, ("192.0.2.1", port), lambda octets: reply(octets, process))

        def reply(octets: bytes, process: SnmpProcess) -> None:
            leaves(read_answer(octets).status, process)
            self._carry(lambda: arrived(octets))

        def attempt(number: int) -> None:
            nonlocal is_open
            if not is_open:
                return
            if number == _ATTEMPTS:
                is_open = False
                answered(None)
                return
            self._carry(ask)
            self._scheduler.after(_RETRY, lambda: attempt(number + 1))

        attempt(0)

    def _carry(self, action: Callable[[], None]) -> None:
        """Call ``action`` when a datagram arrives; it may be lost."""
        if self._scheduler.random.random() >= _LOST:
            self._scheduler.after(self._scheduler.between(*_NETWORK), action)

    def _command(self, row: ShownRow, action: InvokeMethod, key: Key, process: SnmpProcess) -> None:
        """Submit a command, and poll its state until it has ended."""
        index = index_of(CommandKey(WRITER, f"c{next(self._ports)}"))
        target = (*self._gateway.reader.entry(row.class_name), RowColumn.NAME, row.source, row.row)
        base = (*ROOT, *COMMAND_ENTRY)
        bindings: list[tuple[Oid, bytes]] = [
            ((*base, CommandColumn.TARGET, *index), ber.encode_oid(target)),
            ((*base, CommandColumn.METHOD, *index), ber.encode_octets(action.method.encode())),
            ((*base, CommandColumn.ROW_STATUS, *index), ber.encode_integer(RowStatus.CREATE_AND_GO)),
        ]
        for name, value in action.arguments.items():
            argument = (*index, len(name), *name.encode())
            instance = (*ROOT, *COMMAND_ARGUMENT_ENTRY, CommandArgumentColumn.VALUE, *argument)
            bindings.append((instance, ber.encode_octets(str(value).encode())))
        view = process.commands.view(WRITER)

        def cell(column: CommandColumn) -> int:
            value = decoded(view.read(ber.encode_name((*base, column, *index))))
            assert isinstance(value, int)
            return value

        def look(left: int) -> None:
            if self._gateway.snmp() is not process or not left:
                self._ledger.reported(key, Reported.UNCERTAIN, "the command cannot be seen any more")
            elif cell(CommandColumn.STATE) != CommandStateNumber.ENDED:
                self._scheduler.after(_POLL, lambda: look(left - 1))
            else:
                outcome = Outcome[OutcomeNumber(cell(CommandColumn.OUTCOME)).name]
                self._ledger.reported(key, Reported.of(outcome), f"command: {outcome.value}")

        def answered(status: int | None) -> None:
            if status is None:
                self._ledger.reported(key, Reported.UNCERTAIN, "the command was not answered")
            elif status != message.NO_ERROR:
                self._ledger.reported(key, Reported.NOT_DONE, f"command: error-status {status}")
            else:
                look(_POLLS)

        self._send(key, bindings, answered)

    # ---- JMX ------------------------------------------------------------------------------------------

    def _by_jmx(self) -> None:
        jmx = self._gateway.jmx()
        beans = self._gateway.beans()
        known = {number: row for number, row in beans.items() if b"?" not in _name(row)}
        numbers = [number for number, row in known.items() if row.class_name in self._wishes]
        if jmx is None or not numbers:
            return
        number = self._scheduler.random.choice(numbers)
        action, key = self._wish(beans[number])
        self._scheduler.note("user", f"asks by JMX for {action} of bean {number}: {key}")
        request = next(self._ports)
        who: list[object] = [number, _name(beans[number]).decode(), "operator", "192.0.2.2"]
        if isinstance(action, SetElements):
            values = [[name, _written(value)] for name, value in action.values.items()]
            asked = ["set", request, *who, values]
        else:
            assert isinstance(action, InvokeMethod)
            asked = ["invoke", request, *who, action.method, [*map(_written, action.arguments.values())]]
            if action.method == "delete":  # of a queue: if it is empty, and if it is unused
                asked[-1] = [None, None]
        octets = msgpack.packb(asked)
        machine = jmx.machine

        def answered(reply: bytes) -> None:
            status, text, _ = msgpack.unpackb(reply)
            reported = _JMX_STATUSES.get(status, Reported.NOT_DONE)
            self._ledger.reported(key, reported, f"JMX: {Status(status).name} {text}")
            if reported is Reported.DONE and isinstance(action, SetElements) and machine is not None:
                ((element, _),) = action.values.items()
                bean = machine.beans.get(number)
                shown = machine.read(bean.name).get(attribute_of(element)) if bean is not None else None
                self._ledger.shown(key, shown if isinstance(shown, int) else None)

        jmx.ask(octets, answered)
        if self._scheduler.random.random() < _TWICE:
            self._scheduler.after(
                self._scheduler.between(*_NETWORK), lambda: _again(self._gateway.jmx(), jmx, machine, octets)
            )

    # ---- the terminal ---------------------------------------------------------------------------------

    def _at_terminal(self) -> None:
        core, random = self._gateway.core(), self._scheduler.random
        snmp = self._gateway.snmp()
        if core is None or snmp is None:
            return
        rows = self._rows(snmp, [name for name in self._gateway.reader.class_names if name in self._wishes])
        if not rows:
            return
        row = random.choice(rows)
        action, key = self._wish(row)
        self._scheduler.note("user", f"asks at a terminal for {action}: {key}")

        def answered(answer: OperationAnswer) -> None:
            self._ledger.reported(key, Reported.of(answer.outcome), f"terminal: {answer}")

        request = OperationRequest(
            0, Principal("cli", "operator", "1"), row.source, row.class_name, row.row, action, DEADLINE
        )
        terminal = Terminal(core, self._loop, request, answered)
        if random.random() < _GIVES_UP:
            self._scheduler.after(self._scheduler.between(*_NETWORK), terminal.close)


def _name(row: ShownRow) -> bytes:
    name = row.fixed[RowColumn.FULL_NAME]
    assert isinstance(name, bytes)
    return name


def _written(value: FeedValue | None) -> list[object] | None:
    if value is None:
        return None
    kind = AttributeType.LONG if isinstance(value, int) else AttributeType.STRING
    return [int(kind), value]


def _again(now: JmxProcess | None, jmx: JmxProcess, machine: object, octets: bytes) -> None:
    if now is jmx and jmx.machine is machine:
        jmx.ask(octets, lambda _: None)
