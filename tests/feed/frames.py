"""Frames of the feed from any msgpack, and the one message of a frame."""

from __future__ import annotations

import struct

import msgpack

from gateway.feed.messages import FeedRequest, FrameReader, RequestReader
from gateway.feed.records import FeedMessage

EXTENDED = 1 << 31


def framed(body: object) -> bytes:
    """Return a frame, which says that it may have values that are extensions."""
    packed: bytes = msgpack.packb(body)
    return struct.pack(">I", len(packed) | EXTENDED) + packed


def message_of(frame: bytes) -> FeedMessage:
    """Return the message of the core in a frame."""
    (message,) = FrameReader().feed(frame)
    return message


def request_of(frame: bytes) -> FeedRequest:
    """Return the message of a front end in a frame."""
    (request,) = RequestReader().feed(frame)
    return request
