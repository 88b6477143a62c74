"""A gateway with a protected durable source: what its agent published while it was down is in the log."""

from __future__ import annotations

import re
import time
from pathlib import Path

from gateway.demo.broker import PrivateBroker
from gateway.service.processes.exit_codes import ExitCode
from tests.components.command_line import running
from tests.components.pages import served_page
from tests.components.rabbitmq import new_virtual_host
from tests.components.waiting import wait_until
from tests.eventlog.reading import of_kind, read_log
from tests.protection.scene import SOURCE, ProtectedShop, protected_shop

QUEUE = "amqp-gateway.console.protected"
LATE_SECONDS = 10


def taken(there: ProtectedShop) -> float:
    page = served_page(f"http://127.0.0.1:{there.metrics_port}/metrics").text
    (count,) = re.findall(rf'kept_queue_deliveries_total{{source="{SOURCE}"}} (\S+)', page)
    return float(count)


def waiting(there: ProtectedShop) -> int:
    with there.shop.http() as http:
        answer = http.get(f"queues/{there.shop.path}/{QUEUE}").raise_for_status().json()
    return int(answer.get("messages", 0))


def test_what_an_agent_published_while_the_gateway_was_down_is_accepted_once(
    rabbitmq: PrivateBroker, tmp_path: Path
) -> None:
    durable = {"queue": QUEUE, "expires": "1h"}
    with (
        new_virtual_host(rabbitmq) as shop,
        protected_shop(shop, tmp_path, durable, f"{LATE_SECONDS}s") as there,
    ):
        assert there.gateway.terminate().code is ExitCode.OK
        began = time.monotonic()
        with shop.http() as http:
            http.put(f"queues/{shop.path}/of-meanwhile", json={}).raise_for_status()
        wait_until(
            lambda: time.monotonic() - began > LATE_SECONDS + 5 and waiting(there),
            "messages wait, of which some are late",
        )
        before = len(of_kind(read_log(there.site.state.path / "log"), "gap"))
        with running("run", "--config", there.site.configuration, log=tmp_path / "again.log") as gateway:
            gateway.ready()
            there.are_all("synchronised")
            wait_until(lambda: there.shown(f"{SOURCE}/queue/{shop.name}|of-meanwhile"), "the queue is shown")
            assert taken(there) > 0
            assert not any(there.refused().values()), there.refused()
            assert gateway.terminate().code is ExitCode.OK
        records = read_log(there.site.state.path / "log")
        (gap,) = of_kind(records, "gap")[before:]
        assert gap["values"] == {"covered": [SOURCE]}, "nothing of the source was missed"
        (caught_up, *_) = [line for line in gateway.log if line["event"] == "catching-up"]
        assert caught_up["waiting"] > 0
