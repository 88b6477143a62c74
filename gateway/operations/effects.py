"""What operations want done: the only way out of the code without I/O."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from gateway.feed.operations import OperationAnswer, OperationRecord
from gateway.model.operations import MethodCall, ObjectFetch, ObjectModify

ReplyTo: TypeAlias = Callable[[OperationAnswer], None]
"""Where the answer to a request goes; nothing here calls it."""


@dataclass(frozen=True, slots=True)
class Tell:
    """Tell every north and the event log of an operation.

    Attributes:
        lasting: say by `OperationManager.recorded` when the log has it on the disk.
    """

    record: OperationRecord
    lasting: bool = False


@dataclass(frozen=True, slots=True)
class Send:
    """Give a call, modification or fetch to the port of a source (its number), once."""

    source: int
    message: MethodCall | ObjectModify | ObjectFetch


@dataclass(frozen=True, slots=True)
class Reply:
    """Answer a request, behind everything that was told before."""

    to: ReplyTo
    answer: OperationAnswer


Effect: TypeAlias = Tell | Send | Reply
