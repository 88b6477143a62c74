"""What a configuration sends beyond this machine without protection is found, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.config.model import Configuration
from gateway.config.transport_security import sent_in_plain_text

PASSWORD = {"env": "PASSWORD"}
TLS = {"certificate": "gateway.pem", "key": "gateway-key.pem"}


def rabbitmq(**changes: object) -> dict[str, Any]:
    settings = {"kind": "rabbitmq", "management": "http://127.0.0.1:15672", "user": "u", "password": PASSWORD}
    return {"sources": {"orders": {**settings, **changes}}}


def qmf(url: str) -> dict[str, Any]:
    amqp = {"url": url, "user": "u", "password": PASSWORD}
    return {"sources": {"field": {"kind": "qmf", "amqp": amqp, "trust_anyone": True}}}


def agent(url: str) -> dict[str, Any]:
    settings = rabbitmq()["sources"]["orders"]
    publish = {"amqp": {"url": url, "user": "u", "password": PASSWORD}, "allowed_users": ["gateway"]}
    return {"agents": {"orders": {**settings, "publish": publish}}}


def issued(url: str) -> dict[str, Any]:
    return {"token_url": url, "client_id": "gateway", "client_secret": {"env": "S"}}


def ami(**changes: object) -> dict[str, Any]:
    return {"sources": {"plant": {"kind": "ami", "listen": "192.0.2.1:3289", **changes}}}


def snmp(**changes: object) -> dict[str, Any]:
    return {"snmp": {"listen": ["192.0.2.1:161"], **changes}}


def found(settings: dict[str, Any]) -> list[str]:
    configuration = Configuration.model_validate({"version": 1, **settings})
    return [each.key for each in sent_in_plain_text(configuration)]


@pytest.mark.parametrize(
    ("settings", "keys"),
    [
        (rabbitmq(management="http://rabbit.example:15672"), ["sources.orders.management"]),
        (rabbitmq(management=["https://a.example", "http://b.example"]), ["sources.orders.management"]),
        (rabbitmq(events={"url": "amqp://rabbit.example"}), ["sources.orders.events.url"]),
        (rabbitmq(prometheus=["http://rabbit.example:15692"]), ["sources.orders.prometheus"]),
        (
            rabbitmq(management="http://rabbit.example:15672", prometheus_login="source"),
            ["sources.orders.management", "sources.orders.prometheus_login"],
        ),
        (rabbitmq(prometheus_login="source"), []),
        (rabbitmq(password=None, oauth=issued("https://id.example/token")), []),
        (
            rabbitmq(password=None, oauth=issued("http://id.example/token")),
            ["sources.orders.oauth.token_url"],
        ),
        (rabbitmq(proxy={"url": "http://proxy.example:3128"}), []),
        (
            rabbitmq(proxy={"url": "http://proxy.example:3128", "user": "a", "password": {"env": "P"}}),
            ["sources.orders.proxy.url"],
        ),
        (qmf("amqp://192.0.2.1"), ["sources.field.amqp.url"]),
        (agent("amqp://rabbit.example"), ["agents.orders.publish.amqp.url"]),
        (ami(allow_anyone=True), ["sources.plant.listen"]),
        (ami(allow_anyone=True, tls=TLS), ["sources.plant.tls"]),
        ({"jmx": {"enabled": True, "listen": "0.0.0.0:9990", "allow_plain_text": True}}, ["jmx.listen"]),
        ({"metrics": {"enabled": True, "listen": "[::]:9464"}}, ["metrics.listen"]),
        (snmp(), ["snmp.versions"]),
        (snmp(versions=["v3"], users={"eve": {"level": "authNoPriv"}}), ["snmp.users.eve.level"]),
        ({"snmp": {"notifications": {"noc": {"address": "192.0.2.9:162"}}}}, ["snmp.notifications.noc"]),
    ],
)
def test_what_the_network_can_read_is_found(settings: dict[str, Any], keys: list[str]) -> None:
    assert found(settings) == keys


@pytest.mark.parametrize(
    "settings",
    [
        {},
        rabbitmq(events={"url": "amqp://localhost"}, prometheus=["http://[::1]:15692"]),
        rabbitmq(management="https://rabbit.example", events={"url": "amqps://rabbit.example"}),
        qmf("amqps://192.0.2.1"),
        ami(tls={**TLS, "client_ca": "ca.pem"}),
        {"jmx": {"listen": "0.0.0.0:9990", "allow_plain_text": True}},
        {"jmx": {"enabled": True, "listen": "0.0.0.0:9990", "tls": TLS}},
        {"metrics": {"enabled": True, "listen": "[::]:9464", "tls": TLS}},
        {"metrics": {"listen": "[::]:9464"}},
        snmp(versions=["v3"], users={"eve": {}}),
        snmp(enabled=False),
    ],
)
def test_what_is_protected_or_stays_on_this_machine_is_not(settings: dict[str, Any]) -> None:
    assert found(settings) == []
