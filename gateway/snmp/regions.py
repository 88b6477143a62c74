"""Regions of a store: columns and scalars, from which requests are answered."""

from __future__ import annotations

from typing import Protocol


class Region(Protocol):
    """A column or a scalar: all instances of one object type, at ``prefix`` (content octets of a name)."""

    prefix: bytes
    key: bytes

    def read(self, suffix: bytes) -> bytes | None:
        """Return the value TLV of the instance that ``suffix`` names."""

    def walk(self, suffix: bytes, limit: int, varbinds: list[bytes], passed_over: int) -> bytes | None:
        """Append up to ``limit`` encoded varbinds after ``suffix``; return the name of the last, if any.

        Args:
            suffix: the part of a name after the prefix; empty for the start of the region.
            limit: the maximum number of varbinds, 1 or more.
            varbinds: the list to which they are appended.
            passed_over: the type of the objects that are left out; no type is 0.
        """


class Directory(Protocol):
    """The directory of regions with instances; a column reports its first cell and the end of its last."""

    def activate(self, region: Region) -> None:
        """Add a region that has instances now."""

    def deactivate(self, region: Region) -> None:
        """Remove a region that has no instance any more."""


class Follower(Protocol):
    """Something that shows regions of a store, and follows what becomes of them."""

    def region_added(self, region: Region) -> None:
        """Follow a new region, without instances yet."""

    def region_removed(self, region: Region) -> None:
        """Follow the removal of a region, which may have been shown."""

    def region_activated(self, region: Region) -> None:
        """Follow the first instance of a region, if it is shown."""

    def region_deactivated(self, region: Region) -> None:
        """Follow the end of the last instance of a region, if it is shown."""
