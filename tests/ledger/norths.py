"""What SNMP and JMX show of a churned broker, held against what the ledger says is alive.

Asked by net-snmp's ``snmpbulkwalk`` and a plain Java client, as an operator would.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import TypeAlias

from gateway.demo.snmp_commands import SnmpCommands
from tests.components.jmx_client import JmxClient, JmxClientError, ReadAttribute
from tests.end_to_end.shown import moment
from tests.ledger.hearing import Heard
from tests.ledger.lives import Life, Truth
from tests.ledger.times import MILLISECONDS, within
from tests.ledger.verdict import OTHER_USERS, wrong_creation

CALLED_BY = {
    "queue": ("name",),
    "exchange": ("name",),
    "connection": ("providedName",),
    "channel": ("name",),
    "consumer": ("queue", "channel", "tag"),
    "binding": ("routingKey",),
}
"""The classes that are looked at, and the properties by which the ledger knows objects of each."""

DATE_AND_TIME_SECONDS = 0.1
"""How exactly SNMP tells times; JMX tells milliseconds."""

Name: TypeAlias = tuple[str, str]
"""Class and what the ledger calls an object."""


@dataclass(frozen=True, slots=True)
class Shown:
    """An object as a north shows it.

    Attributes:
        north: ``SNMP`` or ``JMX``.
        source: its name.
        name: class and what the ledger calls it; of others whatever they have there.
        identity: its row in SNMP, its ObjectName in JMX.
        row: its row in either.
        full_name: what tells it from all others of its class and source.
        stale: whether nobody vouches for it.
        created: seconds since 1970; ``None`` where that is not told.
        published: messages, of a queue, where that is told.
    """

    north: str
    source: str
    name: Name
    identity: str
    row: int
    full_name: str
    stale: bool
    created: float | None
    published: int | None


def by_snmp(snmp: SnmpCommands) -> list[Shown]:
    """All objects of the classes that are looked at, but for rows that came or went during the walk.

    Channels of other users are left out: see `OTHER_USERS`.

    Raises:
        SnmpCommandError: nobody answers.
    """
    sources = {index: cells["agSourceName"] for index, cells in snmp.walk("agSourceTable").items()}
    shown = []
    for class_name, elements in CALLED_BY.items():
        prefix = f"rmq{class_name.capitalize()}"
        called_by = [f"{prefix}{element[0].upper()}{element[1:]}" for element in elements]
        for index, cells in snmp.walk(f"{prefix}Table").items():
            source, row = index.split(".")
            if not {f"{prefix}RowFullName", f"{prefix}RowStale", *called_by} <= cells.keys():
                continue
            if cells.get(f"{prefix}User") in OTHER_USERS and class_name == "channel":
                continue
            created, published = cells.get(f"{prefix}RowCreated"), cells.get(f"{prefix}MessagesPublished")
            shown.append(
                Shown(
                    "SNMP",
                    sources[source],
                    (class_name, "|".join(cells[column] for column in called_by)),
                    row,
                    int(row),
                    cells[f"{prefix}RowFullName"],
                    cells[f"{prefix}RowStale"] == "true",
                    None if created is None else moment(created),
                    None if published is None else int(published),
                )
            )
    return shown


@dataclass(frozen=True, slots=True)
class JmxAccess:
    """How a Java client logs in: see `JmxClient.connect`."""

    jar: Path
    address: str
    user: str
    password: str


def by_jmx(access: JmxAccess) -> list[Shown]:
    """All MBeans of the classes that are looked at, but for those that went meanwhile.

    Channels of other users are left out: see `OTHER_USERS`.

    Raises:
        JmxClientError: nobody answers.
    """
    return asyncio.run(_by_jmx(access))


async def _by_jmx(access: JmxAccess) -> list[Shown]:
    shown = []
    async with await JmxClient.connect(access.jar, access.address, access.user, access.password) as client:
        for class_name in CALLED_BY:
            for name in await client.names(f"amqp.gateway:package=rabbitmq,type={class_name},*"):
                try:
                    attributes = await client.read(name)
                except JmxClientError as error:
                    if "InstanceNotFoundException" not in str(error):
                        raise
                    continue
                if "StableName" not in attributes:
                    continue  # it went between the two questions of a reading
                if class_name != "channel" or attributes["user"].value not in OTHER_USERS:
                    shown.append(_bean(class_name, name, attributes))
    return shown


def _bean(class_name: str, name: str, attributes: Mapping[str, ReadAttribute]) -> Shown:
    created = attributes["CreateTime"].value
    published = attributes["messagesPublished"].value if class_name == "queue" else None
    return Shown(
        "JMX",
        attributes["Source"].value,
        (class_name, "|".join(attributes[element].value or "" for element in CALLED_BY[class_name])),
        name,
        attributes["Row"].value,
        attributes["StableName"].value,
        attributes["Stale"].value,
        None if created is None else dt.datetime.fromisoformat(created).timestamp(),
        published,
    )


def differences(shown: Iterable[Shown], truth: Truth, heard: Mapping[str, Heard]) -> Iterator[str]:
    """What a north shows that the ledger contradicts, one line each.

    Args:
        shown: by one north, everything.
        truth: what the ledger says.
        heard: by source, what it could know.
    """
    found: defaultdict[str, dict[Name, Shown]] = defaultdict(dict)
    for one in shown:
        where = f"{one.north}: {' '.join(one.name)} of {one.source}"
        if one.stale:
            yield f"{where}: stale"
        if one.name in truth.lives:
            if one.name in found[one.source]:
                yield f"{where}: there twice, {found[one.source][one.name].identity} and {one.identity}"
            found[one.source][one.name] = one
    for source, told_to in heard.items():
        for name, lives in truth.lives.items():
            if name[0] in CALLED_BY:
                wrongs = _wrongs(found[source].get(name), lives, truth.published_to(name), told_to)
                yield from (f"{' '.join(name)} of {source}: {wrong}" for wrong in wrongs)


def _wrongs(
    one: Shown | None, lives: list[Life], published: tuple[int, int] | None, heard: Heard
) -> Iterator[str]:
    """What is wrong with the last of an object's lives as it is shown, or not shown."""
    life = lives[-1]
    if one is None:
        if life.ended is None and life.sure:
            yield "is not shown, and lives"
        return
    if life.ended is not None and life.end_sure:
        yield f"{one.north} shows it, and it has ended"
    if one.name[0] != "binding":
        inexact = DATE_AND_TIME_SECONDS if one.north == "SNMP" else 0.0
        wrongs = [
            list(
                wrong_creation(
                    one.created, replace(at, created=(at.created[0] - inexact, at.created[1])), heard
                )
            )
            for at in _last_lives(lives, heard)
        ]
        if all(wrongs):
            yield from (f"{one.north}: {wrong}" for wrong in wrongs[0])
    if published is not None and not published[0] <= (one.published or 0) <= published[1]:
        yield f"{one.north}: {one.published} messages of {published[0]}"


