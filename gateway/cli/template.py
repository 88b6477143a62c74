"""``amqp-gateway template``: templates of monitoring systems that use the gateway by SNMP."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

import click

from gateway.cli.options import config_option, loaded
from gateway.config.files import load_configuration
from gateway.config.places import NoConfigurationError
from gateway.durable_files import PUBLIC, write_durably
from gateway.file_owners import as_owner, existing
from gateway.mapping.errors import MappingError
from gateway.mapping.files import class_schemas, load_shipped_mappings
from gateway.mapping.override_files import LoadedMappings, load_with_overrides
from gateway.mapping.overrides import NO_OVERRIDES
from gateway.mapping.rules import AlarmRule, EventRule
from gateway.model.schema import ClassKey
from gateway.prometheus.families import DEFAULT_CLASSES
from gateway.service.processes.exit_codes import CommandError, ExitCode
from gateway.shipped_files import shipped_folder
from gateway.snmp.ber import Oid, parse_oid
from gateway.snmp.fixed_mib import PRODUCT
from gateway.snmp.oid_registry import DEFAULT_ROOT, OidRegistry, load_shipped_registries
from gateway.snmp.registry_files import MIB_SUFFIX, SiteRegistry, site_modules
from gateway.snmp.templates.credentials import Community, User
from gateway.snmp.templates.monitored import OWN_MODULE, MonitoredTable, gateway_tables, tables_of
from gateway.snmp.templates.notifications import MonitoredNotification, notifications_of, own_notifications
from gateway.state_folder import StateError, StateFolder, check_owners
from gateway.yaml_documents import DocumentError


@dataclass(frozen=True, slots=True)
class _Numbers:
    """The OIDs of a gateway: those of a configuration, else those that every gateway has by default."""

    root: Oid
    registries: tuple[OidRegistry, ...]
    known: LoadedMappings
    site_modules: Path | None = None

    def modules(self) -> list[Path]:
        """Return the MIB modules, also the site's own."""
        folders = [shipped_folder("mibs"), *filter(None, [self.site_modules])]
        return [module for folder in folders for module in sorted(folder.glob(f"*{MIB_SUFFIX}"))]

    def own(self) -> Iterator[MonitoredTable]:
        return gateway_tables(self.root)

    def classes(self) -> Iterator[MonitoredTable]:
        mappings = load_shipped_mappings()
        for registry in sorted(self.registries, key=lambda registry: registry.module_arc):
            mapping = mappings.get(registry.package)
            schemas = class_schemas(mapping).values() if mapping is not None else ()
            yield from tables_of(registry, schemas, self.root, self._alarms)

    def notifications(self) -> Iterator[MonitoredNotification]:
        """Yield all notifications of the gateway's own module, the packages' and the site's, by arc."""
        texts = {path.stem: path.read_text(encoding="ascii") for path in self.modules()}
        yield from own_notifications(texts[OWN_MODULE], self.root)
        for registry in sorted(self.registries, key=lambda registry: registry.module_arc):
            if registry.events:
                yield from notifications_of(registry, texts[registry.module], self.root, self._event_rule)

    def _event_rule(self, key: ClassKey) -> EventRule | None:
        mapping = self.known.mappings.get(key.package)
        rule = mapping.events.get(key.name) if mapping is not None else None
        return self.known.overrides.event_rule(key, rule)

    def _alarms(self, key: ClassKey) -> Iterable[AlarmRule]:
        mapping = self.known.mappings.get(key.package)
        rule = mapping.classes.get(key.name) if mapping is not None else None
        return self.known.overrides.alarms(key, {} if rule is None else rule.alarms).values()

    def selected(self, patterns: Sequence[str]) -> Iterator[MonitoredTable]:
        """Yield scalars, sources, and classes: the usual ones, or those of the patterns with all elements."""
        # Rows of the other tables of the gateway are named by several tables, which few tools can join.
        yield from (table for table in self.own() if table.key in {"gateway:health", "gateway:source"})
        for table in self.classes():
            if any(fnmatchcase(table.key, pattern) for pattern in patterns):
                yield table
            elif not patterns and table.key in _USUAL:
                yield table.selected(_USUAL[table.key].__contains__)


_USUAL: Final = {
    **DEFAULT_CLASSES,
    "rabbitmq:connection": ("state", "channels", "receivedOctets", "sentOctets", "sendPending"),
    "org.apache.qpid.broker:connection": ("bytesFromClient", "bytesToClient", "msgsFromClient"),
}
"""What is polled of objects where no class is named: that of Prometheus' page, and connections."""

_CLASSES = click.option(
    "--class",
    "patterns",
    multiple=True,
    metavar="PACKAGE:CLASS",
    help="Classes, with all their numbers, by shell patterns. Default: what is usually watched of nodes, "
    "queues and connections.",
)


_USER = click.option(
    "--user",
    metavar="NAME",
    help="Poll by version 3 as this user, who has keys. Passphrases are to be written into the file: the "
    "gateway does not know them.",
)


@click.group()
def template() -> None:
    """Write templates for monitoring systems that poll the gateway by SNMP, or receive its notifications."""


