"""The shape of a mapping file.

A mapping overlays schemas learnt from the wire; where the gateway's own agent serves the package, the
same file also defines its schema (``type`` on every element) and the place of each value (``read``,
``event``), so that agent, console, MIB and documentation cannot drift apart.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated

from pydantic import AfterValidator, Field, field_validator, model_validator

from gateway.mapping.paths import compile_path
from gateway.model.schema import Access, Direction, Kind
from gateway.model.values import ValueType
from gateway.yaml_documents import SeverityName, StrictModel

_NAME = r"^[A-Za-z][A-Za-z0-9_.-]*$"
_METRIC = r"^([a-z][a-z0-9_]*( \+ [a-z][a-z0-9_]*)*)?$"
_DIFFERENCE = r"[a-z][a-z0-9_]*( - [a-z][a-z0-9_]*)?"
_LEADER_METRIC = rf"^({_DIFFERENCE}( \| {_DIFFERENCE})*)?$"
Name = Annotated[str, Field(pattern=_NAME, max_length=64)]


class SetRule(StrictModel):
    """The method by which a console sets a property, where the dialect has no other way.

    Attributes:
        method: a method of the same class.
        argument: the argument of that method that takes the value; others have a default or are optional.
    """

    method: Name
    argument: Name


class ElementRule(StrictModel):
    """The rule of a property or statistic.

    Attributes:
        type: the model type; required where our own agent serves the class, else that of the wire.
        read: the path of the value in the JSON object that the agent reads; see `gateway.mapping.paths`,
            e.g. ``message_stats.ack``.
        event: name of the header that carries it in the creation event, where it differs from ``read``'s
            last word; empty string where the event does not carry it.
        kind: how the number behaves over time; left out, a statistic is a gauge, and a property has none.
        scale: the factor of the value read (milliseconds to nanoseconds: 1000000).
        values: the enumeration's labels, in the order of their numbers in the lock. Of an integer they stand
            for 0, 1, 2 ... on the wire, of a string for themselves.
        snmp_unit: for durations and times shown as Unsigned32 instead of nanoseconds.
        secret: dropped in the session: no store, log or front end ever sees it.
        private: shown to principals whose roles grant what is private; others do not see that it exists.
        dangerous: what setting it leads to, one sentence without a period, such as that clients, or the
            gateway itself, cannot connect any more: it is allowed by its name only, never by a pattern.
        dangerous_at: the values that lead to it; without them every value does.
        absent: texts, or numbers written as texts, by which the source says that there is no value.
        words: numbers that the source writes as words.
        otherwise: the value of an object for which the source reports none.
        unused: the same of an object that the source measures: a counter that it leaves out while there was
            nothing to count.
        until: version of the broker, such as ``4.0``, from which on the value is no measurement: it is absent
            there, whatever the source answers, and where the object does not say its version.
        metric: name of the Prometheus metric that has the same value as ``read``, or the names of those whose
            sum has it, e.g. ``queue_get_total + queue_get_ack_total``; without ``rabbitmq_detailed_``. It
            stands for ``read`` where the class has ``metrics`` and the broker answers with them.
        leader_metric: the same of a value that only the ``leader`` metrics of the class have: one of them, or
            one less another, which is never below 0. Where versions of the broker name them otherwise these
            stand after ``|``: ``raft_term | raft_term_total``.
        lapses: the value is given up as soon as a metric of the object changes.
        set_by: the method that sets it, where ``access`` is ``read-write``.
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
    private: bool = False
    dangerous: Annotated[str, Field(max_length=200)] = ""
    dangerous_at: tuple[int, ...] = ()
    absent: tuple[str, ...] = ()
    words: dict[str, int] = Field(default_factory=dict)
    otherwise: bool | int | float | str | None = None
    unused: int | None = None
    until: Annotated[str, Field(pattern=r"^([0-9]+(\.[0-9]+)*)?$", max_length=32)] = ""
    metric: Annotated[str, Field(pattern=_METRIC)] = ""
    leader_metric: Annotated[str, Field(pattern=_LEADER_METRIC)] = ""
    lapses: bool = False
    set_by: SetRule | None = None

    @model_validator(mode="after")
    def _set_where_settable(self) -> ElementRule:
        if self.set_by is not None and self.access is not Access.READ_WRITE:
            raise ValueError("'set_by' belongs to 'access: read-write'")
        if self.dangerous and self.access is not Access.READ_WRITE:
            raise ValueError("'dangerous' belongs to 'access: read-write'")
        if self.dangerous_at and not self.dangerous:
            raise ValueError("'dangerous_at' belongs to 'dangerous'")
        return self

    @field_validator("read")
    @classmethod
    def _is_a_path(cls, read: str) -> str:
        if read:
            compile_path(read)
        return read


