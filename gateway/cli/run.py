"""``amqp-gateway run``."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from gateway.cli.options import config_option, lifeline_option, loaded, refuse_distrusted
from gateway.config.files import LoadedConfiguration
from gateway.file_owners import reason_of
from gateway.service.processes.command_errors import command_errors
from gateway.service.processes.exit_codes import CommandError, ExitCode
from gateway.service.processes.kept_sockets import note_feed_place
from gateway.service.processes.systemd import MODULE
from gateway.service.state.running_configuration import note_running
from gateway.state_folder import StateError, StateFolder, refuse_root


@click.command()
@config_option
@lifeline_option
def run(config: Path | None, lifeline: int | None) -> None:
    """Run the gateway in the foreground until Ctrl-C or SIGTERM."""
    configuration = loaded(config)
    refuse_distrusted(configuration)
    try:
        refuse_root(configuration.state_folder)
        with StateFolder(configuration.state_folder).locked() as state_lock:
            words = _supervise(configuration, _copied(configuration), lifeline, state_lock)
            # The supervisor starts as a new program in this process: all that was imported to check the
            # configuration would take 20 MB as long as the gateway runs.
            for descriptor in (state_lock, lifeline):
                if descriptor is not None:
                    os.set_inheritable(descriptor, True)
            sys.stdout.flush()
            sys.stderr.flush()
            os.execv(sys.executable, (*MODULE, *words))  # noqa: S606  our own program
    except StateError as error:
        raise CommandError(ExitCode.STATE, str(error)) from error


def _supervise(
    configuration: LoadedConfiguration, copy: Path, lifeline: int | None, state_lock: int
) -> list[str]:
    """Return the command line of the supervisor (`gateway.cli.supervise`)."""
    settings = configuration.settings
    words = ["supervise", "--config", str(configuration.path), "--copy", str(copy)]
    words += ["--socket", "core", str(configuration.feed_socket)]
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
    if lifeline is not None:
        words += ["--lifeline", str(lifeline)]
    return [*words, "--state-lock", str(state_lock)]


def _copied(configuration: LoadedConfiguration) -> Path:
    try:
        with command_errors():
            note_feed_place(configuration)
            return note_running(configuration)
    except OSError as error:
        reason = reason_of(error, configuration.state_folder)
        text = f"{configuration.state_folder}: cannot be written: {reason}"
        raise CommandError(ExitCode.STATE, text) from error
