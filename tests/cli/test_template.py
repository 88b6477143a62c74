"""``amqp-gateway template``: with and without a configuration."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import yaml

from gateway.model.observations import Severity
from gateway.model.schema import Argument, ClassKey, ClassSchema, Element, EventSchema
from gateway.model.values import ValueType
from gateway.service.processes.exit_codes import ExitCode
from gateway.snmp.registry_files import SiteRegistry
from gateway.snmp.registry_growth import extend, extend_events
from gateway.snmp.registry_lookup import SeenSchemas
from tests.components.command_line import amqp_gateway, new_site

DOG = ClassSchema(
    ClassKey("zoo", "dog"), statistics=(Element("legs", ValueType.U64), Element("name", ValueType.STRING))
)


def test_without_a_configuration_the_numbers_are_those_of_every_gateway(tmp_path: Path) -> None:
    ended = amqp_gateway("template", "snmp-exporter", folder=tmp_path)
    assert ended.code is ExitCode.OK
    assert "- 1.3.6.1.4.1.8072.9999.9999.2.1.1.3.1.128\n" in ended.output


def test_root_and_classes_of_the_site_are_those_of_the_configuration(tmp_path: Path) -> None:
    site = new_site(tmp_path)
    site.configure(snmp={"listen": [f"127.0.0.1:{site.snmp_port}"], "root": "1.3.6.1.4.1.99999"})
    files, today = SiteRegistry(site.state.path, "site"), dt.date(2026, 5, 1)
    registry = extend(files.load(today), [DOG], today)
    files.save(registry, SeenSchemas({"zoo:dog": DOG}, {}))
    ended = amqp_gateway("template", "snmp-exporter", "--config", site.configuration)
    module = yaml.safe_load(ended.output)["modules"]["siteZooDog"]
    assert [metric["oid"] for metric in module["metrics"]] == [
        "1.3.6.1.4.1.99999.3.1.1.1.8",
        "1.3.6.1.4.1.99999.3.1.1.1.100",
    ]
    written = amqp_gateway(
        "template", "librenms", "--folder", tmp_path / "nms", "--config", site.configuration
    )
    assert written.code is ExitCode.OK
    assert "wrote" in written.output
    assert (tmp_path / "nms" / "mibs" / "amqp-gateway" / registry.module).exists()


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "nms").write_text("a file")
    ended = amqp_gateway("template", "librenms", "--folder", tmp_path / "nms" / "deeper", folder=tmp_path)
    assert ended.code is ExitCode.CONFIGURATION
    assert "cannot be written" in ended.errors


def test_no_link_is_written_through(tmp_path: Path) -> None:
    folder, other = tmp_path / "nms", tmp_path / "other"
    for _ in range(2):
        written = amqp_gateway("template", "librenms", "--folder", folder, folder=tmp_path)
        assert written.code is ExitCode.OK
    first = tmp_path / written.output.splitlines()[0].removeprefix("wrote ")
    other.write_text("another's")
    first.unlink()
    first.symlink_to(other)
    ended = amqp_gateway("template", "librenms", "--folder", folder, folder=tmp_path)
    assert (ended.code, "is not replaced" in ended.errors) == (ExitCode.CONFIGURATION, True)
    assert other.read_text() == "another's"


def test_states_are_bad_by_the_alarms_of_the_configuration(tmp_path: Path) -> None:
    site = new_site(tmp_path)
    (tmp_path / "own.yaml").write_text(
        "{version: 1, classes: {'rabbitmq:queue': {alarms: "
        "{queueDown: {severity: critical}, queueCrashed: {remove: true}}}}}"
    )
    site.configure(overrides=["own.yaml"])
    written = amqp_gateway(
        "template", "librenms", "--folder", tmp_path / "nms", "--config", site.configuration
    )
    assert written.code is ExitCode.OK
    discovery = tmp_path / "nms" / "resources" / "definitions" / "os_discovery" / "amqp-gateway.yaml"
    sensors = yaml.safe_load(discovery.read_text(encoding="utf-8"))["modules"]["sensors"]["state"]["data"]
    (queue,) = (sensor["states"] for sensor in sensors if sensor["oid"] == "rmqQueueState")
    generic = {state["descr"]: state["generic"] for state in queue}
    assert (generic["down"], generic["crashed"], generic["minority"]) == (2, 0, 2)


def test_severities_of_snmptt_are_those_of_the_configuration_and_events_of_the_site_are_there(
    tmp_path: Path,
) -> None:
    site = new_site(tmp_path)
    (tmp_path / "own.yaml").write_text(
        "{version: 1, events: {'rabbitmq:queueDeleted': {severity: major}, 'zoo:fed': {severity: minor}}}"
    )
    site.configure(overrides=["own.yaml"], snmp={"root": "1.3.6.1.4.1.99999"})
    files, today = SiteRegistry(site.state.path, "site"), dt.date(2026, 5, 1)
    events = [
        EventSchema(ClassKey("zoo", name), (Argument("dog", ValueType.STRING),), description="A dog is well.")
        for name in ("fed", "barked")
    ]
    registry = extend_events(files.load(today), events, today)
    files.save(registry, SeenSchemas({}, {str(event.key): event for event in events}))
    ended = amqp_gateway("template", "snmptt", "--config", site.configuration)
    assert ended.code is ExitCode.OK, ended
    template = ended.output
    assert 'EVENT rmqQueueDeleted .1.3.6.1.4.1.99999.2.1.0.2 "AMQP-GATEWAY-RABBITMQ-MIB" Major\n' in template
    assert 'EVENT siteZooFed .1.3.6.1.4.1.99999.3.0.1 "AMQP-GATEWAY-SITE-MIB" Minor\n' in template
    assert template.count("EVENT siteZooBarked") == len(Severity)
    assert "  A dog is well.\n" in template
