"""The exit codes of commands that request an operation."""

from __future__ import annotations

from gateway.model.operations import Outcome
from gateway.service.processes.exit_codes import ExitCode

OF_OUTCOME = {
    Outcome.APPLIED: ExitCode.OK,
    Outcome.APPLIED_DIFFERENTLY: ExitCode.NOT_APPLIED,
    Outcome.NOT_APPLIED: ExitCode.NOT_APPLIED,
    Outcome.OBJECT_GONE: ExitCode.NOT_FOUND,
    Outcome.UNKNOWN_ELEMENT: ExitCode.NOT_FOUND,
    Outcome.READ_ONLY: ExitCode.REFUSED,
    Outcome.REFUSED: ExitCode.REFUSED,
    Outcome.WRONG_TYPE: ExitCode.WRONG_VALUE,
    Outcome.WRONG_LENGTH: ExitCode.WRONG_VALUE,
    Outcome.WRONG_VALUE: ExitCode.WRONG_VALUE,
    Outcome.NOT_NOW: ExitCode.NOT_NOW,
    Outcome.REMOTE_FAILURE: ExitCode.REMOTE_FAILURE,
    Outcome.SOURCE_DOWN: ExitCode.SOURCE_DOWN,
    Outcome.UNKNOWN: ExitCode.UNKNOWN_OUTCOME,
}
"""The exit code for each outcome of an operation; `docs/set-and-invoke.md` describes them."""
