"""``amqp-gateway init`` and ``state``: the state folder made, shown, backed up and restored."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import click

from gateway import file_systems
from gateway.cli.clearance import configured, require_everything
from gateway.cli.options import OUTPUT_FILE, config_option, loaded
from gateway.cli.printing import say
from gateway.file_owners import as_owner
from gateway.inventory.instance_file import InstanceIndexError
from gateway.inventory.instances import InstanceIndex
from gateway.service.processes.exit_codes import CommandError, ExitCode
from gateway.service.state.backup import back_up
from gateway.service.state.report import report
from gateway.service.state.restore import restore
from gateway.state_folder import COMMUNITY, StateError, StateFolder


@click.command()
@config_option
def init(config: Path | None) -> None:
    """Create the state folder of the configuration, which gives a new gateway its identity."""
    configuration = loaded(config)
    folder, feed = configuration.state_folder, configuration.configured_socket
    try:
        # Else a folder without sockets is no obstacle: the feed's is in another then.
        if feed is not None and feed.parent == folder and (text := _without_sockets(folder)):
            raise CommandError(ExitCode.STATE, text)
        state = StateFolder.create(folder)
        state.secret(COMMUNITY)
    except StateError as error:
        raise CommandError(ExitCode.STATE, str(error)) from error
    costs = [each for each in file_systems.lacking(folder) if each is not file_systems.Ability.SOCKETS]
    if costs:
        say([f"{folder}: {file_systems.in_words(folder, costs)}"])
    click.echo(f"{state.path}: gateway {state.identity}")
    click.echo(f"SNMP community: in {state.secret_path(COMMUNITY)}")


def _without_sockets(folder: Path) -> str:
    """Return what to do where the file system of a folder, which need not be there, has no Unix sockets."""
    place = next(each for each in (folder, *folder.absolute().parents) if each.is_dir())
    if file_systems.can(place, file_systems.Ability.SOCKETS):
        return ""
    words = file_systems.in_words(place, [file_systems.Ability.SOCKETS])
    return f"{folder}: {words}: name a path on another one under feed.socket, or another state.folder"


PROGRESS_SECONDS = 1.0

folder_option = click.option(
    "--folder",
    type=click.Path(path_type=Path, file_okay=False),
    help="The state folder. Default: as configured.",
)


@click.group()
def state() -> None:
    """Show, back up and restore the state folder: identity, starts, row numbers, secrets."""


@state.command()
@config_option
@folder_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")
def show(config: Path | None, folder: Path | None, *, as_json: bool) -> None:
    """Show the content of the state folder, also while the gateway runs."""
    with _errors_reported():
        place = _place(config, folder)
        found = report(StateFolder(place), place / "log" if folder else loaded(config).log_folder.absolute())
    click.echo(json.dumps(found.as_json(), indent=2) if as_json else "\n".join(found.lines()))


@state.command()
@click.argument("file", type=OUTPUT_FILE)
@config_option
@folder_option
@click.option(
    "--without-secrets", is_flag=True, help="Leave generated secrets out; they are generated again."
)
@click.option("--replace", is_flag=True, help="Replace FILE if it exists.")
def backup(
    file: Path, config: Path | None, folder: Path | None, *, without_secrets: bool, replace: bool
) -> None:
    """Write a backup of the state folder to FILE, also while the gateway runs."""
    show = _now_and_then()
    with _errors_reported():
        done = back_up(
            StateFolder(_place(config, folder)),
            file,
            _now(),
            with_secrets=not without_secrets,
            replace=replace,
            progress=lambda pages, of: show(f"row numbers: {pages:,} of {of:,} pages"),
        )
    manifest = done.manifest
    click.echo(
        f"{file}: gateway {manifest.identity}, started {manifest.boots} times; {len(manifest.files)} files, "
        f"{done.octets:,} bytes"
    )
    if manifest.with_secrets:
        click.echo("It contains secrets: protect it like the state folder.")
    for name in done.left_out:
        click.echo(f"left out, because it is no file of a gateway: {name!r}", err=True)


@state.command("restore")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@config_option
@folder_option
@click.option("--replace", is_flag=True, help="Move a folder that is not empty aside, and take its place.")
def restore_command(file: Path, config: Path | None, folder: Path | None, *, replace: bool) -> None:
    """Restore the state folder from the backup FILE; no gateway may use it.

    Numbers that may have been assigned since the backup are skipped, so that they are not assigned twice.
    """
    place = _place(config, folder)
    with _errors_reported():
        done = restore(file, place, _now(), replace=replace, progress=_now_and_then())
    manifest, leap = done.manifest, done.leap
    click.echo(f"{place}: gateway {manifest.identity}, as it was at {manifest.made:%Y-%m-%d %H:%M:%S %Z}")
    click.echo(
        f"Skipped, because they may have been used since: {leap.boots:,} starts (the next is "
        f"{done.boots + 1}), {leap.rows:,} row numbers of each class, {leap.sources:,} source numbers"
    )
    if done.aside is not None:
        click.echo(f"The former folder is {done.aside}")
    if not manifest.with_secrets:
        click.echo(
            "The backup has no secrets: the gateway makes new ones when it starts, which its managers need."
        )


@state.command("rename-source")
@click.argument("old")
@click.argument("new")
@config_option
@folder_option
@click.option("--swap", is_flag=True, help="Exchange the numbers, if NEW has one already.")
def rename_source(old: str, new: str, config: Path | None, folder: Path | None, *, swap: bool) -> None:
    """Give the number of the source OLD, and all its rows, to the name NEW; no gateway may run.

    Rename the source in the configuration, too.
    """
    with _errors_reported():
        found = StateFolder(_place(config, folder))
        with (
            as_owner(found.path),
            found.locked(patience_seconds=0),
            closing(InstanceIndex(found.instances, must_exist=found.boots > 0)) as index,
        ):
            sources = index.sources()
            if old not in sources:
                known = ", ".join(sources) or "none"
                raise CommandError(ExitCode.STATE, f"there was never a source {old!r}; there are: {known}")
            if new in sources and not swap:
                raise CommandError(
                    ExitCode.STATE,
                    f"source {new!r} has number {sources[new]}: --swap exchanges the two numbers",
                )
            index.rename_source(old, new)
            click.echo("\n".join(f"source {number}: {name}" for name, number in index.sources().items()))


def _place(config: Path | None, folder: Path | None) -> Path:
    """Return the state folder; if it is given, no configuration is needed.

    Raises:
        CommandError: there is no configuration, or the user may not read everything.
    """
    require_everything(configured(config), "the state folder")
    return (loaded(config).state_folder if folder is None else folder).absolute()


def _now() -> dt.datetime:
    return dt.datetime.now(tz=dt.UTC)


def _now_and_then() -> Callable[[str], None]:
    """Return a function that shows progress on standard error, at most once a second."""
    last = time.monotonic()

    def show(what: str) -> None:
        nonlocal last
        if time.monotonic() - last >= PROGRESS_SECONDS:
            last = time.monotonic()
            click.echo(f"  ..  {what}", err=True)

    return show


@contextlib.contextmanager
def _errors_reported() -> Iterator[None]:
    try:
        yield
    except (StateError, InstanceIndexError) as error:
        raise CommandError(ExitCode.STATE, str(error)) from error
