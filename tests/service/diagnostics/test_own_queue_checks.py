"""Before a source that has only AMQP is relied on, policies that reach its queue are named."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.config.files import load_configuration
from gateway.service.diagnostics.checks import check_sources
from gateway.service.diagnostics.doctor import Level
from gateway.service.diagnostics.doctor.examination import examine
from gateway.sources.rabbitmq.own_queue_policies import SPARE_OWN
from tests.components.command_line import new_site
from tests.components.rabbitmq import VirtualHost

POLICY = {"pattern": ".*", "definition": {"max-length": 100}}


@pytest.mark.each_rabbitmq(takes_long=True)
async def test_check_and_doctor_name_policy_and_queue_of_a_source_whose_broker_another_source_reads(
    virtual_host: VirtualHost, tmp_path: Path
) -> None:
    broker, site = virtual_host.broker, new_site(tmp_path)
    account = {"user": broker.administrator.name, "password": site.secret(broker.administrator.password)}
    amqp = {"url": f"amqp://127.0.0.1:{broker.ports.amqp}", "vhost": virtual_host.name, **account}
    agents = {"kind": "qmf", "amqp": amqp, "trust_anyone": True, "request_deadline": "1s"}
    reader = {"kind": "rabbitmq", "management": broker.management_url, **account}
    site.configure(sources={"agents": agents, "kept": {**agents, "durable": {}}, "broker": reader})
    with virtual_host.http() as client:
        client.put(f"exchanges/{virtual_host.path}/qpid.management", json={"type": "topic"})
        client.put(f"policies/{virtual_host.path}/cap", json=POLICY).raise_for_status()
    loaded, lines = load_configuration(site.configuration), list[str]()
    await check_sources(loaded, lines.append)
    named = [line for line in lines if line.endswith(SPARE_OWN)]
    reads = "source broker reads this broker: the policy 'cap' (max-length: 100) may reach the gateway's own"
    assert [line.partition(" queue ")[0] for line in named] == [
        f"source agents: {reads}",
        f"source kept: {reads}",
    ]
    assert "queue amqp-gateway.console.kept, which may lose messages" in named[1]
    found = [one async for one in examine(loaded) if one.text.endswith(SPARE_OWN)]
    assert [(one.subject, one.level) for one in found] == [
        ("agents", Level.WARNING),
        ("kept", Level.WARNING),
    ]
    (tmp_path / "ca").write_text("PEM\n")
    (tmp_path / "ca").chmod(0o666)
    site.configure(sources={"agents": agents, "broker": {**reader, "ca_file": "ca"}})
    loaded = load_configuration(site.configuration)
    found = [one async for one in examine(loaded) if one.text.endswith(SPARE_OWN)]
    assert found == [], "a source whose authorities everybody can write is not asked, nor sent a password"


async def test_nothing_is_said_where_no_source_reads_the_broker(
    virtual_host: VirtualHost, tmp_path: Path
) -> None:
    broker, site = virtual_host.broker, new_site(tmp_path)
    account = {"user": broker.administrator.name, "password": site.secret(broker.administrator.password)}
    amqp = {"url": f"amqp://127.0.0.1:{broker.ports.amqp}", "vhost": virtual_host.name, **account}
    agents = {"kind": "qmf", "amqp": amqp, "trust_anyone": True, "request_deadline": "1s"}
    site.configure(sources={"agents": agents})
    with virtual_host.http() as client:
        client.put(f"exchanges/{virtual_host.path}/qpid.management", json={"type": "topic"})
        client.put(f"policies/{virtual_host.path}/cap", json=POLICY).raise_for_status()
    lines: list[str] = []
    await check_sources(load_configuration(site.configuration), lines.append)
    assert not [line for line in lines if SPARE_OWN in line]
