"""Makes the protection of the bodies of a source or agent from its settings."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Final

from gateway.config.protection import ProtectedSettings
from gateway.file_owners import reason_of
from gateway.model.times import MILLISECOND
from gateway.protection.bodies import AcceptedInMemory, BodyProtection
from gateway.protection.envelope import Refusal
from gateway.protection.key_files import KeyFolder, KeyNames, WatchedKeys
from gateway.protection.keys import KeyRingError
from gateway.protection.replay_file import ReplayFile
from gateway.service.metrics import families
from gateway.service.metrics.families import Reading
from gateway.service.processes.exit_codes import CommandError, ExitCode
from gateway.service.sources.source_context import SourceContext
from gateway.state_folder import REPLAY

_BOOT_BITS: Final = 63


def watched_keys(settings: ProtectedSettings, folder: Path) -> WatchedKeys:
    """Return the keys that the settings name; ``folder`` is the one to which paths are relative.

    Raises:
        CommandError: a key file is missing or wrong.
    """
    read_as = settings.read_as if settings.read_as is not None else (settings.sign_as,)
    names = KeyNames(settings.sign_as, settings.encrypt_for, read_as, settings.trusted)
    try:
        return WatchedKeys(KeyFolder(folder / settings.keys), names)
    except KeyRingError as error:
        raise CommandError(ExitCode.CONFIGURATION, str(error)) from error


def protection_of(
    name: str, settings: ProtectedSettings, around: SourceContext, waits: int = 0
) -> BodyProtection:
    """Return the protection of a source or agent, and add its counters to the metrics.

    Args:
        name: the name of the source or agent.
        settings: its settings of protection.
        around: the shared context of sources.
        waits: nanoseconds for which a body may wait in a durable queue; 0 where there is none.

    Raises:
        CommandError: a key file is missing or wrong, or the file of accepted bodies cannot be written.
    """
    keys = watched_keys(settings, around.folder)
    late, now = settings.late // MILLISECOND, around.clock.now() // MILLISECOND
    if around.state is None:
        return BodyProtection(keys, AcceptedInMemory(late, now), secrets.randbits(_BOOT_BITS))
    path = around.state / REPLAY / f"{name}.window"
    try:
        accepted = ReplayFile(path, late, now, waits=waits // MILLISECOND)
    except OSError as error:
        reason = reason_of(error, around.state)
        text = f"{path}: cannot be written, but has to remember accepted bodies: {reason}"
        raise CommandError(ExitCode.STATE, text) from error
    protection = BodyProtection(keys, accepted, secrets.randbits(_BOOT_BITS))
    around.metrics.add(f"protection of {name}", partial(protection_readings, name, protection))
    return protection


def protection_readings(name: str, protection: BodyProtection) -> Iterator[Reading]:
    """Yield the readings of the protection of a source or agent."""
    yield families.BODIES_SEALED.at(protection.sealed, name)
    yield families.BODIES_OPENED.at(protection.opened, name)
    for refusal in Refusal:
        yield families.BODIES_REFUSED.at(protection.refusals[refusal], name, refusal.value)