def _last_lives(lives: list[Life], heard: Heard) -> Iterator[Life]:
    """The last life, and those before it that may be taken for the same; the last one first."""
    yield lives[-1]
    for one, next_one in reversed(list(pairwise(lives))):
        if not heard.may_be_the_same(one, next_one):
            return
        yield one


@dataclass
class Sightings:
    """What was shown at several times: identities stay, and none is used for two things."""

    _first: dict[tuple[str, str, Name], tuple[float, Shown]] = field(default_factory=dict)
    _rows: dict[tuple[str, str, int], str] = field(default_factory=dict)

    def note(self, shown: Iterable[Shown], truth: Truth) -> Iterator[str]:
        """Compare with what was shown before.

        Args:
            shown: by one north, now.
            truth: what the ledger says now.
        """
        now = time.time()
        for one in shown:
            where = f"{one.north}: {' '.join(one.name)} of {one.source}"
            full_name = self._rows.setdefault((one.source, one.name[0], one.row), one.full_name)
            if full_name != one.full_name:
                yield f"{where}: has the row of {full_name}"
            key = (one.north, one.source, one.name)
            seen, first = self._first.setdefault(key, (now, one))
            if first.identity == one.identity:
                continue
            lives = truth.lives.get(one.name, ())
            if lives and _is_of_another_life(first, lives[-1]):
                self._first[key] = now, one
            elif any(life.created[1] < seen and life.ended is None and life.sure for life in lives):
                yield f"{where}: was {first.identity}, is {one.identity}, and lived throughout"


def _is_of_another_life(shown: Shown, life: Life) -> bool:
    """Whether what is shown as stale is what lived before: a durable subscription catches up in order.

    Of what began in a gap no time is known; while it is stale nothing says that it is what lives now.
    """
    begun = (life.created[0] - DATE_AND_TIME_SECONDS, life.created[1])
    if shown.created is None:
        return shown.stale and shown.name[0] != "binding"  # which never has a time
    return shown.stale and not within(shown.created, begun, MILLISECONDS)
