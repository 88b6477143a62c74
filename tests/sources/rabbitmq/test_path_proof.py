"""The proof that names arrive in paths, before servers that change paths in various ways."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Sequence
from functools import partial
from urllib.parse import quote, unquote, unquote_to_bytes

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.sources.rabbitmq.object_names import ByteName, recorded_name
from gateway.sources.rabbitmq.path_proof import (
    NO_PATH,
    NOT_SHOWN,
    PathAnswer,
    PathProof,
    path_of,
    proof_steps,
    takes_proof,
)
from tests.components.changing_proxy import PathChange, decoded, escaped_twice, kept, lower_case

Served = tuple[int, bytes]
"""Status and body of an answer."""

Server = Callable[[str], Served]
"""Returns the answer to a target."""

ECHO = "health/checks/protocol-listener"


def reencoded(path: str) -> str:
    """Return a path as Python's library makes it again."""
    return quote(unquote(path))


def rabbitmq(target: str, *, listed: bool = False, hosts: Sequence[str] = ("/",)) -> Served:
    """Return what RabbitMQ answers to a target below ``/api/``, with these virtual hosts."""
    segments = [unquote(segment) for segment in target.partition("?")[0].split("/")]
    if "/".join(segments[:-1]) == ECHO and segments[-1]:
        missing = segments[-1].lower()
        return 503, json.dumps({"missing": [missing] if listed else missing}).encode()
    if segments == ["vhosts"]:
        return 200, json.dumps([{"name": host} for host in hosts]).encode()
    if segments in [["exchanges", host, "amq.direct"] for host in hosts]:
        return 200, json.dumps({"name": "amq.direct", "vhost": segments[1]}).encode()
    return 404, b'{"error": "Object Not Found"}'


def proved(
    change: PathChange, serve: Callable[[str], Served] = rabbitmq, most: int = 20, pause: int = 0
) -> PathProof | PathAnswer:
    """Return the result of a proof behind a server that changes paths so; each 503 demands ``pause``."""
    steps = proof_steps()
    target = next(steps)
    for _ in range(most):
        path, mark, query = target.partition("?")
        try:
            status, body = serve(change(f"/{path}")[1:] + mark + query)
            target = steps.send(PathAnswer(status, body, pause if status == 503 else 0))
        except StopIteration as end:
            result: PathProof | PathAnswer = end.value
            return result
    raise AssertionError(f"more than {most} requests")


@pytest.mark.parametrize(
    ("change", "altered"),
    [
        (kept, ""),
        (decoded, "/"),
        (escaped_twice, "/%;?#+ \\&=|\n"),
        (reencoded, "/"),
        (lower_case, "A"),
        (lambda path: path.replace("%25", "%"), "%"),
        # Apache 2.4.71 with AllowEncodedSlashes NoDecode, without nocanon.
        (lambda path: path.replace("%252F", "%2F").replace("%252f", "%2f"), "%"),
        # A rewriting rule whose expression ends before a line feed.
        (lambda path: path if "%0A" not in path else f"/rabbit{path}", "\n"),
        (lambda path: path.replace("%2B", "%20"), "+"),
        (lambda path: path.replace("%3B", ";").partition(";")[0], ";"),
        (lambda path: path.replace("%5C", "/"), "\\"),
        (lambda path: path.replace("%2F..%2F", "/"), "/"),
        (lambda path: path.replace("%2F%2F", "%2F"), "/"),
    ],
)
def test_what_does_not_arrive_is_found(change: PathChange, altered: str) -> None:
    assert proved(change) == PathProof(frozenset(altered))
    assert proved(change, lambda target: rabbitmq(target, listed=True)) == PathProof(frozenset(altered))


def test_a_name_that_is_no_utf8_is_its_bytes_in_a_path() -> None:
    name = ByteName.of(b"caf\xe9/")
    assert name == "caf\\xe9/"
    assert path_of("queues", "/", name) == "queues/%2F/caf%E9%2F"
    assert path_of("queues", "/", "caf\\xe9") == "queues/%2F/caf%5Cxe9"
    assert path_of("queues", "/", recorded_name(str(name))) == "queues/%2F/caf%E9%2F"
    assert not isinstance(recorded_name("caf\\x41"), ByteName)


def test_a_name_without_its_bytes_has_no_path() -> None:
    assert PathProof().fault(path_of("queues", "/", "caf\ufffd")) == NOT_SHOWN
    assert PathProof().fault(path_of("queues", "/", ByteName.of(b"caf\xe9"))) == ""
    assert PathProof().fault(path_of("queues", "/", "caf\u00e9")) == ""


