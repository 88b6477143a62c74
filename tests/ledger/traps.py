"""The check that each receiver got every event of the log once and by its id, or counted as lost."""

from __future__ import annotations

import datetime as dt
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from gateway.eventlog.query import ask
from tests.components.ports import free_udp_port
from tests.ledger.datagram_buffer import buffered
from tests.ledger.lives import Kill
from tests.ledger.times import ORPHANED_SECONDS, reported_time
from tests.snmp.notifications.snmptrapd import Snmptrapd, snmptrapd

_EVENTS = """
    SELECT event_id, event, coalesce(object_name, "values"::VARCHAR), coalesce(source, ''), seq,
        coalesce(resend->>'$.withheld', '')
    FROM log WHERE kind = 'event' ORDER BY seq
"""
_RAISED = "SELECT event_id, epoch(ingest_ts) FROM log WHERE kind = 'event' AND state = 'raised'"
_MADE = "SELECT \"values\"->>'events' FROM log WHERE kind = 'start'"
"""The number of the last event by the number of the core's start."""
_OWN = re.compile(r".*\.s[0-9]+")
"""The ids of the SNMP agent's own events, which are not in the log."""
_COUNT = re.compile(r"Gauge32: ([0-9]+) notifications")
_MISSED = re.compile(r"([0-9]+) events from ([0-9a-f.-]+) to ([0-9a-f.-]+) cannot be sent")
_UNCERTAIN = re.compile(r"([0-9]+) (?:notifications to this receiver )?may have been lost")
_OWN_NAME = re.compile(r"\bsnmp:[a-zA-Z]+ ([0-9]+)")
"""Among the names of what was not sent: the SNMP agent's own events, which are not in the log."""

WRITTEN_SECONDS = 3.0
"""The time before its end within which the SNMP agent's notifications may be sent again.

The agent saves its place once a second, which a busy disk may delay.
"""

PRINTED_SECONDS = 1.0
"""The resolution of the daemon's times."""

RAISED_AGAIN_SECONDS = 25.0
"""Less than the time after which an active alarm whose beginning was not sent is sent, under the same id."""


class Receipt(NamedTuple):
    """A notification of one event.

    Attributes:
        event_id: the id of the event.
        at: the time of receipt, seconds since 1970.
        made_at: the up time of the SNMP agent in the notification.
        late: whether it could not be sent at once, or is sent again after a restart.
    """

    event_id: str
    at: float
    made_at: str
    late: bool


class Missed(NamedTuple):
    """Events that were reported as missed, because the log does not have them."""

    number: int
    first: str
    last: str


class Counted(NamedTuple):
    """A report of events that were not sent.

    Attributes:
        at: the time of receipt, seconds since 1970.
        number: their number, without those that the log does not have, and the SNMP agent's own.
        uncertain: those of them that may have arrived.
    """

    at: float
    number: int
    uncertain: int = 0


@dataclass(frozen=True)
class Received:
    """The notifications of a receiver.

    Attributes:
        receipts: those of events.
        counted: the reports of those that were not sent.
        missed: the reports of missed ones.
    """

    receipts: tuple[Receipt, ...]
    counted: tuple[Counted, ...] = ()
    missed: tuple[Missed, ...] = ()

    @property
    def suppressed(self) -> int:
        """The number of those that were reported to it as not sent."""
        return sum(one.number for one in self.counted)


@dataclass(frozen=True)
class LogFacts:
    """What the log has of events, beside their ids.

    Attributes:
        raised: the times at which alarms were raised, by event id; seconds since 1970.
        unlogged: the number of events that cores made, and that are in no record: they were killed before.
    """

    raised: Mapping[str, float]
    unlogged: int = 0

    @classmethod
    def of(cls, log: Path, ids: Iterable[str]) -> LogFacts:
        """Read a log, whose events have these ids."""
        with ask(log, _RAISED) as answer:
            raised = {str(event_id): float(str(at)) for event_id, at in answer.rows}
        made: Counter[str] = Counter()
        with ask(log, _MADE) as answer:
            for (numbers,) in answer.rows:
                made |= Counter(json.loads(str(numbers or "{}")))
        logged = Counter(event_id.split(".")[-2] for event_id in ids)
        return cls(raised, sum(max(0, number - logged[boot]) for boot, number in made.items()))


