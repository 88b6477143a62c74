"""Peers of three dialects in one inventory, written to a log as a core writes it.

The recorded OpenAMQ, whose shared queue then goes on; the recorded Qpid broker; and an application of AMI.
Each has its own session, as a source of one gateway, one after the other. An operator changes something at
each.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Final

from gateway.dialects.ami.relay import RelayConfig, RelaySession
from gateway.dialects.cml.console import ConsoleConfig
from gateway.dialects.cml.console_config import Budget
from gateway.dialects.cml.messages import InspectRequest
from gateway.dialects.session import (
    BytesReceived,
    Effect,
    Listening,
    Observed,
    Peer,
    PeerConnected,
    PropertiesMissing,
    TimerExpired,
)
from gateway.eventlog.record import LogRecord, RecordKind
from gateway.eventlog.recorder import LogRecorder, RecorderSettings
from gateway.feed.operations import OperationKind, OperationRecord, OperationState
from gateway.feed.records import Batch
from gateway.inventory.classes import ClassRegistry
from gateway.inventory.inventory import Inventory
from gateway.inventory.source import SourceInventory
from gateway.mapping.files import is_statistic
from gateway.mapping.rules import Mapping
from gateway.model.observations import Observation
from gateway.model.operations import Outcome, Principal
from gateway.model.times import SECOND
from gateway.yaml_documents import parse_document
from tests.analytics.logs import NOON, WrittenLog, text
from tests.applications.plant import MAPPING
from tests.components.opened_index import opened_index
from tests.components.shipped_mappings import shipped_mappings
from tests.dialects.cml.playbook import ConsolePlay
from tests.dialects.cml.recorded_broker import answer
from tests.dialects.qmf.replaying import Replay
from tests.eventlog.records import with_all_fields

START: Final = int(NOON.timestamp()) * SECOND
Observe = Callable[[tuple[Observation, ...], int], None]

SHARED: Final = 22
"""The number of the OpenAMQ's queue ``q.shared``, which was recorded with 3 messages."""

POLLS: Final = 10
"""The number of polls of that queue, a minute apart."""

MEGABYTES: Final = 2
"""The megabytes that it gains with each poll."""

QPIDD: Final = "qpidd-0.34"
PLAYED: Final = 58
"""The seconds of the Qpid broker's recording: Spark would need long to count the 600 queues made after it."""

FILLS: Final = 8
"""The number of minutes for which the tank fills by 5 %, 50 litres each."""


class Gateway:
    """An inventory, and the log's mirror of its records."""

    def __init__(self, state: Path) -> None:
        self.now = START
        self.records: list[LogRecord] = [
            LogRecord(kind=RecordKind.START, ingest_ts=text(NOON), values={"version": 1, "why": "began"})
        ]
        self._mirror = LogRecorder(RecorderSettings())
        site = parse_document(MAPPING, Mapping, Path("plant.yaml"))
        self.mappings = {**shipped_mappings(), site.package: site}
        registry = ClassRegistry(self.mappings)
        index = opened_index(state / "instances.sqlite3")
        self.inventory = Inventory("gw", 1, registry, index, self._published)
        self._operations = 0

    def add(self, name: str, kind: str) -> tuple[SourceInventory, Observe]:
        """Add a source; return it and its observer, whose own clock begins with the first observations."""
        source = self.inventory.add_source(name, kind, 10_000)
        began: list[int] = []

        def observe(observations: tuple[Observation, ...], now: int) -> None:
            began.append(self.now - now)
            self.passes(began[0] + now)
            self.inventory.observed(source, observations, now)

        return source, observe

    def passes(self, now: int) -> None:
        """Let time pass until ``now``."""
        while (due := self._mirror.wake_at) is not None and due <= now:
            self.now = max(self.now, due)
            self.records += with_all_fields(self._mirror.tick(self.now))
        self.now = max(self.now, now)

    def changes(self, kind: OperationKind, class_name: str, outcome: Outcome, what: str) -> None:
        """Record a change by an operator at the source that was added last."""
        self._operations += 1
        record = OperationRecord(
            number=self._operations,
            operation_id=f"gw.1.o{self._operations}",
            kind=kind,
            state=OperationState.ENDED,
            principal=Principal("cli", "operator", ""),
            source=len(self.inventory.sources),
            class_name=class_name,
            row=1,
            stable_name="it",
            leaf_name="it",
            method=what if kind is OperationKind.INVOKE else "",
            values={what: 1} if kind is OperationKind.SET else {},
            outcome=outcome,
            began=self.now - SECOND,
            ended=self.now,
        )
        self.inventory.publish_operation(record)

    def _published(self, batch: Batch) -> None:
        self.records += with_all_fields(self._mirror.apply(batch, self.now))


