"""Bindings: what events and listings call them, and whether they last."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote_plus

from gateway.mapping.paths import Json

DEFAULT_EXCHANGE = ""
"""It has a binding to every queue, by the queue's name: no event tells of these, and they are not shown."""


def properties_key(routing_key: str) -> str:
    """What RabbitMQ calls a binding without arguments among those between the same two.

    As ``rabbit_mgmt_format:pack_binding_props``: the routing key, encoded as in a form; ``~`` where it is
    empty, because in the names of bindings with arguments a tilde comes before the digest of these.
    """
    return quote_plus(routing_key, safe="", errors="surrogatepass").replace("~", "%7E") or "~"


def completed_binding(document: Mapping[str, Json]) -> dict[str, Json]:
    """A binding, out of a listing or an event's headers, with its destination where its kind belongs.

    An event tells the routing key only: `properties_key` of it stands as ``properties_key`` then.
    """
    completed = dict(document)
    event = "destination_kind" in document
    kind = document.get("destination_kind" if event else "destination_type")
    name = document.get("destination_name" if event else "destination")
    if isinstance(kind, str) and isinstance(name, str):
        if event:
            completed[f"destination_{kind}"] = name
        else:
            completed["gateway"] = {f"destination_{kind}": name}
    key = document.get("routing_key")
    if event and isinstance(key, str):
        completed["properties_key"] = properties_key(key)
    return completed
