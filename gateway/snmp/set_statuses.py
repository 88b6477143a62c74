"""How outcomes of operations are told by SNMP: error statuses of a SET (RFC 3416 section 4.2.5)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gateway.model.operations import Outcome
from gateway.snmp import message

TEST_STATUSES: Final[Mapping[Outcome, int]] = {
    Outcome.APPLIED: message.NO_ERROR,
    Outcome.OBJECT_GONE: message.INCONSISTENT_NAME,
    Outcome.UNKNOWN_ELEMENT: message.NOT_WRITABLE,
    Outcome.READ_ONLY: message.NOT_WRITABLE,
    Outcome.REFUSED: message.NO_ACCESS,
    Outcome.WRONG_TYPE: message.WRONG_TYPE,
    Outcome.WRONG_LENGTH: message.WRONG_LENGTH,
    Outcome.WRONG_VALUE: message.WRONG_VALUE,
    Outcome.NOT_NOW: message.INCONSISTENT_VALUE,
    Outcome.SOURCE_DOWN: message.RESOURCE_UNAVAILABLE,
}
"""Of what a check came to: nothing has been done. No other outcome comes of a check."""

COMMIT_STATUSES: Final[Mapping[Outcome, int]] = {
    **dict.fromkeys(Outcome, message.COMMIT_FAILED),
    Outcome.APPLIED: message.NO_ERROR,
    Outcome.UNKNOWN: message.UNDO_FAILED,
}
"""Of what was tried."""

VERSION_1_STATUSES: Final[Mapping[int, int]] = {
    message.WRONG_VALUE: message.BAD_VALUE,
    message.WRONG_ENCODING: message.BAD_VALUE,
    message.WRONG_TYPE: message.BAD_VALUE,
    message.WRONG_LENGTH: message.BAD_VALUE,
    message.INCONSISTENT_VALUE: message.BAD_VALUE,
    message.NO_ACCESS: message.NO_SUCH_NAME,
    message.NOT_WRITABLE: message.NO_SUCH_NAME,
    message.NO_CREATION: message.NO_SUCH_NAME,
    message.INCONSISTENT_NAME: message.NO_SUCH_NAME,
    message.AUTHORIZATION_ERROR: message.NO_SUCH_NAME,
    message.RESOURCE_UNAVAILABLE: message.GEN_ERR,
    message.COMMIT_FAILED: message.GEN_ERR,
    message.UNDO_FAILED: message.GEN_ERR,
}
"""What stands for the statuses that SNMPv1 lacks (RFC 3584 section 4.4)."""

STATUS_NAMES: Final[Mapping[int, str]] = {
    message.NO_ERROR: "noError",
    message.TOO_BIG: "tooBig",
    message.GEN_ERR: "genErr",
    message.NO_ACCESS: "noAccess",
    message.WRONG_TYPE: "wrongType",
    message.WRONG_LENGTH: "wrongLength",
    message.WRONG_VALUE: "wrongValue",
    message.NO_CREATION: "noCreation",
    message.INCONSISTENT_VALUE: "inconsistentValue",
    message.RESOURCE_UNAVAILABLE: "resourceUnavailable",
    message.COMMIT_FAILED: "commitFailed",
    message.UNDO_FAILED: "undoFailed",
    message.NOT_WRITABLE: "notWritable",
    message.INCONSISTENT_NAME: "inconsistentName",
}
"""Every status that a SET in version 2c can be answered with here, as RFC 3416 writes it."""
