"""Statuses of methods and queries, and the outcomes of operations that they mean.

A RabbitMQ source reports its operations by them, too, and needs nothing else of QMF's messages.
Source: QMF AM2 protocol ("Method Response", "Command Complete"); statuses from 4 on as in qpidd.
"""

from __future__ import annotations

import enum
from typing import Final

from gateway.model.operations import Outcome

FAILED: Final = 1
"""The completion code of every refusal."""


UNKNOWN_OBJECT: Final = "UnknownObject"
"""The text of qpidd's answer to a call on an object id that it does not know."""


class Status(enum.IntEnum):
    """Outcomes of a method; those from 0x10000 on are the agent's own."""

    OK = 0
    UNKNOWN_OBJECT = 1
    UNKNOWN_METHOD = 2
    NOT_IMPLEMENTED = 3
    INVALID_PARAMETER = 4
    FEATURE_NOT_IMPLEMENTED = 5
    FORBIDDEN = 6
    EXCEPTION = 7
    OUTCOME_UNKNOWN = 0x554E4B4E
    """The status of this gateway's agents for an uncertain outcome. All other statuses are certain.
    Its octets are ``UNKN``, so that it does not equal another agent's own status by chance."""
    NOT_APPLIED = 0x4E4F5441
    """The status of this gateway's agents for a call that was reported as done, or was not answered, and
    certainly was not carried out. Its octets are ``NOTA``."""


OUTCOMES: Final[dict[int, Outcome]] = {
    Status.OK: Outcome.APPLIED,
    Status.UNKNOWN_OBJECT: Outcome.OBJECT_GONE,
    Status.UNKNOWN_METHOD: Outcome.UNKNOWN_ELEMENT,
    Status.INVALID_PARAMETER: Outcome.WRONG_VALUE,
    Status.OUTCOME_UNKNOWN: Outcome.UNKNOWN,
    Status.NOT_APPLIED: Outcome.NOT_APPLIED,
}
"""The outcome of each status; all other statuses are failures of the called program."""
