"""The settings of sources and agents in ``gateway.yaml``: the brokers, and the access to each."""

from __future__ import annotations

import datetime as dt
import ipaddress
import zoneinfo
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from gateway.config.logins import HttpLoginSettings, LoginSettings, ProxySettings
from gateway.config.protection import ProtectedSettings
from gateway.config.types import (
    AmqpName,
    AmqpUrls,
    DeclaredName,
    FilePath,
    HttpUrls,
    ListenAddress,
    Name,
)
from gateway.links.tls import ClientTls, ServerTls
from gateway.model.observations import STALE_AFTER
from gateway.model.times import SECOND
from gateway.yaml_documents import Duration, StrictModel, between

StaleAfter = Annotated[Duration, between("10s", "1d")]
"""The least time without a confirmation after which values are stale."""


class ClientTlsSettings(StrictModel):
    """The files of TLS of connections that the gateway opens, in PEM.

    Attributes:
        ca_file: certificates that are trusted; default: the system's.
        client_certificate: the certificate that the gateway presents, followed by the intermediate ones.
        client_key: its private key, without a passphrase.
    """

    ca_file: FilePath | None = None
    client_certificate: FilePath | None = None
    client_key: FilePath | None = None

    @model_validator(mode="after")
    def _has_both(self) -> Self:
        if (self.client_certificate is None) is not (self.client_key is None):
            raise ValueError("'client_certificate' and 'client_key' are needed together, or neither")
        return self

    def client_tls(self, folder: Path) -> ClientTls:
        """Return the files; ``folder`` is the one to which paths are relative."""
        files = (self.ca_file, self.client_certificate, self.client_key)
        ca_file, certificate, key = (None if file is None else folder / file for file in files)
        return ClientTls(ca_file, certificate, key)


class AmqpSettings(ClientTlsSettings, LoginSettings):
    """The access to a virtual host of a broker by AMQP 0-9-1.

    Attributes:
        url: the URL of one node, or of several nodes of the cluster.
        heartbeat: the requested heartbeat interval; whole seconds.
    """

    url: AmqpUrls
    vhost: AmqpName = "amqp-gateway"
    heartbeat: Annotated[Duration, between("1s", "60s")] = 10 * SECOND


def _own_queue(text: str) -> str:
    if not text.startswith("amqp-gateway."):
        raise ValueError("must begin with 'amqp-gateway.': the gateway has rights on such queues only")
    return text


OwnQueueName = Annotated[DeclaredName, AfterValidator(_own_queue)]


class EventSettings(StrictModel):
    """The access to the events of a RabbitMQ in ``amq.rabbitmq.event``, with the source's user and password.

    Attributes:
        url: the URL of one node, or of several nodes of the cluster.
        max_length: the largest number of events that wait, unless `durable` keeps them; beyond it the broker
            drops the oldest.
    """

    url: AmqpUrls
    vhost: AmqpName = "/"
    max_length: Annotated[int, Field(ge=10_000, le=1_000_000)] = 100_000


class DurableSettings(StrictModel):
    """A durable subscription: a queue that the broker keeps while the gateway is away.

    Attributes:
        queue: the name of the queue; default: ``amqp-gateway.console.NAME``, of events
            ``amqp-gateway.events.NAME``, with the name of the source.
        expires: the time without a consumer after which the broker deletes the queue.
        max_length: the largest number of messages; beyond it the broker drops the oldest.
    """

    queue: OwnQueueName | None = None
    expires: Annotated[Duration, between("10s", "30d")] = 3600 * SECOND
    max_length: Annotated[int, Field(ge=1000, le=10_000_000)] = 100_000


class WritingSettings(HttpLoginSettings):
    """The account that changes a RabbitMQ, apart from the one that reads it; it needs the tag administrator.

    Attributes:
        allow_lockout: virtual hosts and users whose ``maxConnections`` may be set to 0, which locks out all
            clients, the gateway's agent included.
    """

    allow_lockout: tuple[AmqpName, ...] = ()


