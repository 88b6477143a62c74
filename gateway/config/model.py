"""The shape of ``gateway.yaml``, ``version: 1``."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, ClassVar, Final, Literal, LiteralString

from pydantic import AfterValidator, Field, ValidationError, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError

from gateway.config.policy import READER, SCRAPER, OperationRule, PolicySettings, at_place
from gateway.config.snmp import SnmpSettings
from gateway.config.sources import AmiSource, ListenerTls, MetricsConnections, RabbitMqAgent, Source
from gateway.config.types import (
    AdvertisedAddress,
    FilePath,
    ListenAddress,
    Name,
    SecretSource,
)
from gateway.feed.latest import HistoryLimits
from gateway.model.times import DAY, SECOND
from gateway.policy.rules import ANYONE, CONSOLE, OTHERS, PUBLISHER, PolicyError, RoleSet
from gateway.prometheus.families import DEFAULT_CLASSES
from gateway.yaml_documents import ClassPattern, Duration, Pattern, StrictModel, between


class OperationSettings(StrictModel):
    """Operations: changes and fresh reads that users request. Each needs a rule that permits it.

    Attributes:
        allow: the rules.
        deadline: an operation that is not answered by then has an unknown outcome.
        max_running: the number of operations of one source that may be under way; as many again may wait, and
            further ones are refused.
    """

    allow: tuple[OperationRule, ...] = ()
    deadline: Annotated[Duration, between("1s", "5min")] = 10 * SECOND
    max_running: Annotated[int, Field(ge=1, le=1000)] = 64


def _subject(text: str) -> str:
    if not text.isprintable() or "=" not in text:
        raise ValueError("write the subject of the user's certificate, such as CN=monitor,O=Example")
    return text


SubjectName = Annotated[str, Field(min_length=1, max_length=1000), AfterValidator(_subject)]
"""A distinguished name (RFC 4514); `gateway.jmx.certificate_users` reads it where it is needed."""


class JmxUser(StrictModel):
    """A user who may read by JMX, and logs in by a password, or by a client certificate.

    Attributes:
        password: default: the secret ``jmx-NAME`` in the state folder.
        subject: the subject of the user's certificate, as a whole, in the place of a password.
    """

    password: SecretSource | None = None
    subject: SubjectName | None = None

    @model_validator(mode="after")
    def _logs_in_one_way(self) -> JmxUser:
        if self.password is not None and self.subject is not None:
            raise ValueError(
                "a user has a certificate or a password: leave 'subject' or 'password' out, or make two users"
            )
        return self


class JmxSettings(StrictModel):
    """The JMX agent: a Java virtual machine of the gateway's own, with one RMI port.

    Attributes:
        enabled: needs a Java runtime of version 11 or newer.
        listen: address and port of registry and objects alike.
        tls: plain text without it, which only this machine may use.
        allow_plain_text: passwords and values may be sent in plain text beyond this machine.
        hostname: the host that clients connect to, if it is not the address, and the port, if it is not that
            of ``listen``, as where a port is forwarded.
        java: the runtime's folder (JAVA_HOME); default: the environment's, else ``java`` on the PATH.
        heap: largest heap of the virtual machine, in MiB; 100,000 objects take about 300.
        users: the users who may log in; a password that is not given is made at the first start.
        serve_stale_for: the time for which values of a silent agent are still shown.
        buckets: splits the objects of a class (``package:class``) into so many groups of names, for trees of
            clients that show 100,000 siblings badly.
        notification_buffer: notifications that the virtual machine keeps for clients that fetch them late.
        late_after: the age above which an event that a new core reports first is sent as late.
    """

    enabled: bool = False
    listen: ListenAddress = ("127.0.0.1", 9990)
    tls: ListenerTls | None = None
    allow_plain_text: bool = False
    hostname: AdvertisedAddress = ("", 0)
    java: FilePath | None = None
    heap: Annotated[int, Field(ge=32, le=65_536)] = 512
    users: Annotated[dict[Name, JmxUser], Field(min_length=1)] = Field(
        default_factory=lambda: {"monitor": JmxUser.model_construct()}
    )
    serve_stale_for: Duration = 300 * SECOND
    buckets: dict[str, Annotated[int, Field(ge=2, le=4096)]] = Field(default_factory=dict)
    notification_buffer: Annotated[int, Field(ge=1000, le=1_000_000)] = 100_000
    late_after: Annotated[Duration, between("1s", "1h")] = 5 * SECOND

    @model_validator(mode="after")
    def _is_protected(self) -> JmxSettings:
        is_open = self.enabled and self.tls is None and not self.allow_plain_text
        if is_open and not ipaddress.ip_address(self.listen[0]).is_loopback:
            raise ValueError(
                "'listen' is beyond this machine, where passwords and values could be read by others: write"
                " 'tls: {certificate: PATH, key: PATH}', or 'allow_plain_text: true' where the network is"
                " protected otherwise"
            )
        return self

    @model_validator(mode="after")
    def _verifies_certificates(self) -> JmxSettings:
        if self.tls is None or self.tls.client_ca is None:
            for name, user in self.users.items():
                if user.subject is not None:
                    raise ValueError(
                        f"users.{name}.subject needs 'tls.client_ca', the authority of clients' certificates:"
                        " else none is verified"
                    )
        return self


class ObjectMetricsSettings(StrictModel):
    """The metrics of objects, for Prometheus, at ``/metrics/objects``.

    Attributes:
        classes: patterns of the elements that are shown, by patterns of ``package:class``, of which the first
            match counts; all are as of a shell.
        max_series: the largest number of series; further objects are left out, and counted.
    """

    classes: Annotated[
        dict[ClassPattern, Annotated[tuple[Pattern, ...], Field(min_length=1, max_length=1000)]],
        Field(min_length=1, max_length=1000),
    ] = Field(default_factory=lambda: dict(DEFAULT_CLASSES))
    max_series: Annotated[int, Field(ge=1, le=300_000)] = 100_000


class MetricsSettings(StrictModel):
    """Metrics for Prometheus: of the gateway itself, and of objects where these are configured.

    Attributes:
        enabled: off, because the endpoint has no password: every user of this machine can read it.
        tls: plain HTTP without it; with ``client_ca`` only clients with a certificate can read.
        objects: off, because they contain the names of objects; ``{}`` shows the default ones.
        connections: the maximum number of connections.
    """

    enabled: bool = False
    listen: ListenAddress = ("127.0.0.1", 9464)
    tls: ListenerTls | None = None
    objects: ObjectMetricsSettings | None = None
    connections: MetricsConnections = 64

    @model_validator(mode="after")
    def _served(self) -> MetricsSettings:
        if self.objects is not None and not self.enabled:
            raise ValueError("objects are served by the endpoint that 'enabled: true' switches on")
        return self


class CertificateSettings(StrictModel):
    """The alarm of certificates that expire.

    Attributes:
        warn_before: the time before the end of a certificate from which on there is an alarm; it is graver
            from 7 days on, and gravest when the certificate has expired.
    """

    warn_before: Annotated[Duration, between("1d", "366d")] = 30 * DAY


class LogSettings(StrictModel):
    """The event log.

    Attributes:
        enabled: without it no history is kept.
        folder: the folder of the log; default: ``log`` in the state folder.
        commit_interval: the longest time for which records wait before they are written and synced together.
        segment_duration: a segment is closed at this age, and each new one begins with all live objects.
        segment_size: or at this size, in MiB.
        statistics_interval: the shortest time between two records of one object's statistics; beginnings,
            ends and events are always recorded. Below 100 ms each change is recorded.
        statistics_intervals: the same for some classes, by patterns of ``package:class`` as of a shell; the
            first match counts. The classes are known only once agents have reported them.
        max_size: of all files together, in MiB; the oldest are deleted beyond it.
        max_age: files whose records are all older are deleted.
        min_free: nothing is written while the disk has less than this, in MiB.
        max_waiting: records that wait in memory while the disk is slow or full; when half of them do, values
            are recorded less often; beyond it records are lost, and counted.
        compact: make Parquet of complete segments.
    """

    enabled: bool = True
    folder: FilePath | None = None
    commit_interval: Annotated[Duration, between("1ms", "10s")] = 50 * 10**6
    segment_duration: Annotated[Duration, between("1s", "1h")] = 600 * SECOND
    segment_size: Annotated[int, Field(ge=1, le=4096)] = 64
    statistics_interval: Annotated[Duration, between("1ms", "1d")] = 60 * SECOND
    statistics_intervals: Annotated[
        dict[ClassPattern, Annotated[Duration, between("1ms", "1d")]], Field(max_length=1000)
    ] = Field(default_factory=dict)
    max_size: Annotated[int, Field(ge=16, le=2**40)] = 4096
    max_age: Annotated[Duration, between("1h", "366d")] = 30 * 86_400 * SECOND
    min_free: Annotated[int, Field(ge=0, le=2**40)] = 256
    max_waiting: Annotated[int, Field(ge=1000, le=10_000_000)] = 200_000
    compact: bool = True


class HeadSettings(StrictModel):
    """The signed heads of the audit.

    Attributes:
        interval: the time between two heads, if there are audited records meanwhile; the gateway also signs
            one when it ends.
        file: heads are appended to this file, too: where the gateway's machine cannot change it later.
    """

    interval: Annotated[Duration, between("10s", "7d")] = 3600 * SECOND
    file: FilePath | None = None


class AuditSettings(StrictModel):
    """The audit: records of the event log that are chained by hash."""

    heads: HeadSettings = HeadSettings.model_construct()


class HistorySettings(StrictModel):
    """The history that each front end receives when it connects, and shows in tables, for each source.

    The gateway itself counts as one source.

    Attributes:
        events: the number of the last events.
        ends: the number of the last ends of objects.
        operations: the number of the last operations that have ended.
        memory: the largest memory, in MiB, of a source's events; likewise of its ends, and of its operations.
    """

    events: Annotated[int, Field(ge=10, le=1_000_000)] = 2_000
    ends: Annotated[int, Field(ge=10, le=1_000_000)] = 1_000
    operations: Annotated[int, Field(ge=10, le=1_000_000)] = 1_000
    memory: Annotated[int, Field(ge=1, le=4096)] = 8

    @property
    def limits(self) -> HistoryLimits:
        """These settings as `HistoryLimits`, with the memory in bytes."""
        return HistoryLimits(self.events, self.ends, self.operations, self.memory << 20)


class StateSettings(StrictModel):
    """The state folder, which holds identities, boots and secrets; it must outlive the gateway."""

    folder: FilePath | None = None


class FeedSettings(StrictModel):
    """The Unix socket between the core and the front ends."""

    socket: FilePath | None = None
    max_waiting_records: Annotated[int, Field(ge=1000, le=10_000_000)] = 100_000


class CaptureSettings(StrictModel):
    """The traffic of a source's session, in files of the state folder.

    Attributes:
        max_size: the size of all files of one source together, in MiB; the oldest is deleted when there is no
            more room.
    """

    max_size: Annotated[int, Field(ge=4, le=16_384)] = 256


_AS_IT_IS: Final[LiteralString] = "{text}"


_EVERY: Final = frozenset({"0.0.0.0", "::"})  # noqa: S104  compared, not listened on
_ALL: Final = "*"
"""All addresses of both families, where Java listens: `jmx.listen` with either ``0.0.0.0`` or ``::``."""


def _overlap(one: tuple[str, int], other: tuple[str, int]) -> bool:
    """Return whether two listeners want the same port; ``0.0.0.0`` and ``::`` are all of a family."""
    hosts = {one[0], other[0]}
    every = any(host in _EVERY for host in hosts)
    family = {":" in host for host in hosts}
    return one[1] == other[1] and (_ALL in hosts or len(hosts) == 1 or (every and len(family) == 1))


def _check(problems: Iterable[tuple[tuple[str | int, ...], str]]) -> None:
    """Raise the error of a validator for problems, each with the keys that lead to its place."""
    wrong = [
        InitErrorDetails(
            type=PydanticCustomError("configuration", _AS_IT_IS, {"text": text}), loc=place, input=None
        )
        for place, text in problems
    ]
    if wrong:
        raise ValidationError.from_exception_data("Configuration", wrong)


def _no_other_broker(name: str, same_as: str | None, sources: Mapping[str, Source]) -> str:
    """Return why ``same_as`` of a source is wrong, or an empty text."""
    if same_as is None:
        return ""
    other = sources.get(same_as)
    if other is None:
        return f"there is no source {same_as!r} under 'sources'"
    if same_as == name:
        return "names the source itself: name another one that reads the same broker, or leave it out"
    if other.kind == "ami":
        return f"{same_as!r} is no broker: it reads applications"
    if other.same_as is not None:
        return f"{same_as!r} is itself 'same_as' another source: name the same one everywhere"
    return ""


def _unproved(name: str, sources: Iterable[Source]) -> str:
    """Return why no peer can have the name of a principal of AMI, or an empty text."""
    applications = [source for source in sources if isinstance(source, AmiSource)]
    if not applications:
        return "is a peer of AMI, and no source is of kind ami"
    if name == OTHERS:
        return "stands for all other peers: write ami:*"
    if name in {"*", ANYONE} or any(one.tls is not None and one.tls.client_ca for one in applications):
        return ""
    return "is proved by no certificate: write 'tls.client_ca' at a source of kind ami, or ami:(anyone)"


class Configuration(StrictModel):
    """A whole ``gateway.yaml``.

    Attributes:
        captures: sources that are captured while the gateway runs, by name.
        site: a label of this gateway, part of the names of provisional MIB modules.
        mappings: files of the operator, for packages that no shipped mapping describes.
        overrides: files of the operator with changes of the mappings; later ones count over earlier ones.
    """

    renamed_keys: ClassVar = {
        "believe": "trusted_users",
        "believe_anyone": "trust_anyone",
        "obey": "allowed_users",
        "anyone": "allow_anyone",
        "lockout": "allow_lockout",
    }

    version: Literal[1]
    site: Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9]{0,15}$")] = "Site"
    mappings: Annotated[tuple[FilePath, ...], Field(max_length=100)] = ()
    overrides: Annotated[tuple[FilePath, ...], Field(max_length=100)] = ()
    sources: dict[Name, Source] = Field(default_factory=dict)
    agents: dict[Name, RabbitMqAgent] = Field(default_factory=dict)
    snmp: SnmpSettings = SnmpSettings.model_construct()
    jmx: JmxSettings = JmxSettings.model_construct()
    operations: OperationSettings = OperationSettings.model_construct()
    policy: PolicySettings = PolicySettings.model_construct()
    log: LogSettings = LogSettings.model_construct()
    audit: AuditSettings = AuditSettings.model_construct()
    history: HistorySettings = HistorySettings.model_construct()
    metrics: MetricsSettings = MetricsSettings.model_construct()
    certificates: CertificateSettings = CertificateSettings.model_construct()
    state: StateSettings = StateSettings.model_construct()
    feed: FeedSettings = FeedSettings.model_construct()
    captures: dict[Name, CaptureSettings] = Field(default_factory=dict)

    @property
    def listeners(self) -> list[tuple[tuple[str | int, ...], str, tuple[str, int]]]:
        """The addresses that are listened on: the keys of each, ``udp`` or ``tcp``, address and port."""
        found: list[tuple[tuple[str | int, ...], str, tuple[str, int]]] = []
        if self.snmp.enabled:
            found += [(("snmp", "listen", n), "udp", each) for n, each in enumerate(self.snmp.listen)]
        for key, section in (("jmx", self.jmx), ("metrics", self.metrics)):
            if section.enabled:
                found.append(((key, "listen"), "tcp", section.listen))
        for name, source in self.sources.items():
            if isinstance(source, AmiSource):
                found.append((("sources", name, "listen"), "tcp", source.listen))
        for name, agent in self.agents.items():
            if agent.metrics is not None:
                found.append((("agents", name, "metrics", "listen"), "tcp", agent.metrics.listen))
        return found

    def _shared_ports(self) -> Iterator[tuple[tuple[str | int, ...], str]]:
        """Yield the keys of each listener whose port an earlier one has, and what is wrong."""
        listeners = [
            (place, protocol, (_ALL if place[0] == "jmx" and host in _EVERY else host, port))
            for place, protocol, (host, port) in self.listeners
        ]
        for number, (place, protocol, address) in enumerate(listeners):
            for earlier, same, taken in listeners[:number]:
                if protocol == same and _overlap(address, taken):
                    key = ".".join(map(str, earlier))
                    yield place, f"has the port of {key}, at the same address: take another"
                    break

    @model_validator(mode="after")
    def _one_listens_at_an_address(self) -> Configuration:
        _check(self._shared_ports())
        return self

    @model_validator(mode="after")
    def _captured_exist(self) -> Configuration:
        _check(
            (("captures", name), "names no source of 'sources'")
            for name in self.captures
            if name not in self.sources
        )
        return self

    @model_validator(mode="after")
    def _same_as_names_a_broker(self) -> Configuration:
        _check(
            (("sources", name, "same_as"), problem)
            for name, source in self.sources.items()
            if (problem := _no_other_broker(name, source.same_as, self.sources))
        )
        return self

    @model_validator(mode="after")
    def _writers_exist(self) -> Configuration:
        known = {f"snmp:{name}" for name in self.snmp.all_writers} | {
            f"jmx:{name}" for name in self.jmx.users
        }
        there_are = (
            "a writer under snmp.writers, a user under snmp.users with may_set, or a user under jmx.users"
        )
        _check(
            (("operations", "allow", number, "who", position), f"{who!r} is not known: name {there_are}")
            for number, rule in enumerate(self.operations.allow)
            for position, who in enumerate(rule.who)
            if who not in known and not who.startswith("cli:")
        )
        return self

    @model_validator(mode="after")
    def _principals_exist(self) -> Configuration:
        if self.policy.files:
            return self  # the policy is checked when all of it was read
        try:
            self.check_policy()
        except PolicyError as error:
            if self.policy.principals or self.policy.roles:
                raise at_place(error, "policy") from None
            text = str(error).removeprefix("operations.allow: ")
            raise at_place(PolicyError(text), "operations", "allow") from None
        return self

    @property
    def known_principals(self) -> dict[str, tuple[str, ...]]:
        """The principals that each front end knows, by front end.

        Those of a front end that is not among them, such as ``cli``, are known when they prove themselves.
        """
        snmp = self.snmp
        return {
            "snmp": (READER, *(f"snmp:{name}" for name in (*snmp.writers, *snmp.users))),
            "notify": tuple(f"notify:{name}" for name in snmp.notifications),
            "jmx": tuple(f"jmx:{name}" for name in self.jmx.users),
            "metrics": (SCRAPER,),
            CONSOLE: tuple(
                f"{CONSOLE}:{user}" for agent in self.agents.values() for user in agent.publish.allowed_users
            ),
        }

    @property
    def principals(self) -> tuple[str, ...]:
        """All principals that can be, in the order of front ends, and the keys of the policy."""
        known = [principal for principals in self.known_principals.values() for principal in principals]
        if self.metrics.objects is None:
            known.remove(SCRAPER)
        return tuple(dict.fromkeys((*known, *self.policy.principals, *self.role_set.grants)))

    def check_policy(self) -> None:
        """Check that the principals of the policy and their roles exist, and the bounds of the policy.

        Raises:
            PolicyError: they do not; its place is below ``policy``.
        """
        known = self.known_principals
        for principal in self.policy.principals:
            front_end, _, name = principal.partition(":")
            if name != "*" and principal not in known.get(front_end, (principal,)):
                raise PolicyError(
                    f"{principal!r} is not known: name {READER}, a writer under snmp.writers, a user under "
                    "snmp.users, a receiver under snmp.notifications as notify:NAME, a user under "
                    f"jmx.users, {SCRAPER}, or a user under allowed_users of an agent as {CONSOLE}:NAME",
                    "principals",
                    principal,
                )
            if front_end == PUBLISHER and (problem := _unproved(name, self.sources.values())):
                raise PolicyError(problem, "principals", principal)
        try:
            self.role_set.check()
        except PolicyError as error:
            raise PolicyError(f"operations.allow: {error}", *error.place) from None

    @property
    def role_set(self) -> RoleSet:
        """The roles of principals, with the rules of ``operations.allow``."""
        return self.policy.role_set(self.operations.allow)

    @model_validator(mode="after")
    def _log_for_durable(self) -> Configuration:
        _check(
            (
                ("sources", name, "durable"),
                "acknowledges what the event log has on the disk: switch the log on, or leave 'durable' out",
            )
            for name, source in self.sources.items()
            if source.durable is not None and not self.log.enabled
        )
        return self
