"""``amqp-gateway jmx``: the passwords of users of JMX."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from gateway.cli.options import OUTPUT_FILE
from gateway.durable_files import write_durably
from gateway.file_owners import as_owner
from gateway.jmx.password_hashes import make_hash
from gateway.jmx.users import PasswordError
from gateway.service.processes.exit_codes import CommandError, ExitCode

MIN_PASSWORD = 8
"""The least number of characters of a new password."""

MAX_PASSWORD = 1024
"""The largest number of characters: the virtual machine accepts no more."""


@click.group()
def jmx() -> None:
    """Make hashes of passwords for users of JMX."""


@jmx.command()
@click.option(
    "--output",
    type=OUTPUT_FILE,
    help="The file to write, mode 0600. Default: standard output.",
)
def password(output: Path | None) -> None:
    """Ask for a password, and print a hash of it (Argon2id), or write it into a file.

    The password is asked for twice, without echo. Where the input is no terminal, it is its first line. A
    running gateway uses a changed file from the next login on.
    """
    try:
        line = make_hash(_password())
    except PasswordError as error:
        raise CommandError(ExitCode.NOT_INSTALLED, str(error)) from error
    if output is None:
        click.echo(line)
        return
    try:
        with as_owner(output.parent):
            write_durably(output, f"{line}\n")
    except OSError as error:
        raise CommandError(ExitCode.FAILED, f"{output}: cannot be written: {error.strerror}") from error
    click.echo(f"{output}: has the hash; name it as jmx.users.NAME.password: {{ file: {output} }}")


def _password() -> str:
    if sys.stdin.isatty():
        text: str = click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
    else:
        text = sys.stdin.readline().rstrip("\r\n")
    if not MIN_PASSWORD <= len(text) <= MAX_PASSWORD:
        raise CommandError(ExitCode.USAGE, f"the password needs {MIN_PASSWORD} to {MAX_PASSWORD} characters")
    return text
