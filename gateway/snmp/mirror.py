"""A store that shows regions of others beside its own: what a clearance or a principal sees.

Requests read it as they read any store: what is not shown has no place in it, and costs nothing.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from typing import TypeAlias

from gateway.snmp.regions import Region
from gateway.snmp.store import Store

Accepts: TypeAlias = Callable[[Region], bool]
"""Returns whether a region of another store is shown."""


class Mirror(Store):
    """A store that shows what it accepts of other stores; of one region in several, that of the first."""

    def __init__(self) -> None:
        super().__init__()
        self._followed: list[_Followed] = []
        self._counted = 0

    def follow(self, store: Store, accepts: Accepts) -> None:
        """Show what is accepted of a store, too."""
        followed = _Followed(self, store, accepts)
        self._followed.append(followed)
        store.followers.append(followed)
        active = {region.prefix for region in store.active_regions}
        for region in store.regions:
            followed.region_added(region)
            if region.prefix in active:
                followed.region_activated(region)

    def leave(self) -> None:
        """Show nothing of other stores any more."""
        for followed in self._followed:
            followed.store.followers.remove(followed)
            for region in followed.store.regions:
                self.hide(region)
        self._followed.clear()

    def shows(self, region: Region) -> bool:
        """Return whether a region is shown."""
        return self._regions.get(region.prefix) is region

    def show(self, region: Region) -> None:
        """Show a region of another store, without instances yet, unless it is one of this store."""
        if region.prefix in self._regions:
            return
        self._add_region(region)
        # Which length is the most frequent changes rarely, and counting looks at all regions.
        if len(region.prefix) not in self._prefix_lengths or len(self._regions) * 4 > self._counted * 5:
            self._count_prefix_lengths()
            self._counted = len(self._regions)

    def hide(self, region: Region) -> None:
        """Show a region no longer, if it was shown."""
        if not self.shows(region):
            return
        position = bisect_left(self._active_keys, region.key)
        if position < len(self._active) and self._active[position] is region:
            self.deactivate(region)
        self._remove_region(region)

    def is_by_source(self, region: Region) -> bool:
        """See `Store.is_by_source`."""
        return super().is_by_source(region) or any(
            followed.store.is_by_source(region) for followed in self._followed
        )

    def owners(self, region: Region) -> Region | None:
        """See `Store.owners`."""
        return super().owners(region) or next(
            (found for each in self._followed if (found := each.store.owners(region)) is not None), None
        )


class _Followed:
    """A store that a mirror shows; see `gateway.snmp.regions.Follower`."""

    def __init__(self, mirror: Mirror, store: Store, accepts: Accepts) -> None:
        self.store = store
        self._mirror = mirror
        self._accepts = accepts

    def region_added(self, region: Region) -> None:
        if self._accepts(region):
            self._mirror.show(region)

    def region_removed(self, region: Region) -> None:
        self._mirror.hide(region)

    def region_activated(self, region: Region) -> None:
        if self._mirror.shows(region):
            self._mirror.activate(region)

    def region_deactivated(self, region: Region) -> None:
        if self._mirror.shows(region):
            self._mirror.deactivate(region)


def everything(_: Region) -> bool:
    """Accept every region."""
    return True
