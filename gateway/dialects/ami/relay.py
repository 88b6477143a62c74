"""The relay session: AMI's console, to which applications connect and report their objects.

Reports are kept, because AMI has no request for them. Types of objects (T) become classes, the
keys of an application their elements, its commands methods of its own object. `relay_instructions` carries
out each instruction; the interface document and the vendor's pages define who sends what in which order.
"""

from __future__ import annotations

from dataclasses import replace

from gateway.dialects.ami.codec import LineEnd, write_instruction
from gateway.dialects.ami.lines import Lines
from gateway.dialects.ami.relay_applications import Applications, is_local
from gateway.dialects.ami.relay_commands import Calls, Offer, OpenCall, Prepared, prepare
from gateway.dialects.ami.relay_config import LoginRules, RelayConfig, RelayLimits
from gateway.dialects.ami.relay_connections import Application, Connection
from gateway.dialects.ami.relay_effects import Collected
from gateway.dialects.ami.relay_instructions import Instructions, LineByLine, who
from gateway.dialects.ami.relay_objects import Objects
from gateway.dialects.ami.relay_publishing import Publishing, PublishRules
from gateway.dialects.ami.relay_restoring import Restoring
from gateway.dialects.ami.relay_schemas import OBJECT, Events, object_id
from gateway.dialects.ami.relay_tables import Row
from gateway.dialects.console import NotSentError, sending_last
from gateway.dialects.errors import LocalProtocolError
from gateway.dialects.session import (
    NEVER,
    BytesReceived,
    Effect,
    Event,
    EventNotTakenError,
    ListenerStops,
    Listening,
    ObjectsRestored,
    Peer,
    PeerConnected,
    PeerDisconnected,
    ReceivedUntil,
    TimerExpired,
    cannot_be_set,
)
from gateway.model.observations import EventLearned, SourceState, SourceStateSeen
from gateway.model.operations import Answer, MethodCall, ObjectFetch, ObjectModify, Outcome
from gateway.model.schema import ClassSchema
from gateway.model.times import MILLISECOND, SECOND

__all__ = ["LoginRules", "RelayConfig", "RelayLimits", "RelaySession"]


