"""An agent and a gateway that protect their bodies, in folders of their own, and a witness on the broker."""

from __future__ import annotations

import getpass
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from gateway.clock import SystemClock
from gateway.dialects.session import Send
from gateway.protection.bodies import AcceptedInMemory, BodyProtection
from gateway.protection.key_files import KeyFolder, KeyNames, WatchedKeys
from gateway.service.processes.exit_codes import ExitCode
from tests.components.command_line import RunningCommand, Site, amqp_gateway, new_site, running
from tests.components.operated_gateway import OperatedGateway
from tests.components.pages import served_page
from tests.components.ports import free_tcp_port
from tests.components.rabbitmq import VirtualHost
from tests.components.waiting import wait_until

AGENT: Final = "shop-agent"
GATEWAY: Final = "head-office"
SOURCE: Final = "shop"
QUEUE: Final = "confidential-orders"
"""A queue whose name no broker should see in a body."""
WITNESS: Final = "witness"
EXCHANGE: Final = "qpid.management"

Message = dict[str, Any]
"""A message as RabbitMQ's management API has it."""


@dataclass
class ProtectedShop(OperatedGateway):
    """The running agent and gateway.

    Attributes:
        site: the gateway's folder; so is `agent_site` the agent's.
        shop: the virtual host of the management exchange, and of the witness's queue.
        metrics_port: of the gateway; so is `agent_metrics_port` the agent's.
        agent: the agent's process; so is `gateway` the gateway's supervisor.
    """

    site: Site
    agent_site: Site
    shop: VirtualHost
    metrics_port: int
    agent_metrics_port: int
    agent: RunningCommand
    gateway: RunningCommand

    def read_queue(self) -> list[Message]:
        """Take all messages of the witness's queue, as an operator of the broker could."""
        words = {"count": 10_000, "ackmode": "ack_requeue_false", "encoding": "auto"}
        with self.shop.http() as http:
            answer = http.post(f"queues/{self.shop.path}/{WITNESS}/get", json=words).raise_for_status()
        found: list[Message] = answer.json()
        return found

    def witnessed(self, key: str, act: Callable[[], object] = lambda: None) -> Message:
        """Wait for a new message whose routing key matches, after ``act`` is done, and return it."""
        found: list[Message] = []
        self.read_queue()  # the messages of earlier attacks are there, too
        act()

        def is_there() -> bool:
            found.extend(one for one in self.read_queue() if re.match(key, one["routing_key"]))
            return bool(found)

        wait_until(is_there, f"a message to {key}")
        return found[-1]

    def publish(self, message: Message, **changed: object) -> None:
        """Publish a message of the witness again, as the user who sent it, and with changes."""
        properties = dict(message["properties"])
        properties |= dict(changed.pop("properties", {}))  # type: ignore[call-overload]
        body = {
            "routing_key": message["routing_key"],
            "payload": message["payload"],
            "payload_encoding": "string",
            **changed,
            "properties": properties,
        }
        with self.shop.http() as http:
            http.post(f"exchanges/{self.shop.path}/{EXCHANGE}/publish", json=body).raise_for_status()

    def refused(self, *, by_agent: bool = False) -> Mapping[str, int]:
        """Return the numbers of bodies that the gateway refused, or the agent, by reason."""
        port = self.agent_metrics_port if by_agent else self.metrics_port
        page = served_page(f"http://127.0.0.1:{port}/metrics").text
        lines = re.findall(r"amqp_gateway_source_protected_refused_total\{(.*)\} (\S+)", page)
        return {
            reason[1]: int(float(count))
            for labels, count in lines
            if (reason := re.search('reason="([^"]+)"', labels)) is not None
        }

    def is_refused(self, reason: str, message: Message, **changed: object) -> None:
        """Publish a message; wait until the gateway has counted it as refused, and has said so."""
        before = self.refused().get(reason, 0)
        self.publish(message, **changed)
        wait_until(
            lambda: self.refused().get(reason, 0) > before, f"a body is refused as {reason}: {self.refused()}"
        )
        assert any(line["event"] == f"refused-body-{reason}" for line in self.gateway.log)

    def forged_by_agent(self, send: Send, ago: int) -> Message:
        """Return a message of the agent that was signed ``ago`` nanoseconds before now."""
        now = SystemClock().now() - ago
        keys = WatchedKeys(KeyFolder(self.agent_site.folder / "keys"), KeyNames(AGENT, GATEWAY, (AGENT,), ()))
        user = self.shop.broker.administrator.name
        sealed = BodyProtection(keys, AcceptedInMemory(1, 1), 99).seal(send, user, now)
        assert isinstance(sealed, Send)
        properties = {"user_id": user, "content_type": sealed.content_type}
        return {
            "routing_key": sealed.routing_key,
            "payload": sealed.body.decode("ascii"),
            "properties": properties,
        }


