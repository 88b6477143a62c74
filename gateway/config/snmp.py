"""The settings of the SNMP agent in ``gateway.yaml``: readers, writers, and receivers of notifications."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from gateway.config.types import Duration, ListenAddress, Name, ObjectIdentifier, SecretSource, between
from gateway.mapping.rules import SeverityName
from gateway.model.observations import Severity
from gateway.model.times import SECOND
from gateway.yaml_documents import StrictModel

COMMUNITY = "community"
"""The name of the secret in the state folder that is the community of reading, unless one is configured."""


WriterName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,31}$")]
"""The name of a writer, an index: at most 32 characters, as user names of SNMP (RFC 3414 section 5)."""


class NotificationTarget(StrictModel):
    """A receiver of events as SNMP notifications.

    Attributes:
        address: numeric address and port of the receiver.
        kind: ``trap`` is sent once; ``inform`` is sent again until it is answered.
        version: the version of SNMP; version 1 has no informs.
        user: the user of version 3 who sends them, one of ``snmp.users``.
        community: the community of versions 1 and 2c; default: that of reading.
        severity: events below it are not sent; a clearing event goes where the raising one went.
        events: patterns of the events that are sent: ``package:event``, such as ``rabbitmq:alarm*``.
        rate: notifications a second; traps beyond it are counted, and one summary has their number;
            informs wait.
    """

    address: ListenAddress
    kind: Literal["trap", "inform"] = "trap"
    version: Literal["v1", "v2c", "v3"] = "v2c"
    user: WriterName | None = None
    community: SecretSource | None = None
    severity: SeverityName = Severity.INFO
    events: Annotated[
        tuple[Annotated[str, Field(min_length=1, max_length=255)], ...], Field(min_length=1)
    ] = ("*",)
    rate: Annotated[int, Field(ge=1, le=100_000)] = 100

    @model_validator(mode="after")
    def _version_has_it(self) -> NotificationTarget:
        if self.kind == "inform" and self.version == "v1":
            raise ValueError("SNMP version 1 has no informs: choose version v2c")
        if self.version == "v3" and self.user is None:
            raise ValueError("version v3 needs the user who sends: write user: NAME, of one under snmp.users")
        if self.version != "v3" and self.user is not None:
            raise ValueError(f"version {self.version} has no users: choose version v3")
        if self.version == "v3" and self.community is not None:
            raise ValueError("version v3 has no community: leave it out")
        return self


class CommandSettings(StrictModel):
    """The table of commands, by which writers call methods.

    Attributes:
        quota: rows that each writer can have.
        keep: the time for which a command that has ended keeps its row.
        shown_to_all: every reader sees the commands of all writers, instead of each writer its own.
    """

    quota: Annotated[int, Field(ge=1, le=1000)] = 32
    keep: Annotated[Duration, between("10s", "7d")] = 3600 * SECOND
    shown_to_all: bool = False


class SnmpWriter(StrictModel):
    """A community that may send SET, as far as ``operations`` permits.

    Attributes:
        community: the community, which may read, too; default: the secret ``community-NAME`` in the state
            folder, made at the first start.
    """

    community: SecretSource | None = None


SecurityLevelName = Literal["noAuthNoPriv", "authNoPriv", "authPriv"]
"""A security level, as RFC 3411 section 3.4.3 names it."""


class SnmpUser(StrictModel):
    """A user of SNMP version 3, whose keys ``amqp-gateway snmp user add`` makes.

    Attributes:
        level: the lowest security level at which the user is answered.
        may_set: the user may send SET, as far as ``operations`` permits ``snmp:NAME``.
    """

    level: SecurityLevelName = "authPriv"
    may_set: bool = False


class SnmpSettings(StrictModel):
    """The SNMP agent.

    Attributes:
        versions: the versions of requests that are answered; without ``v1`` and ``v2c`` no community can
            read or write.
        users: the users of version 3, by their names.
        weak_algorithms: permits users with HMAC-MD5 or DES.
        community: the community that may read, v1 and v2c; default: the secret ``community`` in the state
            folder, made at ``init``.
        serve_stale_for: the time for which values of a silent agent are still shown.
        notifications: receivers of traps and informs, by name.
        authentication_traps: send authenticationFailure when a request has a community that is not known.
        writers: the writers, which may send SET, by the name that ``operations`` refers to as ``snmp:NAME``.
        best_effort: accept a SET of several objects, one operation after the other; otherwise it is refused,
            because operations that were carried out cannot be undone for certain.
        commands: the table by which writers call methods.
    """

    enabled: bool = True
    versions: Annotated[tuple[Literal["v1", "v2c", "v3"], ...], Field(min_length=1)] = ("v1", "v2c", "v3")
    writers: dict[WriterName, SnmpWriter] = Field(default_factory=dict)
    users: dict[WriterName, SnmpUser] = Field(default_factory=dict)
    weak_algorithms: bool = False
    best_effort: bool = False
    commands: CommandSettings = CommandSettings()
    notifications: dict[Name, NotificationTarget] = Field(default_factory=dict)
    authentication_traps: bool = True
    listen: Annotated[tuple[ListenAddress, ...], Field(min_length=1)] = (("127.0.0.1", 1161),)
    community: SecretSource | None = None
    root: ObjectIdentifier = "1.3.6.1.4.1.8072.9999.9999"
    contact: Annotated[str, Field(max_length=255)] = ""
    location: Annotated[str, Field(max_length=255)] = ""
    serve_stale_for: Duration = 300 * SECOND

    @model_validator(mode="after")
    def _names_are_distinct(self) -> SnmpSettings:
        # Rules, records and the command table know a writer by its name alone.
        both = sorted(self.users.keys() & self.writers.keys())
        if both:
            raise ValueError(f"{both[0]!r} is under users and under writers: give one of them another name")
        return self

    @model_validator(mode="after")
    def _senders_exist(self) -> SnmpSettings:
        for name, target in self.notifications.items():
            if target.user is not None and target.user not in self.users:
                raise ValueError(f"notifications.{name}: no user {target.user!r} is under snmp.users")
        return self

    @property
    def all_writers(self) -> tuple[str, ...]:
        """The names of all that may send SET: writers by community, and users of version 3."""
        return (*self.writers, *(name for name, user in self.users.items() if user.may_set))
