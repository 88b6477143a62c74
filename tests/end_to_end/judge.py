"""The judgement of values that are shown as fresh, and the time for which they may be after they changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from gateway.demo.demonstration import AGENT_SOURCE
from tests.end_to_end.shown import Shown
from tests.end_to_end.truth import LOOK_SECONDS, MARKER, Timeline

BROKER_SECONDS = 30.0
"""The maximum time for which a thing or a value may be shown as fresh after its end.

Here a reading is up to 6 s old when the next begins, and after 10 s without an answer it is shown as stale;
the rest is for a machine that is busy.
"""

AGENT_SECONDS = 20.0
"""The maximum time for which a silent agent is trusted: three heartbeats of 2 s; the rest as above."""

CORE_SECONDS = 10.0
"""The maximum time for which a core that has ended is trusted.

The end of its feed is noticed at once; the rest as above.
"""

SAMPLE_SECONDS = 5.0
"""The interval in which the broker's queues report their lengths, and in which the broker collects these."""

LISTING_SECONDS = 20.0
"""The maximum time until an end without an event is noticed: a reading that begins later must lack it."""

TRUSTED = frozenset({"synchronised", "degraded", "synchronising"})
"""The trusted states of a source.

A source that is read again was trusted before, or is stale for another reason.
"""

AGENT, CORE = "process agent", "process core"


class Judge:
    """The judge of shown objects, by comparison with the true state of the broker.

    Args:
        last_seen: returns when the broker was last seen to have a thing; 0 for never.
        answered: returns when it last answered before a moment: its statistics stand still while it does.
        back_since: returns when the broker was first seen since it was away; 0 while it is.
        lengths: of the marker queue.
    """

    def __init__(
        self,
        last_seen: Callable[[str], float],
        answered: Callable[[float], float],
        back_since: Callable[[], float],
        lengths: Timeline[int],
    ) -> None:
        self._last_seen = last_seen
        self._answered = answered
        self._back_since = back_since
        self._lengths = lengths
        self._alive: dict[str, float] = {}
        self._first: dict[tuple[str, str], tuple[str, float, bool]] = {}
        self._doubted: dict[str, tuple[float, float]] = {}
        self._trusted_since: dict[str, float] = {}
        self._names: dict[tuple[str, str, str], str] = {}
        self._rows: dict[tuple[str, str], str] = {}

    def is_alive(self, process: str, now: float) -> None:
        """Note that `AGENT` or `CORE` lives now."""
        self._alive[process] = now

    def source_is(self, source: str, state: str, since: float, now: float) -> None:
        """Note the state of a source in SNMP now, and the time since when it has that state."""
        if state in TRUSTED:
            self._doubted.pop(source, None)
        else:
            self._doubted[source] = (self._doubted.get(source, (now, now))[0], now)
        if state == "synchronised":
            self._trusted_since[source] = since

    def lies(self, shown: Shown, source: str) -> Iterator[str]:
        """Yield the errors of a shown object, by comparison with the last look at the broker.

        Args:
            shown: read before that look.
            source: name of its source.
        """
        yield from self._numbers(shown, source)
        begun, ended = shown.reading
        first, again = self._incarnation(shown, source)
        if not shown.fresh:
            return
        seen = self._seen(shown, first, again=again)
        waits = [("the broker has it no more", seen, BROKER_SECONDS)]
        waits.append(("the core is gone", self._alive.get(CORE, begun), CORE_SECONDS))
        if source == AGENT_SOURCE:
            waits.append(("the agent is gone", self._alive.get(AGENT, begun), AGENT_SECONDS))
        doubted, still = self._doubted.get(source, (0.0, 0.0))
        if still >= ended:  # it may have been believed again meanwhile
            waits.append(("its source is not believed", doubted, CORE_SECONDS))
        for reason, since, limit in waits:
            if begun - since > limit:
                yield f"{_who(shown, source)} is shown as fresh, but {reason}, since {begun - since:.1f} s"
        trusted_since = self._trusted_since.get(source, 0.0)
        # What went with a broker that was away itself is not looked for: nothing of it may come back.
        was_away = self._back_since()
        latest = max(trusted_since - LISTING_SECONDS, was_away if was_away < trusted_since else 0.0)
        if seen < latest and begun > trusted_since:
            yield (
                f"{_who(shown, source)} is shown as fresh, but had gone {trusted_since - seen:.1f} s before"
                " everything was read again"
            )
        if shown.thing == f"rmqQueue {MARKER}" and shown.length is not None:
            counted = begun - BROKER_SECONDS
            if shown.sampled is not None:
                counted = self._counted(max(shown.sampled, counted))
            possible = self._lengths.held(counted, ended)
            if possible and shown.length not in possible:
                age = f"{begun - (shown.sampled or 0):.1f} s old"
                yield (
                    f"{_who(shown, source)} is shown as fresh with {shown.length} messages, {age},"
                    f" but had {min(possible)} to {max(possible)}"
                )

    def _seen(self, shown: Shown, first: float, *, again: bool) -> float:
        """Return when the broker had it last, as far as it was observed.

        A thing that came and went between two looks of ours was never seen: it counts from when it was shown
        first. So does a connection that has the port, and so the name, of one long gone: its row is another
        one, or it was made later.
        """
        last_seen = self._last_seen(shown.thing)
        if last_seen and shown.created is not None:
            last_seen = max(last_seen, shown.created)
        return max(last_seen, first) if again else last_seen or first

    def _counted(self, sampled: float) -> float:
        """Return the earliest time at which a queue may have counted what the broker reported at a moment.

        A queue reports its counts at intervals, and the broker collects its reports at intervals.
        """
        return self._turn_before(self._turn_before(sampled))

    def _turn_before(self, moment: float) -> float:
        """Return the latest time of the last turn before a moment; a broker that stands still has none."""
        latest = moment - SAMPLE_SECONDS
        answered = self._answered(latest)
        return answered if latest - answered <= LOOK_SECONDS else answered - SAMPLE_SECONDS

    def _incarnation(self, shown: Shown, source: str) -> tuple[float, bool]:
        """Return when this row was shown first, and whether another row of the thing was shown before."""
        place = (source, shown.thing)
        row, first, again = self._first.get(place, (shown.row, shown.reading[0], False))
        if row != shown.row:
            first, again = shown.reading[0], shown.transient
        self._first[place] = (shown.row, first, again)
        return first, again

    def _numbers(self, shown: Shown, source: str) -> Iterator[str]:
        """Yield the rows that became another object's, and the durable objects that got another row."""
        prefix = shown.thing.split(" ", 1)[0]
        place = (source, prefix, shown.row)
        former = self._names.setdefault(place, shown.full_name)
        if former != shown.full_name:
            self._names[place] = shown.full_name
            yield f"row {shown.row} of {prefix} ({source}) was {former!r}, is {shown.full_name!r}"
        if not shown.transient:
            name = (source, f"{prefix} {shown.full_name}")
            row = self._rows.setdefault(name, shown.row)
            if row != shown.row:
                self._rows[name] = shown.row
                yield f"{shown.full_name!r} ({prefix}, {source}) had the row {row}, has now {shown.row}"


def _who(shown: Shown, source: str) -> str:
    return f"{shown.northbound}: {shown.thing} ({source}, row {shown.row})"
