"""A real gateway: refused SETs are chained, heads go out, no kill is a false alarm, tampering is found."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from gateway.durable_files import PRIVATE
from gateway.eventlog.segment import list_segments
from gateway.inventory.own_conditions import AUDIT_HEADS_ALARM as ALARM
from gateway.service.processes import audit_heads
from gateway.service.processes.audit_heads import HeadsFile, append_lines
from gateway.service.processes.exit_codes import ExitCode
from tests.components.command_line import RunningCommand, Site, amqp_gateway, new_site, running
from tests.components.net_snmp import printed
from tests.components.waiting import until, wait_until
from tests.eventlog.audited import rewritten
from tests.eventlog.reading import of_kind, read_log
from tests.service.processes.test_notifications import kill
from tests.service.state.test_late_events import site_with
from tests.snmp.notifications.snmptrapd import snmptrapd

DEFAULT = "1.3.6.1.4.1.8072.9999.9999"
SYS_NAME = ".1.3.6.1.2.1.1.5.0"


def guess(site: Site, word: str) -> None:
    """Send a SET with a community that is not known; it is not answered."""
    address = f"127.0.0.1:{site.snmp_port}"
    words = ["snmpset", "-v2c", "-c", word, "-r", "0", "-t", "0.2", address, SYS_NAME, "s", "x"]
    subprocess.run(words, capture_output=True, timeout=60, check=False)  # noqa: S603  net-snmp's


def records(site: Site) -> list[dict[str, Any]]:
    return read_log(site.state.path / "log")


def refusals(site: Site) -> list[dict[str, Any]]:
    try:
        return [each for each in of_kind(records(site), "operation") if each.get("outcome") == "refused"]
    except (OSError, ValueError, IndexError):
        return []  # the log is just being written


def guess_until_recorded(site: Site, number: int) -> None:
    def is_recorded() -> bool:
        if len(refusals(site)) >= number:
            return True
        guess(site, f"guess{number}")
        return len(refusals(site)) >= number

    wait_until(is_recorded, f"refusal {number} is in the log")


def kill_all(gateway: RunningCommand) -> None:
    supervisor = psutil.Process(gateway.process.pid)
    processes = [supervisor, *supervisor.children(recursive=True)]
    for process in processes:
        os.kill(process.pid, signal.SIGKILL)
    gateway.process.wait(60)
    psutil.wait_procs(processes[1:], timeout=60)


def test_a_gateway_that_is_killed_again_and_again_has_a_chain_without_a_fault(tmp_path: Path) -> None:
    trapd, heads = tmp_path / "trapd", tmp_path / "elsewhere" / "gateway.heads"
    trapd.mkdir()
    heads.parent.mkdir()
    with snmptrapd(trapd, "public") as daemon:
        site = site_with(tmp_path, daemon.port)
        document = yaml.safe_load(site.configuration.read_text())
        document["log"]["compact"] = False
        document["audit"] = {"heads": {"interval": "10s", "file": "elsewhere/gateway.heads"}}
        site.configuration.write_text(yaml.safe_dump(document))
        with running("run", "--config", site.configuration, log=tmp_path / "log") as gateway:
            gateway.ready()
            guess_until_recorded(site, 1)
            kill(gateway, "core")
            guess_until_recorded(site, 2)
            kill_all(gateway)
        with running("run", "--config", site.configuration, log=tmp_path / "log") as gateway:
            gateway.ready()
            guess_until_recorded(site, 3)
            meanwhile = amqp_gateway("audit", "verify", "--config", site.configuration)
            assert meanwhile.code == ExitCode.OK, meanwhile
            wait_until(
                lambda: any(
                    each.values["snmpTrapOID.0"].endswith("agAuditHead") for each in daemon.printed()
                ),
                "a head is a notification",
            )
            assert gateway.terminate().code == ExitCode.OK
    check_heads(site, heads)
    check_verification(site, heads)


def check_heads(site: Site, heads: Path) -> None:
    """Compare the heads of the file with the chain, and with the events."""
    lines = heads.read_text().splitlines()
    assert lines, "a head at the end"
    numbers = [json.loads(line)["audit"] for line in lines]
    audited = [record["audit"] for record in records(site) if "audit" in record]
    assert audited == list(range(1, len(audited) + 1))
    assert numbers[-1] == audited[-1]
    recorded = [
        each["values"]["head"] for each in of_kind(records(site), "event") if each["event"] == "auditHead"
    ]
    assert recorded == [line for line in lines if line in recorded]
    assert lines[-1] in recorded
    # A head is in the file before its event is in the log, and each of two kills may come in between.
    assert len(lines) - len(recorded) <= 2


def check_verification(site: Site, heads: Path) -> None:
    """Verify beside the gateway, elsewhere, after compaction, and after tampering."""
    key = site.state.path / "secrets" / "audit-key.pem"
    assert key.stat().st_mode & 0o777 == PRIVATE
    public = site.folder / "public.pem"
    public.write_text(amqp_gateway("audit", "key", "--config", site.configuration).output)
    found = amqp_gateway("audit", "verify", "--config", site.configuration)
    assert found.code == ExitCode.OK, found
    last = json.loads(heads.read_text().splitlines()[-1])["audit"]
    assert f"{last} audited records, 1 to {last}, of " in found.output
    assert found.output.endswith("no audited record is missing, changed, moved or added\n")

    kept = heads.rename(heads.with_suffix(".kept"))
    for written, problem in (
        (False, "is missing, and had signed"),
        (True, "lacks the head that the gateway wrote"),
    ):
        if written:
            heads.write_text("")
        lost = amqp_gateway("audit", "verify", "--config", site.configuration)
        assert lost.code == ExitCode.DIFFERENCE
        assert lost.output.startswith(f"missing: {heads}: {problem}")
    heads.unlink()
    of_state = (site.state.path / "audit-head").rename(site.folder / "audit-head")
    lost = amqp_gateway("audit", "verify", "--config", site.configuration)
    assert lost.code == ExitCode.DIFFERENCE
    assert lost.output.startswith(f"missing: {heads}: is missing, and the log says that signed heads were")
    of_state.rename(site.state.path / "audit-head")
    kept.rename(heads)

    elsewhere = ("--folder", site.state.path / "log", "--heads", heads, "--public-key", public)
    assert amqp_gateway("audit", "verify", *elsewhere).code == ExitCode.OK
    log = site.folder / "copy"
    shutil.copytree(site.state.path / "log", log)
    assert amqp_gateway("log", "compact", "--all", "--folder", log).code == ExitCode.OK
    compacted = ("--folder", log, "--heads", heads, "--public-key", public)
    assert amqp_gateway("audit", "verify", *compacted).output == found.output

    falsify(site)
    found = amqp_gateway("audit", "verify", *elsewhere)
    assert found.code == ExitCode.DIFFERENCE
    assert found.output.startswith("changed: audit record "), found
    (problem, *_) = [
        json.loads(line) for line in amqp_gateway("audit", "verify", *elsewhere, "--json").output.splitlines()
    ]
    assert problem["fault"] == "changed"


def falsify(site: Site) -> None:
    """Let another address be the one that guessed."""
    for segment in list_segments(site.state.path / "log"):
        lines = [json.loads(line) for line in segment.path.read_bytes().splitlines()]
        if any(line.get("outcome") == "refused" for line in lines):
            rewritten(
                segment.path,
                lambda found: [
                    {**each, "origin": "198.51.100.9"} if each.get("outcome") == "refused" else each
                    for each in found
                ],
            )
            return


async def test_heads_wait_for_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    path = tmp_path / "absent" / "heads"
    file = HeadsFile(path)
    file.add("one")
    await file.write()
    file.add("two")
    await file.write()
    path.parent.mkdir()
    await file.write()
    assert path.read_text() == "one\ntwo\n"
    file.add("three")
    await file.write()
    assert path.read_text() == "one\ntwo\nthree\n"


async def test_each_attempt_to_write_the_file_is_reported(tmp_path: Path) -> None:
    stands: list[str] = []
    path = tmp_path / "absent" / "heads"
    file = HeadsFile(path, stands.append)
    file.add("one")
    await file.write()
    await file.write()
    assert file.is_waiting
    path.parent.mkdir()
    await file.write()
    assert not file.is_waiting
    assert stands == ["No such file or directory", "No such file or directory", ""]
    full = HeadsFile(Path("/dev/full"), stands.append)
    full.add("one")
    await full.write()
    assert stands[-1] == "No space left on device"


def test_a_running_gateway_has_an_alarm_until_the_heads_are_written(tmp_path: Path) -> None:
    site, heads = new_site(tmp_path), tmp_path / "elsewhere" / "heads"
    site.configure(
        sources={},
        snmp={"listen": [f"127.0.0.1:{site.snmp_port}"]},
        audit={"heads": {"interval": "10s", "file": "elsewhere/heads"}},
        log={"min_free": 0, "commit_interval": "1ms", "compact": False},
    )
    community = (tmp_path / "state" / "secrets" / "community").read_text("utf-8").strip()

    def walked() -> str:
        words = ("-v2c", "-c", community, "-Oa", f"127.0.0.1:{site.snmp_port}", DEFAULT)
        return printed(tmp_path / "net-snmp", "snmpwalk", *words).stdout

    def events() -> list[tuple[str, str]]:
        try:
            found = of_kind(records(site), "event")
        except (OSError, ValueError, IndexError):
            return []  # the log is just being written
        return [(each["event"], each["text"]) for each in found if each.get("condition") == ALARM]

    with running("run", "--config", site.configuration, log=tmp_path / "log") as gateway:
        gateway.ready()
        wait_until(lambda: ALARM in walked(), "the alarm is shown by SNMP")
        ((name, text),) = events()
        assert name == "alarmRaised"
        assert text.startswith("signed heads of the audit are not written: No such file or directory: ")
        findings = amqp_gateway("doctor", "--json", "--config", site.configuration)
        assert findings.code is ExitCode.DIFFERENCE
        problems = [
            each for each in map(json.loads, findings.output.splitlines()) if each["check"] == "audit-heads"
        ]
        assert [each["level"] for each in problems] == ["problem", "problem"], "the file, and the alarm"
        heads.parent.mkdir()
        wait_until(lambda: len(events()) == 2, "the condition ends")
        assert events()[1][0] == "alarmCleared"
        assert heads.read_text()
        wait_until(lambda: ALARM not in walked(), "SNMP shows no alarm")
        assert gateway.terminate().code == ExitCode.OK


async def test_a_file_that_does_not_answer_delays_nothing_for_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    file = HeadsFile(path)
    file.add("one")
    await file.write()  # without a reader a pipe is an error
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        monkeypatch.setattr(audit_heads, "FILE_SECONDS", 0.01)
        await file.write()

        def has_come() -> bool:
            try:
                return os.read(reader, 100) == b"one\n"
            except BlockingIOError:
                return False

        await until(has_come, "a pipe with a reader takes the head, although it cannot be synced")
    finally:
        os.close(reader)


def test_half_a_line_is_not_left_behind(tmp_path: Path) -> None:
    path = tmp_path / "heads"
    path.write_text("one\n")
    former = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, former[1]))
    try:
        with pytest.raises(OSError, match=r"No space|too large"):
            append_lines(path, ("a line that is longer",))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, former)
        signal.signal(signal.SIGXFSZ, handler)
    assert path.read_text() == "one\n"
