"""Consumers: what they were started on, where the broker names no channel.

A consumer of AMQP 0-9-1 has a channel, by whose name and its tag it is known. A stream or MQTT consumer has a
connection only (``channel_details.name`` is empty), and of one of AMQP 1.0 the broker says nothing but queue
and tag (``channel_details`` is ``{}`` or ``[]``). Its tag is the handle of its link, so that the first links
of any number of clients have the same one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Final

from gateway.mapping.paths import Json
from gateway.sources.rabbitmq.object_names import ObjectName

CONSUMER: Final = "consumer"
_PLACE: Final = 2
"""Where the name of a consumer says what it was started on."""


def is_anonymous(name: ObjectName) -> bool:
    """Whether the broker names neither channel nor connection of a consumer.

    Events of such consumers name it neither, so that only listings say which are there.
    """
    return name.class_name == CONSUMER and (not name.parts[_PLACE] or name.parts[_PLACE].startswith("("))


def placed_consumers(items: Iterable[Json]) -> list[Json]:
    """All consumers of a virtual host or broker, each with what it was started on as ``gateway.channel``.

    That is the name of its channel or else of its connection. Those that have neither and share queue and tag
    are numbered: the first has an empty text, further ones ``(2)``, ``(3)`` and so on. They are taken in the
    order of what else is said of them, so that equal answers in another order give equal names.
    """
    placed: list[Json] = []
    alike: dict[str, list[Mapping[str, Json]]] = {}
    for item in items:
        if not isinstance(item, Mapping):
            continue
        place = _started_on(item)
        if place:
            placed.append({**item, "gateway": {"channel": place}})
        else:
            alike.setdefault(_text([item.get("queue"), item.get("consumer_tag")]), []).append(item)
    for consumers in alike.values():
        ordered = sorted(consumers, key=_text)
        for number, consumer in enumerate(ordered, start=1):
            placed.append({**consumer, "gateway": {"channel": f"({number})" if number > 1 else ""}})
    return placed


def _started_on(consumer: Mapping[str, Json]) -> str:
    details = consumer.get("channel_details")
    if not isinstance(details, Mapping):
        return ""
    names = (details.get("name"), details.get("connection_name"))
    return next((name for name in names if isinstance(name, str) and name), "")


def _text(value: Json) -> str:
    """The same text for equal values; empty for what is nested too deep."""
    try:
        return json.dumps(value, sort_keys=True)
    except RecursionError:
        return ""
