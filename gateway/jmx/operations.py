"""The conversion of clients' operations into requests to the core, and of its answers into replies.

The core alone decides which elements may be set and methods invoked, by whom, and with which values. A client
gets its answer when the virtual machine shows the result of the operation.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, TypeAlias

import msgspec

from gateway.feed.client import refused_request
from gateway.feed.operations import (
    Action,
    FrontEndRefusal,
    InvokeMethod,
    OperationAnswer,
    OperationRequest,
    ReadFresh,
    SetElements,
)
from gateway.feed.values import FeedValue, ObjectLink
from gateway.jmx import types
from gateway.jmx.backend import Named, RefusedAttempt, Reply, Status
from gateway.jmx.classes import READ_FRESH, ShownMethod
from gateway.jmx.commands import JmxValue
from gateway.jmx.objects import ShownObject, ShownObjects, Target
from gateway.jmx.types import Resolve, Written, model_value
from gateway.model.operations import Outcome, Principal
from gateway.model.schema import Element

STATUSES: Final[Mapping[Outcome, Status]] = {
    Outcome.APPLIED: Status.APPLIED,
    Outcome.APPLIED_DIFFERENTLY: Status.APPLIED_DIFFERENTLY,
    Outcome.NOT_APPLIED: Status.APPLIED_DIFFERENTLY,
    Outcome.OBJECT_GONE: Status.GONE,
    Outcome.UNKNOWN_ELEMENT: Status.UNKNOWN_ELEMENT,
    Outcome.READ_ONLY: Status.UNKNOWN_ELEMENT,
    Outcome.REFUSED: Status.REFUSED,
    Outcome.WRONG_TYPE: Status.BAD_VALUE,
    Outcome.WRONG_LENGTH: Status.BAD_VALUE,
    Outcome.WRONG_VALUE: Status.BAD_VALUE,
    Outcome.NOT_NOW: Status.NOT_NOW,
    Outcome.REMOTE_FAILURE: Status.FAILED,
    Outcome.SOURCE_DOWN: Status.UNAVAILABLE,
    Outcome.UNKNOWN: Status.OUTCOME_UNKNOWN,
}
"""The status of each outcome, for which the virtual machine raises an exception of JMX."""

_GONE: Final = (Outcome.OBJECT_GONE, "the object is gone")
_FOUND: Final = (Outcome.APPLIED_DIFFERENTLY, Outcome.NOT_APPLIED)
_UNKNOWN: Final = "it may have been carried out"

Report: TypeAlias = Callable[[OperationRequest], None]
"""Has the core record an attempt that was refused; neither waits nor raises."""

Ask: TypeAlias = Callable[[OperationRequest], Awaitable[OperationAnswer]]
"""Has the core carry out a request; it gives the request a number of its own."""

OwnOperation: TypeAlias = Callable[[Principal, Sequence[Written | None]], Awaitable[Reply]]
"""Carries out an operation of an MBean of the gateway itself, which changes nothing."""


class Operations:
    """The executor of clients' operations (`gateway.jmx.backend.Operator`).

    Args:
        objects: the MBeans of managed objects.
        ask: asks the core.
        caught_up: returns when the virtual machine shows all that the core has sent.
        timeout: nanoseconds that the core has for an answer.
        last_end: returns the number of the last end of an object of a source (`OperationRequest.ends`).
        report: called with each attempt that is refused here (`gateway.feed.client`).
        logged_in: called with each user who logs in.
        own: the operations of MBeans of the gateway itself, by the number of the MBean and their name.
    """

    def __init__(
        self,
        objects: ShownObjects,
        ask: Ask,
        caught_up: Callable[[], Awaitable[None]],
        timeout: int,
        last_end: Callable[[int], int],
        report: Report = lambda _: None,
        logged_in: Callable[[Principal], None] = lambda _: None,
        own: Mapping[tuple[int, str], OwnOperation] | None = None,
    ) -> None:
        self._own = own or {}
        self._objects = objects
        self._ask = ask
        self._caught_up = caught_up
        self._timeout = timeout
        self._last_end = last_end
        self._report = report
        self._logged_in = logged_in

    async def set(
        self, target: Named, principal: Principal, values: Sequence[tuple[str, Written | None]]
    ) -> Reply:
        """Set attributes of an MBean, as one operation; of several values of one the last counts.

        ``None`` stands for no value at all.

        Returns:
            The items are the names of the attributes that are known to have been set.
        """
        named = SetElements({name: None for name, _ in values})
        number, stable_name = target
        shown = self._objects.find(number)
        if shown is None:
            return self._refuse(number, principal, named, *_GONE)
        elements: dict[str, Element] = {}
        asked: dict[str, FeedValue | None] = {}
        for name, written in values:
            element = shown.shown_class.settable.get(name)
            if element is None:
                why = f"{name} cannot be set"
                return self._refuse(number, principal, named, Outcome.UNKNOWN_ELEMENT, why)
            elements[name] = element
            asked[element.name] = (
                None if written is None else model_value(written, element, self._resolver(shown))
            )
        answer = await self._carried_out(shown, stable_name, principal, SetElements(asked))
        applied = (name for name, element in elements.items() if _is_applied(element, asked, answer))
        text = explanation(self._shown_to(principal, shown, answer))
        return Reply(STATUSES[answer.outcome], text, tuple(applied))

    async def invoke(
        self, target: Named, principal: Principal, operation: str, arguments: Sequence[Written | None]
    ) -> Reply:
        """Invoke an operation of an MBean.

        Returns:
            The items are the operation's results.
        """
        number, stable_name = target
        own = self._own.get((number, operation))
        if own is not None:
            return await own(principal, arguments)
        shown = self._objects.find(number)
        if shown is None:
            return self._refuse(number, principal, InvokeMethod(operation), *_GONE)
        if operation == READ_FRESH.name:
            answer = await self._carried_out(shown, stable_name, principal, ReadFresh())
            return Reply(STATUSES[answer.outcome], explanation(answer))
        method = shown.shown_class.methods.get(operation)
        if method is None or len(arguments) != len(method.inputs):
            why = f"there is no operation {operation} with such parameters"
            return self._refuse(number, principal, InvokeMethod(operation), Outcome.UNKNOWN_ELEMENT, why)
        given = {
            argument.name: model_value(written, argument, self._resolver(shown))
            for argument, written in zip(method.inputs, arguments, strict=True)
            if written is not None
        }
        action = InvokeMethod(method.method.name, given)
        answer = await self._carried_out(shown, stable_name, principal, action)
        items = self._results(principal, shown, method, answer) if answer.outcome is Outcome.APPLIED else ()
        return Reply(STATUSES[answer.outcome], explanation(answer), items)

    def refused(self, attempt: RefusedAttempt) -> None:
        """Record an attempt that the virtual machine refused without asking."""
        match attempt.action:
            case InvokeMethod(method):
                element = method
            case SetElements(values):
                element = next(iter(values)) if len(values) == 1 else ""
        refusal = FrontEndRefusal(attempt.outcome, types.text(attempt.text), types.text(element))
        where = self._where(attempt.number)
        self._report(refused_request(attempt.principal, attempt.action, refusal, where))

    def logged_in(self, principal: Principal) -> None:
        """Record that a user has logged in."""
        self._logged_in(principal)

    def _refuse(
        self,
        number: int,
        principal: Principal,
        action: SetElements | InvokeMethod,
        outcome: Outcome,
        text: str,
    ) -> Reply:
        """Record a refused attempt; return the reply to it."""
        self.refused(RefusedAttempt(principal, number, action, outcome, text))
        return Reply(STATUSES[outcome], f"{outcome.value}: {text}")

    def _where(self, number: int) -> tuple[int, str, int]:
        """Return source, class and row of the object, as far as it is known."""
        shown = self._objects.find(number)
        return (0, "", 0) if shown is None else (shown.group.source, shown.shown_class.name, shown.row)

    async def _carried_out(
        self, shown: ShownObject, stable_name: str, principal: Principal, action: Action
    ) -> OperationAnswer:
        source = shown.group.source
        request = OperationRequest(
            *(0, principal, source, shown.shown_class.name, shown.row, action, self._timeout),
            ends=self._last_end(source),
            stable_name=stable_name,
        )
        answer = await self._ask(request)
        # The client's next read must find what this operation changed: the core sent these changes before its
        # answer.
        await self._caught_up()
        return answer

    def _resolver(self, of: ShownObject) -> Resolve:
        def resolve(number: int, stable_name: str) -> ObjectLink | None:
            target = self._objects.find(number)
            # A row means something within its own source only.
            if target is None or target.group.source != of.group.source:
                return None
            return ObjectLink(target.shown_class.name, target.row, stable_name)

        return resolve

    def _shown_to(self, principal: Principal, shown: ShownObject, answer: OperationAnswer) -> OperationAnswer:
        """Return an answer without the value of an element that the user may set, but not read."""
        if answer.element in answer.values and not self._objects.reads(principal.name, shown, answer.element):
            return msgspec.structs.replace(answer, values={})
        return answer

    def _results(
        self, principal: Principal, shown: ShownObject, method: ShownMethod, answer: OperationAnswer
    ) -> tuple[JmxValue, ...]:
        return tuple(
            self._result(principal, shown, answer.values.get(argument.name), convert)
            for argument, convert in method.outputs
        )

    def _result(
        self,
        principal: Principal,
        shown: ShownObject,
        value: FeedValue | None,
        convert: types.Converter,
    ) -> JmxValue:
        if value is None:
            return None
        if isinstance(value, ObjectLink):
            found = self._objects.at(Target(shown.group.source, value.class_name, value.row))
            is_seen = found is not None and self._objects.exists_for(principal.name, found)
            return found.name if found is not None and is_seen else None
        try:
            # What was carried out is no error because one result has no form in JMX: that one is null.
            return convert(value)
        except types.UnfitValueError:
            return None


def explanation(answer: OperationAnswer) -> str:
    """Return one line on the outcome of an operation, for the text of an exception."""
    parts = [answer.outcome.value]
    if answer.element and not _begins_with(answer.text, answer.element):
        parts.append(answer.element)
    if answer.text:
        parts.append(answer.text)
    if answer.outcome in _FOUND and answer.element in answer.values:
        parts.append(f"found {_shown(answer.values[answer.element])}")
    if answer.outcome is Outcome.UNKNOWN and _UNKNOWN not in answer.text:
        parts.append(_UNKNOWN)
    code = "" if answer.code is None else f" (code {answer.code})"
    identity = f" [{answer.operation_id}]" if answer.operation_id else ""
    return types.text(": ".join(parts) + code + identity)


def _begins_with(text: str, name: str) -> bool:
    return text.startswith(name) and not text[len(name) :][:1].isalnum()


def _shown(value: FeedValue) -> str:
    try:
        return types.item_text(value)
    except types.UnfitValueError:
        return "a value that cannot be shown"


def _is_applied(element: Element, asked: Mapping[str, object], answer: OperationAnswer) -> bool:
    """Return whether an element is known to be set; after a failed operation, by the value read back."""
    if answer.outcome is Outcome.APPLIED:
        return True
    # Without an operation id nothing was tried, and the values are not from a reading.
    was_read_back = bool(answer.operation_id and answer.values) and element.readable
    return was_read_back and answer.values.get(element.name) == asked[element.name]
