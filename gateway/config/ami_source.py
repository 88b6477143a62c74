"""Sources of kind ``ami``: applications that connect to the gateway and tell it of themselves."""

from __future__ import annotations

import datetime as dt
import ipaddress
import zoneinfo
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from gateway.config.operations import SECOND
from gateway.config.types import Duration, FilePath, ListenAddress, between
from gateway.yaml_documents import StrictModel

DEFAULT_PORT = 3289
"""Where applications look for a relay unless they are told otherwise."""


def zone(name: str) -> dt.tzinfo:
    """The time zone of this name.

    Raises:
        ValueError: this machine knows none; UTC it always knows.
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
    """TLS of a listener; files in PEM.

    Attributes:
        certificate: what the gateway proves itself by, with those between it and the root.
        key: its private key.
        client_ca: authorities of clients; only who has a certificate of theirs is heard.
    """

    certificate: FilePath
    key: FilePath
    client_ca: FilePath | None = None


class SessionLogSettings(StrictModel):
    """What is kept of the sessions of applications that ask for it (option LOG).

    Attributes:
        max_size: of one file, in MiB; then it is turned over.
        files: of one application.
        applications: with files; the one that was silent longest makes room for a new one.
    """

    max_size: Annotated[int, Field(ge=1, le=1024)] = 1
    files: Annotated[int, Field(ge=1, le=10)] = 3
    applications: Annotated[int, Field(ge=1, le=1000)] = 32


class AmiLimits(StrictModel):
    """What applications may take; what is more is refused, and nothing is cut.

    Attributes:
        connections: open at a time.
        line: octets of a line with all that is joined to it.
        applications: known at a time; one that is not connected makes room for a new one, with its objects.
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
    """Applications that speak AMI: the gateway listens where they expect a relay.

    Attributes:
        listen: where.
        tls: plain TCP without it.
        anyone: hear whoever reaches ``listen`` although it is beyond this machine; AMI has no passwords.
        logins: who may log in, by the identity that an application claims; default: anyone.
        certificates: who may, by the common name in the certificate.
        own_name: an application must claim the name in its certificate.
        login_within: a connection that has not logged in by then is closed.
        idle: a connection without an octet for so long is closed; without it any silence is allowed.
        options: those that a login may ask for beside QUIET, UNIX and WINDOWS.
        pause: whether an application can have what it sends held up (P), which is meant for tests.
        user: who calls commands, as applications are told.
        package: that its types become classes of.
        reading: ``strict`` takes what the documents allow, ``lenient`` also what a relay was seen to take.
        time_zone: of dates that name none.
        session_log: of applications that ask for it.
        limits: what applications may take.
        remember: show what was known when the gateway is started again, as stale, from the event log.
    """

    kind: Literal["ami"]
    listen: ListenAddress = ("127.0.0.1", DEFAULT_PORT)
    tls: ListenerTls | None = None
    anyone: bool = False
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
        """All rows that the source may have: objects, and the applications themselves."""
        return self.limits.objects + self.limits.applications

    @property
    def same_as(self) -> None:
        """What is heard here is applications, and no broker."""
        return

    @property
    def durable(self) -> None:
        """Nobody keeps anything for the gateway's return."""
        return

    @model_validator(mode="after")
    def _knows_whom_it_hears(self) -> AmiSource:
        certified = self.tls is not None and self.tls.client_ca is not None
        if not certified and not self.anyone and not ipaddress.ip_address(self.listen[0]).is_loopback:
            raise ValueError(
                "'listen' is beyond this machine, and AMI has no passwords: name under 'tls.client_ca' who"
                " vouches for applications, or say 'anyone: true'"
            )
        if (self.certificates is not None or self.own_name) and not certified:
            raise ValueError("'certificates' and 'own_name' need 'tls.client_ca': else no name is checked")
        return self
