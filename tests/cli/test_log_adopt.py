"""Two gateways with one folder of the log: the second ends, and `log adopt` is the way out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gateway.service.processes.exit_codes import ExitCode
from tests.components.command_line import Site, amqp_gateway, new_site, running

pytestmark = pytest.mark.xdist_group("log-adopt")


def site_with(folder: Path, log: Path) -> Site:
    """Make a gateway whose broker is away, and whose log is elsewhere."""
    folder.mkdir()
    site = new_site(folder)
    broker = {"kind": "rabbitmq", "management": ["http://127.0.0.1:1"], "user": "u"}
    site.configure(
        sources={"shop": {**broker, "password": site.secret("p")}},
        snmp={"enabled": False},
        log={"folder": str(log), "compact": False},
    )
    return site


def ran(site: Site, log: Path) -> None:
    """Run a gateway until it is ready, and end it."""
    with running("run", "--config", site.configuration, log=log) as gateway:
        gateway.ready()
        assert gateway.terminate().code is ExitCode.OK


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_another_gateway_ends_and_begins_a_log_of_its_own_when_it_adopts(tmp_path: Path) -> None:
    log = tmp_path / "log"
    first, second = site_with(tmp_path / "first", log), site_with(tmp_path / "second", log)
    ran(first, tmp_path / "log-1")
    before = contents(log)
    with running("run", "--config", second.configuration, log=tmp_path / "log-2") as gateway:
        ended = gateway.ended()
    assert ended.code is ExitCode.STATE
    (reported,) = ended.reported
    assert f"belongs to the gateway {first.state.identity}" in reported
    assert "`amqp-gateway log adopt` begins a new log there" in reported
    assert contents(log) == before
    assert second.state.boots == 0, "the start was not counted"
    diagnosed = amqp_gateway("doctor", "--config", second.configuration).output
    assert f"belongs to the gateway {first.state.identity}" in " ".join(diagnosed.split())

    adopt = ("log", "adopt", "--config")
    nothing = amqp_gateway(*adopt, first.configuration)
    assert (nothing.code, contents(log)) == (ExitCode.OK, before)
    assert "nothing was changed" in nothing.output
    adopted = amqp_gateway(*adopt, second.configuration)
    assert adopted.code is ExitCode.OK, adopted.errors
    former, begun = (json.loads(text)["log_id"] for text in (before[log / "LOG"], (log / "LOG").read_text()))
    assert former in adopted.output
    assert begun != former
    ran(second, tmp_path / "log-3")

    query = "SELECT log_id, min(seq), max(seq) FROM log GROUP BY log_id ORDER BY 2"
    rows = amqp_gateway("log", "query", query, "--csv", "--config", second.configuration).output.split()[1:]
    (first_id, _, end), (second_id, begin, _) = (row.split(",") for row in rows)
    assert (first_id, second_id, int(begin)) == (former, begun, int(end) + 1), "no number is used twice"
    record = amqp_gateway("log", "tail", "--kind", "audit", "--json", "--config", second.configuration)
    (fields,) = map(json.loads, record.output.splitlines())
    assert (fields["state"], fields["principal"].partition(":")[0], fields["audit"]) == ("adoption", "cli", 2)
    statement = json.loads(fields["values"]["statement"])
    assert (statement["former_log_id"], statement["former_gateway"]) == (former, first.state.identity)

    for command in (("log", "verify"), ("audit", "verify")):
        found = amqp_gateway(*command, "--config", second.configuration)
        assert found.code is ExitCode.OK, found.output
    assert f"a log of the gateway {first.state.identity}" in found.output
    with running("run", "--config", first.configuration, log=tmp_path / "log-4") as gateway:
        assert gateway.ended().code is ExitCode.STATE
