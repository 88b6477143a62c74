"""What a steady load is judged by."""

from __future__ import annotations

import pytest

from tests.bench.jmx.steady import with_missed


def test_a_long_latency_stands_for_the_probes_that_waited_behind_it() -> None:
    assert with_missed([0.5, 2.5, 0.25], 1.0) == pytest.approx([0.5, 2.5, 1.5, 0.5, 0.25])