class RabbitMqSettings(ClientTlsSettings, HttpLoginSettings):
    """The settings by which the gateway's agent reads a RabbitMQ.

    Attributes:
        management: the URL of the management API, of one node or of several nodes of the cluster.
        proxy: the proxy for all requests over HTTP; the environment's proxies are not used.
        interval: the time between two readings of a class, where its cost allows.
        budget: the share of time that requests may take; a broker with many queues is read less often.
        longest_interval: the longest time between two readings to which `budget` may lengthen `interval`.
        stale_after: values that were not read for so long, and for three planned intervals, are stale.
        show_own: show the gateway's own queues and connections too.
        own_users: further users whose connections belong to the gateway, such as another agent's.
        prometheus: the place where statistics of queues are read as metrics: the address that the broker
            reports for its plugin ``rabbitmq_prometheus`` (``auto``), none (``off``), or the URLs of all
            nodes.
        prometheus_login: the user who reads these metrics, since RabbitMQ 4.3 can demand one; ``source`` for
            the source's own; default: none.
        writing: the account that changes the broker; without it methods and settings are refused.
    """

    management: HttpUrls
    proxy: ProxySettings | None = None
    events: EventSettings | None = None
    interval: Duration = 5 * SECOND
    budget: Annotated[float, Field(gt=0, le=0.5)] = 0.035
    longest_interval: Annotated[Duration, between("1min", "1d")] = 900 * SECOND
    stale_after: StaleAfter = STALE_AFTER
    show_own: bool = False
    own_users: tuple[str, ...] = ()
    prometheus: Literal["auto", "off"] | HttpUrls = "auto"
    prometheus_login: Literal["source"] | HttpLoginSettings | None = None
    writing: WritingSettings | None = None


class RabbitMqSource(RabbitMqSettings):
    """A RabbitMQ that the gateway reads itself; the broker needs no agent.

    Attributes:
        durable: keep the broker's events while the gateway is away; needs ``events``.
        same_as: the name of another source that reads the same broker; a report counts that broker once.
    """

    kind: Literal["rabbitmq"]
    same_as: Name | None = None
    durable: DurableSettings | None = None
    max_objects: Annotated[int, Field(ge=1, le=10_000_000)] = 200_000

    @model_validator(mode="after")
    def _has_events(self) -> RabbitMqSource:
        if self.durable is not None and self.events is None:
            raise ValueError("'durable' keeps the broker's events: give their address under 'events'")
        return self


class QmfSource(StrictModel):
    """QMF agents on a broker's management exchange.

    Attributes:
        trusted_users: users, as checked by the broker, whose messages count as an agent's.
        trust_anyone: also accept messages without a checked user, such as those of a Qpid broker itself.
        heartbeats: ``expected``: the broker's agent must send one each interval. ``none``: it is re-read
            after two silent intervals. ``auto``: as ``none`` until it has sent one.
        stale_after: an agent's objects that no message confirmed for so long, and for three intervals, are
            stale.
        durable: keep the agents' messages while the gateway is away.
        same_as: the name of another source that reads the same broker; a report counts that broker once.
        protected: all bodies are signed and encrypted; plain ones are refused. Default: they are plain.
    """

    kind: Literal["qmf"]
    same_as: Name | None = None
    protected: ProtectedSettings | None = None
    amqp: AmqpSettings
    trusted_users: tuple[str, ...] = ()
    trust_anyone: bool = False
    exchange: DeclaredName = "qpid.management"
    direct_exchange: DeclaredName = "amq.direct"
    packages: tuple[str, ...] | None = None
    heartbeats: Literal["auto", "expected", "none"] = "auto"
    heartbeat: Duration = 10 * SECOND
    stale_after: StaleAfter = STALE_AFTER
    request_deadline: Duration = 30 * SECOND
    max_queue_length: Annotated[int, Field(ge=100, le=1_000_000)] = 20_000
    durable: DurableSettings | None = None
    max_objects: Annotated[int, Field(ge=1, le=10_000_000)] = 200_000

    @model_validator(mode="after")
    def _has_trusted_users(self) -> QmfSource:
        if not self.trusted_users and not self.trust_anyone:
            raise ValueError("name under 'trusted_users' the users whose messages are an agent's")
        return self


