"""Records of operations: principal, request, object and outcome."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from uuid import UUID

import msgspec

from gateway.feed.audit_rate_limiter import CountedAttempts
from gateway.feed.operations import (
    Action,
    InvokeMethod,
    OperationKind,
    OperationRecord,
    OperationRequest,
    OperationState,
    ReadFresh,
    SetElements,
    kind_of,
)
from gateway.feed.values import FeedValue, ObjectLink
from gateway.model.operations import Outcome
from gateway.model.secrets import MASK, SecretRules, mask_uris
from gateway.model.texts import one_line
from gateway.model.values import Reference
from gateway.operations.operation import Ended, Operation
from gateway.operations.planning import Plan, Rejected, Target

MAX_LENGTH: Final = 2048
"""The maximum length of one value in a record, in characters; the rest is counted."""

MAX_VALUES: Final = 100
"""The maximum number of values of one operation in a record."""

MAX_DEPTH: Final = 32

_STRANGE: Final = "?"


class Redaction:
    """Masks secrets in values by name.

    Args:
        secrets: rules of secret names, and of secrets inside values.
    """

    def __init__(self, secrets: SecretRules) -> None:
        self._secrets = secrets

    def masked(
        self, values: Mapping[str, FeedValue | None], secret: frozenset[str] = frozenset()
    ) -> dict[str, FeedValue]:
        """Return the values that are present, whole; a secret is ``***``.

        Args:
            values: the values by name.
            secret: names that are secret beside those that the rules know.
        """
        return {
            name: MASK if name in secret or self._secrets.hides(name) else self._masked(value)
            for name, value in values.items()
            if value is not None
        }

    def recordable(
        self, values: Mapping[str, FeedValue | None], secret: frozenset[str] = frozenset()
    ) -> dict[str, FeedValue]:
        """Return the masked values, as many and as long as a record may have."""
        # Masked before it is cut: a part of a password must not be left over.
        masked = self.masked(values, secret)
        return {name: _cut(masked[name]) for name in list(masked)[:MAX_VALUES]}

    def _masked(self, value: FeedValue) -> FeedValue:
        if isinstance(value, ObjectLink):
            return value
        # A refused request is recorded too, and nothing of its values was checked: what is no value is not
        # walked through.
        return self._secrets.masked(value) if _is_plain(value, MAX_DEPTH) else _STRANGE


def _cut(value: FeedValue) -> FeedValue:
    if isinstance(value, bool | int | float | UUID | ObjectLink | Reference):
        return value
    text = value if isinstance(value, str) else repr(value)
    return value if len(text) <= MAX_LENGTH else f"{text[:MAX_LENGTH]}… ({len(text)} characters)"


def _is_plain(value: object, depth: int) -> bool:
    """Return whether it is a value at all: a front end may have sent anything that msgpack has."""
    if isinstance(value, Mapping | tuple) and depth == 0:
        return False
    if isinstance(value, Mapping):
        return all(isinstance(key, str) and _is_plain(inner, depth - 1) for key, inner in value.items())
    if isinstance(value, tuple):
        return all(_is_plain(inner, depth - 1) for inner in value)
    return isinstance(value, bool | int | float | str | bytes | UUID | ObjectLink | Reference)


MAX_NAME: Final = 255
"""The maximum length of a class's name, in characters: a front end may send any."""

MAX_REFERENCE: Final = 64
"""The maximum length of the reference of a request, in characters."""

MAX_TEXT: Final = 1000
"""The maximum length of a text, in characters; an agent may send anything."""


WITHHELD: Final = "?"
"""Stands for a value that is not recorded."""


