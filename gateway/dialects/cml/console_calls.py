"""Operations of users: their requests and their outcomes.

Everything is checked against the schema before anything is sent: OpenAMQ answers ``ok`` for unknown
methods and truncated values, and crashes on some (`safety`). Each request is sent once or never.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final

from gateway.dialects.cml.codec import write_message
from gateway.dialects.cml.console_poller import Poller
from gateway.dialects.cml.console_tree import ClassView, Known
from gateway.dialects.cml.messages import (
    Field,
    InspectReply,
    InspectRequest,
    MethodReply,
    MethodRequest,
    ModifyReply,
    ModifyRequest,
    Received,
    Request,
    Status,
)
from gateway.dialects.cml.safety import Assurance
from gateway.dialects.cml.session_state import AboutObject, Asked, Operation, SessionState, State, Wanted
from gateway.dialects.cml.values import write_value
from gateway.dialects.console import NotSentError
from gateway.dialects.errors import LocalProtocolError, ProtocolError
from gateway.dialects.session import NEVER
from gateway.model.operations import NOT_READ, Answer, MethodCall, ObjectFetch, ObjectModify, Outcome
from gateway.model.schema import Access, Argument, Element
from gateway.model.texts import peer_line
from gateway.model.times import SECOND
from gateway.model.validation import validate
from gateway.model.values import Reference, Value, ValueType

_OUTCOMES: Final[dict[str, Outcome]] = {
    Status.OK: Outcome.APPLIED,
    Status.NOT_FOUND: Outcome.OBJECT_GONE,
    Status.NO_ACCESS: Outcome.REMOTE_FAILURE,
    Status.INVALID: Outcome.REMOTE_FAILURE,
}
_TEXTS: Final[dict[str, str]] = {
    Status.NOT_FOUND: "the broker has no such object any more",
    Status.NO_ACCESS: "the broker permits this user only to read: log in as one of group super",
    Status.INVALID: "the broker does not accept the request (invalid)",
}
_CODES: Final[dict[str, int]] = {status: code for code, status in enumerate(Status)}
_NOT_ASKING: Final = {
    State.DISCONNECTED: "there is no connection to the broker",
    State.LEARNING: "the broker has not sent its schema yet",
    State.UNREACHED: "the broker takes no requests",
}
_NOT_LISTED: Final = "the broker lists no such object"
_LISTED_AGAIN: Final = "the objects were listed again meanwhile: try again when the source is synchronised"
_SILENT_METHODS: Final = frozenset({"shutdown", "kill"})
"""Methods that may end the broker or the console's own connection, so that no answer can come."""
_MAY_BE_DONE: Final = "it may have been carried out, or may still be"
_CONFIG: Final = "config"
_NAME: Final = "name"

SHOWN_WITHIN: Final = 2 * SECOND
"""The longest time, in nanoseconds, for which the answer to a call waits for its object to be inspected."""


@dataclass(frozen=True, slots=True)
class _Unshown:
    """An answer to a call whose effect was not read yet: it would overtake the values that it led to."""

    known: Known
    answer: Answer
    until: int


