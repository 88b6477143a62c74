"""What of the notifications outlives the process: its value, and its text, one JSON document.

Communities are not in it. A text of another version is refused, and so is one that is damaged: who reads it
decides what to do then.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Final, Literal

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from gateway.model.events import Severity
from gateway.snmp.notifications.delivery import MAX_WAITING
from gateway.snmp.notifications.notification import MAX_CONDITIONS, Condition, SuppressedSummary

VERSION: Final = 1

_STRICT: Final = ConfigDict(extra="forbid", ser_json_bytes="base64", val_json_bytes="base64")


class SavedNotificationsError(Exception):
    """The text is damaged; says where."""


class NewerVersionError(Exception):
    """The text is of a version that a newer gateway wrote; the only argument is that."""


@dataclass(frozen=True, slots=True)
class SavedInform:
    """An inform that was not answered; ``varbinds`` is the TLV of its variable bindings."""

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    urgency: Severity
    name: str
    condition: Condition | None
    varbinds: bytes


@dataclass(frozen=True, slots=True)
class SavedTarget:
    """What concerns one receiver.

    Attributes:
        name: as configured.
        conditions: those whose raising notification it was sent, with their severity.
        declined: those whose beginning was not for it, with the event id of that.
        suppressed: what it was not sent, and no agEventsSuppressed has reported to it.
        informs: what it has not answered, in the order of events.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    name: str
    conditions: Annotated[tuple[tuple[Condition, Severity], ...], Field(max_length=MAX_CONDITIONS)] = ()
    declined: Annotated[tuple[tuple[Condition, str], ...], Field(max_length=MAX_CONDITIONS)] = ()
    suppressed: SuppressedSummary | None = None
    informs: Annotated[tuple[SavedInform, ...], Field(max_length=MAX_WAITING)] = ()


@dataclass(frozen=True, slots=True)
class SavedNotifications:
    """What concerns all receivers.

    Attributes:
        epoch: boot of the core that made the last event that was handled; 0 for none.
        number: of that event.
        boot: how often the core had been started when the process began.
        configuration: digest of the configuration that the process began with.
        own: number in the last event id that the SNMP agent made itself.
        targets: by receiver.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    epoch: int = 0
    number: int = 0
    boot: int = 0
    configuration: str = ""
    own: int = 0
    targets: tuple[SavedTarget, ...] = ()
    version: Literal[1] = VERSION


_DOCUMENT: Final = TypeAdapter(SavedNotifications)
_VERSIONED: Final = TypeAdapter(dict[str, object])


def to_text(saved: SavedNotifications) -> str:
    """Its text, of one line."""
    return _DOCUMENT.dump_json(saved).decode() + "\n"


def from_text(document: str) -> SavedNotifications:
    """The value of which ``document`` is the text. Raises `SavedNotificationsError`, `NewerVersionError`."""
    try:
        version = _VERSIONED.validate_json(document).get("version")
        if isinstance(version, int) and version > VERSION:
            raise NewerVersionError(version)
        return _DOCUMENT.validate_json(document)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise SavedNotificationsError(f"{place}: {first['msg']}" if place else first["msg"]) from None
