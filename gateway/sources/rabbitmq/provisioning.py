"""Sets up a RabbitMQ for gateway and agent: virtual host, exchange, users with their rights.

All of it goes through the management API, as an administrator. The present state is read first, and gives the
missing steps; each is one request. A second run has no steps.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import httpx

from gateway.links.amqp_connection import Trouble
from gateway.links.tls import handshake_advice
from gateway.mapping.paths import Json
from gateway.model.texts import error_line
from gateway.model.times import SECOND
from gateway.sources.rabbitmq.management_api import (
    ENDED_EARLY,
    PAUSE_DEMANDED,
    WRONG_PASSWORD,
    by_proxy,
    error_of,
)
from gateway.sources.rabbitmq.path_proof import path_of
from gateway.sources.rabbitmq.proving_client import CachedAnswerError, PathFaultError, demanded_by
from gateway.sources.rabbitmq.rights import MANAGEMENT_EXCHANGE, MANAGEMENT_VHOST, UserRights, tags_of

_MAX_REASON: Final = 500
_REFUSED: Final = frozenset({httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN})
_NO_TAG: Final = "Not management user"
EXCHANGE_KIND: Final = {"type": "topic", "durable": True}
VHOST_DESCRIPTION: Final = "AMQP management gateway"
"""Description that marks a virtual host as made by this command."""


class ProvisioningError(Exception):
    """The broker could not be set up; the text says in one line what was refused, and why."""

    def __init__(self, trouble: Trouble, text: str) -> None:
        self.trouble = trouble
        super().__init__(" ".join(text.split()))


@dataclass(frozen=True, slots=True)
class ProvisionedUser:
    """A user to be created, or given this password and these rights."""

    name: str
    password: str = field(repr=False)
    rights: UserRights


@dataclass(frozen=True, slots=True)
class Step:
    """One change of the broker: a request to the management API.

    Attributes:
        description: the change, in one line for people.
        path: below ``/api/``.
        body: the body of a PUT.
        permitted_in: the virtual host in which the administrator itself needs a permission for it; empty for
            none.
        grants_in: the virtual host in which it gives rights to a user; empty for none.
        method: the HTTP method. A DELETE of something that is gone succeeds.
    """

    description: str
    path: str
    body: Mapping[str, Any] | None = field(default=None, repr=False)
    permitted_in: str = ""
    grants_in: str = ""
    method: Literal["PUT", "DELETE"] = "PUT"


def plan(
    client: httpx.Client,
    users: tuple[ProvisionedUser, ...],
    *,
    vhost: str = MANAGEMENT_VHOST,
    exchange: str = MANAGEMENT_EXCHANGE,
) -> tuple[Step, ...]:
    """Return the missing steps, without changing anything; arguments and errors as for `provision`."""
    steps: list[Step] = []
    for needed in dict.fromkeys(grant.vhost for user in users for grant in user.rights.grants):
        if needed != vhost and _found(client, f"vhosts/{segment(needed)}") is None:
            raise _no_virtual_host(client, needed)
    # Read first: a PUT of a virtual host that exists would clear its description.
    if vhost and _found(client, f"vhosts/{segment(vhost)}") is None:
        description = {"description": VHOST_DESCRIPTION}
        steps.append(Step(f"make the virtual host {vhost}", f"vhosts/{segment(vhost)}", description))
    for user in users:
        steps += _user_steps(client, user)
    if vhost and exchange:
        steps += _exchange_steps(client, vhost, exchange)
    return tuple(steps)


def carry_out(client: httpx.Client, step: Step) -> None:
    """Make one change.

    Raises:
        ProvisioningError: the broker refused it, or its virtual host has ended meanwhile (`REFUSED_VHOST`).
    """
    gone_is_fine = step.method == "DELETE"
    permitted = _Permitted(client, step.permitted_in) if step.permitted_in else contextlib.nullcontext()
    try:
        with permitted:
            _answer(client, step.method, step.path, step.body, missing_is_fine=gone_is_fine)
    except ProvisioningError as error:
        if step.grants_in and _found(client, f"vhosts/{segment(step.grants_in)}") is None:
            raise _no_virtual_host(client, step.grants_in) from error
        raise


def _no_virtual_host(client: httpx.Client, name: str) -> ProvisioningError:
    text = f"{client.base_url}: there is no virtual host {name!r}: make it first, or leave it out"
    return ProvisioningError(Trouble.REFUSED_VHOST, text)


def provision(
    client: httpx.Client,
    users: tuple[ProvisionedUser, ...],
    *,
    vhost: str = MANAGEMENT_VHOST,
    exchange: str = MANAGEMENT_EXCHANGE,
    progress: Callable[[str], None] = lambda _line: None,
) -> None:
    """Create the management virtual host and exchange, and the users with exactly their rights.

    Rights that a user had in other virtual hosts stay; the tags are replaced. The exchange (topic, durable)
    and the virtual host stay on the broker.

    Args:
        client: a client of the management API with an administrator's credentials; its base URL ends with
            ``/api/``.
        users: the users, with rights in virtual hosts that exist (or are ``vhost``).
        vhost: the management virtual host; empty if neither it nor the exchange is wanted.
        exchange: the management exchange; empty for none.
        progress: called with each step in one line.

    Raises:
        ProvisioningError: the broker refused a step or cannot be reached; earlier steps stay done.
    """
    for step in plan(client, users, vhost=vhost, exchange=exchange):
        progress(step.description)
        carry_out(client, step)


def user_exists(client: httpx.Client, name: str) -> bool:
    """Return whether the broker has this user.

    Raises:
        ProvisioningError: the broker cannot be read.
    """
    return _found(client, f"users/{segment(name)}") is not None


def read(client: httpx.Client, path: str) -> Json:
    """Read from the management API; return ``None`` if there is nothing.

    Raises:
        ProvisioningError: the broker cannot be read.
    """
    response = _answer(client, "GET", path, missing_is_fine=True)
    try:
        document: Json = response.json()
    except (ValueError, RecursionError) as error:
        raise _no_management(client) from error
    return None if response.status_code == httpx.codes.NOT_FOUND else document


def _found(client: httpx.Client, path: str) -> Mapping[str, Json] | None:
    """Return one object; ``None`` if there is none."""
    document = read(client, path)
    if document is not None and not isinstance(document, Mapping):
        raise _no_management(client)
    return document


def _user_steps(client: httpx.Client, user: ProvisionedUser) -> Iterator[Step]:
    wanted = sorted(user.rights.tags)
    found = _found(client, f"users/{segment(user.name)}")
    if found is None or sorted(tags_of(found) or ()) != wanted or not logs_in(client, user):
        verb = "make the user" if found is None else "set password and tags of the user"
        yield Step(
            f"{verb} {user.name}: tags {','.join(wanted) or 'none'}",
            f"users/{segment(user.name)}",
            {"password": user.password, "tags": ",".join(wanted)},
        )
    for grant in user.rights.grants:
        path = f"permissions/{segment(grant.vhost)}/{segment(user.name)}"
        permissions = grant.permissions()
        has = _found(client, path) or {}
        if any(has.get(kind) != pattern for kind, pattern in permissions.items()):
            patterns = ", ".join(f"{kind} {pattern}" for kind, pattern in permissions.items())
            text = f"permit the user {user.name} in {grant.vhost}: {patterns}"
            yield Step(text, path, permissions, grants_in=grant.vhost)


def _exchange_steps(client: httpx.Client, vhost: str, exchange: str) -> Iterator[Step]:
    path = f"exchanges/{segment(vhost)}/{segment(exchange)}"
    found = _found(client, path)
    if found is None:
        text = f"declare the exchange {exchange} (topic, durable) in {vhost}"
        yield Step(text, path, EXCHANGE_KIND, permitted_in=vhost)
    elif any(found.get(key) != value for key, value in EXCHANGE_KIND.items()):
        raise ProvisioningError(
            Trouble.MISCONFIGURED,
            f"{client.base_url}: the exchange {exchange!r} in {vhost!r} is not a durable topic exchange:"
            " delete it, or choose another name",
        )


def logs_in(client: httpx.Client, user: ProvisionedUser) -> bool:
    """Return whether the user has this password already; setting it again would change its hash.

    Raises:
        ProvisioningError: the broker cannot be reached.
    """
    response = _response(client, "GET", "whoami", auth=(user.name, user.password))
    if response.is_error and not _is_brokers(response):
        # It says nothing of the password.
        raise _failed(response, "GET", "whoami")
    # A user without a tag exists, too, and may log in by AMQP only.
    return response.status_code == httpx.codes.OK or _reason(response) == _NO_TAG


class _Permitted:
    """Gives the administrator itself a permission in a virtual host while it declares something there.

    RabbitMQ gives all permissions to the user who creates a virtual host, but not in an existing one.
    """

    def __init__(self, client: httpx.Client, vhost: str) -> None:
        self._client = client
        administrator = _found(client, "whoami") or {}
        self._path = f"permissions/{segment(vhost)}/{segment(str(administrator.get('name')))}"
        self._lent = False

    def __enter__(self) -> None:
        if _found(self._client, self._path) is None:
            _answer(self._client, "PUT", self._path, {"configure": ".*", "write": "^$", "read": "^$"})
            self._lent = True

    def __exit__(self, *_: object) -> None:
        if self._lent:
            _answer(self._client, "DELETE", self._path)


def _answer(
    client: httpx.Client,
    method: str,
    path: str,
    body: Mapping[str, Any] | None = None,
    *,
    missing_is_fine: bool = False,
) -> httpx.Response:
    response = _response(client, method, path, body)
    if response.status_code in _REFUSED:
        if not _is_brokers(response):
            raise _failed(response, method, path)
        reason = _reason(response)
        if reason in WRONG_PASSWORD:
            text = f"{client.base_url}: {reason}: check name and password of the administrator"
            raise ProvisioningError(Trouble.REFUSED_CREDENTIALS, text)
        text = f"{method} {path}: refused; it takes a user with the tag administrator ({reason})"
        raise ProvisioningError(Trouble.FORBIDDEN, text)
    if response.is_redirect:
        raise _no_management(client)
    if response.is_error and not (missing_is_fine and response.status_code == httpx.codes.NOT_FOUND):
        raise _failed(response, method, path)
    return response


def _is_brokers(response: httpx.Response) -> bool:
    """Return whether a refusal is RabbitMQ's own: it has an error's name, which no page of a proxy has."""
    return bool(error_of(response.content)[0])


def _failed(response: httpx.Response, method: str, path: str) -> ProvisioningError:
    pause = f": {PAUSE_DEMANDED} of {demanded_by(response) / SECOND:.2g} s" if demanded_by(response) else ""
    reason = f"{response.status_code} {_reason(response)}"
    if response.status_code in _REFUSED and not _is_brokers(response):
        reason = by_proxy(response.status_code)
    text = f"{method} {path}: {reason}{pause}"
    return ProvisioningError(Trouble.BROKEN, text)


def _response(
    client: httpx.Client,
    method: str,
    path: str,
    body: Mapping[str, Any] | None = None,
    auth: tuple[str, str] | None = None,
) -> httpx.Response:
    try:
        if auth is not None:
            return client.request(method, path, json=body, auth=auth)
        return client.request(method, path, json=body)
    except PathFaultError as error:
        raise ProvisioningError(Trouble.MISCONFIGURED, f"{method} {path}: not sent: {error}") from error
    except CachedAnswerError as error:
        raise ProvisioningError(Trouble.BROKEN, f"{method} {path}: {error}") from error
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        reason = ENDED_EARLY if isinstance(error, httpx.ReadError) else error_line(error)
        advice = handshake_advice(reason)
        text = f"the management API at {client.base_url} cannot be reached: {reason}"
        raise ProvisioningError(Trouble.UNREACHABLE, f"{text}: {advice}" if advice else text) from error


def _no_management(client: httpx.Client) -> ProvisioningError:
    return ProvisioningError(
        Trouble.UNREACHABLE, f"{client.base_url}: no management API answers there: check the URL"
    )


def _reason(response: httpx.Response) -> str:
    try:
        return str(response.json()["reason"])[:_MAX_REASON]
    except (ValueError, LookupError, TypeError, RecursionError):
        return response.text[:_MAX_REASON]


def segment(name: str) -> str:
    """Return a name as a segment of a path."""
    return path_of(name)


RESERVED: Final = "amq."
"""Prefix of the names that no client can declare."""

TYPES: Final = ("direct", "fanout", "topic", "headers")
"""Types of exchanges of every broker of AMQP 0-9-1."""

_DECLARER: Final = "amqp-gateway"
_PLAIN: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.:/ ")


@dataclass(frozen=True, slots=True)
class Exchange:
    """A required exchange: durable, and not deleted automatically.

    No client of a RabbitMQ can declare, or delete, an exchange whose name begins with ``amq.``: AMQP and the
    management API refuse it, and an import of definitions reports success and does nothing. Only the node
    itself can, through ``rabbitmqctl eval``; from then on clients bind and publish as usual.
    """

    vhost: str
    name: str
    type: str

    @property
    def is_reserved(self) -> bool:
        """Whether only the node itself can declare it."""
        return self.name.startswith(RESERVED)

    @property
    def expression(self) -> str:
        """The argument of ``rabbitmqctl eval`` that declares it, safe for any name."""
        resource = f"rabbit_misc:r({_binary(self.vhost)}, exchange, {_binary(self.name)})"
        return f'rabbit_exchange:declare({resource}, {self.type}, true, false, false, [], <<"{_DECLARER}">>).'

    def __str__(self) -> str:
        """Return the exchange's name and type for people."""
        return f"{self.name} ({self.type}, durable) in {self.vhost}"


