"""``amqp-gateway doctor``: what may be wrong with a gateway, its machine and its brokers, and what to do.

Nothing is changed anywhere. Each part checks one thing, and yields findings, good ones too.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Level(enum.Enum):
    """How much a finding matters; the words stand in ``doctor --json``."""

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
    """One thing that was looked at.

    Attributes:
        check: what was looked at: a word of the table in ``docs/cli.md``.
        level: how much it matters.
        text: what was found.
        advice: what to do; empty where nothing is to be done.
        subject: which one of several: a source, an address; empty where there is only one.
    """

    check: str
    level: Level
    text: str
    advice: str = ""
    subject: str = ""

    def as_json(self) -> dict[str, object]:
        """With names of its own fields."""
        return {
            "check": self.check,
            "subject": self.subject,
            "level": self.level.value,
            "text": self.text,
            "advice": self.advice,
        }

    def lines(self) -> list[str]:
        """For people: what was found, and below it what to do."""
        name = f"{self.check} {self.subject}".rstrip()
        found = f"{self.level.value:<11}  {name}: {self.text}"
        return [found, *([f"{'':<11}    -> {self.advice}"] if self.advice else [])]
