"""Which sessions are captured into which files, and what each file says of its session."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import structlog

from gateway.clock import Clock
from gateway.dialects.ami.relay import RelayConfig, RelaySession
from gateway.dialects.cml import console as cml
from gateway.dialects.qmf import console as qmf
from gateway.dialects.qmf.am01 import console as am01
from gateway.dialects.session import ConsoleSession
from gateway.links.capture import CapturedSession
from gateway.links.capture_file import AS_CONSOLE, AS_RELAY, FILES, CaptureFile, Directions, make_room
from gateway.links.capture_reading import Capture
from gateway.links.replay import Outcome, Witness, replay
from gateway.mapping.files import is_statistic
from gateway.mapping.rules import Mapping as MappingFile
from gateway.model.secrets import SecretRules
from gateway.service.sources.cml_schemas import schema_document, schema_of
from gateway.service.sources.session_settings import (
    KnownBefore,
    relay_settings_of,
    settings_of,
    with_relay_settings,
    with_settings,
)
from gateway.service.state.cached_schemas import (
    classes_text,
    definitions_text,
    read_classes,
    read_definitions,
)
from gateway.sources.rabbitmq.capture import AS_SOURCE, CapturedSource, replay_source
from gateway.sources.rabbitmq.source import RabbitMqSource
from gateway.sources.rabbitmq.source_config import RabbitMqSourceConfig

log = structlog.get_logger(__name__)

MAX_SIZE: Final = 256 << 20
"""Octets of all the files of a capture, unless told otherwise."""


@dataclass(frozen=True, slots=True)
class SourceDesign:
    """What a `RabbitMqSource` is made of."""

    config: RabbitMqSourceConfig
    mapping: MappingFile
    secrets: SecretRules


@dataclass(frozen=True, slots=True)
class SessionKind:
    """How sessions of a kind of source are captured and made again.

    Attributes:
        dialect: that they speak, as `amqp-gateway decode` calls it.
        config: how they behave unless a capture says otherwise; of the rules for secrets and the mappings.
        session: makes one of that.
        left_out: fields of ``config`` that have no form as JSON.
        known: the one of them that says what was known before, if there is one.
        replay: plays a capture to it.
        directions: of messages.
        settings: the rest of ``config`` as JSON.
        with_settings: a ``config`` with what that said. Raises `CaptureError` where it is something else.
    """

    dialect: str
    config: Callable[[SecretRules, Mapping[str, MappingFile]], Any]
    session: Callable[[Any], Any]
    left_out: frozenset[str]
    known: KnownBefore[Any] | None = None
    replay: Callable[[Capture, Any, Witness], Outcome] = replay
    directions: Directions = AS_CONSOLE
    settings: Callable[[Any, Collection[str]], dict[str, Any]] = settings_of
    with_settings: Callable[[Any, object, Collection[str]], Any] = with_settings


_AM2: Final = SessionKind(
    "am2",
    lambda secrets, _: qmf.ConsoleConfig(secrets=secrets),
    qmf.ConsoleSession,
    frozenset({"secrets", "definitions"}),
    KnownBefore("definitions", definitions_text, read_definitions),
)
KINDS: Final[Mapping[str, SessionKind]] = MappingProxyType(
    {
        "rabbitmq": SessionKind(
            "rabbitmq",
            lambda secrets, mappings: SourceDesign(
                RabbitMqSourceConfig(user=""), mappings["rabbitmq"], secrets
            ),
            lambda design: RabbitMqSource(design.config, design.mapping, design.secrets),
            frozenset({"management_virtual_host", "obeyed"}),
            replay=replay_source,
            directions=AS_SOURCE,
            settings=lambda design, left_out: settings_of(design.config, left_out),
            with_settings=lambda design, told, left_out: replace(
                design, config=with_settings(design.config, told, left_out)
            ),
        ),
        "qmf": _AM2,
        "am01": SessionKind(
            "am01",
            lambda secrets, _: am01.Am01ConsoleConfig(secrets=secrets),
            am01.Am01ConsoleSession,
            frozenset({"secrets", "definitions"}),
        ),
        "cml": SessionKind(
            "cml",
            lambda secrets, mappings: cml.ConsoleConfig(
                secrets=secrets, is_statistic=partial(is_statistic, mappings)
            ),
            cml.ConsoleSession,
            frozenset({"secrets", "is_statistic", "schema"}),
            KnownBefore("schema", schema_document, lambda text: schema_of(text.encode())),
        ),
        "ami": SessionKind(
            "ami",
            lambda secrets, _: RelayConfig(secrets=secrets),
            RelaySession,
            frozenset({"secrets", "dates", "schemas"}),
            KnownBefore("schemas", classes_text, read_classes),
            directions=AS_RELAY,
            settings=relay_settings_of,
            with_settings=with_relay_settings,
        ),
    }
)
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

    def session(self, source: str, kind: str, session: ConsoleSession, config: object) -> ConsoleSession:
        """``session``, captured where the source is to be.

        Args:
            source: its name.
            kind: as in the configuration.
            session: a new one.
            config: that it was made of.
        """
        file = self._file(source, kind, config)
        return session if file is None else CapturedSession(session, file)

    def rabbitmq(self, source: str, design: SourceDesign) -> RabbitMqSource:
        """A source of kind ``rabbitmq``, captured where it is to be."""
        file = self._file(source, "rabbitmq", design)
        if file is None:
            return RabbitMqSource(design.config, design.mapping, design.secrets)
        return CapturedSource(design.config, design.mapping, design.secrets, file)

    def _file(self, source: str, kind: str, config: object) -> CaptureFile | None:
        """A new file for a new session; the former one, where nothing stands in it yet."""
        target, former = self._targets.get(source), self.files.get(source)
        if target is None or (former is not None and not former.records):
            return former
        form = KINDS[kind]
        about = {"kind": kind, "settings": form.settings(config, form.left_out)}
        if form.known is not None and (known := form.known.text_of(config)):
            about["known"] = known
        try:
            if former is not None:  # the source has begun again after a fault
                former.close()
            if target.keeps:
                target.path.parent.mkdir(mode=0o700, exist_ok=True)
            if target.keeps or former is not None:
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
