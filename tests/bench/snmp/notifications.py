"""Notifications: the processor time from an event of the feed to a datagram, beside net-snmp's library."""

from __future__ import annotations

import contextlib
import socket
import statistics
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gateway.snmp import ber
from gateway.snmp.ber import dotted
from gateway.snmp.fixed_mib import NOTIFICATION_OBJECTS, NotificationObject
from gateway.snmp.notifications.notification import SYS_UP_TIME
from gateway.snmp.oid_registry import DEFAULT_ROOT
from tests.bench.feed_player import FeedPlayer, frames
from tests.bench.rows import OURS, Case, Reading
from tests.bench.run import Run
from tests.bench.snmp.agents import Agent
from tests.bench.snmp.events import KINDS, EventSource
from tests.components.waiting import DEADLINE
from tests.snmp.datagrams import COMMUNITY
from tests.snmp.notifications.story import Received, answer_to, read

CASES: Final = {kind: Case(kind, f"us of CPU per {kind}", Reading.COST) for kind in KINDS}
"""The cases, by the kind of notification."""

PEER: Final = "net-snmp"
_RATE: Final = 100_000
_WINDOW: Final = 64
# Of informs at most 2,000 wait for a receiver.
_TURN: Final = {"trap": 10_000, "inform": 1_500}
_QUICK_TURN: Final = 50
_TURNS: Final = {"trap": 2, "inform": 6}
_LARGEST: Final = 65_535
_EVENT_ID: Final = (*DEFAULT_ROOT, *NOTIFICATION_OBJECTS, NotificationObject.ID, 0)


class Receivers:
    """The ports at which notifications of each kind arrive; nothing listens there between two turns."""

    def __init__(self) -> None:
        self.ports = dict(zip(KINDS, _free_ports(len(KINDS)), strict=True))

    def settings(self) -> Mapping[str, object]:
        """Return the settings of SNMP for these receivers."""
        return {
            kind: {
                "address": f"127.0.0.1:{port}",
                "kind": kind,
                "events": [f"bench:{kind}Event"],
                "rate": _RATE,
                "window": _WINDOW,
            }
            for kind, port in self.ports.items()
        }


@dataclass(frozen=True, slots=True)
class Turn:
    """What one side sent in a turn: seconds of its processor time, and notifications a second as received."""

    processor: float
    rate: float


