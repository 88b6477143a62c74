"""The states of a console session, as one table."""

from __future__ import annotations

import enum
from typing import Final


class State(enum.Enum):
    """Where a console session stands."""

    DISCONNECTED = "disconnected"  # no link
    CATCHING_UP = "catching up"  # hearing what was said meanwhile, asking nothing
    GREETING = "greeting"  # B sent, b awaited
    LISTING = "listing"  # P, Q, S: which packages, classes, schemas
    FETCHING = "fetching"  # G for each class and agent; a resync is under way
    SYNCHRONISED = "synchronised"  # everything is known, pushes keep it so
    DOUBTFUL = "doubtful"  # a resync stayed incomplete or the agent is silent; another try will come


class Signal(enum.Enum):
    """What moves a console session."""

    RESUMED = "resumed"  # there is a link, and on it first what was said meanwhile
    CONNECTED = "connected"
    ANSWERED = "answered"  # b came
    LISTED = "listed"
    FETCHED = "fetched"
    FELL_SHORT = "fell short"  # something of the resync was given up
    SILENT = "silent"  # no heartbeat of the broker's agent for too long
    GREET = "greet"  # begin again: asked for, announced by an agent, or time for another try
    DISCONNECTED = "disconnected"


TRANSITIONS: Final = {
    (State.DISCONNECTED, Signal.RESUMED): State.CATCHING_UP,
    (State.CATCHING_UP, Signal.CONNECTED): State.GREETING,
    (State.DISCONNECTED, Signal.CONNECTED): State.GREETING,
    (State.GREETING, Signal.ANSWERED): State.LISTING,
    (State.LISTING, Signal.LISTED): State.FETCHING,
    (State.FETCHING, Signal.FETCHED): State.SYNCHRONISED,
    (State.FETCHING, Signal.FELL_SHORT): State.DOUBTFUL,
    (State.SYNCHRONISED, Signal.SILENT): State.DOUBTFUL,
    (State.LISTING, Signal.GREET): State.GREETING,
    (State.FETCHING, Signal.GREET): State.GREETING,
    (State.SYNCHRONISED, Signal.GREET): State.GREETING,
    (State.DOUBTFUL, Signal.GREET): State.GREETING,
    **{(state, Signal.DISCONNECTED): State.DISCONNECTED for state in State},
}
"""From state and signal to the next state; any other pair is a mistake of ours."""


def table() -> str:
    """Return the table as text, a line for each transition."""
    rows = ((before.value, signal.value, after.value) for (before, signal), after in TRANSITIONS.items())
    return "\n".join(f"{before:<13} {signal:<13} -> {after}" for before, signal, after in rows)
