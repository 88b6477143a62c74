"""The same generated requests to this agent and to net-snmp's daemon over the same data, answer by answer."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterator

import pytest

from gateway.snmp import ber, message
from gateway.snmp.ber import Oid
from gateway.snmp.message import GET, GET_BULK, SET, VERSION_1, VERSION_2C
from gateway.snmp.requests import Access, Responder
from gateway.snmp.standard_groups import SnmpCounters
from tests.hypothesis_profiles import PROVING
from tests.snmp.datagrams import COMMUNITY, Answer, envelope, read_answer, request
from tests.snmp.generated_requests import random_request
from tests.snmp.net_snmp import exchange, snmpd
from tests.snmp.sample_data import ROOT, sample
from tests.snmp.sorted_oracle import SortedOracle

pytestmark = pytest.mark.xdist_group("snmpd")

REQUESTS = 5_000 if PROVING else 300


@pytest.fixture(scope="module")
def data() -> SortedOracle:
    return sample(seed=2)


@pytest.fixture(scope="module")
def port(data: SortedOracle, tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with snmpd(tmp_path_factory.mktemp("snmpd"), ROOT, data.instances) as port:
        yield port


@pytest.fixture(scope="module")
def reader_port(data: SortedOracle, tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    access = f"rocommunity {COMMUNITY.decode()} 127.0.0.1"
    with snmpd(tmp_path_factory.mktemp("snmpd"), ROOT, data.instances, access) as port:
        yield port


def our_answer(data: SortedOracle, datagram: bytes, writer: str = "operator") -> Answer:
    reported: list[Exception] = []
    access = {COMMUNITY: Access(data.store, writer=writer)}
    answer = Responder(access, SnmpCounters(), reported.append).answer(datagram)
    assert not reported
    return read_answer(answer)


def ends_beside_others(data: SortedOracle, datagram: bytes) -> bool:
    """Return whether one of several names of a GETBULK meets the end.

    snmpd 5.9 then repeats the others too little, or under wrong names.
    """
    outer = message.read_message(datagram)
    asked = message.read_request(datagram, outer.start, outer.stop)
    if outer.pdu_type != GET_BULK or len(asked.names) == 1:
        return False
    steps = max(asked.second, 1)
    return any(len(data.after(ber.decode_name(name), steps)) < steps for name in asked.names)


def comparable(answer: Answer, data: SortedOracle) -> Answer:
    """Return an answer without the fields in which snmpd may differ.

    A pass_persist program cannot return noSuchObject. If several names of a v1 request are missing, snmpd
    names any of them: the index then stands for whether it names a missing one.
    """
    varbinds = [
        (oid, ber.NO_SUCH_INSTANCE if value == ber.NO_SUCH_OBJECT else value)
        for oid, value in answer.varbinds
    ]
    if answer.status != message.NO_SUCH_NAME:
        return dataclasses.replace(answer, varbinds=varbinds)
    blamed = answer.varbinds[answer.index - 1][0]
    shown = {oid for oid, value in data.instances.items() if value[0] != ber.COUNTER64}
    following = [value for _, value in data.after(blamed, len(data.instances)) if value[0] != ber.COUNTER64]
    is_right = blamed not in shown or not following
    return dataclasses.replace(answer, index=-1 if is_right else answer.index)


@pytest.mark.parametrize("seed", range(4))
def test_snmpd_answers_the_same(data: SortedOracle, port: int, seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311  repeatable
    for _ in range(REQUESTS):
        asked = random_request(data, chance)
        if not ends_beside_others(data, asked):
            theirs = read_answer(exchange(port, asked))
            assert comparable(our_answer(data, asked), data) == comparable(theirs, data), asked.hex()


@pytest.mark.parametrize("version", [VERSION_1, VERSION_2C])
@pytest.mark.parametrize("oid", [(*ROOT, 1, 1, 0), (*ROOT, 2, 1, 3, 9), (1, 3, 6, 1, 2, 1, 99, 0)])
def test_snmpd_refuses_a_set_in_the_same_way(data: SortedOracle, port: int, version: int, oid: Oid) -> None:
    asked = request(SET, [oid], version=version, value=ber.encode_integer(1))
    assert our_answer(data, asked) == read_answer(exchange(port, asked))


@pytest.mark.parametrize("version", [VERSION_1, VERSION_2C])
@pytest.mark.parametrize(
    "names",
    [
        [(*ROOT, 1, 1, 0)],
        [(*ROOT, 2, 1, 3, 9)],
        [(1, 3, 6, 1, 2, 1, 99, 0)],
        [(1, 3, 6, 1, 2, 1, 99, 0), (*ROOT, 1, 1, 0)],
    ],
)
def test_snmpd_refuses_a_set_of_who_only_reads_in_the_same_way(
    data: SortedOracle, reader_port: int, version: int, names: list[Oid]
) -> None:
    asked = request(SET, names, version=version, value=ber.encode_integer(1))
    reported = our_answer(data, asked, writer="")
    assert reported == read_answer(exchange(reader_port, asked))
    assert reported.status == (message.NO_SUCH_NAME if version == VERSION_1 else message.NO_ACCESS)


def well_formed_oddities() -> list[bytes]:
    """Return requests in forms that are allowed or tolerated, but unusual."""
    usual = request(GET, [(*ROOT, 1, 1, 0)], request_id=5)
    outer = message.read_message(usual)
    content = usual[outer.start : outer.stop]
    name = ber.encode_name((*ROOT, 1, 1, 0))
    padded_name = b"\x06\x81" + bytes((len(name) + 1,)) + b"\x80" + name
    padded = b"\x30\x82" + (len(padded_name) + 2).to_bytes(2, "big") + padded_name
    numbers = b"\x02\x05\x00\x00\x00\x00\x05\x02\x02\x00\x00\x02\x81\x01\x00"
    return [
        usual + b"\x00\x00",
        envelope(ber.encode_tlv(GET, content) + ber.NULL),
        envelope(ber.encode_tlv(GET, content + ber.NULL)),
        envelope(ber.encode_tlv(GET, numbers + content[9:])),
        envelope(ber.encode_tlv(GET, content[:9] + ber.encode_tlv(ber.SEQUENCE, padded + ber.NULL))),
        b"\x30\x84" + (len(usual) - 2).to_bytes(4, "big") + usual[2:],
        request(GET, [(*ROOT, 1, 1, 0)], value=ber.encode_octets(b"left over")),
        request(GET, [(*ROOT, 1, 1, 0)], version=VERSION_1, value=b"\x80\x00"),
        request(GET, [(2, 999)]),
        request(GET, [(1, 3) + (6,) * 126]),
        request(GET, []),
        request(GET, [], version=VERSION_1),
        request(GET_BULK, [], second=5),
        request(SET, []),
    ]


@pytest.mark.parametrize("asked", well_formed_oddities(), ids=bytes.hex)
def test_snmpd_reads_odd_requests_in_the_same_way(data: SortedOracle, port: int, asked: bytes) -> None:
    assert comparable(our_answer(data, asked), data) == comparable(read_answer(exchange(port, asked)), data)
