"""The sending of SNMP notifications: configured receivers, saved notifications, and sockets."""

from __future__ import annotations

import asyncio
import hashlib
import os
import struct
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import structlog

from gateway.clock import Clock
from gateway.config.files import LoadedConfiguration
from gateway.config.snmp import NotificationTarget, SnmpSettings
from gateway.config.types import SecretError
from gateway.durable_files import write_durably
from gateway.service.processes.snmp_users import SnmpSecurity
from gateway.snmp.ber import Oid
from gateway.snmp.fixed_mib import PRODUCT, TargetKindNumber
from gateway.snmp.notifications.encoding import MAX_COMMUNITY_OCTETS, EncodedNotification
from gateway.snmp.notifications.log import NotificationLog
from gateway.snmp.notifications.notification import ActiveAlarms, Notification
from gateway.snmp.notifications.receiver import Address, Target
from gateway.snmp.notifications.saved import (
    NewerVersionError,
    SavedNotifications,
    SavedNotificationsError,
    from_text,
    to_text,
)
from gateway.snmp.notifications.secured import NoKeysError
from gateway.snmp.notifications.sender import NotificationSender, Outside, SenderSettings
from gateway.snmp.notifications.sockets import NotificationSockets, keep_sending
from gateway.snmp.projection import Projection
from gateway.snmp.store import Store
from gateway.snmp.tables.health import TargetTable
from gateway.snmp.tables.notification_log import serve_notification_log
from gateway.snmp.tables.receivers import serve_receivers
from gateway.state_folder import StateError, StateFolder
from gateway.tasks import until_one_ends

log = structlog.get_logger(__name__)

FILE = "notifications.json"
"""The file in the state folder with the last handled event, and the informs without an answer."""

SAVE_SECONDS = 1.0
SAVE_AGAIN_SECONDS = 10.0
_SAVE_SHARE = 0.1  # of one core at most, however much waits
_LOG_SECONDS = 60.0
_LARGEST_REQUEST_ID = 2**31 - 1
_REQUEST_IDS_AT_ONCE = struct.Struct("=256I")
_KINDS = {
    ("trap", "v1"): TargetKindNumber.TRAP_V1,
    ("trap", "v2c"): TargetKindNumber.TRAP_V2C,
    ("inform", "v2c"): TargetKindNumber.INFORM_V2C,
    ("trap", "v3"): TargetKindNumber.TRAP_V3,
    ("inform", "v3"): TargetKindNumber.INFORM_V3,
}


def targets_of(
    loaded: LoadedConfiguration, community: str, security: SnmpSecurity | None
) -> tuple[Target, ...]:
    """Return the configured receivers.

    Args:
        loaded: the configuration.
        community: that of receivers without one of their own.
        security: the users of version 3; ``None`` where receivers of that version are checked, not used.

    Raises:
        SecretError: a community cannot be read or is too long, or a user of version 3 has no keys.
    """
    return tuple(
        _target(name, settings, loaded.folder, community, security)
        for name, settings in loaded.settings.snmp.notifications.items()
    )


def sender_settings(
    loaded: LoadedConfiguration, state: StateFolder, root: Oid, targets: tuple[Target, ...]
) -> SenderSettings:
    """Return the settings of this gateway's sender.

    Raises:
        StateError: identity or boots cannot be read.
    """
    return SenderSettings(
        root,
        (*root, *PRODUCT),
        state.identity,
        state.boots,
        _digest(loaded),
        targets,
        loaded.settings.snmp.late_after,
    )


def shown(address: Address) -> str:
    """Return an address as people write it."""
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def outside(
    sockets: NotificationSockets,
    clock: Clock,
    *,
    up_time: Callable[[], int],
    wake: Callable[[], None],
    failed: Callable[[Exception], None],
    active: Callable[[], Mapping[str, ActiveAlarms] | None] = lambda: None,
    alarm: Callable[[str, str], Notification | None] = lambda _source, _condition: None,
    record: Callable[[Notification, EncodedNotification], None] = lambda _notification, _encoded: None,
) -> Outside:
    """Return the parts of this machine that a sender needs; for the rest see `Outside`."""
    return Outside(
        send=sockets.send,
        agent_address=sockets.agent_address,
        request_id=_RequestIds().next,
        monotonic=time.monotonic_ns,
        clock=clock.now,
        up_time=up_time,
        active=active,
        alarm=alarm,
        wake=wake,
        failed=failed,
        record=record,
    )


