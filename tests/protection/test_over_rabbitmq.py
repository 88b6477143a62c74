"""An agent and a gateway over a RabbitMQ that reads, changes, repeats, delays and redirects messages."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from gateway.demo.broker import PrivateBroker
from gateway.dialects.session import Send
from gateway.model.times import MINUTE
from gateway.service.processes.exit_codes import ExitCode
from tests.components.command_line import amqp_gateway
from tests.components.pages import served_page
from tests.components.rabbitmq import new_virtual_host
from tests.components.waiting import DEADLINE, wait_until
from tests.protection.scene import (
    AGENT,
    EXCHANGE,
    GATEWAY,
    QUEUE,
    SOURCE,
    Message,
    ProtectedShop,
    hand_out,
    keys,
    protected_shop,
)

pytestmark = pytest.mark.xdist_group("protection")

PUBLISHED = r"console\."
"""The routing keys of what the agent publishes."""


@pytest.fixture(scope="module")
def there(rabbitmq: PrivateBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProtectedShop]:
    """Provide agent, gateway and witness."""
    with new_virtual_host(rabbitmq) as shop, protected_shop(shop, tmp_path_factory.mktemp("shop")) as running:
        yield running


def read(there: ProtectedShop) -> None:
    """Make the gateway send a request to the agent."""
    path = f"{SOURCE}/queue/{there.shop.name}|{QUEUE}"
    ended = there.command("get", path, "--fresh")
    assert ended.code is ExitCode.OK, ended.errors


def readable(message: Message) -> bytes:
    """Return all that a reader of a body can make of it without keys."""
    payload = message["payload"].encode()
    parts = [base64.urlsafe_b64decode(part + b"=" * (-len(part) % 4)) for part in payload.split(b".")]
    return b"\n".join([payload, *parts])


def test_the_broker_reads_no_word_of_the_content(there: ProtectedShop) -> None:
    found: list[Message] = []
    there.read_queue()
    read(there)

    def enough() -> bool:
        found.extend(there.read_queue())
        keys_seen = {message["routing_key"] for message in found}
        return all(any(re.match(key, one) for one in keys_seen) for key in (PUBLISHED, "agent|broker"))

    wait_until(enough, "requests and publications")
    words = (QUEUE.encode(), b"rabbitmq", b"messageCount", b"exchange", there.shop.name.encode())
    for message in found:
        is_probe = message["routing_key"].startswith("amqp-gateway.")  # of the link, for its own queue
        assert is_probe or message["properties"]["content_type"] == "application/jose"
        text = readable(message)
        for word in words:
            assert word not in text, (word, message["routing_key"])


def test_a_tampered_body_is_refused(there: ProtectedShop) -> None:
    message = there.witnessed(PUBLISHED)
    payload = message["payload"]
    there.is_refused("tampered", message, payload=f"{payload[:-1]}{'A' if payload[-1] != 'A' else 'Q'}")


def test_a_replayed_body_is_refused(there: ProtectedShop) -> None:
    there.is_refused("replayed", there.witnessed(PUBLISHED))


def test_a_body_that_was_accepted_is_refused_after_the_core_was_killed(there: ProtectedShop) -> None:
    message = there.witnessed(PUBLISHED)
    (core,) = (
        child
        for child in psutil.Process(there.gateway.process.pid).children(recursive=True)
        if "core" in child.cmdline()
    )
    core.kill()
    wait_until(lambda: not core.is_running(), "the core has ended")
    there.are_all("synchronised")
    there.is_refused("replayed", message)


def test_a_plain_body_is_refused(there: ProtectedShop) -> None:
    message = there.witnessed(PUBLISHED)
    there.is_refused("plain", message, payload="AM2h", properties={"content_type": ""})


@pytest.mark.parametrize(
    "changed", [{"routing_key": "console.obj.another"}, {"properties": {"correlation_id": "7"}}], ids=str
)
def test_a_body_that_was_led_elsewhere_is_refused(there: ProtectedShop, changed: dict[str, object]) -> None:
    there.is_refused("rerouted", there.witnessed(PUBLISHED), **changed)


def test_a_late_body_is_refused(there: ProtectedShop) -> None:
    routing_key = there.witnessed(PUBLISHED)["routing_key"]
    there.is_refused("late", there.forged_by_agent(Send(EXCHANGE, routing_key, b"AM2h"), 6 * MINUTE))


def test_a_request_of_the_gateway_that_is_repeated_is_refused_by_the_agent(there: ProtectedShop) -> None:
    there.publish(there.witnessed("agent|broker", lambda: read(there)))
    wait_until(
        lambda: any(line["event"] == "refused-body-replayed" for line in there.agent.log),
        "the agent refuses the request",
    )
    assert there.refused(by_agent=True)["replayed"] == 1


def test_an_agent_has_metrics_of_its_own(there: ProtectedShop) -> None:
    found: dict[str, list[Sample]] = {}

    def states() -> dict[tuple[str, str], float]:
        url = f"http://127.0.0.1:{there.agent_metrics_port}/metrics"
        page = served_page(url).text
        found.update({family.name: family.samples for family in text_string_to_metric_families(page)})
        shown = found["amqp_gateway_source_state"]
        return {(one.labels["source"], one.labels["state"]): one.value for one in shown}

    # Its broker is that of many tests, and may be slow just then.
    wait_until(lambda: states()[SOURCE, "synchronised"] == 1, "the agent reads its broker")
    (sealed,) = found["amqp_gateway_source_protected_sent"]
    assert sealed.value > 0
    (memory,) = found["amqp_gateway_process_resident_memory_bytes"]
    assert memory.labels == {"process": "agent"}
    assert memory.value > 1 << 20
    assert {one.labels["process"] for one in found["amqp_gateway_event_loop_lag_seconds"]} == {"agent"}


def test_a_capture_is_replayed_without_keys(there: ProtectedShop, tmp_path: Path) -> None:
    file = tmp_path / "captured.jsonl"
    until = ("--until-synchronised", "--for", f"{DEADLINE:g}s")
    captured = there.command("source", "capture", SOURCE, *until, "--out", str(file))
    assert captured.code is ExitCode.OK, captured.errors

    replayed = amqp_gateway("source", "replay", file, folder=tmp_path)

    assert replayed.code is ExitCode.OK, replayed.errors
    assert re.search(r"^state +synchronised$", replayed.output, re.MULTILINE) is not None, replayed.output


def test_the_gateway_goes_on_reading_after_a_rotation_of_the_agents_keys(there: ProtectedShop) -> None:
    former = keys(there.agent_site, "list")
    keys(there.agent_site, "rotate", AGENT, "--after", "0", "--overlap", "1h")
    hand_out(AGENT, there.agent_site, there.site)
    new = set(re.findall(rf"{AGENT}  (\S+)  sign", keys(there.agent_site, "list"))) - set(former.split())
    assert len(new) == 1
    with there.shop.http() as http:
        http.put(f"queues/{there.shop.path}/after-rotation", json={}).raise_for_status()
    path = f"{SOURCE}/queue/{there.shop.name}|after-rotation"
    wait_until(lambda: there.shown(path), "the new queue is shown")
    there.are_all("synchronised")


def test_a_revoked_key_of_the_agent_is_refused_at_once(there: ProtectedShop) -> None:
    revoked = re.findall(rf"{AGENT}  (\S+)  sign", keys(there.site, "list"))
    for kid in revoked:
        keys(there.site, "revoke", AGENT, kid)
    wait_until(lambda: there.refused()["unknown-sender"] > 0, "the agent is refused")
    wait_until(lambda: there.states() != {SOURCE: "synchronised"}, "the source is not synchronised any more")
    hand_out(AGENT, there.agent_site, there.site)
    there.are_all("synchronised")
    assert GATEWAY in keys(there.site, "list")
