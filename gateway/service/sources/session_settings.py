"""What was chosen about a session, as JSON: with it a replay makes the session that was captured."""

from __future__ import annotations

import dataclasses
import datetime as dt
import math
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, Generic, TypeVar, get_type_hints
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import BaseModel, ConfigDict, ValidationError, create_model

from gateway.dialects.ami.relay import RelayConfig
from gateway.dialects.errors import LocalProtocolError, ProtocolError
from gateway.links.capture_reading import CaptureError

ConfigT = TypeVar("ConfigT")
KnownT = TypeVar("KnownT")

_LARGEST: Final = 2**63


def settings_of(config: object, left_out: Collection[str]) -> dict[str, Any]:
    """The fields of a frozen dataclass as JSON, without those ``left_out``, which have no such form."""
    kind = type(config)
    told = {name: getattr(config, name) for name in _fields(kind, left_out)}
    return _model(kind, left_out).model_construct(None, **told).model_dump(mode="json")


def with_settings(config: ConfigT, told: object, left_out: Collection[str]) -> ConfigT:
    """``config`` with the fields that ``told`` has, which is what `settings_of` gave.

    Fields that it does not have, or not any more, stay as they are: the capture may be of another version.

    Raises:
        CaptureError: ``told`` is something else.
    """
    kind = type(config)
    if not isinstance(told, Mapping):
        raise CaptureError("line 1: 'settings' is no object")
    known = _known(kind, told, left_out)
    try:
        _bounded(known)
        read = _model(kind, left_out).model_validate(known)
    except (ValidationError, ValueError, RecursionError) as error:
        first = error.errors()[0] if isinstance(error, ValidationError) else None
        what = f"{'.'.join(map(str, first['loc']))}: {first['msg']}" if first is not None else str(error)
        raise CaptureError(f"line 1: 'settings' cannot be used: {what}") from error
    return dataclasses.replace(config, **{name: getattr(read, name) for name in known})  # type: ignore[type-var]


@dataclasses.dataclass(frozen=True, slots=True)
class KnownBefore(Generic[KnownT]):
    """What a session can know before anybody told it, from its file in the state folder.

    Attributes:
        field: of the session's config.
        text: of it, as in that file.
        read: what that text says. Raises `ValueError`, `TypeError`, `LookupError` or `ProtocolError` where it
            is something else.
    """

    field: str
    text: Callable[[KnownT], str]
    read: Callable[[str], KnownT]

    def text_of(self, config: object) -> str:
        """Empty where nothing is known, or what is has no text."""
        known: KnownT = getattr(config, self.field)
        try:
            return self.text(known) if known else ""
        except LocalProtocolError:  # it came from a peer that says more than we can
            return ""

    def told_to(self, config: ConfigT, text: str) -> ConfigT:
        """``config`` with what `text_of` told.

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
    """As `settings_of`, with the time zone of dates."""
    return {**settings_of(config, left_out), "time_zone": str(config.dates.zone)}


def with_relay_settings(config: RelayConfig, told: object, left_out: Collection[str]) -> RelayConfig:
    """As `with_settings`, of what `relay_settings_of` gave."""
    read = with_settings(config, told, left_out)
    name = told.get("time_zone") if isinstance(told, Mapping) else None
    try:
        zone = dt.UTC if name == "UTC" else ZoneInfo(name) if isinstance(name, str) and name else None
    except (ValueError, OSError, ZoneInfoNotFoundError):
        zone = None
    if zone is None:
        raise CaptureError(f"line 1: 'settings' cannot be used: time_zone: {name!r:.80} is none")
    return dataclasses.replace(read, dates=dataclasses.replace(read.dates, zone=zone))


def _fields(kind: type, left_out: Collection[str]) -> list[str]:
    return [field.name for field in dataclasses.fields(kind) if field.name not in left_out]


def _known(kind: type, told: Mapping[Any, object], left_out: Collection[str] = ()) -> dict[str, object]:
    """What a dataclass, and those inside it, still have of what was told."""
    hints, names = get_type_hints(kind), _fields(kind, left_out)
    return {
        name: _known(hints[name], value)
        if isinstance(value, Mapping) and dataclasses.is_dataclass(hints[name])
        else value
        for name, value in told.items()
        if name in names
    }


def _model(kind: type, left_out: Collection[str]) -> type[BaseModel]:
    hints = get_type_hints(kind)
    fields: dict[str, Any] = {name: (hints[name], None) for name in _fields(kind, left_out)}
    return create_model(kind.__name__, __config__=ConfigDict(extra="forbid"), **fields)


def _bounded(told: object) -> None:
    """Raise `ValueError` for a number that no setting has."""
    if isinstance(told, Mapping):
        for value in told.values():
            _bounded(value)
    elif isinstance(told, list):
        for value in told:
            _bounded(value)
    elif isinstance(told, int | float) and not (math.isfinite(told) and 0 <= told < _LARGEST):
        raise ValueError("a number is below 0, or 2^63 or more")
