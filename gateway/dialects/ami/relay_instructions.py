"""What each instruction of an application does. One that is refused changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

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
from gateway.dialects.ami.relay_applications import Applications
from gateway.dialects.ami.relay_calls import Calls, answer
from gateway.dialects.ami.relay_columns import in_a_map
from gateway.dialects.ami.relay_commands import Offer, offer
from gateway.dialects.ami.relay_config import MILLISECOND, RelayConfig
from gateway.dialects.ami.relay_connections import Application, Connection
from gateway.dialects.ami.relay_effects import Collected, RefusedError
from gateway.dialects.ami.relay_objects import Objects, Told
from gateway.dialects.ami.relay_schemas import (
    ALERT,
    ALERT_CLASS,
    OBJECT,
    Events,
    alert_id,
    insert_id,
    object_id,
)
from gateway.dialects.ami.relay_tables import Table
from gateway.dialects.ami.values import AmiValue
from gateway.model.observations import Severity
from gateway.model.values import Value, Values

WELCOME: Final = "Welcome to AMI v1.0"
HELP: Final = (
    "L login (first), S status, O object, D delete, C command definition, R response to execute command, "
    "A alert (deprecated), X exit, H help, P pause"
)
ACCEPTED: Final = "ACK"
"""What instructions with a sequence number are told that change what is known."""

ALERT_KEY: Final = "A"
"""Of the alert that an object says it belongs to."""

EXPIRED: Final = "Expiry time (E) is past: the object has expired"
_LAST_TIME: Final = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class Arrived:
    """Where an instruction came from.

    Attributes:
        octets: that its line took.
        now: nanoseconds.
    """

    connection: Connection
    application: Application
    octets: int
    now: int


class Instructions:
    """Carries them out.

    Args:
        config: of the session.
        objects: of all applications.
        applications: all of them.
        calls: that are open.
        events: of the relay.
        out: what is to be done.
    """

    def __init__(
        self,
        config: RelayConfig,
        objects: Objects,
        applications: Applications,
        calls: Calls,
        events: Events,
        out: Collected,
    ) -> None:
        self._config = config
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
        """Do what an instruction says; returns what its sender is told.

        Args:
            connection: that it came on.
            one: the instruction.
            octets: that its line took.
            now: nanoseconds.

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
                raise RefusedError("M and E are what a relay says")
        if connection.application is None:
            raise RefusedError(f"Must login (L) before {one.letter}")
        arrived = Arrived(connection, connection.application, octets, now)
        text = self._handlers[type(one)](arrived, one)
        return text if one.sequence is None or isinstance(one, Command | Response) else ACCEPTED

    def as_shown(self, connection: Connection, one: Instruction | Comment) -> Instruction | Comment:
        """An instruction, to be carried out next, without what was typed unseen for the call it answers."""
        if not isinstance(one, Response):
            return one
        call = self._calls.find(one.request_id, connection.number)
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
            self._applications.tell_metrics(connection.application, one.values, now)
        connection.over = connection.said_goodbye = True
        return ""

    def _status(self, arrived: Arrived, one: Status) -> str:
        self._applications.tell_metrics(arrived.application, one.values, _sampled(one, arrived.now))
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
            text = self._tell(table, arrived, one, native_id, (name, shown))
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
        assignee = None if one.assignee is None else self._config.secrets.masked_uris(one.assignee)
        if one.level:
            fixed = (name, one.alert_id, one.type, one.level, assignee)
            text = self._tell(self._alerts, arrived, one, native_id, fixed)
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

    def _tell(
        self, table: Table, arrived: Arrived, one: ObjectUpdate | Alert, native_id: str, fixed: Values
    ) -> str:
        """Tell an object, which may have expired with it; returns a text if it has."""
        now, former = arrived.now, table.rows.get(native_id)
        expires = _expiry(one.expires, now)
        expired = expires is not None and 0 < expires <= now
        shown = expires if expires is not None else (former.expires if former is not None else 0)
        values = (*fixed, shown or None)
        told = Told(
            arrived.application.name,
            native_id,
            _sampled(one, now),
            values,
            (),
            _values(one),
            None if expired else expires,
        )
        row = self._objects.tell(table, told, now)
        if expired:
            self._objects.end(row, now)
        return EXPIRED if expired else ""

    def _delete(self, arrived: Arrived, one: Delete) -> str:
        if one.object_id is None:
            raise RefusedError("an object's id (I) is needed to delete it")
        name, now = arrived.application.name, arrived.now
        table = self._objects.find(one.type)
        if table is not None:
            self._end(table, object_id(name, one.type, one.object_id), arrived)
        alert = self._alerts.rows.get(alert_id(name, one.object_id))
        if alert is not None and alert.properties[2] == one.type:
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
        self._applications.tell(arrived.application, arrived.now)
        return "OK, command accepted"

    def _offer(self, arrived: Arrived, known_as: str, offered: Offer | None) -> None:
        offers = arrived.connection.offers
        former = dict(offers)
        offers[known_as] = offered
        try:
            self._applications.check_commands(arrived.application)
        except RefusedError:
            offers.clear()
            offers.update(former)
            raise

    def _response(self, arrived: Arrived, one: Response) -> str:
        call = self._calls.find(one.request_id, arrived.connection.number)
        if call is None:
            raise RefusedError("Unknown Original Request ID")
        one = call.unseen.left_out(one)
        text = "OK, response accepted"
        if one.status == ResponseStatus.CLOSE_AND_UPDATE and one.values:
            row = call.row
            if row is not None and row.is_there:
                sampled = _sampled(one, arrived.now)
                told = Told(row.agent, row.native_id, sampled, row.properties, (), one.values)
                self._objects.tell(row.table, told, arrived.now)
            else:
                text = "OK, response accepted; there is no one object that its values could change"
        self._calls.end(one.request_id)
        self._out.answer(answer(call, one, self._shown(one.values), self._config.secrets))
        return text

    def _shown(self, values: Mapping[str, AmiValue]) -> dict[str, Value]:
        """Values as a map of the model: those that are there, and no secrets."""
        secrets = self._config.secrets
        shown = ((key, in_a_map(value, secrets)) for key, value in values.items() if not secrets.hides(key))
        return {key: value for key, value in shown if value is not None}


def _values(one: ObjectUpdate | Alert) -> Mapping[str, AmiValue]:
    """What an instruction tells of an object: its alert (deprecated) under the key by which it came."""
    if isinstance(one, Alert) or one.alert_id is None:
        return one.values
    return {**one.values, ALERT_KEY: one.alert_id}


def _expiry(milliseconds: int | None, now: int) -> int | None:
    """When an object expires, nanoseconds; 0 for never, which is what is too far off to be told, too."""
    if milliseconds is None:
        return None
    time = milliseconds * MILLISECOND if milliseconds > 0 else now - milliseconds * MILLISECOND
    return time if milliseconds and time <= _LAST_TIME else 0


def _sampled(one: Status | ObjectUpdate | Alert | Response, now: int) -> int:
    """When it was true: never later than it arrived, however an application's clock goes."""
    return min(one.now * MILLISECOND, now) if one.now else now
