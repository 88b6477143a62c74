"""Exit codes of every command; the table in ``docs/operations.md`` is checked against this."""

from __future__ import annotations

import enum


class ExitCode(enum.IntEnum):
    """The reason why a command ended."""

    OK = 0
    FAILED = 1
    """An unforeseen error; the log has it."""
    USAGE = 2
    """The command line is wrong."""
    CONFIGURATION = 3
    """The configuration, a mapping, an OID registry or a secret is missing or wrong."""
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
    NOT_FOUND = 13
    """No object, element, method or event has this name, or several have."""
    REFUSED = 14
    """The gateway's configuration does not allow an operation, or the element cannot be set."""
    WRONG_VALUE = 15
    """A value or argument has a type, length or value that is impossible."""
    NOT_NOW = 16
    """An operation is possible, but not now."""
    REMOTE_FAILURE = 17
    """The broker or agent of the object refused an operation, or failed."""
    SOURCE_DOWN = 18
    """The source cannot be reached: nothing was sent."""
    NOT_APPLIED = 19
    """An operation was reported as done, but another value was found than was requested."""
    UNKNOWN_OUTCOME = 20
    """No answer came in time: an operation may have been carried out, or may still be."""
    AGAIN = 21
    """A process of the gateway ends to be started again at once, for other mappings or a clock that was set.

    No command ends so."""
    NOT_SYNCHRONISED = 22
    """A source was reached, and not read completely in time."""
    INTERRUPTED = 130
    """Ctrl-C, as shells report any command that it ended."""
    NOT_READ = 141
    """The reader of the output has gone, as with ``| head``; shells report the same."""


class CommandError(Exception):
    """A command cannot go on; the text is for people and says what to do."""

    def __init__(self, code: ExitCode, text: str) -> None:
        self.code = code
        super().__init__(text)
