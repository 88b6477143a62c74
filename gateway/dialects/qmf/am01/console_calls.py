"""Calls, sets and fetches of a console of agents before AM2.

All arguments are always sent: these agents fill missing ones from earlier requests, and
carry the call out. An answer that exceeds their buffer ends their session.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from gateway.dialects.console import NotSentError
from gateway.dialects.errors import LocalProtocolError, ProtocolError
from gateway.dialects.qmf.am01.codec import write
from gateway.dialects.qmf.am01.forms import GET, SET, read_object, write_changes
from gateway.dialects.qmf.am01.keys import COMMAND_KEY, method_key
from gateway.dialects.qmf.am01.messages import MethodRequest, Revision
from gateway.dialects.qmf.am01.schemas import write_schema
from gateway.dialects.qmf.am01.session_state import Am01SessionState
from gateway.dialects.qmf.console_calls import (
    MAX_HEAD,
    MAX_REQUEST,
    RpcClient,
    encoded_arguments,
)
from gateway.dialects.qmf.console_content import ContentTranslator
from gateway.dialects.qmf.console_requests import FetchSchema, Operation, OperationRequest
from gateway.dialects.qmf.definitions import ClassDefinition, EventDefinition, schema_hash
from gateway.dialects.qmf.messages import (
    Content,
    GetQuery,
    MethodResponse,
    ObjectContent,
    PropertyContent,
    StatisticContent,
)
from gateway.dialects.qmf.model_values import wire_values
from gateway.dialects.qmf.schema_records import write_event
from gateway.dialects.qmf.statuses import OUTCOMES, Status
from gateway.dialects.session import Send
from gateway.model.operations import MethodCall, ObjectFetch, ObjectModify, Outcome
from gateway.model.schema import Access, ClassKey, Direction
from gateway.model.secrets import SecretRules
from gateway.model.texts import peer_line
from gateway.model.validation import validate
from gateway.model.values import Values, ValueType


class Am01Translator(ContentTranslator):
    """Converts content as `ContentTranslator` does, for classes that may have neither package nor hash.

    Args:
        rules: see `ContentTranslator`.
        package: the package of classes without one.
    """

    def __init__(self, rules: SecretRules, package: str) -> None:
        super().__init__(rules)
        self._package = package

    def named(self, key: ClassKey) -> ClassKey:
        """Return a key with its package in the model."""
        return key if key.package else replace(key, package=self._package)

    def model_key(self, definition: ClassDefinition | EventDefinition) -> ClassKey:
        """Return the model's key of a class or event; without a hash it has one over its schema."""
        key = self.named(definition.key)
        if key.hash.strip(b"\0"):
            return key
        if isinstance(definition, ClassDefinition):
            octets = write_schema(definition)
        else:
            octets = write_event(definition)
        return replace(key, hash=schema_hash(key, octets))


MAX_RETURNED: Final = 3_000
"""Octets of arguments in an answer: agents have 4,096 for the whole of it."""

_GROWING: Final = frozenset((ValueType.STRING,))


