"""The knowledge that a source can have of a broker's lives: from events, from listings, or not at all.

RabbitMQ reports the begin and end of each life by an event. An event identifies a channel by its Erlang
process. The event of its opening gives that a name, and no listing does. So for a channel that was open
before the source began, or before it missed events, the end is not reported: two listings lack it. A consumer
that such a channel begins is first seen in a listing, which has no time. The end of the connection is
reported by name.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gateway.eventlog.query import ask
from tests.ledger.lives import Life, Span
from tests.ledger.times import MILLISECONDS, UNDER_WAY_SECONDS, touches

LISTED_SECONDS = {"connection": 10.0, "exclusive": 10.0, "channel": 10.0, "consumer": 10.0}
"""The longest time until a listing shows a connection, and objects that belong to it."""

READ_SECONDS = 2.0
"""The longest time until a listing shows any other object; these are listed every second."""

_STARTS = """
    SELECT last_before, began FROM (
      SELECT kind, dialect, epoch(ingest_ts) AS began,
        epoch(lag(ingest_ts) OVER (ORDER BY seq)) AS last_before,
        "values"->>'why' AS why FROM log
    ) WHERE kind = 'start' AND why IN ('began', 'recovered') AND last_before IS NOT NULL
"""
_READS_ITSELF = "SELECT count(*) FROM log WHERE kind = 'source' AND source = $source AND dialect = 'rabbitmq'"


@dataclass(frozen=True)
class Received:
    """The times in which a source missed events; seconds since 1970.

    Attributes:
        missed: its gaps.
        forgot: times after each of which it knows no Erlang process from before its end.
    """

    missed: list[Span]
    forgot: list[Span]

    def begins_untold(self, life: Life) -> bool:
        """Return whether the begin may have been known from a listing alone."""
        # A listing may have shown it before its event, which was on its way, arrived.
        return touches(life.created, self._early()) or self._is_unplaced(life)

    def ends_untold(self, life: Life) -> bool:
        """Return whether the end may have been known from listings alone."""
        if life.ended is None:
            return False
        if touches(life.ended, self._early()):
            return True
        if life.kind == "channel":
            ends_with_connection = any(one.ended == life.ended for one in life.within)
            return not ends_with_connection and self._is_unnamed(life, life.ended)
        if life.kind == "consumer" and any(self._ends_behind(life.ended, one) for one in life.within):
            return True
        # What ends before a listing has shown it is not known yet when its end is told.
        return life.kind == "consumer" and self._is_unplaced(life) and self._is_short(life, life.created[1])

    def _ends_behind(self, ended: Span, channel: Life) -> bool:
        """Return whether the next channel's opening may have been reported before the end of a consumer was.

        Queues report the ends of consumers, channels their openings; events of one moment are unordered.
        The former channel, whose end is not reported, has ended then with all its consumers.
        """
        if channel.kind != "channel" or channel.ended is None or not self.ends_untold(channel):
            return False
        return channel.ended[0] - UNDER_WAY_SECONDS <= ended[1]

    def may_lack(self, life: Life) -> bool:
        """Return whether the life may have been shown by neither an event nor a listing."""
        if life.ended is None:
            return False
        if self._is_unplaced(life) and self._is_short(life, life.created[1]):
            return True
        return any(
            began - UNDER_WAY_SECONDS <= life.created[1]
            and life.created[0] <= ended
            and self._is_short(life, ended)
            for began, ended in self.missed
        )

    def may_be_the_same(self, one: Life, next_one: Life) -> bool:
        """Return whether two successive lives may be taken for one: an end and the next begin were missed.

        A channel that is known only from a listing has no time of opening: the event of the next opening
        is taken for its own, which is late.
        """
        if one.ended is None:
            return False
        if touches(one.ended, self.missed) and touches(next_one.created, self.missed):
            return True
        timeless = one if one.kind == "channel" else next_one
        return one.kind in {"channel", "consumer"} and self.ends_untold(one) and self.begins_untold(timeless)

    def _early(self) -> list[Span]:
        return [(began - UNDER_WAY_SECONDS, ended) for began, ended in self.missed]

    def _is_unplaced(self, life: Life) -> bool:
        """Return whether the event of its begin may refer to an object that the source did not know."""
        if life.kind not in {"channel", "consumer"}:
            return False
        return any(self._is_unlisted(one, life.created) for one in life.within) or (
            life.kind == "consumer"
            and any(self._is_unnamed(one, life.created) for one in life.within if one.kind == "channel")
        )

    def _is_unlisted(self, life: Life, at: Span) -> bool:
        """Return whether an object that began in a gap may not have been in a listing yet."""
        lag = _lag(life)
        return any(
            touches(life.created, [gap]) and at[0] <= max(life.created[1], gap[1]) + lag
            for gap in self._early()
        )

    def _is_unnamed(self, channel: Life, at: Span) -> bool:
        """Return whether an event of this time may have come from a process whose name is not known."""
        return self._is_unplaced(channel) or any(
            began - UNDER_WAY_SECONDS <= at[1] and channel.created[0] <= ended + MILLISECONDS
            for began, ended in self.forgot
        )

    def _is_short(self, life: Life, since: float) -> bool:
        """Return whether the life ended before a listing surely showed it."""
        return life.ended is not None and life.ended[0] <= since + _lag(life)


def forgotten(log: Path, source: str) -> Iterator[Span]:
    """Yield the restarts of the gateway, each from its last record on, if the source reads the broker."""
    with ask(log, _READS_ITSELF, {"source": source}) as answer:
        reads_itself = any(int(str(count)) for (count,) in answer.rows)
    if reads_itself:
        with ask(log, _STARTS) as answer:
            for last_before, began in answer.rows:
                yield float(str(last_before)), float(str(began))


def _lag(life: Life) -> float:
    return LISTED_SECONDS.get(life.kind, READ_SECONDS)
