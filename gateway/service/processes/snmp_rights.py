"""The rights of SNMP clients: what communities and users see, set, and from where, in each context."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import structlog

from gateway.config.snmp import SnmpSettings, SnmpUser, SnmpView, SnmpWriter
from gateway.rate_limiter import RateLimiter
from gateway.snmp.allowed_networks import AllowedNetworks
from gateway.snmp.ber import Oid, parse_oid
from gateway.snmp.processing import Access
from gateway.snmp.restricted_views import RestrictedViews
from gateway.snmp.source_view import SourceView
from gateway.snmp.store import MibView
from gateway.snmp.subtree_view import EVERYTHING, Subtrees, SubtreeView
from gateway.snmp.v3.rights import NoAccess
from gateway.snmp.v3.users import SecurityLevel

log = structlog.get_logger(__name__)

_WRONG_NETWORK_LINES = 5  # a minute


def access_of(settings: SnmpSettings, view: MibView, writer: str = "") -> Access:
    """Return the rights of a writer, or of the community that reads, in what is visible to all of them.

    Args:
        settings: the settings of SNMP.
        view: what it sees by its roles.
        writer: the name of the writer; empty for the community that reads.
    """
    if writer:
        return _access(settings, settings.writers[writer], f"snmp.writers.{writer}", view, writer)
    return _access(settings, settings, "snmp", view, "")


class UserAccess:
    """The rights of users of version 3: in the default context everything, in that of a source what it has.

    Args:
        settings: the settings of SNMP.
        views: what principals see.
        sources: the names of the configured sources.
        number: returns the number of a source; ``None`` while it is not known.
    """

    def __init__(
        self,
        settings: SnmpSettings,
        views: RestrictedViews,
        sources: Iterable[str],
        number: Callable[[str], int | None],
    ) -> None:
        self._settings = settings
        self._views = views
        self._sources = frozenset(source.encode() for source in sources)
        self._number = number
        self._default = {
            name: self._access(name, views.of(name), may_set=user.may_set)
            for name, user in settings.users.items()
        }
        self._in_sources: dict[tuple[str, int], Access] = {}

    def __call__(self, user: str, level: SecurityLevel, context: bytes) -> Access | NoAccess:
        """Return the rights of a user in a context (`gateway.snmp.v3.responder.AccessOf`)."""
        del level  # what is below the user's lowest was refused before
        if not context:
            return self._default[user]
        if context not in self._sources or not self._views.sees_source(user, context.decode()):
            return NoAccess.UNKNOWN_CONTEXT
        number = self._number(context.decode())
        if number is None:
            return NoAccess.UNAVAILABLE_CONTEXT
        access = self._in_sources.get((user, number))
        if access is None:
            access = self._access(user, SourceView(self._views.of(user), number), may_set=False)
            self._in_sources[user, number] = access
        return access

    def _access(self, name: str, view: MibView, *, may_set: bool) -> Access:
        user = self._settings.users[name]
        return _access(self._settings, user, f"snmp.users.{name}", view, name if may_set else "")


def _access(
    settings: SnmpSettings, own: SnmpSettings | SnmpWriter | SnmpUser, key: str, view: MibView, writer: str
) -> Access:
    networks = None
    if own.allowed_networks is not None:
        networks = AllowedNetworks(own.allowed_networks, _WrongNetworks(f"{key}.allowed_networks").refused)
    if own.view is None:
        return Access(view, writer, networks)
    subtrees = _subtrees(settings, settings.views[own.view])
    return Access(SubtreeView(view, subtrees), writer, networks, subtrees)


def _subtrees(settings: SnmpSettings, view: SnmpView) -> Subtrees:
    def roots(written: Iterable[str]) -> list[Oid]:
        return [parse_oid(settings.object_identifier(subtree)) for subtree in written]

    return Subtrees(EVERYTHING if view.include is None else roots(view.include), roots(view.exclude))


class _WrongNetworks:
    """Logs requests with a known community or user from a network that may not use it, a few a minute.

    Args:
        key: the key of the configuration that lists the networks.
    """

    def __init__(self, key: str) -> None:
        self._key = key
        self._limiter = RateLimiter(_WRONG_NETWORK_LINES, 60.0)

    def refused(self, address: str) -> None:
        left_out = self._limiter.admit()
        if left_out is not None:
            log.warning("snmp-network-not-allowed", address=address, left_out=left_out, see=self._key)