def _compiling(pattern: str) -> str:
    try:
        re.compile(pattern)
    except re.error as error:
        raise ValueError(f"is not a regular expression: {error}") from error
    return pattern


RegularExpression = Annotated[str, AfterValidator(_compiling)]


class Condition(StrictModel):
    """A condition that is true of an object when its test of a creation-only property holds."""

    property: Name
    equals: bool | int | str | None = None
    matches: RegularExpression | None = None

    @model_validator(mode="after")
    def _one_test(self) -> Condition:
        if (self.equals is None) == (self.matches is None):
            raise ValueError("give either 'equals' or 'matches'")
        return self


class Lifetime(StrictModel):
    """The rule of an object's identity when it comes back: decided once, at its creation.

    The first condition that holds in ``transient_when`` makes it transient; otherwise ``default`` decides.
    """

    default: Annotated[str, Field(pattern="^(durable|transient)$")] = "durable"
    transient_when: tuple[Condition, ...] = ()


class AlarmRule(StrictModel):
    """A condition that lasts as long as an element of an object shows it.

    It is evaluated at each report of the object, so it is active although no event reported it, and ends with
    its object. Exactly one test decides.

    Attributes:
        element: property or statistic that is tested; an absent value raises nothing, and clears.
        absent_is_unknown: an absent value clears nothing: the element comes of a reading that may fail.
        equals: raised while the value is this.
        not_empty: raised while a list, map or text has anything in it.
        at_least: raised from this value on; cleared below ``clear_below`` where that is given.
        hold_down: raised only when values have shown it for 15 s without an interruption.
        text: one line for people; ``{name}`` is the object's leaf name, any other the value of that element.
    """

    element: Name
    absent_is_unknown: bool = False
    equals: bool | int | str | None = None
    not_empty: bool = False
    at_least: int | float | None = None
    clear_below: int | float | None = None
    hold_down: bool = False
    severity: SeverityName
    text: str
    description: str = ""

    @model_validator(mode="after")
    def _one_test(self) -> AlarmRule:
        tests = (self.equals is not None, self.not_empty, self.at_least is not None)
        if sum(tests) != 1:
            raise ValueError("give one of 'equals', 'not_empty' and 'at_least'")
        if self.clear_below is not None and (self.at_least is None or self.clear_below > self.at_least):
            raise ValueError("'clear_below' belongs to 'at_least', and is not above it")
        return self


class ArgumentRule(StrictModel):
    """The rule of an argument of an event.

    Attributes:
        type: the model type; required where our own agent makes the event, else that of the wire.
        read: its path in the broker event's headers; see `gateway.mapping.paths`.
        known: the property of the subject, as last known, that stands for it if the headers lack it.
        scale: the factor of the value read.
        optional: it may be absent. Events of QMF have no other way to say so than an empty text, zero or a
            reference to nothing.
        snmp_also: a finer unit than ``snmp_unit``: notifications have a second object in it, behind all that
            they had before.
        secret: dropped in the session.
        private: sent to principals whose roles grant what is private; to others it is absent, and the event's
            text is its label.
    """

    type: ValueType | None = None
    unit: str = ""
    max_length: int | None = None
    references: str = ""
    values: tuple[str, ...] = ()
    label: str = ""
    description: str = ""
    read: str = ""
    known: str = ""
    scale: int = 1
    snmp_unit: str = ""
    snmp_also: str = ""
    optional: bool = False
    secret: bool = False
    private: bool = False

    @field_validator("read")
    @classmethod
    def _is_a_path(cls, read: str) -> str:
        if read:
            compile_path(read)
        return read


