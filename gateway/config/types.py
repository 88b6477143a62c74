"""The values of a configuration that need more than YAML's own types: secrets, paths, addresses."""

from __future__ import annotations

import ipaddress
import os
import re
from pathlib import Path
from typing import Annotated, Any, Final
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, model_validator
from pydantic_core import PydanticCustomError

from gateway.yaml_documents import StrictModel

MAX_SECRET_OCTETS = 4096
_MAX_NAME_OCTETS = 255

_MAX_PORT = 65535
_MAX_ARC, _MAX_SECOND_ARC = 2**32 - 1, 39
_LISTEN = re.compile(r"(?:([0-9.]+)|\[([0-9A-Fa-f:.]+(?:%[^\]]+)?)\]):([0-9]{1,5})")


Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$")]
"""A name that the configuration gives to a source, an agent, a receiver or a user."""


class SecretError(Exception):
    """A secret cannot be read; the text says which and what to do."""


def _name(text: str) -> str:
    if len(text.encode()) > _MAX_NAME_OCTETS:
        raise ValueError(f"has more than {_MAX_NAME_OCTETS} bytes, which AMQP 0-9-1 has no room for")
    return text


AmqpName = Annotated[str, AfterValidator(_name)]
"""The name of a virtual host, exchange or user: a short string (AMQP 0-9-1 section 4.2.5.3)."""


def _path(value: Any) -> Path:  # noqa: ANN401  whatever YAML gave
    if not isinstance(value, str | Path) or not str(value) or not str(value).isprintable():
        raise ValueError("write the path of a file or folder")
    try:
        return Path(value).expanduser()
    except RuntimeError as error:
        raise ValueError("begins with ~ and a user that this machine does not know") from error


FilePath = Annotated[Path, BeforeValidator(_path)]
"""A path. A relative one is relative to the configuration's folder; ``~`` is expanded."""


CREDENTIALS: Final = "CREDENTIALS_DIRECTORY"
"""The variable by which systemd gives a service the folder of its credentials (systemd.exec(5))."""

CredentialName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,254}$")]
"""The name of a credential of systemd, which is the name of a file."""


class SecretSource(StrictModel):
    """The place of a secret.

    Attributes:
        file: a file, relative to the configuration.
        env: a variable of the environment.
        credential: a credential that systemd gives the service.
    """

    file: FilePath | None = None
    env: str | None = None
    credential: CredentialName | None = None

    @model_validator(mode="before")
    @classmethod
    def _not_in_clear(cls, value: Any) -> Any:  # noqa: ANN401  whatever YAML gave
        if not isinstance(value, dict) or not value.keys() <= {"file", "env", "credential"}:
            raise PydanticCustomError(
                "secret_in_clear",
                "a secret does not stand in the configuration itself: write {file: PATH}, {env: NAME} or"
                " {credential: NAME}",
            )
        return value

    @model_validator(mode="after")
    def _one_place(self) -> SecretSource:
        if [self.file, self.env, self.credential].count(None) != 2:  # noqa: PLR2004  of three
            raise ValueError("give one of 'file', 'env' and 'credential'")
        return self

    def read(self, folder: Path) -> SecretStr:
        """Return the secret; that of a file or credential without white space at its end.

        Args:
            folder: the folder to which a relative ``file`` is relative.

        Raises:
            SecretError: it is not there, unreadable, empty or too long.
        """
        if self.env is not None:
            text = os.environ.get(self.env, "")
            if not text:
                raise SecretError(f"the environment variable {self.env} is not set: it should hold a secret")
            return SecretStr(text)
        if self.credential is not None:
            return _read_secret(_credential_path(self.credential))
        assert self.file is not None
        return _read_secret(folder / self.file)


def _credential_path(name: str) -> Path:
    folder = os.environ.get(CREDENTIALS, "")
    if not folder:
        raise SecretError(
            f"the credential {name} is not there, because ${CREDENTIALS} is not set: systemd sets it for a"
            f" service with LoadCredential={name}, as `amqp-gateway systemd` writes it; beside the service"
            " name its folder in this variable"
        )
    return Path(folder) / name


def _read_secret(path: Path) -> SecretStr:
    try:
        with path.open("rb") as file:
            text = file.read(MAX_SECRET_OCTETS + 1).decode("utf-8")
    except OSError as error:
        raise SecretError(f"{path}: the secret cannot be read: {error.strerror}") from error
    except UnicodeDecodeError:
        # The error would contain the bytes.
        raise SecretError(f"{path}: the secret cannot be read: not UTF-8 text") from None
    size = len(text.encode())
    text = text.rstrip()
    if not text or size > MAX_SECRET_OCTETS:
        found = "more" if text else "none"
        raise SecretError(f"{path}: a secret has 1 to {MAX_SECRET_OCTETS} bytes, this has {found}")
    return SecretStr(text)


def _url(schemes: frozenset[str], path: str) -> Any:  # noqa: ANN401  a pydantic validator
    """Return a validator of URLs of ``schemes``.

    ``path`` is the error message for a URL with a path; if it is empty, a path is accepted. No error message
    repeats any part of the URL.
    """

    def check(value: Any) -> str:  # noqa: ANN401  whatever YAML gave
        text = value if isinstance(value, str) else ""
        if "@" in text:  # before it is taken apart: a password with a slash ends up anywhere
            raise ValueError("leave user and password out of the URL: they have keys of their own")
        try:
            parts = urlsplit(text)
            fits = parts.scheme in schemes and parts.hostname and parts.port != 0
        except ValueError:
            fits = False
        if not fits or not text.isprintable() or " " in text:
            raise ValueError(f"write a URL such as {min(schemes)}://HOST:PORT")
        if parts.query or parts.fragment:
            raise ValueError("a URL here has no query and no fragment")
        if path and parts.path not in {"", "/"}:
            raise ValueError(path)
        return text

    return BeforeValidator(check)


