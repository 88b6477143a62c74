"""The rights of users of version 3, as the agent's configuration says (in place of RFC 3415)."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import TypeAlias

from gateway.snmp.processing import Access
from gateway.snmp.v3.users import SecurityLevel


class NoAccess(enum.Enum):
    """Why a user has no access to a context."""

    NOT_AUTHORIZED = enum.auto()
    """The user has no rights there, or none at this level: authorizationError."""

    UNKNOWN_CONTEXT = enum.auto()
    """There is no such context: a report of snmpUnknownContexts."""

    UNAVAILABLE_CONTEXT = enum.auto()
    """The context has nothing to show at present: a report of snmpUnavailableContexts."""


AccessOf: TypeAlias = Callable[[str, SecurityLevel, bytes], Access | NoAccess]
"""Returns the rights of a user (by name) at a security level in a context (by name, "" is the default).

It is not called below the minimum level of the user. It is called for every request, perhaps twice, so it
should be a look-up, and count nothing.
"""
