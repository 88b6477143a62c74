"""QMF's severities, those of syslog (RFC 5424, section 6.2.1), and the model's."""

from __future__ import annotations

from typing import Final

from gateway.model.observations import Severity

_TO_MODEL: Final = (
    Severity.CRITICAL,  # emergency
    Severity.CRITICAL,  # alert
    Severity.CRITICAL,  # critical
    Severity.MAJOR,  # error
    Severity.WARNING,  # warning
    Severity.INFO,  # notice
    Severity.INFO,  # informational
    Severity.INFO,  # debug
)
_FROM_MODEL: Final = {
    Severity.CRITICAL: 2,
    Severity.MAJOR: 3,
    Severity.MINOR: 4,
    Severity.WARNING: 4,
    Severity.CLEARED: 5,
    Severity.INFO: 6,
}


def to_model(code: int) -> Severity:
    """Return the model's severity; a code beyond debug is INFO."""
    return _TO_MODEL[code] if 0 <= code < len(_TO_MODEL) else Severity.INFO


def from_model(severity: Severity) -> int:
    """Return the code that travels."""
    return _FROM_MODEL[severity]
