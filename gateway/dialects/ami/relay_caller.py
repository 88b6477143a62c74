"""Calls of methods: what is sent for them, or why nothing is."""

from __future__ import annotations

from dataclasses import replace

from gateway.dialects.ami.relay_applications import Applications
from gateway.dialects.ami.relay_calls import Calls, OpenCall
from gateway.dialects.ami.relay_commands import NotSentError, Offer, Prepared, prepare
from gateway.dialects.ami.relay_config import MILLISECOND, SECOND, RelayConfig
from gateway.dialects.ami.relay_connections import Application, Connection
from gateway.dialects.ami.relay_effects import Collected
from gateway.dialects.ami.relay_lines import LineByLine
from gateway.dialects.ami.relay_objects import Objects
from gateway.dialects.ami.relay_schemas import object_id
from gateway.dialects.ami.relay_tables import Row
from gateway.dialects.ami.writer import write_instruction
from gateway.dialects.errors import LocalProtocolError
from gateway.model.operations import Answer, MethodCall, ObjectFetch, Outcome


class Caller:
    """Calls commands.

    Args:
        config: of the session.
        objects: of all applications.
        applications: all of them.
        calls: that are open.
        lines: through which instructions leave.
        out: what is to be done.
    """

    def __init__(
        self,
        config: RelayConfig,
        objects: Objects,
        applications: Applications,
        calls: Calls,
        lines: LineByLine,
        out: Collected,
    ) -> None:
        self._config = config
        self._objects = objects
        self._applications = applications
        self._calls = calls
        self._lines = lines
        self._out = out

    def call(self, call: MethodCall, now: int) -> None:
        """Send a call, or answer at once why it is not sent."""
        request_id = self._calls.next_id
        try:
            connection, offered, prepared, line = self._checked(call, request_id, now)
        except NotSentError as error:
            self._out.answer(Answer(call.token, error.outcome, f"not sent: {error.text}"))
            return
        patience = offered.timeout * MILLISECOND or self._config.call_seconds * SECOND
        deadline = min(call.deadline, now + patience)
        self._calls.begin(
            request_id, OpenCall(call, connection.number, deadline, prepared.row, prepared.unseen)
        )
        self._lines.say(connection, line, write_instruction(prepared.shown).strip())

    def precheck(self, call: MethodCall, now: int) -> Answer | None:
        """What `call` would answer at once; ``None`` where it would send it."""
        try:
            self._checked(call, self._calls.next_id, now)
        except NotSentError as error:
            return Answer(call.token, error.outcome, f"not sent: {error.text}")
        return None

    def _checked(
        self, call: MethodCall, request_id: str, now: int
    ) -> tuple[Connection, Offer, Prepared, bytes]:
        """Where a call is to be sent, what it calls, with what, and its line."""
        connection, offered = self._offered(call, now)
        prepared = self._prepared(call, offered, request_id, now)
        try:
            line = write_instruction(prepared.instruction, connection.end)
        except LocalProtocolError as error:
            raise NotSentError(Outcome.WRONG_VALUE, str(error)) from error
        return connection, offered, prepared, line

    def fetch(self, fetch: ObjectFetch) -> None:
        """Answer that nothing can be read."""
        application = self._applications.by_name(fetch.agent)
        if application is None or not self._objects.has(fetch.native_id):
            outcome, text = Outcome.OBJECT_GONE, "there is no such object"
        elif not application.connections:
            outcome, text = Outcome.SOURCE_DOWN, "the application is not connected"
        else:
            outcome = Outcome.NOT_NOW
            text = "AMI has no request for an object: what is shown is what its application told last"
        self._out.answer(Answer(fetch.token, outcome, f"not read: {text}"))

    def _offered(self, call: MethodCall, now: int) -> tuple[Connection, Offer]:
        """The command that is meant, and where it is to be sent."""
        if call.deadline <= now:
            raise NotSentError(Outcome.NOT_NOW, "no time was left for it")
        if self._calls.is_full:
            limit = self._config.limits.operations
            raise NotSentError(Outcome.NOT_NOW, f"{limit} operations are under way")
        application = self._called(call)
        found = application.offers.get(call.method)
        if found is None:
            raise NotSentError(Outcome.UNKNOWN_ELEMENT, f"the application offers no command {call.method!r}")
        return found

    def _called(self, call: MethodCall) -> Application:
        application = self._applications.by_id(call.native_id)
        if application is None:
            raise NotSentError(Outcome.OBJECT_GONE, "there is no such application")
        if not application.connections:
            raise NotSentError(Outcome.SOURCE_DOWN, "the application is not connected")
        return application

    def _prepared(self, call: MethodCall, offered: Offer, request_id: str, now: int) -> Prepared:
        def find(kind: str, known_as: str) -> Row | None:
            table = self._objects.find(kind)
            return table.rows.get(object_id(call.agent, kind, known_as)) if table is not None else None

        found = prepare(offered, call, request_id, self._config.user, find)
        time = now // MILLISECOND
        instruction, shown = replace(found.instruction, now=time), replace(found.shown, now=time)
        return replace(found, instruction=instruction, shown=shown)