def test_what_decodes_a_path_may_change_the_bytes_of_a_name_that_is_no_utf8() -> None:
    """Python's ``quote(unquote(path))`` makes the path of the queue ``caf`` with U+FFFD of it."""
    proof = proved(reencoded)
    assert isinstance(proof, PathProof)
    assert proof.fault(path_of("queues", "shop", ByteName.of(b"caf\xe9"))).endswith("names are no UTF-8")
    assert proof.fault(path_of("queues", "shop", "caf\u00e9")) == ""


def test_a_path_that_arrives_takes_two_requests() -> None:
    assert proved(kept, most=2) == PathProof()


def hidden(answer: Served, serve: Callable[[str], Served] = rabbitmq) -> Callable[[str], Served]:
    """Return a server that answers so in place of each 503 of the broker, as ``error_page`` of nginx."""

    def served(target: str) -> Served:
        status, body = serve(target)
        return answer if status == 503 else (status, body)

    return served


CHECKED = "/%;?#+ \\&=|\n"
PAGES = ((503, b"<html>busy"), (200, b"sorry"), (404, b""))
"""What a proxy may answer in the place of the broker's 503."""


def unproved(characters: str) -> PathProof:
    return PathProof(frozenset(characters), proved=False)


@pytest.mark.parametrize("page", PAGES)
def test_where_the_answer_is_hidden_known_objects_prove_what_is_in_their_names(page: Served) -> None:
    others = CHECKED.replace("/", "")
    # That of `/` proves the slash alone. No object is called as another one, but for capital letters.
    assert proved(kept, hidden(page)) == unproved(others)
    assert proved(escaped_twice, hidden(page)) == unproved(CHECKED + "A")
    assert proved(decoded, hidden(page)) == unproved(CHECKED + "A")
    assert proved(lower_case, hidden(page)) == unproved(others + "A")


@pytest.mark.parametrize(
    ("hosts", "left"),
    [
        (("shop",), CHECKED),  # the broker has no `/`, or the user no rights there
        (("a/b",), CHECKED.replace("/", "")),
        (("Shop", "a b", "a b+c", "x|y"), "/%;?#\\&=\n"),
        (("%41", "..", "\ufffd"), CHECKED + "A"),
        ((), CHECKED + "A"),
    ],
)
def test_without_a_virtual_host_slash_others_prove_it(hosts: Sequence[str], left: str) -> None:
    for page in PAGES:
        assert proved(kept, hidden(page, partial(rabbitmq, hosts=hosts))) == unproved(left)
    if "/" not in left:
        assert proved(decoded, hidden(PAGES[0], partial(rabbitmq, hosts=hosts))) == unproved(CHECKED + "A")


def test_names_with_what_is_not_proved_are_not_asked_for() -> None:
    proof = proved(kept, hidden(PAGES[0]))
    assert isinstance(proof, PathProof)
    assert proof.fault(path_of("queues", "/", "a/b")) == ""
    assert proof.fault(path_of("queues", "/", "Caf\u00e9")) == ""
    assert proof.fault(path_of("queues", "/", "a;b")).startswith("it is not proved that a line feed")


@pytest.mark.parametrize("status", [401, 429, 500, 502, 503, 504])
def test_a_server_that_serves_nothing_proves_nothing(status: int) -> None:
    assert proved(kept, lambda _: (status, b"")) == PathAnswer(status, b"")


def test_a_pause_that_is_demanded_ends_the_proof() -> None:
    demand = PathAnswer(503, b"", 2_000_000_000)
    steps = proof_steps()
    next(steps)
    with pytest.raises(StopIteration) as ended:
        steps.send(demand)
    assert ended.value.value == demand


@pytest.mark.parametrize(("change", "altered"), [(kept, ""), (decoded, "/"), (lower_case, "A")])
def test_a_pause_that_a_proxy_adds_to_the_brokers_own_answer_is_none(
    change: PathChange, altered: str
) -> None:
    # `add_header Retry-After 3 always` of nginx stands in each answer, and in that of the broker to a probe.
    assert proved(change, pause=3_000_000_000) == PathProof(frozenset(altered))


