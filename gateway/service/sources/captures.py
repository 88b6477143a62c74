"""Captures of sessions: their files, and the description of the session in each file."""

from __future__ import annotations

import dataclasses
import datetime as dt
import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Generic, TypeVar, get_type_hints
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import structlog
from pydantic import BaseModel, ConfigDict, ValidationError, create_model

from gateway.clock import Clock
from gateway.dialects.ami.relay import RelayConfig, RelaySession
from gateway.dialects.cml import console as cml
from gateway.dialects.errors import LocalProtocolError, ProtocolError
from gateway.dialects.qmf import console as qmf
from gateway.dialects.qmf.am01 import console as am01
from gateway.dialects.session import ConsoleSession
from gateway.links.capture import CapturedSession
from gateway.links.capture_file import AS_CONSOLE, AS_RELAY, FILES, CaptureFile, Directions, make_room
from gateway.links.capture_reading import Capture, CaptureError
from gateway.links.replay import Outcome, Witness, replay
from gateway.mapping.files import is_statistic
from gateway.mapping.rules import Mapping as MappingFile
from gateway.model.secrets import SecretRules
from gateway.service.state.cached_schemas import (
    classes_text,
    definitions_text,
    read_classes,
    read_definitions,
    schema_document,
    schema_of,
)
from gateway.sources.rabbitmq.capture import AS_SOURCE, CapturedSource, replay_source
from gateway.sources.rabbitmq.source import RabbitMqSource
from gateway.sources.rabbitmq.source_config import RabbitMqSourceConfig
from gateway.yaml_documents import in_words

log = structlog.get_logger(__name__)

ConfigT = TypeVar("ConfigT")
KnownT = TypeVar("KnownT")

_LARGEST: Final = 2**63


def settings_of(config: object, left_out: Collection[str]) -> dict[str, Any]:
    """Return the fields of a frozen dataclass as JSON, without ``left_out`` ones, which have no such form."""
    kind = type(config)
    recorded = {name: getattr(config, name) for name in _fields(kind, left_out)}
    return _model(kind, left_out).model_construct(None, **recorded).model_dump(mode="json")


_RENAMED: Final = {
    "believe_anyone": "trust_anyone",
    "believed": "trusted_users",
    "former_agents": "restored_agents",
    "heard_until": "complete_until",
    "tell_interval": "report_interval",
}
"""The present names of fields of settings, by their names in captures of earlier versions."""


def with_settings(config: ConfigT, recorded: object, left_out: Collection[str]) -> ConfigT:
    """Return ``config`` with the fields of ``recorded``, which `settings_of` returned.

    Fields that ``config`` does not have stay as they are: the capture may be of another version.

    Raises:
        CaptureError: ``recorded`` is something else.
    """
    kind = type(config)
    if not isinstance(recorded, Mapping):
        raise CaptureError("line 1: 'settings' is no object")
    known = _known(kind, {_RENAMED.get(name, name): value for name, value in recorded.items()}, left_out)
    try:
        _bounded(known)
        read = _model(kind, left_out).model_validate(known)
    except (ValidationError, ValueError, RecursionError) as error:
        first = error.errors()[0] if isinstance(error, ValidationError) else None
        what = f"{'.'.join(map(str, first['loc']))}: {in_words(first)}" if first is not None else str(error)
        raise CaptureError(f"line 1: 'settings' cannot be used: {what}") from error
    return dataclasses.replace(config, **{name: getattr(read, name) for name in known})  # type: ignore[type-var]


@dataclasses.dataclass(frozen=True, slots=True)
class KnownBefore(Generic[KnownT]):
    """The part of a session's config that is known before a peer reports it, from a file in the state folder.

    Attributes:
        field: the name of the field of the session's config.
        text: returns the text of its value, as in that file.
        read: returns the value of that text. Raises `ValueError`, `TypeError`, `LookupError` or
            `ProtocolError` where it is something else.
    """

    field: str
    text: Callable[[KnownT], str]
    read: Callable[[str], KnownT]

    def text_of(self, config: object) -> str:
        """Return the text; empty where nothing is known, or where it has no text."""
        known: KnownT = getattr(config, self.field)
        try:
            return self.text(known) if known else ""
        except LocalProtocolError:  # it came from a peer that says more than we can
            return ""

    def with_known(self, config: ConfigT, text: str) -> ConfigT:
        """Return ``config`` with the value of a text that `text_of` returned.

        Raises:
            CaptureError: it is something else.
        """
        if not text:
            return config
        try:
            return dataclasses.replace(config, **{self.field: self.read(text)})  # type: ignore[type-var]
        except (ValueError, TypeError, LookupError, ProtocolError, RecursionError) as error:
            raise CaptureError(f"line 1: 'known' cannot be used: {error}") from error


def relay_settings_of(config: RelayConfig, left_out: Collection[str]) -> dict[str, Any]:
    """Return the settings, as `settings_of` does, with the time zone of dates."""
    return {**settings_of(config, left_out), "time_zone": str(config.dates.zone)}


