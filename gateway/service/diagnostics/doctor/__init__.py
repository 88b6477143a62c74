"""``amqp-gateway doctor``: problems of a gateway, its machine and its brokers, and advice.

Nothing is changed anywhere. Each part checks one thing, and yields findings, good ones too.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Level(enum.Enum):
    """The importance of a finding; the words are those of ``doctor --json``."""

    GOOD = "good"
    NOTE = "note"
    """Not wrong, and good to know."""
    WARNING = "warning"
    """It works, and may not always, or allows more than it should."""
    PROBLEM = "problem"
    """Something does not work."""
    NOT_CHECKED = "not-checked"


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of examining one thing.

    Attributes:
        check: the examined thing: a word of the table in ``docs/cli.md``.
        level: the importance.
        text: the observation.
        advice: the advice; empty where nothing is to be done.
        subject: the examined one of several, such as a source or an address; empty where there is only one.
    """

    check: str
    level: Level
    text: str
    advice: str = ""
    subject: str = ""

    def as_json(self) -> dict[str, object]:
        """Return the finding for JSON, by the names of its fields."""
        return {
            "check": self.check,
            "subject": self.subject,
            "level": self.level.value,
            "text": self.text,
            "advice": self.advice,
        }

    def lines(self) -> list[str]:
        """Return lines for people: the observation, and the advice below it."""
        name = f"{self.check} {self.subject}".rstrip()
        found = f"{self.level.value:<11}  {name}: {self.text}"
        return [found, *([f"{'':<11}    -> {self.advice}"] if self.advice else [])]
