"""The error statuses of SNMP version 1 (RFC 3584 section 4.4), by ``snmpset -v1``."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.outcomes.faults import without_rights
from tests.outcomes.manager import Manager
from tests.outcomes.scene import TRAINEE, Scene
from tests.outcomes.targets import DISTANT_SHOP, SHOP

pytestmark = pytest.mark.xdist_group("outcomes")


@pytest.fixture
def manager(there: Scene, tmp_path: Path) -> Manager:
    """Return the manager of the operator."""
    return Manager(there, tmp_path, version="1")


def test_success(there: Scene, manager: Manager) -> None:
    assert manager.set(SHOP, "maxQueues", 40) == ""
    assert there.limits() == {"max-queues": 40}
    assert manager.set(SHOP, "maxQueues", -1) == ""
    assert there.limits() == {}


def test_what_is_refused_or_not_there_or_cannot_be_set_is_no_such_name(
    there: Scene, manager: Manager, tmp_path: Path
) -> None:
    assert Manager(there, tmp_path, TRAINEE, "1").set(SHOP, "maxQueues", 40) == "noSuchName"
    assert manager.set_instance("rmqVhostMaxQueues.1.99999", 40) == "noSuchName"
    assert manager.set(SHOP, "messages", 40) == "noSuchName"


def test_a_value_of_a_wrong_type_or_length_or_out_of_range_is_a_bad_value(manager: Manager) -> None:
    assert manager.set(SHOP, "maxQueues", "many") == "badValue"
    assert manager.set(SHOP, "description", "x" * 8193) == "badValue"
    assert manager.set(SHOP, "maxQueues", -2) == "badValue"


def test_two_objects_in_one_set_are_a_bad_value(there: Scene, manager: Manager) -> None:
    words: list[str] = []
    for target in (SHOP, DISTANT_SHOP):
        words += [f"rmqVhostMaxQueues.{manager.index_of(target)}", "i", "40"]
    assert manager.status(*words) == "badValue"
    assert there.limits() == {}


def test_a_commit_that_failed_is_a_general_error(there: Scene, manager: Manager) -> None:
    with without_rights(there):
        assert manager.set(SHOP, "maxQueues", 40) == "genError"
    assert there.limits() == {}
