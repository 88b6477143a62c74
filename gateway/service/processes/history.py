"""How much of the past core and norths keep, from the configuration."""

from __future__ import annotations

from gateway.config.model import HistorySettings
from gateway.feed.latest import HistoryLimits


def history_limits(settings: HistorySettings) -> HistoryLimits:
    """The limits that are configured, with octets for MiB."""
    return HistoryLimits(settings.events, settings.ends, settings.operations, settings.memory << 20)
