"""The MIB modules of which an agent serves something, as sysORTable lists them (RFC 3418).

sysORID names a capabilities statement of AMQP-GATEWAY-CAPABILITIES-MIB; of the site's own module, which has
none, the module itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from gateway.snmp.ber import Oid
from gateway.snmp.fixed_mib import CAPABILITIES, MODULE, PACKAGE_CAPABILITIES, CapabilitiesNumber
from gateway.snmp.oid_registry import OidRegistry
from gateway.snmp.standard_groups import SystemGroup
from gateway.snmp.store import Store

_MIB_2: Final[Oid] = (1, 3, 6, 1, 2, 1)
_SNMP_MODULES: Final[Oid] = (1, 3, 6, 1, 6, 3)


class StandardModule(msgspec.Struct, frozen=True):
    """A standard module that the agent may serve a part of.

    Attributes:
        name: the name of the module.
        text: what it is about, and its RFC.
        subtree: below it are objects of this module only.
        capabilities: the number of the statement that says what is supported.
    """

    name: str
    text: str
    subtree: Oid
    capabilities: CapabilitiesNumber


STANDARD_MODULES: Final = (
    StandardModule(
        "SNMPv2-MIB", "the agent and its counters, RFC 3418", (*_MIB_2, 1), CapabilitiesNumber.SNMPV2
    ),
    StandardModule(
        "SNMP-FRAMEWORK-MIB", "the engine, RFC 3411", (*_SNMP_MODULES, 10), CapabilitiesNumber.FRAMEWORK
    ),
    StandardModule(
        "SNMP-MPD-MIB", "message processing, RFC 3412", (*_SNMP_MODULES, 11), CapabilitiesNumber.MPD
    ),
    StandardModule(
        "SNMP-TARGET-MIB",
        "receivers of notifications, RFC 3413",
        (*_SNMP_MODULES, 12),
        CapabilitiesNumber.TARGET,
    ),
    StandardModule(
        "SNMP-NOTIFICATION-MIB",
        "kinds of notifications by receiver, RFC 3413",
        (*_SNMP_MODULES, 13),
        CapabilitiesNumber.NOTIFICATION,
    ),
    StandardModule(
        "SNMP-USER-BASED-SM-MIB",
        "counters of messages that were refused, RFC 3414",
        (*_SNMP_MODULES, 15),
        CapabilitiesNumber.USER_BASED,
    ),
    StandardModule(
        "NETWORK-SERVICES-MIB",
        "sources as network services, RFC 2788",
        (*_MIB_2, 27),
        CapabilitiesNumber.NETWORK_SERVICES,
    ),
    StandardModule(
        "NOTIFICATION-LOG-MIB",
        "the last notifications, RFC 3014",
        (*_MIB_2, 92),
        CapabilitiesNumber.NOTIFICATION_LOG,
    ),
)
"""The modules that are listed where the agent serves anything of them, in this order."""


def list_modules(system: SystemGroup, store: Store, root: Oid, registries: Iterable[OidRegistry]) -> None:
    """List the modules of which the store has anything, and the gateway's own, in sysORTable.

    Args:
        system: the group that has the table.
        store: the store, with all tables and scalars made.
        root: the configured root.
        registries: the shipped OID registries.
    """
    for module in STANDARD_MODULES:
        if store.serves(module.subtree):
            system.add_module((*root, *CAPABILITIES, module.capabilities), f"{module.name}: {module.text}")
    system.add_module(
        (*root, *CAPABILITIES, CapabilitiesNumber.GATEWAY),
        f"AMQP-GATEWAY-MIB: the gateway itself, at {'.'.join(map(str, (*root, *MODULE)))}",
    )
    for registry in registries:
        system.add_module(
            (*root, *CAPABILITIES, PACKAGE_CAPABILITIES + registry.arc),
            f"{registry.module}: the package {registry.package}",
        )


def list_site_module(system: SystemGroup, root: Oid, registry: OidRegistry) -> None:
    """List the site's own module, if its registry has anything; it has no capabilities statement."""
    if registry.classes or registry.events:
        system.add_module(
            (*root, *registry.module_arc), f"{registry.module}: what no shipped module contains"
        )
