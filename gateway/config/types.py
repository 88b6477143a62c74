"""The values of a configuration that need more than YAML's own types: durations, secrets, addresses."""

from __future__ import annotations

import ipaddress
import os
import re
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import BeforeValidator, SecretStr, model_validator
from pydantic_core import PydanticCustomError

from gateway.yaml_documents import StrictModel

MAX_SECRET_OCTETS = 4096

_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|min|h|d)")
_NANOSECONDS = {"ms": 10**6, "s": 10**9, "min": 60 * 10**9, "h": 3600 * 10**9, "d": 86400 * 10**9}
_MAX_PORT = 65535


class SecretError(Exception):
    """A secret cannot be read; the text says which and what to do."""


def _duration(value: Any) -> int:  # noqa: ANN401  whatever YAML gave
    match = _DURATION.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        raise ValueError("write a duration with its unit: 500ms, 10s, 5min, 2h or 1d")
    return int(float(match[1]) * _NANOSECONDS[match[2]])


Duration = Annotated[int, BeforeValidator(_duration)]
"""Nanoseconds; written ``500ms``, ``10s``, ``5min``, ``2h``, ``1d``."""


class SecretSource(StrictModel):
    """Where a secret is: ``{file: PATH}`` (relative to the configuration) or ``{env: NAME}``."""

    file: Path | None = None
    env: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _not_in_clear(cls, value: Any) -> Any:  # noqa: ANN401  whatever YAML gave
        if not isinstance(value, dict):
            raise PydanticCustomError(
                "secret_in_clear",
                "a secret does not stand in the configuration itself: write {file: PATH} or {env: NAME}",
            )
        return value

    @model_validator(mode="after")
    def _one_place(self) -> SecretSource:
        if (self.file is None) == (self.env is None):
            raise ValueError("give either 'file' or 'env'")
        return self

    def read(self, folder: Path) -> SecretStr:
        """The secret, without white space at its end.

        Args:
            folder: what a relative ``file`` is relative to.

        Raises:
            SecretError: it is not there, unreadable, empty or too long.
        """
        if self.env is not None:
            text = os.environ.get(self.env, "")
            if not text:
                raise SecretError(f"the environment variable {self.env} is not set: it should hold a secret")
            return SecretStr(text)
        assert self.file is not None
        path = folder / self.file.expanduser()
        try:
            text = path.read_text(encoding="utf-8").rstrip()
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
            raise SecretError(f"{path}: the secret cannot be read: {reason}") from error
        if not text or len(text) > MAX_SECRET_OCTETS:
            raise SecretError(
                f"{path}: a secret has 1 to {MAX_SECRET_OCTETS} characters, this has {len(text)}"
            )
        return SecretStr(text)


def _without_user_info(schemes: frozenset[str]) -> Any:  # noqa: ANN401  a pydantic validator
    def check(value: Any) -> str:  # noqa: ANN401  whatever YAML gave
        try:
            parts = urlsplit(value if isinstance(value, str) else "")
            port_fits = parts.port is None or 0 < parts.port <= _MAX_PORT
        except ValueError as error:
            raise ValueError(f"is not a URL: {error}") from error
        if parts.scheme not in schemes or not parts.hostname or not port_fits:
            raise ValueError(f"write a URL such as {min(schemes)}://HOST:PORT")
        if parts.username is not None or parts.password is not None:
            raise ValueError("leave user and password out of the URL: they have keys of their own")
        if parts.query or parts.fragment:
            raise ValueError("a URL here has no query and no fragment")
        return str(value)

    return BeforeValidator(check)


AmqpUrl = Annotated[str, _without_user_info(frozenset({"amqp", "amqps"}))]
"""``amqp://HOST[:PORT]`` or ``amqps://``; user, password and virtual host have keys of their own."""

HttpUrl = Annotated[str, _without_user_info(frozenset({"http", "https"}))]
"""``http://HOST[:PORT][/PREFIX]`` or ``https://``."""


def _host_port(value: Any) -> tuple[str, int]:  # noqa: ANN401  whatever YAML gave
    text = value if isinstance(value, str) else ""
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    try:
        ipaddress.ip_address(host)
        number = int(port)
    except ValueError:
        number = 0
    if not 0 < number <= _MAX_PORT:
        raise ValueError("write ADDRESS:PORT with a numeric address, such as 127.0.0.1:1161 or [::1]:1161")
    return host, number


ListenAddress = Annotated[tuple[str, int], BeforeValidator(_host_port)]
"""Numeric address and port."""
