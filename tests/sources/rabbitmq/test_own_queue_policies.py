"""What policies make of the gateway's own queue: which of them may drop events, and when they have."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.mapping.paths import Json
from gateway.model.times import MILLISECOND, SECOND
from gateway.sources.rabbitmq.management_api import Answer, Broken, Document, NotFound, Refused, Unavailable
from gateway.sources.rabbitmq.own_queue_policies import (
    NONE,
    POLICY_EVENTS,
    PossibleDrops,
    QueuePolicies,
    candidates_of,
    certainly_spares,
    policies_of,
)
from tests.hypothesis_profiles import examples
from tests.sources.rabbitmq.documents import any_json

QUEUE = "amqp-gateway.events.7"


def found(definition: Json, policy: str | None = "cap", operator: str | None = None) -> QueuePolicies | None:
    answer: dict[str, Json] = {"effective_policy_definition": definition}
    return policies_of(QUEUE, 1_000, Document({**answer, "policy": policy, "operator_policy": operator}))


def test_a_policy_is_named_with_a_pattern_that_spares_the_gateways_queues() -> None:
    capped = found({"max-length": 100})
    assert capped is not None
    assert capped.text == (
        "the policy 'cap' (max-length: 100) reaches the gateway's own queue amqp-gateway.events.7, which may"
        r" lose events: let its pattern begin with ^(?!amqp-gateway\.) to spare the gateway's queues"
    )


@pytest.mark.parametrize("harmless", [{"max-length": 1_000}, {"queue-version": 2}, {}, [], ""])
def test_other_policies_change_nothing(harmless: Json) -> None:
    assert found(harmless) == NONE


def test_with_an_operator_policy_the_broker_names_both_and_their_lowest_bounds() -> None:
    both = found({"max-length": 20, "message-ttl": 3_000}, "high", "limit")
    assert both is not None
    assert (both.max_length, both.ttl) == (20, 3 * SECOND)
    assert (
        "the policy 'high' and the operator policy 'limit' (max-length: 20, message-ttl: 3000)" in both.text
    )


@pytest.mark.parametrize(
    "definition",
    [{"expires": 1}, {"overflow": "reject-publish"}, {"dead-letter-exchange": "x"}, {"max-length-bytes": 9}],
)
def test_all_that_touches_messages_is_named(definition: dict[str, Json]) -> None:
    capped = found(definition)
    assert capped is not None
    assert next(iter(definition)) in capped.text


def test_a_long_value_is_cut() -> None:
    capped = found({"dead-letter-exchange": "x" * 100_000})
    assert capped is not None
    assert len(capped.text) < 500


@pytest.mark.parametrize(
    "answer",
    [
        Unavailable("status 503"),
        Broken("status 500"),
        Refused(login=False, reason="no"),
        NotFound(),
        Document([7]),
        Document({"name": "amqp-gateway.events.7"}),
    ],
)
def test_policies_that_are_not_shown_are_unknown_and_not_none(answer: Answer) -> None:
    assert policies_of(QUEUE, 1_000, answer) is None


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


def test_where_the_broker_does_not_say_which_policies_reach_the_queue_all_count_that_may() -> None:
    """So it is in the first seconds of a queue, and where statistics are off."""
    listed: list[Json] = [
        7,
        {**CAP, "name": "orders", "pattern": "^orders", "definition": {"max-length": 1}},
        {**CAP, "name": "elsewhere", "apply-to": "exchanges", "definition": {"max-length": 1}},
        {**CAP, "name": "long", "pattern": BACKTRACKING, "definition": {"max-length": 50}},
    ]
    found = candidates_of(
        QUEUE, 1_000, Document(listed), Document([{**CAP, "definition": {"message-ttl": 7}}])
    )
    assert found is not None
    assert "the policy 'long' (max-length: 50) may reach the gateway's own queue" in found.text
    assert (found.max_length, found.ttl) == (50, 7 * MILLISECOND)
    assert candidates_of(QUEUE, 1_000, Document([]), Refused(login=False, reason="no")) == NONE
    assert candidates_of(QUEUE, 1_000, Document([]), Broken("status 500")) is None


BACKTRACKING = "^([a-z0-9-]+[.]?)+_dlq$"
"""It takes a regular expression of Python for ever to find that this does not match the name of a queue."""


@pytest.mark.parametrize(
    ("pattern", "spares"),
    [
        ("^orders", True),
        (r"^orders\..*", True),
        (r"^(?!amqp-gateway\.)", True),
        (r"^(?!amqp-gateway\.).*", True),
        ("^amqp", False),
        ("^amqp-gateway.events", False),
        (r"^amqp-gateway\.events", False),
        (r"^amqp-gateway\.events\.orders", True),
        (r"^amqp-gateway\.events$", True),
        (r"^amqp-gateway\.events\.7$", False),
        ("^a$", True),
        ("^a$b", False),
        ("^a*", False),
        ("^b*", False),
        ("^bc?", True),
        ("^b{0}", False),
        ("^orders|amqp", False),
        (".*", False),
        ("", False),
        ("orders", False),
        (BACKTRACKING, False),
        ("^" + "a" * 100_000, True),
        ({"no": "text"}, False),
    ],
)
def test_the_beginning_of_a_pattern_can_show_that_it_reaches_no_queue_of_the_gateway(
    pattern: Json, *, spares: bool
) -> None:
    began = time.process_time()
    assert certainly_spares(pattern, QUEUE) is spares
    assert time.process_time() - began < 1


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
CLEARED: tuple[str, dict[str, Json]] = ("policy.cleared", {"vhost": "/", "name": "cap"})


def drops() -> PossibleDrops:
    return PossibleDrops("/", QUEUE, 1_000)


def receive(drops: PossibleDrops, *events: tuple[str, dict[str, Json]], others: int = 0) -> None:
    for key, headers in (*events, *[("queue.created", dict[str, Json]())] * others):
        drops.arrived(key, headers)


@pytest.mark.parametrize(
    ("events", "concerned"),
    [
        ([("policy.set", CAP)], True),
        ([("policy.set", {**CAP, "pattern": BACKTRACKING})], True),
        ([("policy.set", {**CAP, "vhost": "shop"})], False),
        ([("policy.set", {**CAP, "pattern": "^orders"})], True),
        ([("policy.set", {**CAP, "apply-to": "exchanges"})], True),
        ([("policy.set", {**CAP, "definition": {"max-length": 1_000}})], True),
        ([("policy.set", {**CAP, "definition": {"max-length": 50}})], True),
        ([CLEARED], True),
        ([("policy.set", {**CAP, "pattern": "^o"}), CLEARED], True),
        ([("queue.created", {"vhost": "/"})], False),
        ([("parameter.set", OF_OPERATOR)], True),
        ([("parameter.set", {**OF_OPERATOR, "component": "shovel"})], False),
        ([("parameter.cleared", {"vhost": "/", "component": "operator_policy", "name": "cap"})], True),
    ],
)
def test_in_a_backlog_a_change_of_a_policy_may_be_the_only_trace_of_what_was_dropped(
    events: list[tuple[str, dict[str, Json]]], *, concerned: bool
) -> None:
    """What it replaced, or overruled, is not known."""
    waited = drops()
    receive(waited, *events, others=20)
    waited.emptied(100 * SECOND, 100 * SECOND)
    assert bool(waited.found(NONE)) is concerned


@pytest.mark.parametrize(
    "event",
    [("policy.cleared", {"vhost": "/", "name": "orders-ttl"}), ("policy.set", {**CAP, "pattern": "^orders"})],
)
def test_a_policy_that_changes_while_events_arrive_dropped_nothing_that_it_did_not_reach(
    event: tuple[str, dict[str, Json]],
) -> None:
    connected = drops()
    connected.emptied(SECOND, SECOND)
    connected.found(NONE)
    receive(connected, event)
    connected.emptied(3 * SECOND, 3 * SECOND)
    assert connected.found(NONE) == ""


@pytest.mark.parametrize(("ttl", "nothing"), [(0, True), (5, True), (60_000, False)])
def test_what_is_dropped_before_a_look_finds_it_is_no_silent_broker(ttl: int, *, nothing: bool) -> None:
    shown: Json = {"policy": "cap", "effective_policy_definition": {"message-ttl": ttl}}
    policies = policies_of(QUEUE, 1_000, Document(shown))
    assert policies is not None
    assert policies.lets_nothing_wait is nothing


def test_a_policy_that_was_set_and_cleared_between_two_questions_counts() -> None:
    connected = drops()
    connected.emptied(SECOND, SECOND)
    connected.found(NONE)
    receive(connected, ("policy.set", CAP), CLEARED, others=6)
    connected.emptied(3 * SECOND, 3 * SECOND)
    assert connected.found(NONE) == "", "fewer were received than it lets wait"
    receive(connected, ("policy.set", CAP), CLEARED, others=7)
    connected.emptied(5 * SECOND, 5 * SECOND)
    assert "policy.set of 'cap'" in connected.found(NONE)


def test_a_burst_is_measured_until_the_queue_is_empty_however_often_the_broker_is_asked() -> None:
    """It delivers less in five seconds than the policy lets wait, and has dropped some at the beginning."""
    capped, burst = QueuePolicies("capped", max_length=20), drops()
    burst.emptied(SECOND, SECOND)
    burst.found(capped)
    for _ in range(3):
        receive(burst, others=8)
        assert burst.found(capped) == ""
    burst.emptied(20 * SECOND, 20 * SECOND)
    assert burst.found(capped) == "capped"


def test_a_time_to_live_that_is_longer_than_the_queue_was_not_seen_empty_drops_nothing() -> None:
    quiet, short = drops(), QueuePolicies("short", ttl=8 * SECOND)
    quiet.emptied(2 * SECOND, 2 * SECOND)
    quiet.found(NONE)
    for second in range(4, 32, 2):
        quiet.emptied(second * SECOND, second * SECOND)
        assert quiet.found(short) == ""
    quiet.emptied(40 * SECOND, 40 * SECOND)
    assert quiet.found(short) == "short"


KEYS_OF_POLICIES = [
    "name",
    "pattern",
    "apply-to",
    "definition",
    "policy",
    "operator_policy",
    "effective_policy_definition",
    "component",
    "value",
    "vhost",
    "max-length",
    "message-ttl",
]
"""What is read of the documents of policies and queues, and of events of policies."""


@settings(max_examples=examples())
@given(
    st.recursive(
        any_json(),
        lambda inner: st.dictionaries(st.sampled_from(KEYS_OF_POLICIES), inner, max_size=6),
        max_leaves=12,
    )
)
def test_whatever_is_shown_of_policies_is_read_or_unknown(shown: Json) -> None:
    for answer in (Document(shown), Document([shown])):
        policies_of(QUEUE, 9, answer)
        candidates_of(QUEUE, 9, answer, Document([]))
    connected = drops()
    for key in POLICY_EVENTS:
        connected.arrived(key, {"vhost": "/", **(shown if isinstance(shown, dict) else {"value": shown})})
    connected.emptied(SECOND, SECOND)
    connected.found(NONE)
