"""A gateway whose configuration allows nothing to anybody asks an OpenAMQ for what it shows, and no more."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from gateway.dialects.cml.messages import InspectRequest, SchemaRequest
from gateway.dialects.cml.reader import read_message
from gateway.dialects.effects import Delivery, Effect
from gateway.service.exit_codes import ExitCode
from tests.components.amqp_peer import AmqpPeer
from tests.components.background import in_background
from tests.components.command_line import amqp_gateway, new_site, running
from tests.components.open_amq import OpenAmq
from tests.components.waiting import wait_until

pytestmark = pytest.mark.xdist_group("an OpenAMQ that is set")

SETTINGS = "openamq/openamq.org.server:config/OpenAMQ 1.4c1|amq_server.cfg"
QUEUE = "openamq/queue/OpenAMQ 1.4c1|orders"


class HeardOpenAmq(OpenAmq):
    """One that remembers what it is asked, by the kinds of requests."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: set[type] = set()

    def receive(self, delivery: Delivery, now: int) -> list[Effect]:
        """Note what it is, and answer."""
        self.asked.add(type(read_message(delivery.body)))
        return super().receive(delivery, now)


@asynccontextmanager
async def heard_open_amq() -> AsyncIterator[tuple[HeardOpenAmq, AmqpPeer]]:
    broker = HeardOpenAmq()
    async with AmqpPeer(broker.script) as peer:
        yield broker, peer


def test_nothing_is_changed_that_nobody_allowed(tmp_path: Path) -> None:
    site = new_site(tmp_path)
    with in_background(heard_open_amq) as (broker, peer):
        amqp = {"url": f"amqp://127.0.0.1:{peer.port}", "user": "super", "password": site.secret("super")}
        site.configure(
            sources={"openamq": {"kind": "cml", "amqp": amqp}},
            snmp={"listen": [f"127.0.0.1:{site.snmp_port}"]},
        )
        with running("run", "--config", site.configuration, log=tmp_path / "gateway.log"):

            def is_shown() -> bool:
                return amqp_gateway("get", QUEUE, "--config", site.configuration).code is ExitCode.OK

            wait_until(is_shown, "the queue is shown")
            for command in (
                ("set", SETTINGS, "monitor=60"),
                ("invoke", QUEUE, "purge"),
                ("get", "--fresh", QUEUE),
            ):
                refused = amqp_gateway(*command, "--config", site.configuration)
                assert refused.code is ExitCode.REFUSED, refused
        assert broker.asked == {SchemaRequest, InspectRequest}
        assert broker.done == []
