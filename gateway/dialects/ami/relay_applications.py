"""Applications of a relay: their logins, and the observations of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeAlias

from gateway.dialects.ami.codec import LineEnd
from gateway.dialects.ami.instructions import Login, Option
from gateway.dialects.ami.relay_config import RelayConfig
from gateway.dialects.ami.relay_connections import Application, Connection
from gateway.dialects.ami.relay_effects import Collected, LoginRefusedError, RefusedError
from gateway.dialects.ami.relay_objects import Objects, Report
from gateway.dialects.ami.relay_publishing import Publishing
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
from gateway.model.observations import (
    AgentGone,
    AgentLost,
    EventSeen,
    HeartbeatSeen,
    ResyncBegan,
    ResyncEnded,
    Severity,
    current_until,
)
from gateway.model.schema import EventSchema, Method
from gateway.model.times import SECOND
from gateway.model.values import Value

_MANY = 1_000
"""Number of objects of an application from which on its logins must be `_PAUSE` apart."""
_PAUSE = 10 * SECOND
"""Nanoseconds between logins of such an application, because each login reports all objects again."""
_REFUSALS_INTERVAL = 60 * SECOND
"""Nanoseconds between two events about refused instructions of one application."""
Reports: TypeAlias = tuple[tuple[Table, Report], ...]
_LOOPBACK = ("127.", "::1", "::ffff:127.")


def is_local(peer: Peer) -> bool:
    """Return whether a peer is connected from this machine."""
    return peer.address.startswith(_LOOPBACK)


class Applications:
    """The applications that are connected, or have been.

    Args:
        config: the configuration of the session.
        objects: the objects of all applications.
        events: the events of the relay.
        publishing: decides what peers may publish.
        out: collects the effects.
    """

    def __init__(
        self, config: RelayConfig, objects: Objects, events: Events, publishing: Publishing, out: Collected
    ) -> None:
        self._config = config
        self._publishing = publishing
        self._objects = objects
        self._events = events
        self._out = out
        self._known: dict[str, Application] = {}
        self._by_id: dict[str, Application] = {}
        package = config.relay_package
        self._table = objects.table(
            package, APPLICATION_CLASS, APPLICATION, "Application", "An application of AMI."
        )
        text = "What applications report of themselves."
        self._metrics_table = objects.table(package, METRICS_CLASS, METRICS, "Metrics", text)

    def by_id(self, native_id: str) -> Application | None:
        """Return the application of this native id; ``None`` if it is unknown."""
        return self._by_id.get(native_id)

    def by_name(self, name: str) -> Application | None:
        """Return the application of this name; ``None`` if it is unknown."""
        return self._known.get(name)

    # Logging in.

    def log_in(self, connection: Connection, login: Login, now: int) -> None:
        """Log an application in.

        Raises:
            RefusedError: it may not log in, now or at all; nothing has changed.
        """
        self._admit(connection, login)
        name = login.process_id
        application = self._known.get(name)
        self._check_pace(application, now)
        oldest = None if application is not None else self._to_be_forgotten()
        application = application or Application(name)
        metrics = self._metrics(connection, name, login.values, now)
        self._objects.check((self._table, self._report_of(application, now)), *metrics)
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
        self._report_login(application, metrics, first=first, now=now)

    def _report_login(self, application: Application, metrics: Reports, *, first: bool, now: int) -> None:
        """Report it with all its objects, which it confirms by its login, as AMI defines it."""
        name = application.name
        if first:
            self._out.observe(ResyncBegan(name))
        for table, report in metrics:
            self._objects.report_checked(table, report, now)
        self.report(application, now)
        if first:
            application.logins += 1
            number = application.logins
            self._objects.report_all(name, lambda: self._all_reported(application, number))
        certificate = application.certificate or None
        self.event(self._events.logged_in, application, now, application.address, certificate)

    def _all_reported(self, application: Application, login: int) -> None:
        """End the resynchronisation when all objects have been reported, unless it has disconnected."""
        if application.connections and application.logins == login:
            self.confirm(application)
            self._out.observe(ResyncEnded(complete=True, agent=application.name))

    def _admit(self, connection: Connection, login: Login) -> None:
        rules, peer = self._config.logins, connection.peer
        name = login.process_id
        if connection.application is not None:
            raise RefusedError("Already logged in")
        if not 0 < len(name) <= self._config.limits.name or not name.isprintable():
            raise RefusedError(f"a name (I) must be of 1 to {self._config.limits.name} printable characters")
        if rules.names is not None and name not in rules.names:
            raise LoginRefusedError("this application may not log in here")
        if rules.certificates is not None and peer.name not in rules.certificates:
            raise LoginRefusedError("this certificate may not log in here")
        if rules.own_name and name != peer.name:
            raise LoginRefusedError("an application must be called (I) as its certificate is")
        if Option.TTY in login.options and not (rules.terminal and is_local(peer)):
            raise RefusedError("TTY is for terminals of this machine only")
        self.check_peer(connection, name)

    def check_peer(self, connection: Connection, name: str) -> None:
        """Check that the peer of a connection may be the application of this name.

        Raises:
            RefusedError: no role permits it.
        """
        self._publishing.require(connection.peer, f"{self._config.relay_package}:{APPLICATION_CLASS}", name)

    def may_be(self, connection: Connection, name: str) -> bool:
        """Return whether the peer of a connection may be the application of this name."""
        class_name = f"{self._config.relay_package}:{APPLICATION_CLASS}"
        return self._publishing.permits(connection.peer, class_name, name)

    def _check_pace(self, application: Application | None, now: int) -> None:
        if application is None or application.connections:
            return
        many = self._objects.count(application.name) > _MANY
        if many and 0 <= now - application.since < _PAUSE:
            raise RefusedError("it was here a moment ago and has many objects: wait for 10 s")

    def _to_be_forgotten(self) -> Application | None:
        """Return the application that was disconnected for longest, if a new one needs its place.

        Raises:
            RefusedError: all are connected.
        """
        limits = self._config.limits
        if len(self._known) < limits.applications:
            return None
        gone = [one for one in self._known.values() if not one.connections]
        if not gone:
            raise RefusedError(f"{limits.applications} applications are connected already")
        return min(gone, key=lambda one: one.since)

    def _forget(self, application: Application, now: int) -> None:
        self._report_refusals(application, now)
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

    def restore(self, name: str, elements: Mapping[str, Value | None], created: int, now: int) -> None:
        """Restore an application that was known before the restart; it is not connected yet.

        Args:
            name: the name of the application.
            elements: the last reported values of its object's elements.
            created: when its object was created, nanoseconds.
            now: the time, nanoseconds.

        Raises:
            RefusedError: the bounds leave no room for it.
        """
        if len(self._known) >= self._config.limits.applications:
            raise RefusedError("there is no room for it")
        options = str(elements.get("options") or "").split(",")
        since = elements.get("since")
        application = Application(
            name,
            since=since if isinstance(since, int) else now,
            plugin=str(elements.get("plugin") or ""),
            options=frozenset(option for option in Option if option.value in options),
            address=str(elements.get("address") or ""),
            certificate=str(elements.get("certificate") or ""),
        )
        known = replace(self._report_of(application, now), created=created)
        self._objects.check((self._table, known))
        self._known[name] = self._by_id[application_id(name)] = application
        self._objects.report_checked(self._table, known, now)
        application.reported_at = now

    # Observations of applications.

    def confirm(self, application: Application) -> None:
        """Report until when the objects of an application are current.

        AMI has no request that it would answer, and it says nothing while nothing changes: what it has said
        holds as long as its connections are, and until nothing that it sent waits to be read.
        """
        received_until = min(one.received_until for one in application.connections.values())
        if received_until:
            until = current_until(received_until, 0, self._config.stale_after)
            self._out.observe(HeartbeatSeen(application.name, received_until, {"": until}))

    def report_metrics(self, connection: Connection, metrics: Mapping[str, AmiValue], now: int) -> None:
        """Report metrics of the application of a connection, which may be a part of all.

        Raises:
            RefusedError: they exceed the bounds, or no role permits them.
        """
        assert connection.application is not None
        for table, report in self._metrics(connection, connection.application.name, metrics, now):
            self._objects.report(table, report, now)

    def _metrics(
        self, connection: Connection, name: str, metrics: Mapping[str, AmiValue], now: int
    ) -> Reports:
        """Return the report of metrics; none where there are no values, and were none."""
        if not metrics:
            return ()
        self._publishing.require(connection.peer, f"{self._config.relay_package}:{METRICS_CLASS}", name)
        native_id, table = metrics_id(name), self._metrics_table
        if native_id not in table.rows and all(value is None for value in metrics.values()):
            return ()
        return ((table, Report(name, native_id, now, (name,), (), metrics)),)

    def report(self, application: Application, now: int) -> None:
        """Report an application in its present state."""
        row = self._objects.report_checked(self._table, self._report_of(application, now), now)
        # A disconnected application is shown with its methods: it offers them again when it returns.
        if application.connections and self._objects.call_by(row, _methods(application), now):
            reason = "the commands that it has left are not shown: it has changed them too often"
            self._out.note("commands-hidden", f"{application.name!r}: {reason}")
            application.note_refusal(reason)
        application.changed, application.reported_at = False, now

    def check_commands(self, application: Application) -> None:
        """Check that the commands which it offers now can be shown.

        Raises:
            RefusedError: it has changed them too often.
        """
        row = self._table.rows[application_id(application.name)]
        self._objects.check_methods(row, _methods(application))

    def _report_of(self, application: Application, now: int) -> Report:
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
        return Report(name, application_id(name), now, properties, statistics)

    def report_counts(self, now: int) -> None:
        """Report the applications whose counts have changed, at most once in an interval."""
        for application in self._known.values():
            if not 0 <= now - application.refusals_reported_at < _REFUSALS_INTERVAL:
                self._report_refusals(application, now)
            if not application.changed or 0 <= now - application.reported_at < self._config.report_interval:
                continue
            missing, repeated = application.gap_missing, application.gap_repeated
            if missing or repeated:
                application.gap_missing = application.gap_repeated = 0
                severity = Severity.WARNING
                self.event(self._events.sequence_gap, application, now, missing, repeated, severity=severity)
            self.report(application, now)

    def _report_refusals(self, application: Application, now: int) -> None:
        """Report refused instructions, at once and then once a minute: the application may be QUIET."""
        if not application.refusals:
            return
        refusals, application.refusals, application.refusals_reported_at = application.refusals, 0, now
        arguments = (refusals, application.refusal)
        self.event(self._events.refused, application, now, *arguments, severity=Severity.WARNING)

    @property
    def next_time(self) -> int:
        """The time at which `report_counts` has something to do; 0 for never."""
        known = self._known.values()
        times = [one.reported_at + self._config.report_interval for one in known if one.changed]
        times += [one.refusals_reported_at + _REFUSALS_INTERVAL for one in known if one.refusals]
        return min(times, default=0)

    def event(
        self,
        schema: EventSchema,
        application: Application,
        time: int,
        *arguments: Value | None,
        severity: Severity = Severity.INFO,
    ) -> None:
        """Report an event of an application."""
        name = application.name
        self._out.observe(EventSeen(schema.key, name, time, severity, (name, *arguments)))

    # Logging out.

    def log_out(self, connection: Connection, reason: str, now: int) -> None:
        """End a connection's login: objects stay, but are stale without another connection."""
        application = connection.application
        if application is None:
            return
        connection.application = None
        del application.connections[connection.number]
        if not application.connections:
            application.since = now
        severity = LOGGED_OUT_SEVERITY[connection.said_goodbye]
        self.event(self._events.logged_out, application, now, reason, severity=severity)
        self.report(application, now)
        if not application.connections:
            self._out.observe(AgentLost(application.name, f"not connected: {reason}"))


def _methods(application: Application) -> tuple[Method, ...]:
    offers = application.offers
    return tuple(offers[name][1].method for name in sorted(offers))
