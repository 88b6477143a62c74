"""The doctor, asked by an operator."""

from __future__ import annotations

import json

import pytest

from gateway.service.processes.exit_codes import ExitCode
from tests.cli.conftest import ShownGateway
from tests.components.command_line import Site, amqp_gateway


@pytest.mark.xdist_group("shown gateway")
def test_a_gateway_that_works_has_no_problem(shown_gateway: ShownGateway) -> None:
    ended = shown_gateway.call("doctor", "--json")
    assert ended.code is ExitCode.OK, ended.output
    findings = [json.loads(line) for line in ended.output.splitlines()]
    assert all(finding.keys() == {"check", "subject", "level", "text", "advice"} for finding in findings)
    good = {(finding["check"], finding["subject"]) for finding in findings if finding["level"] == "good"}
    assert good >= {
        ("configuration", ""),
        ("state", ""),
        ("java", ""),
        ("ports", f"127.0.0.1:{shown_gateway.site.snmp_port}"),
        ("source", "orders"),
        ("clock", "orders"),
        ("gateway", ""),
        ("event-log", ""),
        ("writing", ""),
    }
    rights = [finding for finding in findings if finding["check"] == "rights"]
    assert rights[0]["level"] == "warning"
    assert rights[0]["advice"] == "rabbitmqctl set_user_tags administrator monitoring"


def test_problems_are_reported_with_what_to_do_and_end_with_12(site: Site) -> None:
    source = {"kind": "rabbitmq", "management": "http://127.0.0.1:1", "user": "gateway"}
    site.configure(
        sources={"orders": {**source, "password": site.secret(" hunter2")}}, log={"min_free": 2**40}
    )

    ended = amqp_gateway("doctor", "--config", site.configuration)

    assert ended.code is ExitCode.DIFFERENCE
    assert ended.reported == ["amqp-gateway: 2 problems: the lines above say what to do"]
    lines = ended.output.splitlines()
    problems = [line for line in lines if line.startswith("problem")]
    assert [line.split()[1] for line in problems] == ["disk:", "source"]
    assert "begins with white space, which counts as part of the secret" in ended.output
    assert "the event log writes nothing below" in lines[lines.index(problems[0]) + 1]
    assert not [line for line in lines if line.startswith("good")]
    assert lines[-1].endswith("2 problem")
    assert "hunter2" not in ended.output + ended.errors