def with_relay_settings(config: RelayConfig, recorded: object, left_out: Collection[str]) -> RelayConfig:
    """Return ``config`` with the settings that `relay_settings_of` returned, as `with_settings` does."""
    read = with_settings(config, recorded, left_out)
    name = recorded.get("time_zone") if isinstance(recorded, Mapping) else None
    try:
        zone = dt.UTC if name == "UTC" else ZoneInfo(name) if isinstance(name, str) and name else None
    except (ValueError, OSError, ZoneInfoNotFoundError):
        zone = None
    if zone is None:
        raise CaptureError(f"line 1: 'settings' cannot be used: time_zone: {name!r:.80} is none")
    return dataclasses.replace(read, dates=dataclasses.replace(read.dates, zone=zone))


def _fields(kind: type, left_out: Collection[str]) -> list[str]:
    return [field.name for field in dataclasses.fields(kind) if field.name not in left_out]


def _known(kind: type, recorded: Mapping[Any, object], left_out: Collection[str] = ()) -> dict[str, object]:
    """Return the captured settings that a dataclass, and those inside it, still have."""
    hints, names = get_type_hints(kind), _fields(kind, left_out)
    return {
        name: _known(hints[name], value)
        if isinstance(value, Mapping) and dataclasses.is_dataclass(hints[name])
        else value
        for name, value in recorded.items()
        if name in names
    }


def _model(kind: type, left_out: Collection[str]) -> type[BaseModel]:
    hints = get_type_hints(kind)
    fields: dict[str, Any] = {name: (hints[name], None) for name in _fields(kind, left_out)}
    return create_model(kind.__name__, __config__=ConfigDict(extra="forbid"), **fields)


def _bounded(recorded: object) -> None:
    """Raise `ValueError` for a number that no setting can have."""
    if isinstance(recorded, Mapping):
        for value in recorded.values():
            _bounded(value)
    elif isinstance(recorded, list):
        for value in recorded:
            _bounded(value)
    elif isinstance(recorded, int | float) and not (math.isfinite(recorded) and 0 <= recorded < _LARGEST):
        raise ValueError("a number is below 0, or 2^63 or more")


MAX_SIZE: Final = 256 << 20
"""Default size of all files of a capture, in bytes."""


@dataclass(frozen=True, slots=True)
class SourceDesign:
    """The parts of which a `RabbitMqSource` is made."""

    config: RabbitMqSourceConfig
    mapping: MappingFile
    secrets: SecretRules


@dataclass(frozen=True, slots=True)
class SessionKind:
    """The rules by which sessions of a kind of source are captured and made again.

    Attributes:
        dialect: the dialect that they speak, as `amqp-gateway decode` calls it.
        config: makes the default config, of the rules for secrets and the mappings.
        session: makes a session of a config.
        left_out: fields of ``config`` that have no form as JSON.
        known: the one of them that is known before a peer reports it, if there is one.
        replay: replays a capture to a session.
        directions: the directions of messages.
        settings: returns the rest of ``config`` as JSON.
        with_settings: returns a ``config`` with that rest. Raises `CaptureError` where it is something else.
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
            frozenset({"management_virtual_host", "allowed_users"}),
            replay=replay_source,
            directions=AS_SOURCE,
            settings=lambda design, left_out: settings_of(design.config, left_out),
            with_settings=lambda design, recorded, left_out: replace(
                design, config=with_settings(design.config, recorded, left_out)
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
"""The kinds of sessions, by the kind of a source as in the configuration."""


@dataclass(frozen=True, slots=True)
class CaptureTarget:
    """The file into which the session of a source is captured.

    Attributes:
        path: the newest file.
        max_size: size of all files.
        keeps: an existing file becomes an older one, and is kept as long as there is room.
    """

    path: Path
    max_size: int = MAX_SIZE
    keeps: bool = False


class Captures:
    """Captures of sources, by the source's name; none of a source that has no target.

    Attributes:
        files: the files that were begun.
        trouble: the reason why a file could not be begun; the source works without it.
    """

    def __init__(self, clock: Clock, targets: Mapping[str, CaptureTarget] = MappingProxyType({})) -> None:
        self.files: dict[str, CaptureFile] = {}
        self.trouble: dict[str, str] = {}
        self._clock = clock
        self._targets = targets

    def session(self, source: str, kind: str, session: ConsoleSession, config: object) -> ConsoleSession:
        """Return ``session``, captured if the source has a target.

        Args:
            source: the name of the source.
            kind: its kind as in the configuration.
            session: a new one.
            config: the config of which the session was made.
        """
        file = self._file(source, kind, config)
        return session if file is None else CapturedSession(session, file)

    def rabbitmq(
        self, source: str, config: RabbitMqSourceConfig, mapping: MappingFile, secrets: SecretRules
    ) -> RabbitMqSource:
        """Return a source of kind ``rabbitmq``, captured if it has a target."""
        file = self._file(source, "rabbitmq", SourceDesign(config, mapping, secrets))
        if file is None:
            return RabbitMqSource(config, mapping, secrets)
        return CapturedSource(config, mapping, secrets, file)

    def _file(self, source: str, kind: str, config: object) -> CaptureFile | None:
        """Return a file for a new session, or the former file if it is empty; ``None`` without a capture."""
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
