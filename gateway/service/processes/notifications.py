"""The sending of SNMP notifications: configured receivers, saved notifications, and sockets."""

from __future__ import annotations

import asyncio
import hashlib
import os
import struct
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

import structlog

from gateway.clock import Clock
from gateway.config.files import LoadedConfiguration
from gateway.config.secret_places import SecretError
from gateway.config.snmp import NotificationTarget, SnmpSettings
from gateway.durable_files import FOR_STARTS, write_durably
from gateway.feed.records import PastEvents, Place
from gateway.file_owners import reason_of, user_name
from gateway.rate_limiter import RateLimiter
from gateway.service.processes.snmp_users import SnmpSecurity
from gateway.snmp.ber import Oid
from gateway.snmp.fixed_mib import PRODUCT, TargetKindNumber
from gateway.snmp.notifications.backlog import PAGE
from gateway.snmp.notifications.encoding import EncodedNotification
from gateway.snmp.notifications.log import NotificationLog
from gateway.snmp.notifications.names import NameChange
from gateway.snmp.notifications.notification import ActiveAlarms, Notification
from gateway.snmp.notifications.receiver import Address, Target, zone_of
from gateway.snmp.notifications.saved import (
    NewerVersionError,
    SavedNotifications,
    SavedNotificationsError,
    SavedTarget,
    from_text,
    to_text,
)
from gateway.snmp.notifications.secured import NoKeysError
from gateway.snmp.notifications.sender import NotificationSender, Outside, SenderSettings, Wanted
from gateway.snmp.notifications.sockets import NotificationSockets, keep_sending
from gateway.snmp.projection import Projection
from gateway.snmp.store import Store
from gateway.snmp.tables.health import TargetTable
from gateway.snmp.tables.notification_log import serve_notification_log
from gateway.snmp.tables.receivers import ReceiverTables
from gateway.state_folder import StateError
from gateway.tasks import until_one_ends

log = structlog.get_logger(__name__)

FILE = "notifications.json"
"""The file in the state folder with the last handled event, and the informs without an answer."""

SAVE_SECONDS = 1.0
SAVE_AGAIN_SECONDS = 10.0
_SAVE_SHARE = 0.1  # of one core at most, however much waits
_LOG_SECONDS = 60.0
_PAGE_SECONDS = 30.0
_ASK_AGAIN_SECONDS = 0.5
_MISSED_LINES, _MISSED_LINES_SECONDS = 20, 60.0

_WITHOUT_FILE = (
    "without it informs that wait are lost, and what receivers are owed; what happened since the start of "
    "the gateway is sent again, with its event ids"
)

_LAST_ADDRESS = "its last address is used"
_NO_ADDRESS = "informs wait, and traps are counted as failed"

FetchPast: TypeAlias = Callable[[Place, Place, int, float], Awaitable[PastEvents | None]]
"""Fetches past events from the core (`gateway.feed.client.FeedLink.past_events`)."""

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
    settings: SnmpSettings, communities: Mapping[str, str], security: SnmpSecurity, *, running: bool = False
) -> tuple[Target, ...]:
    """Return the configured receivers.

    Args:
        settings: the settings of SNMP.
        communities: that of each receiver.
        security: the users of version 3.
        running: leave out, with a line in the log, a receiver whose user has no keys any more: those who ask
            must be answered, and it gets notifications again when the user has keys.

    Raises:
        SecretError: a user of version 3 has no keys.
    """
    targets: list[Target] = []
    for name, target in settings.notifications.items():
        try:
            targets.append(_target(name, target, communities[name], security))
        except SecretError as error:
            if not running:
                raise
            log.warning("notifications-receiver-without-keys", receiver=name, reason=str(error))
    return tuple(targets)


