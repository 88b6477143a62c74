"""A gateway with a source of kind cml, and the view of operators."""

from __future__ import annotations

import getpass
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from tests.components.command_line import RunningCommand, Site, new_site, running
from tests.components.operated_gateway import OPERATOR, OperatedGateway
from tests.components.waiting import wait_until

SOURCE = "openamq"
QUICK = {
    "interval": "1s",
    "intervals": dict.fromkeys(("broker", "queue", "exchange", "connection", "config"), "1s"),
}


@dataclass(frozen=True, slots=True)
class OpenAmqGateway(OperatedGateway):
    """A gateway that runs and shows a broker.

    Attributes:
        site: its configuration.
        running: its process.
        jmx_port: the port of JMX; 0 without JMX.
    """

    modules: ClassVar = ("AMQP-GATEWAY-OPENAMQ-MIB",)
    site: Site
    running: RunningCommand
    jmx_port: int = 0

    def has_pending(self, count: int) -> None:
        """Wait until the queue ``orders`` is shown with so many messages."""
        queue = f"{SOURCE}/queue/OpenAMQ 1.4c1|orders"
        wait_until(
            lambda: self.shown(queue).get("values", {}).get("pending") == count, f"{count} messages are shown"
        )


@contextmanager
def gateway_at(
    url: str,
    user: str,
    password: str,
    folder: Path,
    *,
    vhost: str = "/",
    jmx_port: int = 0,
    **settings: Any,  # noqa: ANN401  of a configuration
) -> Iterator[OpenAmqGateway]:
    """Run a gateway, with JMX if a port is given; ``settings`` are further settings of the source."""
    site = new_site(folder)
    amqp = {"url": url, "vhost": vhost, "user": user, "password": site.secret(password)}
    source: Mapping[str, object] = {"kind": "cml", "amqp": amqp, **QUICK, **settings}
    who = [f"cli:{getpass.getuser()}", f"snmp:{OPERATOR}", *([f"jmx:{OPERATOR}"] if jmx_port else [])]
    jmx = {"enabled": True, "listen": f"127.0.0.1:{jmx_port}", "users": {OPERATOR: {}}} if jmx_port else {}
    rule = {
        "who": who,
        "classes": ["openamq.org.server:*"],
        "set": ["*"],
        "invoke": ["purge", "lock", "commit"],
    }
    site.configure(
        sources={SOURCE: source},
        operations={"allow": [{**rule, "read": True}], "deadline": "1min"},
        snmp={"listen": [f"127.0.0.1:{site.snmp_port}"], "writers": {OPERATOR: {}}},
        jmx=jmx,
        log={"compact": False},
    )
    with running("run", "--config", site.configuration, log=folder / "log") as command:
        command.ready()
        yield OpenAmqGateway(site, command, jmx_port)
