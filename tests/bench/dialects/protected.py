"""Bodies of QMF AM2 that are protected, beside the same ones plain.

A body of a publication is sent and received, each with its codec; what a broker does with it is not measured.
What is accepted is recorded in a file, as a gateway does.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time, time_ns
from typing import Final

from gateway.dialects.qmf.codec import read_body, write
from gateway.dialects.session import Delivery, Send
from gateway.model.times import MILLISECOND
from gateway.protection.bodies import Accepted, AcceptedInMemory, BodyProtection
from gateway.protection.key_files import KeyFolder, KeyNames, WatchedKeys
from gateway.protection.keys import Use, generated
from gateway.protection.replay_file import ReplayFile
from tests.bench.dialects.qmf import queues
from tests.bench.rows import OURS, Case, Reading
from tests.bench.run import Run
from tests.dialects.qmf import recordings

_SEND: Final = Case("protected-send", "bodies/s", Reading.RATE)
_RECEIVE: Final = Case("protected-receive", "bodies/s", Reading.RATE)
_PLAIN: Final = "plain"
_PEER: Final = "qpidd-0.34"
_USER: Final = "agent"
_LATE: Final = 300_000
_KEY: Final = "console.obj.1.0.org.apache.qpid.broker.queue"


class ProtectedPart:
    """The publications of a broker's queues, as of `qmf.QmfPart`."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._known = recordings.definitions(_PEER)
        bodies, messages = queues(self._known)
        count = run.count(300, 10)
        self._messages = (messages * (count // len(messages) + 1))[:count]
        self._bodies = (bodies * (count // len(bodies) + 1))[:count]
        self._boots = 0

    def measure(self) -> None:
        """Measure both sides of sending and of receiving."""
        with TemporaryDirectory(prefix="amqp-gateway-") as folder:
            self._boots += 1
            sender, receiver = self._sides(Path(folder))
            sent: list[Send] = []
            self._run.record(_SEND, OURS, self._rate(lambda: sent.extend(self._sealed(sender))))
            self._run.record(_SEND, _PLAIN, self._rate(self._written))
            deliveries = [
                Delivery(one.exchange, one.routing_key, one.body, "", _USER, one.content_type) for one in sent
            ]
            late, now = _LATE, time_ns() // MILLISECOND - 60_000
            with closing(ReplayFile(Path(folder) / "window", late, now)) as accepted:
                opening = BodyProtection(receiver, accepted, 1)
                self._run.record(_RECEIVE, OURS, self._rate(lambda: self._opened(opening, deliveries)))
                assert opening.opened == len(deliveries)
            self._run.record(_RECEIVE, _PLAIN, self._rate(self._read))
            self._figures(sent)

    def _sides(self, folder: Path) -> tuple[BodyProtection, WatchedKeys]:
        """Return the sender, and the keys of the receiver, whose files are in ``folder``."""
        keys, now = KeyFolder(folder / "keys"), time_ns()
        for name in ("agent", "console"):
            keys.write(name, generated((Use.SIGN, Use.READ), now))
        unused: Accepted = AcceptedInMemory(_LATE, 0)
        sending = WatchedKeys(keys, KeyNames("agent", "console", ("agent",), ("console",)))
        receiving = WatchedKeys(keys, KeyNames("console", "agent", ("console",), ("agent",)))
        return BodyProtection(sending, unused, self._boots), receiving

    def _sealed(self, sender: BodyProtection) -> list[Send]:
        sealed = []
        for messages in self._messages:
            body = b"".join([write(message, self._known) for message in messages])
            one = sender.seal(Send("qpid.management", _KEY, body), _USER, time_ns())
            assert isinstance(one, Send)
            sealed.append(one)
        return sealed

    def _written(self) -> None:
        for messages in self._messages:
            b"".join([write(message, self._known) for message in messages])

    def _opened(self, opening: BodyProtection, deliveries: list[Delivery]) -> None:
        for delivery in deliveries:
            opened = opening.open(delivery, time_ns())
            assert isinstance(opened, Delivery)
            for _ in read_body(opened.body, self._known):
                pass

    def _read(self) -> None:
        for body in self._bodies:
            for _ in read_body(body, self._known):
                pass

    def _rate(self, do: Callable[[], object]) -> float:
        """Return the number of bodies per second of processor time."""
        start = process_time()
        do()
        return len(self._bodies) / (process_time() - start)

    def _figures(self, sent: list[Send]) -> None:
        if self._run.done == 0:
            plain, sealed = sum(map(len, self._bodies)), sum(len(one.body) for one in sent)
            size = f"{plain / len(sent):,.0f} plain, {sealed / len(sent):,.0f} protected"
            self._run.figure("octets of a body of `protected-send`, mean", size)
