"""Carries out the lines of applications. An instruction that is refused has no effect.

Lines are delayed by P, carried out in order, answered and logged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from gateway.dialects.ami.codec import read_line, stated_sequence, write_instruction
from gateway.dialects.ami.instructions import (
    Alert,
    Command,
    Comment,
    Delete,
    Execute,
    Exit,
    Help,
    Instruction,
    Login,
    ObjectUpdate,
    Pause,
    Reply,
    Response,
    ResponseStatus,
    Status,
)
from gateway.dialects.ami.lines import Piece
from gateway.dialects.ami.relay_applications import Applications
from gateway.dialects.ami.relay_commands import Calls, Offer, answer, offer
from gateway.dialects.ami.relay_config import RelayConfig
from gateway.dialects.ami.relay_connections import Application, Connection
from gateway.dialects.ami.relay_effects import Collected, LoginRefusedError, RefusedError
from gateway.dialects.ami.relay_objects import Objects, Report
from gateway.dialects.ami.relay_publishing import Publishing
from gateway.dialects.ami.relay_schemas import (
    ALERT,
    ALERT_CLASS,
    OBJECT,
    Events,
    alert_id,
    insert_id,
    object_id,
)
from gateway.dialects.ami.relay_tables import Row, Table, in_a_map, without_secrets
from gateway.dialects.ami.values import AmiValue
from gateway.dialects.errors import LocalProtocolError, ProtocolError
from gateway.dialects.session import Logged, LoginRefused
from gateway.model.observations import Severity
from gateway.model.secrets import MASK, SecretRules
from gateway.model.texts import one_line
from gateway.model.times import MILLISECOND
from gateway.model.values import Value, Values

WELCOME: Final = "Welcome to AMI v1.0"
HELP: Final = (
    "L login (first), S status, O object, D delete, C command definition, R response to execute command, "
    "A alert (deprecated), X exit, H help, P pause"
)
ACCEPTED: Final = "ACK"
"""The reply to numbered instructions that change objects."""

ALERT_KEY: Final = "A"
"""The key of the alert that an object belongs to."""

EXPIRED: Final = "Expiry time (E) is past: the object has expired"
_LAST_TIME: Final = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class Arrived:
    """The origin of an instruction.

    Attributes:
        octets: octets of its line.
        now: the time of receipt, nanoseconds.
    """

    connection: Connection
    application: Application
    octets: int
    now: int


class Instructions:
    """Carries out instructions.

    Args:
        config: the configuration of the session.
        objects: the objects of all applications.
        applications: all applications.
        calls: the open calls.
        events: the events of the relay.
        publishing: decides what peers may publish.
        out: collects the effects.
    """

    def __init__(
        self,
        config: RelayConfig,
        objects: Objects,
        applications: Applications,
        calls: Calls,
        events: Events,
        publishing: Publishing,
        out: Collected,
    ) -> None:
        self._config = config
        self._publishing = publishing
        self._objects = objects
        self._applications = applications
        self._calls = calls
        self._events = events
        self._out = out
        self._last_insert = 0
        self._alerts = objects.table(
            config.relay_package,
            ALERT_CLASS,
            ALERT,
            "Alert",
            "An alert of an application; deprecated in AMI.",
        )
        self._handlers: dict[type, Callable[[Arrived, Any], str]] = {
            Status: self._status,
            ObjectUpdate: self._object,
            Alert: self._alert,
            Delete: self._delete,
            Command: self._command,
            Response: self._response,
        }

    def carry_out(self, connection: Connection, one: Instruction | Comment, octets: int, now: int) -> str:
        """Carry out an instruction; return the text of the reply.

        Args:
            connection: the connection that it arrived on.
            one: the instruction.
            octets: octets of its line.
            now: the time of receipt, nanoseconds.

        Raises:
            RefusedError: it is refused.
        """
        match one:
            case Login():
                self._applications.log_in(connection, one, now)
                return WELCOME
            case Comment():
                return "ignoring comment"
            case Help():
                return HELP
            case Pause():
                return self._pause(connection, one, now)
            case Exit():
                return self._exit(connection, one, now)
            case Reply() | Execute():
                raise RefusedError("M and E are sent by relays only")
        if connection.application is None:
            raise RefusedError(f"Must login (L) before {one.letter}")
        # Again, because roles can change while it is connected.
        self._applications.check_peer(connection, connection.application.name)
        arrived = Arrived(connection, connection.application, octets, now)
        text = self._handlers[type(one)](arrived, one)
        return text if one.sequence is None or isinstance(one, Command | Response) else ACCEPTED

    def as_shown(self, connection: Connection, one: Instruction | Comment) -> Instruction | Comment:
        """Return an instruction without the secret inputs of the call that it answers, for the log."""
        if not isinstance(one, Response):
            return one
        call = self._calls.find_on(connection.number, one.request_id)
        return one if call is None else call.unseen.left_out(one)

    # The session itself.

    def _pause(self, connection: Connection, one: Pause, now: int) -> str:
        if not self._config.logins.pause:
            raise RefusedError("P is not allowed here")
        if one.milliseconds * MILLISECOND > self._config.limits.pause:
            raise RefusedError(f"P holds up at most {self._config.limits.pause // MILLISECOND} ms")
        connection.paused_until = now + one.milliseconds * MILLISECOND
        return f"OK, waited {one.milliseconds} ms"

    def _exit(self, connection: Connection, one: Exit, now: int) -> str:
        if connection.application is not None:
            self._applications.report_metrics(connection, one.values, now)
        connection.over = connection.said_goodbye = True
        return ""

    def _status(self, arrived: Arrived, one: Status) -> str:
        self._applications.report_metrics(arrived.connection, one.values, _sampled(one, arrived.now))
        return "OK, status accepted"

    # Objects.

    def _object(self, arrived: Arrived, one: ObjectUpdate) -> str:
        table = self._objects.table_of_type(one.type, OBJECT, arrived.application.name)
        name, limit = arrived.application.name, self._config.limits.name
        if one.object_id is None:
            number = max(arrived.now, self._last_insert + 1)
            native_id, shown = insert_id(name, one.type, number), f"#{number}"
        else:
            if len(one.object_id) > limit:
                raise self._refused_new(table, f"an object's id (I) must be of at most {limit} characters")
            native_id, shown = object_id(name, one.type, one.object_id), one.object_id
        try:
            self._publishing.require(arrived.connection.peer, table.class_name, name, shown)
            text = self._report(table, arrived, one, native_id, (name, shown))
        except RefusedError as error:
            raise self._refused_new(table, str(error)) from error
        if one.object_id is None:
            self._last_insert = number
        return text or "OK, object accepted"

    def _refused_new(self, table: Table, text: str) -> RefusedError:
        self._objects.drop_unused(table)
        return RefusedError(text)

    def _alert(self, arrived: Arrived, one: Alert) -> str:
        limit = self._config.limits.name
        if max(len(one.alert_id), len(one.type)) > limit:
            raise RefusedError(f"an alert's id (I) and type (T) must be of at most {limit} characters")
        name, native_id = arrived.application.name, alert_id(arrived.application.name, one.alert_id)
        self._publishing.require(arrived.connection.peer, self._alerts.class_name, name, one.alert_id)
        assignee = None if one.assignee is None else self._config.secrets.masked_uris(one.assignee)
        if one.level:
            fixed = (name, one.alert_id, one.type, one.level, assignee)
            text = self._report(self._alerts, arrived, one, native_id, fixed)
        else:
            self._end(self._alerts, native_id, arrived)
            text = ""
        values = self._shown(one.values)
        self._applications.event(
            self._events.alert,
            arrived.application,
            _sampled(one, arrived.now),
            *(one.alert_id, one.type, one.level, assignee, values or None),
            severity=Severity.WARNING if one.level else Severity.CLEARED,
        )
        return text or "OK, object accepted"

    def _report(
        self, table: Table, arrived: Arrived, one: ObjectUpdate | Alert, native_id: str, fixed: Values
    ) -> str:
        """Report an object; return a text if it has expired already."""
        now, previous = arrived.now, table.rows.get(native_id)
        expires = _expiry(one.expires, now)
        expired = expires is not None and 0 < expires <= now
        shown = expires if expires is not None else (previous.expires if previous is not None else 0)
        values = (*fixed, shown or None)
        report = Report(
            arrived.application.name,
            native_id,
            _sampled(one, now),
            values,
            (),
            _values(one),
            None if expired else expires,
        )
        row = self._objects.report(table, report, now)
        if expired:
            self._objects.end(row, now)
        return EXPIRED if expired else ""

    def _delete(self, arrived: Arrived, one: Delete) -> str:
        if one.object_id is None:
            raise RefusedError("an object's id (I) is needed to delete it")
        name, now, peer = arrived.application.name, arrived.now, arrived.connection.peer
        table = self._objects.find(one.type)
        alert = self._alerts.rows.get(alert_id(name, one.object_id))
        if alert is not None and alert.properties[2] != one.type:
            alert = None
        for deleted in (table, self._alerts if alert is not None else None):
            if deleted is not None:
                self._publishing.require(peer, deleted.class_name, name, one.object_id)
        if table is not None:
            self._end(table, object_id(name, one.type, one.object_id), arrived)
        if alert is not None:
            self._objects.end(alert, now)
        return "OK, delete accepted"

    def _end(self, table: Table, native_id: str, arrived: Arrived) -> None:
        row = table.rows.get(native_id)
        if row is not None:
            self._objects.end(row, arrived.now)

    # Commands.

    def _command(self, arrived: Arrived, one: Command) -> str:
        connection, limits, known_as = arrived.connection, self._config.limits, one.command_id
        taken = connection.offered_octets - connection.offer_octets.get(known_as, 0)
        if one.level == 0:
            connection.offers.pop(known_as, None)
            connection.offer_octets.pop(known_as, None)
            connection.offered_octets = taken
        else:
            if not 0 < len(known_as) <= limits.name or not known_as.isprintable():
                raise RefusedError(f"a command's id (I) must be of 1 to {limits.name} printable characters")
            if known_as not in connection.offers and len(connection.offers) >= limits.commands:
                raise RefusedError(f"there are {limits.commands} commands already")
            if taken + arrived.octets > limits.command_octets:
                raise RefusedError("the definitions of all commands take too much room")
            self._offer(arrived, known_as, offer(one, self._config.secrets))
            connection.offer_octets[known_as] = arrived.octets
            connection.offered_octets = taken + arrived.octets
        self._applications.report(arrived.application, arrived.now)
        return "OK, command accepted"

    def _offer(self, arrived: Arrived, known_as: str, offered: Offer | None) -> None:
        offers = arrived.connection.offers
        previous = dict(offers)
        offers[known_as] = offered
        try:
            self._applications.check_commands(arrived.application)
        except RefusedError:
            offers.clear()
            offers.update(previous)
            raise

    def _response(self, arrived: Arrived, one: Response) -> str:
        call = self._calls.find_on(arrived.connection.number, one.request_id)
        if call is None:
            raise RefusedError("Unknown Original Request ID")
        one = call.unseen.left_out(one)
        text = "OK, response accepted"
        if one.status == ResponseStatus.CLOSE_AND_UPDATE and one.values:
            row = call.row
            if row is not None and row.is_there and self._may_change(arrived, row):
                sampled = _sampled(one, arrived.now)
                report = Report(row.agent, row.native_id, sampled, row.properties, (), one.values)
                self._objects.report(row.table, report, arrived.now)
            else:
                text = "OK, response accepted; there is no one object that its values could change"
        self._calls.end(one.request_id)
        self._out.answer(answer(call, one, self._shown(one.values), self._config.secrets))
        return text

    def _may_change(self, arrived: Arrived, row: Row) -> bool:
        """Return whether the peer may publish the object that a call was about."""
        parts = (str(row.properties[0]), str(row.properties[1]))
        return self._publishing.permits(arrived.connection.peer, row.table.class_name, *parts)

    def _shown(self, values: Mapping[str, AmiValue]) -> dict[str, Value]:
        """Return values as a map of the model: without absent ones and secrets."""
        secrets = self._config.secrets
        shown = ((key, in_a_map(value, secrets)) for key, value in values.items() if not secrets.hides(key))
        return {key: value for key, value in shown if value is not None}


def _values(one: ObjectUpdate | Alert) -> Mapping[str, AmiValue]:
    """Return the values of an object, with its alert (deprecated) under the key in which it arrived."""
    if isinstance(one, Alert) or one.alert_id is None:
        return one.values
    return {**one.values, ALERT_KEY: one.alert_id}


def _expiry(milliseconds: int | None, now: int) -> int | None:
    """Return when an object expires, in nanoseconds; 0 for never, and for times beyond 64 bits."""
    if milliseconds is None:
        return None
    time = milliseconds * MILLISECOND if milliseconds > 0 else now - milliseconds * MILLISECOND
    return time if milliseconds and time <= _LAST_TIME else 0


def _sampled(one: Status | ObjectUpdate | Alert | Response, now: int) -> int:
    """Return the time of the values, which is not later than their arrival, whatever the sender's clock."""
    return min(one.now * MILLISECOND, now) if one.now else now


