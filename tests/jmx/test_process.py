"""The process as a whole: a feed in, MBeans for a plain Java client out, whatever is killed."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import ssl
import time
from pathlib import Path

import psutil
import pytest

from gateway.feed.operations import LoginReport
from gateway.jmx.names import table_name
from gateway.jmx.password_hashes import make_hash
from gateway.model.observations import SourceState
from gateway.model.operations import Principal
from gateway.model.schema import ClassKey
from gateway.service.processes.exit_codes import ExitCode
from gateway.state_folder import StateFolder
from tests.components.certificates import Authority, Certificate
from tests.components.command_line import RunningCommand, amqp_gateway, is_log_record, running
from tests.components.shop import START, agent, source, update
from tests.components.stopping import stop
from tests.components.waiting import DEADLINE, eventually, wait_until
from tests.jmx.conftest import JmxSite, canonical, java_process
from tests.jmx.shop import GATEWAY, SALES, SOURCE, STATE, event, hall_name, link, till_name

TABLES = tuple(table_name("shop1", ClassKey("shop", name)) for name in ("hall", "till"))
NAMES = sorted(map(canonical, (GATEWAY, SOURCE, *TABLES, hall_name(), till_name(1), till_name(2))))


async def test_a_client_reads_what_the_feed_reports_and_receives_events_and_changes(jmx: JmxSite) -> None:
    async with jmx.running(), jmx.client() as client:
        assert sorted(await client.names()) == NAMES
        assert await client.read(till_name(), "sales") == "java.lang.Long 10"
        assert await client.read(till_name(), "number") == f"java.math.BigInteger {2**64 - 1}"
        assert await client.read(till_name(), "Parent") == f"javax.management.ObjectName {hall_name()}"
        assert await client.read(till_name(), "CreateTime") == f"java.util.Date {START // 10**6}"
        assert await client.read(till_name(), "idle") == "null"
        assert await client.read(till_name(), "Stale") == "java.lang.Boolean false"
        jmx.core.publish(update(1, {SALES: 99}))
        await client.reads(till_name(), "sales", "java.lang.Long 99")

        await client.listen(GATEWAY)
        await client.listen(till_name())
        jmx.core.publish(event(1, link(1, "shop:till")))
        reported = sorted([await client.received(), await client.received()])
        assert [text.partition(": ")[0] for text in reported] == [
            f"amqp.gateway.shop.tillBurns of {till_name()}",
            f"amqp.gateway.shop.tillBurns of {GATEWAY}",
        ]
        assert (
            f"a till burns; 1 at {START // 10**6}; CompositeData amqp.gateway.shop.tillBurns" in reported[0]
        )
        assert "eventId=java.lang.String 7b0c.1.1" in reported[0]
        assert f"objectName=javax.management.ObjectName {till_name()}" in reported[1]
        jmx.core.publish(update(1, {STATE: "closed", SALES: 11}))
        assert await client.received() == (
            f"jmx.attribute.change of {till_name()}: state (java.lang.String) "
            "java.lang.String open -> java.lang.String closed"
        )


async def test_what_is_stale_is_shown_so_and_everything_is_while_there_is_no_core(jmx: JmxSite) -> None:
    async with jmx.running(), jmx.client() as client:
        jmx.core.publish(agent(fresh=False, since=time.time_ns()))
        await client.reads(till_name(), "Stale", "java.lang.Boolean true")
        assert await client.read(till_name(), "sales") == "java.lang.Long 10"
        jmx.core.publish(agent(fresh=True), source(SourceState.DOWN))
        await client.reads(SOURCE, "State", "java.lang.String down")
        assert await client.read(till_name(), "Stale") == "java.lang.Boolean true"
        jmx.core.publish(source())
        await client.reads(till_name(), "Stale", "java.lang.Boolean false")
        await jmx.core.stop()
        await client.reads(GATEWAY, "FeedConnected", "java.lang.Boolean false")
        assert await client.read(till_name(), "Stale") == "java.lang.Boolean true"
        assert sorted(await client.names()) == NAMES
        await jmx.core.start()
        await client.reads(till_name(), "Stale", "java.lang.Boolean false")
        assert await client.read(GATEWAY, "Epoch") == "java.lang.Long 2"


async def test_a_virtual_machine_that_is_killed_is_followed_by_another(jmx: JmxSite) -> None:
    async with jmx.running() as process:
        first = java_process(process)
        first.kill()
        await jmx.shows(GATEWAY, "VirtualMachineStarts", "java.lang.Long 2")
        assert process.process.poll() is None
        assert java_process(process).pid != first.pid
        async with jmx.client() as client:
            assert sorted(await client.names()) == NAMES
            assert await client.read(till_name(), "sales") == "java.lang.Long 10"
            await client.listen(GATEWAY)
            jmx.core.publish(event(1))
            assert "eventId=java.lang.String 7b0c.1.1" in await client.received()


async def test_a_virtual_machine_that_is_killed_while_it_starts_is_followed_by_another(jmx: JmxSite) -> None:
    command = ("process", "jmx", "--config", jmx.site.configuration)
    with running(*command, log=jmx.log) as process:
        wait_until(lambda: has_java(process), "a virtual machine starts")
        first = java_process(process)
        first.kill()
        await asyncio.to_thread(process.ready)
        assert java_process(process).pid != first.pid
        assert "was ended by SIGKILL" in jmx.log.read_text()


async def test_a_virtual_machine_that_hangs_is_no_reason_to_hang(jmx: JmxSite) -> None:
    """A machine that does not even answer a signal is killed when the process is asked to end."""
    async with jmx.running() as process:
        machine = java_process(process)
        machine.suspend()
        ended = await asyncio.to_thread(process.terminate)
        assert ended.code is ExitCode.OK
        assert not is_alive(machine)


@pytest.mark.parametrize(
    # With SIGTERM it ends in the test above, too.
    "number",
    [signal.SIGKILL, pytest.param(signal.SIGTERM, marks=pytest.mark.prove)],
)
async def test_the_virtual_machine_ends_with_its_process(jmx: JmxSite, number: signal.Signals) -> None:
    async with jmx.running() as process:
        machine = java_process(process)
        os.kill(process.process.pid, number)
        await eventually(lambda: _ended(machine), "the virtual machine has ended")


async def test_it_is_ready_though_there_is_no_core(jmx: JmxSite) -> None:
    await jmx.core.stop()
    async with jmx.running(), jmx.client() as client:
        assert await client.names() == [GATEWAY]
        assert await client.read(GATEWAY, "FeedConnected") == "java.lang.Boolean false"


async def test_passwords_are_made_at_the_first_start_and_asked_for(jmx: JmxSite) -> None:
    """The first login is reported to the core at once, and others are counted."""
    secret = jmx.site.state.secret_path("jmx-monitor")
    monitor = Principal("jmx", "monitor", "127.0.0.1")
    assert not secret.exists()
    async with jmx.running():
        assert secret.stat().st_mode & 0o777 == 0o600
        assert "SecurityException" in await jmx.refusal("monitor", "guessed")
        assert "SecurityException" in await jmx.refusal("nobody", jmx.password)
        assert jmx.core.logins == []
        for _ in range(3):
            assert await jmx.refusal("monitor", jmx.password) == ""
        await asyncio.to_thread(wait_until, lambda: jmx.core.logins, "the first login is reported")
        assert jmx.core.logins == [LoginReport(monitor)]
    await asyncio.to_thread(wait_until, lambda: jmx.core.logins[1:], "the others are reported at the end")
    assert jmx.core.logins[1:] == [LoginReport(monitor, 2)]
    reported = jmx.log.read_text(encoding="utf-8")
    assert "jmx-login-refused" in reported
    assert jmx.password not in reported
    assert "guessed" not in reported


async def test_a_password_may_be_configured_and_is_changed_without_a_restart(jmx: JmxSite) -> None:
    password, user = jmx.site.secret("the first"), "Some.Body-1"
    jmx.configure(users={user: {"password": password}, "other": {}})
    file = jmx.site.folder / password["file"]
    async with jmx.running():
        assert await jmx.refusal(user, "the first") == ""
        assert "SecurityException" in await jmx.refusal("other", "the first")
        file.write_text(f"{make_hash('the second')}\n")
        assert "SecurityException" in await jmx.refusal(user, "the first")
        assert await jmx.refusal(user, "the second") == ""
        file.unlink()
        failure = await jmx.refusal(user, "the second")
        assert "the gateway could not say whether the password is right: see its log" in failure
        own = jmx.site.state.secret_path("jmx-other")
        own.write_text("the third\n")
        assert await jmx.refusal("other", "the third") == ""
    assert "jmx-password-not-usable" in jmx.log.read_text()


async def test_a_hash_that_cannot_be_used(jmx: JmxSite) -> None:
    jmx.configure(users={"monitor": {"password": jmx.site.secret("$2b$12$C6UzMDM.H6dfI/f/IKcEeO")}})
    code, reported = await asyncio.to_thread(start, jmx)
    assert code is ExitCode.CONFIGURATION
    (line,) = reported
    assert line.startswith("amqp-gateway: jmx.users.monitor: a hash of a password is a line of Argon2id")


async def test_a_login_while_the_process_stands_still_is_not_decided(jmx: JmxSite) -> None:
    async with jmx.running() as process:
        assert await jmx.refusal("monitor", jmx.password) == ""
        stop(process.process.pid)
        try:
            began = time.monotonic()
            right, wrong = await asyncio.gather(
                jmx.refusal("monitor", jmx.password), jmx.refusal("monitor", "guessed")
            )
            took = time.monotonic() - began
        finally:
            process.process.send_signal(signal.SIGCONT)
        for failure in (right, wrong):
            assert failure.startswith("java.io.IOException: time-out: the gateway did not answer in time")
            assert "SecurityException" not in failure
            assert "wrong" not in failure
        assert took < DEADLINE

        async def is_let_in() -> bool:
            return await jmx.refusal("monitor", jmx.password) == ""

        await eventually(is_let_in, "the next login succeeds")


async def test_a_renewed_certificate_is_used_without_a_restart(jmx: JmxSite, tmp_path: Path) -> None:
    authority = Authority.make(tmp_path / "authority")
    first, second, third = (authority.confirm(name) for name in ("first", "second", "third"))
    certificate, key = (jmx.site.folder / name for name in ("gateway.pem", "gateway-key.pem"))

    def replace(by: Certificate, key_of: Certificate) -> None:
        for new, path in ((by.certificate, certificate), (key_of.key, key)):
            draft = path.with_suffix(".new")
            shutil.copy(new, draft)
            draft.rename(path)

    async def shows(expected: Certificate) -> None:
        async def is_shown() -> bool:
            return await asyncio.to_thread(shown_certificate, jmx.port) == expected.certificate.read_text()

        await eventually(is_shown, f"the certificate {expected.certificate.name} is shown")

    replace(first, first)
    jmx.configure(tls={"certificate": certificate.name, "key": key.name})
    async with jmx.running() as process:
        await shows(first)
        machine = java_process(process)
        replace(second, second)
        await shows(second)
        assert java_process(process) == machine
        replace(third, second)
        await asyncio.to_thread(
            wait_until, lambda: "jmx-tls-not-renewed" in jmx.log.read_text(), "the fault is logged"
        )
        # The next virtual machine has no other ones.
        machine.kill()
        await eventually(lambda: _ended(machine), "the virtual machine has ended")
        await shows(second)
        replace(third, third)
        await shows(third)
    assert jmx.log.read_text().count("jmx-tls-not-renewed") == 1


def shown_certificate(port: int) -> str:
    """The certificate of the server, in PEM; an empty text where it does not listen."""
    try:
        return ssl.get_server_certificate(("127.0.0.1", port), timeout=30)
    except OSError:
        return ""


# ---- what the command says when it cannot work ----------------------------------------------------------


def start(jmx: JmxSite) -> tuple[ExitCode, list[str]]:
    ended = amqp_gateway("process", "jmx", "--config", jmx.site.configuration)
    return ended.code, [line for line in ended.errors.splitlines() if not is_log_record(line)]


async def test_a_port_that_is_taken(jmx: JmxSite) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", jmx.port))
        other.listen()
        code, reported = await asyncio.to_thread(start, jmx)
    assert code is ExitCode.ADDRESS_IN_USE
    assert len(reported) == 1
    assert f"127.0.0.1 port {jmx.port}" in reported[0]
    assert "jmx.listen" in reported[0]


async def test_java_that_is_missing(jmx: JmxSite, tmp_path: Path) -> None:
    jmx.configure(java=str(tmp_path / "nowhere"))
    code, reported = await asyncio.to_thread(start, jmx)
    assert code is ExitCode.NOT_INSTALLED
    assert len(reported) == 1
    assert f"{tmp_path}/nowhere holds no Java runtime" in reported[0]


async def test_a_password_that_cannot_be_read(jmx: JmxSite) -> None:
    jmx.configure(users={"monitor": {"password": {"file": "nowhere"}}})
    code, reported = await asyncio.to_thread(start, jmx)
    assert code is ExitCode.CONFIGURATION
    assert reported == [
        f"amqp-gateway: {jmx.site.folder}/nowhere: the secret cannot be read: No such file or directory"
    ]


async def test_files_of_tls_that_cannot_be_used(jmx: JmxSite) -> None:
    jmx.configure(tls={"certificate": "nowhere.pem", "key": "nowhere-key.pem"})
    code, reported = await asyncio.to_thread(start, jmx)
    assert code is ExitCode.CONFIGURATION
    assert reported == [
        f"amqp-gateway: {jmx.site.folder}/nowhere.pem: cannot be read: No such file or directory"
    ]


async def test_plain_text_beyond_this_machine(jmx: JmxSite) -> None:
    jmx.configure(listen=f"0.0.0.0:{jmx.port}")
    code, reported = await asyncio.to_thread(start, jmx)
    assert code is ExitCode.CONFIGURATION
    assert "or 'allow_plain_text: true' where the network is protected otherwise" in reported[0]


async def test_a_state_that_is_missing(jmx: JmxSite) -> None:
    jmx.site.configure(jmx={"enabled": True}, state={"folder": "elsewhere"})
    code, reported = await asyncio.to_thread(start, jmx)
    assert code is ExitCode.STATE
    assert len(reported) == 1
    with pytest.raises(Exception, match="no gateway state here"):
        StateFolder(jmx.site.folder / "elsewhere")


def has_java(process: RunningCommand) -> bool:
    return [child.name() for child in psutil.Process(process.process.pid).children()] == ["java"]


def is_alive(process: psutil.Process) -> bool:
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE


async def _ended(process: psutil.Process) -> bool:
    try:
        return not is_alive(process)
    except psutil.NoSuchProcess:
        return True
