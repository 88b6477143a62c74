"""Applications of a relay: who may log in, and what is told of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeAlias

from gateway.dialects.ami.codec import LineEnd
from gateway.dialects.ami.instructions import Login, Option
from gateway.dialects.ami.relay_config import SECOND, RelayConfig
from gateway.dialects.ami.relay_connections import Application, Connection
from gateway.dialects.ami.relay_effects import Collected, RefusedError
from gateway.dialects.ami.relay_objects import Objects, Told
from gateway.dialects.ami.relay_schemas import (
    APPLICATION,
    APPLICATION_CLASS,
    LOGGED_OUT_SEVERITY,
    METRICS,
    METRICS_CLASS,
    Events,
    application_id,
    metrics_id,
)
from gateway.dialects.ami.relay_tables import Table
from gateway.dialects.ami.values import AmiValue
from gateway.dialects.session import Peer
from gateway.model.observations import AgentGone, AgentLost, EventSeen, ResyncBegan, ResyncEnded, Severity
from gateway.model.schema import EventSchema, Method
from gateway.model.values import Value

_MANY = 1_000
"""Objects of an application, from which on its logins may not follow each other too closely,"""
_PAUSE = 10 * SECOND
"""that is not closer than this: with each, all of them are told again."""
_REFUSALS_INTERVAL = 60 * SECOND
"""Between two events that tell of one application's refused instructions."""
Tellings: TypeAlias = tuple[tuple[Table, Told], ...]
_LOOPBACK = ("127.", "::1", "::ffff:127.")


def is_local(peer: Peer) -> bool:
    """Whether somebody connected from the same machine."""
    return peer.address.startswith(_LOOPBACK)