def logged_line(
    octets: bytes, one: Instruction | Comment, secrets: SecretRules, *, as_came: bool = True
) -> bytes:
    """Return the line of an instruction for the log: unchanged where it contains no secrets.

    Args:
        octets: the line.
        one: its instruction; without secret inputs where it is not ``as_came``.
        secrets: the rules for other secrets.
        as_came: whether ``one`` is unchanged from ``octets``.
    """
    if isinstance(one, Comment):  # it may be an instruction that was commented out, with its secrets
        return f"# a comment of {len(octets)} octets".encode()
    changes: dict[str, Any] = {}
    values: Mapping[str, AmiValue] = getattr(one, "values", {})
    shown = {key: _shown(key, value, secrets) for key, value in values.items()}
    if shown != values:
        changes["values"] = shown
    if isinstance(one, Command) and one.form is not None:
        changes["form"] = None  # it may contain initial values of passwords
    if not changes and as_came:
        return _masked(octets, secrets)
    try:
        line = write_instruction(replace(one, **changes))
    except LocalProtocolError:
        return f"{one.letter}, with secrets".encode()
    return _masked(line.strip(), secrets)


def _shown(key: str, value: AmiValue, secrets: SecretRules) -> AmiValue:
    return MASK if secrets.hides(key) else without_secrets(value, secrets)


