"""Log, SNMP, JMX, receivers and tables of a churned broker after kills agree with the ledger."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TypeAlias

import pytest

from gateway.demo.broker import BrokerSettings, PrivateBroker
from gateway.demo.snmp_commands import SnmpCommandError
from tests.components.jmx_client import JmxClientError
from tests.components.rabbitmq import TEST_SETTINGS
from tests.components.waiting import wait_until
from tests.hypothesis_profiles import PROVING
from tests.ledger import tables
from tests.ledger.absences import unexplained
from tests.ledger.front_ends import Shown, Sightings, by_jmx, by_snmp, differences
from tests.ledger.happenings import untold
from tests.ledger.lives import Truth
from tests.ledger.plant import RELAYED, SOURCES, Plant, plant
from tests.ledger.times import reported_time
from tests.ledger.verdict import received, violations

VICTIMS = (
    *("core", "supervisor", "snmp", "jmx", "jvm", "compactor"),
    *(["agent"] if RELAYED in SOURCES else []),
    "broker",
)
KILLS = {"3.10": 200, "4.0": 50} if PROVING else {"3.10": len(VICTIMS)}
"""The number of kills, by release of the broker; on 4.0 the same processes are killed, in a proof only."""
KILLED_TWICE: Mapping[str, tuple[str, ...]] = {
    "3.10": ("core", "supervisor", "core") if PROVING else ("core", "supervisor"),
    "4.0": (),
}
"""Victims that are killed once more, in the first seconds of their restart."""
SEED = 756 if PROVING else 329
"""The seed of the churn and of the choice of victims.

The first kills end the agent, or without one the JMX process, while the broker recovers, the JVM while the
SNMP process does, and the supervisor while the core does.
"""
TABLES_LOOKS = (tables.differences, tables.report_differences) if PROVING else ()
"""The checks of the tables: Spark takes as much of the processor as broker and gateway together.

Without a proof, `tests.demo_check` compares what Spark counts of a living broker with another ledger.
"""
SETTLED_SECONDS = 120.0
LONGEST_WAIT = 200
"""The most acts between two kills: some seconds of a quiet machine."""
CALM = 400 if PROVING else 200
"""The acts before the first kill, and after everything was read again at the end; none may be missed."""
LONGEST_START = 150
"""The most acts from the first sign of a restarted process to its second kill; it may be ready by then."""

Look: TypeAlias = Callable[[], Iterable[str]]
"""A check that returns one line for each difference."""


@pytest.mark.long
@pytest.mark.each_rabbitmq(until="4.0" if PROVING else "3.10")
@pytest.mark.timeout(7200 if PROVING else 3600)
@pytest.mark.xdist_group("ledger")
def test_log_and_front_ends_agree_with_the_ledger_over_kills(
    tmp_path: Path,
    start_rabbitmq: Callable[[BrokerSettings], PrivateBroker],
    rabbitmq_release: str,
    record_property: Callable[[str, object], None],
) -> None:
    chance = random.Random(SEED)  # noqa: S311  repeatable on purpose
    with plant(start_rabbitmq(TEST_SETTINGS), tmp_path, SEED) as made:
        sightings = Sightings()
        _until_right(made, {"shown at first": partial(_shown, made, sightings)}, record_property)
        made.after(CALM)
        for number, victim in zip(range(KILLS[rabbitmq_release]), _victims(chance), strict=False):
            # Every other kill comes while the former victim recovers.
            made.after(chance.randrange(LONGEST_WAIT if number % 2 == 0 else LONGEST_WAIT // 10))
            made.kill(victim)
        for victim in KILLED_TWICE[rabbitmq_release]:
            made.after(chance.randrange(LONGEST_WAIT))
            made.kill(victim)
            made.kill(victim, chance.randrange(LONGEST_START))
        # Once more when everything was read again: what the broker did before and after that is in no gap of
        # the durable subscription.
        made.read_again()
        made.after(chance.randrange(LONGEST_WAIT))
        made.kill("core")
        made.read_again()
        made.after(CALM)
        truth = made.rest()
        looks: dict[str, Look] = {}
        for source in SOURCES:
            looks[f"lives and counters of {source}"] = partial(violations, made.log, source, truth)
            looks[f"events of {source}"] = partial(untold, made.log, source, truth)
        looks["shown"] = partial(_shown, made, sightings, truth)
        last_looks: dict[str, Look] = {  # at what may be too much: not before the rest is there
            "received": partial(made.receivers.differences, made.log, made.kills),
            **{
                f"gaps of {one}": partial(unexplained, made.reading(one), made.kills, truth)
                for one in SOURCES
            },
        }
        for victim in VICTIMS:
            record_property(f"kills of {victim}", sum(kill.victim == victim for kill in made.kills))
        record_property("acts of the churn", made.acts())
        record_property("lives", sum(map(len, truth.lives.values())))
        _until_right(made, looks, record_property)
        _until_right(made, last_looks, record_property)
        made.end()
        if TABLES_LOOKS:
            tables.build(made.log, tmp_path / "tables")
        for differences_of in TABLES_LOOKS:
            found = list(differences_of(made.log, tmp_path / "tables", truth, SOURCES))
            record_property(f"contradictions: {differences_of.__name__}", len(found))
            assert found == []


def _victims(chance: random.Random) -> Iterator[str]:
    """Yield all victims in random order, repeatedly."""
    while True:
        yield from chance.sample(VICTIMS, len(VICTIMS))


def _shown(made: Plant, sightings: Sightings, at_rest: Truth | None = None) -> Iterator[str]:
    """Yield the differences between SNMP and JMX and the ledger."""
    front_ends: tuple[Callable[[], list[Shown]], ...] = (lambda: by_snmp(made.snmp), lambda: by_jmx(made.jmx))
    for northbound in front_ends:
        shown = [one for one in northbound() if one.source in SOURCES]
        yield from sightings.note(shown, at_rest or made.truth())
        if at_rest is not None:
            yield from differences(shown, at_rest, {source: received(made.log, source) for source in SOURCES})


def _until_right(
    made: Plant, looks: Mapping[str, Look], record_property: Callable[[str, object], None]
) -> None:
    """Wait until each check has once found no difference from the ledger; record how many are left."""
    found: dict[str, list[str]] = {what: [] for what in looks}

    def right() -> bool:
        made.keep_running()
        for what in list(found):
            found[what] = _found(looks[what])
            if not found[what]:
                del found[what]
        return not found

    try:
        wait_until(right, "everything is right", SETTLED_SECONDS)
    except AssertionError as error:
        lines = [f"{what}: {line}" for what, lines in found.items() for line in lines]
        killed = [f"{kill.victim} {reported_time(kill.began)}" for kill in made.kills]
        raise AssertionError("\n".join([*lines, f"killed: {', '.join(killed)}"])) from error
    finally:
        for what in looks:
            record_property(f"contradictions: {what}", len(found.get(what, ())))


def _found(look: Look) -> list[str]:
    try:
        return list(look())
    except (SnmpCommandError, JmxClientError, KeyError) as error:
        return [f"nobody answers: {error!r}"]
