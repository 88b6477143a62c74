"""All benchmarks, in the order in which they run and stand on the page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tests.bench.commands.benchmark import CommandsBenchmark
from tests.bench.dialects.benchmark import DialectsBenchmark
from tests.bench.jmx.benchmark import JmxBenchmark
from tests.bench.latency.benchmark import LatencyBenchmark
from tests.bench.log.benchmark import LogBenchmark
from tests.bench.rabbitmq.benchmark import RabbitMqBenchmark
from tests.bench.run import Benchmark
from tests.bench.snmp.benchmark import SnmpBenchmark
from tests.bench.spark.benchmark import SparkBenchmark

BENCHMARKS: Final[Sequence[Benchmark]] = (
    SnmpBenchmark(),
    JmxBenchmark(),
    LogBenchmark(),
    SparkBenchmark(),
    LatencyBenchmark(),
    DialectsBenchmark(),
    RabbitMqBenchmark(),
    CommandsBenchmark(),
)
