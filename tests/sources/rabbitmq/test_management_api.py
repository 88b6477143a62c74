"""Requests to the management API, and the meanings of its responses."""

from __future__ import annotations

import contextlib
import json
from datetime import UTC, datetime
from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.mapping.paths import Json
from gateway.model.times import SECOND
from gateway.sources.rabbitmq.management_api import (
    NO_API,
    NO_JSON,
    WITHHELD,
    Answer,
    BeyondLastPage,
    Broken,
    Document,
    ListingDecoder,
    ListingRequest,
    NotFound,
    NotManagement,
    ObjectRequest,
    PermissionRequest,
    Refused,
    Unavailable,
    answer_of,
    demanded_pause,
    is_without_api,
    page_of,
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
    assert queue.target == "queues/%2F/a%2Fb%20c%3F?columns=name,vhost,user"
    assert PermissionRequest("/").target == "exchanges/%2F?page=1&page_size=1&columns=vhost,name"


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
        (401, b"<html>", Refused(True, "status 401 in another form than RabbitMQ's: a proxy's")),
        (404, b'{"error":"Object Not Found","reason":"Not Found"}', NotFound()),
        (404, b'{"error":"not_found","reason":"Not Found"}', Refused(False, WITHHELD)),
        (404, b"<html>", NotManagement("it knows no such path (404)")),
        (400, b'{"error":"page_out_of_range","reason":"Page out of range"}', BeyondLastPage()),
        (400, b'{"error":"bad_request","reason":"no\\nway"}', NotManagement("no way")),
        (500, b"", Broken("status 500")),
        (503, b'{"error":"x","reason":"starting"}', Unavailable("status 503: starting", responded=True)),
        (503, b'{"status":"failed","expired":[]}', Document({"status": "failed", "expired": []})),
        (503, b'{"status":"failed","missing":[5]}', Unavailable("status 503", responded=True)),
        (302, b"", NotManagement("it answers with status 302")),
    ],
)
def test_responses(status: int, body: bytes, answer: Answer) -> None:
    assert answer_of(status, body) == answer


MISSING = b'{"error":"Object Not Found","reason":"Not Found"}'
POLICY = "script-src 'self' 'unsafe-eval' 'unsafe-inline'; object-src 'self'"


@pytest.mark.parametrize(
    ("headers", "answer"),
    [
        ({"server": "Cowboy"}, Unavailable(NO_API, responded=True)),
        ({"server": "Cowboy", "vary": "accept-encoding"}, Unavailable(NO_API, responded=True)),
        (
            {
                "server": "Cowboy",
                "content-security-policy": POLICY,
                "vary": "accept, accept-encoding, origin",
            },
            NotFound(),
        ),
        ({"server": "Cowboy", "content-security-policy": POLICY, "vary": "origin"}, NotFound()),
        ({"server": "nginx"}, NotFound()),
    ],
    ids=["3.10 that stops", "4.0 that stops", "no such object", "no such path", "a proxy that drops headers"],
)
def test_a_404_of_a_node_without_management_api_says_nothing_of_an_object(
    headers: dict[str, str], answer: Answer
) -> None:
    """The headers of RabbitMQ; the body is the same."""
    assert answer_of(404, MISSING, lacks_api=is_without_api(headers)) == answer


@pytest.mark.parametrize(
    ("status", "retry_after", "seconds"),
    [
        (429, "7", 7),
        (429, "", 5),
        (429, "soon", 5),
        (503, " 7 ", 7),
        (503, "", 0),
        (503, "-1", 0),
        (503, "9" * 5_000, 60),
        (503, f"Fri, 27 Nov {'9' * 20} 12:00:00 GMT", 0),
        (503, f"Fri, 27 Nov 2026 12:00:09 +{'9' * 20}", 0),
        (503, "Fri, 27 Nov 2026 12:00:09 GMT", 9),
        (503, "Fri, 27 Nov 2026 11:00:00 GMT", 0),
        (429, "Fri, 27 Nov 2036 12:00:00 GMT", 60),
        (502, "7", 0),
    ],
)
def test_a_server_may_demand_a_pause(status: int, retry_after: str, seconds: int) -> None:
    """RFC 9110 section 10.2.3: a number of seconds, or a date."""
    pause = demanded_pause(retry_after, datetime(2026, 11, 27, 12, tzinfo=UTC))
    assert answer_of(status, b"", pause) == Unavailable(
        f"status {status}", responded=True, pause=seconds * SECOND
    )


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
    assert page_of(Document({"items": items, "page": 2, "page_count": 3}), 2) == (items, False)
    assert page_of(Document({"items": items, "page": 1, "page_count": 3}), 2) is None
    assert page_of(Document({"items": items, "page": 1, "page_count": 10**20})) is None
    assert page_of(Document({"items": items})) is None
    assert page_of(Document("queues")) is None
    assert page_of(NotFound()) is None


