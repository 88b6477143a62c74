"""A receiver of notifications, as configured."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from gateway.model.events import Severity
from gateway.snmp.notification_numbers import TargetKindNumber

Address: TypeAlias = tuple[str, int]
"""An IPv4 or IPv6 literal and a UDP port."""


@dataclass(frozen=True, slots=True)
class Target:
    """Who is sent what.

    Attributes:
        name: in the configuration.
        address: where it listens.
        kind: version, and whether it acknowledges.
        community: sent with each notification; never shown.
        severity: what is less severe is not sent.
        patterns: of ``package:event``; what matches none is not sent (`fnmatch.fnmatchcase`).
        rate: notifications a second.
    """

    name: str
    address: Address
    kind: TargetKindNumber
    community: bytes = field(repr=False)
    severity: Severity = Severity.INFO
    patterns: tuple[str, ...] = ("*",)
    rate: int = 100
