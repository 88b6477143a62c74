"""The documents are right: sample configurations are valid, commands exist, files named are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gateway.config import logins, model, policy, protection, snmp, sources
from gateway.dialects.cml import session_state as cml_session_state
from gateway.dialects.qmf import session_state
from gateway.eventlog.parquet import FILE_METADATA
from gateway.feed import messages
from gateway.inventory import identity
from gateway.mapping.override_files import load_overrides
from gateway.mapping.rules import Mapping
from gateway.prometheus.objects import LEFT_OUT, NAME_TAKEN, SERIES, SOURCE_UP, UP
from gateway.service.metrics.families import FAMILIES
from gateway.service.processes.exit_codes import ExitCode
from gateway.snmp.notifications import saved
from gateway.yaml_documents import StrictModel, parse_document
from tests.components.shipped_mappings import shipped_mappings
from tests.written_pages.bounds_table import bounds_table
from tests.written_pages.metrics_table import metrics_table

ROOT = Path(__file__).parent.parent
PAGES = (ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md")))

SAMPLE = re.compile(r"```yaml\n(version: 1\n.*?)```", re.DOTALL)
COMMAND = re.compile(r"\bmake ([a-z]+(?:-[a-z]+)*)")
TABLE_KEYS = re.compile(r"^\| ((?:`[a-z_]+`(?:, )?)+) \|", re.MULTILINE)
LINK = re.compile(r"\]\((?!https?://|#)([^)#\s]+)")


def name(page: Path) -> str:
    return page.name


def samples() -> list[tuple[str, str]]:
    return [(page.name, text) for page in PAGES for text in SAMPLE.findall(page.read_text(encoding="utf-8"))]


@pytest.mark.parametrize(("page", "text"), samples())
def test_sample_configurations_are_read(tmp_path: Path, page: str, text: str) -> None:
    if text.startswith("version: 1\npackage:"):
        assert parse_document(text, Mapping, Path(page)).classes
    elif "\nclasses:\n" in text:
        path = tmp_path / "overrides.yaml"
        path.write_text(text, encoding="utf-8")
        assert load_overrides([path], shipped_mappings())
    else:
        assert parse_document(text, model.Configuration, Path(page)).sources


def test_the_readme_shows_a_configuration() -> None:
    assert "README.md" in {page for page, _ in samples()}


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_commands_in_code_are_targets_of_the_makefile(page: Path) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z]+(?:-[a-z]+)*):", makefile, re.MULTILINE))
    code = re.findall(r"`([^`\n]*)`|^(make .*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    named = {target for pair in code for text in pair for target in COMMAND.findall(text)}
    assert named <= targets


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_files_linked_are_there(page: Path) -> None:
    missing = [
        target
        for target in LINK.findall(page.read_text(encoding="utf-8"))
        if not (page.parent / target).exists()
    ]
    assert missing == []


SECTIONS: dict[str, type[StrictModel]] = {
    "## The file": model.Configuration,
    "## A source of kind rabbitmq": sources.RabbitMqSource,
    "### Its events": sources.EventSettings,
    "## A source of kind qmf": sources.QmfSource,
    "### A durable subscription": sources.DurableSettings,
    "## A source of kind am01": sources.Am01Source,
    "## A source of kind ami": sources.AmiSource,
    "### Its TLS": sources.ListenerTls,
    "## Certificates": model.CertificateSettings,
    "### Logged sessions": sources.SessionLogSettings,
    "### Limits of applications": sources.AmiLimits,
    "### Where it publishes": sources.AgentPublishing,
    "### Metrics of an agent": sources.AgentMetrics,
    "## A source of kind cml": sources.CmlSource,
    "### What polling may cost": sources.CmlBudget,
    "## Protected bodies": protection.ProtectedSettings,
    "### OAuth 2": logins.OAuthSettings,
    "### A proxy for HTTP": logins.ProxySettings,
    "## AMQP": sources.AmqpSettings,
    "## SNMP": snmp.SnmpSettings,
    "### Limits of an answer": snmp.SnmpLimits,
    "### A view": snmp.SnmpView,
    "### A receiver of notifications": snmp.NotificationTarget,
    "## JMX": model.JmxSettings,
    "### Who changes it": sources.WritingSettings,
    "## Operations": model.OperationSettings,
    "### A rule": policy.OperationRule,
    "## Policy": policy.PolicySettings,
    "### A role": policy.RoleSettings,
    "### A rule of a role": policy.RoleRule,
    "## Event log": model.LogSettings,
    "## Audit": model.AuditSettings,
    "### Heads": model.HeadSettings,
    "## History": model.HistorySettings,
    "## Metrics": model.MetricsSettings,
    "### Metrics of objects": model.ObjectMetricsSettings,
    "## State": model.StateSettings,
    "## Feed": model.FeedSettings,
}


@pytest.mark.parametrize(("heading", "section"), SECTIONS.items())
def test_every_key_of_the_configuration_is_described(heading: str, section: type[StrictModel]) -> None:
    page = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    text = re.split(r"^#", page.partition(f"{heading}\n")[2], maxsplit=1, flags=re.MULTILINE)[0]
    described = {key for keys in TABLE_KEYS.findall(text) for key in re.findall("[a-z_]+", keys)}
    assert described == set(section.model_fields)


def test_the_bounds_of_the_configuration_are_those_of_the_code() -> None:
    assert bounds_table(SECTIONS) in (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")


def test_an_agent_has_the_keys_of_a_source_but_for_a_few() -> None:
    agent, source = set(sources.RabbitMqAgent.model_fields), set(sources.RabbitMqSource.model_fields)
    assert agent ^ source == {"publish", "metrics", "max_objects", "durable", "same_as"}


@pytest.mark.parametrize(
    ("what", "version"), [("The feed", messages.VERSION), ("`notifications.json`", saved.VERSION)]
)
def test_the_changes_name_the_version_that_the_code_has(what: str, version: int) -> None:
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    named = re.findall(rf"{re.escape(what)} has version ([0-9]+)", changes)
    assert max(map(int, named)) == version


def test_every_exit_code_is_described() -> None:
    page = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d+) \| ([A-Z_]+) \|", page, re.MULTILINE)
    assert rows == [(str(code.value), code.name) for code in ExitCode]


def test_every_metric_is_described_as_it_is_reported() -> None:
    assert f"\n{metrics_table()}\n" in (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_metrics_and_metadata_that_are_named_are_there(page: Path) -> None:
    suffixes = {"", "_bucket", "_sum", "_count"}
    known = {family.name + suffix for family in FAMILIES for suffix in suffixes} | FILE_METADATA.keys()
    known |= {UP, SOURCE_UP, LEFT_OUT, NAME_TAKEN, SERIES}
    assert set(re.findall(r"amqp_gateway_[a-z0-9_]+", page.read_text(encoding="utf-8"))) <= known


def test_the_states_of_a_console_are_drawn_as_they_are() -> None:
    assert str(session_state.TRANSITIONS) in (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    cml = (ROOT / "docs" / "conformance-cml.md").read_text(encoding="utf-8")
    assert str(cml_session_state.TRANSITIONS) in cml


def test_the_tables_of_identity_are_printed_as_the_code_follows_them() -> None:
    assert identity.table() in (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")


DEFENCES = re.compile(r"`(tests/[a-z0-9_/]+\.py)(?:::(test_[a-z0-9_]+))?`")


def defences() -> list[str]:
    """Return the rows of the tables of the threat model in which a test is named."""
    page = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    section = page.partition("## What is defended\n")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| ")]
    return [row for row in rows if not row.startswith(("| threat |", "| --- |"))]


@pytest.mark.parametrize("row", defences(), ids=lambda row: row.split("|")[1].strip()[:40])
def test_each_defence_names_tests_that_exist(row: str) -> None:
    tests = row.rstrip(" |").rpartition("|")[2]
    named = DEFENCES.findall(tests)
    assert named
    assert tests.count("`") == 2 * len(named)
    for path, function in named:
        text = (ROOT / path).read_text(encoding="utf-8")
        assert not function or re.search(rf"^(?:async )?def {function}\(", text, re.MULTILINE), function


def test_there_are_defences() -> None:
    assert len(defences()) > 30
