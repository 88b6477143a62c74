"""One gateway with a source of every kind, its peers, and its clients: net-snmp, Java, the log."""

from __future__ import annotations

import getpass
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import ClassVar, Final

from gateway.demo.broker import PrivateBroker
from tests.all_dialects.peers import TRAPS, Peers, peers
from tests.applications.plant import MAPPING
from tests.components.am01_agent import REPUBLISHED
from tests.components.ami_application import Application, connected
from tests.components.background import Background, background
from tests.components.command_line import Site, new_site, running
from tests.components.operated_gateway import OPERATOR, OperatedGateway
from tests.components.ports import free_tcp_port
from tests.components.rabbitmq import VirtualHost, new_virtual_host
from tests.components.waiting import wait_until

SOURCES: Final = {
    "rabbitmq": "rabbitmq",
    "qpid": "qmf",
    "alike": "qmf",
    "cellar": "am01",
    "openamq": "cml",
    "plant": "ami",
}
"""The names and kinds of the sources."""
QUEUE: Final = "side-by-side"
"""A queue of the RabbitMQ; it has a name of its own, because other tests have queues there."""
APPLICATION: Final = "pump-7"


@dataclass
class Scene(OperatedGateway):
    """The running gateway and its peers.

    Attributes:
        site: the gateway's folder.
        peers: on an event loop of their own.
        shop: the virtual host of the RabbitMQ in which queues are.
        jmx_port: of the gateway; so are `ami_port`, for applications, and `page_port`, of the metrics.
        application: that speaks AMI.
    """

    modules: ClassVar = tuple(
        f"AMQP-GATEWAY-{name}-MIB" for name in ("RABBITMQ", "QPID", "OPENAMQ", "AMI", "SITE")
    )
    site: Site
    peers: Background[Peers]
    shop: VirtualHost
    jmx_port: int
    ami_port: int
    page_port: int
    application: Application = field(init=False)
    _running: ExitStack = field(default_factory=ExitStack, repr=False)

    def start(self) -> None:
        """Start the gateway and the application, and wait until all objects of the peers are known."""
        log = self.site.folder / f"gateway-{len(list(self.site.folder.glob('gateway-*')))}.log"
        gateway = self._running.enter_context(running("run", "--config", self.site.configuration, log=log))
        gateway.ready()
        wait_until(lambda: self.states().get("plant") == "synchronised", "the gateway listens")
        self.application = self._running.enter_context(connected(self.ami_port))
        self.application.log_in(APPLICATION)
        self.application.say('O|T="Tank"|I="t1"|level=42|filled=900L|state="open"')
        wait_until(lambda: self.states() == dict.fromkeys(SOURCES, "synchronised"), "all is known")

    def end(self) -> None:
        """End the gateway and the application; the peers stay."""
        self._running.close()

    def column(self, name: str) -> dict[str, set[str]]:
        """Return the values of a column of a table of objects, by the name of the source."""
        sources = {key.rpartition(".")[2]: value for key, value in self.walk("agSourceName").items()}
        shown: dict[str, set[str]] = {}
        for instance, value in self.walk(name).items():
            shown.setdefault(sources[instance.split(".")[-2]], set()).add(value)
        return shown

    def all_are(self, name: str, value: str) -> None:
        """Wait until all rows of a column have this value."""
        wait_until(lambda: set(self.walk(name).values()) == {value}, f"{name} is {value}")

    def until_all_logged(self, sources: Collection[str], condition: str) -> None:
        """Wait until the log has a record of each of these sources for which an SQL condition is true."""
        sql = f"SELECT DISTINCT source FROM log WHERE {condition}"  # noqa: S608  the test's own words

        def are_there() -> bool:
            return {row["source"] for row in self.ask_log(sql)} >= set(sources)

        wait_until(are_there, f"{condition} of all")

    def until_logged(self, source: str, event: str, text: str) -> None:
        """Wait until the log has an event of this name whose text says this."""
        sql = "SELECT text FROM log WHERE kind = 'event' AND source = $source AND event = $event"

        def is_there() -> bool:
            return any(text in row["text"] for row in self.ask_log(sql, source=source, event=event))

        wait_until(is_there, f"{event} of {source} is logged")