AmqpUrl = Annotated[
    str, _url(frozenset({"amqp", "amqps"}), "leave the virtual host out of the URL: it has the key 'vhost'")
]
"""``amqp://HOST[:PORT]`` or ``amqps://``; user, password and virtual host have keys of their own."""

HttpUrl = Annotated[str, _url(frozenset({"http", "https"}), "")]
"""``http://HOST[:PORT][/PREFIX]`` or ``https://``."""

_MAX_NODES = 16


def _listed(value: Any) -> Any:  # noqa: ANN401  whatever YAML gave
    return (value,) if isinstance(value, str) else value


def _distinct(urls: tuple[str, ...]) -> tuple[str, ...]:
    if len(set(urls)) < len(urls):
        raise ValueError("names a node twice")
    return urls


AmqpUrls = Annotated[
    tuple[AmqpUrl, ...],
    BeforeValidator(_listed),
    Field(min_length=1, max_length=_MAX_NODES),
    AfterValidator(_distinct),
]
"""One `AmqpUrl`, or a list of them: the nodes of one cluster."""

HttpUrls = Annotated[
    tuple[HttpUrl, ...],
    BeforeValidator(_listed),
    Field(min_length=1, max_length=_MAX_NODES),
    AfterValidator(_distinct),
]
"""One `HttpUrl`, or a list of them: the nodes of one cluster."""


def _host_port(value: Any) -> tuple[str, int]:  # noqa: ANN401  whatever YAML gave
    match = _LISTEN.fullmatch(value) if isinstance(value, str) else None
    try:
        if match is not None and 0 < int(match[3]) <= _MAX_PORT:
            version_4, version_6, port = match.groups()
            address = ipaddress.IPv4Address(version_4) if version_4 else ipaddress.IPv6Address(version_6)
            return str(address), int(port)
    except ValueError:
        pass
    raise ValueError("write ADDRESS:PORT with a numeric address, such as 127.0.0.1:1161 or [::1]:1161")


ListenAddress = Annotated[tuple[str, int], BeforeValidator(_host_port)]
"""A numeric address and a port."""


def _network(value: Any) -> Any:  # noqa: ANN401  whatever YAML gave
    if not isinstance(value, str):
        raise ValueError(_NO_NETWORK)  # noqa: TRY004  an error of the value, for the author of the file
    try:
        network = ipaddress.ip_network(value, strict=False)
    except ValueError:
        raise ValueError(_NO_NETWORK) from None
    if str(network.network_address) != str(ipaddress.ip_address(value.partition("/")[0])):
        raise ValueError(f"is an address within {network}: write that network, or the address alone")
    return network


_NO_NETWORK: Final = "write a network such as 192.0.2.0/24 or 2001:db8::/32, or one address"

Network = Annotated[ipaddress.IPv4Network | ipaddress.IPv6Network, BeforeValidator(_network)]
"""A network of IPv4 or IPv6; an address alone is a network of one."""

Networks = Annotated[tuple[Network, ...], Field(min_length=1, max_length=256)]
"""Networks, of which one must have an address."""


def _is_dotted(text: str) -> bool:
    arcs = text.split(".")
    return (
        re.fullmatch(r"[0-2](\.(0|[1-9][0-9]{0,9})){1,40}", text) is not None
        and int(max(arcs, key=int)) <= _MAX_ARC
        and (arcs[0] == "2" or int(arcs[1]) <= _MAX_SECOND_ARC)
    )


def _object_identifier(value: Any) -> str:  # noqa: ANN401  whatever YAML gave
    if not isinstance(value, str) or not _is_dotted(value):
        raise ValueError("write an object identifier in dotted form, such as 1.3.6.1.4.1.8072.9999.9999")
    return value


ObjectIdentifier = Annotated[str, BeforeValidator(_object_identifier)]
"""A dotted object identifier: at most 41 arcs below 2^32, with room for arcs below (RFC 2578 section 3.5)."""


def _subtree(value: Any) -> str:  # noqa: ANN401  whatever YAML gave
    text = value if isinstance(value, str) else ""
    # What follows on the root may be one arc.
    dotted = f"1.3{text.removeprefix(ROOT)}" if text.startswith(ROOT) else text
    if not _is_dotted(dotted):
        raise ValueError(
            "write an object identifier such as root.2.1 or 1.3.6.1.2.1, in quotes if it has two numbers"
        )
    return text


ROOT: Final = "root"
"""What stands for the root of the gateway's own objects in a `Subtree`."""

Subtree = Annotated[str, BeforeValidator(_subtree)]
"""A dotted object identifier, or ``root`` and what follows on it, for a subtree of object identifiers."""


_REACHED_AT: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104  what listens on all addresses


def reached_at(host: str) -> str:
    """Return the address by which this machine reaches a listener on ``host``."""
    return _REACHED_AT.get(host, host)
