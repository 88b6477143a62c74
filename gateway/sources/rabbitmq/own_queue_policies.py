"""What the broker's policies make of the gateway's own queues. No I/O.

A policy `.*` for the queues of applications matches the gateway's, too. Then the bound that counts is the
policy's, or an operator policy's, if it is lower than the declared one, and the broker drops events silently.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from gateway.mapping.paths import Json
from gateway.model.times import MILLISECOND
from gateway.sources.rabbitmq.management_api import Answer, Broken, Document, NotFound, Refused

MAX_LENGTH: Final = "max-length"
TTL: Final = "message-ttl"
_NAMED: Final = (
    MAX_LENGTH,
    "max-length-bytes",
    TTL,
    "expires",
    "overflow",
    "dead-letter-exchange",
    "dead-letter-routing-key",
)
"""The keys of a policy by which messages of a queue are dropped, refused, or go elsewhere."""
_DROPS: Final = frozenset({MAX_LENGTH, TTL})
_APPLIES: Final = ("all", "queues", "classic_queues")
SPARE_OWN: Final = r"let its pattern begin with ^(?!amqp-gateway\.) to spare the gateway's queues"
_MAX_PATTERN: Final = 1_000
_MAX_SHOWN: Final = 100


@dataclass(frozen=True, slots=True)
class QueuePolicies:
    """What policies make of one queue.

    Attributes:
        text: which policies they are and what would spare the queue, for people; empty if none concerns it.
        max_length: the number of messages to which they bound it; ``None`` if they do not.
        ttl: nanoseconds after which a message is dropped that waits; ``None`` for never.
    """

    text: str = ""
    max_length: int | None = None
    ttl: int | None = None

    def may_have_dropped(self, received: int, lasted: int) -> bool:
        """Return whether messages may have been dropped between two times at which the queue was empty.

        A queue that has dropped one has as many left as it is bounded to, and all of these were received. By
        bytes it drops none: they are counted of bodies, and those of events are empty.

        Args:
            received: the number of messages that were received in between.
            lasted: nanoseconds between the two times.
        """
        too_many = self.max_length is not None and received >= self.max_length
        return too_many or (self.ttl is not None and lasted >= self.ttl)

    def may_have_dropped_meanwhile(self, waiting: int) -> bool:
        """Return whether a queue may have dropped messages in which so many wait, for an unknown time."""
        return (self.max_length is not None and waiting >= self.max_length) or self.ttl is not None


NONE: Final = QueuePolicies()


def policies_of(queue: str, declared: int, policies: Answer, operator: Answer) -> QueuePolicies | None:
    """Return what the policies of its virtual host make of a queue; ``None`` if that is not shown now.

    Args:
        queue: the name of the queue.
        declared: the number of messages to which it is declared to be bounded.
        policies: the management API's answer to the request for policies.
        operator: likewise for operator policies. What may not be read is taken for none.
    """
    usual, of_operator = _listed(policies), _listed(operator)
    if usual is None or of_operator is None:
        return None
    texts, lowest = [], dict[str, int]()
    for kind, listed in zip(_KINDS, (usual, of_operator), strict=True):
        policy = _effective(queue, listed)
        keys = _effects(policy, declared)
        if not keys:
            continue
        shown = ", ".join(f"{key}: {value!s:.{_MAX_SHOWN}}" for key, value in keys.items())
        texts.append(f"the {kind} {policy.get('name')!r} ({shown})")
        for key in _DROPS & keys.keys():
            value = keys[key]
            lowest[key] = min(lowest.get(key, value), value) if isinstance(value, int) else 0
    if not texts:
        return NONE
    text = (
        f"{' and '.join(texts)} reaches the gateway's own queue {queue}, which may lose events: {SPARE_OWN}"
    )
    ttl = lowest.get(TTL)
    return QueuePolicies(text, lowest.get(MAX_LENGTH), None if ttl is None else ttl * MILLISECOND)


_KINDS: Final = ("policy", "operator policy")


def _effects(policy: Mapping[str, Json], declared: int) -> dict[str, Json]:
    """Return what a policy demands of a queue by which messages are lost to it."""
    definition = policy.get("definition")
    if not isinstance(definition, Mapping):
        return {}
    length = definition.get(MAX_LENGTH)
    is_longer = isinstance(length, int) and length >= declared
    return {
        key: definition[key] for key in _NAMED if key in definition and not (key == MAX_LENGTH and is_longer)
    }


def _listed(answer: Answer) -> list[Mapping[str, Json]] | None:
    match answer:
        case Document(body=list() as found):
            return [one for one in found if isinstance(one, Mapping)]
        case Refused(login=False) | NotFound() | Broken(permanent=True):
            return []
    return None


def _effective(queue: str, policies: Iterable[Mapping[str, Json]]) -> Mapping[str, Json]:
    """Return the policy of the highest priority that matches a queue; an empty one if none does."""
    matching = [one for one in policies if _applies(queue, one)]
    return max(matching, key=_priority, default={})


def _applies(queue: str, policy: Mapping[str, Json]) -> bool:
    return policy.get("apply-to") in _APPLIES and matches(policy.get("pattern"), queue)


def matches(pattern: Json, queue: str) -> bool:
    """Return whether a policy's pattern matches a queue; true where Python does not read the pattern."""
    if not isinstance(pattern, str) or len(pattern) > _MAX_PATTERN:
        return True
    try:
        return re.search(pattern, queue) is not None
    except re.error:
        return True


def _priority(policy: Mapping[str, Json]) -> float:
    priority = policy.get("priority")
    return priority if isinstance(priority, int | float) else 0


POLICY_EVENTS: Final = frozenset({"policy.set", "policy.cleared", "parameter.set", "parameter.cleared"})
"""Events of changes of policies; an operator policy is a parameter in them."""


class PolicyChanges:
    """Knows whether a policy in a backlog of events may have made the queue drop some.

    Args:
        virtual_host: where the queue is.
        queue: its name.
        declared: the number of messages to which it is declared to be bounded.

    Attributes:
        text: what was changed, for people; empty for nothing.
    """

    def __init__(self, virtual_host: str, queue: str, declared: int) -> None:
        self.text = ""
        self._virtual_host = virtual_host
        self._queue = queue
        self._declared = declared
        self._harmless: set[str] = set()

    def take(self, key: str, headers: Mapping[str, Json]) -> None:
        """Take an event of the backlog.

        An operator policy's events are those of the parameter that it is. The event that a policy was cleared
        has only its name.
        """
        if key not in POLICY_EVENTS or headers.get("vhost") != self._virtual_host:
            return
        name, value = str(headers.get("name")), headers
        if key.startswith("parameter."):
            component, set_to = headers.get("component"), headers.get("value")
            if component != "operator_policy":
                return
            name, value = f"operator policy {name}", set_to if isinstance(set_to, Mapping) else {}
        concerns = matches(value.get("pattern"), self._queue) and value.get("apply-to") != "exchanges"
        drops = not _DROPS.isdisjoint(_effects(value, self._declared))
        if key.endswith(".set") and not (concerns and drops):
            self._harmless.add(name)
        elif key.endswith(".set") or name not in self._harmless:
            self.text = self.text or f"{key} of {name!r}: it may have let the queue {self._queue} drop events"