@contextmanager
def protected_shop(
    shop: VirtualHost, folder: Path, durable: dict[str, str] | None = None, late: str = "5min"
) -> Iterator[ProtectedShop]:
    """Provide the agent and the gateway, as soon as the gateway knows all objects of the agent.

    Args:
        shop: the virtual host.
        folder: for the files of both.
        durable: the gateway's durable subscription; ``None`` for none.
        late: the age at which the gateway refuses a body.
    """
    (folder / "agent").mkdir()
    (folder / "gateway").mkdir()
    agent_site, site = new_site(folder / "agent", state=False), new_site(folder / "gateway")
    metrics_port, agent_metrics_port = free_tcp_port(), free_tcp_port()
    _configure(site, agent_site, shop, (metrics_port, agent_metrics_port))
    source = yaml.safe_load(site.configuration.read_text())
    source["sources"][SOURCE]["protected"]["late"] = late
    if durable is not None:
        source["sources"][SOURCE]["durable"] = durable
    site.configuration.write_text(yaml.safe_dump(source))
    _exchange_keys(site, agent_site)
    _declare(shop)
    with ExitStack() as stack:
        agent = stack.enter_context(
            running("agent", SOURCE, "--config", agent_site.configuration, log=folder / "agent.log")
        )
        gateway = stack.enter_context(
            running("run", "--config", site.configuration, log=folder / "gateway.log")
        )
        gateway.ready()
        there = ProtectedShop(site, agent_site, shop, metrics_port, agent_metrics_port, agent, gateway)
        there.are_all("synchronised")
        wait_until(lambda: there.shown(f"{SOURCE}/queue/{shop.name}|{QUEUE}"), "the queue is shown")
        yield there


def keys(site: Site, *words: str | Path) -> str:
    """Run `amqp-gateway keys` for a site; return what it printed."""
    command, *rest = words
    ended = amqp_gateway("keys", command, *rest, "--config", site.configuration)
    assert ended.code is ExitCode.OK, ended.errors
    return ended.output


def hand_out(name: str, owner: Site, to: Site) -> None:
    """Bring the public keys of ``owner`` to a peer."""
    keys(owner, "export", name, "--output", to.folder / "keys" / f"{name}.public.jwks")


def _exchange_keys(site: Site, agent_site: Site) -> None:
    keys(site, "gen", GATEWAY)
    keys(agent_site, "gen", AGENT)
    hand_out(GATEWAY, site, agent_site)
    hand_out(AGENT, agent_site, site)


def _configure(site: Site, agent_site: Site, shop: VirtualHost, metrics_ports: tuple[int, int]) -> None:
    broker, user = shop.broker, shop.broker.administrator
    url = f"amqp://127.0.0.1:{broker.ports.amqp}"

    def amqp(of: Site) -> dict[str, object]:
        return {"url": url, "vhost": shop.name, "user": user.name, "password": of.secret(user.password)}

    site.configure(
        sources={
            SOURCE: {
                "kind": "qmf",
                "amqp": amqp(site),
                "trusted_users": [user.name],
                "heartbeat": "2s",
                "request_deadline": "5s",
                "protected": {"sign_as": GATEWAY, "encrypt_for": AGENT, "trusted": [AGENT]},
            }
        },
        metrics={"enabled": True, "listen": f"127.0.0.1:{metrics_ports[0]}"},
        operations={"allow": [{"who": [f"cli:{getpass.getuser()}"], "read": True}]},
        log={"compact": False},
    )
    agent_site.configure(
        agents={
            SOURCE: {
                "kind": "rabbitmq",
                "management": broker.management_url,
                "user": user.name,
                "password": agent_site.secret(user.password),
                "events": {"url": url},
                "interval": "1s",
                "budget": 0.5,
                "metrics": {"listen": f"127.0.0.1:{metrics_ports[1]}"},
                "publish": {
                    "amqp": amqp(agent_site),
                    "allowed_users": [user.name],
                    "interval": "1s",
                    "protected": {"sign_as": AGENT, "encrypt_for": GATEWAY, "trusted": [GATEWAY]},
                },
            }
        }
    )


def _declare(shop: VirtualHost) -> None:
    """Declare the queue that is managed, and the witness's, which gets all that the exchange gets."""
    with shop.http() as http:
        for name in (QUEUE, WITNESS):
            http.put(f"queues/{shop.path}/{name}", json={"durable": True}).raise_for_status()
        exchange = {"type": "topic", "durable": True}
        http.put(f"exchanges/{shop.path}/{EXCHANGE}", json=exchange).raise_for_status()
        binding = f"bindings/{shop.path}/e/{EXCHANGE}/q/{WITNESS}"
        http.post(binding, json={"routing_key": "#"}).raise_for_status()
