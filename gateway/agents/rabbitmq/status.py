"""How far the agent can see the broker, in one line for people."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gateway.agents.rabbitmq.management_api import (
    Answer,
    Broken,
    ManagementRequest,
    NotManagement,
    OverviewRequest,
    Refused,
    Unavailable,
)
from gateway.model.observations import SourceState


@dataclass(frozen=True, slots=True)
class AgentStatus:
    """The state of the source and a line that says why it is so and what to do; empty where all is well.

    ``blocked``: an alarm is raised, and the broker takes no messages over AMQP.
    """

    state: SourceState
    detail: str = ""
    blocked: bool = False


def failure_text(answer: Answer, user: str) -> str:
    """Why the management API is of no use now; empty for an answer that is."""
    match answer:
        case Refused(login=True, reason=reason):
            return (
                f"the management API refuses user {user!r} ({reason}): check user and password, and that the"
                " user has the tag 'monitoring'"
            )
        case Unavailable(reason):
            return f"the management API does not answer ({reason}): is the broker running, is its URL right?"
        case NotManagement(reason):
            return (
                f"there is no RabbitMQ management API at that URL ({reason}): check the URL, and that the"
                " plugin rabbitmq_management is enabled"
            )
    return ""


def refusal_text(request: ManagementRequest, refusal: Refused | Broken, user: str) -> str:
    """What may not or cannot be read."""
    what = "the overview" if isinstance(request, OverviewRequest) else request.target.partition("?")[0]
    if isinstance(refusal, Broken):
        return f"the broker cannot list {what} ({refusal.reason}): see its log"
    return f"user {user!r} may not read {what} ({refusal.reason}): give it the tag 'monitoring'"


def visible_text(
    events_missing: str, refusals: Mapping[str, str], not_permitted: int, distrust: str = ""
) -> str:
    """What a source that otherwise works cannot see, and why it obeys nobody where it does not."""
    parts = [distrust] if distrust else []
    parts += dict.fromkeys(refusals.values())
    if events_missing:
        parts.append(f"short-lived queues and connections cannot be seen: {events_missing}")
    if not_permitted:
        hosts = "1 virtual host" if not_permitted == 1 else f"{not_permitted} virtual hosts"
        parts.append(f"contents of {hosts} may not be read")
    return "; ".join(parts)
