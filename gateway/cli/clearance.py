"""What the user of a command may read, by the roles of the configuration.

The running gateway's feed decides what a session shows. Commands that read files of the gateway decide here:
most of them show everything in them, so they are refused to a user who may not read everything. The operating
system decides who can read the files themselves; this keeps a command from showing more than it should, and
no one from reading the files with another program.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from gateway.cli.options import loaded
from gateway.config.files import LoadedConfiguration
from gateway.config.places import NoConfigurationError, find_configuration
from gateway.eventlog.follow import LogEnd, Selection
from gateway.eventlog.record import RecordKind
from gateway.mapping.files import load_mappings
from gateway.policy.marks import Marks
from gateway.service.diagnostics.cleared_log import MAX_VERSIONS, ClearedLog
from gateway.service.diagnostics.feed_session import principal
from gateway.service.processes.command_errors import command_errors
from gateway.service.processes.exit_codes import CommandError, ExitCode

_SCHEMAS: Final = Selection(kinds=frozenset({RecordKind.SCHEMA}))


def configured(config: Path | None) -> LoadedConfiguration | None:
    """Return the configuration; ``None`` where none was named and none is there: then there are no roles.

    Raises:
        CommandError: it is not valid.
    """
    try:
        find_configuration(config)
    except NoConfigurationError:
        return None
    return loaded(config)


def require_everything(configuration: LoadedConfiguration | None, what: str) -> None:
    """Check that the user of this command may read everything.

    Args:
        configuration: the configuration; ``None`` where there is none.
        what: the command, or what it shows.

    Raises:
        CommandError: the user may not.
    """
    who = str(principal())
    if configuration is None or _cleared(configuration, Marks({})).clearance.unrestricted:
        return
    roles = ", ".join(configuration.settings.role_set.roles_of(who)) or "none"
    raise CommandError(
        ExitCode.REFUSED,
        f"{what} shows everything that the gateway has, and {who} may not read everything (roles: {roles}): "
        "it takes the role everything, under policy.principals",
    )


def cleared_log(configuration: LoadedConfiguration | None, folder: Path) -> ClearedLog | None:
    """Return what leaves out of records what the user of this command may not read; ``None`` for nothing.

    Args:
        configuration: the configuration; ``None`` where there is none.
        folder: the folder of the log, whose schemas are read.

    Raises:
        CommandError: a mapping cannot be read.
        OSError: the log cannot be read.
    """
    if configuration is None or _cleared(configuration, Marks({})).clearance.unrestricted:
        return None
    with command_errors():
        marks = Marks(load_mappings(configuration.mapping_files))
    cleared = _cleared(configuration, marks)
    for line in LogEnd(folder, _SCHEMAS).last(MAX_VERSIONS):
        cleared.read(msgspec.json.decode(line, type=dict[str, object]))
    return cleared


def _cleared(configuration: LoadedConfiguration, marks: Marks) -> ClearedLog:
    return ClearedLog(str(principal()), configuration.settings.role_set, marks)
