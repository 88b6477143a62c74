"""Memory and certificates of nodes: how often nodes are asked, and what is shown of the answers."""

from __future__ import annotations

import pytest

from gateway.mapping.paths import Json
from gateway.model.observations import SourceState
from gateway.model.times import MINUTE
from gateway.sources.rabbitmq.management_api import (
    Answer,
    Broken,
    CertificatesRequest,
    Document,
    ManagementRequest,
    NodeMemoryRequest,
    NotFound,
    Refused,
    Unavailable,
)
from gateway.sources.rabbitmq.node_details import expiries, memory_parts
from tests.sources.rabbitmq.imitation import NODE, World
from tests.sources.rabbitmq.story import world

RECORDED: Json = {
    "memory": {
        "connection_readers": 180424,
        "connection_writers": 44288,
        "connection_channels": 28776,
        "connection_other": 1319448,
        "queue_procs": 127696,
        "stream_queue_procs": 2768,
        "code": 35347358,
        "reserved_unallocated": 67870720,
        "strategy": "rss",
        "total": {"erlang": 102446808, "rss": 144592896, "allocated": 76722176},
    }
}
"""A part of an answer of RabbitMQ 3.10.8."""


def answers(shop: World, answer: Answer) -> None:
    """Have the broker answer all questions about memory so from now on."""

    def of_memory(request: ManagementRequest) -> Answer | None:
        return answer if isinstance(request, NodeMemoryRequest) else None

    shop.broker.failure = of_memory


def questions(shop: World) -> int:
    return sum(isinstance(request, NodeMemoryRequest) for request in shop.broker.requests)


def test_parts_are_added_up_and_absent_where_the_broker_has_none() -> None:
    parts = {"connections": 1572936, "queues": 130464, "code": 35347358, "reserved": 67870720}
    assert memory_parts(RECORDED) == parts
    others: list[Json] = [None, [], {"memory": []}, {"memory": {"code": "x"}}]
    assert [memory_parts(other) for other in others] == [{}] * 4


def test_a_node_is_asked_once_a_minute_and_shows_its_answer() -> None:
    shop = world()
    answers(shop, Document(RECORDED))
    shop.run(120)
    assert shop.value("node", NODE, "memoryCode") == 35347358
    assert shop.value("node", NODE, "memoryBinaries") is None
    before = questions(shop)
    shop.run(600)
    assert questions(shop) - before in {9, 10}
    answers(shop, NotFound())
    shop.run(250)
    assert shop.value("node", NODE, "memoryCode") is None


@pytest.mark.parametrize(
    "failure", [NotFound(), Unavailable("no answer within 8 s", late=True), Document([])]
)
def test_a_node_that_does_not_say_it_is_no_trouble(failure: Answer) -> None:
    shop = world()
    answers(shop, failure)
    shop.run(200)
    assert shop.source.status.state is SourceState.SYNCHRONISED
    assert shop.value("node", NODE, "memoryCode") is None


def test_who_may_not_read_it_is_refused_once_an_hour() -> None:
    shop = world()
    answers(shop, Refused(login=False, reason="Not monitor user"))
    shop.run(90)
    before = questions(shop)
    shop.run(1800)
    assert questions(shop) == before


EXPIRING: Json = {
    "status": "failed",
    "reason": "Certificates expiring",
    "expired": [
        {
            "node": NODE,
            "protocol": "amqp/ssl",
            "interface": "127.0.0.1",
            "port": 5671,
            "certfile": "/etc/c.pem",
            "certfile_expires_on": ["1970-02-19 3:03:03", "1970-02-10 00:00:00"],
            "cacertfile": "/etc/ca.pem",
            "cacertfile_expires_on": ["2043-01-02 23:59:59"],
        }
    ],
}
"""An answer of RabbitMQ 3.10.8, with other times and two certificates in a file; its hours have one digit."""
FORTIETH_DAY = 40 * 24 * 60 * MINUTE
"""The expiry of the first of these, in nanoseconds."""


def answers_of_certificates(shop: World, answer: Answer) -> None:
    shop.broker.listeners = [{"node": NODE, "protocol": "amqp/ssl", "ip_address": "127.0.0.1", "port": 5671}]
    failure: dict[ManagementRequest, Answer] = {CertificatesRequest(): answer}
    shop.broker.failure = failure.get


def certificate_questions(shop: World) -> int:
    return shop.broker.requests.count(CertificatesRequest())


def test_the_first_of_all_certificates_counts() -> None:
    assert expiries(EXPIRING) == {NODE: FORTIETH_DAY}
    lists: list[Json] = [None, "x", [None, 5, "1970-13-01 0:00:00", "yesterday"]]
    strange: list[Json] = [{"node": NODE, "certfile_expires_on": times} for times in lists]
    assert expiries({"expired": [*strange, [], {"certfile_expires_on": ["1970-02-10 00:00:00"]}]}) == {}
    others: list[Json] = [{"status": "ok"}, [], {"expired": {}}]
    assert [expiries(other) for other in others] == [{}] * 3


def test_a_node_with_tls_is_asked_for_its_certificates_once_an_hour() -> None:
    shop = world()
    answers_of_certificates(shop, Document(EXPIRING))
    shop.run(200)
    assert certificate_questions(shop) == 1
    assert shop.value("node", NODE, "certificatesExpire") == FORTIETH_DAY
    assert shop.value("node", NODE, "certificatesExpiring") is (FORTIETH_DAY - shop.now < 30 * 1440 * MINUTE)
    shop.run(3600)
    assert certificate_questions(shop) == 2


def test_a_node_without_tls_is_not_asked_for_certificates() -> None:
    shop = world()
    shop.run(200)
    assert certificate_questions(shop) == 0
    assert shop.value("node", NODE, "certificatesExpire") is None
    assert shop.value("node", NODE, "certificatesExpiring") is None, "its listeners are not known"
    shop.broker.listeners = [{"node": NODE, "protocol": "amqp", "ip_address": "::", "port": 5672}]
    shop.run(200)
    assert shop.value("node", NODE, "certificatesExpiring") is False, "an alarm of before is over"
    assert certificate_questions(shop) == 0


@pytest.mark.parametrize("failure", [Broken("status 500"), NotFound(), Unavailable("late", late=True)])
def test_a_node_that_cannot_read_its_certificates_is_no_trouble(failure: Answer) -> None:
    shop = world()
    answers_of_certificates(shop, failure)
    shop.run(200)
    assert shop.source.status.state is SourceState.SYNCHRONISED
    assert shop.value("node", NODE, "certificatesExpire") is None
    assert certificate_questions(shop) == 1
