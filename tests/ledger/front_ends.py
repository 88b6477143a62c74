"""The objects of a churned broker in SNMP and JMX, compared with the living objects of the ledger.

They are read with net-snmp's ``snmpbulkwalk`` and a plain Java client, as by an operator.
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
from tests.components.jmx_client import JmxClient, JmxClientError, ReadAttribute, attribute_of
from tests.end_to_end.shown import moment
from tests.ledger.lives import Life, Truth
from tests.ledger.receiving import Received
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
"""The compared classes, and the properties that form the names of their objects in the ledger."""

DATE_AND_TIME_SECONDS = 0.1
"""The resolution of times in SNMP; that of JMX is a millisecond."""

Name: TypeAlias = tuple[str, str]
"""The class of an object and its name in the ledger."""


@dataclass(frozen=True, slots=True)
class Shown:
    """An object as a front end shows it.

    Attributes:
        northbound: ``SNMP`` or ``JMX``.
        source: the name of its source.
        name: its class and its name in the ledger; of objects outside the ledger, the same properties.
        identity: its row in SNMP, its ObjectName in JMX.
        row: its row in either.
        full_name: its unique name within its class and source.
        stale: whether it is shown as stale.
        created: seconds since 1970; ``None`` where no time is shown.
        published: the number of messages of a queue, where it is shown.
    """

    northbound: str
    source: str
    name: Name
    identity: str
    row: int
    full_name: str
    stale: bool
    created: float | None
    published: int | None


def by_snmp(snmp: SnmpCommands) -> list[Shown]:
    """Return all objects of the compared classes in SNMP, except rows that began or ended during the walk.

    Channels of other users are left out: see `OTHER_USERS`.

    Raises:
        SnmpCommandError: no answer arrived.
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
    """The login of a Java client: see `JmxClient.connect`."""

    jar: Path
    address: str
    user: str
    password: str


def by_jmx(access: JmxAccess) -> list[Shown]:
    """Return all MBeans of the compared classes, except those that ended meanwhile.

    Channels of other users are left out: see `OTHER_USERS`.

    Raises:
        JmxClientError: no answer arrived.
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
        (
            class_name,
            "|".join(attributes[attribute_of(element)].value or "" for element in CALLED_BY[class_name]),
        ),
        name,
        attributes["Row"].value,
        attributes["StableName"].value,
        attributes["Stale"].value,
        None if created is None else dt.datetime.fromisoformat(created).timestamp(),
        published,
    )


def differences(shown: Iterable[Shown], truth: Truth, received: Mapping[str, Received]) -> Iterator[str]:
    """Yield the differences between a front end and the ledger, one line each.

    Args:
        shown: all objects of one front end.
        truth: the true state according to the ledger.
        received: the times in which each source missed events.
    """
    found: defaultdict[str, dict[Name, Shown]] = defaultdict(dict)
    for one in shown:
        where = f"{one.northbound}: {' '.join(one.name)} of {one.source}"
        if one.stale:
            yield f"{where}: stale"
        if one.name in truth.lives:
            if one.name in found[one.source]:
                yield f"{where}: there twice, {found[one.source][one.name].identity} and {one.identity}"
            found[one.source][one.name] = one
    for source, reported_to in received.items():
        for name, lives in truth.lives.items():
            if name[0] in CALLED_BY:
                wrongs = _wrongs(found[source].get(name), lives, truth.published_to(name), reported_to)
                yield from (f"{' '.join(name)} of {source}: {wrong}" for wrong in wrongs)


def _wrongs(
    one: Shown | None, lives: list[Life], published: tuple[int, int] | None, received: Received
) -> Iterator[str]:
    """Yield the differences between an object, shown or not, and the last of its lives."""
    life = lives[-1]
    if one is None:
        if life.ended is None and life.sure:
            yield "is not shown, and lives"
        return
    if life.ended is not None and life.end_sure:
        yield f"{one.northbound} shows it, and it has ended"
    if one.name[0] != "binding":
        inexact = DATE_AND_TIME_SECONDS if one.northbound == "SNMP" else 0.0
        wrongs = [
            list(
                wrong_creation(
                    one.created, replace(at, created=(at.created[0] - inexact, at.created[1])), received
                )
            )
            for at in _last_lives(lives, received)
        ]
        if all(wrongs):
            yield from (f"{one.northbound}: {wrong}" for wrong in wrongs[0])
    if published is not None and not published[0] <= (one.published or 0) <= published[1]:
        yield f"{one.northbound}: {one.published} messages of {published[0]}"


def _last_lives(lives: list[Life], received: Received) -> Iterator[Life]:
    """Yield the last life, and those before it that may be taken for the same, latest first."""
    yield lives[-1]
    for one, next_one in reversed(list(pairwise(lives))):
        if not received.may_be_the_same(one, next_one):
            return
        yield one


@dataclass
class Sightings:
    """Objects shown at several times; their identities stay, and none is used for two objects."""

    _first: dict[tuple[str, str, Name], tuple[float, Shown]] = field(default_factory=dict)
    _rows: dict[tuple[str, str, int], str] = field(default_factory=dict)

    def note(self, shown: Iterable[Shown], truth: Truth) -> Iterator[str]:
        """Yield the differences from the objects that were shown before.

        Args:
            shown: the objects of one front end now.
            truth: the true state now, according to the ledger.
        """
        now = time.time()
        for one in shown:
            where = f"{one.northbound}: {' '.join(one.name)} of {one.source}"
            full_name = self._rows.setdefault((one.source, one.name[0], one.row), one.full_name)
            if full_name != one.full_name:
                yield f"{where}: has the row of {full_name}"
            key = (one.northbound, one.source, one.name)
            seen, first = self._first.setdefault(key, (now, one))
            if first.identity == one.identity:
                continue
            lives = truth.lives.get(one.name, ())
            if lives and _is_of_another_life(first, lives[-1]):
                self._first[key] = now, one
            elif any(life.created[1] < seen and life.ended is None and life.sure for life in lives):
                yield f"{where}: was {first.identity}, is {one.identity}, and lived throughout"


def _is_of_another_life(shown: Shown, life: Life) -> bool:
    """Return whether an object shown as stale is a former life; a durable subscription catches up in order.

    The time of an object that began in a gap is unknown; while it is stale it may be a former life.
    """
    begun = (life.created[0] - DATE_AND_TIME_SECONDS, life.created[1])
    if shown.created is None:
        return shown.stale and shown.name[0] != "binding"  # which never has a time
    return shown.stale and not within(shown.created, begun, MILLISECONDS)
