"""The settings of the SNMP agent in ``gateway.yaml``: readers, writers, and receivers of notifications."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Final, Literal, LiteralString, TypeAlias

from pydantic import Field, PlainSerializer, ValidationError, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError

from gateway.config.types import (
    ROOT,
    ListenAddress,
    Name,
    Networks,
    ObjectIdentifier,
    ReceiverAddress,
    SecretSource,
    Subtree,
)
from gateway.model.observations import Severity
from gateway.model.times import SECOND
from gateway.yaml_documents import Duration, SeverityName, StrictModel, between

SMALLEST_LIMIT: Final = 1_232
"""The bytes that the smallest frame of IPv6 holds (RFC 8200 section 5); each single value fits into them."""

LARGEST_DATAGRAM: Final = 65_507
"""The bytes that a UDP datagram over IPv4 can carry."""

WriterName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,31}$")]
"""The name of a writer, an index: at most 32 characters, as user names of SNMP (RFC 3414 section 5)."""

_AS_IT_IS: Final[LiteralString] = "{text}"
_Problem: TypeAlias = tuple[tuple[str | int, ...], str]  # where it is, and what


class NotificationTarget(StrictModel):
    """A receiver of events as SNMP notifications.

    Attributes:
        address: address or DNS name, and port, of the receiver.
        kind: ``trap`` is sent once; ``inform`` is sent again until it is answered.
        version: the version of SNMP; version 1 has no informs.
        user: the user of version 3 who sends them, one of ``snmp.users``.
        community: the community of versions 1 and 2c; default: that of reading.
        severity: events below it are not sent; a clearing event goes where the raising one went.
        events: patterns of the events that are sent: ``package:event``, such as ``rabbitmq:alarm*``.
        rate: notifications a second; traps beyond it are counted, and one summary has their number;
            informs wait.
        window: informs that may be without an answer at a time.
        backlog_rate: notifications a second of what could not be sent at its time.
        backlog: events of that which are sent, the latest; of older ones the number is reported.
    """

    address: ReceiverAddress
    kind: Literal["trap", "inform"] = "trap"
    version: Literal["v1", "v2c", "v3"] = "v2c"
    user: WriterName | None = None
    community: SecretSource | None = None
    severity: Annotated[
        SeverityName, PlainSerializer(lambda severity: severity.name.lower(), when_used="json")
    ] = Severity.INFO
    events: Annotated[
        tuple[Annotated[str, Field(min_length=1, max_length=255)], ...], Field(min_length=1)
    ] = ("*",)
    rate: Annotated[int, Field(ge=1, le=100_000)] = 100
    window: Annotated[int, Field(ge=1, le=1_000)] = 16
    backlog_rate: Annotated[int, Field(ge=1, le=100_000)] = 100
    backlog: Annotated[int, Field(ge=0, le=10_000_000)] = 100_000

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
        allowed_networks: the networks from which it may be used; default: any.
        view: the name of the view that it has; default: everything.
        community: the community, which may read, too; default: the secret ``community-NAME`` in the state
            folder, made at the first start.
    """

    community: SecretSource | None = None
    allowed_networks: Networks | None = None
    view: Name | None = None


class SnmpView(StrictModel):
    """A MIB view: the objects that a community has. Of several subtrees that with the longest root decides.

    Attributes:
        include: the subtrees that it has; default: all.
        exclude: the subtrees that it does not have.
    """

    include: Annotated[tuple[Subtree, ...], Field(min_length=1, max_length=256)] | None = None
    exclude: Annotated[tuple[Subtree, ...], Field(max_length=256)] = ()


class SnmpLimits(StrictModel):
    """Bounds of one answer, which may go to an address that was forged.

    Attributes:
        max_bulk_message: bytes of an answer to GETBULK, which is cut to them; by default what one frame of
            Ethernet holds.
        max_message: bytes of any answer; a request that needs more is answered tooBig.
        max_varbinds: variable bindings of an answer; a GETBULK gets so many, any other request with more is
            answered tooBig.
    """

    max_bulk_message: Annotated[int, Field(ge=SMALLEST_LIMIT, le=LARGEST_DATAGRAM)] = 1_472
    max_message: Annotated[int, Field(ge=SMALLEST_LIMIT, le=LARGEST_DATAGRAM)] = LARGEST_DATAGRAM
    max_varbinds: Annotated[int, Field(ge=16, le=10_000)] = 2_000


SecurityLevelName = Literal["noAuthNoPriv", "authNoPriv", "authPriv"]
"""A security level, as RFC 3411 section 3.4.3 names it."""


class SnmpUser(StrictModel):
    """A user of SNMP version 3, whose keys ``amqp-gateway snmp user add`` makes.

    Attributes:
        level: the lowest security level at which the user is answered.
        may_set: the user may send SET, as far as ``operations`` permits ``snmp:NAME``.
        allowed_networks: the networks from which the user is answered; default: any.
        view: the name of the view that the user has; default: everything.
    """

    level: SecurityLevelName = "authPriv"
    may_set: bool = False
    allowed_networks: Networks | None = None
    view: Name | None = None


