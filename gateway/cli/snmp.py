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
    StoredEngine,
    enterprise_of,
    read_engine,
    read_users,
    stored_keys,
    write_user,
)
from gateway.snmp.ber import parse_oid
from gateway.snmp.v3.algorithms import AUTHENTICATION_PROTOCOLS, MIN_PASSPHRASE, PRIVACY_PROTOCOLS
from gateway.snmp.v3.engine import check_engine_id
from gateway.snmp.v3.users import credentials
from gateway.state_folder import StateError, StateFolder

NONE = "none"


@click.group()
def snmp() -> None:
    """Show the SNMP engine; add and remove users of SNMP version 3."""


@snmp.command()
@config_option
def engine(config: Path | None) -> None:
    """Print the engine id, by which receivers of version 3 traps know this gateway."""
    configuration = loaded(config)
    with _state_errors():
        stored = _own_engine(configuration)
    click.echo(f"engine id 0x{stored.engine_id}, {stored.boots} boots")


@snmp.group()
def user() -> None:
    """Add, list and remove users of SNMP version 3."""


@user.command()
@click.argument("name")
@click.option(
    "--authentication",
    type=click.Choice([*AUTHENTICATION_PROTOCOLS]),
    default="sha256",
    show_default=True,
    help="The protocol by which messages are authenticated.",
)
@click.option(
    "--privacy",
    type=click.Choice([NONE, *PRIVACY_PROTOCOLS]),
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
    configured = configuration.settings.snmp.users
    _refuse_weak(configuration, authentication, privacy)
    receiver = None if engine_id is None else _engine_id(engine_id)
    passphrases = _passphrases(name, with_privacy=privacy != NONE)
    made = credentials(
        name,
        AUTHENTICATION_PROTOCOLS[authentication],
        passphrases[0],
        PRIVACY_PROTOCOLS.get(privacy),
        passphrases[-1],
    )
    with _state_errors():
        own = bytes.fromhex(_own_engine(configuration).engine_id)
        engine = receiver or own
        state = StateFolder(configuration.state_folder)
        others = [each for each in read_users(state).get(name, ()) if each.engine_id != engine.hex()]
        try:
            keys = stored_keys(made.at(engine), engine)
        except ValueError as error:
            raise CommandError(ExitCode.USAGE, str(error)) from error
        write_user(state, name, [*others, keys])
    click.echo(f"user {name}: keys for the engine 0x{engine.hex()} are kept in {configuration.state_folder}")
    if engine != own:
        return
    if name not in configured:
        level = "authNoPriv" if privacy == NONE else "authPriv"
        click.echo(
            f"Write it into {configuration.path}:\n\nsnmp:\n  users:\n    {name}: {{ level: {level} }}\n\n"
            "A running gateway takes it by `amqp-gateway reload`."
        )
        return
    click.echo("A running gateway answers the user by these keys from now on.")


@user.command("list")
@config_option
def list_users(config: Path | None) -> None:
    """List users: their algorithms, and whether the configuration has them."""
    configuration = loaded(config)
    configured = configuration.settings.snmp.users
    with _state_errors():
        own = _own_engine(configuration).engine_id
        users = read_users(StateFolder(configuration.state_folder))
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
    """Remove the keys of the user NAME.

    A running gateway does not answer the user any more, unless its level is noAuthNoPriv: that needs no keys.
    """
    configuration = loaded(config)
    with _state_errors():
        state = StateFolder(configuration.state_folder)
        if name not in read_users(state):
            known = ", ".join(sorted(read_users(state))) or NONE
            raise CommandError(ExitCode.NOT_FOUND, f"no user {name!r} has keys; there are: {known}")
        write_user(state, name, ())
    click.echo(f"user {name}: removed")
    configured = configuration.settings.snmp.users.get(name)
    if configured is not None and configured.level == "noAuthNoPriv":
        click.echo(
            f"By {configuration.path} the user is answered without keys (level: noAuthNoPriv). To end that, "
            f"remove snmp.users.{name} there, and run: amqp-gateway reload"
        )


@contextmanager
def _state_errors() -> Iterator[None]:
    try:
        yield
    except StateError as error:
        raise CommandError(ExitCode.STATE, str(error)) from error


def _own_engine(configuration: LoadedConfiguration) -> StoredEngine:
    root = parse_oid(configuration.settings.snmp.root)
    return read_engine(StateFolder(configuration.state_folder), enterprise_of(root))


def _engine_id(text: str) -> bytes:
    try:
        octets = bytes.fromhex(text.lower().removeprefix("0x").replace(":", ""))
        check_engine_id(octets)
    except ValueError as error:
        raise click.BadParameter(f"{text!r} is no engine id: write 5 to 32 bytes as 0x80…") from error
    return octets


def _refuse_weak(configuration: LoadedConfiguration, authentication: str, privacy: str) -> None:
    weak = [
        name
        for name, is_weak in (
            (authentication, AUTHENTICATION_PROTOCOLS[authentication].is_weak),
            (privacy, privacy != NONE and PRIVACY_PROTOCOLS[privacy].is_weak),
        )
        if is_weak
    ]
    if weak and not configuration.settings.snmp.weak_algorithms:
        raise CommandError(
            ExitCode.CONFIGURATION,
            f"{weak[0]} is weak: take the default, or write weak_algorithms: true under snmp in "
            f"{configuration.path}",
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
        if len(passphrase.encode()) < MIN_PASSPHRASE:
            raise CommandError(
                ExitCode.USAGE, f"the passphrase for {purpose} needs {MIN_PASSPHRASE} characters at least"
            )
        found.append(passphrase)
    return found
