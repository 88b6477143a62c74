"""Debian's snmp_exporter, with the template for it, shows a gateway's numbers with their types."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
import yaml
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from gateway.demo.broker import PrivateBroker
from gateway.service.processes.exit_codes import ExitCode
from gateway.snmp.templates.snmp_exporter import AUTH
from tests.components.pages import served_page
from tests.components.ports import free_tcp_port
from tests.components.waiting import wait_until
from tests.snmp.templates.conftest import MESSAGES, PASSPHRASES, SOURCE, USER, PolledGateway

pytestmark = pytest.mark.xdist_group("polled")


class Exporter:
    """A running exporter, and the gateway that it reads."""

    def __init__(self, port: int, target: str) -> None:
        self._url = f"http://127.0.0.1:{port}"
        self._target = target

    def answers(self) -> bool:
        try:
            return served_page(self._url).is_success
        except httpx.HTTPError:
            return False

    def scrape(self, module: str) -> dict[str, Metric]:
        """Return the families of a module, by name."""
        answer = served_page(
            f"{self._url}/snmp",
            parameters={"target": self._target, "module": module, "auth": AUTH},
        )
        assert answer.is_success, answer.text
        return {family.name: family for family in text_string_to_metric_families(answer.text)}


def is_flat() -> bool:
    """Return whether this machine's exporter, of Debian 12 or 13, reads the form of versions before 0.23."""
    done = subprocess.run(
        ["prometheus-snmp-exporter", "--version"],  # noqa: S607  Debian's own program
        capture_output=True,
        text=True,
        check=True,
    )
    found = re.search(r"version (\d+)\.(\d+)", done.stdout + done.stderr)
    assert found is not None
    return tuple(map(int, found.groups())) < (0, 23)


@contextmanager
def running_exporter(folder: Path, polled: PolledGateway, *reader: str) -> Iterator[Exporter]:
    configuration, port = folder / "snmp.yml", free_tcp_port()
    form = ("--flat",) if is_flat() else ()
    text = polled.template("snmp-exporter", *form, *reader)
    for word, passphrase in PASSPHRASES.items():
        text = text.replace(word, passphrase)
    configuration.write_text(text)
    command = (
        "prometheus-snmp-exporter",
        f"--config.file={configuration}",
        f"--web.listen-address=127.0.0.1:{port}",
    )
    with (folder / "exporter.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)  # noqa: S603  Debian's own program
        try:
            exporter = Exporter(port, polled.address)
            wait_until(exporter.answers, "the exporter answers")
            yield exporter
        finally:
            process.kill()
            process.wait()


@pytest.fixture(scope="module")
def exporter(tmp_path_factory: pytest.TempPathFactory, polled: PolledGateway) -> Iterator[Exporter]:
    folder = tmp_path_factory.mktemp("exporter")
    with running_exporter(folder, polled, "--community", polled.community) as exporter:
        yield exporter


def value(family: Metric, **labels: str) -> float:
    """Return the value of the one sample with these labels."""
    (sample,) = (sample for sample in family.samples if labels.items() <= sample.labels.items())
    return float(sample.value)


def test_the_numbers_of_a_queue_are_those_of_the_broker(
    exporter: Exporter, polled: PolledGateway, rabbitmq: PrivateBroker
) -> None:
    families = exporter.scrape("rmqQueue")
    of_queue = {"source": SOURCE, "name": f"{polled.virtual_host}|{polled.queue}"}
    assert value(families["rmqQueueMessages"], **of_queue) == MESSAGES
    assert families["rmqQueueMessages"].type == "gauge"
    assert value(families["rmqQueueRowState"], **of_queue) == 1
    command = ("rabbitmqctl", "list_queues", "--quiet", "-p", polled.virtual_host)
    listed = rabbitmq.run_tool(*command, "name", "messages", "consumers")
    assert [polled.queue, str(MESSAGES), "0"] in [line.split("\t") for line in listed.splitlines()]


def test_types_and_values_are_those_of_get(exporter: Exporter, polled: PolledGateway) -> None:
    (line,) = polled.command("tree", f"{SOURCE}/node/*", "--json").output.splitlines()
    node = polled.shown(json.loads(line)["object"])["values"]
    families = exporter.scrape("rmqNode")
    limits = families["rmqNodeMemoryLimit"]
    assert limits.type == "gauge"
    assert value(limits, source=SOURCE) == node["memoryLimit"]
    assert value(families["rmqNodeProcessors"], source=SOURCE) == node["processors"]


def test_counters_are_counters_and_a_source_has_its_name(exporter: Exporter) -> None:
    families = exporter.scrape("amqpGateway")
    # The parser leaves out the suffix _total only, which these names do not have.
    assert families["agSourceMessages"].type == "counter"
    assert value(families["agSourceMessages"], source=SOURCE) > 0
    assert value(families["agSourceState"], source=SOURCE) == 4
    assert value(families["agFeedConnected"]) == 1
    assert families["agSumTotal"].type == "gauge"


def test_sums_have_the_names_of_class_and_statistic(exporter: Exporter) -> None:
    families = exporter.scrape("amqpGateway")
    of_queues = {"source": SOURCE, "package": "rabbitmq", "class": "queue", "statistic": "messages"}
    assert value(families["agSumTotal"], **of_queues) == MESSAGES
    assert value(families["agSumMeanText"], **of_queues) > 0


def test_a_user_of_version_3_reads_the_same(
    tmp_path: Path, polled: PolledGateway, exporter: Exporter
) -> None:
    with running_exporter(tmp_path, polled, "--user", USER) as secured:
        families, same = secured.scrape("rmqNode"), exporter.scrape("rmqNode")
    assert families.keys() == same.keys()
    limit = "rmqNodeMemoryLimit"
    assert value(families[limit], source=SOURCE) == value(same[limit], source=SOURCE) > 0


def test_the_protocols_of_a_user_are_those_of_its_keys(polled: PolledGateway) -> None:
    auth = yaml.safe_load(polled.template("snmp-exporter", "--user", USER))["auths"][AUTH]
    assert (auth["version"], auth["security_level"]) == (3, "authPriv")
    assert (auth["username"], auth["auth_protocol"], auth["priv_protocol"]) == (USER, "SHA256", "AES")
    refused = polled.command("template", "snmp-exporter", "--user", "nobody")
    assert (refused.code, refused.errors.strip()) == (
        ExitCode.NOT_FOUND,
        "amqp-gateway: user 'nobody' has no keys: run `amqp-gateway snmp user add nobody`",
    )


def test_both_forms_have_the_same_modules(polled: PolledGateway) -> None:
    flat = yaml.safe_load(polled.template("snmp-exporter", "--flat"))
    split = yaml.safe_load(polled.template("snmp-exporter", "--community", "secret"))
    assert split["auths"] == {"amqpGateway": {"community": "secret", "version": 2}}
    for name, module in flat.items():
        assert (module.pop("version"), module.pop("auth")) == (2, {"community": "public"})
        assert split["modules"].pop(name) == module
    assert split["modules"] == {}
