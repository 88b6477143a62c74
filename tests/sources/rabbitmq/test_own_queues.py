"""Policies that reach queues of other sources of the gateway: what listings show of that."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.clock import SystemClock
from gateway.dialects.qmf.console import ConsoleSession
from gateway.dialects.qmf.console_config import ConsoleConfig
from gateway.links.amqp import AmqpLink, AmqpRole
from gateway.links.session_driver import MessageDriver
from gateway.mapping.paths import Json
from gateway.model.observations import SourceState
from gateway.sources.rabbitmq.object_names import ObjectName
from gateway.sources.rabbitmq.own_queue_policies import SPARE_OWN
from gateway.sources.rabbitmq.own_queues import OwnQueues
from tests.components.rabbitmq import VirtualHost
from tests.components.waiting import until
from tests.hypothesis_profiles import examples
from tests.sources.rabbitmq.documents import any_json
from tests.sources.rabbitmq.watching import event_endpoint, reading_user, ready, watch

QUEUE = ObjectName("queue", ("shop", "amqp-gateway.console.7"))
CONSUMER = ObjectName("consumer", (*QUEUE.parts, "10.0.0.9:4 -> 10.0.0.1:5672 (1)", "ctag"))
CONNECTION = ObjectName("connection", ("10.0.0.9:4 -> 10.0.0.1:5672",))


def document(**definition: Json) -> dict[str, Json]:
    return {
        "arguments": {"x-max-length": 20_000},
        "policy": "cap",
        "operator_policy": None,
        "effective_policy_definition": definition,
    }


def consumed_by(source: str) -> OwnQueues:
    """Return what is known of the queue's consumer, whose connection names a source."""
    queues = OwnQueues()
    queues.shown(CONSUMER, {"channel_details": {"connection_name": CONNECTION.leaf}})
    queues.shown(CONNECTION, {"client_properties": {"product": "amqp-gateway", "source": source}})
    return queues


def test_policy_queue_and_source_are_named_with_a_pattern_that_spares_the_queue() -> None:
    queues = consumed_by("agents")
    queues.shown(QUEUE, document(**{"max-length": 100}))
    assert queues.remark("") == (
        "the policy 'cap' (max-length: 100) reaches the gateway's own queue amqp-gateway.console.7 of source"
        f" 'agents' in virtual host 'shop', which may lose messages: {SPARE_OWN}"
    )


def test_what_is_said_of_the_sources_own_queue_is_not_repeated() -> None:
    queues = OwnQueues()
    queues.shown(QUEUE, document(**{"max-length": 100}))
    assert queues.remark("the policy 'cap' reaches amqp-gateway.console.7") == ""


@pytest.mark.parametrize(
    "name",
    [
        ObjectName("queue", ("shop", "orders")),
        ObjectName("queue", ("shop", "amqp-gateway.events.7")),
        ObjectName("queue", ("shop", "amqp-gateway.check.7")),
        ObjectName("exchange", ("shop", "amqp-gateway.console.7")),
    ],
)
def test_no_other_queue_is_named(name: ObjectName) -> None:
    queues = OwnQueues()
    queues.shown(name, document(**{"max-length": 100}))
    assert queues.remark("") == ""


def test_a_policy_that_lets_as_much_wait_as_the_queue_itself_is_not_named() -> None:
    queues = OwnQueues()
    queues.shown(QUEUE, document(**{"max-length": 20_000}))
    assert queues.remark("") == ""
    queues.shown(QUEUE, {**document(**{"max-length": 20_000}), "arguments": {}})
    assert "max-length: 20000" in queues.remark(""), "an unbounded queue drops nothing by itself"


def test_a_listing_without_statistics_changes_nothing_and_one_without_the_policy_ends_it() -> None:
    queues = OwnQueues()
    queues.shown(QUEUE, document(**{"message-ttl": 5}))
    queues.shown(QUEUE, {"policy": "cap"})
    assert "message-ttl: 5" in queues.remark("")
    queues.shown(QUEUE, document())
    assert queues.remark("") == ""


