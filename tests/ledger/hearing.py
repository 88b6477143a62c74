"""What a source can know of a broker's lives: of what it was told, of what nobody told it, and why.

RabbitMQ tells by an event when each life begins and ends. An event names a channel by its Erlang process. The
event of its opening gives that a name, and no listing does. So of a channel that was open before the source
began, or before it missed events, nobody tells the end: two listings lack it. A consumer that such a channel
begins is first seen in a listing, which has no time. The end of the connection is told by name.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gateway.eventlog.query import ask
from tests.ledger.lives import Life, Span
from tests.ledger.times import MILLISECONDS, UNDER_WAY_SECONDS, touches

LISTED_SECONDS = {"connection": 10.0, "exclusive": 10.0, "channel": 10.0, "consumer": 10.0}
"""So long after its beginning a listing shows a connection at the latest, and what belongs to it."""

READ_SECONDS = 2.0
"""The same of all else, which is listed every second."""

_STARTS = """
    SELECT last_before, began FROM (
      SELECT kind, dialect, epoch(ingest_ts) AS began,
        epoch(lag(ingest_ts) OVER (ORDER BY seq)) AS last_before,
        "values"->>'why' AS why FROM log
    ) WHERE kind = 'start' AND why IN ('began', 'recovered') AND last_before IS NOT NULL
"""
_READS_ITSELF = "SELECT count(*) FROM log WHERE kind = 'source' AND source = $source AND dialect = 'rabbitmq'"


@dataclass(frozen=True)
class Heard:
    """When a source was not told of something; seconds since 1970.

    Attributes:
        missed: its gaps.
        forgot: after one of these it knows no Erlang process from before its end.
    """

    missed: list[Span]
    forgot: list[Span]

    def begins_untold(self, life: Life) -> bool:
        """Whether a listing alone may have told of its beginning."""
        # A listing may have shown it before its event, which was on its way, arrived.
        return touches(life.created, self._early()) or self._is_unplaced(life)

    def ends_untold(self, life: Life) -> bool:
        """Whether the lack of it in listings alone may have told of its end."""
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
        """Whether the next channel's opening may have told of an end before the event of that end did.

        Queues tell the ends of consumers, channels their openings: events of one moment come in any order.
        The former channel, whose end nobody tells, has ended then with all its consumers.
        """
        if channel.kind != "channel" or channel.ended is None or not self.ends_untold(channel):
            return False
        return channel.ended[0] - UNDER_WAY_SECONDS <= ended[1]

    def may_lack(self, life: Life) -> bool:
        """Whether nothing may have told of it, or as little as of no life at all."""
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
        """Whether two lives in succession may be taken for one: nobody heard its end and the next beginning.

        A channel that only a listing has told of has no time of opening: the event of the next one's is taken
        for its own, which is late.
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
        """Whether the event of its beginning may be of what was not known: a source cannot place it."""
        if life.kind not in {"channel", "consumer"}:
            return False
        return any(self._is_unlisted(one, life.created) for one in life.within) or (
            life.kind == "consumer"
            and any(self._is_unnamed(one, life.created) for one in life.within if one.kind == "channel")
        )

    def _is_unlisted(self, life: Life, at: Span) -> bool:
        """Whether an object that began in a gap may not have been in a listing yet."""
        lag = _lag(life)
        return any(
            touches(life.created, [gap]) and at[0] <= max(life.created[1], gap[1]) + lag
            for gap in self._early()
        )

    def _is_unnamed(self, channel: Life, at: Span) -> bool:
        """Whether an event of this time may have come from a process of which the name is not known."""
        return self._is_unplaced(channel) or any(
            began - UNDER_WAY_SECONDS <= at[1] and channel.created[0] <= ended + MILLISECONDS
            for began, ended in self.forgot
        )

    def _is_short(self, life: Life, since: float) -> bool:
        """Whether it ended before a listing surely showed it."""
        return life.ended is not None and life.ended[0] <= since + _lag(life)


def forgotten(log: Path, source: str) -> Iterator[Span]:
    """When the gateway was started again, if the source itself reads the broker: from its last record on."""
    with ask(log, _READS_ITSELF, {"source": source}) as answer:
        reads_itself = any(int(str(count)) for (count,) in answer.rows)
    if reads_itself:
        with ask(log, _STARTS) as answer:
            for last_before, began in answer.rows:
                yield float(str(last_before)), float(str(began))


def _lag(life: Life) -> float:
    return LISTED_SECONDS.get(life.kind, READ_SECONDS)
