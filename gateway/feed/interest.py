"""Which objects a subscriber wants to be told of, where a hundred thousand would be told otherwise."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from gateway.feed.records import ObjectRecord
from gateway.feed.values import FeedStruct

MAX_WANTED: Final = 100
"""Names and rows of one interest, each."""


class Interest(FeedStruct, frozen=True, tag="interest"):
    """Objects that snapshots are to tell of from now on; all else, and what changes, is told as ever.

    Attributes:
        names: texts that native ids are equal to, or stable names or leaf names begin with.
        rows: numbers of source and row, whatever the class is.
    """

    names: Annotated[tuple[str, ...], msgspec.Meta(max_length=MAX_WANTED)] = ()
    rows: Annotated[tuple[tuple[int, int], ...], msgspec.Meta(max_length=MAX_WANTED)] = ()

    def wants(self, record: ObjectRecord) -> bool:
        """Whether this object is meant, or may be."""
        return (
            record.stable_name.startswith(self.names)
            or record.leaf_name.startswith(self.names)
            or record.native_id in self.names
            or (record.source, record.row) in self.rows
        )
