"""Mistakes in a source, an agent, or the event log: the complaints, word for word, and their places."""

from __future__ import annotations

import pytest

from tests.config.sample import RABBITMQ, UNIT, complaints


@pytest.mark.parametrize(
    ("source", "complaint"),
    [
        ("{}", "'kind' is required"),
        ("{kind: kafka}", "'kind' is 'kafka'; it can be 'rabbitmq', 'qmf', 'am01', 'cml', 'ami'"),
        (
            "{kind: qmf, amqp: {url: 'amqp://broker', user: gateway, password: {env: P}}}",
            "name under 'trusted_users' the users whose messages are an agent's",
        ),
    ],
)
def test_sources(source: str, complaint: str) -> None:
    assert complaints(f"version: 1\nsources:\n  orders: {source}\n") == [f"3: sources.orders: {complaint}"]


def test_a_user_with_a_colon() -> None:
    (found,) = complaints(RABBITMQ.replace("user: gateway", "user: 'shop:reader'"))
    assert found.startswith(
        "3: sources.orders: 'user': a name with a colon cannot log in to the management API"
    )


@pytest.mark.parametrize(
    ("keys", "complaint"),
    [
        ("", "3: sources.orders: 'password' is required, or 'oauth' in its place: neither is given"),
        (
            "password: {env: P}, oauth: {token_url: 'https://id', client_id: a, client_secret: {env: S}}",
            "3: sources.orders: 'password' is required, or 'oauth' in its place: both are given",
        ),
        (
            "oauth: {token_url: 'https://id', client_id: a, client_secret: sesame}",
            "3: sources.orders.oauth.client_secret: a secret does not stand in the configuration itself",
        ),
        (
            "password: {env: P}, proxy: {url: 'http://proxy', user: a}",
            "3: sources.orders.proxy: 'user' and 'password' are needed together, or neither",
        ),
        (
            "password: {env: P}, proxy: {url: 'http://a:b@proxy'}",
            "3: sources.orders.proxy.url: leave user and password out of the URL",
        ),
    ],
)
def test_logins_and_proxies(keys: str, complaint: str) -> None:
    source = f"{{kind: rabbitmq, management: 'http://rabbit', user: 'shop:a', {keys}}}"
    source = source.replace("shop:a", "shop") if "password: {env: P}" in keys else source
    (found,) = complaints(f"version: 1\nsources:\n  orders: {source}\n")
    assert found.startswith(complaint)


def test_a_user_with_a_token_may_have_a_colon() -> None:
    oauth = "oauth: {token_url: 'https://id', client_id: a, client_secret: {env: S}}"
    text = RABBITMQ.replace("user: gateway", "user: 'urn:reader'").replace("password: {env: PASSWORD}", oauth)
    assert complaints(text) == []


@pytest.mark.parametrize(
    ("durable", "complaint"),
    [
        ("durable: {}", "sources.orders: 'durable' keeps the broker's events: give their address under"),
        (
            "durable: {queue: orders}",
            "sources.orders.durable.queue: must begin with 'amqp-gateway.': the gateway has rights on",
        ),
        ("durable: {expires: 1s}", "sources.orders.durable.expires: is 10s to 30d here"),
        ("durable: {max_length: 10}", "sources.orders.durable.max_length: must be "),
    ],
)
def test_durable_subscriptions(durable: str, complaint: str) -> None:
    (found,) = complaints(f"{RABBITMQ}    {durable}\n")
    assert found.partition(": ")[2].startswith(complaint)


QMF = """version: 1
sources:
  orders:
    kind: qmf
    amqp: {url: 'amqp://broker', user: gateway, password: {env: P}}
    trusted_users: [agent]
"""


