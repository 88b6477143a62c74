"""``amqp-gateway show``: the objects of a broker, read without a running gateway."""

from __future__ import annotations

import asyncio
import datetime as dt
import logging
import os
from pathlib import Path
from typing import Final, TextIO

import click

from gateway.cli.clearance import require_everything
from gateway.cli.options import config_option, configured_source, duration, loaded
from gateway.cli.printing import at_work, json_option, say, say_json
from gateway.cli.provision_management import (
    Login,
    ca_file_option,
    checked,
    login_option,
    login_to,
    look,
    management_client,
    password_option,
)
from gateway.clock import SystemClock
from gateway.config.files import LoadedConfiguration
from gateway.config.model import Configuration
from gateway.config.types import HttpUrl
from gateway.escapes import escaped, printable
from gateway.model.observations import SourceState
from gateway.service.processes.command_errors import command_errors
from gateway.service.processes.exit_codes import CommandError, ExitCode
from gateway.service.processes.process_setup import configure_logs
from gateway.service.sources.standalone import first_reading
from gateway.terminal.documents import object_document
from gateway.terminal.lines import assignments
from gateway.terminal.selection import Pattern
from gateway.terminal.view import KnownObject, TerminalView

_SOURCE: Final = "rabbitmq"
_PASSWORD: Final = "AMQP_GATEWAY_SHOW_PASSWORD"  # noqa: S105  the name of a variable


def _url_or_source(context: click.Context, parameter: click.Parameter, value: str) -> str:
    if "://" in value:
        checked(HttpUrl)(context, parameter, value)
    return value


@click.command()
@click.argument("target", metavar="URL|SOURCE", callback=_url_or_source)
@click.argument("pattern", metavar="[PATTERN]", default="")
@login_option
@password_option
@ca_file_option
@config_option
@click.option(
    "--for",
    "patience",
    type=duration,
    default="30s",
    show_default=True,
    metavar="DURATION",
    help="Stop waiting for the complete reading after this time.",
)
@json_option
def show(
    target: str,
    pattern: str,
    *,
    user: str | None,
    password_file: TextIO | None,
    ca_file: Path | None,
    config: Path | None,
    patience: dt.timedelta,
    as_json: bool,
) -> None:
    """Print every object of a RabbitMQ, or of a configured source, with its values.

    URL is that of the management API. No running gateway is needed, and the broker is not changed.
    PATTERN is CLASS/NAME with *, ? and [...].
    """
    configure_logs("source", logging.CRITICAL)
    if "://" in target:
        login = login_to(target, user, password_file)
        # A source goes on trying; a command ends with the code of what is wrong.
        with management_client(target, login.user, login.password, ca_file) as client:
            look(client, target, login.user)
        configuration, name = _configuration(target, login, ca_file), _SOURCE
    else:
        configuration, name = loaded(config), target
        configured_source(configuration, name)
        require_everything(configuration, "show, with the login of a source,")
    view = _read(configuration, name, patience)
    (source,) = view.sources.values()
    found = Pattern.of(f"*/{pattern}").objects(view)
    if as_json:
        for known in found:
            say_json(object_document(known, view, list(known.in_class.schema.elements)))
    else:
        say(_line(known) for known in found)
    if source.state in {SourceState.CONNECTING, SourceState.DOWN}:
        raise CommandError(ExitCode.UNREACHABLE, f"{target}: {source.detail or source.state.value}")
    about = f"{len(view.objects)} objects, {source.state.value}"
    click.echo(printable(f"{about}: {source.detail}" if source.detail else about), err=True)


def _configuration(url: str, login: Login, ca_file: Path | None) -> LoadedConfiguration:
    """Return a configuration with this broker alone, without a file."""
    os.environ[_PASSWORD] = login.password  # Configurations take secrets from here.
    source: dict[str, object] = {
        "kind": "rabbitmq",
        "management": url,
        "user": login.user,
        "password": {"env": _PASSWORD},
    }
    if ca_file is not None:
        source["ca_file"] = str(ca_file.absolute())
    settings = Configuration.model_validate({"version": 1, "sources": {_SOURCE: source}})
    return LoadedConfiguration(settings, Path.cwd() / "gateway.yaml")


def _read(configuration: LoadedConfiguration, name: str, patience: dt.timedelta) -> TerminalView:
    with command_errors(), at_work(f"reading {name}"):
        return asyncio.run(first_reading(configuration, name, SystemClock(), patience.total_seconds()))


def _line(known: KnownObject) -> str:
    schema = known.in_class.schema
    values = {
        schema.elements[position].name: value
        for position, value in known.record.values.items()
        if schema.elements[position].readable
    }
    elements = {element.name: element for element in schema.elements}
    name = escaped(known.record.stable_name)
    return f"{known.class_name}  {name}  {assignments(values, elements, known.source)}"