@pytest.mark.parametrize("status", [429, 502, 503])
def test_what_a_server_refuses_for_another_reason_is_not_called_changed(status: int) -> None:
    # As `limit_req` of nginx after some requests, or a proxy that is started again.
    def limited(requests: int) -> Callable[[str], Served]:
        left = iter(range(requests))
        return lambda target: rabbitmq(target) if next(left, None) is not None else (status, b"")

    assert proved(decoded, limited(5)) == PathProof(frozenset("/;?#+ \\&=|\n"), proved=False)


def test_a_request_too_many_for_capital_letters_proves_nothing() -> None:
    answers = iter([rabbitmq(next(proof_steps()))])
    assert proved(kept, lambda _: next(answers, (429, b""))) == PathAnswer(429, b"")


@pytest.mark.parametrize(("status", "is_proof"), [(500, True), (502, False)])
def test_a_character_that_makes_a_server_fail_is_found(status: int, *, is_proof: bool) -> None:
    """Whether a proxy that has no answer fails by the character remains open."""

    def failing(target: str) -> Served:
        return (status, b"") if "%5C" in target else rabbitmq(target)

    assert proved(kept, failing, most=30) == PathProof(frozenset("\\"), proved=is_proof)


def failing_now_and_then(status: int, every: int, serve: Callable[[str], Served] = rabbitmq) -> Server:
    """Return a server whose proxy has no answer to the first of so many requests."""
    requests = itertools.count()
    return lambda target: (status, b"<html>") if next(requests) % every == 0 else serve(target)


@pytest.mark.parametrize("status", [502, 503, 504])
@pytest.mark.parametrize("every", [2, 3, 5])
@pytest.mark.parametrize(("change", "altered"), [(kept, ""), (decoded, "/"), (lower_case, "A")])
def test_a_proxy_that_has_no_answer_now_and_then_proves_nothing_by_that(
    status: int, every: int, change: PathChange, altered: str
) -> None:
    found = proved(change, failing_now_and_then(status, every), most=40)
    assert found == PathProof(frozenset(altered))


def test_a_proxy_that_has_no_answer_for_long_leaves_open_what_it_was_asked() -> None:
    def slow(target: str) -> Served:
        return (504, b"") if target.startswith(ECHO.upper()) else rabbitmq(target)

    assert proved(kept, slow) == PathProof(frozenset("A"), proved=False)
    answers = itertools.repeat((504, b""), 3)
    assert proved(kept, lambda target: next(answers, rabbitmq(target))) == PathProof(
        frozenset("/"), proved=False
    )


def test_known_objects_prove_their_names_through_a_proxy_that_has_no_answer_now_and_then() -> None:
    served = hidden((404, b""), failing_now_and_then(504, 2))
    assert proved(kept, served, most=40) == unproved(CHECKED.replace("/", ""))


@given(st.binary(), st.integers(200, 599))
def test_any_answers_end_the_proof(body: bytes, status: int) -> None:
    found = proved(kept, lambda _: (status, body))
    assert found == PathAnswer(status, body) or (isinstance(found, PathProof) and "/" in found.altered)


NAMES = (
    st.text(st.characters(codec="utf-8"), max_size=5)
    | st.sampled_from(["", ".", "..", "a/b", "A", "%2F"])
    | st.binary(max_size=5).map(ByteName.of)
)
CHANGES = st.sampled_from([kept, decoded, escaped_twice, lower_case, reencoded])


@given(st.lists(NAMES, min_size=1, max_size=3), CHANGES)
def test_a_request_that_is_sent_arrives_as_it_was_meant(names: list[str], change: PathChange) -> None:
    proof = proved(change)
    assert isinstance(proof, PathProof)
    target = path_of("queues", *names)
    if any(name in {"", ".", ".."} for name in names):
        assert proof.fault(target)
        assert PathProof().fault(target) in {NO_PATH, NOT_SHOWN}
    elif not proof.fault(f"{target}?columns=a/b,%2F"):
        arrived = change(f"/{target}")[1:]
        octets = [one.octets if isinstance(one, ByteName) else one.encode() for one in names]
        assert [unquote_to_bytes(segment) for segment in arrived.split("/")] == [b"queues", *octets]
        if not takes_proof(target):  # it is the same behind all of them
            assert arrived == target


def test_the_text_names_what_does_not_arrive() -> None:
    assert PathProof().text == ""
    assert PathProof(frozenset("/ A")).text == (
        "a server between the gateway and the broker changes or refuses a space, /, capital letters in"
        " names: such objects are neither asked for singly nor changed"
    )
    assert PathProof(frozenset("/"), proved=False).text.startswith("it is not proved that / in names arrives")
