"""What may be shown as fresh, and for how long after it is true no more."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from gateway.demo.demonstration import AGENT_SOURCE
from tests.end_to_end.shown import Shown
from tests.end_to_end.truth import LOOK_SECONDS, MARKER, Timeline

BROKER_SECONDS = 30.0
"""So long after its end a thing, or a value, may be shown as fresh: here a reading is up to 6 s old when the
next begins, and after 10 s without an answer nobody vouches; the rest is for a machine that is busy."""

AGENT_SECONDS = 20.0
"""So long an agent that says nothing may be believed: three heartbeats of 2 s; the rest as above."""

CORE_SECONDS = 10.0
"""So long a core that is gone may be believed: the end of its feed is heard at once; the rest as above."""

SAMPLE_SECONDS = 5.0
"""So often the broker's queues tell how long they are, and so often it collects that."""

LISTING_SECONDS = 20.0
"""So late an end may be noticed of which no event told: what was read again later must lack it."""

BELIEVED = frozenset({"synchronised", "degraded", "synchronising"})
"""Of the states of a source: what is read again was believed before, or is stale for another reason."""

AGENT, CORE = "process agent", "process core"


class Judge:
    """Holds what is shown against what was true.

    Args:
        last_seen: when the broker was last seen to have a thing; 0 for never.
        answered: when it last answered before a moment: its statistics stand still while it does.
        back_since: when the broker was first seen since it was away; 0 while it is.
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
        self._believed_since: dict[str, float] = {}
        self._names: dict[tuple[str, str, str], str] = {}
        self._rows: dict[tuple[str, str], str] = {}

    def is_alive(self, process: str, now: float) -> None:
        """`AGENT` or `CORE` lives now."""
        self._alive[process] = now

    def source_is(self, source: str, state: str, since: float, now: float) -> None:
        """What SNMP says of a source now, and since when it is so."""
        if state in BELIEVED:
            self._doubted.pop(source, None)
        else:
            self._doubted[source] = (self._doubted.get(source, (now, now))[0], now)
        if state == "synchronised":
            self._believed_since[source] = since

    def lies(self, shown: Shown, source: str) -> Iterator[str]:
        """What is wrong with it, as far as the last look at the broker tells.

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
        anew = self._believed_since.get(source, 0.0)
        # What went with a broker that was away itself is not looked for: nothing of it may come back.
        was_away = self._back_since()
        latest = max(anew - LISTING_SECONDS, was_away if was_away < anew else 0.0)
        if seen < latest and begun > anew:
            yield (
                f"{_who(shown, source)} is shown as fresh, but had gone {anew - seen:.1f} s before"
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
        """When the broker had it last, as far as anybody saw.

        What came and went between two looks of ours was never seen: it counts from when it was shown first.
        So does a connection that has the port, and so the name, of one long gone: its row is another one, or
        it was made later.
        """
        last_seen = self._last_seen(shown.thing)
        if last_seen and shown.created is not None:
            last_seen = max(last_seen, shown.created)
        return max(last_seen, first) if again else last_seen or first

    def _counted(self, sampled: float) -> float:
        """When a queue may have counted at the earliest what the broker said of it at a moment.

        It tells what it counted at times, and what it told is collected at times.
        """
        return self._turn_before(self._turn_before(sampled))

    def _turn_before(self, moment: float) -> float:
        """When the broker last did at the latest what it does at times; it does not while it stands still."""
        latest = moment - SAMPLE_SECONDS
        answered = self._answered(latest)
        return answered if latest - answered <= LOOK_SECONDS else answered - SAMPLE_SECONDS

    def _incarnation(self, shown: Shown, source: str) -> tuple[float, bool]:
        """When this row of the thing was shown first, and whether another row of it was shown before."""
        place = (source, shown.thing)
        row, first, again = self._first.get(place, (shown.row, shown.reading[0], False))
        if row != shown.row:
            first, again = shown.reading[0], shown.transient
        self._first[place] = (shown.row, first, again)
        return first, again

    def _numbers(self, shown: Shown, source: str) -> Iterator[str]:
        """Rows never become another object's; a durable object never gets another one."""
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
    return f"{shown.north}: {shown.thing} ({source}, row {shown.row})"
