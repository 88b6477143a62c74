"""SET in two phases (RFC 3416 section 4.2.5): all variables are tested, then all are changed, each SET once.

Variables of this process change at once (`gateway.snmp.written_values`); the core sets those of objects.
A SET of one object and nothing else is one request to the core, which tests and changes; its answer names
the phase that has failed. For any other SET the core is first asked to check all objects, because nothing may
change unless everything passes. The module has no socket: callers await the answers of the core.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import msgspec

from gateway.feed.operations import OperationAnswer, OperationRequest, SetElements
from gateway.feed.values import FeedValue, ObjectLink
from gateway.model.operations import Outcome, Principal
from gateway.model.schema import Access
from gateway.snmp import message
from gateway.snmp.ber import Oid
from gateway.snmp.refused_sets import RefusedSets
from gateway.snmp.standard_groups import SnmpCounters
from gateway.snmp.syntax import WRITABLE_SYNTAXES
from gateway.snmp.tables.classes import ManagedObjects, Target, Variable
from gateway.snmp.written_values import (
    COMMIT_STATUSES,
    TEST_STATUSES,
    AdvisoryLock,
    Assignment,
    Rejected,
    WritableTable,
    WrittenValueError,
    may_differ,
    written_value,
)

KEEP: Final = 60 * 10**9
"""Nanoseconds for which a SET is remembered after its answer."""

MAX_REMEMBERED: Final = 4096
"""The maximum number of SETs remembered for all managers; further ones are refused until there is room."""


@dataclass(frozen=True, slots=True)
class Ended:
    """The end of a SET: ``refusal`` is ``None`` where it was carried out."""

    refusal: Rejected | None
    ended: int


class Retransmissions:
    """The remembered SETs, by a key that a SET shares with its retransmissions, and with no other SET.

    Args:
        limit: the maximum number of remembered SETs.
    """

    def __init__(self, limit: int = MAX_REMEMBERED) -> None:
        self._limit = limit
        self._running: set[bytes] = set()
        self._ended: dict[bytes, Ended] = {}  # in the order of their ends

    def __len__(self) -> int:
        """Return the number of remembered SETs."""
        return len(self._running) + len(self._ended)

    def is_running(self, key: bytes) -> bool:
        """Return whether a SET is being carried out: its answer answers the retransmission, too."""
        return key in self._running

    def ended(self, key: bytes, now: int) -> Ended | None:
        """Return the end of a SET that ended within `KEEP` before ``now`` (nanoseconds), if it did."""
        self._forget(now)
        return self._ended.get(key)

    def begin(self, key: bytes, now: int) -> bool:
        """Remember a SET that begins; return ``False``, and remember nothing, where there is no room."""
        self._forget(now)
        # The oldest is not dropped instead: its retransmission would then be carried out as a second SET.
        if len(self) >= self._limit:
            return False
        self._running.add(key)
        return True

    def end(self, key: bytes, refusal: Rejected | None, now: int) -> None:
        """Remember the end of a SET."""
        self._running.discard(key)
        self._ended[key] = Ended(refusal, now)

    def _forget(self, now: int) -> None:
        while self._ended:
            key, oldest = next(iter(self._ended.items()))
            if now - oldest.ended < KEEP:
                return
            del self._ended[key]


MAX_RUNNING: Final = 64
"""The maximum number of SETs that wait for the core; a further one is answered resourceUnavailable."""

_ALL_SENT: Final = frozenset({Outcome.APPLIED_DIFFERENTLY, Outcome.NOT_APPLIED})
"""Outcomes of changes that were reported as done: every element of the set was sent."""

Ask: TypeAlias = Callable[[OperationRequest], Awaitable[OperationAnswer]]
"""Asks the core (`gateway.feed.client.FeedLink.ask`); never raises for faults of the connection."""


class SetSettings(msgspec.Struct, frozen=True):
    """The settings of SETs.

    Attributes:
        timeout: nanoseconds that the core has for each object.
        best_effort: accept SETs of several objects, and of objects and variables of this process.
        seen: returns those of the objects that a writer sees, by its name; without it all see all.
    """

    timeout: int
    best_effort: bool = False
    seen: Callable[[str], ManagedObjects] | None = None


class SetResult(msgspec.Struct, frozen=True):
    """The outcome of a SET request.

    Attributes:
        refusal: ``None`` for noError.
        is_repeated: whether this is the outcome of an earlier SET, and nothing was done now.
    """

    refusal: Rejected | None = None
    is_repeated: bool = False


class _RefusedError(Exception):
    def __init__(self, status: int, index: int) -> None:
        self.refusal = Rejected(status, index)
        super().__init__(status, index)


class _ObjectChange(msgspec.Struct):
    """The change of one object by a SET: values by element, and the place of each in the request."""

    target: Target
    index: int
    values: dict[str, FeedValue | None] = msgspec.field(default_factory=dict)
    indexes: dict[str, int] = msgspec.field(default_factory=dict)


class _Plan(msgspec.Struct, frozen=True):
    """A SET whose syntax is valid; ``serials`` are its assignments to the advisory lock."""

    serials: Sequence[Assignment]
    local: Sequence[tuple[WritableTable, Sequence[Assignment]]]
    changes: Sequence[_ObjectChange]

    @property
    def only_change(self) -> _ObjectChange | None:
        """The change of the only object of the SET, if the SET has no other variables."""
        is_alone = len(self.changes) == 1 and not self.local and not self.serials
        return self.changes[0] if is_alone else None


class SetRequests:
    """The execution of SETs, each of them once.

    Args:
        objects: the objects whose variables can be set.
        tables: the tables of variables of this process.
        ask: asks the core.
        counters: ``set_variables``, ``set_retransmissions`` and ``sets_without_room`` are counted here.
        settings: the settings of SETs.
        clock: returns nanoseconds that never go back.
        lock: the advisory lock, which any SET may name; by default a new one.
        refused: reports SETs that fail their test, where the core does not record that itself.
    """

    def __init__(
        self,
        objects: ManagedObjects,
        tables: Sequence[WritableTable],
        ask: Ask,
        counters: SnmpCounters,
        settings: SetSettings,
        clock: Callable[[], int],
        lock: AdvisoryLock | None = None,
        refused: RefusedSets | None = None,
    ) -> None:
        self._objects = objects
        self._tables = tuple(tables)
        self._ask = ask
        self._counters = counters
        self._settings = settings
        self._clock = clock
        self._lock = lock or AdvisoryLock(0)
        self._refused = refused or RefusedSets(objects)
        self._lately = Retransmissions()
        self._running = 0

    @property
    def running(self) -> int:
        """The number of SETs that wait for the core."""
        return self._running

    @property
    def remembered(self) -> int:
        """The number of SETs that are remembered."""
        return len(self._lately)

    def begin(
        self, principal: Principal, content: bytes, assignments: Sequence[Assignment]
    ) -> SetResult | Coroutine[Any, Any, SetResult] | None:
        """Test a SET, and carry it out.

        Args:
            principal: the writer; the origin is address and port.
            content: the PDU's content with the request id; with the principal it identifies a retransmission.
            assignments: its variable bindings.

        Returns:
            The outcome; or a coroutine that returns it, where the core has to be asked; or ``None`` for a
            retransmission of a SET that is not answered yet: the answer to that one answers both.
        """
        # By address and port, too: a tool that numbers its only request 1 is another one each time.
        key = hashlib.blake2b(
            f"{principal}\0{principal.origin}\0".encode() + content, digest_size=16
        ).digest()
        now = self._clock()
        if self._lately.is_running(key):
            self._counters.set_retransmissions += 1
            return None
        ended = self._lately.ended(key, now)
        if ended is not None:
            self._counters.set_retransmissions += 1
            return SetResult(ended.refusal, is_repeated=True)
        try:
            # A SET that fails its test is not remembered: it changed nothing, so a retransmission may be
            # tested again.
            seen = self._settings.seen
            objects = self._objects if seen is None else seen(principal.name)
            plan = self._plan(objects, assignments)
            self._test_local(principal, plan)
        except _RefusedError as refused:
            self._refused.tested(principal, assignments, refused.refusal)
            return SetResult(refused.refusal)
        if self._running >= MAX_RUNNING or not self._lately.begin(key, now):
            self._counters.sets_without_room += 1
            no_room = Rejected(message.RESOURCE_UNAVAILABLE, 1)
            self._refused.tested(principal, assignments, no_room)
            return SetResult(no_room)
        if plan.changes:
            self._running += 1
            return self._remembered(key, principal, plan, assignments)
        refusal: Rejected | None = Rejected(message.COMMIT_FAILED, 1)
        try:
            self._commit_local(principal, plan, key.hex())
            refusal = None
        finally:
            self._lately.end(key, refusal, self._clock())
        self._counters.set_variables += len(assignments)
        return SetResult()

    # ---- what is asked for ----------------------------------------------------------------------------

    def _plan(self, objects: ManagedObjects, assignments: Sequence[Assignment]) -> _Plan:
        """Return the plan of a SET. Raises `_RefusedError`."""
        local: dict[int, list[Assignment]] = {}
        changes: dict[tuple[int, str, int], _ObjectChange] = {}
        second: Assignment | None = None  # the first that asks for a second change
        serials: list[Assignment] = []
        for assignment in assignments:
            if assignment.name[: len(self._lock.prefix)] == self._lock.prefix:
                serials.append(assignment)
                continue
            place = self._place(assignment.name)
            if place is not None:
                is_new = bool(changes) and not local
                local.setdefault(place, []).append(assignment)
            else:
                known = len(changes)
                self._add(objects, changes, assignment)
                is_new = len(changes) > known and bool(known or local)
            if is_new and second is None:
                second = assignment
        if second is not None and not self._settings.best_effort:
            # By itself it could be set: "presently inconsistent or otherwise unable to be assigned".
            raise _RefusedError(message.INCONSISTENT_VALUE, second.index)
        tables = [(self._tables[place], found) for place, found in local.items()]
        return _Plan(serials, tables, list(changes.values()))

    def _place(self, name: Oid) -> int | None:
        """Return the place of the table of this process that has the variable, if any."""
        for place, table in enumerate(self._tables):
            if name[: len(table.prefix)] == table.prefix:
                return place
        return None

    def _add(
        self,
        objects: ManagedObjects,
        changes: dict[tuple[int, str, int], _ObjectChange],
        assignment: Assignment,
    ) -> None:
        """Add one variable of an object. Raises `_RefusedError`."""
        variable = objects.variable(assignment.name)
        if variable is None or variable.entry is None or variable.entry.syntax not in WRITABLE_SYNTAXES:
            raise _RefusedError(message.NOT_WRITABLE, assignment.index)
        target, element = variable.target, variable.element
        if target.schema is None:
            # The object could come back: RFC 3416 section 4.2.5, point 8, and not notWritable, which would be
            # for ever.
            raise _RefusedError(message.INCONSISTENT_NAME, assignment.index)
        if element is None or element.access is not Access.READ_WRITE:
            raise _RefusedError(message.NOT_WRITABLE, assignment.index)
        change = changes.setdefault(
            (target.source, target.class_name, target.row), _ObjectChange(target, assignment.index)
        )
        if _is_written_back(variable, assignment.value):
            return
        try:
            value = written_value(
                assignment.value, element, variable.entry, lambda name: _link(objects, name, target.source)
            )
        except WrittenValueError as error:
            raise _RefusedError(error.status, assignment.index) from None
        if element.name in change.values and change.values[element.name] != value:
            raise _RefusedError(message.INCONSISTENT_VALUE, assignment.index)
        change.values[element.name] = value
        # The first binding is named in errors where one element is set twice to the same value.
        change.indexes.setdefault(element.name, assignment.index)

    # ---- what is done ---------------------------------------------------------------------------------

    def _test_local(self, principal: Principal, plan: _Plan) -> None:
        refusal = self._lock.test(plan.serials)
        if refusal is not None:
            raise _RefusedError(refusal.status, refusal.index)
        for table, assignments in plan.local:
            refusal = table.test(principal, assignments)
            if refusal is not None:
                raise _RefusedError(refusal.status, refusal.index)

    def _commit_local(self, principal: Principal, plan: _Plan, identity: str) -> None:
        self._lock.commit(plan.serials)
        for table, assignments in plan.local:
            table.commit(principal, assignments, identity)

    async def _remembered(
        self, key: bytes, principal: Principal, plan: _Plan, assignments: Sequence[Assignment]
    ) -> SetResult:
        refusal: Rejected | None = Rejected(message.UNDO_FAILED, 0)  # unless it comes to an end
        try:
            change = plan.only_change
            if change is not None:
                # By this reference the core knows the SET again, also from a process that was restarted
                # meanwhile.
                await self._set_one(principal, change, assignments, key.hex())
            else:
                await self._test(principal, plan, assignments, key.hex())
                await self._carry_out(principal, plan, key.hex())
            refusal = None
            self._counters.set_variables += len(assignments)
        except _RefusedError as refused:
            refusal = refused.refusal
        finally:
            self._running -= 1
            self._lately.end(key, refusal, self._clock())
        return SetResult(refusal)

    async def _set_one(
        self, principal: Principal, change: _ObjectChange, assignments: Sequence[Assignment], identity: str
    ) -> None:
        """Have the core test and change one object. Raises `_RefusedError`."""
        if not change.values:
            return
        request = self._request(principal, change, f"{identity}.0")
        # One round trip instead of a check and a change, between which the object could change.
        answer = await self._ask(msgspec.structs.replace(request, reports_failed_check=True))
        if answer.has_failed_check:
            raise self._test_failed(principal, change, assignments, answer)
        failure = self._commit_failure(change, answer)
        if failure is not None:
            raise failure

    def _test_failed(
        self,
        principal: Principal,
        change: _ObjectChange,
        assignments: Sequence[Assignment],
        answer: OperationAnswer,
    ) -> _RefusedError:
        """Return the error of a failed check, and record it unless the core has done so."""
        status = TEST_STATUSES.get(answer.outcome, message.GEN_ERR)
        error = _RefusedError(status, change.indexes.get(answer.element, change.index))
        if answer.outcome is not Outcome.REFUSED:  # which the core records, of a check too
            self._refused.tested(principal, assignments, error.refusal, answer.outcome, answer.text)
        return error

    async def _test(
        self, principal: Principal, plan: _Plan, assignments: Sequence[Assignment], identity: str
    ) -> None:
        """Check all objects, and the variables of this process once more. Raises `_RefusedError`."""
        for place, change in enumerate(change for change in plan.changes if change.values):
            reference = f"{identity}.{place}"
            answer = await self._ask(self._request(principal, change, reference, check_only=True))
            if answer.outcome is not Outcome.APPLIED:
                raise self._test_failed(principal, change, assignments, answer)
        # The core took its time: meanwhile another SET may have changed what lives here.
        self._test_local(principal, plan)

    async def _carry_out(self, principal: Principal, plan: _Plan, identity: str) -> None:
        """Change the variables of this process, and all objects. Raises `_RefusedError`.

        A killed process of this agent may have begun the same SET: the core knows it by its reference.
        """
        # First what cannot fail.
        self._commit_local(principal, plan, identity)
        for place, change in enumerate(change for change in plan.changes if change.values):
            answer = await self._ask(self._request(principal, change, f"{identity}.{place}"))
            failure = self._commit_failure(change, answer)
            if failure is not None:
                # commitFailed says that nothing has changed: then the lock must not have moved either.
                if failure.refusal.status == message.COMMIT_FAILED and not plan.local and place == 0:
                    self._lock.undo(plan.serials)  # nothing at all has changed
                raise failure

    def _commit_failure(self, change: _ObjectChange, answer: OperationAnswer) -> _RefusedError | None:
        """Return the error of an attempt to change an object; ``None`` where it has the requested values."""
        status = self._commit_status(change, answer)
        if status == message.NO_ERROR:
            return None
        if status == message.UNDO_FAILED:
            return _RefusedError(status, 0)  # RFC 3416 section 4.2.5
        return _RefusedError(status, change.indexes.get(answer.element, change.index))

    def _commit_status(self, change: _ObjectChange, answer: OperationAnswer) -> int:
        """Return the status of the outcome, but undoFailed for commitFailed where something has changed."""
        status = COMMIT_STATUSES[answer.outcome]
        if status == message.COMMIT_FAILED and _is_partly_done(change.values, answer):
            return message.UNDO_FAILED
        return status

    def _request(
        self, principal: Principal, change: _ObjectChange, reference: str, *, check_only: bool = False
    ) -> OperationRequest:
        target = change.target
        return OperationRequest(
            request=0,
            principal=principal,
            source=target.source,
            class_name=target.class_name,
            row=target.row,
            action=SetElements(change.values),
            timeout=self._settings.timeout,
            check_only=check_only,
            reference=reference,
            ends=target.ends,
            stable_name=target.stable_name,
        )


def _is_written_back(variable: Variable, value: bytes) -> bool:
    """Return whether a value is the shown form of a longer or finer one: then nothing is to be changed."""
    entry, shown = variable.entry, variable.shown
    return entry is not None and value == shown and may_differ(entry, value, variable.whole_octets)


def _is_partly_done(values: Mapping[str, FeedValue | None], answer: OperationAnswer) -> bool:
    """Return whether an element other than the failed one was found with its requested value.

    It is one before the failed element; or one after it, too, where all were sent, as in a single request of
    the dialect. An element that was to have no value, and of which nothing is known, counts as changed if
    anything was tried.
    """
    names = list(values)
    if answer.outcome is Outcome.SOURCE_DOWN:
        return False
    if answer.outcome in _ALL_SENT or (answer.values and answer.element not in values):
        # All were sent in one request: it may have changed an element behind the one that failed.
        others = [name for name in names if name != answer.element]
    else:
        others = names[: names.index(answer.element)] if answer.element in values else []
    found = {name: answer.values.get(name) for name in others}
    return any(
        values[name] == one and (one is not None or bool(answer.operation_id))  # else nothing was tried
        for name, one in found.items()
    )


def _link(objects: ManagedObjects, instance: Oid, source: int) -> ObjectLink | None:
    target = objects.target(instance)
    # A reference leads to an object of the same source: another one's agent does not know it.
    if target is None or target.schema is None or target.source != source:
        return None
    return ObjectLink(target.class_name, target.row, target.stable_name)