class MethodArgumentRule(StrictModel):
    """The rule of an argument of a method.

    Attributes:
        type: the model type; required where our own agent serves the method, else that of the wire.
        optional: empty text, zero, an empty map or a reference to nothing stands for an absent value; methods
            have no other way to say so on the wire.
        secret: its value is masked wherever the call is recorded, and never shown.
    """

    type: ValueType | None = None
    direction: Direction = Direction.IN
    unit: str = ""
    minimum: int | float | None = None
    maximum: int | float | None = None
    max_length: int | None = None
    default: bool | int | float | str | None = None
    references: str = ""
    values: tuple[str, ...] = ()
    label: str = ""
    description: str = ""
    optional: bool = False
    secret: bool = False


class MethodRule(StrictModel):
    """The rule of a method of a class.

    Attributes:
        dangerous: its effect cannot be undone, or ends the work of a user: it is allowed by its name only,
            never by a pattern. A method that no mapping knows is taken for dangerous.
    """

    label: str = ""
    description: str = ""
    dangerous: bool = False
    arguments: dict[Name, MethodArgumentRule] = Field(default_factory=dict)


class EventRule(StrictModel):
    """The rule of an event.

    Attributes:
        severity: as published by our own agent; for an event of another agent it holds over the wire's.
        trigger: name of the broker's event from which our agent makes this one, e.g. ``connection.closed``.
        when: only where these headers have these texts (``{source: memory}``).
        unless: not where one of these headers matches its regular expression (``{name: '^temp-'}``).
        subject: the argument that names the object concerned: of type reference, or a text that is the leaf
            name of an object of the class that the argument ``references``.
        text: one line for people; ``{argument}`` is that argument's value, ``?`` where it is absent.
        raises: the alarm of the subject that the event begins: one of its class's ``alarms``, or a name of
            its own where only events report the condition.
        clears: the alarm that it ends.
        private: sent only to principals whose roles grant what is private.
    """

    label: str = ""
    description: str = ""
    severity: SeverityName | None = None
    trigger: str = ""
    when: dict[str, str] = Field(default_factory=dict)
    unless: dict[str, RegularExpression] = Field(default_factory=dict)
    subject: Name | None = None
    text: str = ""
    raises: str = ""
    clears: str = ""
    private: bool = False
    arguments: dict[Name, ArgumentRule] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _names_exist(self) -> EventRule:
        if self.subject is not None and self.subject not in self.arguments:
            raise ValueError(f"subject: {self.subject!r} is not one of the arguments")
        if self.raises and self.clears:
            raise ValueError("an event raises an alarm or clears one")
        for name in names_in(self.text):
            if name not in self.arguments or self.arguments[name].secret:
                raise ValueError(f"text: {name!r} is not one of the arguments that are shown")
        return self


class LeaderMetricsRule(StrictModel):
    """Metrics that cost the broker much, and are requested apart: those of the node that leads an object.

    Attributes:
        families: the families to request from ``/metrics/detailed`` of RabbitMQ.
        of: the condition of objects that have any.
    """

    families: Annotated[tuple[Name, ...], Field(min_length=1)]
    of: Condition


class DearMetricsRule(StrictModel):
    """Metrics that are requested less often where the broker has so many objects that they cost much.

    Attributes:
        families: the families to request from ``/metrics/detailed`` of RabbitMQ, beside the others.
        metrics: the metrics that an answer without these families does not have.
    """

    families: Annotated[tuple[Name, ...], Field(min_length=1)]
    metrics: Annotated[tuple[Name, ...], Field(min_length=1)]


