"""The states of a console session of CML, as one table."""

from __future__ import annotations

import enum
from typing import Final


class State(enum.Enum):
    """Where a console session stands."""

    DISCONNECTED = "disconnected"  # no link
    LEARNING = "learning"  # schema asked for
    UNREACHED = "unreached"  # nobody takes requests, or tells a schema; another try will come
    WALKING = "walking"  # from object 0 down the tree; a resync is under way
    SYNCHRONISED = "synchronised"  # everything that can be seen is known, and polled
    DOUBTFUL = "doubtful"  # something does not answer: the rest is polled, another walk will come


class Signal(enum.Enum):
    """What moves a console session."""

    CONNECTED = "connected"
    LEARNED = "learned"  # the schema came, or one that was saved has to do
    TURNED_AWAY = "turned away"  # a request was returned, or nobody told a schema
    WALKED = "walked"
    FELL_SHORT = "fell short"  # an object was given up in a walk
    SILENT = "silent"  # an object, or the broker, answers no more
    BEGIN = "begin"  # again: asked for, the broker was restarted, or time for another try
    DISCONNECTED = "disconnected"


_CONNECTED: Final = tuple(state for state in State if state is not State.DISCONNECTED)

TRANSITIONS: Final[dict[tuple[State, Signal], State]] = {
    (State.DISCONNECTED, Signal.CONNECTED): State.LEARNING,
    (State.LEARNING, Signal.LEARNED): State.WALKING,
    (State.WALKING, Signal.WALKED): State.SYNCHRONISED,
    (State.WALKING, Signal.FELL_SHORT): State.DOUBTFUL,
    (State.SYNCHRONISED, Signal.SILENT): State.DOUBTFUL,
    **{(state, Signal.TURNED_AWAY): State.UNREACHED for state in _CONNECTED if state is not State.UNREACHED},
    **{(state, Signal.BEGIN): State.LEARNING for state in _CONNECTED},
    **{(state, Signal.DISCONNECTED): State.DISCONNECTED for state in State},
}
"""From state and signal to the next state; any other pair is a mistake of ours."""


def table() -> str:
    """Return the table as text, a line for each transition."""
    rows = ((before.value, signal.value, after.value) for (before, signal), after in TRANSITIONS.items())
    return "\n".join(f"{before:<13} {signal:<13} -> {after}" for before, signal, after in rows)