class Notifying:
    """The two sides that send notifications.

    Args:
        run: the run of the benchmark; its folder has the compiled programs.
        agent: the process ``snmp``.
        core: its core.
        rows: the number of its rows.
        receivers: the configured receivers.
    """

    def __init__(self, run: Run, agent: Agent, core: FeedPlayer, rows: int, receivers: Receivers) -> None:
        self._run = run
        self._agent = agent
        self._core = core
        self._source = EventSource(rows)
        self._ports = receivers.ports
        self._bindings = {kind: run.folder / f"{kind}.bindings" for kind in KINDS}
        self._turns: dict[tuple[str, str], list[Turn]] = {}

    def compare(self) -> None:
        """Assert that both sides send the same variable bindings, and keep ours for the peer.

        Raises:
            AssertionError: they differ, in more than the number of the event and sysUpTime.
        """
        for kind in KINDS:
            with _listening(self._ports[kind]) as receiver:
                self._core.send(frames(self._source.events(kind, 1)))
                ours = _next(receiver)
                _write_bindings(ours, self._bindings[kind])
                notifier = subprocess.Popen(self._notifier(kind, 1), stdout=subprocess.DEVNULL)  # noqa: S603
                theirs = _next(receiver)
                assert notifier.wait(DEADLINE) == 0
                assert (theirs.pdu_type, theirs.oid) == (ours.pdu_type, ours.oid)
                assert [*theirs.values] == [*ours.values]
                differing = {name for name, value in ours.values.items() if theirs.values[name] != value}
                assert differing <= {_EVENT_ID, SYS_UP_TIME}, f"{kind}: the values differ: {differing}"

    def measure(self, number: int) -> None:
        """Measure one round, in short turns of each side."""
        sides = (OURS, PEER) if number % 2 == 0 else (PEER, OURS)
        for kind, case in CASES.items():
            count = self._run.count(_TURN[kind], _QUICK_TURN)
            turns: dict[str, list[Turn]] = {side: [] for side in sides}
            for _ in range(_TURNS[kind]):
                for side in sides:
                    turn = self._ours(kind, count) if side == OURS else self._peers(kind, count)
                    turns[side].append(turn)
                    self._turns.setdefault((kind, side), []).append(turn)
            for side in sides:
                processor = sum(turn.processor for turn in turns[side])
                self._run.record(case, side, processor / (count * len(turns[side])) * 1e6)

    def leave_figures(self) -> None:
        """Leave the rates at which notifications arrived at one receiver on the same machine."""
        for (kind, side), turns in self._turns.items():
            rate = statistics.median(turn.rate for turn in turns)
            self._run.figure(f"{kind}s a second, {side}", f"{rate:,.0f}")

    def _ours(self, kind: str, count: int) -> Turn:
        octets = frames(self._source.events(kind, count))
        with self._sink(kind, count) as sink:
            before = self._agent.processor_seconds()
            self._core.send(octets)
            rate = _rate_of(sink, count)
            return Turn(self._agent.processor_seconds() - before, rate)

    def _peers(self, kind: str, count: int) -> Turn:
        with self._sink(kind, count) as sink:
            words = self._notifier(kind, count)
            output = subprocess.run(words, check=True, capture_output=True, timeout=DEADLINE).stdout  # noqa: S603
            sent, seconds = output.split()
            assert int(sent) == count, f"net-snmp sent {int(sent)} of {count}"
            return Turn(float(seconds), _rate_of(sink, count))

    def _notifier(self, kind: str, count: int) -> tuple[str, ...]:
        words = (kind, self._ports[kind], COMMUNITY.decode(), _WINDOW, count, self._bindings[kind])
        return (str(self._run.folder / "notifier"), *map(str, words))

    @contextlib.contextmanager
    def _sink(self, kind: str, count: int) -> Iterator[subprocess.Popen[bytes]]:
        words = (str(self._run.folder / "sink"), str(self._ports[kind]), str(count))
        with subprocess.Popen(words, stdout=subprocess.PIPE) as sink:  # noqa: S603  our own program
            try:
                assert sink.stdout is not None
                assert sink.stdout.readline() == b"listening\n"
                yield sink
            finally:
                sink.kill()


def _rate_of(sink: subprocess.Popen[bytes], count: int) -> float:
    """Return the rate at which notifications arrived; on a busy machine the kernel may have dropped some.

    Raises:
        AssertionError: most did not arrive.
    """
    output, _ = sink.communicate(timeout=DEADLINE)
    received, seconds = output.split()
    assert int(received) > count // 2, f"{int(received)} of {count} notifications arrived"
    return int(received) / max(float(seconds), 1e-6)


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [
            stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) for _ in range(count)
        ]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


@contextlib.contextmanager
def _listening(port: int) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        receiver.bind(("127.0.0.1", port))
        receiver.settimeout(DEADLINE)
        yield receiver


def _next(receiver: socket.socket) -> Received:
    """Return the next notification, and answer it as if it were an inform: a trap's sender ignores that."""
    datagram, sender = receiver.recvfrom(_LARGEST)
    receiver.sendto(answer_to(datagram), sender)
    return read(datagram)


def _write_bindings(received: Received, path: Path) -> None:
    """Write variable bindings as `native/notifier.c` reads them."""
    lines = []
    for name, value in received.values.items():
        _, start, stop = ber.read_header(value, 0, len(value))
        content = value[start:stop]
        if value[0] == ber.OCTET_STRING:
            shown = content.hex()
        elif value[0] == ber.OBJECT_IDENTIFIER:
            shown = "." + dotted(ber.decode_name(content))
        else:
            shown = str(int.from_bytes(content, "big", signed=True))
        lines.append(f".{dotted(name)} {value[0]} {shown}\n")
    path.write_text("".join(lines), encoding="ascii")
