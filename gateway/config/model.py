"""The shape of ``gateway.yaml``, ``version: 1``."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from gateway.config.operations import ClassPattern, OperationSettings
from gateway.config.types import (
    AmqpName,
    AmqpUrl,
    Duration,
    FilePath,
    HttpUrl,
    ListenAddress,
    ObjectIdentifier,
    SecretSource,
    between,
)
from gateway.mapping.rules import SeverityName
from gateway.model.events import Severity
from gateway.yaml_documents import StrictModel

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$")]


SECOND = 10**9


def _own_queue(text: str) -> str:
    if not text.startswith("amqp-gateway."):
        raise ValueError("must begin with 'amqp-gateway.': the gateway has rights on such queues only")
    return text


OwnQueueName = Annotated[AmqpName, AfterValidator(_own_queue)]


class AmqpSettings(StrictModel):
    """How to reach a virtual host of a broker by AMQP 0-9-1."""

    url: AmqpUrl
    vhost: AmqpName = "amqp-gateway"
    user: AmqpName
    password: SecretSource
    ca_file: FilePath | None = None


class EventSettings(StrictModel):
    """How to hear a RabbitMQ's ``amq.rabbitmq.event``; user and password default to the source's."""

    url: AmqpUrl
    vhost: AmqpName = "/"


class DurableSettings(StrictModel):
    """A durable subscription: a queue on the broker that is kept for this gateway's return.

    Attributes:
        queue: its name; default: ``amqp-gateway.console.NAME``, of events ``amqp-gateway.events.NAME``, with
            the name of the source.
        expires: the broker deletes it when it has had no consumer for so long.
        max_length: messages; the broker drops the oldest beyond it.
    """

    queue: OwnQueueName | None = None
    expires: Annotated[Duration, between("10s", "30d")] = 3600 * SECOND
    max_length: Annotated[int, Field(ge=1000, le=10_000_000)] = 100_000


class WritingSettings(StrictModel):
    """The account that changes a RabbitMQ, apart from the one that reads it; it needs the tag administrator.

    Attributes:
        lockout: virtual hosts whose ``maxConnections``, and users whose, may be set to 0, which locks out
            everybody: also the gateway's agent.
    """

    user: AmqpName
    password: SecretSource
    lockout: tuple[AmqpName, ...] = ()


class RabbitMqSettings(StrictModel):
    """How our agent reads a RabbitMQ.

    Attributes:
        interval: between two readings of a class, where its cost allows.
        budget: share of the time that requests may take; a broker with many queues is read less often.
        show_own: show the gateway's own queues and connections too.
        own_users: further users whose connections are the gateway's own, such as another agent's.
        writing: who changes the broker; without it every method and setting is refused.
    """

    management: HttpUrl
    user: AmqpName
    password: SecretSource
    ca_file: FilePath | None = None
    events: EventSettings | None = None
    interval: Duration = 5 * SECOND
    budget: Annotated[float, Field(gt=0, le=0.5)] = 0.04
    show_own: bool = False
    own_users: tuple[str, ...] = ()
    writing: WritingSettings | None = None


class RabbitMqSource(RabbitMqSettings):
    """A RabbitMQ read by the agent inside the gateway; nothing needs to be installed on the broker.

    Attributes:
        durable: keep the broker's events while the gateway is away; needs ``events``.
    """

    kind: Literal["rabbitmq"]
    durable: DurableSettings | None = None
    max_objects: Annotated[int, Field(ge=1, le=10_000_000)] = 200_000

    @model_validator(mode="after")
    def _has_events(self) -> RabbitMqSource:
        if self.durable is not None and self.events is None:
            raise ValueError("'durable' keeps the broker's events: say under 'events' where they are")
        return self


class QmfSource(StrictModel):
    """QMF agents on a broker's management exchange.

    Attributes:
        believe: users, as the broker checked them, whose messages are taken for an agent's.
        believe_anyone: take messages without a checked user too, as a Qpid broker's own are.
        durable: keep what agents say while the gateway is away.
    """

    kind: Literal["qmf"]
    amqp: AmqpSettings
    believe: tuple[str, ...] = ()
    believe_anyone: bool = False
    exchange: AmqpName = "qpid.management"
    direct_exchange: AmqpName = "amq.direct"
    packages: tuple[str, ...] | None = None
    heartbeat: Duration = 10 * SECOND
    request_deadline: Duration = 30 * SECOND
    max_queue_length: Annotated[int, Field(ge=100, le=1_000_000)] = 20_000
    durable: DurableSettings | None = None
    max_objects: Annotated[int, Field(ge=1, le=10_000_000)] = 200_000

    @model_validator(mode="after")
    def _somebody(self) -> QmfSource:
        if not self.believe and not self.believe_anyone:
            raise ValueError("name under 'believe' the users whose messages are an agent's")
        return self


Source = Annotated[RabbitMqSource | QmfSource, Field(discriminator="kind")]


class AgentPublishing(StrictModel):
    """Where an agent process speaks QMF: the virtual host of its management exchange.

    Attributes:
        obey: users, as the broker checked them, whose requests are answered.
    """

    amqp: AmqpSettings
    exchange: AmqpName = "qpid.management"
    direct_exchange: AmqpName = "amq.direct"
    obey: Annotated[tuple[str, ...], Field(min_length=1)]
    interval: Duration = 10 * SECOND


class RabbitMqAgent(RabbitMqSettings):
    """A RabbitMQ's agent as a process of its own (``amqp-gateway agent NAME``)."""

    kind: Literal["rabbitmq"]
    publish: AgentPublishing


