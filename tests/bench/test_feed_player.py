"""The core that benchmarks imitate."""

from __future__ import annotations

import socket
from pathlib import Path

from gateway.feed.messages import encode
from gateway.feed.records import Alive
from tests.bench.feed_player import FeedPlayer
from tests.components.waiting import DEADLINE


def test_a_front_end_that_is_sent_no_records_gets_signs_of_life(tmp_path: Path) -> None:
    path, alive = tmp_path / "feed.sock", encode(Alive())
    with FeedPlayer(path) as core, socket.socket(socket.AF_UNIX) as front_end:
        front_end.settimeout(DEADLINE)
        front_end.connect(str(path))
        core.begin([])
        received = b""
        while not received.endswith(2 * alive):
            received += front_end.recv(65_536)
