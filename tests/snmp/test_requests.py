"""Requests and their answers, by example: RFC 3416 and RFC 3584, and common errors of agents."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from gateway.snmp import ber, message
from gateway.snmp.ber import Oid
from gateway.snmp.message import GET, GET_BULK, GET_NEXT, SET, VERSION_1, VERSION_2C
from gateway.snmp.requests import LARGEST_DATAGRAM, Access, Limits, Responder
from gateway.snmp.standard_groups import SnmpCounters
from gateway.snmp.store import Store
from tests.snmp.datagrams import COMMUNITY, Answer, envelope, read_answer, request
from tests.snmp.small_agent import DESCRIPTION, ENTRY, GONE, LAST, TEXT, SmallAgent


def test_get_answers_each_name_in_the_order_asked() -> None:
    answer = SmallAgent().ask(request(GET, [(*ENTRY, 101, 1, 2), DESCRIPTION], request_id=77))
    assert answer == Answer(
        VERSION_2C,
        COMMUNITY,
        77,
        0,
        0,
        [((*ENTRY, 101, 1, 2), ber.encode_gauge32(0)), (DESCRIPTION, TEXT)],
    )


def test_get_distinguishes_a_missing_instance_from_a_missing_object() -> None:
    answer = SmallAgent().ask(request(GET, [(*ENTRY, 100, 1, 1), (*ENTRY, 3, 1, 1), DESCRIPTION]))
    assert [value for _, value in answer.varbinds] == [ber.NO_SUCH_INSTANCE, ber.NO_SUCH_OBJECT, TEXT]
    assert (answer.status, answer.index) == (0, 0)


def test_get_next_answers_each_name_with_its_successor_or_the_end() -> None:
    answer = SmallAgent().ask(request(GET_NEXT, [(*ENTRY, 2, 1, 1), (*ENTRY, 100), LAST, GONE]))
    assert answer.varbinds == [
        ((*ENTRY, 2, 1, 2), ber.encode_octets(b"out")),
        ((*ENTRY, 100, 1, 2), ber.encode_counter64(2**64 - 1)),
        (LAST, ber.END_OF_MIB_VIEW),
        (GONE, ber.END_OF_MIB_VIEW),
    ]


@pytest.mark.parametrize("request_id", [0, 1, -1, -2, 127, 128, 2**31 - 1, -(2**31)])
def test_the_request_id_comes_back(request_id: int) -> None:
    assert SmallAgent().ask(request(GET, [DESCRIPTION], request_id=request_id)).request_id == request_id


@pytest.mark.parametrize("pdu_type", [GET, GET_NEXT, SET, GET_BULK])
def test_a_request_for_nothing_is_answered_with_nothing(pdu_type: int) -> None:
    answer = SmallAgent().ask(request(pdu_type, [], second=10))
    assert (answer.status, answer.index, answer.varbinds) == (0, 0, [])


# ---- GETBULK ------------------------------------------------------------------------------------------


def test_bulk_gives_non_repeaters_once_and_repeaters_repetition_by_repetition() -> None:
    names = [(1, 3, 6, 1, 2, 1), (*ENTRY, 2), (*ENTRY, 101)]
    answer = SmallAgent().ask(request(GET_BULK, names, first=1, second=2))
    assert answer.varbinds == [
        (DESCRIPTION, TEXT),
        ((*ENTRY, 2, 1, 1), ber.encode_octets(b"in")),
        ((*ENTRY, 101, 1, 1), ber.encode_gauge32(10)),
        ((*ENTRY, 2, 1, 2), ber.encode_octets(b"out")),
        ((*ENTRY, 101, 1, 2), ber.encode_gauge32(0)),
    ]


def test_bulk_repeats_the_end_beside_columns_that_go_on_and_stops_when_all_are_at_it() -> None:
    answer = SmallAgent().ask(request(GET_BULK, [(*ENTRY, 101, 1, 1), LAST], second=50))
    ended = (LAST, ber.END_OF_MIB_VIEW)
    assert answer.varbinds == [
        ((*ENTRY, 101, 1, 2), ber.encode_gauge32(0)),
        ended,
        (LAST, ber.encode_integer(-1)),
        ended,
        ended,
        ended,
    ]


@pytest.mark.parametrize(("first", "second"), [(-1, 1), (-(2**31), 1), (0, 1)])
def test_a_negative_count_of_non_repeaters_is_zero(first: int, second: int) -> None:
    answer = SmallAgent().ask(request(GET_BULK, [(*ENTRY, 2)], first=first, second=second))
    assert [oid for oid, _ in answer.varbinds] == [(*ENTRY, 2, 1, 1)]


@pytest.mark.parametrize("second", [0, -1, -(2**31)])
def test_no_repetitions_leave_the_non_repeaters(second: int) -> None:
    answer = SmallAgent().ask(request(GET_BULK, [(*ENTRY, 2), (*ENTRY, 101)], first=1, second=second))
    assert [oid for oid, _ in answer.varbinds] == [(*ENTRY, 2, 1, 1)]


def test_more_non_repeaters_than_names_are_all_the_names() -> None:
    answer = SmallAgent().ask(request(GET_BULK, [(*ENTRY, 2), (*ENTRY, 101)], first=2**31 - 1, second=9))
    assert [oid for oid, _ in answer.varbinds] == [(*ENTRY, 2, 1, 1), (*ENTRY, 101, 1, 1)]


def test_bulk_is_cut_to_the_number_of_varbinds_allowed() -> None:
    agent = SmallAgent(Limits(varbinds=3))
    answer = agent.ask(request(GET_BULK, [(*ENTRY, 2), (*ENTRY, 101)], second=2**31 - 1))
    assert [oid for oid, _ in answer.varbinds] == [(*ENTRY, 2, 1, 1), (*ENTRY, 101, 1, 1), (*ENTRY, 2, 1, 2)]


@pytest.mark.parametrize("size", [484, 1_472, 9_000, LARGEST_DATAGRAM])
def test_bulk_fills_the_message_and_no_more(size: int) -> None:
    agent = SmallAgent(Limits(message_size=size, varbinds=100_000))
    for row in range(3, 5_000):
        agent.table.put((1, row), {2: ber.encode_octets(b"x" * (row % 90))})
    datagram = agent.responder.answer(request(GET_BULK, [(*ENTRY, 2)], second=100_000))
    assert isinstance(datagram, bytes)
    assert size - 150 < len(datagram) <= size
    names = [oid for oid, _ in read_answer(datagram).varbinds]
    assert names == [(*ENTRY, 2, 1, row) for row in range(1, len(names) + 1)]


@pytest.mark.parametrize("size", [484, 1_472])
def test_bulk_has_a_size_of_its_own_that_other_answers_exceed(size: int) -> None:
    agent = SmallAgent(Limits(bulk_size=size))
    for row in range(3, 500):
        agent.table.put((1, row), {2: ber.encode_octets(b"name"), 101: ber.encode_gauge32(row)})
    for names in ([(*ENTRY, 2)], [(*ENTRY, 2), (*ENTRY, 101)]):
        for repetitions in (100, 1_000):  # which two readers of requests read
            datagram = agent.responder.answer(request(GET_BULK, names, second=repetitions))
            assert isinstance(datagram, bytes)
            assert size - 60 < len(datagram) <= size
    got = agent.responder.answer(request(GET, [(*ENTRY, 101, 1, row) for row in range(1, 200)]))
    assert isinstance(got, bytes)
    assert len(got) > 1_472


def test_bulk_is_never_larger_than_any_other_answer() -> None:
    agent = SmallAgent(Limits(message_size=484, bulk_size=1_472))
    for row in range(3, 500):
        agent.table.put((1, row), {2: ber.encode_octets(b"name")})
    datagram = agent.responder.answer(request(GET_BULK, [(*ENTRY, 2)], second=100))
    assert isinstance(datagram, bytes)
    assert len(datagram) <= 484


def test_a_bulk_of_one_frame_walks_little_more_than_it_sends() -> None:
    class Counting:
        def __init__(self, store: Store) -> None:
            self.store, self.varbinds = store, 0

        def read(self, name: bytes) -> bytes:
            return self.store.read(name)

        def walk(self, name: bytes, limit: int, *, counter64: bool = True) -> tuple[list[bytes], bytes]:
            found = self.store.walk(name, limit, counter64=counter64)
            self.varbinds += len(found[0])
            return found

        def next_varbind(self, name: bytes) -> None:
            """Leave all to `walk`."""

        def walk_rows(self, names: Sequence[bytes], limit: int) -> None:
            """Leave all to `walk`."""

    agent = SmallAgent()
    for row in range(3, 5_000):
        agent.table.put((1, row), {101: ber.encode_gauge32(row)})
    view = Counting(agent.store)
    responder = Responder(
        {COMMUNITY: Access(view)}, agent.counters, agent.failures.append, Limits(bulk_size=1_472)
    )
    answer = read_answer(responder.answer(request(GET_BULK, [(*ENTRY, 101)], second=100)))
    assert len(answer.varbinds) <= view.varbinds < 2 * len(answer.varbinds)


def test_bulk_whose_first_varbind_does_not_fit_is_too_big() -> None:
    agent = SmallAgent(Limits(message_size=484))
    agent.store.scalar((1, 3, 6, 1, 1, 0), ber.encode_octets(b"x" * 500))
    answer = agent.ask(request(GET_BULK, [(1, 3, 6, 1, 1)], second=5))
    assert (answer.status, answer.index, answer.varbinds) == (message.TOO_BIG, 0, [])


# ---- v1 -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pdu_type", [GET, GET_NEXT])
def test_v1_answers_what_is_there(pdu_type: int) -> None:
    name = DESCRIPTION if pdu_type == GET else DESCRIPTION[:-1]
    answer = SmallAgent().ask(request(pdu_type, [name], version=VERSION_1))
    assert (answer.version, answer.status, answer.varbinds) == (VERSION_1, 0, [(DESCRIPTION, TEXT)])


@pytest.mark.parametrize("missing", [(*ENTRY, 100, 1, 1), (*ENTRY, 3, 1, 1), (*ENTRY, 100, 1, 2)])
def test_v1_get_of_what_is_not_there_or_counter64_is_no_such_name(missing: Oid) -> None:
    asked = [DESCRIPTION, missing, GONE]
    answer = SmallAgent().ask(request(GET, asked, version=VERSION_1, value=ber.encode_integer(9)))
    assert (answer.status, answer.index) == (message.NO_SUCH_NAME, 2)
    assert answer.varbinds == [(oid, ber.encode_integer(9)) for oid in asked]


def test_v1_get_next_past_the_end_is_no_such_name() -> None:
    answer = SmallAgent().ask(request(GET_NEXT, [DESCRIPTION, LAST], version=VERSION_1))
    assert (answer.status, answer.index) == (message.NO_SUCH_NAME, 2)
    assert answer.varbinds == [(DESCRIPTION, ber.NULL), (LAST, ber.NULL)]


def test_v1_get_next_passes_over_counter64() -> None:
    answer = SmallAgent().ask(request(GET_NEXT, [(*ENTRY, 2, 1, 2)], version=VERSION_1))
    assert answer.varbinds == [((*ENTRY, 101, 1, 1), ber.encode_gauge32(10))]


def test_v1_has_no_bulk() -> None:
    agent = SmallAgent()
    assert agent.is_silent_at(request(GET_BULK, [DESCRIPTION], version=VERSION_1, second=1))
    assert agent.counters.unknown_pdu_handlers == 1


# ---- SET ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("oid", [DESCRIPTION, (*ENTRY, 2, 1, 9), GONE])
@pytest.mark.parametrize(
    ("writer", "version", "status", "bad_uses"),
    [
        ("", VERSION_2C, message.NO_ACCESS, 1),
        ("operator", VERSION_2C, message.NOT_WRITABLE, 0),
        ("", VERSION_1, message.NO_SUCH_NAME, 1),
        ("operator", VERSION_1, message.NO_SUCH_NAME, 0),
    ],
)
def test_nothing_can_be_set_without_who_carries_it_out(
    oid: Oid, writer: str, version: int, status: int, bad_uses: int
) -> None:
    agent = SmallAgent(writer=writer)
    answer = agent.ask(request(SET, [oid, DESCRIPTION], version=version, value=TEXT))
    assert (answer.status, answer.index) == (status, 1)
    assert answer.varbinds == [(oid, TEXT), (DESCRIPTION, TEXT)]
    assert agent.counters.bad_community_uses == bad_uses


# ---- sizes --------------------------------------------------------------------------------------------


def test_a_get_beyond_the_message_size_is_too_big_without_varbinds() -> None:
    agent = SmallAgent(Limits(message_size=484))
    answer = agent.ask(request(GET, [DESCRIPTION] * 20))
    assert (answer.status, answer.index, answer.varbinds) == (message.TOO_BIG, 0, [])


def test_a_v1_get_beyond_the_message_size_is_too_big_with_the_varbinds_of_the_request() -> None:
    agent = SmallAgent(Limits(message_size=484))
    answer = agent.ask(request(GET, [DESCRIPTION] * 24, version=VERSION_1))
    assert (answer.status, answer.index) == (message.TOO_BIG, 0)
    assert answer.varbinds == [(DESCRIPTION, ber.NULL)] * 24


def test_a_get_over_what_a_datagram_holds_is_too_big_and_not_silence() -> None:
    agent = SmallAgent()
    agent.store.scalar((1, 3, 9, 0), ber.encode_octets(b"x" * 40_000))
    answer = agent.ask(request(GET, [(1, 3, 9, 0), (1, 3, 9, 0)]))
    assert answer.status == message.TOO_BIG


def test_more_names_than_allowed_are_too_big() -> None:
    agent = SmallAgent(Limits(varbinds=5))
    assert agent.ask(request(GET, [DESCRIPTION] * 5)).status == 0
    assert agent.ask(request(GET, [DESCRIPTION] * 6)).status == message.TOO_BIG
    assert agent.ask(request(SET, [DESCRIPTION] * 6)).status == message.TOO_BIG


def test_an_answer_that_not_even_too_big_fits_is_a_silent_drop() -> None:
    agent = SmallAgent(Limits(message_size=484))
    # In canonical form each 0.0 takes an octet more than in this request, which is as large as allowed.
    varbinds = b"\x30\x04\x06\x00\x05\x00" * 74
    pdu = ber.encode_tlv(
        GET, b"\x02\x01\x01\x02\x01\x00\x02\x01\x00" + ber.encode_tlv(ber.SEQUENCE, varbinds)
    )
    asked = envelope(pdu, version=VERSION_1)
    assert len(asked) <= 484
    assert agent.is_silent_at(asked)
    assert agent.counters.silent_drops == 1


def test_a_request_over_the_size_of_answers_is_too_big_and_not_silence() -> None:
    agent = SmallAgent(Limits(message_size=484))
    assert agent.ask(request(GET, [DESCRIPTION] * 40)).status == message.TOO_BIG


def test_a_request_over_what_a_datagram_holds_is_not_looked_at() -> None:
    agent = SmallAgent()
    assert agent.is_silent_at(request(GET, [DESCRIPTION] * 5_000))
    assert agent.counters.parse_errors == 1


# ---- silence and what counts it -----------------------------------------------------------------------


def counted(agent: SmallAgent) -> dict[str, int]:
    names = ("bad_versions", "bad_community_names", "parse_errors", "unknown_pdu_handlers")
    return {name: count for name in names if (count := getattr(agent.counters, name))}


@pytest.mark.parametrize("community", [b"", b"public", COMMUNITY + b"\x00", COMMUNITY[:-1], b"\xff" * 1_000])
def test_another_community_meets_silence(community: bytes) -> None:
    agent = SmallAgent()
    assert agent.is_silent_at(request(GET, [DESCRIPTION], community=community))
    assert counted(agent) == {"bad_community_names": 1}


@pytest.mark.parametrize("version", [2, 3, -1, 2**31 - 1])
def test_another_version_meets_silence(version: int) -> None:
    agent = SmallAgent()
    assert agent.is_silent_at(request(GET, [DESCRIPTION], version=version))
    assert counted(agent) == {"bad_versions": 1}


@pytest.mark.parametrize("pdu_type", [0xA2, 0xA4, 0xA6, 0xA7, 0xA8])
@pytest.mark.parametrize("version", [VERSION_1, VERSION_2C])
def test_responses_and_notifications_meet_silence(pdu_type: int, version: int) -> None:
    agent = SmallAgent()
    assert agent.is_silent_at(request(pdu_type, [DESCRIPTION], version=version))
    assert counted(agent) == {"unknown_pdu_handlers": 1}


@pytest.mark.parametrize(
    "datagram",
    [
        b"",
        b"\x30",
        b"\x30\x80",
        b"hello",
        request(GET, [DESCRIPTION])[:-1],
        request(0xA9, [DESCRIPTION]),
        request(0x30, [DESCRIPTION]),
        envelope(b""),
        envelope(b"\xa0\x00"),
        envelope(b"\xa0\x03\x02\x01\x01"),
        request(GET, [DESCRIPTION], value=b"\x13\x01A"),
        request(GET, [DESCRIPTION], value=ber.NULL + ber.NULL),
        request(GET, [DESCRIPTION], value=b""),
    ],
    ids=lambda datagram: datagram.hex()[-24:],
)
def test_what_is_no_message_meets_silence(datagram: bytes) -> None:
    agent = SmallAgent()
    assert agent.is_silent_at(datagram)
    assert counted(agent) == {"parse_errors": 1}


def test_nothing_of_a_pdu_is_parsed_for_an_unknown_community() -> None:
    agent = SmallAgent()
    assert agent.is_silent_at(envelope(b"\xa0\x01\xff", community=b"public"))
    assert counted(agent) == {"bad_community_names": 1}


# ---- what real managers send ---------------------------------------------------------------------------


def test_lengths_integers_and_names_longer_than_needed_are_answered_in_canonical_form() -> None:
    name = b"\x06\x0c\x80\x2b\x80\x80\x06\x01\x02\x01\x01\x80\x01\x00"
    varbind = b"\x30\x84" + (len(name) + 2).to_bytes(4, "big") + name + ber.NULL
    numbers = b"\x02\x05\x00\x00\x00\x00\x07" + b"\x02\x02\x00\x00" + b"\x02\x81\x01\x00"
    pdu = numbers + b"\x30\x82" + len(varbind).to_bytes(2, "big") + varbind
    asked = envelope(b"\xa0\x88" + len(pdu).to_bytes(8, "big") + pdu)
    answer = SmallAgent().responder.answer(asked)
    assert answer == SmallAgent().responder.answer(request(GET, [DESCRIPTION], request_id=7))
    assert read_answer(answer).varbinds == [(DESCRIPTION, TEXT)]


def test_octets_behind_the_message_the_pdu_or_its_varbinds_are_ignored() -> None:
    plain = SmallAgent().ask(request(GET, [DESCRIPTION]))
    pdu = request(GET, [DESCRIPTION])
    inner = message.read_message(pdu)
    content = pdu[inner.start : inner.stop]
    assert SmallAgent().ask(pdu + b"\x00\x01") == plain
    assert SmallAgent().ask(envelope(ber.encode_tlv(GET, content) + ber.NULL)) == plain
    assert SmallAgent().ask(envelope(ber.encode_tlv(GET, content + ber.NULL))) == plain


def test_an_empty_name_stands_for_the_very_beginning() -> None:
    content = b"\x02\x01\x01\x02\x01\x00\x02\x01\x00\x30\x06\x30\x04\x06\x00\x05\x00"
    assert SmallAgent().ask(envelope(ber.encode_tlv(GET_NEXT, content))).varbinds == [(DESCRIPTION, TEXT)]
    assert SmallAgent().ask(envelope(ber.encode_tlv(GET, content))).varbinds == [((0, 0), ber.NO_SUCH_OBJECT)]


# ---- our own faults -----------------------------------------------------------------------------------


def test_an_error_of_our_own_is_answered_and_reported() -> None:
    agent = SmallAgent()
    fault = RuntimeError("no clock")

    def broken() -> bytes:
        raise fault

    agent.store.scalar((1, 3, 9, 0), broken)
    answer = read_answer(agent.responder.answer(request(GET, [DESCRIPTION, (1, 3, 9, 0)], request_id=5)))
    assert (answer.status, answer.index, answer.request_id) == (message.GEN_ERR, 2, 5)
    assert answer.varbinds == [(DESCRIPTION, ber.NULL), ((1, 3, 9, 0), ber.NULL)]
    assert agent.failures == [fault]
    assert agent.counters.internal_errors == 1


def test_two_communities_see_what_each_is_given() -> None:
    agent, other = SmallAgent(), Store()
    other.scalar(DESCRIPTION, ber.encode_octets(b"another"))
    access = {b"one": Access(agent.store), b"two": Access(other)}
    responder = Responder(access, SnmpCounters(), agent.failures.append)
    answers = [responder.answer(request(GET, [DESCRIPTION], community=name)) for name in (b"one", b"two")]
    assert [read_answer(answer).varbinds[0][1] for answer in answers] == [TEXT, ber.encode_octets(b"another")]
