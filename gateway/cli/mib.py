"""``amqp-gateway mib``: MIB modules generated, checked, and installed for net-snmp's commands."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from pathlib import Path

import click
from pydantic import TypeAdapter, ValidationError

from gateway.cli.options import config_option, loaded
from gateway.config.files import LoadedConfiguration, load_configuration
from gateway.config.places import NoConfigurationError
from gateway.config.types import ObjectIdentifier
from gateway.durable_files import PUBLIC, write_durably
from gateway.file_owners import as_owner, existing
from gateway.mapping.errors import MappingError
from gateway.mapping.files import load_mapping, load_shipped_mappings
from gateway.service.processes.exit_codes import CommandError, ExitCode
from gateway.shipped_files import shipped_folder
from gateway.snmp.ber import Oid, dotted, parse_oid
from gateway.snmp.mib.lint import base_folders, has_usual_modules, have_smilint, lint, missing_base_modules
from gateway.snmp.mib.roots import RootError, has_root, write_rooted_modules
from gateway.snmp.oid_registry import DEFAULT_ROOT, OLD_SUFFIX, REGISTRY_SUFFIX
from gateway.snmp.registry_files import MIB_SUFFIX, generate_files, site_modules, update_capabilities
from gateway.snmp.registry_growth import RegistryFullError
from gateway.state_folder import StateError, check_owners
from gateway.yaml_documents import DocumentError

_FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)
_NEW_FOLDER = click.Path(file_okay=False, path_type=Path)
_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_AGENT_MODULES = ("SNMPv2-MIB", "SNMP-MPD-MIB")
"""Standard modules whose objects the agent serves beside its own."""

_ROOT: TypeAdapter[str] = TypeAdapter(ObjectIdentifier)
_CONFIGURED = "configured"
_INSTALLED_MODULES = "amqp-gateway-mibs"
"""The folder beside snmp.conf with the modules of another root than that of the shipped ones."""

_WRITTEN = "# Written by `amqp-gateway mib install`."


@click.group()
def mib() -> None:
    """Generate and check MIB modules."""


@mib.command()
@click.option(
    "--mapping", "files", multiple=True, type=_FILE, help="Mapping files; default: the shipped ones."
)
@click.option(
    "--registries", "folder", type=_FOLDER, help="Folder of the OID registries; default: the shipped one."
)
@click.option("--locks", "old_option", type=_FOLDER, hidden=True)
@click.option("--mibs", type=_NEW_FOLDER, help="Folder of the MIB files; default: the shipped ones.")
@click.option(
    "--grow", is_flag=True, help="Add new elements to the registries; numbers are never changed or freed."
)
@click.option("--check", is_flag=True, help="Write nothing; the exit code is 12 if a file is not up to date.")
@click.option(
    "--root",
    is_flag=False,
    flag_value=_CONFIGURED,
    metavar="[OID]",
    help="Write all shipped modules below this arc instead; without OID: below snmp.root of the "
    "configuration. Default of --mibs: the folder mibs in the state folder.",
)
@config_option
def gen(
    files: tuple[Path, ...],
    folder: Path | None,
    old_option: Path | None,
    mibs: Path | None,
    root: str | None,
    config: Path | None,
    *,
    grow: bool,
    check: bool,
) -> None:
    """Bring MIB files up to date with their OID registries and mappings."""
    if root is not None:
        if files or folder or old_option or grow:
            text = "--root writes the shipped modules: leave out --mapping, --registries and --grow"
            raise click.UsageError(text)
        _generate_rooted(root, config, mibs, check=check)
        return
    if old_option is not None:
        click.echo("--locks is called --registries now", err=True)
    registries = folder or old_option or shipped_folder("mappings") / "oids"
    for old in sorted(registries.glob(f"*{OLD_SUFFIX}")):
        click.echo(f"{old}: registries are called *{REGISTRY_SUFFIX} now", err=True)
    mib_folder = mibs or shipped_folder("mibs")
    changed: list[Path] = []
    try:
        mappings = [load_mapping(path) for path in files] or list(load_shipped_mappings().values())
        today = dt.datetime.now(tz=dt.UTC).date()
        for mapping in mappings:
            changed += generate_files(mapping, registries, mib_folder, today, grow=grow, dry_run=check)
        changed += update_capabilities(mib_folder, registries, dry_run=check)
    except (DocumentError, MappingError, RegistryFullError, ValueError, OSError) as error:
        raise CommandError(ExitCode.CONFIGURATION, str(error)) from error
    _report(
        changed, "run `amqp-gateway mib gen --grow` and review the changes of the OID registries", check=check
    )


def _generate_rooted(root: str, config: Path | None, mibs: Path | None, *, check: bool) -> None:
    """Write the shipped modules below another root, into a folder that is not the shipped one."""
    configuration = _configuration(config) if root == _CONFIGURED or mibs is None else None
    if configuration is not None:
        root = configuration.settings.snmp.root if root == _CONFIGURED else root
        mibs = mibs or site_modules(configuration.state_folder)
    assert mibs is not None
    try:
        oid = parse_oid(_ROOT.validate_python(root))
        changed = write_rooted_modules(shipped_folder("mibs"), mibs, oid, dry_run=check)
    except ValidationError as error:
        text = f"--root {root}: {error.errors()[0]['msg'].removeprefix('Value error, ')}"
        raise CommandError(ExitCode.CONFIGURATION, text) from error
    except (RootError, OSError) as error:
        raise CommandError(ExitCode.CONFIGURATION, str(error)) from error
    _report(changed, f"run `amqp-gateway mib gen --root {root}` without --check", check=check)


def _configuration(config: Path | None) -> LoadedConfiguration:
    try:
        return loaded(config)
    except CommandError as error:
        raise CommandError(error.code, f"{error} (or give --root OID and --mibs FOLDER)") from error


def _report(changed: Sequence[Path], advice: str, *, check: bool) -> None:
    """Print the changed files. Raises ``CommandError`` with ``advice`` if a check found any."""
    for path in changed:
        click.echo(f"{path}: {'is not up to date' if check else 'written'}")
    if check and changed:
        raise CommandError(ExitCode.DIFFERENCE, advice)


@mib.command("lint")
@click.argument("files", nargs=-1, type=_FILE)
@click.option(
    "--path",
    "folders",
    multiple=True,
    type=_FOLDER,
    help="Folder of imported modules, beside the usual ones.",
)
def lint_command(files: tuple[Path, ...], folders: tuple[Path, ...]) -> None:
    """Check MIB files with smilint and pysmi; default: the shipped ones. The exit code is 12 for errors."""
    if not have_smilint():
        click.echo("smilint is not installed (apt-get install smitools): only pysmi checks", err=True)
    wanted = list(files) or sorted(shipped_folder("mibs").glob(f"*{MIB_SUFFIX}"))
    complaints = [complaint for file in wanted for complaint in lint(file, [*folders, *base_folders()])]
    for complaint in complaints:
        click.echo(str(complaint))
    if complaints:
        raise CommandError(ExitCode.DIFFERENCE, f"{len(complaints)} complaints about {len(wanted)} files")
    click.echo(f"{len(wanted)} files, no complaints")


@mib.command()
@config_option
def path(config: Path | None) -> None:
    """Print the value of MIBDIRS by which net-snmp's commands find the modules and their imports.

    If there is a configuration, the folder of the site's own modules is included.
    """
    root, of_site = _root_and_site(config)
    if root == DEFAULT_ROOT:
        folders = [shipped_folder("mibs"), *of_site]
    else:
        folders = [folder for folder in of_site if has_root(folder, root)]
        if not folders:
            click.echo(
                f"the shipped modules have another root than snmp.root {dotted(root)}: "
                "`amqp-gateway mib gen --root` writes those of that root",
                err=True,
            )
            folders = [shipped_folder("mibs"), *of_site]
    click.echo(":".join(map(str, (*base_folders(), *folders))))


@mib.command()
@config_option
@click.option(
    "--user", "for_user", is_flag=True, help="Write ~/.snmp/snmp.conf of the user who runs the command."
)
@click.option(
    "--folder",
    type=_NEW_FOLDER,
    help="Write snmp.conf into this folder instead.",
)
def install(config: Path | None, folder: Path | None, *, for_user: bool) -> None:
    """Write a snmp.conf by which net-snmp's commands know all names of the gateway.

    Where the configuration has another root than the shipped modules, those of its root are written beside
    it.
    A snmp.conf that this command did not write is not changed: the lines to add are printed instead.
    """
    if for_user == (folder is not None):
        raise click.UsageError("give --user, or --folder FOLDER")
    try:
        place = (folder or Path.home() / ".snmp") / "snmp.conf"
    except RuntimeError as error:
        text = "this user has no home folder ($HOME): give --folder FOLDER"
        raise CommandError(ExitCode.CONFIGURATION, text) from error
    root, of_site = _root_and_site(config)
    modules = shipped_folder("mibs") if root == DEFAULT_ROOT else place.parent / _INSTALLED_MODULES
    try:
        with as_owner(existing(place.parent)):
            place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if root != DEFAULT_ROOT:
            write_rooted_modules(shipped_folder("mibs"), modules, root)
    except (RootError, OSError) as error:
        raise CommandError(ExitCode.CONFIGURATION, str(error)) from error
    text = _snmp_conf(modules, of_site)
    if place.exists() and not place.read_text("utf-8", "replace").startswith(_WRITTEN):
        click.echo(text, nl=False)
        text = f"{place} exists, and this command did not write it: add the lines above to it"
        raise CommandError(ExitCode.CONFIGURATION, text)
    try:
        with as_owner(place.parent):
            write_durably(place, text, PUBLIC)
    except OSError as error:
        raise CommandError(ExitCode.CONFIGURATION, f"{place}: cannot be written: {error.strerror}") from error
    click.echo(f"wrote {place}")
    if missing := missing_base_modules():
        needed = ", ".join(missing)
        text = f"names also need {needed}: apt-get install erlang-snmp, then run this command again"
        raise CommandError(ExitCode.NOT_INSTALLED, text)


def _snmp_conf(modules: Path, of_site: Sequence[Path]) -> str:
    """Return folders and modules for net-snmp, beside those that it loads by default."""
    # Of a module in two folders net-snmp takes the last, and the site's folder may have one of a former root.
    folders = [*base_folders(), *of_site, modules]
    names = dict.fromkeys(
        file.stem for folder in (modules, *of_site) for file in sorted(folder.glob(f"*{MIB_SUFFIX}"))
    )
    known = "+" if has_usual_modules() else f"{':'.join(_AGENT_MODULES)}:"
    return f"{_WRITTEN}\nmibdirs +{':'.join(map(str, folders))}\nmibs {known}{':'.join(names)}\n"


def _root_and_site(config: Path | None) -> tuple[Oid, list[Path]]:
    """Return the configured root, and the folder of the site's modules, if a valid configuration has them."""
    try:
        configuration = load_configuration(None) if config is None else loaded(config)
        check_owners(configuration.state_folder)
        folder = site_modules(configuration.state_folder)
        return parse_oid(configuration.settings.snmp.root), [folder] if folder.is_dir() else []
    except NoConfigurationError:
        return DEFAULT_ROOT, []
    except (DocumentError, StateError, OSError) as error:
        click.echo(f"the site's own modules are left out: {error}", err=True)
        return DEFAULT_ROOT, []
