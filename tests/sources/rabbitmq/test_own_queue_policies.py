"""What policies make of the gateway's own queue: which of them may drop events, and when they have."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.mapping.paths import Json
from gateway.model.times import SECOND
from gateway.sources.rabbitmq.management_api import Answer, Broken, Document, Refused, Unavailable
from gateway.sources.rabbitmq.own_queue_policies import NONE, PolicyChanges, QueuePolicies, policies_of

QUEUE = "amqp-gateway.events.7"
EMPTY = Document([])


def policy(definition: dict[str, Json], name: str = "cap", **more: Json) -> dict[str, Json]:
    return {"name": name, "pattern": ".*", "apply-to": "all", "priority": 0, "definition": definition, **more}


def found(usual: list[Json], operator: list[Json] | None = None) -> QueuePolicies | None:
    return policies_of(QUEUE, 1_000, Document(usual), Document(operator or []))


def test_a_policy_is_named_with_a_pattern_that_spares_the_gateways_queues() -> None:
    capped = found([policy({"max-length": 100})])
    assert capped is not None
    assert capped.text == (
        "the policy 'cap' (max-length: 100) reaches the gateway's own queue amqp-gateway.events.7, which may"
        r" lose events: let its pattern begin with ^(?!amqp-gateway\.) to spare the gateway's queues"
    )
    assert found([policy({"max-length": 100}, pattern=r"^(?!amqp-gateway\.).*")]) == NONE


@pytest.mark.parametrize(
    "spared",
    [
        policy({"max-length": 1_000}),
        policy({"ha-mode": "all"}),
        policy({"max-length": 1}, pattern="^orders"),
        policy({"max-length": 1}, **{"apply-to": "exchanges"}),
        policy({"max-length": 1}, **{"apply-to": "quorum_queues"}),
    ],
)
def test_other_policies_change_nothing(spared: dict[str, Json]) -> None:
    assert found([spared]) == NONE


def test_of_policies_the_one_of_highest_priority_counts_and_with_operator_policies_the_lowest_bound() -> None:
    low, high = policy({"max-length": 5}), policy({"max-length": 50}, "high", priority=7)
    both = found([low, high], [policy({"max-length": 20, "message-ttl": 3_000}, "limit")])
    assert both is not None
    assert (both.max_length, both.ttl) == (20, 3 * SECOND)
    assert "the policy 'high'" in both.text
    assert "the operator policy 'limit' (max-length: 20, message-ttl: 3000)" in both.text
    assert "'cap'" not in both.text


@pytest.mark.parametrize(
    "definition",
    [{"expires": 1}, {"overflow": "reject-publish"}, {"dead-letter-exchange": "x"}, {"max-length-bytes": 9}],
)
def test_all_that_touches_messages_is_named(definition: dict[str, Json]) -> None:
    capped = found([policy(definition)])
    assert capped is not None
    assert next(iter(definition)) in capped.text


def test_a_long_value_is_cut() -> None:
    capped = found([policy({"dead-letter-exchange": "x" * 100_000})])
    assert capped is not None
    assert len(capped.text) < 500


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (Unavailable("status 503"), None),
        (Broken("status 500"), None),
        (Refused(login=False, reason="no"), NONE),
        (Document([7, {"pattern": 8}, {"apply-to": []}]), NONE),
    ],
)
def test_without_an_answer_nothing_is_known_and_what_may_not_be_read_counts_as_none(
    answer: Answer, expected: QueuePolicies | None
) -> None:
    assert policies_of(QUEUE, 1_000, answer, EMPTY) == policies_of(QUEUE, 1_000, EMPTY, answer) == expected


@pytest.mark.parametrize(
    ("policies", "received", "seconds", "dropped"),
    [
        (NONE, 10_000, 60, False),
        (QueuePolicies("x", max_length=100), 99, 60, False),
        (QueuePolicies("x", max_length=100), 100, 1, True),
        (QueuePolicies("x", max_length=0), 0, 1, True),
        (QueuePolicies("x", ttl=10 * SECOND), 10_000, 9, False),
        (QueuePolicies("x", ttl=10 * SECOND), 0, 10, True),
    ],
)
def test_a_bounded_queue_that_has_dropped_a_message_has_delivered_as_many_as_it_holds(
    policies: QueuePolicies, received: int, seconds: int, *, dropped: bool
) -> None:
    assert policies.may_have_dropped(received, seconds * SECOND) is dropped


CAP: dict[str, Any] = {
    "vhost": "/",
    "name": "cap",
    "pattern": ".*",
    "apply-to": "all",
    "definition": {"max-length": 9},
}
OF_OPERATOR: dict[str, Any] = {
    "vhost": "/",
    "component": "operator_policy",
    "name": "cap",
    "value": {"pattern": ".*", "apply-to": "queues", "definition": {"max-length": 9}},
}


@pytest.mark.parametrize(
    ("events", "concerned"),
    [
        ([("policy.set", CAP)], True),
        ([("policy.set", {**CAP, "vhost": "shop"})], False),
        ([("policy.set", {**CAP, "pattern": "^orders"})], False),
        ([("policy.set", {**CAP, "definition": {"max-length": 1_000}})], False),
        ([("policy.cleared", {"vhost": "/", "name": "cap"})], True),
        (
            [("policy.set", {**CAP, "pattern": "^o"}), ("policy.cleared", {"vhost": "/", "name": "cap"})],
            False,
        ),
        ([("parameter.set", OF_OPERATOR)], True),
        ([("parameter.set", {**OF_OPERATOR, "component": "shovel"})], False),
        ([("parameter.cleared", {"vhost": "/", "component": "operator_policy", "name": "cap"})], True),
    ],
)
def test_a_change_of_a_policy_may_be_the_only_trace_of_what_it_dropped(
    events: list[tuple[str, dict[str, Json]]], *, concerned: bool
) -> None:
    changes = PolicyChanges("/", QUEUE, 1_000)
    for key, headers in events:
        changes.take(key, headers)
    assert bool(changes.text) is concerned