class Audit:
    """Makes the records, with secrets masked.

    Args:
        gateway: the gateway's uuid, text.
        epoch: boot of the core.
        values: masks values.
    """

    def __init__(self, gateway: str, epoch: int, values: Redaction) -> None:
        self._gateway = gateway
        self._epoch = epoch
        self._values = values

    def begun(
        self, number: int, request: OperationRequest, operation: Operation, now: int
    ) -> OperationRecord:
        """Return the record of an operation that begins."""
        plan = operation.plan
        return msgspec.structs.replace(
            self._record(number, request, plan.target, OperationState.BEGUN, now),
            values=self._values.recordable(plan.asked, plan.secret_arguments),
            previous=self._values.recordable(operation.former),
        )

    def refused(
        self, number: int, request: OperationRequest, target: Target | None, refusal: Rejected, now: int
    ) -> OperationRecord:
        """Return the record of a request that was refused."""
        asked: dict[str, FeedValue | None] = {}
        match request.action:
            case SetElements(values) if request.refusal is not None:  # front ends may leave these out
                asked = {name: WITHHELD if value is None else value for name, value in values.items()}
            case SetElements(values):
                asked = dict(values)
            case InvokeMethod(_, arguments):  # which of these are secret is known of known methods only
                asked = dict.fromkeys(arguments, WITHHELD)
        return msgspec.structs.replace(
            self._record(number, request, target, OperationState.ENDED, now),
            values=self._values.recordable(asked),
            outcome=refusal.outcome,
            element=refusal.element,
            text=_recorded(refusal.text),
            ended=now,
        )

    def counted(self, number: int, attempts: CountedAttempts, now: int) -> OperationRecord:
        """Return the record of refused attempts that were too many for one record each."""
        outcomes = ", ".join(f"{count} {outcome.value}" for outcome, count in attempts.outcomes)
        return OperationRecord(
            number=number,
            operation_id=self._operation_id(number),
            kind=attempts.kind,
            state=OperationState.ENDED,
            principal=attempts.principal,
            source=0,
            class_name="",
            row=0,
            stable_name="",
            leaf_name="",
            outcome=attempts.outcomes[0][0],
            text=_recorded(
                f"{attempts.attempts} more attempts within a minute, not recorded one by one: {outcomes}; "
                f"the last: {attempts.text}"
            ),
            began=attempts.since,
            ended=now,
            attempts=attempts.attempts,
        )

    def ended(
        self, begun: OperationRecord, operation: Operation, ended: Ended, trouble: str, now: int
    ) -> OperationRecord:
        """Return the record of an outcome; ``trouble`` is that of the event log when the operation began."""
        return msgspec.structs.replace(
            begun,
            state=OperationState.ENDED,
            previous=self._values.recordable(operation.former),
            found=self.found(operation.plan, ended),
            outcome=ended.outcome,
            element=ended.element,
            code=ended.code,
            text=_recorded("; ".join(filter(None, (ended.text, trouble)))),
            ended=now,
        )

    def settled(
        self, unknown: OperationRecord, operation: Operation, ended: Ended, now: int
    ) -> OperationRecord:
        """Return the record of an outcome that was unknown until now."""
        return msgspec.structs.replace(
            unknown,
            state=OperationState.SETTLED,
            found=self.found(operation.plan, ended) or unknown.found,
            outcome=ended.outcome,
            element=ended.element,
            code=ended.code,
            text=_recorded(ended.text),
            ended=now,
        )

    def given_up(self, number: int, begun: OperationRecord, now: int) -> OperationRecord:
        """Return the record of an operation that an earlier core began and did not finish."""
        return msgspec.structs.replace(
            begun,
            number=number,
            state=OperationState.ENDED,
            outcome=Outcome.UNKNOWN,
            text="the gateway's core ended before it did: it may have been carried out",
            ended=now,
        )

    def found(self, plan: Plan, ended: Ended) -> dict[str, FeedValue]:
        """Return the values found, for a record; none for a reading, whose object has records of its own."""
        if plan.kind is OperationKind.READ:
            return {}
        return self._values.recordable(ended.values, plan.secret_arguments)

    def shown(self, plan: Plan, ended: Ended) -> dict[str, FeedValue]:
        """Return the values found, for the answer."""
        return self._values.masked(ended.values, plan.secret_arguments)

    def _record(
        self,
        number: int,
        request: OperationRequest,
        target: Target | None,
        state: OperationState,
        now: int,
    ) -> OperationRecord:
        action = request.action
        return OperationRecord(
            number=number,
            operation_id=self._operation_id(number),
            kind=kind_of(action),
            state=state,
            principal=request.principal,
            source=request.source,
            # The name of what is not there is any text that a client sent.
            class_name=request.class_name[:MAX_NAME],
            row=target.row if target is not None else request.row if request.stable_name else 0,
            stable_name=request.stable_name[:MAX_LENGTH] if target is None else target.stable_name,
            leaf_name="" if target is None else target.leaf_name,
            method=action.method if isinstance(action, InvokeMethod) else "",
            began=now,
            reference=request.reference[:MAX_REFERENCE],
            absent=() if request.refusal is not None else _absent(action),
        )

    def _operation_id(self, number: int) -> str:
        return f"{self._gateway}.{self._epoch}.o{number}"


def _recorded(text: str) -> str:
    """Return the text of an agent, fit for a record."""
    return one_line(mask_uris(text), MAX_TEXT)


def _absent(action: Action) -> tuple[str, ...]:
    """Return the names of values that are to be removed, and of absent arguments."""
    match action:
        case SetElements(values) | InvokeMethod(_, values):
            return tuple(name for name, value in values.items() if value is None)[:MAX_VALUES]
        case ReadFresh():
            return ()
