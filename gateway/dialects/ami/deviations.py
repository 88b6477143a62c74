"""The strictness of reading a line, and the deviations that a lenient reading accepted."""

from __future__ import annotations

import enum

from gateway.dialects.errors import ProtocolError


class Reading(enum.Enum):
    """``STRICT`` accepts what the documents allow, ``LENIENT`` also what a relay was observed to accept."""

    STRICT = "strict"
    LENIENT = "lenient"


class Deviation(enum.Enum):
    """A form that a relay accepts although the documents do not; the value describes the correct form."""

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
    """Collects the deviations of one line; a strict reading accepts none.

    Attributes:
        deviations: the deviations so far.
    """

    __slots__ = ("deviations", "lenient")

    def __init__(self, reading: Reading) -> None:
        self.lenient = reading is Reading.LENIENT
        self.deviations: set[Deviation] = set()

    def forgive(self, deviation: Deviation, found: str, offset: int) -> None:
        """Accept a deviation.

        Raises:
            ProtocolError: the reading is strict.
        """
        if not self.lenient:
            raise ProtocolError(deviation.value, found, offset)
        self.deviations.add(deviation)