@dataclass(frozen=True)
class Receivers:
    """Receivers, each net-snmp's own daemon: one of each kind, and one by the default policy.

    Nothing repeats a trap, and the daemon is slower than a burst of them: ``trap_port`` is that of a reader
    that only stores them for it.
    """

    traps: Snmptrapd
    trap_port: int
    informs: Snmptrapd
    monitored: Snmptrapd

    def configured(self) -> dict[str, Any]:
        """Return the section ``notifications`` of a gateway that sends them every event."""
        return {
            "traps": {"address": f"127.0.0.1:{self.trap_port}"},
            "informs": {"address": f"127.0.0.1:{self.informs.port}", "kind": "inform"},
            "monitored": {"address": f"127.0.0.1:{self.monitored.port}", "kind": "inform"},
        }

    def differences(self, log: Path, kills: Iterable[Kill]) -> Iterator[str]:
        """Yield a line for each event that a receiver missed, got twice, or that is not in the log."""
        with ask(log, _EVENTS) as answer:
            events = [tuple(map(str, row)) for row in answer.rows]
        logged = _Logged(event[0] for event in events)
        facts = LogFacts.of(log, (event[0] for event in events))
        receivers = {"traps": self.traps, "informs": self.informs, "monitored": self.monitored}
        if dropped := dropped_at(self.trap_port):
            yield f"traps: the kernel dropped {dropped}, because the reader of this test was too slow"
        for kind, receiver in receivers.items():
            received = received_by(receiver)
            ids = {receipt.event_id for receipt in received.receipts}
            meant = [event for event in events if f'"{kind}"' not in event[-1]]
            missing = [event for event in meant if event[0] not in ids]
            # What is in the log and was meant for a receiver was sent, or is counted, and not both.
            if (most := len(missing) + arrived_though_counted(received, facts, kills)) < received.suppressed:
                yield f"{kind}: {received.suppressed} are counted, of which {most} at most did not arrive"
            if len(missing) > received.suppressed:
                yield f"{kind}: {len(missing)} of {len(meant)} are missing, {received.suppressed} are counted"
                for event_id, event, what, source, seq, _ in missing:
                    yield f"{kind}: {event} {what} of {source} was not received ({event_id}, seq {seq})"
            for missed in received.missed:
                yield from (f"{kind}: {wrong}" for wrong in logged.differences(missed))
            yield from (f"{kind}: {one} was received, and is not in the log" for one in logged.unknown(ids))
            for one, again in _repeated(received.receipts):
                if kind != "traps" and _is_unanswered(one, again):
                    continue
                if not any(_may_repeat(one, again, kill) for kill in kills):
                    times = f"{reported_time(one.at)} and {reported_time(again.at)}"
                    yield f"{kind}: {one.event_id} was received twice, {times}"


def arrived_though_counted(received: Received, log: LogFacts, kills: Iterable[Kill]) -> int:
    """Return how many events a receiver may have got, or the log not have, though they were counted.

    These are informs whose answer did not arrive; alarms whose beginning was suppressed, and is sent later;
    the last events of a core that was killed before it wrote them; and what was reported in the last moment
    of an SNMP agent, which reports it again, or sends it, after its restart.
    """
    ends = [kill for kill in kills if kill.victim in {"snmp", "supervisor"}]
    forgotten = sum(
        one.number for one in received.counted if any(_is_just_before(one.at, kill) for kill in ends)
    )
    later = {
        one.event_id
        for one in received.receipts
        if one.at - log.raised.get(one.event_id, one.at) > RAISED_AGAIN_SECONDS
    }
    return sum(one.uncertain for one in received.counted) + len(later) + log.unlogged + forgotten


class _Logged:
    """The ids of events in a log. Numbers of one boot have no holes: see docs/events.md."""

    def __init__(self, ids: Iterable[str]) -> None:
        self._ids = set(ids)
        self._last: dict[str, int] = {}
        for event_id in self._ids:
            boot, _, number = event_id.rpartition(".")
            self._last[boot] = max(self._last.get(boot, 0), int(number))

    def differences(self, missed: Missed) -> Iterator[str]:
        """Yield a line if the log has events that were reported as missed; ids of one core have no holes."""
        (core, _, first), (of, _, last) = missed.first.rpartition("."), missed.last.rpartition(".")
        if core == of:
            there = sum(f"{core}.{number}" in self._ids for number in range(int(first), int(last) + 1))
            if missed.number + there != int(last) - int(first) + 1:
                yield f"{missed} were reported as missed, and the log has {there} of them"

    def unknown(self, ids: Iterable[str]) -> Iterator[str]:
        """Yield the ids that are missing in the log, unless a core was killed before it wrote their records.

        Such events are the last ones of a boot, and not of the last boot.
        """
        lasting = max(self._last, key=_boot)
        gateway = lasting.rpartition(".")[0]
        for event_id in set(ids) - self._ids:
            boot, _, number = event_id.rpartition(".")
            is_former = boot.rpartition(".")[0] == gateway and _boot(boot) < _boot(lasting)
            if not is_former or int(number) <= self._last.get(boot, 0):
                yield event_id


