"""Findings about the keys of protected sources and agents: which are missing, or end soon."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from gateway.config.files import LoadedConfiguration
from gateway.config.protection import ProtectedSettings
from gateway.config.sources import AmiSource, RabbitMqSource
from gateway.model.times import DAY
from gateway.protection.key_files import KeyFolder
from gateway.protection.keys import KeyRing, KeyRingError, Use
from gateway.service.diagnostics.doctor import Finding, Level

SOON: Final = 7 * DAY
"""The time in nanoseconds before the end of a key in which another one should be there."""


def key_findings(loaded: LoadedConfiguration, now: int) -> Iterator[Finding]:
    """Yield findings about the keys of each protected source and agent.

    Args:
        loaded: the configuration.
        now: nanoseconds since 1970.
    """
    for name, source in loaded.settings.sources.items():
        if not isinstance(source, RabbitMqSource | AmiSource) and source.protected is not None:
            yield from _findings(name, source.protected, loaded.folder, now)
    for name, agent in loaded.settings.agents.items():
        if agent.publish.protected is not None:
            yield from _findings(name, agent.publish.protected, loaded.folder, now)


def _findings(name: str, settings: ProtectedSettings, folder: Path, now: int) -> Iterator[Finding]:
    place = KeyFolder(folder / settings.keys)
    read_as = settings.read_as if settings.read_as is not None else (settings.sign_as,)
    found = False
    for ring_name, use, is_private in (
        (settings.sign_as, Use.SIGN, True),
        (settings.encrypt_for, Use.READ, False),
        *((each, Use.READ, True) for each in read_as),
        *((each, Use.SIGN, False) for each in settings.trusted),
    ):
        try:
            ring = place.private(ring_name) if is_private else place.public(ring_name)
        except (KeyRingError, OSError) as error:
            found = True
            yield Finding("keys", Level.PROBLEM, str(error), subject=name)
            continue
        finding = _finding(name, ring_name, ring, use, now)
        if finding is not None:
            found = True
            yield finding
    if not found:
        yield Finding("keys", Level.GOOD, "all that are needed are there, and accepted", subject=name)


def _finding(name: str, ring_name: str, ring: KeyRing, use: Use, now: int) -> Finding | None:
    """Return a finding about the keys of one ring for one use; ``None`` where nothing is to be done."""
    what = "signs" if use is Use.SIGN else "is encrypted for"
    advice = f"`amqp-gateway keys rotate {ring_name}` makes a new one, which its owner hands out to all peers"
    if ring.current(use, now) is None:
        text = f"{ring_name} has no key that {what} now: they are missing, expired or revoked"
        return Finding("keys", Level.PROBLEM, text, advice, name)
    if ring.current(use, now + SOON) is None:
        text = f"the key of {ring_name} that {what} ends within {SOON // DAY} days, and none follows"
        return Finding("keys", Level.WARNING, text, advice, name)
    return None
