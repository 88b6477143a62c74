"""A state that is worth keeping, and its backup."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from gateway.service.state.backup import back_up
from gateway.state_folder import StateFolder
from tests.state.started_state import NOW, started


@pytest.fixture
def state(tmp_path: Path) -> StateFolder:
    """Return the state of a gateway that was started three times: objects, a secret and norths' files."""
    state = StateFolder.create(tmp_path / "state")
    state.secret("community")
    for _ in range(3):
        with closing(started(state)) as index:
            source = index.source_number("orders")
            index.durable_row(source, "rabbitmq:queue", "/|orders")
            index.transient_row(source, "rabbitmq:connection")
    (state.path / "mibs").mkdir()
    (state.path / "mibs" / "AMQP-GATEWAY-SITE-MIB.mib").write_text("a module\n", encoding="ascii")
    return state


@pytest.fixture
def backup(state: StateFolder, tmp_path: Path) -> Path:
    """Return a backup of that state."""
    back_up(state, tmp_path / "backup.tar", NOW)
    return tmp_path / "backup.tar"
