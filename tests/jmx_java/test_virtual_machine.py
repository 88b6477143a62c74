"""The virtual machine as a process: its start and failures to start, and the death of either side."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

import gateway.jmx.virtual_machine
from gateway.feed.freshness import Freshness
from gateway.jmx.commands import (
    Attribute,
    AttributeType,
    Change,
    DefineClass,
    Register,
    SetGroup,
    encode_batch,
)
from gateway.jmx.java_runtime import JavaMissingError, JmxError, ListenError, MachineEndedError, class_path
from gateway.jmx.virtual_machine import JavaMachine, PushResult
from tests.components.stopping import stop
from tests.components.waiting import DEADLINE, wait_until
from tests.hypothesis_profiles import PROVING
from tests.jmx_java.conftest import (
    PASSWORD,
    USER,
    AsyncClient,
    Connect,
    JavaObject,
    authenticate,
    emptied,
    publish,
    publish_well,
    settings,
)
from tests.process_state import SharedPartEndedError

TWELVE = DefineClass(
    1, "test:twelve", "d", tuple(Attribute(f"a{n}", AttributeType.LONG, "d") for n in range(12))
)


def name_of(number: int) -> str:
    return f'amqp.gateway:source=r1,package=rabbitmq,type=queue,parent="/",name=queue{number}'


async def test_clients_from_elsewhere_come_by_a_port_that_is_forwarded(java_client: JavaObject) -> None:
    with socket.create_server(("127.0.0.1", 0)) as outside:
        port = outside.getsockname()[1]
        advertised = settings(hostname="localhost", advertised_port=port)
        async with JavaMachine(advertised, authenticate) as machine:
            await machine.open()
            forwarded: list[str] = []

            async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                forwarded.append("")
                inside, into = await asyncio.open_connection("127.0.0.1", machine.port)
                await asyncio.gather(copy(reader, into), copy(inside, writer))

            async with await asyncio.start_server(forward, sock=outside):
                stranger = AsyncClient(java_client)
                assert f"[endpoint:[localhost:{port}]" in await stranger("registered", port)
                client = AsyncClient(await asyncio.to_thread(java_client.connect, port, USER, PASSWORD))
                assert await client("names", "java.lang:type=Runtime") == ["java.lang:type=Runtime"]
                assert (await client("connectionId")).startswith(f"rmi://127.0.0.1 {USER} ")
                await client("close")
            assert len(forwarded) >= 2, "the registry, and what it leads to"


async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while octets := await reader.read(65_536):
        writer.write(octets)
    writer.close()


async def test_it_starts_listens_and_ends_with_the_block_and_nothing_is_left_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    async with JavaMachine(settings(), authenticate) as machine:
        process = psutil.Process(machine.pid)
        socket.create_connection(("127.0.0.1", machine.port)).close()
        assert os.listdir(tmp_path)  # noqa: PTH208  of a folder in memory
    assert not process.is_running()
    assert not os.listdir(tmp_path)  # noqa: PTH208


async def test_it_reports_what_it_uses_until_it_has_ended(machine: JavaMachine, connect: Connect) -> None:
    before = await machine.usage()
    assert (before.clients, before.max_clients) == (0, 50)
    assert 0 < before.heap <= before.max_heap <= 128 << 20
    assert min(before.threads, before.collections + 1, before.collection_milliseconds + 1) > 0
    async with connect(machine):
        assert (await machine.usage()).clients == 1
    machine.kill()
    await machine.ended()
    with pytest.raises(MachineEndedError):
        await machine.usage()


async def test_a_machine_that_tests_share_is_not_used_after_its_end(machine: JavaMachine) -> None:
    machine.kill()
    await machine.ended()
    with pytest.raises(SharedPartEndedError, match="the virtual machine that several tests share has ended"):
        await emptied(machine)


async def test_a_killed_machine_is_seen_at_once_and_the_next_has_the_port(connect: Connect) -> None:
    async with JavaMachine(settings(), authenticate) as first:
        await first.open()
        async with connect(first):
            os.kill(first.pid, signal.SIGKILL)
            start = time.monotonic()
            assert await first.ended() == "the Java virtual machine was ended by SIGKILL"
            assert time.monotonic() - start < DEADLINE
            with pytest.raises(MachineEndedError):
                await first.push(encode_batch([TWELVE]))
            async with JavaMachine(settings(port=first.port), authenticate) as second:
                assert second.port == first.port
                await publish_well(second, TWELVE)


async def test_a_machine_that_dies_during_a_call_is_reported() -> None:
    async with JavaMachine(settings(), authenticate) as machine:
        stop(machine.pid)
        push = asyncio.ensure_future(machine.push(encode_batch([TWELVE])))
        await asyncio.sleep(0)
        os.kill(machine.pid, signal.SIGKILL)
        with pytest.raises(MachineEndedError):
            await push


async def test_a_machine_that_does_not_answer_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateway.jmx.virtual_machine, "_CALL_SECONDS", 0.2)
    async with JavaMachine(settings(), authenticate) as machine:
        stop(machine.pid)
        with pytest.raises(MachineEndedError, match=r"did not return within 0\.2 s and was killed"):
            await machine.push(encode_batch([TWELVE]))
        assert await machine.ended() == "the Java virtual machine was ended by SIGKILL"


async def fill(machine: JavaMachine) -> None:
    big = DefineClass(1, "test:big", "d", (Attribute("text", AttributeType.STRING, "d"),))
    for number in range(1000):
        await publish(machine, big, Register(number, 1, 1, name_of(number), ("x" * (1 << 20),)))


async def test_one_that_runs_out_of_memory_ends_and_says_so() -> None:
    async with JavaMachine(settings(heap=32), authenticate) as machine:
        with pytest.raises(MachineEndedError):
            await fill(machine)
        assert "ran out of memory: give it more under jmx.heap" in await machine.ended()


PARENT = """
import asyncio, sys
from gateway.jmx.virtual_machine import JavaMachine, MachineSettings
async def authenticate(user, password): return True
async def main():
    async with JavaMachine(MachineSettings("127.0.0.1", 0, heap=64), authenticate) as machine:
        print(machine.pid, flush=True)
        await machine.ended()