class Am01RpcClient(RpcClient):
    """Calls methods as `RpcClient` does, and sets properties."""

    def __init__(self, state: Am01SessionState, translator: Am01Translator) -> None:
        super().__init__(state, translator)
        self._am01 = state
        # Fetches that wait for a publication, and whether the agent has begun it.
        self._fetches: dict[int, bool] = {}

    # Requests of users.

    def _begin(self, request: OperationRequest) -> None:
        match request:
            case MethodCall():
                self._ask(*self._checked(request), request.method)
            case ObjectModify():
                self._ask(*self._checked_set(request), SET)
            case ObjectFetch():
                self._fetch(self._operation(request))

    def _fetch(self, operation: Operation) -> None:
        if self._am01.rules.get_and_set:
            self._ask(operation, b"", GET)
        elif self._am01.revision is Revision.MARCH_2008:
            self._query(operation)
        elif self._am01.revision is Revision.FEBRUARY_2008:
            self._state.ask(FetchSchema(operation.definition.key))
            self._await(operation, is_due=False)
        elif self._am01.rules.republish_interval is not None:
            self._await(operation, is_due=True)
        elif self._am01.revision is None:
            raise NotSentError(Outcome.NOT_NOW, "the revision of the agent is not known yet")
        else:
            text = "not read: agents until January 2008 send values only of their own accord"
            self._state.answer(operation.answer(Outcome.NOT_NOW, text))

    def unsent(self, sends: Iterable[Send], reason: str) -> None:
        """End the operations of messages that certainly were not sent, for ``reason``."""
        for send in sends:
            operation = self._state.operations.end(sequence_of(send.body)) if send.not_after else None
            if operation is not None:
                self._state.answer(operation.answer(Outcome.SOURCE_DOWN, f"not sent: {reason}"))

    def _check(self, request: MethodCall | ObjectModify) -> None:
        if isinstance(request, ObjectModify):
            self._checked_set(request)
        else:
            self._checked(request)
        self._spoken()

    def _checked(self, call: MethodCall) -> tuple[Operation, bytes]:
        operation = self._operation(call)
        arguments = encoded_arguments(operation.definition, call)
        _check_returned(operation.definition, call)
        return operation, arguments

    def _checked_set(self, modify: ObjectModify) -> tuple[Operation, bytes]:
        """Return a set that can be sent, and its encoded changes; raise `NotSentError` otherwise."""
        self._check_has_set()
        operation = self._operation(modify)
        return operation, _changes(operation.definition, modify)

    def _operation(self, request: OperationRequest) -> Operation:
        """Check what all operations have in common; object ids have 64 bits here."""
        operation = super()._operation(request)
        if operation.object_id.prefix:
            text = f"the agent has no object of an id such as {operation.object_id}"
            raise NotSentError(Outcome.OBJECT_GONE, text)
        return operation

    def _ask(self, operation: Operation, arguments: bytes, method: str) -> None:
        revision = self._spoken()
        key = operation.request.key
        queue = self._state.reply_to if revision is Revision.NOVEMBER_2007 else ""
        sequence = self._state.operations.ask(operation)
        request = MethodRequest(sequence, operation.object_id, key, method, arguments, queue)
        self._send_once(operation, method_key(revision, key, method), write(request, revision))

    def _spoken(self) -> Revision:
        """Return the revision of the agent, which determines the form of calls."""
        revision = self._am01.revision
        if revision is None:
            spoken = ", ".join(sorted(one.value for one in self._am01.revisions))
            text = f"it is not known yet which form of calls the agent has: {spoken}"
            raise NotSentError(Outcome.NOT_NOW, text)
        return revision

    def _check_has_set(self) -> None:
        if not self._am01.rules.get_and_set:
            text = "agents before AM2 have no set, unless `get_and_set` says that this one has"
            raise NotSentError(Outcome.READ_ONLY, text)

    def _query(self, operation: Operation) -> None:
        """Request all objects of the class: these agents have no other query."""
        sequence = self._state.operations.ask(operation)
        query = GetQuery(sequence, {"_class": operation.definition.key.name})
        self._send_once(operation, COMMAND_KEY, write(query, Revision.MARCH_2008))

    def _await(self, operation: Operation, *, is_due: bool) -> None:
        """Wait until the agent publishes everything: at intervals, or after it has answered for a schema."""
        self._fetches[self._state.operations.ask(operation)] = is_due

    def _send_once(self, operation: Operation, routing_key: str, body: bytes) -> None:
        self._state.send(
            Send(
                self._state.config.management_exchange,
                routing_key,
                body,
                reply_to=self._state.reply_to,
                not_after=operation.request.deadline,
            )
        )

    # Answers of agents.

    def on_response(self, message: MethodResponse) -> None:
        """Process the answer to a call, a set or a get, perhaps after its deadline."""
        operation = self._state.operations.find(message.sequence)
        if operation is None or isinstance(operation.request, MethodCall):
            super().on_response(message)
            return
        self._state.operations.end(message.sequence)
        outcome = OUTCOMES.get(message.status, Outcome.REMOTE_FAILURE)
        text = peer_line(message.text)
        if isinstance(operation.request, ObjectFetch) and message.status == Status.OK:
            outcome, text = self._got(operation, message.arguments)
        self._state.answer(operation.answer(outcome, text, message.status))

    def _got(self, operation: Operation, arguments: bytes) -> tuple[Outcome, str]:
        """Observe an object as its agent returned it."""
        try:
            properties, statistics = read_object(operation.definition, arguments)
        except ProtocolError as error:
            self._state.note("protocol-error", f"get of {operation.definition.key}: {error}")
            return Outcome.REMOTE_FAILURE, f"what was returned cannot be read: {error}"
        key = operation.definition.key
        content = ObjectContent(0, key, 0, 0, 0, operation.object_id, properties, statistics)
        self._state.observations.append(self._translator.content(content, self._state.now))
        return Outcome.APPLIED, ""

    def schema_answered(self, key: ClassKey) -> None:
        """Note that the agent will publish everything, including fetched objects of this class."""
        for sequence in self._fetches:
            operation = self._state.operations.find(sequence)
            if operation is not None and operation.definition.key == key:
                self._fetches[sequence] = True

    def published(self, message: Content) -> None:
        """End the fetches of a published object."""
        for sequence, is_due in list(self._fetches.items()):
            operation = self._state.operations.find(sequence)
            if operation is None:
                del self._fetches[sequence]
            elif is_due and _completes(message, operation):
                del self._fetches[sequence]
                self._state.operations.end(sequence)
                gone = bool(message.deleted)
                outcome = Outcome.OBJECT_GONE if gone else Outcome.APPLIED
                self._state.answer(operation.answer(outcome, "the agent deleted it" if gone else ""))

    def unreadable(self, body: bytes, error: Exception) -> None:
        """Process an unreadable body, which may be an answer."""
        sequence = sequence_of(body)
        operation = self._state.operations.find(sequence)
        if operation is None:
            return
        if isinstance(operation.request, ObjectFetch):
            operation.trouble = f"the answer cannot be read: {error}"
            return
        self._state.operations.end(sequence)
        self._state.answer(operation.answer(Outcome.UNKNOWN, f"the answer cannot be read: {error}"))


