"""A gateway whose objects a real Prometheus scrapes; alert rules and board are those that are shipped."""

from __future__ import annotations

import asyncio
import json
import math
import re
import secrets
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from gateway.demo.broker import PrivateBroker
from gateway.durable_files import RESERVE, DiskReserve
from gateway.service.processes import objects as process_objects
from gateway.service.processes.exit_codes import ExitCode
from gateway.service.processes.objects import CounterOffsetsFile
from gateway.state_folder import COUNTER_OFFSETS
from tests.components.command_line import RunningCommand, amqp_gateway, new_site, running
from tests.components.full_disk import small_disk
from tests.components.pages import served_page
from tests.components.ports import free_tcp_port
from tests.components.prometheus import Prometheus, prometheus, promtool
from tests.components.shop import agent, source, till_record, update
from tests.components.waiting import wait_until
from tests.distribution.building import ROOT
from tests.prometheus.shop import SALES, TILL, Gateway

pytestmark = pytest.mark.xdist_group("page of objects")

SOURCE = "orders"
QUEUE = f"metrics-{secrets.token_hex(4)}"
DOCKER = ROOT / "docker"
ALERTS = DOCKER / "prometheus" / "alerts.yml"
BOARD = DOCKER / "grafana" / "amqp-brokers.json"


class Page:
    """The endpoint of the gateway's objects."""

    def __init__(self, command: RunningCommand, port: int) -> None:
        self.command = command
        self.target = f"127.0.0.1:{port}"

    def get(self, path: str = "/metrics/objects") -> httpx.Response:
        return served_page(f"http://{self.target}{path}")

    def of_queue(self, name: str) -> dict[str, float]:
        """Return the numbers of a queue, by metric."""
        response = self.get()
        families = text_string_to_metric_families(response.text) if response.is_success else ()
        return {
            sample.name.removeprefix("amqp_rabbitmq_queue_"): sample.value
            for family in families
            for sample in family.samples
            if sample.name.startswith("amqp_rabbitmq_queue_")
            and sample.labels.items() >= {"source": SOURCE, "vhost": "/", "name": name}.items()
            and sample.labels.get("state", "running") == "running"
        }

    def process(self) -> psutil.Process:
        children = psutil.Process(self.command.process.pid).children()
        return next(child for child in children if " process objects " in " ".join(child.cmdline()))


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory, rabbitmq: PrivateBroker) -> Iterator[Page]:
    site, port = new_site(tmp_path_factory.mktemp("gateway")), free_tcp_port()
    reader = rabbitmq.administrator
    with rabbitmq.http() as client:
        client.put(f"queues/%2F/{QUEUE}", json={"durable": True}).raise_for_status()
        publish(client, 7)
    site.configure(
        sources={
            SOURCE: {
                "kind": "rabbitmq",
                "management": rabbitmq.management_url,
                "user": reader.name,
                "password": site.secret(reader.password),
                "events": {"url": f"amqp://127.0.0.1:{rabbitmq.ports.amqp}"},
                "interval": "1s",
            },
        },
        snmp={"enabled": False},
        metrics={"enabled": True, "listen": f"127.0.0.1:{port}", "objects": {}},
    )
    with running("run", "--config", site.configuration, log=site.folder / "log") as command:
        command.ready()
        yield Page(command, port)
        assert command.terminate().code is ExitCode.OK
    with rabbitmq.http() as client:
        client.delete(f"queues/%2F/{QUEUE}")


def publish(client: httpx.Client, messages: int) -> None:
    """Publish messages into the queue, by the broker's own interface."""
    for _ in range(messages):
        client.post(
            "exchanges/%2F/amq.default/publish",
            json={"properties": {}, "routing_key": QUEUE, "payload": "x" * 100, "payload_encoding": "string"},
        ).raise_for_status()


