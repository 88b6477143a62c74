"""One Spark for all tests here: it takes longer to start than most of them to run.

Every test that asks for it is of the group ``spark``, so that one worker starts it (``xdist_group``).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from gateway.analytics.session import SparkSettings, session
from tests.analytics.logs import WrittenLog

SMALL = {
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "1",
    # Plans of so few rows take longer to compile and to adapt than to interpret.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    with session(SparkSettings("local[2]", SMALL), "tests") as started:
        yield started


@pytest.fixture
def log(tmp_path: Path) -> WrittenLog:
    """An empty log in a folder of its own."""
    return WrittenLog(tmp_path / "log")
