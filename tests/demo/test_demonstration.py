"""The demonstration as a newcomer runs it: its check keeps its promises, and nothing of it is left."""

from __future__ import annotations

import re
import signal
import struct
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from gateway.demo.broker import PrivateBroker
from gateway.service.processes.exit_codes import ExitCode
from tests.components.command_line import amqp_gateway, environment, tracebacks
from tests.components.pages import served_page
from tests.components.waiting import wait_until
from tests.demo.printed import START_SECONDS, demonstration, ports, processes_of, typed
from tests.hypothesis_profiles import PROVING
from tests.second_run import RedAtOnceError

CHECK_SECONDS = 1200.0

shared = pytest.mark.xdist_group("demonstration that prints")


@pytest.mark.prove  # Ctrl-C ends the fixture `printed_text`, and test_broker.py kills the owner of a broker
@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_whatever_ends_it_nothing_is_left(tmp_path: Path, temporary: Path, end: signal.Signals) -> None:
    printed = tmp_path / "printed"
    with demonstration(printed, temporary) as process:
        names = {running.name() for running in processes_of(str(temporary))}
        assert {"beam.smp", "epmd", "java", "snmptrapd"} <= names, "all parts run, in that folder"
        process.send_signal(end)
        if end is not signal.SIGKILL:
            assert process.wait(timeout=START_SECONDS) == ExitCode.OK, printed.read_text()
        wait_until(lambda: not processes_of(str(temporary)), "no process is left")
        wait_until(lambda: not list(temporary.iterdir()), "no file is left")


@shared
def test_what_it_prints_can_be_typed(printed_text: str, tmp_path: Path) -> None:
    (folder,) = re.findall(r"export SNMPCONFPATH=(\S+)", printed_text)
    commands = re.findall(r"^  (snmp(?:table|walk) .*)$", printed_text, re.MULTILINE)
    assert len(commands) >= 4
    (metrics,) = re.findall(r"Prometheus +(http\S+)", printed_text)
    assert 'amqp_gateway_process_up{process="jmx"} 1.0' in served_page(metrics).text
    assert 'amqp_rabbitmq_queue_messages{name="orders.audit"' in served_page(f"{metrics}/objects").text
    for command in commands:
        done = typed(command.split(), SNMPCONFPATH=folder, SNMP_PERSISTENT_DIR=str(tmp_path))
        assert (done.returncode, "No Such" in done.stdout) == (0, False), done
        assert "AMQP-GATEWAY" in done.stdout


@shared
def test_it_can_be_changed_as_it_prints(printed_text: str, tmp_path: Path) -> None:
    (configuration,) = re.findall(r"export AMQP_GATEWAY_CONFIG=(\S+)", printed_text)
    ((folder, snmpset),) = re.findall(r"^  SNMPCONFPATH=(\S+) (snmpset .*)$", printed_text, re.MULTILINE)
    (changing,) = re.findall(r"^  \S*amqp-gateway (set .*)$", printed_text, re.MULTILINE)
    (looking,) = re.findall(r"^  \S*amqp-gateway (log tail --kind .*)$", printed_text, re.MULTILINE)

    by_snmp = typed(snmpset.split(), SNMPCONFPATH=folder, SNMP_PERSISTENT_DIR=str(tmp_path))
    by_command = amqp_gateway(*changing.split(), AMQP_GATEWAY_CONFIG=configuration)
    seen = amqp_gateway(*looking.split(), AMQP_GATEWAY_CONFIG=configuration)

    assert "= INTEGER: 100" in by_snmp.stdout, by_snmp
    assert re.search("maxQueues: -?[0-9]+ queues -> 50 queues", by_command.output), by_command
    assert "maxConnections" in seen.output, seen
    assert "maxQueues" in seen.output, seen


@shared
def test_its_event_log_can_be_asked_as_it_prints(printed_text: str) -> None:
    (configuration,) = re.findall(r"export AMQP_GATEWAY_CONFIG=(\S+)", printed_text)
    commands = re.findall(r"^  \S*amqp-gateway ((?:log|analytics) .*)$", printed_text, re.MULTILINE)
    assert [command.split()[:2] for command in commands] == [
        ["log", "tail"],
        ["log", "query"],
        ["analytics", "report"],
        ["log", "tail"],
    ]
    (folder,) = re.findall(r"^  event log +(\S+)$", printed_text, re.MULTILINE)
    assert (Path(folder) / "LOG").exists()
    for command in commands[:2]:
        words = command.removesuffix(" --follow").split()
        done = amqp_gateway(*words, AMQP_GATEWAY_CONFIG=configuration)
        assert done.code is ExitCode.OK, done
        assert done.errors in {"", "the first 1,000 rows: --limit shows more\n"}, done
        assert "rabbitmq" in done.output
    (ledger,) = re.findall(r"^  ledger +(\S+),", printed_text, re.MULTILINE)
    assert '"act": "published", "vhost": "shop", "name": "orders.audit"' in Path(ledger).read_text()


