"""The configuration of the gateway that an agent is."""

from __future__ import annotations

from pathlib import Path

from gateway.config.files import load_configuration
from gateway.mapping.override_files import load_with_overrides
from gateway.service.processes.agent import configuration_of

AGENT = """\
version: 1
overrides: [own.yaml]
agents:
  shop:
    kind: rabbitmq
    management: http://127.0.0.1:15672
    user: agent
    password: {file: secret}
    publish:
      amqp: {url: "amqp://127.0.0.1", user: agent, password: {file: secret}}
      allowed_users: [gateway]
"""
OVERRIDES = """\
version: 1
classes:
  rabbitmq:binding: {exclude: true}
"""


def test_an_agent_publishes_nothing_that_overrides_exclude(tmp_path: Path) -> None:
    (tmp_path / "gateway.yaml").write_text(AGENT, encoding="utf-8")
    (tmp_path / "own.yaml").write_text(OVERRIDES, encoding="utf-8")
    configuration = configuration_of(load_configuration(tmp_path / "gateway.yaml"), "shop")
    known = load_with_overrides(configuration.mapping_files, configuration.override_files)
    assert known.overrides.excludes_class("rabbitmq:binding")
    assert not known.overrides.excludes_class("rabbitmq:queue")
