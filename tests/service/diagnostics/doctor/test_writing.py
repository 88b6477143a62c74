"""Every way in which write access is enabled is named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gateway.config.files import load_configuration
from gateway.service.diagnostics.doctor import Finding, Level
from gateway.service.diagnostics.doctor.examination import writing_findings
from tests.components.command_line import new_site

RULE = {"who": ["cli:alice"], "set": ["maxConnections"], "objects": ["/orders"]}


def found(folder: Path, **sections: dict[str, Any]) -> list[Finding]:
    folder.mkdir(exist_ok=True)
    site = new_site(folder)
    source = {"kind": "rabbitmq", "management": "http://127.0.0.1:1", "user": "gateway"}
    password = site.secret("hunter2")
    writing = sections.pop("writing", None)
    account = {} if writing is None else {"writing": {"user": "writer", "password": password, **writing}}
    site.configure(sources={"orders": {**source, "password": password, **account}}, **sections)
    return list(writing_findings(load_configuration(site.configuration)))


def test_no_principal_may_change_anything_by_default(tmp_path: Path) -> None:
    (finding,) = found(tmp_path)
    assert (finding.level, finding.text) == (Level.GOOD, "no user may change anything")


def test_each_rule_is_reported_in_words(tmp_path: Path) -> None:
    (rule,) = found(tmp_path, operations={"allow": [RULE]}, writing={})
    assert rule.level is Level.NOTE
    assert rule.text == "cli:alice may write maxConnections, of objects /orders"


def test_a_rule_for_everything_is_a_warning(tmp_path: Path) -> None:
    wide = {"who": ["cli:alice"], "set": ["*"], "invoke": ["purge"], "read": True}
    (rule,) = found(tmp_path, operations={"allow": [wide]}, writing={})
    assert rule.level is Level.WARNING
    assert rule.text == "cli:alice may write *, invoke purge, have objects read again"


def test_rules_and_accounts_go_together(tmp_path: Path) -> None:
    _, without = found(tmp_path / "rules", operations={"allow": [RULE]})
    assert (without.subject, without.advice) == ("orders", "name one under 'writing' of the source")
    _, unused = found(tmp_path / "account", writing={})
    assert (unused.subject, unused.level) == ("orders", Level.NOTE)


def test_a_lockout_is_a_warning_for_as_long_as_it_is_there(tmp_path: Path) -> None:
    findings = found(tmp_path, operations={"allow": [RULE]}, writing={"allow_lockout": ["/orders"]})
    assert [finding.level for finding in findings] == [Level.NOTE, Level.WARNING]
    assert "/orders" in findings[1].text


def test_communities_that_write_and_travel_the_network_are_a_warning(tmp_path: Path) -> None:
    snmp = {"writers": {"noc": {}, "idle": {}}, "listen": ["0.0.0.0:1161"]}
    rule = {**RULE, "who": ["snmp:noc"]}
    findings = found(tmp_path, snmp=snmp, operations={"allow": [rule]}, writing={})
    assert [(finding.subject, finding.level) for finding in findings] == [
        ("", Level.NOTE),
        ("snmp:idle", Level.NOTE),
        ("", Level.WARNING),
    ]
