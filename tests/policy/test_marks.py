"""What mappings, and the gateway's own events, keep from a role that does not read what is private."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import pytest

from gateway.feed.access import AccessTables, Received
from gateway.feed.records import EventClassRecord
from gateway.inventory.own_events import OWN_EVENTS
from gateway.mapping.rules import Mapping
from gateway.model.schema import ClassKey
from gateway.model.values import ValueType
from gateway.policy.marks import Marks
from gateway.policy.rules import MONITORING, RoleSet
from gateway.policy.tables import PolicyTables
from tests.components.shipped_mappings import shipped_mappings

_IDENTIFYING: Final = re.compile(
    r"\b(address\w*|hosts?|users?|clients?|peers?|ur[il]s?|process|person|login|identity|pid|principal|who"
    r"|product|platform|properties|tags?|publishers?|consumers?|links?|notices?)\b"
)
"""Words that name people, clients and places, in the name, label or description of what has a text."""

_TEXTS: Final = frozenset({ValueType.STRING, ValueType.MAP, ValueType.LIST, ValueType.BYTES, None})
"""Types that have room for a name; ``None`` is any type."""

_AT_A_VALUE: Final = re.compile(r"(?:at|with) (-?[0-9]+)\b")
"""The beginning of what a setting leads to at one value only."""

SHOWN: Final = {
    # The broker that is monitored, and its machine.
    "rabbitmq:node.name",
    "rabbitmq:node.clusterName",
    "org.apache.qpid.broker:system.nodeName",
    "openamq.org.server:config.port",
    "openamq.org.server:config.vhost",
    "openamq.org.server:config.archive_cmd",
    # The broker's own side of a connection.
    "rabbitmq:connection.host",
    # How and when a client logged in, not who it is.
    "rabbitmq:connection.authenticationMechanism",
    "rabbitmq:connection.peerCertificateValidity",
    "org.apache.qpid.broker:connection.saslMechanism",
    "openamq.org.server:connection.started",
    "openamq.org.server:queue_connection.started",
    # Names of queues and exchanges: an "address" of AMQP 1.0 is one.
    "rabbitmq:link.address",
    "rabbitmq:shovel.sourceAddress",
    "rabbitmq:shovel.destinationAddress",
    "org.apache.qpid.broker:incoming.source",
    "org.apache.qpid.broker:outgoing.target",
    "org.apache.qpid.broker:queue.redirectPeer",
    # Names that clients and operators make up to tell their links, consumers and domains apart.
    "rabbitmq:link.name",
    "rabbitmq:consumer.tag",
    "rabbitmq:queue.exclusiveConsumerTag",
    "rabbitmq:queue.singleActiveConsumerTag",
    "rabbitmq:streamConsumer.groupName",
    "rabbitmq:streamPublisher.reference",
    "rabbitmq:vhost.tags",
    "org.apache.qpid.broker:incoming.name",
    "org.apache.qpid.broker:outgoing.name",
    "org.apache.qpid.broker:subscription.name",
    "org.apache.qpid.broker:subscribe.dest",
    "org.apache.qpid.broker:unsubscribe.dest",
    "org.apache.qpid.broker:incoming.domain",
    "org.apache.qpid.broker:outgoing.domain",
    # Made of the other broker's address: without it no alarm of a link could be shown.
    "org.apache.qpid.broker:link.name",
    # Numbers, tags and words of brokers' own.
    "rabbitmq:federationLink.linkId",
    "org.apache.qpid.broker:vhost.federationTag",
    "org.apache.qpid.broker:bridge.tag",
    "org.apache.qpid.broker:bridge.excludes",
    "org.apache.qpid.broker:link.state",
    "org.apache.qpid.broker:subscription.creditMode",
    # Properties of queues, bindings and subscriptions.
    "org.apache.qpid.broker:subscription.arguments",
    "rabbitmq:binding.propertiesKey",
    "org.apache.qpid.broker:topic.properties",
    "org.apache.qpid.broker:topicpolicy.properties",
    "org.apache.qpid.broker:queuepolicy.properties",
    # Never has a value.
    "org.apache.qpid.broker:domain.password",
}
"""Texts that such words describe, and that are shown all the same: each is a decision."""


def _identifying(mappings: dict[str, Mapping]) -> Iterator[str]:
    """Yield the elements and arguments with a text that such words describe, and that are not private."""
    marks = Marks(mappings)
    for package, mapping in mappings.items():
        for name, rule in mapping.classes.items():
            for element, known in {**rule.properties, **rule.statistics}.items():
                is_shown = not marks.is_private_element(ClassKey(package, name), element)
                has_text = known.type in _TEXTS and not known.values
                if is_shown and has_text and _identifies(element, known.label, known.description):
                    yield f"{package}:{name}.{element}"
        for name, event in mapping.events.items():
            for argument, described in event.arguments.items():
                key = ClassKey(package, name)
                is_shown = not (marks.is_private_event(key) or marks.is_private_argument(key, argument))
                has_text = described.type in _TEXTS and not described.values
                if is_shown and has_text and _identifies(argument, described.label, described.description):
                    yield f"{package}:{name}.{argument}"


def _identifies(name: str, label: str | None, description: str | None) -> bool:
    words = re.sub(r"(?<=[a-z])(?=[A-Z])|_", " ", name)
    text = f"{words} {label or ''} {description or ''}".lower()
    return _IDENTIFYING.search(re.sub(r"virtual hosts?|\bvhosts?\b", "", text)) is not None


def test_what_names_an_address_a_host_a_user_or_a_client_is_private_or_a_decision() -> None:
    assert set(_identifying(dict(shipped_mappings()))) == SHOWN


def test_what_is_dangerous_at_a_value_names_that_value() -> None:
    """Else the outcome of every setting says what that one value leads to."""
    lacking = [
        f"{package}:{name}.{element}"
        for package, mapping in shipped_mappings().items()
        for name, rule in mapping.classes.items()
        for element, known in {**rule.properties, **rule.statistics}.items()
        if (found := _AT_A_VALUE.match(known.dangerous)) and int(found[1]) not in known.dangerous_at
    ]
    assert lacking == []


def test_a_second_element_or_argument_of_a_private_name_is_private() -> None:
    """A peer's class may have a property and a statistic of one name: the second gets another name."""
    marks = Marks(dict(shipped_mappings()))
    connection = ClassKey("org.apache.qpid.broker", "connection")
    assert [marks.is_private_element(connection, name) for name in ("authIdentity", "authIdentity_2")] == [
        True,
        True,
    ]
    opened = ClassKey("org.apache.qpid.broker", "bind")
    assert [marks.is_private_argument(opened, name) for name in ("rhost", "rhost_2", "rhost_")] == [
        True,
        True,
        False,
    ]


