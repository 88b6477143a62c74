"""The code for Spark in ``docs/event-log.md`` works as it stands there."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.eventlog.documented_log import documented, written

pytestmark = pytest.mark.xdist_group("spark")


async def test_the_lines_for_spark_answer_what_happened(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = await written(tmp_path)
    (code,) = documented("python", "Spark")
    # The virtual machine works where it was started: what is relative here is not there.
    exec(code.replace('"lake"', repr(str(folder / "lake"))), {"spark": spark})  # noqa: S102  the page's own example
    reported = ["".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "|create|queue|2|" in reported
    assert "|event|NULL|1|" in reported
    assert "|orders|/|orders|67|" in reported
