"""The content of the ledger: lives with their begin and end, and the number of published messages."""

from __future__ import annotations

import json
from bisect import bisect
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

Line: TypeAlias = Mapping[str, Any]
Span: TypeAlias = tuple[float, float]
"""The earliest and the latest time of an act; seconds since 1970."""


class Kill(NamedTuple):
    """A kill of a victim, and the restart of the broker; seconds since 1970.

    Attributes:
        victim: see `Plant.process`, or ``broker``.
        began: the time just before the kill.
        died: the time just after the kill.
        ended: the time at which the broker served again; of other victims it is `died`.
    """

    victim: str
    began: float
    died: float
    ended: float


OVERDUE_SECONDS = 10.0
"""The longest time after a client's timeout at which the broker may still carry out its request."""

UNDONE_SECONDS = 3.0
"""The time before a kill within which acts may be undone, because the broker writes them later."""

_LASTING = frozenset({"durable", "user"})
"""Kinds of objects that outlive a broker that is killed."""

_OWNERS = frozenset({"connection", "channel", "queue"})
"""Classes of objects with which others end; the line of a begin names its owners."""


@dataclass
class Life:
    """One life of one object.

    Attributes:
        created: the span of its begin.
        kind: ``durable``, ``transient`` or ``exclusive``; its class, if the object has no such kind.
        ended: the span of its end; ``None`` while it lives.
        sure: whether it certainly existed; not so if the request was not answered.
        end_sure: whether it certainly ended.
        may_return: whether its end may be undone: then its end was reported, and the object that exists after
            that is reported as another life.
        may_vanish: whether its begin may be undone, after it was reported: then no event reports its end.
        within: lives with which it ends, if not before.
        given_up: the time from which on its client may have ended it: aiormq closes a channel whose opening
            it awaits no longer.
    """

    created: Span
    kind: str
    ended: Span | None = None
    sure: bool = True
    end_sure: bool = True
    may_return: bool = False
    may_vanish: bool = False
    within: list[Life] = field(default_factory=list)
    given_up: float = float("inf")

    def end(self, span: Span, *, sure: bool) -> None:
        """End the life, unless it has already ended."""
        if self.ended is None:
            self.ended, self.end_sure = span, sure


@dataclass
class Truth:
    """The true state according to the ledger.

    Attributes:
        lives: the lives of each object in order, by class and name.
        published: confirmed messages, by queue.
        unconfirmed: further messages that may have been taken, by queue.
        counted: those of ``published`` that the broker has counted since its last start, by queue.
        doubtful: those of ``unconfirmed`` that the broker may have counted since its last start, by queue.
        sent: begin and end of each group of messages, and the number of messages confirmed after it, by
            queue.
        outages: the kills of the broker.
    """

    lives: dict[tuple[str, str], list[Life]] = field(default_factory=dict)
    published: Counter[str] = field(default_factory=Counter)
    unconfirmed: Counter[str] = field(default_factory=Counter)
    counted: Counter[str] = field(default_factory=Counter)
    doubtful: Counter[str] = field(default_factory=Counter)
    sent: defaultdict[str, list[tuple[float, float, int]]] = field(default_factory=lambda: defaultdict(list))
    outages: list[Kill] = field(default_factory=list)

    def published_to(self, name: tuple[str, str]) -> tuple[int, int] | None:
        """Return the least and the greatest number of messages of an object, or ``None`` if it has none.

        The broker counts from its last start on.

        Args:
            name: class and name.
        """
        class_name, queue = name
        if class_name != "queue" or queue not in self.published:
            return None
        return self.counted[queue], self.counted[queue] + self.doubtful[queue]

    def counted_by(self, queue: str, sampled: float, lag: float) -> int:
        """Return the least number of messages of a queue in a sample, counted from the broker's last start.

        Args:
            queue: its name.
            sampled: the time of the sample, seconds since 1970.
            lag: the sample has the messages that were confirmed so many seconds before.
        """
        before = [outage for outage in self.outages if outage.began <= sampled]
        if before and sampled <= before[-1].ended:
            return 0
        sent = self.sent[queue]
        first = bisect(sent, before[-1].died, key=lambda group: group[0]) if before else 0
        last = bisect(sent, sampled - lag, key=lambda group: group[1])
        if last <= first:
            return 0
        return sent[last - 1][2] - (sent[first - 1][2] if first else 0)

    def gained(self, queue: str) -> tuple[int, int]:
        """Return the least and the greatest number of messages taken by a queue; some may be unseen."""
        return self.counted[queue], self.published[queue] + self.unconfirmed[queue]


