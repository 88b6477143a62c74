"""The objects that a north shows, in one form for both."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gateway.demo.snmp_commands import Table
from tests.components.jmx_client import ReadAttribute
from tests.demo_check.comparison import without_incarnation

Reading = tuple[float, float]
"""The begin and end of a reading, in seconds since 1970."""


@dataclass(frozen=True, slots=True)
class Shown:
    """An object as a north showed it.

    Attributes:
        northbound: ``SNMP`` or ``JMX``.
        source: number of its source.
        thing: prefix of its table and its name, and of a node the process: ``rmqQueue shop|orders``.
        row: its number.
        full_name: its name, with the part that distinguishes incarnations of a transient object.
        length: number of messages, of a queue.
        sampled: sample time of the statistics, in seconds since 1970.
        created: time of the object's creation, in seconds since 1970; ``None`` where that is not known.
    """

    northbound: str
    source: str
    thing: str
    row: str
    full_name: str
    transient: bool
    fresh: bool
    length: int | None
    sampled: float | None
    reading: Reading
    created: float | None = None


def shown_by_snmp(prefix: str, table: Table, reading: Reading) -> Iterator[Shown]:
    """Return the rows of a table; one that came or went while it was read is left out."""
    wanted = {f"{prefix}Row{column}" for column in ("FullName", "Stale", "Lifetime")}
    for index, cells in table.items():
        if wanted <= cells.keys():
            source, row = index.split(".")
            full_name = cells[f"{prefix}RowFullName"]
            messages, sampled = cells.get(f"{prefix}Messages"), cells.get(f"{prefix}RowSampled")
            created = cells.get(f"{prefix}RowCreated")
            yield Shown(
                "SNMP",
                source,
                _thing(prefix, full_name, cells.get(f"{prefix}OsProcess")),
                row,
                full_name,
                transient=cells[f"{prefix}RowLifetime"] == "transient",
                fresh=cells[f"{prefix}RowStale"] == "false",
                length=None if messages is None else int(messages),
                sampled=None if sampled is None else moment(sampled),
                reading=reading,
                created=None if created is None else moment(created),
            )


def shown_by_jmx(
    prefix: str, source: str, attributes: Mapping[str, ReadAttribute], reading: Reading
) -> Shown:
    """Return the object of an MBean whose attributes were read; ``source`` is the number of its source."""
    full_name, sampled = attributes["StableName"].value, attributes["SampleTime"].value
    process = attributes["osProcess"].value if "osProcess" in attributes else None
    return Shown(
        "JMX",
        source,
        _thing(prefix, full_name, process),
        str(attributes["Row"].value),
        full_name,
        transient=attributes["Lifetime"].value == "transient",
        fresh=not attributes["Stale"].value,
        length=attributes["messages"].value if "messages" in attributes else None,
        sampled=None if sampled is None else dt.datetime.fromisoformat(sampled).timestamp(),
        reading=reading,
    )


def _thing(prefix: str, full_name: str, process: object) -> str:
    """Return the thing as `BrokerTruth` names it: a node with its process, where that is known."""
    name = without_incarnation(full_name)
    return f"{prefix} {name}" if process is None else f"{prefix} {name} {process}"


def moment(date_and_time: str) -> float:
    """Return the seconds since 1970 of a DateAndTime of net-snmp's: ``2026-11-20,12:19:26.1,+0:0``."""
    day, clock, _ = date_and_time.split(",")
    moment = dt.datetime.strptime(f"{day} {clock}", "%Y-%m-%d %H:%M:%S.%f").replace(tzinfo=dt.UTC)
    return moment.timestamp()
