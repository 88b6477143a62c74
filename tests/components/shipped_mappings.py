"""The mappings and OID registries that are shipped with the gateway, read once in each process of tests.

Nobody may change what is returned here: all tests of a process have the same.
"""

from __future__ import annotations

from collections.abc import Mapping as MappingOf
from functools import cache

from gateway.mapping.files import load_shipped_mappings
from gateway.mapping.rules import Mapping
from gateway.snmp.oid_registry import OidRegistry, load_shipped_registries


@cache
def shipped_mappings() -> MappingOf[str, Mapping]:
    """Return the mappings by package."""
    return load_shipped_mappings()


@cache
def shipped_registries() -> tuple[OidRegistry, ...]:
    """Return the OID registries, by package."""
    return load_shipped_registries()
