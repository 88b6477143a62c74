"""``amqp-gateway provision --remove``: shows what it will take back, asks, and takes it back."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import click
import httpx

from gateway.agents.rabbitmq.provisioning import carry_out
from gateway.agents.rabbitmq.removal import ProvisionedBroker, Removal, plan_removal
from gateway.service.processes.exit_codes import CommandError, ExitCode


class Consent(Protocol):
    """How far the command may go.

    Attributes:
        dry_run: only say what would be done.
        yes: do not ask.
    """

    @property
    def dry_run(self) -> bool:
        """See above."""

    @property
    def yes(self) -> bool:
        """See above."""


def remove(
    client: httpx.Client, provisioned: ProvisionedBroker, passwords: Mapping[str, Path], consent: Consent
) -> None:
    """Remove what was set up.

    Args:
        client: of the management API, as `plan_removal` takes it.
        provisioned: what was.
        passwords: the files with the users' passwords.
        consent: how far it may go.

    Raises:
        CommandError: something is in the way, or nobody agreed; nothing is changed.
        ProvisioningError: the broker refused a step; earlier ones stay done.
    """
    plan = plan_removal(client, provisioned)
    _show(plan)
    if plan.obstacles:
        count = len(plan.obstacles)
        things = "one thing is" if count == 1 else f"{count} things are"
        raise CommandError(ExitCode.CONFIGURATION, f"{things} in the way: nothing is removed")
    if consent.dry_run:
        _say("dry run: nothing is removed")
        return
    if plan.steps:
        if not consent.yes:
            _ask()
            _unchanged(plan, plan_removal(client, provisioned))
        for step in plan.steps:
            carry_out(client, step)
            _say(f"done: {step.told}")
    for name, path in passwords.items():
        if path.exists():
            _say(f"left: {path}: the password of {name}; delete it, or keep it for another provision")


def _show(plan: Removal) -> None:
    for step in plan.steps:
        _say(f"to do: {step.told}")
    if not plan.steps:
        _say("nothing: the broker has nothing of ours")
    for line in plan.left:
        _say(f"left: {line}")
    for line in plan.obstacles:
        _say(f"in the way: {line}")


def _ask() -> None:
    if not sys.stdin.isatty():
        raise CommandError(ExitCode.USAGE, "there is no terminal to ask at: say --yes")
    if not click.confirm("Remove this?", err=True):
        raise CommandError(ExitCode.FAILED, "nothing is removed")


def _unchanged(shown: Removal, now: Removal) -> None:
    """What somebody agreed to is still what there is; messages may have come."""
    if now.obstacles or [step.path for step in now.steps] != [step.path for step in shown.steps]:
        text = "the broker has changed while you were asked: nothing is removed; look again"
        raise CommandError(ExitCode.FAILED, text)


def _say(line: str) -> None:
    click.echo(" ".join(line.splitlines()))
