"""Sends one notification to a configured receiver, to check whether it arrives."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable

from gateway.clock import Clock
from gateway.config.files import LoadedConfiguration
from gateway.service.processes.command_errors import command_errors
from gateway.service.processes.exit_codes import CommandError, ExitCode
from gateway.service.processes.notifications import advice, outside, sender_settings, shown, targets_of
from gateway.service.processes.snmp_users import SnmpSecurity, running_security
from gateway.service.state.snmp_communities import read_community, read_receivers
from gateway.snmp.ber import dotted, parse_oid
from gateway.snmp.fixed_mib import TargetKindNumber
from gateway.snmp.notifications.names import NameChange
from gateway.snmp.notifications.receiver import Address, is_name
from gateway.snmp.notifications.sender import NotificationSender, SenderSettings
from gateway.snmp.notifications.sockets import NotificationSockets, keep_sending
from gateway.state_folder import StateFolder
from gateway.tasks import until_one_ends

_KINDS = {
    TargetKindNumber.TRAP_V1: "version 1 trap",
    TargetKindNumber.TRAP_V2C: "version 2c trap",
    TargetKindNumber.INFORM_V2C: "version 2c inform",
    TargetKindNumber.TRAP_V3: "version 3 trap",
    TargetKindNumber.INFORM_V3: "version 3 inform",
}
_POLL_SECONDS = 0.002
ANSWER_SECONDS = 8.0
"""Time for the answer to an inform, which is sent four times within it."""


async def send_test(
    loaded: LoadedConfiguration, name: str, clock: Clock, report: Callable[[str], None]
) -> None:
    """Send agTest to the receiver ``name``, and report how to find it; wait for the answer to an inform.

    Raises:
        CommandError: there is no such receiver, it cannot be sent to, or it does not answer.
    """
    if name not in loaded.settings.snmp.notifications:
        names = ", ".join(sorted(loaded.settings.snmp.notifications)) or "none"
        raise CommandError(
            ExitCode.CONFIGURATION,
            f"{loaded.path}: no receiver {name!r} under 'snmp: notifications:'; there are: {names}",
        )
    with command_errors():
        state = StateFolder(loaded.state_folder)
        communities = read_receivers(loaded, read_community(loaded, state))
        security = running_security(loaded, state, clock)
        target = {target.name: target for target in targets_of(loaded.settings.snmp, communities, security)}[
            name
        ]
        root = parse_oid(loaded.settings.snmp.root)
        settings = sender_settings(loaded, state.identity, state.boots, root, (target,))
    await _Test(settings, clock, security).run(report)


class _Test:
    """A test of the only receiver in ``settings``, with the running engine."""

    def __init__(self, settings: SenderSettings, clock: Clock, security: SnmpSecurity) -> None:
        (self._target,) = settings.targets
        self._missing_keys = security.missing.commands
        self._refusal: Exception | None = None
        self._found = ""  # the address of a name
        self._wake = asyncio.Event()
        self._sockets = NotificationSockets(
            [self._target.address], self._refused, self._failed, self._name_changed
        )
        world = outside(
            self._sockets,
            clock,
            up_time=security.engine.up_time,
            wake=self._wake.set,
            failed=self._failed,
        )
        self._sender = NotificationSender(settings, world)

    async def run(self, report: Callable[[str], None]) -> None:
        """Send the notification, and report the result."""
        target = self._target
        self._sockets.open(self._sender)
        try:
            notification = self._sender.test(target.name)
            begun = time.monotonic()
            await until_one_ends(keep_sending(self._sender, self._wake), self._ended())
        finally:
            self._sockets.close()
        where = f"{shown(target.address)}{self._found}"
        if self._refusal is not None:
            reason = getattr(self._refusal, "strerror", None) or str(self._refusal)
            raise CommandError(ExitCode.UNREACHABLE, f"{where}: the notification was not sent: {reason}")
        if self._missing_keys:
            raise CommandError(
                ExitCode.CONFIGURATION,
                f"{where}: the user has no keys for the engine of the receiver: run "
                f"`{self._missing_keys[0]}`",
            )
        report(f"{target.name}: {_KINDS[target.kind]} sent to {where}")
        report(f"look there for agTest ({dotted(notification.oid)})")
        report(f"with agEventId {notification.event_id}")
        if not target.is_inform:
            report("a trap is not answered: only the receiver knows whether it arrived")
        elif self._sender.health[target.name].acknowledged:
            report(f"answered after {1000 * (time.monotonic() - begun):.1f} ms")
        elif self._sender.health[target.name].failed:
            raise CommandError(
                ExitCode.FORBIDDEN, f"{where}: the receiver answered with an error: see its log"
            )
        else:
            raise CommandError(
                ExitCode.UNREACHABLE,
                f"{where}: no answer within {ANSWER_SECONDS:g} s: does a receiver of informs listen there, "
                "does it know the community or the user, and does a firewall let UDP pass both ways?",
            )

    async def _ended(self) -> None:
        """Return when the trap is sent, the inform is answered, or neither can be expected any more."""
        name, is_inform = self._target.name, self._target.is_inform
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(ANSWER_SECONDS):
                while self._refusal is None and not self._missing_keys:
                    health = self._sender.health[name]
                    if health.failed or (health.acknowledged if is_inform else health.sent):
                        return
                    await asyncio.sleep(_POLL_SECONDS)

    def _name_changed(self, change: NameChange) -> None:
        self._found = f" ({change.in_use})" if change.in_use else ""
        if change.trouble:
            named = is_name(change.address[0])
            reason = f"the name cannot be resolved ({change.trouble})" if named else change.trouble
            self._refusal = OSError(f"{reason}: {advice(change.address)}")

    def _refused(self, _address: Address, error: OSError) -> None:
        self._refusal = error

    def _failed(self, error: Exception) -> None:
        self._refusal = error