@pytest.mark.parametrize(
    ("event", "received"),
    [
        ("processEnded", Received.WHOLE),
        # Its reason is the signal, with the process and the user who sent it.
        ("gatewayStopping", Received.WITHOUT_PRIVATE),
        ("accessRefused", Received.NOTHING),
        ("policyChanged", Received.NOTHING),
    ],
)
def test_what_monitoring_receives_of_the_gateways_own_events(event: str, received: Received) -> None:
    compiled, tables = PolicyTables(RoleSet(principals={"*": (MONITORING,)}), Marks({})), AccessTables()
    tables.take(compiled.record)
    (schema,) = (one for one in OWN_EVENTS if one.key.name == event)
    tables.take(compiled.event_access(EventClassRecord(1, schema)))
    assert tables.receives_event(0, 1, "gateway", None) is received


def test_what_a_mapping_describes_is_no_second_element_of_another_name() -> None:
    """A mapping has the names that its peer sends: a rule of ``rate`` is none of its ``rate_5``."""
    described = Mapping.model_validate(
        {
            "version": 1,
            "package": "pond",
            "module": "POND",
            "prefix": "pond",
            "classes": {"fish": {"statistics": {"rate": {}, "rate_5": {}}}},
        }
    )
    marks, fish = Marks({"pond": described}), ClassKey("pond", "fish")
    assert marks.reading(fish, "rate_5").original == ""
    assert marks.reading(fish, "rate_2").original == "rate"
