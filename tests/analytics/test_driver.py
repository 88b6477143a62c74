"""Spark ends at once, and leaves nothing, where Ctrl-C or a time limit breaks something off."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from pathlib import Path

import psutil
import pytest

from gateway.eventlog.record import RecordKind
from gateway.service.processes.exit_codes import ExitCode
from tests.analytics.conftest import SharedSpark
from tests.analytics.logs import WrittenLog, of_object, reported
from tests.components.command_line import COMMAND, environment
from tests.components.waiting import DEADLINE, wait_until


class TimeLimitError(BaseException):
    """A time limit: as pytest's, it breaks off whatever is under way, and is no ``Exception``."""


def test_ctrl_c_while_spark_starts_leaves_nothing_and_prints_nothing(log: WrittenLog, tmp_path: Path) -> None:
    log.segment([reported(of_object(RecordKind.CREATE, 1, 1, name="orders"), 1, messages=7)])
    temporary, printed = tmp_path / "tmp", tmp_path / "errors"
    temporary.mkdir()
    with printed.open("wb") as errors:
        process = subprocess.Popen(  # noqa: S603  our own command
            [*COMMAND, "analytics", "report", "--log", log.path, "--master=local[1]"],
            env=environment(TMPDIR=str(temporary)),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            start_new_session=True,
        )
    starting = psutil.Process(process.pid)
    wait_until(lambda: list(temporary.iterdir()), "Spark is to start")
    wait_until(lambda: "java" in [child.name() for child in starting.children(recursive=True)], "Java starts")
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(DEADLINE) == ExitCode.INTERRUPTED
    assert printed.read_text("utf-8").splitlines() == ["  ..  starting Spark"]
    assert list(temporary.iterdir()) == []
    words = [word for one in psutil.process_iter(["cmdline"]) for word in one.info["cmdline"] or ()]
    assert not [word for word in words if str(temporary) in word]


@pytest.mark.prove  # the tests' Spark is started again; that Ctrl-C ends a Spark, the test above shows
@pytest.mark.xdist_group("spark")
def test_a_call_that_broke_off_costs_no_other_test(shared_spark: SharedSpark) -> None:
    def limit(*_: object) -> None:
        raise TimeLimitError

    before = signal.signal(signal.SIGUSR1, limit)
    try:
        java = shared_spark.session()._jvm  # noqa: SLF001
        assert java is not None
        threading.Timer(0.5, signal.pthread_kill, (threading.main_thread().ident, signal.SIGUSR1)).start()
        with pytest.raises(TimeLimitError):
            java.java.lang.Thread.sleep(round(DEADLINE * 1000))
    finally:
        signal.signal(signal.SIGUSR1, before)
    shared_spark.give_up()
    assert shared_spark.session().range(3).count() == 3
