"""The authoritative engine: identifier, boots and time (RFC 3411 section 5, RFC 3414 section 2)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

MAX_COUNT: Final = 2**31 - 1
"""The maximum of snmpEngineBoots and snmpEngineTime. Boots that have reached it stay there."""

TIME_WINDOW: Final = 150
"""Seconds by which the time of a message may differ from the engine's (RFC 3414 section 2.2.3)."""

_PERIOD: Final = MAX_COUNT + 1  # seconds, after which the time begins again and the boots grow
_SECOND: Final = 10**9
_TICK: Final = 10**7
_WRAP: Final = 1 << 32
_MINUTE: Final = 60
_YEAR_2020: Final = 1_577_836_800  # seconds from 1970 to 2020-01-01 00:00 UTC

MIN_ENGINE_ID: Final = 5
MAX_ENGINE_ID: Final = 32
_MAX_ENTERPRISE: Final = 2**31 - 1
_OCTETS_FORMAT: Final = 5
RANDOM_OCTETS: Final = 12
"""The number of random octets of a new engine id, as many as identifiers need that never meet by chance."""


class Engine:
    """An engine from its start on.

    Args:
        engine_id: its identifier.
        boots: snmpEngineBoots of this start, which no earlier start had (`next_boots`).
        clock: returns monotonic nanoseconds.
        started: when the engine started, by that clock; default: now.

    Raises:
        ValueError: the identifier or the boots are not valid.
    """

    def __init__(
        self, engine_id: bytes, boots: int, clock: Callable[[], int], started: int | None = None
    ) -> None:
        check_engine_id(engine_id)
        if not 0 < boots <= MAX_COUNT:
            raise ValueError(f"the boots of an engine are 1 to {MAX_COUNT}, not {boots}")
        self.engine_id = engine_id
        self._boots = boots
        self._clock = clock
        self._started = clock() if started is None else started

    def now(self) -> tuple[int, int]:
        """Return snmpEngineBoots and snmpEngineTime.

        The boots grow by one when the time begins again, after 68 years; then they have to be stored again.
        """
        seconds = (self._clock() - self._started) // _SECOND
        if seconds < _PERIOD:
            return self._boots, seconds
        return min(self._boots + seconds // _PERIOD, MAX_COUNT), seconds % _PERIOD

    def up_time(self) -> int:
        """Return sysUpTime: hundredths of a second since the start, modulo 2^32 (497 days)."""
        return (self._clock() - self._started) // _TICK % _WRAP

    def is_timely(self, boots: int, time: int) -> bool:
        """Return whether a message with these boots and time is inside of the time window.

        Where the boots have reached their maximum, none is (RFC 3414 section 3.2, step 7a).
        """
        own_boots, own_time = self.now()
        return boots == own_boots != MAX_COUNT and -TIME_WINDOW <= time - own_time <= TIME_WINDOW


def next_boots(stored: int, now: int) -> int:
    """Return the boots of a start that no start before had, even if an old state was restored.

    They are never fewer than the minutes since 2020, which is more than the starts since then.

    Args:
        stored: the boots of the last known start; 0 if there was none.
        now: nanoseconds since 1970.
    """
    minutes = (now // _SECOND - _YEAR_2020) // _MINUTE
    return min(max(stored + 1, minutes, 1), MAX_COUNT)


def new_engine_id(enterprise: int, random: bytes) -> bytes:
    """Return an engine id of octets that the enterprise assigns (RFC 3411 section 5, format 5).

    Args:
        enterprise: the private enterprise number.
        random: `RANDOM_OCTETS` random octets.

    Raises:
        ValueError: the number or the octets are not valid.
    """
    if not 0 < enterprise <= _MAX_ENTERPRISE or len(random) != RANDOM_OCTETS:
        raise ValueError(f"not an enterprise and {RANDOM_OCTETS} octets: {enterprise}, {len(random)}")
    engine_id = (1 << 31 | enterprise).to_bytes(4, "big") + bytes((_OCTETS_FORMAT,)) + random
    check_engine_id(engine_id)
    return engine_id


def check_engine_id(engine_id: bytes) -> None:
    """Raise ``ValueError`` if the octets are no SnmpEngineID (RFC 3411 section 5)."""
    if not MIN_ENGINE_ID <= len(engine_id) <= MAX_ENGINE_ID:
        raise ValueError(f"an engine id has {MIN_ENGINE_ID} to {MAX_ENGINE_ID} bytes, not {len(engine_id)}")
    if set(engine_id) in ({0x00}, {0xFF}):
        raise ValueError("an engine id is not all 00 and not all ff")
