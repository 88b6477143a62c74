"""All instances that the agent serves, as encoded values in lexicographic order.

One thread, one event loop: a request is answered between two changes and so sees one version of everything.
The request path (`read`, `walk`) uses encoded names, the content octets of an OBJECT IDENTIFIER in canonical
form; `get` and `next` use sub-identifiers.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Final, Protocol, TypeAlias

from gateway.snmp import ber
from gateway.snmp.ber import Oid
from gateway.snmp.regions import Follower, Region
from gateway.snmp.table import Derivation, ReadableColumn, Table

ScalarValue: TypeAlias = "bytes | Callable[[], bytes | None]"
"""A value TLV, or a function that returns the current one; ``None`` while there is no instance."""

NO_TYPE: Final = 0
"""The tag of no value of SNMP."""


class MibView(Protocol):
    """The MIB view of a principal: the whole `Store`, or a part of it.

    The request path uses only this protocol, so a view that hides subtrees or rows can replace the store.
    """

    def read(self, name: bytes) -> bytes:
        """Return the value TLV at ``name``, or noSuchObject or noSuchInstance (RFC 3416 section 4.2.1)."""

    def walk(self, name: bytes, limit: int, *, counter64: bool = True) -> tuple[list[bytes], bytes]:
        """Return up to ``limit`` (1 or more) encoded varbinds after ``name``, and the name of the last one.

        Fewer than ``limit`` means that the end of the view was reached; with none the name is ``name``.
        Without ``counter64`` objects of that type are passed over (RFC 3584 section 4.2.2.1).
        """

    def next_varbind(self, name: bytes) -> bytes | None:
        """Return the first encoded varbind after ``name``, any octets, where it is quick to find.

        That is in a column in which ``name``, which then is canonical, has a row, and the next row a value.
        In all other cases the result is ``None``, and what follows is a matter of `walk`.
        """

    def walk_rows(self, names: Sequence[bytes], limit: int) -> list[bytes] | None:
        """Return the encoded varbinds of ``limit`` rows after ``names``, row by row: what a table is read by.

        Returns ``None`` unless the names have the same index in columns of one table, and no cell is missing.
        What follows each name is then a matter of `walk`, to which a view may leave all.
        """


class Store:
    """Tables and scalars by OID.

    Attributes:
        followers: what follows the regions.
    """

    def __init__(self) -> None:
        self._claims: list[Oid] = []  # entries of tables and object types of scalars, sorted
        self._tables: dict[Oid, Table] = {}
        self._regions: dict[bytes, Region] = {}
        self._prefix_lengths: tuple[int, ...] = ()
        self._active_keys: list[bytes] = []  # regions that have instances, in order
        self._active: list[Region] = []
        self._by_source: set[bytes] = set()  # prefixes of columns
        self._owners: dict[bytes, Region] = {}
        self.followers: list[Follower] = []

    def table(
        self,
        entry: Oid,
        columns: Sequence[int],
        derived: Mapping[int, Derivation] | None = None,
        *,
        by_source: bool = False,
        source_column: int = 0,
    ) -> Table:
        """Add a new, empty table.

        Args:
            entry: the OID of the conceptual row; a column's OID is that and the column's number.
            columns: the numbers of the columns that can be read, ascending.
            derived: further columns, by number, each made of one of ``columns`` when it is read.
            by_source: the first index is the number of the source that a row belongs to.
            source_column: the column with that number, where it is no index; 0 for none.

        Raises:
            ValueError: the entry overlaps with a table or scalar, or columns are none, unsorted or not
                numbers from 1 to 2^32-1.
        """
        if not columns or columns[0] < 1 or any(left >= right for left, right in pairwise(columns)):
            raise ValueError(f"columns are ascending numbers from 1: {list(columns)}")
        table = Table(entry, columns, derived or {}, self)
        self._claim(entry)
        self._tables[entry] = table
        for column in table.columns():
            self._add_region(column)
        if by_source:
            self._by_source.update(column.prefix for column in table.columns())
        if source_column:
            owners = table.kept[source_column]
            self._owners.update((column.prefix, owners) for column in table.columns())
        self._count_prefix_lengths()
        return table

    def computed_table(self, entry: Oid, columns: Sequence[Region]) -> None:
        """Add a table whose columns make their instances when they are read; it cannot be removed.

        Args:
            entry: the OID of the conceptual row.
            columns: its columns, all below ``entry``.

        Raises:
            ValueError: the entry overlaps with a table or scalar.
        """
        self._claim(entry)
        for column in columns:
            self._add_region(column)
            self.activate(column)
        self._count_prefix_lengths()

    def remove_table(self, entry: Oid) -> None:
        """Remove a table and its rows; the `Table` is of no use any more. ``KeyError`` if there is none."""
        table = self._tables.pop(entry)
        table.close()
        for column in table.columns():
            self._remove_region(column)
            self._by_source.discard(column.prefix)
            self._owners.pop(column.prefix, None)
        self._claims.remove(entry)
        self._count_prefix_lengths()

    def scalar(self, oid: Oid, value: ScalarValue) -> None:
        """Add a scalar, or replace the value of an existing one.

        Args:
            oid: the instance, so the last sub-identifier is 0.
            value: a value TLV, or a callable that gives the current one at each read, or ``None`` while the
                object has no instance.

        Raises:
            ValueError: the last sub-identifier is not 0, or the OID overlaps with a table or scalar.
        """
        if not oid or oid[-1] != 0:
            raise ValueError(f"a scalar's instance ends in .0: {oid}")
        object_type = oid[:-1]
        prefix = ber.encode_name(object_type)
        region = self._regions.get(prefix)
        if isinstance(region, _Scalar):
            region.value = value
            return
        self._claim(object_type)
        region = _Scalar(object_type, value)
        self._add_region(region)
        self._count_prefix_lengths()
        self.activate(region)

    def remove_scalar(self, oid: Oid) -> None:
        """Remove a scalar, named by its instance. ``KeyError`` if there is none."""
        prefix = ber.encode_name(oid[:-1])
        region = self._regions[prefix]
        if oid[-1] != 0 or not isinstance(region, _Scalar):
            raise KeyError(oid)
        self.deactivate(region)
        self._remove_region(region)
        self._claims.remove(oid[:-1])
        self._count_prefix_lengths()

    def serves(self, subtree: Oid) -> bool:
        """Return whether a table, also an empty one, or a scalar is at or below ``subtree``."""
        position = bisect_left(self._claims, subtree)
        return position < len(self._claims) and self._claims[position][: len(subtree)] == subtree

    def get(self, oid: Oid) -> bytes:
        """Return the value TLV at ``oid``, noSuchObject or noSuchInstance. ``ValueError`` if it is no OID."""
        return self.read(ber.encode_name(oid))

    def next(self, oid: Oid) -> tuple[Oid, bytes] | None:
        """Return the first instance after ``oid`` and its value TLV; ``None`` at the end of all."""
        varbinds, last = self.walk(ber.encode_name(oid), 1)
        if not varbinds:
            return None
        varbind = varbinds[0]
        _, start, stop = ber.read_header(varbind, 0, len(varbind))
        _, _, name_stop = ber.read_header(varbind, start, stop)
        return ber.decode_name(last), varbind[name_stop:]

    def read(self, name: bytes) -> bytes:
        """See `MibView.read`."""
        region = self.region_of(name)
        if region is None:
            return ber.NO_SUCH_OBJECT
        return region.read(name[len(region.prefix) :]) or ber.NO_SUCH_INSTANCE

    def is_by_source(self, region: Region) -> bool:
        """Return whether the first index of a region's instances is the number of a source."""
        return region.prefix in self._by_source

    def owners(self, region: Region) -> Region | None:
        """Return the column that has the numbers of the sources of a column's rows; ``None`` without one."""
        return self._owners.get(region.prefix)

    def region_after(self, name: bytes, region: Region | None) -> int:
        """Return the place in `active_regions` of the first one after ``region``, or after a name in none."""
        key = ber.sort_key(ber.decode_name(name)) if region is None else region.key
        return bisect_right(self._active_keys, key)

    @property
    def active_regions(self) -> Sequence[Region]:
        """The regions that have instances, in lexicographic order."""
        return self._active

    def walk(self, name: bytes, limit: int, *, counter64: bool = True) -> tuple[list[bytes], bytes]:
        """See `MibView.walk`. Each region crossed costs a bisection; those without instances cost nothing."""
        varbinds: list[bytes] = []
        passed_over = NO_TYPE if counter64 else ber.COUNTER64
        region = self.region_of(name)
        if region is None:
            position = bisect_right(self._active_keys, ber.sort_key(ber.decode_name(name)))
        else:
            name = region.walk(name[len(region.prefix) :], limit, varbinds, passed_over) or name
            if len(varbinds) == limit:
                return varbinds, name
            position = bisect_right(self._active_keys, region.key)
        active = self._active
        while len(varbinds) < limit and position < len(active):
            wanted = limit - len(varbinds)
            name = active[position].walk(b"", wanted, varbinds, passed_over) or name
            position += 1
        return varbinds, name

    def next_varbind(self, name: bytes) -> bytes | None:
        """See `MibView.next_varbind`."""
        column = self.region_of(name)
        return column.next_varbind(name[len(column.prefix) :]) if isinstance(column, ReadableColumn) else None

    def walk_rows(self, names: Sequence[bytes], limit: int) -> list[bytes] | None:
        """See `MibView.walk_rows`."""
        columns: list[ReadableColumn] = []
        suffix = b""
        for name in names:
            column = self.region_of(name)
            if not isinstance(column, ReadableColumn):
                return None
            index = name[len(column.prefix) :]
            if columns and index != suffix:
                return None
            suffix = index
            columns.append(column)
        return columns[0].walk_beside(columns[1:], suffix, limit) if columns else None

    def activate(self, region: Region) -> None:
        """Add a region with instances to the order that `walk` follows."""
        position = bisect_left(self._active_keys, region.key)
        self._active_keys.insert(position, region.key)
        self._active.insert(position, region)
        for follower in self.followers:
            follower.region_activated(region)

    def deactivate(self, region: Region) -> None:
        """Remove a region without instances from the order that `walk` follows."""
        position = bisect_left(self._active_keys, region.key)
        del self._active_keys[position], self._active[position]
        for follower in self.followers:
            follower.region_deactivated(region)

    def region_of(self, name: bytes) -> Region | None:
        """Return the region in which an instance of this name would be."""
        # Sub-identifiers end at octets below 0x80, so a prefix that matches as octets matches as an OID; and
        # no two regions overlap. A store has few lengths of prefixes, the most frequent is tried first.
        regions = self._regions
        for length in self._prefix_lengths:
            region = regions.get(name[:length])
            if region is not None:
                return region
        return None

    @property
    def regions(self) -> Iterable[Region]:
        """All regions, in no order."""
        return self._regions.values()

    def _add_region(self, region: Region) -> None:
        self._regions[region.prefix] = region
        for follower in self.followers:
            follower.region_added(region)

    def _remove_region(self, region: Region) -> None:
        del self._regions[region.prefix]
        for follower in self.followers:
            follower.region_removed(region)

    def _claim(self, oid: Oid) -> None:
        position = bisect_left(self._claims, oid)
        # The neighbours suffice: what sorts between a prefix and a name below that prefix would itself
        # overlap with the prefix, and so cannot be there.
        for other in self._claims[max(position - 1, 0) : position + 1]:
            shorter = min(len(other), len(oid))
            if other[:shorter] == oid[:shorter]:
                raise ValueError(f"{oid} overlaps with {other}, which is served already")
        insort(self._claims, oid)

    def _count_prefix_lengths(self) -> None:
        counts: dict[int, int] = {}
        for prefix in self._regions:
            counts[len(prefix)] = counts.get(len(prefix), 0) + 1
        self._prefix_lengths = tuple(sorted(counts, key=lambda length: (-counts[length], length)))


class _Scalar:
    """The one instance (``.0``) of an object type."""

    __slots__ = ("key", "prefix", "value")

    def __init__(self, object_type: Oid, value: ScalarValue) -> None:
        self.prefix = ber.encode_name(object_type)
        self.key = ber.sort_key(object_type)
        self.value = value

    def read(self, suffix: bytes) -> bytes | None:
        if suffix != b"\x00":
            return None
        return self.value if isinstance(self.value, bytes) else self.value()

    def walk(self, suffix: bytes, limit: int, varbinds: list[bytes], passed_over: int) -> bytes | None:
        if suffix or limit < 1:
            return None
        value = self.value if isinstance(self.value, bytes) else self.value()
        if value is None or value[0] == passed_over:
            return None
        name = self.prefix + b"\x00"
        varbinds.append(ber.encode_varbind(name, value))
        return name