class MetricsRule(StrictModel):
    """The place of Prometheus' metrics of a class's objects.

    Attributes:
        families: the families to request from ``/metrics/detailed`` of RabbitMQ.
        labels: those that name an object, in the order of its index properties. Samples that differ in
            further labels are added up.
        holder: the property that names the node whose gauges count where several nodes have some. Counters of
            all nodes are added up.
        leader: metrics that are requested separately, and count of that node alone.
        dear: metrics that are requested with the others, but not each time.
    """

    families: Annotated[tuple[Name, ...], Field(min_length=1)]
    labels: Annotated[tuple[Name, ...], Field(min_length=1)]
    holder: Name
    leader: LeaderMetricsRule | None = None
    dear: DearMetricsRule | None = None


class IdentityRule(StrictModel):
    """The elements of a class that identify the broker or agent that reports its objects.

    With another id, and in none of the known places, it is another one under the same name: all that was
    known of it has ended.

    Attributes:
        id: the property that has its id, or name.
        place: the property that has its place, such as a machine's name; empty where nothing shows it.
        unknown: values by which it says that there is none.
    """

    id: Name
    place: Annotated[str, Field(max_length=64)] = ""
    unknown: tuple[str, ...] = ()


class ClassRule(StrictModel):
    """The rule of a class.

    Attributes:
        name: the element whose text is the object's leaf name; default: the last index property.
        version: the property that says which version of the broker an object runs; ``until`` refers to it.
        parent: the reference element whose target is the object's parent in names and trees.
        fallback_parents: the references whose target is the parent where ``parent`` is absent; the first that
            is there counts. Names do not change by them.
        listing: collection of the management API that lists the class, e.g. ``queues``.
        may_be_missing: not every broker has the collection: an answer 404 means that it has no such objects.
        metrics: the place of Prometheus' metrics of its objects, if it has any.
        created_event: name of the event that reports a new object, e.g. ``queue.created``.
        deleted_event: name of the event that reports its end.
        created: the property (a time) of the object's creation, where listings contain it.
        ends_with: references settled at creation, to the objects that the object depends on: the agent shows
            it only while all of them are shown, and it ends with whichever ends first.
        alarms: conditions of its objects that raise alarms, by name.
        methods: the methods of its objects, by name, in wire order.
        private: its objects exist only for principals whose roles grant what is private.
        identity: how its objects identify the broker or agent that reports them.
    """

    label: str = ""
    description: str = ""
    name: Name | None = None
    identity: IdentityRule | None = None
    version: Name | None = None
    parent: Name | None = None
    fallback_parents: tuple[Name, ...] = ()
    lifetime: Lifetime = Lifetime()
    private: bool = False
    listing: str = ""
    may_be_missing: bool = False
    metrics: MetricsRule | None = None
    created_event: str = ""
    deleted_event: str = ""
    created: Name | None = None
    ends_with: tuple[Name, ...] = ()
    alarms: dict[Name, AlarmRule] = Field(default_factory=dict)
    methods: dict[Name, MethodRule] = Field(default_factory=dict)
    properties: dict[Name, ElementRule] = Field(default_factory=dict)
    statistics: dict[Name, ElementRule] = Field(default_factory=dict)

    def element(self, name: str) -> ElementRule | None:
        """Return a property or statistic by its name; ``None`` if there is none."""
        return self.properties.get(name) or self.statistics.get(name)

    @model_validator(mode="after")
    def _names_exist(self) -> ClassRule:
        both = self.properties.keys() & self.statistics.keys()
        if both:
            raise ValueError(f"both a property and a statistic: {', '.join(sorted(both))}")
        roles = (
            ("name", self.name),
            ("version", self.version),
            ("parent", self.parent),
            ("created", self.created),
            ("identity", self.identity.id if self.identity is not None else None),
            ("identity", (self.identity.place or None) if self.identity is not None else None),
        )
        for role, name in roles:
            if name is not None and name not in self.properties:
                raise ValueError(f"{role}: {name!r} is not one of the properties")
        for alarm, rule in self.alarms.items():
            if rule.element not in self.properties and rule.element not in self.statistics:
                raise ValueError(f"alarms: {alarm}: {rule.element!r} is not one of the elements")
            for name in names_in(rule.text):
                if name != "name" and name not in self.properties and name not in self.statistics:
                    raise ValueError(f"alarms: {alarm}: text: {name!r} is not one of the elements")
        return self

    @model_validator(mode="after")
    def _metrics_exist(self) -> ClassRule:
        for name, element in self.properties.items():
            if element.metric or element.leader_metric or element.lapses:
                raise ValueError(f"{name}: 'metric', 'leader_metric' and 'lapses' belong to statistics")
        if self.metrics is None:
            measured = [name for name, element in self.statistics.items() if element.metric]
            if measured:
                raise ValueError(f"{measured[0]}: 'metric' needs the class's 'metrics'")
        elif self.metrics.holder not in self.properties:
            raise ValueError(f"metrics: holder: {self.metrics.holder!r} is not one of the properties")
        leader = self.metrics.leader if self.metrics is not None else None
        if leader is None:
            led = [name for name, element in self.statistics.items() if element.leader_metric]
            if led:
                raise ValueError(f"{led[0]}: 'leader_metric' needs 'leader' of the class's 'metrics'")
        elif leader.of.property not in self.properties or leader.of.equals is None:
            raise ValueError("metrics: leader: of: names no property, or nothing that it equals")
        return self

    @model_validator(mode="after")
    def _references_exist(self) -> ClassRule:
        for role, references in (("ends_with", self.ends_with), ("fallback_parents", self.fallback_parents)):
            for name in references:
                if name not in self.properties or not self.properties[name].references:
                    raise ValueError(f"{role}: {name!r} is not one of the properties that are references")
        return self

    @model_validator(mode="after")
    def _versions_are_known(self) -> ClassRule:
        for name, element in (*self.properties.items(), *self.statistics.items()):
            if element.until and self.version is None:
                raise ValueError(f"{name}: 'until' needs the 'version' of the class")
        return self

    @model_validator(mode="after")
    def _setters_exist(self) -> ClassRule:
        for name, element in self.properties.items():
            if element.set_by is None:
                continue
            method = self.methods.get(element.set_by.method)
            if method is None or element.set_by.argument not in method.arguments:
                raise ValueError(
                    f"{name}: set_by: no method {element.set_by.method!r} with an argument "
                    f"{element.set_by.argument!r}"
                )
        return self


