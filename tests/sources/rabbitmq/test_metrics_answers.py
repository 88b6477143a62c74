"""Totals of protocols: the answers of a node, and the times of the requests."""

from __future__ import annotations

import pytest

from gateway.dialects.errors import ProtocolError
from gateway.model.times import SECOND
from gateway.sources.rabbitmq.metrics_answers import PrometheusTotals, TotalsSheet
from gateway.sources.rabbitmq.prometheus_samples import ScrapeRequest
from gateway.sources.rabbitmq.reading import class_readers
from tests.components.shipped_mappings import shipped_mappings

READER = class_readers(shipped_mappings()["rabbitmq"])["protocol"]
NODE = ScrapeRequest("http://a:15692", (), "rabbit@a")
BODY = b"""\
# TYPE rabbitmq_global_messages_received_total counter
# HELP rabbitmq_global_messages_received_total Total number of messages received from clients
rabbitmq_global_messages_received_total{protocol="amqp091"} 30
rabbitmq_global_messages_received_total{protocol="stream"} 0
# TYPE rabbitmq_global_messages_delivered_total counter
# HELP rabbitmq_global_messages_delivered_total Total number of messages delivered to consumers
rabbitmq_global_messages_delivered_total{protocol="amqp091",queue_type="rabbit_classic_queue"} 4
rabbitmq_global_messages_delivered_total{protocol="amqp091",queue_type="rabbit_quorum_queue"} 5
# TYPE rabbitmq_global_messages_dead_lettered_expired_total counter
rabbitmq_global_messages_dead_lettered_expired_total{queue_type="rabbit_quorum_queue"} 7
# TYPE rabbitmq_identity_info untyped
rabbitmq_identity_info{rabbitmq_node="rabbit@a",rabbitmq_cluster="rabbit@a"} 1
"""


def sheet_of(body: bytes = BODY) -> TotalsSheet:
    sheet = TotalsSheet(READER)
    sheet.feed(body)
    sheet.finish()
    return sheet


def test_totals_are_added_up_over_sorts_of_queues() -> None:
    assert sheet_of().items() == [
        {
            "node": "rabbit@a",
            "protocol": "amqp091",
            "messages_received_total": 30,
            "messages_delivered_total": 9,
        },
        {"node": "rabbit@a", "protocol": "stream", "messages_received_total": 0},
    ]


def test_what_a_node_does_not_count_is_absent() -> None:
    reading = READER.read(sheet_of().items()[1])
    assert reading is not None
    values = dict(zip([one.name for one in READER.schema.statistics], reading.statistics, strict=True))
    assert (values["messagesReceived"], values["messagesDeliveredOrGot"]) == (0, None)


def test_an_answer_without_a_name_or_with_too_many_protocols_is_refused() -> None:
    with pytest.raises(ProtocolError, match="the name of the node"):
        sheet_of(b"")
    many = b"".join(b'rabbitmq_global_consumers{protocol="p%d"} 1\n' % number for number in range(101))
    with pytest.raises(ProtocolError, match="at most 100 protocols"):
        sheet_of(many)


def test_each_node_is_asked_at_its_time_and_seldom_where_that_costs_much() -> None:
    totals = PrometheusTotals(READER, 0.004)
    assert totals.next_request(SECOND) is None
    totals.learn_nodes({"rabbit@a": "http://a:15692", "rabbit@b": "http://b:15692"})
    assert totals.next_request(SECOND) == NODE
    assert len(totals.scraped(NODE, sheet_of(), SECOND, SECOND // 100)) == 2
    other = totals.next_request(SECOND)
    assert other is not None
    assert other.node == "rabbit@b"
    totals.failed(other, SECOND)
    assert totals.next_request(30 * SECOND) is None
    assert totals.next_request(31 * SECOND) == NODE
    totals.scraped(NODE, sheet_of(), 31 * SECOND, SECOND // 2)
    totals.learn_nodes({"rabbit@a": "http://a:15692"})
    assert totals.next_request(281 * SECOND - 1) is None
    assert totals.next_request(281 * SECOND) == NODE


def test_the_node_at_a_configured_url_is_the_one_that_answers() -> None:
    totals = PrometheusTotals(READER, 0.004)
    totals.learn_nodes({"http://a:15692": "http://a:15692"})
    request = totals.next_request(SECOND)
    assert request == ScrapeRequest("http://a:15692", (), "")
    assert totals.pace.node_of(request) == ""
    assert len(totals.scraped(request, sheet_of(), SECOND, 0)) == 2
    assert totals.pace.node_of(request) == "rabbit@a"
    totals.learn_nodes({"http://b:15692": "http://b:15692"})
    assert totals.pace.node_of(request) == ""


def test_the_totals_of_another_node_than_was_asked_are_not_taken() -> None:
    totals = PrometheusTotals(READER, 0.004)
    totals.learn_nodes({"rabbit@b": "http://a:15692"})
    request = totals.next_request(SECOND)
    assert request is not None
    assert totals.scraped(request, sheet_of(), SECOND, 0) == []


def test_logins_are_counted_by_protocol() -> None:
    body = b"""\
# TYPE rabbitmq_auth_attempts_total counter
rabbitmq_auth_attempts_total{protocol="http"} 70
rabbitmq_auth_attempts_total{protocol="amqp091"} 49
# TYPE rabbitmq_auth_attempts_succeeded_total counter
rabbitmq_auth_attempts_succeeded_total{protocol="http"} 61
# TYPE rabbitmq_auth_attempts_failed_total counter
rabbitmq_auth_attempts_failed_total{protocol="http"} 9
"""
    http, amqp = sheet_of(body + BODY[BODY.index(b"# TYPE rabbitmq_identity") :]).items()
    reading = READER.read(http)
    assert reading is not None
    values = dict(zip([one.name for one in READER.schema.statistics], reading.statistics, strict=True))
    assert (values["authenticationAttempts"], values["authenticationFailures"]) == (70, 9)
    assert amqp == {"node": "rabbit@a", "protocol": "amqp091", "auth_attempts_total": 49}