CLIENTS: Final = (
    *("versions", "users", "weak_algorithms", "writers", "community", "allowed_networks", "view", "views"),
    "notifications",
)
"""The keys of `SnmpSettings` that a reload takes: who may ask, see and set what, and who is notified."""


class SnmpSettings(StrictModel):
    """The SNMP agent.

    Attributes:
        versions: the versions of requests that are answered; without ``v1`` and ``v2c`` no community can
            read or write.
        users: the users of version 3, by their names.
        weak_algorithms: permits users with HMAC-MD5 or DES.
        community: the community that may read, v1 and v2c; default: the secret ``community`` in the state
            folder, made at ``init``.
        allowed_networks: the networks from which that may be used; default: any.
        view: the name of the view that it has; default: everything.
        views: the views, by name.
        serve_stale_for: the time for which values of a silent agent are still shown.
        notifications: receivers of traps and informs, by name.
        notification_log: the number of the last notifications that NOTIFICATION-LOG-MIB shows; 0 for none.
        late_after: the age above which an event that a new core reports first is sent as late.
        authentication_traps: send authenticationFailure when a request has a community that is not known.
        writers: the writers, which may send SET, by the name that ``operations`` refers to as ``snmp:NAME``.
        best_effort: accept a SET of several objects, one operation after the other; otherwise it is refused,
            because operations that were carried out cannot be undone for certain.
        commands: the table by which writers call methods.
        limits: bounds of one answer.
    """

    enabled: bool = True
    versions: Annotated[tuple[Literal["v1", "v2c", "v3"], ...], Field(min_length=1)] = ("v1", "v2c", "v3")
    writers: dict[WriterName, SnmpWriter] = Field(default_factory=dict)
    users: dict[WriterName, SnmpUser] = Field(default_factory=dict)
    weak_algorithms: bool = False
    best_effort: bool = False
    commands: CommandSettings = CommandSettings.model_construct()
    limits: SnmpLimits = SnmpLimits.model_construct()
    notifications: dict[Name, NotificationTarget] = Field(default_factory=dict)
    notification_log: Annotated[int, Field(ge=0, le=10_000)] = 1_000
    late_after: Annotated[Duration, between("1s", "1h")] = 5 * SECOND
    authentication_traps: bool = True
    listen: Annotated[tuple[ListenAddress, ...], Field(min_length=1)] = (("127.0.0.1", 1161),)
    community: SecretSource | None = None
    allowed_networks: Networks | None = None
    view: Name | None = None
    views: dict[Name, SnmpView] = Field(default_factory=dict)
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

    def with_clients_of(self, other: SnmpSettings) -> SnmpSettings:
        """Return these settings with all that a reload takes of others (`CLIENTS`)."""
        return self.model_copy(update={key: getattr(other, key) for key in CLIENTS})

    def clients(self) -> dict[str, object]:
        """Return what `with_clients_of` takes, as these settings can be made of it again."""
        return self.model_dump(mode="json", include={*CLIENTS, "root"}, exclude_none=True)

    @property
    def all_writers(self) -> tuple[str, ...]:
        """The names of all that may send SET: writers by community, and users of version 3."""
        return (*self.writers, *(name for name, user in self.users.items() if user.may_set))

    @model_validator(mode="after")
    def _views_are_clear(self) -> SnmpSettings:
        problems = [*self._unknown_views(), *self._subtrees_in_both()]
        if problems:
            raise ValidationError.from_exception_data(
                "SnmpSettings",
                [
                    InitErrorDetails(
                        type=PydanticCustomError("view", _AS_IT_IS, {"text": text}), loc=place, input=None
                    )
                    for place, text in problems
                ],
            )
        return self

    def _unknown_views(self) -> Iterator[_Problem]:
        places: list[tuple[tuple[str, ...], str | None]] = [(("view",), self.view)]
        places += [(("writers", name, "view"), writer.view) for name, writer in self.writers.items()]
        places += [(("users", name, "view"), user.view) for name, user in self.users.items()]
        for place, view in places:
            if view is not None and view not in self.views:
                yield place, f"there is no view {view!r} under 'snmp.views'"

    def _subtrees_in_both(self) -> Iterator[_Problem]:
        for name, view in self.views.items():
            included = {self.object_identifier(subtree) for subtree in view.include or ()}
            for number, subtree in enumerate(view.exclude):
                if self.object_identifier(subtree) in included:
                    yield ("views", name, "exclude", number), f"{subtree} is also included: leave one out"

    def object_identifier(self, subtree: str) -> str:
        """Return the dotted object identifier of a `Subtree`."""
        return self.root + subtree.removeprefix(ROOT) if subtree.startswith(ROOT) else subtree
