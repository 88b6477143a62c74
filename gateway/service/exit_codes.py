"""Exit codes of every command; the table in ``docs/operations.md`` is checked against this."""

from __future__ import annotations

import enum

from gateway.links.amqp_connection import Trouble


class ExitCode(enum.IntEnum):
    """Why a command ended."""

    OK = 0
    FAILED = 1
    """Something unforeseen; the log tells."""
    USAGE = 2
    """The command line is wrong."""
    CONFIGURATION = 3
    """The configuration, a mapping, a lock or a secret is missing or wrong."""
    STATE = 4
    """The state folder is missing, damaged, in use, or of another version."""
    UNREACHABLE = 5
    """Nothing answers at a configured address."""
    CREDENTIALS = 6
    """A broker refused user or password."""
    VHOST = 7
    """A virtual host does not exist, or is not permitted."""
    MISSING = 8
    """An exchange or queue is missing on the broker."""
    FORBIDDEN = 9
    """The user lacks a right on the broker."""
    ADDRESS_IN_USE = 10
    """An address to listen on is taken or not permitted."""
    NOT_INSTALLED = 11
    """A program that the command needs is not installed."""
    DIFFERENCE = 12
    """A check ran and found a difference."""


OF_TROUBLE = {
    Trouble.UNREACHABLE: ExitCode.UNREACHABLE,
    Trouble.REFUSED_CREDENTIALS: ExitCode.CREDENTIALS,
    Trouble.REFUSED_VHOST: ExitCode.VHOST,
    Trouble.MISSING: ExitCode.MISSING,
    Trouble.FORBIDDEN: ExitCode.FORBIDDEN,
    Trouble.MISCONFIGURED: ExitCode.CONFIGURATION,
    Trouble.BROKEN: ExitCode.FAILED,
}


class CommandError(Exception):
    """A command cannot go on; the text is for people and says what to do."""

    def __init__(self, code: ExitCode, text: str) -> None:
        self.code = code
        super().__init__(text)
