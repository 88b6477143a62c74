"""AMQP-GATEWAY-CAPABILITIES-MIB: the product, and what the agent supports of each module (RFC 2580)."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from gateway.snmp.fixed_mib import PACKAGE_CAPABILITIES, CapabilitiesNumber
from gateway.snmp.mib.clauses import definition, imports, listed, quoted
from gateway.snmp.mib.module import CONTACT, ORGANIZATION

MODULE_NAME: Final = "AMQP-GATEWAY-CAPABILITIES-MIB"

_FIRST: Final = dt.date(2026, 11, 26)
_RELEASE: Final = "amqp-management-gateway"
_GROUP = re.compile(
    r"^(\w+) (?:OBJECT|NOTIFICATION)-GROUP\n(?:(?!^    ::= ).*\n)*?    STATUS +current$", re.MULTILINE
)
_REVISION = re.compile(r'^    REVISION +"(\d{4})(\d\d)(\d\d)0000Z"$', re.MULTILINE)
_NAME = re.compile(r"\A([A-Z][A-Za-z0-9-]*) DEFINITIONS")
_DESCRIPTION: Final = (
    "The AMQP management gateway as a product, and what its SNMP agent supports of each MIB module. "
    "sysORTable lists the statements that hold for an agent. Clauses about a module whose text is in few "
    "collections are comments, because a compiler without that text would refuse this whole module."
)
_PRODUCT: Final = (
    "The AMQP management gateway as a product: the value of sysObjectID, and the enterprise of standard "
    "traps in version 1."
)
_CONFIGURED: Final = "The configuration is the truth: it cannot be set over SNMP."
_READ_ONLY: Final = ("read-only", _CONFIGURED)
_READ_ONLY_TEXT: Final = ("read-only", f"{_CONFIGURED} What is not ASCII is sent in UTF-8.")
_NO_FILTERS: Final = "Filters of receivers choose by severity and name, which these objects cannot express."
_NO_USERS: Final = "Users and their keys are added and removed on the gateway's own machine only."
_NOT_KNOWN: Final = "Sources do not report it."


class _Statement(msgspec.Struct, frozen=True):
    """What is supported of one module: groups, and objects that are less than the module wants.

    ``has_text`` is whether users have the text of the module: without it the clauses could not be compiled.
    """

    number: int
    descriptor: str
    description: str
    module: str
    groups: Sequence[str]
    variations: Mapping[str, tuple[str, str]]
    has_text: bool = True


def _read_only(*objects: str) -> dict[str, tuple[str, str]]:
    return dict.fromkeys(objects, _READ_ONLY)


def _not_implemented(reason: str, *objects: str) -> dict[str, tuple[str, str]]:
    return dict.fromkeys(objects, ("not-implemented", reason))


_STANDARD: Final = (
    _Statement(
        CapabilitiesNumber.SNMPV2,
        "agSnmpv2Capabilities",
        "The agent itself: all objects, also those that RFC 3418 made obsolete.",
        "SNMPv2-MIB",
        (
            *("systemGroup", "snmpGroup", "snmpCommunityGroup", "snmpSetGroup"),
            *("snmpBasicNotificationsGroup", "snmpWarmStartNotificationGroup", "snmpNotificationGroup"),
            "snmpObsoleteGroup",
        ),
        dict.fromkeys(("sysContact", "sysName", "sysLocation"), _READ_ONLY_TEXT)
        | _read_only("snmpEnableAuthenTraps"),
    ),
    _Statement(
        CapabilitiesNumber.FRAMEWORK,
        "agFrameworkCapabilities",
        "The engine of SNMPv3, which every agent has.",
        "SNMP-FRAMEWORK-MIB",
        ("snmpEngineGroup",),
        {},
    ),
    _Statement(
        CapabilitiesNumber.MPD,
        "agMessageProcessingCapabilities",
        "Counters of messages that were not processed.",
        "SNMP-MPD-MIB",
        ("snmpMPDGroup",),
        {},
    ),
    _Statement(
        CapabilitiesNumber.TARGET,
        "agTargetCapabilities",
        "The receivers of notifications that the configuration names, and counters of unknown contexts.",
        "SNMP-TARGET-MIB",
        ("snmpTargetBasicGroup", "snmpTargetResponseGroup", "snmpTargetCommandResponderGroup"),
        _not_implemented("It serves to change the tables, which cannot be.", "snmpTargetSpinLock")
        | _read_only(
            *("snmpTargetAddrTDomain", "snmpTargetAddrTAddress", "snmpTargetAddrTimeout"),
            *("snmpTargetAddrRetryCount", "snmpTargetAddrTagList", "snmpTargetAddrParams"),
            *("snmpTargetAddrStorageType", "snmpTargetAddrRowStatus", "snmpTargetParamsMPModel"),
            *("snmpTargetParamsSecurityModel", "snmpTargetParamsSecurityName"),
            *("snmpTargetParamsSecurityLevel", "snmpTargetParamsStorageType", "snmpTargetParamsRowStatus"),
        ),
    ),
    _Statement(
        CapabilitiesNumber.NOTIFICATION,
        "agNotificationCapabilities",
        "Which kind of notifications each receiver gets. Which events it gets is not among the objects. The "
        "one filter is that of the notification log, which contains all notifications.",
        "SNMP-NOTIFICATION-MIB",
        ("snmpNotifyGroup", "snmpNotifyFilterGroup"),
        _read_only(
            *("snmpNotifyTag", "snmpNotifyType", "snmpNotifyStorageType", "snmpNotifyRowStatus"),
            *("snmpNotifyFilterMask", "snmpNotifyFilterType", "snmpNotifyFilterStorageType"),
            "snmpNotifyFilterRowStatus",
        )
        | _not_implemented(
            _NO_FILTERS,
            *("snmpNotifyFilterProfileName", "snmpNotifyFilterProfileStorType"),
            "snmpNotifyFilterProfileRowStatus",
        ),
    ),
    _Statement(
        CapabilitiesNumber.USER_BASED,
        "agUserBasedCapabilities",
        "Counters of messages that the User-based Security Model refused, without its users.",
        "SNMP-USER-BASED-SM-MIB",
        ("usmMIBBasicGroup",),
        _not_implemented(
            _NO_USERS,
            *("usmUserSpinLock", "usmUserSecurityName", "usmUserCloneFrom", "usmUserAuthProtocol"),
            *("usmUserAuthKeyChange", "usmUserOwnAuthKeyChange", "usmUserPrivProtocol"),
            *("usmUserPrivKeyChange", "usmUserOwnPrivKeyChange", "usmUserPublic", "usmUserStorageType"),
            "usmUserStatus",
        ),
    ),
    _Statement(
        CapabilitiesNumber.NETWORK_SERVICES,
        "agNetworkServicesCapabilities",
        "Sources as network services, without their associations as rows. What a source does not report has "
        "no instance.",
        "NETWORK-SERVICES-MIB",
        ("applRFC2788Group",),
        _not_implemented(
            _NOT_KNOWN,
            *("applOutboundAssociations", "applAccumulatedOutboundAssociations"),
            *("applLastInboundActivity", "applLastOutboundActivity"),
            *("applRejectedInboundAssociations", "applFailedOutboundAssociations"),
        ),
        has_text=False,
    ),
    _Statement(
        CapabilitiesNumber.NOTIFICATION_LOG,
        "agNotificationLogCapabilities",
        "One log, whose name is empty, of the last notifications of this agent. No log can be created.",
        "NOTIFICATION-LOG-MIB",
        (
            *("notificationLogConfigGroup", "notificationLogStatsGroup", "notificationLogLogGroup"),
            "notificationLogDateGroup",
        ),
        _read_only(
            *("nlmConfigGlobalEntryLimit", "nlmConfigGlobalAgeOut", "nlmConfigLogFilterName"),
            *("nlmConfigLogEntryLimit", "nlmConfigLogAdminStatus", "nlmConfigLogStorageType"),
            "nlmConfigLogEntryStatus",
        ),
        has_text=False,
    ),
)


def capabilities_text(own: str, packages: Mapping[int, str]) -> str:
    """Return the text of the module: the same octets for the same modules.

    Args:
        own: the text of AMQP-GATEWAY-MIB.
        packages: the texts of the shipped modules, by their arcs below agPackages.
    """
    statements = [
        *_STANDARD,
        _own_statement(CapabilitiesNumber.GATEWAY, "agGatewayCapabilities", own),
        *(
            _own_statement(PACKAGE_CAPABILITIES + arc, f"agPackage{arc}Capabilities", text)
            for arc, text in sorted(packages.items())
        ),
    ]
    parts = [
        f"{MODULE_NAME} DEFINITIONS ::= BEGIN",
        "-- Generated by amqp-gateway from the modules that it names. Do not edit.",
        imports(
            {
                "AMQP-GATEWAY-MIB": ["agRoot"],
                "SNMPv2-CONF": ["AGENT-CAPABILITIES"],
                "SNMPv2-SMI": ["MODULE-IDENTITY", "OBJECT-IDENTITY"],
            }
        ),
        _identity(_revisions([own, *packages.values()])),
        "agProducts OBJECT IDENTIFIER ::= { agCapabilitiesMIB 1 }",
        definition(
            "agGateway OBJECT-IDENTITY",
            [("STATUS", "current"), ("DESCRIPTION", _PRODUCT)],
            "agProducts 1",
        ),
        "agAgentCapabilities OBJECT IDENTIFIER ::= { agCapabilitiesMIB 2 }",
        *map(_statement, statements),
        "END",
    ]
    return "\n\n".join(parts) + "\n"


def _own_statement(number: int, descriptor: str, text: str) -> _Statement:
    name = _NAME.match(text)
    if name is None:
        raise ValueError("the text of a module begins with its name and DEFINITIONS")
    return _Statement(
        number,
        descriptor,
        "All objects and notifications, as far as a source reports them. What can be set, and by whom, the "
        "configuration says; by default nothing.",
        name[1],
        _GROUP.findall(text),
        {},
    )


def _revisions(texts: Iterable[str]) -> Sequence[dt.date]:
    """Return the days of this module's revisions, the latest first: those of its modules since the first."""
    days = {dt.date(*map(int, day)) for text in texts for day in _REVISION.findall(text)}
    return sorted({day for day in days if day > _FIRST} | {_FIRST}, reverse=True)


