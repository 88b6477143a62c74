"""``amqp-gateway keys``: the keys of protected bodies, made, shown, handed out, taken, replaced, revoked."""

from __future__ import annotations

import datetime as dt
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final

import click

from gateway.cli.options import OUTPUT_FILE, config_option, duration, loaded
from gateway.config.protection import KEY_FOLDER
from gateway.durable_files import PRIVATE, PUBLIC, write_durably
from gateway.file_owners import as_owner
from gateway.model.times import SECOND
from gateway.protection.key_files import NAME, KeyFolder
from gateway.protection.keys import (
    MAX_RING_OCTETS,
    Key,
    KeyRing,
    KeyRingError,
    Use,
    generated,
    imported,
    read_ring,
    revoked,
    rotated,
    write_ring,
)
from gateway.service.processes.exit_codes import CommandError, ExitCode

_USES: Final = {"sign": (Use.SIGN,), "read": (Use.READ,), "both": (Use.SIGN, Use.READ)}
_WORDS: Final = {Use.SIGN: "sign", Use.READ: "read"}


def _checked_name(_context: click.Context, _option: click.Parameter, name: str) -> str:
    if not NAME.fullmatch(name):
        raise click.BadParameter(
            "a name has 1 to 64 letters, digits, '.', '_' and '-', a letter or digit first"
        )
    return name


name_argument = click.argument("name", callback=_checked_name)
folder_option = click.option(
    "--folder",
    type=click.Path(path_type=Path, file_okay=False),
    help=f"The folder of keys. Default: '{KEY_FOLDER}' in the folder of the configuration.",
)


@click.group()
def keys() -> None:
    """Make, show, hand out, take, replace and revoke the keys of protected sources and agents."""


@keys.command()
@name_argument
@click.option(
    "--use",
    type=click.Choice(list(_USES)),
    default="both",
    help="sign: a pair that signs. read: a pair that others encrypt for, such as that of a group.",
)
@config_option
@folder_option
def gen(name: str, use: str, config: Path | None, folder: Path | None) -> None:
    """Make new keys under NAME."""
    with _errors_reported():
        place = _folder(config, folder)
        if name in place.names():
            advice = f"replace them with `amqp-gateway keys rotate {name}`"
            text = f"{place.path}: there are keys of {name!r}: {advice}"
            raise CommandError(ExitCode.REFUSED, text)
        ring = generated(_USES[use])
        place.write(name, ring)
    _show(name, ring)
    click.echo(f"Private, not to be handed out: {place.private_path(name)}")
    click.echo(f"To hand out to peers: {place.public_path(name)}")


@keys.command("list")
@config_option
@folder_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")
def list_command(config: Path | None, folder: Path | None, *, as_json: bool) -> None:
    """Show all keys of the folder, the own ones and those of peers, without private parts."""
    with _errors_reported():
        place = _folder(config, folder)
        rings = {name: _ring(place, name) for name in place.names()}
    if as_json:
        now = time.time_ns()
        found = [_as_json(name, key, now) for name, ring in rings.items() for key in ring.keys]
        click.echo(json.dumps(found, indent=2))
        return
    for name, ring in rings.items():
        _show(name, ring)
    if not rings:
        click.echo(f"{place.path}: no keys yet: make some with `amqp-gateway keys gen NAME`")


@keys.command()
@name_argument
@config_option
@folder_option
@click.option("--private", is_flag=True, help="With the private keys, for another member of a group.")
@click.option("--output", type=OUTPUT_FILE, help="A file to write, instead of printing.")
def export(
    name: str, config: Path | None, folder: Path | None, output: Path | None, *, private: bool
) -> None:
    """Print the public keys of NAME, for the key folders of its peers: as NAME.public.jwks."""
    if private and output is None:
        raise click.UsageError("private keys are written into a file only, mode 0600: add --output FILE")
    with _errors_reported():
        place = _folder(config, folder)
        text = write_ring(place.private(name) if private else place.public(name))
        if output is None:
            click.echo(text, nl=False)
            return
        try:
            with as_owner(output.parent):
                write_durably(output, text, PRIVATE if private else PUBLIC)
        except OSError as error:
            raise CommandError(ExitCode.FAILED, f"{output}: cannot be written: {error.strerror}") from error
    click.echo(f"{output}: {'private' if private else 'public'} keys of {name}")