class RpcClient:
    """Calls the commands of applications.

    Args:
        config: the configuration of the session.
        objects: the objects of all applications.
        applications: all applications.
        calls: the open calls.
        lines: sends instructions.
        out: collects the effects.
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
        """Send a call, or answer it at once with the reason why it is not sent."""
        request_id = self._calls.next_id
        try:
            connection, offered, prepared, line = self._checked(call, request_id, now)
        except NotSentError as error:
            self._out.answer(error.answer(call.token))
            return
        patience = offered.timeout * MILLISECOND or self._config.call_seconds * SECOND
        deadline = min(call.deadline, now + patience)
        shown = write_instruction(prepared.shown).strip()
        self._calls.ask(OpenCall(call, connection.number, deadline, prepared.row, prepared.unseen))
        self._lines.say(connection, line, shown)

    def precheck(self, call: MethodCall, now: int) -> Answer | None:
        """Return the answer that `call` would give at once; ``None`` where it would send the call."""
        try:
            self._checked(call, self._calls.next_id, now)
        except NotSentError as error:
            return error.answer(call.token)
        return None

    def _checked(
        self, call: MethodCall, request_id: str, now: int
    ) -> tuple[Connection, Offer, Prepared, bytes]:
        """Return the connection, the command, its arguments and its line; raise `NotSentError` otherwise."""
        connection, offered = self._offered(call, now)
        prepared = self._prepared(call, offered, request_id, now)
        try:
            line = write_instruction(prepared.instruction, connection.end)
        except LocalProtocolError as error:
            raise NotSentError(Outcome.WRONG_VALUE, str(error)) from error
        return connection, offered, prepared, line

    def fetch(self, fetch: ObjectFetch) -> None:
        """Answer that AMI cannot read an object again."""
        application = self._applications.by_name(fetch.agent)
        if application is None or not self._objects.has(fetch.native_id):
            outcome, text = Outcome.OBJECT_GONE, "there is no such object"
        elif not application.connections:
            outcome, text = Outcome.SOURCE_DOWN, "the application is not connected"
        else:
            outcome = Outcome.NOT_NOW
            text = "AMI has no request for an object: what is shown is what its application reported last"
        self._out.answer(Answer(fetch.token, outcome, f"not read: {text}"))

    def _offered(self, call: MethodCall, now: int) -> tuple[Connection, Offer]:
        """Return the command that is called, and the connection that offers it."""
        if call.deadline <= now:
            raise NotSentError(Outcome.NOT_NOW, "no time was left for it")
        if self._calls.is_full:
            limit = self._config.limits.operations
            raise NotSentError(Outcome.NOT_NOW, f"{limit} operations are under way")
        application = self._called(call)
        found = application.offers.get(call.method)
        if found is None:
            raise NotSentError(Outcome.UNKNOWN_ELEMENT, f"the application offers no command {call.method!r}")
        if not self._applications.may_be(found[0], application.name):
            raise NotSentError(Outcome.NOT_NOW, "no role lets the peer be this application any more")
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


class RelaySession:
    """A relay of AMI for all applications that connect to one listener, without I/O.

    The observations of one event are one `Observed`, before answers and written lines. The agents of
    the source are the applications, by the name of their login.
    """

    def __init__(self, config: RelayConfig) -> None:
        self._config = config
        self._out = out = Collected()
        self._events = Events(config.relay_package)
        self._objects = objects = Objects(config, out)
        self._publishing = publishing = Publishing(config.publishing, out)
        self._applications = Applications(config, objects, self._events, publishing, out)
        self._calls = Calls(config.limits.operations)
        instructions = Instructions(
            config, objects, self._applications, self._calls, self._events, publishing, out
        )
        self._lines = LineByLine(config, instructions, out)
        self._client = RpcClient(config, objects, self._applications, self._calls, self._lines, out)
        self._connections: dict[int, Connection] = {}
        for schema in config.schemas:
            if schema.key.package == config.package:
                objects.know_type(schema, OBJECT)

    @property
    def schemas(self) -> tuple[ClassSchema, ...]:
        """The latest version of each class that grows, to be kept for `RelayConfig.schemas`."""
        return self._objects.schemas

    def change_publishing(self, rules: PublishRules | None) -> None:
        """Decide by other rules from now on; what was published stays."""
        self._publishing.rules = rules

    def handle(self, event: Event, now: int) -> list[Effect]:  # noqa: C901, PLR0912  a case for each event
        """Process an event; as `Session.handle`, for all events of a listener and for operations.

        A command is called once. After ``SOURCE_DOWN`` and the outcomes of a check, nothing was sent.
        ``UNKNOWN`` stands for no answer in time, a connection that ended, or an answer without a result; a
        late answer may follow it. AMI has no request to read or set an object.
        """
        match event:
            case BytesReceived(connection, octets):
                self._receive(connection, octets, now)
            case TimerExpired():
                self._pass_time(now)
            case PeerConnected(connection, peer):
                self._accept(connection, peer, now)
            case PeerDisconnected(connection, reason):
                known = self._connections.pop(connection, None)
                if known is not None:
                    self._lines.finish(known, now)
                    self._forget(known, reason, now)
            case ReceivedUntil(until, connection):
                self._received_until(connection, until)
            case MethodCall():
                with sending_last():
                    self._client.call(event, now)
            case ObjectFetch():
                self._client.fetch(event)
            case ObjectModify():
                self._out.answer(cannot_be_set(event))
            case ObjectsRestored(objects):
                self._objects.report_classes()  # no event of an application causes this
                Restoring(self._config, self._objects, self._applications, self._out).restore(objects, now)
            case Listening():
                self._begin()
            case ListenerStops():
                for known in self._connections.values():
                    self._end(known, "the gateway ends", now)
                self._out.observe(SourceStateSeen(SourceState.DOWN, "the gateway ends"))
            case _:
                raise EventNotTakenError(self, event)
        return self._finish()

    def precheck(self, request: MethodCall | ObjectModify, now: int) -> Answer | None:
        """Return what `ConsoleSession.precheck` documents."""
        if isinstance(request, ObjectModify):
            return cannot_be_set(request)
        return self._client.precheck(request, now)

    def _begin(self) -> None:
        """Report the source as synchronised, although no application may have connected yet."""
        self._out.observe(SourceStateSeen(SourceState.SYNCHRONISED, "listening for applications"))
        self._out.observe(*(EventLearned(schema) for schema in self._events.schemas))
        self._objects.report_classes()

    def _accept(self, connection: int, peer: Peer, now: int) -> None:
        if len(self._connections) >= self._config.limits.connections:
            self._out.note("connection-refused", f"from {peer.address}: too many are open")
            self._out.close(connection)
        else:
            lines = Lines(self._config.limits.line)
            self._connections[connection] = Connection(connection, peer, now, lines)

    def _receive(self, connection: int, octets: bytes, now: int) -> None:
        known = self._connections.get(connection)
        if known is None or known.over:
            return
        pieces = known.lines.feed(octets)
        if known.lines.interactive:
            self._greet_terminal(known, now)
        for piece in pieces:
            if not known.over:
                self._lines.take(known, piece, now)
        self._end_if_over(known, now)

    def _received_until(self, connection: int, until: int) -> None:
        """Note that nothing of a connection waits; lines behind a pause do."""
        known = self._connections.get(connection)
        if known is not None and not known.held:
            known.received_until = until
            if known.application is not None:
                self._applications.confirm(known.application)

    def _pass_time(self, now: int) -> None:
        """Expire objects, give up calls, and observe changed classes."""
        self._out.woken()
        # A pause that ends later than this began before the clock was set back.
        longest = self._config.limits.pause
        for known in self._connections.values():
            if known.paused_until and not known.paused_until - longest <= now < known.paused_until:
                self._lines.resume(known, now)
                self._end_if_over(known, now)
            elif 0 < self._login_deadline(known) <= now:
                self._out.note("no-login", who(known))
                self._end(known, "it has not logged in", now)
        for one in self._calls.give_up_overdue(now):
            self._out.answer(one)
        self._objects.pass_time(now)
        self._applications.report_counts(now)

    # The ends of connections.

    def _greet_terminal(self, known: Connection, now: int) -> None:
        """Treat the peer as a terminal, because its first octet was Telnet's; it must be local."""
        if self._config.logins.terminal and is_local(known.peer):
            known.end = known.end if known.application is not None else LineEnd.WINDOWS
        else:
            self._out.note("terminal-refused", who(known))
            self._end(known, "a terminal of another machine", now)

    def _end_if_over(self, known: Connection, now: int) -> None:
        if known.over:
            self._end(known, "it sent an end of session (X)", now)

    def _end(self, known: Connection, reason: str, now: int) -> None:
        known.over = True
        known.held.clear()
        if not known.closed:
            known.closed = True
            self._out.close(known.number)
        self._forget(known, reason, now)

    def _forget(self, known: Connection, reason: str, now: int) -> None:
        """End all that depends on a connection; objects stay."""
        for one in self._calls.lose(known.number, reason):
            self._out.answer(one)
        self._applications.log_out(known, reason, now)

    # Time.

    def _login_deadline(self, known: Connection) -> int:
        """Return the deadline of its login; 0 where it has logged in, or has ended."""
        waits = known.application is None and not known.over
        return known.opened + self._config.logins.within if waits else 0

    def _finish(self) -> list[Effect]:
        """Return all effects, with the time of the next timer."""
        times = [self._objects.next_time, self._applications.next_time]
        for known in self._connections.values():
            times += [known.paused_until, self._login_deadline(known)]
        wake_at = min(self._calls.next_deadline, *(time for time in times if time), NEVER)
        return self._out.take(0 if wake_at == NEVER else wake_at)
