"""The relay's own classes (applications, their metrics and alerts) and events."""

from __future__ import annotations

import re
from typing import Final

from gateway.dialects.ami.relay_tables import Fixed
from gateway.model.observations import Severity
from gateway.model.schema import Argument, ClassKey, Element, EventSchema
from gateway.model.stable_names import escaped, joined
from gateway.model.values import ValueType

APPLICATION_CLASS: Final = "application"
METRICS_CLASS: Final = "metrics"
ALERT_CLASS: Final = "alert"
_INSERT: Final = re.compile(r"\|#[0-9]+\Z")


def _text(name: str, description: str, *, index: bool = False, optional: bool = False) -> Element:
    return Element(name, ValueType.STRING, index=index, optional=optional, description=description)


def _count(name: str, description: str, unit: str) -> Element:
    return Element(name, ValueType.U64, unit=unit, description=description)


_OWNER: Final = _text(
    "application", "The application that it belongs to, by the name it logged in with.", index=True
)
_EXPIRES: Final = Element(
    "expires", ValueType.TIME, optional=True, description="When it ends by itself; absent for never."
)

OBJECT: Final = Fixed(
    (
        _OWNER,
        _text("object", "The object's id; # and a number where the application gave none.", index=True),
        _EXPIRES,
    )
)

ALERT: Final = Fixed(
    (
        _OWNER,
        _text("alert", "The alert's id.", index=True),
        _text("type", "What kind of alert it is."),
        Element("level", ValueType.S32, description="As the application has it; AMI knows no scale."),
        _text("assignee", "The user that the alert is assigned to.", optional=True),
        _EXPIRES,
    )
)

METRICS: Final = Fixed((_OWNER,))

APPLICATION: Final = Fixed(
    (
        _text("application", "The name it logged in with, the same after a restart.", index=True),
        Element("connected", ValueType.BOOL, description="Whether it has a connection."),
        _text("plugin", "The class of a plugin that it requested; it is never loaded.", optional=True),
        _text("options", "The options that it set for its session.", optional=True),
        _text("address", "The address of its last connection."),
        _text("certificate", "The common name of its certificate.", optional=True),
        Element("since", ValueType.TIME, description="Since when it is connected, or is not."),
    ),
    (
        _count("connections", "Open at the moment.", "connections"),
        _count("objects", "Reported and not ended, including alerts and metrics.", "objects"),
        _count("commands", "That it offers.", "commands"),
        _count("instructions", "Taken.", "instructions"),
        _count("refused", "Instructions refused.", "instructions"),
        _count("missing", "Instructions that never came, by their sequence numbers.", "instructions"),
        _count("repeated", "Instructions whose sequence number had come before.", "instructions"),
        Element(
            "lag",
            ValueType.S64,
            optional=True,
            unit="milliseconds",
            description="From the time that the last instruction with a time gave itself to its arrival.",
        ),
    ),
)


class Events:
    """The events of one relay.

    Args:
        package: the package of the events.
    """

    def __init__(self, package: str) -> None:
        string, number = ValueType.STRING, ValueType.U64

        def event(name: str, description: str, *others: Argument) -> EventSchema:
            owner = Argument("application", string, description="The name it logged in with.")
            return EventSchema(ClassKey(package, name), (owner, *others), description=description)

        self.logged_in = event(
            "loggedIn",
            "An application logged in.",
            Argument("address", string, description="Where from."),
            Argument("certificate", string, description="The common name it showed.", optional=True),
        )
        self.logged_out = event(
            "loggedOut",
            "A connection of an application is over.",
            Argument("reason", string, description="Why."),
        )
        self.sequence_gap = event(
            "sequenceGap",
            "Sequence numbers of an application did not ascend by one.",
            Argument("missing", number, unit="instructions", description="Passed over since the last time."),
            Argument("repeated", number, unit="instructions", description="That had come before."),
        )
        self.refused = event(
            "instructionsRefused",
            "Instructions of an application were refused. With the option QUIET it gets no reply about that.",
            Argument("refused", number, unit="instructions", description="Since the last such event."),
            Argument("reason", string, description="Of the last one."),
        )
        self.alert = event(
            "alert",
            "An application raised an alert, or cleared it (level 0).",
            Argument("alert", string, description="Its id."),
            Argument("type", string, description="What kind of alert it is."),
            Argument("level", ValueType.S32, description="As the application has it; 0 takes it back."),
            Argument("assignee", string, optional=True, description="The user that it is assigned to."),
            Argument("values", ValueType.MAP, optional=True, description="All other values of the report."),
        )

    @property
    def schemas(self) -> tuple[EventSchema, ...]:
        """All events of the relay."""
        return (self.logged_in, self.logged_out, self.sequence_gap, self.refused, self.alert)


LOGGED_OUT_SEVERITY: Final = {True: Severity.INFO, False: Severity.WARNING}
"""The severity of a logout, by whether the application announced it."""


def application_id(name: str) -> str:
    """Return the native id of an application."""
    return escaped(name)


def metrics_id(name: str) -> str:
    """Return the native id of an application's metrics."""
    return joined((escaped(name), "#metrics"))


def alert_id(name: str, alert: str) -> str:
    """Return the native id of an alert; types of objects are never empty."""
    return joined((escaped(name), "", escaped(alert)))


def object_id(name: str, kind: str, known_as: str) -> str:
    """Return the native id of an object with an id."""
    return joined((escaped(name), escaped(kind), escaped(known_as)))


def insert_id(name: str, kind: str, number: int) -> str:
    """Return the native id of an object without one; ``#`` is always escaped in ids of applications."""
    return joined((escaped(name), escaped(kind), f"#{number}"))


def is_insert(native_id: str) -> bool:
    """Return whether a native id is one of `insert_id`."""
    return _INSERT.search(native_id) is not None