class NotificationTarget(StrictModel):
    """Where events are sent to as SNMP notifications.

    Attributes:
        address: numeric address and port of the receiver.
        kind: ``trap`` is sent once; ``inform`` is sent again until it is answered.
        version: of SNMP; version 1 has no informs.
        community: sent with each; default: that of reading.
        severity: events below it are not sent; a clearing event goes where the raising one went.
        events: patterns of ``package:event``, such as ``rabbitmq:alarm*``; which ones are sent.
        rate: notifications a second; traps beyond it are counted, and one summary tells how many, informs
            wait.
    """

    address: ListenAddress
    kind: Literal["trap", "inform"] = "trap"
    version: Literal["v1", "v2c"] = "v2c"
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
        return self


WriterName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,31}$")]
"""Of at most 32 characters, as user names of SNMP are (RFC 3414 section 5): it stands in indexes."""


class CommandSettings(StrictModel):
    """The table of commands, by which writers call methods.

    Attributes:
        quota: rows that each writer can have.
        keep: how long a command that has ended keeps its row.
        shown_to_all: whether everybody who can read sees the commands of all writers, and not each writer
            only the own ones.
    """

    quota: Annotated[int, Field(ge=1, le=1000)] = 32
    keep: Annotated[Duration, between("10s", "7d")] = 3600 * SECOND
    shown_to_all: bool = False


class SnmpWriter(StrictModel):
    """Somebody who may send SET, if ``operations`` allows them what they ask for.

    Attributes:
        community: which reads, too; default: the secret ``community-NAME`` in the state folder, made at the
            first start.
    """

    community: SecretSource | None = None


class SnmpSettings(StrictModel):
    """The SNMP agent.

    Attributes:
        community: of reading, v1 and v2c; default: the secret ``community`` in the state folder, made at
            ``init``.
        serve_stale_for: how long values of an agent that fell silent are still shown.
        notifications: receivers of traps and informs, by a name of yours.
        authentication_traps: send authenticationFailure when a request has a community that is not known.
        writers: who may send SET, by the name that ``operations`` allows something to as ``snmp:NAME``.
        best_effort: take a SET of several objects, one operation after the other; otherwise it is refused,
            because what was done of it cannot be undone for certain.
        commands: the table by which they call methods.
    """

    enabled: bool = True
    writers: dict[WriterName, SnmpWriter] = Field(default_factory=dict)
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


class JmxUser(StrictModel):
    """Somebody who may read by JMX; ``password`` defaults to the secret ``jmx-NAME`` in the state folder."""

    password: SecretSource | None = None