def _boot(name: str) -> int:
    """Return the number of a boot from the common begin of its ids."""
    return int(name.rpartition(".")[2])


def _repeated(receipts: Iterable[Receipt]) -> Iterator[tuple[Receipt, Receipt]]:
    last: dict[str, Receipt] = {}
    for receipt in receipts:
        if receipt.event_id in last:
            yield last[receipt.event_id], receipt
        last[receipt.event_id] = receipt


def _is_unanswered(one: Receipt, again: Receipt) -> bool:
    """Return whether an inform is sent again unchanged because the daemon was too slow to answer."""
    return one.made_at == again.made_at and one.late == again.late


def _may_repeat(one: Receipt, again: Receipt, kill: Kill) -> bool:
    """Return whether this kill ended the SNMP agent so soon after a notification that it is sent again.

    A repetition is allowed then: see docs/snmp-notifications.md. A kill of the core alone causes none.
    """
    if kill.victim not in {"snmp", "supervisor"}:
        return False
    return _is_just_before(one.at, kill) and again.at >= kill.began - PRINTED_SECONDS


def _is_just_before(at: float, kill: Kill) -> bool:
    """Return whether what the SNMP agent sent then may not be saved yet when this kill ended it."""
    lingers = ORPHANED_SECONDS if kill.victim == "supervisor" else 0.0
    return kill.began - WRITTEN_SECONDS - PRINTED_SECONDS <= at <= kill.died + lingers


def dropped_at(port: int) -> int:
    """Return the number of datagrams that the kernel dropped because the receiver was slow."""
    local = f":{port:04X}"
    rows = [line.split() for line in Path("/proc/net/udp").read_text().splitlines()[1:]]
    return sum(int(row[-1]) for row in rows if row[1].endswith(local))


def received_by(receiver: Snmptrapd) -> Received:
    """Return the notifications written by the daemon so far, except the SNMP agent's own events."""
    receipts, missed = [], []
    counted: dict[str, Counted] = {}
    for printed in receiver.printed():
        event_id = printed.values.get("agEventId.0", "").removeprefix("STRING: ")
        at = dt.datetime.fromisoformat(printed.head[:19]).timestamp()  # local time, as the daemon prints it
        if event_id and not _OWN.fullmatch(event_id):
            is_late = "agEventLate.0" in printed.values
            receipts.append(Receipt(event_id, at, printed.values.get("sysUpTime.0", ""), is_late))
        count = _COUNT.fullmatch(printed.values.get("agEventSuppressedCount.0", ""))
        if count is None or event_id in counted:  # an inform that was sent again
            continue
        text = printed.values.get("agEventText.0", "")
        number = int(count[1]) - sum(map(int, _OWN_NAME.findall(text)))
        if lost := _MISSED.search(text):
            missed.append(Missed(int(lost[1]), lost[2], lost[3]))
            number -= missed[-1].number
        uncertain = _UNCERTAIN.search(text)
        counted[event_id] = Counted(at, number, int(uncertain[1]) if uncertain else 0)
    return Received(tuple(receipts), tuple(counted.values()), tuple(missed))


@contextmanager
def receivers(folder: Path, community: str) -> Iterator[Receivers]:
    """Provide all receivers, which run throughout."""
    with ExitStack() as stack:
        for kind in ("traps", "informs", "monitored"):
            (folder / kind).mkdir()
        traps = stack.enter_context(snmptrapd(folder / "traps", community, transport="tcp"))
        trap_port = free_udp_port()
        stack.enter_context(buffered(trap_port, traps.port))
        informs, monitored = (
            stack.enter_context(snmptrapd(folder / kind, community)) for kind in ("informs", "monitored")
        )
        yield Receivers(traps, trap_port, informs, monitored)
