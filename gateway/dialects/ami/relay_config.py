"""The configuration of a relay session."""

from __future__ import annotations

from dataclasses import dataclass, field

from gateway.dialects.ami.dates import DateRules
from gateway.dialects.ami.deviations import Reading
from gateway.dialects.ami.relay_publishing import PublishRules
from gateway.model.observations import STALE_AFTER
from gateway.model.schema import ClassSchema
from gateway.model.secrets import SecretRules
from gateway.model.times import MINUTE, SECOND


@dataclass(frozen=True, slots=True)
class LoginRules:
    """The applications that may log in. AMI has no passwords: any client may claim any name, by these rules.

    Attributes:
        names: the permitted names of applications (I of L); ``None`` permits all.
        certificates: the permitted common names of certificates; ``None`` permits all, and clients without
            one.
        own_name: whether an application's name must be that of its certificate.
        within: the time after which a connection without a login is ended.
        log: whether an application can request a log of its session (option LOG).
        terminal: whether a person can type (option TTY, Telnet), from the same machine only.
        pause: whether P delays lines, which is intended for tests.
    """

    names: frozenset[str] | None = None
    certificates: frozenset[str] | None = None
    own_name: bool = False
    within: int = MINUTE
    log: bool = True
    terminal: bool = True
    pause: bool = True


@dataclass(frozen=True, slots=True)
class RelayLimits:
    """Bounds for applications. What exceeds them is refused as a whole; nothing is truncated.

    No application can use more types, shared keys and versions than it leaves to the others.

    Attributes:
        connections: open connections.
        line: octets of a line with all that is joined to it.
        applications: known applications; a disconnected one makes room for a new one, and loses its objects.
        types: types of objects (T).
        keys: keys of a type, of all alerts, and of all applications' metrics.
        name: characters of a type, of an object's id, of an application's name, of a command's id.
        objects: objects of all applications, including alerts.
        objects_each: objects of one application.
        inserted: objects without id of one application; beyond it the oldest one ends.
        octets: approximate octets of all values.
        commands: commands of one connection.
        command_octets: octets of their definitions.
        operations: calls that are under way.
        held_lines: lines of one connection that wait behind a P.
        held_octets: octets of these lines.
        pause: nanoseconds that a P may delay lines.
        versions: versions of classes; at most half of them differ by commands. An application that has used
            its share may not change a class any more.
    """

    connections: int = 64
    line: int = 1 << 16
    applications: int = 256
    types: int = 256
    keys: int = 256
    name: int = 200
    objects: int = 100_000
    objects_each: int = 50_000
    inserted: int = 1_000
    octets: int = 256 << 20
    commands: int = 200
    command_octets: int = 1 << 18
    operations: int = 1_000
    held_lines: int = 1_000
    held_octets: int = 1 << 18
    pause: int = 10 * SECOND
    versions: int = 1_500


@dataclass(frozen=True, slots=True)
class RelayConfig:
    """The settings of a relay session. Durations are nanoseconds.

    Attributes:
        package: the package of the classes that types of objects (T) become.
        relay_package: the package of the relay's own classes and events.
        reading: the strictness of reading lines.
        dates: the rules by which incomplete dates are completed, above all their time zone.
        secrets: the rules by which keys are dropped and values masked.
        user: the name of the user that calls commands (U of E).
        call_seconds: seconds for an application's answer where the form of the command names no time.
        settle: the time for which a class with a new element waits for more of them before it is reported;
            doubled as long as further ones come,
        settle_longest: up to this time.
        at_once: objects that are reported again, or expire, in one turn; the others follow in further turns,
            between which other events are processed.
        report_interval: the shortest time between two reports of an application's counts.
        stale_after: the time after which an application's objects are stale, if something that it sent may
            have waited so long.
        schemas: classes from before a restart, whose elements stay the same.
        publishing: what peers may publish; ``None`` permits everything that logins permit.
    """

    package: str = "ami"
    relay_package: str = "ami-relay"
    reading: Reading = Reading.LENIENT
    dates: DateRules = field(default_factory=DateRules)
    secrets: SecretRules = field(default_factory=SecretRules)
    logins: LoginRules = field(default_factory=LoginRules)
    limits: RelayLimits = field(default_factory=RelayLimits)
    user: str = "amqp-gateway"
    call_seconds: int = 60
    settle: int = SECOND // 4
    settle_longest: int = MINUTE
    at_once: int = 1_000
    report_interval: int = SECOND
    stale_after: int = STALE_AFTER
    schemas: tuple[ClassSchema, ...] = ()
    publishing: PublishRules | None = None
