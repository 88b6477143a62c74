"""Sources of kind ``cml``: an OpenAMQ, or another server of CML that is reached over AMQP 0-9-1."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from gateway.config.amqp import AmqpSettings
from gateway.config.operations import SECOND
from gateway.config.types import AmqpName, Duration, FilePath, Name, between
from gateway.yaml_documents import StrictModel

ClassName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]{1,128}$")]
"""Of a class of CML."""


def _word(value: Any) -> Any:  # noqa: ANN401  whatever YAML gave
    """YAML takes ``no`` and ``yes`` for something else than words."""
    return ("no", "yes")[value] if isinstance(value, bool) else value


Interval = Annotated[Duration, between("1s", "1d")]


class CmlAmqpSettings(AmqpSettings):
    """As of other sources, with what fits OpenAMQ unless the file says otherwise.

    Attributes:
        heartbeat: OpenAMQ offers 2 s and insists on what was agreed.
    """

    vhost: AmqpName = "/"
    heartbeat: Annotated[Duration, between("1s", "60s")] = 2 * SECOND


class CmlBudget(StrictModel):
    """What polling may cost the broker, at most.

    Attributes:
        rate: requests a second.
        in_flight: requests that wait for an answer at once.
        share: of the time in which the broker may be busy with them.
    """

    rate: Annotated[float, Field(ge=0.1, le=10_000)] = 100.0
    in_flight: Annotated[int, Field(ge=1, le=1_000)] = 8
    share: Annotated[float, Field(gt=0, le=1)] = 0.25


class CmlSource(StrictModel):
    """A broker that tells of itself by CML.

    Attributes:
        system_exchange: requests are published to it, with `routing_key`.
        reply_exchange: replies come through it, by the name of the gateway's queue.
        notify_exchange: notifications do; none are heard without it.
        notify_key: that is bound there.
        believe: users, as the broker checked them, whose messages are believed; default: anybody, because
            OpenAMQ's own replies name no user.
        spelling: of requests; replies are read in both.
        matching: how replies are matched with requests.
        interval: between two looks at an object, of classes that `intervals` does not name.
        short_lived: when objects are looked at that may end at any time.
        assured: what is known of the broker, without which some methods and settings are refused.
        schema_file: a schema-reply as `amqp-gateway source schema` writes it; default: what the broker told
            last, kept in the state folder. What the broker tells takes its place where it is another.
        same_as: the name of another source that reads the same broker: a report counts it once.
    """

    kind: Literal["cml"]
    same_as: Name | None = None
    amqp: CmlAmqpSettings
    system_exchange: AmqpName = "amq.system"
    routing_key: AmqpName = "amq.console"
    reply_exchange: AmqpName = "amq.direct"
    notify_exchange: AmqpName | None = "amq.notify"
    notify_key: AmqpName = "#"
    believe: Annotated[tuple[AmqpName, ...], Field(min_length=1)] | None = None
    spelling: Literal["openamq", "specification"] = "openamq"
    matching: Literal["find-out", "message-id", "one-at-a-time"] = "find-out"
    interval: Interval = 30 * SECOND
    intervals: dict[ClassName, Interval] = Field(default_factory=dict)
    budget: CmlBudget = CmlBudget()
    short_lived: Annotated[Literal["no", "second-listing", "yes"], BeforeValidator(_word)] = "no"
    assured: tuple[Literal["config-file", "heartbeats"], ...] = ()
    schema_file: FilePath | None = None
    request_deadline: Annotated[Duration, between("1s", "5min")] = 10 * SECOND
    max_queue_length: Annotated[int, Field(ge=100, le=1_000_000)] = 20_000
    max_objects: Annotated[int, Field(ge=1, le=10_000_000)] = 100_000

    @property
    def durable(self) -> None:
        """No broker of CML keeps anything for the gateway's return."""
        return