def read_ledger(path: Path) -> list[Line]:
    """Return the complete lines of a ledger; none if the file does not exist yet."""
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]


def truth(lines: Iterable[Line], kills: Iterable[Kill]) -> Truth:
    """Return the true state that follows from the lines and the kills of the broker."""
    reader = _Reader(sorted(kill for kill in kills if kill.victim == "broker"))
    for line in sorted(lines, key=lambda line: (line["to"], line["from"])):
        reader.read(line)
    return reader.result()


class _Reader:
    def __init__(self, outages: list[Kill]) -> None:
        self._outages = outages
        self._found = Truth(outages=outages)
        self._within: dict[tuple[str, str], list[Life]] = {}

    def read(self, line: Line) -> None:
        name, sure = line.get("name", ""), line["outcome"] == "done"
        span = line["from"], line["to"] + (0.0 if sure else OVERDUE_SECONDS)
        what, _, act = line["act"].partition("-")
        match act:
            case "create" | "open":
                life = Life(span, line.get("kind", what), sure=sure)
                if what == "channel" and not sure:
                    life.given_up = line["to"]
                self._begin(self._lives(what, name), life)
                for owner in _OWNERS & line.keys():
                    self._within.setdefault((owner, line[owner]), []).append(life)
                    life.within += self._lives(owner, line[owner])[-1:]
            case "delete" | "close":
                for life in [*self._lives(what, name)[-1:], *self._within.pop((what, name), ())]:
                    life.end((min(span[0], life.given_up), span[1]), sure=sure)
            case _ if what == "publish":
                self._published(name, line, sure=sure)

    def result(self) -> Truth:
        """Return the true state; transient objects end with a broker that is killed."""
        for lives in self._found.lives.values():
            for life in lives:
                self._end_with_outage(life)
                self._doubt(life)
            for life, later in pairwise(lives):
                later.sure = later.sure and life.end_sure  # it may be the same, which was never deleted
        return self._found

    def _doubt(self, life: Life) -> None:
        """Mark acts as unsure where a kill may have undone them."""
        lasts = life.kind in _LASTING
        life.may_vanish = self._may_be_undone(life.created) if lasts else self._may_be_lost(life)
        life.sure = life.sure and not life.may_vanish
        if lasts and life.ended is not None and self._may_be_undone(life.ended):
            life.end_sure, life.may_return = False, True

    def _may_be_undone(self, span: Span) -> bool:
        return any(
            outage.began - UNDONE_SECONDS <= span[1] and span[0] <= outage.ended for outage in self._outages
        )

    def _may_be_lost(self, life: Life) -> bool:
        """Return whether its client heard of its begin when its broker may have been killed already."""
        return any(
            outage.began <= life.created[1] and life.created[0] <= outage.died for outage in self._outages
        )

    def _published(self, name: str, line: Line, *, sure: bool) -> None:
        found = self._found
        found.published[name] += line["confirmed"]
        found.unconfirmed[name] += not sure
        found.sent[name].append((line["from"], line["to"], found.published[name]))
        if not self._outages or line["to"] > self._outages[-1].began:
            # Of those that were sent before it died some may have been confirmed by the next one.
            certain = not self._outages or line["from"] > self._outages[-1].died
            found.counted[name] += line["confirmed"] if certain else 0
            found.doubtful[name] += (not sure) + (0 if certain else line["confirmed"])

    def _lives(self, what: str, name: str) -> list[Life]:
        return self._found.lives.setdefault((what, name), [])

    def _begin(self, lives: list[Life], life: Life) -> None:
        """Begin a life; a former life that was not ended has ended with the broker."""
        if lives and lives[-1].ended is None:
            self._end_with_outage(lives[-1], before=life.created[0])
        lives.append(life)

    def _end_with_outage(self, life: Life, before: float = float("inf")) -> None:
        if life.kind in _LASTING:
            return
        for _, began, _, ended in self._outages:
            ended_before = life.ended is not None and life.ended[1] < began
            if life.created[1] <= began < before and not ended_before:
                # Its client may have ended it just before, and was not answered any more.
                earliest = began if life.ended is None else min(began, life.ended[0])
                life.ended, life.end_sure = (earliest, ended), True
                return