@given(any_json())
def test_any_document_is_a_page_or_none(document: Json) -> None:
    page_of(Document(document))


def decoded(body: bytes) -> list[Json]:
    decoder = ListingDecoder(body)
    for _ in decoder.steps():
        pass
    return decoder.elements


def test_many_elements_take_many_steps() -> None:
    queues = [{"name": f"q{number}"} for number in range(1_000)]
    decoder = ListingDecoder(json.dumps(queues).encode())
    assert sum(1 for _ in decoder.steps()) == 19
    assert decoder.elements == queues


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b"[",
        b"[1 2]",
        b"[1]]",
        b"[NaN]",
        b'["\xff"]',
        b"[1],",
        b"[" * 100_000,
    ],
)
def test_what_is_no_listing_is_an_error(body: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        decoded(body)


def has_a_form(document: list[Json]) -> bool:
    """Return whether JSON has a form for all that it holds.

    It has none for NaN and infinities, nor for halves of a surrogate pair that are two characters.
    """
    try:
        return bool(json.loads(json.dumps(document, allow_nan=False)) == document)
    except ValueError:
        return False


@given(st.lists(any_json(), max_size=5).filter(has_a_form), st.sampled_from([None, 1]))
def test_an_array_is_the_same_as_at_once(document: list[Json], indent: int | None) -> None:
    assert decoded(json.dumps(document, indent=indent).encode()) == document


@given(st.text(alphabet='[]{},:"0 1tru\\e\n', max_size=20))
def test_any_text_is_an_array_or_one_error(text: str) -> None:
    try:
        expected = json.loads(text)
    except ValueError:
        expected = None
    if isinstance(expected, list):
        assert decoded(text.encode()) == expected
    else:
        with contextlib.suppress(ValueError):
            assert None in decoded(text.encode()), "in the place of what is no JSON"


BAD = {
    "number": b'{"name":"b","n":NaN}',
    "octets": b'{"name":"\xff"}',
    "digits": b'{"n":' + b"9" * 5_000 + b"}",
    "comma": b'{"name":"b",,}',
    "depth": b"[" * 100_000 + b"]" * 100_000,
}


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
@pytest.mark.parametrize("form", [b"[%s]", b'{"filtered_count":3,"items":[%s],"page":1,"page_count":1}'])
def test_one_object_of_a_listing_that_is_no_json_costs_no_other(form: bytes, bad: bytes) -> None:
    good: list[Json] = [{"name": "a,]}", "inner": [{"x": [1]}, '"']}, {"name": "c"}]
    one, other = (json.dumps(item).encode() for item in good)
    found = page_of(answer_of(200, form % b" , ".join((one, bad, other))))
    assert found == ([good[0], None, good[1]], True)


def test_a_long_object_that_is_no_json_takes_many_steps() -> None:
    decoder = ListingDecoder(b'[1,{"name":NaN,"inner":[%s]}]' % b",".join([b"{}"] * 10_000))
    assert sum(1 for _ in decoder.steps()) >= 10
    assert decoder.document == Document([1, None])


@pytest.mark.parametrize(
    "body",
    [b"[NaN]", b'[{"a":NaN},', b'[{"a":1}', b'{"items":[NaN]', b"[", b'{"a":[1,NaN]}', b"[,]", b"[1,{]}]"],
)
def test_what_is_no_whole_listing_is_none(body: bytes) -> None:
    assert answer_of(200, body) == NO_JSON


@pytest.mark.parametrize("piece", [b'\\"', b'"', b"\\\\", b",", b"{", b'"\\'])
def test_a_listing_that_was_cut_takes_linear_time(piece: bytes) -> None:
    """A string that does not end was read to the end of the body from each quote in it."""
    body = b'["' + piece * (160_000 // len(piece))
    began = process_time()
    assert answer_of(200, body) == NO_JSON
    assert process_time() - began < 10


@given(st.text(alphabet='[]{},:"0 1N\\e\n', max_size=20))
def test_any_text_is_an_answer(text: str) -> None:
    answer_of(200, text.encode())
