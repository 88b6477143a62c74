"""Requests to the management API, and what any response means."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.mapping.paths import Json
from gateway.sources.rabbitmq.listing import page_of
from gateway.sources.rabbitmq.management_api import (
    Answer,
    BeyondLastPage,
    Broken,
    Document,
    ListingRequest,
    NotFound,
    NotManagement,
    ObjectRequest,
    PermissionRequest,
    Refused,
    Unavailable,
    answer_of,
)
from gateway.sources.rabbitmq.object_names import ObjectName
from tests.sources.rabbitmq.documents import any_json


def test_requests_are_limited_to_pages_and_columns_and_quote_names() -> None:
    listing = ListingRequest("queue", "queues", ("name", "message_stats.ack"), 3)
    assert listing.target == "queues?page=3&page_size=500&columns=name,message_stats.ack"
    assert ListingRequest("channel", "channels", ()).target == "channels?page=1&page_size=500"
    assert ListingRequest("vhost", "vhosts", ("name", "tags")).target == "vhosts?columns=name,tags"
    assert ListingRequest("vhost", "vhosts", ()).target == "vhosts"
    queue = ObjectRequest(ObjectName("queue", ("/", "a/b c?")), "queues")
    assert queue.target == "queues/%2F/a%2Fb%20c%3F?columns=name"
    assert PermissionRequest("/").target == "exchanges/%2F?page=1&page_size=1&columns=name"


@pytest.mark.parametrize(
    ("status", "body", "answer"),
    [
        (200, b'{"a":[1]}', Document({"a": [1]})),
        (200, b"<html>", NotManagement("it answers with something else than JSON")),
        (200, b'{"a":NaN}', NotManagement("it answers with something else than JSON")),
        (200, b"[" * 100_000, NotManagement("it answers with something else than JSON")),
        (200, b"\xff\xfe", NotManagement("it answers with something else than JSON")),
        (401, b'{"error":"not_authorized","reason":"Login failed"}', Refused(True, "Login failed")),
        (
            401,
            b'{"error":"not_authorised","reason":"Not management user"}',
            Refused(True, "Not management user"),
        ),
        (
            401,
            b'{"error":"not_authorised","reason":"User not authorised to access virtual host"}',
            Refused(False, "User not authorised to access virtual host"),
        ),
        (403, b"", Refused(True, "status 403")),
        (404, b'{"error":"Object Not Found","reason":"Not Found"}', NotFound()),
        (404, b"<html>", NotManagement("it knows no such path (404)")),
        (400, b'{"error":"page_out_of_range","reason":"Page out of range"}', BeyondLastPage()),
        (400, b'{"error":"bad_request","reason":"no\\nway"}', NotManagement("no way")),
        (500, b"", Broken("status 500")),
        (503, b'{"error":"x","reason":"starting"}', Unavailable("status 503: starting", responded=True)),
        (302, b"", NotManagement("it answers with status 302")),
    ],
)
def test_responses(status: int, body: bytes, answer: Answer) -> None:
    assert answer_of(status, body) == answer


@given(st.sampled_from([200, 204, 400, 401, 403, 404, 500, 503]), st.binary(max_size=40))
def test_any_response_is_an_answer(status: int, body: bytes) -> None:
    page_of(answer_of(status, body))


def test_pages() -> None:
    items: list[Json] = [{"name": "a"}]
    assert page_of(Document({"items": items, "page": 1, "page_count": 2})) == (items, False)
    assert page_of(Document({"items": items, "page": 2, "page_count": 2})) == (items, True)
    assert page_of(Document({"items": [], "page": 1, "page_count": 9})) == ([], True)
    assert page_of(Document(items)) == (items, True)
    assert page_of(BeyondLastPage()) == ([], True)
    assert page_of(Document({"items": items})) is None
    assert page_of(Document("queues")) is None
    assert page_of(NotFound()) is None


@given(any_json())
def test_any_document_is_a_page_or_none(document: Json) -> None:
    page_of(Document(document))
