"""Whether every event that the log has was told to every receiver, by its id, or counted as lost to it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gateway.eventlog.query import ask
from tests.snmp.notifications.snmptrapd import Snmptrapd, snmptrapd

_EVENTS = """
    SELECT event_id, event, coalesce(object_name, "values"::VARCHAR), coalesce(source, ''), seq
    FROM log WHERE kind = 'event' ORDER BY seq
"""
_OWN = re.compile(r".*\.s[0-9]+")
"""Ids of what the SNMP agent tells of itself, which the log does not know."""
_COUNT = re.compile(r"Gauge32: ([0-9]+) notifications")


@dataclass(frozen=True)
class Received:
    """What a receiver got: the ids of events, and how many others it was told that it did not get."""

    ids: frozenset[str]
    suppressed: int


@dataclass(frozen=True)
class Receivers:
    """One of each kind: net-snmp's own daemon."""

    traps: Snmptrapd
    informs: Snmptrapd

    def configured(self) -> dict[str, Any]:
        """The section ``notifications`` of a gateway that tells them everything."""
        return {
            "traps": {"address": f"127.0.0.1:{self.traps.port}"},
            "informs": {"address": f"127.0.0.1:{self.informs.port}", "kind": "inform"},
        }

    def differences(self, log: Path) -> Iterator[str]:
        """Events that the log has and a receiver did not get, unless it was told so; one line each."""
        with ask(log, _EVENTS) as answer:
            events = [tuple(map(str, row)) for row in answer.rows]
        for kind, receiver in (("traps", self.traps), ("informs", self.informs)):
            received = received_by(receiver)
            missing = [event for event in events if event[0] not in received.ids]
            if len(missing) > received.suppressed + dropped_at(receiver.port):
                for event_id, event, what, source, seq in missing:
                    yield f"{kind}: {event} {what} of {source} was not received ({event_id}, seq {seq})"


def dropped_at(port: int) -> int:
    """Datagrams that this machine's kernel had no room for, because the receiver was slow."""
    local = f":{port:04X}"
    rows = [line.split() for line in Path("/proc/net/udp").read_text().splitlines()[1:]]
    return sum(int(row[-1]) for row in rows if row[1].endswith(local))


def received_by(receiver: Snmptrapd) -> Received:
    """What the daemon has written so far."""
    ids, suppressed = set(), 0
    for printed in receiver.printed():
        ids.add(printed.values.get("agEventId.0", "").removeprefix("STRING: "))
        counted = _COUNT.fullmatch(printed.values.get("agEventSuppressedCount.0", ""))
        suppressed += int(counted[1]) if counted else 0
    return Received(frozenset(one for one in ids if one and not _OWN.fullmatch(one)), suppressed)


@contextmanager
def receivers(folder: Path, community: str) -> Iterator[Receivers]:
    """Both receivers, which run throughout."""
    with ExitStack() as stack:
        both = []
        for kind in ("traps", "informs"):
            (folder / kind).mkdir()
            both.append(stack.enter_context(snmptrapd(folder / kind, community)))
        yield Receivers(*both)
