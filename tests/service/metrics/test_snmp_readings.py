"""The measurements of SETs and commands by the SNMP process."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from gateway.model.operations import Outcome
from gateway.service.metrics import families
from gateway.service.metrics.families import Family, Reading
from gateway.service.processes.snmp import command_readings, set_readings
from gateway.snmp.set_requests import MAX_RUNNING
from tests.snmp.commands.owner import Command, Table
from tests.snmp.set.shop import LIMIT, READER, Shop, at, integer, set_request


def value(readings: Iterable[Reading], family: Family, *labels: str) -> float:
    (found,) = [one.value for one in readings if (one.family, one.labels) == (family.name, labels)]
    return found


async def test_each_set_counts_once_by_its_status() -> None:
    shop = Shop()
    for _ in range(3):  # the second and third are the same datagram
        await shop.set((at(LIMIT), integer(7)), (at(LIMIT), integer(7)))
    await shop.set((at(LIMIT, 9), integer(7)))
    await shop.answer(set_request([(at(LIMIT), integer(7))], community=READER))
    reported = list(set_readings(shop.counters, shop.sets))
    assert value(reported, families.SNMP_SETS, "noError") == 1
    assert value(reported, families.SNMP_SETS, "inconsistentName") == 1
    assert value(reported, families.SNMP_SETS, "noAccess") == 1
    assert value(reported, families.SNMP_SETS, "commitFailed") == 0
    assert value(reported, families.SNMP_SET_VARIABLES) == 2
    assert value(reported, families.SNMP_SET_RETRANSMISSIONS) == 2
    assert value(reported, families.SNMP_SETS_REMEMBERED) == 1


async def test_what_waits_and_what_there_was_no_room_for() -> None:
    shop = Shop()
    shop.released.clear()
    requests = [
        set_request([(at(LIMIT), integer(1))], request_id=number) for number in range(MAX_RUNNING + 2)
    ]
    waiting = [asyncio.ensure_future(shop.answer(request)) for request in requests]
    await waiting[-1]
    reported = list(set_readings(shop.counters, shop.sets))
    assert value(reported, families.SNMP_SETS_RUNNING) == value(reported, families.SNMP_SETS_RUNNING_MAX)
    assert value(reported, families.SNMP_SETS_WITHOUT_ROOM) == 2
    assert value(reported, families.SNMP_SETS, "resourceUnavailable") == 2
    shop.released.set()
    await asyncio.gather(*waiting)
    assert value(set_readings(shop.counters, shop.sets), families.SNMP_SETS_RUNNING) == 0


def test_commands_are_counted_by_what_came_of_them() -> None:
    table = Table()
    Command(table, "a").submit()
    Command(table, "b").submit()
    Command(table, "c").submit(method="move")  # without what it must be given: asked for all the same
    table.answer(Outcome.REFUSED)
    reported = list(command_readings(table.table.health))
    assert value(reported, families.SNMP_COMMANDS) == 3
    assert value(reported, families.SNMP_COMMANDS_RUNNING) == 2
    assert value(reported, families.SNMP_COMMANDS_ENDED, "refused") == 1
    assert value(reported, families.SNMP_COMMANDS_ENDED, "applied") == 0