def test_a_broker_that_is_not_our_own_is_only_read(
    rabbitmq: PrivateBroker, tmp_path: Path, temporary: Path
) -> None:
    password = tmp_path / "password"
    password.write_text(rabbitmq.administrator.password)
    printed = tmp_path / "printed"
    options = ("--management", rabbitmq.management_url, "--password-file", str(password))
    with demonstration(printed, temporary, *options, "--user", rabbitmq.administrator.name):
        text = printed.read_text()
        (configuration,) = re.findall(r"export AMQP_GATEWAY_CONFIG=(\S+)", text)
        settings = yaml.safe_load(Path(configuration).read_text())
    assert "snmpset" not in text
    assert "operations" not in settings
    assert "writers" not in settings["snmp"]
    assert "writing" not in settings["sources"]["rabbitmq"]


def test_a_broker_that_cannot_be_read_ends_it_with_what_is_wrong(
    rabbitmq: PrivateBroker, tmp_path: Path
) -> None:
    password = tmp_path / "password"
    password.write_text("wrong")
    user = ("--user", rabbitmq.administrator.name, "--password-file", password)
    for management, code, said in (
        (rabbitmq.management_url, ExitCode.CREDENTIALS, "Login failed"),
        (f"http://127.0.0.1:{rabbitmq.ports.amqp}", ExitCode.UNREACHABLE, "cannot be reached"),
    ):
        ended = amqp_gateway("demo", "--management", management, *user)
        (line,) = ended.reported
        assert (ended.code, said in line, ended.output) == (code, True, "")


@pytest.mark.long
@pytest.mark.each_rabbitmq(takes_long=True)
@pytest.mark.timeout(2 * CHECK_SECONDS)
def test_its_check_keeps_every_promise(tmp_path: Path, rabbitmq_release: str) -> None:
    kept = tmp_path / "kept"
    done = subprocess.run(  # noqa: S603  our own command
        [
            sys.executable,
            "-m",
            "tests.demo_check",
            "--keep",
            str(kept),
            "--broker",
            rabbitmq_release,
            *ports(),
            *(() if PROVING else ("--quick",)),
        ],
        env=environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=CHECK_SECONDS,
        check=False,
    )
    if tracebacks(done.stderr):
        raise RedAtOnceError(done.stderr)
    assert done.returncode == ExitCode.OK, done.stdout + done.stderr
    promises = [line for line in done.stdout.splitlines() if line.startswith("ok ")]
    assert "ok   the two sources' walks agree but for the source" in promises
    assert "ok   JMX and SNMP have the same objects (rmqQueue)" in promises
    assert "ok   the trap of a closed connection names user, virtual host, peer and client" in promises
    assert "ok   snmpset changes a limit of a virtual host, rabbitmqctl confirms it" in promises
    assert "ok   5 columns written back as they were walked change nothing" in promises
    assert "ok   a purge through SNMP's table of commands empties it" in promises
    assert "ok   and so does one through JMX" in promises
    assert "ok   what no rule allows is refused: in SNMP, in JMX, at the command line" in promises
    assert "ok   so has SNMP's table of the last operations" in promises
    assert "ok   ledger: connections and queues that came and went, in the event log" in promises
    assert "ok   ledger: messages published to each queue, in JMX" in promises
    assert "ok   the report's messages published to each queue are the log's, and the ledger's" in promises
    assert "ok   stopping the agent turns its rows stale, and no others" in promises
    assert len(promises) >= 60
    pictures = {path.name: path.read_bytes() for path in kept.glob("*.png")}
    of_jconsole = {"jconsole-attributes.png", "jconsole-notifications.png"} if PROVING else set()
    assert set(pictures) == {"report.png", *of_jconsole}
    for name, octets in pictures.items():
        width, height = struct.unpack(">II", octets[16:24])
        assert octets.startswith(b"\x89PNG\r\n\x1a\n"), name
        assert (width, height) >= (1280, 860), name
    walks = (kept / "snmpwalk.txt").read_text()
    assert walks.startswith("$ snmpget 127.0.0.1:")
    assert "AMQP-GATEWAY-RABBITMQ-MIB::rmqQueueName.1." in walks
    assert "rmqVhostMaxConnections" in (kept / "snmpset.txt").read_text()
    assert "maxConnections: -1 connections -> 300 connections" in (kept / "commands.txt").read_text()
    assert "= AMQP-GATEWAY-RABBITMQ-MIB::rmqConnectionClosed" in (kept / "traps.txt").read_text()
    assert "connectionOpened" in (kept / "log.txt").read_text()
    assert "Busiest queues" in (kept / "report.txt").read_text()
