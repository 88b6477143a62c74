"""``amqp-gateway source schema`` and other commands about a source of kind cml, at an OpenAMQ's peer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gateway.service.processes.exit_codes import ExitCode
from gateway.service.state.cached_schemas import schema_of
from tests.cli.test_provision import refused
from tests.components.amqp_peer import AmqpPeer
from tests.components.background import in_background
from tests.components.command_line import Site, amqp_gateway
from tests.components.open_amq import open_amq, recorded_schema


@pytest.fixture
def peer() -> Iterator[AmqpPeer]:
    with in_background(open_amq) as (_, peer):
        yield peer


def _configure(site: Site, port: int, **more: Any) -> None:  # noqa: ANN401  of a configuration
    amqp = {"url": f"amqp://127.0.0.1:{port}", "user": "guest", "password": site.secret("guest")}
    site.configure(sources={"openamq": {"kind": "cml", "amqp": amqp, **more}})


def test_the_schema_is_written_for_the_configuration(site: Site, peer: AmqpPeer, tmp_path: Path) -> None:
    _configure(site, peer.port, schema_file="schema.xml")
    out = tmp_path / "schema.xml"
    assert refused(amqp_gateway("check", "--config", site.configuration))[0] is ExitCode.CONFIGURATION

    ended = amqp_gateway("source", "schema", "openamq", "--config", site.configuration, "--out", out)

    assert (ended.code, ended.output, ended.errors) == (ExitCode.OK, "", "")
    assert schema_of(out.read_bytes()) == recorded_schema()
    assert amqp_gateway("check", "--connect", "--config", site.configuration).code is ExitCode.OK
    printed = amqp_gateway("source", "schema", "openamq", "--config", site.configuration).output
    assert printed == out.read_text(encoding="utf-8")
    nowhere = tmp_path / "nowhere" / "schema.xml"
    code, reported = refused(
        amqp_gateway("source", "schema", "openamq", "--config", site.configuration, "--out", nowhere)
    )
    assert (code, reported.partition(": cannot be written")[0]) == (ExitCode.FAILED, str(nowhere))


def test_a_dash_is_no_file_to_write(site: Site, tmp_path: Path) -> None:
    _configure(site, 1)
    words = ("source", "schema", "openamq", "--config", site.configuration, "--out", "-")
    ended = amqp_gateway(*words, folder=tmp_path)
    assert (ended.code, "write ./- for that" in ended.errors) == (ExitCode.USAGE, True)
    assert not (tmp_path / "-").exists()


def test_only_sources_of_kind_cml_have_one(site_without_state: Site) -> None:
    site = site_without_state
    account = {"user": "x", "password": site.secret("x")}
    site.configure(sources={"orders": {"kind": "rabbitmq", "management": "http://127.0.0.1:1", **account}})
    code, reported = refused(amqp_gateway("source", "schema", "orders", "--config", site.configuration))
    assert (code, "is of kind rabbitmq" in reported) == (ExitCode.CONFIGURATION, True)


def test_doctor_says_what_is_worth_knowing(site: Site, peer: AmqpPeer) -> None:
    _configure(site, peer.port, short_lived=True)
    lines = amqp_gateway("doctor", "--all", "--json", "--config", site.configuration).output.splitlines()
    found = [json.loads(line) for line in lines]
    levels = {each["check"]: each["level"] for each in found if each.get("subject") == "openamq"}
    assert (levels["believed"], levels["short-lived"]) == ("note", "warning")
    assert next(each["level"] for each in found if each["check"] == "source") == "good"
