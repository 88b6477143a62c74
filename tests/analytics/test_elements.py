"""The elements that a report takes for a queue's messages in and out, compared with the shipped mappings."""

from __future__ import annotations

import pytest

from gateway.analytics.reports.classes import (
    BROKERS,
    CONNECTION,
    CONSUMERS,
    DEPTH,
    FLOWS,
    MEGABYTE,
    QUEUE,
    USERS,
    Measure,
)
from gateway.mapping.rules import ElementRule
from gateway.model.schema import Kind
from tests.components.shipped_mappings import shipped_mappings

UNITS = {"messages": 1, "octets": 1, "megabytes": MEGABYTE, "requests": 1}


def elements(package: str, class_name: str) -> dict[str, ElementRule]:
    rule = shipped_mappings()[package].classes[class_name]
    return rule.properties | rule.statistics


@pytest.mark.parametrize("package", BROKERS)
def test_each_broker_s_queues_report_what_goes_in_and_out_and_what_waits(package: str) -> None:
    known = elements(package, QUEUE)
    for name in ("published", "delivered"):
        (measure,) = [measure for measure in FLOWS[name] if measure.element in known]
        assert (known[measure.element].kind, known[measure.element].unit) == (Kind.COUNTER, "messages")
    for names, unit in ((DEPTH, "messages"), (CONSUMERS, "consumers")):
        (element,) = [element for element in names if element in known]
        assert (known[element].kind, known[element].unit) == (Kind.GAUGE, unit)


@pytest.mark.parametrize("package", BROKERS)
def test_each_broker_s_connections_report_their_user(package: str) -> None:
    assert len(elements(package, CONNECTION).keys() & set(USERS)) == 1


@pytest.mark.parametrize("reported", [reported for flow in FLOWS.values() for reported in flow], ids=str)
def test_each_element_is_a_counter_of_one_broker_in_the_unit_that_is_said(reported: Measure) -> None:
    (rule,) = [rule for package in BROKERS if (rule := elements(package, QUEUE).get(reported.element))]
    assert rule.kind is Kind.COUNTER
    assert UNITS[rule.unit] == reported.factor
