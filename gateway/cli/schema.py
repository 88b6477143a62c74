"""``amqp-gateway schema``: what brokers and agents report, saved and compared."""

from __future__ import annotations

import datetime as dt
import logging
from asyncio import run
from pathlib import Path
from typing import Final

import click

from gateway.cli.options import OUTPUT_FILE, config_option, configured_source, duration, loaded
from gateway.cli.printing import at_work, json_option, say, say_json
from gateway.cli.running_gateway import Asked, with_gateway
from gateway.clock import SystemClock
from gateway.config.files import LoadedConfiguration
from gateway.config.places import NoConfigurationError, find_configuration
from gateway.durable_files import write_durably
from gateway.feed.records import Interest
from gateway.mapping.files import load_shipped_mappings
from gateway.mapping.override_files import load_with_overrides
from gateway.mapping.schema_documents import SavedSchemas, read_schemas, schemas_text
from gateway.model.observations import SourceState
from gateway.policy.marks import Marks
from gateway.service.diagnostics.feed_session import FeedSession
from gateway.service.diagnostics.schema_changes import Surroundings, compared
from gateway.service.diagnostics.schema_checks import schemas_of
from gateway.service.processes.command_errors import command_errors
from gateway.service.processes.exit_codes import CommandError, ExitCode
from gateway.service.processes.process_setup import configure_logs
from gateway.service.sources.standalone import first_reading
from gateway.snmp.oid_registry import load_shipped_registries
from gateway.snmp.registry_files import SiteRegistry
from gateway.snmp.registry_growth import new_registry

LIVE: Final = "live"


@click.group()
def schema() -> None:
    """Save and compare the classes and events that brokers and agents report."""


@schema.command("export")
@click.option(
    "--source", "name", metavar="NAME", help="Read this source directly, without the running gateway."
)
@click.option("--all", "everything", is_flag=True, help="All that the running gateway knows (the default).")
@config_option
@click.option(
    "--for",
    "patience",
    type=duration,
    default="30s",
    show_default=True,
    metavar="DURATION",
    help="Stop waiting for the complete reading of a source after this time.",
)
@click.option(
    "--out",
    type=OUTPUT_FILE,
    metavar="FILE",
    help="File to write; it is replaced. Default: print the document.",
)
def export_command(
    name: str | None, *, everything: bool, config: Path | None, patience: dt.timedelta, out: Path | None
) -> None:
    """Write classes and events, with mappings and overrides applied and without values, as JSON.

    They are those of the running gateway, or of the source NAME. Nothing is changed.
    """
    if name is not None and everything:
        raise click.UsageError("--source is one source: leave out --all")
    text = schemas_text(_live(config) if name is None else _of_source(loaded(config), name, patience))
    if out is None:
        click.echo(text, nl=False)
        return
    try:
        write_durably(out, text)
    except OSError as error:
        raise CommandError(ExitCode.FAILED, f"{out}: cannot be written: {error.strerror or error}") from error


@schema.command("diff")
@click.argument("old", metavar="OLD")
@click.argument("new", metavar="NEW")
@config_option
@json_option
def diff_command(old: str, new: str, config: Path | None, *, as_json: bool) -> None:
    """Show what differs between two saved schemas, and what it means for MIB, JMX, event log and policy.

    OLD and NEW are files of `schema export`, or `live` for what the running gateway knows. The exit code is
    12 if there is a difference.
    """
    with command_errors():
        before, after = (_live(config) if each == LIVE else read_schemas(Path(each)) for each in (old, new))
        around = surroundings(_configuration(config))
    changes = compared(before, after, around)
    if as_json:
        for change in changes:
            say_json(change.as_json())
    else:
        for change in changes:
            say(change.lines())
    if changes:
        text = "1 difference" if len(changes) == 1 else f"{len(changes)} differences"
        raise CommandError(ExitCode.DIFFERENCE, text)
    if not as_json:
        click.echo("no difference")


def surroundings(configuration: LoadedConfiguration | None) -> Surroundings:
    """Return what differences are judged by: registries, and of a configuration rules and mappings.

    Raises:
        DocumentError: a registry, mapping or override file is wrong.
        FileNotFoundError: the installation is damaged.
        MappingError: mappings contradict each other.
    """
    today = dt.datetime.now(tz=dt.UTC).date()
    shipped = load_shipped_registries()
    if configuration is None:
        registry = new_registry("", 0, "AMQP-GATEWAY-SITE-MIB", "site", today)
        return Surroundings(shipped, registry, marks=Marks(load_shipped_mappings()), today=today)
    settings = configuration.settings
    known = load_with_overrides(configuration.mapping_files, configuration.override_files)
    registry = SiteRegistry(configuration.state_folder, settings.site).load(today)
    marks = Marks(known.mappings, known.overrides)
    return Surroundings(shipped, registry, settings.role_set, settings.principals, marks, today)


def _live(config: Path | None) -> SavedSchemas:
    async def work(session: FeedSession, _asked: Asked) -> SavedSchemas:
        return schemas_of(session.view)

    # Classes come with every snapshot; of objects none is wanted.
    return with_gateway(config, work, lambda _asked: Interest(names=("\0",)))


def _of_source(configuration: LoadedConfiguration, name: str, patience: dt.timedelta) -> SavedSchemas:
    configured_source(configuration, name)
    configure_logs("source", logging.CRITICAL)
    with command_errors(), at_work(f"reading {name}"):
        view = run(first_reading(configuration, name, SystemClock(), patience.total_seconds()))
    (source,) = view.sources.values()
    if source.state in {SourceState.CONNECTING, SourceState.DOWN}:
        raise CommandError(ExitCode.UNREACHABLE, f"{name}: {source.detail or source.state.value}")
    return schemas_of(view)


def _configuration(config: Path | None) -> LoadedConfiguration | None:
    """Return the configuration, if one is given or there is one."""
    try:
        find_configuration(config)
    except NoConfigurationError:
        return None
    return loaded(config)
