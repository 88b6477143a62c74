"""Sources of kind ``am01``: a QMF agent of 2007 or 2008, before AM2, on a broker's management exchange."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from gateway.config.amqp import AmqpSettings
from gateway.config.operations import SECOND
from gateway.config.types import AmqpName, Duration, Name, between
from gateway.yaml_documents import StrictModel


class Am01Source(StrictModel):
    """One QMF agent of AM01 or AM1.

    Attributes:
        believe: users, as the broker checked them, whose messages are taken for the agent's.
        believe_anyone: take messages without a checked user too, as a Qpid broker's own are.
        revision: what the agent speaks; ``auto`` finds out.
        package: of classes that are told without one, until January 2008.
        packages: those to learn about, of agents that tell packages.
        get_and_set: the agent has get and set in the form that docs/qmf-before-am2.md gives them.
        events: the agent sends events in the form given there.
        interval: between two publications of the agent; it is asked whether it lives when nothing was heard
            for so long, and lost after three.
        republish_interval: after which the agent sends everything again by itself; without it, a queue that
            is bound makes it do so.
        same_as: the name of another source that reads the same broker: a report counts it once.
    """

    kind: Literal["am01"]
    same_as: Name | None = None
    amqp: AmqpSettings
    believe: tuple[str, ...] = ()
    believe_anyone: bool = False
    exchange: AmqpName = "qpid.management"
    direct_exchange: AmqpName = "amq.direct"
    revision: Literal["auto", "design-notes", "2007-11", "2008-01", "2008-02", "2008-03"] = "auto"
    package: Annotated[str, Field(pattern=r"^[^.\s]{1,255}$")] = "qpid"
    packages: tuple[str, ...] | None = None
    get_and_set: bool = False
    events: bool = False
    interval: Annotated[Duration, between("1s", "1h")] = 10 * SECOND
    republish_interval: Annotated[Duration, between("1s", "1d")] | None = None
    request_deadline: Annotated[Duration, between("1s", "1h")] = 10 * SECOND
    max_queue_length: Annotated[int, Field(ge=100, le=1_000_000)] = 20_000
    max_objects: Annotated[int, Field(ge=1, le=10_000_000)] = 200_000

    @property
    def durable(self) -> None:
        """Nothing is kept for the gateway's return: what agents told cannot be read without their schemas."""
        return

    @model_validator(mode="after")
    def _somebody(self) -> Am01Source:
        if not self.believe and not self.believe_anyone:
            raise ValueError("name under 'believe' the users whose messages are an agent's")
        return self
