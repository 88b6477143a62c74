"""The places of the configuration, the state folder and the sockets; no model of it is needed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from gateway.state_folder import FEED_PLACE, FEED_SOCKET

ENVIRONMENT_VARIABLE = "AMQP_GATEWAY_CONFIG"
PLACES = (Path("gateway.yaml"), Path("/etc/amqp-gateway/gateway.yaml"))


class NoConfigurationError(Exception):
    """There is no configuration in any of the places where one is looked for."""


def find_configuration(given: Path | None) -> Path:
    """Return the path of the configuration file.

    The first of these counts: ``given``, ``$AMQP_GATEWAY_CONFIG``, ``./gateway.yaml``,
    ``/etc/amqp-gateway/gateway.yaml``.

    Raises:
        NoConfigurationError: nothing was given and none of the places has one.
    """
    if given is not None:
        return given
    named = os.environ.get(ENVIRONMENT_VARIABLE, "")
    if named:
        return Path(named)
    for place in PLACES:
        if os.path.lexists(place):  # also a folder, or a link that leads nowhere: the next one is not meant
            return place
    looked = ", ".join(str(place) for place in PLACES)
    raise NoConfigurationError(
        f"no configuration: name one with --config or ${ENVIRONMENT_VARIABLE}, or write one of {looked} "
        "(an example is in docs/configuration.md)"
    )


def state_folder(folder: Path, configured: Path | None) -> Path:
    """Return the state folder.

    It is as configured; else ``$XDG_STATE_HOME/amqp-gateway``, else ``/var/lib/amqp-gateway``.

    Args:
        folder: the folder of the configuration.
        configured: the path that it has, if any.
    """
    if configured is not None:
        return folder / configured
    home = _xdg_folder("XDG_STATE_HOME")
    return home / "amqp-gateway" if home else Path("/var/lib/amqp-gateway")


def feed_socket(folder: Path, configured: Path | None, state: Path) -> Path:
    """Return the path of the feed's socket: the one that the last start noted in the state folder.

    Without a note, as of a gateway that was never started, it is as configured, else in the state folder. No
    environment counts: that of a service is not that of a shell.

    Args:
        folder: the folder of the configuration.
        configured: the path that it has, if any.
        state: the state folder.
    """
    try:
        noted = (state / FEED_PLACE).read_text(encoding="utf-8", errors="surrogateescape").rstrip("\n")
    except OSError:
        noted = ""
    if noted and "\0" not in noted:
        return state / noted
    return state / FEED_SOCKET if configured is None else folder / configured


_REACHED_AT: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104  what listens on all addresses


def reached_at(host: str) -> str:
    """Return the address by which this machine reaches a listener on ``host``."""
    return _REACHED_AT.get(host, host)


def _xdg_folder(variable: str) -> Path | None:
    """Return the folder that ``variable`` names; a relative one is ignored (XDG Base Directory)."""
    folder = Path(os.environ.get(variable, ""))
    return folder if folder.is_absolute() else None
