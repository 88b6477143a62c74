"""An operator's own mappings beside the shipped ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.config.files import load_configuration
from gateway.mapping.errors import MappingError
from gateway.mapping.files import load_mappings
from gateway.service.processes.exit_codes import ExitCode
from tests.components.command_line import amqp_gateway
from tests.components.shipped_mappings import shipped_mappings

PUMPS = """\
version: 1
package: plant
module: PLANT-MIB
prefix: plant
classes:
  Pump:
    properties: {id: {index: true}}
    statistics: {flow: {unit: l, kind: counter}}
"""


def configured(folder: Path, *mappings: str) -> Path:
    for number, text in enumerate(mappings):
        (folder / f"{number}.yaml").write_text(text, encoding="utf-8")
    path = folder / "gateway.yaml"
    files = [f"{number}.yaml" for number in range(len(mappings))]
    path.write_text(f"version: 1\nmappings: {files}\n", encoding="utf-8")
    return path


def test_they_stand_beside_the_shipped_ones(tmp_path: Path) -> None:
    loaded = load_mappings(load_configuration(configured(tmp_path, PUMPS)).mapping_files)
    assert loaded.keys() == {*shipped_mappings(), "plant"}
    assert loaded["plant"].classes["Pump"].statistics["flow"].unit == "l"


def test_one_of_a_package(tmp_path: Path) -> None:
    with pytest.raises(
        MappingError, match=r"1\.yaml:2: package: a mapping of the package 'plant' stands before it"
    ):
        load_mappings(load_configuration(configured(tmp_path, PUMPS, PUMPS)).mapping_files)
    shipped = PUMPS.replace("package: plant", "package: rabbitmq")
    with pytest.raises(MappingError, match=r"'rabbitmq' is shipped with the gateway"):
        load_mappings(load_configuration(configured(tmp_path, shipped)).mapping_files)


RELAY = """\
version: 1
package: ami-relay
module: PLANT-RELAY-MIB
prefix: relay
classes:
  application:
    alarms:
      gone: {element: connected, equals: false, severity: major, text: "{name} is not connected"}
    properties: {connected: {}}
"""


def test_a_shipped_one_that_takes_additions_is_added_to(tmp_path: Path) -> None:
    application = load_mappings(load_configuration(configured(tmp_path, RELAY)).mapping_files)[
        "ami-relay"
    ].classes["application"]
    assert application.alarms.keys() == {"gone"}
    assert application.statistics["instructions"].unit == "instructions"
    with pytest.raises(
        MappingError, match=r"1\.yaml:2: package: a mapping of the package 'ami-relay' stands "
    ):
        load_mappings(load_configuration(configured(tmp_path, RELAY, RELAY)).mapping_files)
    other = RELAY.replace("connected: {}", "connected: {index: true}")
    with pytest.raises(
        MappingError, match=r"0\.yaml:9: classes\.application\.properties\.connected\.index: "
    ):
        load_mappings(load_configuration(configured(tmp_path, other)).mapping_files)


def test_one_that_is_wrong_is_reported_with_its_line(tmp_path: Path) -> None:
    file = configured(tmp_path, PUMPS.replace("kind: counter", "kind: clock"))
    reported = amqp_gateway("check", "--config", file)
    assert reported.code is ExitCode.CONFIGURATION
    assert "0.yaml:8: classes.Pump.statistics.flow.kind: " in reported.errors