@template.command("snmp-exporter")
@config_option
@click.option("--community", default="public", show_default=True, help="Community that the exporter sends.")
@_USER
@click.option("--flat", is_flag=True, help="For snmp_exporter before 0.23, such as that of Debian 12.")
def snmp_exporter_command(config: Path | None, community: str, user: str | None, *, flat: bool) -> None:
    """Print snmp.yml for Prometheus' snmp_exporter, with a module for each class.

    The numbers are those of the configuration, if there is one.
    """
    from gateway.snmp.templates.snmp_exporter import snmp_exporter  # noqa: PLC0415  one template of several

    found = _numbers(config)
    reader = Community(community) if user is None else _user(config, user)
    click.echo(snmp_exporter(found.own(), found.classes(), reader, flat=flat), nl=False)


@template.command("zabbix")
@config_option
@_CLASSES
def zabbix_command(config: Path | None, patterns: tuple[str, ...]) -> None:
    """Print a template for Zabbix 6.4 and later, to be imported as YAML."""
    from gateway.snmp.templates.zabbix import zabbix  # noqa: PLC0415  one template of several

    click.echo(zabbix(_numbers(config).selected(patterns)), nl=False)


@template.command("snmptt")
@config_option
def snmptt_command(config: Path | None) -> None:
    """Print snmptt.conf for SNMPTT, with severity and text of each notification."""
    from gateway.snmp.templates.snmptt import snmptt  # noqa: PLC0415  one template of several

    click.echo(snmptt(_numbers(config).notifications()), nl=False)


@template.command("librenms")
@config_option
@_CLASSES
@click.option(
    "--folder",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    help="Folder of LibreNMS, or another one to copy from.",
)
def librenms_command(config: Path | None, patterns: tuple[str, ...], folder: Path) -> None:
    """Write definitions for LibreNMS below a folder, with the MIB modules that it needs."""
    from gateway.snmp.templates.librenms import OS, librenms  # noqa: PLC0415  one template of several

    found = _numbers(config)
    files = librenms((*found.root, *PRODUCT), found.selected(patterns))
    for module in found.modules():
        files[f"mibs/{OS}/{module.stem}"] = module.read_text(encoding="ascii")
    for name, text in files.items():
        path = folder / name
        try:
            with as_owner(existing(path.parent)):
                path.parent.mkdir(parents=True, exist_ok=True)
                write_durably(path, text, PUBLIC)
        except OSError as error:
            raise CommandError(
                ExitCode.CONFIGURATION, f"{path}: cannot be written: {error.strerror}"
            ) from error
        click.echo(f"wrote {path}")


@template.command("nagios")
@config_option
@_USER
def nagios_command(config: Path | None, user: str | None) -> None:
    """Print commands for Nagios that check the gateway with check_snmp."""
    from gateway.snmp.templates.check_snmp import nagios  # noqa: PLC0415  one template of several

    _print_checks(nagios, config, user)


@template.command("icinga")
@config_option
@_USER
def icinga_command(config: Path | None, user: str | None) -> None:
    """Print services for Icinga 2 that check the gateway with check_snmp."""
    from gateway.snmp.templates.check_snmp import icinga  # noqa: PLC0415  one template of several

    _print_checks(icinga, config, user)


def _print_checks(
    write: Callable[[Iterable[MonitoredTable], User | None], str], config: Path | None, user: str | None
) -> None:
    reader = None if user is None else _user(config, user)
    click.echo(write(_numbers(config).own(), reader), nl=False)


def _user(config: Path | None, name: str) -> User:
    """Return a user of version 3, with the protocols of the keys that the state folder has for this gateway.

    Raises:
        CommandError: the user has no keys, or they cannot be read.
    """
    from gateway.service.state.snmp_security import (  # noqa: PLC0415  only this needs keys
        enterprise_of,
        read_engine,
        read_users,
    )

    configuration = loaded(config)
    state = StateFolder(configuration.state_folder)
    try:
        own = read_engine(state, enterprise_of(parse_oid(configuration.settings.snmp.root))).engine_id
        keys = next((keys for keys in read_users(state).get(name, ()) if keys.engine_id == own), None)
    except StateError as error:
        raise CommandError(ExitCode.STATE, str(error)) from error
    if keys is None:
        raise CommandError(
            ExitCode.NOT_FOUND, f"user {name!r} has no keys: run `amqp-gateway snmp user add {name}`"
        )
    return User(name, keys.authentication, keys.privacy)


def _numbers(config: Path | None) -> _Numbers:
    shipped = load_shipped_registries()
    try:
        configuration = load_configuration(None) if config is None else loaded(config)
    except NoConfigurationError:
        return _Numbers(DEFAULT_ROOT, shipped, LoadedMappings(load_shipped_mappings(), NO_OVERRIDES))
    except DocumentError as error:
        raise CommandError(ExitCode.CONFIGURATION, str(error)) from error
    root = tuple(map(int, configuration.settings.snmp.root.split(".")))
    today = dt.datetime.now(tz=dt.UTC).date()
    try:
        check_owners(configuration.state_folder)
        site = SiteRegistry(configuration.state_folder, configuration.settings.site).load(today)
        known = load_with_overrides(configuration.mapping_files, configuration.override_files)
    except StateError as error:
        raise CommandError(ExitCode.STATE, str(error)) from error
    except (DocumentError, MappingError) as error:
        raise CommandError(ExitCode.CONFIGURATION, str(error)) from error
    return _Numbers(root, (*shipped, site), known, site_modules(configuration.state_folder))