@pytest.mark.parametrize(
    ("protected", "complaint"),
    [
        ("{encrypt_for: agent, trusted: [agent]}", "sources.orders.protected.sign_as: "),
        (
            "{sign_as: ../me, encrypt_for: agent, trusted: [agent]}",
            "sources.orders.protected.sign_as: must ",
        ),
        (
            "{sign_as: me, encrypt_for: agent, trusted: []}",
            "sources.orders.protected.trusted: takes at least 1",
        ),
        (
            "{sign_as: me, encrypt_for: agent, trusted: [agent], late: 2h}",
            "sources.orders.protected.late: is 10s to 1h here",
        ),
    ],
)
def test_protected_bodies(protected: str, complaint: str) -> None:
    (found,) = complaints(f"{QMF}    protected: {protected}\n")
    assert found.partition(": ")[2].startswith(complaint)


@pytest.mark.parametrize(
    ("written", "complaint"),
    [
        ("commit_interval: 11s", "3: log.commit_interval: is 1ms to 10s here"),
        ("segment_duration: 2h", "3: log.segment_duration: is 1s to 1h here"),
        ("statistics_interval: often", f"3: log.statistics_interval: {UNIT}"),
        ("max_age: 59min", "3: log.max_age: is 1h to 366d here"),
        ("max_size: 15", "3: log.max_size: must be 16 or more"),
        (
            "statistics_intervals: {'rabbitmq:*': 2d}",
            "3: log.statistics_intervals.rabbitmq:*: is 1ms to 1d here",
        ),
        (
            "statistics_intervals: {queue: 5s}",
            "3: log.statistics_intervals.queue: write PACKAGE:CLASS, such as rabbitmq:queue or *:broker",
        ),
    ],
)
def test_the_event_log(written: str, complaint: str) -> None:
    assert complaints(f"version: 1\nlog:\n  {written}\n") == [complaint]


def test_intervals_of_classes_that_are_not_known_yet() -> None:
    assert complaints("version: 1\nlog: {statistics_intervals: {'acme:*': 5s, 'rabbitmq:queue': 1s}}\n") == []


def test_a_durable_subscription_needs_the_log() -> None:
    text = f"{RABBITMQ}    events: {{url: 'amqp://broker'}}\n    durable: {{}}\n"
    assert complaints(text) == []
    (found,) = complaints(f"{text}log: {{enabled: false}}\n")
    assert "9: sources.orders.durable: acknowledges what the event log has on the disk" in found


@pytest.mark.parametrize("key", ["exchange", "direct_exchange"])
def test_names_that_amqp_has_no_room_for(key: str) -> None:
    name = "\N{LATIN SMALL LETTER U WITH DIAERESIS}" * 128  # of 256 octets
    source = (
        "kind: qmf, amqp: {url: 'amqp://broker', user: gateway, password: {env: P}}, "
        f"trusted_users: [agent], {key}: {name}"
    )
    assert complaints(f"version: 1\nsources:\n  orders: {{{source}}}\n") == [
        f"3: sources.orders.{key}: has more than 255 bytes, which AMQP 0-9-1 has no room for"
    ]


@pytest.mark.parametrize("key", ["exchange", "direct_exchange"])
@pytest.mark.parametrize("name", ["q?", "x" * 128, "für"])
def test_names_that_the_client_library_does_not_take(key: str, name: str) -> None:
    source = (
        "kind: qmf, amqp: {url: 'amqp://broker', user: gateway, password: {env: P}}, "
        f"trusted_users: [agent], {key}: '{name}'"
    )
    (found,) = complaints(f"version: 1\nsources:\n  orders: {{{source}}}\n")
    assert found.startswith(f"3: sources.orders.{key}: must have letters, digits, spaces and -_.:@#,/+ only")


def test_the_name_of_a_source() -> None:
    text = RABBITMQ.replace("orders", "'our orders'")
    assert complaints(text) == [
        "3: sources.our orders: must match the pattern ^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$"
    ]


AMQP = "amqp: {url: 'amqp://broker', user: gateway, password: {env: P}}"
PUBLISH = f"{{{AMQP}, obey: [gateway]}}"