@contextmanager
def scene(broker: PrivateBroker, folder: Path) -> Iterator[Scene]:
    """Provide peers and gateway, as soon as the gateway knows all objects of the peers."""
    site = new_site(folder)
    (folder / "plant.yaml").write_text(MAPPING, encoding="utf-8")
    with ExitStack() as stack:
        shop, for_qpid, for_cellar, for_alike = (
            stack.enter_context(new_virtual_host(broker)) for _ in range(4)
        )
        living = partial(peers, broker, for_qpid.name, for_cellar.name, for_alike.name, folder / "traps")
        beside = stack.enter_context(background(living))
        there = Scene(site, beside, shop, free_tcp_port(), free_tcp_port(), free_tcp_port())
        _configure(there, broker, for_qpid, for_cellar, for_alike)
        _declare(shop)
        stack.callback(there.end)
        there.start()
        wait_until(partial(_is_described, site), "the module of what no shipped lock knows is written")
        yield there


def _configure(
    there: Scene,
    broker: PrivateBroker,
    for_qpid: VirtualHost,
    for_cellar: VirtualHost,
    for_alike: VirtualHost,
) -> None:
    user = broker.administrator
    amqp = f"amqp://127.0.0.1:{broker.ports.amqp}"
    account = {"user": user.name, "password": there.site.secret(user.password)}
    sources: dict[str, dict[str, object]] = {
        "rabbitmq": {
            "kind": "rabbitmq",
            "management": broker.management_url,
            "interval": "1s",
            "budget": 0.5,
            "events": {"url": amqp},
            "writing": account,
            **account,
        },
        "qpid": {
            "kind": "qmf",
            "amqp": {"url": amqp, "vhost": for_qpid.name, **account},
            "trusted_users": [user.name],
            "heartbeat": "5s",
            "durable": {"expires": "1min"},
        },
        "alike": {
            "kind": "qmf",
            "amqp": {"url": amqp, "vhost": for_alike.name, **account},
            "trusted_users": [user.name],
            "heartbeat": "5s",
        },
        "cellar": {
            "kind": "am01",
            "amqp": {"url": amqp, "vhost": for_cellar.name, **account},
            "trusted_users": [user.name],
            "get_and_set": True,
            "events": True,
            "interval": "5s",
            "republish_interval": f"{REPUBLISHED}s",
        },
        "openamq": {
            "kind": "cml",
            "amqp": {
                "url": f"amqp://127.0.0.1:{there.peers.is_.openamq_broker.port}",
                "user": "super",
                "password": there.site.secret("super"),
            },
            "interval": "2s",
            "intervals": dict.fromkeys(("broker", "queue", "exchange", "connection", "config"), "2s"),
            "short_lived": "yes",
            "assured": ["config-file", "heartbeats"],
        },
        "plant": {"kind": "ami", "listen": f"127.0.0.1:{there.ami_port}"},
    }
    host, port = there.peers.is_.traps.address
    # Events of all tests are sent, at times more than the rate. Traps would be left out; informs wait.
    receiver = {"address": f"{host}:{port}", "kind": "inform", "community": there.site.secret(TRAPS)}
    everybody = [f"snmp:{OPERATOR}", f"jmx:{OPERATOR}", f"cli:{getpass.getuser()}"]
    dangerous = ["maxConnections", "maxChannels", "port", "listen", "vhost"]
    allowed = {"who": everybody, "set": ["*", *dangerous], "invoke": ["*", "purge", "drain"], "read": True}
    there.site.configure(
        sources=sources,
        captures={name: {} for name in SOURCES},
        mappings=["plant.yaml"],
        snmp={
            "listen": [f"127.0.0.1:{there.site.snmp_port}"],
            "writers": {OPERATOR: {}},
            "notifications": {"nms": receiver},
        },
        jmx={
            "enabled": True,
            "listen": f"127.0.0.1:{there.jmx_port}",
            "users": {OPERATOR: {}, "monitor": {}},
        },
        metrics={
            "enabled": True,
            "listen": f"127.0.0.1:{there.page_port}",
            "objects": {"classes": {classes: ["*"] for classes in ("p1:*", "P1:*")}},
        },
        policy={"principals": {"*": ["everything"]}},
        operations={"allow": [allowed], "deadline": "1min"},
        log={"statistics_interval": "1s", "compact": False},
    )


def _declare(shop: VirtualHost) -> None:
    with shop.http() as http:
        http.put(f"queues/{shop.path}/{QUEUE}", json={"durable": True}).raise_for_status()


def _is_described(site: Site) -> bool:
    module = site.state.path / "mibs" / "AMQP-GATEWAY-SITE-MIB.mib"
    text = module.read_text(encoding="utf-8") if module.exists() else ""
    return all(f"{column} OBJECT-TYPE" in text for column in ("siteCellarVatCapacity", "siteAmiTankLevel"))
