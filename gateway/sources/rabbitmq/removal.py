"""Removes from a RabbitMQ the objects that `provisioning` created, or that durable subscriptions left.

The present state is read first. Anything that is not provably ours, or is in use, is an obstacle; while there
is one, nothing is removed. A user is ours if it has our password, and exactly the tags and rights that we
give; a virtual host, if its description says that we made it, and it contains nothing of others; a queue, if
it has the name and the arguments of a durable subscription.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import httpx

from gateway.links.amqp_connection import Trouble
from gateway.links.durable_queue import OWN_PREFIX
from gateway.mapping.paths import Json, text_at
from gateway.sources.rabbitmq.provisioning import (
    EXCHANGE_KIND,
    VHOST_DESCRIPTION,
    ProvisionedUser,
    ProvisioningError,
    Step,
    logs_in,
    read,
    segment,
)
from gateway.sources.rabbitmq.rights import tags_of

_NAMED: Final = 3
"""Number of connections that are named; others are counted."""

_Object = Mapping[str, Json]


@dataclass(frozen=True, slots=True)
class ProvisionedBroker:
    """The objects to remove, as far as they exist.

    Attributes:
        users: the users with our passwords, empty if unknown.
        vhost: the virtual host of the management exchange; empty for none.
        exchange: the management exchange.
        event_vhost: the virtual host of the event exchange, and of the queues bound to it.
        kept_queues: the names of queues of durable subscriptions, in either virtual host.
    """

    users: tuple[ProvisionedUser, ...]
    vhost: str
    exchange: str
    event_vhost: str
    kept_queues: frozenset[str]

    @property
    def names(self) -> frozenset[str]:
        """The names of the users."""
        return frozenset(user.name for user in self.users)


@dataclass(slots=True)
class Removal:
    """The plan of a removal.

    Attributes:
        steps: the steps in order; after a failure, a new plan has the rest.
        obstacles: objects that are not ours, or are in use; a line for each.
        left: objects that stay, with the reason; a line for each.
    """

    steps: list[Step] = field(default_factory=list)
    obstacles: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)


def plan_removal(client: httpx.Client, wanted: ProvisionedBroker) -> Removal:
    """Return the plan of a removal, without changing anything.

    Args:
        client: a client of the management API with an administrator's credentials; its base URL ends with
            ``/api/``.
        wanted: the objects to remove.

    Raises:
        ProvisioningError: the broker cannot be read.
    """
    found = Removal()
    connections = _listed(client, "connections?columns=name,user,vhost")
    vhost = _found(client, f"vhosts/{segment(wanted.vhost)}", wanted.vhost) if wanted.vhost else None
    if vhost is not None:
        _plan_vhost(client, wanted, vhost, connections, found)
    if wanted.event_vhost != wanted.vhost:
        _plan_kept_queues(client, wanted, wanted.event_vhost, found)
    for user in wanted.users:
        _plan_user(client, user, connections, found)
    return found


# -- users


def _plan_user(
    client: httpx.Client, user: ProvisionedUser, connections: Sequence[_Object], found: Removal
) -> None:
    account = _found(client, f"users/{segment(user.name)}", user.name)
    if account is None:
        return
    if not logs_in(client, user):
        found.obstacles.append(
            f"the user {user.name} is there, and its password is not the one in its file, or the file is"
            " missing: it may have another owner; write its password into that file if it is ours"
        )
        return
    found.obstacles += _other_uses(client, user, account)
    found.obstacles += _in_use(
        f"the user {user.name}", [one for one in connections if one.get("user") == user.name]
    )
    rights = ", ".join(sorted(str(one.get("vhost")) for one in _permissions(client, user.name)))
    removed = f"tags and rights (in {rights})" if rights else "tags"
    found.steps.append(
        Step(f"delete the user {user.name} with its {removed}", _user(user.name), method="DELETE")
    )


def _other_uses(client: httpx.Client, user: ProvisionedUser, account: _Object) -> Iterator[str]:
    """Yield signs that the user has other uses."""
    if more := sorted(set(tags_of(account) or ()) - set(user.rights.tags)):
        yield f"the user {user.name} carries tags that are not of provision: {', '.join(more)}"
    given = {grant.vhost: grant.permissions() for grant in user.rights.grants}
    for permission in _permissions(client, user.name):
        vhost = str(permission.get("vhost"))
        if vhost not in given:
            yield (
                f"the user {user.name} has rights in {vhost}, which is not named here: say --watch {vhost} if"
                " provision gave them, else take them away"
            )
        elif any(permission.get(kind) != pattern for kind, pattern in given[vhost].items()):
            yield (
                f"the user {user.name} has other rights in {vhost} than provision gives: name the same"
                " --watch, --vhost, --exchange and --event-vhost as then, or run provision again first"
            )
    for permission in _listed(client, f"{_user(user.name)}/topic-permissions"):
        yield f"the user {user.name} has topic permissions in {permission.get('vhost')}"


def _permissions(client: httpx.Client, user: str) -> list[_Object]:
    return _listed(client, f"{_user(user)}/permissions")


def _in_use(what: str, connections: Sequence[_Object]) -> Iterator[str]:
    if connections:
        names = [str(one.get("name")) for one in connections]
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        text = ", ".join(names[:_NAMED]) + more
        yield f"{what} is in use: {text}: stop gateway and agents, and wait until the broker knows it"


# -- the management virtual host


def _plan_vhost(
    client: httpx.Client,
    wanted: ProvisionedBroker,
    vhost: _Object,
    connections: Sequence[_Object],
    found: Removal,
) -> None:
    name = wanted.vhost
    description = vhost.get("description") or _mapping(vhost.get("metadata")).get("description")
    if description != VHOST_DESCRIPTION:
        found.left.append(
            f"the virtual host {name}: provision did not make it, or its description is another"
        )
        _plan_kept_queues(client, wanted, name, found)
        _plan_exchange(client, wanted, found)
        return
    strangers = [
        one for one in connections if one.get("vhost") == name and text_at(one, "user") not in wanted.names
    ]
    found.obstacles += _in_use(f"the virtual host {name}", strangers)
    found.obstacles += _of_others(client, wanted)
    within = [f"the exchange {wanted.exchange}"] if _exchange(client, wanted) is not None else []
    for queue in _queues(client, name):
        if text_at(queue, "name") in wanted.kept_queues:
            found.obstacles += _queue_obstacles(queue, name)
            within.append(f"the queue {_with_messages(queue)}")
        else:
            found.obstacles.append(_unnamed(str(queue.get("name")), name))
    text = f", with {', '.join(within)}" if within else ""
    path = f"vhosts/{segment(name)}"
    found.steps.append(Step(f"delete the virtual host {name}{text}", path, method="DELETE"))


def _of_others(client: httpx.Client, wanted: ProvisionedBroker) -> Iterator[str]:
    """Yield objects in the virtual host that are neither ours nor built in, except queues."""
    name, at = wanted.vhost, segment(wanted.vhost)
    administrator = _mapping(read(client, "whoami")).get("name")
    for permission in _listed(client, f"vhosts/{at}/permissions"):
        user = permission.get("user")
        if text_at(permission, "user") not in wanted.names and user != administrator:
            yield f"the user {user} has rights in {name}"
    for exchange in _listed(client, f"exchanges/{at}?columns=name"):
        called = str(exchange.get("name"))
        if called and called != wanted.exchange and not called.startswith("amq."):
            yield f"the exchange {called} in {name} is not ours"
    for kind, path in (("policy", "policies"), ("operator policy", "operator-policies")):
        for policy in _listed(client, f"{path}/{at}"):
            yield f"the {kind} {policy.get('name')} in {name} is not ours"
    for parameter in _listed(client, "parameters"):
        if parameter.get("vhost") == name:
            yield f"the parameter {parameter.get('component')}/{parameter.get('name')} in {name} is not ours"


# -- exchange and queues


def _exchange(client: httpx.Client, wanted: ProvisionedBroker) -> _Object | None:
    path = f"exchanges/{segment(wanted.vhost)}/{segment(wanted.exchange)}"
    return _found(client, path, wanted.exchange)


def _plan_exchange(client: httpx.Client, wanted: ProvisionedBroker, found: Removal) -> None:
    """Plan the removal of the exchange from a virtual host that stays."""
    exchange = _exchange(client, wanted)
    if exchange is None:
        return
    name = f"the exchange {wanted.exchange} in {wanted.vhost}"
    if any(exchange.get(key) != value for key, value in EXCHANGE_KIND.items()):
        found.left.append(f"{name}: it is not a durable topic exchange, so not ours")
        return
    path = f"exchanges/{segment(wanted.vhost)}/{segment(wanted.exchange)}"
    for binding in _listed(client, f"{path}/bindings/source"):
        if text_at(binding, "destination") not in wanted.kept_queues:
            found.obstacles.append(f"{name} is in use: {binding.get('destination')} is bound to it")
    for binding in _listed(client, f"{path}/bindings/destination"):
        found.obstacles.append(f"{name} is in use: it is bound to {binding.get('source')}")
    # The broker refuses this if something was bound to it since.
    step = Step(f"delete {name}", f"{path}?if-unused=true", permitted_in=wanted.vhost, method="DELETE")
    found.steps.append(step)


def _plan_kept_queues(client: httpx.Client, wanted: ProvisionedBroker, vhost: str, found: Removal) -> None:
    """Plan the removal of durable queues from a virtual host that stays."""
    if not vhost or _found(client, f"vhosts/{segment(vhost)}", vhost) is None:
        return
    for queue in _queues(client, vhost):
        name = str(queue.get("name"))
        if name in wanted.kept_queues:
            found.obstacles += _queue_obstacles(queue, vhost)
            # The broker refuses this if a client has begun to consume it.
            path = f"queues/{segment(vhost)}/{segment(name)}?if-unused=true"
            text = f"delete the queue {_with_messages(queue)} in {vhost}"
            found.steps.append(Step(text, path, permitted_in=vhost, method="DELETE"))
        elif name.startswith(OWN_PREFIX) and queue.get("durable") is True:
            found.left.append(_unnamed(name, vhost))


def _queues(client: httpx.Client, vhost: str) -> list[_Object]:
    columns = "name,durable,arguments,consumers,messages"
    return _listed(client, f"queues/{segment(vhost)}?columns={columns}")


def _queue_obstacles(queue: _Object, vhost: str) -> Iterator[str]:
    name, arguments = f"the queue {queue.get('name')} in {vhost}", _mapping(queue.get("arguments"))
    bounded = {"x-expires", "x-max-length"} <= arguments.keys() and arguments.get("x-overflow") == "drop-head"
    if queue.get("durable") is not True or not bounded:
        yield f"{name} is not that of a durable subscription: it has no expiry, or no bound"
    if queue.get("consumers"):
        yield f"{name} is in use: it has a consumer; stop that gateway first"


def _unnamed(queue: str, vhost: str) -> str:
    text = f"the queue {queue} in {vhost}"
    if not queue.startswith(OWN_PREFIX):
        return f"{text} is not ours"
    return f"{text} may be another gateway's: name it with --kept-queue {queue} if it is of this one"


def _with_messages(queue: _Object) -> str:
    messages = queue.get("messages") or 0
    return f"{queue.get('name')} ({messages} message{'' if messages == 1 else 's'} in it)"


# -- the management API


def _user(name: str) -> str:
    return f"users/{segment(name)}"


def _listed(client: httpx.Client, path: str) -> list[_Object]:
    """Return a listing.

    Raises:
        ProvisioningError: there is none, which does not mean that nothing is there.
    """
    listed = read(client, path)
    objects = [one for one in listed if isinstance(one, Mapping)] if isinstance(listed, list) else []
    if not isinstance(listed, list) or len(objects) != len(listed):
        text = f"{client.base_url}{path} is no listing: nothing is removed unless all is known"
        raise ProvisioningError(Trouble.BROKEN, text)
    return objects


def _found(client: httpx.Client, path: str, name: str) -> _Object | None:
    """Return one object; ``None`` if there is none.

    Raises:
        ProvisioningError: the answer is about something else.
    """
    document = read(client, path)
    if document is not None and _mapping(document).get("name") != name:
        raise ProvisioningError(Trouble.BROKEN, f"{client.base_url}{path} answers with something else")
    return None if document is None else _mapping(document)


def _mapping(document: Json) -> _Object:
    return document if isinstance(document, Mapping) else {}
