"""Operations under faults: nothing is done twice, and nothing is reported as done that was not."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from gateway.dialects.qmf.am01.messages import Revision
from gateway.feed.operations import Action, InvokeMethod, OperationState, SetElements
from gateway.model.operations import Outcome
from tests.hypothesis_profiles import PROVING
from tests.simulation.operated import AM2, BEFORE_AM2, CML, Dialect, OperatedBoiler

SEEDS_OF_A_PART = 100 if PROVING else 1
PARTS = [
    *(pytest.param(AM2, part, id=f"am2-{part}") for part in range(4)),
    *(pytest.param(CML, part, id=f"cml-{part}") for part in range(4)),
    # November 2007 and January 2008 are as the design notes here but for the octets.
    *(
        pytest.param(BEFORE_AM2[revision], part, id=revision.value)
        for part, revision in enumerate((Revision.DESIGN_NOTES, Revision.FEBRUARY_2008, Revision.MARCH_2008))
    ),
]
NOT_DONE = frozenset(Outcome) - {Outcome.APPLIED, Outcome.APPLIED_DIFFERENTLY, Outcome.UNKNOWN}


def set_limit(value: int) -> Action:
    """Return a request that sets the element ``limit``."""
    return SetElements({"limit": value})


def set_speed(value: int) -> Action:
    """Return a request that sets the element ``speed``, for which the dialect has a request of its own."""
    return SetElements({"speed": value})


def call_set_limit(value: int) -> Action:
    """Return a call of the method that sets the element ``limit``."""
    return InvokeMethod("setLimit", {"value": value})


def check(run: OperatedBoiler, name: str) -> Counter[str]:
    """Check all invariants, and return the number of operations by state and outcome as in the log."""
    done = run.boiler.done
    assert len(done) == len(set(done)), f"done twice: {[v for v, n in Counter(done).items() if n > 1]}"
    begun = {r.values[name] for r in run.disk if r.state is OperationState.BEGUN}
    assert set(done) <= begun, f"done and not recorded before: {set(done) - begun}"
    last = {record.operation_id: record for record in run.disk}
    outcomes: Counter[str] = Counter()
    for record in last.values():
        assert record.state is not OperationState.BEGUN, f"without an end: {record}"
        assert record.outcome is not None
        outcomes[f"{record.state.value} {record.outcome.value}"] += 1
        value = record.values.get(name)
        if record.outcome is Outcome.APPLIED:
            assert value in done, f"told as applied and was not: {record}"
        if record.outcome in NOT_DONE:
            assert value not in done, f"told as not done and was: {record}"
    for value, answer in run.asked.items():
        if answer is not None and answer.outcome is Outcome.APPLIED:
            assert value in done, f"answered as applied and was not: {answer}"
        if answer is not None and answer.outcome in NOT_DONE:
            assert value not in done, f"answered as not done and was: {answer}"
    return outcomes


@pytest.mark.parametrize(
    ("make", "name"),
    [(set_limit, "limit"), (set_speed, "speed"), (call_set_limit, "value")],
    ids=["set", "native", "invoke"],
)
@pytest.mark.parametrize(("dialect", "part"), PARTS)
def test_nothing_is_done_twice_and_nothing_reported_that_was_not(
    dialect: Dialect, part: int, make: Callable[[int], Action], name: str, tmp_path: Path
) -> None:
    first = secrets.randbelow(2**32) if PROVING else part * SEEDS_OF_A_PART
    for seed in range(first, first + SEEDS_OF_A_PART):
        folder = tmp_path / str(seed)
        folder.mkdir()
        run = OperatedBoiler(seed, folder, dialect)
        try:
            run.run(make)
            check(run, name)
        except AssertionError as error:
            error.add_note(f"seed {seed}")
            raise
        finally:
            run.close()
