"""The figures of the code are counted as they are described."""

from __future__ import annotations

from pathlib import Path

from tests.structure.code import CodeFigures, figures_of
from tests.structure.inventory_times import feed_times, inventory_times
from tests.structure.paths import traces

TEXT = '''"""A module.

With a paragraph.
"""

# Why it is so.
import os  # the system
from pathlib import (
    Path,
)

LIMIT = 3
"""A limit."""


def home() -> Path:
    """Return the home."""
    return Path(os.environ["HOME"], """
        text
    """)
'''


def test_each_line_is_counted_as_what_it_is(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text(TEXT)
    assert figures_of(tmp_path) == CodeFigures(
        files=1, lines=20, code=9, imports=4, comments=1, docstrings=6, functions=1
    )
    (tmp_path / "two.py").write_text(TEXT)
    assert figures_of(tmp_path).lines == 40


def test_a_trace_of_a_set_goes_from_the_request_to_the_broker_and_back() -> None:
    trace = traces()["a SET, to the broker and back"]
    assert trace.calls[0] == ("snmp/requests.py", "Responder.answer")
    assert {"operations/manager.py", "feed/messages.py", "dialects/qmf/codec.py"} <= trace.files
    requests = trace.calls.count(("operations/manager.py", "OperationManager.submit"))
    assert requests == 1, "one round trip over the feed"


def test_a_trace_goes_from_the_body_of_a_peer_to_what_a_manager_reads() -> None:
    for what, trace in traces().items():
        if what.startswith("a SET"):
            continue
        assert trace.calls[0] == ("dialects/qmf/console.py", "ConsoleSession.handle"), what
        assert {"inventory/source.py", "feed/messages.py", "snmp/projection.py"} <= trace.files
        assert len(trace.files) <= trace.changes + 1 <= len(trace.calls)
    assert ("snmp/table.py", "Table.put") in traces()["statistics of an object, to an SNMP cell"].calls


def test_the_times_of_the_feed_are_measured_for_each_update() -> None:
    times = feed_times(2)
    assert 0 < times.encoded < 10_000
    assert 0 < times.decoded < 10_000


def test_the_times_of_the_inventory_are_measured_for_each_object() -> None:
    times = inventory_times(200)
    assert min(times.created, times.updated, times.confirmed) > 0
    assert max(times.created, times.updated, times.confirmed) < 10_000
