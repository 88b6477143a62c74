"""A gateway with all that it can have, scraped as Prometheus would: every family is there, and true."""

from __future__ import annotations

import os
import re
import secrets
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from gateway.demo.broker import PrivateBroker
from gateway.links.tls import ClientTls
from gateway.protection.key_files import KeyFolder
from gateway.protection.keys import Use, generated
from gateway.service.metrics import families
from gateway.service.metrics.families import Family, Kind
from gateway.service.processes.exit_codes import ExitCode
from tests.components.certificates import Authority
from tests.components.command_line import RunningCommand, Site, amqp_gateway, new_site, running
from tests.components.pages import served_page
from tests.components.ports import free_tcp_port, free_udp_port
from tests.components.waiting import wait_until

pytestmark = pytest.mark.xdist_group("measured gateway")

SOURCE = "orders"
LISTENING = "applications"
PROTECTED = "protected"
KEPT_QUEUE = f"amqp-gateway.events.metrics-{secrets.token_hex(4)}"
DAY_SECONDS = 86_400
MAX_SERIES = 1000
"""The maximum number of series of a gateway with one source; it does not depend on what is watched."""


class Gateway:
    """The running gateway, and the requests to it."""

    def __init__(self, site: Site, command: RunningCommand, port: int) -> None:
        self.site = site
        self.command = command
        self._url = f"http://127.0.0.1:{port}/metrics"

    def text(self) -> str:
        response = served_page(self._url)
        assert response.status_code == 200
        return response.text

    def families(self) -> dict[str, Metric]:
        return {family.name: family for family in text_string_to_metric_families(self.text())}

    def value(self, family: Family, **labels: str) -> float | None:
        """Return the value of the sample with these labels; ``None`` where there is none."""
        metric = self.families().get(exposed_name(family))
        samples = [] if metric is None else metric.samples
        return next((one.value for one in samples if one.labels == labels), None)


def exposed_name(family: Family) -> str:
    return family.name.removesuffix("_total") if family.kind is Kind.COUNTER else family.name


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory, rabbitmq: PrivateBroker) -> Iterator[Gateway]:
    site, port = new_site(tmp_path_factory.mktemp("gateway")), free_tcp_port()
    reader = rabbitmq.administrator
    own = Authority.make(site.folder / "ca").confirm("gateway", days=90)
    KeyFolder(site.folder / "keys").write("own", generated((Use.SIGN, Use.READ)))
    site.configure(
        sources={
            SOURCE: {
                "kind": "rabbitmq",
                "management": rabbitmq.management_url,
                "user": reader.name,
                "password": site.secret(reader.password),
                "events": {"url": f"amqp://127.0.0.1:{rabbitmq.ports.amqp}"},
                "interval": "1s",
                # Of a name of its own: other tests' gateways use the same broker.
                "durable": {"queue": KEPT_QUEUE, "expires": "10s", "max_length": 1234},
            },
            LISTENING: {
                "kind": "ami",
                "listen": f"127.0.0.1:{free_tcp_port()}",
                "tls": {"certificate": str(own.certificate), "key": str(own.key)},
            },
            PROTECTED: {
                "kind": "qmf",
                "amqp": {
                    "url": f"amqp://127.0.0.1:{rabbitmq.ports.amqp}",
                    "vhost": "/",
                    "user": reader.name,
                    "password": site.secret(reader.password),
                },
                "exchange": "amq.topic",
                "trusted_users": ["agent"],
                "protected": {"sign_as": "own", "encrypt_for": "own", "trusted": ["own"]},
            },
        },
        snmp={
            "listen": [f"127.0.0.1:{site.snmp_port}"],
            "notifications": {"nobody": {"address": f"127.0.0.1:{free_udp_port()}"}},
        },
        jmx={"enabled": True, "listen": f"127.0.0.1:{free_tcp_port()}", "heap": 64},
        metrics={"enabled": True, "listen": f"127.0.0.1:{port}"},
    )
    with running("run", "--config", site.configuration, log=site.folder / "log") as command:
        command.ready()
        found = Gateway(site, command, port)
        wait_until(
            lambda: found.value(families.SOURCE_STATE, source=SOURCE, state="synchronised") == 1,
            "the source is synchronised",
        )
        yield found
        assert command.terminate().code is ExitCode.OK


def test_every_family_is_reported_as_it_is_described(gateway: Gateway) -> None:
    wait_until(
        lambda: gateway.families().keys() >= {exposed_name(family) for family in families.FAMILIES},
        "every family has a sample",
    )
    reported = gateway.families()
    assert reported.keys() == {exposed_name(family) for family in families.FAMILIES}
    for family in families.FAMILIES:
        metric = reported[exposed_name(family)]
        assert (metric.type, metric.documentation) == (family.kind.value, family.help)
        labels = {name for sample in metric.samples for name in sample.labels} - {"le"}
        assert labels == set(family.labels), family.name


def test_names_and_units_are_those_that_prometheus_wants() -> None:
    for family in families.FAMILIES:
        assert re.fullmatch("amqp_gateway_[a-z]+(_[a-z]+)*", family.name)
        assert (family.kind is Kind.COUNTER) == family.name.endswith("_total")
        assert not re.search("_(ms|milliseconds|ns|kb|mb|octets|minutes)(_|$)", family.name)
        assert family.help.endswith(".")
    assert len({family.name for family in families.FAMILIES}) == len(families.FAMILIES)


def test_all_front_ends_show_what_the_source_has(gateway: Gateway) -> None:
    def agree() -> bool:
        objects = gateway.value(families.SOURCE_OBJECTS, source=SOURCE)
        shown = [gateway.value(families.FRONT_END_OBJECTS, process=name) for name in ("snmp", "jmx")]
        return bool(objects) and shown == [objects, objects]

    wait_until(agree, "core, SNMP and JMX have as many objects")


