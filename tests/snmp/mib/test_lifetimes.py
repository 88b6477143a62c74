"""The lifetime of an object in a trap, by the shipped modules."""

from __future__ import annotations

import pytest

from gateway.mapping.files import event_schemas
from gateway.model.times import SECOND
from gateway.snmp import ber
from gateway.snmp.notifications.bound_events import bind_event
from tests.components.shipped_mappings import shipped_mappings, shipped_registries
from tests.snmp.datagrams import read_varbinds
from tests.snmp.mib.shop import ROOT

(REGISTRY,) = (registry for registry in shipped_registries() if registry.package == "rabbitmq")
SCHEMAS = event_schemas(shipped_mappings()["rabbitmq"])


@pytest.mark.parametrize("event", ["queueDeleted", "connectionClosed"])
@pytest.mark.parametrize(
    ("lived", "seconds", "milliseconds"),
    [
        (4 * SECOND // 10, "0.4", "400"),
        (SECOND // 1000, "0.001", "1"),
        (3_217 * SECOND // 1000, "3", "3217"),
        (60 * SECOND, "60", "60000"),
        (0, "0", "0"),
        (None, "", ""),
    ],
)
def test_a_lifetime_has_the_resolution_that_there_is(
    event: str, lived: int | None, seconds: str, milliseconds: str
) -> None:
    schema, event_entry = SCHEMAS[event], REGISTRY.find_event(SCHEMAS[event].key)
    assert event_entry is not None
    bound = bind_event(schema, REGISTRY, event_entry, ROOT, lambda _link, _source: None)
    place = [argument.name for argument in schema.arguments].index("lifetime")
    sent = read_varbinds(bound.varbinds({} if lived is None else {place: lived}, 1))
    values = dict(sent)
    oids = [
        REGISTRY.argument_oid(ROOT, registry.arc)
        for registry in REGISTRY.arguments
        if registry.name == "lifetime"
    ]
    texts = [ber.encode_octets(text.encode()) for text in (seconds, milliseconds)]
    assert [values[oid] for oid in oids] == texts
    assert sent[-1] == (oids[1], texts[1])