class Am01Source(StrictModel):
    """One QMF agent of AM01 or AM1.

    Attributes:
        trusted_users: users, as checked by the broker, whose messages count as the agent's.
        trust_anyone: also accept messages without a checked user, such as those of a Qpid broker itself.
        revision: the revision of the protocol; ``auto`` detects it.
        package: the package of classes that are reported without one, until January 2008.
        packages: the packages to read, of agents that report packages.
        get_and_set: the agent has get and set in the form that docs/qmf-before-am2.md gives them.
        events: the agent sends events in the form given there.
        interval: the time between two publications of the agent. After one silent interval it is asked for a
            sign of life, after three it is lost.
        republish_interval: the interval at which the agent publishes everything again without being asked;
            default: only when a queue is bound.
        stale_after: objects that no message confirmed for so long, and for three intervals, are stale.
        same_as: the name of another source that reads the same broker; a report counts that broker once.
        protected: all bodies are signed and encrypted; plain ones are refused. Default: they are plain.
    """

    kind: Literal["am01"]
    same_as: Name | None = None
    protected: ProtectedSettings | None = None
    amqp: AmqpSettings
    trusted_users: tuple[str, ...] = ()
    trust_anyone: bool = False
    exchange: DeclaredName = "qpid.management"
    direct_exchange: DeclaredName = "amq.direct"
    revision: Literal["auto", "design-notes", "2007-11", "2008-01", "2008-02", "2008-03"] = "auto"
    package: Annotated[str, Field(pattern=r"^[^.\s]{1,255}$")] = "qpid"
    packages: tuple[str, ...] | None = None
    get_and_set: bool = False
    events: bool = False
    interval: Annotated[Duration, between("1s", "1h")] = 10 * SECOND
    republish_interval: Annotated[Duration, between("1s", "1d")] | None = None
    stale_after: StaleAfter = STALE_AFTER
    request_deadline: Annotated[Duration, between("1s", "1h")] = 10 * SECOND
    max_queue_length: Annotated[int, Field(ge=100, le=1_000_000)] = 20_000
    max_objects: Annotated[int, Field(ge=1, le=10_000_000)] = 200_000

    @property
    def durable(self) -> None:
        """Always ``None``: messages of these agents cannot be read without schemas, which are not kept."""
        return

    @model_validator(mode="after")
    def _has_trusted_users(self) -> Am01Source:
        if not self.trusted_users and not self.trust_anyone:
            raise ValueError("name under 'trusted_users' the users whose messages are an agent's")
        return self


ClassName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]{1,128}$")]
"""The name of a class of CML."""


def _word(value: Any) -> Any:  # noqa: ANN401  whatever YAML gave
    """Return ``no`` or ``yes`` for a boolean, as which YAML reads these words."""
    return ("no", "yes")[value] if isinstance(value, bool) else value


Interval = Annotated[Duration, between("1s", "1d")]


class CmlAmqpSettings(AmqpSettings):
    """The access to a broker by AMQP 0-9-1, with the defaults of OpenAMQ.

    Attributes:
        heartbeat: OpenAMQ offers 2 s and enforces what was agreed.
    """

    vhost: AmqpName = "/"
    heartbeat: Annotated[Duration, between("1s", "60s")] = 2 * SECOND


class CmlBudget(StrictModel):
    """Limits of what polling may cost the broker.

    Attributes:
        rate: the number of requests a second.
        in_flight: the number of requests without an answer at a time.
        share: the share of time that the broker may spend on them.
    """

    rate: Annotated[float, Field(ge=0.1, le=10_000)] = 100.0
    in_flight: Annotated[int, Field(ge=1, le=1_000)] = 8
    share: Annotated[float, Field(gt=0, le=1)] = 0.25


class CmlSource(StrictModel):
    """A broker that is managed by CML.

    Attributes:
        system_exchange: requests are published to it, with `routing_key`.
        reply_exchange: replies are routed by it to the gateway's queue, by the queue's name.
        notify_exchange: notifications are published to it; without it none are received.
        notify_key: the binding key for notifications.
        trusted_users: users, as checked by the broker, whose messages are accepted; default: all, because
            OpenAMQ's replies carry no user.
        spelling: the spelling of requests; replies are read in both.
        matching: the way in which replies are matched with requests.
        interval: the time between two readings of an object, for classes that `intervals` does not name.
        longest_interval: the longest planned interval to which `budget` may lengthen those.
        stale_after: objects that were not read for so long, and for three planned intervals, are stale.
        short_lived: when objects are read that may end at any time.
        assured: facts about the broker, without which some methods and settings are refused.
        schema_file: a schema-reply as `amqp-gateway source schema` writes it; default: the broker's last one,
            kept in the state folder. If the broker reports another one, that replaces it.
        same_as: the name of another source that reads the same broker; a report counts that broker once.
        protected: all bodies are signed and encrypted; plain ones are refused. Default: they are plain.
    """

    kind: Literal["cml"]
    same_as: Name | None = None
    protected: ProtectedSettings | None = None
    amqp: CmlAmqpSettings
    system_exchange: DeclaredName = "amq.system"
    routing_key: AmqpName = "amq.console"
    reply_exchange: DeclaredName = "amq.direct"
    notify_exchange: DeclaredName | None = "amq.notify"
    notify_key: AmqpName = "#"
    trusted_users: Annotated[tuple[AmqpName, ...], Field(min_length=1)] | None = None
    spelling: Literal["openamq", "specification"] = "openamq"
    matching: Literal["find-out", "message-id", "one-at-a-time"] = "find-out"
    interval: Interval = 30 * SECOND
    intervals: dict[ClassName, Interval] = Field(default_factory=dict)
    budget: CmlBudget = CmlBudget.model_construct()
    longest_interval: Annotated[Duration, between("1min", "1d")] = 900 * SECOND
    stale_after: StaleAfter = STALE_AFTER
    short_lived: Annotated[Literal["no", "second-listing", "yes"], BeforeValidator(_word)] = "no"
    assured: tuple[Literal["config-file", "empty-values", "heartbeats"], ...] = ()
    schema_file: FilePath | None = None
    request_deadline: Annotated[Duration, between("1s", "5min")] = 10 * SECOND
    max_queue_length: Annotated[int, Field(ge=100, le=1_000_000)] = 20_000
    max_objects: Annotated[int, Field(ge=1, le=10_000_000)] = 100_000

    @property
    def durable(self) -> None:
        """Always ``None``: no broker of CML keeps messages while the gateway is away."""
        return


