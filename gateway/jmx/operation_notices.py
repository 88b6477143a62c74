"""Operations that have ended: a notification of the Gateway MBean for each, and a line for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gateway.feed.operations import OperationKind, OperationRecord, OperationState
from gateway.feed.values import FeedValue
from gateway.jmx import types
from gateway.jmx.commands import AttributeType, Emit, JmxValue
from gateway.jmx.names import DOMAIN

OPERATION: Final = f"{DOMAIN}.operation"
"""What the types of these notifications begin with; ``.set``, ``.invoke`` or ``.read`` follows."""

OPERATION_ITEMS: Final = (
    ("operationId", AttributeType.STRING),
    ("kind", AttributeType.STRING),
    ("state", AttributeType.STRING),
    ("outcome", AttributeType.STRING),
    ("principal", AttributeType.STRING),
    ("origin", AttributeType.STRING),
    ("source", AttributeType.STRING),
    ("class", AttributeType.STRING),
    ("object", AttributeType.STRING),
    ("objectName", AttributeType.OBJECT_NAME),
    ("method", AttributeType.STRING),
    ("values", AttributeType.MAP),
    ("former", AttributeType.MAP),
    ("found", AttributeType.MAP),
    ("element", AttributeType.STRING),
    ("code", AttributeType.LONG),
    ("text", AttributeType.STRING),
    ("began", AttributeType.DATE),
    ("ended", AttributeType.DATE),
    ("attempts", AttributeType.LONG),
)
"""The user data of each."""


MAX_TOLD: Final = 10_000
"""The states of so many operations are remembered, unless snapshots contain more."""


def operation_notice(record: OperationRecord, emitter: int, source: str, object_name: str | None) -> Emit:
    """The notification of an operation that has ended.

    Args:
        record: what the core says of it.
        emitter: the MBean that emits it.
        source: name of the source; empty where it is not known.
        object_name: of the object's MBean, where there is one.
    """
    values: tuple[JmxValue, ...] = (
        types.text(record.operation_id),
        record.kind.value,
        record.state.value,
        None if record.outcome is None else record.outcome.value,
        types.text(str(record.principal)),
        types.text(record.principal.origin) or None,
        types.text(source) or None,
        types.text(record.class_name),
        types.text(record.stable_name) or None,
        object_name,
        types.text(record.method) or None,
        _map(record.values),
        _map(record.former),
        _map(record.found),
        types.text(record.element) or None,
        record.code,
        types.text(record.text),
        types.time(record.began),
        types.time(record.ended),
        record.attempts,
    )
    return Emit(
        (emitter,),
        f"{OPERATION}.{record.kind.value}",
        f"{types.text(record.leaf_name)}: {operation_line(record)}",
        types.time(record.ended) or 0,
        record.number,
        tuple((name, type_, value) for (name, type_), value in zip(OPERATION_ITEMS, values, strict=True)),
    )


def operation_line(record: OperationRecord) -> str:
    """One line on an operation: what came of it, what it was, for whom, when, and why."""
    what = record.kind.value
    if record.kind is OperationKind.SET:
        what += f" {', '.join((*record.values, *record.absent))}"
    elif record.kind is OperationKind.INVOKE:
        what += f" {record.method}"
    outcome = "under way" if record.outcome is None else record.outcome.value
    why = f": {record.text}" if record.text else ""
    code = "" if record.code is None else f" (code {record.code})"
    when = types.moment(record.ended or record.began)
    return types.text(f"{outcome}: {what} by {record.principal} at {when}{why}{code} [{record.operation_id}]")


def _map(values: Mapping[str, FeedValue]) -> JmxValue:
    try:
        return types.map_value(values)
    except types.UnfitValueError:
        return None


class OperationCursor:
    """Which operations were sent to clients, and in which state.

    It outlives virtual machines and projections. A snapshot repeats the last operations. Those that were sent
    are passed over. Those in the first snapshot of this process ended before a client could listen, and are
    only remembered.

    Args:
        most: how many are remembered: more than a snapshot contains.
    """

    def __init__(self, most: int = MAX_TOLD) -> None:
        self._most = most
        self._epoch = 0
        self._told: dict[int, OperationState] = {}
        self._forgotten = 0
        self._heard_snapshot = False

    def is_new(self, epoch: int, record: OperationRecord, *, repeated: bool) -> bool:
        """Whether the state of an operation is to be sent; it counts as sent from then on.

        Args:
            epoch: of the core.
            record: of the operation; while it is under way, it is not sent.
            repeated: whether it is part of a snapshot.
        """
        if record.outcome is None:
            return False
        if epoch != self._epoch:
            self._epoch, self._forgotten = epoch, 0
            self._told.clear()
        if record.number <= self._forgotten or self._told.get(record.number) in (
            record.state,
            OperationState.SETTLED,
        ):
            return False
        self._told[record.number] = record.state
        if len(self._told) > self._most:
            forgotten = next(iter(self._told))
            self._forgotten = max(self._forgotten, forgotten)
            del self._told[forgotten]
        return self._heard_snapshot or not repeated

    def snapshot_ended(self) -> None:
        """Note that a snapshot was received completely."""
        self._heard_snapshot = True
