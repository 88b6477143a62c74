"""``amqp-gateway analytics`` as an operator calls it, and its messages where something is missing."""

from __future__ import annotations

import json
import os
import shlex
import socket
import struct
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from packaging.requirements import Requirement
from pyspark.sql import SparkSession

from gateway.analytics.session import MissingError, SparkSettings, check_java
from gateway.cli.analytics import analytics
from gateway.eventlog.record import RecordKind
from gateway.service.processes.exit_codes import ExitCode
from tests.analytics.conftest import OF_OTHERS, CommandedReport
from tests.analytics.logs import WrittenLog, of_object, reported
from tests.components.command_line import amqp_gateway
from tests.components.hosts import NO_USER, host, not_executable, without_user
from tests.components.waiting import DEADLINE

WITHOUT_SPARK = "import sys; sys.modules['pyspark'] = None; from gateway.cli.main import main; main()"
NOON_HOURS = ("--from", "2026-11-20T11:00", "--to", "2026-11-20T13:00")


def java(folder: Path, version: str) -> Path:
    """Return a folder whose ``java`` prints this version."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2026-10-20' >&2\n")
    program.chmod(0o755)
    return folder


@pytest.mark.xdist_group("spark")
def test_a_report_is_printed_drawn_and_kept(commanded_report: CommandedReport) -> None:
    """The tests' own Spark is used here; the command's own Spark is tested where its driver is killed."""
    made = commanded_report
    assert made.settings == SparkSettings("local[1]", {"spark.driver.memory": "1g"})
    said = json.loads(made.ended.stdout)
    assert said["contents"]["records"] == made.ledger.kinds.total()
    assert [row["queue"] for row in said["tables"]["queues"]][:2] == ["orders", "mail"]
    assert said == json.loads((made.kept / "report.json").read_text())
    written = [made.page, *made.kept.iterdir()]
    assert {oct(file.stat().st_mode & 0o777) for file in written} == {"0o600"}
    assert made.page.read_bytes().startswith(b"\x89PNG")
    progress = made.ended.stderr.splitlines()
    assert progress[:2] == ["  ..  starting Spark", "  ..  reading the log"]
    assert all(line.startswith("  ..  ") for line in progress)


@pytest.mark.prove
@pytest.mark.long
def test_spark_runs_on_this_machine_with_the_interpreter_of_the_command_whatever_the_environment_has(
    log: WrittenLog, tmp_path: Path
) -> None:
    (tmp_path / "core-site.xml").write_text(
        "<configuration><property><name>fs.defaultFS</name><value>hdfs://127.0.0.1:9</value></property>"
        "</configuration>"
    )
    other = tmp_path / "bin" / "python3"
    other.parent.mkdir()
    other.write_text("#!/bin/sh\nexit 1\n")
    other.chmod(0o755)
    log.segment([reported(of_object(RecordKind.CREATE, 1, 1, name="orders"), 1, messages=7)])
    where = ("--log", log.path, "--master=local[1]", "--conf=spark.driver.memory=1g", "--json")
    path = os.pathsep.join([str(other.parent), os.environ["PATH"]])
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    # A process of its own: a forked one ends without what is to be done at its end.
    program = (sys.executable, "-P", "-m", "gateway.cli.main")
    ended = amqp_gateway(
        *("analytics", "report", *where, *NOON_HOURS),
        program=program,
        PATH=path,
        TMPDIR=str(temporary),
        HADOOP_CONF_DIR=str(tmp_path),
        JAVA_TOOL_OPTIONS=OF_OTHERS["JAVA_TOOL_OPTIONS"],
        PYSPARK_SUBMIT_ARGS=OF_OTHERS["PYSPARK_SUBMIT_ARGS"],
    )
    assert ended.code is ExitCode.OK, ended.errors
    assert list(temporary.iterdir()) == []
    assert json.loads(ended.output)["contents"]["records"] == 1


@pytest.mark.xdist_group("spark")
def test_the_driver_accepts_nothing_from_other_users(spark: SparkSession) -> None:
    """A request in the frame of Spark's own protocol, without the handshake that takes the secret."""
    port = int(spark.sparkContext.getConf().get("spark.driver.port") or 0)
    body = b"StopExecutor"
    request = struct.pack(">BqI", 3, 7, len(body)) + body
    with socket.create_connection(("127.0.0.1", port), timeout=DEADLINE) as stranger:
        stranger.sendall(struct.pack(">q", 8 + len(request)) + request)
        assert b"Expected SaslMessage" in stranger.recv(4096)


def test_a_standalone_master_has_a_secret_of_its_own(tmp_path: Path) -> None:
    assert SparkSettings("yarn").all(tmp_path)["spark.authenticate"] == "true"
    assert "spark.authenticate" not in SparkSettings("spark://host:7077").all(tmp_path)
    theirs = {"spark.authenticate": "false"}
    assert SparkSettings("local[1]", theirs).all(tmp_path)["spark.authenticate"] == "false"


def test_without_the_extra_it_is_said_what_brings_it(tmp_path: Path) -> None:
    program = (sys.executable, "-c", WITHOUT_SPARK)
    ended = amqp_gateway("analytics", "report", "--log", tmp_path, program=program)
    assert ended.code is ExitCode.NOT_INSTALLED
    (line,) = ended.errors.splitlines()
    installs = shlex.split(line.partition(": ")[2].partition("install it by: ")[2].partition(";")[0])
    assert installs[:5] == [sys.executable, "-P", "-m", "pip", "install"]
    assert {Requirement(wanted).name for wanted in installs[5:]} >= {"pyspark", "pandas", "matplotlib"}
    assert "Java 17 or newer" in line
    assert amqp_gateway("analytics", "report", "--help", program=program).code is ExitCode.OK