@pytest.mark.parametrize(
    ("section", "old", "new"),
    [
        (f"sources:\n  field:\n    kind: qmf\n    {AMQP}", "believe: [agent]", "trusted_users"),
        (f"sources:\n  field:\n    kind: am01\n    {AMQP}", "believe_anyone: true", "trust_anyone"),
        (f"sources:\n  field:\n    kind: cml\n    {AMQP}", "believe: [server]", "trusted_users"),
        ("sources:\n  plant:\n    kind: ami\n    own_name: false", "anyone: true", "allow_anyone"),
    ],
)
def test_an_old_key_of_a_source_names_the_new_one(section: str, old: str, new: str) -> None:
    name, key = section.split()[1].rstrip(":"), old.partition(":")[0]
    complaint = f"6: sources.{name}.{key}: is called '{new}' now: rename the key"
    assert complaints(f"version: 1\n{section}\n    {old}\n") == [complaint]


def test_an_old_key_is_refused_beside_the_new_one() -> None:
    (complaint,) = complaints(
        f"version: 1\nsources:\n  field: {{kind: qmf, {AMQP}, trusted_users: [a], believe: [a]}}\n"
    )
    assert complaint == "3: sources.field.believe: is called 'trusted_users' now: rename the key"


def test_old_keys_of_agents_and_of_writing_name_the_new_ones() -> None:
    writing = f"{RABBITMQ}    writing: {{user: w, password: {{env: P}}, lockout: [/]}}\n"
    (complaint,) = complaints(writing)
    assert complaint.endswith("writing.lockout: is called 'allow_lockout' now: rename the key")
    agent = f"{{kind: rabbitmq, management: 'http://h', user: a, password: {{env: P}}, publish: {PUBLISH}}}"
    found = complaints(f"version: 1\nagents: {{orders: {agent}}}\n")
    assert [text.partition(": ")[2] for text in found] == [
        "agents.orders.publish.allowed_users: is required",
        "agents.orders.publish.obey: is called 'allowed_users' now: rename the key",
    ]


def test_an_agent_without_allowed_users() -> None:
    text = """\
version: 1
agents:
  orders:
    kind: rabbitmq
    management: http://127.0.0.1:15672
    user: agent
    password: {env: PASSWORD}
    publish:
      amqp: {url: "amqp://127.0.0.1", user: agent, password: {env: PASSWORD}}
      allowed_users: []
"""
    assert complaints(text) == ["10: agents.orders.publish.allowed_users: takes at least 1"]


def test_what_is_captured_is_a_source() -> None:
    assert complaints(f"{RABBITMQ}captures: {{orders: {{max_size: 16}}}}") == []
    (complaint,) = complaints(f"{RABBITMQ}captures: {{other: {{}}}}")
    assert complaint.endswith("8: captures.other: names no source of 'sources'")


AGENT = """\
  agent:
    kind: qmf
    amqp: {url: 'amqp://broker', user: gateway, password: {env: P}}
    trust_anyone: true
"""
"""A second source of the same broker, beside `RABBITMQ`."""


def test_two_sources_may_be_one_broker() -> None:
    assert complaints(f"{RABBITMQ}{AGENT}    same_as: orders\n") == []


@pytest.mark.parametrize(
    ("same_as", "complaint"),
    [
        ("other", "there is no source 'other' under 'sources'"),
        (
            "agent",
            "names the source itself: name another one that reads the same broker, or leave it out",
        ),
        ("plant", "'plant' is no broker: it reads applications"),
        ("second", "'second' is itself 'same_as' another source: name the same one everywhere"),
        ("'not a name'", "must match the pattern"),
    ],
)
def test_which_source_is_the_same_broker(same_as: str, complaint: str) -> None:
    second = AGENT.replace("agent:", "second:") + "    same_as: orders\n"
    plant = "  plant: {kind: ami, listen: '127.0.0.1:3270'}\n"
    text = f"{RABBITMQ}{plant}{second}{AGENT}    same_as: {same_as}\n"
    line = text[: text.rindex("same_as")].count("\n") + 1
    (found,) = complaints(text)
    assert found.startswith(f"{line}: sources.agent.same_as: {complaint}")
