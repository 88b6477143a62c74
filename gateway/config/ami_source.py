"""Sources of kind ``ami``: applications connect to the gateway and report their objects."""

from __future__ import annotations

import datetime as dt
import ipaddress
import zoneinfo
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from gateway.config.types import SECOND, Duration, FilePath, ListenAddress, between
from gateway.yaml_documents import StrictModel

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
        certificate: of the gateway, followed by the intermediate ones up to the root.
        key: its private key.
        client_ca: authorities of clients; a client without a certificate of theirs is rejected.
    """

    certificate: FilePath
    key: FilePath
    client_ca: FilePath | None = None


class SessionLogSettings(StrictModel):
    """Files with the sessions of applications that request it (option LOG).

    Attributes:
        max_size: of one file, in MiB; then the next one is begun.
        files: of one application.
        applications: that have files; a new one replaces the one that was silent longest.
    """

    max_size: Annotated[int, Field(ge=1, le=1024)] = 1
    files: Annotated[int, Field(ge=1, le=10)] = 3
    applications: Annotated[int, Field(ge=1, le=1000)] = 32


class AmiLimits(StrictModel):
    """Limits of applications. What exceeds them is refused; nothing is truncated.

    Attributes:
        connections: open at a time.
        line: bytes of a line with its continuation lines.
        applications: known at a time; a new one replaces one that is not connected, with its objects.
        types: of objects.
        keys: of a type, of all alerts, and of all applications' metrics.
        objects: of all applications, alerts among them.
        objects_each: of one application.
        commands: of one connection.
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
        options: those that a login may ask for beside QUIET, UNIX and WINDOWS.
        pause: an application may delay its own lines (P), which is meant for tests.
        user: the name that applications receive as the caller of a command.
        package: of the classes that types become.
        reading: ``strict`` accepts what the documents allow, ``lenient`` what relays accept, too.
        time_zone: of dates without one.
        session_log: of applications that request it.
        limits: of applications.
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
    options: tuple[Literal["LOG", "TTY"], ...] = ("LOG", "TTY")
    pause: bool = False
    user: Annotated[str, Field(min_length=1, max_length=200)] = "amqp-gateway"
    package: PackageName = "ami"
    reading: Literal["strict", "lenient"] = "lenient"
    time_zone: TimeZone = "UTC"
    session_log: SessionLogSettings = SessionLogSettings()
    limits: AmiLimits = AmiLimits()
    remember: bool = True

    @property
    def max_objects(self) -> int:
        """The largest number of rows of the source: objects, and the applications themselves."""
        return self.limits.objects + self.limits.applications

    @property
    def same_as(self) -> None:
        """The source reads applications, and no broker."""
        return

    @property
    def durable(self) -> None:
        """Applications keep no messages while the gateway is away."""
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