class RpcClient:
    """Calls methods, and sets and reads objects, for a console session."""

    def __init__(self, state: SessionState, poller: Poller) -> None:
        self._state = state
        self._poller = poller
        self._waiting: deque[Operation] = deque()
        self._unshown: dict[int, _Unshown] = {}

    # Requests of users.

    def take(self, wanted: Wanted) -> None:
        """Send a request when none about its object is under way, or answer at once why it is not sent."""
        try:
            self._waiting.append(self._operation(wanted))
        except NotSentError as error:
            self._state.answer(error.answer(wanted.token))

    def precheck(self, wanted: MethodCall | ObjectModify) -> Answer | None:
        """Return the answer that `take` would give at once; ``None`` where it would send the request."""
        try:
            self._operation(wanted)
        except NotSentError as error:
            return error.answer(wanted.token)
        return None

    def _operation(self, wanted: Wanted) -> Operation:
        state = self._state
        if state.state in _NOT_ASKING:
            raise NotSentError(Outcome.SOURCE_DOWN, _NOT_ASKING[state.state])
        if wanted.deadline <= state.now:
            raise NotSentError(Outcome.NOT_NOW, "no time was left for it")
        if len(self._waiting) + state.requests.operations >= state.config.operation_limit:
            text = f"{state.config.operation_limit} operations are under way"
            raise NotSentError(Outcome.NOT_NOW, text)
        known = self._known(wanted.native_id)
        view = state.views.find_key(wanted.key) if state.views is not None else None
        if view is None or view is not known.view:
            raise NotSentError(Outcome.NOT_NOW, f"the object is no longer of the class {wanted.key}")
        request, reply = self._request(wanted, known, view)
        return Operation(wanted, known, request, reply, self._body(request))

    def _body(self, request: Request) -> bytes:
        """Return the encoded request, if it does not harm the broker."""
        spelling, assured = self._state.config.spelling, self._assured()
        # What could be assured is refused, and not a wrong value; but for an empty value, which users know.
        try:
            write_message(request, spelling, assured | set(Assurance) - {Assurance.EMPTY_VALUES})
        except LocalProtocolError as error:
            raise NotSentError(Outcome.WRONG_VALUE, str(error)) from error
        try:
            return write_message(request, spelling, assured)
        except LocalProtocolError as error:
            raise NotSentError(Outcome.REFUSED, str(error)) from error

    def _known(self, native_id: str) -> Known:
        number = self._state.runs.number(native_id)
        known = None if number is None else self._state.tree.find(number)
        if known is not None and known.view is not None:
            return known
        raise self._gone()

    def _gone(self) -> NotSentError:
        if self._state.state is State.WALKING:
            return NotSentError(Outcome.SOURCE_DOWN, NOT_READ)
        return NotSentError(Outcome.OBJECT_GONE, _NOT_LISTED)

    def _request(self, wanted: Wanted, known: Known, view: ClassView) -> tuple[Request, type[AboutObject]]:
        number, name = known.number, view.key.name
        match wanted:
            case ObjectFetch():
                return InspectRequest(number, name), InspectReply
            case ObjectModify():
                return ModifyRequest(number, self._settings(wanted, view), name), ModifyReply
            case _:
                return MethodRequest(number, wanted.method, self._arguments(wanted, view), name), MethodReply

    def _settings(self, modify: ObjectModify, view: ClassView) -> tuple[Field, ...]:
        fields = []
        elements = {element.name: element for element in view.schema.elements}
        for name, value in modify.values.items():
            element = elements.get(name)
            if element is None:
                raise NotSentError(Outcome.UNKNOWN_ELEMENT, f"{modify.key} has no field {name!r}")
            if element.access is not Access.READ_WRITE:
                raise NotSentError(Outcome.READ_ONLY, f"the broker does not permit to set {name}")
            fields.append(Field(view.wire_name(name), self._text(element, value)))
        if not fields:
            raise NotSentError(Outcome.WRONG_VALUE, "no field is to be set")
        return tuple(fields)

    def _arguments(self, call: MethodCall, view: ClassView) -> tuple[Field, ...]:
        method = next((one for one in view.schema.methods if one.name == call.method), None)
        if method is None:
            raise NotSentError(Outcome.UNKNOWN_ELEMENT, f"{call.key} has no method {call.method!r}")
        if len(call.arguments) != len(method.arguments):
            count, given = len(method.arguments), len(call.arguments)
            raise NotSentError(
                Outcome.WRONG_VALUE, f"{method.name} takes {count} arguments, {given} were given"
            )
        pairs = zip(method.arguments, call.arguments, strict=True)
        return tuple(Field(argument.name, self._text(argument, value)) for argument, value in pairs)

    def _text(self, item: Element | Argument, value: Value | None) -> str:
        """Return the text of a value; not of an absent one, which CML cannot express."""
        if value is None:
            raise NotSentError(Outcome.WRONG_VALUE, f"{item.name}: a value is wanted")
        found = validate(item, value)
        if found is not None:
            raise NotSentError(found.outcome, f"{item.name}: {found.text}")
        if item.type is ValueType.REFERENCE and isinstance(value, Reference):
            number = self._state.runs.number(value.native_id)
            if number is None:
                raise NotSentError(Outcome.WRONG_VALUE, f"{item.name}: the broker has no such object")
            value = Reference(str(number))
        try:
            return write_value(value, item, self._state.config.spelling)
        except LocalProtocolError as error:
            raise NotSentError(Outcome.WRONG_VALUE, str(error)) from error

    def _assured(self) -> AbstractSet[Assurance]:
        """Return the known facts of the broker: it has a configuration file if that has a name."""
        root = self._state.tree.root
        settings = [one for one in root.children.values() if one is not None and one.class_name == _CONFIG]
        assured = set(self._state.config.assured)
        if any(one.name for one in settings):
            assured.add(Assurance.CONFIG_FILE)
        return assured

    # Sending.

    def launch(self) -> None:
        """Send waiting requests in their order, one at a time for each object."""
        state = self._state
        if state.state in _NOT_ASKING:
            self.give_up_waiting(_NOT_ASKING[state.state])
        self._release_unshown()
        if not self._waiting:
            return
        held: deque[Operation] = deque()
        blocked: set[int] = set()
        for operation in self._waiting:
            known = operation.known
            is_blocked = known.busy or known.number in blocked or known.number in self._unshown
            is_free = not (is_blocked or (state.one_at_a_time and state.requests))
            if not self._is_current(known):
                gone = self._gone()
                self._refuse(operation, gone.outcome, gone.text)
            elif is_free:
                state.send_operation(operation)
            else:
                blocked.add(known.number)
                held.append(operation)
        self._waiting = held

    def give_up_waiting(self, reason: str) -> None:
        """End all waiting requests, because the broker cannot be reached any more."""
        while self._waiting:
            self._refuse(self._waiting.popleft(), Outcome.SOURCE_DOWN, reason)

    def pass_time(self) -> None:
        """End the requests whose deadline has passed while they waited."""
        over = [one for one in self._waiting if one.wanted.deadline <= self._state.now]
        for operation in over:
            self._waiting.remove(operation)
            self._refuse(operation, Outcome.NOT_NOW, "other requests about the object took too long")

    @property
    def next_deadline(self) -> int:
        """The time at which `pass_time` has something to do; `NEVER` for never."""
        waiting = (one.wanted.deadline for one in self._waiting)
        return min((*waiting, *(one.until for one in self._unshown.values())), default=NEVER)

    def unsent(self, operation: Operation, reason: str) -> None:
        """End an operation that certainly did not reach the broker."""
        self._refuse(operation, Outcome.SOURCE_DOWN, reason)

    def _refuse(self, operation: Operation, outcome: Outcome, text: str) -> None:
        self._state.answer(operation.answer(outcome, f"not sent: {text}"))

    # Answers.

    def leave_open(self, asked: Asked, why: str) -> None:
        """End an operation without an answer, whose outcome is unknown."""
        operation = asked.operation
        assert operation is not None
        wanted = operation.wanted
        if isinstance(wanted, ObjectFetch):
            text = why
        elif isinstance(wanted, MethodCall) and wanted.method in _SILENT_METHODS:
            text = f"{why}: {wanted.method} may end the broker or the connection; {_MAY_BE_DONE}"
        else:
            text = f"{why}: {_MAY_BE_DONE}"
        self._state.answer(operation.answer(Outcome.UNKNOWN, text))

    def answered(self, asked: Asked, message: Received | ProtocolError) -> None:
        """Process an answer, perhaps after its deadline."""
        operation = asked.operation
        assert operation is not None
        if not isinstance(message, operation.reply):
            text = f"the answer does not fit the request: {peer_line(str(message))}"
            self._state.answer(operation.answer(Outcome.UNKNOWN, text))
        elif message.object_id not in (None, operation.known.number):
            text = f"the answer is about another object, {message.object_id}"
            self._state.answer(operation.answer(Outcome.UNKNOWN, text))
        elif isinstance(message, InspectReply):
            self._state.answer(self._fetched(operation, message, asked.sent))
        else:
            answer = self._done(operation, message)
            known = operation.known
            if answer.outcome is Outcome.APPLIED and self._is_read_again(operation):
                left = (operation.wanted.deadline - self._state.now) // 2
                until = self._state.now + min(SHOWN_WITHIN, max(left, 0))
                self._unshown[known.number] = _Unshown(known, answer, until)
            else:
                self._state.answer(answer)

    def _is_read_again(self, operation: Operation) -> bool:
        """Return whether the object of a call is inspected at once afterwards, which shows its effect."""
        wanted, known = operation.wanted, operation.known
        if not isinstance(wanted, MethodCall) or wanted.method in _SILENT_METHODS:
            return False
        return self._is_current(known) and not known.shut and not self._state.tree.may_end(known)

    def inspected(self, known: Known) -> None:
        """Give the answer to a call of an object that was read again, or did not answer when it was."""
        if (unshown := self._unshown.pop(known.number, None)) is not None:
            self._state.answer(unshown.answer)

    def _release_unshown(self) -> None:
        """Give the answers to calls of objects that are not read in time, or not at all."""
        state = self._state
        for unshown in list(self._unshown.values()):
            is_over = unshown.until <= state.now or state.state in _NOT_ASKING
            if is_over or not self._is_current(unshown.known):
                self.inspected(unshown.known)

    def _done(self, operation: Operation, reply: ModifyReply | MethodReply) -> Answer:
        known = operation.known
        if reply.status == Status.NOT_FOUND and self._is_current(known):
            self._poller.gone(known)
        notice = peer_line(reply.notice)
        if reply.status not in _OUTCOMES:
            text = f"the broker answers {reply.status[:40]!r}: {notice or _MAY_BE_DONE}"
            return operation.answer(Outcome.UNKNOWN, text)
        text = notice or _TEXTS.get(reply.status, "")
        return operation.answer(_OUTCOMES[reply.status], text, _CODES[reply.status])

    def _fetched(self, operation: Operation, reply: InspectReply, sent: int) -> Answer:
        known = operation.known
        if self._is_current(known) and self._poller.inspected(known, reply, sent):
            return operation.answer(Outcome.APPLIED, peer_line(reply.notice), _CODES[Status.OK])
        if reply.status == Status.NOT_FOUND:
            return operation.answer(Outcome.OBJECT_GONE, _TEXTS[Status.NOT_FOUND], _CODES[Status.NOT_FOUND])
        if not self._is_current(known):
            if self._state.state is State.WALKING:
                return operation.answer(Outcome.NOT_NOW, _LISTED_AGAIN)
            return operation.answer(Outcome.OBJECT_GONE, _NOT_LISTED)
        text = known.shut or "the object cannot be shown"
        return operation.answer(Outcome.REMOTE_FAILURE, peer_line(text), _CODES.get(reply.status))

    def _is_current(self, known: Known) -> bool:
        return self._state.tree.find(known.number) is known
