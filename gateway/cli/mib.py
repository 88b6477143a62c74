"""``amqp-gateway mib``: the modules that give names to what SNMP shows."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import click

from gateway.cli.options import config_option, loaded
from gateway.config.files import NoConfigurationError, load_configuration
from gateway.mapping.files import MappingError, load_mapping, load_shipped_mappings
from gateway.service.exit_codes import CommandError, ExitCode
from gateway.shipped_files import shipped_folder
from gateway.snmp.lock_files import MIB_SUFFIX, generate_files, site_modules
from gateway.snmp.lock_growth import LockFullError
from gateway.snmp.mib.lint import base_folders, have_smilint, lint
from gateway.yaml_documents import DocumentError

_FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)
_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.group()
def mib() -> None:
    """Generate and check MIB modules."""


@mib.command()
@click.option(
    "--mapping", "files", multiple=True, type=_FILE, help="Mapping files; default: the shipped ones."
)
@click.option("--locks", type=_FOLDER, help="Folder of the lock files; default: the shipped ones.")
@click.option("--mibs", type=_FOLDER, help="Folder of the MIB files; default: the shipped ones.")
@click.option(
    "--grow", is_flag=True, help="Add to the locks what is new; numbers are never changed or freed."
)
@click.option("--check", is_flag=True, help="Write nothing; exit 12 when a file is not up to date.")
def gen(files: tuple[Path, ...], locks: Path | None, mibs: Path | None, *, grow: bool, check: bool) -> None:
    """Bring MIB files up to date with their locks and mappings."""
    lock_folder = locks or shipped_folder("mappings") / "locks"
    mib_folder = mibs or shipped_folder("mibs")
    changed: list[Path] = []
    try:
        mappings = [load_mapping(path) for path in files] or list(load_shipped_mappings().values())
        today = dt.datetime.now(tz=dt.UTC).date()
        for mapping in mappings:
            changed += generate_files(mapping, lock_folder, mib_folder, today, grow=grow, dry_run=check)
    except (DocumentError, MappingError, LockFullError, ValueError, OSError) as error:
        raise CommandError(ExitCode.CONFIGURATION, str(error)) from error
    for path in changed:
        click.echo(f"{path}: {'is not up to date' if check else 'written'}")
    if check and changed:
        raise CommandError(ExitCode.DIFFERENCE, "run `amqp-gateway mib gen --grow` and review the locks")


@mib.command("lint")
@click.argument("files", nargs=-1, type=_FILE)
@click.option(
    "--path",
    "folders",
    multiple=True,
    type=_FOLDER,
    help="Where imported modules stand, beside the usual places.",
)
def lint_command(files: tuple[Path, ...], folders: tuple[Path, ...]) -> None:
    """Have smilint and pysmi read MIB files; default: the shipped ones. Exit 12 when they complain."""
    if not have_smilint():
        click.echo("smilint is not installed (apt-get install smitools): pysmi reads alone", err=True)
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
    """Print the MIBDIRS value by which net-snmp's commands find the modules and all that they import.

    Where there is a configuration, the folder of the site's own module is among them.
    """
    click.echo(":".join(map(str, (*base_folders(), shipped_folder("mibs"), *_modules_of_site(config)))))


def _modules_of_site(config: Path | None) -> list[Path]:
    """Of the configuration that is found; one that is not valid keeps nobody from the other modules."""
    try:
        configuration = load_configuration(None) if config is None else loaded(config)
        folder = site_modules(configuration.state_folder)
        return [folder] if folder.is_dir() else []
    except NoConfigurationError:
        return []
    except (DocumentError, OSError) as error:
        click.echo(f"without the site's own modules: {error}", err=True)
        return []
