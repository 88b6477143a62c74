"""How strictly a line is read, and what a lenient reading let pass."""

from __future__ import annotations

import enum

from gateway.dialects.errors import ProtocolError


class Reading(enum.Enum):
    """``STRICT`` takes what the documents allow, ``LENIENT`` also what a relay was seen to take."""

    STRICT = "strict"
    LENIENT = "lenient"


class Deviation(enum.Enum):
    """What the documents do not allow and a relay takes; the value says what should have stood there."""

    COMMENT = "an instruction, not a comment"
    LOWER_CASE_TYPE = "an upper-case type"
    HEAD_ORDER = "#sequence before @now, and both before the parameters"
    CARRIAGE_RETURN = "no carriage return within a line"
    NOT_ASCII = "ASCII, and \\uFFFF for the rest"
    RAW_CONTROL = "an escaped control character"
    ESCAPED_PIPE = "a plain |, which needs no escape"
    EXPONENT = "a decimal without exponent"
    LONE_SURROGATE = "surrogates in pairs"
    TEXT_AFTER_DATE = "the end of the date's text"
    DUPLICATE_KEY = "each key once"
    RESERVED_KEY = "no key of one or two upper-case letters but those of the instruction"
    MISSING_ID = "an object's id (I)"
    MISSING_NAME = "a command's name (N)"
    DELETE_BY_LEVEL = "D to delete an object, not L=0"


class Leniency:
    """What one line is forgiven: nothing when read strictly.

    Attributes:
        deviations: what was forgiven so far.
    """

    __slots__ = ("deviations", "lenient")

    def __init__(self, reading: Reading) -> None:
        self.lenient = reading is Reading.LENIENT
        self.deviations: set[Deviation] = set()

    def forgive(self, deviation: Deviation, found: str, offset: int) -> None:
        """Note a deviation.

        Raises:
            ProtocolError: the reading is strict.
        """
        if not self.lenient:
            raise ProtocolError(deviation.value, found, offset)
        self.deviations.add(deviation)
