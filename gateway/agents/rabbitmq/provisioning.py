"""Sets up on a RabbitMQ what gateway and agent need: virtual host, exchange, users with their rights.

Everything goes through the management API, as an administrator. Done again, it changes nothing but the
passwords given.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote

import httpx

from gateway.agents.rabbitmq.rights import MANAGEMENT_EXCHANGE, MANAGEMENT_VHOST, UserRights

_MAX_REASON: Final = 500


class ProvisioningError(Exception):
    """The broker could not be set up; the text says what was refused, and why."""


@dataclass(frozen=True, slots=True)
class ProvisionedUser:
    """A user to be made, or given this password and these rights."""

    name: str
    password: str = field(repr=False)
    rights: UserRights


def provision(
    client: httpx.Client,
    users: tuple[ProvisionedUser, ...],
    *,
    vhost: str = MANAGEMENT_VHOST,
    exchange: str = MANAGEMENT_EXCHANGE,
    progress: Callable[[str], None] = lambda _line: None,
) -> None:
    """Make the management virtual host and exchange, and the users with exactly their rights.

    Rights that a user had in other virtual hosts stay; the tags are replaced. The exchange (topic, durable)
    and the virtual host are what remains on the broker.

    Args:
        client: of the management API, base URL ending with ``/api/``, with an administrator's credentials.
        users: the users, with rights in virtual hosts that exist (or are ``vhost``).
        vhost: the management virtual host.
        exchange: the management exchange.
        progress: told each step in one line.

    Raises:
        ProvisioningError: the broker refused a step or cannot be reached; earlier steps stay done.
    """
    # Asked for first: to PUT a virtual host that exists would clear its description.
    if not _exists(client, f"vhosts/{_segment(vhost)}"):
        progress(f"making the virtual host {vhost}")
        _put(client, f"vhosts/{_segment(vhost)}", {"description": "AMQP management gateway"})
    for user in users:
        progress(f"setting up the user {user.name}: tags {','.join(user.rights.tags) or 'none'}")
        body = {"password": user.password, "tags": ",".join(user.rights.tags)}
        _put(client, f"users/{_segment(user.name)}", body)
        for grant in user.rights.grants:
            permissions = grant.permissions()
            progress(f"  in {grant.vhost}: " + ", ".join(f"{kind} {of}" for kind, of in permissions.items()))
            _put(client, f"permissions/{_segment(grant.vhost)}/{_segment(user.name)}", permissions)
    with _Permitted(client, vhost):
        progress(f"declaring the exchange {exchange} (topic, durable) in {vhost}")
        place = f"exchanges/{_segment(vhost)}/{_segment(exchange)}"
        _put(client, place, {"type": "topic", "durable": True})


class _Permitted:
    """The administrator's own permission in a virtual host, for as long as it takes to declare there.

    Making a virtual host through the API gives its maker every permission in it, an older one may not.
    """

    def __init__(self, client: httpx.Client, vhost: str) -> None:
        self._client = client
        who = _answer(client, "GET", "whoami").json()["name"]
        self._path = f"permissions/{_segment(vhost)}/{_segment(who)}"
        self._lent = False

    def __enter__(self) -> None:
        if not _exists(self._client, self._path):
            _put(self._client, self._path, {"configure": ".*", "write": "^$", "read": "^$"})
            self._lent = True

    def __exit__(self, *_: object) -> None:
        if self._lent:
            _answer(self._client, "DELETE", self._path)


def _exists(client: httpx.Client, path: str) -> bool:
    return _answer(client, "GET", path, missing_is_fine=True).status_code != httpx.codes.NOT_FOUND


def _put(client: httpx.Client, path: str, body: Mapping[str, Any]) -> None:
    _answer(client, "PUT", path, body)


def _answer(
    client: httpx.Client,
    method: str,
    path: str,
    body: Mapping[str, Any] | None = None,
    *,
    missing_is_fine: bool = False,
) -> httpx.Response:
    try:
        response = client.request(method, path, json=body)
    except httpx.HTTPError as error:
        raise ProvisioningError(
            f"the management API at {client.base_url} cannot be reached: {error}"
        ) from error
    if response.status_code == httpx.codes.UNAUTHORIZED:
        raise ProvisioningError(
            f"{method} {path}: refused; it takes a user with the tag administrator ({_reason(response)})"
        )
    if response.is_error and not (missing_is_fine and response.status_code == httpx.codes.NOT_FOUND):
        raise ProvisioningError(f"{method} {path}: {response.status_code} {_reason(response)}")
    return response


def _reason(response: httpx.Response) -> str:
    try:
        return str(response.json()["reason"])[:_MAX_REASON]
    except (ValueError, LookupError, TypeError):
        return response.text[:_MAX_REASON]


def _segment(name: str) -> str:
    return quote(name, safe="")
