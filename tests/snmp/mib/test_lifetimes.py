"""What a trap tells of how long something lived, by the shipped modules."""

from __future__ import annotations

import pytest

from gateway.mapping.files import event_schemas, load_shipped_mappings
from gateway.snmp import ber
from gateway.snmp.lock_files import load_shipped_locks
from gateway.snmp.notifications.notification import bind_event
from tests.components.shop import SECOND
from tests.snmp.mib.shop import ROOT

(LOCK,) = (lock for lock in load_shipped_locks() if lock.package == "rabbitmq")
SCHEMAS = event_schemas(load_shipped_mappings()["rabbitmq"])


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
    schema, event_lock = SCHEMAS[event], LOCK.find_event(SCHEMAS[event].key)
    assert event_lock is not None
    bound = bind_event(schema, LOCK, event_lock, ROOT, lambda _link, _source: None)
    place = [argument.name for argument in schema.arguments].index("lifetime")
    sent = bound.varbinds({} if lived is None else {place: lived}, 1)
    values = dict(sent)
    oids = [LOCK.argument_oid(ROOT, lock.arc) for lock in LOCK.arguments if lock.name == "lifetime"]
    texts = [ber.encode_octets(text.encode()) for text in (seconds, milliseconds)]
    assert [values[oid] for oid in oids] == texts
    assert sent[-1] == (oids[1], texts[1])