class JmxSettings(StrictModel):
    """The JMX agent: a Java virtual machine of the gateway's own, with one RMI port.

    Attributes:
        enabled: needs a Java runtime of version 11 or newer.
        listen: address and port of registry and objects alike.
        hostname: what clients are told to connect to, where it is not the address.
        java: the runtime's folder (JAVA_HOME); default: the environment's, else ``java`` on the PATH.
        heap: largest heap of the virtual machine, in MiB; 100,000 objects take about 300.
        users: who may log in; the passwords are made at the first start where none is given.
        serve_stale_for: how long values of an agent that fell silent are still shown.
        buckets: splits the objects of a class (``package:class``) into so many groups of names, for trees of
            clients that show 100,000 siblings badly.
        notification_buffer: notifications that the virtual machine keeps for clients that fetch them late.
    """

    enabled: bool = False
    listen: ListenAddress = ("127.0.0.1", 9990)
    hostname: Annotated[str, Field(max_length=255)] = ""
    java: FilePath | None = None
    heap: Annotated[int, Field(ge=32, le=65_536)] = 512
    users: Annotated[dict[Name, JmxUser], Field(min_length=1)] = Field(
        default_factory=lambda: {"monitor": JmxUser()}
    )
    serve_stale_for: Duration = 300 * SECOND
    buckets: dict[str, Annotated[int, Field(ge=2, le=4096)]] = Field(default_factory=dict)
    notification_buffer: Annotated[int, Field(ge=1000, le=1_000_000)] = 100_000


class MetricsSettings(StrictModel):
    """Metrics of the gateway itself, for Prometheus.

    Attributes:
        enabled: off, because the endpoint asks nobody for a password: every user of this machine can read it.
    """

    enabled: bool = False
    listen: ListenAddress = ("127.0.0.1", 9464)


class LogSettings(StrictModel):
    """The event log.

    Attributes:
        enabled: without it nothing of the past is kept.
        folder: where it lies; default: ``log`` in the state folder.
        commit_interval: records wait for so long at most before they are written and synced together.
        segment_duration: a segment is closed at this age, and each new one begins with all live objects.
        segment_size: or at this size, in MiB.
        statistics_interval: statistics of one object are recorded so often at most; what begins, ends or
            happens is recorded always. Below 100 ms each change is.
        statistics_intervals: the same for some classes, by patterns of ``package:class`` as of a shell; the
            first that fits counts. Which classes there are is known only when an agent tells them.
        max_size: of all files together, in MiB; the oldest are deleted beyond it.
        max_age: files whose records are all older are deleted.
        min_free: nothing is written while the disk has less than this, in MiB.
        max_waiting: records that wait in memory while the disk is slow or full; when half of them do, values
            are recorded less often; beyond it what is lost is counted.
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


class StateSettings(StrictModel):
    """Where identities, boots and secrets are kept; the folder must outlive the gateway."""

    folder: FilePath | None = None


class FeedSettings(StrictModel):
    """The Unix socket between core and norths."""

    socket: FilePath | None = None
    max_waiting_records: Annotated[int, Field(ge=1000, le=10_000_000)] = 100_000


class Configuration(StrictModel):
    """A whole ``gateway.yaml``.

    Attributes:
        site: a label of this gateway, part of the names of provisional MIB modules.
    """

    version: Literal[1]
    site: Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9]{0,15}$")] = "Site"
    sources: dict[Name, Source] = Field(default_factory=dict)
    agents: dict[Name, RabbitMqAgent] = Field(default_factory=dict)
    snmp: SnmpSettings = SnmpSettings()
    jmx: JmxSettings = JmxSettings()
    operations: OperationSettings = OperationSettings()
    log: LogSettings = LogSettings()
    metrics: MetricsSettings = MetricsSettings()
    state: StateSettings = StateSettings()
    feed: FeedSettings = FeedSettings()

    @model_validator(mode="after")
    def _writers_exist(self) -> Configuration:
        known = {f"snmp:{name}" for name in self.snmp.writers} | {f"jmx:{name}" for name in self.jmx.users}
        for rule in self.operations.allow:
            for who in rule.who:
                if who not in known and not who.startswith("cli:"):
                    raise ValueError(
                        f"operations.allow: {who!r} is nobody: name a writer under snmp.writers, or a user "
                        "under jmx.users"
                    )
        return self

    @model_validator(mode="after")
    def _log_for_durable(self) -> Configuration:
        for name, source in self.sources.items():
            if source.durable is not None and not self.log.enabled:
                raise ValueError(
                    f"sources.{name}.durable acknowledges what the event log has on the disk: switch the log"
                    " on, or leave 'durable' out"
                )
        return self
