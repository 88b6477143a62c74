"""Which sessions are captured into which files, and what each file says of its session."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, TypeVar

import structlog

from gateway.clock import Clock
from gateway.dialects.qmf.console import ConsoleConfig, ConsoleSession
from gateway.links.capture import (
    CapturedConsole,
    CapturedStreamConsole,
    MessagingConsole,
    StreamConsole,
    captured_console,
)
from gateway.links.capture_file import AS_CONSOLE, FILES, CaptureFile, Directions, make_room
from gateway.links.capture_reading import Capture
from gateway.links.replay import Outcome, Witness, replay
from gateway.mapping.rules import Mapping as MappingFile
from gateway.model.secrets import SecretRules
from gateway.service.session_settings import settings_of

log = structlog.get_logger(__name__)

MAX_SIZE: Final = 256 << 20
"""Octets of all the files of a capture, unless told otherwise."""

SessionT = TypeVar("SessionT", bound=MessagingConsole)
StreamSessionT = TypeVar("StreamSessionT", bound=StreamConsole)


@dataclass(frozen=True, slots=True)
class SessionKind:
    """How sessions of a kind of source are captured and made anew.

    Attributes:
        dialect: that they speak, as `amqp-gateway decode` calls it.
        config: how they behave unless a capture says otherwise; of the rules for secrets and the mappings.
        session: makes one of that.
        replay: plays a capture to it.
        left_out: fields of ``config`` that have no form as JSON.
        directions: of messages.
    """

    dialect: str
    config: Callable[[SecretRules, Mapping[str, MappingFile]], Any]
    session: Callable[[Any], Any]
    replay: Callable[[Capture, Any, Witness], Outcome]
    left_out: frozenset[str]
    directions: Directions = AS_CONSOLE


_AM2: Final = SessionKind(
    "am2",
    lambda secrets, _: ConsoleConfig(secrets=secrets),
    ConsoleSession,
    replay,
    frozenset({"secrets", "definitions"}),
)
KINDS: Final[Mapping[str, SessionKind]] = MappingProxyType({"qmf": _AM2, "rabbitmq": _AM2})
"""By the kind of a source, as in the configuration."""


@dataclass(frozen=True, slots=True)
class CaptureTarget:
    """Where the session of a source is captured.

    Attributes:
        path: of the newest file.
        max_size: octets of all files.
        keeps: a file that is there is taken for an older one, and kept beside as long as there is room.
    """

    path: Path
    max_size: int = MAX_SIZE
    keeps: bool = False


class Captures:
    """Captures of sources, by the source's name; none of a source that has no target.

    Attributes:
        files: that were begun.
        trouble: why one could not be; a source works without it all the same.
    """

    def __init__(self, clock: Clock, targets: Mapping[str, CaptureTarget] = MappingProxyType({})) -> None:
        self.files: dict[str, CaptureFile] = {}
        self.trouble: dict[str, str] = {}
        self._clock = clock
        self._targets = targets

    def console(
        self, source: str, kind: str, session: SessionT, config: object
    ) -> SessionT | CapturedConsole:
        """``session``, captured where the source is to be.

        Args:
            source: its name.
            kind: as in the configuration.
            session: a new one.
            config: that it was made of.
        """
        file = self._file(source, kind, config)
        return session if file is None else captured_console(session, file)

    def relay(
        self, source: str, kind: str, session: StreamSessionT, config: object
    ) -> StreamSessionT | CapturedStreamConsole:
        """As `console`, for a session over byte streams."""
        file = self._file(source, kind, config)
        return session if file is None else CapturedStreamConsole(session, file)

    def _file(self, source: str, kind: str, config: object) -> CaptureFile | None:
        target = self._targets.get(source)
        if target is None or source in self.files:
            return self.files.get(source)  # a source that began anew after a fault goes on in its file
        form = KINDS[kind]
        about = {"kind": kind, "settings": settings_of(config, form.left_out)}
        try:
            if target.keeps:
                target.path.parent.mkdir(mode=0o700, exist_ok=True)
                make_room(target.path)
            file = CaptureFile(
                target.path,
                source,
                form.dialect,
                form.directions,
                self._clock.now(),
                about=about,
                largest_file=target.max_size // FILES,
            )
        except OSError as error:
            self.trouble[source] = f"{target.path}: {error.strerror or error}"
            log.warning("source-not-captured", name=source, detail=self.trouble[source])
            return None
        log.warning("source-captured", name=source, file=str(target.path), detail="bodies may hold secrets")
        self.files[source] = file
        return file
