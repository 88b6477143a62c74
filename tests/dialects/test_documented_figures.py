"""Figures in docs/conformance-*.md; the limits themselves are tested with smaller figures."""

from __future__ import annotations

from gateway.dialects.ami.relay import RelayLimits
from gateway.dialects.cml.console_config import Budget
from gateway.dialects.qmf.console_config import ConsoleConfig


def test_what_an_ami_application_may_take() -> None:
    limits = RelayLimits()
    assert (limits.applications, limits.types, limits.keys, limits.versions) == (256, 256, 256, 1_500)
    assert (limits.inserted, limits.commands, limits.command_octets) == (1_000, 200, 256 << 10)
    assert (limits.held_lines, limits.held_octets) == (1_000, 256 << 10)


def test_what_polling_may_cost_an_openamq() -> None:
    budget = Budget()
    assert (budget.rate, budget.in_flight, budget.share) == (100, 8, 0.25)


def test_how_many_agents_and_calls_a_console_of_qmf_has() -> None:
    config = ConsoleConfig(frozenset())
    assert (config.agent_limit, config.operation_limit, config.class_limit) == (256, 1_000, 4_096)
