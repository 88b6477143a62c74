"""Requests that SNMP and JMX refuse by themselves are in the event log, with principal and origin."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.components.operated_gateway import OPERATOR
from tests.components.waiting import wait_until
from tests.outcomes.attempts import JavaClient
from tests.outcomes.manager import Manager
from tests.outcomes.scene import Scene
from tests.outcomes.targets import SHOP, VHOST

pytestmark = pytest.mark.xdist_group("outcomes")

LOCATION = "1.3.6.1.2.1.1.6.0"


def logged(there: Scene, principal: str, text: str) -> dict[str, Any]:
    """Return the last record of an attempt of that principal with that text, as soon as there is one."""
    found: list[dict[str, Any]] = []

    def is_reported() -> bool:
        sql = (
            "SELECT outcome, operation, origin, method, element, text FROM log WHERE kind = 'operation' "
            "AND principal = $principal AND contains(text, $text) ORDER BY seq"
        )
        found[:] = there.ask_log(sql, principal=principal, text=text)
        return bool(found)

    wait_until(is_reported, f"an attempt of {principal} is logged")
    return found[-1]


def snmpset(there: Scene, manager: Manager, community: str, retries: str = "3") -> list[str]:
    where = f"127.0.0.1:{there.site.snmp_port}"
    return manager.net_snmp(
        "snmpset", "-v2c", "-c", community, "-t", "1", "-r", retries, where, LOCATION, "s", "here"
    )


def test_a_set_of_who_may_not_send_any(there: Scene, manager: Manager) -> None:
    assert "noAccess" in " ".join(snmpset(there, manager, there.site.state.secret("community")))
    record = logged(there, "snmp:(reader)", LOCATION)
    assert (record["outcome"], record["operation"]) == ("refused", "set")
    assert record["origin"].startswith("127.0.0.1:")

    assert "Timeout" in " ".join(snmpset(there, manager, "a guess", retries="0"))
    record = logged(there, "snmp:(unknown)", "a community that is not known")
    assert record["outcome"] == "refused"
    assert "guess" not in str(record)


def test_a_set_of_what_cannot_be_set(there: Scene, manager: Manager) -> None:
    community = there.site.state.secret(f"community-{OPERATOR}")
    assert "notWritable" in " ".join(snmpset(there, manager, community))
    record = logged(there, f"snmp:{OPERATOR}", f"SET of {LOCATION}")
    assert record["outcome"] == "read-only"


def test_each_binding_of_a_refused_set_is_recorded_with_what_was_asked_for(
    there: Scene, manager: Manager
) -> None:
    index = manager.index_of(SHOP)
    description, connections = (f"rmqVhost{name}.{index}" for name in ("Description", "MaxConnections"))
    status = manager.status(
        *(description, "s", "buys and sells"), *(connections, "s", "many"), *(LOCATION, "s", "hush")
    )
    assert status == "wrongType"
    sql = (
        'SELECT class, object_name, element, outcome, text, principal, "values" FROM log '
        "WHERE kind = 'operation' AND contains(text, '(2 of 3)')"
    )
    found: list[dict[str, Any]] = []

    def is_reported() -> bool:
        found[:] = there.documents("log", "query", sql)
        return bool(found)

    wait_until(is_reported, "the attempt is logged")
    record = found[-1]
    assert (record["class"], record["object_name"], record["element"]) == ("vhost", VHOST, "maxConnections")
    assert (record["outcome"], record["principal"]) == ("wrong-type", f"snmp:{OPERATOR}")
    assert record["text"].endswith("(2 of 3): wrongType")
    values = record["values"] if isinstance(record["values"], dict) else json.loads(record["values"])
    assert values == {"description": "buys and sells", "maxConnections": "many", LOCATION: "***"}
    assert "hush" not in str(found)


def test_what_the_virtual_machine_refuses(there: Scene, java: JavaClient) -> None:
    assert "SecurityException" in java.tryInvoke("java.lang:type=Memory", "gc", "", None)
    record = logged(there, f"jmx:{OPERATOR}", "java.lang:type=Memory")
    assert (record["outcome"], record["operation"], record["method"]) == ("refused", "invoke", "gc")
    assert record["origin"] == "127.0.0.1"
