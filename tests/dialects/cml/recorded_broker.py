"""The recorded OpenAMQ as a peer: it answers with the octets that it was recorded to send."""

from __future__ import annotations

from collections import defaultdict
from functools import cache

from gateway.dialects.cml.codec import read_message
from gateway.dialects.cml.messages import InspectReply, InspectRequest, Request, SchemaRequest, Status
from tests.dialects.cml.recordings import exchange, exchanges

_NOT_FOUND = 'inspect-reply status="notfound"'


@cache
def inspected() -> dict[int, list[tuple[InspectReply, bytes]]]:
    """All that was told of each object, by its number, in the order of recording."""
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
    """What the broker was recorded to answer first, for an object of that class; else that there is none."""
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
    """The recorded answer about what is not there."""
    return next(reply for each in exchanges() for reply in each.replies if _NOT_FOUND.encode() in reply)
