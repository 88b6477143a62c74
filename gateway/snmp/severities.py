"""Severities as the fixed module numbers them."""

from __future__ import annotations

from collections.abc import Mapping

from gateway.model.events import EventState, Severity
from gateway.snmp import ber
from gateway.snmp.fixed_mib import SeverityNumber
from gateway.snmp.notification_numbers import ConditionStateNumber

SEVERITIES: Mapping[Severity, bytes] = {
    severity: ber.encode_integer(SeverityNumber[severity.name]) for severity in Severity
}
"""The TLV of an AgSeverity."""

CONDITION_STATES: Mapping[EventState, bytes] = {
    state: ber.encode_integer(ConditionStateNumber[state.name]) for state in EventState
}
"""The TLV of an AgConditionState."""
