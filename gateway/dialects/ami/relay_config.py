"""How a relay session behaves."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from gateway.dialects.ami.dates import DateRules
from gateway.dialects.ami.deviations import Reading
from gateway.model.schema import ClassSchema
from gateway.model.secrets import SecretRules

MILLISECOND: Final = 1_000_000
"""In nanoseconds; so are the others."""
SECOND: Final = 1_000 * MILLISECOND
MINUTE: Final = 60 * SECOND


@dataclass(frozen=True, slots=True)
class LoginRules:
    """Who may log in. AMI has no passwords: whoever may connect can say anything, within these rules.

    Attributes:
        names: applications (I of L) that may; ``None`` for any.
        certificates: common names of certificates that may; ``None`` for any, and for none at all.
        own_name: an application must be called as its certificate is.
        within: a connection that has not logged in after this is ended.
        log: whether an application can have its session logged (option LOG).
        terminal: whether a person can type (option TTY, telnet), from the same machine only.
        pause: whether P holds lines up, which is meant for tests.
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
    """What applications may take. What is more is refused, and nothing is cut.

    Of types, shared keys and versions no application can have more than it leaves to the others.

    Attributes:
        connections: open at a time.
        line: octets of a line with all that is joined to it.
        applications: known at a time; one that is not connected makes room for a new one, with its objects.
        types: of objects (T).
        keys: of a type, of all alerts, and of all applications' metrics.
        name: characters of a type, of an object's id, of an application's name, of a command's id.
        objects: of all applications, alerts among them.
        objects_each: of one application.
        inserted: objects without id of one application; the oldest of more ends.
        octets: that all values take, about.
        commands: of one connection.
        command_octets: of the definitions of these.
        operations: calls under way at once.
        held_lines: that wait behind a P, of one connection.
        held_octets: of these lines.
        pause: nanoseconds that a P may hold lines up.
        versions: of classes; at most half of them differ by commands. Whose are used up may not change a
            class any more.
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
    """All that can be chosen about a relay session. Durations are nanoseconds.

    Attributes:
        package: of the classes that types of objects (T) become.
        relay_package: of the relay's own: applications, alerts, events.
        reading: how strictly lines are read.
        dates: what dates in lines leave open, their time zone above all.
        secrets: which keys are dropped, what is masked.
        user: who calls commands, as applications are told (U of E).
        call_seconds: that an application has to answer a call whose form does not say it.
        settle: how long a class that has gained something waits for more before it is told again; doubled
            while it goes on gaining,
        settle_longest: up to this.
        at_once: objects that are told again, or expire, in one turn; the others follow at once, in turns of
            their own, so that nobody else waits for many.
        tell_interval: counts of an application are told no more often than this.
        schemas: classes known from before: their elements stay the same ones.
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
    tell_interval: int = SECOND
    schemas: tuple[ClassSchema, ...] = ()
