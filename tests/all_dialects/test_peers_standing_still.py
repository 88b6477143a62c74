"""The peers of all kinds but RabbitMQ stand still: values are stale in every front end, and none ends."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Final

import pytest
from prometheus_client.parser import text_string_to_metric_families

from gateway.demo.broker import PrivateBroker
from tests.all_dialects.peer_process import peer_process
from tests.applications.plant import MAPPING
from tests.components.command_line import Site, new_site, running
from tests.components.jmx_client import JmxClient
from tests.components.operated_gateway import OPERATOR, OperatedGateway
from tests.components.pages import served_page
from tests.components.ports import free_tcp_port
from tests.components.rabbitmq import new_virtual_host
from tests.components.stopping import stop
from tests.components.waiting import eventually, wait_until

OBJECTS: Final = {
    "qpid": ("qpidQueue", "type=queue,name=q3"),
    "cellar": ("siteCellarVat", "type=vat"),
    "openamq": ("oamqQueue", "type=queue"),
    "plant": ("siteAmiTank", "type=Tank"),
}
"""Of each source a table of the MIB, and a pattern of an MBean."""
EVERYTHING: Final = {"classes": {"*:*": ["*"]}}
"""What the page of metrics shows of objects: by default it is some classes of RabbitMQ and Qpid."""
STALE_AFTER: Final = "10s"
OF_STATE: Final = "kind IN ('source', 'agent')"


@dataclass
class Gateway(OperatedGateway):
    """The running gateway; `peers` is the process of its peers."""

    modules: ClassVar = tuple(f"AMQP-GATEWAY-{name}-MIB" for name in ("QPID", "OPENAMQ", "AMI", "SITE"))
    site: Site
    peers: int
    jmx_port: int = field(default_factory=free_tcp_port)
    page_port: int = field(default_factory=free_tcp_port)

    def stale(self, value: str) -> bool:
        """Return whether all rows of all sources say so of their values."""
        shown = [set(self.walk(f"{table}RowStale").values()) for table, _ in OBJECTS.values()]
        return all(values == {value} for values in shown)

    def on_the_page(self) -> set[str]:
        """Return the sources with objects on the page of metrics, which leaves out what is stale."""
        page = served_page(f"http://127.0.0.1:{self.page_port}/metrics/objects")
        samples = [one for family in text_string_to_metric_families(page.text) for one in family.samples]
        of_objects = [one for one in samples if not one.name.startswith("amqp_gateway_")]
        shown = {one.labels["source"] for one in of_objects if "source" in one.labels}
        return shown & OBJECTS.keys()

    def living(self) -> dict[str, tuple[int, str]]:
        """Return row and native id of all objects, by path."""
        return {one["object"]: (one["row"], one["lifetime"]) for one in self.documents("tree")}

    def logged(self, condition: str) -> set[str]:
        """Return the sources of which the log has such a record."""
        sql = f"SELECT DISTINCT source FROM log WHERE {condition}"  # noqa: S608  the test's own words
        return {row["source"] for row in self.ask_log(sql)} & OBJECTS.keys()

    def last_seq(self) -> int:
        """Return the number of the log's last record."""
        return int(self.ask_log("SELECT max(seq) AS last FROM log")[0]["last"])


