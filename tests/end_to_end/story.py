"""The traps and notifications about a fault, from before it to after it."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Self

from gateway.demo.demonstration import AGENT_SOURCE, SOURCE
from gateway.demo.snmp_commands import PrintedNotification
from tests.end_to_end.observer import Observer
from tests.end_to_end.rightness import Rightness

STARTS = {"coldStart", "warmStart"}


@dataclass(slots=True)
class Story:
    """The traps and notifications before a fault, for comparison with those after it.

    Attributes:
        traps: their number.
        repeated: event ids that are in more than one trap.
        untrue: keys of errors by then (`untrue`): a test before this one has failed for that.
        epoch: number of starts of the core.
    """

    _observer: Observer
    _rightness: Rightness
    traps: int
    repeated: frozenset[str]
    untrue: frozenset[str]
    epoch: int

    @classmethod
    async def begin(cls, observer: Observer, rightness: Rightness) -> Self:
        """Begin the story when all is right."""
        traps = await rightness.traps()
        known = frozenset(untrue(traps, rightness.notifications))
        return cls(observer, rightness, len(traps), repeated(traps), known, await observer.epoch())

    async def publishes(self, name: str, **facts: str) -> PrintedNotification:
        """Return the first of the traps that `found` finds; there must be one."""
        found = await self.found(name, **facts)
        if not found:
            named = "\n".join(str(trap.values) for trap in await self.found(name))
            raise AssertionError(f"no trap {name} with {facts}, but\n{named}")
        return found[0]

    async def found(self, name: str, **facts: str) -> list[PrintedNotification]:
        """Return the traps of this name since the beginning whose varbinds contain these texts."""
        return [
            trap
            for trap in (await self._rightness.traps())[self.traps :]
            if trap.name == name and all(text in trap.values.get(key, "") for key, text in facts.items())
        ]

    async def end(self, killed: Collection[str] = ()) -> None:
        """Check that all is right again, after these were killed: what was killed twice is there twice."""
        with contextlib.suppress(AssertionError):
            # What was suppressed is reported a second after the flood.
            await self._observer.until("events have traps, or count as suppressed", self._has_no_news)
        traps = await self._rightness.traps()
        news = self._news(traps)
        assert not news, "\n".join(news)
        kills = Counter(killed)
        epoch = self.epoch + kills["core"]
        names = Counter(trap.name for trap in traps[self.traps :])
        if "snmp" not in killed:
            # What was sent in the last second of the process's life may be sent again by the next one.
            assert repeated(traps) == self.repeated
            assert not STARTS & names.keys()

        async def is_last_core() -> bool:
            return await self._observer.epoch() >= epoch

        if "core" in killed:
            # All may look right for a moment after a kill: what is shown is fresh still.
            await self._observer.until("the core after the last kill runs", is_last_core)
            await self._rightness.again()
        assert await self._observer.epoch() == epoch
        if kills.keys() == {"snmp"}:
            # One that is killed while it starts may not have sent its own.
            assert names["warmStart"] + names["coldStart"] in range(1, kills["snmp"] + 1)
        if kills.keys() == {"broker"}:
            self._source_went_and_came(traps)

    async def _has_no_news(self) -> bool:
        return not self._news(await self._rightness.traps())

    def _news(self, traps: list[PrintedNotification]) -> list[str]:
        found = untrue(traps, self._rightness.notifications)
        return [line for what, line in found.items() if what not in self.untrue]

    def _source_went_and_came(self, traps: list[PrintedNotification]) -> None:
        for source in (SOURCE, AGENT_SOURCE):
            reported = [
                trap.name
                for trap in traps[self.traps :]
                if trap.values.get("agEventSource") == source and trap.name in {"agSourceDown", "agSourceUp"}
            ]
            assert reported[:1] == ["agSourceDown"], (source, reported)
            assert reported[-1:] == ["agSourceUp"], (source, reported)


def numbers(traps: list[PrintedNotification]) -> dict[str, list[int]]:
    """Return the numbers of the gateway's events in the order of their traps, by boot."""
    found: dict[str, list[int]] = {}
    for trap in traps:
        boot, _, number = trap.values.get("agEventId", "").rpartition(".")
        if number.isdecimal():  # the SNMP agent's own have a letter before it
            found.setdefault(boot, []).append(int(number))
    return found


def untrue(traps: list[PrintedNotification], notifications: list[dict[str, Any]]) -> dict[str, str]:
    """Return the errors of traps and notifications, a line each, by their kind and the event's id."""
    return contradictions(traps, notifications) | holes(traps, notifications)


def holes(traps: list[PrintedNotification], notifications: list[dict[str, Any]]) -> dict[str, str]:
    """Return the events without a trap before events with one; with the text that JMX has for them.

    Where the gateway could not run for long, more events come at once than the receiver's rate permits. The
    traps that are not sent then are counted by agEventsSuppressed.
    """
    texts = {one["data"]["eventId"]: one["message"] for one in notifications if one.get("data")}
    missing = [
        f"{boot}.{number}"
        for boot, reported in numbers(traps).items()
        for number in sorted(set(range(1, max(reported) + 1)) - set(reported))
    ]
    if len(missing) <= suppressed(traps):
        return {}
    return {f"hole {one}": f"no trap told of {one} ({texts.get(one, 'nor did JMX')})" for one in missing}


def suppressed(traps: list[PrintedNotification]) -> int:
    """Return how many notifications were not sent for the rate of the receiver, as it was notified."""
    counts = [trap.values["agEventSuppressedCount"] for trap in traps if trap.name == "agEventsSuppressed"]
    return sum(int(count.split()[0]) for count in counts)


def repeated(traps: list[PrintedNotification]) -> frozenset[str]:
    """Return the event ids that are in more than one trap."""
    counts = Counter(trap.values.get("agEventId", "") for trap in traps)
    return frozenset(event_id for event_id, count in counts.items() if count > 1)


def contradictions(traps: list[PrintedNotification], notifications: list[dict[str, Any]]) -> dict[str, str]:
    """Return the event ids of more than one event, and those that a listener received twice."""
    reported = [(trap.values.get("agEventId", ""), trap.values.get("agEventText", "")) for trap in traps]
    received = [
        (str(one["data"]["eventId"]), str(one["message"])) for one in notifications if one.get("data")
    ]
    texts: dict[str, str] = {}
    lines = {
        f"two of {event_id}": f"event {event_id} is {texts[event_id]!r} and {text!r}"
        for event_id, text in [*reported, *received]
        if texts.setdefault(event_id, text) != text
    }
    counts = Counter(event_id for event_id, _ in received)
    return lines | {
        f"again {event_id}": f"JMX told {count} times of {event_id}"
        for event_id, count in counts.items()
        if count > 1
    }