def sequence_of(body: bytes) -> int:
    """Return the number of a call or an answer; of other bodies it is arbitrary."""
    if body.startswith(b"AM01"):
        return int.from_bytes(body[6:10], "big")
    start = 4 if body.startswith(b"AM1") else 0
    return int.from_bytes(body[start : start + 4], "big")


def _completes(message: Content, operation: Operation) -> bool:
    """Return whether a record is the last of an object's: statistics follow configuration."""
    if message.object_id != operation.object_id:
        return False
    last = StatisticContent if operation.definition.schema.statistics else PropertyContent
    return isinstance(message, last) or bool(message.deleted)


def _check_returned(definition: ClassDefinition, call: MethodCall) -> None:
    """Refuse arguments whose return would exceed the agent's buffer."""
    inputs = [one for one in definition.methods[call.method].arguments if one.direction is not Direction.OUT]
    returned = sum(
        len(str(value).encode())
        for argument, value in zip(inputs, call.arguments, strict=True)
        if argument.direction is Direction.INOUT and argument.type in _GROWING
    )
    if returned > MAX_RETURNED:
        text = f"{returned} octets of arguments would come back, and agents take {MAX_RETURNED}"
        raise NotSentError(Outcome.WRONG_LENGTH, text)


def _changes(definition: ClassDefinition, modify: ObjectModify) -> bytes:
    """Return the encoded changes of a set; raise `NotSentError` where they do not fit the class."""
    properties = {one.name: one for one in definition.schema.properties}
    values: list[Values] = []
    for name, value in modify.values.items():
        element = properties.get(name)
        if element is None:
            text = f"{modify.key} has no property {name!r} at this agent"
            raise NotSentError(Outcome.UNKNOWN_ELEMENT, text)
        if element.access is not Access.READ_WRITE:
            raise NotSentError(Outcome.READ_ONLY, f"the agent declares that {name} is not to be set")
        if value is None:
            raise NotSentError(Outcome.WRONG_VALUE, f"{name} cannot be absent")
        found = validate(element, value)
        if found is not None:
            raise NotSentError(found.outcome, f"{name}: {found.text}")
        values.append((value,))
    try:
        wire = [wire_values(one)[0] for one in values]
        octets = write_changes(definition, dict(zip(modify.values, wire, strict=True)))
    except LocalProtocolError as error:
        raise NotSentError(Outcome.WRONG_VALUE, f"{error}") from error
    if len(octets) > MAX_REQUEST - MAX_HEAD:
        text = f"values of {len(octets)} octets, {MAX_REQUEST - MAX_HEAD} are taken"
        raise NotSentError(Outcome.WRONG_LENGTH, text)
    return octets
