"""Faults of the broker between the steps of a set, and the results in every front end."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from gateway.service.processes.exit_codes import ExitCode
from tests.outcomes.attempts import Attempts, Reported
from tests.outcomes.faults import losing_rights_at_the_change
from tests.outcomes.scene import Scene
from tests.outcomes.targets import DISTANT_SHOP

pytestmark = pytest.mark.xdist_group("outcomes")

FOUND_ANOTHER = ("InvalidAttributeValueException",)


@pytest.fixture(autouse=True)
def no_limit_remains(there: Scene) -> Iterator[None]:
    """Remove the limits of the virtual host after each test."""
    yield
    there.limit_behind_its_back(None)


def test_rights_that_are_revoked_between_test_and_commit(attempts: Attempts, there: Scene) -> None:
    reported = attempts.set(
        "maxConnections", 52, of=DISTANT_SHOP, around=lambda: losing_rights_at_the_change(there)
    )
    assert reported == Reported(
        ExitCode.REMOTE_FAILURE, "commitFailed", ("MBeanException", "Exception"), ("remote-failure",) * 3
    )
    assert there.limits() == {}


def test_another_value_that_another_user_sets_behind_it(attempts: Attempts, there: Scene) -> None:
    numbers = itertools.count(900)

    @contextmanager
    def overtaken() -> Iterator[None]:
        with there.relay.stepping_in(behind=lambda: there.limit_behind_its_back(next(numbers))):
            yield

    mark = attempts.mark()
    reported = attempts.set("maxConnections", 53, of=DISTANT_SHOP, around=overtaken)
    assert reported == Reported(
        ExitCode.NOT_APPLIED, "commitFailed", FOUND_ANOTHER, ("applied-differently",) * 3
    )
    found = [record["found"] for record in attempts.records(mark, 3)]
    assert found == [f'{{"maxConnections":{number}}}' for number in (900, 901, 902)]
    assert there.limits() == {"max-connections": 902}


@pytest.mark.prove
def test_the_value_from_before_that_another_user_puts_back_behind_it(
    attempts: Attempts, there: Scene
) -> None:
    """`tests/operations/test_sets.py` and ``test_reconciler.py`` show this outcome, too."""
    there.limit_behind_its_back(900)

    @contextmanager
    def undone() -> Iterator[None]:
        with there.relay.stepping_in(behind=lambda: there.limit_behind_its_back(900)):
            yield

    reported = attempts.set("maxConnections", 53, of=DISTANT_SHOP, around=undone)
    assert reported == Reported(ExitCode.NOT_APPLIED, "commitFailed", FOUND_ANOTHER, ("not-applied",) * 3)
    assert there.limits() == {"max-connections": 900}
