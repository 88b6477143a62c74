"""The errors of one variable binding, independent of the others (RFC 3416 section 4.2.5)."""

from __future__ import annotations

import pytest

from gateway.snmp import ber, message
from gateway.snmp.ber import Oid
from gateway.snmp.commands.assignments import MAX_VALUE_OCTETS
from gateway.snmp.commands.command import RowStatus
from gateway.snmp.fixed_mib import (
    COMMAND_ARGUMENT_ENTRY,
    COMMAND_ENTRY,
    COMMAND_RESULT_ENTRY,
    COMMANDS,
    CommandArgumentColumn,
    CommandColumn,
    CommandResultColumn,
    CommandScalar,
)
from gateway.snmp.written_values import Rejected
from tests.snmp.commands.owner import ROOT, Table

ANNA: Oid = (4, *b"anna")
ENTRY = (*ROOT, *COMMAND_ENTRY)
ARGUMENT_ENTRY = (*ROOT, *COMMAND_ARGUMENT_ENTRY)
INTEGER, TEXT = ber.encode_integer(4), ber.encode_octets(b"x")
WAIT = ((*ENTRY, CommandColumn.ROW_STATUS, *ANNA, 1, 99), ber.encode_integer(RowStatus.CREATE_AND_WAIT))


@pytest.fixture
def table() -> Table:
    return Table()


def status_of(table: Table, name: Oid, value: bytes) -> int | None:
    """Return the error-status of a binding after one that creates the command ``c``; ``None`` if accepted."""
    before = table.instances()
    refusal = table.set("anna", WAIT, (name, value))
    assert (refusal is None) or table.instances() == before
    assert refusal is None or refusal.index == 2
    return None if refusal is None else refusal.status


@pytest.mark.parametrize(
    ("column", "value", "status"),
    [
        (CommandColumn.TARGET, TEXT, message.WRONG_TYPE),
        (CommandColumn.TARGET, ber.NULL, message.WRONG_TYPE),
        (CommandColumn.TARGET, ber.encode_oid((1, 3)), message.INCONSISTENT_VALUE),
        (CommandColumn.TARGET, ber.encode_oid((0, 0)), None),
        (CommandColumn.METHOD, INTEGER, message.WRONG_TYPE),
        (CommandColumn.METHOD, ber.encode_octets(b"m" * 255), None),
        (CommandColumn.METHOD, ber.encode_octets(b"m" * 256), message.WRONG_LENGTH),
        (CommandColumn.METHOD, ber.encode_octets(b"\xff"), message.WRONG_VALUE),
        (CommandColumn.TIMEOUT, ber.encode_gauge32(300), None),
        (CommandColumn.TIMEOUT, ber.encode_gauge32(301), message.WRONG_VALUE),
        (CommandColumn.TIMEOUT, ber.encode_gauge32(2**32 - 1), message.WRONG_VALUE),
        (CommandColumn.TIMEOUT, INTEGER, message.WRONG_TYPE),
        (CommandColumn.ROW_STATUS, ber.encode_integer(3), message.WRONG_VALUE),  # notReady
        (CommandColumn.ROW_STATUS, ber.encode_integer(0), message.WRONG_VALUE),
        (CommandColumn.ROW_STATUS, ber.encode_integer(7), message.WRONG_VALUE),
        (CommandColumn.ROW_STATUS, ber.encode_gauge32(4), message.WRONG_TYPE),
        (
            CommandColumn.ROW_STATUS,
            ber.encode_integer(6),
            message.INCONSISTENT_VALUE,
        ),  # said otherwise before
        (CommandColumn.STATE, INTEGER, message.NOT_WRITABLE),
        (CommandColumn.OPERATION_ID, TEXT, message.NOT_WRITABLE),
        (1, TEXT, message.NO_ACCESS),
        (2, TEXT, message.NO_ACCESS),
        (99, TEXT, message.NOT_WRITABLE),
    ],
)
def test_columns_of_commands(table: Table, column: int, value: bytes, status: int | None) -> None:
    assert status_of(table, (*ENTRY, column, *ANNA, 1, 99), value) == status


