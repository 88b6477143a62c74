"""The greatest number of concurrent requests, while no change reaches the broker."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from gateway.service.processes.exit_codes import ExitCode
from tests.components.operated_gateway import OPERATOR
from tests.hypothesis_profiles import PROVING
from tests.jmx_java.client_machine import SharedMachine
from tests.outcomes.attempts import Attempts, JavaClient, Reported
from tests.outcomes.faults import no_change_arriving
from tests.outcomes.manager import Manager
from tests.outcomes.scene import Scene, crowded_scene
from tests.outcomes.targets import ORDERS, SHOP

pytestmark = pytest.mark.xdist_group("outcomes")

AT_ONCE = 64 if PROVING else 16
"""The number of operations that the core takes; 64 invocations are what the virtual machine accepts."""


@pytest.fixture(scope="module")
def crowded(there: Scene, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """Provide a scene in which half as many operations run; the others wait."""
    with crowded_scene(there, tmp_path_factory.mktemp("crowded"), AT_ONCE // 2) as running:
        yield running


@pytest.fixture(scope="module")
def user(crowded: Scene, java_machine: SharedMachine) -> Iterator[JavaClient]:
    """Provide a Java client of the crowded scene."""
    password = crowded.site.state.secret(f"jmx-{OPERATOR}")
    connected = java_machine.clients().connect(crowded.jmx_port, OPERATOR, password)
    yield connected
    connected.close()


@pytest.fixture
def crowd(crowded: Scene, tmp_path: Path, user: JavaClient) -> Attempts:
    """Return the attempts of the operator of the crowded scene."""
    return Attempts(crowded, Manager(crowded, tmp_path), user)


def test_more_operations_than_may_wait(
    crowd: Attempts,
    crowded: Scene,
    there: Scene,
    tmp_path: Path,
    user: JavaClient,
) -> None:
    manager, mark = Manager(crowded, tmp_path), crowd.mark()
    crowded.fill(3)
    with ThreadPoolExecutor() as threads:
        with no_change_arriving(crowded):
            all_but_one: Future[Any] = threads.submit(
                user.tryInvokeAtOnce, ORDERS.object_name, "purge", AT_ONCE - 1
            )
            crowd.records(mark, AT_ONCE - 1, "begun")
            manager.submit("purge-last", manager.row_of(ORDERS), "purge")
            crowd.records(mark, AT_ONCE, "begun")

            # Those that need an answer of the core find no place; reading needs none.
            reported = crowd.invoke("purge")
            busy = ("MBeanException", "IllegalStateException")
            assert reported == Reported(ExitCode.NOT_NOW, "notNow", busy, ("not-now",) * 3)
            reported = crowd.set("maxConnections", 5)
            assert reported == Reported(ExitCode.NOT_NOW, "inconsistentValue", busy, ("not-now",) * 3)
            assert user.attribute(ORDERS.object_name, "name_") == "java.lang.String orders"
            assert not all_but_one.done()
        assert list(all_but_one.result()) == [""] * (AT_ONCE - 1)
    assert crowded.depth() == 0
    assert Counter(crowd.outcomes(mark, AT_ONCE + 6)) == {"applied": AT_ONCE, "not-now": 6}
    there.well_again()


@pytest.mark.prove
def test_as_many_invocations_as_the_virtual_machine_takes_do_not_hold_up_reading(
    crowd: Attempts,
    crowded: Scene,
    there: Scene,
    tmp_path: Path,
    user: JavaClient,
) -> None:
    """`tests/jmx_java/operations/test_at_once.py` shows it without a core."""
    manager, mark = Manager(crowded, tmp_path), crowd.mark()
    with ThreadPoolExecutor() as threads:
        with no_change_arriving(crowded):
            invoked: Future[Any] = threads.submit(user.tryInvokeAtOnce, ORDERS.object_name, "purge", AT_ONCE)
            crowd.records(mark, AT_ONCE, "begun")
            user.timeOfRead(ORDERS.object_name, "messages", 1000)
            assert user.attribute(SHOP.object_name, "name_") == "java.lang.String shop"
            assert ORDERS.names[-1] in manager.values("rmqQueueRowName").values()
            assert not invoked.done()
            refused = user.tryInvoke(ORDERS.object_name, "purge", "", None)
            assert refused.startswith("javax.management.MBeanException: ")
            assert "64 operations are under way" in refused
        assert list(invoked.result()) == [""] * AT_ONCE
    assert Counter(crowd.outcomes(mark, AT_ONCE + 1)) == {"applied": AT_ONCE, "not-now": 1}
    there.well_again()
