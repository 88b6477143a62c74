"""Objects that lived when a gateway before this one ended: what they were called, until they are told again.

What waited for the gateway's return tells of objects by native ids that only the former one had seen
resolved, and transient objects keep their rows as long as they live.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gateway.feed.values import ObjectLink


@dataclass(frozen=True, slots=True)
class FormerObject:
    """One of them. ``class_name`` is ``package:name``; ``name`` its stable name."""

    class_name: str
    name: str
    row: int
    native_id: str
    durable: bool


class FormerObjects:
    """Those of one source."""

    def __init__(self) -> None:
        self._links: dict[str, ObjectLink] = {}
        self._rows: dict[tuple[str, str], int] = {}

    def remember(self, objects: Iterable[FormerObject], *, by_native_id: bool) -> None:
        """These lived.

        Args:
            objects: all of them.
            by_native_id: whether what is told next may refer to them by their native ids. Otherwise an agent
                that restarted meanwhile may have given these to others.
        """
        for one in objects:
            if by_native_id:
                self._links[one.native_id] = ObjectLink(one.class_name, one.row, one.name)
            if not one.durable:
                self._rows[one.class_name, one.name] = one.row

    def link(self, native_id: str) -> ObjectLink | None:
        """What a native id led to."""
        return self._links.get(native_id)

    def take_row(self, class_name: str, name: str) -> int | None:
        """The row that a transient object of this name had, once."""
        return self._rows.pop((class_name, name), None)

    def forget_native_ids(self) -> None:
        """An agent restarted: it calls its objects otherwise."""
        self._links.clear()

    def forget(self) -> list[str]:
        """Everything that still lives was told again; returns the native ids that led here."""
        native_ids = list(self._links)
        self._links.clear()
        self._rows.clear()
        return native_ids
