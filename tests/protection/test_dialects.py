"""Each dialect over AMQP is protected, and no dialect knows of it: sources that read protected peers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from gateway.clock import SystemClock
from gateway.config.sources import Source
from gateway.dialects.qmf.am01.messages import Revision
from gateway.feed.records import SourceRecord
from gateway.inventory.classes import ClassRegistry
from gateway.inventory.instances import InstanceIndex
from gateway.inventory.inventory import Inventory
from gateway.model.observations import SourceState
from gateway.model.secrets import SecretRules
from gateway.protection.bodies import AcceptedInMemory, BodyProtection
from gateway.protection.key_files import KeyFolder, KeyNames, WatchedKeys
from gateway.protection.keys import Use, generated
from gateway.service.sources.source_context import SourceContext
from gateway.service.sources.sources import source_of
from tests.components.agent_on_link import AgentOnLink
from tests.components.am01_agent import Am01Agent
from tests.components.called_agent import CalledAgent
from tests.components.open_amq import serving
from tests.components.rabbitmq import VirtualHost
from tests.components.waiting import until
from tests.links.recording import endpoint_of
from tests.protection.parties import LATE

WITNESS = "witness"
SETTINGS: TypeAdapter[Source] = TypeAdapter(Source)


@asynccontextmanager
async def speaking(agent: AgentOnLink, vhost: VirtualHost, protection: BodyProtection) -> AsyncIterator[None]:
    """Run an agent for as long as the context lasts."""
    agent.protection = protection
    running = asyncio.create_task(agent.speak(vhost.broker, vhost.name))
    try:
        await until(lambda: agent.is_up, "the agent is up")
        yield
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


@asynccontextmanager
async def answering(vhost: VirtualHost, protection: BodyProtection) -> AsyncIterator[None]:
    """Run a server of CML for as long as the context lasts."""
    with vhost.http() as http:
        for exchange in ("shop.system", "amq.notify"):
            http.put(f"exchanges/{vhost.path}/{exchange}", json={"type": "direct"})
    endpoint = endpoint_of(vhost.broker, vhost.name)
    async with serving(endpoint, system_exchange="shop.system", protection=protection):
        yield


def peer(
    kind: str, vhost: VirtualHost, protection: BodyProtection
) -> tuple[AbstractAsyncContextManager[None], dict[str, object], str]:
    """Return a peer of a kind of source, the settings for it, and the exchange of its requests."""
    user = vhost.broker.administrator.name
    settings: dict[str, object] = {"trusted_users": [user]}
    match kind:
        case "qmf":
            return speaking(CalledAgent(user), vhost, protection), settings, "qpid.management"
        case "am01":
            agent = Am01Agent(vhost.broker, vhost.name, Revision.DESIGN_NOTES)
            agent.put(1)
            settings |= {"interval": "5s", "republish_interval": "2s"}
            return speaking(agent, vhost, protection), settings, "qpid.management"
        case _:
            settings = {"system_exchange": "shop.system", "notify_exchange": None}
            return answering(vhost, protection), settings, "shop.system"


@pytest.mark.parametrize("kind", ["qmf", "am01", "cml"])
async def test_a_source_reads_a_protected_peer(kind: str, virtual_host: VirtualHost, tmp_path: Path) -> None:
    keys = KeyFolder(tmp_path / "keys")
    for name in ("peer", "gateway"):
        keys.write(name, generated((Use.SIGN, Use.READ)))
    names = KeyNames("peer", "gateway", ("peer",), ("gateway",))
    protection = BodyProtection(WatchedKeys(keys, names), AcceptedInMemory(LATE, 0), 1)
    running, settings, exchange = peer(kind, virtual_host, protection)
    async with running:
        await asyncio.to_thread(witness, virtual_host, exchange)
        await read(kind, settings, virtual_host, tmp_path)
    # An agent before AM2 publishes everything without being asked.
    assert protection.opened or kind == "am01"
    assert protection.sealed
    assert not protection.refusals
    bodies = [
        message for message in seen(virtual_host) if not message["routing_key"].startswith("amqp-gateway.")
    ]
    assert bodies
    for message in bodies:
        assert message["properties"]["content_type"] == "application/jose"


async def read(kind: str, settings: dict[str, object], vhost: VirtualHost, folder: Path) -> None:
    """Read the peer as a source until it is synchronised."""
    broker = vhost.broker
    user, secret = broker.administrator, folder / "password"
    secret.write_text(user.password)
    secret.chmod(0o600)
    source = SETTINGS.validate_python(
        {
            "kind": kind,
            "amqp": {
                "url": f"amqp://127.0.0.1:{broker.ports.amqp}",
                "vhost": vhost.name,
                "user": user.name,
                "password": {"file": "password"},
            },
            "protected": {"sign_as": "gateway", "encrypt_for": "peer", "trusted": ["peer"]},
            **settings,
        }
    )
    with closing(InstanceIndex(folder / "index")) as index:
        inventory = Inventory("gw", 1, ClassRegistry({}), index, lambda _: None)
        around = SourceContext(inventory, {}, SecretRules(), SystemClock(), folder, 1, state=folder)
        running = asyncio.create_task(source_of("one", source, around)())

        def is_synchronised() -> bool:
            records = inventory.snapshot()[0]
            assert not running.done()
            (one,) = (record for record in records if isinstance(record, SourceRecord))
            return one.state is SourceState.SYNCHRONISED

        try:
            await until(is_synchronised, "the source is synchronised")
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
    assert (folder / "replay" / "one.window").exists()


def witness(vhost: VirtualHost, exchange: str) -> None:
    """Bind a queue that gets the requests to the peer."""
    with vhost.http() as http:
        http.put(f"queues/{vhost.path}/{WITNESS}", json={}).raise_for_status()
        for key in ("#", "amq.console"):
            binding = f"bindings/{vhost.path}/e/{exchange}/q/{WITNESS}"
            http.post(binding, json={"routing_key": key}).raise_for_status()


def seen(vhost: VirtualHost) -> list[dict[str, Any]]:
    """Return the messages of the witness's queue."""
    words = {"count": 10_000, "ackmode": "ack_requeue_false", "encoding": "auto"}
    with vhost.http() as http:
        found: list[dict[str, Any]] = http.post(f"queues/{vhost.path}/{WITNESS}/get", json=words).json()
    return found
