"""The composition as values, and the work of its containers, done without containers."""

from __future__ import annotations

from typing import Any

import yaml

from tests.docker.dockerfile import FOLDER

SETTINGS, STATE, SECRETS = "/etc/amqp-gateway", "/var/lib/amqp-gateway", "/run/secrets"


def composition() -> dict[str, Any]:
    """``compose.yaml``, its merged keys in place."""
    loaded: dict[str, Any] = yaml.safe_load((FOLDER / "compose.yaml").read_text(encoding="utf-8"))
    return loaded


def setup_script() -> str:
    """Return the work of the service ``setup``, a script for ``sh -euc``."""
    service = composition()["services"]["setup"]
    assert service["entrypoint"] == ["sh", "-euc"]
    (script,) = service["command"]
    return str(script)


def settings() -> str:
    """The gateway's configuration."""
    return (FOLDER / "gateway.yaml").read_text(encoding="utf-8")
