"""Calls and fetches of a console: their requests and their outcomes.

Everything is checked against the schema before anything is sent: qpidd reads missing arguments as zeros,
and a Java broker answers nothing any more after a request for an unknown method or object.
Sources: QMF AM2 protocol ("Method Request", "Method Response"); statuses from 4 on as in qpidd.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from gateway.dialects.console import NotSentError
from gateway.dialects.errors import LocalProtocolError, ProtocolError
from gateway.dialects.qmf import addresses
from gateway.dialects.qmf.codec import write
from gateway.dialects.qmf.console_content import ContentTranslator
from gateway.dialects.qmf.console_requests import Operation, OperationRequest
from gateway.dialects.qmf.definitions import ClassDefinition
from gateway.dialects.qmf.fields import NO_HASH, ObjectId
from gateway.dialects.qmf.messages import (
    CommandComplete,
    Content,
    GetQuery,
    Message,
    MethodRequest,
    MethodResponse,
    UnknownClass,
)
from gateway.dialects.qmf.model_values import wire_values
from gateway.dialects.qmf.session_state import SessionState, State
from gateway.dialects.qmf.statuses import OUTCOMES, Status
from gateway.dialects.session import NO_SET, Send
from gateway.model.operations import NOT_READ, Answer, MethodCall, ObjectFetch, ObjectModify, Outcome
from gateway.model.schema import Direction, Method
from gateway.model.texts import peer_line
from gateway.model.validation import validate
from gateway.model.values import Values

MAX_REQUEST: Final = 65_536
"""Octets of a request: qpidd drops longer ones without an answer."""
MAX_HEAD: Final = 1_024
"""Largest number of octets of a call before its arguments."""

_NOT_ASKING: Final = {
    State.DISCONNECTED: "there is no connection to the broker",
    State.CATCHING_UP: "messages that were sent without a connection are being read first",
    State.GREETING: "no agent has answered the greeting yet",
}


class RpcClient:
    """Calls methods and fetches objects for a console session, and processes the answers."""

    def __init__(self, state: SessionState, translator: ContentTranslator) -> None:
        self._state = state
        self._translator = translator

    # Requests of users.

    def take(self, request: OperationRequest) -> None:
        """Send a user's request, or answer it at once with the reason why it is not sent."""
        try:
            self._begin(request)
        except NotSentError as error:
            self._state.answer(error.answer(request.token))

    def precheck(self, request: MethodCall | ObjectModify) -> Answer | None:
        """Return the answer that needs no request; ``None`` where a request would be sent."""
        try:
            self._check(request)
        except NotSentError as error:
            return error.answer(request.token)
        return None

    def _begin(self, request: OperationRequest) -> None:
        match request:
            case MethodCall():
                operation, arguments = self._checked(request)
                sequence, key = self._state.operations.ask(operation), operation.definition.key
                message = MethodRequest(sequence, operation.object_id, key, request.method, arguments)
                self._send(request, message)
            case ObjectFetch():
                operation = self._operation(request)
                sequence, key = self._state.operations.ask(operation), operation.definition.key
                # A Java broker ignores the id, and would return every object that it has.
                selector = {"_class": key.name, "_package": key.package}
                by_id = {"_objectid": str(operation.object_id)}
                self._send(request, GetQuery(sequence, selector if key.hash == NO_HASH else by_id))
            case ObjectModify():
                raise NotSentError(Outcome.READ_ONLY, NO_SET)

    def unsent(self, sends: Iterable[Send], reason: str) -> None:
        """End the operations of messages that certainly were not sent, for ``reason``."""
        for send in sends:
            operation = self._state.operations.end(_sequence(send.body)) if send.not_after else None
            if operation is not None:
                self._state.answer(operation.answer(Outcome.SOURCE_DOWN, f"not sent: {reason}"))

    def _check(self, request: MethodCall | ObjectModify) -> None:
        if isinstance(request, ObjectModify):
            raise NotSentError(Outcome.READ_ONLY, NO_SET)
        self._checked(request)

    def _checked(self, call: MethodCall) -> tuple[Operation, bytes]:
        """Return a call that can be sent, and its encoded arguments; raise `NotSentError` otherwise."""
        operation = self._operation(call)
        self._check_object(operation)
        return operation, encoded_arguments(operation.definition, call)

    def _operation(self, request: OperationRequest) -> Operation:
        """Check what calls and fetches have in common."""
        why_not = _NOT_ASKING.get(self._state.state)
        if why_not is None and self._state.agents.is_lost(request.agent):
            why_not = f"agent {request.agent} is silent"
        if why_not is not None:
            raise NotSentError(Outcome.SOURCE_DOWN, f"{why_not}")
        if request.deadline <= self._state.now:
            raise NotSentError(Outcome.NOT_NOW, "no time was left for it")
        if self._state.operations.is_full:
            limit = self._state.operations.limit
            raise NotSentError(Outcome.NOT_NOW, f"{limit} operations are under way")
        definition = self._translator.definition(request.key)
        if definition is None:
            raise NotSentError(Outcome.NOT_NOW, f"the schema of {request.key} is not known")
        try:
            object_id = ObjectId.parse(request.native_id)
        except ProtocolError as error:
            raise NotSentError(Outcome.OBJECT_GONE, f"{error}") from error
        return Operation(request, definition, object_id)

    def _check_object(self, operation: Operation) -> None:
        """Refuse to name an object that a Java broker may not know, which would end the session."""
        session = self._state
        if operation.definition.key.hash != NO_HASH or operation.object_id in session.living:
            return
        if session.state is not State.SYNCHRONISED:
            raise NotSentError(Outcome.SOURCE_DOWN, NOT_READ)
        if session.living.is_full:
            raise NotSentError(Outcome.NOT_NOW, "the agent has not reported this object yet")
        raise NotSentError(Outcome.OBJECT_GONE, "the agent does not report this object any more")

    def _send(self, request: MethodCall | ObjectFetch, message: Message) -> None:
        body = write(message)
        self._state.send(
            Send(
                self._state.config.management_exchange,
                addresses.agent_key(request.agent),
                body,
                reply_to=self._state.reply_to,
                content_type=addresses.CONTENT_TYPE,
                not_after=request.deadline,
            )
        )

    # Answers of agents.

    def on_response(self, message: MethodResponse) -> None:
        """Process the answer to a call, perhaps after its deadline."""
        operation = self._state.operations.find(message.sequence)
        if operation is None or not isinstance(operation.request, MethodCall):
            return
        self._state.operations.end(message.sequence)
        outcome = OUTCOMES.get(message.status, Outcome.REMOTE_FAILURE)
        outputs, text = self._outputs(operation.definition, operation.request.method, message)
        self._state.answer(Answer(operation.request.token, outcome, text, message.status, outputs))

    def _outputs(
        self, definition: ClassDefinition, method: str, message: MethodResponse
    ) -> tuple[Values, str]:
        """Return the outputs as far as they were sent, and the text, which mentions unreadable outputs.

        Agents leave them out after some failures, and send them after others.
        """
        text = peer_line(message.text)
        if message.status != Status.OK and not message.arguments:
            return (), text
        try:
            return self._translator.outputs(definition, method, message.arguments), text
        except ProtocolError as error:
            if message.status != Status.OK:
                return (), text
            self._state.note("protocol-error", f"outputs of {definition.key} {method}: {error}")
            return (), f"carried out; what it returned cannot be read: {error}"

    def on_complete(self, message: CommandComplete) -> None:
        """End a fetch, or a call that was refused. A Java broker ends answered calls in this way, too."""
        operation = self._state.operations.find(message.sequence)
        if operation is None or (isinstance(operation.request, MethodCall) and not message.code):
            return
        self._state.operations.end(message.sequence)
        if message.code:
            outcome, text, code = Outcome.REMOTE_FAILURE, peer_line(message.text), message.code
        elif operation.found:
            outcome, text, code = Outcome.APPLIED, "", 0
        elif operation.trouble:
            outcome, text, code = Outcome.REMOTE_FAILURE, operation.trouble, 0
        else:
            outcome, text, code = Outcome.OBJECT_GONE, "the agent has no such object", 0
        self._state.answer(operation.answer(outcome, text, code))

    def on_content(self, message: Content) -> None:
        """Note an object, which may be the fetched one."""
        operation = self._state.operations.find(message.sequence)
        if operation is not None and operation.object_id == message.object_id:
            operation.found = not message.deleted

    def on_unknown_class(self, message: UnknownClass) -> None:
        """Note an object of an unknown class, which may be the fetched one."""
        self._trouble(message.sequence, f"the schema of {message.key}, as it is by now, is not known")

    def unreadable(self, body: bytes, error: Exception) -> None:
        """End the operation whose answer could not be read."""
        sequence = _sequence(body)
        operation = self._state.operations.find(sequence)
        if operation is not None and isinstance(operation.request, MethodCall):
            self._state.operations.end(sequence)
            self._state.answer(operation.answer(Outcome.UNKNOWN, f"the answer cannot be read: {error}"))
        self._trouble(sequence, f"the answer cannot be read: {error}")

    def _trouble(self, sequence: int, text: str) -> None:
        operation = self._state.operations.find(sequence)
        if operation is not None:
            operation.trouble = text


