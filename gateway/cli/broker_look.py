"""What a RabbitMQ says of itself, and of who asks, before anything is set up for it."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

import httpx

from gateway.agents.rabbitmq.provisioning import ProvisioningError, read
from gateway.agents.rabbitmq.rights import EVENT_EXCHANGE
from gateway.cli.provision_management import amqp_url, listeners_of
from gateway.mapping.paths import Json
from gateway.service.processes.exit_codes import CommandError, ExitCode
from gateway.service.processes.trouble_codes import OF_TROUBLE

_AMQP_PORTS: Final = (5671, 5672)
_MANAGEMENT_PORT: Final = 15672


@dataclass(frozen=True, slots=True)
class BrokerFound:
    """What a broker says of itself and of who asks.

    Attributes:
        version: of RabbitMQ.
        amqp: URL that it listens on.
        tells_events: it has the exchange that events are told on.
        vhosts: names of its virtual hosts, as far as the user sees them.
        tags: of the user.
    """

    version: str
    amqp: str
    tells_events: bool
    vhosts: tuple[str, ...]
    tags: frozenset[str]


def look(client: httpx.Client, management: str, user: str) -> BrokerFound:
    """Try the user, and see what there is.

    Raises:
        CommandError: it is no management API, or the user may not read it.
        ProvisioningError: likewise.
    """
    try:
        listeners = listeners_of(client, management)
    except ProvisioningError as error:
        if OF_TROUBLE[error.trouble] is ExitCode.FORBIDDEN:
            raise not_permitted(user) from error
        port = urlsplit(management).port
        if port not in _AMQP_PORTS:
            raise
        text = (
            f"{error}; port {port} is that of AMQP: the management API is mostly at port {_MANAGEMENT_PORT}"
        )
        raise CommandError(ExitCode.UNREACHABLE, text) from error
    overview, who = read(client, "overview?columns=rabbitmq_version"), read(client, "whoami")
    told = who.get("tags", ()) if isinstance(who, dict) else ()
    tags = frozenset(told.split(",") if isinstance(told, str) else map(str, told or ()))
    vhosts = read(client, "vhosts?columns=name")
    event_exchange = f"exchanges/%2F/{EVENT_EXCHANGE}"
    return BrokerFound(
        str(overview.get("rabbitmq_version")) if isinstance(overview, dict) else "",
        amqp_url(management, listeners),
        _is_there(client, event_exchange),
        tuple(str(one["name"]) for one in _objects(vhosts)),
        tags,
    )


def _objects(listed: Json) -> list[dict[str, Json]]:
    return [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []


def _is_there(client: httpx.Client, path: str) -> bool:
    try:
        return read(client, path) is not None
    except ProvisioningError:  # whoever may not look there is not told
        return False


def not_permitted(user: str) -> CommandError:
    """Who asks may not read the broker, and what permits it."""
    permits = shlex.join(["rabbitmqctl", "set_user_tags", user, "monitoring"])
    return CommandError(ExitCode.FORBIDDEN, f"{user} may not read the broker; this permits it: {permits}")
