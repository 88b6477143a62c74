"""``amqp-gateway systemd``: the gateway as a system service."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from gateway.cli.options import config_option, loaded
from gateway.config.files import LoadedConfiguration
from gateway.durable_files import PUBLIC, write_durably
from gateway.service.processes.exit_codes import CommandError, ExitCode
from gateway.service.processes.systemd import GATEWAY_UNIT, USER, program, unit_files

ROOT = Path("/")


@click.group()
def systemd() -> None:
    """Write systemd units for a configuration."""


@systemd.command()
@config_option
def show(config: Path | None) -> None:
    """Print the units that `install` writes."""
    for place, text in unit_files(loaded(config)).items():
        click.echo(f"# {ROOT / place}\n{text}")


@systemd.command()
@config_option
@click.option(
    "--root",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    default=ROOT,
    show_default=True,
    help="Root folder of the system that receives them, such as an image.",
)
def install(config: Path | None, root: Path) -> None:
    """Write the units without starting them, and print what to do next."""
    configuration = loaded(config)
    for place, text in unit_files(configuration).items():
        path = root / place
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_durably(path, text, PUBLIC)
        except OSError as error:
            raise CommandError(ExitCode.FAILED, f"{path}: cannot be written: {error.strerror}") from error
        click.echo(f"# {path}: written")
    click.echo("\n".join(_next_steps(configuration)))


def _next_steps(configuration: LoadedConfiguration) -> list[str]:
    """Return commands for root, which can be repeated."""
    state, settings = map(str, (configuration.state_folder, configuration.path))
    as_user = ["runuser", "-u", USER, "--", *program()]
    lines = [
        ["systemd-sysusers"],
        ["install", "-d", "-o", USER, "-g", USER, "-m", "0700", state],
        [*as_user, "check", "--config", settings],
    ]
    steps = [shlex.join(line) for line in lines]
    made = shlex.join(["test", "-e", f"{state}/VERSION"])
    steps.append(f"{made} || {shlex.join([*as_user, 'init', '--config', settings])}")
    services = [GATEWAY_UNIT.name, *(f"amqp-gateway-agent@{name}" for name in configuration.settings.agents)]
    return [*steps, "systemctl daemon-reload", shlex.join(["systemctl", "enable", "--now", *services])]