def _masked(octets: bytes, secrets: SecretRules) -> bytes:
    if b"://" not in octets:
        return octets
    return secrets.masked_uris(octets.decode(errors="replace")).encode()


class LineByLine:
    """Processes the lines of connections.

    Args:
        config: the configuration of the session.
        instructions: carries instructions out.
        out: collects the effects.
    """

    def __init__(self, config: RelayConfig, instructions: Instructions, out: Collected) -> None:
        self._config = config
        self._instructions = instructions
        self._out = out

    def take(self, known: Connection, piece: Piece, now: int) -> None:
        """Process a line, or hold it behind a pause."""
        if not known.paused_until:
            self._carry_out(known, piece, now)
            return
        limits, octets = self._config.limits, _octets(piece)
        if len(known.held) >= limits.held_lines or known.held_octets + octets > limits.held_octets:
            self._refuse(known, "too many lines wait behind P", _stated(piece))
            return
        known.held.append(piece)
        known.held_octets += octets

    def resume(self, known: Connection, now: int) -> None:
        """End a pause: send its reply, and process held lines up to the next pause."""
        number, text = known.pause_reply
        known.paused_until = 0
        self._reply(known, number, 0, text)
        while known.held and not known.paused_until and not known.over:
            piece = known.held.popleft()
            known.held_octets -= _octets(piece)
            self._carry_out(known, piece, now)

    def finish(self, known: Connection, now: int) -> None:
        """Process the held lines of a connection that has ended: they were sent before its end."""
        while known.held and not known.over:
            self._carry_out(known, known.held.popleft(), now)
        lost = known.lines.end()
        if lost and not known.over:
            self._out.note("line-unfinished", f"{who(known)}: {lost} octets without an end of the line")

    def say(self, known: Connection, line: bytes, shown: bytes) -> None:
        """Send a line with its end; ``shown`` is its form for the log."""
        self._log(known, shown, outgoing=True)
        self._out.write(known.number, line)  # last: after an error in between, nothing is sent

    def _carry_out(self, known: Connection, piece: Piece, now: int) -> None:
        if isinstance(piece, ProtocolError):
            self._out.note("protocol-error", f"{who(known)}: {piece}")
            self._refuse(known, str(piece), None)
            return
        try:
            one = read_line(piece, self._config.reading, self._config.dates).instruction
        except ProtocolError as error:
            self._out.note("protocol-error", f"{who(known)}: {error}")
            self._refuse(known, str(error), _stated(piece))
            return
        shown = self._instructions.as_shown(known, one) if known.logs else one
        try:
            text = self._instructions.carry_out(known, one, len(piece), now)
        except RefusedError as error:
            if isinstance(error, LoginRefusedError) and isinstance(one, Login):
                self._out.refuse(LoginRefused(known.peer.address, _login_text(known, one, error)))
            self._out.note("refused-instruction", f"{who(known)}: {error}")
            self._refuse(known, str(error), _sequence(one))
            return
        if known.logs:
            self._log(known, logged_line(piece, shown, self._config.secrets, as_came=shown == one))
        number = self._count(known, one, now)
        if isinstance(one, Pause):
            known.pause_reply = (number, text)
        elif not known.over:
            self._reply(known, number, 0, text)

    def _count(self, known: Connection, one: Instruction | Comment, now: int) -> int:
        """Count an instruction that was carried out; return the number of its reply."""
        number = known.sequence.take(_sequence(one))
        application = known.application
        if application is not None:
            application.instructions += 1
            if not isinstance(one, Comment) and one.now is not None:
                application.lag = now // MILLISECOND - one.now
            application.note_sequence(known.sequence)
            application.changed = True
        return number

    def _refuse(self, known: Connection, reason: str, sequence: int | None) -> None:
        """Reply to a line that has no effect, and count it."""
        text = one_line(self._config.secrets.masked_uris(reason))
        number = known.sequence.take(sequence)
        application = known.application
        if application is not None:
            application.note_refusal(text)
            application.note_sequence(known.sequence)
            application.changed = True
        self._log(known, f"refused: {text}".encode())
        self._reply(known, number, 1, text)

    def _reply(self, known: Connection, number: int, status: int, text: str) -> None:
        """Reply to an instruction (M): as in the pages, without a time and a number of its own."""
        if not known.quiet:
            line = write_instruction(Reply(number, status, text), known.end)
            self.say(known, line, line.strip())

    def _log(self, known: Connection, line: bytes, *, outgoing: bool = False) -> None:
        if known.logs and known.application is not None:
            self._out.log(Logged(known.application.name, line, outgoing))


def who(known: Connection) -> str:
    """Return a description of the peer, for people."""
    name = known.application.name if known.application is not None else "no application"
    return f"{name!r} from {known.peer.address}"


def _login_text(known: Connection, login: Login, error: LoginRefusedError) -> str:
    """Return why a login was refused, for the record of it."""
    certificate = f" with the certificate of {known.peer.name!r}" if known.peer.name else ""
    return f"{login.process_id!r}{certificate}: {error}"


def _octets(piece: Piece) -> int:
    return len(piece) if isinstance(piece, bytes) else 0


def _stated(piece: Piece) -> int | None:
    return stated_sequence(piece) if isinstance(piece, bytes) else None


def _sequence(one: Instruction | Comment) -> int | None:
    return None if isinstance(one, Comment) else one.sequence
