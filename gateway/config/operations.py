"""Who may change what: the section ``operations`` of ``gateway.yaml``."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field, model_validator

from gateway.config.types import SECOND, ClassPattern, Duration, Pattern, between
from gateway.yaml_documents import StrictModel


def _principal(text: str) -> str:
    front_end, colon, name = text.partition(":")
    if front_end not in {"snmp", "jmx", "cli"} or not colon or not name or not text.isprintable():
        raise ValueError("write snmp:WRITER, jmx:USER or cli:USER")
    return text


PrincipalName = Annotated[str, Field(max_length=255), AfterValidator(_principal)]
"""Who requests: a writer of SNMP, a user of JMX, a system user at the command line."""


class OperationRule(StrictModel):
    """A permission. An operation must match every key of the rule; one matching rule is sufficient.

    Attributes:
        who: the principals.
        sources: patterns of sources' names.
        classes: patterns of ``package:class``.
        objects: patterns of objects' names as ``amqp-gateway tree`` shows them, such as ``/|orders*``.
        set: patterns of elements that may be set.
        invoke: patterns of methods that may be called; a dangerous one must be named in full.
        read: whether objects may be read again from the broker.
    """

    who: Annotated[tuple[PrincipalName, ...], Field(min_length=1)]
    sources: Annotated[tuple[Pattern, ...], Field(min_length=1)] = ("*",)
    classes: Annotated[tuple[ClassPattern, ...], Field(min_length=1)] = ("*:*",)
    objects: Annotated[tuple[Pattern, ...], Field(min_length=1)] = ("*",)
    set: tuple[Pattern, ...] = ()
    invoke: tuple[Pattern, ...] = ()
    read: bool = False

    @model_validator(mode="after")
    def _allows_something(self) -> OperationRule:
        if not (self.set or self.invoke or self.read):
            raise ValueError("allow something: 'set', 'invoke' or 'read'")
        return self


class OperationSettings(StrictModel):
    """Operations: changes and fresh reads that users request. Each needs a rule that permits it.

    Attributes:
        allow: the rules.
        deadline: an operation that is not answered by then has an unknown outcome.
        max_running: operations of one source that are under way; further ones wait, as many again, and what
            is beyond that is refused.
    """

    allow: tuple[OperationRule, ...] = ()
    deadline: Annotated[Duration, between("1s", "5min")] = 10 * SECOND
    max_running: Annotated[int, Field(ge=1, le=1000)] = 64
