"""applTable: sources as network services, as a manager reads them."""

from __future__ import annotations

import pytest

from gateway.feed.records import SourceRecord
from gateway.model.observations import SourceState
from gateway.model.times import SECOND
from gateway.snmp import ber
from gateway.snmp.ber import Oid
from gateway.snmp.cells import date_and_time, gauge32, text
from gateway.snmp.fixed_mib import CLASS_ENTRY, ClassColumn
from gateway.snmp.store import Store
from gateway.snmp.tables.applications import (
    APPLICATION_ENTRY,
    ApplicationColumn,
    ApplicationSettings,
    ApplicationTable,
    OperStatus,
)
from tests.components.shipped_mappings import shipped_registries
from tests.components.shop import START, source

ROOT: Oid = (1, 3, 6, 1, 4, 1, 99999)
REGISTRIES = shipped_registries()
NODE_ENTRY: Oid = (*ROOT, 2, 1, 1, 1, 1)
VERSION, STARTED, OPENED = 105, 108, 139
URL = "https://rabbit.example.org:15671"


class Agent:
    """The table, with a clock; the agent started at `START`."""

    def __init__(self, *, lists_all_connections: bool = True) -> None:
        self.now = START
        self.store = Store()
        self.nodes = self.store.table(NODE_ENTRY, (VERSION, STARTED, OPENED))
        self.classes = self.store.table((*ROOT, *CLASS_ENTRY), tuple(ClassColumn))
        settings = {"shop1": ApplicationSettings(URL, lists_all_connections)}
        self.table = ApplicationTable(
            self.store,
            ROOT,
            REGISTRIES,
            settings,
            lambda: (self.now - START) * 100 // SECOND,
            lambda: self.now,
        )

    def show(self, *records: SourceRecord, connected: bool = True, after: int = 1) -> None:
        self.now += after * SECOND
        self.table.show(records, connected=connected)

    def cell(self, column: ApplicationColumn, number: int = 1) -> bytes | None:
        value = self.store.get((*APPLICATION_ENTRY, column, number))
        return None if value == ber.NO_SUCH_INSTANCE else value

    def node(self, row: int, version: str, started: int, opened: int = 0) -> None:
        cells = {
            VERSION: text(version),
            STARTED: date_and_time(started),
            OPENED: ber.encode_counter64(opened),
        }
        self.nodes.put((1, row), cells)


def test_a_source_is_a_service_with_its_name_and_url() -> None:
    agent = Agent()
    agent.show(source())
    assert agent.cell(ApplicationColumn.NAME) == text("shop1")
    assert agent.cell(ApplicationColumn.DIRECTORY_NAME) == text("")
    assert agent.cell(ApplicationColumn.URL) == text(URL)
    assert agent.cell(ApplicationColumn.DESCRIPTION) == text("Broker or applications that QMF agents manage")
    for column in (
        ApplicationColumn.VERSION,
        ApplicationColumn.UPTIME,
        ApplicationColumn.INBOUND_ASSOCIATIONS,
    ):
        assert agent.cell(column) is None
    agent.show(source(number=2))
    assert agent.cell(ApplicationColumn.NAME) is None
    assert agent.cell(ApplicationColumn.URL, 2) == text("")


@pytest.mark.parametrize(
    ("state", "status"),
    [
        (SourceState.SYNCHRONISED, OperStatus.UP),
        (SourceState.DEGRADED, OperStatus.UP),
        (SourceState.SYNCHRONISING, OperStatus.UP),
        (SourceState.CONNECTING, OperStatus.RESTARTING),
        (SourceState.DOWN, OperStatus.DOWN),
    ],
)
def test_the_state_of_a_source_is_a_status(state: SourceState, status: OperStatus) -> None:
    agent = Agent()
    agent.show(source(state))
    assert agent.cell(ApplicationColumn.OPER_STATUS) == ber.encode_integer(status)
    agent.show(source(state), connected=False)
    assert agent.cell(ApplicationColumn.OPER_STATUS) is None
    assert agent.cell(ApplicationColumn.LAST_CHANGE) is None
    assert agent.cell(ApplicationColumn.NAME) == text("shop1")


def since(state: SourceState, when: int) -> SourceRecord:
    return SourceRecord(1, "shop1", "rabbitmq", state, "", when, when)


def test_the_last_change_is_that_of_the_status_in_the_time_of_the_agent() -> None:
    agent = Agent()
    agent.show(since(SourceState.SYNCHRONISED, START - SECOND))
    assert agent.cell(ApplicationColumn.LAST_CHANGE) == ber.encode_time_ticks(0)  # before the agent started
    agent.show(since(SourceState.DOWN, START + 3 * SECOND), after=4)
    assert agent.cell(ApplicationColumn.LAST_CHANGE) == ber.encode_time_ticks(300)
    agent.show(since(SourceState.SYNCHRONISING, START + 6 * SECOND), after=4)
    agent.show(since(SourceState.SYNCHRONISED, START + 8 * SECOND), after=4)
    assert agent.cell(ApplicationColumn.LAST_CHANGE) == ber.encode_time_ticks(600)


def test_version_and_start_are_those_of_the_nodes() -> None:
    agent = Agent()
    agent.node(1, "4.1.0", START + 5 * SECOND, 2**32 + 7)
    agent.show(source(), after=10)
    assert agent.cell(ApplicationColumn.VERSION) == text("4.1.0")
    assert agent.cell(ApplicationColumn.UPTIME) == ber.encode_time_ticks(500)
    assert agent.cell(ApplicationColumn.ACCUMULATED_INBOUND_ASSOCIATIONS) == ber.encode_counter32(7)
    agent.node(2, "4.0.9", START - SECOND)
    agent.node(3, "4.1.0", START + SECOND)
    agent.show(source())
    assert agent.cell(ApplicationColumn.VERSION) == text("4.0.9, 4.1.0")
    assert agent.cell(ApplicationColumn.UPTIME) == ber.encode_time_ticks(0)
    assert agent.cell(ApplicationColumn.ACCUMULATED_INBOUND_ASSOCIATIONS) is None
    agent.show(source(), source(number=2))
    assert agent.cell(ApplicationColumn.VERSION, 2) is None


def test_associations_are_shown_where_the_list_of_connections_is_complete() -> None:
    (rabbitmq,) = (registry for registry in REGISTRIES if registry.package == "rabbitmq")
    (connection,) = (entry for entry in rabbitmq.classes if entry.name == "connection")
    index = (1, rabbitmq.class_index(connection))
    for complete, stale, state, shown in (
        (True, 0, SourceState.SYNCHRONISED, True),
        (False, 0, SourceState.SYNCHRONISED, False),
        (True, 1, SourceState.SYNCHRONISED, False),
        (True, 0, SourceState.DEGRADED, False),
    ):
        agent = Agent(lists_all_connections=complete)
        agent.classes.put(index, {ClassColumn.ROWS: gauge32(12), ClassColumn.STALE_ROWS: gauge32(stale)})
        agent.show(source(state))
        assert agent.cell(ApplicationColumn.INBOUND_ASSOCIATIONS) == (gauge32(12) if shown else None)


def test_the_tables_are_looked_into_once_a_second() -> None:
    agent = Agent()
    agent.show(source())
    agent.show(source(SourceState.DOWN), after=0)
    assert agent.cell(ApplicationColumn.OPER_STATUS) == ber.encode_integer(OperStatus.UP)
    agent.show(source(SourceState.DOWN), after=1)
    assert agent.cell(ApplicationColumn.OPER_STATUS) == ber.encode_integer(OperStatus.DOWN)