def serve_log(
    settings: SnmpSettings, store: Store, clock: Callable[[], int]
) -> Callable[[Notification, EncodedNotification], None]:
    """Serve the last notifications, unless the configuration wants none; return what adds one.

    Args:
        settings: the number of notifications, and the address of the agent.
        store: the store that serves them.
        clock: returns nanoseconds since 1970-01-01 UTC.
    """
    if not settings.notification_log:
        return lambda _notification, _encoded: None
    kept = NotificationLog(settings.notification_log)
    serve_notification_log(store, kept, settings.listen[0])
    return lambda notification, encoded: kept.record(notification, encoded, clock())


class Notifications:
    """The notifications of an SNMP process: their sender, its sockets, its file and its table.

    Args:
        settings: see `sender_settings`.
        path: the file that outlives the process.
        store: serves agTargetTable, and the standard tables of targets.
        clock: the clock.
        projection: knows which alarms last.
        up_time: sysUpTime.
        failed: called with errors of ours; limits its own rate.
        record: called with each notification that is made.

    Raises:
        StateError: the file of the last process cannot be read, or a newer gateway wrote it.
    """

    def __init__(
        self,
        settings: SenderSettings,
        path: Path,
        store: Store,
        clock: Clock,
        projection: Projection,
        *,
        up_time: Callable[[], int],
        failed: Callable[[Exception], None],
        record: Callable[[Notification, EncodedNotification], None],
    ) -> None:
        self._path = path
        self._targets = settings.targets
        self._table = TargetTable(store, settings.root)
        for target in settings.targets:
            self._table.add(target.name, shown(target.address), target.kind)
        serve_receivers(store, settings.targets)
        self._wake = asyncio.Event()
        self._changed = asyncio.Event()
        self._saved_revision = 0
        self._saving: asyncio.Future[None] | None = None
        addresses = {target.address for target in settings.targets}
        self._sockets = NotificationSockets(addresses, _Refusals().refused, failed)
        world = outside(
            self._sockets,
            clock,
            up_time=up_time,
            wake=self._woken,
            failed=failed,
            active=projection.active_alarms,
            alarm=projection.alarm_notification,
            record=record,
        )
        forms = projection.forms
        world = replace(
            world,
            is_restricted=forms.is_restricted,
            policy=forms.policy,
            receives_end=forms.receives_end,
        )
        self.sender = NotificationSender(settings, world, load(path))

    def open(self) -> None:
        """Make the sockets, and notify all receivers that the agent started."""
        self._sockets.open(self.sender.received)
        self.sender.start()

    async def run(self) -> None:
        """Send, and keep what must outlive the process. Ends by cancellation only."""
        if self._targets:
            await until_one_ends(keep_sending(self.sender, self._wake), self._keep_saving())
        else:
            await asyncio.get_running_loop().create_future()

    def show(self) -> None:
        """Bring agTargetTable up to date."""
        for name, health in self.sender.health.items():
            self._table.show(name, health)

    async def close(self) -> None:
        """Send what can be sent at once, and keep the last of what must outlive the process."""
        self.sender.work()
        self._sockets.close()
        if self._targets:
            if self._saving is not None:
                await asyncio.wait([self._saving])
            await self._save()
            waiting = sum(health.waiting for health in self.sender.health.values())
            log.info("notifications-closed", informs_kept=waiting)

    def _woken(self) -> None:
        self._wake.set()
        self._changed.set()

    async def _keep_saving(self) -> None:
        """Write soon after something changed, then at most once a second; never on the loop."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            begun = time.monotonic()
            saved = await self._save()
            taken = time.monotonic() - begun
            await asyncio.sleep(max(SAVE_SECONDS, taken / _SAVE_SHARE) if saved else SAVE_AGAIN_SECONDS)

    async def _save(self) -> bool:
        """Write changes, if there are any; return whether that was possible."""
        revision = self.sender.revision
        if revision == self._saved_revision:
            return True
        saving = asyncio.get_running_loop().run_in_executor(None, _write, self._path, self.sender.saved())
        self._saving = saving
        try:
            await asyncio.shield(saving)
        except OSError as error:
            log.warning("notifications-not-saved", path=str(self._path), reason=error.strerror or str(error))
            self._changed.set()
            return False
        self._saved_revision = revision
        return True


def load(path: Path) -> SavedNotifications | None:
    """Return the notifications that the last process saved at ``path``; ``None`` if there is no file.

    A damaged file is put aside: informs that waited are lost with it, and events of this boot of the gateway
    are sent again.

    Raises:
        StateError: it cannot be read, or a newer gateway wrote it.
    """
    try:
        return from_text(path.read_bytes().decode("utf-8", "replace"))
    except FileNotFoundError:
        return None
    except NewerVersionError as error:
        raise StateError(
            f"{path}: of version {error}, which a newer gateway wrote: use that one, or remove the file "
            "(informs that wait are lost with it)"
        ) from error
    except OSError as error:
        raise StateError(f"{path}: cannot be read: {error.strerror}") from error
    except SavedNotificationsError as error:
        aside = path.with_name(f"{path.name}.damaged")
        path.replace(aside)
        log.warning("notifications-damaged", path=str(path), put_aside=str(aside), reason=str(error))
        return None


def _write(path: Path, saved: SavedNotifications) -> None:
    write_durably(path, to_text(saved))


def _target(
    name: str, settings: NotificationTarget, folder: Path, community: str, security: SnmpSecurity | None
) -> Target:
    secured = None
    if settings.user is not None and security is not None:
        try:
            secured = security.sender(name, settings.user, informs=settings.kind == "inform")
        except NoKeysError as error:
            raise SecretError(f"snmp.notifications.{name}: {error}") from error
    own = settings.community
    octets = (own.read(folder).get_secret_value() if own is not None else community).encode()
    if len(octets) > MAX_COMMUNITY_OCTETS:
        raise SecretError(
            f"the community of the receiver {name} has {len(octets)} bytes; notifications can carry "
            f"{MAX_COMMUNITY_OCTETS}"
        )
    return Target(
        name=name,
        address=settings.address,
        kind=_KINDS[settings.kind, settings.version],
        community=octets,
        severity=settings.severity,
        patterns=settings.events,
        rate=settings.rate,
        window=settings.window,
        secured=secured,
    )


class _RequestIds:
    """Numbers that cannot be guessed; the system is asked for many at a time, as each call takes a while."""

    def __init__(self) -> None:
        self._left: list[int] = []

    def next(self) -> int:
        """Return a number from 0 to 2^31-1."""
        if not self._left:
            drawn = os.urandom(_REQUEST_IDS_AT_ONCE.size)
            self._left = [number & _LARGEST_REQUEST_ID for number in _REQUEST_IDS_AT_ONCE.unpack(drawn)]
        return self._left.pop()


def _digest(loaded: LoadedConfiguration) -> str:
    """Return a digest of the configuration, which contains no secret."""
    return hashlib.blake2b(loaded.settings.model_dump_json().encode(), digest_size=16).hexdigest()


class _Refusals:
    """Logs that the system did not send a notification, at most once a minute for each receiver."""

    def __init__(self) -> None:
        self._next: dict[Address, float] = {}

    def refused(self, address: Address, error: OSError) -> None:
        now = time.monotonic()
        if now >= self._next.get(address, now):
            self._next[address] = now + _LOG_SECONDS
            log.warning("notification-not-sent", to=shown(address), reason=error.strerror or str(error))