DEFAULT_PORT = 3289
"""The port at which applications expect a relay by default."""


def zone(name: str) -> dt.tzinfo:
    """Return the time zone of this name.

    Raises:
        ValueError: this machine has no such zone. UTC is always known.
    """
    if name == "UTC":
        return dt.UTC
    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ValueError(
            "write the name of a time zone, such as UTC or Europe/Zurich; others than UTC are known where the"
            " system's package tzdata is"
        ) from error


def _time_zone(name: str) -> str:
    zone(name)
    return name


TimeZone = Annotated[str, Field(max_length=64), AfterValidator(_time_zone)]
"""A name of the IANA's time zone database."""

LoginName = Annotated[str, Field(min_length=1, max_length=200)]
PackageName = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_.-]{0,63}$")]


class ListenerTls(StrictModel):
    """TLS of a listener, with files in PEM.

    Attributes:
        certificate: the certificate of the gateway, followed by the intermediate ones up to the root.
        key: its private key.
        client_ca: authorities of clients; a client without a certificate of theirs is rejected.
    """

    certificate: FilePath
    key: FilePath
    client_ca: FilePath | None = None

    def files(self, folder: Path) -> ServerTls:
        """Return the files; ``folder`` is the one to which paths are relative."""
        client_ca = None if self.client_ca is None else folder / self.client_ca
        return ServerTls(folder / self.certificate, folder / self.key, client_ca)


class SessionLogSettings(StrictModel):
    """Files with the sessions of applications that request it (option LOG).

    Attributes:
        max_size: the size of one file, in MiB, at which the next one is begun.
        files: the number of files of one application.
        applications: the number of applications that have files; a new one replaces the one that was silent
            longest.
    """

    max_size: Annotated[int, Field(ge=1, le=1024)] = 1
    files: Annotated[int, Field(ge=1, le=10)] = 3
    applications: Annotated[int, Field(ge=1, le=1000)] = 32


class AmiLimits(StrictModel):
    """Limits of applications. Anything beyond them is refused; nothing is truncated.

    Attributes:
        connections: the number of connections that are open at a time.
        line: the number of bytes of a line with its continuation lines.
        applications: the number of known applications; a new one replaces one that is not connected, with its
            objects.
        types: the number of types of objects.
        keys: the number of keys of a type, of all alerts, and of all applications' metrics.
        objects: the number of objects of all applications, alerts among them.
        objects_each: the number of objects of one application.
        commands: the number of commands of one connection.
    """

    connections: Annotated[int, Field(ge=1, le=10_000)] = 64
    line: Annotated[int, Field(ge=256, le=16 << 20)] = 1 << 16
    applications: Annotated[int, Field(ge=1, le=100_000)] = 256
    types: Annotated[int, Field(ge=1, le=10_000)] = 256
    keys: Annotated[int, Field(ge=1, le=1000)] = 256
    objects: Annotated[int, Field(ge=1, le=10_000_000)] = 100_000
    objects_each: Annotated[int, Field(ge=1, le=10_000_000)] = 50_000
    commands: Annotated[int, Field(ge=1, le=10_000)] = 200


