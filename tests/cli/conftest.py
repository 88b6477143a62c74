"""What tests of commands share."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.components.command_line import Site, new_site


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """A configuration without sources, and a state folder."""
    return new_site(tmp_path)


@pytest.fixture
def site_without_state(tmp_path: Path) -> Site:
    """A configuration without sources whose gateway was never made."""
    return new_site(tmp_path, state=False)
