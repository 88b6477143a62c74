"""The recorded OpenAMQ as a peer, which answers with the recorded octets."""

from __future__ import annotations

from collections import defaultdict
from functools import cache

from gateway.dialects.cml.codec import read_message
from gateway.dialects.cml.messages import InspectReply, InspectRequest, Request, SchemaRequest, Status
from tests.dialects.cml.recordings import exchange, exchanges

_NOT_FOUND = 'inspect-reply status="notfound"'


@cache
def inspected() -> dict[int, list[tuple[InspectReply, bytes]]]:
    """Return all recorded inspections of each object, by its number, in the order of recording."""
    found: dict[int, list[tuple[InspectReply, bytes]]] = defaultdict(list)
    for body in (reply for each in exchanges() for reply in each.replies):
        message = read_message(body)
        if (
            isinstance(message, InspectReply)
            and message.status == Status.OK
            and message.object_id is not None
        ):
            found[message.object_id].append((message, body))
    return found


def answer(request: Request) -> bytes:
    """Return the first recorded answer for an object of that class, or else the one for a missing object."""
    if isinstance(request, SchemaRequest):
        return exchange("schema-002").replies[0]
    assert isinstance(request, InspectRequest)
    assert isinstance(request.object_id, int)
    for message, body in inspected().get(request.object_id, ()):
        if request.class_name in ("", message.class_name):
            return body
    return not_found()


@cache
def not_found() -> bytes:
    """Return the recorded answer about a missing object."""
    return next(reply for each in exchanges() for reply in each.replies if _NOT_FOUND.encode() in reply)