class Applications:
    """Those that are connected, or have been.

    Args:
        config: of the session.
        objects: of theirs.
        events: of the relay.
        out: what is to be done.
    """

    def __init__(self, config: RelayConfig, objects: Objects, events: Events, out: Collected) -> None:
        self._config = config
        self._objects = objects
        self._events = events
        self._out = out
        self._known: dict[str, Application] = {}
        self._by_id: dict[str, Application] = {}
        package = config.relay_package
        self._table = objects.table(
            package, APPLICATION_CLASS, APPLICATION, "Application", "An application of AMI."
        )
        text = "What applications tell of themselves."
        self._metrics_table = objects.table(package, METRICS_CLASS, METRICS, "Metrics", text)

    def by_id(self, native_id: str) -> Application | None:
        """The application of this native id."""
        return self._by_id.get(native_id)

    def by_name(self, name: str) -> Application | None:
        """The application of this name."""
        return self._known.get(name)

    # Logging in.

    def log_in(self, connection: Connection, login: Login, now: int) -> None:
        """Let an application in.

        Raises:
            RefusedError: it may not, now or at all; nothing has changed.
        """
        self._admit(connection, login)
        name = login.process_id
        application = self._known.get(name)
        self._check_pace(application, now)
        oldest = None if application is not None else self._to_be_forgotten()
        application = application or Application(name)
        metrics = self._metrics(name, login.values, now)
        self._objects.check((self._table, self._told(application, now)), *metrics)
        if oldest is not None:
            self._forget(oldest, now)
        first = not application.connections
        if first:
            application.since = now
        application.connections[connection.number] = connection
        application.plugin, application.options = login.plugin, login.options
        application.address, application.certificate = connection.peer.address, connection.peer.name
        self._known[name] = self._by_id[application_id(name)] = application
        self._set_up(connection, application, login.options)
        self._tell_login(application, metrics, first=first, now=now)

    def _tell_login(self, application: Application, metrics: Tellings, *, first: bool, now: int) -> None:
        """Tell it, with all that it had before: it vouches for that again, as AMI has it."""
        name = application.name
        if first:
            self._out.observe(ResyncBegan(name))
        for table, told in metrics:
            self._objects.tell_checked(table, told, now)
        self.tell(application, now)
        if first:
            application.logins += 1
            number = application.logins
            self._objects.tell_all(name, lambda: self._told_all(application, number))
        certificate = application.certificate or None
        self.event(self._events.logged_in, application, now, application.address, certificate)

    def _told_all(self, application: Application, login: int) -> None:
        """All that it had was told, unless it has gone meanwhile."""
        if application.connections and application.logins == login:
            self._out.observe(ResyncEnded(complete=True, agent=application.name))

    def _admit(self, connection: Connection, login: Login) -> None:
        rules, peer = self._config.logins, connection.peer
        name = login.process_id
        if connection.application is not None:
            raise RefusedError("Already logged in")
        if not 0 < len(name) <= self._config.limits.name or not name.isprintable():
            raise RefusedError(f"a name (I) must be of 1 to {self._config.limits.name} printable characters")
        if rules.names is not None and name not in rules.names:
            raise RefusedError("this application may not log in here")
        if rules.certificates is not None and peer.name not in rules.certificates:
            raise RefusedError("this certificate may not log in here")
        if rules.own_name and name != peer.name:
            raise RefusedError("an application must be called (I) as its certificate is")
        if Option.TTY in login.options and not (rules.terminal and is_local(peer)):
            raise RefusedError("TTY is for terminals of this machine only")

    def _check_pace(self, application: Application | None, now: int) -> None:
        if application is None or application.connections:
            return
        many = self._objects.count(application.name) > _MANY
        if many and 0 <= now - application.since < _PAUSE:
            raise RefusedError("it was here a moment ago and has many objects: wait for 10 s")

    def _to_be_forgotten(self) -> Application | None:
        """Who has not been connected for longest, where there is no room for another one else.

        Raises:
            RefusedError: there is no room.
        """
        limits = self._config.limits
        if len(self._known) < limits.applications:
            return None
        gone = [one for one in self._known.values() if not one.connections]
        if not gone:
            raise RefusedError(f"{limits.applications} applications are connected already")
        return min(gone, key=lambda one: one.since)

    def _forget(self, application: Application, now: int) -> None:
        self._tell_refusals(application, now)
        self._objects.end_all(application.name, now)
        self._out.observe(AgentGone(application.name, "it made room for another application"))
        del self._known[application.name], self._by_id[application_id(application.name)]
        self._out.note("application-forgotten", f"{application.name!r} made room for another one")

    def _set_up(self, connection: Connection, application: Application, options: frozenset[Option]) -> None:
        connection.application = application
        connection.quiet = Option.QUIET in options
        connection.logs = Option.LOG in options and self._config.logins.log
        if Option.UNIX in options:
            connection.end = LineEnd.UNIX
        if Option.WINDOWS in options or Option.TTY in options:
            connection.end = LineEnd.WINDOWS

    def restore(self, name: str, told: Mapping[str, Value | None], created: int, now: int) -> None:
        """One was known before the gateway was started again; it is not connected yet.

        Args:
            name: of the application.
            told: elements of its object as they were told last.
            created: when that came into being, nanoseconds.
            now: nanoseconds.

        Raises:
            RefusedError: there is no room for it.
        """
        if len(self._known) >= self._config.limits.applications:
            raise RefusedError("there is no room for it")
        options = str(told.get("options") or "").split(",")
        since = told.get("since")
        application = Application(
            name,
            since=since if isinstance(since, int) else now,
            plugin=str(told.get("plugin") or ""),
            options=frozenset(option for option in Option if option.value in options),
            address=str(told.get("address") or ""),
            certificate=str(told.get("certificate") or ""),
        )
        known = replace(self._told(application, now), created=created)
        self._objects.check((self._table, known))
        self._known[name] = self._by_id[application_id(name)] = application
        self._objects.tell_checked(self._table, known, now)
        application.told_at = now

    # What is told of them.

    def tell_metrics(self, application: Application, metrics: Mapping[str, AmiValue], now: int) -> None:
        """Metrics were told, in part.

        Raises:
            RefusedError: they are more than the bounds allow.
        """
        for table, told in self._metrics(application.name, metrics, now):
            self._objects.tell(table, told, now)

    def _metrics(self, name: str, metrics: Mapping[str, AmiValue], now: int) -> Tellings:
        """What there is to tell of them: nothing where nothing is there, and nothing was."""
        if not metrics:
            return ()
        native_id, table = metrics_id(name), self._metrics_table
        if native_id not in table.rows and all(value is None for value in metrics.values()):
            return ()
        return ((table, Told(name, native_id, now, (name,), (), metrics)),)

    def tell(self, application: Application, now: int) -> None:
        """Tell of an application as it stands."""
        row = self._objects.tell_checked(self._table, self._told(application, now), now)
        # Without a connection they are shown as they were: whoever comes back offers them again.
        if application.connections and self._objects.call_by(row, _methods(application), now):
            reason = "the commands that it has left are not shown: it has changed them too often"
            self._out.note("commands-hidden", f"{application.name!r}: {reason}")
            application.note_refusal(reason)
        application.changed, application.told_at = False, now

    def check_commands(self, application: Application) -> None:
        """Make sure that the commands which it offers now can be shown.

        Raises:
            RefusedError: it has changed them too often.
        """
        row = self._table.rows[application_id(application.name)]
        self._objects.check_methods(row, _methods(application))

    def _told(self, application: Application, now: int) -> Told:
        name = application.name
        options = ",".join(one.value for one in Option if one in application.options)
        properties = (
            name,
            bool(application.connections),
            application.plugin or None,
            options or None,
            application.address,
            application.certificate or None,
            application.since,
        )
        statistics = (
            len(application.connections),
            self._objects.count(name),
            len(application.offers),
            application.instructions,
            application.refused,
            application.missing,
            application.repeated,
            application.lag,
        )
        return Told(name, application_id(name), now, properties, statistics)

    def tell_counts(self, now: int) -> None:
        """Tell of those whose counts have changed, if they were not told just now."""
        for application in self._known.values():
            if not 0 <= now - application.refusals_told_at < _REFUSALS_INTERVAL:
                self._tell_refusals(application, now)
            if not application.changed or 0 <= now - application.told_at < self._config.tell_interval:
                continue
            missing, repeated = application.gap_missing, application.gap_repeated
            if missing or repeated:
                application.gap_missing = application.gap_repeated = 0
                severity = Severity.WARNING
                self.event(self._events.sequence_gap, application, now, missing, repeated, severity=severity)
            self.tell(application, now)

    def _tell_refusals(self, application: Application, now: int) -> None:
        """Tell that something was refused, at once and then once a minute: nobody else may know."""
        if not application.refusals:
            return
        refusals, application.refusals, application.refusals_told_at = application.refusals, 0, now
        arguments = (refusals, application.refusal)
        self.event(self._events.refused, application, now, *arguments, severity=Severity.WARNING)

    @property
    def next_time(self) -> int:
        """When `tell_counts` has something to do; 0 for never."""
        known = self._known.values()
        times = [one.told_at + self._config.tell_interval for one in known if one.changed]
        times += [one.refusals_told_at + _REFUSALS_INTERVAL for one in known if one.refusals]
        return min(times, default=0)

    def event(
        self,
        schema: EventSchema,
        application: Application,
        time: int,
        *arguments: Value | None,
        severity: Severity = Severity.INFO,
    ) -> None:
        """Something happened that is told once."""
        name = application.name
        self._out.observe(EventSeen(schema.key, name, time, severity, (name, *arguments)))

    # Logging out.

    def log_out(self, connection: Connection, reason: str, now: int) -> None:
        """A connection is over: objects stay, but nobody vouches for them without another connection."""
        application = connection.application
        if application is None:
            return
        connection.application = None
        del application.connections[connection.number]
        if not application.connections:
            application.since = now
        severity = LOGGED_OUT_SEVERITY[connection.said_goodbye]
        self.event(self._events.logged_out, application, now, reason, severity=severity)
        self.tell(application, now)
        if not application.connections:
            self._out.observe(AgentLost(application.name, f"not connected: {reason}"))


def _methods(application: Application) -> tuple[Method, ...]:
    offers = application.offers
    return tuple(offers[name][1].method for name in sorted(offers))