def sender_settings(
    loaded: LoadedConfiguration, gateway: str, boot: int, root: Oid, targets: tuple[Target, ...]
) -> SenderSettings:
    """Return the settings of this gateway's sender.

    Args:
        loaded: the configuration.
        gateway: the uuid of the gateway.
        boot: the number of starts of its core.
        root: the configured root.
        targets: the receivers.
    """
    return SenderSettings(
        root,
        (*root, *PRODUCT),
        gateway,
        boot,
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
        unanswered=sockets.look_up_soon,
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
        self._table, self._receivers = TargetTable(store, settings.root), ReceiverTables(store)
        self._show_targets(settings.targets)
        self._projection = projection
        self._wake = asyncio.Event()
        self._changed = asyncio.Event()
        self._owing = asyncio.Event()
        self._missed_lines = RateLimiter(_MISSED_LINES, _MISSED_LINES_SECONDS)
        self._saved_revision = 0
        self._saving: asyncio.Future[None] | None = None
        addresses = {target.address for target in settings.targets}
        self._sockets = NotificationSockets(addresses, _Refusals().refused, failed, _report_name)
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
            missed=self._missed,
        )
        saved = load(path)
        # Without receivers, too, where there were some: one that is configured again is a new one.
        self._is_kept = bool(settings.targets or (saved and saved.targets))
        configured = {target.name for target in settings.targets}
        for target in saved.targets if saved is not None else ():
            if target.name not in configured:
                _report_removed(target)
        self.sender = NotificationSender(settings, world, saved)

    def open(self) -> None:
        """Make the sockets, and notify all receivers that the agent started."""
        self._sockets.open(self.sender)
        self.sender.start()

    async def run(self, fetch: FetchPast) -> None:
        """Send, and keep what must outlive the process. Ends by cancellation only.

        Args:
            fetch: fetches events that are sent late.
        """
        await until_one_ends(
            keep_sending(self.sender, self._wake), self._keep_saving(), self._keep_fetching(fetch)
        )

    def change(self, settings: SenderSettings) -> None:
        """Send to other receivers from now on; what waits for those that are not among them is dropped."""
        self._is_kept = self._is_kept or bool(settings.targets)
        self._sockets.change({target.address for target in settings.targets})
        for removed in self.sender.change(settings):
            _report_removed(removed)
        self._show_targets(settings.targets)
        self.show()

    def _show_targets(self, targets: Sequence[Target]) -> None:
        self._table.keep(target.name for target in targets)
        for target in targets:
            self._table.add(target.name, shown(target.address), target.kind)
        self._receivers.show(targets)

    def show(self) -> None:
        """Bring agTargetTable up to date."""
        for name, health in self.sender.health.items():
            self._table.show(name, health)

    async def close(self) -> None:
        """Send what can be sent at once, and keep the last of what must outlive the process."""
        self.sender.work()
        self._sockets.close()
        if self._is_kept:
            if self._saving is not None:
                await asyncio.wait([self._saving])
            await self._save()
            waiting = sum(health.waiting for health in self.sender.health.values())
            log.info("notifications-closed", informs_kept=waiting)

    def _woken(self) -> None:
        if not self._is_kept:
            return  # no receiver has ever been there
        self._wake.set()
        self._changed.set()
        self._owing.set()

    def _missed(self, receiver: str, first: str, last: str, number: int | None) -> None:
        left_out = self._missed_lines.admit()
        if left_out is not None:
            log.warning(
                "notifications-missed",
                receiver=receiver,
                first=first,
                last=last or "unknown",
                number="unknown" if number is None else number,
                reason="the event log does not have these events, or not what they mean",
                left_out=left_out,
            )

    async def _keep_fetching(self, fetch: FetchPast) -> None:
        """Fetch what receivers are owed, a page at a time, whenever one of them can be sent more."""
        while True:
            await self._owing.wait()
            self._owing.clear()
            while (wanted := self.sender.wanted()) is not None:
                if not await self._fetch(wanted, fetch):
                    await asyncio.sleep(_ASK_AGAIN_SECONDS)

    async def _fetch(self, wanted: Wanted, fetch: FetchPast) -> bool:
        """Fetch a page for a receiver; return whether that brought it on."""
        epoch, first, last = wanted.range
        page = await fetch((epoch, first - 1), (epoch, last), PAGE, _PAGE_SECONDS)
        # Between two policies nothing says what the receiver may get.
        if page is None or page.through < (epoch, first) or not self._projection.is_complete:
            return False
        events = [
            self._projection.past_event(wanted.receiver, record, page.former_sources)
            for record in page.records
        ]
        self.sender.fetched(wanted, [event for event in events if event is not None], page.through)
        return True

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
            log.warning(
                "notifications-not-saved",
                path=str(self._path),
                reason=reason_of(error, self._path.parent),
                detail="what was handled since the last time would be sent again, late, after a restart",
            )
            self._changed.set()
            return False
        self._saved_revision = revision
        return True


def load(path: Path) -> SavedNotifications | None:
    """Return the notifications that the last process saved at ``path``; ``None`` if there is no file.

    A damaged file is put aside; what follows from that is logged.

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
            f"({_WITHOUT_FILE})"
        ) from error
    except OSError as error:
        raise StateError(
            f"{path}: cannot be read: {error.strerror}. It should be a file of {user_name(os.geteuid())}, "
            f"the user of the gateway: correct that (chown), or remove it ({_WITHOUT_FILE})"
        ) from error
    except SavedNotificationsError as error:
        aside = path.with_name(f"{path.name}.damaged")
        path.replace(aside)
        log.warning(
            "notifications-damaged",
            path=str(path),
            put_aside=str(aside),
            reason=str(error),
            detail=_WITHOUT_FILE,
        )
        return None


def _report_removed(target: SavedTarget) -> None:
    """Log a receiver that is not configured any more, with what it is not sent for that reason."""
    log.info(
        "notifications-receiver-removed",
        receiver=target.name,
        owed_events=sum(last - first + 1 for _, first, last in target.owed),
        unanswered_informs=len(target.informs),
    )


def _report_name(change: NameChange) -> None:
    """Log what has changed about the name of a receiver, once."""
    to = shown(change.address)
    if not change.trouble:
        log.info("notification-name-resolved", to=to, address=change.in_use, former=change.former or "none")
    else:
        log.warning(
            "notification-name-unresolved",
            to=to,
            reason=change.trouble,
            in_use=change.in_use or "none",
            detail=f"meanwhile {_LAST_ADDRESS if change.in_use else _NO_ADDRESS}: {advice(change.address)}",
        )


def advice(address: Address) -> str:
    """Return what to do where the name of a receiver cannot be resolved, or its interface is missing."""
    if zone := zone_of(address[0]):
        return (
            f"see what `ip -6 address show dev {zone}` prints on this machine, then correct its network, or"
            " the address under snmp.notifications"
        )
    return (
        f"see what `getent ahosts {address[0]}` prints on this machine, then correct its DNS, or the address"
        " under snmp.notifications"
    )


def _write(path: Path, saved: SavedNotifications) -> None:
    write_durably(path, to_text(saved), leaves=FOR_STARTS)


def _target(name: str, settings: NotificationTarget, community: str, security: SnmpSecurity) -> Target:
    secured = None
    if settings.user is not None:
        try:
            secured = security.sender(name, settings.user, informs=settings.kind == "inform")
        except NoKeysError as error:
            raise SecretError(f"snmp.notifications.{name}: {error}") from error
    return Target(
        name=name,
        address=settings.address,
        kind=_KINDS[settings.kind, settings.version],
        community=community.encode(),
        severity=settings.severity,
        patterns=settings.events,
        rate=settings.rate,
        window=settings.window,
        backlog_rate=settings.backlog_rate,
        backlog=settings.backlog,
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