class Mapping(StrictModel):
    """A whole mapping file, ``version: 1``.

    Attributes:
        module: name of the generated MIB module.
        prefix: the beginning of each of its descriptors (``rmq``).
        secrets: regular expressions; an element whose name matches one is a secret wherever it turns up.
        takes_additions: of a shipped mapping: an operator's own one of the same package may add to it, as
            `gateway.mapping.files` allows.
    """

    version: Annotated[int, Field(ge=1, le=1)]
    package: Name
    module: Annotated[str, Field(pattern=r"^[A-Z][A-Za-z0-9-]{0,63}$")]
    prefix: Annotated[str, Field(pattern=r"^[a-z][A-Za-z0-9]{0,15}$")]
    description: str = ""
    secrets: tuple[str, ...] = ()
    takes_additions: bool = False
    classes: dict[Name, ClassRule] = Field(default_factory=dict)
    events: dict[Name, EventRule] = Field(default_factory=dict)


_PLACE = re.compile(r"\{([A-Za-z][A-Za-z0-9_.-]*)\}")


def names_in(template: str) -> tuple[str, ...]:
    """Return the names that a template contains, in its order."""
    return tuple(_PLACE.findall(template))


def filled(template: str, text_of: Callable[[str], str]) -> str:
    """Return ``template`` with each place replaced by the text of its name."""
    return _PLACE.sub(lambda place: text_of(place.group(1)), template)
