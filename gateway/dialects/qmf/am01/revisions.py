"""The revisions of the protocol between November 2007 and mid 2008: close to each other, and not the same."""

from __future__ import annotations

import enum
from typing import Final


class Revision(enum.Enum):
    """What a peer speaks. Months are those of the agents that were recorded, or whose source was read."""

    DESIGN_NOTES = "design-notes"
    """As written in "Management Design notes" (February 2008): packages and hashes in records and keys."""

    NOVEMBER_2007 = "2007-11"
    """As `JANUARY_2008`, but methods have no header, and requests carry the reply queue in their body."""

    JANUARY_2008 = "2008-01"
    """Until 2008-02-12: schemas are broadcast, classes have neither package nor hash."""

    FEBRUARY_2008 = "2008-02"
    """From 2008-02-28: packages and classes are asked for, on the key ``agent``."""

    MARCH_2008 = "2008-03"
    """AM1, 2008-03-25 to mid 2008: every record has a sequence, and ``z`` ends what was asked for."""


ALL: Final = frozenset(Revision)
"""Where nothing is known of a peer."""

BROADCASTING: Final = frozenset((Revision.NOVEMBER_2007, Revision.JANUARY_2008))
"""Those whose classes have neither package nor hash."""

ASKED: Final = frozenset((Revision.FEBRUARY_2008, Revision.MARCH_2008))
"""Those that answer what they are asked on the key ``agent``; all others can only be heard."""
