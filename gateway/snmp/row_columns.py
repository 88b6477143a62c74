"""Columns 1 to 12 of every generated table, in which the gateway itself describes each object.

Numbers, descriptors and texts are defined here once: a registry reserves the descriptors, the generator
writes the clauses, and the projection fills the cells.
"""

from __future__ import annotations

import enum

import msgspec


class RowColumn(enum.IntEnum):
    """The numbers of the gateway's own columns; 13 to 99 are reserved for it."""

    INDEX = 1
    NAME = 2
    NATIVE_ID = 3
    PARENT = 4
    SAMPLED = 5
    CREATED = 6
    STALE = 7
    STATE = 8
    DISCONTINUITY = 9
    LAST_CHANGE = 10
    FULL_NAME = 11
    LIFETIME = 12


class RowLifetime(enum.IntEnum):
    """The lifetime of a row: durable if its number outlives its object."""

    DURABLE = 1
    TRANSIENT = 2


class RowColumnText(msgspec.Struct, frozen=True):
    """The text of a gateway's column in a MIB module; ``{label}`` in the description is the class."""

    suffix: str
    syntax: str
    description: str


ROW_COLUMNS: dict[RowColumn, RowColumnText] = {
    RowColumn.INDEX: RowColumnText(
        "Index",
        "Integer32 (1..2147483647)",
        "The number of this row among all objects of this class that its source ever had. It is never given "
        "to another object before all numbers are used up.",
    ),
    RowColumn.NAME: RowColumnText(
        "RowName",
        "SnmpAdminString (SIZE (0..255))",
        "The object's own name, without the names of what it belongs to. A name of more than 255 octets is "
        "cut between two characters.",
    ),
    RowColumn.NATIVE_ID: RowColumnText(
        "RowNativeId",
        "SnmpAdminString (SIZE (0..255))",
        "What the source itself calls the object in its management protocol. It may change with each restart "
        "of the source or its agent.",
    ),
    RowColumn.PARENT: RowColumnText(
        "RowParent",
        "RowPointer",
        "The row of the object that this one belongs to: the first readable column of that row. There is no "
        "instance where there is no such object.",
    ),
    RowColumn.SAMPLED: RowColumnText(
        "RowSampled",
        "DateAndTime",
        "When the source read the values of this row, by its own clock. Rates are differences of counters "
        "divided by differences of this time.",
    ),
    RowColumn.CREATED: RowColumnText(
        "RowCreated",
        "DateAndTime",
        "When the object was created, by the clock of its source. There is no instance where the source does "
        "not report it.",
    ),
    RowColumn.STALE: RowColumnText(
        "RowStale",
        "TruthValue",
        "True while the values of this row are not confirmed: its source is not reached, its agent is "
        "silent, or the gateway has not received the object again since its start.",
    ),
    RowColumn.STATE: RowColumnText(
        "RowState",
        "AgRowState",
        "Whether the values of this row are fresh, stale but shown, or withheld because they have been "
        "stale for too long.",
    ),
    RowColumn.DISCONTINUITY: RowColumnText(
        "RowDiscontinuity",
        "DateAndTime",
        "The last time at which one or more of the counters of this row may have begun again at another "
        "value. Differences of counters mean something only between two readings with the same value here.",
    ),
    RowColumn.LAST_CHANGE: RowColumnText(
        "RowLastChange",
        "DateAndTime",
        "When a property of the object last changed, by the clock of the gateway.",
    ),
    RowColumn.FULL_NAME: RowColumnText(
        "RowFullName",
        "SnmpAdminString (SIZE (0..255))",
        "The name that identifies the object among all others of its class and source; what other rows show "
        "beside a pointer to this one.",
    ),
    RowColumn.LIFETIME: RowColumnText(
        "RowLifetime",
        "INTEGER { durable(1), transient(2) }",
        "Whether an object of the same name, created again, gets this row again (durable) or a new one "
        "(transient).",
    ),
}
"""The text of each column of the gateway, in the order of its number."""
