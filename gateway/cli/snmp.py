"""``amqp-gateway snmp``: the engine of SNMP version 3, and the keys of its users."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from gateway.cli.options import config_option, loaded
from gateway.config.files import LoadedConfiguration
from gateway.service.processes.exit_codes import CommandError, ExitCode
from gateway.service.state.snmp_security import (
    StoredKeys,
    enterprise_of,
    read_engine,
    read_users,
    write_user,
)
from gateway.snmp.v3.algorithms import AUTHENTICATIONS, PRIVACIES, localised_keys
from gateway.state_folder import StateError, StateFolder

SHORTEST_PASSPHRASE = 8
"""Characters that a passphrase has at least (RFC 3414 section 11.2)."""


@click.group()
def snmp() -> None:
    """Show the SNMP engine; add and remove users of SNMP version 3."""


@snmp.command()
@config_option
def engine(config: Path | None) -> None:
    """Print the engine id, by which receivers of version 3 traps know this gateway."""
    configuration = loaded(config)
    with _state_errors():
        stored = read_engine(StateFolder(configuration.state_folder), enterprise_of(configuration.settings.snmp.root))
    click.echo(f"engine id 0x{stored.engine_id}, {stored.boots} boots")


@snmp.group()
def user() -> None:
    """Add, list and remove users of SNMP version 3."""


@user.command()
@click.argument("name")
@click.option(
    "--authentication",
    type=click.Choice([*AUTHENTICATIONS]),
    default="sha256",
    show_default=True,
    help="The protocol by which messages are authenticated.",
)
@click.option(
    "--privacy",
    type=click.Choice(["none", *PRIVACIES]),
    default="aes128",
    show_default=True,
    help="The protocol by which messages are encrypted.",
)
@click.option("--engine-id", help="The engine id of a receiver of informs, 0x… Default: this gateway's.")
@config_option
def add(name: str, authentication: str, privacy: str, engine_id: str | None, config: Path | None) -> None:
    """Ask for the passphrases of the user NAME, and keep the keys made of them.

    The passphrases are asked for without echo. Where the input is no terminal, they are its first lines: that
    of authentication, then that of privacy. Only localised keys are kept (RFC 3414 section 2.6).
    """
    configuration = loaded(config)
    settings = configuration.settings.snmp
    _refuse_weak(configuration, authentication, privacy)
    secrets = _passphrases(name, with_privacy=privacy != "none")
    with _state_errors():
        state = StateFolder(configuration.state_folder)
        own = read_engine(state, enterprise_of(settings.root)).engine_id
        engine = own if engine_id is None else _engine_id(engine_id)
        keys = localised_keys(
            bytes.fromhex(engine),
            AUTHENTICATIONS[authentication],
            secrets[0].encode(),
            PRIVACIES.get(privacy),
            secrets[-1].encode(),
        )
        stored = StoredKeys(
            engine_id=engine,
            authentication=authentication,
            authentication_key=keys.authentication.hex(),
            privacy="" if privacy == "none" else privacy,
            privacy_key=keys.privacy.hex(),
        )
        others = [each for each in read_users(state).get(name, ()) if each.engine_id != engine]
        write_user(state, name, [*others, stored])
    click.echo(f"user {name}: keys for the engine 0x{engine} are kept in {configuration.state_folder}")
    if engine != own:
        return
    if name not in settings.users:
        level = "authNoPriv" if privacy == "none" else "authPriv"
        click.echo(f"Write it into {configuration.path}:\n\nsnmp:\n  users:\n    {name}: {{ level: {level} }}\n")
    click.echo("A running gateway takes it with its next start.")


@user.command("list")
@config_option
def list_users(config: Path | None) -> None:
    """List users: their algorithms, and whether the configuration has them."""
    configuration = loaded(config)
    configured = configuration.settings.snmp.users
    with _state_errors():
        state = StateFolder(configuration.state_folder)
        own = read_engine(state, enterprise_of(configuration.settings.snmp.root)).engine_id
        users = read_users(state)
    for name in sorted({*users, *configured}):
        for keys in users.get(name, ()):
            engine = "" if keys.engine_id == own else f" for the engine 0x{keys.engine_id}"
            click.echo(f"{name}: {keys.authentication} {keys.privacy or 'no privacy'}{engine}")
        if name not in users:
            click.echo(f"{name}: has no keys: amqp-gateway snmp user add {name}")
        elif name not in configured:
            click.echo(f"{name}: is not in {configuration.path}, snmp.users")


@user.command()
@click.argument("name")
@config_option
def remove(name: str, config: Path | None) -> None:
    """Remove the keys of the user NAME. A running gateway forgets them with its next start."""
    configuration = loaded(config)
    with _state_errors():
        state = StateFolder(configuration.state_folder)
        if name not in read_users(state):
            known = ", ".join(sorted(read_users(state))) or "none"
            raise CommandError(ExitCode.NOT_FOUND, f"no user {name!r} has keys; there are: {known}")
        write_user(state, name, ())
    click.echo(f"user {name}: removed")


@contextmanager
def _state_errors() -> Iterator[None]:
    try:
        yield
    except StateError as error:
        raise CommandError(ExitCode.STATE, str(error)) from error


def _engine_id(text: str) -> str:
    digits = text.lower().removeprefix("0x").replace(":", "")
    try:
        octets = bytes.fromhex(digits)
    except ValueError as error:
        raise click.BadParameter(f"{text!r} is no engine id: write hexadecimal digits, 0x8000…") from error
    if not 5 <= len(octets) <= 32:  # noqa: PLR2004  RFC 3411 section 5, SnmpEngineID
        raise click.BadParameter(f"an engine id has 5 to 32 octets, {text!r} has {len(octets)}")
    return digits


def _refuse_weak(configuration: LoadedConfiguration, authentication: str, privacy: str) -> None:
    weak = [
        name
        for name, is_weak in (
            (authentication, AUTHENTICATIONS[authentication].is_weak),
            (privacy, privacy != "none" and PRIVACIES[privacy].is_weak),
        )
        if is_weak
    ]
    if weak and not configuration.settings.snmp.weak_algorithms:
        raise CommandError(
            ExitCode.CONFIGURATION,
            f"{weak[0]} is weak: take the default, or set snmp.weak_algorithms to true in {configuration.path}",
        )


def _passphrases(name: str, *, with_privacy: bool) -> list[str]:
    """Return the passphrases of authentication and, if wanted, privacy.

    Raises:
        CommandError: one is too short, or is missing in the input.
    """
    purposes = ["authentication", "privacy"] if with_privacy else ["authentication"]
    found = []
    for purpose in purposes:
        if sys.stdin.isatty():
            prompt = f"Passphrase of {name} for {purpose}"
            passphrase = click.prompt(prompt, hide_input=True, confirmation_prompt=True)
        else:
            passphrase = sys.stdin.readline().rstrip("\r\n")
        if len(passphrase) < SHORTEST_PASSPHRASE:
            raise CommandError(
                ExitCode.USAGE, f"the passphrase for {purpose} needs {SHORTEST_PASSPHRASE} characters at least"
            )
        found.append(passphrase)
    return found