@pytest.fixture(scope="module")
def scraping(page: Page, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """Provide a Prometheus with the shipped configuration, except for addresses and intervals."""
    folder = tmp_path_factory.mktemp("prometheus")
    shutil.copy(ALERTS, folder)
    configuration = yaml.safe_load((DOCKER / "prometheus" / "prometheus.yml").read_text(encoding="utf-8"))
    configuration["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    for job in configuration["scrape_configs"]:
        job["static_configs"] = [{"targets": [page.target]}]
    with prometheus(folder, configuration) as running_prometheus:
        yield running_prometheus


def test_the_values_of_a_queue_are_what_its_broker_says(page: Page, rabbitmq: PrivateBroker) -> None:
    wait_until(lambda: page.of_queue(QUEUE).get("messages") == 7, "the messages are told")
    with rabbitmq.http() as client:
        publish(client, 3)
        wait_until(lambda: page.of_queue(QUEUE).get("messages") == 10, "those that came are told")
        wait_until(lambda: page.of_queue(QUEUE).get("message_bytes") == 1000, "and how long they are")
        reported = page.of_queue(QUEUE)
        broker = client.get(f"queues/%2F/{QUEUE}").json()
    assert reported["messages_ready"] == broker["messages_ready"] == 10
    assert reported["consumers"] == broker["consumers"] == 0
    assert reported["state"] == 1
    with rabbitmq.http() as client:

        def all_are_counted() -> bool:
            nonlocal reported, broker
            reported, broker = page.of_queue(QUEUE), client.get(f"queues/%2F/{QUEUE}").json()
            # RabbitMQ may miss what a channel counts that lives for a moment only, as these do.
            counted = broker.get("message_stats", {}).get("publish", 0)
            return bool(0 < counted == reported.get("messages_published_total"))

        try:
            wait_until(all_are_counted, "it counts what the broker counts")
        except AssertionError as error:
            raise AssertionError(f"{reported}, and the broker says {broker}") from error


def test_series_of_a_queue_disappear_with_it(page: Page, rabbitmq: PrivateBroker) -> None:
    name = f"{QUEUE}-short"
    with rabbitmq.http() as client:
        client.put(f"queues/%2F/{name}", json={"durable": True}).raise_for_status()
        wait_until(lambda: page.of_queue(name), "the queue is told")
        client.delete(f"queues/%2F/{name}").raise_for_status()
    wait_until(lambda: not page.of_queue(name), "it is told no more")


def test_names_units_and_types_are_those_that_prometheus_wants(page: Page) -> None:
    wait_until(lambda: page.of_queue(QUEUE), "the queue is told")
    checked = promtool("check", "metrics", text=page.get().text)
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")


def test_prometheus_scrapes_it(page: Page, scraping: Prometheus) -> None:
    assert page.get().is_success
    wait_until(
        lambda: [value for _, value in scraping.query('up{job="amqp-objects"}')] == [1], "it is scraped"
    )
    expression = f'amqp_rabbitmq_queue_messages{{name="{QUEUE}"}}'
    wait_until(lambda: len(scraping.query(expression)) == 1, "the queue is known")
    ((labels, _),) = scraping.query(expression)
    assert (labels["source"], labels["vhost"]) == (SOURCE, "/")


def test_alert_rules_are_understood_and_no_rule_fails(scraping: Prometheus) -> None:
    def healths() -> set[str]:
        groups = scraping.get("rules")["groups"]
        return {rule["health"] for group in groups for rule in group["rules"]}

    wait_until(lambda: healths() == {"ok"}, "every rule was evaluated")


def test_every_expression_of_the_board_is_one_and_finds_what_there_is(scraping: Prometheus) -> None:
    def missing() -> list[str]:
        return [one for one in expressions() if not scraping.query(one)]

    # A queue that holds messages which nobody consumes is there; no rate is known of a first scrape.
    wait_until(lambda: missing() == [], "every expression finds something")


def expressions() -> list[str]:
    """Return the expressions of the board's panels, with its variables filled in as Grafana does."""
    board: dict[str, Any] = json.loads(BOARD.read_text(encoding="utf-8"))
    found = [target["expr"] for panel in board["panels"] for target in panel.get("targets", ())]
    assert len(found) > 20
    return [one.replace("$source", ".*").replace("$__rate_interval", "10s") for one in found]


def test_the_board_asks_for_what_is_shown_without_further_configuration(page: Page) -> None:
    asked = {name for one in expressions() for name in re.findall(r"amqp_[a-z_]+", one)}

    def missing() -> set[str]:
        return asked - set(
            re.findall(r"^([a-z_]+)", page.get().text + page.get("/metrics").text, re.MULTILINE)
        )

    # Statistics of a queue are read after the event of its creation.
    wait_until(lambda: not missing(), "all that the board asks for is shown")


def test_the_page_comes_back_when_its_process_was_killed(page: Page) -> None:
    wait_until(lambda: page.of_queue(QUEUE), "the queue is told")
    page.process().send_signal(signal.SIGKILL)
    answers: list[httpx.Response] = []

    def unavailable() -> bool:
        answers.append(page.get())
        return answers[-1].status_code == 503

    wait_until(unavailable, "it is said that the page cannot be made")
    assert answers[-1].text == "the process that makes the page is being started: try again\n"
    assert page.get("/metrics").is_success
    wait_until(lambda: page.of_queue(QUEUE), "the queue is told again")


async def test_offsets_that_were_shown_are_there_for_the_next_process(
    tmp_path: Path,
) -> None:
    assert CounterOffsetsFile(tmp_path).read() == []
    shown = Gateway()
    shown.hello()
    file = CounterOffsetsFile(tmp_path)
    await file.keep(shown.objects)
    assert not (tmp_path / COUNTER_OFFSETS).exists(), "nothing is known"
    record = till_record(1, "hall1|till1", {SALES: 1000})
    shown.snapshot(source(), agent(fresh=True), TILL, record)
    shown.publish(update(1, {SALES: 700}))
    await file.keep(shown.objects)
    (kept,) = CounterOffsetsFile(tmp_path).read()
    assert kept.counters == {"amqp_shop_till_sales": (300, 1000, 700)}
    for damaged in ("{", '{"x":' + "[" * 100_000):
        (tmp_path / COUNTER_OFFSETS).write_text(damaged)
        assert CounterOffsetsFile(tmp_path).read() == [], "a damaged one is reported only"


async def test_a_page_that_was_not_written_in_time_is_written_at_the_end(tmp_path: Path) -> None:
    """Where many objects are shown, writing takes a small share of the time."""
    shown, file = Gateway(), CounterOffsetsFile(tmp_path)
    shown.hello()
    shown.snapshot(source(), agent(fresh=True), TILL, till_record(1, "hall1|till1", {SALES: 1000}))
    await file.keep(shown.objects)
    shown.publish(update(1, {SALES: 1001}))
    file.write_no_sooner(asyncio.get_running_loop().time() + 3600)
    await file.keep(shown.objects)
    assert lasts(tmp_path) == [1000]
    await file.write()
    assert lasts(tmp_path) == [1001]


async def test_what_was_shown_is_written_at_the_end_although_the_core_ended_before(tmp_path: Path) -> None:
    shown, file = Gateway(), CounterOffsetsFile(tmp_path)
    shown.hello()
    shown.snapshot(source(), agent(fresh=True), TILL, till_record(1, "hall1|till1", {SALES: 1000}))
    await file.keep(shown.objects)
    shown.publish(update(1, {SALES: 1001}))
    shown.disconnect()
    await file.write()
    assert lasts(tmp_path) == [1001]


async def test_a_full_disk_loses_no_reserve_to_the_counters_which_are_written_when_it_has_room(
    tmp_path: Path,
) -> None:
    shown = Gateway()
    shown.hello()
    tills = [till_record(row, f"hall1|till{row}", {SALES: row}) for row in range(1, 2001)]
    shown.snapshot(source(), agent(fresh=True), TILL, *tills)
    with small_disk(tmp_path / "disk", 4 << 20) as disk:
        file, reserve = CounterOffsetsFile(disk.folder), DiskReserve(disk.folder / RESERVE, 2 << 20)
        assert reserve.refill()
        disk.fill()
        await file.keep(shown.objects)
        assert (lasts(disk.folder), reserve.is_whole) == ([], True)
        disk.empty()
        await file.write()
        assert lasts(disk.folder) == [*range(1, 2001)], "nothing has changed, but it is not there"


async def test_a_counter_without_a_number_that_a_file_takes_costs_no_other_one(tmp_path: Path) -> None:
    shown, file = Gateway(), CounterOffsetsFile(tmp_path)
    shown.hello()
    endless = till_record(2, "hall1|till2", {SALES: math.inf})
    shown.snapshot(source(), agent(fresh=True), TILL, till_record(1, "hall1|till1", {SALES: 7}), endless)
    shown.publish(update(2, {SALES: 5}))
    await file.keep(shown.objects)
    assert lasts(tmp_path) == [7]


async def test_of_more_objects_than_the_file_takes_the_first_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown, file = Gateway(), CounterOffsetsFile(tmp_path)
    shown.hello()
    tills = [till_record(row, f"hall1|till{row}", {SALES: row}) for row in range(1, 9)]
    shown.snapshot(source(), agent(fresh=True), TILL, *tills)
    monkeypatch.setattr(process_objects, "_MAX_OCTETS", 1000)
    await file.keep(shown.objects)
    assert (tmp_path / COUNTER_OFFSETS).stat().st_size <= 1000
    assert lasts(tmp_path) == [1, 2, 3, 4]


def lasts(folder: Path) -> list[float | None]:
    """Return the last values of all counters in the file."""
    return [last for one in CounterOffsetsFile(folder).read() for _, _, last in one.counters.values()]


def test_the_alerts_fire_when_they_should(tmp_path: Path) -> None:
    shutil.copy(ALERTS, tmp_path)
    shutil.copy(Path(__file__).parent / "alerts_play.yml", tmp_path)
    played = promtool("test", "rules", tmp_path / "alerts_play.yml")
    assert played.returncode == 0, played.stdout + played.stderr


def test_without_the_endpoint_objects_are_refused(tmp_path: Path) -> None:
    site = new_site(tmp_path)
    site.configure(metrics={"objects": {}})
    checked = amqp_gateway("check", "--config", site.configuration)
    assert checked.code is ExitCode.CONFIGURATION
    (line,) = (line for line in checked.reported if "metrics" in line)
    assert "objects are served by the endpoint that 'enabled: true' switches on" in line
