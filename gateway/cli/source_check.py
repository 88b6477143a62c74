"""``amqp-gateway source test`` and ``source schema``: asking the broker of one source."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import click

from gateway.cli.options import OUTPUT_FILE, config_option, configured_source, loaded
from gateway.cli.printing import at_work, json_option, say, say_json
from gateway.config.secret_places import SecretError
from gateway.config.sources import CmlSource
from gateway.dialects.errors import LocalProtocolError
from gateway.durable_files import write_durably
from gateway.file_owners import as_owner
from gateway.service.diagnostics.checks import check_source
from gateway.service.diagnostics.source_checks import ask_schema
from gateway.service.processes.exit_codes import CommandError, ExitCode
from gateway.service.processes.process_setup import configure_logs
from gateway.service.sources.endpoints import amqp_endpoint
from gateway.service.state.cached_schemas import schema_document


@click.command("test")
@click.argument("name")
@config_option
@json_option
def test_command(name: str, config: Path | None, *, as_json: bool) -> None:
    """Connect to the source NAME of the configuration, and check whether it can be used.

    Nothing is changed. The gateway need not be running.
    """
    configuration = loaded(config)
    configure_logs("source", logging.CRITICAL)
    settings = configured_source(configuration, name)
    remarks: list[str] = []
    trouble: CommandError | None = None
    with at_work(f"reaching {name}"):
        try:
            asyncio.run(check_source(name, settings, configuration.folder, remarks.append))
        except CommandError as error:
            trouble = error
    if as_json:
        code = ExitCode.OK if trouble is None else trouble.code
        say_json(
            {
                "source": name,
                "source_kind": settings.kind,
                "is_reached": trouble is None,
                "trouble": None if trouble is None else code.name.lower(),
                "remarks": remarks,
                "text": "" if trouble is None else str(trouble),
            }
        )
    else:
        say([*remarks, *([] if trouble is not None else [f"source {name}: reached"])])
    if trouble is not None:
        raise trouble


@click.command("schema")
@click.argument("name")
@config_option
@click.option(
    "--out",
    type=OUTPUT_FILE,
    metavar="FILE",
    help="File to write, for 'schema_file' of the source; it is replaced. Default: print it.",
)
def schema_command(name: str, config: Path | None, out: Path | None) -> None:
    """Read the schema of the source NAME, of kind cml, from its broker.

    Nothing is changed. The gateway need not be running.
    """
    configuration = loaded(config)
    configure_logs("source", logging.CRITICAL)
    settings = configured_source(configuration, name)
    if not isinstance(settings, CmlSource):
        text = f"{configuration.path}: source {name!r} is of kind {settings.kind}: only kind cml has schemas"
        raise CommandError(ExitCode.CONFIGURATION, text)
    if settings.protected is not None:
        text = (
            f"source {name!r} is protected: the running gateway reads its schema, and keeps it in its state"
        )
        raise CommandError(ExitCode.CONFIGURATION, f"{configuration.path}: {text}")
    try:
        endpoint = amqp_endpoint(settings.amqp, configuration.folder)
        with at_work(f"asking {name}"):
            document = schema_document(asyncio.run(ask_schema(endpoint, settings)))
        if out is None:
            click.echo(document, nl=False)
        else:
            with as_owner(out.parent):
                write_durably(out, document)
    except SecretError as error:
        raise CommandError(ExitCode.CONFIGURATION, str(error)) from error
    except LocalProtocolError as error:
        raise CommandError(ExitCode.FAILED, f"the schema of {name} cannot be written: {error}") from error
    except OSError as error:
        raise CommandError(ExitCode.FAILED, f"{out}: cannot be written: {error.strerror or error}") from error