@keys.command("import")
@name_argument
@click.argument("file", type=click.File("rb"))
@config_option
@folder_option
def import_command(name: str, file: BinaryIO, config: Path | None, folder: Path | None) -> None:
    """Take the public keys of the peer NAME from FILE, as `keys export` prints them; '-': standard input.

    Keys that are known stay, and one that was revoked here stays revoked.
    """
    with _errors_reported():
        place, now = _folder(config, folder), time.time_ns()
        if place.private_path(name).exists():
            text = f"{place.private_path(name)}: {name!r} are own keys; import a peer's under its own name"
            raise CommandError(ExitCode.REFUSED, text)
        known = place.public(name) if place.public_path(name).exists() else KeyRing()
        try:
            ring = imported(known, read_ring(file.read(MAX_RING_OCTETS + 1)), now)
        except KeyRingError as error:
            raise KeyRingError(f"{file.name}: {error}") from error
        place.write(name, ring)
    _show(name, ring)
    kids = {key.kid for key in known.keys}
    new = sum(key.kid not in kids for key in ring.keys)
    click.echo(f"{place.public_path(name)}: {new} new keys; they count where {name!r} is named")


@keys.command()
@name_argument
@config_option
@folder_option
@click.option(
    "--after", default="1h", show_default=True, help="Time until the new keys are used: hand them out before."
)
@click.option(
    "--overlap",
    default="1d",
    show_default=True,
    help="Time after that in which the former keys are accepted.",
)
def rotate(name: str, config: Path | None, folder: Path | None, after: str, overlap: str) -> None:
    """Make new keys under NAME that replace the present ones, at a time and with an overlap."""
    waits, overlaps = _nanoseconds(after), _nanoseconds(overlap)
    with _errors_reported():
        place, now = _folder(config, folder), time.time_ns()
        ring = rotated(place.private(name), now, now + waits, overlaps)
        place.write(name, ring)
    _show(name, ring)
    click.echo(f"Hand out before the new keys are used: {place.public_path(name)}")


@keys.command()
@name_argument
@click.argument("kid")
@config_option
@folder_option
def revoke(name: str, kid: str, config: Path | None, folder: Path | None) -> None:
    """Revoke the key KID of NAME, an own one or a peer's: this machine accepts it no more, at once.

    Write '--' before a KID that begins with '-'.
    """
    with _errors_reported():
        place, now = _folder(config, folder), time.time_ns()
        ring = revoked(_ring(place, name), kid, now)
        place.write(name, ring)
    _show(name, ring)
    if ring.is_private:
        click.echo(f"Hand out at once, since peers accept the key until then: {place.public_path(name)}")


def _folder(config: Path | None, folder: Path | None) -> KeyFolder:
    """Return the folder of keys; if it is given, no configuration is needed."""
    return KeyFolder(loaded(config).folder / KEY_FOLDER if folder is None else folder)


def _ring(place: KeyFolder, name: str) -> KeyRing:
    return place.private(name) if place.private_path(name).exists() else place.public(name)


def _show(name: str, ring: KeyRing) -> None:
    now = time.time_ns()
    for key in ring.keys:
        parts = "private" if key.is_private else "public"
        click.echo(f"{name}  {key.kid}  {_WORDS[key.use]:4}  {parts:7}  {_state(key, ring, now)}")


def _state(key: Key, ring: KeyRing, now: int) -> str:
    if key.revoked_at:
        return f"revoked {_date(key.revoked_at)}"
    if key.not_after and now >= key.not_after:
        return f"expired {_date(key.not_after)}"
    until = f", accepted until {_date(key.not_after)}" if key.not_after else ""
    if now < key.not_before:
        return f"used from {_date(key.not_before)}{until}"
    return f"{'in use' if ring.current(key.use, now) == key else 'replaced'}{until}"


def _as_json(name: str, key: Key, now: int) -> dict[str, object]:
    return {
        "name": name,
        "kid": key.kid,
        "use": _WORDS[key.use],
        "private": key.is_private,
        "accepted": key.is_accepted(now),
        "not_before": _date(key.not_before) if key.not_before else None,
        "not_after": _date(key.not_after) if key.not_after else None,
        "revoked": _date(key.revoked_at) if key.revoked_at else None,
    }


def _date(nanoseconds: int) -> str:
    return dt.datetime.fromtimestamp(nanoseconds // SECOND, dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _nanoseconds(text: str) -> int:
    if text.strip() in {"0", "0s"}:
        return 0
    return int(duration(text).total_seconds()) * SECOND


@contextmanager
def _errors_reported() -> Iterator[None]:
    try:
        yield
    except KeyRingError as error:
        raise CommandError(ExitCode.CONFIGURATION, str(error)) from error
