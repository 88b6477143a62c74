"""Which objects a subscriber wants to be told of, where a hundred thousand would be told otherwise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gateway.feed.records import ObjectRecord

MAX_WANTED: Final = 100
"""Names and rows of one interest, each."""


@dataclass(frozen=True, slots=True)
class Interest:
    """Objects that snapshots are to tell of from now on; all else, and what changes, is told as ever.

    Attributes:
        names: texts that native ids are equal to, or stable names or leaf names begin with.
        rows: numbers of source and row, whatever the class is.
    """

    names: tuple[str, ...] = ()
    rows: tuple[tuple[int, int], ...] = ()

    def wants(self, record: ObjectRecord) -> bool:
        """Whether this object is meant, or may be."""
        return (
            record.stable_name.startswith(self.names)
            or record.leaf_name.startswith(self.names)
            or record.native_id in self.names
            or (record.source, record.row) in self.rows
        )
