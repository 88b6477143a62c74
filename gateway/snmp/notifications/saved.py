"""The state of notifications that outlives the process: one JSON document without communities.

A text that is damaged or of a newer version is refused; the caller decides what follows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Final, Literal

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from gateway.model.observations import Severity
from gateway.snmp.notifications.backlog import Range
from gateway.snmp.notifications.delivery import MAX_WAITING
from gateway.snmp.notifications.notification import MAX_CONDITIONS, Condition, SuppressedSummary
from gateway.yaml_documents import in_words

VERSION: Final = 7

_STRICT: Final = ConfigDict(extra="forbid", ser_json_bytes="base64", val_json_bytes="base64")


class SavedNotificationsError(Exception):
    """The text is damaged; the error names the place."""


class NewerVersionError(Exception):
    """The text is of a version that a newer gateway wrote; the only argument is the version."""


@dataclass(frozen=True, slots=True)
class SavedInform:
    """An inform that was not answered; ``varbinds`` is the TLV of its variable bindings.

    ``event_id`` is that of its event; empty where that is not known. Since version 5.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    urgency: Severity
    name: str
    condition: Condition | None
    varbinds: bytes
    event_id: str = ""


@dataclass(frozen=True, slots=True)
class SavedTarget:
    """The saved state of one receiver.

    Attributes:
        name: its configured name.
        conditions: conditions whose raising notification was sent to it, with their severity.
        declined: conditions whose beginning was not for it, with the event id of the beginning.
        uncertain: those of ``conditions`` that were perhaps not sent to it. Since version 2.
        suppressed: suppressed notifications that no agEventsSuppressed has reported to it.
        informs: informs that it has not answered, in the order of events.
        policy: the rules of the receiver by which these were made, see `NotificationForms.policy`; ``None``
            where that is not known. Since version 4.
        owed: events that were not sent to it yet, and are in the event log: epoch of the core, first number
            and last number. All others up to the last event that was handled are finished, or are among the
            informs. Since version 5.
        since: the epoch of the core since which it is configured; events of cores before are not for it. 0 of
            a receiver of before version 7.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    name: str
    conditions: Annotated[tuple[tuple[Condition, Severity], ...], Field(max_length=MAX_CONDITIONS)] = ()
    declined: Annotated[tuple[tuple[Condition, str], ...], Field(max_length=MAX_CONDITIONS)] = ()
    uncertain: Annotated[tuple[Condition, ...], Field(max_length=MAX_CONDITIONS)] = ()
    suppressed: SuppressedSummary | None = None
    informs: Annotated[tuple[SavedInform, ...], Field(max_length=MAX_WAITING)] = ()
    policy: str | None = None
    owed: tuple[Range, ...] = ()
    since: Annotated[int, Field(ge=0)] = 0


@dataclass(frozen=True, slots=True)
class SavedNotifications:
    """The saved state of all receivers.

    Attributes:
        epoch: the epoch of the core that made the last event that was handled; 0 for none.
        number: the number of that event.
        boot: the number of starts of the core when the process began.
        configuration: the digest of the configuration with which the process began.
        own: the number in the last event id that the SNMP agent made itself.
        targets: the state of each receiver.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    epoch: int = 0
    number: int = 0
    boot: int = 0
    configuration: str = ""
    own: int = 0
    targets: tuple[SavedTarget, ...] = ()
    version: Literal[1, 2, 3, 4, 5, 6, 7] = VERSION


_DOCUMENT: Final = TypeAdapter(SavedNotifications)
_VERSIONED: Final = TypeAdapter(dict[str, object])


def to_text(saved: SavedNotifications) -> str:
    """Return the text of ``saved``, of one line."""
    return _DOCUMENT.dump_json(saved).decode() + "\n"


def from_text(document: str) -> SavedNotifications:
    """Return the state in the text ``document``. Raises `SavedNotificationsError`, `NewerVersionError`."""
    try:
        # First, because a document of a newer version would be refused for its unknown fields, as if damaged.
        version = _VERSIONED.validate_json(document).get("version")
        if isinstance(version, int) and version > VERSION:
            raise NewerVersionError(version)
        return _DOCUMENT.validate_json(document)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        said = in_words(first)
        raise SavedNotificationsError(f"{place}: {said}" if place else said) from None
