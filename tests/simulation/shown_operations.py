"""The invariants of operations in front ends, once all is quiet."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

from gateway.feed.operations import OperationRecord
from gateway.jmx.commands import JmxValue
from gateway.jmx.names import DOMAIN
from gateway.jmx.notifications import OPERATION
from gateway.jmx.own_beans import GATEWAY_NAME
from gateway.model.operations import Outcome
from gateway.snmp.ber import Oid
from gateway.snmp.fixed_mib import (
    COMMAND_ENTRY,
    COMMANDS,
    OPERATION_ENTRY,
    CommandColumn,
    OperationColumn,
    OutcomeNumber,
)
from gateway.snmp.store import MibView
from tests.jmx.model_machine import ModelMachine
from tests.simulation.ledger import SECRET
from tests.simulation.snmp import WRITER, SnmpProcess
from tests.simulation.table_reader import ROOT, decoded, walk
from tests.simulation.truth import Plain
from tests.simulation.violations import demand

_LINE = re.compile(r"^(?P<outcome>[a-z-]+): .*\[(?P<id>[^]]+)\]")


def check_snmp(
    reported: Mapping[str, OperationRecord], final: Mapping[str, OperationRecord], snmp: SnmpProcess
) -> None:
    """Check that SNMP's tables agree with the core.

    Args:
        reported: the last operations of the core that runs now, by id.
        final: the last record of every operation, by id.
        snmp: the SNMP process.
    """
    shown = _outcomes(snmp.store, (*ROOT, *OPERATION_ENTRY), OperationColumn.ID, OperationColumn.OUTCOME)
    expected = {one: record.outcome for one, record in reported.items()}
    demand(shown == expected, f"agOperationTable shows {shown}, the core tells {expected}")
    view = snmp.commands.view(WRITER)
    commands = _outcomes(view, (*ROOT, *COMMAND_ENTRY), CommandColumn.OPERATION_ID, CommandColumn.OUTCOME)
    for operation_id, outcome in commands.items():
        if operation_id:
            known = final[operation_id].outcome
            # What came of what was under way when a core was killed, nobody but the log may have heard.
            is_lost = outcome is Outcome.UNKNOWN and operation_id not in reported
            shows = f"the command of {operation_id} shows {outcome}, it is {known}"
            demand(outcome is known or is_lost, shows)
    for under in (OPERATION_ENTRY, COMMANDS):
        for name, tlv in walk(view, (*ROOT, *under)):
            demand(SECRET.encode() not in tlv, f"{under}.{name} shows a secret")


def check_jmx(reported: Mapping[str, OperationRecord], machine: ModelMachine) -> None:
    """Check that the MBeans agree with the core, and that clients were notified of each outcome once."""
    for name, attributes in machine.everything().items():
        demand(SECRET not in repr(attributes), f"{name} shows a secret")
        several, single = attributes.get("LastOperations"), attributes.get("LastOperation")
        lines = several if isinstance(several, tuple) else (single,)
        for line in lines:
            found = _LINE.match(line) if isinstance(line, str) else None
            record = reported.get(found["id"]) if found else None
            if found and record is not None and record.outcome is not None:
                demand(found["outcome"] == record.outcome.value, f"{name} shows {line!r}, it is {record}")
    _check_last_operations(machine)
    notices: Counter[object] = Counter()
    for _, emitted in machine.emitted:
        if emitted.type.startswith(OPERATION):
            values = {name: value for name, _, value in emitted.data}
            notices[values["operationId"], values["state"], values["text"]] += 1
            demand(SECRET not in repr(emitted), f"{emitted} tells a secret")
    twice = [notice for notice, times in notices.items() if times > 1]
    demand(not twice, f"clients were told twice of {twice}")


def _check_last_operations(machine: ModelMachine) -> None:
    """Check that the latest of all operations on an object is its last one."""
    shown = machine.everything()
    all_lines = shown[GATEWAY_NAME]["LastOperations"]
    objects: dict[str, list[str]] = {}
    for name, attributes in shown.items():
        if "StableName" in attributes:
            package, _, class_name = (
                machine.beans[machine.names[name]].definition.name.removeprefix(f"{DOMAIN}.").rpartition(".")
            )
            objects.setdefault(f" {package}:{class_name} {attributes['StableName']!s}", []).append(name)
    for ending, (name, *others) in objects.items():
        last = next((line for line in _texts(all_lines) if line.endswith(ending)), None)
        if last is not None and not others:  # the object of another source may have the same name
            single = f"{shown[name]['LastOperation']!s}{ending}"
            demand(single == last, f"{name} shows {single!r}, the gateway {last!r}")


def _texts(value: JmxValue) -> list[str]:
    return [str(line) for line in value] if isinstance(value, tuple) else []


def _outcomes(view: MibView, entry: Oid, of_id: int, of_outcome: int) -> dict[str, Outcome | None]:
    cells: dict[Oid, dict[int, Plain]] = {}
    for (column, *index), tlv in walk(view, entry):
        if column in (of_id, of_outcome):
            cells.setdefault(tuple(index), {})[column] = decoded(tlv)
    return {_text(row[of_id]): _outcome(row.get(of_outcome)) for row in cells.values() if row.get(of_id)}


def _text(value: Plain) -> str:
    assert isinstance(value, bytes)
    return value.decode()


def _outcome(value: Plain) -> Outcome | None:
    return Outcome[OutcomeNumber(value).name] if isinstance(value, int) else None
