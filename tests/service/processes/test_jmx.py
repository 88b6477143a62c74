"""The values that the JMX process computes before it starts anything; the rest is in ``tests/jmx``."""

from __future__ import annotations

from gateway.service.processes.jmx import column_oids
from tests.components.shipped_mappings import shipped_registries

ROOT = "1.3.6.1.4.1.99999"


def test_an_element_names_the_snmp_column_that_shows_it_too() -> None:
    registries = shipped_registries()
    find = column_oids(ROOT, registries)
    (rabbitmq,) = [registry for registry in registries if registry.package == "rabbitmq"]
    (queue,) = [locked for locked in rabbitmq.classes if locked.name == "queue"]
    (ready,) = [element for element in queue.elements if element.name == "messagesReady"]
    expected = (*rabbitmq.entry_oid((1, 3, 6, 1, 4, 1, 99999), queue), ready.columns[0])
    assert find("rabbitmq:queue", "messagesReady") == ".".join(map(str, expected))


def test_what_no_lock_knows_has_none() -> None:
    find = column_oids(ROOT, shipped_registries())
    assert find("rabbitmq:queue", "unheardOf") == find("zoo:dog", "legs") == find("", "") == ""
    assert column_oids(ROOT, ())("rabbitmq:queue", "messagesReady") == ""