def write(log: WrittenLog, state: Path) -> int:
    """Run all peers, and write the records of them; return the end in nanoseconds after noon."""
    gateway = Gateway(state)
    _openamq(gateway)
    _qpid(gateway)
    _application(gateway)
    gateway.passes(gateway.now + 120 * SECOND)
    log.segment(gateway.records)
    return gateway.now - START


def _openamq(gateway: Gateway) -> None:
    _, observe = gateway.add("openamq", "cml")
    play = ConsolePlay(
        ConsoleConfig(
            message_id_prefix="c-",
            budget=Budget(1_000, 8, 1),
            is_statistic=partial(is_statistic, gateway.mappings),
        )
    )
    play.receives = lambda observed: observe(observed.observations, play.now)
    play.connects()
    for poll in range(POLLS):
        for _ in range(120):
            while play.waiting:
                send = play.waiting.popleft()
                request = play.read(send)
                body = answer(request)
                if isinstance(request, InspectRequest) and request.object_id == SHARED:
                    body = _gone_on(body, poll)
                play.arrives(body, send.message_id)
            play.time_passes(0.5, answering=False)
    gateway.changes(OperationKind.SET, "openamq.org.server:config", Outcome.APPLIED, "trace")
    gateway.changes(OperationKind.INVOKE, "openamq.org.server:queue", Outcome.UNKNOWN, "purge")


def _gone_on(body: bytes, poll: int) -> bytes:
    """Return the recorded queue with 100 messages and 2 MB more in each poll; a consumer took 90 of them."""
    for name, value in (
        ("messages_in", 3 + 100 * poll),
        ("messages_out", 90 * poll),
        ("pending", 3 + 10 * poll),
        ("megabytes_in", MEGABYTES * poll),
    ):
        pattern = rb'(name\s*=\s*"%s"[^>]*>)\d+' % name.encode()
        body, count = re.subn(pattern, rb"\g<1>%d" % value, body)
        assert count == 1, name
    return body


def _qpid(gateway: Gateway) -> None:
    source, observe = gateway.add("qpid", "qmf")

    def received(observations: tuple[Observation, ...], now: int) -> None:
        unidentified = source.counters["unidentified"]
        observe(observations, now)
        if source.counters["unidentified"] != unidentified:
            replay.session.handle(PropertiesMissing(), now)

    replay = Replay(QPIDD, received)
    replay.plays(PLAYED)
    gateway.changes(OperationKind.INVOKE, "org.apache.qpid.broker:broker", Outcome.APPLIED, "echo")


def _application(gateway: Gateway) -> None:
    _, observe = gateway.add("plant", "ami")
    session = RelaySession(RelayConfig())
    now = START

    def take(effects: Iterable[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Observed):
                observe(effect.observations, now)

    def says(*lines: str) -> None:
        take(session.handle(BytesReceived(1, "".join(f"{line}\n" for line in lines).encode()), now))

    take(session.handle(Listening(), now))
    take(session.handle(PeerConnected(1, Peer("127.0.0.1")), now))
    says('L|I="pump-7"')
    for minute in range(FILLS):
        says(f'O|T="Tank"|I="t1"|level={10 + 5 * minute}|filled={50 * minute}L')
        if minute % 4 == 1:
            says(f'O|T="Job"|I="j{minute}"|step=1', f'A|I="a{minute}"|L=3|T="Leak"')
        if minute % 4 == 3:
            says(f'D|T="Job"|I="j{minute - 2}"')
        now += 60 * SECOND
        take(session.handle(TimerExpired(), now))
    gateway.changes(OperationKind.INVOKE, "ami-relay:application", Outcome.REMOTE_FAILURE, "drain")
