"""A console session of a source, with its surroundings: inventory, operations, capture."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from gateway.inventory.source import SourceInventory
from gateway.links.capture import CapturedConsole, MessagingConsole, ToldOfUnsent
from gateway.links.conversation import Conversation
from gateway.model.observations import Observation
from gateway.service.sources.console_port import ConsolePort
from gateway.service.sources.source_context import SourceContext


class AmqpConsole(MessagingConsole, ToldOfUnsent, Protocol):
    """A console session over AMQP."""


ConsoleT = TypeVar("ConsoleT", bound=AmqpConsole)


@dataclass(frozen=True, slots=True)
class SourceConsole(Generic[ConsoleT]):
    """A console session at work.

    Attributes:
        session: as links are to know it; captured, where the source is.
        conversation: carries out what the session wants.
    """

    session: ConsoleT | CapturedConsole
    conversation: Conversation


def source_console(
    source: SourceInventory,
    session: ConsoleT,
    config: object,
    around: SourceContext,
    observed: Callable[[tuple[Observation, ...]], None] | None = None,
) -> SourceConsole[ConsoleT]:
    """Have a session observe for a source, and take the operations on its objects.

    Args:
        source: of the inventory.
        session: a new one.
        config: that it was made of.
        around: all that sources have in common.
        observed: given what the session observes, instead of the inventory.
    """
    identity, clock = source.identity, around.clock

    def tell(observations: tuple[Observation, ...]) -> None:
        around.inventory.observed(source, observations, clock.now())

    told = around.captured(identity.name, identity.kind, session, config)
    answered = around.behind_what_was_told(source)
    conversation = Conversation(
        identity.name, told, observed or tell, clock, source.counters, answered, told.unsent
    )
    port = ConsolePort(told, conversation, clock, answered)
    around.operations.connect(identity.number, port)
    return SourceConsole(told, conversation)
