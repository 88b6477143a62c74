"""Why an operation is not tried."""

from __future__ import annotations

from gateway.model.operations import Outcome


class Refusal(Exception):  # noqa: N818  nothing went wrong here: it is the answer
    """What can be known here speaks against an operation.

    Args:
        outcome: what the answer says.
        text: one line for people.
        element: the element, argument or method that it is about.
    """

    def __init__(self, outcome: Outcome, text: str, element: str = "") -> None:
        super().__init__(text)
        self.outcome = outcome
        self.text = text
        self.element = element