@contextmanager
def gateway(broker: PrivateBroker, folder: Path) -> Iterator[Gateway]:
    """Provide peers and gateway, as soon as it has read them."""
    site, ami_port = new_site(folder), free_tcp_port()
    (folder / "plant.yaml").write_text(MAPPING, encoding="utf-8")
    with (
        new_virtual_host(broker) as for_qpid,
        new_virtual_host(broker) as for_cellar,
        peer_process(broker, for_qpid.name, for_cellar.name, ami_port) as (process, openamq_port),
    ):
        there = Gateway(site, process)
        user = broker.administrator
        account = {"user": user.name, "password": site.secret(user.password)}
        amqp = {"url": f"amqp://127.0.0.1:{broker.ports.amqp}", **account}
        trusted = {"trusted_users": [user.name], "stale_after": STALE_AFTER}
        openamq = {
            "url": f"amqp://127.0.0.1:{openamq_port}",
            "user": "super",
            "password": site.secret("super"),
        }
        classes = ("broker", "queue", "exchange", "connection", "config")
        sources = {
            "qpid": {"kind": "qmf", "amqp": amqp | {"vhost": for_qpid.name}, "heartbeat": "2s", **trusted},
            "cellar": {
                "kind": "am01",
                "amqp": amqp | {"vhost": for_cellar.name},
                "interval": "2s",
                "republish_interval": "2s",
                **trusted,
            },
            "openamq": {
                "kind": "cml",
                "amqp": openamq | {"password": site.secret("super")},
                "interval": "2s",
                "intervals": dict.fromkeys(classes, "2s"),
                "short_lived": "yes",
                "stale_after": STALE_AFTER,
            },
            "plant": {"kind": "ami", "listen": f"127.0.0.1:{ami_port}", "idle": "5s"},
        }
        site.configure(
            sources=sources,
            mappings=["plant.yaml"],
            jmx={"enabled": True, "listen": f"127.0.0.1:{there.jmx_port}", "users": {OPERATOR: {}}},
            metrics={"enabled": True, "listen": f"127.0.0.1:{there.page_port}", "objects": EVERYTHING},
            log={"commit_interval": "100ms", "compact": False},
        )
        with running("run", "--config", site.configuration, log=folder / "gateway.log") as command:
            command.ready()
            there.are_all("synchronised")
            yield there


@pytest.mark.long
async def test_values_are_stale_in_every_front_end_and_fresh_again(
    rabbitmq: PrivateBroker, tmp_path: Path
) -> None:
    with gateway(rabbitmq, tmp_path) as there:
        password = there.site.state.secret(f"jmx-{OPERATOR}")
        address = f"127.0.0.1:{there.jmx_port}"
        async with await JmxClient.connect(tmp_path / "client.jar", address, OPERATOR, password) as java:

            async def beans_are(stale: bool) -> bool:  # noqa: FBT001  as JMX has it
                patterns = [f"amqp.gateway:source={source},{of},*" for source, (_, of) in OBJECTS.items()]
                found = [name for pattern in patterns for name in await java.names(pattern)]
                shown = [(await java.read(name))["Stale"].value for name in found]
                return len(found) >= len(patterns) and set(shown) == {stale}

            wait_until(lambda: there.stale("false"), "all rows are fresh")
            wait_until(lambda: there.on_the_page() == OBJECTS.keys(), "all are on the page of metrics")
            await eventually(lambda: beans_are(False), "all MBeans are fresh")
            before, last = there.living(), there.last_seq()

            stop(there.peers)
            wait_until(lambda: there.stale("true"), "all rows are stale")
            wait_until(lambda: there.on_the_page() == set(), "the page of metrics has none of them")
            await eventually(lambda: beans_are(True), "all MBeans are stale")
            assert there.living() == before
            stopped = (
                f"seq > {last} AND kind IN ('source', 'agent') AND state NOT IN ('synchronised', 'fresh')"
            )
            wait_until(lambda: there.logged(stopped) == OBJECTS.keys(), "the log says it of all")
            stopped_until = there.last_seq()

            os.kill(there.peers, signal.SIGCONT)
            there.are_all("synchronised")
            wait_until(lambda: there.stale("false"), "all rows are fresh again")
            wait_until(lambda: there.on_the_page() == OBJECTS.keys(), "all are on the page again")
            await eventually(lambda: beans_are(False), "all MBeans are fresh again")
        assert there.living() == before
        again = (
            f"seq > {stopped_until} AND kind IN ('source', 'agent') AND state IN ('synchronised', 'fresh')"
        )
        wait_until(lambda: there.logged(again) == OBJECTS.keys(), "the log says that of all, too")
        assert there.logged(f"seq > {last} AND kind IN ('create', 'delete')") == set()
