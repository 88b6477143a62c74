"""The shape of a mapping file.

A mapping overlays what is learnt from the wire; where the gateway's own agent serves the package, the
same file also defines its schema (``type`` on every element) and where each value is read (``read``,
``event``), so that agent, console, MIB and documentation cannot drift apart.
"""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import Field, field_validator, model_validator

from gateway.mapping.paths import compile_path
from gateway.model.schema import Access, Kind
from gateway.model.values import ValueType
from gateway.yaml_documents import StrictModel

_NAME = r"^[A-Za-z][A-Za-z0-9_.-]*$"
Name = Annotated[str, Field(pattern=_NAME, max_length=64)]


class ElementRule(StrictModel):
    """One property or statistic.

    Attributes:
        type: the model type; required where our own agent serves the class, else what the wire says.
        read: where the agent finds the value in the JSON object it reads; see `gateway.mapping.paths`,
            e.g. ``message_stats.ack``.
        event: name of the header that carries it in the creation event, where it differs from ``read``'s
            last word; empty string where the event does not carry it.
        scale: the value read is multiplied by this (milliseconds to nanoseconds: 1000000).
        values: the enumeration's labels, in the order of their numbers in the lock. Of an integer they stand
            for 0, 1, 2 ... on the wire, of a string for themselves.
        snmp_unit: for durations and times shown as Unsigned32 instead of nanoseconds.
        secret: dropped in the session: no store, log or north ever sees it.
        absent: texts by which the source says that there is no value.
        otherwise: the value of an object for which the source tells none.
    """

    type: ValueType | None = None
    kind: Kind = Kind.GAUGE
    unit: str = ""
    access: Access = Access.READ_ONLY
    index: bool = False
    optional: bool = False
    references: str = ""
    minimum: int | float | None = None
    maximum: int | float | None = None
    max_length: int | None = None
    values: tuple[str, ...] = ()
    label: str = ""
    description: str = ""
    read: str = ""
    event: str | None = None
    scale: int = 1
    snmp_unit: str = ""
    secret: bool = False
    absent: tuple[str, ...] = ()
    otherwise: bool | int | float | str | None = None

    @field_validator("read")
    @classmethod
    def _is_a_path(cls, read: str) -> str:
        if read:
            compile_path(read)
        return read


class Condition(StrictModel):
    """True of an object when all of its tests hold; tests look at creation-only properties."""

    property: Name
    equals: bool | int | str | None = None
    matches: str | None = None

    @field_validator("matches")
    @classmethod
    def _compiles(cls, pattern: str | None) -> str | None:
        if pattern is not None:
            try:
                re.compile(pattern)
            except re.error as error:
                raise ValueError(f"is not a regular expression: {error}") from error
        return pattern

    @model_validator(mode="after")
    def _one_test(self) -> Condition:
        if (self.equals is None) == (self.matches is None):
            raise ValueError("give either 'equals' or 'matches'")
        return self


class Lifetime(StrictModel):
    """Whether an object keeps its identity when it comes back: decided once, at its creation.

    The first condition that holds in ``transient_when`` makes it transient; otherwise ``default`` decides.
    """

    default: Annotated[str, Field(pattern="^(durable|transient)$")] = "durable"
    transient_when: tuple[Condition, ...] = ()


class ClassRule(StrictModel):
    """One class.

    Attributes:
        name: the element whose text is the object's leaf name; default: the last index property.
        parent: the reference element whose target is the object's parent in names and trees.
        listing: collection of the management API that lists the class, e.g. ``queues``.
        created_event: name of the event that tells of a new object, e.g. ``queue.created``.
        deleted_event: name of the event that tells of its end.
        created: the property (a time) that tells when the object was created, where listings tell it.
    """

    label: str = ""
    description: str = ""
    name: Name | None = None
    parent: Name | None = None
    lifetime: Lifetime = Lifetime()
    listing: str = ""
    created_event: str = ""
    deleted_event: str = ""
    created: Name | None = None
    properties: dict[Name, ElementRule] = Field(default_factory=dict)
    statistics: dict[Name, ElementRule] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _names_exist(self) -> ClassRule:
        both = self.properties.keys() & self.statistics.keys()
        if both:
            raise ValueError(f"both a property and a statistic: {', '.join(sorted(both))}")
        for role, name in (("name", self.name), ("parent", self.parent), ("created", self.created)):
            if name is not None and name not in self.properties:
                raise ValueError(f"{role}: {name!r} is not one of the properties")
        return self


class Mapping(StrictModel):
    """A whole mapping file, ``version: 1``.

    Attributes:
        module: name of the generated MIB module.
        prefix: what each of its descriptors begins with (``rmq``).
        secrets: regular expressions; an element whose name matches one is a secret wherever it turns up.
    """

    version: Annotated[int, Field(ge=1, le=1)]
    package: Name
    module: Annotated[str, Field(pattern=r"^[A-Z][A-Za-z0-9-]{0,63}$")]
    prefix: Annotated[str, Field(pattern=r"^[a-z][A-Za-z0-9]{0,15}$")]
    description: str = ""
    secrets: tuple[str, ...] = ()
    classes: dict[Name, ClassRule] = Field(default_factory=dict)
