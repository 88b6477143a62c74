"""Exchanges that must be there: declared where a client may, else what RabbitMQ's own command has to do.

No client of a RabbitMQ can declare, or delete, an exchange whose name begins with ``amq.``: AMQP and the
management API refuse it, and an import of definitions says that it was done and does nothing. Only the node
itself can, asked through ``rabbitmqctl eval``; from then on clients bind and publish as usual.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import httpx

from gateway.links.amqp_connection import Trouble
from gateway.sources.rabbitmq.provisioning import ProvisioningError, Step, read, segment

RESERVED: Final = "amq."
"""What names begin with that no client can declare."""

TYPES: Final = ("direct", "fanout", "topic", "headers")
"""Of exchanges, as every broker of AMQP 0-9-1 has them."""

_DECLARER: Final = "amqp-gateway"
_PLAIN: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.:/ ")


@dataclass(frozen=True, slots=True)
class Exchange:
    """An exchange that is wanted: durable, and not deleted by itself."""

    vhost: str
    name: str
    type: str

    @property
    def is_reserved(self) -> bool:
        """Whether only the node itself can declare it."""
        return self.name.startswith(RESERVED)

    @property
    def expression(self) -> str:
        """What ``rabbitmqctl eval`` has to be given to declare it; whatever the names are, it is no more."""
        resource = f"rabbit_misc:r({_binary(self.vhost)}, exchange, {_binary(self.name)})"
        return f'rabbit_exchange:declare({resource}, {self.type}, true, false, false, [], <<"{_DECLARER}">>).'

    def __str__(self) -> str:
        """For people."""
        return f"{self.name} ({self.type}, durable) in {self.vhost}"


def missing(client: httpx.Client, wanted: tuple[Exchange, ...]) -> tuple[Exchange, ...]:
    """Those of ``wanted`` that are not there.

    Args:
        client: of the management API, as `provisioning.plan` takes it.
        wanted: of a type in `TYPES`.

    Raises:
        ProvisioningError: one is there and is another kind of exchange, or the broker does not tell.
    """
    return tuple(each for each in wanted if not _is_there(client, each))


def declaration(exchange: Exchange) -> Step:
    """The step that declares one that is not reserved."""
    path = f"exchanges/{segment(exchange.vhost)}/{segment(exchange.name)}"
    body = {"type": exchange.type, "durable": True}
    return Step(f"declare the exchange {exchange}", path, body, permitted_in=exchange.vhost)


def _is_there(client: httpx.Client, exchange: Exchange) -> bool:
    found = read(client, f"exchanges/{segment(exchange.vhost)}/{segment(exchange.name)}")
    if found is None:
        return False
    # Whether it is durable does not matter to who uses it; the type does.
    if isinstance(found, Mapping) and found.get("type") == exchange.type:
        return True
    text = (
        f"{client.base_url}: the exchange {exchange.name!r} in {exchange.vhost!r} is of another type than"
        f" {exchange.type}: delete it, or choose another name"
    )
    raise ProvisioningError(Trouble.MISCONFIGURED, text)


def _binary(text: str) -> str:
    """An Erlang binary; octets as numbers where they could mean something to Erlang or a shell."""
    if set(text) <= _PLAIN:
        return f'<<"{text}">>'
    return f"<<{','.join(map(str, text.encode()))}>>"
