"""The UDP sockets: the source addresses of answers, and continued service after any error."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator

import pytest

from gateway.snmp import ber
from gateway.snmp.message import GET, GET_BULK
from gateway.snmp.requests import Access, Responder, Sender
from gateway.snmp.server import Answer, ListenAddress, ListenError, UdpServer
from gateway.snmp.standard_groups import SnmpCounters
from gateway.snmp.store import Store
from tests.components.waiting import DEADLINE
from tests.snmp.datagrams import COMMUNITY, read_answer, request
from tests.snmp.small_agent import ENTRY


def has_ipv6() -> bool:
    """Return whether this host has the IPv6 loopback: containers often do not."""
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as probe:
        probe.bind(("::1", 0))
        return True
    return False


LOOPBACKS = ["127.0.0.1", "::1"] if has_ipv6() else ["127.0.0.1"]
ASKED_OF_ANY = [("0.0.0.0", "127.0.0.1"), ("0.0.0.0", "127.0.0.7"), ("::", "::1")][: 1 + len(LOOPBACKS)]  # noqa: S104


class Echo:
    """A server whose answers a test chooses."""

    def __init__(self, answer: Answer) -> None:
        self.counters = SnmpCounters()
        self.failures: list[Exception] = []
        self.server = UdpServer(answer, self.counters, self.failures.append)

    def open(self, *hosts: str) -> list[ListenAddress]:
        self.server.open([(host, 0) for host in hosts])
        return list(self.server.addresses)


@pytest.fixture
def managers() -> Iterator[list[socket.socket]]:
    """Provide a list of sockets, which are closed at the end."""
    opened: list[socket.socket] = []
    yield opened
    for manager in opened:
        manager.close()


def manager_of(address: ListenAddress, managers: list[socket.socket]) -> socket.socket:
    """Return a socket that takes datagrams from this address only, as a manager does."""
    family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
    manager = socket.socket(family, socket.SOCK_DGRAM)
    managers.append(manager)
    manager.setblocking(False)
    manager.connect(address)
    return manager


async def received(manager: socket.socket) -> bytes:
    async with asyncio.timeout(DEADLINE):
        return await asyncio.get_running_loop().sock_recv(manager, 70_000)


def upper(datagram: bytes, _sender: Sender) -> bytes | None:
    return datagram.upper()


@pytest.mark.parametrize("host", LOOPBACKS)
async def test_an_answer_goes_to_who_asked(host: str, managers: list[socket.socket]) -> None:
    echo = Echo(upper)
    (address,) = echo.open(host)
    one, other = manager_of(address, managers), manager_of(address, managers)
    one.send(b"one")
    other.send(b"other")
    assert (await received(one), await received(other)) == (b"ONE", b"OTHER")
    echo.server.close()


@pytest.mark.parametrize(("listen", "asked"), ASKED_OF_ANY)
async def test_an_answer_comes_from_the_address_that_was_asked(
    listen: str, asked: str, managers: list[socket.socket]
) -> None:
    echo = Echo(upper)
    ((_, port),) = echo.open(listen)
    manager = manager_of((asked, port), managers)
    manager.send(b"who")
    assert await received(manager) == b"WHO"
    echo.server.close()


async def test_several_addresses_are_listened_on_at_once(managers: list[socket.socket]) -> None:
    echo = Echo(upper)
    for address in echo.open("127.0.0.1", "127.0.0.2", *LOOPBACKS):
        manager = manager_of(address, managers)
        manager.send(b"a")
        assert await received(manager) == b"A"
    echo.server.close()


async def test_silence_is_no_datagram_and_not_the_end(managers: list[socket.socket]) -> None:
    echo = Echo(lambda datagram, _: datagram if datagram == b"speak" else None)
    (address,) = echo.open("127.0.0.1")
    manager = manager_of(address, managers)
    manager.send(b"wrong")
    manager.send(b"speak")
    assert await received(manager) == b"speak"
    echo.server.close()


async def test_an_error_of_the_answer_is_reported_and_the_next_datagram_answered(
    managers: list[socket.socket],
) -> None:
    fault = RuntimeError("a fault")

    def answer(datagram: bytes, _sender: Sender) -> bytes:
        if datagram == b"bad":
            raise fault
        return datagram

    echo = Echo(answer)
    (address,) = echo.open("127.0.0.1")
    manager = manager_of(address, managers)
    manager.send(b"bad")
    manager.send(b"good")
    assert await received(manager) == b"good"
    assert (echo.failures, echo.counters.internal_errors) == ([fault], 1)
    echo.server.close()


async def test_an_answer_that_cannot_be_sent_is_counted(managers: list[socket.socket]) -> None:
    echo = Echo(lambda datagram, _: bytes(70_000) if datagram == b"much" else datagram)
    (address,) = echo.open("127.0.0.1")
    manager = manager_of(address, managers)
    manager.send(b"much")
    manager.send(b"little")
    assert await received(manager) == b"little"
    assert (echo.counters.unsent, echo.failures) == (1, [])
    echo.server.close()


@pytest.mark.parametrize("size", [1, 1_472, 65_507])
async def test_datagrams_of_every_size_come_and_go(size: int, managers: list[socket.socket]) -> None:
    echo = Echo(upper)
    (address,) = echo.open("127.0.0.1")
    manager = manager_of(address, managers)
    manager.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 18)
    manager.send(b"x" * size)
    assert await received(manager) == b"X" * size
    echo.server.close()


@pytest.mark.parametrize(("seconds_each", "most_at_once"), [(0.0, 256), (0.0005, 5), (1.0, 1)])
async def test_a_flood_leaves_the_loop_to_others_and_is_answered_whole(
    managers: list[socket.socket], failures: list[Exception], seconds_each: float, most_at_once: int
) -> None:
    answered: list[bytes] = []

    def answer(datagram: bytes, _sender: Sender) -> bytes:
        answered.append(datagram)
        return datagram

    server = UdpServer(answer, SnmpCounters(), failures.append, clock=lambda: seconds_each * len(answered))
    server.open([("127.0.0.1", 0)])
    manager = manager_of(server.addresses[0], managers)
    manager.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 18)  # for all answers at once
    flood = [number.to_bytes(2, "big") for number in range(300)]
    for datagram in flood:
        manager.send(datagram)
    at_once = []
    async with asyncio.timeout(DEADLINE):
        while len(answered) < len(flood):
            before = len(answered)
            await asyncio.sleep(0)
            at_once.append(len(answered) - before)
    assert max(at_once) == most_at_once
    assert [await received(manager) for _ in flood] == flood
    server.close()


# ---- addresses that cannot be listened on --------------------------------------------------------------


async def test_a_port_in_use_is_one_clear_error_and_nothing_stays_open() -> None:
    first, second = Echo(upper), Echo(upper)
    ((host, port),) = first.open("127.0.0.1")
    with pytest.raises(ListenError) as caught:
        second.server.open([("127.0.0.1", 0), (host, port)])
    assert str(caught.value) == (
        f"cannot listen on 127.0.0.1:{port}/udp: the port is in use, perhaps by another SNMP agent; "
        "stop that or take another port"
    )
    assert second.server.addresses == ()
    first.server.close()


@pytest.mark.parametrize(
    ("address", "says"),
    [
        (("localhost", 1161), "localhost:1161/udp: give an IPv4 or IPv6 address"),
        (("", 1161), "give an IPv4 or IPv6 address"),
        (("127.0.0.1", 65_536), "a port up to 65535"),
        (("192.0.2.1", 1161), "192.0.2.1:1161/udp: no interface of this host has the address"),
    ],
)
async def test_an_address_of_no_use_is_reported_with_what_to_do(address: ListenAddress, says: str) -> None:
    with pytest.raises(ListenError) as caught:
        Echo(upper).server.open([address])
    assert says in str(caught.value)


async def test_a_closed_server_leaves_its_port() -> None:
    echo = Echo(upper)
    (address,) = echo.open("127.0.0.1")
    echo.server.close()
    echo.server.close()
    again = Echo(upper)
    again.server.open([address])
    assert again.server.addresses == (address,)
    again.server.close()


# ---- answers that take time -------------------------------------------------------------------------------


async def test_an_answer_that_takes_time_holds_up_no_other(managers: list[socket.socket]) -> None:
    released = asyncio.Event()

    async def later() -> bytes:
        await released.wait()
        return b"LATE"

    echo = Echo(lambda datagram, _: later() if datagram == b"slow" else datagram)
    (address,) = echo.open("127.0.0.1")
    manager = manager_of(address, managers)
    manager.send(b"slow")
    manager.send(b"quick")
    assert await received(manager) == b"quick"
    released.set()
    assert await received(manager) == b"LATE"
    echo.server.close()


async def test_an_error_of_an_answer_that_takes_time_is_reported(managers: list[socket.socket]) -> None:
    fault = RuntimeError("a fault")

    async def later() -> bytes:
        raise fault

    echo = Echo(lambda datagram, _: later() if datagram == b"bad" else datagram)
    (address,) = echo.open("127.0.0.1")
    manager = manager_of(address, managers)
    manager.send(b"bad")
    manager.send(b"good")
    assert await received(manager) == b"good"
    assert (echo.failures, echo.counters.internal_errors) == ([fault], 1)
    echo.server.close()


async def test_who_is_not_answered_yet_is_not_when_the_server_closes(managers: list[socket.socket]) -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def later() -> bytes:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return b""

    echo = Echo(lambda _datagram, _: later())
    (address,) = echo.open("127.0.0.1")
    manager_of(address, managers).send(b"slow")
    await asyncio.wait_for(begun.wait(), DEADLINE)
    echo.server.close()
    await asyncio.wait_for(ended.wait(), DEADLINE)


# ---- a flood --------------------------------------------------------------------------------------------


def bound_manager(host: str, address: ListenAddress, managers: list[socket.socket]) -> socket.socket:
    """Return a socket at an address of its own on the loopback."""
    manager = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    managers.append(manager)
    manager.setblocking(False)
    manager.bind((host, 0))
    manager.connect(address)
    return manager


async def test_a_manager_beside_a_flood_of_large_bulks_gets_every_answer_before_the_flood_gets_its_own(
    managers: list[socket.socket], failures: list[Exception]
) -> None:
    store, counters = Store(), SnmpCounters()
    table = store.table(ENTRY, [101])
    for row in range(1, 2_001):
        table.put((1, row), {101: ber.encode_gauge32(row)})
    responder = Responder({COMMUNITY: Access(store)}, counters, failures.append)
    server = UdpServer(responder.answer, counters, failures.append)
    server.open([("127.0.0.1", 0)])
    flood = bound_manager("127.0.0.66", server.addresses[0], managers)
    manager = bound_manager("127.0.0.1", server.addresses[0], managers)
    bulk = request(GET_BULK, [(*ENTRY, 101)], second=2_000)
    bulks_meanwhile = []
    for row in range(1, 21):
        for _ in range(200):
            with contextlib.suppress(BlockingIOError):
                flood.send(bulk)
        before = counters.get_bulks
        name = (*ENTRY, 101, 1, row)
        manager.send(request(GET, [name], request_id=row))
        answer = read_answer(await received(manager))
        assert (answer.request_id, answer.varbinds) == (row, [(name, ber.encode_gauge32(row))])
        bulks_meanwhile.append(counters.get_bulks - before)
    # Those of one turn or two, which are milliseconds; hundreds were sent before each GET.
    assert max(bulks_meanwhile) <= 64
    assert counters.overload_drops > 1_000
    server.close()


async def test_what_a_flood_has_too_much_is_dropped_and_counted(managers: list[socket.socket]) -> None:
    answered: list[bytes] = []

    def answer(datagram: bytes, _sender: Sender) -> bytes:
        answered.append(datagram)
        return b""

    counters, failures = SnmpCounters(), list[Exception]()
    # By this clock each answer takes a second: a turn answers one.
    server = UdpServer(answer, counters, failures.append, clock=lambda: float(len(answered)))
    server.open([("127.0.0.1", 0)])
    flood = bound_manager("127.0.0.66", server.addresses[0], managers)
    async with asyncio.timeout(DEADLINE):
        while not counters.overload_drops:
            for _ in range(50):
                with contextlib.suppress(BlockingIOError):
                    flood.send(bytes(4_000))
            await asyncio.sleep(0)
    manager = bound_manager("127.0.0.1", server.addresses[0], managers)
    begun = len(answered)
    manager.send(b"who")
    await received(manager)
    assert len(answered) - begun <= 8
    assert counters.in_packets == counters.overload_drops  # this answer does not count those it gets
    assert failures == []
    server.close()


@pytest.mark.parametrize("host", LOOPBACKS)
async def test_what_the_kernel_drops_is_counted(host: str, managers: list[socket.socket]) -> None:
    echo, other = Echo(upper), Echo(upper)
    (address,) = echo.open(host)
    other.open(*LOOPBACKS)
    assert echo.server.lost_in_kernel() == 0
    manager = manager_of(address, managers)
    # Nothing is read meanwhile: this is one turn of the loop.
    for _ in range(5_000):
        with contextlib.suppress(BlockingIOError):
            manager.send(bytes(1_000))
    lost = echo.server.lost_in_kernel()
    assert lost is not None
    assert 0 < lost <= 5_000
    assert other.server.lost_in_kernel() == 0
    echo.server.close()
    other.server.close()
