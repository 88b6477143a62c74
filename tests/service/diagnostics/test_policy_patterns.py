"""Patterns of roles that match nothing: errors where everything is known, remarks elsewhere."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from gateway.config.files import load_configuration
from gateway.mapping.files import load_mappings
from gateway.service.diagnostics.policy_patterns import check_patterns
from gateway.yaml_documents import DocumentError
from tests.components.command_line import Site, new_site

RABBITMQ = {"kind": "rabbitmq", "management": "http://127.0.0.1:9", "user": "u", "password": {"env": "P"}}
QMF = {
    "kind": "qmf",
    "amqp": {"url": "amqp://127.0.0.1:9", "user": "u", "password": {"env": "P"}},
    "trusted_users": ["a"],
}


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return new_site(tmp_path)


def remarks(site: Site, source: dict[str, Any], *rules: dict[str, Any], **more: Any) -> list[str]:  # noqa: ANN401  as YAML has them
    policy = {"roles": {"shop": {"allow": rules}}, "principals": {"cli:anna": ["shop"]}}
    site.configure(sources={"orders": source}, policy=policy, **more)
    loaded = load_configuration(site.configuration)
    return check_patterns(loaded, load_mappings(loaded.mapping_files))


def wrong(site: Site, rule: dict[str, Any]) -> str:
    with pytest.raises(DocumentError) as error:
        remarks(site, RABBITMQ, rule)
    return str(error.value).partition(": ")[2]


QUEUE = "rabbitmq:queue"


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        (
            {"classes": [QUEUE], "read": ["name", "mesages"]},
            "read.1: 'mesages' matches no element of rabbitmq:queue: did you mean 'messages'?",
        ),
        (
            {"classes": ["rabbitmq:vhost"], "write": ["max*", "*x*y"]},
            "write.1: '*x*y' matches no settable element of rabbitmq:vhost",
        ),
        (
            {"classes": ["rabbitmq:vhost"], "write": ["messages", "maxConnections"]},
            "write.0: 'messages' matches no settable element of rabbitmq:vhost",
        ),
        ({"read": ["mesages"]}, "read.0: 'mesages' matches no element of *:*: did you mean 'messages'?"),
        (
            {"classes": [QUEUE], "invoke": ["purg"]},
            "invoke.0: 'purg' matches no method of rabbitmq:queue: did you mean 'purge'?",
        ),
        (
            {"classes": ["rabitmq:queue"], "read": ["*"]},
            "classes.0: 'rabitmq:queue' matches no class: did you mean 'rabbitmq:queue'?",
        ),
        (
            {"subscribe": ["gateway:sourceDwn"]},
            "subscribe.0: 'gateway:sourceDwn' matches no event or alarm: did you mean 'gateway:sourceDown'?",
        ),
        (
            {"sources": ["*", "order"], "read": ["*"]},
            "sources.1: 'order' matches no source: did you mean 'orders'?",
        ),
    ],
)
def test_what_can_match_nothing_is_an_error(site: Site, rule: dict[str, Any], said: str) -> None:
    assert wrong(site, rule) == f"policy.roles.shop.allow.0.{said}"


@pytest.mark.parametrize(
    "rule",
    [
        {"read": ["*"], "subscribe": ["*:*"], "invoke": ["*"]},
        {"classes": ["gateway:*"], "read": ["*"], "subscribe": ["gateway:*", "gateway:logTrouble"]},
        {"classes": [QUEUE, "*:broker"], "read": ["message*"], "subscribe": ["rabbitmq:memoryAlarm"]},
        {"sources": ["gateway", "ord*"], "read": ["*"]},
    ],
)
def test_what_matches_something_is_none(site: Site, rule: dict[str, Any]) -> None:
    assert not remarks(site, RABBITMQ, rule)


DANGEROUS = "grants nothing: what it matches is dangerous, and has to be named in full"
PRIVATE = "grants nothing: what it matches is private, and takes a rule with 'private: true'"


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        (
            {"classes": [QUEUE], "invoke": ["sync", "purg*"]},
            f"invoke.1: 'purg*' {DANGEROUS} (purge)",
        ),
        (
            {"classes": ["rabbitmq:vhost"], "write": ["maxC*"]},
            f"write.0: 'maxC*' {DANGEROUS} (maxConnections)",
        ),
        (
            {"classes": ["rabbitmq:connection"], "read": ["state", "peer[HP]o*"]},
            f"read.1: 'peer[HP]o*' {PRIVATE} (peerHost, peerPort)",
        ),
        (
            {"subscribe": ["gateway:policy*"]},
            f"subscribe.0: 'gateway:policy*' {PRIVATE} (gateway:policyChanged)",
        ),
    ],
)
def test_what_grants_nothing_is_an_error(site: Site, rule: dict[str, Any], said: str) -> None:
    assert wrong(site, rule) == f"policy.roles.shop.allow.0.{said}"


@pytest.mark.parametrize(
    "rule",
    [
        {"classes": [QUEUE], "invoke": ["purge"]},
        {"classes": ["rabbitmq:connection"], "read": ["peer[HP]o*"], "private": True},
        {"classes": ["rabbitmq:*"], "read": ["*"], "invoke": ["*"]},
    ],
)
def test_what_grants_something_of_what_it_matches_is_none(site: Site, rule: dict[str, Any]) -> None:
    assert not remarks(site, RABBITMQ, rule)


def test_a_pattern_of_everything_that_grants_nothing_today_is_a_remark(site: Site) -> None:
    """The next version may have more that it matches."""
    (line,) = remarks(site, RABBITMQ, {"classes": ["rabbitmq:user"], "read": ["*"]})
    assert "gateway.yaml:" in line
    assert "read.0: '*' grants nothing: what it matches is private, and takes a rule with 'private" in line


def test_a_rule_that_denies_needs_no_names(site: Site) -> None:
    policy = {"roles": {"shop": {"deny": [{"classes": [QUEUE], "invoke": ["purg*"]}]}}}
    site.configure(sources={"orders": RABBITMQ}, policy=policy)
    assert not check_patterns(load_configuration(site.configuration), load_mappings(()))


def test_what_an_agent_may_report_is_a_remark(site: Site) -> None:
    """Classes of agents are known at run time only; a class of RabbitMQ is known in any case."""
    (line,) = remarks(site, QMF, {"read": ["mesages"]})
    assert line.endswith("allow.0.read.0: 'mesages' matches no element of *:*: did you mean 'messages'?")
    assert not remarks(site, QMF, {"classes": ["com.example:*"], "read": ["*"]})[1:]
    with pytest.raises(DocumentError):
        remarks(site, QMF, {"classes": [QUEUE], "read": ["mesages"]})


def test_an_alarm_that_an_override_adds_is_known(site: Site) -> None:
    alarm = "{deep: {element: messages, at_least: 9, severity: major, text: deep}}"
    text = f"version: 1\nclasses: {{'rabbitmq:queue': {{alarms: {alarm}}}}}\n"
    (site.folder / "overrides.yaml").write_text(text, encoding="utf-8")
    assert not remarks(site, RABBITMQ, {"subscribe": ["rabbitmq:deep"]}, overrides=["overrides.yaml"])


def test_each_alarm_of_the_gateway_itself_that_is_documented_is_known(site: Site) -> None:
    text = (Path(__file__).parents[3] / "docs" / "events.md").read_text("utf-8")
    alarms = re.findall("alarm `([a-zA-Z]+)` of the gateway itself", text)
    assert len(alarms) > 4
    assert not remarks(site, RABBITMQ, {"subscribe": [f"gateway:{alarm}" for alarm in alarms]})


def test_what_may_be_set_by_a_rule_of_operations_must_be_settable(site: Site) -> None:
    rule = {"who": ["cli:anna"], "classes": ["rabbitmq:vhost"], "set": ["messages"]}
    site.configure(sources={"orders": RABBITMQ}, operations={"allow": [rule]})
    loaded = load_configuration(site.configuration)
    with pytest.raises(DocumentError) as error:
        check_patterns(loaded, load_mappings(()))
    (line,) = (
        number
        for number, text in enumerate(site.configuration.read_text("utf-8").splitlines(), 1)
        if "messages" in text
    )
    said = f"{site.configuration}:{line}: operations.allow.0.set.0: 'messages' matches no settable element"
    assert str(error.value).startswith(said)


def test_a_rule_of_a_policy_file_is_named_with_its_line(site: Site) -> None:
    file = site.folder / "roles.yaml"
    rule = "classes: ['rabbitmq:queue']\n        read: [mesages]\n"
    text = f"version: 1\nroles:\n  shop:\n    deny:\n      - {rule}"
    file.write_text(text, encoding="utf-8")
    site.configure(sources={"orders": RABBITMQ}, policy={"files": ["roles.yaml"]})
    loaded = load_configuration(site.configuration)
    with pytest.raises(DocumentError) as error:
        check_patterns(loaded, load_mappings(()))
    assert str(error.value).startswith(f"{file}:6: roles.shop.deny.0.read.0: 'mesages' matches no element")


def test_a_source_of_another_gateway_in_a_policy_file_is_a_remark(site: Site) -> None:
    """Several gateways may use one file of roles."""
    file = site.folder / "roles.yaml"
    file.write_text(
        "version: 1\nroles:\n  shop:\n    deny:\n      - {sources: [depot], read: ['*']}\n", "utf-8"
    )
    site.configure(sources={"orders": RABBITMQ}, policy={"files": ["roles.yaml"]})
    loaded = load_configuration(site.configuration)
    (line,) = check_patterns(loaded, load_mappings(()))
    assert line == f"{file}:5: roles.shop.deny.0.sources.0: 'depot' matches no source"
