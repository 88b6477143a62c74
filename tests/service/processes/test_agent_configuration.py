"""The configuration of the gateway that an agent is."""

from __future__ import annotations

from pathlib import Path

from gateway.config.files import load_configuration
from gateway.mapping.override_files import load_with_overrides
from gateway.policy.decisions import CallMethod, Policy, ReadObject, Subject
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


QUEUE = Subject("shop", "rabbitmq:queue", "/|orders")
PURGE, DELETE = (CallMethod(name, dangerous=True) for name in ("purge", "delete"))
ROLES = """\
policy:
  roles:
    purging:
      allow: [{ read: ["*"], invoke: [purge] }]
  principals:
    "qmf:console": [purging]
"""


def test_a_key_of_the_policy_restricts_the_calls_of_the_user_that_it_names(tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text(OVERRIDES, encoding="utf-8")
    written = AGENT.replace("[gateway]", "[gateway, console]") + ROLES
    (tmp_path / "gateway.yaml").write_text(written, encoding="utf-8")
    configuration = configuration_of(load_configuration(tmp_path / "gateway.yaml"), "shop")
    policy = Policy(configuration.settings.role_set)

    def allowed(user: str, wish: CallMethod | ReadObject) -> bool:
        return policy.decide(f"qmf:{user}", QUEUE, wish).allowed

    assert [allowed("gateway", wish) for wish in (PURGE, DELETE, ReadObject())] == [True, True, True]
    assert [allowed("console", wish) for wish in (PURGE, DELETE, ReadObject())] == [True, False, True]
    assert [allowed("other", wish) for wish in (PURGE, DELETE, ReadObject())] == [False, False, False]