def test_requests_are_counted_by_type(gateway: Gateway) -> None:
    before = gateway.value(families.SNMP_REQUESTS, type="get")
    assert before is not None
    ended = amqp_gateway("health", "--config", gateway.site.configuration)
    assert ended.code is ExitCode.UNREACHABLE  # the protected source has no agent
    assert gateway.value(families.SNMP_REQUESTS, type="get") == before + 1


def test_lines_of_the_virtual_machine_that_the_log_leaves_out_are_counted(gateway: Gateway) -> None:
    """The state of all its threads has several hundred lines."""
    assert gateway.value(families.JMX_LINES_LEFT_OUT) == 0
    ready = next(one for one in gateway.command.log if one["event"] == "jmx-ready")
    os.kill(ready["java_process"], signal.SIGQUIT)
    wait_until(lambda: (gateway.value(families.JMX_LINES_LEFT_OUT) or 0) > 0, "some are left out")
    assert "java" in {one["event"] for one in gateway.command.log}


def test_requests_to_the_broker_are_counted(gateway: Gateway) -> None:
    asked = {"source": SOURCE, "request": "list_queue", "outcome": "answered"}
    wait_until(lambda: (gateway.value(families.AGENT_REQUESTS, **asked) or 0) > 1, "queues are listed")


def test_a_durable_subscription_is_counted(gateway: Gateway, rabbitmq: PrivateBroker) -> None:
    def of(family: Family, **labels: str) -> float | None:
        return gateway.value(family, source=SOURCE, **labels)

    assert (of(families.KEPT_DECLARED), of(families.KEPT_LOSSES, reason="missing")) == (1, 1)
    assert (of(families.KEPT_WAITING_MAX), of(families.KEPT_UNACKNOWLEDGED_MAX)) == (1234, 1000)
    before = of(families.KEPT_TAKEN)
    assert before is not None
    with rabbitmq.http() as http:
        for number in range(3):
            path = f"queues/%2F/{KEPT_QUEUE}-{number}"
            http.put(path, json={"durable": True}).raise_for_status()
            http.delete(path).raise_for_status()
    wait_until(lambda: (of(families.KEPT_TAKEN) or 0) >= before + 6, "the events are taken")
    # Those of other tests on the broker come and go meanwhile.
    wait_until(lambda: of(families.KEPT_ACKNOWLEDGED) == of(families.KEPT_TAKEN), "all are acknowledged")
    wait_until(lambda: of(families.KEPT_WAITING) == 0, "none waits")
    wait_until(lambda: of(families.KEPT_UNACKNOWLEDGED) == 0, "all acknowledgements were sent")
    assert of(families.KEPT_REDELIVERED) == of(families.KEPT_REPEATED) == 0
    assert of(families.KEPT_REFUSED, reason="in_use") == 0


def test_the_end_of_each_certificate_is_reported(gateway: Gateway) -> None:
    place = f"sources.{LISTENING}.tls.certificate"
    wait_until(lambda: gateway.value(families.CERTIFICATE_ENDS, place=place), "the files were looked at")
    ends = gateway.value(families.CERTIFICATE_ENDS, place=place)
    assert ends is not None
    assert 89 * DAY_SECONDS < ends - time.time() <= 90 * DAY_SECONDS


def test_labels_are_few_and_no_secret_is_reported(gateway: Gateway) -> None:
    text = gateway.text()
    kept = [path for path in gateway.site.folder.rglob("*secret*") if path.is_file()]
    kept += (gateway.site.folder / "state" / "secrets").iterdir()
    known = {path.read_text("utf-8").strip() for path in kept}
    assert len(known) >= 3
    assert not [secret for secret in known if secret in text]
    series = [line for line in text.splitlines() if not line.startswith("#")]
    assert len(series) < MAX_SERIES
    assert set(re.findall('source="([^"]*)"', text)) == {SOURCE, LISTENING, PROTECTED}


def test_a_process_that_dies_is_reported_and_the_others_go_on(gateway: Gateway) -> None:
    before = gateway.value(families.RESTARTS, process="snmp")
    assert before is not None
    (started,) = [record for record in gateway.command.log if record["event"] == "gateway-ready"]
    os.kill(started["processes"]["snmp"], signal.SIGKILL)
    wait_until(lambda: gateway.value(families.RESTARTS, process="snmp") == before + 1, "its death is counted")
    assert gateway.value(families.PROCESS_UP, process="core") == 1
    wait_until(
        lambda: gateway.value(families.FRONT_END_CONNECTED, process="snmp") == 1,
        "it is back, and told everything",
    )
    assert gateway.value(families.PROCESS_UP, process="snmp") == 1


def test_metrics_are_served_by_tls_to_clients_with_certificates(tmp_path: Path) -> None:
    site, port, authority = new_site(tmp_path), free_tcp_port(), Authority.make(tmp_path / "ca")
    own, reader = authority.confirm("gateway"), authority.confirm("prometheus")
    tls = {
        "certificate": str(own.certificate),
        "key": str(own.key),
        "client_ca": str(authority.own.certificate),
    }
    metrics = {"enabled": True, "listen": f"127.0.0.1:{port}", "tls": tls}
    site.configure(sources={}, snmp={"enabled": False}, metrics=metrics)
    with running("run", "--config", site.configuration, log=tmp_path / "log") as gateway:
        gateway.ready()
        known = ClientTls(authority.own.certificate, reader.certificate, reader.key)
        page = httpx.get(
            f"https://127.0.0.1:{port}/metrics", verify=known.context(), trust_env=False, timeout=60
        )
        assert "amqp_gateway_process_up" in page.text
        assert gateway.terminate().code is ExitCode.OK