def _sequence(body: bytes) -> int:
    return int.from_bytes(body[4:8], "big")


def encoded_arguments(definition: ClassDefinition, call: MethodCall) -> bytes:
    """Return the encoded arguments of a call.

    Raises:
        NotSentError: they are not valid for the method.
    """
    method = definition.methods.get(call.method)
    if method is None:
        raise NotSentError(Outcome.UNKNOWN_ELEMENT, f"{call.key} has no method {call.method!r} at this agent")
    _check_arguments(method, call.arguments)
    try:
        octets = definition.inputs[call.method].write(wire_values(call.arguments))
    except LocalProtocolError as error:
        raise NotSentError(Outcome.WRONG_VALUE, f"{error}") from error
    if len(octets) > MAX_REQUEST - MAX_HEAD:
        text = f"arguments of {len(octets)} octets, {MAX_REQUEST - MAX_HEAD} are taken"
        raise NotSentError(Outcome.WRONG_LENGTH, text)
    return octets


def _check_arguments(method: Method, values: Values) -> None:
    inputs = [one for one in method.arguments if one.direction is not Direction.OUT]
    if len(values) != len(inputs):
        text = f"{method.name} takes {len(inputs)} arguments, {len(values)} were given"
        raise NotSentError(Outcome.WRONG_VALUE, text)
    for argument, value in zip(inputs, values, strict=True):
        found = None if value is None else validate(argument, value)
        if found is not None:
            raise NotSentError(found.outcome, f"{argument.name}: {found.text}")