def test_what_a_listing_lacks_is_forgotten() -> None:
    queues = consumed_by("agents")
    queues.shown(QUEUE, document(**{"message-ttl": 5}))
    queues.listed("connection", set())
    assert "of source" not in queues.remark("")
    queues.listed("queue", {QUEUE})
    assert queues.remark("")
    queues.listed("queue", set())
    assert queues.remark("") == ""


def test_of_many_queues_the_first_are_named() -> None:
    queues = OwnQueues()
    for number in range(5):
        queue = ObjectName("queue", ("shop", f"amqp-gateway.console.{number}"))
        queues.shown(queue, {**document(**{"message-ttl": 5}), "policy": "cap" if number else "old"})
    text = queues.remark("")
    assert text.startswith(
        "the policy 'old' (message-ttl: 5), among others, reaches the gateway's own queues"
    )
    assert "console.2 in virtual host 'shop' and 2 more, which may lose messages" in text


NAMES = ["channel_details", "connection_name", "client_properties", "product", "source", "arguments"]


@settings(max_examples=examples())
@given(
    st.dictionaries(st.sampled_from([*NAMES, "effective_policy_definition", "policy"]), any_json()),
    st.sampled_from([QUEUE, CONSUMER, CONNECTION]),
)
def test_whatever_a_listing_shows_is_read_or_ignored(shown: dict[str, Json], name: ObjectName) -> None:
    queues = consumed_by("agents")
    queues.shown(name, shown)
    queues.remark("")
    queues.listed(name.class_name, {name})


@contextlib.asynccontextmanager
async def console(host: VirtualHost) -> AsyncIterator[None]:
    """Run the console of a source ``agents`` of kind qmf in a virtual host."""
    with host.http() as client:
        client.put(f"exchanges/{host.path}/qpid.management", json={"type": "topic"}).raise_for_status()
    session = ConsoleSession(ConsoleConfig(trusted_users=frozenset({"agent"})))
    driver = MessageDriver("agents", session, lambda _: None, SystemClock(), Counter())
    endpoint = replace(
        event_endpoint(host.broker, host.broker.administrator), vhost=host.name, source="agents"
    )
    role = AmqpRole("console", session.bindings, probed="qpid.management", takes_proofs=True)
    running = asyncio.create_task(AmqpLink(endpoint, role, driver, SystemClock()).run())
    try:
        yield
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        driver.stop()


@pytest.mark.each_rabbitmq(takes_long=True)
async def test_a_policy_on_the_queue_of_a_qmf_source_is_named_by_a_source_that_reads_the_broker(
    virtual_host: VirtualHost,
) -> None:
    with reading_user(virtual_host.broker, [virtual_host.name]) as user:
        async with console(virtual_host), watch(virtual_host.broker, user) as watched:
            await ready(watched)
            with virtual_host.http() as client:
                cap = {"pattern": ".*", "apply-to": "queues", "definition": {"max-length": 100}}
                client.put(f"policies/{virtual_host.path}/cap", json=cap).raise_for_status()

            def detail() -> str:
                assert watched.status is not None
                return watched.status.detail

            await until(lambda: "of source 'agents'" in detail(), "the policy is named")
            assert "the policy 'cap' (max-length: 100) reaches the gateway's own queue amqp-g" in detail()
            assert f"in virtual host '{virtual_host.name}', which may lose messages: {SPARE_OWN}" in detail()
            assert watched.status is not None
            assert watched.status.state is SourceState.SYNCHRONISED, "it loses nothing itself"
            with virtual_host.http() as client:
                cap["pattern"] = r"^(?!amqp-gateway\.).*"
                client.put(f"policies/{virtual_host.path}/cap", json=cap).raise_for_status()
            await until(lambda: "may lose messages" not in detail(), "the pattern spares it")
