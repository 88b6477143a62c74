"""Every failure of a link has an exit code; `tests.test_documentation` compares the table."""

from __future__ import annotations

import signal

from gateway.links.amqp_connection import Trouble
from gateway.model.operations import Outcome
from gateway.service.diagnostics.broker_checks import OF_TROUBLE
from gateway.service.processes.exit_codes import ExitCode
from gateway.service.processes.outcome_codes import OF_OUTCOME


def test_every_trouble_has_an_exit_code_that_is_no_success() -> None:
    assert set(OF_TROUBLE) == set(Trouble)
    assert ExitCode.OK not in OF_TROUBLE.values()


def test_every_outcome_has_an_exit_code_and_only_what_was_applied_is_a_success() -> None:
    assert set(OF_OUTCOME) == set(Outcome)
    assert [outcome for outcome, code in OF_OUTCOME.items() if code is ExitCode.OK] == [Outcome.APPLIED]


def test_codes_are_those_that_shells_leave_to_programs() -> None:
    by_signals = {ExitCode.INTERRUPTED: signal.SIGINT, ExitCode.NOT_READ: signal.SIGPIPE}
    assert all(0 <= code < 126 for code in ExitCode if code not in by_signals)
    assert all(code == 128 + number for code, number in by_signals.items())
