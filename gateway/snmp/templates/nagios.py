"""Commands of Nagios, Icinga and Checkmk's active checks: ``check_snmp`` of the Monitoring Plugins.

They ask for the gateway's own numbers, which say where something is wrong; thresholds are those of the
plugins' guidelines (``10:`` is "below 10", ``0:5`` is "outside 0 to 5").
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from gateway.snmp.ber import Oid
from gateway.snmp.templates.credentials import User
from gateway.snmp.templates.monitored import MonitoredTable

_HEADER = "# Written by `amqp-gateway template nagios`: commands that use check_snmp.\n"
_FRONT = '$USER1$/check_snmp -H "$HOSTADDRESS$" -p "$_HOSTSNMP_PORT$" -t 10'
_COMMUNITY = '-P 2c -C "$_HOSTSNMP_COMMUNITY$"'


@dataclass(frozen=True, slots=True)
class _Check:
    """A check of one scalar: the thresholds of a warning and of a critical state; empty for none."""

    name: str
    warning: str
    critical: str
    text: str


_CHECKS = (
    _Check("agFeedConnected", "", "1:1", "The SNMP agent is connected to the core."),
    _Check("agAlarmsCritical", "", "0:0", "No alarm is critical."),
    _Check("agAlarmsMajor", "0:0", "", "No alarm is major."),
    _Check("agRowsStale", "0:0", "", "All rows are fresh."),
    _Check("agRowsWithheld", "", "0:0", "No values are withheld."),
    _Check("agLogState", "2:3", "2:3", "The event log is written, or off."),
    _Check("agLogWaiting", "10000", "100000", "Records reach the disk."),
)


def nagios(own: Iterable[MonitoredTable], user: User | None = None) -> str:
    """Return object definitions of Nagios, a command for each check.

    Args:
        own: the tables of the gateway itself.
        user: the user of version 3 that the plugin is; ``None`` for a community.
    """
    front, needed = f"{_FRONT} {_COMMUNITY}", "_SNMP_PORT and _SNMP_COMMUNITY"
    if user is not None:
        front = f"{_FRONT} {_options(user)}"
        needed = "_SNMP_PORT, _SNMP_AUTHENTICATION and _SNMP_PRIVACY (the passphrases of the user)"
    values = {value.name: value for table in own for value in table.values}
    parts = [f"{_HEADER}# A host needs the custom variables {needed}."]
    parts += [_command(front, check, (*values[check.name].oid, 0)) for check in _CHECKS]
    state = values["agSourceState"]
    numbers = {label: number for number, label in state.labels}
    fine, poor = numbers["synchronised"], numbers["degraded"]
    of_source = _Check(
        state.name,
        f"{fine}:{fine}",
        f"{fine}:{poor}",
        "A source is synchronised: the argument is its number, which a walk of agSourceName shows.",
    )
    return "\n\n".join([*parts, _command(front, of_source, state.oid, ".$ARG1$")]) + "\n"


def _options(user: User) -> str:
    """Return the options of version 3; names of protocols are those of net-snmp, which the plugin runs."""
    options = f'-P 3 -L {user.level} -U "{user.name}" -a {_net_snmp_name(user.authentication)}'
    options += ' -A "$_HOSTSNMP_AUTHENTICATION$"'
    if user.privacy:
        options += f' -x {_net_snmp_name(user.privacy)} -X "$_HOSTSNMP_PRIVACY$"'
    return options


def _net_snmp_name(protocol: str) -> str:
    """Return ``SHA-256`` for ``sha256``, ``AES-192-C`` for ``aes192-reeder``; ``SHA`` and ``AES`` alone."""
    name = re.sub(r"(?<=SHA|AES)(?=\d)", "-", protocol.upper().replace("-REEDER", "-C"))
    return {"SHA-1": "SHA", "AES-128": "AES"}.get(name, name)


def _command(front: str, check: _Check, oid: Oid, suffix: str = "") -> str:
    thresholds = "".join(
        f" {option} {value}" for option, value in (("-w", check.warning), ("-c", check.critical)) if value
    )
    line = f"{front} -o .{'.'.join(map(str, map(int, oid)))}{suffix}{thresholds} -l {check.name}"
    name = f"check_amqp_{check.name}"
    return f"# {check.text}\ndefine command {{\n    command_name  {name}\n    command_line  {line}\n}}"
