"""Mappings, overrides and rules of operations beside what a broker reports."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.config.files import load_configuration
from gateway.mapping.schema_documents import SavedClass, SavedSchemas, schemas_text
from gateway.model.schema import Access, ClassKey, ClassSchema, Element, EventSchema, Method
from gateway.model.values import ValueType
from gateway.service.diagnostics.schema_checks import check_against
from gateway.service.processes.exit_codes import ExitCode
from gateway.yaml_documents import DocumentError
from tests.components.command_line import Site, amqp_gateway, new_site

PUMP = ClassSchema(
    ClassKey("plant", "Pump"),
    (Element("id", ValueType.STRING, index=True), Element("limit", ValueType.U32, Access.READ_WRITE)),
    (Element("flow", ValueType.U32),),
    (Method("reset"),),
)
SCHEMAS = SavedSchemas((SavedClass(PUMP),), (EventSchema(ClassKey("plant", "stopped")),))
MAPPING = """\
version: 1
package: plant
module: PLANT-MIB
prefix: plant
classes:
  Pump:
    properties: {id: {}}
    statistics:
      flwo: {kind: counter}
  Valve:
    properties: {id: {}}
"""


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return new_site(tmp_path)


def checked(site: Site, overrides: str, *, is_bare: bool = True, **sections: object) -> list[str]:
    (site.folder / "overrides.yaml").write_text(f"version: 1\n{overrides}", encoding="utf-8")
    site.configure(overrides=["overrides.yaml"], **sections)  # type: ignore[arg-type]
    found = check_against(load_configuration(site.configuration), SCHEMAS, is_bare=is_bare)
    return [line.removeprefix(f"{site.folder}/") for line in found]


def test_what_the_broker_has_is_good(site: Site) -> None:
    text = "classes: {'plant:Pump': {elements: {flow: {kind: counter}}, methods: {reset: {exclude: true}}}}"
    assert checked(site, text) == []


def test_what_the_broker_lacks_is_an_error_with_file_and_line(site: Site) -> None:
    with pytest.raises(
        DocumentError, match=r"overrides\.yaml:4: .*: matches no element of plant:Pump: did you "
    ):
        checked(site, "classes:\n  plant:Pump:\n    elements: {flwo: {kind: counter}}\n")
    with pytest.raises(DocumentError, match=r"overrides\.yaml:2: .*plant:stoped: .*'plant:stopped'\?"):
        checked(site, "events: {'plant:stoped': {severity: minor}}\n")


def test_a_saved_schema_lacks_what_is_excluded(site: Site) -> None:
    text = "classes: {'plant:Valve': {exclude: true}, 'plant:Pump': {elements: {heat: {exclude: true}}}}\n"
    remarks = checked(site, text, is_bare=False)
    assert len(remarks) == 2
    with pytest.raises(DocumentError):
        checked(site, text)


def test_other_packages_are_remarks(site: Site) -> None:
    (remark,) = checked(site, "classes: {'other:*': {exclude: true}}\n")
    assert remark == "overrides.yaml:2: classes.other:*: matches no class that is known"


def test_rules_that_match_nothing(site: Site) -> None:
    allow = [
        {"who": ["cli:ops"], "invoke": ["rest", "res*"], "set": ["limits"]},
        {"who": ["cli:ops"], "classes": ["plant:Pumps"], "read": True},
    ]
    first, second, third = checked(site, "", operations={"allow": allow})
    assert first.endswith("set.0: matches no element that can be set: did you mean 'limit'?")
    assert second.endswith("invoke.0: matches no method: did you mean 'reset'?")
    assert third.endswith("classes.0: matches no class: did you mean 'plant:Pump'?")
    assert all(line.startswith("gateway.yaml:") for line in (first, second, third))


def test_own_mappings(site: Site) -> None:
    (site.folder / "plant.yaml").write_text(MAPPING, encoding="utf-8")
    assert checked(site, "", mappings=["plant.yaml"]) == [
        "plant.yaml:9: classes.Pump.statistics.flwo: Pump has no such element: did you mean 'flow'?",
        "plant.yaml:10: classes.Valve: the package has no such class",
    ]


def test_the_command(site: Site) -> None:
    saved = site.folder / "saved.json"
    saved.write_text(schemas_text(SCHEMAS), encoding="utf-8")
    (site.folder / "o.yaml").write_text("version: 1\nclasses: {'plant:Pmp': {label: P}}\n", encoding="utf-8")
    site.configure(overrides=["o.yaml"])
    without = amqp_gateway("check", "--config", site.configuration)
    assert without.code is ExitCode.OK
    assert (
        "o.yaml:2: classes.plant:Pmp: matches no class that is known: `check --schema FILE`" in without.output
    )
    checked = amqp_gateway("check", "--config", site.configuration, "--schema", saved)
    assert checked.code is ExitCode.CONFIGURATION
    assert "o.yaml:2: classes.plant:Pmp: matches no class that is known: did you mean 'plant:Pump'?" in (
        checked.errors
    )
    saved.write_text("{}", encoding="utf-8")
    other = amqp_gateway("check", "--config", site.configuration, "--schema", saved)
    assert other.code is ExitCode.CONFIGURATION
    assert "is no document of `amqp-gateway schema export`" in other.errors
