"""The event log in the Gateway MBean, and events and alarms of the gateway itself."""

from __future__ import annotations

import msgspec
import pytest

from gateway.model.observations import Severity
from tests.components.shop import FULL_LOG, LOG_TROUBLE_BEGAN, LOG_TROUBLE_CLASS, START, source
from tests.jmx.shop import GATEWAY, Gateway, alarm

TROUBLE = msgspec.structs.replace(
    alarm(9), source=0, name="logTrouble", condition="logTrouble", severity=Severity.MAJOR
)


@pytest.fixture
def gateway() -> Gateway:
    gateway = Gateway()
    gateway.hello()
    gateway.snapshot(source())
    return gateway


def shown(gateway: Gateway) -> dict[str, object]:
    gateway.settle()
    return {
        name.removeprefix("EventLog"): value
        for name, value in gateway.machine.read(GATEWAY).items()
        if name.startswith("EventLog")
    }


def alarms(gateway: Gateway) -> tuple[object, object]:
    gateway.settle()
    values = gateway.machine.read(GATEWAY)
    return values["ActiveAlarmCount"], values["WorstSeverity"]


def test_the_log_is_shown_as_the_core_reports_it(gateway: Gateway) -> None:
    gateway.publish(FULL_LOG)
    assert shown(gateway) == {
        "State": "disk-full",
        "Detail": "3 MiB are free",
        "Since": START,
        "Committed": 2**40,
        "Waiting": 7,
        "Lost": 3,
        "Octets": 2**41,
        "Segments": 2,
        "DeletedFiles": 4,
        "DeletedOctets": 2**42,
    }


def test_while_the_core_is_gone_the_state_is_unknown(gateway: Gateway) -> None:
    gateway.publish(FULL_LOG)
    gateway.disconnect()
    reported = shown(gateway)
    assert (reported["State"], reported["Detail"], reported["Since"]) == ("unknown", None, None)
    assert reported["Committed"] == 2**40


def test_an_event_of_the_gateway_itself_comes_from_its_mbean(gateway: Gateway) -> None:
    gateway.publish(LOG_TROUBLE_CLASS, LOG_TROUBLE_BEGAN)
    ((emitters, emit),) = gateway.machine.emitted
    data = {name: value for name, _, value in emit.data}
    assert emitters == (GATEWAY,)
    assert emit.type == "amqp.gateway.gateway.logTrouble"
    assert (data["eventId"], data["source"], data["lost"]) == ("7b0c.1.4", None, 2**40)


def test_its_alarm_counts_until_it_is_over(gateway: Gateway) -> None:
    assert alarms(gateway) == (0, "cleared")
    gateway.publish(TROUBLE)
    assert alarms(gateway) == (1, "major")
    gateway.publish(msgspec.structs.replace(TROUBLE, cleared=START))
    assert alarms(gateway) == (0, "cleared")


def test_an_alarm_that_a_new_core_does_not_report_is_over(gateway: Gateway) -> None:
    gateway.publish(TROUBLE)
    gateway.disconnect()
    gateway.hello(epoch=2)
    gateway.snapshot(source())
    assert alarms(gateway) == (0, "cleared")
