"""The observations of recorded brokers, with an inventory and SNMP tables for them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from gateway.dialects.cml.codec import read_message
from gateway.dialects.cml.messages import InspectReply, SchemaReply
from gateway.dialects.cml.schema import ClassDescription, read_classes
from gateway.dialects.errors import ProtocolError
from gateway.dialects.qmf.console_content import ContentTranslator
from gateway.dialects.qmf.messages import EventIndication, ObjectContent, PropertyContent, StatisticContent
from gateway.feed.records import AlarmRecord, Batch, FeedMessage, ObjectRecord
from gateway.inventory.classes import ClassRegistry
from gateway.inventory.inventory import Inventory
from gateway.inventory.source import SourceInventory
from gateway.mapping.files import is_statistic, secret_patterns
from gateway.model.observations import (
    ClassLearned,
    ObjectSeen,
    Observation,
    ResyncBegan,
    ResyncEnded,
    SourceState,
    SourceStateSeen,
)
from gateway.model.secrets import SecretRules
from gateway.snmp.oid_registry import DEFAULT_ROOT, OidRegistry
from gateway.snmp.projection import Projection, ProjectionSettings
from gateway.snmp.registry_growth import new_registry
from gateway.snmp.row_columns import RowColumn
from gateway.snmp.store import Store
from tests.components.opened_index import opened_index
from tests.components.shop import START, Feeding
from tests.dialects.cml.recordings import exchange, replies
from tests.dialects.qmf.recordings import definitions, readable, recorded
from tests.mapping.recorded_schemas import MAPPINGS, QPID, QPID_ACL, REGISTRIES

RULES = SecretRules(pattern for mapping in MAPPINGS.values() for pattern in secret_patterns(mapping))


def qmf_observations(peer: str) -> Iterator[Observation]:
    """Yield all observations of a peer's own packages, in the order of the recording."""
    known, translator = definitions(peer), ContentTranslator(RULES)
    learnt = {each.key: translator.learn(each) for each in known if each.key.package in (QPID, QPID_ACL)}
    yield from learnt.values()
    for message in recorded(peer):
        for record in readable(message.body, known):
            if isinstance(record, ObjectContent | PropertyContent | StatisticContent):
                if record.key in learnt:
                    yield translator.content(record, START)
            elif isinstance(record, EventIndication) and record.key in learnt:
                yield translator.event(record, "1.0")


def cml_observations() -> Iterator[Observation]:
    """Yield every object of OpenAMQ once, below the one that listed it."""
    schema = read_message(exchange("schema-002").replies[0])
    assert isinstance(schema, SchemaReply)
    classes = {each.schema.key.name: each for each in read_classes(schema, partial(is_statistic, MAPPINGS))}
    yield from (ClassLearned(each.schema) for each in classes.values())
    shown: dict[int, InspectReply] = {}
    parents: dict[int, int] = {}
    for reply in _inspected():
        assert isinstance(reply.object_id, int)
        shown[reply.object_id] = reply
        for _, child in classes[reply.class_name].read_object(reply.fields).children:
            parents[child] = reply.object_id
    for number, reply in sorted(shown.items()):
        if number == 0 or parents.get(number) in shown:
            yield _seen(classes[reply.class_name], number, reply, parents.get(number))


def _inspected() -> Iterator[InspectReply]:
    for body in replies():
        try:
            message = read_message(body)
        except ProtocolError:
            continue
        if isinstance(message, InspectReply) and message.class_name:
            yield message


def _seen(described: ClassDescription, number: int, reply: InspectReply, parent: int | None) -> ObjectSeen:
    values = described.read_object(reply.fields, parent).values
    properties = len(described.schema.properties)
    return ObjectSeen(
        described.schema.key, "broker", str(number), 0, 0, 0, values[:properties], values[properties:]
    )


class Site(Feeding):
    """An inventory with all recorded brokers, and its SNMP tables with the shipped registries."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.logged: list[tuple[str, str]] = []
        self.batches: list[Batch] = []
        self.store = Store()
        provisional: OidRegistry = new_registry("", 0, "AMQP-GATEWAY-SITE-MIB", "site", dt.date(2026, 5, 1))
        self.projection = Projection(
            self.store,
            ProjectionSettings(DEFAULT_ROOT, tuple(REGISTRIES.values()), 60, "1.2.3"),
            provisional=provisional,
            save=lambda _registry, _seen: None,
            clock=lambda: self.now,
            log=self.log,
        )
        self.classes = ClassRegistry(MAPPINGS)
        index = opened_index(folder / "instances.sqlite3")
        self.inventory = Inventory("gw", 1, self.classes, index, self._published)
        self._is_fed = False

    def watch(
        self,
        name: str,
        observations: Iterator[Observation],
        *,
        kind: str = "recorded",
        sets_natively: bool = False,
    ) -> SourceInventory:
        """Add a source with all its observations."""
        source = self.inventory.add_source(name, kind, sets_natively=sets_natively)
        begin = SourceStateSeen(SourceState.SYNCHRONISING), ResyncBegan()
        self.inventory.observed(source, begin, START)
        for observation in observations:
            self.inventory.observed(source, (observation,), START)
        self.inventory.observed(
            source, (ResyncEnded(complete=True), SourceStateSeen(SourceState.SYNCHRONISED)), START
        )
        return source

    def show(self) -> None:
        """Feed the tables, from now on."""
        self.hello()
        self.snapshot(*self.inventory.snapshot()[0])
        self.settle()
        self._is_fed = True

    def received(self, message: FeedMessage) -> None:
        self.projection.received(message)

    def disconnect(self) -> None:
        self.projection.disconnected("")

    def settle(self) -> None:
        while self.projection.tick():
            pass

    def names(self, package: str, class_name: str) -> dict[int, set[str]]:
        """Return the names of the rows of a class's table, by source."""
        (class_entry,) = (each for each in REGISTRIES[package].classes if each.name == class_name)
        column = (*REGISTRIES[package].entry_oid(DEFAULT_ROOT, class_entry), RowColumn.NAME)
        found: dict[int, set[str]] = {}
        here = column
        while (step := self.store.next(here)) is not None and step[0][: len(column)] == column:
            here = step[0]
            found.setdefault(here[-2], set()).add(step[1][2:].decode())
        return found

    def alarms(self) -> list[AlarmRecord]:
        """Return every alarm that was active at any time."""
        return [one for batch in self.batches for one in batch.records if isinstance(one, AlarmRecord)]

    def stable_names(self) -> set[str]:
        """Return the stable names of all living objects."""
        reported, _ = self.inventory.snapshot()
        return {one.stable_name for one in reported if isinstance(one, ObjectRecord)}

    def _published(self, batch: Batch) -> None:
        self.batches.append(batch)
        if self._is_fed:
            self.received(batch)
            self.settle()
