"""The view of one source: the context of a user of version 3 that has the name of the source."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final

from gateway.snmp import ber
from gateway.snmp.regions import Region
from gateway.snmp.store import NO_TYPE, Store

_SEARCHED: Final = 64
"""The minimum number of rows that are read at a time of a table in which those of a source are searched."""


class SourceView:
    """The rows of one source, in tables whose rows belong to a source; all else as it is.

    Where the number of the source is no index, its rows are searched among all of the table: such tables are
    bounded (alarms, ended objects, operations).

    Args:
        store: the store.
        number: the number of the source.
    """

    def __init__(self, store: Store, number: int) -> None:
        self._store = store
        self._number = ber.encode_integer(number)
        self._within = ber.encode_sub_identifiers((number,))
        # What sorts directly before the rows of the source, and after all rows of sources before it.
        self._before = ber.encode_sub_identifiers((number - 1, ber.MAX_SUB_IDENTIFIER))

    def read(self, name: bytes) -> bytes:
        """See `MibView.read`."""
        region = self._store.region_of(name)
        if region is None:
            return ber.NO_SUCH_OBJECT
        suffix = name[len(region.prefix) :]
        if not self._has(region, suffix):
            return ber.NO_SUCH_INSTANCE
        return region.read(suffix) or ber.NO_SUCH_INSTANCE

    def walk(self, name: bytes, limit: int, *, counter64: bool = True) -> tuple[list[bytes], bytes]:
        """See `MibView.walk`."""
        varbinds: list[bytes] = []
        passed_over = NO_TYPE if counter64 else ber.COUNTER64
        region = self._store.region_of(name)
        if region is not None:
            name = self._walk_region(region, name[len(region.prefix) :], limit, varbinds, passed_over) or name
        position = self._store.region_after(name, region)
        active = self._store.active_regions
        while len(varbinds) < limit and position < len(active):
            wanted = limit - len(varbinds)
            name = self._walk_region(active[position], b"", wanted, varbinds, passed_over) or name
            position += 1
        return varbinds, name

    def next_varbind(self, name: bytes) -> None:
        """See `MibView.next_varbind`."""

    def walk_rows(self, names: Sequence[bytes], limit: int) -> None:
        """See `MibView.walk_rows`."""

    def _has(self, region: Region, suffix: bytes) -> bool:
        """Return whether a row is of the source, or belongs to none."""
        owners = self._store.owners(region)
        if owners is not None:
            return owners.read(suffix) == self._number
        return not self._store.is_by_source(region) or suffix.startswith(self._within)

    def _walk_region(
        self, region: Region, suffix: bytes, limit: int, varbinds: list[bytes], passed_over: int
    ) -> bytes | None:
        """Append varbinds as `Region.walk` does, but none of another source."""
        owners = self._store.owners(region)
        if owners is not None:
            return self._search(region, owners, suffix, limit, varbinds, passed_over)
        if not self._store.is_by_source(region):
            return region.walk(suffix, limit, varbinds, passed_over)
        if not suffix.startswith(self._within):
            if suffix and ber.decode_sub_identifiers(suffix) > ber.decode_sub_identifiers(self._within):
                return None
            suffix = self._before
        begin = len(varbinds)
        last = region.walk(suffix, limit, varbinds, passed_over)
        inside = region.prefix + self._within
        if last is None or last.startswith(inside):
            return last
        # The rows are in order, so those of other sources are at the end.
        end = bisect_left(
            varbinds, True, begin, key=lambda varbind: not ber.name_of_varbind(varbind).startswith(inside)
        )
        del varbinds[end:]
        return ber.name_of_varbind(varbinds[-1]) if end > begin else None

    def _search(
        self,
        region: Region,
        owners: Region,
        suffix: bytes,
        limit: int,
        varbinds: list[bytes],
        passed_over: int,
    ) -> bytes | None:
        """Append varbinds as `_walk_region` does, of a table whose rows of other sources lie between."""
        beginning, found = len(region.prefix), None
        while limit:
            wanted = max(limit, _SEARCHED)
            rows: list[bytes] = []
            last = region.walk(suffix, wanted, rows, passed_over)
            for varbind in rows:
                name = ber.name_of_varbind(varbind)
                if owners.read(name[beginning:]) == self._number:
                    varbinds.append(varbind)
                    found, limit = name, limit - 1
                    if not limit:
                        return found
            if last is None or len(rows) < wanted:
                return found
            suffix = last[beginning:]
        return found