def _identity(revisions: Sequence[dt.date]) -> str:
    clauses = [
        ("LAST-UPDATED", f'"{revisions[0]:%Y%m%d}0000Z"'),
        ("ORGANIZATION", f'"{ORGANIZATION}"'),
        ("CONTACT-INFO", f'"{CONTACT}"'),
        ("DESCRIPTION", _DESCRIPTION),
    ]
    for revision in revisions:
        text = "First version." if revision == _FIRST else "Modules that are supported have changed."
        clauses += [("REVISION", f'"{revision:%Y%m%d}0000Z"'), ("DESCRIPTION", text)]
    return definition("agCapabilitiesMIB MODULE-IDENTITY", clauses, "agRoot 4")


def _statement(statement: _Statement) -> str:
    clauses = [f"    SUPPORTS    {statement.module}", f"    INCLUDES    {listed(statement.groups, 4)}"]
    for name, (access, reason) in statement.variations.items():
        clauses += [
            f"    VARIATION   {name}",
            f"        ACCESS      {access}",
            f"        DESCRIPTION\n{quoted(reason, 12)}",
        ]
    text = "\n".join(clauses)
    return "\n".join(
        [
            f"{statement.descriptor} AGENT-CAPABILITIES",
            f'    PRODUCT-RELEASE\n        "{_RELEASE}"',
            "    STATUS      current",
            f"    DESCRIPTION\n{quoted(statement.description, 8)}",
            text if statement.has_text else _comment(text),
            f"    ::= {{ agAgentCapabilities {statement.number} }}",
        ]
    )


def _comment(text: str) -> str:
    """Return indented lines as comments of ASN.1, which end at the line's end or at two hyphens."""
    return "\n".join(f"    -- {line.removeprefix('    ')}" for line in text.splitlines())