class AmiSource(StrictModel):
    """Applications that speak AMI; the gateway listens where they expect a relay.

    Attributes:
        listen: address and port.
        tls: plain TCP without it.
        allow_anyone: accept every client that reaches an address beyond this machine. AMI has no passwords.
        logins: identities that applications may claim; default: any.
        certificates: common names that certificates may have; default: any.
        own_name: an application must claim the name in its certificate.
        login_within: a connection that has not logged in by then is closed.
        idle: a connection that sends nothing for so long is closed; default: never.
        stale_after: objects of an application are stale when something that it sent may have waited so long.
        options: those that a login may ask for beside QUIET, UNIX and WINDOWS.
        pause: an application may delay its own lines (P), which is meant for tests.
        user: the name that applications receive as the caller of a command.
        package: the package of the classes that are made of types.
        reading: ``strict`` accepts what the documents allow, ``lenient`` what relays accept, too.
        time_zone: the time zone of dates without one.
        session_log: the files with the sessions of applications that request it.
        limits: the limits of applications.
        remember: after a restart show the objects of the event log, as stale.
    """

    kind: Literal["ami"]
    listen: ListenAddress = ("127.0.0.1", DEFAULT_PORT)
    tls: ListenerTls | None = None
    allow_anyone: bool = False
    logins: Annotated[tuple[LoginName, ...], Field(min_length=1, max_length=10_000)] | None = None
    certificates: Annotated[tuple[LoginName, ...], Field(min_length=1, max_length=10_000)] | None = None
    own_name: bool = False
    login_within: Annotated[Duration, between("1s", "1h")] = 60 * SECOND
    idle: Annotated[Duration, between("1s", "30d")] | None = None
    stale_after: StaleAfter = STALE_AFTER
    options: tuple[Literal["LOG", "TTY"], ...] = ("LOG", "TTY")
    pause: bool = False
    user: Annotated[str, Field(min_length=1, max_length=200)] = "amqp-gateway"
    package: PackageName = "ami"
    reading: Literal["strict", "lenient"] = "lenient"
    time_zone: TimeZone = "UTC"
    session_log: SessionLogSettings = SessionLogSettings.model_construct()
    limits: AmiLimits = AmiLimits.model_construct()
    remember: bool = True

    @property
    def max_objects(self) -> int:
        """The largest number of rows of the source: objects, and the applications themselves."""
        return self.limits.objects + self.limits.applications

    @property
    def same_as(self) -> None:
        """Always ``None``: the source reads applications, and no broker."""
        return

    @property
    def durable(self) -> None:
        """Always ``None``: applications keep no messages while the gateway is away."""
        return

    @model_validator(mode="after")
    def _listener_is_protected(self) -> AmiSource:
        certified = self.tls is not None and self.tls.client_ca is not None
        if not certified and not self.allow_anyone and not ipaddress.ip_address(self.listen[0]).is_loopback:
            raise ValueError(
                "'listen' is beyond this machine, and AMI has no passwords: name the authority of the"
                " applications' certificates under 'tls.client_ca', or write 'allow_anyone: true'"
            )
        if (self.certificates is not None or self.own_name) and not certified:
            raise ValueError("'certificates' and 'own_name' need 'tls.client_ca': else no name is checked")
        return self


Source = Annotated[
    RabbitMqSource | QmfSource | Am01Source | CmlSource | AmiSource, Field(discriminator="kind")
]


class AgentPublishing(StrictModel):
    """The virtual host of the management exchange on which an agent process publishes by QMF.

    Attributes:
        allowed_users: users, as checked by the broker, whose requests are answered.
        protected: all bodies are signed and encrypted; plain ones are refused. Default: they are plain.
    """

    amqp: AmqpSettings
    exchange: DeclaredName = "qpid.management"
    direct_exchange: DeclaredName = "amq.direct"
    allowed_users: Annotated[tuple[str, ...], Field(min_length=1)]
    interval: Duration = 10 * SECOND
    protected: ProtectedSettings | None = None


MetricsConnections = Annotated[int, Field(ge=2, le=1000)]
"""The maximum number of connections to an endpoint of metrics."""


class AgentMetrics(StrictModel):
    """The metrics of an agent's process, for Prometheus.

    Attributes:
        listen: address and port.
        tls: plain HTTP without it; with ``client_ca`` only clients with a certificate can read.
        connections: the maximum number of connections.
    """

    listen: ListenAddress
    tls: ListenerTls | None = None
    connections: MetricsConnections = 64


class RabbitMqAgent(RabbitMqSettings):
    """A RabbitMQ's agent as a process of its own (``amqp-gateway agent NAME``).

    Attributes:
        metrics: where the metrics of its process are served; default: nowhere, because they have no password.
    """

    kind: Literal["rabbitmq"]
    publish: AgentPublishing
    metrics: AgentMetrics | None = None
