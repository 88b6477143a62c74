"""The rights of users on a real broker of these tests alone, where some users have too many."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gateway.config.files import LoadedConfiguration, load_configuration
from gateway.demo.broker import BrokerSettings, PrivateBroker
from gateway.service.diagnostics.doctor import Finding, Level
from gateway.service.diagnostics.doctor.brokers import agent_findings, source_findings
from gateway.sources.rabbitmq.status import STATISTICS_OFF
from tests.components.command_line import Site, new_site
from tests.components.rabbitmq import TEST_SETTINGS, VirtualHost

NOTHING = {"configure": "^$", "write": "^$", "read": "^$"}
PASSWORD = "secret"


def make_user(broker: PrivateBroker, name: str, tags: str) -> None:
    with broker.http() as http:
        http.put(f"users/{name}", json={"password": PASSWORD, "tags": tags}).raise_for_status()


def permit(broker: PrivateBroker, name: str, **rights: str) -> None:
    with broker.http() as http:
        http.put(f"permissions/%2F/{name}", json={**NOTHING, **rights}).raise_for_status()


def source(broker: PrivateBroker, site: Site, name: str, **more: dict[str, Any]) -> dict[str, Any]:
    account = {"user": name, "password": site.secret(PASSWORD)}
    return {"kind": "rabbitmq", "management": broker.management_url, **account, **more}


async def found(loaded: LoadedConfiguration, name: str) -> list[Finding]:
    return await source_findings(name, loaded.settings.sources[name], loaded.folder)


def worth_a_look(findings: list[Finding]) -> list[tuple[str, Level]]:
    return [(finding.check, finding.level) for finding in findings if finding.level is not Level.GOOD]


@pytest.mark.xdist_group("lent broker")
async def test_rights_too_small_and_too_large(lent_rabbitmq: PrivateBroker, tmp_path: Path) -> None:
    broker, site = lent_rabbitmq, new_site(tmp_path)
    for name, tags in (
        ("least", "monitoring"),
        ("small", "management"),
        ("wide", "monitoring"),
        ("nowhere", "monitoring"),
        ("chief", "administrator"),
    ):
        make_user(broker, name, tags)
    for name in ("least", "small"):
        permit(broker, name)
    own = r"^amqp-gateway\."
    permit(broker, "chief", configure=own, write=rf"{own}|^amq\.topic$", read=rf"{own}|^amq\.")
    permit(broker, "wide", write=".*")
    chief = {"user": "chief", "password": site.secret(PASSWORD)}
    small = {"user": "small", "password": site.secret(PASSWORD)}
    amqp = {"url": f"amqp://127.0.0.1:{broker.ports.amqp}", "vhost": "/", **chief}
    publish = {"amqp": amqp, "allowed_users": ["gateway"], "exchange": "amq.topic"}
    site.configure(
        sources={
            **{name: source(broker, site, name) for name in ("least", "small", "nowhere", "chief")},
            "wide": source(broker, site, "wide", writing=chief),
            "writing": source(broker, site, "least", writing=chief),
            "helpless": source(broker, site, "least", writing=small),
            "one": source(broker, site, "chief", writing=chief),
            "field": {"kind": "qmf", "amqp": amqp, "trust_anyone": True, "exchange": "amq.topic"},
            "down": {**source(broker, site, "least"), "management": "http://127.0.0.1:1"},
        },
        agents={"agent": {**source(broker, site, "chief"), "publish": publish}},
    )
    loaded = load_configuration(site.configuration)
    note, warning, problem = Level.NOTE, Level.WARNING, Level.PROBLEM
    quiet = [("source", note)]  # events are not configured
    unchecked = [("rights", Level.NOT_CHECKED), ("impersonators", Level.NOT_CHECKED)]

    assert worth_a_look(await found(loaded, "least")) == [*quiet, *unchecked]
    assert worth_a_look(await found(loaded, "small")) == [*quiet, ("rights", problem), *unchecked]
    assert worth_a_look(await found(loaded, "wide")) == [*quiet, ("rights", warning)]
    assert worth_a_look(await found(loaded, "nowhere")) == [*quiet, ("rights", note), *unchecked]
    assert worth_a_look(await found(loaded, "chief")) == [*quiet, ("rights", warning)]
    assert worth_a_look(await found(loaded, "writing")) == quiet
    assert worth_a_look(await found(loaded, "helpless")) == [*quiet, ("rights", problem), *unchecked]
    assert worth_a_look(await found(loaded, "one")) == [*quiet, ("rights", warning)]
    # Nobody answers the greeting of this source.
    assert worth_a_look(await found(loaded, "field")) == [*quiet, ("believed", warning), unchecked[1]]
    assert worth_a_look(await found(loaded, "down")) == [("source", problem)]
    clock = next(finding for finding in await found(loaded, "least") if finding.check == "clock")
    assert clock.text == "the broker's clock agrees with ours"

    make_user(broker, "forger", "impersonator")
    chiefs = await found(loaded, "chief")
    assert worth_a_look(chiefs) == [*quiet, ("rights", warning), ("impersonators", warning)]
    assert chiefs[-1].text == "'forger' can forge any sender on this broker"
    agents = await agent_findings("agent", loaded.settings.agents["agent"], loaded.folder)
    assert worth_a_look(agents) == [("agent", note), ("rights", warning), ("impersonators", problem)]


async def test_a_durable_subscription_whose_queue_is_a_quorum_queue(
    virtual_host: VirtualHost, tmp_path: Path
) -> None:
    broker, site = virtual_host.broker, new_site(tmp_path)
    administrator = broker.administrator
    events = {"url": f"amqp://127.0.0.1:{broker.ports.amqp}", "vhost": virtual_host.name}
    settings = {
        **source(broker, site, administrator.name, events=events, durable={}),
        "password": site.secret(administrator.password),
    }
    site.configure(sources={"orders": settings})
    loaded = load_configuration(site.configuration)
    queue = f"queues/{virtual_host.path}/amqp-gateway.events.orders"

    async def remarks() -> list[Finding]:
        return [finding for finding in await found(loaded, "orders") if finding.check == "durable"]

    with broker.http() as http:
        classic = {"durable": True, "arguments": {"x-queue-type": "classic"}}
        http.put(queue, json=classic).raise_for_status()
        assert await remarks() == []
        http.delete(queue).raise_for_status()
        quorum = {"durable": True, "arguments": {"x-queue-type": "quorum"}}
        http.put(queue, json=quorum).raise_for_status()
    (finding,) = await remarks()
    assert (finding.level, finding.subject) == (Level.WARNING, "orders")
    assert "amqp-gateway.events.orders is a quorum queue" in finding.text


@pytest.mark.each_rabbitmq(takes_long=True)
async def test_a_broker_without_statistics(
    start_rabbitmq: Callable[[BrokerSettings], PrivateBroker], tmp_path: Path
) -> None:
    off = replace(TEST_SETTINGS, configuration=("management.disable_stats = true",))
    broker = await asyncio.to_thread(start_rabbitmq, off)
    site = new_site(tmp_path)
    administrator = broker.administrator
    password = site.secret(administrator.password)
    site.configure(sources={"orders": {**source(broker, site, administrator.name), "password": password}})
    findings = await found(load_configuration(site.configuration), "orders")
    assert next(one.text for one in findings if one.check == "source") == "reached"
    (finding,) = [one for one in findings if one.check == "statistics"]
    assert (finding.level, finding.text) == (Level.WARNING, STATISTICS_OFF)
    assert "management.disable_stats" in finding.advice
