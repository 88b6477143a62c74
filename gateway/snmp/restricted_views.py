"""What principals see whose clearance is restricted; who reads everything sees the store as it is.

Principals with the same clearance share a view of objects, sources, alarms and ended objects; each has its
own of operations, because it sees its own. What is not put into a view is not in it: the tables of the
standard that name other principals, and the log of notifications, are in none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

import msgspec

from gateway.feed.access import GATEWAY_NAME, AccessTables, OperationShown
from gateway.feed.cleared import shown_alarm
from gateway.feed.latest import HistoryLimits
from gateway.feed.operations import OperationKind, OperationRecord
from gateway.feed.records import AlarmRecord, DeleteRecord, SourceRecord
from gateway.feed.values import ObjectLink, links_in
from gateway.snmp.ber import Oid
from gateway.snmp.fixed_mib import (
    COMMANDS,
    HEALTH,
    LOG,
    TARGET_ENTRY,
    CommandScalar,
    OperationColumn,
    TargetColumn,
)
from gateway.snmp.mirror import Mirror, everything
from gateway.snmp.regions import Region
from gateway.snmp.row_access import ShownColumns
from gateway.snmp.store import MibView, Store
from gateway.snmp.subtree_view import Subtrees
from gateway.snmp.tables.alarms import AlarmTable, IsStale
from gateway.snmp.tables.applications import ApplicationTable
from gateway.snmp.tables.health import COUNTS_OF_ALL, SourceTable, serve_restricted_counts
from gateway.snmp.tables.history import EndedObjects, History, Operations, RowOid

FRONT_END: Final = "snmp"

_MIB_2: Final[Oid] = (1, 3, 6, 1, 2, 1)
_SNMP_MODULES: Final[Oid] = (1, 3, 6, 1, 6, 3)
_OPEN: Final[tuple[Oid, ...]] = (
    (*_MIB_2, 1),  # system
    (*_MIB_2, 11),  # snmp
    (*_SNMP_MODULES, 1),  # SNMPv2-MIB
    (*_SNMP_MODULES, 10),  # snmpEngine
    (*_SNMP_MODULES, 11),  # snmpMPDStats
    (*_SNMP_MODULES, 12, 1, 4),  # snmpUnavailableContexts
    (*_SNMP_MODULES, 12, 1, 5),  # snmpUnknownContexts
    (*_SNMP_MODULES, 15, 1, 1),  # usmStats
)
_OPEN_BELOW_ROOT: Final[tuple[Oid, ...]] = (
    HEALTH,
    LOG,
    TARGET_ENTRY,
    (*COMMANDS, CommandScalar.QUOTA),
    (*COMMANDS, CommandScalar.KEEP),
)
_CLOSED_BELOW_ROOT: Final[tuple[Oid, ...]] = ((*TARGET_ENTRY, TargetColumn.ADDRESS),)
_COUNTS_BELOW_ROOT: Final[tuple[Oid, ...]] = tuple((*HEALTH, scalar) for scalar in COUNTS_OF_ALL)

_READ: Final = (OperationColumn.FORMER, OperationColumn.FOUND)
"""Values that a broker has reported."""

_OF_REQUESTER: Final = (*_READ, OperationColumn.VALUES)
"""What others than the requester are not shown."""


@dataclass(slots=True, eq=False)
class RestrictedView:
    """What principals of one clearance see.

    Attributes:
        clearance: its number.
        counts: it shows counts of all objects and events (`Clearance.counts`).
        mirror: all that it shows.
        sources: the sources.
        alarms: the alarms.
        ended: the ended objects.
        applications: the sources as network services.
    """

    clearance: int
    counts: bool
    mirror: Mirror
    sources: SourceTable
    alarms: AlarmTable
    ended: EndedObjects
    applications: ApplicationTable | None


@dataclass(slots=True, eq=False)
class _Principal:
    """A principal: what it sees, and what is its own of that."""

    name: str
    mirror: Mirror
    own: Store
    shares_own: bool
    clearance: int | None = None
    operations: Operations | None = None


class ViewSettings(msgspec.Struct, frozen=True):
    """What views need to make their tables.

    Attributes:
        root: the configured root.
        limits: the limits of ended objects and operations of each source.
        row_oid: returns the object identifiers of objects' rows.
        is_stale: see `gateway.snmp.tables.alarms.AlarmTable`.
        is_connected: returns whether the core can be reached.
    """

    root: Oid
    limits: HistoryLimits
    row_oid: RowOid
    is_stale: IsStale
    is_connected: Callable[[], bool]


class RestrictedViews:
    """The views of all principals.

    Args:
        store: what is shown to those who read everything.
        settings: see `ViewSettings`.
        columns: what the views show of objects.
        history: removes rows of ended objects and operations.
        source_name: returns the name of a source.

    Attributes:
        all: the restricted views in use.
        applications: makes applTable in a view.
    """

    def __init__(
        self,
        store: Store,
        settings: ViewSettings,
        columns: ShownColumns,
        history: History,
        source_name: Callable[[int], str],
    ) -> None:
        self._store = store
        self._settings = settings
        self._columns = columns
        self._history = history
        self._source_name = source_name
        self._access = AccessTables()
        self._principals: dict[str, _Principal] = {}
        root = settings.root
        opened = (*_OPEN, *((*root, *oid) for oid in _OPEN_BELOW_ROOT))
        closed = tuple((*root, *oid) for oid in _CLOSED_BELOW_ROOT)
        counts = ((*root, *oid) for oid in _COUNTS_BELOW_ROOT)
        self._open = Subtrees(opened, (*closed, *counts))
        self._with_counts = Subtrees(opened, closed)
        self._nothing = Store()
        serve_restricted_counts(
            self._nothing, root, SourceTable(Store(), root, restricted=True), settings.is_connected
        )
        self.all: tuple[RestrictedView, ...] = ()
        self.applications: Callable[[Store], ApplicationTable] | None = None

    def of(self, name: str, own: Store | None = None, *, shares_own: bool = False) -> Mirror:
        """Return what a principal sees; it stays the same, whatever the policy becomes.

        One that is added while the feed is connected sees little until `settle`.

        Args:
            name: the name of the principal at this front end.
            own: what no other principal sees.
            shares_own: who reads everything sees it in the store, as those of all others.
        """
        principal = self._principals.get(name)
        if principal is None:
            principal = self._add(name, own or Store(), shares_own=shares_own)
        return principal.mirror

    def present(self, name: str) -> MibView:
        """Return what a principal sees at present: nothing of objects, if it is no client any more."""
        principal = self._principals.get(name)
        return self._nothing if principal is None else principal.mirror

    def _add(self, name: str, own: Store, *, shares_own: bool) -> _Principal:
        principal = self._principals[name] = _Principal(name, Mirror(), own, shares_own)
        self._attach(principal)
        return principal

    def keep(self, names: Iterable[str]) -> None:
        """Forget all principals but these. New ones see what is about the gateway itself until `settle`.

        The policy may still be that of before the reload that named them.
        """
        kept = set(names)
        for name in self._principals.keys() - kept:
            principal = self._principals.pop(name)
            principal.mirror.leave()
            if principal.operations is not None:
                self._history.tables.pop(principal.operations.rows, None)
        for name in kept - self._principals.keys():
            self._add(name, Store(), shares_own=False)

    def settle(self) -> None:
        """Show new principals what the present policy shows."""
        access = self._access
        shown = {view.clearance for view in self.all}
        for principal in self._principals.values():
            clearance = access.clearance(f"{FRONT_END}:{principal.name}")
            if principal.clearance is not None or clearance is None:
                continue
            if access.clearances[clearance].unrestricted or clearance in shown:
                principal.mirror.leave()
                principal.clearance = clearance
                self._attach(principal)

    def policy_changed(self, access: AccessTables) -> None:
        """Make all views again, empty: objects, sources, alarms and operations are shown again."""
        self._access = access
        for principal in self._principals.values():
            principal.mirror.leave()
            principal.clearance = access.clearance(f"{FRONT_END}:{principal.name}")
        for view in self.all:
            view.mirror.leave()
            self._history.tables.pop(view.ended.rows, None)
        restricted = {
            principal.clearance: None
            for principal in self._principals.values()
            if principal.clearance is not None and not access.clearances[principal.clearance].unrestricted
        }
        # Also of those whom a reload adds, and the policy does not name.
        others = access.clearance(f"{FRONT_END}:")
        if others is not None and not access.clearances[others].unrestricted:
            restricted[others] = None
        self.all = tuple(self._made(clearance) for clearance in restricted)
        self._columns.change(access, {view.clearance: view.mirror for view in self.all})
        for principal in self._principals.values():
            self._attach(principal)

    def sees_source(self, name: str, source: str) -> bool:
        """Return whether a source exists for a principal."""
        clearance = self._access.clearance(f"{FRONT_END}:{name}") if self._access.clearances else None
        return clearance is not None and self._access.sees_source(clearance, source)

    # ---- records of the feed ----------------------------------------------------------------------------

    def source_changed(self, record: SourceRecord) -> None:
        """Show a source."""
        for view in self.all:
            if self._access.sees_source(view.clearance, record.name):
                view.sources.show(record)

    def source_removed(self, number: int) -> None:
        """Remove a source with its alarms."""
        for view in self.all:
            view.alarms.forget_source(number)
            if number in tuple(view.sources):
                view.sources.remove(number)

    def alarm_changed(self, record: AlarmRecord, row: Oid, generation: int) -> None:
        """Show an alarm, or its end; a text that quotes what is not read is the condition."""
        name, access = self._source_name(record.source) or GATEWAY_NAME, self._access
        for view in self.all:
            shown = shown_alarm(access, view.clearance, record, name)
            if shown is not None:
                view.alarms.show(shown, row, generation)
            elif record.cleared and view.alarms.knows(record.number):
                view.alarms.show(record, row, generation)

    def object_ended(self, record: DeleteRecord, class_name: str, generation: int) -> None:
        """Show the end of an object."""
        if not self.all:
            return
        source = self._source_name(record.source)
        vector = self._access.vector(record.class_number, source, record.stable_name)
        access = self._access.of_class(record.class_number)
        for view in self.all:
            elements = vector[view.clearance]
            if elements and access is not None:
                is_named = access.names(elements)
                view.ended.object_ended(record, class_name, generation, is_named=is_named)

    def operation_changed(self, record: OperationRecord, generation: int) -> None:
        """Show an operation to those who see it, without values that a broker has reported.

        Results of a method are shown to who called it; what others have set or passed is not shown, nor the
        text of such a setting, which may quote any value.
        """
        source, requester = self._source_name(record.source), str(record.principal)
        link = ObjectLink(record.class_name, record.row, record.stable_name)
        for each in self._principals.values():
            principal = f"{FRONT_END}:{each.name}"
            if each.operations is None or each.clearance is None:
                continue
            much = self._access.shown_operation(each.clearance, principal, requester, source, link)
            if much is OperationShown.NOTHING:
                continue
            shown = record.without_object() if much is OperationShown.WITHOUT_OBJECT else record
            is_call = record.kind is OperationKind.INVOKE
            if principal == requester:
                shown = self._with_shown_results(shown, each.clearance)
                hidden: tuple[OperationColumn, ...] = _READ[:1] if is_call else _READ
            else:
                hidden = _OF_REQUESTER if is_call else (*_OF_REQUESTER, OperationColumn.TEXT)
            each.operations.operation_changed(shown, generation, hidden)

    def of_requester(self, record: OperationRecord) -> OperationRecord:
        """Return the record of an operation with the results that its requester may see."""
        requester = self._principals.get(record.principal.name)
        clearance = None if requester is None else requester.clearance
        if clearance is None:
            return msgspec.structs.replace(record, found={}) if any(links_in(record.found)) else record
        return self._with_shown_results(record, clearance)

    def _with_shown_results(self, record: OperationRecord, clearance: int) -> OperationRecord:
        """Return a record without results that refer to objects whose names are not read."""
        source, reads = self._source_name(record.source), self._access.reads_named
        found = {
            name: value
            for name, value in record.found.items()
            if all(reads(clearance, source, link) for link in links_in(value))
        }
        return record if len(found) == len(record.found) else msgspec.structs.replace(record, found=found)

    def show_applications(self, records: Iterable[SourceRecord], *, connected: bool) -> None:
        """Bring applTable of each view up to date."""
        records = tuple(records)
        for view in self.all:
            if view.applications is not None:
                seen = [each for each in records if self._access.sees_source(view.clearance, each.name)]
                view.applications.show(seen, connected=connected)

    # ---- making views -------------------------------------------------------------------------------------

    def _made(self, clearance: int) -> RestrictedView:
        settings, mirror = self._settings, Mirror()
        counts = self._access.clearances[clearance].counts
        sources = SourceTable(mirror, settings.root, restricted=not counts)
        if not counts:
            serve_restricted_counts(mirror, settings.root, sources, settings.is_connected)
        view = RestrictedView(
            clearance,
            counts,
            mirror,
            sources,
            AlarmTable(mirror, settings.root, settings.is_stale),
            EndedObjects(mirror, settings.root, settings.row_oid, settings.limits),
            None if self.applications is None else self.applications(mirror),
        )
        mirror.follow(self._store, self._is_open_with_counts if counts else self._is_open)
        self._history.tables[view.ended.rows] = None
        return view

    def _attach(self, principal: _Principal) -> None:
        """Show a principal what its clearance shows; without one, what is about the gateway itself."""
        if principal.operations is not None:
            self._history.tables.pop(principal.operations.rows, None)
            principal.operations = None
        mirror, clearance = principal.mirror, principal.clearance
        if clearance is None:
            mirror.follow(self._nothing, everything)
            mirror.follow(self._store, self._is_open)
            return
        if self._access.clearances[clearance].unrestricted:
            if not principal.shares_own:
                mirror.follow(principal.own, everything)
            mirror.follow(self._store, everything)
            return
        mirror.follow(principal.own, everything)
        operations, settings = Store(), self._settings
        principal.operations = Operations(operations, settings.root, settings.row_oid, settings.limits)
        self._history.tables[principal.operations.rows] = None
        mirror.follow(operations, everything)
        mirror.follow(next(view.mirror for view in self.all if view.clearance == clearance), everything)

    def _is_open(self, region: Region) -> bool:
        return region.prefix in self._open

    def _is_open_with_counts(self, region: Region) -> bool:
        return region.prefix in self._with_counts