@pytest.mark.parametrize(
    ("column", "value", "status"),
    [
        (CommandArgumentColumn.VALUE, ber.encode_octets(b""), None),
        (CommandArgumentColumn.VALUE, ber.encode_octets(b"v" * MAX_VALUE_OCTETS), None),
        (CommandArgumentColumn.VALUE, ber.encode_octets(b"v" * (MAX_VALUE_OCTETS + 1)), message.WRONG_LENGTH),
        (CommandArgumentColumn.VALUE, ber.encode_octets(b"\xc3"), message.WRONG_VALUE),
        (CommandArgumentColumn.VALUE, INTEGER, message.WRONG_TYPE),
        (CommandArgumentColumn.SYNTAX, ber.encode_integer(2), None),
        (CommandArgumentColumn.SYNTAX, ber.encode_integer(3), message.WRONG_VALUE),
        (CommandArgumentColumn.SYNTAX, TEXT, message.WRONG_TYPE),
        (CommandArgumentColumn.ROW_STATUS, ber.encode_integer(5), None),
        (CommandArgumentColumn.ROW_STATUS, ber.encode_integer(3), message.WRONG_VALUE),
        (1, TEXT, message.NO_ACCESS),
        (5, TEXT, message.NOT_WRITABLE),
    ],
)
def test_columns_of_arguments(table: Table, column: int, value: bytes, status: int | None) -> None:
    assert status_of(table, (*ARGUMENT_ENTRY, column, *ANNA, 1, 99, 1, 97), value) == status


@pytest.mark.parametrize(
    ("index", "status"),
    [
        ((*ANNA, 1, 99), None),
        ((*ANNA, 32, *b"c" * 32), None),
        ((*ANNA, 33, *b"c" * 33), message.NO_CREATION),
        ((*ANNA, 0), message.NO_CREATION),  # no name
        (ANNA, message.NO_CREATION),
        ((*ANNA, 2, 99), message.NO_CREATION),  # too short
        ((*ANNA, 1, 99, 1), message.NO_CREATION),  # too long
        ((*ANNA, 1, 99, 1, 99), message.NO_CREATION),  # a name too many
        ((*ANNA, 1, 256), message.NO_CREATION),  # no octet
        ((*ANNA, 1, 0xFF), message.NO_CREATION),  # not UTF-8
        ((4, *b"bert", 1, 99), message.NO_ACCESS),
        ((4, *b"bert", 1, 256), message.NO_ACCESS),
        ((3, *b"ann", 1, 99), message.NO_ACCESS),
        ((*b"anna",), message.NO_ACCESS),
        ((), message.NO_ACCESS),
    ],
)
def test_indexes_of_commands(table: Table, index: Oid, status: int | None) -> None:
    wait = ber.encode_integer(RowStatus.CREATE_AND_WAIT)
    assert status_of(table, (*ENTRY, CommandColumn.ROW_STATUS, *index), wait) == status


@pytest.mark.parametrize(
    "name",
    [
        ENTRY,
        ARGUMENT_ENTRY,
        (*ROOT, *COMMANDS),
        (*ROOT, *COMMANDS, CommandScalar.QUOTA, 0),
        (*ROOT, *COMMANDS, 99, 0),
        (*ROOT, *COMMAND_RESULT_ENTRY, CommandResultColumn.VALUE, *ANNA, 1, 99, 1),
    ],
)
def test_nothing_else_can_be_written(table: Table, name: Oid) -> None:
    assert status_of(table, name, INTEGER) == message.NOT_WRITABLE


def test_a_variable_that_is_named_twice_has_one_value(table: Table) -> None:
    method = (*ENTRY, CommandColumn.METHOD, *ANNA, 1, 99)
    one, other = ber.encode_octets(b"one"), ber.encode_octets(b"other")
    assert table.set("anna", WAIT, (method, one), (method, other)) == Rejected(message.INCONSISTENT_VALUE, 3)
    assert table.set("anna", WAIT, (method, one), (method, one)) is None


def test_the_first_wrong_binding_is_reported(table: Table) -> None:
    wrong = ((*ENTRY, CommandColumn.STATE, *ANNA, 1, 99), INTEGER)
    refused = ((*ENTRY, CommandColumn.STATE, 4, *b"bert", 1, 99), INTEGER)
    assert table.set("anna", WAIT, wrong, refused) == Rejected(message.NOT_WRITABLE, 2)