asyncio.run(main())
"""


def test_a_machine_does_not_outlive_its_parent(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    with subprocess.Popen(  # noqa: S603  our own interpreter
        [sys.executable, "-c", PARENT],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    ) as parent:
        assert parent.stdout is not None
        machine = psutil.Process(int(parent.stdout.readline()))
        start = time.monotonic()
        parent.send_signal(signal.SIGKILL)
        wait_until(
            lambda: not machine.is_running() or machine.status() == psutil.STATUS_ZOMBIE,
            "the end of the virtual machine",
        )
        record_property("outlives_killed_parent_seconds", round(time.monotonic() - start, 2))
    assert not list(tmp_path.iterdir())


async def test_a_taken_port_is_reported_with_what_to_do() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ListenError) as caught:
            async with JavaMachine(settings(port=port, listen_for=0.1), authenticate):
                pass
    text = str(caught.value)
    assert text.startswith(f"JMX cannot listen on 127.0.0.1 port {port}: Address already in use")
    assert text.endswith("; end what has it, or choose another address under jmx.listen")


async def test_a_port_that_its_predecessor_is_about_to_leave_is_waited_for() -> None:
    taken = socket.create_server(("127.0.0.1", 0))
    port = taken.getsockname()[1]
    machine = JavaMachine(settings(port=port, listen_for=DEADLINE), authenticate)
    entering = asyncio.create_task(machine.__aenter__())
    await asyncio.to_thread(wait_until, lambda: _tries(machine), "the start of the process")
    taken.close()
    try:
        await entering
        assert machine.port == port
    finally:
        await machine.__aexit__(None, None, None)


def _tries(machine: JavaMachine) -> bool:
    try:
        return psutil.Process(machine.pid).cpu_times().user > 0
    except MachineEndedError:
        return False


async def test_an_address_that_is_not_ours_is_reported_at_once() -> None:
    with pytest.raises(ListenError, match=r"192\.0\.2\.1 port .*: Cannot assign requested address"):
        async with JavaMachine(settings(address="192.0.2.1", listen_for=DEADLINE), authenticate):
            pass


async def test_only_the_configured_address_is_listened_on() -> None:
    async with JavaMachine(settings(address="127.0.0.2"), authenticate) as machine:
        socket.create_connection(("127.0.0.2", machine.port)).close()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", machine.port))


async def test_a_folder_without_java_is_reported(tmp_path: Path) -> None:
    with pytest.raises(JavaMissingError, match="holds no Java runtime") as caught:
        async with JavaMachine(settings(java=tmp_path), authenticate):
            pass
    assert "default-jre-headless" in str(caught.value)


async def test_without_any_java_the_message_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(JavaMissingError, match="default-jre-headless"):
        async with JavaMachine(settings(), authenticate):
            pass


async def test_a_java_too_old_for_our_classes_is_reported(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    jar, py4j = class_path()
    newer = tmp_path / "newer.jar"
    with zipfile.ZipFile(jar) as original, zipfile.ZipFile(newer, "w") as changed:
        for entry in original.namelist():
            content = bytearray(original.read(entry))
            if entry.endswith(".class"):
                content[6:8] = (200).to_bytes(2, "big")  # the major version of the class file's format
            changed.writestr(entry, content)
    monkeypatch.setattr(gateway.jmx.virtual_machine, "class_path", lambda: (newer, py4j))
    with pytest.raises(JavaMissingError, match="is older than Java 11"):
        async with JavaMachine(settings(), authenticate):
            pass


async def test_a_machine_that_cannot_start_says_why() -> None:
    with pytest.raises(JmxError, match=r"does not start: .* status 1") as caught:
        async with JavaMachine(settings(heap=10**12), authenticate):
            pass
    assert "heap" in str(caught.value)


async def test_ten_thousand_objects_are_registered_and_changed_soon(
    record_property: Callable[[str, object], None],
) -> None:
    count, rounds = 10_000, 10 if PROVING else 2
    values = tuple(range(12))
    register = encode_batch([Register(n, 1, 1, name_of(n), values) for n in range(count)])
    change = [
        encode_batch([Change.of(n, dict.fromkeys(range(12), turn + 1000)) for n in range(count)])
        for turn in range(rounds)
    ]
    async with JavaMachine(settings(), authenticate) as machine:
        await publish_well(machine, TWELVE, SetGroup(1, Freshness.FRESH))
        start = time.perf_counter()
        assert await machine.push(register) == PushResult(0, ())
        record_property("register_10000_seconds", round(time.perf_counter() - start, 3))
        times = []
        for batch in change:
            start = time.perf_counter()
            assert await machine.push(batch) == PushResult(0, ())
            times.append(time.perf_counter() - start)
        record_property("push_10000x12_seconds", round(min(times), 3))
