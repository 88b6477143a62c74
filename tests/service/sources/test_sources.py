"""The log of a source when it starts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.components.command_line import is_log_record, new_site, running
from tests.components.waiting import wait_until


def test_a_qmf_source_says_that_impersonators_were_not_checked(tmp_path: Path) -> None:
    site, log = new_site(tmp_path), tmp_path / "log"
    amqp = {"url": "amqp://127.0.0.1:1", "user": "gateway", "password": site.secret("hunter2")}
    reading = {"management": "http://127.0.0.1:1", "user": "gateway", "password": site.secret("hunter2")}
    site.configure(
        sources={
            "field": {"kind": "qmf", "amqp": amqp, "trusted_users": ["agent"]},
            "old": {"kind": "am01", "amqp": amqp, "trusted_users": ["bridge"]},
            "anybody": {"kind": "qmf", "amqp": amqp, "trust_anyone": True},
            "reading": {"kind": "rabbitmq", **reading},
        }
    )

    def said() -> list[dict[str, Any]]:
        lines = filter(is_log_record, log.read_text(encoding="utf-8").splitlines())
        return [one for one in map(json.loads, lines) if one["event"] == "impersonators-not-checked"]

    with running("process", "core", "--config", site.configuration, log=log) as core:
        core.ready()
        wait_until(lambda: len(said()) == 2, "it says so")
        core.terminate()

    record, other = said()
    assert (record["level"], {record["name"], other["name"]}) == ("warning", {"field", "old"})
    assert "a user tagged 'impersonator' could forge" in record["detail"]
    assert "keep that tag off the users of this broker" in record["detail"]