def missing(client: httpx.Client, wanted: tuple[Exchange, ...]) -> tuple[Exchange, ...]:
    """Return those of ``wanted`` that do not exist.

    Args:
        client: a client of the management API, as for `provisioning.plan`.
        wanted: exchanges of a type in `TYPES`.

    Raises:
        ProvisioningError: an exchange of another type has the name, or the broker cannot be read.
    """
    return tuple(each for each in wanted if not _is_there(client, each))


def declaration(exchange: Exchange) -> Step:
    """Return the step that declares an exchange that is not reserved."""
    path = f"exchanges/{segment(exchange.vhost)}/{segment(exchange.name)}"
    body = {"type": exchange.type, "durable": True}
    return Step(f"declare the exchange {exchange}", path, body, permitted_in=exchange.vhost)


def _is_there(client: httpx.Client, exchange: Exchange) -> bool:
    found = read(client, f"exchanges/{segment(exchange.vhost)}/{segment(exchange.name)}")
    if found is None:
        return False
    # Its durability does not matter to its users; its type does.
    if isinstance(found, Mapping) and found.get("type") == exchange.type:
        return True
    text = (
        f"{client.base_url}: the exchange {exchange.name!r} in {exchange.vhost!r} is of another type than"
        f" {exchange.type}: delete it, or choose another name"
    )
    raise ProvisioningError(Trouble.MISCONFIGURED, text)


def _binary(text: str) -> str:
    """Return an Erlang binary, with numbers for bytes that could have a meaning to Erlang or a shell."""
    if set(text) <= _PLAIN:
        return f'<<"{text}">>'
    return f"<<{','.join(map(str, text.encode()))}>>"
