"""Receivers by their names: a resolver whose answers the test gives, and real sockets."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import AsyncIterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from gateway.clock import SystemClock
from gateway.service.processes.notifications import outside
from gateway.snmp import message
from gateway.snmp.fixed_mib import TargetKindNumber
from gateway.snmp.notifications.names import LookupTimes, NameChange, ReceiverNames, SocketAddress, look_up
from gateway.snmp.notifications.notification import COLD_START
from gateway.snmp.notifications.receiver import Address, Target
from gateway.snmp.notifications.sender import NotificationSender, SenderSettings
from gateway.snmp.notifications.sockets import NotificationSockets
from gateway.snmp.v3.algorithms import AES128, SHA256
from gateway.snmp.v3.ciphers import Salts
from gateway.snmp.v3.notifications import SecuredInforms
from gateway.snmp.v3.remote import RemoteEngine
from gateway.snmp.v3.users import SecurityLevel, credentials
from tests.components.ports import free_udp_port
from tests.components.waiting import DEADLINE, eventually, until
from tests.snmp.notifications.snmptrapd import snmptrapd
from tests.snmp.notifications.story import GATEWAY, ROOT, answer_to, event, read, target
from tests.snmp.notifications.test_receivers import acknowledged, at, sending
from tests.snmp.notifications.udp_receiver import UdpReceiver, udp_receiver

NAME = "nms.example.org"
OFTEN = LookupTimes(patience=DEADLINE, pause=0.01, interval=0.01)
WHEN_DOUBTED = LookupTimes(patience=DEADLINE, pause=0.01, interval=DEADLINE)


class Resolver:
    """A resolver that knows ``hosts``; a query waits while ``is_free`` is not set."""

    def __init__(self, *hosts: str) -> None:
        self.hosts = hosts
        self.queries = 0
        self.is_free = threading.Event()
        self.is_free.set()

    def __call__(self, address: Address) -> list[SocketAddress]:
        self.queries += 1
        assert self.is_free.wait(DEADLINE)
        if not self.hosts:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [look_up((host, address[1]), socket.AI_NUMERICHOST)[0] for host in self.hosts]

    async def is_asked(self, times: int) -> None:
        """Wait until so many further queries have begun, which is after the answer to the one before."""
        wanted = self.queries + times
        await until(lambda: self.queries >= wanted, f"{times} queries")


@contextlib.asynccontextmanager
async def following(resolver: Resolver, times: LookupTimes) -> AsyncIterator[list[NameChange]]:
    """Follow the name; provide its changes."""
    changes: list[NameChange] = []
    names = ReceiverNames(changes.append, resolver, times)
    names.keep([(NAME, 162)])
    names.open()
    yield changes
    names.close()


def port_of(receiver: UdpReceiver) -> int:
    port: int = receiver.socket.getsockname()[1]
    return port


async def until_received(receiver: UdpReceiver) -> bytes:
    datagram, came_from = await asyncio.to_thread(receiver.socket.recvfrom, 65_536)
    receiver.socket.connect(came_from)
    return datagram


# ---- which address is in use -------------------------------------------------------------------------------


async def test_one_of_many_addresses_in_changing_order_stays_in_use() -> None:
    resolver = Resolver("192.0.2.1", "192.0.2.2", "2001:db8::1")
    async with following(resolver, OFTEN) as changes:
        await until(lambda: changes, "the name has an address")
        for hosts in (("192.0.2.2", "192.0.2.1"), ("2001:db8::1", "192.0.2.1")):
            resolver.hosts = hosts
            await resolver.is_asked(2)
        assert changes == [NameChange((NAME, 162), "192.0.2.1", "", "")]
        resolver.hosts = ("2001:db8::1", "192.0.2.2")
        await until(lambda: len(changes) > 1, "it is not among them any more")
    assert changes[1:] == [NameChange((NAME, 162), "2001:db8::1", "192.0.2.1", "")]


async def test_a_name_that_cannot_be_resolved_any_more_keeps_its_address_and_that_is_reported_once() -> None:
    resolver = Resolver("192.0.2.1")
    async with following(resolver, OFTEN) as changes:
        await until(lambda: changes, "the name has an address")
        resolver.hosts = ()
        await resolver.is_asked(4)
        resolver.hosts = ("192.0.2.1",)
        await until(lambda: len(changes) > 2, "it has one again")
        await resolver.is_asked(2)
    assert [(each.in_use, each.trouble) for each in changes] == [
        ("192.0.2.1", ""),
        ("192.0.2.1", "Name or service not known"),
        ("192.0.2.1", ""),
    ]


async def test_a_resolver_that_hangs_is_not_asked_a_second_time_and_its_late_answer_is_taken() -> None:
    resolver = Resolver("192.0.2.1")
    resolver.is_free.clear()
    changes: list[NameChange] = []
    names = ReceiverNames(changes.append, resolver, LookupTimes(0.05, 0.01, DEADLINE))
    names.keep([(NAME, 162)])
    assert names.is_awaited((NAME, 162))
    names.open()
    await until(lambda: changes, "it takes too long")
    assert not names.is_awaited((NAME, 162))
    for _ in range(10):
        names.look_up_soon((NAME, 162))
        await asyncio.sleep(0)
    assert resolver.queries == 1
    resolver.is_free.set()
    await until(lambda: len(changes) > 1, "it answers")
    names.close()
    assert [(each.in_use, each.trouble) for each in changes] == [
        ("", "no answer from the resolver within 0.05 s"),
        ("192.0.2.1", ""),
    ]


async def test_a_name_that_is_not_configured_any_more_is_not_looked_up() -> None:
    resolver = Resolver("192.0.2.1")
    resolver.is_free.clear()
    changes: list[NameChange] = []
    names = ReceiverNames(changes.append, resolver, OFTEN)
    names.keep([("old.example.org", 162)])
    names.open()
    names.keep([(NAME, 162)])
    resolver.is_free.set()
    await until(lambda: len(changes) == 1, "the new name has an address")
    await resolver.is_asked(3)
    names.close()
    assert [each.address for each in changes] == [(NAME, 162)]
    assert names.find(("old.example.org", 162)) is None


# ---- what is sent where ------------------------------------------------------------------------------------


async def test_what_is_sent_before_the_first_answer_waits_for_it() -> None:
    resolver = Resolver("127.0.0.1")
    resolver.is_free.clear()
    with udp_receiver() as receiver:
        async with sending([at(port_of(receiver), "trap", NAME)], lookup=resolver) as sender:
            sender.start()
            assert (sender.health["trap"].sent, sender.health["trap"].waiting) == (0, 1)
            resolver.is_free.set()
            assert read(await until_received(receiver)).oid == COLD_START
            assert (sender.health["trap"].sent, sender.health["trap"].failed) == (1, 0)


async def test_without_an_address_informs_wait_and_traps_are_owed() -> None:
    resolver = Resolver()
    changes: list[NameChange] = []
    with udp_receiver() as receiver:
        targets = [at(port_of(receiver), kind, NAME) for kind in ("v1", "trap", "inform")]
        async with sending(targets, None, changes.append, resolver, OFTEN) as sender:
            await until(lambda: changes, "the name cannot be resolved")
            sender.notify(event(1))
            assert [sender.health[kind].owed for kind in ("v1", "trap", "inform")] == [1, 1, 0]
            resolver.hosts = ("127.0.0.1",)
            datagram = await until_received(receiver)
            assert read(datagram).number == 1
            receiver.socket.send(answer_to(datagram))
            await acknowledged(sender, "inform", 1)
    assert [bool(each.trouble) for each in changes] == [True, False]


async def test_a_receiver_whose_interface_is_missing_gets_its_informs_when_that_is_there() -> None:
    resolver = Resolver()
    changes: list[NameChange] = []
    with udp_receiver() as receiver, udp_receiver() as other:
        targets = [at(port_of(receiver), "inform", "fe80::1%nowhere"), at(port_of(other), "trap")]
        async with sending(targets, None, changes.append, resolver, OFTEN) as sender:
            sender.notify(event(1))
            assert read(await until_received(other)).number == 1
            await until(lambda: changes, "there is no such interface")
            resolver.hosts = ("127.0.0.1",)
            receiver.socket.send(answer_to(await until_received(receiver)))
            await acknowledged(sender, "inform", 1)
    assert [bool(each.trouble) for each in changes] == [True, False]


def test_the_system_knows_an_interface_only_while_it_is_there() -> None:
    assert look_up(("fe80::1%lo", 162))[0].where[3] > 0
    with pytest.raises(OSError, match="this machine has no interface nowhere for it"):
        look_up(("fe80::1%nowhere", 162))


async def test_an_inform_without_an_answer_goes_to_the_new_address_whose_answer_alone_counts() -> None:
    resolver = Resolver("127.0.0.1")
    with udp_receiver() as before, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as bound:
        bound.bind(("127.0.0.2", port_of(before)))
        after = UdpReceiver(bound)
        async with sending(
            [at(port_of(before), "inform", NAME)], lookup=resolver, times=WHEN_DOUBTED
        ) as sender:
            sender.notify(event(1))
            first = await until_received(before)
            resolver.hosts = ("127.0.0.2",)
            # It is looked up a minute later, or when the inform is sent again.
            assert await until_received(after) == first
            before.socket.send(answer_to(first, message.GEN_ERR))
            after.socket.send(answer_to(first))
            await acknowledged(sender, "inform", 1)
            assert sender.health["inform"].failed == 0


async def test_an_inform_that_the_first_of_two_addresses_does_not_answer_goes_to_the_other() -> None:
    resolver = Resolver("127.0.0.1", "127.0.0.2")
    with udp_receiver() as silent, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as bound:
        bound.bind(("127.0.0.2", port_of(silent)))
        other = UdpReceiver(bound)
        async with sending(
            [at(port_of(silent), "inform", NAME)], lookup=resolver, times=WHEN_DOUBTED
        ) as sender:
            sender.notify(event(1))
            first = await until_received(silent)
            assert await until_received(other) == first

            async def answered() -> bool:
                # Again and again: while this process is slow, the inform is at the first address once more.
                other.socket.send(answer_to(first))
                return sender.health["inform"].acknowledged == 1

            await eventually(answered, "it is acknowledged")


def _has(changes: list[NameChange], number: int) -> bool:
    return len(changes) == number


async def test_each_of_the_addresses_comes_in_turn_however_the_system_orders_them() -> None:
    resolver = Resolver("192.0.2.1", "2001:db8::1", "192.0.2.2")
    changes: list[NameChange] = []
    names = ReceiverNames(changes.append, resolver, WHEN_DOUBTED)
    names.keep([(NAME, 162)])
    names.open()
    for turn in range(1, 5):
        await until(partial(_has, changes, turn), "another address is used")
        resolver.hosts = (*resolver.hosts[1:], resolver.hosts[0])
        names.look_up_soon((NAME, 162))
    names.close()
    assert [each.in_use for each in changes] == ["192.0.2.1", "192.0.2.2", "2001:db8::1", "192.0.2.1"]


async def test_a_name_may_change_to_the_other_address_family() -> None:
    resolver = Resolver("127.0.0.1")
    changes: list[NameChange] = []
    with udp_receiver() as before, socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as bound:
        bound.bind(("::1", port_of(before)))
        after = UdpReceiver(bound)
        targets = [at(port_of(before), "trap", NAME)]
        async with sending(targets, None, changes.append, resolver, OFTEN) as sender:
            sender.notify(event(1))
            assert read(await until_received(before)).number == 1
            resolver.hosts = ("::1",)
            await until(lambda: len(changes) > 1, "the name has another address")
            sender.notify(event(2))
            assert read(await until_received(after)).number == 2


async def test_a_name_whose_address_the_system_refuses_is_looked_up_soon() -> None:
    resolver = Resolver("255.255.255.255")
    refusals: list[object] = []
    with udp_receiver() as receiver:
        targets = [at(port_of(receiver), "inform", NAME)]
        async with sending(targets, refusals, lookup=resolver, times=WHEN_DOUBTED) as sender:
            sender.notify(event(1))
            await until(lambda: refusals, "the system does not send it")
            resolver.hosts = ("127.0.0.1",)
            receiver.socket.send(answer_to(await until_received(receiver)))
            await acknowledged(sender, "inform", 1)


async def test_a_name_and_an_address_may_lead_to_one_receiver() -> None:
    with udp_receiver() as receiver:
        port = port_of(receiver)
        targets = [target_of(port, NAME, "by-name"), target_of(port, "127.0.0.1", "by-address")]
        async with sending(targets, lookup=Resolver("127.0.0.1")) as sender:
            sender.notify(event(1))
            for _ in targets:
                datagram, came_from = await asyncio.to_thread(receiver.socket.recvfrom, 65_536)
                receiver.socket.sendto(answer_to(datagram), came_from)
            await acknowledged(sender, "by-name", 1)
            await acknowledged(sender, "by-address", 1)


async def test_a_running_sender_takes_a_name_in_the_place_of_an_address() -> None:
    with udp_receiver() as before, udp_receiver() as after:
        targets = [target_of(port_of(before), "127.0.0.1", "nms"), target_of(port_of(after), NAME, "nms")]
        failures: list[object] = []
        sockets = NotificationSockets(
            [targets[0].address],
            lambda *refusal: failures.append(refusal),
            failures.append,
            lookup=Resolver("127.0.0.1"),
        )
        world = outside(sockets, SystemClock(), up_time=lambda: 0, wake=lambda: None, failed=failures.append)
        first, second = (SenderSettings(ROOT, (*ROOT, 1), GATEWAY, 1, "", (each,)) for each in targets)
        sender = NotificationSender(first, world)
        sockets.open(sender)
        sender.notify(event(1))
        sender.work()
        await until_received(before)
        after.answering = True
        sockets.change([targets[1].address])
        sender.change(second)

        async def is_answered() -> bool:
            sender.work()
            after.drain()
            return sender.health["nms"].acknowledged == 1

        await eventually(is_answered, "the inform arrives at the name")
        sockets.close()
    assert failures == []


def target_of(port: int, host: str, name: str) -> Target:
    return replace(at(port, "inform", host), name=name)


# ---- version 3 ---------------------------------------------------------------------------------------------


async def test_informs_of_version_3_find_out_the_engine_at_the_new_address(tmp_path: Path) -> None:
    resolver = Resolver("127.0.0.1")
    user = credentials("nms", SHA256, "phrase of nms", AES128, "secret of nms")
    remote = RemoteEngine(user, SecurityLevel.AUTH_PRIV, Salts(7), 65_507)
    informs = SecuredInforms(remote, "nms", SecurityLevel.AUTH_PRIV, no_keys)
    port, engines = free_udp_port(), ("80001f880501020304", "80001f880505060708")
    with contextlib.ExitStack() as stack:
        daemons = []
        for host, engine in zip(("127.0.0.1", "127.0.0.2"), engines, strict=True):
            (tmp_path / host).mkdir()
            lines = [f"exactEngineID 0x{engine}", CREATE_USER, "authUser log nms priv"]
            daemons.append(
                stack.enter_context(snmptrapd(tmp_path / host, "none", port, lines, host=host, modules=""))
            )
        secured = target("nms", (NAME, port), kind=TargetKindNumber.INFORM_V3, secured=informs)
        async with sending([secured], lookup=resolver, times=OFTEN) as sender:
            sender.notify(event(1))
            await acknowledged(sender, "nms", 1)
            assert remote.engine_id.hex() == engines[0]
            resolver.hosts = ("127.0.0.2",)
            await resolver.is_asked(2)
            sender.notify(event(2))
            await acknowledged(sender, "nms", 2)
            assert remote.engine_id.hex() == engines[1]
        assert [len(daemon.until(1)) for daemon in daemons] == [1, 1]


CREATE_USER = 'createUser nms SHA-256 "phrase of nms" AES "secret of nms"'


def no_keys(engine_id: str) -> None:
    raise AssertionError(engine_id)
