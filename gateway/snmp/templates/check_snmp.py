"""Checks of the gateway by ``check_snmp`` of the Monitoring Plugins: for Nagios, and for Icinga 2.

They read the gateway's own numbers, which say where something is wrong; thresholds are those of the
plugins' guidelines (``10:`` is "below 10", ``0:5`` is "outside 0 to 5"). Nagios gets commands. Icinga 2 does
not read files of Nagios; it gets rules, by which each host that is marked as a gateway has the services.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from gateway.snmp.ber import dotted
from gateway.snmp.templates.credentials import User
from gateway.snmp.templates.monitored import MonitoredTable

_SECONDS: Final = 5
_RETRIES: Final = 2
"""A request that is not answered is repeated; the plugin gives up after the product, and 5 s more.

Its own 10 s and 5 retries are 55 s, and Nagios and Icinga end a check after 60.
"""

_NAGIOS_HEADER = "# Written by `amqp-gateway template nagios`: commands that use check_snmp.\n"
_FRONT = f'$USER1$/check_snmp -H "$HOSTADDRESS$" -p "$_HOSTSNMP_PORT$" -t {_SECONDS} -e {_RETRIES}'
_COMMUNITY = '-P 2c -C "$_HOSTSNMP_COMMUNITY$"'


class _Check(msgspec.Struct, frozen=True):
    """A check of a number: the thresholds of a warning and of a critical state; empty for none."""

    name: str
    warning: str
    critical: str
    text: str

    @property
    def thresholds(self) -> Iterator[tuple[str, str]]:
        """The thresholds that there are, each with the name that Icinga's library has for it."""
        named = (("warn", self.warning), ("crit", self.critical))
        yield from ((name, value) for name, value in named if value)


_CHECKS = (
    _Check("agFeedConnected", "", "1:1", "The SNMP agent is connected to the core."),
    _Check("agAlarmsCritical", "", "0:0", "No alarm is critical."),
    _Check("agAlarmsMajor", "0:0", "", "No alarm is major."),
    _Check("agRowsStale", "0:0", "", "All rows are fresh."),
    _Check("agRowsWithheld", "", "0:0", "No values are withheld."),
    _Check("agLogState", "2:3", "2:3", "The event log is written, or off."),
    _Check("agLogWaiting", "10000", "100000", "Records reach the disk."),
)


class _Checks(msgspec.Struct, frozen=True):
    """The checks with the OIDs of a gateway: those of scalars, and that of the state of a source."""

    scalars: tuple[tuple[_Check, str], ...]
    source: _Check
    source_column: str


def _checks(own: Iterable[MonitoredTable]) -> _Checks:
    values = {value.name: value for table in own for value in table.values}
    state = values["agSourceState"]
    numbers = {label: number for number, label in state.labels}
    fine, poor = numbers["synchronised"], numbers["degraded"]
    return _Checks(
        tuple((check, f".{dotted(values[check.name].oid)}.0") for check in _CHECKS),
        _Check(state.name, f"{fine}:{fine}", f"{fine}:{poor}", "A source is synchronised"),
        f".{dotted(state.oid)}",
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
        passphrases = "_SNMP_AUTHENTICATION and _SNMP_PRIVACY" if user.privacy else "_SNMP_AUTHENTICATION"
        needed = f"_SNMP_PORT, {passphrases} (the passphrases of the user)"
    checks = _checks(own)
    parts = [f"{_NAGIOS_HEADER}# A host needs the custom variables {needed}."]
    parts += [_command(front, check, oid, check.text) for check, oid in checks.scalars]
    of_source = f"{checks.source.text}: the argument is its number, which a walk of agSourceName shows."
    parts.append(_command(front, checks.source, f"{checks.source_column}.$ARG1$", of_source))
    return "\n\n".join(parts) + "\n"


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


def _command(front: str, check: _Check, oid: str, comment: str) -> str:
    thresholds = "".join(f" -{name[0]} {value}" for name, value in check.thresholds)
    line = f"{front} -o {oid}{thresholds} -l {check.name}"
    name = f"check_amqp_{check.name}"
    return f"# {comment}\ndefine command {{\n    command_name  {name}\n    command_line  {line}\n}}"


_ICINGA_HEADER = """\
/* Written by `amqp-gateway template icinga`: services that use check_snmp.
 * They apply to each host with vars.amqp_gateway. This is a dictionary with {needed}
 * and sources: by a name for each source its number, which a walk of agSourceName shows. */"""
_OF_HOST = "$host.vars.amqp_gateway.{key}$"


def icinga(own: Iterable[MonitoredTable], user: User | None = None) -> str:
    """Return a service template of Icinga 2 and a rule for each check, for the commands of its library.

    Args:
        own: the tables of the gateway itself.
        user: the user of version 3 that the plugin is; ``None`` for a community.
    """
    command = "snmp" if user is None else "snmpv3"
    variables = {"timeout": str(_SECONDS), "port": _OF_HOST.format(key="port")}
    if user is None:
        keys = ["port", "community"]
        variables |= {"version": "2c", "retries": str(_RETRIES)}
        variables["community"] = _OF_HOST.format(key="community")
    else:
        keys = ["port", "authentication_passphrase", *(["privacy_passphrase"] if user.privacy else [])]
        variables |= {"user": user.name, "seclevel": user.level}
        variables["auth_alg"] = _net_snmp_name(user.authentication)
        variables["auth_key"] = _OF_HOST.format(key="authentication_passphrase")
        if user.privacy:
            variables["priv_alg"] = _net_snmp_name(user.privacy)
            variables["priv_key"] = _OF_HOST.format(key="privacy_passphrase")
    settings = ["max_check_attempts = 3", "check_interval = 1m", "retry_interval = 30s"]
    checks = _checks(own)
    parts = [
        _ICINGA_HEADER.format(needed=", ".join(keys)),
        _block(
            'template Service "amqp-gateway"',
            [f'check_command = "{command}"', *settings, *_assignments(command, variables)],
        ),
    ]
    for check, oid in checks.scalars:
        body = _service(command, check, f'"{oid}"')
        parts.append(
            f"// {check.text}\n"
            + _block(
                f'apply Service "amqp-gateway {check.name}"', [*body, "assign where host.vars.amqp_gateway"]
            )
        )
    each = 'apply Service "amqp-gateway source " for (name => number in host.vars.amqp_gateway.sources)'
    body = _service(command, checks.source, f'"{checks.source_column}." + number')
    parts.append(f"// {checks.source.text}.\n" + _block(each, body))
    return "\n\n".join(parts) + "\n"


def _service(command: str, check: _Check, oid: str) -> list[str]:
    variables = {"label": check.name, **dict(check.thresholds)}
    return [
        'import "amqp-gateway"',
        f"vars.{command}_oid = {oid}",
        *_assignments(command, variables),
    ]


def _assignments(command: str, variables: dict[str, str]) -> list[str]:
    return [f'vars.{command}_{name} = "{value}"' for name, value in variables.items()]


def _block(head: str, lines: Iterable[str]) -> str:
    return "\n".join([f"{head} {{", *(f"    {line}" for line in lines), "}"])
