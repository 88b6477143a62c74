"""The values of a configuration that need more than YAML's own types: secrets, paths, addresses."""

from __future__ import annotations

import ipaddress
import re
from pathlib import Path
from typing import Annotated, Any, Final
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, SecretStr, model_validator
from pydantic_core import PydanticCustomError

from gateway.config.secret_places import PlaceKind, credential_path, read_secret, secret_text
from gateway.yaml_documents import StrictModel

_MAX_NAME_OCTETS = 255
_MAX_DECLARED = 127
_DECLARED = re.compile(r"[A-Za-z0-9-_.:@#,/+ ]*")

_MAX_PORT = 65535
_MAX_ARC, _MAX_SECOND_ARC = 2**32 - 1, 39
_LISTEN = re.compile(r"(?:([0-9.]+)|\[([0-9A-Fa-f:.]+(?:%[^\]]+)?)\]):([0-9]{1,5})")


Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$")]
"""A name that the configuration gives to a source, an agent, a receiver or a user."""


def _name(text: str) -> str:
    if len(text.encode()) > _MAX_NAME_OCTETS:
        raise ValueError(f"has more than {_MAX_NAME_OCTETS} bytes, which AMQP 0-9-1 has no room for")
    return text


AmqpName = Annotated[str, AfterValidator(_name)]
"""The name of a virtual host or user, or a routing key: a short string (AMQP 0-9-1 section 4.2.5.3)."""


def without_colon(name: str) -> str:
    """Return the name of a user who logs in over HTTP by a password.

    Raises:
        ValueError: it has a colon.
    """
    if ":" in name:
        raise ValueError(
            "a name with a colon cannot log in to the management API: over HTTP the colon separates name and"
            " password (RFC 7617): take a user without one"
        )
    return name


HttpUser = Annotated[AmqpName, AfterValidator(without_colon)]
"""The name of a user who logs in over HTTP by a password, too."""


def _declared(text: str) -> str:
    if len(text) > _MAX_DECLARED or not _DECLARED.fullmatch(text):
        raise ValueError(
            f"must have letters, digits, spaces and -_.:@#,/+ only, {_MAX_DECLARED} at most: the client"
            " library of AMQP takes no other names of exchanges and queues"
        )
    return text


DeclaredName = Annotated[AmqpName, AfterValidator(_declared)]
"""The name of an exchange or queue that the gateway declares, binds or publishes to."""


def _path(value: Any) -> Path:  # noqa: ANN401  whatever YAML gave
    if not isinstance(value, str | Path) or not str(value) or not str(value).isprintable():
        raise ValueError("write the path of a file or folder")
    try:
        return Path(value).expanduser()
    except RuntimeError as error:
        raise ValueError("begins with ~ and a user that this machine does not know") from error


FilePath = Annotated[Path, BeforeValidator(_path)]
"""A path. A relative one is relative to the configuration's folder; ``~`` is expanded."""


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

    @property
    def place(self) -> str:
        """The place, for people."""
        if self.file is not None:
            return str(self.file)
        return f"${self.env}" if self.env is not None else f"credential {self.credential}"

    def found_at(self, folder: Path) -> tuple[PlaceKind, str]:
        """Return the place, as `gateway.config.secret_places.read_secret` takes it.

        Args:
            folder: the folder to which a relative ``file`` is relative.
        """
        if self.file is not None:
            return "file", str(folder / self.file)
        return ("env", self.env) if self.env is not None else ("credential", self.credential or "")

    def read(self, folder: Path) -> SecretStr:
        """Return the secret; that of a file or credential without white space at its end.

        Args:
            folder: as of `found_at`.

        Raises:
            SecretError: it is not there, unreadable, empty or too long, or in a file or folder that is not
                trusted.
        """
        return SecretStr(read_secret(*self.found_at(folder)))

    def remark(self, folder: Path) -> str:
        """Return what is probably not meant so in the file of a secret that can be read; empty for nothing.

        Args:
            folder: as of `found_at`.
        """
        if self.env is not None:
            return ""
        path = credential_path(self.credential) if self.credential else folder / (self.file or "")
        found = remark_about(secret_text(path))
        return f"{path}: {found}" if found else ""


def remark_about(text: str) -> str:
    """Return what is probably not meant so in the text of a secret's file; empty for nothing."""
    secret = text.rstrip()
    if text.startswith(_BYTE_ORDER_MARK):
        return (
            "begins with a byte order mark, which counts as part of the secret: save it as UTF-8 without one"
        )
    if secret != secret.lstrip():
        return "begins with white space, which counts as part of the secret: take it away if it is not"
    if text[len(secret) :].strip("\r\n"):
        return "ends with white space, which does not count as part of the secret: end the file after it"
    if len(secret.splitlines()) > 1:
        return "has several lines, which all count as the secret: leave one"
    return ""


_BYTE_ORDER_MARK: Final = "\ufeff"


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
        if "?" in text or "#" in text:
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


def _written(address: tuple[str, int]) -> str:
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


_LABEL: Final = "[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
_LAST_LABEL: Final = rf"(?!(?:[0-9]+|0[xX][0-9A-Fa-f]*)\.?:){_LABEL}\.?"  # a number would be an address
_NAMED: Final = re.compile(rf"(?P<name>(?:{_LABEL}\.)*{_LAST_LABEL}):(?P<port>[0-9]{{1,5}})")
_MAX_NAMED: Final = 255  # what SNMP has room for (RFC 3419)


def _receiver(value: Any) -> tuple[str, int]:  # noqa: ANN401  whatever YAML gave
    found = _NAMED.fullmatch(value) if isinstance(value, str) and len(value) <= _MAX_NAMED else None
    if found is not None and 0 < int(found["port"]) <= _MAX_PORT:
        return found["name"], int(found["port"])
    try:
        return _host_port(value)
    except ValueError:
        raise ValueError(
            "write HOST:PORT with an address or a DNS name, such as 192.0.2.10:162, [2001:db8::7]:162 or"
            " nms.example.org:162"
        ) from None


ReceiverAddress = Annotated[
    tuple[str, int], BeforeValidator(_receiver), PlainSerializer(_written, when_used="json")
]
"""The address or DNS name of a receiver of notifications, and its port; JSON has it as in the configuration.

A name has the labels of RFC 1123, and underscores, which resolvers accept; a dot at its end is permitted.
"""


_ADVERTISED: Final = re.compile(
    r"(?:\[(?P<v6>[0-9A-Fa-f:.]+)\]|(?P<host>[^\s:/\[\]]{1,255}))(?::(?P<port>[0-9]{1,5}))?|(?P<bare>[0-9A-Fa-f:.]*)"
)


def _advertised(value: Any) -> Any:  # noqa: ANN401  whatever YAML gave
    found = _ADVERTISED.fullmatch(value) if isinstance(value, str) else None
    port = int(found["port"] or 0) if found is not None else 0
    if found is None or port > _MAX_PORT or (found["port"] is not None and port == 0):
        raise ValueError("write HOST or HOST:PORT, such as gw.example.org:19990 or [2001:db8::1]:19990")
    return found["v6"] or found["host"] or found["bare"], port


AdvertisedAddress = Annotated[tuple[str, int], BeforeValidator(_advertised)]
"""A host name or address that others connect to, empty for none, and a port, 0 for none."""


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
