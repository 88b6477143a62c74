"""``amqp-gateway run``."""

from __future__ import annotations

import importlib
import os
from pathlib import Path

import click

from gateway.cli.options import config_option, lifeline_option, loaded, refuse_distrusted
from gateway.config.files import LoadedConfiguration
from gateway.file_owners import reason_of
from gateway.service.processes.command_errors import command_errors
from gateway.service.processes.exit_codes import CommandError, ExitCode
from gateway.service.processes.kept_sockets import check_sockets, note_feed_place
from gateway.service.processes.process_setup import become
from gateway.service.state.running_configuration import note_running
from gateway.state_folder import StateError, StateFolder, refuse_root


@click.command()
@config_option
@lifeline_option
@click.option(
    "--copy",
    type=click.Path(path_type=Path, dir_okay=False),
    hidden=True,
    help="Copy of the configuration with which the gateway ran, where it restarts.",
)
@click.option(
    "--state-lock", type=int, hidden=True, help="Descriptor of the lock that it holds, where it restarts."
)
@click.option(
    "--trial", is_flag=True, hidden=True, help="Only find out whether the gateway can be started so."
)
def run(
    config: Path | None, lifeline: int | None, copy: Path | None, state_lock: int | None, *, trial: bool
) -> None:
    """Run the gateway in the foreground until Ctrl-C or SIGTERM."""
    configuration = loaded(config, copy)
    refuse_distrusted(configuration)
    try:
        refuse_root(configuration.state_folder)
        state = StateFolder(configuration.state_folder)
        if trial:
            state.check_can_note()
            for module in ("supervise", "process"):  # with all that they need
                importlib.import_module(f"gateway.cli.{module}")
            return
        with state.locked(inherited=state_lock) as held:
            state.migrate()  # another version may have held the lock before
            words = _supervise(configuration, copy or _copied(configuration))
            # The supervisor starts as a new program in this process: all that was imported to check the
            # configuration would take 20 MB as long as the gateway runs.
            become(words, held, lifeline)
    except StateError as error:
        raise CommandError(ExitCode.STATE, str(error)) from error


def _supervise(configuration: LoadedConfiguration, copy: Path) -> list[str]:
    """Return the command line of the supervisor (`gateway.cli.supervise`)."""
    settings = configuration.settings
    words = ["supervise", "--config", str(configuration.path), "--copy", str(copy)]
    words += ["--state", str(configuration.state_folder), "--socket", "core", str(configuration.feed_socket)]
    processes = {
        "core": True,
        "snmp": settings.snmp.enabled,
        "jmx": settings.jmx.enabled,
        "objects": settings.metrics.objects is not None,
    }
    for name, wanted in processes.items():
        words += ["--process", name] if wanted else []
    if settings.log.enabled and settings.log.compact:
        words += ["--compact", str(configuration.log_folder)]
    if settings.metrics.enabled:
        tls = settings.metrics.tls
        found = None if tls is None else tls.files(configuration.folder)
        files = [] if found is None else [found.certificate, found.key, found.client_ca]
        where = [*settings.metrics.listen, settings.metrics.connections, *filter(None, files)]
        words += [word for each in where for word in ("--metrics", str(each))]
    if settings.metrics.objects is not None:
        words += ["--socket", "objects", str(configuration.objects_socket)]
    return words


def _copied(configuration: LoadedConfiguration) -> Path:
    try:
        with command_errors():
            check_sockets(configuration, is_running=False, user=os.getuid())
            note_feed_place(configuration)
            return note_running(configuration)
    except OSError as error:
        reason = reason_of(error, configuration.state_folder)
        text = f"{configuration.state_folder}: cannot be written: {reason}"
        raise CommandError(ExitCode.STATE, text) from error
