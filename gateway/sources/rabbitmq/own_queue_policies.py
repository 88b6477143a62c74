"""What the broker's policies make of the gateway's own queues. No I/O.

A policy `.*` for the queues of applications reaches the gateway's, too. Then the bound that counts is the
policy's, or an operator policy's, if it is lower than the declared one, and the broker drops events silently.

Which policies reach a queue is asked of the broker, and not found out by matching: a pattern, which each user
with the tag ``policymaker`` may set, can take a regular expression of Python for ever.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from gateway.mapping.paths import Json
from gateway.model.times import MILLISECOND, SECOND
from gateway.sources.rabbitmq.management_api import Answer, Broken, Document, NotFound, Refused
from gateway.sources.rabbitmq.object_names import OWN_QUEUES

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
_KINDS: Final = {"policy": "policy", "operator_policy": "operator policy"}
_ELSEWHERE: Final = ("exchanges", "streams")
"""Values of ``apply-to`` by which a policy reaches no queue of the gateway; an answer may have any other."""
SPARE_OWN: Final = r"let its pattern begin with ^(?!amqp-gateway\.) to spare the gateway's queues"
_SPARING: Final = r"^(?!amqp-gateway\.)"
_BEGINNING: Final = re.compile(r"\^((?:[A-Za-z0-9_-]|\\\.)+)(.?)", re.DOTALL)
"""The characters with which all that a pattern matches begins; the last one may be optional."""
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

    def with_those(self, others: QueuePolicies) -> QueuePolicies:
        """Return the lowest bounds of these policies and of others, with the first text."""
        lengths = [one for one in (self.max_length, others.max_length) if one is not None]
        times = [one for one in (self.ttl, others.ttl) if one is not None]
        return QueuePolicies(self.text or others.text, min(lengths, default=None), min(times, default=None))

    @property
    def lets_nothing_wait(self) -> bool:
        """Whether messages may be dropped before a look into the queue finds them."""
        return self.max_length == 0 or (self.ttl is not None and self.ttl < SECOND)

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


def policies_of(queue: str, declared: int, answer: Answer, carried: str = "events") -> QueuePolicies | None:
    """Return what policies make of a queue; ``None`` if the answer does not show that.

    RabbitMQ takes this from its statistics, which are as old as their interval. Of a new queue, and where
    statistics are off, 3.10 lacks the fields and 4.0 the whole answer.

    Args:
        queue: the name of the queue.
        declared: the number of messages to which it is declared to be bounded.
        answer: the management API's answer to the request for the queue's policies (`QueuePoliciesRequest`).
        carried: what the queue carries, for people.
    """
    body = answer.body if isinstance(answer, Document) else None
    found = reaching(declared, body)
    if found is None:
        return None
    effects, named = found
    if not effects:
        return NONE
    text = f"{named} reaches the gateway's own queue {queue}, which may lose {carried}: {SPARE_OWN}"
    return _bounds(text, effects)


def reaching(declared: int, document: Json) -> tuple[dict[str, Json], str] | None:
    """Return what policies demand of a queue by which messages are lost to it, and which these are.

    Args:
        declared: the number of messages to which it is declared to be bounded.
        document: the queue, as the management API shows it.

    Returns:
        ``None`` if the document does not show that.
    """
    if not isinstance(document, Mapping) or "effective_policy_definition" not in document:
        return None
    definition = document["effective_policy_definition"]
    if not isinstance(definition, Mapping):
        return None if definition else ({}, "")
    effects = _effects(definition, declared)
    named = [f"the {kind} {document[key]!r}" for key, kind in _KINDS.items() if document.get(key)]
    return effects, f"{' and '.join(named) or 'a policy'} ({_shown(effects)})"


def candidates_of(
    queue: str, declared: int, usual: Answer, operator: Answer, carried: str = "events"
) -> QueuePolicies | None:
    """Return the lowest bounds of all policies that may reach a queue, if the broker does not say which do.

    Args:
        queue: the name of the queue.
        declared: the number of messages to which it is declared to be bounded.
        usual: the management API's answer to the request for the policies of the virtual host.
        operator: likewise for operator policies. What may not be read is taken for none.
        carried: what the queue carries, for people.
    """
    found = NONE
    for kind, answer in zip(_KINDS.values(), (usual, operator), strict=True):
        listed = [] if _may_not_be_read(answer) else getattr(answer, "body", None)
        if not isinstance(listed, list):
            return None
        for policy in listed:
            effects = _effects_of_policy(queue, declared, policy)
            if isinstance(policy, Mapping) and effects:
                text = (
                    f"the {kind} {policy.get('name')!r} ({_shown(effects)}) may reach the gateway's own queue"
                )
                found = found.with_those(
                    _bounds(f"{text} {queue}, which may lose {carried}: {SPARE_OWN}", effects)
                )
    return found


def _may_not_be_read(answer: Answer) -> bool:
    match answer:
        case Refused(login=False) | NotFound() | Broken(permanent=True):
            return True
    return False


def _effects_of_policy(queue: str, declared: int, policy: Json) -> dict[str, Json]:
    if not isinstance(policy, Mapping) or policy.get("apply-to") in _ELSEWHERE:
        return {}
    definition = policy.get("definition")
    if not isinstance(definition, Mapping) or certainly_spares(policy.get("pattern"), queue):
        return {}
    return _effects(definition, declared)


def _effects(definition: Mapping[str, Json], declared: int) -> dict[str, Json]:
    """Return what a definition demands of a queue by which messages are lost to it."""
    length = definition.get(MAX_LENGTH)
    is_longer = isinstance(length, int) and length >= declared
    return {
        key: definition[key] for key in _NAMED if key in definition and not (key == MAX_LENGTH and is_longer)
    }


def _shown(effects: Mapping[str, Json]) -> str:
    return ", ".join(f"{key}: {value!s:.{_MAX_SHOWN}}" for key, value in effects.items())


def _bounds(text: str, effects: Mapping[str, Json]) -> QueuePolicies:
    ttl = _number(effects, TTL)
    return QueuePolicies(text, _number(effects, MAX_LENGTH), None if ttl is None else ttl * MILLISECOND)


def _number(effects: Mapping[str, Json], key: str) -> int | None:
    """Return a bound, ``None`` for none; a value that is no number counts as one that lets nothing wait."""
    if key not in effects:
        return None
    value = effects[key]
    return value if isinstance(value, int) else 0


def certainly_spares(pattern: Json, queue: str) -> bool:
    """Return whether a policy's pattern shows without being matched that it does not match a queue.

    Most patterns of applications name the beginning of their queues' names, or a whole one.
    """
    if not isinstance(pattern, str) or "|" in pattern:
        return False
    found = _BEGINNING.match(pattern)
    if found is None:
        return pattern.startswith(_SPARING) and queue.startswith(OWN_QUEUES)
    literal = found[1].replace("\\.", ".")
    if pattern[found.end(1) :] == "$":
        return queue != literal
    certain = literal[:-1] if found[2] in {"*", "?", "{"} else literal
    return not queue.startswith(certain)


POLICY_EVENTS: Final = frozenset({"policy.set", "policy.cleared", "parameter.set", "parameter.cleared"})
"""Events of changes of policies; an operator policy is a parameter in them."""


class PossibleDrops:
    """Determines whether policies may have let the broker drop messages of a queue.

    What is received, and how long that takes, is measured between two times at which the queue was seen
    empty. Each policy counts that may have applied in between: those that the broker named, and those that
    were set meanwhile by the events of that, whose patterns are not matched. A policy that begins to apply
    because another one is cleared, and is cleared itself before the broker is asked again, is missed. Of what
    waited while the gateway was away each change counts: an event shows neither what it replaced, nor what
    another one overruled, and earlier events may have been dropped.

    Args:
        virtual_host: where the queue is.
        queue: its name.
        declared: the number of messages to which it is declared to be bounded.

    Attributes:
        emptied_at: the last time at which it was seen empty (ns); 0 for never. A time before the first one
            counts as one in which unknown policies may have applied.
    """

    def __init__(self, virtual_host: str, queue: str, declared: int) -> None:
        self.emptied_at = 0
        self._virtual_host = virtual_host
        self._queue = queue
        self._declared = declared
        self._received = self._most = self._longest = 0
        self._is_measured = False
        self._earlier = self._seen = NONE
        self._changed_while_away = ""

    def arrived(self, key: str, headers: Mapping[str, Json]) -> None:
        """Note that an event arrived."""
        self._received += 1
        if key in POLICY_EVENTS and headers.get("vhost") == self._virtual_host:
            self._changed(key, headers)

    def _changed(self, key: str, headers: Mapping[str, Json]) -> None:
        """Take the event of a change; that of an operator policy is the event of the parameter that it is."""
        name, value = str(headers.get("name")), headers
        if key.startswith("parameter."):
            if headers.get("component") != "operator_policy":
                return
            set_to = headers.get("value")
            name, value = f"operator policy {name}", set_to if isinstance(set_to, Mapping) else {}
        if not self.emptied_at:
            text = f"{key} of {name!r}: what applied before may have let the queue {self._queue} drop events"
            self._changed_while_away = self._changed_while_away or text
        if key.endswith(".set"):
            text = f"{key} of {name!r}: it may have let the queue {self._queue} drop events"
            effects = _effects_of_policy(self._queue, self._declared, dict(value))
            if effects:
                self._seen = self._seen.with_those(_bounds(text, effects))

    def emptied(self, asked: int, now: int) -> None:
        """Note that no message waited in the queue at some time from ``asked`` to ``now`` (ns).

        All that was published to it before ``asked`` has arrived.
        """
        self._most, self._longest = max(self._most, self._received), max(self._longest, now - self.emptied_at)
        self._received, self.emptied_at, self._is_measured = 0, asked, True

    def found(self, policies: QueuePolicies) -> str:
        """Take what the broker says that applies; return why messages may have been dropped, or nothing."""
        self._seen = self._seen.with_those(policies)
        if not self._is_measured:
            return ""
        judged = (policies, self._seen, self._earlier)
        drops = [one.text for one in judged if one.may_have_dropped(self._most, self._longest)]
        reason = self._changed_while_away or (drops[0] if drops else "")
        # What was received since may have begun before these policies were asked for.
        self._earlier, self._seen = self._seen, policies
        self._most = self._longest = 0
        self._changed_while_away, self._is_measured = "", False
        return reason
