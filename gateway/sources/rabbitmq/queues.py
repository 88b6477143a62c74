"""Queues: what their listing says only together with how they were declared."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gateway.mapping.paths import Json

COLUMNS: Final = (
    "type",
    "messages",
    "arguments",
    "effective_policy_definition",
    "single_active_consumer_tag",
    "single_active_consumer_ctag",
)
"""What is needed of a listing for this."""
MEASURED_TYPES: Final = frozenset({"classic", "quorum"})


def completed_queue(queue: Mapping[str, Json]) -> Mapping[str, Json]:
    """``queue`` with what follows from the rest: its state, and the tag of its single active consumer.

    The tag stands under ``gateway``, if the queue has such a consumer at all: RabbitMQ 4.x fills the tag of
    ordinary quorum queues too. Those of 3.10 spell it in a way of their own.

    Of a queue whose replicas lack a majority, RabbitMQ 4.0 reports ``minority``. 3.10 reports no state, or
    goes on with ``running`` where the leader is left. A stream is ``down`` to the broker while its replicas
    elect a leader, which takes them seconds where a majority is online: its state is ``electing`` then.
    """
    if queue.get("state") in (None, "running") and _lacks_majority(queue):
        queue = {**queue, "state": "minority"}
    elif queue.get("state") == "down" and queue.get("type") == "stream" and _has_majority(queue):
        queue = {**queue, "state": "electing"}
    tag = queue.get("single_active_consumer_tag") or queue.get("single_active_consumer_ctag")
    if not tag or not _has_single_active_consumer(queue):
        return queue
    return {**queue, "gateway": {"single_active_consumer_tag": tag}}


def is_measured(queue: Mapping[str, Json]) -> bool:
    """Whether a counter that the listing of a queue leaves out is one of which there was nothing to count.

    RabbitMQ counts for classic and quorum queues only. For some seconds after a restart it tells neither
    counters nor ``messages``; with these the counters are known.
    """
    return queue.get("type") in MEASURED_TYPES and isinstance(queue.get("messages"), int)


def _has_majority(queue: Mapping[str, Json]) -> bool:
    members, online = queue.get("members"), queue.get("online")
    return isinstance(members, list) and isinstance(online, list) and 2 * len(online) > len(members)


def _lacks_majority(queue: Mapping[str, Json]) -> bool:
    members, online = queue.get("members"), queue.get("online")
    if not isinstance(members, list) or not isinstance(online, list):
        return False
    return bool(members) and 2 * len(online) <= len(members)


def _has_single_active_consumer(queue: Mapping[str, Json]) -> bool:
    arguments, policy = queue.get("arguments"), queue.get("effective_policy_definition")
    asked = isinstance(arguments, Mapping) and arguments.get("x-single-active-consumer") is True
    return asked or (isinstance(policy, Mapping) and policy.get("single-active-consumer") is True)
