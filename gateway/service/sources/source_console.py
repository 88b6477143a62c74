"""A console session of a source, with its surroundings: inventory, operations, capture."""

from __future__ import annotations

from collections.abc import Callable

from gateway.dialects.session import ConsoleSession
from gateway.inventory.source import SourceInventory
from gateway.links.session_driver import MessageDriver
from gateway.model.observations import Observation
from gateway.service.sources.console_port import ConsolePort
from gateway.service.sources.source_context import SourceContext


def source_console(
    source: SourceInventory,
    session: ConsoleSession,
    config: object,
    around: SourceContext,
    observed: Callable[[tuple[Observation, ...]], None] | None = None,
) -> MessageDriver:
    """Return the driver of a session that observes for a source, and takes the operations on its objects.

    Args:
        source: of the inventory.
        session: a new one.
        config: that it was made of.
        around: all that sources have in common.
        observed: given what the session observes, instead of the inventory.
    """
    identity, clock = source.identity, around.clock

    def observe(observations: tuple[Observation, ...]) -> None:
        around.inventory.observed(source, observations, clock.now())

    captured = around.captured(identity.name, identity.kind, session, config)
    answered = around.behind_what_was_told(source)
    driver = MessageDriver(identity.name, captured, observed or observe, clock, source.counters, answered)
    around.operations.connect(identity.number, ConsolePort(captured, driver, clock))
    return driver