def test_the_log_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    (tmp_path / "LOG").write_text('{"version": 4, "log_id": "x", "next_seq": 1}')
    for command in (("report",), ("run", "--output", tmp_path)):
        ended = amqp_gateway("analytics", *command, "--log", tmp_path)
        assert (ended.code, "of version 4" in ended.errors) == (ExitCode.STATE, True)


def test_without_java_it_is_said_what_brings_it(tmp_path: Path) -> None:
    ended = amqp_gateway("analytics", "report", "--log", tmp_path, JAVA_HOME=str(tmp_path))
    assert ended.code is ExitCode.NOT_INSTALLED
    assert f"JAVA_HOME ({tmp_path}) holds none" in ended.errors
    assert "apt-get install default-jre-headless" in ended.errors


@pytest.mark.parametrize("version", ["11.0.2", "1.8.0_402", "16", "unknown"])
def test_a_java_that_is_too_old_is_named(
    version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(java(tmp_path, version)))
    with pytest.raises(MissingError, match="17 or newer"):
        check_java()


@pytest.mark.parametrize("version", ["17.0.21", "21", "25-ea"])
def test_a_java_that_is_new_enough_will_do(
    version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(java(tmp_path, version)))
    check_java()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("report", "--last", "yesterday"), "is no duration"),
        (("report", "--from", "noon"), "is no time"),
        (("report", "--from", "2026-11-20", "--to", "2026-11-19"), "ends before it begins"),
        (("report", "--conf", "spark.driver.memory"), "write KEY=VALUE"),
        (("run",), "--output"),
    ],
)
def test_a_wrong_command_line_is_explained(arguments: tuple[str, ...], said: str, tmp_path: Path) -> None:
    done = CliRunner().invoke(analytics, [*arguments, "--log", str(tmp_path)])
    assert done.exit_code == ExitCode.USAGE
    assert said in done.stderr


def test_settings_given_hold_over_ours(tmp_path: Path) -> None:
    given = {"spark.driver.memory": "9g", "spark.ui.enabled": "true"}
    settings = SparkSettings("local[3]", given).all(tmp_path)
    assert settings["spark.local.dir"] == str(tmp_path)
    assert settings["spark.master"] == "local[3]"
    assert (settings["spark.driver.memory"], settings["spark.ui.enabled"]) == ("9g", "true")
    assert settings["spark.sql.session.timeZone"] == "UTC"
    assert settings["spark.driver.bindAddress"] == "127.0.0.1"


def test_a_cluster_keeps_its_own_partitions_memory_and_addresses(tmp_path: Path) -> None:
    settings = SparkSettings("yarn").all(tmp_path)
    ours = {"spark.sql.shuffle.partitions", "spark.driver.memory", "spark.driver.host", "spark.local.dir"}
    assert not ours & set(settings)


def test_options_of_other_java_programs_do_not_keep_spark_from_its_start(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """`amqp-gateway run` starts its own virtual machine without them, too. SPARK_HOME ends this command."""
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", OF_OTHERS["JAVA_TOOL_OPTIONS"])
    words = ["analytics", "report", "--log", str(tmp_path)]
    ended = amqp_gateway(*words, SPARK_HOME=str(tmp_path))
    assert ended.reported[-1].startswith(
        f"amqp-gateway: the variable SPARK_HOME names {tmp_path}, which has no"
    )
    assert ended.reported[-1].endswith(": the extra [spark] brings its own")
    kept = amqp_gateway(*words, "--conf", "amqp-gateway.keep-java-options=true", SPARK_HOME=str(tmp_path))
    assert "does not start with the variable JAVA_TOOL_OPTIONS, which is kept" in kept.reported[-1]
    assert {ended.code, kept.code} == {ExitCode.FAILED}


@pytest.mark.parametrize("settings", [{}, {"amqp-gateway.keep-java-options": "true"}])
def test_the_key_that_keeps_them_is_none_of_spark(settings: dict[str, str], tmp_path: Path) -> None:
    assert set(SparkSettings(conf=settings).all(tmp_path)) == set(SparkSettings().all(tmp_path))
    assert SparkSettings(conf=settings).keeps_java_options is bool(settings)


def test_another_spark_in_spark_home_is_named(tmp_path: Path) -> None:
    for file in ("bin/spark-submit", "jars/spark-core_2.12-3.5.1.jar"):
        (tmp_path / file).parent.mkdir()
        (tmp_path / file).touch()
    ended = amqp_gateway("analytics", "report", "--log", str(tmp_path), SPARK_HOME=str(tmp_path))
    assert f"SPARK_HOME names {tmp_path}, which has another Spark: unset it" in ended.reported[-1]


def test_a_user_without_a_name_is_said_before_spark_starts(tmp_path: Path) -> None:
    ended = amqp_gateway("analytics", "report", "--log", str(tmp_path), program=without_user())
    assert ended.reported[-1].startswith(f"amqp-gateway: the user {NO_USER} has no entry in /etc/passwd")
    assert ended.code is ExitCode.FAILED


def test_temporary_files_where_no_library_can_be_loaded_are_said_before_spark_starts(tmp_path: Path) -> None:
    program = host(not_executable(tmp_path))
    words = ("--log", str(Path(__file__).parent))
    ended = amqp_gateway("analytics", "report", *words, program=program, TMPDIR=str(tmp_path))
    assert ended.reported[-1].startswith(
        f"amqp-gateway: {tmp_path} is mounted with 'noexec', and Spark loads"
    )
    assert ended.code is ExitCode.FAILED
